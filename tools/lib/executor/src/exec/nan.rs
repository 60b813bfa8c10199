//! The check `--check=nan`: finds the origin of a NaN, an op with a NaN in a result and no NaN in its operands.

use super::Env;
use crate::check_kind::Check;
use crate::value::Value;
use base::Loc;
use base::ir::Operation;
use numerics::{Scalar, match_words};

/// Returns for each element of a float tile whether the element is a NaN. `None` for other values.
fn nan_mask(value: &Value) -> Option<Vec<bool>> {
    fn nans_of<W: numerics::arith::Word>(words: &[W], ty: Scalar) -> Vec<bool> {
        words.iter().map(|word| numerics::float::decode(ty, word.bits()).is_nan()).collect()
    }
    let Value::Tile(tile) = value else { return None };
    let ty = tile.elem.scalar().filter(|ty| ty.is_float())?;
    Some(match_words!(tile.element_words(), words => nans_of(words, ty)))
}

/// Reports an op with a NaN in a result element that comes from no operand. If an operand has as many elements as the result, a NaN
/// comes from the operand element at the same position. In any other operand, a NaN may be the origin of every NaN of the result.
pub(crate) fn report_new_nan(op: &impl Operation, results: &[Value], loc: Loc, env: &mut Env<'_>) {
    let result_masks: Vec<_> = results.iter().filter_map(nan_mask).filter(|nans| nans.contains(&true)).collect();
    if result_masks.is_empty() {
        return;
    }
    let operand_masks: Vec<_> = op.operands().iter().filter_map(|id| nan_mask(env.value(*id))).collect();
    let comes_from_operand = |result: &Vec<bool>, at: usize| {
        operand_masks.iter().any(|operand| if operand.len() == result.len() { operand[at] } else { operand.contains(&true) })
    };
    let has_new_nan = |result: &Vec<bool>| (0..result.len()).any(|at| result[at] && !comes_from_operand(result, at));
    if result_masks.iter().any(has_new_nan) {
        env.kernel_memory.report(Check::Nan, loc, format!("'{}' computes a NaN from operands that contain none", op.mnemonic()));
    }
}
