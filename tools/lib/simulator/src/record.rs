//! Execution traces for the performance model. A trace has the executed instructions of each warp in order, with their effects on
//! memory, barriers and asynchronous units.
//!
//! Asynchronous work completes at its issue, and the trace records a blocking wait when it ends. A trace therefore contains no
//! failed try of a blocking wait. The performance model computes the wait times from the number of mbarrier phases that each wait
//! needs.

use crate::lanes::{Lanes, lanes_of};
use crate::location::SharedLocation;

/// An mbarrier: the CTA's rank in the cluster, and the shared-memory address.
pub type MbarrierAddress = (u8, u32);

/// An executed instruction of a warp.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub pc: u32,
    /// The index in `WarpTrace::events` of the first event of this record. Its events end at the first event of the next record.
    pub first_event: u32,
}

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A shared-memory access. `remote`: the memory belongs to another CTA of the cluster.
    Shared { wavefronts: u32, bytes: u32, remote: bool },
    /// A global-memory access. It touches `count` lines of 128 bytes, which are in `WarpTrace::lines` from index `first`. `sectors`
    /// is the number of 32-byte sectors.
    Global { first: u32, count: u32, sectors: u32 },
    /// A bulk copy. `lines` (the lines of global memory) and `bars` (the signalled mbarriers) are index ranges (start, end) of
    /// `WarpTrace::lines` and `WarpTrace::bars`. `rows` counts the parts of at most 128 bytes in which TMA moves the rows.
    Bulk { to_shared: bool, bytes: u32, rows: u32, lines: (u32, u32), bars: (u32, u32) },
    /// `mbarrier.init`.
    Init { bar: MbarrierAddress, count: u32 },
    /// Arrivals at an mbarrier.
    Arrive { bar: MbarrierAddress, count: u32 },
    /// Bytes that an mbarrier expects in addition (`expect_tx`).
    Expect { bar: MbarrierAddress, bytes: u32 },
    /// Bytes that complete at an mbarrier (`complete_tx`, or a CLC response).
    Complete { bar: MbarrierAddress, bytes: u32 },
    /// An mbarrier wait. At its end, the mbarrier had completed `phases` phases since its initialisation. `done` is false for a
    /// failed `test_wait`, which does not block.
    Wait { bar: MbarrierAddress, phases: u32, done: bool },
    /// `cp.async.mbarrier.arrive`: `count` arrivals when the warp's preceding `cp.async` copies are complete. `increment` (no
    /// `.noinc`): the instruction first increments the pending count.
    CopyArrive { bar: MbarrierAddress, count: u32, increment: bool },
    /// A named barrier of a CTA. `threads` is its thread count, and `arrivals` is the number of threads that arrive with this
    /// event. For threads that wait, `awaited_phase` is the phase. Threads that arrive without their complete warp have a separate
    /// record.
    Barrier { id: u32, threads: u32, arrivals: u32, awaited_phase: Option<u64> },
    /// `tcgen05.mma`: the rows and columns of D over all CTAs of the MMA, and whether A is in tensor memory.
    Mma { m: u32, n: u32, a_in_tensor_memory: bool },
    /// `tcgen05.commit`: arrivals when the preceding MMAs and TMEM copies are complete. `bars` is the index range (start, end) of
    /// the mbarriers in `WarpTrace::bars`.
    Commit { bars: (u32, u32) },
}

/// The sector mask of a completely used line.
pub(crate) const ALL_SECTORS: u8 = 0xf;

/// The trace of one warp. A record refers to its events, and an event refers to lines and mbarriers, by index.
#[derive(Clone, Debug, Default)]
pub struct WarpTrace {
    pub records: Vec<Record>,
    pub events: Vec<Event>,
    /// Global-memory lines: addresses divided by 128.
    pub lines: Vec<u64>,
    /// For each entry of `lines`, the 32-byte sectors that the access uses, one bit each.
    pub sector_masks: Vec<u8>,
    /// Signalled mbarriers.
    pub bars: Vec<MbarrierAddress>,
}

impl WarpTrace {
    /// Returns the events of the instruction with this index in the trace.
    pub fn events_of(&self, index: usize) -> &[Event] {
        let end = self.records.get(index + 1).map_or(self.events.len(), |next| next.first_event as usize);
        &self.events[self.records[index].first_event as usize..end]
    }
}

/// The traces of a cluster's warps, by CTA and warp.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub ctas: Vec<Vec<WarpTrace>>,
    /// Whether the cluster ended. If not, the cluster reached the instruction limit or waits for another cluster.
    pub complete: bool,
    /// The peak number of allocated TMEM columns per CTA, and the TMEM columns of an SM.
    pub tmem_columns: (u32, u32),
}

/// A recording in progress.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) ctas: Vec<Vec<WarpTrace>>,
    /// The warp that executes: the rank of its CTA and its index in the CTA.
    pub(crate) recording_warp: (usize, usize),
    /// The lengths of `events`, `lines` and `bars` in the trace of the executing warp before the current instruction.
    pub(crate) lengths_before: [usize; 3],
}

impl Recorder {
    /// Returns the trace of the warp that executes.
    pub(crate) fn trace(&mut self) -> &mut WarpTrace {
        &mut self.ctas[self.recording_warp.0][self.recording_warp.1]
    }
    /// Begins an instruction of a warp.
    pub(crate) fn begin_instruction(&mut self, cta: usize, warp: usize) {
        self.recording_warp = (cta, warp);
        let trace = self.trace();
        self.lengths_before = [trace.events.len(), trace.lines.len(), trace.bars.len()];
    }
    /// Ends the instruction. If the warp has to wait (`executed` is false), discards the events, because the warp executes the
    /// instruction again.
    pub(crate) fn end_instruction(&mut self, pc: u32, executed: bool) {
        let [events, lines, bars] = self.lengths_before;
        let trace = self.trace();
        if executed {
            trace.records.push(Record { pc, first_event: events as u32 });
            return;
        }
        trace.events.truncate(events);
        trace.lines.truncate(lines);
        trace.sector_masks.truncate(lines);
        trace.bars.truncate(bars);
    }
    /// Appends mbarriers to the warp's list. Returns their range in the list.
    pub(crate) fn add_mbarriers(&mut self, bars: impl Iterator<Item = SharedLocation>) -> (u32, u32) {
        let trace = self.trace();
        let first = trace.bars.len() as u32;
        trace.bars.extend(bars.map(|bar| (bar.cta as u8, bar.address)));
        (first, trace.bars.len() as u32)
    }
}

/// Returns the number of shared-memory wavefronts of an access. If a lane accesses more than 4 bytes, hardware serves the lanes in
/// groups, each of which accesses 128 bytes. A group takes as many wavefronts as the largest number of distinct 32-bit words in a
/// bank.
pub(crate) fn wavefronts(addresses: &Lanes, mask: u32, bytes: u32) -> u32 {
    let lanes_per_group = (128 / bytes.max(4)).clamp(1, 32) as usize;
    let mut total = 0;
    for start in (0..32).step_by(lanes_per_group) {
        let mut words = [0u64; 64];
        let mut count = 0;
        for lane in lanes_of(mask).filter(|lane| (start..start + lanes_per_group).contains(lane)) {
            for word in addresses[lane] / 4..=(addresses[lane] + u64::from(bytes) - 1) / 4 {
                words[count] = word;
                count += 1;
            }
        }
        words[..count].sort_unstable();
        let mut banks = [0u32; 32];
        for index in 0..count {
            if index == 0 || words[index] != words[index - 1] {
                banks[(words[index] % 32) as usize] += 1;
            }
        }
        total += banks.into_iter().max().unwrap_or(0);
    }
    total
}
