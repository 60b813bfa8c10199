//! Assumptions about strides, which matter only where the stride addresses something.
//!
//! cuTile Python assumes a divisor of each stride, also of a dimension of extent 1, whose stride is never multiplied by anything but
//! zero. An assumption that only strides depend on is therefore checked where the tensor view is made, when the extent is known.

use base::ir::Operation;
use base::{Body, Op as OpId, Value as Id};
use std::collections::BTreeSet;

/// What an op does with its operands.
pub(crate) enum Use<'a> {
    Assume(Id),
    /// A tensor view, with the operands that are no strides.
    Tensor {
        others: Vec<Id>,
        strides: &'a [Id],
    },
    Other,
}

/// The `assume` ops whose results are used by nothing but other such ops and as strides of tensor views.
pub(crate) fn assumptions<O: Operation, T>(body: &Body<O, T>, uses: impl Fn(&O) -> Use<'_>) -> BTreeSet<OpId> {
    let (mut as_stride, mut other_uses): (BTreeSet<Id>, BTreeSet<Id>) = Default::default();
    let mut chain: Vec<(OpId, Id, Id)> = Vec::new();
    for (op, node) in body.ops.iter() {
        match uses(&node.kind) {
            Use::Assume(value) => chain.push((op, value, node.results[0])),
            Use::Tensor { others, strides } => {
                other_uses.extend(others);
                as_stride.extend(strides);
            }
            Use::Other => other_uses.extend(node.kind.operands()),
        }
    }
    // Uses come after definitions, so a chain is seen from its end.
    let mut found = BTreeSet::new();
    for (op, value, result) in chain.into_iter().rev() {
        if other_uses.contains(&result) {
            other_uses.insert(value);
        } else if as_stride.contains(&result) {
            as_stride.insert(value);
            found.insert(op);
        }
    }
    found
}

/// The assumptions of the chain that ends in a stride, with their results and operands.
pub(crate) fn chain<O: Operation, T>(
    body: &Body<O, T>,
    of_strides: &BTreeSet<OpId>,
    stride: Id,
    uses: impl Fn(&O) -> Use<'_>,
) -> Vec<(OpId, Id)> {
    let (mut found, mut at) = (Vec::new(), stride);
    while let Some(op) = body.defining_op(at)
        && of_strides.contains(&op)
        && let Use::Assume(value) = uses(&body.ops[op].kind)
    {
        found.push((op, at));
        at = value;
    }
    found
}
