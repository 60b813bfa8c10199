//! The state of named barriers, of the cluster barrier and of mbarriers.

use crate::happens_before::VectorClock;

/// A named barrier of a CTA.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// Number of threads that arrived in the current phase.
    pub(crate) arrived: u32,
    /// Thread count of the barrier; `None` means all threads that have not exited.
    pub(crate) expected: Option<u32>,
    /// Number of completed phases.
    pub(crate) generation: u64,
    /// Number of threads that arrived in the last complete phase.
    pub(crate) last_arrivals: u32,
    /// The votes of the threads that have arrived in the current phase.
    pub(crate) votes: Votes,
    /// The votes of the last complete phase.
    pub(crate) result: Votes,
    /// The merged vector clock of all arrivals so far.
    pub(crate) arrival_clock: VectorClock,
    /// The value of `arrival_clock` at the end of the last complete phase.
    pub(crate) completed_clock: VectorClock,
}

/// Number of threads whose predicate is true, and number of threads whose predicate is false (`barrier.red`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Votes {
    pub(crate) yes: u32,
    pub(crate) no: u32,
}

/// The state of the cluster barrier. `generation` counts its completed phases.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterBarrier {
    pub(crate) arrived: u32,
    pub(crate) generation: u64,
    pub(crate) arrival_clock: VectorClock,
    pub(crate) completed_clock: VectorClock,
}

impl ClusterBarrier {
    /// Completes the current phase. The vector clocks of all arrivals become visible to the waiting warps.
    pub(crate) fn complete_phase(&mut self) {
        self.arrived = 0;
        self.generation += 1;
        self.completed_clock.clone_from(&self.arrival_clock);
    }
}

impl Barrier {
    /// Completes the current phase. The vector clocks and votes of all arrivals become visible to the waiting warps.
    pub(crate) fn complete_phase(&mut self) {
        self.last_arrivals = std::mem::take(&mut self.arrived);
        self.expected = None;
        self.generation += 1;
        self.result = std::mem::take(&mut self.votes);
        self.completed_clock.clone_from(&self.arrival_clock);
    }
}

/// The state of an mbarrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    /// Number of arrivals that complete a phase.
    pub(crate) expected: u32,
    /// Number of arrivals that the current phase still needs.
    pub(crate) pending: u32,
    /// Number of expected bytes that have not arrived. Negative if data arrives before the corresponding `expect_tx`.
    pub(crate) tx_count: i64,
    /// Number of completed phases.
    pub(crate) completed_phases: u64,
}

impl Mbarrier {
    /// Completes the phase if no arrivals and no bytes are outstanding. Returns whether the phase is complete.
    pub(crate) fn try_complete_phase(&mut self) -> bool {
        let done = self.pending == 0 && self.tx_count == 0;
        if done {
            self.completed_phases += 1;
            self.pending = self.expected;
        }
        done
    }
    /// Increments the number of arrivals that the current phase needs.
    pub(crate) fn add_arrival(&mut self) {
        self.pending += 1;
    }
    /// Describes the state of the mbarrier for messages.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} of {} arrivals and {} bytes outstanding, {} phases complete",
            self.pending, self.expected, self.tx_count, self.completed_phases
        )
    }
}
