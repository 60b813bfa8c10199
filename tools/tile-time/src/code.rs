//! The program representation of the timing model: PTX instructions with their costs, operands, basic blocks, loops and issue
//! order.

use crate::cost::Cost;
use perf_model::Machine;
use perf_model::unrolling::unrolled_iterations;
use simulator::program::RegSlot;

/// Bytes of a machine instruction.
pub(crate) const INSTRUCTION_BYTES: f64 = 16.0;

/// Line size of the instruction caches in bytes, at least the size of one instruction.
pub(crate) fn line_bytes(machine: &Machine) -> f64 {
    machine.code.line.max(INSTRUCTION_BYTES)
}

/// A program with the data that the timing model needs for each instruction. An index into the vectors of instruction data is an
/// index of `Program::code`.
pub(crate) struct Code {
    pub(crate) costs: Vec<Cost>,
    /// For each instruction, the registers that the instruction reads, without constants, and the registers that it writes.
    pub(crate) operands: Vec<(Box<[RegSlot]>, Box<[RegSlot]>)>,
    /// For each instruction, whether the assembler generates no machine code for it, because it folds the instruction: a register
    /// copy, a register pair, or a parameter load.
    pub(crate) folded: Vec<bool>,
    /// For each instruction, the latency in cycles that the assembler assumes when it orders instructions. For global loads it is
    /// the latency of an L2 hit.
    pub(crate) assumed_latency: Vec<f64>,
    /// For each instruction, the mean number of spill instructions per execution of the instruction.
    pub(crate) spills: Vec<f32>,
    /// The instruction indices at which basic blocks start, and the end of the program.
    pub(crate) block_starts: Vec<u32>,
    /// For each instruction, whether it is a branch that the assembler replaces by predication.
    pub(crate) converted_branches: Vec<bool>,
    /// The starts of scheduling regions, and the end of the program. A region is a basic block, extended across converted branches.
    pub(crate) region_starts: Vec<u32>,
    /// For each position of a scheduling region, the instruction that issues there.
    pub(crate) order: Vec<u32>,
    pub(crate) loops: Vec<Loop>,
    /// For each element of `loops`, how the assembler unrolls the loop.
    pub(crate) unrolling: Vec<Unrolling>,
    /// For each instruction, the number of its instruction-cache line.
    pub(crate) cache_lines: Vec<u32>,
    /// Number of instruction-cache lines of the program.
    pub(crate) cache_line_count: u32,
    /// For each instruction, the index in `loops` of its innermost loop; `None` outside loops.
    pub(crate) innermost_loop: Vec<Option<usize>>,
}

/// A loop of the PTX. `first` is the instruction index of a backward branch's target, and `last` the index of the branch.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) label: String,
}

/// How the assembler unrolls a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unrolling {
    /// The assembler does not unroll the loop: the loads of an iteration issue after the previous iteration.
    No,
    /// The assembler combines this many iterations into one.
    Factor(u32),
    /// The assembler unrolls the loop completely if the trip count is small enough. `instructions` is the number of machine
    /// instructions of an iteration.
    Complete { instructions: f64 },
}

impl Unrolling {
    /// Returns the number of iterations whose loads issue together. `trip_count` returns the trip count of the loop, or `None` if
    /// the trip count is unknown.
    pub(crate) fn group_size(self, trip_count: impl FnOnce() -> Option<u32>) -> u32 {
        match self {
            Unrolling::No => 1,
            Unrolling::Factor(factor) => factor,
            Unrolling::Complete { instructions } => {
                trip_count().map_or(1, |trips| unrolled_iterations(instructions, Some(f64::from(trips))) as u32)
            }
        }
    }
}

impl Code {
    /// Returns the index in `loops` of the innermost loop that contains an instruction; `None` outside loops.
    pub(crate) fn innermost_loop_of(&self, pc: u32) -> Option<usize> {
        self.innermost_loop[pc as usize]
    }
}
