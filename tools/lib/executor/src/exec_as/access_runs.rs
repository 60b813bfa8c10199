//! Accesses to many elements of a buffer, coalesced into byte runs.
//!
//! The elements that a warp accesses are mostly contiguous, in some permuted order. Each run is checked and copied at once. Offsets
//! depend only on the op, so the runs are computed once. If a run faults, the caller repeats the access element by element to find
//! the first faulting element. The repetition is safe because accesses of one op execution never race with each other.

use super::hazards::{Fault, Hazards};

/// A byte range of a buffer that one warp accesses.
struct Run {
    warp: usize,
    start: usize,
    end: usize,
}

/// An access to elements of `size` bytes. Each element has its own position in the result of a load, or in the data of a store.
pub(super) struct AccessRuns {
    runs: Vec<Run>,
    /// The buffer offset of each element, in result order; `None` for elements without an access.
    places: Vec<Option<u32>>,
    size: usize,
    /// End of the last accessed byte.
    end: usize,
}

impl AccessRuns {
    /// `accesses` yields the warp, the buffer offset and the result position of each element.
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

    /// Reads the elements in result order. Elements without an access are zero.
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

    /// Writes elements that are given in result order.
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
    fn contiguous_elements_of_one_warp_are_one_run() {
        // One warp reads eight elements in reverse order. A second warp reads two of them that are not contiguous.
        let first = (0..8).map(|place| (0, 14 - 2 * place, place));
        let second = [(1, 14, 0), (1, 0, 7)];
        let joined = AccessRuns::new(first.chain(second), 9, 2);
        let runs: Vec<(usize, usize, usize)> = joined.runs.iter().map(|run| (run.warp, run.start, run.end)).collect();
        assert_eq!(runs, [(0, 0, 16), (1, 0, 2), (1, 14, 16)]);
        assert_eq!((joined.places[0], joined.places[7], joined.places[8]), (Some(14), Some(0), None));
    }
}
