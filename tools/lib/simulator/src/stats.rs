//! Execution statistics: warp instructions, memory traffic and bank conflicts, for the kernel and for each loop.

use crate::machine::Machine;
use crate::program::Op;
use serde::Serialize;
use std::collections::BTreeMap;

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
