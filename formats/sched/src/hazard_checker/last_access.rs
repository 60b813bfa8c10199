//! The last execution of an access to global memory, and the iterations of the surrounding loops in which it happened.

use super::global_order::{Before, Wait};
use base::ir::Op as OpId;
use std::collections::BTreeSet;

/// The last executions of an op that not all threads know to be complete. One is in the current iterations of the surrounding
/// loops, one in an earlier iteration.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    this_iteration: Option<Time>,
    earlier_iteration: Option<Time>,
}

#[derive(Clone, Debug)]
struct Time {
    /// The event count of the warp role at the execution.
    over: u64,
    /// The loops that have begun another iteration since.
    iterations_of: BTreeSet<OpId>,
}

impl Time {
    fn join(self, other: Time) -> Time {
        let iterations_of = self.iterations_of.into_iter().chain(other.iterations_of).collect();
        Time { over: self.over.max(other.over), iterations_of }
    }
}

/// The later of two executions, or the only one.
fn joined(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().reduce(Time::join)
}

impl Reached {
    pub(super) fn now(&mut self, over: u64) {
        self.this_iteration = Some(Time { over, iterations_of: BTreeSet::new() });
    }

    /// All threads of the warp role know that everything up to this count is complete.
    pub(super) fn forget(&mut self, clock: u64) {
        for time in [&mut self.this_iteration, &mut self.earlier_iteration] {
            *time = time.take().filter(|time| time.over > clock);
        }
    }

    /// A loop around the op begins another iteration.
    pub(super) fn next_iteration(&mut self, for_op: OpId) {
        self.earlier_iteration = joined(self.this_iteration.take(), self.earlier_iteration.take());
        if let Some(time) = &mut self.earlier_iteration {
            time.iterations_of.insert(for_op);
        }
    }

    /// Merges two control-flow paths, of which either may have been taken.
    pub(super) fn or(self, other: Reached) -> Reached {
        Reached {
            this_iteration: joined(self.this_iteration, other.this_iteration),
            earlier_iteration: joined(self.earlier_iteration, other.earlier_iteration),
        }
    }

    /// Returns whether an access runs before this one is known to be complete; if so, whether it conflicts with an earlier
    /// iteration.
    pub(super) fn is_missed(&self, before: &Before, wait: Wait) -> Option<bool> {
        if self.this_iteration.is_some() && wait.same_iteration {
            return Some(false);
        }
        let matters = |time: &Time| wait.earlier_iteration || !time.iterations_of.is_disjoint(&before.moves_in);
        self.earlier_iteration.as_ref().is_some_and(matters).then_some(true)
    }
}
