//! Where a NaN comes from: an op whose result has one while no operand does.

use super::Check;
use crate::exec::Env;
use crate::value::Value;
use base::Loc;
use base::ir::Operation;
use numerics::{Scalar, each_lanes};

fn nans(value: &Value) -> Option<Vec<bool>> {
    fn each<W: numerics::arith::Word>(words: &[W], ty: Scalar) -> Vec<bool> {
        words.iter().map(|word| numerics::float::decode(ty, word.bits()).is_nan()).collect()
    }
    let Value::Tile(tile) = value else { return None };
    let ty = tile.elem.scalar().filter(|ty| ty.is_float())?;
    Some(each_lanes!(tile.lanes(), words => each(words, ty)))
}

/// Reports an op that made a NaN. Where an operand has as many elements as the result, they are compared one by one.
pub(crate) fn look(op: &impl Operation, results: &[Value], loc: Loc, env: &mut Env<'_>) {
    let made: Vec<_> = results.iter().filter_map(nans).filter(|nans| nans.contains(&true)).collect();
    if made.is_empty() {
        return;
    }
    let given: Vec<_> = op.operands().iter().filter_map(|id| nans(env.value(*id))).collect();
    let explained = |made: &Vec<bool>, place: usize| {
        given.iter().any(|given| if given.len() == made.len() { given[place] } else { given.contains(&true) })
    };
    let is_new = |made: &Vec<bool>| (0..made.len()).any(|place| made[place] && !explained(made, place));
    if made.iter().any(is_new) {
        env.world.report(Check::Nan, loc, format!("'{}' makes a NaN of operands that have none", op.mnemonic()));
    }
}
