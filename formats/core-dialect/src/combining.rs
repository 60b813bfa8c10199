//! The bodies of reductions and scans, and the order in which a thread combines its own elements.

use crate::core_ops::Core;
use crate::rules::CoreDialectOp;
use base::{Body, Region};
use numerics::arith::Binary;

/// The operation of the body of a reduction or scan, if the body is a single commutative op on its two arguments. Otherwise `None`.
pub fn single_commutative_op<O: CoreDialectOp, T>(body: &Body<O, T>, region: Region) -> Option<Binary> {
    let block = &body.blocks[body.block_of(region)];
    let [op, terminator] = block.ops[..] else { return None };
    let Some(Core::Binary { kind, lhs, rhs }) = body.ops[op].kind.core() else { return None };
    let uses_both_args = [*lhs, *rhs] == block.args[..] || [*rhs, *lhs] == block.args[..];
    (uses_both_args && body.ops[terminator].kind.operands()[..] == body.ops[op].results[..] && kind.is_commutative())
        .then_some(*kind)
}

/// Returns whether a thread combines its elements at even positions and its elements at odd positions separately, and then both
/// results. This is the order for additions and multiplications of floats. Reason: neighbouring registers then form the
/// pairs of packed instructions (`add.f32x2`). For other operations, a thread combines neighbouring elements with each other.
pub fn combines_evens_separately(operation: Option<Binary>) -> bool {
    matches!(operation, Some(Binary::AddF { .. } | Binary::MulF { .. }))
}
