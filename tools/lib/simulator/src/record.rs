//! What a cluster does, instruction by instruction, for a model of time: for each warp the instructions in the order in which it
//! executed them, and what each did to memory, barriers and engines.
//!
//! Asynchronous work is done when it is issued and waits are noted when they are over, so a stream has no failed tries: how long
//! something waits is for the model to say. An mbarrier's wait says which phase it needs.

use crate::fault::Result;
use crate::lanes::{Lanes, lanes_of};
use crate::machine::{Cluster, ClusterIds, Delivery, Machine};
use crate::tmem::COLUMNS;
use std::ops::Range;

/// An mbarrier: CTA of the cluster, and address there.
pub type Bar = (u8, u32);

/// One instruction of a warp.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub pc: u32,
    /// Where its events begin; they end where those of the next instruction begin.
    pub events: u32,
}

/// What an instruction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An access to shared memory: passes over its banks, bytes, and whether it was another CTA's.
    Shared {
        wavefronts: u32,
        bytes: u32,
        remote: bool,
    },
    /// An access to global memory: lines of 128 bytes in `Stream::lines`, and sectors of 32 bytes.
    Global {
        first: u32,
        count: u32,
        sectors: u32,
    },
    /// A copy of the copy engine, with the lines of its global side.
    Bulk {
        to_shared: bool,
        bytes: u32,
        rows: u32,
        lines: (u32, u32),
        bars: (u32, u32),
    },
    Init {
        bar: Bar,
        count: u32,
    },
    Arrive {
        bar: Bar,
        count: u32,
    },
    Expect {
        bar: Bar,
        bytes: u32,
    },
    Complete {
        bar: Bar,
        bytes: u32,
    },
    /// A wait that was over when so many phases were done; `done` is false for a test that failed.
    Wait {
        bar: Bar,
        phases: u32,
        done: bool,
    },
    /// Arrivals when the `cp.async` copies of the warp so far are done.
    CopyArrive {
        bar: Bar,
        count: u32,
        increment: bool,
    },
    /// A named barrier of a CTA: for how many threads it was, how many came with this, and, of threads that wait, the end of which
    /// of its rounds they wait for. Threads that come without their warp do so in a record of its own.
    Barrier {
        id: u32,
        threads: u32,
        came: u32,
        awaited_phase: Option<u64>,
    },
    /// A product in tensor memory: rows and columns of all of it, and whether A comes from tensor memory.
    Mma {
        m: u32,
        n: u32,
        a_in_tensor_memory: bool,
    },
    /// Arrivals when the tensor work so far is done.
    Commit {
        bars: (u32, u32),
    },
}

#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub records: Vec<Record>,
    pub events: Vec<Event>,
    /// Lines of global memory, by their address over 128.
    pub lines: Vec<u64>,
    pub bars: Vec<Bar>,
}

impl Stream {
    pub fn events_of(&self, index: usize) -> &[Event] {
        let end = self.records.get(index + 1).map_or(self.events.len(), |next| next.events as usize);
        &self.events[self.records[index].events as usize..end]
    }
}

/// What the warps of a cluster did, by CTA and warp.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub ctas: Vec<Vec<Stream>>,
    /// Whether the cluster came to its end; otherwise the limit was reached, or it waits for another cluster.
    pub complete: bool,
    /// Columns of tensor memory that a CTA has at most, of those that a multiprocessor has.
    pub tmem_columns: (u32, u32),
}

#[derive(Default)]
pub(crate) struct Recorder {
    ctas: Vec<Vec<Stream>>,
    /// The warp that executes an instruction, and how much its stream had before.
    at: (usize, usize),
    before: [usize; 3],
}

impl Recorder {
    fn stream(&mut self) -> &mut Stream {
        &mut self.ctas[self.at.0][self.at.1]
    }
    /// An instruction of a warp begins.
    pub(crate) fn begin(&mut self, cta: usize, warp: usize) {
        self.at = (cta, warp);
        let stream = self.stream();
        self.before = [stream.events.len(), stream.lines.len(), stream.bars.len()];
    }
    /// It was executed, or it waits and will be tried again.
    pub(crate) fn end(&mut self, pc: u32, executed: bool) {
        let [events, lines, bars] = self.before;
        let stream = self.stream();
        if executed {
            stream.records.push(Record { pc, events: events as u32 });
            return;
        }
        stream.events.truncate(events);
        stream.lines.truncate(lines);
        stream.bars.truncate(bars);
    }
    fn bars(&mut self, bars: impl Iterator<Item = (usize, u32)>) -> (u32, u32) {
        let stream = self.stream();
        let first = stream.bars.len() as u32;
        stream.bars.extend(bars.map(|(cta, address)| (cta as u8, address)));
        (first, stream.bars.len() as u32)
    }
}

impl Machine<'_> {
    /// Notes what the instruction that is executed does.
    #[inline]
    pub(crate) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(recorder) = &mut self.recorder {
            let event = event();
            recorder.stream().events.push(event);
        }
    }
    /// Notes what the instruction has done already, though it waits now: a record of its own.
    pub(crate) fn note_step(&mut self, event: Event) {
        let pc = self.pc;
        if let Some(recorder) = &mut self.recorder {
            recorder.stream().events.push(event);
            recorder.end(pc, true);
            recorder.begin(recorder.at.0, recorder.at.1);
        }
    }
    pub(crate) fn note_shared(&mut self, at: &Lanes, mask: u32, bytes: u32, remote: bool) {
        self.note(|| Event::Shared { wavefronts: wavefronts(at, mask, bytes), bytes: bytes * mask.count_ones(), remote });
    }
    pub(crate) fn note_global(&mut self, at: &Lanes, mask: u32, bytes: u32) {
        let Some(recorder) = &mut self.recorder else { return };
        let stream = recorder.stream();
        let first = stream.lines.len();
        let mut sectors = [0u64; 64];
        let mut count = 0;
        for lane in lanes_of(mask) {
            for sector in at[lane] / 32..=(at[lane] + u64::from(bytes) - 1) / 32 {
                sectors[count] = sector;
                count += 1;
            }
        }
        sectors[..count].sort_unstable();
        let mut last = None;
        let mut distinct = 0;
        for &sector in &sectors[..count] {
            distinct += u32::from(last != Some(sector));
            if last.map(|last| last / 4) != Some(sector / 4) {
                stream.lines.push(sector / 4);
            }
            last = Some(sector);
        }
        let count = (stream.lines.len() - first) as u32;
        stream.events.push(Event::Global { first: first as u32, count, sectors: distinct });
    }
    /// A copy of the copy engine between shared memory and rows of global memory.
    pub(crate) fn note_bulk(&mut self, to_shared: bool, bytes: u32, rows: impl Iterator<Item = (u64, u32)>, bars: &[(usize, u32)]) {
        let Some(recorder) = &mut self.recorder else { return };
        let stream = recorder.stream();
        let first = stream.lines.len();
        let mut count = 0;
        for (address, length) in rows {
            // The engine works on pieces of 128 bytes of a row.
            count += length.div_ceil(128).max(1);
            if length > 0 {
                stream.lines.extend(address / 128..=(address + u64::from(length) - 1) / 128);
            }
        }
        let lines = (first as u32, stream.lines.len() as u32);
        let bars = recorder.bars(bars.iter().copied());
        recorder.stream().events.push(Event::Bulk { to_shared, bytes, rows: count, lines, bars });
    }
    pub(crate) fn note_commit(&mut self, bars: &[(usize, u32)]) {
        if let Some(recorder) = &mut self.recorder {
            let bars = recorder.bars(bars.iter().copied());
            recorder.stream().events.push(Event::Commit { bars });
        }
    }

    /// The number of a cluster in the order in which they are launched.
    pub fn clusters(&self) -> Result<Range<u64>> {
        let all = self.cluster_ids()?;
        Ok(0..all.end)
    }

    /// Runs one cluster alone and notes what it does, up to a number of warp instructions.
    pub fn record(&mut self, number: u64, limit: u64) -> Result<Recording> {
        self.record_with_stolen(number, Vec::new(), limit)
    }

    /// The same of a cluster that finds some others not launched when it asks for such.
    pub fn record_with_stolen(&mut self, number: u64, others: Vec<u64>, limit: u64) -> Result<Recording> {
        self.options.delivery = Delivery::Early;
        self.total = 0;
        let mut ids = self.cluster_ids()?;
        ids.next = number;
        let Some(id) = ids.next() else { return Ok(Recording::default()) };
        self.waiting = ClusterIds { next: 0, end: others.len() as u64, some: Some(others.into()), ..ids };
        let mut cluster = self.cluster(id);
        let ctas = cluster.ctas.iter().map(|cta| vec![Stream::default(); cta.warps.len()]).collect();
        self.recorder = Some(Box::new(Recorder { ctas, ..Recorder::default() }));
        let result = self.run_isolated(&mut cluster, limit);
        let recorder = self.recorder.take().unwrap_or_default();
        let complete = result?;
        let columns = cluster.ctas.iter().map(|cta| cta.tmem.peak).max().unwrap_or(0);
        Ok(Recording { ctas: recorder.ctas, complete, tmem_columns: (columns, COLUMNS as u32) })
    }

    fn run_isolated(&mut self, cluster: &mut Cluster, limit: u64) -> Result<bool> {
        while self.total < limit && self.run_iteration(cluster)? {}
        Ok(cluster.is_done())
    }
}

/// How many words of 32 bits an access takes from each bank at most: 128 bytes at a time, so that lanes with wide elements go in
/// groups.
pub(crate) fn wavefronts(at: &Lanes, mask: u32, bytes: u32) -> u32 {
    let group = (128 / bytes.max(4)).clamp(1, 32) as usize;
    let mut total = 0;
    for start in (0..32).step_by(group) {
        let mut words = [0u64; 64];
        let mut count = 0;
        for lane in lanes_of(mask).filter(|lane| (start..start + group).contains(lane)) {
            for word in at[lane] / 4..=(at[lane] + u64::from(bytes) - 1) / 4 {
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
