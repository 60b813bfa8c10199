//! Executes `.sched` programs: `.as` ops with the buffer placement and the barriers of the scheduler.
//!
//! The scheduler has several phases, and its output after each phase is a `.sched` program. Before the last phase `materialize`, a
//! program may lack barriers, so the threads run in lockstep. Before phase `alloc`, buffers have no addresses, so the executor
//! places the buffers without overlap.

use crate::exec_as::{DistributedOp, OpClass, SourceFunction};
use crate::race_detector::WarpRole;
use crate::race_detector::cta_memory::{BufferPlacement, COLUMN_BYTES, separate_placements, stage_bytes};
use crate::race_detector::pipelines::{BarrierSide, PipelineConfig};
use base::{DebugInfo, Value};
use sched::packed_ops::Paired;
use sched::{Drain, Fill, Function, FunctionAttrs, Module, Op, Phase, Pipeline, PipelineInfo};
use tileas::Space;

impl DistributedOp for Op {
    fn op_class(&self) -> OpClass<'_> {
        match self {
            Op::Core(op) | Op::Pairs { op: Paired(op) } => OpClass::As(op),
            Op::Barrier { threads, .. } => OpClass::Barrier { threads: *threads },
            Op::CopyCommit {} => OpClass::CommitCopies,
            Op::CopyWait { pending } => OpClass::WaitForCopies { pending: *pending },
            Op::GroupWait { pending, .. } => OpClass::WaitForMmas { pending: *pending },
            Op::WarpRole { role: warp_role, body } => OpClass::WarpRole { index: warp_role.0 as usize, body: *body },
            Op::PipelineAcquire { pipeline, stage, phase } => wait_for_pipeline(*pipeline, *stage, BarrierSide::Empty, *phase),
            Op::PipelineWait { pipeline, stage, phase } => wait_for_pipeline(*pipeline, *stage, BarrierSide::Full, *phase),
            Op::PipelineCommit { pipeline, stage } => arrive_at_pipeline(*pipeline, *stage, BarrierSide::Full),
            Op::PipelineRelease { pipeline, stage } => arrive_at_pipeline(*pipeline, *stage, BarrierSide::Empty),
            Op::AsyncFence {} => OpClass::Fence,
            // These ops do nothing. Reason: the executor frees an allocation when its region ends, and tile blocks print one after
            // another.
            Op::Free { .. } | Op::PrintLock {} | Op::PrintStage { .. } => OpClass::Nothing,
        }
    }
}

/// Returns the class of an op that waits at a barrier of a pipeline stage.
fn wait_for_pipeline<'a>(pipeline: Pipeline, stage: Option<Value>, side: BarrierSide, phase: Value) -> OpClass<'a> {
    OpClass::WaitForPipeline { pipeline: pipeline.0 as usize, stage, side, phase }
}
/// Returns the class of an op that arrives at a barrier of a pipeline stage.
fn arrive_at_pipeline<'a>(pipeline: Pipeline, stage: Option<Value>, side: BarrierSide) -> OpClass<'a> {
    OpClass::ArriveAtPipeline { pipeline: pipeline.0 as usize, stage, side }
}

/// Returns a function of `.sched` with the placement of its buffers, its warp roles and its pipelines.
pub(crate) fn source_function<'a>(
    module: &'a Module,
    function: &'a Function,
    phase: Phase,
    debug: &'a DebugInfo,
) -> SourceFunction<'a, Op> {
    let attrs = &function.attrs;
    let buffers = attrs.program.buffers.values();
    // The executor keeps shared memory and tensor memory of a CTA in one byte array: shared memory first, then tensor memory.
    let tmem_base = (attrs.shared_bytes as usize).next_multiple_of(COLUMN_BYTES);
    let mut placements: Vec<BufferPlacement> = match phase.has_placements() {
        false => separate_placements(buffers),
        true => buffers
            .zip(attrs.placements.values())
            .map(|(info, placement)| {
                let base = match info.space {
                    Space::Shared => placement.offset as usize,
                    Space::Tensor => tmem_base + placement.offset as usize * COLUMN_BYTES,
                };
                BufferPlacement {
                    base,
                    stage_bytes: stage_bytes(info),
                    depth: placement.depth as usize,
                    space: info.space,
                    peer_base: base,
                }
            })
            .collect(),
    };
    for buffer in sched::cta_pairs::halved_buffers(function).keys() {
        let next_free = placements.iter().map(BufferPlacement::end).max().unwrap_or(0);
        placements[buffer.0 as usize].peer_base = next_free.next_multiple_of(COLUMN_BYTES);
    }
    SourceFunction {
        body: &function.body,
        region: function.region,
        attrs: &attrs.program,
        layouts: &module.layouts,
        debug,
        placements,
        checks_races: phase.is_complete(),
        warp_roles: attrs
            .warp_roles
            .values()
            .map(|info| WarpRole { name: info.name.clone(), first_warp: info.first_warp as usize, warps: info.warps as usize })
            .collect(),
        pipelines: attrs.pipelines.values().map(|info| pipeline_config(attrs, info)).collect(),
    }
}

/// Returns the configuration of a pipeline for one CTA. Multicast bytes from a peer count as an arrival of the peer.
///
/// For a CTA-pair MMA (`cta_group::2`), each CTA computes its half of the result. The CTA starts when the operands of both CTAs
/// have arrived and both CTAs have loaded the previous accumulator. The completion of the MMA signals both CTAs.
fn pipeline_config(attrs: &FunctionAttrs, info: &PipelineInfo) -> PipelineConfig {
    let of_cta_pair = attrs.is_of_cta_pair(info);
    let ctas = if of_cta_pair { attrs.cooperating_ctas() } else { attrs.releasing_ctas(info) };
    let releasing_ctas = if of_cta_pair { ctas / attrs.releasing_ctas(info) } else { 1 };
    PipelineConfig {
        depth: info.depth as usize,
        arrival_counts: [info.full * ctas, info.empty * releasing_ctas],
        filled_by_copies: matches!(info.fill, Fill::Copies | Fill::Tma),
        filled_by_tma: info.fill == Fill::Tma,
        arrives_with_one_thread: [info.fills_alone(), info.drains_alone()],
        released_by_warps: info.drain == Drain::Warps,
        arrived_at_by_mmas: [info.fill == Fill::Mma, info.drains_alone()],
        ctas,
        multicast_buffers: info.multicast.iter().flatten().map(|buffer| buffer.0 as usize).collect(),
    }
}
