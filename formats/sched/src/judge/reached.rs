//! When an access to global memory was made last, and in which rounds of the loops around it.

use super::order::{Before, Wait};
use base::ir::Op as OpId;
use std::collections::BTreeSet;

/// The last times that an op was executed of which not all threads know that they are over: in these rounds of the loops around it,
/// and in an earlier round of one of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    this_round: Option<Time>,
    earlier_round: Option<Time>,
}

#[derive(Clone, Debug)]
struct Time {
    /// The agent's count at it.
    over: u64,
    /// The loops of which another round has begun since.
    rounds_of: BTreeSet<OpId>,
}

impl Time {
    fn join(self, other: Time) -> Time {
        let rounds_of = self.rounds_of.into_iter().chain(other.rounds_of).collect();
        Time { over: self.over.max(other.over), rounds_of }
    }
}

/// The later of two times, or the one that there is.
fn joined(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().reduce(Time::join)
}

impl Reached {
    pub(super) fn now(&mut self, over: u64) {
        self.this_round = Some(Time { over, rounds_of: BTreeSet::new() });
    }

    /// The agent's threads know of each other up to some count.
    pub(super) fn forget(&mut self, knows: u64) {
        for time in [&mut self.this_round, &mut self.earlier_round] {
            *time = time.take().filter(|time| time.over > knows);
        }
    }

    /// Another round of a loop around the op begins.
    pub(super) fn next_round(&mut self, for_op: OpId) {
        self.earlier_round = joined(self.this_round.take(), self.earlier_round.take());
        if let Some(time) = &mut self.earlier_round {
            time.rounds_of.insert(for_op);
        }
    }

    /// Either of two ways was gone.
    pub(super) fn or(self, other: Reached) -> Reached {
        Reached {
            this_round: joined(self.this_round, other.this_round),
            earlier_round: joined(self.earlier_round, other.earlier_round),
        }
    }

    /// Whether an access that must wait for this one is made too early; if so, whether by what an earlier round did.
    pub(super) fn is_missed(&self, before: &Before, wait: Wait) -> Option<bool> {
        if self.this_round.is_some() && wait.same_round {
            return Some(false);
        }
        let matters = |time: &Time| wait.earlier_round || !time.rounds_of.is_disjoint(&before.moves_in);
        self.earlier_round.as_ref().is_some_and(matters).then_some(true)
    }
}
