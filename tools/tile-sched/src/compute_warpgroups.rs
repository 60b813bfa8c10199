//! Decides whether two compute warp groups share the work of the computing threads. Only analyses; rewrites nothing.
//!
//! A function qualifies if its work falls into two connected components, as attention over two halves of the rows does. Each
//! compute role then has its own accumulators and operands in tensor memory, and computes while the other role waits for MMAs.
//! The loops may be materialized or not. FlashAttention-3 calls the scheme ping-pong scheduling.

use crate::feature_choice::Reason;
use crate::scalar_index_loads::is_lookup;
use crate::tmem_mma_buffers;
use base::Block;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::element_count;
use numerics::arith::Unary;
use sched::{Function, Op, Placement};
use std::collections::BTreeMap;
use tileas::Buffer;
use tileas::ping_pong::{COMPONENTS, PingPong, ping_pong};

/// Minimum number of exponentials per thread and op from which the op delays other warps noticeably.
const MANY_EXPONENTIALS: u32 = 16;

/// The compute role (0 or 1) of each op.
#[derive(Clone, Default)]
pub(crate) struct ComputeGroups(PingPong);

impl ComputeGroups {
    /// Divides the work between two compute roles, and checks that their private buffers share no memory. The error is the reason
    /// against two compute roles.
    pub(crate) fn find_with_placements(function: &Function) -> Result<ComputeGroups, Reason> {
        let groups = ComputeGroups::find(function)?;
        match groups.have_overlaps(function) {
            true => Err("private buffers of a compute role share memory with other buffers".into()),
            false => Ok(groups),
        }
    }

    /// Like [`ComputeGroups::find_with_placements`], but without the check of buffer placements.
    pub(crate) fn find(function: &Function) -> Result<ComputeGroups, Reason> {
        let body = &function.body;
        let waits = |op: OpId| matches!(body.ops[op].kind, Op::CopyWait { .. } | Op::GroupWait { .. });
        if body.walk(function.region).into_iter().any(waits) {
            return Err("threads wait for copies or MMAs that they issued".into());
        }
        let store_buffers = tmem_mma_buffers::tma_store_buffers(function);
        let is_not_divided = |op: OpId| match &body.ops[op].kind {
            Op::Core(tileas::Op::TmaStore { buffer, .. }) => store_buffers.contains(buffer),
            kind => kind.pipeline_step().is_some() || is_in_all_groups(kind),
        };
        let buffers = &function.attrs.program.buffers;
        let ping_pong_groups = ping_pong(body, function.region, buffers, is_not_divided, |op| is_lookup(function, op));
        Ok(ComputeGroups(ping_pong_groups?))
    }

    /// Returns the ops at the ends of each ping-pong turn in loops, with the compute role that executes them. A turn goes from the
    /// exponentials of full tiles to the store of an operand computed from them. If both roles computed exponentials at the same
    /// time, both would finish late and the tensor cores would be idle. If the roles alternate, each role computes during the other
    /// role's MMAs.
    pub(crate) fn ping_pong_roles(&self, function: &Function) -> BTreeMap<OpId, usize> {
        let body = &function.body;
        let is_slow = |op: &OpId| {
            let node = &body.ops[*op];
            let is_exponential = matches!(node.kind.core(), Some(Core::Unary { kind: Unary::Exp { .. } | Unary::Exp2 { .. }, .. }));
            let exponentials =
                node.results.first().filter(|_| is_exponential).map_or(0, |result| element_count(body.ty(*result).shape()));
            exponentials >= (MANY_EXPONENTIALS * function.attrs.program.warps * 32) as usize
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
                && self.is_for_body(function, block)
            {
                true => turn_ops.extend(turns),
                // A role that never gets a turn in this block would block the other role, so no op of the function takes turns.
                false if !turns.is_empty() => return BTreeMap::new(),
                false => {}
            }
        }
        turn_ops
    }

    /// Returns whether a block is the body of a `for` loop.
    fn is_for_body(&self, function: &Function, block: Block) -> bool {
        let body = &function.body;
        let mut loop_bodies =
            body.walk(function.region).into_iter().filter_map(|op| body.ops[op].kind.core().and_then(Core::for_body));
        loop_bodies.any(|region| body.block_of(region) == block)
    }

    /// Returns whether two buffers may share memory: the same compute role uses both, or no compute role uses one of them.
    pub(crate) fn may_share_memory(&self, one: Buffer, other: Buffer) -> bool {
        self.0.can_share_memory(one, other)
    }

    /// Returns whether two buffers overlap although their compute roles do not allow it.
    fn have_overlaps(&self, function: &Function) -> bool {
        let (placements, buffers) = (&function.attrs.placements, &function.attrs.program.buffers);
        let ranges = placements.iter().filter(|(buffer, _)| self.0.buffers.contains_key(buffer));
        let end = |place: &Placement, buffer: Buffer| place.offset + buffers[buffer].bytes() * place.depth;
        let mut ranges: Vec<(u32, u32, Buffer)> =
            ranges.map(|(buffer, place)| (place.offset, end(place, buffer), buffer)).collect();
        ranges.sort_unstable();
        (0..ranges.len()).any(|at| {
            let (_, end, one) = ranges[at];
            let overlapping = ranges[at + 1..].iter().take_while(|(start, ..)| *start < end);
            overlapping.into_iter().any(|(.., other)| !self.may_share_memory(one, *other))
        })
    }

    /// The number of compute roles.
    pub(crate) fn role_count(&self) -> usize {
        if self.0.second_accumulators.is_empty() { 1 } else { COMPONENTS }
    }

    /// The compute roles that execute an op. The op must be one that no other kind of role executes.
    pub(crate) fn roles_of_op(&self, op: OpId, kind: &Op) -> Vec<usize> {
        match self.0.ops.get(&op) {
            Some(group) => vec![*group],
            None if is_in_all_groups(kind) => (0..self.role_count()).collect(),
            None => vec![0],
        }
    }

    /// The compute role whose MMAs add to the accumulator in a buffer.
    pub(crate) fn role_of_accumulator(&self, accumulators: Buffer) -> usize {
        usize::from(self.0.second_accumulators.contains(&accumulators))
    }
}

/// Returns whether every compute role executes its own copy of an op. Such an op does not involve tiles.
fn is_in_all_groups(kind: &Op) -> bool {
    matches!(kind, Op::Barrier { .. } | Op::AsyncFence { .. })
}
