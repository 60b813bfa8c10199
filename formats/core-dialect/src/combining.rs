//! What bodies of combinations do, and in which order a thread combines its own elements.

use crate::core_ops::Core;
use crate::rules::MiddleOp;
use base::{Body, Region};
use numerics::arith::Binary;

/// The operation that a body is, where it is one and its sides may be exchanged.
pub fn commutative<O: MiddleOp, T>(body: &Body<O, T>, region: Region) -> Option<Binary> {
    let block = &body.blocks[body.block_of(region)];
    let [op, end] = block.ops[..] else { return None };
    let Some(Core::Binary { kind, lhs, rhs }) = body.ops[op].kind.core() else { return None };
    let both = [*lhs, *rhs] == block.args[..] || [*rhs, *lhs] == block.args[..];
    (both && body.ops[end].kind.operands()[..] == body.ops[op].results[..] && kind.is_commutative()).then_some(*kind)
}

/// Whether a thread combines its elements with even numbers apart from those with odd ones, so that neighbouring registers are
/// combined with neighbouring registers, until two are left. Elsewhere neighbours are combined with each other.
pub fn evens_apart(operation: Option<Binary>) -> bool {
    matches!(operation, Some(Binary::AddF { .. } | Binary::MulF { .. }))
}
