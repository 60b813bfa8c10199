//! The last executions of an access to global memory, and the iterations of the enclosing loops since then.

use super::global_order::{Before, Wait};
use base::ir::Op as OpId;
use std::collections::BTreeSet;

/// The last executions of an access that may be incomplete for other threads of the warp role: the execution in the current
/// iterations of the enclosing loops, and the last one in an earlier iteration.
#[derive(Clone, Debug, Default)]
pub(super) struct LastExecutions {
    this_iteration: Option<Execution>,
    earlier_iteration: Option<Execution>,
}

#[derive(Clone, Debug)]
struct Execution {
    /// The event count of the warp role at the execution.
    event_count: u64,
    /// The loops that have begun another iteration since.
    iterations_of: BTreeSet<OpId>,
}

impl Execution {
    fn join(self, other: Execution) -> Execution {
        let iterations_of = self.iterations_of.into_iter().chain(other.iterations_of).collect();
        Execution { event_count: self.event_count.max(other.event_count), iterations_of }
    }
}

/// The later of two executions, or the only one.
fn joined(one: Option<Execution>, other: Option<Execution>) -> Option<Execution> {
    [one, other].into_iter().flatten().reduce(Execution::join)
}

impl LastExecutions {
    /// Records an execution in the current iterations.
    pub(super) fn record(&mut self, event_count: u64) {
        self.this_iteration = Some(Execution { event_count, iterations_of: BTreeSet::new() });
    }

    /// Forgets the executions up to this event count, which are complete for all threads of the warp role.
    pub(super) fn forget_completed(&mut self, clock: u64) {
        for time in [&mut self.this_iteration, &mut self.earlier_iteration] {
            *time = time.take().filter(|time| time.event_count > clock);
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
    pub(super) fn merged(self, other: LastExecutions) -> LastExecutions {
        LastExecutions {
            this_iteration: joined(self.this_iteration, other.this_iteration),
            earlier_iteration: joined(self.earlier_iteration, other.earlier_iteration),
        }
    }

    /// Checks an access that must wait for these executions. `None` if they are complete; otherwise whether the incomplete
    /// execution is of an earlier iteration.
    pub(super) fn violated(&self, before: &Before, wait: Wait) -> Option<bool> {
        if self.this_iteration.is_some() && wait.same_iteration {
            return Some(false);
        }
        let matters = |time: &Execution| wait.earlier_iteration || !time.iterations_of.is_disjoint(&before.overlaps_in);
        self.earlier_iteration.as_ref().is_some_and(matters).then_some(true)
    }
}
