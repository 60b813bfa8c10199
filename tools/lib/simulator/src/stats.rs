//! Execution statistics: warp instructions, memory traffic and bank conflicts, for the kernel and for each loop.

use crate::lanes::{Lanes, lanes_of};
use crate::machine::Machine;
use crate::program::Op;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Traffic of one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    bytes: u64,
    /// 32-byte sectors of global memory, summed over warp instructions.
    sectors: u64,
    /// Shared-memory wavefronts, and how many of them are due to bank conflicts.
    wavefronts: u64,
    conflicts: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: &Traffic) {
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.wavefronts += other.wavefronts;
        self.conflicts += other.conflicts;
    }
    /// Counts an access to global memory.
    pub(crate) fn count_global_access(&mut self, addresses: &Lanes, mask: u32, bytes: u32) {
        let length = u64::from(bytes);
        self.bytes += length * u64::from(mask.count_ones());
        let sectors: BTreeSet<u64> =
            lanes_of(mask).flat_map(|lane| addresses[lane] / 32..=(addresses[lane] + length - 1) / 32).collect();
        self.sectors += sectors.len() as u64;
    }
    /// Counts a bulk copy.
    pub(crate) fn count_bulk_copy(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.sectors += u64::from(bytes.div_ceil(32));
    }
    /// Counts an access to shared memory. Lanes that access more than 4 bytes form groups that access 128 bytes together.
    pub(crate) fn count_shared_access(&mut self, addresses: &Lanes, mask: u32, bytes: u32) {
        let group = (128 / bytes.max(4)).clamp(1, 32) as usize;
        for start in (0..32).step_by(group) {
            let lanes: Vec<usize> = lanes_of(mask).filter(|lane| (start..start + group).contains(lane)).collect();
            if lanes.is_empty() {
                continue;
            }
            let words: BTreeSet<u64> =
                lanes.iter().flat_map(|&lane| addresses[lane] / 4..=(addresses[lane] + u64::from(bytes) - 1) / 4).collect();
            let mut banks = [0u64; 32];
            words.iter().for_each(|word| banks[(word % 32) as usize] += 1);
            let wavefronts = banks.into_iter().max().unwrap_or(0);
            self.wavefronts += wavefronts;
            self.conflicts += wavefronts - 1;
        }
    }
}

#[derive(Serialize)]
struct Report {
    kernel: String,
    #[serde(flatten)]
    total: Counts,
    loops: Vec<Loop>,
    /// The instructions with bank conflicts, worst first.
    conflicts: Vec<Conflicts>,
}

/// An instruction with shared-memory bank conflicts.
#[derive(Serialize)]
struct Conflicts {
    line: u32,
    opcode: String,
    executed: u64,
    shared_wavefronts: u64,
    bank_conflicts: u64,
}

#[derive(Serialize)]
struct Loop {
    /// The label at its start.
    label: String,
    first_line: u32,
    last_line: u32,
    /// Taken count of the back edge, in warps.
    repeats: u64,
    #[serde(flatten)]
    counts_of_range: Counts,
}

/// Counts of an instruction range.
#[derive(Default, Serialize)]
struct Counts {
    instructions: u64,
    opcodes: BTreeMap<String, u64>,
    global_bytes: u64,
    global_sectors: u64,
    shared_wavefronts: u64,
    bank_conflicts: u64,
    mmas: u64,
    barrier_waits: u64,
    /// Failed mbarrier waits.
    failed_waits: u64,
}

impl Machine<'_> {
    /// Returns the counts as JSON.
    pub fn report(&self) -> String {
        let program = self.program;
        let mut loops = Vec::new();
        for (pc, instr) in program.code.iter().enumerate() {
            if let Op::Branch { target } = instr.op
                && target as usize <= pc
                && self.branches_taken[pc] > 0
            {
                let range = target as usize..pc + 1;
                let lines = || program.code[range.clone()].iter().map(|instr| instr.line);
                loops.push(Loop {
                    label: program.labels.get(&target).cloned().unwrap_or_default(),
                    first_line: lines().min().unwrap_or(0),
                    last_line: lines().max().unwrap_or(0),
                    repeats: self.branches_taken[pc],
                    counts_of_range: self.counts(range.clone()),
                });
            }
        }
        let total = self.counts(0..program.code.len());
        let report = Report { kernel: program.entry.clone(), total, loops, conflicts: self.conflicts() };
        serde_json::to_string_pretty(&report).expect("counts are serialisable") + "\n"
    }

    fn conflicts(&self) -> Vec<Conflicts> {
        let instructions = self.program.code.iter().zip(&self.executed).zip(&self.traffic);
        let conflicting = instructions.filter(|(_, traffic)| traffic.conflicts > 0);
        let mut found: Vec<Conflicts> = conflicting
            .map(|((instr, executed), traffic)| Conflicts {
                line: instr.line,
                opcode: self.program.names[instr.name as usize].clone(),
                executed: *executed,
                shared_wavefronts: traffic.wavefronts,
                bank_conflicts: traffic.conflicts,
            })
            .collect();
        found.sort_by_key(|at| (std::cmp::Reverse(at.bank_conflicts), at.line));
        found
    }

    fn counts(&self, range: std::ops::Range<usize>) -> Counts {
        let mut counts_of_range = Counts::default();
        for pc in range {
            let count = self.executed[pc];
            counts_of_range.failed_waits += self.failed_waits[pc];
            if count == 0 {
                continue;
            }
            let name = &self.program.names[self.program.code[pc].name as usize];
            counts_of_range.instructions += count;
            *counts_of_range.opcodes.entry(name.clone()).or_default() += count;
            let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
            if starts(&["mma.", "wgmma.mma_async", "tcgen05.mma"]) {
                counts_of_range.mmas += count;
            }
            if starts(&["bar.", "barrier.", "mbarrier.try_wait", "mbarrier.test_wait"]) {
                counts_of_range.barrier_waits += count;
            }
            if let Some(traffic) = self.traffic.get(pc) {
                counts_of_range.global_bytes += traffic.bytes;
                counts_of_range.global_sectors += traffic.sectors;
                counts_of_range.shared_wavefronts += traffic.wavefronts;
                counts_of_range.bank_conflicts += traffic.conflicts;
            }
        }
        counts_of_range
    }
}

#[cfg(test)]
mod tests {
    use super::Traffic;

    #[test]
    fn sectors_and_conflicts() {
        let mut traffic = Traffic::default();
        traffic.count_global_access(&std::array::from_fn(|lane| lane as u64 * 4), u32::MAX, 4);
        assert_eq!((traffic.bytes, traffic.sectors), (128, 4));
        let shared = |stride: u64, bytes| {
            let mut traffic = Traffic::default();
            traffic.count_shared_access(&std::array::from_fn(|lane| lane as u64 * stride), u32::MAX, bytes);
            (traffic.wavefronts, traffic.conflicts)
        };
        assert_eq!(shared(4, 4), (1, 0));
        assert_eq!(shared(8, 4), (2, 1));
        assert_eq!(shared(128, 4), (32, 31));
        assert_eq!(shared(0, 4), (1, 0));
        assert_eq!(shared(16, 16), (4, 0));
        assert_eq!(shared(128, 16), (32, 28));
    }
}
