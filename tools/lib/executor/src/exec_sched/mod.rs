//! Executes `.sched` programs: `.as` ops with the memory placement and barriers that the scheduler chose.
//!
//! Before the last phase there are no barriers, and the threads run in lockstep. Before phase `alloc` there are no addresses, and
//! buffers do not overlap.

use crate::exec_as::{
    BarrierSide, BufferPlacement, COLUMN, PipelineConfig, Source, Step, StepKind, WarpRole, separate_placements, stage_bytes,
};
use base::{DebugInfo, Value};
use sched::packed_ops::Paired;
use sched::{Drain, Fill, Function, FunctionAttrs, Module, Op, Phase, Pipeline, PipelineInfo};
use tileas::Space;

impl Step for Op {
    fn step(&self) -> StepKind<'_> {
        match self {
            Op::Core(op) | Op::Pairs { op: Paired(op) } => StepKind::Program(op),
            Op::Barrier { threads, .. } => StepKind::Barrier { threads: *threads },
            Op::CopyCommit {} => StepKind::CommitCopies,
            Op::CopyWait { pending } => StepKind::WaitForCopies { pending: *pending },
            Op::GroupWait { pending, .. } => StepKind::WaitForMmas { pending: *pending },
            Op::WarpRole { role: warp_role, body } => StepKind::WarpRole { number: warp_role.0 as usize, body: *body },
            Op::PipelineAcquire { pipeline, stage, phase } => wait(*pipeline, *stage, BarrierSide::Empty, *phase),
            Op::PipelineWait { pipeline, stage, phase } => wait(*pipeline, *stage, BarrierSide::Full, *phase),
            Op::PipelineCommit { pipeline, stage } => arrive(*pipeline, *stage, BarrierSide::Full),
            Op::PipelineRelease { pipeline, stage } => arrive(*pipeline, *stage, BarrierSide::Empty),
            Op::AsyncFence {} => StepKind::Fence,
            // Allocations stay valid until their region ends, and tile blocks print one after another.
            Op::Free { .. } | Op::PrintLock {} | Op::PrintStage { .. } => StepKind::Nothing,
        }
    }
}

fn wait<'a>(pipeline: Pipeline, stage: Option<Value>, side: BarrierSide, phase: Value) -> StepKind<'a> {
    StepKind::WaitForPipeline { pipeline: pipeline.0 as usize, stage, side, phase }
}
fn arrive<'a>(pipeline: Pipeline, stage: Option<Value>, side: BarrierSide) -> StepKind<'a> {
    StepKind::ArriveAtPipeline { pipeline: pipeline.0 as usize, stage, side }
}

pub(crate) fn source<'a>(module: &'a Module, function: &'a Function, phase: Phase, debug: &'a DebugInfo) -> Source<'a, Op> {
    let attrs = &function.attrs;
    let buffers = attrs.program.buffers.values();
    // Tensor memory is mapped after shared memory.
    let tmem_base = (attrs.shared_bytes as usize).next_multiple_of(COLUMN);
    let mut placements: Vec<BufferPlacement> = match phase {
        Phase::Analysis => separate_placements(buffers),
        Phase::Alloc | Phase::Materialize => buffers
            .zip(attrs.placements.values())
            .map(|(info, place)| {
                let base = match info.space {
                    Space::Shared => place.offset as usize,
                    Space::Tensor => tmem_base + place.offset as usize * COLUMN,
                };
                BufferPlacement { base, bytes: stage_bytes(info), depth: place.depth as usize, space: info.space, peer_base: base }
            })
            .collect(),
    };
    for buffer in sched::cta_pairs::halves(function).keys() {
        let next_free = placements.iter().map(BufferPlacement::end).max().unwrap_or(0);
        placements[buffer.0 as usize].peer_base = next_free.next_multiple_of(COLUMN);
    }
    Source {
        body: &function.body,
        region: function.region,
        attrs: &attrs.program,
        layouts: &module.layouts,
        debug,
        placements,
        races: phase == Phase::Materialize,
        warp_roles: attrs
            .warp_roles
            .values()
            .map(|info| WarpRole { name: info.name.clone(), first_warp: info.first_warp as usize, warps: info.warps as usize })
            .collect(),
        pipelines: attrs.pipelines.values().map(|info| pipeline_config(attrs, info)).collect(),
    }
}

/// Returns the configuration of a pipeline as seen by one CTA. Multicast bytes from a peer count as an arrival from it. In a
/// CTA-pair MMA (`cta_group::2`), each CTA computes its half after both CTAs' operands have landed and both have loaded the
/// previous accumulator. Both CTAs are signalled.
fn pipeline_config(attrs: &FunctionAttrs, info: &PipelineInfo) -> PipelineConfig {
    let of_cta_pair = attrs.is_of_cta_pair(info);
    let ctas = if of_cta_pair { attrs.cooperating_ctas() } else { attrs.ctas_of(info) };
    let freeing = if of_cta_pair { ctas / attrs.ctas_of(info) } else { 1 };
    PipelineConfig {
        depth: info.depth as usize,
        counts: [info.full * ctas, info.empty * freeing],
        copies: matches!(info.fill, Fill::Copies | Fill::Tma),
        tma_copies: info.fill == Fill::Tma,
        single_arrival: [info.fills_alone(), info.drains_alone()],
        by_warps: info.drain == Drain::Warps,
        mmas: [info.fill == Fill::Mma, info.drains_alone()],
        ctas,
        multicast: info.multicast.iter().flatten().map(|buffer| buffer.0 as usize).collect(),
    }
}
