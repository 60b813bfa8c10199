//! Deferred checks of `assume` ops on strides. Reason: a stride has an effect only if its dimension has more than one element.
//!
//! cuTile Python assumes a divisor for every stride, even for dimensions of extent 1. Such a stride is only multiplied by zero. If
//! a value is only a stride, the op that creates the tensor view therefore checks the assumption. This op knows the extent.

use base::ir::Operation;
use base::{Body, Op as OpId, Value as Id};
use std::collections::BTreeSet;

/// The use of an op's operands as strides.
pub(crate) enum StrideUse<'a> {
    /// An `assume` op on this value.
    Assume(Id),
    /// An op that creates a tensor view with these strides and other operands.
    Tensor {
        other_operands: Vec<Id>,
        strides: &'a [Id],
    },
    Other,
}

/// Returns the `assume` ops whose results are only strides of tensor views, directly or through further `assume` ops.
pub(crate) fn stride_only_assumes<O: Operation, T>(body: &Body<O, T>, stride_use: impl Fn(&O) -> StrideUse<'_>) -> BTreeSet<OpId> {
    let (mut as_stride, mut other_uses): (BTreeSet<Id>, BTreeSet<Id>) = Default::default();
    let mut assumes: Vec<(OpId, Id, Id)> = Vec::new();
    for (op, node) in body.ops.iter() {
        match stride_use(&node.kind) {
            StrideUse::Assume(value) => assumes.push((op, value, node.results[0])),
            StrideUse::Tensor { other_operands, strides } => {
                other_uses.extend(other_operands);
                as_stride.extend(strides);
            }
            StrideUse::Other => other_uses.extend(node.kind.operands()),
        }
    }
    // Definitions precede uses, so the reverse order visits the users of a result before the op that defines it.
    let mut stride_only = BTreeSet::new();
    for (op, value, result) in assumes.into_iter().rev() {
        if other_uses.contains(&result) {
            other_uses.insert(value);
        } else if as_stride.contains(&result) {
            as_stride.insert(value);
            stride_only.insert(op);
        }
    }
    stride_only
}

/// Returns the `assume` ops through which a value becomes a stride, each with its result. The op next to the tensor view comes
/// first.
pub(crate) fn assume_chain<O: Operation, T>(
    body: &Body<O, T>,
    stride_assumes: &BTreeSet<OpId>,
    stride: Id,
    stride_use: impl Fn(&O) -> StrideUse<'_>,
) -> Vec<(OpId, Id)> {
    let (mut chain, mut assumed) = (Vec::new(), stride);
    while let Some(op) = body.defining_op(assumed)
        && stride_assumes.contains(&op)
        && let StrideUse::Assume(value) = stride_use(&body.ops[op].kind)
    {
        chain.push((op, assumed));
        assumed = value;
    }
    chain
}
