//! Shadow memory: for every byte, whether it was initialised, its last writer and its readers since that write.

use super::order::Event;
use std::collections::{BTreeMap, HashMap};

/// Limit on the recorded readers of one byte. Above the limit, the oldest reader is dropped.
const MOST_READERS: usize = 64;

#[derive(Clone, Copy)]
pub(super) struct Cell {
    /// The event of the last write; 0 if there was none.
    writer: u32,
    /// The set of readers, as an index into [`Shadow::reader_sets`].
    readers: u32,
    initialised: bool,
}

impl Cell {
    pub(super) fn initialised(self) -> bool {
        self.initialised
    }
    pub(super) fn writer(self) -> Option<Event> {
        (self.writer != 0).then_some(Event(self.writer))
    }
}

/// Number of cells allocated together, at the first access to one of them.
const PAGE: u64 = 4096;

struct Segment {
    initialised: bool,
    /// Ranges of addresses that are uninitialised at the start although the segment is initialised.
    unwritten: Vec<(u64, u64)>,
    pages: BTreeMap<u64, Box<[Cell]>>,
}

pub(super) struct Shadow {
    segments: BTreeMap<u64, Segment>,
    /// Interned sets of readers. Neighbouring bytes usually have equal sets.
    reader_sets: Vec<Box<[Event]>>,
    /// For a set and a reader, the set with the reader added.
    set_with_reader: HashMap<(u32, Event), u32>,
}

impl Default for Shadow {
    fn default() -> Self {
        Shadow { segments: BTreeMap::new(), reader_sets: vec![Box::default()], set_with_reader: HashMap::new() }
    }
}

impl Shadow {
    pub(super) fn add(&mut self, address: u64, initialised: bool) {
        self.segments.insert(address, Segment { initialised, unwritten: Vec::new(), pages: BTreeMap::new() });
    }

    /// Marks a range inside a segment as uninitialised. It precedes all accesses.
    pub(super) fn add_unwritten(&mut self, start: u64, end: u64) {
        if let Some((_, segment)) = self.segments.range_mut(..=start).next_back() {
            segment.unwritten.push((start, end));
        }
    }

    /// Returns the ranges of addresses that the program wrote.
    pub(super) fn written(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, segment) in &self.segments {
            for (page, cells) in &segment.pages {
                let mut place = start + page * PAGE;
                for run in cells.chunk_by(|a, b| (a.writer != 0) == (b.writer != 0)) {
                    let end = place + run.len() as u64;
                    if run[0].writer != 0 {
                        match ranges.last_mut() {
                            Some(last) if last.1 == place => last.1 = end,
                            _ => ranges.push((place, end)),
                        }
                    }
                    place = end;
                }
            }
        }
        ranges
    }

    /// Drops segments that no longer exist.
    pub(super) fn retain(&mut self, exists: impl Fn(u64) -> bool) {
        self.segments.retain(|address, _| exists(*address));
    }

    /// Calls `f` for every run of bytes with equal history, then records the access in these bytes.
    pub(super) fn visit(&mut self, address: u64, length: usize, now: Event, writes: bool, mut f: impl FnMut(u64, Cell, &[Event])) {
        let Shadow { segments, reader_sets, set_with_reader } = self;
        let (start, segment) = segments.range_mut(..=address).next_back().expect("the access is inside a segment");
        let same = |a: &Cell, b: &Cell| (a.writer, a.readers, a.initialised) == (b.writer, b.readers, b.initialised);
        let (mut place, end) = (address, address + length as u64);
        while place < end {
            let (page, within) = ((place - start) / PAGE, (place - start) % PAGE);
            let cells =
                segment.pages.entry(page).or_insert_with(|| new_page(segment.initialised, start + page * PAGE, &segment.unwritten));
            let upto = PAGE.min(within + (end - place));
            for run in cells[within as usize..upto as usize].chunk_by_mut(same) {
                f(place, run[0], &reader_sets[run[0].readers as usize]);
                place += run.len() as u64;
                let cell = match writes {
                    true => Cell { writer: now.0, readers: 0, initialised: true },
                    false => Cell { readers: with_reader(reader_sets, set_with_reader, run[0].readers, now), ..run[0] },
                };
                run.fill(cell);
            }
        }
    }
}

/// Creates the cells of a page that starts at an address.
fn new_page(initialised: bool, start: u64, unwritten: &[(u64, u64)]) -> Box<[Cell]> {
    let mut cells = vec![Cell { writer: 0, readers: 0, initialised }; PAGE as usize];
    for (from, to) in unwritten {
        let inside = |address: &u64| address.saturating_sub(start).min(PAGE) as usize;
        cells[inside(from)..inside(to)].iter_mut().for_each(|cell| cell.initialised = false);
    }
    cells.into()
}

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
        let kept = &old[old.len().saturating_sub(MOST_READERS - 1)..];
        reader_sets.push(kept.iter().copied().chain([reader]).collect());
        (reader_sets.len() - 1) as u32
    })
}
