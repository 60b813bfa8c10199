//! Assigns the TMA copies of loops to pipelines, and places the mbarriers of these pipelines.
//!
//! Copies of a loop with equal prefetch distance and depth fill the stages of one pipeline together. Copies that do not run ahead
//! share a pipeline only if the same MMA reads them. Copies that fill one buffer in alternation fill consecutive stages of its
//! pipeline. These copies are issued in the iteration that reads them, but a producer warp runs ahead of the readers. Producer and
//! consumers start at the first stage of a pipeline. A loop that runs again continues at the stage after the last stage that it
//! used. A loop with TMA copies that could not be pipelined gets a schedule with one stage here. Reason: threads can wait for TMA
//! copies only through a pipeline.

use crate::buffer_accesses::{SchedulingAccess, buffer_accesses};
use crate::for_loops::{for_body, for_loops};
use crate::single_role_pipelines;
use base::Block;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use sched::{Drain, Fill, Function, FunctionAttrs, LoopSchedule, Op, Pipeline, PipelineInfo, ScheduleEntry};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tileas::{Buffer, Space};

/// The buffer that an op fills if the op is a TMA copy, or `None`.
pub(crate) fn buffer_filled_by_tma(op: &Op) -> Option<Buffer> {
    op.effects().filled_by_tma()
}

/// The schedules of a function's loops. Loops with TMA copies but without a schedule get a serial one.
pub(crate) fn with_serial_schedules(function: &Function, all_schedules: &[LoopSchedule]) -> Vec<LoopSchedule> {
    let own_schedules = all_schedules.iter().filter(|schedule| schedule.function == function.name).cloned();
    let mut own_schedules: Vec<LoopSchedule> = own_schedules.collect();
    for (index, for_op) in (0..).zip(for_loops(function)) {
        let ops = &function.body.blocks[function.body.block_of(for_body(function, for_op))].ops;
        let by_tma = ops.iter().any(|op| buffer_filled_by_tma(&function.body.ops[*op].kind).is_some());
        if by_tma && own_schedules.iter().all(|schedule| schedule.index != index) {
            own_schedules.push(serial_schedule(function, index, ops.len() as u32 - 1));
        }
    }
    own_schedules.sort_by_key(|schedule| schedule.index);
    own_schedules
}

/// A schedule with one stage: iterations do not overlap.
fn serial_schedule(function: &Function, index: u32, ops: u32) -> LoopSchedule {
    LoopSchedule {
        function: function.name.clone(),
        index,
        interval: ops.max(1),
        resource_bound: 0,
        recurrence_bound: 0,
        in_flight: false,
        entries: (0..ops).map(|op| ScheduleEntry { op, stage: 0, cycle: op }).collect(),
    }
}

/// Upper bound on the shared-memory bytes of the mbarriers of a function's TMA pipelines.
pub(crate) fn barrier_bytes(function: &Function, depth: impl Fn(Buffer) -> u32) -> u32 {
    let body = &function.body;
    let buffers = body.walk(function.region).into_iter().filter_map(|op| buffer_filled_by_tma(&body.ops[op].kind));
    buffers.map(|buffer| 2 * PipelineInfo::BARRIER_BYTES * depth(buffer)).sum()
}

/// Returns whether a loop or condition encloses a loop, given the block of the loop's body.
pub(crate) fn is_nested(function: &Function, block: Block) -> bool {
    let body = &function.body;
    let mut regions = body.blocks[function.entry()].ops.iter().flat_map(|op| body.ops[*op].kind.regions());
    regions.all(|region| body.block_of(region) != block)
}

/// Upper bound on the shared-memory bytes of the mbarriers of the "buffers free" signals.
pub(crate) fn signal_barrier_bytes(function: &Function) -> u32 {
    let body = &function.body;
    let has_tma = |for_op: &OpId| {
        let ops = &body.blocks[body.block_of(for_body(function, *for_op))].ops;
        ops.iter().any(|op| buffer_filled_by_tma(&body.ops[*op].kind).is_some())
    };
    for_loops(function).iter().filter(|for_op| has_tma(for_op)).count() as u32 * 2 * PipelineInfo::BARRIER_BYTES
}

/// Returns whether other ops have used the memory of these buffers before a loop starts. If another op encloses the loop, all ops
/// in that op count, because an earlier iteration may have executed them.
pub(crate) fn is_memory_used_before(function: &Function, for_op: OpId, buffers: &[Buffer]) -> bool {
    let (body, attrs) = (&function.body, &function.attrs);
    let range = |buffer: Buffer| {
        let (place, info) = (attrs.placements[buffer], &attrs.program.buffers[buffer]);
        place.offset..place.offset + info.bytes() * place.depth
    };
    let overlaps = |other: Buffer| {
        let other = range(other);
        buffers.iter().map(|own| range(*own)).any(|own| own.start < other.end && other.start < own.end)
    };
    let op_and_inner_ops = |op: OpId| {
        let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
        std::iter::once(op).chain(inner).collect::<Vec<_>>()
    };
    for &op in body.blocks[function.entry()].ops.iter().take_while(|op| **op != for_op) {
        let ops = op_and_inner_ops(op);
        let accessed = ops.iter().flat_map(|op| buffer_accesses(&body.ops[*op].kind)).map(SchedulingAccess::buffer);
        let mut smem_buffers = accessed.filter(|buffer| attrs.program.buffers[*buffer].space == Space::Shared);
        if smem_buffers.any(|buffer| !buffers.contains(&buffer) && overlaps(buffer)) {
            return true;
        }
        if ops.contains(&for_op) {
            break;
        }
    }
    false
}

/// The buffers that several copies of a loop's body fill in alternation.
pub(crate) fn buffers_filled_alternately(function: &Function, block: Block) -> BTreeSet<Buffer> {
    let body = &function.body;
    let mut seen = BTreeSet::new();
    let filled = body.blocks[block].ops.iter().filter_map(|op| buffer_filled_by_tma(&body.ops[*op].kind));
    filled.filter(|buffer| !seen.insert(*buffer)).collect()
}

/// Returns whether a loop of the function has copies that fill a buffer in alternation.
pub(crate) fn has_alternating_copies(function: &Function) -> bool {
    let body_of = |for_op: OpId| function.body.block_of(for_body(function, for_op));
    for_loops(function).into_iter().any(|for_op| !buffers_filled_alternately(function, body_of(for_op)).is_empty())
}

/// A TMA copy of a loop, with the properties that decide which copies share its pipeline.
pub(crate) struct TmaCopy {
    pub(crate) op: OpId,
    pub(crate) buffer: Buffer,
    /// The prefetch distance in iterations.
    pub(crate) prefetch_distance: u32,
    /// Whether other copies of the loop also fill the buffer.
    pub(crate) alternating: bool,
    /// The first tensor memory MMA that reads the buffer, or `None` if threads read it.
    pub(crate) mma: Option<OpId>,
    /// The number of MMAs of an iteration that precede the first read of the buffer.
    pub(crate) mmas_before: usize,
}

/// Copies that fill a stage of a pipeline together, in issue order. Fields with the same name as in [`TmaCopy`] have the same
/// meaning.
pub(crate) struct CopyGroup {
    pub(crate) copies: Vec<(OpId, Buffer)>,
    pub(crate) prefetch_distance: u32,
    pub(crate) alternating: bool,
    mma: Option<OpId>,
    mmas_before: usize,
    /// The number of stages of the pipeline.
    pub(crate) depth: u32,
    /// What drains the stages: MMAs or threads.
    pub(crate) drain: Drain,
    pub(crate) pipeline: Pipeline,
}

impl CopyGroup {
    /// Returns whether a copy belongs to the group.
    pub(crate) fn is_filled_by(&self, op: OpId) -> bool {
        self.copies.iter().any(|(copy, _)| *copy == op)
    }

    /// Returns whether the group has one stage and a prefetch distance of 0. Its copies then fill the stage in the iteration that
    /// reads it.
    fn is_single(&self) -> bool {
        self.depth == 1 && self.prefetch_distance == 0
    }

    /// Returns whether both groups have one stage and no prefetch distance, and are first read after different numbers of MMAs.
    pub(crate) fn alternates_with(&self, other: &CopyGroup) -> bool {
        self.is_single() && other.is_single() && self.mmas_before != other.mmas_before
    }
}

/// Groups the TMA copies of a loop, and adds the pipelines of the groups to the function.
pub(crate) fn group_copies(attrs: &mut FunctionAttrs, copies: &[TmaCopy]) -> Vec<CopyGroup> {
    let mut groups: Vec<CopyGroup> = Vec::new();
    for &TmaCopy { op, buffer, prefetch_distance, alternating, mma, mmas_before } in copies {
        let depth = attrs.placements[buffer].depth;
        let drain = if mma.is_some() { Drain::Mma } else { Drain::Threads };
        let fits_group = |group: &&mut CopyGroup| {
            let have_same_reader =
                prefetch_distance > 0 || group.mma == mma && (!group.is_single() || group.mmas_before == mmas_before);
            (group.prefetch_distance, group.depth, group.drain) == (prefetch_distance, depth, drain)
                && have_same_reader
                && !group.alternating
                && !alternating
        };
        match groups.iter_mut().find(fits_group) {
            Some(group) => group.copies.push((op, buffer)),
            // The pipeline is added once all buffers of the group are known.
            None => groups.push(CopyGroup {
                copies: vec![(op, buffer)],
                prefetch_distance,
                alternating,
                mma,
                mmas_before,
                depth,
                drain,
                pipeline: Pipeline(0),
            }),
        }
    }
    for group in &mut groups {
        // The stage is full when all copies have arrived, so the largest copy is issued first.
        group.copies.sort_by_key(|(_, buffer)| Reverse(attrs.program.buffers[*buffer].bytes()));
        let buffers: Vec<Buffer> = group.copies.iter().map(|(_, buffer)| *buffer).collect();
        // If an earlier loop or an earlier copy of this loop fills the same buffers, the group shares its pipeline.
        if let Some((pipeline, _)) = attrs.pipelines.iter().find(|(_, info)| info.buffers == buffers) {
            group.pipeline = pipeline;
            continue;
        }
        group.pipeline = single_role_pipelines::add(attrs, buffers, group.depth, Fill::Tma, group.drain);
    }
    groups
}

/// The bodies of the loops whose TMA copies fill memory that earlier ops have used.
pub(crate) fn loops_that_reuse_memory(function: &Function) -> impl Iterator<Item = Block> {
    let body = &function.body;
    for_loops(function).into_iter().filter_map(|for_op| {
        let block = body.block_of(for_body(function, for_op));
        let staged_buffers: Vec<Buffer> =
            body.blocks[block].ops.iter().filter_map(|op| buffer_filled_by_tma(&body.ops[*op].kind)).collect();
        is_memory_used_before(function, for_op, &staged_buffers).then_some(block)
    })
}

/// Adds a signal-only pipeline: the compute role signals the producer warp that the memory of a loop's stages is free.
pub(crate) fn add_signal_only_pipeline(attrs: &mut FunctionAttrs) -> Pipeline {
    single_role_pipelines::add(attrs, Vec::new(), 1, Fill::Threads, Drain::Threads)
}

/// The top-level loops whose TMA copies fill a buffer.
pub(crate) fn loops_that_fill(function: &Function, buffer: Buffer) -> Vec<OpId> {
    let loops = function.body.blocks[function.entry()].ops.iter().copied().filter(|op| is_loop(function, *op));
    loops.filter(|op| tma_copies(function, *op).iter().any(|(_, other)| *other == buffer)).collect()
}

pub(crate) fn is_loop(function: &Function, op: OpId) -> bool {
    function.body.ops[op].kind.core().is_some_and(Core::is_for)
}

/// The TMA copies of a loop's body, and the buffers that they fill.
pub(crate) fn tma_copies(function: &Function, for_op: OpId) -> Vec<(OpId, Buffer)> {
    let body = &function.body;
    let ops = &body.blocks[body.block_of(for_body(function, for_op))].ops;
    ops.iter().filter_map(|op| Some((*op, buffer_filled_by_tma(&body.ops[*op].kind)?))).collect()
}
