//! Synchronization: named barriers, cluster barriers, mbarriers.

use super::{Run, SimEvent, Why};
use simulator::Event;
use simulator::program::Op;
use std::collections::BTreeMap;

/// Latency in cycles of a CLC response. Not measured. CTAs request a tile ahead, so the latency is visible only if a tile takes
/// less.
const LAUNCH_ANSWERS: f64 = 1000.0;

/// The barriers of a CTA.
#[derive(Default)]
pub(super) struct Bars {
    named: BTreeMap<u32, Named>,
    mbarriers: BTreeMap<u32, Mbarrier>,
}

#[derive(Default)]
struct Named {
    arrived: u32,
    threads: u32,
    /// Number of completed phases.
    completed_phases: u64,
    /// Waiting warps, each with the phase whose completion it awaits.
    waiting: Vec<(usize, u64)>,
}

#[derive(Default)]
struct Mbarrier {
    expected: i64,
    pending: i64,
    bytes: i64,
    phases: u32,
    /// Waiting warps, each with the number of phases that must complete.
    waiting: Vec<(usize, u32)>,
}

impl Run<'_> {
    /// Executes an instruction that may wait for other warps. Returns whether the warp continues now.
    pub(super) fn meet(&mut self, index: usize, record: usize, op: &Op) -> bool {
        let warp = &self.warps[index];
        let block = warp.block;
        let events = warp.stream.events_of(record);
        match op {
            Op::Mbarrier { .. } => {
                let mut ready = true;
                for event in events {
                    if let Event::Wait { bar, phases, done: true } = *event {
                        let target = self.block_of(block, bar.0);
                        let state = self.blocks[target].bars.mbarriers.entry(bar.1).or_default();
                        if state.phases < phases {
                            state.waiting.push((index, phases));
                            ready = false;
                            break;
                        }
                    }
                }
                if !ready {
                    self.park(index, Why::Mbarrier);
                }
                ready
            }
            Op::Barrier(_) => {
                let Some(&Event::Barrier { id, threads, arrivals, awaited_phase }) = events.first() else { return true };
                let state = self.blocks[block].bars.named.entry(id).or_default();
                state.arrived += arrivals;
                state.threads = threads;
                // Threads that arrived earlier, without the rest of their warp, may find the phase completed.
                let waits = awaited_phase.filter(|&awaited_phase| awaited_phase >= state.completed_phases);
                if let Some(awaited_phase) = waits {
                    state.waiting.push((index, awaited_phase));
                    self.park(index, Why::Barrier);
                }
                self.settle_named(block, id);
                waits.is_none()
            }
            Op::ClusterBarrier { arrive } => {
                let cluster = self.blocks[block].cluster;
                if *arrive {
                    self.clusters[cluster].arrived += 1;
                    self.settle_cluster(cluster);
                    return true;
                }
                self.clusters[cluster].waiting.push(index);
                self.park(index, Why::Barrier);
                self.settle_cluster(cluster);
                false
            }
            _ => true,
        }
    }

    fn park(&mut self, index: usize, why: Why) {
        let warp = &mut self.warps[index];
        warp.why = why;
        warp.released = false;
    }
    /// Releases a waiting warp.
    fn release(&mut self, index: usize, time: f64, why: Why) {
        self.warps[index].released = true;
        let record = self.record(index);
        let pc = self.warps[index].stream.records[record].pc;
        self.account(index, pc, why, time);
        self.push(time, SimEvent::Warp(index));
    }

    fn settle_named(&mut self, block: usize, id: u32) {
        let Some(state) = self.blocks[block].bars.named.get_mut(&id) else { return };
        if state.arrived == 0 || state.arrived < state.threads {
            return;
        }
        state.arrived = 0;
        state.completed_phases += 1;
        let completed_phases = state.completed_phases;
        let (over, waiting) =
            std::mem::take(&mut state.waiting).into_iter().partition(|&(_, awaited_phase)| awaited_phase < completed_phases);
        state.waiting = waiting;
        let over: Vec<(usize, u64)> = over;
        let sync = &self.setup.machine.sync;
        let time = self.now + sync.barrier + sync.barrier_warp * f64::from(state.threads) / 32.0;
        over.into_iter().for_each(|(index, _)| self.release(index, time, Why::Barrier));
    }

    fn settle_cluster(&mut self, cluster: usize) {
        let first = self.clusters[cluster].first_block;
        let count = self.setup.recording.ctas.len();
        let warps: usize = self.blocks[first..first + count].iter().map(|block| block.warps).sum();
        let state = &mut self.clusters[cluster];
        if state.arrived < warps || state.waiting.len() < warps {
            return;
        }
        state.arrived = 0;
        let time = self.now + self.setup.machine.sync.cluster_ordered;
        let waiting = std::mem::take(&mut state.waiting);
        waiting.into_iter().for_each(|index| self.release(index, time, Why::Barrier));
    }

    /// A warp exited: cluster barriers no longer wait for it.
    pub(super) fn warp_left(&mut self, block: usize) {
        let cluster = self.blocks[block].cluster;
        if !self.clusters[cluster].waiting.is_empty() {
            self.settle_cluster(cluster);
        }
    }

    /// Executes an mbarrier instruction.
    pub(super) fn mbarrier(&mut self, index: usize, events: &[Event], op: &Op, ready: f64) -> (f64, Why) {
        let (now, machine) = (self.now, self.setup.machine);
        let block = self.warps[index].block;
        let rank = self.blocks[block].rank;
        let mut result = ready;
        for event in events {
            match *event {
                Event::Init { bar, count } => {
                    let target = self.block_of(block, bar.0);
                    let state = self.blocks[target].bars.mbarriers.entry(bar.1).or_default();
                    let waiting = std::mem::take(&mut state.waiting);
                    *state = Mbarrier { expected: count.into(), pending: count.into(), waiting, ..Mbarrier::default() };
                }
                Event::Arrive { bar, count } => {
                    let far = if usize::from(bar.0) == rank { 0.0 } else { machine.shared.remote_latency };
                    let target = self.block_of(block, bar.0);
                    self.push(now + machine.sync.arrive + far, SimEvent::Arrive { block: target, address: bar.1, count });
                }
                Event::Expect { bar, bytes } => {
                    let target = self.block_of(block, bar.0);
                    self.blocks[target].bars.mbarriers.entry(bar.1).or_default().bytes += i64::from(bytes);
                }
                Event::Complete { bar, bytes } => {
                    let target = self.block_of(block, bar.0);
                    let far = if matches!(op, Op::CancelLaunch { .. }) { LAUNCH_ANSWERS } else { 0.0 };
                    self.push(now + far, SimEvent::Complete { block: target, address: bar.1, bytes });
                }
                Event::Wait { .. } => {
                    // A released warp has already paid the wake-up latency.
                    result = now + if self.warps[index].released { 1.0 } else { machine.sync.ready };
                }
                _ => {}
            }
        }
        (result, Why::Mbarrier)
    }

    pub(super) fn expect_arrival(&mut self, block: usize, address: u32, count: u32) {
        self.blocks[block].bars.mbarriers.entry(address).or_default().pending += i64::from(count);
    }
    pub(super) fn arrive(&mut self, block: usize, address: u32, count: u32) {
        self.blocks[block].bars.mbarriers.entry(address).or_default().pending -= i64::from(count);
        self.settle(block, address);
    }
    pub(super) fn complete(&mut self, block: usize, address: u32, bytes: u32) {
        self.blocks[block].bars.mbarriers.entry(address).or_default().bytes -= i64::from(bytes);
        self.settle(block, address);
    }
    fn settle(&mut self, block: usize, address: u32) {
        let now = self.now;
        let wake = self.setup.machine.sync.wake;
        let state = self.blocks[block].bars.mbarriers.entry(address).or_default();
        if state.pending > 0 || state.bytes != 0 {
            return;
        }
        state.phases += 1;
        state.pending += state.expected;
        let phases = state.phases;
        self.statistics.phase(now, block, address, phases);
        let state = self.blocks[block].bars.mbarriers.entry(address).or_default();
        let (woken, waiting) = std::mem::take(&mut state.waiting).into_iter().partition(|&(_, needed)| needed <= phases);
        state.waiting = waiting;
        let woken: Vec<(usize, u32)> = woken;
        woken.into_iter().for_each(|(index, _)| self.release(index, now + wake, Why::Mbarrier));
    }
}
