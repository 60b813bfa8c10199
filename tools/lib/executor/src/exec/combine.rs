//! Reductions and scans with any combiner body. An element-wise body runs once for many elements together. Any other body runs once
//! per pair of elements.

use super::{Env, Program, Results, run_reduction_body};
use crate::check_kind::Check;
use crate::tile::fold::Pairing;
use crate::tile::{Tile, fold};
use crate::value::Value;
use base::diag::Result;
use base::{Loc, Region, Value as Id};
use core_dialect::tile::{Shape, element_count};
use numerics::arith::ElementWords;
use numerics::{Scalar, float};
use tileir::enums::Direction;

/// The body of a reduction or scan.
#[derive(Clone, Copy)]
pub(crate) struct CombinerBody<'p, P> {
    pub(crate) program: &'p P,
    /// The body region of the op. Its block combines two elements per operand.
    pub(crate) region: Region,
}

/// Reduces tiles along a dimension.
pub(crate) fn reduce<P: Program>(body: CombinerBody<'_, P>, dim: usize, operands: &[Id], env: &mut Env<'_>) -> Result<Results> {
    let tiles: Vec<Tile> = operands.iter().map(|id| env.tile(*id).clone()).collect();
    let results = fold::reduce(&tiles, dim, Pairing::Neighbours, &mut |arguments| body.combine(arguments, env))?;
    Ok(results.into_iter().map(Value::Tile).collect())
}

/// Scans tiles along a dimension, from the last element if `reverse`.
pub(crate) fn scan<P: Program>(
    body: CombinerBody<'_, P>,
    dim: usize,
    reverse: bool,
    operands: &[Id],
    env: &mut Env<'_>,
) -> Result<Results> {
    let tiles: Vec<Tile> = operands.iter().map(|id| env.tile(*id).clone()).collect();
    let results = fold::scan(&tiles, dim, reverse, &mut |arguments| body.combine(arguments, env))?;
    Ok(results.into_iter().map(Value::Tile).collect())
}

/// An executed reduction or scan.
pub(crate) struct ReductionOrScan<'a> {
    /// The dimension along which the op combines elements.
    pub(crate) dim: usize,
    /// The direction of a scan. `None` for a reduction.
    pub(crate) scan: Option<Direction>,
    pub(crate) operands: &'a [Id],
    /// The results of the op. The check compares them with the results of another combination order.
    pub(crate) results: &'a [Value],
}

/// Reports a reduction or scan whose result changes under another combination order, which Tile IR permits. For floats, the check
/// tolerates differences that rounding explains.
pub(crate) fn check_order<P: Program>(
    body: CombinerBody<'_, P>,
    op: &ReductionOrScan<'_>,
    loc: Loc,
    env: &mut Env<'_>,
) -> Result<()> {
    let &ReductionOrScan { dim, scan, operands, results } = op;
    let tiles: Vec<Tile> = operands.iter().map(|id| env.tile(*id).clone()).collect();
    // The check skips ops with integer and float operands together. Reason: an argmax of equal floats may return either index.
    let is_int = |tile: &Tile| tile.elem.scalar().is_some_and(|elem| elem.is_int());
    let have_one_kind = tiles.iter().all(is_int) || !tiles.iter().any(is_int);
    if !env.kernel_memory.checks(Check::Order) || !have_one_kind {
        return Ok(());
    }
    let mut run = |arguments| body.combine(arguments, env);
    let reordered_results = match scan {
        None => fold::reduce(&tiles, dim, Pairing::Halves, &mut run)?,
        Some(direction) => fold::scan_by_doubling(&tiles, dim, direction == Direction::Reverse, &mut run)?,
    };
    let line_length = tiles[0].shape[dim] as f64;
    let agrees = |((one, other), tile): ((&Value, &Tile), &Tile)| {
        let Value::Tile(one) = one else { return false };
        let Some(scalar) = other.elem.scalar() else { return true };
        let (magnitudes, inner) = (fold::magnitudes(tile, dim), element_count(&tile.shape[dim + 1..]));
        let line_of = |at: usize| if scan.is_some() { at / (inner * line_length as usize) * inner + at % inner } else { at };
        let pairs = one.element_words().iter().zip(other.element_words().iter()).enumerate();
        pairs.into_iter().all(|(at, (one, other))| within_rounding(scalar, one, other, magnitudes[line_of(at)], line_length))
    };
    if !results.iter().zip(&reordered_results).zip(&tiles).all(agrees) {
        env.kernel_memory.report(Check::Order, loc, "the result depends on the order in which elements are combined".into());
    }
    Ok(())
}

/// Returns whether rounding explains the difference of two results that combine the same elements. `magnitudes` is the sum of the
/// magnitudes of these elements, `count` their number.
fn within_rounding(scalar: Scalar, one: u64, other: u64, magnitudes: f64, count: f64) -> bool {
    if one == other || !scalar.is_float() {
        return one == other;
    }
    let [a, b] = [one, other].map(|bits| float::decode(scalar, bits));
    if !a.is_finite() || !b.is_finite() {
        return a.is_nan() && b.is_nan() || a == b;
    }
    (a - b).abs() <= count * float::epsilon(scalar) * (magnitudes + a.abs() + b.abs())
}

impl<P: Program> CombinerBody<'_, P> {
    /// Returns whether all ops of the body are element-wise, so that one run can combine all elements.
    fn is_elementwise(&self) -> bool {
        let body = self.program.body();
        let block = body.block_of(self.region);
        body.blocks[block].ops.iter().all(|op| self.program.is_elementwise(&body.ops[*op].kind))
    }

    /// Runs the body once and returns the values that it yields.
    fn run(&self, arguments: Vec<Tile>, env: &mut Env<'_>) -> Result<Vec<Tile>> {
        let yielded = run_reduction_body(self.program, self.region, arguments.into_iter().map(Value::Tile).collect(), env)?;
        let tile = |value| if let Value::Tile(tile) = value { tile } else { panic!("a reduction yields {value:?}") };
        Ok(yielded.into_iter().map(tile).collect())
    }

    /// Combines the elements of one-dimensional tiles position by position.
    pub(crate) fn combine(&self, arguments: Vec<Tile>, env: &mut Env<'_>) -> Result<Vec<Tile>> {
        let count = arguments[0].count();
        let shape = Shape::from_slice(&[count as u32]);
        if self.is_elementwise() {
            // A result that does not depend on the arguments is a scalar, so `fill` repeats it for every position.
            let fill = |tile: Tile| match tile.count() == count {
                true => tile.with_shape(shape.clone()),
                false => Tile::splat(shape.clone(), tile.elem, tile.first()),
            };
            return Ok(self.run(arguments, env)?.into_iter().map(fill).collect());
        }
        let mut results: Vec<(Tile, ElementWords)> = Vec::new();
        for i in 0..count {
            let scalars = arguments.iter().map(|tile| Tile::scalar(tile.elem, tile.element_words().get(i))).collect();
            let element_results = self.run(scalars, env)?;
            if results.is_empty() {
                results =
                    element_results.iter().map(|tile| (tile.clone(), ElementWords::splat(tile.carrier(), 0, count))).collect();
            }
            results.iter_mut().zip(&element_results).for_each(|((_, element_words), tile)| element_words.set(i, tile.first()));
        }
        Ok(results.into_iter().map(|(tile, element_words)| Tile::new(shape.clone(), tile.elem, element_words)).collect())
    }
}
