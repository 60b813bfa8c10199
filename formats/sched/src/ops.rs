//! The ops of `.sched`: those of `.as`, and synchronisation.

use base::ir::Dense;
use base::{Region, Value};
use tileas::effects::words::synchronises;
use tileas::effects::{Effects, Synchronises};
use vocabulary::core_ops::Core;
use vocabulary::rules::MiddleOp;

base::ops! {
    /// An op of `.sched`. What `.as` calls an op is one here too.
    pub enum Op includes tileas::Op, with Effects<'_> {
        /// All `threads` threads that name this barrier wait for each other; 0 is the whole block's.
        Barrier "barrier" { id: u32, threads: u32 } = synchronises(Synchronises::Barrier),
        /// Ends the group of the asynchronous copies issued since the last one.
        CopyCommit "copy_commit" {} = synchronises(Synchronises::EndsCopies),
        /// Waits until at most `pending` groups of this thread's copies are unfinished.
        CopyWait "copy_wait" { pending: u32 } = synchronises(Synchronises::WaitsForCopies),
        /// What this thread wrote to shared memory is there for those who read it behind the threads' backs, as warp groups do, once
        /// a barrier is passed.
        AsyncFence "async_fence" {} = synchronises(Synchronises::Fence),
        /// Waits until at most `pending` products of this thread's warp group are in flight; `sums` are theirs, and complete.
        GroupWait "group_wait" { pending: u32, sums: Vec<Value> } = synchronises(Synchronises::WaitsForProducts),
    }
}

impl Op {
    pub fn is_pure(&self) -> bool {
        self.effects().is_pure()
    }
    /// The shared op, if it is one.
    pub fn core(&self) -> Option<&Core> {
        match self {
            Op::Core(tileas::Op::Core(core)) => Some(core),
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
            Op::Core(op) => op.combination(),
            _ => None,
        }
    }
}

impl tileas::verify::Program for Op {
    fn program(&self) -> Option<&tileas::Op> {
        match self {
            Op::Core(op) => Some(op),
            _ => None,
        }
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
