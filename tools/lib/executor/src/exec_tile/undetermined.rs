//! Tracks elements that a load without padding leaves undetermined, because they are outside the tensor or masked out.
//!
//! Computing with them is allowed as long as no result is used: cuTile programs load, compute and store tiles that extend over an
//! edge. A use is a store inside a tensor, an address, a mask, a branch or a printed value.

use super::{TileProgram, compute};
use crate::exec::access::{self, Request};
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
    /// Reports uses by an executed op. Marks the undetermined elements of its results.
    pub(super) fn follow_undetermined(&self, op: OpId, mut results: Results, env: &mut Env<'_>) -> Result<Results> {
        let (kind, loc) = (&self.function.body.ops[op].kind, self.function.body.ops[op].loc);
        let Some((request, _)) = self.request(op, kind, env) else {
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
            for (number, result) in results.iter_mut().enumerate() {
                if let Value::Tile(tile) = result
                    && let Some(undetermined) = self.undetermined(op, kind, number, tile, env)?
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

    /// Returns the undetermined elements of a result, or `None` for ops that are not tracked.
    fn undetermined(&self, op: OpId, kind: &Op, number: usize, result: &Tile, env: &Env<'_>) -> Result<Option<Vec<bool>>> {
        let count = result.count();
        if let Some(elementwise) = compute::elementwise(kind) {
            let each = |at: usize| match elementwise {
                Elementwise::Select(cond, yes, no) => {
                    let cond = env.tile(cond);
                    let picked = if cond.lanes().get(place(cond, at)) & 1 == 1 { yes } else { no };
                    is_undetermined(cond, at) || is_undetermined(env.tile(picked), at)
                }
                _ => kind.operands().iter().any(|id| is_undetermined(env.tile(*id), at)),
            };
            return Ok(Some((0..count).map(each).collect()));
        }
        Ok(match kind {
            // Elements of another width would make all elements that share bytes undetermined, so they are not tracked.
            Op::Pack { .. } | Op::Unpack { .. } => None,
            Op::MmaF { lhs, rhs, acc, .. } | Op::MmaI { lhs, rhs, acc, .. } | Op::MmaFScaled { lhs, rhs, acc, .. } => {
                Some(undetermined_of_matmul([env.tile(*lhs), env.tile(*rhs), env.tile(*acc)]))
            }
            Op::Reduce { dim, operands, .. } => Some(undetermined_of_reduction(operands, *dim as usize, None, count, env)),
            Op::Scan { dim, direction, operands, .. } => {
                Some(undetermined_of_reduction(operands, *dim as usize, Some(*direction), count, env))
            }
            Op::Assume { value, .. } if number == 0 => env.tile(*value).undetermined().map(<[bool]>::to_vec),
            _ => self.reshape_with(op, kind, env, Tile::undetermined_tile)?.map(|tile| bits(&tile)),
        })
    }
}

fn bits(tile: &Tile) -> Vec<bool> {
    tile.lanes().iter().map(|bit| bit & 1 == 1).collect()
}

/// Returns the index of an element in a tile. In a reduction body, a tile with one element is a splat of it.
fn place(tile: &Tile, at: usize) -> usize {
    if tile.count() == 1 { 0 } else { at }
}

fn is_undetermined(tile: &Tile, at: usize) -> bool {
    tile.undetermined().is_some_and(|mask| mask[place(tile, at)])
}

/// Each result element depends on a row and a column.
fn undetermined_of_matmul([lhs, rhs, acc]: [&Tile; 3]) -> Vec<bool> {
    let rank = acc.shape.len();
    let [rows, columns, depth] = [acc.shape[rank - 2], acc.shape[rank - 1], lhs.shape[rank - 1]].map(|extent| extent as usize);
    let batches = acc.count() / (rows * columns);
    let row = |batch: usize, i: usize| (0..depth).any(|k| is_undetermined(lhs, (batch * rows + i) * depth + k));
    let column = |batch: usize, j: usize| (0..depth).any(|k| is_undetermined(rhs, (batch * depth + k) * columns + j));
    let of_rows: Vec<bool> = (0..batches * rows).map(|at| row(at / rows, at % rows)).collect();
    let of_columns: Vec<bool> = (0..batches * columns).map(|at| column(at / columns, at % columns)).collect();
    let each = |at: usize| {
        let (batch, i, j) = (at / columns / rows, at / columns % rows, at % columns);
        of_rows[batch * rows + i] || of_columns[batch * columns + j] || is_undetermined(acc, at)
    };
    (0..acc.count()).map(each).collect()
}

/// Each result element depends on a line, or on the prefix that a scan combined.
fn undetermined_of_reduction(operands: &[Id], dim: usize, scan: Option<Direction>, count: usize, env: &Env<'_>) -> Vec<bool> {
    let shape = env.tile(operands[0]).shape.clone();
    let (along, inner) = (shape[dim] as usize, shape[dim + 1..].iter().map(|extent| *extent as usize).product::<usize>());
    let mut out = vec![false; count];
    let mut at = 0;
    for_each_index(&shape, |index| {
        if operands.iter().any(|id| is_undetermined(env.tile(*id), at)) {
            let (outer, i, rest) = (at / (along * inner), index[dim] as usize, at % inner);
            match scan {
                None => out[outer * inner + rest] = true,
                Some(Direction::Reverse) => (0..=i).for_each(|i| out[(outer * along + i) * inner + rest] = true),
                Some(_) => (i..along).for_each(|i| out[(outer * along + i) * inner + rest] = true),
            }
        }
        at += 1;
    });
    out
}

/// Returns whether an access depends on undetermined elements or makes them visible.
fn uses_undetermined(request: &Request<'_>) -> bool {
    let any = |tile: &Tile| tile.undetermined().is_some();
    let enabled = |tiles: &[&Tile], mask: &Option<Tile>| {
        let masked_out = |at: usize| mask.as_ref().is_some_and(|mask| mask.lanes().get(at) & 1 == 0);
        let affected = |tile: &&Tile| (0..tile.count()).any(|at| is_undetermined(tile, at) && !masked_out(at));
        mask.as_ref().is_some_and(any) || tiles.iter().any(affected)
    };
    match request {
        Request::LoadView { index, .. } => index.iter().any(any),
        Request::StoreView { tile, view, index, .. }
        | Request::ReduceView { tile, view, index, .. }
        | Request::MulticastStore { tile, view, index, .. } => {
            let outside = access::outside(view, index);
            let stored = |at: usize| is_undetermined(tile, at) && !outside.as_ref().is_some_and(|outside| outside[at]);
            index.iter().any(any) || any(tile) && (0..tile.count()).any(stored)
        }
        Request::Load { pointers, mask, .. } => enabled(&[pointers], mask),
        Request::Store { pointers, value, mask } | Request::ReadModifyWrite { pointers, value, mask, .. } => {
            enabled(&[pointers, value], mask)
        }
        Request::CompareAndSwap { pointers, compare, value, mask } => enabled(&[pointers, compare, value], mask),
    }
}

/// Returns the elements that a load leaves undetermined.
fn undetermined_after_load(request: &Request<'_>) -> Option<Vec<bool>> {
    match request {
        Request::LoadView { view, index, .. } if view.padding.is_none() => access::outside(view, index),
        Request::Load { mask: Some(mask), other, .. } => {
            let each = |at: usize| mask.lanes().get(at) & 1 == 0 && other.as_ref().is_none_or(|other| is_undetermined(other, at));
            Some((0..mask.count()).map(each).collect())
        }
        _ => None,
    }
}
