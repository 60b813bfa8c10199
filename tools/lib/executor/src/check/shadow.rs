//! Shadow memory of global memory. It records for every byte whether the byte is initialised, its last writer, and its readers
//! since that write.

use super::order::Event;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of recorded readers of one byte. If there are more, the shadow memory forgets the oldest reader.
const MAX_READERS: usize = 64;

/// The accesses to one byte with which a later access may conflict.
#[derive(Clone, Copy)]
pub(super) struct ByteHistory {
    /// The event of the last write. 0 if no access wrote the byte.
    writer: u32,
    /// The set of readers, as an index into [`Shadow::reader_sets`].
    readers: u32,
    initialised: bool,
}

impl ByteHistory {
    pub(super) fn initialised(self) -> bool {
        self.initialised
    }
    /// Returns the last write. `None` if no access wrote the byte.
    pub(super) fn writer(self) -> Option<Event> {
        (self.writer != 0).then_some(Event(self.writer))
    }
}

/// Number of bytes in a page. The first access to a page allocates the history of all its bytes.
const PAGE_BYTES: u64 = 4096;

/// The shadow of a segment of memory.
struct Segment {
    initialised: bool,
    /// Address ranges that are uninitialised before the run although the segment is initialised.
    uninitialised_ranges: Vec<(u64, u64)>,
    /// The accessed pages, by number within the segment.
    pages: BTreeMap<u64, Box<[ByteHistory]>>,
}

/// The shadow of all segments, by start address.
pub(super) struct Shadow {
    segments: BTreeMap<u64, Segment>,
    /// Interned sets of readers. Neighbouring bytes usually have equal sets.
    reader_sets: Vec<Box<[Event]>>,
    /// For a set and a reader, the set that contains the reader in addition. Both sets are indices into `reader_sets`.
    set_with_reader: HashMap<(u32, Event), u32>,
}

impl Default for Shadow {
    fn default() -> Self {
        Shadow { segments: BTreeMap::new(), reader_sets: vec![Box::default()], set_with_reader: HashMap::new() }
    }
}

impl Shadow {
    pub(super) fn add_segment(&mut self, address: u64, initialised: bool) {
        self.segments.insert(address, Segment { initialised, uninitialised_ranges: Vec::new(), pages: BTreeMap::new() });
    }

    /// Marks a range inside a segment as uninitialised. Callers mark ranges before the first access, because a mark does not change
    /// existing pages.
    pub(super) fn mark_uninitialised(&mut self, start: u64, end: u64) {
        if let Some((_, segment)) = self.segments.range_mut(..=start).next_back() {
            segment.uninitialised_ranges.push((start, end));
        }
    }

    /// Returns the ranges of addresses that the program wrote.
    pub(super) fn written_ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, segment) in &self.segments {
            for (page, histories) in &segment.pages {
                let mut run_start = start + page * PAGE_BYTES;
                for run in histories.chunk_by(|a, b| (a.writer != 0) == (b.writer != 0)) {
                    let end = run_start + run.len() as u64;
                    if run[0].writer != 0 {
                        match ranges.last_mut() {
                            Some(last) if last.1 == run_start => last.1 = end,
                            _ => ranges.push((run_start, end)),
                        }
                    }
                    run_start = end;
                }
            }
        }
        ranges
    }

    /// Removes the segments for whose start address `exists` returns false.
    pub(super) fn retain_segments(&mut self, exists: impl Fn(u64) -> bool) {
        self.segments.retain(|address, _| exists(*address));
    }

    /// Calls `f` for every run of bytes with equal history, then records the access in these bytes.
    pub(super) fn record_access(
        &mut self,
        address: u64,
        length: usize,
        now: Event,
        writes: bool,
        mut f: impl FnMut(u64, ByteHistory, &[Event]),
    ) {
        let Shadow { segments, reader_sets, set_with_reader } = self;
        let (start, segment) = segments.range_mut(..=address).next_back().expect("the access is inside a segment");
        let equal_history =
            |a: &ByteHistory, b: &ByteHistory| (a.writer, a.readers, a.initialised) == (b.writer, b.readers, b.initialised);
        let (mut run_start, end) = (address, address + length as u64);
        while run_start < end {
            let (page, first) = ((run_start - start) / PAGE_BYTES, (run_start - start) % PAGE_BYTES);
            let histories = segment
                .pages
                .entry(page)
                .or_insert_with(|| new_page(segment.initialised, start + page * PAGE_BYTES, &segment.uninitialised_ranges));
            let end_in_page = PAGE_BYTES.min(first + (end - run_start));
            for run in histories[first as usize..end_in_page as usize].chunk_by_mut(equal_history) {
                f(run_start, run[0], &reader_sets[run[0].readers as usize]);
                run_start += run.len() as u64;
                let history = match writes {
                    true => ByteHistory { writer: now.0, readers: 0, initialised: true },
                    false => ByteHistory { readers: with_reader(reader_sets, set_with_reader, run[0].readers, now), ..run[0] },
                };
                run.fill(history);
            }
        }
    }
}

/// Returns the histories of an unaccessed page that starts at the address `start`.
fn new_page(initialised: bool, start: u64, uninitialised_ranges: &[(u64, u64)]) -> Box<[ByteHistory]> {
    let mut histories = vec![ByteHistory { writer: 0, readers: 0, initialised }; PAGE_BYTES as usize];
    for (from, to) in uninitialised_ranges {
        let index_in_page = |address: &u64| address.saturating_sub(start).min(PAGE_BYTES) as usize;
        histories[index_in_page(from)..index_in_page(to)].iter_mut().for_each(|history| history.initialised = false);
    }
    histories.into()
}

/// Returns the set that contains `reader` in addition to the readers of `set`. Interns the new set.
fn with_reader(
    reader_sets: &mut Vec<Box<[Event]>>,
    set_with_reader: &mut HashMap<(u32, Event), u32>,
    set: u32,
    reader: Event,
) -> u32 {
    if reader_sets[set as usize].last() == Some(&reader) {
        return set;
    }
    *set_with_reader.entry((set, reader)).or_insert_with(|| {
        let old = &reader_sets[set as usize];
        let recent_readers = &old[old.len().saturating_sub(MAX_READERS - 1)..];
        reader_sets.push(recent_readers.iter().copied().chain([reader]).collect());
        (reader_sets.len() - 1) as u32
    })
}
