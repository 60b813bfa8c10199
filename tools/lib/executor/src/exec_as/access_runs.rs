//! Accesses to many elements of a buffer, joined to runs of bytes.
//!
//! The elements that a warp accesses at once mostly lie side by side, in another order. Each run is checked and copied as one. Where
//! elements lie depends on the op alone, so the runs are computed once. If a run is at fault, the caller accesses element by element,
//! which finds the first element at fault: accesses that belong to one execution of an op never race with each other.

use super::hazards::{Fault, Hazards};

/// Bytes of a buffer that one warp accesses.
struct Run {
    warp: usize,
    start: usize,
    end: usize,
}

/// An access to elements of one size, each of which has a place of its own in the result, or in what is written.
pub(super) struct AccessRuns {
    runs: Vec<Run>,
    /// The byte in the buffer of each element in the order of the result; none for those that nobody accesses.
    places: Vec<Option<u32>>,
    size: usize,
    /// Bytes of the buffer up to the last one that is accessed.
    end: usize,
}

impl AccessRuns {
    /// `accesses` gives the warp, the byte in the buffer and the place in the result of each.
    pub(super) fn new(accesses: impl Iterator<Item = (usize, usize, usize)>, count: usize, size: usize) -> AccessRuns {
        let mut places = vec![None; count];
        let mut all: Vec<(usize, usize)> = Vec::new();
        for (warp, byte, place) in accesses {
            all.push((warp, byte));
            places[place] = Some(byte as u32);
        }
        all.sort_unstable();
        all.dedup();
        let mut runs: Vec<Run> = Vec::new();
        for (warp, start) in all {
            match runs.last_mut() {
                Some(run) if run.warp == warp && run.end == start => run.end += size,
                _ => runs.push(Run { warp, start, end: start + size }),
            }
        }
        let end = runs.iter().map(|run| run.end).max().unwrap_or(0);
        AccessRuns { runs, places, size, end }
    }

    /// The elements in the order of the result; those that nobody reads are zero.
    pub(super) fn read(&self, buffer: usize, hazards: &mut Hazards) -> Result<Vec<u8>, Fault> {
        let mut image = vec![0; self.end];
        for run in &self.runs {
            hazards.read(buffer, run.start, &mut image[run.start..run.end], run.warp)?;
        }
        let mut data = vec![0; self.places.len() * self.size];
        for (element, place) in data.chunks_exact_mut(self.size).zip(&self.places) {
            if let Some(place) = place {
                element.copy_from_slice(&image[*place as usize..*place as usize + self.size]);
            }
        }
        Ok(data)
    }

    /// Writes elements, which are in the order of the result.
    pub(super) fn write(&self, buffer: usize, data: &[u8], hazards: &mut Hazards) -> Result<(), Fault> {
        let mut image = vec![0; self.end];
        for (element, place) in data.chunks_exact(self.size).zip(&self.places) {
            if let Some(place) = place {
                image[*place as usize..*place as usize + self.size].copy_from_slice(element);
            }
        }
        self.runs.iter().try_for_each(|run| hazards.write(buffer, run.start, &image[run.start..run.end], run.warp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_warp_are_one_run() {
        // A warp reads eight elements backwards, another one two of them, which do not lie side by side.
        let first = (0..8).map(|place| (0, 14 - 2 * place, place));
        let second = [(1, 14, 0), (1, 0, 7)];
        let joined = AccessRuns::new(first.chain(second), 9, 2);
        let runs: Vec<(usize, usize, usize)> = joined.runs.iter().map(|run| (run.warp, run.start, run.end)).collect();
        assert_eq!(runs, [(0, 0, 16), (1, 0, 2), (1, 14, 16)]);
        assert_eq!((joined.places[0], joined.places[7], joined.places[8]), (Some(14), Some(0), None));
    }
}
