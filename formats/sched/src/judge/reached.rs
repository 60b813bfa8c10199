//! When an access to global memory was made last, and in which rounds of the loops around it.

use super::order::{Before, Wait};
use base::ir::Op as OpId;
use std::collections::BTreeSet;

/// The last time that an op was executed, and the last time in an earlier round of a loop of which not all threads knew by then that it
/// was over.
#[derive(Clone, Debug)]
pub(super) struct Reached {
    last: Time,
    earlier: Option<Time>,
}

#[derive(Clone, Debug)]
struct Time {
    /// The agent's count at it, and whether on the only way with it all its threads know that it is over.
    over: u64,
    known: bool,
    /// The loops of which another round has begun since.
    rounds_of: BTreeSet<OpId>,
}

impl Time {
    fn is_known(&self, knows: u64) -> bool {
        self.known || self.over <= knows
    }

    fn join(self, other: Time) -> Time {
        let rounds_of = self.rounds_of.into_iter().chain(other.rounds_of).collect();
        Time { over: self.over.max(other.over), known: self.known && other.known, rounds_of }
    }
}

impl Reached {
    /// The op is executed, when the agent's threads know of each other up to some count.
    pub(super) fn again(before: Option<Reached>, now: u64, knows: u64) -> Reached {
        let last = Time { over: now, known: false, rounds_of: BTreeSet::new() };
        let Some(before) = before else { return Reached { last, earlier: None } };
        let times = [Some(before.last), before.earlier].into_iter().flatten();
        let matters = |time: &Time| !time.rounds_of.is_empty() && !time.is_known(knows);
        Reached { last, earlier: times.filter(matters).reduce(Time::join) }
    }

    pub(super) fn next_round(&mut self, for_op: OpId) {
        let times = [Some(&mut self.last), self.earlier.as_mut()].into_iter().flatten();
        times.for_each(|time| _ = time.rounds_of.insert(for_op));
    }

    /// A way ends with which the agent's threads know of each other so much.
    pub(super) fn note(&mut self, knows: u64) {
        let times = [Some(&mut self.last), self.earlier.as_mut()].into_iter().flatten();
        times.for_each(|time| time.known = time.is_known(knows));
    }

    /// Either of two ways was gone.
    pub(super) fn or(self, other: Reached) -> Reached {
        let earlier = [self.earlier, other.earlier].into_iter().flatten().reduce(Time::join);
        Reached { last: self.last.join(other.last), earlier }
    }

    /// Whether an access that must wait for this one is made too early; if so, whether by what an earlier round did.
    pub(super) fn is_missed(&self, before: &Before, wait: Wait, knows: u64) -> Option<bool> {
        let times = [Some(&self.last), self.earlier.as_ref()].into_iter().flatten();
        let missed = times.filter(|time| !time.is_known(knows)).find(|time| match time.rounds_of.is_empty() {
            true => wait.same_round,
            false => wait.earlier_round || !time.rounds_of.is_disjoint(&before.moves_in),
        });
        missed.map(|time| !time.rounds_of.is_empty())
    }
}
