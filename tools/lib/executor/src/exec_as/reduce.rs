//! Reductions within threads and over lanes, and scans. Each step combines all groups at once.

use super::{DistributedProgram, Plan, Step, reduction_plans};
use crate::exec::combine::CombinerBody;
use crate::exec::{Env, Results};
use crate::tile::Tile;
use crate::value::Value;
use base::diag::Result;
use base::{Op as OpId, Region, Value as Id};
use core_dialect::combining;
use core_dialect::tile::Shape;
use numerics::arith::{Lanes, Word};
use numerics::each_lanes;
use tileas::Op;

fn operands_dim_body(kind: &Op) -> (&[Id], usize, Region) {
    match kind {
        Op::ReduceRegisters { operands, dim, body }
        | Op::ReduceLanes { operands, dim, body }
        | Op::Scan { operands, dim, body, .. } => (operands, *dim as usize, *body),
        _ => unreachable!("handles reductions and scans only"),
    }
}

fn flat_tile(like: &Tile, lanes: Lanes) -> Tile {
    Tile::new(Shape::from_slice(&[lanes.len() as u32]), like.elem, lanes)
}

fn pick_slots(tile: &Tile, slots: impl Iterator<Item = usize>) -> Tile {
    flat_tile(tile, tile.lanes().gather(slots))
}

fn concatenated(tiles: &[&Tile]) -> Lanes {
    fn all<W: Word>(first: &[W], tiles: &[&Tile]) -> Lanes {
        let mut out = Vec::with_capacity(first.len() * tiles.len());
        tiles.iter().for_each(|tile| out.extend_from_slice(W::of(tile.lanes()).expect("a body's results have one type")));
        W::lanes(out)
    }
    each_lanes!(tiles[0].lanes(), words => all(words, tiles))
}

impl<O: Step> DistributedProgram<'_, O> {
    pub(super) fn plan_reduce(&self, op: OpId, kind: &Op) -> Result<Plan, String> {
        let (operands, dim, body) = operands_dim_body(kind);
        let results = &self.source.body.ops[op].results;
        let (Some(&x), Some(&result)) = (operands.first(), results.first()) else {
            return Err("has no operands or results".into());
        };
        let (from, to) = (self.distribution(x), self.distribution(result));
        let mismatch =
            operands.iter().find(|id| self.distribution(**id).layout != from.layout || self.shape(**id) != self.shape(x));
        let mismatch = mismatch.or(results.iter().find(|id| self.distribution(**id).layout != to.layout));
        if let Some(mismatch) = mismatch {
            return Err(format!("has {mismatch} in a layout that differs from the other operands"));
        }
        let arguments = self.source.body.blocks[self.source.body.block_of(body)].args.len();
        if results.len() != operands.len() || arguments != 2 * operands.len() || dim >= self.shape(x).len() {
            return Err(format!("combines {} values along dimension {dim} into {}", operands.len(), results.len()));
        }
        let shape = self.shape(x);
        match kind {
            Op::ReduceRegisters { .. } => reduction_plans::registers(from, to, &shape, dim).map(Plan::Groups),
            Op::ReduceLanes { .. } => reduction_plans::lanes(from, to, &shape, dim).map(Plan::Exchange),
            _ => reduction_plans::lines(from, to, &shape, dim).map(Plan::Lines),
        }
    }

    pub(super) fn reduce(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let (operands, _, body) = operands_dim_body(kind);
        let tiles: Vec<Tile> = operands.iter().map(|id| self.slots(*id, env)).collect();
        let results = match &self.plans[op.0 as usize] {
            Plan::Groups(groups) => self.reduce_registers(&tiles, groups, body, env)?,
            Plan::Exchange(exchange) => self.reduce_lanes(tiles, exchange, body, env)?,
            Plan::Lines(lines) => self.scan(&tiles, lines, matches!(kind, Op::Scan { reverse: true, .. }), body, env)?,
            _ => unreachable!("planned in advance"),
        };
        let ids = &self.source.body.ops[op].results;
        ids.iter().zip(results).map(|(id, tile)| Ok(Value::Tile(self.value_from_slots(*id, tile)?))).collect()
    }

    /// Combines neighbouring registers pairwise, then neighbouring results. If the format requires it, even and odd registers are
    /// reduced separately first.
    fn reduce_registers(
        &self,
        tiles: &[Tile],
        groups: &reduction_plans::Groups,
        body: Region,
        env: &mut Env<'_>,
    ) -> Result<Vec<Tile>> {
        let slots = || groups.slots.iter().map(|slot| *slot as usize);
        let mut all: Vec<Tile> = tiles.iter().map(|tile| pick_slots(tile, slots())).collect();
        let evens_separately = combining::combines_evens_separately(combining::single_commutative_op(self.source.body, body));
        let mut size = groups.size;
        while size > 1 {
            // If evens and odds are combined separately, the first of four elements is combined with the third, and the first of
            // two with the second.
            let distance = if evens_separately && size > 2 { 2 } else { 1 };
            let firsts = |count: usize| (0..count).filter(|at| at / distance % 2 == 0);
            let sides = |tile: &Tile, far: usize| pick_slots(tile, firsts(tile.count()).map(|at| at + far));
            all = self.combine(body, all.iter().flat_map(|tile| [sides(tile, 0), sides(tile, distance)]).collect(), env)?;
            size /= 2;
        }
        Ok(all)
    }

    /// Reduces over lanes. In each step both partners compute the same value.
    fn reduce_lanes(
        &self,
        tiles: Vec<Tile>,
        exchange: &reduction_plans::Exchange,
        body: Region,
        env: &mut Env<'_>,
    ) -> Result<Vec<Tile>> {
        let mut all = tiles;
        for step in &exchange.steps {
            let side = |tile: &Tile, of: fn(usize, usize) -> usize| {
                pick_slots(tile, step.iter().enumerate().map(|(own, met)| of(own, *met as usize)))
            };
            all =
                self.combine(body, all.iter().flat_map(|tile| [side(tile, usize::min), side(tile, usize::max)]).collect(), env)?;
        }
        Ok(all.iter().map(|tile| pick_slots(tile, exchange.results.iter().map(|slot| *slot as usize))).collect())
    }

    fn scan(
        &self,
        tiles: &[Tile],
        lines: &reduction_plans::Lines,
        reverse: bool,
        body: Region,
        env: &mut Env<'_>,
    ) -> Result<Vec<Tile>> {
        let mut steps: Vec<Vec<Tile>> = Vec::with_capacity(lines.steps.len());
        let order: Box<dyn Iterator<Item = &Vec<u32>>> =
            if reverse { Box::new(lines.steps.iter().rev()) } else { Box::new(lines.steps.iter()) };
        for step in order {
            let elements = tiles.iter().map(|tile| pick_slots(tile, step.iter().map(|slot| *slot as usize)));
            let now = match steps.last() {
                None => elements.collect(),
                Some(before) => {
                    let pairs = before.iter().zip(elements).flat_map(|(before, element)| [before.clone(), element]);
                    self.combine(body, pairs.collect(), env)?
                }
            };
            steps.push(now);
        }
        if reverse {
            steps.reverse();
        }
        let width = lines.steps[0].len();
        let result = |i: usize| {
            let all = concatenated(&steps.iter().map(|step| &step[i]).collect::<Vec<_>>());
            let line_coordinates =
                lines.line_coordinates.iter().map(|(coordinate, line)| *coordinate as usize * width + *line as usize);
            flat_tile(&tiles[i], all.gather(line_coordinates))
        };
        Ok((0..tiles.len()).map(result).collect())
    }

    fn combine(&self, region: Region, arguments: Vec<Tile>, env: &mut Env<'_>) -> Result<Vec<Tile>> {
        CombinerBody { program: self, region }.combine(arguments, env)
    }
}
