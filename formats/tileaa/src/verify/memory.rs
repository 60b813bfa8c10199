//! Rules for the operand and result types of the ops that access memory or combine elements.

use super::OpContext;
use crate::Op;
use crate::ops::Identity;
use base::Value;
use core_dialect::rules::{CoreType, LOAD_ORDERINGS, RuleResult, STORE_ORDERINGS, check_mma_types, is_ptr, require};

/// Checks the operands and results of an op.
pub(super) fn check_op(context: &OpContext<'_>) -> RuleResult {
    match &context.op.kind {
        Op::Core(core) => context.check_core(core),
        Op::LoadView { view, index, token, order, in_bounds, .. } => {
            let view = context.accessed_view(*view, index, in_bounds)?;
            context.check_order(*order, *token, &LOAD_ORDERINGS)?;
            context.check_results(&[CoreType::of_view(view), CoreType::Token])
        }
        Op::StoreView { tile, view, index, token, order, in_bounds, .. } => {
            let view = context.accessed_view(*view, index, in_bounds)?;
            context.check_types(&[*tile], CoreType::of_view(view))?;
            context.check_order(*order, *token, &STORE_ORDERINGS)?;
            context.check_results(&[CoreType::Token])
        }
        Op::ReduceView { tile, view, index, token, order, in_bounds, mode } => {
            context.check_reduce_view(*mode, *tile, *view, index, in_bounds, *order, *token)
        }
        Op::MulticastLoad { view, index, token, order, in_bounds, reduction } => {
            context.check_multicast(*view, index, in_bounds, None, Some(*reduction), *order, *token)
        }
        Op::MulticastStore { tile, view, index, token, order, in_bounds, write } => {
            context.check_multicast(*view, index, in_bounds, Some(*tile), write.reduction(), *order, *token)
        }
        Op::Load { ptr, mask, other, token, order, .. } => context.check_load(*ptr, *mask, *other, *order, *token),
        Op::Store { ptr, value, mask, token, order, .. } => context.check_store(*ptr, *value, *mask, *order, *token),
        Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
            context.check_atomic(Some(*mode), *ptr, &[*value], *mask, *order, *token)
        }
        Op::AtomicCas { ptr, compare, value, mask, token, order } => {
            context.check_atomic(None, *ptr, &[*compare, *value], *mask, *order, *token)
        }
        Op::Reduce { operands, dim, identities, .. } => check_combination(context, operands, *dim as usize, identities, true),
        Op::Scan { operands, dim, identities, .. } => check_combination(context, operands, *dim as usize, identities, false),
        Op::Mma { lhs, rhs, acc, .. } => {
            let [(a, lhs), (b, rhs)] = [context.scalar_tile(*lhs)?, context.scalar_tile(*rhs)?];
            context.check_mma(lhs, rhs, *acc)?;
            check_mma_types(a, b, context.scalar_tile(*acc)?.0)
        }
        Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => {
            context.check_scaled_mma([*lhs, *rhs], *acc, [*lhs_scale, *rhs_scale])
        }
    }
}

/// Checks a reduction or scan. Only a reduction removes the dimension from the shape of the results.
fn check_combination(
    context: &OpContext<'_>,
    operands: &[Value],
    dim: usize,
    identities: &[Identity],
    is_reduction: bool,
) -> RuleResult {
    let counts = [operands.len(), identities.len(), context.op.results.len()];
    require(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), || {
        "operands, identities and results differ in number".into()
    })?;
    let shape = context.tile(operands[0])?.1;
    require(dim < shape.len(), || "there is no such dimension".into())?;
    let mut result_shape = shape.to_vec();
    if is_reduction {
        result_shape.remove(dim);
    }
    for ((&operand, &result), identity) in operands.iter().zip(&context.op.results).zip(identities) {
        let (elem, operand_shape) = context.tile(operand)?;
        require(operand_shape == shape && !is_ptr(elem), || "operands are numbers of one shape".into())?;
        require(identity.0 & !elem.carrier().mask() == 0, || "an identity has bits beyond its type".into())?;
        require(context.core_type(result) == CoreType::Tile { elem, shape: &result_shape }, || {
            "a result does not fit its operand".into()
        })?;
    }
    Ok(())
}
