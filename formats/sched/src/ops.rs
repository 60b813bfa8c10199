//! The ops of `.sched`: all ops of `.as`, and ops that synchronise.

use crate::module::{Pipeline, WarpRole};
use crate::packed_ops::Paired;
use base::ir::Dense;
use base::{Region, Value};
use core_dialect::core_ops::{Core, Effect};
use core_dialect::rules::CoreDialectOp;
use tileas::effects::constructors::synchronises;
use tileas::effects::{Effects, Synchronises};

base::ops! {
    /// An op of `.sched`. Every op of `.as` is also an op of `.sched`.
    pub enum Op includes tileas::Op, with Effects<'_> {
        /// Executes the op `op` on two neighbouring registers of each thread at once (packed f16x2, bf16x2 or f32x2).
        Pairs "pairs" { op: Paired } = op.0.effects(),
        /// The `threads` threads that execute the barrier `id` wait for each other. Barrier 0 is for all threads of the CTA.
        Barrier "barrier" { id: u32, threads: u32 } = synchronises(Synchronises::Barrier),
        /// Ends the group of the asynchronous copies issued since the last group.
        CopyCommit "copy_commit" {} = synchronises(Synchronises::EndsCopies),
        /// Waits until at most `pending` copy groups of this thread are unfinished.
        CopyWait "copy_wait" { pending: u32 } = synchronises(Synchronises::WaitsForCopies),
        /// Makes this thread's writes to shared memory visible to the async proxy, once the threads pass a barrier (PTX
        /// `fence.proxy.async`).
        AsyncFence "async_fence" {} = synchronises(Synchronises::Fence),
        /// Waits until at most `pending` MMAs of this thread's warp group are in flight; their `accumulators` are then complete.
        GroupWait "group_wait" { pending: u32, accumulators: Vec<Value> } = synchronises(Synchronises::WaitsForMmas),

        /// Frees the heap memory of each `alloca` whose region ends here. The thread that allocated the memory frees it. A barrier
        /// precedes the op, so no other thread still uses the memory.
        Free "free" { ptrs: Vec<Value> } = Effect::Allocates.into(),
        /// The first thread waits until no other CTA prints. From here to the next `print` this CTA owns the grid's memory for
        /// printed tiles.
        PrintLock "print_lock" {} = Effect::Prints.into(),
        /// Copies the tiles of the next `print` to the grid's memory for printed tiles.
        PrintStage "print_stage" { tiles: Vec<Value> } = Effect::Prints.into(),

        /// The body of a warp role, up to a `return`. The bodies of all roles are at the end of the function, run concurrently, and
        /// see the scalars and views that are computed before them.
        WarpRole "warp_role" { role: WarpRole, body: Region } = Effect::Branches.into(),
        /// The producer waits until a stage is free. Both sides of a pipeline visit its stages in order: the n-th visit has stage
        /// `n mod depth` and phase `n div depth mod 2`. A pipeline with one stage has no stage number.
        PipelineAcquire "pipeline_acquire" { pipeline: Pipeline, stage: Option<Value>, phase: Value } = synchronises(Synchronises::Acquires),
        /// The producer signals that a stage is full. The stage then holds the earlier writes of the producer's threads. If copies
        /// or MMAs fill the stage, the signal follows their completion.
        PipelineCommit "pipeline_commit" { pipeline: Pipeline, stage: Option<Value> } = synchronises(Synchronises::Commits),
        /// A consumer waits until a stage is full.
        PipelineWait "pipeline_wait" { pipeline: Pipeline, stage: Option<Value>, phase: Value } = synchronises(Synchronises::WaitsForStage),
        /// A consumer releases a stage, at once or as soon as its MMAs up to here are complete.
        PipelineRelease "pipeline_release" { pipeline: Pipeline, stage: Option<Value> } = synchronises(Synchronises::Releases),
    }
}

impl Op {
    pub fn is_pure(&self) -> bool {
        self.effects().is_pure()
    }
    /// The core op, if this op is or packs one.
    pub fn core(&self) -> Option<&Core> {
        match self {
            Op::Core(tileas::Op::Core(core)) | Op::Pairs { op: Paired(tileas::Op::Core(core)) } => Some(core),
            _ => None,
        }
    }
}

impl CoreDialectOp for Op {
    fn core(&self) -> Option<&Core> {
        Op::core(self)
    }
    /// `None` for a packed op: no pass of `.sched` changes the core op inside.
    fn core_mut(&mut self) -> Option<&mut Core> {
        if let Op::Core(op) = self { op.core_mut() } else { None }
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

impl tileas::verify::TileAsOp for Op {
    fn tileas_op(&self) -> Option<&tileas::Op> {
        match self {
            Op::Core(op) | Op::Pairs { op: Paired(op) } => Some(op),
            _ => None,
        }
    }
    fn effects(&self) -> Option<Effects<'_>> {
        Some(Op::effects(self))
    }
    fn reads_from_one_thread(&self) -> bool {
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
