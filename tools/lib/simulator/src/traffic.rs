//! The memory traffic of instructions.

use crate::lanes::{Lanes, lanes_of};
use std::collections::BTreeSet;

/// The memory traffic of one instruction, summed over all its executions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes that the lanes access in global memory.
    pub(crate) global_bytes: u64,
    /// Number of 32-byte sectors of global memory. Each execution by a warp counts its distinct sectors.
    pub(crate) global_sectors: u64,
    /// Number of shared-memory wavefronts.
    pub(crate) shared_wavefronts: u64,
    /// Number of shared-memory wavefronts due to bank conflicts.
    pub(crate) bank_conflicts: u64,
}

impl Traffic {
    /// Adds the counts of `other` to this traffic.
    pub(crate) fn add(&mut self, other: &Traffic) {
        self.global_bytes += other.global_bytes;
        self.global_sectors += other.global_sectors;
        self.shared_wavefronts += other.shared_wavefronts;
        self.bank_conflicts += other.bank_conflicts;
    }
    /// Counts an access of a warp to global memory, of `bytes` bytes per lane.
    pub(crate) fn count_global_access(&mut self, addresses: &Lanes, mask: u32, bytes: u32) {
        let bytes_per_lane = u64::from(bytes);
        self.global_bytes += bytes_per_lane * u64::from(mask.count_ones());
        let sectors: BTreeSet<u64> =
            lanes_of(mask).flat_map(|lane| addresses[lane] / 32..=(addresses[lane] + bytes_per_lane - 1) / 32).collect();
        self.global_sectors += sectors.len() as u64;
    }
    /// Counts a bulk copy of `bytes` contiguous bytes of global memory.
    pub(crate) fn count_bulk_copy(&mut self, bytes: u32) {
        self.global_bytes += u64::from(bytes);
        self.global_sectors += u64::from(bytes.div_ceil(32));
    }
    /// Counts an access to shared memory, of `bytes` bytes per lane. Hardware serves the lanes in groups that access 128 bytes
    /// together, for example 8 lanes of 16 bytes. Lanes conflict only within a group.
    pub(crate) fn count_shared_access(&mut self, addresses: &Lanes, mask: u32, bytes: u32) {
        let lanes_per_group = (128 / bytes.max(4)).clamp(1, 32) as usize;
        for start in (0..32).step_by(lanes_per_group) {
            let lanes: Vec<usize> = lanes_of(mask).filter(|lane| (start..start + lanes_per_group).contains(lane)).collect();
            if lanes.is_empty() {
                continue;
            }
            let words: BTreeSet<u64> =
                lanes.iter().flat_map(|&lane| addresses[lane] / 4..=(addresses[lane] + u64::from(bytes) - 1) / 4).collect();
            let mut banks = [0u64; 32];
            words.iter().for_each(|word| banks[(word % 32) as usize] += 1);
            let wavefronts = banks.into_iter().max().unwrap_or(0);
            self.shared_wavefronts += wavefronts;
            self.bank_conflicts += wavefronts - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Traffic;

    #[test]
    fn sectors_and_conflicts() {
        let mut traffic = Traffic::default();
        traffic.count_global_access(&std::array::from_fn(|lane| lane as u64 * 4), u32::MAX, 4);
        assert_eq!((traffic.global_bytes, traffic.global_sectors), (128, 4));
        let shared = |stride: u64, bytes| {
            let mut traffic = Traffic::default();
            traffic.count_shared_access(&std::array::from_fn(|lane| lane as u64 * stride), u32::MAX, bytes);
            (traffic.shared_wavefronts, traffic.bank_conflicts)
        };
        assert_eq!(shared(4, 4), (1, 0));
        assert_eq!(shared(8, 4), (2, 1));
        assert_eq!(shared(128, 4), (32, 31));
        assert_eq!(shared(0, 4), (1, 0));
        assert_eq!(shared(16, 16), (4, 0));
        assert_eq!(shared(128, 16), (32, 28));
    }
}
