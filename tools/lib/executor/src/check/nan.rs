//! Finds the origin of a NaN: an op that has a NaN in a result and none in its operands.

use super::Check;
use crate::exec::Env;
use crate::value::Value;
use base::Loc;
use base::ir::Operation;
use numerics::{Scalar, each_lanes};

/// For each element of a float tile, whether it is a NaN. `None` for other values.
fn nan_mask(value: &Value) -> Option<Vec<bool>> {
    fn each<W: numerics::arith::Word>(words: &[W], ty: Scalar) -> Vec<bool> {
        words.iter().map(|word| numerics::float::decode(ty, word.bits()).is_nan()).collect()
    }
    let Value::Tile(tile) = value else { return None };
    let ty = tile.elem.scalar().filter(|ty| ty.is_float())?;
    Some(each_lanes!(tile.lanes(), words => each(words, ty)))
}

/// Reports an op that computed a NaN. An operand with as many elements as the result is compared element by element.
pub(crate) fn report_new_nan(op: &impl Operation, results: &[Value], loc: Loc, env: &mut Env<'_>) {
    let computed: Vec<_> = results.iter().filter_map(nan_mask).filter(|nans| nans.contains(&true)).collect();
    if computed.is_empty() {
        return;
    }
    let given: Vec<_> = op.operands().iter().filter_map(|id| nan_mask(env.value(*id))).collect();
    let explained = |computed: &Vec<bool>, place: usize| {
        given.iter().any(|given| if given.len() == computed.len() { given[place] } else { given.contains(&true) })
    };
    let is_new = |computed: &Vec<bool>| (0..computed.len()).any(|place| computed[place] && !explained(computed, place));
    if computed.iter().any(is_new) {
        env.world.report(Check::Nan, loc, format!("'{}' computes a NaN from operands that contain none", op.mnemonic()));
    }
}
