//! The last executions of an access to global memory, and the iterations of the enclosing loops since then.

use super::global_order::{Predecessors, RequiredExecutions};
use base::ir::Op as OpId;
use std::collections::BTreeSet;

/// The last executions of an access to global memory that may be incomplete for other threads of the warp role.
#[derive(Clone, Debug, Default)]
pub(super) struct LastExecutions {
    /// The last execution in the current iterations of all enclosing loops.
    this_iteration: Option<Execution>,
    /// The last execution in an earlier iteration of an enclosing loop.
    earlier_iteration: Option<Execution>,
}

/// One execution of an access.
#[derive(Clone, Debug)]
struct Execution {
    /// The event count of the warp role at the execution.
    event_count: u64,
    /// The loops that have begun another iteration since this execution.
    advanced_loops: BTreeSet<OpId>,
}

impl Execution {
    /// An execution that represents both: it has the later event count, and the advanced loops of both.
    fn join(self, other: Execution) -> Execution {
        let advanced_loops = self.advanced_loops.into_iter().chain(other.advanced_loops).collect();
        Execution { event_count: self.event_count.max(other.event_count), advanced_loops }
    }
}

/// Joins two executions ([`Execution::join`]). If only one of them exists, that one is the result.
fn join_executions(one: Option<Execution>, other: Option<Execution>) -> Option<Execution> {
    [one, other].into_iter().flatten().reduce(Execution::join)
}

impl LastExecutions {
    /// Records an execution in the current iterations.
    pub(super) fn record(&mut self, event_count: u64) {
        self.this_iteration = Some(Execution { event_count, advanced_loops: BTreeSet::new() });
    }

    /// Forgets the executions up to the event count `clock`, which are complete for all threads of the warp role.
    pub(super) fn forget_completed(&mut self, clock: u64) {
        for execution in [&mut self.this_iteration, &mut self.earlier_iteration] {
            *execution = execution.take().filter(|execution| execution.event_count > clock);
        }
    }

    /// Begins another iteration of a loop that encloses the access.
    pub(super) fn next_iteration(&mut self, loop_op: OpId) {
        self.earlier_iteration = join_executions(self.this_iteration.take(), self.earlier_iteration.take());
        if let Some(execution) = &mut self.earlier_iteration {
            execution.advanced_loops.insert(loop_op);
        }
    }

    /// Merges the executions on two control-flow paths, either of which may have been taken.
    pub(super) fn merged(self, other: LastExecutions) -> LastExecutions {
        LastExecutions {
            this_iteration: join_executions(self.this_iteration, other.this_iteration),
            earlier_iteration: join_executions(self.earlier_iteration, other.earlier_iteration),
        }
    }

    /// Checks a later access that must wait for some of these executions. `None` if the required executions are complete. Otherwise
    /// `Some`: true if the incomplete execution is of an earlier iteration, false if it is of the current iterations.
    pub(super) fn violation(&self, predecessors: &Predecessors, required: RequiredExecutions) -> Option<bool> {
        if self.this_iteration.is_some() && required.same_iteration {
            return Some(false);
        }
        let is_required =
            |execution: &Execution| required.earlier_iteration || !execution.advanced_loops.is_disjoint(&predecessors.overlaps_in);
        self.earlier_iteration.as_ref().is_some_and(is_required).then_some(true)
    }
}
