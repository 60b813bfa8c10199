//! Execution statistics: warp instructions, memory traffic and bank conflicts, for the kernel and for each loop.

use crate::lanes::{Lanes, lanes_of};
use crate::machine::Machine;
use crate::program::Op;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The memory traffic of one instruction, summed over all its executions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes that the lanes access in global memory.
    global_bytes: u64,
    /// Number of 32-byte sectors of global memory. Each execution by a warp counts its distinct sectors.
    global_sectors: u64,
    /// Number of shared-memory wavefronts.
    shared_wavefronts: u64,
    /// Number of shared-memory wavefronts due to bank conflicts.
    bank_conflicts: u64,
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

/// The JSON report of `tile-sim --stats`.
#[derive(Serialize)]
struct StatisticsReport {
    kernel: String,
    #[serde(flatten)]
    total: InstructionCounts,
    loops: Vec<LoopStatistics>,
    /// The instructions with bank conflicts, worst first.
    conflicts: Vec<ConflictingInstruction>,
}

/// An instruction with shared-memory bank conflicts.
#[derive(Serialize)]
struct ConflictingInstruction {
    line: u32,
    opcode: String,
    executed: u64,
    shared_wavefronts: u64,
    bank_conflicts: u64,
}

/// A loop that was repeated at least once, with its counts.
#[derive(Serialize)]
struct LoopStatistics {
    /// The label at the start of the loop.
    label: String,
    first_line: u32,
    last_line: u32,
    /// The number of times that warps took the back edge.
    repeats: u64,
    #[serde(flatten)]
    counts_of_range: InstructionCounts,
}

/// Counts of an instruction range.
#[derive(Default, Serialize)]
struct InstructionCounts {
    /// Executed warp instructions.
    instructions: u64,
    /// Executed warp instructions of each opcode.
    opcodes: BTreeMap<String, u64>,
    global_bytes: u64,
    global_sectors: u64,
    shared_wavefronts: u64,
    bank_conflicts: u64,
    mmas: u64,
    /// Executed instructions on named barriers, and mbarrier waits.
    barrier_waits: u64,
    /// Number of times that a blocking mbarrier wait found its phase incomplete.
    failed_waits: u64,
}

impl Machine<'_> {
    /// Returns the statistics of the run as JSON.
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
                loops.push(LoopStatistics {
                    label: program.labels.get(&target).cloned().unwrap_or_default(),
                    first_line: lines().min().unwrap_or(0),
                    last_line: lines().max().unwrap_or(0),
                    repeats: self.branches_taken[pc],
                    counts_of_range: self.count_range(range.clone()),
                });
            }
        }
        let total = self.count_range(0..program.code.len());
        let report = StatisticsReport { kernel: program.entry.clone(), total, loops, conflicts: self.conflicting_instructions() };
        serde_json::to_string_pretty(&report).expect("counts are serialisable") + "\n"
    }

    /// Returns the instructions with bank conflicts.
    fn conflicting_instructions(&self) -> Vec<ConflictingInstruction> {
        let instructions = self.program.code.iter().zip(&self.execution_counts).zip(&self.traffic);
        let conflicting = instructions.filter(|(_, traffic)| traffic.bank_conflicts > 0);
        let mut list: Vec<ConflictingInstruction> = conflicting
            .map(|((instr, executed), traffic)| ConflictingInstruction {
                line: instr.line,
                opcode: self.program.opcodes[instr.opcode as usize].clone(),
                executed: *executed,
                shared_wavefronts: traffic.shared_wavefronts,
                bank_conflicts: traffic.bank_conflicts,
            })
            .collect();
        list.sort_by_key(|conflicting| (std::cmp::Reverse(conflicting.bank_conflicts), conflicting.line));
        list
    }

    /// Counts the executed instructions of a range of the code.
    fn count_range(&self, range: std::ops::Range<usize>) -> InstructionCounts {
        let mut counts_of_range = InstructionCounts::default();
        for pc in range {
            let count = self.execution_counts[pc];
            counts_of_range.failed_waits += self.failed_waits[pc];
            if count == 0 {
                continue;
            }
            let name = &self.program.opcodes[self.program.code[pc].opcode as usize];
            counts_of_range.instructions += count;
            *counts_of_range.opcodes.entry(name.clone()).or_default() += count;
            let starts_with_any = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
            if starts_with_any(&["mma.", "wgmma.mma_async", "tcgen05.mma"]) {
                counts_of_range.mmas += count;
            }
            if starts_with_any(&["bar.", "barrier.", "mbarrier.try_wait", "mbarrier.test_wait"]) {
                counts_of_range.barrier_waits += count;
            }
            if let Some(traffic) = self.traffic.get(pc) {
                counts_of_range.global_bytes += traffic.global_bytes;
                counts_of_range.global_sectors += traffic.global_sectors;
                counts_of_range.shared_wavefronts += traffic.shared_wavefronts;
                counts_of_range.bank_conflicts += traffic.bank_conflicts;
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
