//! Records a run as a trace ([`crate::record`]).

use crate::fault::Result;
use crate::lanes::{Lanes, lanes_of};
use crate::location::SharedLocation;
use crate::machine::{Cluster, ClusterIds, Delivery, Machine};
use crate::record::*;
use crate::tmem::TMEM_COLUMNS;
use std::ops::Range;

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
