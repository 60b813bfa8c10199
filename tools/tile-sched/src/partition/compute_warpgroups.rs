//! Shares the work of threads out to two warp_roles where it is in two components, as in attention of two halves of rows: each warp_role has
//! its own accumulators and operands in tensor memory, and computes while the other one waits for mmas.
//!
//! Requires: a function with its loops, woven or not. Only decides.

use super::Why;
use crate::scalar_index_loads::is_lookup;
use crate::tmem_pipelines;
use base::Block;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::element_count;
use numerics::arith::Unary;
use sched::{Function, Op, Placement};
use std::collections::BTreeMap;
use tileas::Buffer;
use tileas::ping_pong::{COMPONENTS, PingPong, ping_pong};

/// Exponentials of a thread at once that keep others waiting.
const MANY: u32 = 16;

/// Who computes what.
#[derive(Clone, Default)]
pub(crate) struct ComputeGroups(PingPong);

impl ComputeGroups {
    /// Two groups, or why there is one.
    pub(crate) fn of(function: &Function) -> Result<ComputeGroups, Why> {
        let groups = ComputeGroups::find(function)?;
        match groups.meet(function) {
            true => Err("what is one's in shared memory lies where others have something".into()),
            false => Ok(groups),
        }
    }

    /// The same, wherever their buffers will lie.
    pub(crate) fn find(function: &Function) -> Result<ComputeGroups, Why> {
        let body = &function.body;
        let waits = |op: OpId| matches!(body.ops[op].kind, Op::CopyWait { .. } | Op::GroupWait { .. });
        if body.walk(function.region).into_iter().any(waits) {
            return Err("threads wait for copies, or mmas, of their own".into());
        }
        let stored = tmem_pipelines::stored(function);
        let left_out = |op: OpId| match &body.ops[op].kind {
            Op::Core(tileas::Op::TmaStore { buffer, .. }) => stored.contains(buffer),
            Op::PipelineAcquire { .. } | Op::PipelineCommit { .. } | Op::PipelineWait { .. } | Op::PipelineRelease { .. } => true,
            kind => is_of_all(kind),
        };
        let buffers = &function.attrs.program.buffers;
        let pair = ping_pong((body, function.region), buffers, left_out, |op| is_lookup(function, op));
        Ok(ComputeGroups(pair?))
    }

    /// The exponentials of whole tiles in iterations, up to where an operand that is computed from them is stored, and whose they are. Both
    /// warp_roles at once would be late with them, and leave the mmas idle until then; one after the other they leave each the time that
    /// the other one's mmas take.
    pub(crate) fn alternating_pairs(&self, function: &Function) -> BTreeMap<OpId, usize> {
        let body = &function.body;
        let is_slow = |op: &OpId| {
            let node = &body.ops[*op];
            let is_exponential = matches!(node.kind.core(), Some(Core::Unary { kind: Unary::Exp { .. } | Unary::Exp2 { .. }, .. }));
            let all = node.results.first().filter(|_| is_exponential).map_or(0, |result| element_count(body.ty(*result).shape()));
            all >= (MANY * function.attrs.program.warps * 32) as usize
        };
        let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmemStore { .. }));
        let mut taking = BTreeMap::new();
        for (block, node) in body.blocks.iter().filter(|(block, _)| *block != function.entry()) {
            let turns = node.ops.iter().filter(|op| is_slow(op) || is_store(op)).filter_map(|op| Some((*op, *self.0.ops.get(op)?)));
            let turns: Vec<(OpId, usize)> = turns.collect();
            let begins = |warp_role: usize| turns.iter().find(|(_, other)| *other == warp_role).is_some_and(|(op, _)| is_slow(op));
            match begins(0) && begins(1) && turns.is_sorted_by_key(|(_, warp_role)| *warp_role) && self.is_loop(function, block) {
                true => taking.extend(turns),
                // A turn that never comes would not be waited for.
                false if !turns.is_empty() => return BTreeMap::new(),
                false => {}
            }
        }
        taking
    }

    fn is_loop(&self, function: &Function, block: Block) -> bool {
        let body = &function.body;
        body.walk(function.region).into_iter().any(|op| match body.ops[op].kind.core() {
            Some(Core::For { body: region, .. }) => body.block_of(*region) == block,
            _ => false,
        })
    }

    /// Whether buffers can share memory, as far as it matters whose they are.
    pub(crate) fn share(&self, one: Buffer, other: Buffer) -> bool {
        self.0.share(one, other)
    }

    /// Whether buffers that are not both one warp_role's do share memory.
    fn meet(&self, function: &Function) -> bool {
        let (placements, buffers) = (&function.attrs.placements, &function.attrs.program.buffers);
        let places = placements.iter().filter(|(buffer, _)| self.0.buffers.contains_key(buffer));
        let end = |place: &Placement, buffer: Buffer| place.offset + buffers[buffer].bytes() * place.depth;
        let mut places: Vec<(u32, u32, Buffer)> =
            places.map(|(buffer, place)| (place.offset, end(place, buffer), buffer)).collect();
        places.sort_unstable();
        (0..places.len()).any(|at| {
            let (_, end, one) = places[at];
            let behind = places[at + 1..].iter().take_while(|(start, ..)| *start < end);
            behind.into_iter().any(|(.., other)| !self.share(one, *other))
        })
    }

    /// How many warp_roles compute.
    pub(super) fn count(&self) -> usize {
        if self.0.later.is_empty() { 1 } else { COMPONENTS }
    }

    /// Whose an op is that no other warp_role does.
    pub(super) fn of_op(&self, op: OpId, kind: &Op) -> Vec<usize> {
        match self.0.ops.get(&op) {
            Some(group) => vec![*group],
            None if is_of_all(kind) => (0..self.count()).collect(),
            None => vec![0],
        }
    }

    /// Whose mmas add to the accumulators in a buffer.
    pub(super) fn of_accumulator(&self, accumulators: Buffer) -> usize {
        usize::from(self.0.later.contains(&accumulators))
    }
}

/// Whether each warp_role that computes has an op for itself, which has nothing to do with tiles.
fn is_of_all(kind: &Op) -> bool {
    matches!(kind, Op::Barrier { .. } | Op::AsyncFence { .. })
}
