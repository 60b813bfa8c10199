//! Accesses to many elements of a buffer, coalesced into runs of contiguous bytes.
//!
//! The elements that a warp accesses are mostly contiguous, in some permuted order. The race detector checks each run once, which
//! is faster than a check of each element. The offsets depend only on the op, so each op computes its runs once. If the access to a
//! run is a fault, the caller repeats the access element by element to find the first faulting element. The repetition adds no
//! race, because accesses of one op execution do not race with each other.

use super::hazards::{AccessFault, Hazards};

/// A byte range of a buffer that one warp accesses.
struct AccessRun {
    warp: usize,
    /// The offset of the first byte in the buffer.
    start: usize,
    /// The offset after the last byte in the buffer.
    end: usize,
}

/// An access to elements of a buffer, as runs. Each element has a position in the data: in the result of a load, or in the operand
/// of a store.
pub(crate) struct AccessRuns {
    runs: Vec<AccessRun>,
    /// For each position in the data, the byte offset of its element in the buffer. `None` for a position without an access.
    offsets: Vec<Option<u32>>,
    element_bytes: usize,
    /// The offset after the last accessed byte.
    end: usize,
}

impl AccessRuns {
    /// Returns the runs of an access. `accesses` yields for each element its warp, its byte offset in the buffer and its position
    /// in the data. The data has `count` positions.
    pub(crate) fn new(accesses: impl Iterator<Item = (usize, usize, usize)>, count: usize, element_bytes: usize) -> AccessRuns {
        let mut offsets = vec![None; count];
        let mut warp_offsets: Vec<(usize, usize)> = Vec::new();
        for (warp, offset, position) in accesses {
            warp_offsets.push((warp, offset));
            offsets[position] = Some(offset as u32);
        }
        warp_offsets.sort_unstable();
        warp_offsets.dedup();
        let mut runs: Vec<AccessRun> = Vec::new();
        for (warp, start) in warp_offsets {
            match runs.last_mut() {
                Some(run) if run.warp == warp && run.end == start => run.end += element_bytes,
                _ => runs.push(AccessRun { warp, start, end: start + element_bytes }),
            }
        }
        let end = runs.iter().map(|run| run.end).max().unwrap_or(0);
        AccessRuns { runs, offsets, element_bytes, end }
    }

    /// Returns the data of the elements, by position. Elements without an access are zero.
    pub(crate) fn read(&self, buffer: usize, hazards: &mut Hazards) -> Result<Vec<u8>, AccessFault> {
        let mut buffer_bytes = vec![0; self.end];
        for run in &self.runs {
            hazards.read(buffer, run.start, &mut buffer_bytes[run.start..run.end], run.warp)?;
        }
        let mut data = vec![0; self.offsets.len() * self.element_bytes];
        for (element, offset) in data.chunks_exact_mut(self.element_bytes).zip(&self.offsets) {
            if let Some(offset) = offset {
                element.copy_from_slice(&buffer_bytes[*offset as usize..*offset as usize + self.element_bytes]);
            }
        }
        Ok(data)
    }

    /// Writes the elements. `data` has the elements by position.
    pub(crate) fn write(&self, buffer: usize, data: &[u8], hazards: &mut Hazards) -> Result<(), AccessFault> {
        let mut buffer_bytes = vec![0; self.end];
        for (element, offset) in data.chunks_exact(self.element_bytes).zip(&self.offsets) {
            if let Some(offset) = offset {
                buffer_bytes[*offset as usize..*offset as usize + self.element_bytes].copy_from_slice(element);
            }
        }
        self.runs.iter().try_for_each(|run| hazards.write(buffer, run.start, &buffer_bytes[run.start..run.end], run.warp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_elements_of_one_warp_are_one_run() {
        // One warp reads eight elements of two bytes in reverse order. A second warp reads two of them that are not contiguous.
        // Position 8 has no access.
        let first_warp = (0..8).map(|position| (0, 14 - 2 * position, position));
        let second_warp = [(1, 14, 0), (1, 0, 7)];
        let access = AccessRuns::new(first_warp.chain(second_warp), 9, 2);
        let runs: Vec<(usize, usize, usize)> = access.runs.iter().map(|run| (run.warp, run.start, run.end)).collect();
        assert_eq!(runs, [(0, 0, 16), (1, 0, 2), (1, 14, 16)]);
        assert_eq!((access.offsets[0], access.offsets[7], access.offsets[8]), (Some(14), Some(0), None));
    }
}
