//! Decides whether two compute warp groups share the work of the computing threads. Only analyses; rewrites nothing.
//!
//! A function qualifies if its work falls into two connected components, as attention over two halves of the rows does. Each
//! compute role then has its own accumulators and operands in tensor memory, and computes while the other one waits for MMAs.
//! The loops may be materialized or not. FlashAttention-3 calls the scheme ping-pong scheduling.

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

/// Number of exponentials per thread in one op from which the op delays other warps noticeably.
const MANY_EXPONENTIALS: u32 = 16;

/// The compute role (0 or 1) of each op.
#[derive(Clone, Default)]
pub(crate) struct ComputeGroups(PingPong);

impl ComputeGroups {
    /// Returns two groups, or the reason against two.
    pub(crate) fn of(function: &Function) -> Result<ComputeGroups, Why> {
        let groups = ComputeGroups::find(function)?;
        match groups.have_overlaps(function) {
            true => Err("private buffers of a compute role share memory with other buffers".into()),
            false => Ok(groups),
        }
    }

    /// As [`ComputeGroups::of`], but independent of the placements of the buffers.
    pub(crate) fn find(function: &Function) -> Result<ComputeGroups, Why> {
        let body = &function.body;
        let waits = |op: OpId| matches!(body.ops[op].kind, Op::CopyWait { .. } | Op::GroupWait { .. });
        if body.walk(function.region).into_iter().any(waits) {
            return Err("threads wait for copies or MMAs that they issued".into());
        }
        let stored = tmem_pipelines::stored(function);
        let is_not_divided = |op: OpId| match &body.ops[op].kind {
            Op::Core(tileas::Op::TmaStore { buffer, .. }) => stored.contains(buffer),
            Op::PipelineAcquire { .. } | Op::PipelineCommit { .. } | Op::PipelineWait { .. } | Op::PipelineRelease { .. } => true,
            kind => is_in_all_groups(kind),
        };
        let buffers = &function.attrs.program.buffers;
        let pair = ping_pong((body, function.region), buffers, is_not_divided, |op| is_lookup(function, op));
        Ok(ComputeGroups(pair?))
    }

    /// Returns the ops at the ends of each ping-pong turn in loops, with the compute role that executes them. A turn goes from
    /// the exponentials of full tiles to the store of an operand computed from them. If both roles computed exponentials at the
    /// same time, both would finish late and the tensor cores would idle. In alternation each role computes during the other
    /// role's MMAs.
    pub(crate) fn alternating_pairs(&self, function: &Function) -> BTreeMap<OpId, usize> {
        let body = &function.body;
        let is_slow = |op: &OpId| {
            let node = &body.ops[*op];
            let is_exponential = matches!(node.kind.core(), Some(Core::Unary { kind: Unary::Exp { .. } | Unary::Exp2 { .. }, .. }));
            let all = node.results.first().filter(|_| is_exponential).map_or(0, |result| element_count(body.ty(*result).shape()));
            all >= (MANY_EXPONENTIALS * function.attrs.program.warps * 32) as usize
        };
        let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmemStore { .. }));
        let mut turn_ops = BTreeMap::new();
        for (block, node) in body.blocks.iter().filter(|(block, _)| *block != function.entry()) {
            let turns = node.ops.iter().filter(|op| is_slow(op) || is_store(op)).filter_map(|op| Some((*op, *self.0.ops.get(op)?)));
            let turns: Vec<(OpId, usize)> = turns.collect();
            let starts_with_exponentials =
                |warp_role: usize| turns.iter().find(|(_, other)| *other == warp_role).is_some_and(|(op, _)| is_slow(op));
            match starts_with_exponentials(0)
                && starts_with_exponentials(1)
                && turns.is_sorted_by_key(|(_, warp_role)| *warp_role)
                && self.is_loop(function, block)
            {
                true => turn_ops.extend(turns),
                // A role that never gets a turn in this block would block the other one, so give up alternation.
                false if !turns.is_empty() => return BTreeMap::new(),
                false => {}
            }
        }
        turn_ops
    }

    fn is_loop(&self, function: &Function, block: Block) -> bool {
        let body = &function.body;
        body.walk(function.region).into_iter().any(|op| match body.ops[op].kind.core() {
            Some(Core::For { body: region, .. }) => body.block_of(*region) == block,
            _ => false,
        })
    }

    /// Returns whether two buffers may share memory as far as their compute roles are concerned.
    pub(crate) fn share(&self, one: Buffer, other: Buffer) -> bool {
        self.0.share(one, other)
    }

    /// Returns whether buffers that do not belong to one compute role share memory.
    fn have_overlaps(&self, function: &Function) -> bool {
        let (placements, buffers) = (&function.attrs.placements, &function.attrs.program.buffers);
        let places = placements.iter().filter(|(buffer, _)| self.0.buffers.contains_key(buffer));
        let end = |place: &Placement, buffer: Buffer| place.offset + buffers[buffer].bytes() * place.depth;
        let mut places: Vec<(u32, u32, Buffer)> =
            places.map(|(buffer, place)| (place.offset, end(place, buffer), buffer)).collect();
        places.sort_unstable();
        (0..places.len()).any(|at| {
            let (_, end, one) = places[at];
            let overlapping = places[at + 1..].iter().take_while(|(start, ..)| *start < end);
            overlapping.into_iter().any(|(.., other)| !self.share(one, *other))
        })
    }

    /// The number of compute roles.
    pub(super) fn count(&self) -> usize {
        if self.0.second_accumulators.is_empty() { 1 } else { COMPONENTS }
    }

    /// The compute roles that execute an op. Applies to ops that no other kind of role executes.
    pub(super) fn of_op(&self, op: OpId, kind: &Op) -> Vec<usize> {
        match self.0.ops.get(&op) {
            Some(group) => vec![*group],
            None if is_in_all_groups(kind) => (0..self.count()).collect(),
            None => vec![0],
        }
    }

    /// The compute role whose MMAs add to the accumulator in a buffer.
    pub(super) fn of_accumulator(&self, accumulators: Buffer) -> usize {
        usize::from(self.0.second_accumulators.contains(&accumulators))
    }
}

/// Returns whether every compute role executes its own copy of an op. Such an op does not involve tiles.
fn is_in_all_groups(kind: &Op) -> bool {
    matches!(kind, Op::Barrier { .. } | Op::AsyncFence { .. })
}
