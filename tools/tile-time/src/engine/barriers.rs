//! The timing of synchronization: named barriers, cluster barriers and mbarriers.

use super::{Run, SimEvent, StallReason};
use simulator::Event;
use simulator::program::Op;
use std::collections::BTreeMap;

/// Latency in cycles of a response of cluster launch control (CLC): an estimate, because no measurement is public. CTAs request the
/// next tile one tile ahead. The latency therefore adds time only if a tile takes fewer cycles.
const CLC_LATENCY: f64 = 1000.0;

/// The barriers of a CTA.
#[derive(Default)]
pub(super) struct CtaBarriers {
    named: BTreeMap<u32, NamedBarrier>,
    mbarriers: BTreeMap<u32, Mbarrier>,
}

/// The state of a named barrier (`bar.sync`) of a CTA.
#[derive(Default)]
struct NamedBarrier {
    /// Number of threads that have arrived in the current phase.
    arrived: u32,
    /// Number of arrivals that complete a phase.
    threads: u32,
    /// Number of completed phases.
    completed_phases: u64,
    /// Waiting warps, each with the phase whose completion it awaits.
    waiting: Vec<(usize, u64)>,
}

/// The state of an mbarrier.
#[derive(Default)]
struct Mbarrier {
    /// Number of arrivals that complete a phase.
    expected: i64,
    /// Number of arrivals that the current phase still needs.
    pending: i64,
    /// Expected bytes that have not arrived. Negative if data arrives before its `expect_tx`.
    bytes: i64,
    completed_phases: u32,
    /// Waiting warps, each with the number of phases that must complete.
    waiting: Vec<(usize, u32)>,
}

impl Run<'_> {
    /// Executes the wait of an instruction for other warps. Returns true if the warp can issue the instruction now, and false if
    /// the warp waits.
    pub(super) fn wait_for_warps(&mut self, index: usize, record: usize, op: &Op) -> bool {
        let warp = &self.warps[index];
        let cta = warp.cta;
        let events = warp.stream.events_of(record);
        match op {
            Op::Mbarrier { .. } => {
                let mut ready = true;
                for event in events {
                    if let Event::Wait { bar, phases, done: true } = *event {
                        let target = self.cta_of_rank(cta, bar.0);
                        let mbarrier = self.ctas[target].barriers.mbarriers.entry(bar.1).or_default();
                        if mbarrier.completed_phases < phases {
                            mbarrier.waiting.push((index, phases));
                            ready = false;
                            break;
                        }
                    }
                }
                if !ready {
                    self.stall_warp(index, StallReason::Mbarrier);
                }
                ready
            }
            Op::Barrier(_) => {
                let Some(&Event::Barrier { id, threads, arrivals, awaited_phase }) = events.first() else { return true };
                let barrier = self.ctas[cta].barriers.named.entry(id).or_default();
                barrier.arrived += arrivals;
                barrier.threads = threads;
                // The threads of a diverged warp may arrive at different times. The phase that this instruction awaits may already
                // be complete.
                let pending_phase = awaited_phase.filter(|&awaited_phase| awaited_phase >= barrier.completed_phases);
                if let Some(awaited_phase) = pending_phase {
                    barrier.waiting.push((index, awaited_phase));
                    self.stall_warp(index, StallReason::Barrier);
                }
                self.try_complete_named(cta, id);
                pending_phase.is_none()
            }
            Op::ClusterBarrier { is_arrival } => {
                let cluster = self.ctas[cta].cluster;
                if *is_arrival {
                    self.clusters[cluster].arrived += 1;
                    self.try_complete_cluster(cluster);
                    return true;
                }
                self.clusters[cluster].waiting.push(index);
                self.stall_warp(index, StallReason::Barrier);
                self.try_complete_cluster(cluster);
                false
            }
            _ => true,
        }
    }

    /// Marks a warp as waiting until another warp releases it.
    fn stall_warp(&mut self, index: usize, stall: StallReason) {
        let warp = &mut self.warps[index];
        warp.stall = stall;
        warp.released = false;
    }
    /// Releases a waiting warp: lets it continue at `time`, and attributes the wait to `stall`.
    fn release_warp(&mut self, index: usize, time: f64, stall: StallReason) {
        self.warps[index].released = true;
        let record = self.next_record(index);
        let pc = self.warps[index].stream.records[record].pc;
        self.attribute_wait(index, pc, stall, time);
        self.push_event(time, SimEvent::Warp(index));
    }

    /// Completes the phase of a named barrier and releases its warps, if all threads have arrived.
    fn try_complete_named(&mut self, cta: usize, id: u32) {
        let Some(barrier) = self.ctas[cta].barriers.named.get_mut(&id) else { return };
        if barrier.arrived == 0 || barrier.arrived < barrier.threads {
            return;
        }
        barrier.arrived = 0;
        barrier.completed_phases += 1;
        let completed_phases = barrier.completed_phases;
        let (released, waiting) =
            std::mem::take(&mut barrier.waiting).into_iter().partition(|&(_, awaited_phase)| awaited_phase < completed_phases);
        barrier.waiting = waiting;
        let released: Vec<(usize, u64)> = released;
        let sync = &self.setup.machine.sync;
        let time = self.now + sync.barrier + sync.barrier_warp * f64::from(barrier.threads) / 32.0;
        released.into_iter().for_each(|(index, _)| self.release_warp(index, time, StallReason::Barrier));
    }

    /// Completes the cluster barrier and releases its warps, if all running warps of the cluster have arrived and wait.
    fn try_complete_cluster(&mut self, cluster: usize) {
        let first = self.clusters[cluster].first_cta;
        let count = self.setup.recording.ctas.len();
        let warps: usize = self.ctas[first..first + count].iter().map(|cta| cta.running_warps).sum();
        let cluster_state = &mut self.clusters[cluster];
        if cluster_state.arrived < warps || cluster_state.waiting.len() < warps {
            return;
        }
        cluster_state.arrived = 0;
        let time = self.now + self.setup.machine.sync.cluster_ordered;
        let waiting = std::mem::take(&mut cluster_state.waiting);
        waiting.into_iter().for_each(|index| self.release_warp(index, time, StallReason::Barrier));
    }

    /// Completes the cluster barrier if it waited only for a warp that has now exited.
    pub(super) fn warp_exited(&mut self, cta: usize) {
        let cluster = self.ctas[cta].cluster;
        if !self.clusters[cluster].waiting.is_empty() {
            self.try_complete_cluster(cluster);
        }
    }

    /// Executes an mbarrier instruction. Returns when its result is ready, and the stall reason of instructions that wait for it.
    pub(super) fn execute_mbarrier(&mut self, index: usize, events: &[Event], op: &Op, ready: f64) -> (f64, StallReason) {
        let (now, machine) = (self.now, self.setup.machine);
        let cta = self.warps[index].cta;
        let rank = self.ctas[cta].rank;
        let mut result = ready;
        for event in events {
            match *event {
                Event::Init { bar, count } => {
                    let target = self.cta_of_rank(cta, bar.0);
                    let mbarrier = self.ctas[target].barriers.mbarriers.entry(bar.1).or_default();
                    let waiting = std::mem::take(&mut mbarrier.waiting);
                    *mbarrier = Mbarrier { expected: count.into(), pending: count.into(), waiting, ..Mbarrier::default() };
                }
                Event::Arrive { bar, count } => {
                    let extra_latency = if usize::from(bar.0) == rank { 0.0 } else { machine.shared.remote_latency };
                    let target = self.cta_of_rank(cta, bar.0);
                    self.push_event(
                        now + machine.sync.arrive + extra_latency,
                        SimEvent::Arrive { cta: target, address: bar.1, count },
                    );
                }
                Event::Expect { bar, bytes } => {
                    let target = self.cta_of_rank(cta, bar.0);
                    self.ctas[target].barriers.mbarriers.entry(bar.1).or_default().bytes += i64::from(bytes);
                }
                Event::Complete { bar, bytes } => {
                    let target = self.cta_of_rank(cta, bar.0);
                    let extra_latency = if matches!(op, Op::CancelLaunch { .. }) { CLC_LATENCY } else { 0.0 };
                    self.push_event(now + extra_latency, SimEvent::Complete { cta: target, address: bar.1, bytes });
                }
                Event::Wait { .. } => {
                    // A released warp has already paid the wake-up latency.
                    result = now + if self.warps[index].released { 1.0 } else { machine.sync.ready };
                }
                _ => {}
            }
        }
        (result, StallReason::Mbarrier)
    }

    /// Adds `count` to the pending arrivals of an mbarrier, as `cp.async.mbarrier.arrive` without `.noinc` does.
    pub(super) fn expect_arrival(&mut self, cta: usize, address: u32, count: u32) {
        self.ctas[cta].barriers.mbarriers.entry(address).or_default().pending += i64::from(count);
    }
    /// Counts `count` arrivals at an mbarrier.
    pub(super) fn arrive_at_mbarrier(&mut self, cta: usize, address: u32, count: u32) {
        self.ctas[cta].barriers.mbarriers.entry(address).or_default().pending -= i64::from(count);
        self.try_complete_mbarrier(cta, address);
    }
    /// Counts bytes that an asynchronous copy has written, at the mbarrier that expects them.
    pub(super) fn complete_bytes(&mut self, cta: usize, address: u32, bytes: u32) {
        self.ctas[cta].barriers.mbarriers.entry(address).or_default().bytes -= i64::from(bytes);
        self.try_complete_mbarrier(cta, address);
    }
    /// Completes the phase of an mbarrier and releases its warps, if no arrivals and no bytes are missing.
    fn try_complete_mbarrier(&mut self, cta: usize, address: u32) {
        let now = self.now;
        let wake = self.setup.machine.sync.wake;
        let mbarrier = self.ctas[cta].barriers.mbarriers.entry(address).or_default();
        if mbarrier.pending > 0 || mbarrier.bytes != 0 {
            return;
        }
        mbarrier.completed_phases += 1;
        mbarrier.pending += mbarrier.expected;
        let phases = mbarrier.completed_phases;
        self.statistics.record_phase(now, cta, address, phases);
        let mbarrier = self.ctas[cta].barriers.mbarriers.entry(address).or_default();
        let (woken, waiting) = std::mem::take(&mut mbarrier.waiting).into_iter().partition(|&(_, needed)| needed <= phases);
        mbarrier.waiting = waiting;
        let woken: Vec<(usize, u32)> = woken;
        woken.into_iter().for_each(|(index, _)| self.release_warp(index, now + wake, StallReason::Mbarrier));
    }
}
