//! Purpose: place CTA barriers between conflicting accesses of different threads: to shared memory, and to global memory if a
//! token orders them ([`crate::token_barriers`]).
//! Requires: placements, materialized loops with their [`PipelinedLoops`], and pipeline steps.
//! Establishes: on every path a barrier separates two conflicting accesses. If the earlier access is a copy that no pipelined
//! loop waits for, a wait for the copy precedes the barrier.
//! Preserves: the order of all existing ops.
//! See also: Triton's `Membar` analysis.
//!
//! The pass assumes that all threads of the CTA execute every op. A barrier goes as late as possible, directly before the second
//! access. An MMA in flight reads until each warp has waited for it. Accesses to different stages of a multi-stage buffer do not
//! conflict: [`PipelinedLoops`] gives the iteration for which an op of a pipelined loop works.

use crate::buffer_accesses::{SchedulingAccess, buffer_accesses};
use crate::materialize::{LoopPart, PipelinedLoops};
use crate::token_barriers::TokenOrdering;
use crate::{tma_pipelines, tmem_alloc, tmem_mma_buffers};
use base::ir::{Op as OpId, Operation};
use base::{Arena, Region};
use core_dialect::core_ops::Core;
use sched::{Fill, Function, Op};
use tileas::{Buffer, Layout, LayoutId, Space};

pub(crate) fn run(function: &mut Function, pipelined_loops: &PipelinedLoops, layouts: &Arena<LayoutId, Layout>) {
    let region = function.region;
    let ordering = TokenOrdering::new(function, layouts);
    let mut pass = BarrierPass { threads: function.attrs.program.warps * 32, function, pipelined_loops, ordering };
    pass.place_barriers_in_region(region, Vec::new());
    *function = base::text::compact(function);
}

/// A buffer access since the last barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BarrierAccess {
    access: SchedulingAccess,
    /// For an op of a pipelined loop: the iteration whose data the op accesses, relative to the current iteration.
    iteration: Option<i32>,
    /// For a pipeline's buffer: whether a stage was acquired since this access. If so, the next write goes to another stage, or to
    /// the accessed stage after its drain. The flag implies nothing about other buffers in the same memory.
    released: bool,
}

impl BarrierAccess {
    /// The same access, with `iteration` relative to the next iteration.
    fn seen_from_next_iteration(self) -> BarrierAccess {
        BarrierAccess { iteration: self.iteration.map(|iteration| iteration - 1), ..self }
    }
}

/// The state of the walk that places barriers.
struct BarrierPass<'a> {
    function: &'a mut Function,
    pipelined_loops: &'a PipelinedLoops,
    threads: u32,
    ordering: TokenOrdering,
}

impl BarrierPass<'_> {
    /// The buffer accesses of an op that barriers must order. Accesses that a pipeline orders are left out.
    fn accesses(&self, op: OpId) -> Vec<BarrierAccess> {
        let (kind, iteration) = (&self.function.body.ops[op].kind, self.pipelined_loops.iterations.get(&op).copied());
        if tma_pipelines::buffer_filled_by_tma(kind).is_some() {
            // The pipeline orders the copy: all threads wait for the pipeline before they read the copied data.
            return Vec::new();
        }
        // Pipelines order the accesses of tensor memory MMAs and the accesses of threads to the same buffers.
        if tmem_mma_buffers::is_tmem_mma(kind) {
            return Vec::new();
        }
        // With one warpgroup, a single warp accesses each TMEM lane, in program order. With more warps, a thread may store an
        // operand over an accumulator that another warp still loads.
        let one_warpgroup = self.threads <= tileas::tensor_memory::LANES;
        let ordered_accesses =
            buffer_accesses(kind).into_iter().filter(|access| self.space_of(*access) == Space::Shared || !one_warpgroup);
        ordered_accesses.map(|access| BarrierAccess { access, iteration, released: false }).collect()
    }

    /// The accesses that a barrier directly before an op separates from pending accesses. For a loop, they include the accesses of
    /// its body before the first barrier: one barrier before the loop covers all iterations.
    fn accesses_to_order(&self, op: OpId) -> Vec<BarrierAccess> {
        let body = &self.function.body;
        let is_staged = |access: &BarrierAccess| self.function.attrs.placements[access.access.buffer()].depth > 1;
        let mut accesses = self.accesses(op);
        if let Some(loop_op) = body.ops[op].kind.core().and_then(Core::as_loop) {
            let ops = &body.blocks[loop_op.block(body)].ops;
            for &op in ops.iter().take_while(|op| !matches!(body.ops[**op].kind, Op::Barrier { .. })) {
                let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
                accesses.extend(inner.chain([op]).flat_map(|op| self.accesses(op)).filter(|access| !is_staged(access)));
            }
        }
        accesses
    }

    /// The accesses that other warps may still perform after an op, until the next barrier: the accesses of the op itself, and the
    /// reads of the MMAs for which the op waited.
    fn pending_after(&self, op: OpId) -> Vec<BarrierAccess> {
        let iteration = self.pipelined_loops.iterations.get(&op).copied();
        let freed =
            self.pipelined_loops.freed_operands.get(&op).into_iter().flatten().map(|buffer| SchedulingAccess::Read(*buffer));
        self.accesses(op).into_iter().chain(freed.map(|access| BarrierAccess { access, iteration, released: false })).collect()
    }

    /// Places the barriers of a region that starts with `pending` accesses since the last barrier. Returns the accesses pending
    /// at its end.
    fn place_barriers_in_region(&mut self, region: Region, mut pending: Vec<BarrierAccess>) -> Vec<BarrierAccess> {
        let block = self.function.body.block_of(region);
        let ops = std::mem::take(&mut self.function.body.blocks[block].ops);
        let mut out: Vec<OpId> = Vec::with_capacity(ops.len());
        for op in ops {
            if matches!(self.function.body.ops[op].kind, Op::Barrier { .. }) {
                pending.clear();
                self.ordering.record_barrier();
            }
            if let Op::PipelineAcquire { pipeline, .. } = self.function.body.ops[op].kind {
                let buffers = &self.function.attrs.pipelines[pipeline].buffers;
                pending.iter_mut().for_each(|access| access.released |= buffers.contains(&access.access.buffer()));
            }
            let new_accesses = self.accesses_to_order(op);
            let conflicts = |access: &BarrierAccess| pending.iter().any(|before| self.conflicts(*before, *access));
            if new_accesses.iter().any(conflicts) || self.ordering.needs_barrier(self.function, op) {
                self.emit_barrier(&mut out, &pending, self.function.body.ops[op].loc);
                pending.clear();
                self.ordering.record_barrier();
            }
            pending.extend(self.pending_after(op));
            let regions = self.function.body.ops[op].kind.regions();
            if !regions.is_empty() {
                pending = self.place_barriers_in_regions(op, &regions, pending);
            }
            self.ordering.record_op(&self.function.body, op);
            out.push(op);
        }
        self.function.body.blocks[block].ops = out;
        pending
    }

    /// Emits a barrier. If copies are pending that no pipelined loop waits for, a wait precedes the barrier.
    fn emit_barrier(&mut self, out: &mut Vec<OpId>, pending: &[BarrierAccess], loc: base::Loc) {
        let body = &mut self.function.body;
        if pending.iter().any(|access| matches!(access.access, SchedulingAccess::Copy(_)) && access.iteration.is_none()) {
            out.push(body.new_op(Op::CopyCommit {}, [], loc));
            out.push(body.new_op(Op::CopyWait { pending: 0 }, [], loc));
        }
        out.push(body.new_op(Op::Barrier { id: 0, threads: self.threads }, [], loc));
    }

    /// Places the barriers in the regions of an op. Returns the accesses that are pending after the op.
    fn place_barriers_in_regions(&mut self, op: OpId, regions: &[Region], pending: Vec<BarrierAccess>) -> Vec<BarrierAccess> {
        let body = &self.function.body;
        let is_loop = body.ops[op].kind.core().is_some_and(Core::is_loop);
        let loop_part = self.pipelined_loops.parts.get(&op).copied();
        let mut start = pending.clone();
        if is_loop {
            // An iteration starts with the accesses that the previous iteration left pending. If the body has no barriers, these
            // are all its accesses.
            let ops: Vec<OpId> = regions.iter().flat_map(|region| body.walk(*region)).collect();
            start.extend(ops.into_iter().flat_map(|op| self.pending_after(op)).map(BarrierAccess::seen_from_next_iteration));
        }
        let mut end = if is_loop { pending } else { Vec::new() };
        // Control may skip a barrier inside the op. So after the op, only the ordering that held before the op is certain.
        let ordering_before = self.ordering.clone();
        self.ordering.enter_regions(self.function, op);
        let ordering_inside = self.ordering.clone();
        for region in regions {
            self.ordering = ordering_inside.clone();
            let pending_at_end = self.place_barriers_in_region(*region, start.clone());
            end.extend(
                pending_at_end
                    .into_iter()
                    .map(|access| if loop_part.is_some() { access.seen_from_next_iteration() } else { access }),
            );
        }
        self.ordering = ordering_before;
        if loop_part.is_some_and(LoopPart::is_last) {
            end.iter_mut().for_each(|access| access.iteration = None);
        }
        end.sort_unstable();
        end.dedup();
        end
    }

    /// The memory space of the accessed buffer.
    fn space_of(&self, access: SchedulingAccess) -> Space {
        self.function.attrs.program.buffers[access.buffer()].space
    }

    /// Returns whether a buffer has a pipeline that threads fill.
    fn is_filled_by_threads_through_pipeline(&self, buffer: Buffer) -> bool {
        self.function.attrs.pipeline_of(buffer).is_some_and(|(_, info)| info.fill == Fill::Threads)
    }

    /// Returns whether a barrier must separate access `a` from the later access `b`.
    fn conflicts(&self, a: BarrierAccess, b: BarrierAccess) -> bool {
        let attrs = &self.function.attrs;
        match [a, b].map(|access| self.space_of(access.access)) {
            // The pipeline orders fills against drains, but does not order two fills of one stage.
            [Space::Shared, Space::Shared]
                if a.access.buffer() == b.access.buffer() && self.is_filled_by_threads_through_pipeline(a.access.buffer()) =>
            {
                let fills = |access: BarrierAccess| !matches!(access.access, SchedulingAccess::Read(_));
                return fills(a) && fills(b) && !a.released;
            }
            [Space::Shared, Space::Shared] => {}
            [Space::Tensor, Space::Tensor] => {
                return match (a.access, b.access) {
                    (SchedulingAccess::Read(accumulators), SchedulingAccess::Write(operand)) => {
                        accumulators != operand && tmem_alloc::columns_overlap(self.function, accumulators, operand)
                    }
                    _ => false,
                };
            }
            _ => return false,
        }
        let buffer = a.access.buffer();
        if let (Some(first), Some(second)) = (a.iteration, b.iteration)
            && buffer == b.access.buffer()
            && (first - second).rem_euclid(attrs.placements[buffer].depth as i32) != 0
        {
            return false;
        }
        let range = |access: SchedulingAccess| {
            let (place, info) = (attrs.placements[access.buffer()], &attrs.program.buffers[access.buffer()]);
            (place.offset, place.offset + info.bytes() * place.depth)
        };
        let ((a_start, a_end), (b_start, b_end)) = (range(a.access), range(b.access));
        a.access.conflicts(b.access) && a_start < b_end && b_start < a_end
    }
}
