//! Loops whose copies the copy engine makes: which pipelines they fill, and where those lie.
//!
//! Copies of a loop that run equally far ahead, in staged_buffers of equally many stages, fill the stages of one pipeline together; of those that do
//! not run ahead each has a pipeline that another op reads. Copies that fill a buffer in turn fill one stage after the other of its pipeline, and
//! do not run ahead: an warp_role of their own does. Both sides begin with the first stage, and where their loop runs again with
//! the stage behind the last one. A loop that could not be pipelined has a schedule of one stage here, since such copies are waited
//! for by their pipeline and by nothing else.

use crate::buffer_accesses::{Touch, touches};
use crate::graph::{loops, region_of};
use crate::single_role_pipelines;
use base::Block;
use base::ir::{Op as OpId, Operation};
use sched::{Drain, Fill, Function, FunctionAttrs, LoopSchedule, Op, Pipeline, PipelineInfo, ScheduleEntry};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tileas::{Buffer, Space};

/// The buffer that an op fills by tma_copies.
pub(crate) fn filled(op: &Op) -> Option<Buffer> {
    op.effects().filled_by_tma()
}

/// The schedules of a function's loops, with one for each loop that has copies by tma_copies and none yet.
pub(crate) fn schedules(function: &Function, all: &[LoopSchedule]) -> Vec<LoopSchedule> {
    let own = all.iter().filter(|schedule| schedule.function == function.name).cloned();
    let mut own: Vec<LoopSchedule> = own.collect();
    for (index, for_op) in (0..).zip(loops(function)) {
        let ops = &function.body.blocks[function.body.block_of(region_of(function, for_op))].ops;
        let by_tma = ops.iter().any(|op| filled(&function.body.ops[*op].kind).is_some());
        if by_tma && own.iter().all(|schedule| schedule.index != index) {
            own.push(serial(function, index, ops.len() as u32 - 1));
        }
    }
    own.sort_by_key(|schedule| schedule.index);
    own
}

/// One op after the other.
fn serial(function: &Function, index: u32, ops: u32) -> LoopSchedule {
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

/// Bytes that the barriers of a function's pipelines take at most, behind its buffers.
pub(crate) fn barrier_bytes(function: &Function, depth: impl Fn(Buffer) -> u32) -> u32 {
    let body = &function.body;
    let buffers = body.walk(function.region).into_iter().filter_map(|op| filled(&body.ops[op].kind));
    buffers.map(|buffer| 2 * PipelineInfo::BARRIER * depth(buffer)).sum()
}

/// Whether a loop's body is inside more than the function.
pub(crate) fn is_nested(function: &Function, block: Block) -> bool {
    let body = &function.body;
    let mut regions = body.blocks[function.entry()].ops.iter().flat_map(|op| body.ops[*op].kind.regions());
    regions.all(|region| body.block_of(region) != block)
}

/// Bytes that the barriers take at most by which a function's loops are told of free memory.
pub(crate) fn signal_barrier_bytes(function: &Function) -> u32 {
    let body = &function.body;
    let has_tma = |for_op: &OpId| {
        let ops = &body.blocks[body.block_of(region_of(function, *for_op))].ops;
        ops.iter().any(|op| filled(&body.ops[*op].kind).is_some())
    };
    loops(function).iter().filter(|for_op| has_tma(for_op)).count() as u32 * 2 * PipelineInfo::BARRIER
}

/// Whether something else has had the memory of these buffers when a loop begins, perhaps in an earlier iteration of a loop around it.
pub(crate) fn had_before(function: &Function, for_op: OpId, buffers: &[Buffer]) -> bool {
    let (body, attrs) = (&function.body, &function.attrs);
    let range = |buffer: Buffer| {
        let (place, info) = (attrs.placements[buffer], &attrs.program.buffers[buffer]);
        place.offset..place.offset + info.bytes() * place.depth
    };
    let meets = |other: Buffer| {
        let other = range(other);
        buffers.iter().map(|own| range(*own)).any(|own| own.start < other.end && other.start < own.end)
    };
    let with_inner = |op: OpId| {
        let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
        std::iter::once(op).chain(inner).collect::<Vec<_>>()
    };
    for &op in body.blocks[function.entry()].ops.iter().take_while(|op| **op != for_op) {
        let all = with_inner(op);
        let touched = all.iter().flat_map(|op| touches(&body.ops[*op].kind)).map(Touch::buffer);
        let mut shared = touched.filter(|buffer| attrs.program.buffers[*buffer].space == Space::Shared);
        if shared.any(|buffer| !buffers.contains(&buffer) && meets(buffer)) {
            return true;
        }
        if all.contains(&for_op) {
            break;
        }
    }
    false
}

/// The buffers that several copies of a loop's body fill in turn.
pub(crate) fn filled_alternately(function: &Function, block: Block) -> BTreeSet<Buffer> {
    let body = &function.body;
    let mut seen = BTreeSet::new();
    let filled = body.blocks[block].ops.iter().filter_map(|op| filled(&body.ops[*op].kind));
    filled.filter(|buffer| !seen.insert(*buffer)).collect()
}

pub(crate) fn are_filled_alternately(function: &Function) -> bool {
    let body_of = |for_op: OpId| function.body.block_of(region_of(function, for_op));
    loops(function).into_iter().any(|for_op| !filled_alternately(function, body_of(for_op)).is_empty())
}

/// A copy of a loop, and by what it is told which others fill its pipeline, too.
pub(crate) struct Filled {
    pub(crate) op: OpId,
    pub(crate) buffer: Buffer,
    pub(crate) ahead: u32,
    /// Whether other copies of the loop fill the buffer, too.
    pub(crate) alternating: bool,
    /// The first mma into tensor memory that reads it; none where threads do.
    pub(crate) mma: Option<OpId>,
    /// How many mmas of an iteration are made before it is read.
    pub(crate) mmas_before: usize,
}

/// Copies that fill a pipeline together, in the order in which they are requested for.
pub(crate) struct Group {
    pub(crate) copies: Vec<(OpId, Buffer)>,
    pub(crate) ahead: u32,
    pub(crate) alternating: bool,
    mma: Option<OpId>,
    mmas_before: usize,
    pub(crate) depth: u32,
    pub(crate) drain: Drain,
    pub(crate) pipeline: Pipeline,
}

impl Group {
    /// Whether a copy is one of them.
    pub(crate) fn is_filled_by(&self, op: OpId) -> bool {
        self.copies.iter().any(|(copy, _)| *copy == op)
    }

    /// Whether it has no stage to fill while another is read: it is filled while what others fill is.
    fn is_single(&self) -> bool {
        self.depth == 1 && self.ahead == 0
    }

    /// Whether both have one stage, and mmas read those one after the other.
    pub(crate) fn alternates_with(&self, other: &Group) -> bool {
        self.is_single() && other.is_single() && self.mmas_before != other.mmas_before
    }
}

/// The pipelines of a loop, which are added to the function's.
pub(crate) fn groups(attrs: &mut FunctionAttrs, copies: &[Filled]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &Filled { op, buffer, ahead, alternating, mma, mmas_before } in copies {
        let depth = attrs.placements[buffer].depth;
        let drain = if mma.is_some() { Drain::Mma } else { Drain::Threads };
        let alike = |group: &&mut Group| {
            let together = ahead > 0 || group.mma == mma && (!group.is_single() || group.mmas_before == mmas_before);
            (group.ahead, group.depth, group.drain) == (ahead, depth, drain) && together && !group.alternating && !alternating
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.copies.push((op, buffer)),
            // The pipeline is known when all its buffers are.
            None => groups.push(Group {
                copies: vec![(op, buffer)],
                ahead,
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
        // The stage is full when all have arrived: what takes longest is requested for first.
        group.copies.sort_by_key(|(_, buffer)| Reverse(attrs.program.buffers[*buffer].bytes()));
        let buffers: Vec<Buffer> = group.copies.iter().map(|(_, buffer)| *buffer).collect();
        // A loop before may fill the same staged_buffers, or a copy before the same staged_buffer.
        if let Some((pipeline, _)) = attrs.pipelines.iter().find(|(_, info)| info.buffers == buffers) {
            group.pipeline = pipeline;
            continue;
        }
        group.pipeline = single_role_pipelines::add(attrs, buffers, group.depth, Fill::Tma, group.drain);
    }
    groups
}

/// The bodies of loops of which the tma_copies go where something else was before.
pub(crate) fn after_others(function: &Function) -> impl Iterator<Item = Block> {
    let body = &function.body;
    loops(function).into_iter().filter_map(|for_op| {
        let block = body.block_of(region_of(function, for_op));
        let staged_buffers: Vec<Buffer> = body.blocks[block].ops.iter().filter_map(|op| filled(&body.ops[*op].kind)).collect();
        had_before(function, for_op, &staged_buffers).then_some(block)
    })
}

/// A pipeline by which who computes tells who asks for tma_copies that the memory of a loop's stages is free.
pub(crate) fn telling(attrs: &mut FunctionAttrs) -> Pipeline {
    single_role_pipelines::add(attrs, Vec::new(), 1, Fill::Threads, Drain::Threads)
}
