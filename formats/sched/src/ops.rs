//! The ops of `.sched`: those of `.as`, and synchronisation.

use crate::module::{Pipeline, WarpRole};
use crate::packed_ops::Paired;
use base::ir::Dense;
use base::{Region, Value};
use core_dialect::core_ops::{Core, Effect};
use core_dialect::rules::MiddleOp;
use tileas::effects::words::synchronises;
use tileas::effects::{Effects, Synchronises};

base::ops! {
    /// An op of `.sched`. What `.as` calls an op is one here too.
    pub enum Op includes tileas::Op, with Effects<'_> {
        /// The op, on two neighbouring registers of each thread at once.
        Pairs "pairs" { op: Paired } = op.0.effects(),
        /// All `threads` threads that name this barrier wait for each other; 0 is the whole block's.
        Barrier "barrier" { id: u32, threads: u32 } = synchronises(Synchronises::Barrier),
        /// Ends the group of the asynchronous copies issued since the last one.
        CopyCommit "copy_commit" {} = synchronises(Synchronises::EndsCopies),
        /// Waits until at most `pending` groups of this thread's copies are unfinished.
        CopyWait "copy_wait" { pending: u32 } = synchronises(Synchronises::WaitsForCopies),
        /// What this thread wrote to shared memory is there for those who read it after the threads' backs, as warp groups do, once
        /// a barrier is passed.
        AsyncFence "async_fence" {} = synchronises(Synchronises::Fence),
        /// Waits until at most `pending` mmas of this thread's warp group are in flight; `accumulators` are theirs, and complete.
        GroupWait "group_wait" { pending: u32, accumulators: Vec<Value> } = synchronises(Synchronises::WaitsForMmas),

        /// Gives back the memory that each `alloca` took whose region ends here: by the thread that took it, when no other is at it any
        /// more.
        Free "free" { ptrs: Vec<Value> } = Effect::Allocates.into(),
        /// The first thread waits until no other block prints. From here to the next `print` the memory that tiles are printed from, which
        /// is the grid's, is this block's.
        PrintLock "print_lock" {} = Effect::Prints.into(),
        /// Puts the tiles of the next `print` there.
        PrintStage "print_stage" { tiles: Vec<Value> } = Effect::Prints.into(),

        /// What the warps of an warp_role execute, up to a `return`. The bodies of all warp_roles stand at the end of the function, run at the
        /// same time, and see the scalars and views that were computed before them.
        WarpRole "warp_role" { role: WarpRole, body: Region } = Effect::Branches.into(),
        /// The producer waits until a stage is free. Both sides of a pipeline visit its stages in turn: the n-th of them has stage `n mod
        /// depth` and phase `n div depth mod 2`; a pipeline with one stage has no number for it.
        PipelineAcquire "pipeline_acquire" { pipeline: Pipeline, stage: Option<Value>, phase: Value } = synchronises(Synchronises::Acquires),
        /// A stage is filled with what the producer's threads wrote to it, or as soon as their copies up to here arrive, or their mmas
        /// up to here are complete.
        PipelineCommit "pipeline_commit" { pipeline: Pipeline, stage: Option<Value> } = synchronises(Synchronises::Commits),
        /// A consumer waits until a stage is filled.
        PipelineWait "pipeline_wait" { pipeline: Pipeline, stage: Option<Value>, phase: Value } = synchronises(Synchronises::WaitsForStage),
        /// A consumer needs a stage no more, or no more as soon as its mmas up to here are complete.
        PipelineRelease "pipeline_release" { pipeline: Pipeline, stage: Option<Value> } = synchronises(Synchronises::Releases),
    }
}

impl Op {
    pub fn is_pure(&self) -> bool {
        self.effects().is_pure()
    }
    /// The shared op, if it is one.
    pub fn core(&self) -> Option<&Core> {
        match self {
            Op::Core(tileas::Op::Core(core)) | Op::Pairs { op: Paired(tileas::Op::Core(core)) } => Some(core),
            _ => None,
        }
    }
}

impl MiddleOp for Op {
    fn core(&self) -> Option<&Core> {
        Op::core(self)
    }
    fn is_pure(&self) -> bool {
        Op::is_pure(self)
    }
    fn combination(&self) -> Option<(&[Value], Region)> {
        match self {
            Op::Core(op) | Op::Pairs { op: Paired(op) } => op.combination(),
            _ => None,
        }
    }
}

impl tileas::verify::Program for Op {
    fn program(&self) -> Option<&tileas::Op> {
        match self {
            Op::Core(op) | Op::Pairs { op: Paired(op) } => Some(op),
            _ => None,
        }
    }
    fn effects(&self) -> Option<Effects<'_>> {
        Some(Op::effects(self))
    }
    fn takes_from_one(&self) -> bool {
        matches!(self, Op::Core(tileas::Op::SharedStore { .. }) | Op::Free { .. })
    }
}

impl base::text::OpText for Op {
    fn constant(&self) -> Option<&Dense> {
        self.core().and_then(Core::constant)
    }
    fn from_constant(value: Dense) -> Self {
        Op::Core(tileas::Op::Core(Core::Constant { value }))
    }
}
