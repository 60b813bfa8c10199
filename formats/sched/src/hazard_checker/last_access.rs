//! When an access to global memory was made last, and in which iterations of the loops around it.

use super::global_order::{Before, Wait};
use base::ir::Op as OpId;
use std::collections::BTreeSet;

/// The last times that an op was executed of which not all threads know that they are over: in these iterations of the loops around it,
/// and in an earlier iteration of one of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    this_iteration: Option<Time>,
    earlier_iteration: Option<Time>,
}

#[derive(Clone, Debug)]
struct Time {
    /// The warp_role's count at it.
    over: u64,
    /// The loops of which another iteration has begun since.
    iterations_of: BTreeSet<OpId>,
}

impl Time {
    fn join(self, other: Time) -> Time {
        let iterations_of = self.iterations_of.into_iter().chain(other.iterations_of).collect();
        Time { over: self.over.max(other.over), iterations_of }
    }
}

/// The later of two times, or the one that there is.
fn joined(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().reduce(Time::join)
}

impl Reached {
    pub(super) fn now(&mut self, over: u64) {
        self.this_iteration = Some(Time { over, iterations_of: BTreeSet::new() });
    }

    /// The warp_role's threads know of each other up to some count.
    pub(super) fn forget(&mut self, clock: u64) {
        for time in [&mut self.this_iteration, &mut self.earlier_iteration] {
            *time = time.take().filter(|time| time.over > clock);
        }
    }

    /// Another iteration of a loop around the op begins.
    pub(super) fn next_iteration(&mut self, for_op: OpId) {
        self.earlier_iteration = joined(self.this_iteration.take(), self.earlier_iteration.take());
        if let Some(time) = &mut self.earlier_iteration {
            time.iterations_of.insert(for_op);
        }
    }

    /// Either of two forks was gone.
    pub(super) fn or(self, other: Reached) -> Reached {
        Reached {
            this_iteration: joined(self.this_iteration, other.this_iteration),
            earlier_iteration: joined(self.earlier_iteration, other.earlier_iteration),
        }
    }

    /// Whether an access that must wait for this one is made too early; if so, whether by what an earlier iteration did.
    pub(super) fn is_missed(&self, before: &Before, wait: Wait) -> Option<bool> {
        if self.this_iteration.is_some() && wait.same_iteration {
            return Some(false);
        }
        let matters = |time: &Time| wait.earlier_iteration || !time.iterations_of.is_disjoint(&before.moves_in);
        self.earlier_iteration.as_ref().is_some_and(matters).then_some(true)
    }
}
