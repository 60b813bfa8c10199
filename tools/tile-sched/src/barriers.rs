//! Places barriers: between two accesses of different threads to the same shared memory, of which one is a write, and between
//! such accesses to global memory that a token orders ([`crate::token_barriers`]).
//!
//! Requires: placements. Establishes: on every path, a barrier stands between such accesses, and before it a wait for the copies
//! that no pipelined loop waits for itself. Every op is taken to be executed by all threads of the block; a barrier is put as
//! late as possible, directly before the second access. A mma in flight reads until each warp has waited for it. Accesses to
//! different stages of a staged_buffer do not meet: which iteration an op of a pipelined loop works for is known from [`Marks`].

use crate::buffer_accesses::{Touch, touches};
use crate::materialize::{LoopPart, Marks};
use crate::tma_pipelines;
use crate::token_barriers::Ordering;
use crate::{tmem_alloc, tmem_pipelines};
use base::ir::{Op as OpId, Operation};
use base::{Arena, Region};
use core_dialect::core_ops::Core;
use sched::{Fill, Function, Op};
use tileas::{Buffer, Layout, LayoutId, Space};

pub(crate) fn run(function: &mut Function, marks: &Marks, layouts: &Arena<LayoutId, Layout>) {
    let region = function.region;
    let ordering = Ordering::new(function, layouts);
    let mut pass = BarrierPass { threads: function.attrs.program.warps * 32, function, marks, ordering };
    pass.region(region, Vec::new());
    *function = base::text::compact(function);
}

/// An access since the last barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BarrierAccess {
    touch: Touch,
    /// Of an op of a pipelined loop: the iteration it works for, counted from the current one.
    iteration: Option<i32>,
    /// Of a buffer of a pipeline: a stage was acquired since, so what is written next is in another stage, or where this was drained. Of
    /// what lies in the same place in other buffers that says nothing.
    released: bool,
}

impl BarrierAccess {
    /// The access as the next iteration sees it.
    fn before(self) -> BarrierAccess {
        BarrierAccess { iteration: self.iteration.map(|iteration| iteration - 1), ..self }
    }
}

struct BarrierPass<'a> {
    function: &'a mut Function,
    marks: &'a Marks,
    threads: u32,
    ordering: Ordering,
}

impl BarrierPass<'_> {
    fn accesses(&self, op: OpId) -> Vec<BarrierAccess> {
        let (kind, iteration) = (&self.function.body.ops[op].kind, self.marks.iterations.get(&op).copied());
        if tma_pipelines::filled(kind).is_some() {
            // The steps of its pipeline order it: all threads wait for it before they go on.
            return Vec::new();
        }
        // What mmas in tensor memory touch, and what threads do there, pipelines order; but for operands in the place of accumulators that
        // other warps reach, too.
        if tmem_pipelines::is_mma(kind) {
            return Vec::new();
        }
        let alone = self.threads <= tileas::tensor_memory::LANES;
        let ordered = touches(kind).into_iter().filter(|touch| self.space(*touch) == Space::Shared || !alone);
        ordered.map(|touch| BarrierAccess { touch, iteration, released: false }).collect()
    }

    /// The accesses before which a barrier would stand in front of an op. What a loop does before the first barrier of a iteration it
    /// does in every iteration, so one barrier in front of it is for all of them.
    fn met(&self, op: OpId) -> Vec<BarrierAccess> {
        let body = &self.function.body;
        let is_staged = |access: &BarrierAccess| self.function.attrs.placements[access.touch.buffer()].depth > 1;
        let mut met = self.accesses(op);
        if let Some(Core::For { body: region, .. } | Core::Loop { body: region, .. }) = body.ops[op].kind.core() {
            let ops = &body.blocks[body.block_of(*region)].ops;
            for &op in ops.iter().take_while(|op| !matches!(body.ops[**op].kind, Op::Barrier { .. })) {
                let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
                met.extend(inner.chain([op]).flat_map(|op| self.accesses(op)).filter(|access| !is_staged(access)));
            }
        }
        met
    }

    /// What other warps may do until the next barrier, because of an op: its accesses, and the reads of mmas it has waited for.
    fn left_by(&self, op: OpId) -> Vec<BarrierAccess> {
        let iteration = self.marks.iterations.get(&op).copied();
        let freed = self.marks.freed.get(&op).into_iter().flatten().map(|buffer| Touch::Read(*buffer));
        self.accesses(op).into_iter().chain(freed.map(|touch| BarrierAccess { touch, iteration, released: false })).collect()
    }

    /// Places the barriers of a region that starts with `pending` accesses since the last barrier; returns those at its end.
    fn region(&mut self, region: Region, mut pending: Vec<BarrierAccess>) -> Vec<BarrierAccess> {
        let block = self.function.body.block_of(region);
        let ops = std::mem::take(&mut self.function.body.blocks[block].ops);
        let mut out: Vec<OpId> = Vec::with_capacity(ops.len());
        for op in ops {
            if matches!(self.function.body.ops[op].kind, Op::Barrier { .. }) {
                pending.clear();
                self.ordering.barrier();
            }
            if let Op::PipelineAcquire { pipeline, .. } = self.function.body.ops[op].kind {
                let buffers = &self.function.attrs.pipelines[pipeline].buffers;
                pending.iter_mut().for_each(|access| access.released |= buffers.contains(&access.touch.buffer()));
            }
            let now = self.met(op);
            let conflict = |now: &BarrierAccess| pending.iter().any(|before| self.conflict(*before, *now));
            if now.iter().any(conflict) || !common::fault_injected("sched.order") && self.ordering.needs_barrier(self.function, op)
            {
                self.barrier(&mut out, &pending, self.function.body.ops[op].loc);
                pending.clear();
                self.ordering.barrier();
            }
            pending.extend(self.left_by(op));
            let regions = self.function.body.ops[op].kind.regions();
            if !regions.is_empty() {
                pending = self.inner(op, &regions, pending);
            }
            self.ordering.record(&self.function.body, op);
            out.push(op);
        }
        self.function.body.blocks[block].ops = out;
        pending
    }

    fn barrier(&mut self, out: &mut Vec<OpId>, pending: &[BarrierAccess], loc: base::Loc) {
        let body = &mut self.function.body;
        if pending.iter().any(|access| matches!(access.touch, Touch::Copy(_)) && access.iteration.is_none()) {
            out.push(body.new_op(Op::CopyCommit {}, [], loc));
            out.push(body.new_op(Op::CopyWait { pending: 0 }, [], loc));
        }
        if !common::fault_injected("sched.barrier") {
            out.push(body.new_op(Op::Barrier { id: 0, threads: self.threads }, [], loc));
        }
    }

    fn inner(&mut self, op: OpId, regions: &[Region], pending: Vec<BarrierAccess>) -> Vec<BarrierAccess> {
        let body = &self.function.body;
        let is_loop = matches!(body.ops[op].kind.core(), Some(Core::For { .. } | Core::Loop { .. }));
        let part = self.marks.loops.get(&op).copied();
        let mut start = pending.clone();
        if is_loop {
            // A iteration starts with what the iteration before left; without its barriers that is all its accesses.
            let all: Vec<OpId> = regions.iter().flat_map(|region| body.walk(*region)).collect();
            start.extend(all.into_iter().flat_map(|op| self.left_by(op)).map(BarrierAccess::before));
        }
        let mut end = if is_loop { pending } else { Vec::new() };
        // A barrier inside may not have been met when the op ends: what is known before it holds after it.
        let outside = self.ordering.clone();
        self.ordering.enter(self.function, op);
        let entered = self.ordering.clone();
        for region in regions {
            self.ordering = entered.clone();
            let left = self.region(*region, start.clone());
            end.extend(left.into_iter().map(|access| if part.is_some() { access.before() } else { access }));
        }
        self.ordering = outside;
        if part.is_some_and(LoopPart::is_last) {
            end.iter_mut().for_each(|access| access.iteration = None);
        }
        end.sort_unstable();
        end.dedup();
        end
    }

    fn space(&self, touch: Touch) -> Space {
        self.function.attrs.program.buffers[touch.buffer()].space
    }

    /// Whether threads fill a buffer stage by stage.
    fn has_pipeline(&self, buffer: Buffer) -> bool {
        self.function.attrs.pipeline_of(buffer).is_some_and(|(_, info)| info.fill == Fill::Threads)
    }

    fn conflict(&self, a: BarrierAccess, b: BarrierAccess) -> bool {
        let attrs = &self.function.attrs;
        match [a, b].map(|access| self.space(access.touch)) {
            // The steps of its pipeline order what fills it and what drains it, but not what fills the same stage twice.
            [Space::Shared, Space::Shared] if a.touch.buffer() == b.touch.buffer() && self.has_pipeline(a.touch.buffer()) => {
                let fills = |access: BarrierAccess| !matches!(access.touch, Touch::Read(_));
                return fills(a) && fills(b) && !a.released;
            }
            [Space::Shared, Space::Shared] => {}
            [Space::Tensor, Space::Tensor] => {
                return match (a.touch, b.touch) {
                    (Touch::Read(accumulators), Touch::Write(operand)) => {
                        accumulators != operand && tmem_alloc::may_meet(self.function, accumulators, operand)
                    }
                    _ => false,
                };
            }
            _ => return false,
        }
        let buffer = a.touch.buffer();
        if let (Some(first), Some(second)) = (a.iteration, b.iteration)
            && buffer == b.touch.buffer()
            && (first - second).rem_euclid(attrs.placements[buffer].depth as i32) != 0
        {
            return false;
        }
        let range = |touch: Touch| {
            let (place, info) = (attrs.placements[touch.buffer()], &attrs.program.buffers[touch.buffer()]);
            (place.offset, place.offset + info.bytes() * place.depth)
        };
        let ((a_start, a_end), (b_start, b_end)) = (range(a.touch), range(b.touch));
        a.touch.conflicts(b.touch) && a_start < b_end && b_start < a_end
    }
}
