//! The bodies of reductions and scans, and the order in which a thread combines its own elements.

use crate::core_ops::Core;
use crate::rules::MiddleOp;
use base::{Body, Region};
use numerics::arith::Binary;

/// The operation of a body, if it is a single commutative one.
pub fn commutative<O: MiddleOp, T>(body: &Body<O, T>, region: Region) -> Option<Binary> {
    let block = &body.blocks[body.block_of(region)];
    let [op, end] = block.ops[..] else { return None };
    let Some(Core::Binary { kind, lhs, rhs }) = body.ops[op].kind.core() else { return None };
    let both = [*lhs, *rhs] == block.args[..] || [*rhs, *lhs] == block.args[..];
    (both && body.ops[end].kind.operands()[..] == body.ops[op].results[..] && kind.is_commutative()).then_some(*kind)
}

/// Returns whether a thread combines its even elements apart from its odd ones. Neighbouring registers then form pairs (for packed
/// instructions) until two elements are left. Otherwise neighbours are combined with each other.
pub fn evens_apart(operation: Option<Binary>) -> bool {
    matches!(operation, Some(Binary::AddF { .. } | Binary::MulF { .. }))
}
