//! Executes reductions over the registers of a thread, reductions over lanes, and scans, according to their plans
//! ([`reduction_plans`]). Each step combines all pairs of elements together.

use super::{DistributedOp, DistributedProgram, OpPlan, reduction_plans};
use crate::exec::combine::CombinerBody;
use crate::exec::{Env, Results};
use crate::tile::Tile;
use crate::value::Value;
use base::diag::Result;
use base::{Op as OpId, Region, Value as Id};
use core_dialect::combining;
use core_dialect::tile::Shape;
use numerics::arith::{ElementWords, Word};
use numerics::match_words;
use tileas::Op;

/// Returns the operands, the dimension and the body of a reduction or scan.
fn operands_dim_and_body(kind: &Op) -> (&[Id], usize, Region) {
    match kind {
        Op::ReduceRegisters { operands, dim, body }
        | Op::ReduceLanes { operands, dim, body }
        | Op::Scan { operands, dim, body, .. } => (operands, *dim as usize, *body),
        _ => unreachable!("handles reductions and scans only"),
    }
}

/// Returns a one-dimensional tile with the element type of `like`.
fn flat_tile(like: &Tile, element_words: ElementWords) -> Tile {
    Tile::new(Shape::from_slice(&[element_words.len() as u32]), like.elem, element_words)
}

/// Returns a one-dimensional tile of the elements in the given slots.
fn gather_slots(tile: &Tile, slots: impl Iterator<Item = usize>) -> Tile {
    flat_tile(tile, tile.element_words().gather(slots))
}

/// Returns the elements of all tiles, one tile after the other.
fn concatenated(tiles: &[&Tile]) -> ElementWords {
    fn concatenate<W: Word>(first: &[W], tiles: &[&Tile]) -> ElementWords {
        let mut out = Vec::with_capacity(first.len() * tiles.len());
        tiles
            .iter()
            .for_each(|tile| out.extend_from_slice(W::words_of(tile.element_words()).expect("a body's results have one type")));
        W::element_words(out)
    }
    match_words!(tiles[0].element_words(), words => concatenate(words, tiles))
}

impl<O: DistributedOp> DistributedProgram<'_, O> {
    /// Plans a reduction or a scan.
    pub(super) fn plan_reduction(&self, op: OpId, kind: &Op) -> Result<OpPlan, String> {
        let (operands, dim, body) = operands_dim_and_body(kind);
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
            Op::ReduceRegisters { .. } => reduction_plans::plan_registers(from, to, &shape, dim).map(OpPlan::RegisterReduction),
            Op::ReduceLanes { .. } => reduction_plans::plan_lanes(from, to, &shape, dim).map(OpPlan::LaneReduction),
            _ => reduction_plans::plan_scan(from, to, &shape, dim).map(OpPlan::Scan),
        }
    }

    /// Executes a reduction or a scan according to its plan.
    pub(super) fn execute_reduction(&self, op: OpId, kind: &Op, env: &mut Env<'_>) -> Result<Results> {
        let (operands, _, body) = operands_dim_and_body(kind);
        let tiles: Vec<Tile> = operands.iter().map(|id| self.slots(*id, env)).collect();
        let results = match &self.plans[op.0 as usize] {
            OpPlan::RegisterReduction(groups) => self.reduce_registers(&tiles, groups, body, env)?,
            OpPlan::LaneReduction(exchange) => self.reduce_lanes(tiles, exchange, body, env)?,
            OpPlan::Scan(lines) => self.execute_scan(&tiles, lines, matches!(kind, Op::Scan { reverse: true, .. }), body, env)?,
            _ => unreachable!("planned in advance"),
        };
        let ids = &self.source.body.ops[op].results;
        ids.iter().zip(results).map(|(id, tile)| Ok(Value::Tile(self.value_from_slots(*id, tile)?))).collect()
    }

    /// Combines neighbouring registers pairwise, then neighbouring results, and so on. For combiners for which
    /// `combines_evens_separately` is true, it first reduces the registers at even and at odd positions separately.
    fn reduce_registers(
        &self,
        tiles: &[Tile],
        groups: &reduction_plans::RegisterGroups,
        body: Region,
        env: &mut Env<'_>,
    ) -> Result<Vec<Tile>> {
        let group_slots = || groups.slots.iter().map(|slot| *slot as usize);
        let mut tiles: Vec<Tile> = tiles.iter().map(|tile| gather_slots(tile, group_slots())).collect();
        let evens_separately = combining::combines_evens_separately(combining::single_commutative_op(self.source.body, body));
        let mut size = groups.size;
        while size > 1 {
            // With separate even and odd positions, the partner of an element is at distance 2 until two elements are left.
            let distance = if evens_separately && size > 2 { 2 } else { 1 };
            let left_positions = |count: usize| (0..count).filter(|at| at / distance % 2 == 0);
            let side = |tile: &Tile, offset: usize| gather_slots(tile, left_positions(tile.count()).map(|at| at + offset));
            tiles = self.combine(body, tiles.iter().flat_map(|tile| [side(tile, 0), side(tile, distance)]).collect(), env)?;
            size /= 2;
        }
        Ok(tiles)
    }

    /// Reduces over lanes. Each step combines an element with the element of its partner lane, and both lanes get the result.
    fn reduce_lanes(
        &self,
        tiles: Vec<Tile>,
        exchange: &reduction_plans::LaneExchange,
        body: Region,
        env: &mut Env<'_>,
    ) -> Result<Vec<Tile>> {
        let mut tiles = tiles;
        for step in &exchange.steps {
            let side = |tile: &Tile, select: fn(usize, usize) -> usize| {
                gather_slots(tile, step.iter().enumerate().map(|(slot, partner)| select(slot, *partner as usize)))
            };
            tiles =
                self.combine(body, tiles.iter().flat_map(|tile| [side(tile, usize::min), side(tile, usize::max)]).collect(), env)?;
        }
        Ok(tiles.iter().map(|tile| gather_slots(tile, exchange.results.iter().map(|slot| *slot as usize))).collect())
    }

    /// Executes a scan: combines each element with the prefix of its line, in the order of the coordinates or in reverse.
    fn execute_scan(
        &self,
        tiles: &[Tile],
        lines: &reduction_plans::ScanLines,
        reverse: bool,
        body: Region,
        env: &mut Env<'_>,
    ) -> Result<Vec<Tile>> {
        let mut steps: Vec<Vec<Tile>> = Vec::with_capacity(lines.steps.len());
        let order: Box<dyn Iterator<Item = &Vec<u32>>> =
            if reverse { Box::new(lines.steps.iter().rev()) } else { Box::new(lines.steps.iter()) };
        for step in order {
            let elements = tiles.iter().map(|tile| gather_slots(tile, step.iter().map(|slot| *slot as usize)));
            let combined = match steps.last() {
                None => elements.collect(),
                Some(prefix) => {
                    let pairs = prefix.iter().zip(elements).flat_map(|(prefix, element)| [prefix.clone(), element]);
                    self.combine(body, pairs.collect(), env)?
                }
            };
            steps.push(combined);
        }
        if reverse {
            steps.reverse();
        }
        let line_count = lines.steps[0].len();
        let result = |i: usize| {
            let all_steps = concatenated(&steps.iter().map(|step| &step[i]).collect::<Vec<_>>());
            let indices =
                lines.line_coordinates.iter().map(|(coordinate, line)| *coordinate as usize * line_count + *line as usize);
            flat_tile(&tiles[i], all_steps.gather(indices))
        };
        Ok((0..tiles.len()).map(result).collect())
    }

    /// Combines elements with a combiner body, position by position.
    fn combine(&self, region: Region, arguments: Vec<Tile>, env: &mut Env<'_>) -> Result<Vec<Tile>> {
        CombinerBody { program: self, region }.combine(arguments, env)
    }
}
