//! What is known of every byte: whether it was ever filled, who wrote it last, who has read it since.

use super::order::Event;
use std::collections::{BTreeMap, HashMap};

/// Readers of one byte that are remembered; more are rare and the oldest are forgotten.
const MOST_READERS: usize = 64;

#[derive(Clone, Copy)]
pub(super) struct Cell {
    /// 0 when no access wrote it.
    writer: u32,
    /// A set of readers, by its place in [`Shadow::sets`].
    readers: u32,
    filled: bool,
}

impl Cell {
    pub(super) fn filled(self) -> bool {
        self.filled
    }
    pub(super) fn writer(self) -> Option<Event> {
        (self.writer != 0).then_some(Event(self.writer))
    }
}

/// Cells of a segment that are made together, when the first of them is accessed.
const PAGE: u64 = 4096;

struct Segment {
    filled: bool,
    pages: BTreeMap<u64, Box<[Cell]>>,
}

pub(super) struct Shadow {
    segments: BTreeMap<u64, Segment>,
    /// Sets of readers. Neighbouring bytes mostly have the same, so each set is kept once.
    sets: Vec<Box<[Event]>>,
    /// The set that a set becomes with one more reader.
    grown: HashMap<(u32, Event), u32>,
}

impl Default for Shadow {
    fn default() -> Self {
        Shadow { segments: BTreeMap::new(), sets: vec![Box::default()], grown: HashMap::new() }
    }
}

impl Shadow {
    pub(super) fn add(&mut self, address: u64, filled: bool) {
        self.segments.insert(address, Segment { filled, pages: BTreeMap::new() });
    }

    /// Forgets segments that no longer exist.
    pub(super) fn retain(&mut self, exists: impl Fn(u64) -> bool) {
        self.segments.retain(|address, _| exists(*address));
    }

    /// Shows every run of bytes with the same history to `f`, then notes the access in them.
    pub(super) fn visit(&mut self, address: u64, length: usize, now: Event, writes: bool, mut f: impl FnMut(u64, Cell, &[Event])) {
        let Shadow { segments, sets, grown } = self;
        let (start, segment) = segments.range_mut(..=address).next_back().expect("the access was found to lie in a segment");
        let same = |a: &Cell, b: &Cell| (a.writer, a.readers, a.filled) == (b.writer, b.readers, b.filled);
        let (mut place, end) = (address, address + length as u64);
        while place < end {
            let (page, within) = ((place - start) / PAGE, (place - start) % PAGE);
            let new = || vec![Cell { writer: 0, readers: 0, filled: segment.filled }; PAGE as usize].into();
            let cells = segment.pages.entry(page).or_insert_with(new);
            let upto = PAGE.min(within + (end - place));
            for run in cells[within as usize..upto as usize].chunk_by_mut(same) {
                f(place, run[0], &sets[run[0].readers as usize]);
                place += run.len() as u64;
                let cell = match writes {
                    true => Cell { writer: now.0, readers: 0, filled: true },
                    false => Cell { readers: with_reader(sets, grown, run[0].readers, now), ..run[0] },
                };
                run.fill(cell);
            }
        }
    }
}

fn with_reader(sets: &mut Vec<Box<[Event]>>, grown: &mut HashMap<(u32, Event), u32>, set: u32, reader: Event) -> u32 {
    if sets[set as usize].last() == Some(&reader) {
        return set;
    }
    *grown.entry((set, reader)).or_insert_with(|| {
        let old = &sets[set as usize];
        let kept = &old[old.len().saturating_sub(MOST_READERS - 1)..];
        sets.push(kept.iter().copied().chain([reader]).collect());
        (sets.len() - 1) as u32
    })
}
