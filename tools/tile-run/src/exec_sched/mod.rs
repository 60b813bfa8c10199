//! Executes `.sched` programs: those of `.as`, in the memory that the scheduler has laid out and by the barriers it has placed.
//!
//! Before the last phase there are no barriers, and the threads run the program in step. Before phase `alloc` there are no
//! addresses either, and each buffer has memory of its own.

use crate::exec_as::{Place, Source, Step, StepKind, apart};
use base::DebugInfo;
use sched::{Function, Module, Op, Phase};

impl Step for Op {
    fn step(&self) -> StepKind<'_> {
        match self {
            Op::Core(op) => StepKind::Program(op),
            Op::Barrier { threads, .. } => StepKind::Barrier { threads: *threads },
            Op::CopyCommit {} => StepKind::CommitCopies,
            Op::CopyWait { pending } => StepKind::WaitForCopies { pending: *pending },
            Op::GroupWait { pending, .. } => StepKind::WaitForProducts { pending: *pending },
            Op::Agent { .. } | Op::PipeAcquire { .. } | Op::PipeCommit { .. } | Op::PipeWait { .. } | Op::PipeRelease { .. } => {
                StepKind::Unsupported
            }
            // All ways lead to the same memory here.
            Op::AsyncFence {} => StepKind::Fence,
        }
    }
}

pub(crate) fn source<'a>(module: &'a Module, function: &'a Function, phase: Phase, debug: &'a DebugInfo) -> Source<'a, Op> {
    let attrs = &function.attrs;
    let buffers = attrs.program.buffers.values();
    let places = match phase {
        Phase::Analysis => apart(buffers),
        Phase::Alloc | Phase::Materialize => buffers
            .zip(attrs.placements.values())
            .map(|(info, place)| Place { base: place.offset as usize, bytes: info.bytes() as usize, depth: place.depth as usize })
            .collect(),
    };
    Source {
        body: &function.body,
        region: function.region,
        attrs: &attrs.program,
        layouts: &module.layouts,
        debug,
        places,
        races: phase == Phase::Materialize,
    }
}
