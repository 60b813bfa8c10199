//! Deferred checks of `assume` ops on strides. A stride matters only if its dimension has more than one element.
//!
//! cuTile Python assumes a divisor for every stride, even for dimensions of extent 1. Such a stride is only multiplied by zero. An
//! assumption used only by strides is therefore checked at the op that creates the tensor view, where the extent is known.

use base::ir::Operation;
use base::{Body, Op as OpId, Value as Id};
use std::collections::BTreeSet;

/// How an op uses its operands.
pub(crate) enum Use<'a> {
    Assume(Id),
    /// Creates a tensor view. `others` are the operands that are not strides.
    Tensor {
        others: Vec<Id>,
        strides: &'a [Id],
    },
    Other,
}

/// Returns the `assume` ops whose results are used only as strides of tensor views, directly or through further `assume` ops.
pub(crate) fn assumptions<O: Operation, T>(body: &Body<O, T>, stride_use: impl Fn(&O) -> Use<'_>) -> BTreeSet<OpId> {
    let (mut as_stride, mut other_uses): (BTreeSet<Id>, BTreeSet<Id>) = Default::default();
    let mut chain: Vec<(OpId, Id, Id)> = Vec::new();
    for (op, node) in body.ops.iter() {
        match stride_use(&node.kind) {
            Use::Assume(value) => chain.push((op, value, node.results[0])),
            Use::Tensor { others, strides } => {
                other_uses.extend(others);
                as_stride.extend(strides);
            }
            Use::Other => other_uses.extend(node.kind.operands()),
        }
    }
    // Definitions precede uses, so the reverse order visits each chain from its last op.
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

/// Returns the `assume` ops between a value and its use as a stride, each with its result, the last op first.
pub(crate) fn chain<O: Operation, T>(
    body: &Body<O, T>,
    stride_assumes: &BTreeSet<OpId>,
    stride: Id,
    stride_use: impl Fn(&O) -> Use<'_>,
) -> Vec<(OpId, Id)> {
    let (mut found, mut at) = (Vec::new(), stride);
    while let Some(op) = body.defining_op(at)
        && stride_assumes.contains(&op)
        && let Use::Assume(value) = stride_use(&body.ops[op].kind)
    {
        found.push((op, at));
        at = value;
    }
    found
}
