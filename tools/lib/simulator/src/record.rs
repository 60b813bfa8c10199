//! Execution traces for the performance model. A trace has the executed instructions of each warp in order, with their effects on
//! memory, barriers and asynchronous units.
//!
//! Asynchronous work completes at its issue, and the trace records a blocking wait when it ends. A trace therefore contains no
//! failed try of a blocking wait. The performance model computes the wait times from the number of mbarrier phases that each wait
//! needs.

use crate::fault::Result;
use crate::lanes::{Lanes, lanes_of};
use crate::location::SharedLocation;
use crate::machine::{Cluster, ClusterIds, Delivery, Machine};
use crate::tmem::TMEM_COLUMNS;
use std::ops::Range;

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
const ALL_SECTORS: u8 = 0xf;

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
    ctas: Vec<Vec<WarpTrace>>,
    /// The warp that executes: the rank of its CTA and its index in the CTA.
    recording_warp: (usize, usize),
    /// The lengths of `events`, `lines` and `bars` in the trace of the executing warp before the current instruction.
    lengths_before: [usize; 3],
}

impl Recorder {
    /// Returns the trace of the warp that executes.
    fn trace(&mut self) -> &mut WarpTrace {
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
    fn add_mbarriers(&mut self, bars: impl Iterator<Item = SharedLocation>) -> (u32, u32) {
        let trace = self.trace();
        let first = trace.bars.len() as u32;
        trace.bars.extend(bars.map(|bar| (bar.cta as u8, bar.address)));
        (first, trace.bars.len() as u32)
    }
}

impl Machine<'_> {
    /// Records an event of the current instruction.
    #[inline]
    pub(crate) fn record_event(&mut self, event: impl FnOnce() -> Event) {
        if let Some(recorder) = &mut self.recorder {
            let event = event();
            recorder.trace().events.push(event);
        }
    }
    /// Adds a record for the completed part of an instruction whose remaining part waits.
    pub(crate) fn record_partial_instruction(&mut self, event: Event) {
        let pc = self.pc;
        if let Some(recorder) = &mut self.recorder {
            recorder.trace().events.push(event);
            recorder.end_instruction(pc, true);
            recorder.begin_instruction(recorder.recording_warp.0, recorder.recording_warp.1);
        }
    }
    /// Records an access to shared memory with its wavefronts.
    pub(crate) fn record_shared_access(&mut self, addresses: &Lanes, mask: u32, bytes: u32, remote: bool) {
        self.record_event(|| Event::Shared {
            wavefronts: wavefronts(addresses, mask, bytes),
            bytes: bytes * mask.count_ones(),
            remote,
        });
    }
    /// Records an access to global memory with its sectors and cache lines.
    pub(crate) fn record_global_access(&mut self, addresses: &Lanes, mask: u32, bytes: u32) {
        let Some(recorder) = &mut self.recorder else { return };
        let trace = recorder.trace();
        let first = trace.lines.len();
        let mut sectors = [0u64; 64];
        let mut count = 0;
        for lane in lanes_of(mask) {
            for sector in addresses[lane] / 32..=(addresses[lane] + u64::from(bytes) - 1) / 32 {
                sectors[count] = sector;
                count += 1;
            }
        }
        sectors[..count].sort_unstable();
        let mut previous_sector = None;
        let mut distinct = 0;
        for &sector in &sectors[..count] {
            distinct += u32::from(previous_sector != Some(sector));
            if previous_sector.map(|previous| previous / 4) != Some(sector / 4) {
                trace.lines.push(sector / 4);
                trace.sector_masks.push(0);
            }
            *trace.sector_masks.last_mut().expect("the sector has a line") |= 1 << (sector % 4);
            previous_sector = Some(sector);
        }
        let count = (trace.lines.len() - first) as u32;
        trace.events.push(Event::Global { first: first as u32, count, sectors: distinct });
    }
    /// Records a bulk copy between shared memory and rows of global memory.
    pub(crate) fn record_bulk_copy(
        &mut self,
        to_shared: bool,
        bytes: u32,
        rows: impl Iterator<Item = (u64, u32)>,
        bars: &[SharedLocation],
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        let trace = recorder.trace();
        let first = trace.lines.len();
        let mut count = 0;
        for (address, length) in rows {
            // TMA processes a row in chunks of 128 bytes.
            count += length.div_ceil(128).max(1);
            if length > 0 {
                trace.lines.extend(address / 128..=(address + u64::from(length) - 1) / 128);
            }
        }
        let lines = (first as u32, trace.lines.len() as u32);
        trace.sector_masks.resize(trace.lines.len(), ALL_SECTORS);
        let bars = recorder.add_mbarriers(bars.iter().copied());
        recorder.trace().events.push(Event::Bulk { to_shared, bytes, rows: count, lines, bars });
    }
    /// Records a `tcgen05.commit` to these mbarriers.
    pub(crate) fn record_commit(&mut self, bars: &[SharedLocation]) {
        if let Some(recorder) = &mut self.recorder {
            let bars = recorder.add_mbarriers(bars.iter().copied());
            recorder.trace().events.push(Event::Commit { bars });
        }
    }

    /// Returns the range of the cluster numbers of the grid. Cluster numbers are in launch order.
    pub fn cluster_number_range(&self) -> Result<Range<u64>> {
        let all = self.cluster_ids()?;
        Ok(0..all.end)
    }

    /// Runs one cluster alone and returns its traces. The run ends after `limit` warp instructions at the latest.
    pub fn record(&mut self, number: u64, limit: u64) -> Result<Recording> {
        self.record_with_stolen(number, Vec::new(), limit)
    }

    /// Like `record`, but the cluster can steal the clusters `stolen` by cluster launch control (CLC).
    pub fn record_with_stolen(&mut self, number: u64, stolen: Vec<u64>, limit: u64) -> Result<Recording> {
        self.options.delivery = Delivery::Early;
        self.warp_instructions = 0;
        let mut ids = self.cluster_ids()?;
        ids.next = number;
        let Some(id) = ids.next() else { return Ok(Recording::default()) };
        self.unlaunched = ClusterIds { next: 0, end: stolen.len() as u64, selected: Some(stolen.into()), ..ids };
        let mut cluster = self.new_cluster(id);
        let ctas = cluster.ctas.iter().map(|cta| vec![WarpTrace::default(); cta.warps.len()]).collect();
        self.recorder = Some(Box::new(Recorder { ctas, ..Recorder::default() }));
        let result = self.run_isolated(&mut cluster, limit);
        let recorder = self.recorder.take().unwrap_or_default();
        let complete = result?;
        let columns = cluster.ctas.iter().map(|cta| cta.tmem.peak).max().unwrap_or(0);
        Ok(Recording { ctas: recorder.ctas, complete, tmem_columns: (columns, TMEM_COLUMNS as u32) })
    }

    /// Runs a cluster alone until it ends, deadlocks or reaches the instruction limit. Returns whether the cluster has ended.
    fn run_isolated(&mut self, cluster: &mut Cluster, limit: u64) -> Result<bool> {
        while self.warp_instructions < limit && self.run_time_slices(cluster)? {}
        Ok(cluster.is_done())
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
