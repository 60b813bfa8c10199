//! Purpose: place f32 dots that share operands next to each other, as in complex arithmetic, so that threads read shared operands
//! once.
//! Requires: `.aa`.
//! Establishes: an f32 dot follows an earlier dot with a common operand if its operands are available there.
//! Preserves: everything but the order of ops; dots move only across pure ops.
//! See also: LLVM's load clustering (`createLoadClusterDAGMutation`).

use base::Value;
use base::ir::{Op as OpId, Operation};
use numerics::Scalar;
use std::collections::BTreeSet;
use tileaa::{Function, Op};

/// Maximum number of dots that move next to one dot. Reason: each moved dot extends the live range of an accumulator.
const MAX_MOVED: usize = 3;
/// Maximum number of ops after a dot among which the search looks for another dot with a common operand.
const MAX_DISTANCE: usize = 64;

/// Returns the function with f32 dots that share operands next to each other.
pub(crate) fn run(function: &Function) -> Function {
    let mut function = function.clone();
    let blocks: Vec<base::Block> = function.body.blocks.ids().collect();
    for block in blocks {
        let reordered = with_adjacent_dots(&function, &function.body.blocks[block].ops);
        function.body.blocks[block].ops = reordered;
    }
    base::text::compact(&function)
}

/// The ops of a block, with dots that share operands next to each other.
fn with_adjacent_dots(function: &Function, ops: &[OpId]) -> Vec<OpId> {
    let mut ops = ops.to_vec();
    let mut position = 0;
    while position < ops.len() {
        let (mut end, mut read_operands) = (position + 1, BTreeSet::new());
        read_operands.extend(fma_dot_operands(function, ops[position]).into_iter().flatten());
        while let Some(next) = next_sharing_dot(function, &ops, end, &read_operands).filter(|_| end - position <= MAX_MOVED) {
            read_operands.extend(fma_dot_operands(function, ops[next]).into_iter().flatten());
            ops[end..=next].rotate_right(1);
            end += 1;
        }
        position = end;
    }
    ops
}

/// The position of the next dot that has an operand in `read_operands` and can move up to the position `end`. `None` if there is
/// none.
fn next_sharing_dot(function: &Function, ops: &[OpId], end: usize, read_operands: &BTreeSet<Value>) -> Option<usize> {
    if read_operands.is_empty() {
        return None;
    }
    let body = &function.body;
    // Values that are defined after `end` are not available there.
    let mut defined_later = BTreeSet::new();
    for (at, op) in ops.iter().enumerate().skip(end).take(MAX_DISTANCE) {
        let kind = &body.ops[*op].kind;
        let shares = fma_dot_operands(function, *op).is_some_and(|own| own.iter().any(|operand| read_operands.contains(operand)));
        if shares && !kind.operands().iter().any(|operand| defined_later.contains(operand)) {
            return Some(at);
        }
        if !kind.is_pure() {
            return None;
        }
        defined_later.extend(body.ops[*op].results.iter().copied());
    }
    None
}

/// The left and right operand of an f32 MMA, which FMA instructions execute. `None` for other ops.
fn fma_dot_operands(function: &Function, op: OpId) -> Option<[Value; 2]> {
    let Op::Mma { lhs, rhs, acc, .. } = function.body.ops[op].kind else { return None };
    let is_f32 = |value: Value| function.body.ty(value).tile().is_some_and(|(elem, _)| elem.carrier() == Scalar::F32);
    (is_f32(lhs) && is_f32(rhs) && is_f32(acc)).then_some([lhs, rhs])
}
