//! Purpose: turn `mma(a, b, c)` with a computed `c` into `mma(a, b, 0) + c`, because only MMAs may write a TMEM accumulator.
//! Requires: `.aa`, and the set of MMAs to rewrite.
//! Establishes: each of these MMAs starts at zero; threads add `c` after `tcgen05.ld`.
//! Preserves: op ids. Float results may differ in rounding, because the addition of `c` comes last.
//! See also: CUTLASS `LinearCombination`, which adds `beta * C` in the epilogue.

use base::Loc;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem};
use numerics::arith::{Binary, Overflow, Rounding};
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};

/// Returns the function in which each MMA of `mmas` starts at zero and an addition adds its old accumulator to its result.
pub(crate) fn run(function: &Function, mmas: &BTreeSet<OpId>) -> Function {
    let mut function = function.clone();
    for block in function.body.blocks.ids().collect::<Vec<_>>() {
        let ops = std::mem::take(&mut function.body.blocks[block].ops);
        for op in ops {
            let detached = mmas.contains(&op).then(|| detach_accumulator(&mut function, op)).flatten();
            let [zero_op, addition] = detached.map_or([None, None], |ops| ops.map(Some));
            function.body.blocks[block].ops.extend(zero_op.into_iter().chain([op]).chain(addition));
        }
    }
    function
}

/// Lets an MMA start from zero. Returns the op of the zero accumulator, and the op that adds the old accumulator to the MMA's
/// result.
fn detach_accumulator(function: &mut Function, op: OpId) -> Option<[OpId; 2]> {
    let body = &mut function.body;
    let (loc, mma_result): (Loc, _) = (body.ops[op].loc, body.result(op));
    let ty = body.ty(mma_result).clone();
    let Type::Tile { elem: Elem::Scalar(elem), .. } = &ty else { return None };
    let kind = match elem.is_float() {
        true => Binary::AddF { rounding: Rounding::NearestEven, ftz: false },
        false => Binary::AddI { overflow: Overflow::None },
    };
    let zero_op = body.new_op(Op::Core(Core::Constant { value: Dense::Splat(0) }), [ty.clone()], loc);
    let zero_accumulator = body.result(zero_op);
    let (Op::Mma { acc, .. } | Op::MmaScaled { acc, .. }) = &mut body.ops[op].kind else { return None };
    let old_accumulator = std::mem::replace(acc, zero_accumulator);
    let addition = body.new_op(Op::Core(Core::Binary { kind, lhs: old_accumulator, rhs: zero_accumulator }), [ty], loc);
    let sum = body.result(addition);
    body.replace_uses(mma_result, sum);
    if let Op::Core(Core::Binary { rhs, .. }) = &mut body.ops[addition].kind {
        *rhs = mma_result;
    }
    Some([zero_op, addition])
}
