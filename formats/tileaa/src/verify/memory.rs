//! Operand and result types of the ops that access memory or combine elements.

use super::Uses;
use crate::Op;
use crate::ops::Identity;
use base::Value;
use core_dialect::rules::{LOAD_ORDERINGS, Rule, STORE_ORDERINGS, Seen, has_mma, is_ptr, require};

pub(super) fn rule(uses: &Uses<'_>) -> Rule {
    match &uses.op.kind {
        Op::Core(core) => uses.core(core),
        Op::LoadView { view, index, token, order, in_bounds, .. } => {
            let view = uses.view(*view, index, in_bounds)?;
            uses.ordered(*order, *token, &LOAD_ORDERINGS)?;
            uses.results(&[Seen::of_view(view), Seen::Token])
        }
        Op::StoreView { tile, view, index, token, order, in_bounds, .. } => {
            let view = uses.view(*view, index, in_bounds)?;
            uses.same(&[*tile], Seen::of_view(view))?;
            uses.ordered(*order, *token, &STORE_ORDERINGS)?;
            uses.results(&[Seen::Token])
        }
        Op::ReduceView { tile, view, index, token, order, in_bounds, mode } => {
            uses.reduce_view(*mode, *tile, *view, index, in_bounds, *order, *token)
        }
        Op::MulticastLoad { view, index, token, order, in_bounds, reduction } => {
            uses.multicast((*view, index, in_bounds), None, Some(*reduction), *order, *token)
        }
        Op::MulticastStore { tile, view, index, token, order, in_bounds, write } => {
            uses.multicast((*view, index, in_bounds), Some(*tile), write.reduction(), *order, *token)
        }
        Op::Load { ptr, mask, other, token, order, .. } => uses.load(*ptr, *mask, *other, *order, *token),
        Op::Store { ptr, value, mask, token, order, .. } => uses.store(*ptr, *value, *mask, *order, *token),
        Op::AtomicRmw { ptr, value, mask, token, order, mode } => uses.atomic(Some(*mode), *ptr, &[*value], *mask, *order, *token),
        Op::AtomicCas { ptr, compare, value, mask, token, order } => {
            uses.atomic(None, *ptr, &[*compare, *value], *mask, *order, *token)
        }
        Op::Reduce { operands, dim, identities, .. } => combination(uses, operands, *dim as usize, identities, true),
        Op::Scan { operands, dim, identities, .. } => combination(uses, operands, *dim as usize, identities, false),
        Op::Mma { lhs, rhs, acc, .. } => {
            let [(a, lhs), (b, rhs)] = [uses.number(*lhs)?, uses.number(*rhs)?];
            uses.mma(lhs, rhs, *acc)?;
            has_mma(a, b, uses.number(*acc)?.0)
        }
        Op::MmaScaled { lhs, rhs, acc, lhs_scale, rhs_scale } => uses.scaled_mma([*lhs, *rhs], *acc, [*lhs_scale, *rhs_scale]),
    }
}

fn combination(uses: &Uses<'_>, operands: &[Value], dim: usize, identities: &[Identity], reduces: bool) -> Rule {
    let counts = [operands.len(), identities.len(), uses.op.results.len()];
    require(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), || {
        "operands, identities and results differ in number".into()
    })?;
    let shape = uses.tile(operands[0])?.1;
    require(dim < shape.len(), || "there is no such dimension".into())?;
    let mut result_shape = shape.to_vec();
    if reduces {
        result_shape.remove(dim);
    }
    for ((&operand, &result), identity) in operands.iter().zip(&uses.op.results).zip(identities) {
        let (elem, other) = uses.tile(operand)?;
        require(other == shape && !is_ptr(elem), || "operands are numbers of one shape".into())?;
        require(identity.0 & !elem.carrier().mask() == 0, || "an identity has bits beyond its type".into())?;
        require(uses.seen(result) == Seen::Tile { elem, shape: &result_shape }, || "a result does not fit its operand".into())?;
    }
    Ok(())
}
