//! The check `--check=padding`: tracks elements that a load without padding leaves undetermined. Such elements are outside the
//! tensor or masked out.
//!
//! A program may compute with undetermined elements, but must not use the results. Example: cuTile programs load, compute and store
//! tiles that extend over an edge of the tensor. A use is a store inside a tensor, an address, a mask, a branch or a printed value.

use super::{TileProgram, compute};
use crate::exec::access::{self, AccessRequest};
use crate::exec::{Env, Results};
use crate::tile::Tile;
use crate::tile::shape::for_each_index;
use crate::value::Value;
use base::diag::Result;
use base::ir::Operation;
use base::{Op as OpId, Value as Id};
use compute::Elementwise;
use tileir::Op;
use tileir::enums::Direction;

impl TileProgram<'_> {
    /// Reports an executed op that uses undetermined elements. Returns its results with a mask of their undetermined elements.
    pub(super) fn track_undetermined(&self, op: OpId, mut results: Results, env: &mut Env<'_>) -> Result<Results> {
        let (kind, loc) = (&self.function.body.ops[op].kind, self.function.body.ops[op].loc);
        let Some((request, _)) = self.access_request(op, kind, env) else {
            let is_affected = |id: &Id| matches!(env.value(*id), Value::Tile(tile) if tile.undetermined().is_some());
            if !kind.operands().iter().any(is_affected) {
                return Ok(results);
            }
            if matches!(kind, Op::PrintTko { .. } | Op::Assert { .. }) {
                env.report_undetermined(loc, "'print' or 'assert' uses");
                return Ok(results);
            }
            if matches!(kind, Op::MakeTensorView { .. }) {
                env.report_undetermined(loc, "a view depends on");
                return Ok(results);
            }
            for (result_index, result) in results.iter_mut().enumerate() {
                if let Value::Tile(tile) = result
                    && let Some(undetermined) = self.undetermined_of_result(op, kind, result_index, tile, env)?
                {
                    *tile = tile.with_undetermined(undetermined);
                }
            }
            return Ok(results);
        };
        if uses_undetermined(&request) {
            env.report_undetermined(loc, "an access uses");
        }
        if let (Some(Value::Tile(tile)), Some(undetermined)) = (results.first_mut(), undetermined_after_load(&request)) {
            *tile = tile.with_undetermined(undetermined);
        }
        Ok(results)
    }

    /// Returns the mask of the undetermined elements of a result. `None` for ops that the check does not track.
    fn undetermined_of_result(
        &self,
        op: OpId,
        kind: &Op,
        result_index: usize,
        result: &Tile,
        env: &Env<'_>,
    ) -> Result<Option<Vec<bool>>> {
        let count = result.count();
        if let Some(elementwise) = compute::elementwise(kind) {
            let is_result_undetermined = |at: usize| match elementwise {
                Elementwise::Select(cond, yes, no) => {
                    let cond = env.tile(cond);
                    let selected = if cond.element_words().get(element_index(cond, at)) & 1 == 1 { yes } else { no };
                    is_undetermined(cond, at) || is_undetermined(env.tile(selected), at)
                }
                _ => kind.operands().iter().any(|id| is_undetermined(env.tile(*id), at)),
            };
            return Ok(Some((0..count).map(is_result_undetermined).collect()));
        }
        Ok(match kind {
            // The check does not track these results. Reason: their elements have another width, so an element may consist of bytes
            // of several operand elements.
            Op::Pack { .. } | Op::Unpack { .. } => None,
            Op::MmaF { lhs, rhs, acc, .. } | Op::MmaI { lhs, rhs, acc, .. } | Op::MmaFScaled { lhs, rhs, acc, .. } => {
                Some(undetermined_of_matmul([env.tile(*lhs), env.tile(*rhs), env.tile(*acc)]))
            }
            Op::Reduce { dim, operands, .. } => Some(undetermined_of_reduction(operands, *dim as usize, None, count, env)),
            Op::Scan { dim, direction, operands, .. } => {
                Some(undetermined_of_reduction(operands, *dim as usize, Some(*direction), count, env))
            }
            Op::Assume { value, .. } if result_index == 0 => env.tile(*value).undetermined().map(<[bool]>::to_vec),
            _ => self.rearrange_with(op, kind, env, Tile::undetermined_tile)?.map(|tile| mask_of(&tile)),
        })
    }
}

/// Returns the elements of an i1 tile as booleans.
fn mask_of(tile: &Tile) -> Vec<bool> {
    tile.element_words().iter().map(|bit| bit & 1 == 1).collect()
}

/// Returns the index of the operand element from which element `at` of the result is computed. An operand with one element, as in a
/// reduction body, is broadcast.
fn element_index(tile: &Tile, at: usize) -> usize {
    if tile.count() == 1 { 0 } else { at }
}

/// Returns whether the operand element for element `at` of the result is undetermined.
fn is_undetermined(tile: &Tile, at: usize) -> bool {
    tile.undetermined().is_some_and(|mask| mask[element_index(tile, at)])
}

/// Returns the mask of the undetermined elements of an MMA result. An element depends on a row of `lhs`, a column of `rhs` and the
/// element of `acc`.
fn undetermined_of_matmul([lhs, rhs, acc]: [&Tile; 3]) -> Vec<bool> {
    let rank = acc.shape.len();
    let [rows, columns, depth] = [acc.shape[rank - 2], acc.shape[rank - 1], lhs.shape[rank - 1]].map(|extent| extent as usize);
    let batches = acc.count() / (rows * columns);
    let row = |batch: usize, i: usize| (0..depth).any(|k| is_undetermined(lhs, (batch * rows + i) * depth + k));
    let column = |batch: usize, j: usize| (0..depth).any(|k| is_undetermined(rhs, (batch * depth + k) * columns + j));
    let undetermined_rows: Vec<bool> = (0..batches * rows).map(|at| row(at / rows, at % rows)).collect();
    let undetermined_columns: Vec<bool> = (0..batches * columns).map(|at| column(at / columns, at % columns)).collect();
    let is_result_undetermined = |at: usize| {
        let (batch, i, j) = (at / columns / rows, at / columns % rows, at % columns);
        undetermined_rows[batch * rows + i] || undetermined_columns[batch * columns + j] || is_undetermined(acc, at)
    };
    (0..acc.count()).map(is_result_undetermined).collect()
}

/// Returns the mask of the undetermined elements of the result of a reduction or scan. An element of a reduction depends on all
/// elements of its line along `dim`. An element of a scan depends on the elements of its line up to its own position.
fn undetermined_of_reduction(operands: &[Id], dim: usize, scan: Option<Direction>, count: usize, env: &Env<'_>) -> Vec<bool> {
    let shape = env.tile(operands[0]).shape.clone();
    let (line_length, inner) = (shape[dim] as usize, shape[dim + 1..].iter().map(|extent| *extent as usize).product::<usize>());
    let mut out = vec![false; count];
    let mut at = 0;
    for_each_index(&shape, |index| {
        if operands.iter().any(|id| is_undetermined(env.tile(*id), at)) {
            let (outer, i, inner_index) = (at / (line_length * inner), index[dim] as usize, at % inner);
            match scan {
                None => out[outer * inner + inner_index] = true,
                Some(Direction::Reverse) => (0..=i).for_each(|i| out[(outer * line_length + i) * inner + inner_index] = true),
                Some(_) => (i..line_length).for_each(|i| out[(outer * line_length + i) * inner + inner_index] = true),
            }
        }
        at += 1;
    });
    out
}

/// Returns whether an access depends on undetermined elements or makes them visible.
fn uses_undetermined(request: &AccessRequest<'_>) -> bool {
    let has_undetermined = |tile: &Tile| tile.undetermined().is_some();
    let uses_enabled = |tiles: &[&Tile], mask: &Option<Tile>| {
        let masked_out = |at: usize| mask.as_ref().is_some_and(|mask| mask.element_words().get(at) & 1 == 0);
        let is_used = |tile: &&Tile| (0..tile.count()).any(|at| is_undetermined(tile, at) && !masked_out(at));
        mask.as_ref().is_some_and(has_undetermined) || tiles.iter().any(is_used)
    };
    match request {
        AccessRequest::LoadView { index, .. } => index.iter().any(has_undetermined),
        AccessRequest::StoreView { tile, view, index, .. }
        | AccessRequest::ReduceView { tile, view, index, .. }
        | AccessRequest::MulticastStore { tile, view, index, .. } => {
            let outside = access::elements_outside(view, index);
            let is_stored = |at: usize| is_undetermined(tile, at) && !outside.as_ref().is_some_and(|outside| outside[at]);
            index.iter().any(has_undetermined) || has_undetermined(tile) && (0..tile.count()).any(is_stored)
        }
        AccessRequest::Load { pointers, mask, .. } => uses_enabled(&[pointers], mask),
        AccessRequest::Store { pointers, value, mask } | AccessRequest::ReadModifyWrite { pointers, value, mask, .. } => {
            uses_enabled(&[pointers, value], mask)
        }
        AccessRequest::CompareAndSwap { pointers, compare, value, mask } => uses_enabled(&[pointers, compare, value], mask),
    }
}

/// Returns the mask of the elements that a load leaves undetermined. `None` if the load determines all elements, or if the access
/// is not a load.
fn undetermined_after_load(request: &AccessRequest<'_>) -> Option<Vec<bool>> {
    match request {
        AccessRequest::LoadView { view, index, .. } if view.padding.is_none() => access::elements_outside(view, index),
        AccessRequest::Load { mask: Some(mask), padding, .. } => {
            let is_left_undetermined = |at: usize| {
                mask.element_words().get(at) & 1 == 0 && padding.as_ref().is_none_or(|padding| is_undetermined(padding, at))
            };
            Some((0..mask.count()).map(is_left_undetermined).collect())
        }
        _ => None,
    }
}
