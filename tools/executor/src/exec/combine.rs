//! Reductions and scans over any body. One of element-wise ops only is run once for many elements, any other element by element.

use super::{Env, Program, Results, run_body};
use crate::check::Check;
use crate::tile::fold::Pairs;
use crate::tile::{Tile, fold};
use crate::value::Value;
use base::diag::Result;
use base::{Loc, Region, Value as Id};
use numerics::arith::Lanes;
use vocabulary::tile::Shape;

/// How a body is run.
#[derive(Clone, Copy)]
pub(crate) struct Body<'p, P> {
    pub(crate) program: &'p P,
    pub(crate) region: Region,
}

pub(crate) fn reduce<P: Program>(body: Body<'_, P>, dim: usize, operands: &[Id], env: &mut Env<'_>) -> Result<Results> {
    let tiles: Vec<Tile> = operands.iter().map(|id| env.tile(*id).clone()).collect();
    let results = fold::reduce(&tiles, dim, Pairs::Neighbours, &mut |arguments| body.combine(arguments, env))?;
    Ok(results.into_iter().map(Value::Tile).collect())
}

/// Reports a reduction of integers that gives something else when its elements are combined in another order, which they may be.
pub(crate) fn check_order<P: Program>(
    body: Body<'_, P>,
    dim: usize,
    operands: &[Id],
    results: &[Value],
    loc: Loc,
    env: &mut Env<'_>,
) -> Result<()> {
    let tiles: Vec<Tile> = operands.iter().map(|id| env.tile(*id).clone()).collect();
    if !env.world.checks(Check::Order) || !tiles.iter().all(|tile| tile.elem.scalar().is_some_and(|elem| elem.is_int())) {
        return Ok(());
    }
    let others = fold::reduce(&tiles, dim, Pairs::Halves, &mut |arguments| body.combine(arguments, env))?;
    let same = |(one, other): (&Value, &Tile)| matches!(one, Value::Tile(one) if one.lanes().iter().eq(other.lanes().iter()));
    if !results.iter().zip(&others).all(same) {
        env.world.report(Check::Order, loc, "what is reduced depends on the order in which elements are combined".into());
    }
    Ok(())
}

pub(crate) fn scan<P: Program>(
    body: Body<'_, P>,
    dim: usize,
    reverse: bool,
    operands: &[Id],
    env: &mut Env<'_>,
) -> Result<Results> {
    let tiles: Vec<Tile> = operands.iter().map(|id| env.tile(*id).clone()).collect();
    let results = fold::scan(&tiles, dim, reverse, &mut |arguments| body.combine(arguments, env))?;
    Ok(results.into_iter().map(Value::Tile).collect())
}

impl<P: Program> Body<'_, P> {
    fn is_elementwise(&self) -> bool {
        let body = self.program.body();
        let block = body.block_of(self.region);
        body.blocks[block].ops.iter().all(|op| self.program.is_elementwise(&body.ops[*op].kind))
    }

    fn run(&self, arguments: Vec<Tile>, env: &mut Env<'_>) -> Result<Vec<Tile>> {
        let yielded = run_body(self.program, self.region, arguments.into_iter().map(Value::Tile).collect(), env)?;
        let tile = |value| if let Value::Tile(tile) = value { tile } else { panic!("a reduction yields {value:?}") };
        Ok(yielded.into_iter().map(tile).collect())
    }

    /// The body for all elements of one-dimensional tiles.
    pub(crate) fn combine(&self, arguments: Vec<Tile>, env: &mut Env<'_>) -> Result<Vec<Tile>> {
        let count = arguments[0].count();
        let shape = Shape::from_slice(&[count as u32]);
        if self.is_elementwise() {
            // What does not depend on the elements comes out once.
            let all = |tile: Tile| match tile.count() == count {
                true => tile.with_shape(shape.clone()),
                false => Tile::splat(shape.clone(), tile.elem, tile.first()),
            };
            return Ok(self.run(arguments, env)?.into_iter().map(all).collect());
        }
        let mut results: Vec<(Tile, Lanes)> = Vec::new();
        for i in 0..count {
            let scalars = arguments.iter().map(|tile| Tile::scalar(tile.elem, tile.lanes().get(i))).collect();
            let now = self.run(scalars, env)?;
            if results.is_empty() {
                results = now.iter().map(|tile| (tile.clone(), Lanes::splat(tile.carrier(), 0, count))).collect();
            }
            results.iter_mut().zip(&now).for_each(|((_, lanes), tile)| lanes.set(i, tile.first()));
        }
        Ok(results.into_iter().map(|(tile, lanes)| Tile::new(shape.clone(), tile.elem, lanes)).collect())
    }
}
