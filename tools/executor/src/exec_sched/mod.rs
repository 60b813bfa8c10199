//! Executes `.sched` programs: those of `.as`, in the memory that the scheduler has laid out and by the barriers it has placed.
//!
//! Before the last phase there are no barriers, and the threads run the program in step. Before phase `alloc` there are no
//! addresses either, and each buffer has memory of its own.

use crate::exec_as::{Agent, COLUMN, Place, Ring, Side, Source, Step, StepKind, apart, slot_bytes};
use base::{DebugInfo, Value};
use sched::pairs::Paired;
use sched::{Drain, Fill, Function, FunctionAttrs, Module, Op, Phase, Pipe, PipeInfo};
use tileas::Space;

impl Step for Op {
    fn step(&self) -> StepKind<'_> {
        match self {
            Op::Core(op) | Op::Pairs { op: Paired(op) } => StepKind::Program(op),
            Op::Barrier { threads, .. } => StepKind::Barrier { threads: *threads },
            Op::CopyCommit {} => StepKind::CommitCopies,
            Op::CopyWait { pending } => StepKind::WaitForCopies { pending: *pending },
            Op::GroupWait { pending, .. } => StepKind::WaitForProducts { pending: *pending },
            Op::Agent { agent, body } => StepKind::Agent { number: agent.0 as usize, body: *body },
            Op::PipeAcquire { pipe, slot, phase } => wait(*pipe, *slot, Side::Empty, *phase),
            Op::PipeWait { pipe, slot, phase } => wait(*pipe, *slot, Side::Full, *phase),
            Op::PipeCommit { pipe, slot } => arrive(*pipe, *slot, Side::Full),
            Op::PipeRelease { pipe, slot } => arrive(*pipe, *slot, Side::Empty),
            Op::AsyncFence {} => StepKind::Fence,
            // Memory is there as long as its region runs, and blocks print one after the other anyway.
            Op::Free { .. } | Op::PrintLock {} | Op::PrintStage { .. } => StepKind::Nothing,
        }
    }
}

fn wait<'a>(pipe: Pipe, slot: Option<Value>, side: Side, phase: Value) -> StepKind<'a> {
    StepKind::WaitForPipe { pipe: pipe.0 as usize, slot, side, phase }
}
fn arrive<'a>(pipe: Pipe, slot: Option<Value>, side: Side) -> StepKind<'a> {
    StepKind::ArriveAtPipe { pipe: pipe.0 as usize, slot, side }
}

pub(crate) fn source<'a>(module: &'a Module, function: &'a Function, phase: Phase, debug: &'a DebugInfo) -> Source<'a, Op> {
    let attrs = &function.attrs;
    let buffers = attrs.program.buffers.values();
    // Tensor memory is as if it lay behind shared memory.
    let behind = (attrs.shared_bytes as usize).next_multiple_of(COLUMN);
    let mut places: Vec<Place> = match phase {
        Phase::Analysis => apart(buffers),
        Phase::Alloc | Phase::Materialize => buffers
            .zip(attrs.placements.values())
            .map(|(info, place)| {
                let base = match info.space {
                    Space::Shared => place.offset as usize,
                    Space::Tensor => behind + place.offset as usize * COLUMN,
                };
                Place { base, bytes: slot_bytes(info), depth: place.depth as usize, space: info.space, other: base }
            })
            .collect(),
    };
    for buffer in sched::block_pairs::halves(function).keys() {
        let behind = places.iter().map(Place::end).max().unwrap_or(0);
        places[buffer.0 as usize].other = behind.next_multiple_of(COLUMN);
    }
    Source {
        body: &function.body,
        region: function.region,
        attrs: &attrs.program,
        layouts: &module.layouts,
        debug,
        places,
        races: phase == Phase::Materialize,
        agents: attrs
            .agents
            .values()
            .map(|info| Agent { name: info.name.clone(), first_warp: info.first_warp as usize, warps: info.warps as usize })
            .collect(),
        pipes: attrs.pipes.values().map(|info| ring(attrs, info)).collect(),
    }
}

/// The pipe of a block. To who waits, bytes that another block brings are an arrival of that block. Of a product that a pair makes each
/// block makes its own part, when the boxes of both are there and both have taken up the sums before, and both are told of either.
fn ring(attrs: &FunctionAttrs, info: &PipeInfo) -> Ring {
    let of_pair = attrs.is_of_pair(info);
    let blocks = if of_pair { attrs.joined_blocks() } else { attrs.blocks_of(info) };
    let freeing = if of_pair { blocks / attrs.blocks_of(info) } else { 1 };
    Ring {
        depth: info.depth as usize,
        counts: [info.full * blocks, info.empty * freeing],
        copies: matches!(info.fill, Fill::Copies | Fill::Boxes),
        boxes: info.fill == Fill::Boxes,
        alone: [info.fills_alone(), info.drains_alone()],
        by_warps: info.drain == Drain::Warps,
        products: [info.fill == Fill::Products, info.drains_alone()],
        blocks,
        multicast: info.multicast.iter().flatten().map(|buffer| buffer.0 as usize).collect(),
    }
}
