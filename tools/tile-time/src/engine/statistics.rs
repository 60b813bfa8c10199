//! The statistics of a simulation: the time of each warp by reason, the utilization of each unit, and an optional timeline.

use super::Setup;
use super::memory::Traffic;
use crate::cost::{UNITS, Unit};

/// The reason why a warp does not issue an instruction: the work or the resource that the warp waits for. `STALL_REASONS` describes
/// each reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StallReason {
    /// The SM sub-partition issued another instruction.
    Slot,
    Arithmetic,
    Special,
    Shared,
    Global,
    Mma,
    TmemLoad,
    Unit,
    Port,
    TensorUnit,
    Memory,
    Mbarrier,
    Barrier,
    Copies,
    Stores,
    Mmas,
    Branch,
    Fence,
    Start,
    Spill,
    Fetch,
    Tma,
}

/// Each stall reason with its text for reports, in the order of the enum. The text completes the sentence "the warp waits for ...".
pub(crate) const STALL_REASONS: [(StallReason, &str); 22] = [
    (StallReason::Slot, "an issue slot"),
    (StallReason::Arithmetic, "results of arithmetic"),
    (StallReason::Special, "results of special functions"),
    (StallReason::Shared, "loads from shared memory"),
    (StallReason::Global, "loads from global memory"),
    (StallReason::Mma, "MMA results"),
    (StallReason::TmemLoad, "loads from tensor memory"),
    (StallReason::Unit, "an arithmetic pipe"),
    (StallReason::Port, "the port of shared memory"),
    (StallReason::TensorUnit, "the tensor unit"),
    (StallReason::Memory, "a full memory queue"),
    (StallReason::Mbarrier, "mbarriers"),
    (StallReason::Barrier, "barriers"),
    (StallReason::Copies, "cp.async copies"),
    (StallReason::Stores, "TMA stores"),
    (StallReason::Mmas, "MMAs of the warp group"),
    (StallReason::Branch, "branches"),
    (StallReason::Fence, "fences"),
    (StallReason::Start, "the start of the CTA"),
    (StallReason::Spill, "spilled registers"),
    (StallReason::Fetch, "instruction fetch"),
    (StallReason::Tma, "an earlier TMA copy of the warp"),
];

impl StallReason {
    /// Returns the text of the stall reason for reports.
    pub(crate) fn name(self) -> &'static str {
        STALL_REASONS[self as usize].1
    }
}

/// Units of an SM outside the arithmetic units of its sub-partitions (`cost::Unit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    /// The shared-memory port.
    Port,
    /// TMA.
    Copy,
    /// `tcgen05` and `wgmma` MMAs.
    Tensor,
    /// The tensor-memory ports for `tcgen05.ld` and `tcgen05.st`.
    TensorMemory,
    /// MMA operand reads from shared memory.
    Operands,
}

/// The name of each engine for reports, in the order of the enum.
pub(crate) const ENGINES: [(Engine, &str); 5] = [
    (Engine::Port, "shared memory port"),
    (Engine::Copy, "TMA"),
    (Engine::Tensor, "tensor memory MMAs"),
    (Engine::TensorMemory, "tensor memory port"),
    (Engine::Operands, "operands from shared memory"),
];

/// An interval of the timeline in which an engine processes an instruction or a warp waits at an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The engine of the span; `None` for a warp.
    pub(crate) engine: Option<Engine>,
    pub(crate) cta: usize,
    pub(crate) warp: usize,
    /// The reason of the wait; without meaning for an engine.
    pub(crate) stall: StallReason,
    /// Start and end of the interval in cycles.
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) pc: u32,
}

/// The time that a warp spends at an instruction: number of executions, issue cycles, and stall cycles by reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InstructionTime {
    pub(crate) count: u64,
    pub(crate) issue_cycles: f64,
    /// The stall cycles of each reason, in the order of `STALL_REASONS`.
    pub(crate) stall_cycles: [f32; STALL_REASONS.len()],
}

/// The measurements of a simulation.
pub(crate) struct Statistics {
    /// Start and end of each cluster in cycles, ordered by end.
    pub(crate) cluster_times: Vec<(f64, f64)>,
    /// The time that warps spend at each instruction, by warp index in the CTA and by instruction index. An element adds the times
    /// of the warps with this index in all simulated CTAs.
    pub(crate) instruction_times: Vec<Vec<InstructionTime>>,
    /// Busy cycles of each unit and of each engine, summed over all SMs.
    pub(crate) unit_cycles: [f64; UNITS.len()],
    pub(crate) engine_cycles: [f64; ENGINES.len()],
    /// Number of issue slots that the issued instructions take, summed over all SMs.
    pub(crate) issue_slots: f64,
    /// The time at which the last warp ends.
    pub(crate) end: f64,
    /// The memory traffic of each SM.
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) spans: Vec<Span>,
    /// Completed mbarrier phases: time, CTA, address and phase number.
    pub(crate) phases: Vec<(f64, usize, u32, u32)>,
    /// The PTX lines at which warps stalled forever, which is a bug of the model.
    pub(crate) stuck: Vec<u32>,
    records_timeline: bool,
    instruction_count: usize,
}

impl Statistics {
    pub(super) fn new(setup: &Setup) -> Statistics {
        Statistics {
            cluster_times: Vec::new(),
            instruction_times: Vec::new(),
            unit_cycles: [0.0; UNITS.len()],
            engine_cycles: [0.0; ENGINES.len()],
            issue_slots: 0.0,
            end: 0.0,
            traffic: Vec::new(),
            spans: Vec::new(),
            phases: Vec::new(),
            stuck: Vec::new(),
            records_timeline: setup.records_timeline,
            instruction_count: setup.program.code.len(),
        }
    }
    /// Returns the entry of an instruction of a warp. Creates it if it does not exist.
    fn instruction_time(&mut self, warp: usize, pc: u32) -> &mut InstructionTime {
        if self.instruction_times.len() <= warp {
            self.instruction_times.resize_with(warp + 1, Vec::new);
        }
        if self.instruction_times[warp].is_empty() {
            self.instruction_times[warp] = vec![InstructionTime::default(); self.instruction_count];
        }
        &mut self.instruction_times[warp][pc as usize]
    }
    /// Counts an issued instruction. `slots` is the number of issue slots that it takes.
    pub(super) fn count_issue(&mut self, warp: usize, pc: u32, slots: f64) {
        let spent = self.instruction_time(warp, pc);
        spent.count += 1;
        spent.issue_cycles += slots;
        self.issue_slots += slots;
    }
    /// Adds a wait of a warp at an instruction, from `start` to `end`.
    pub(super) fn add_wait(&mut self, cta: usize, warp: usize, pc: u32, stall: StallReason, start: f64, end: f64) {
        self.instruction_time(warp, pc).stall_cycles[stall as usize] += (end - start) as f32;
        // The timeline omits waits of fewer than 8 cycles, which viewers cannot show.
        if self.records_timeline && end - start >= 8.0 {
            self.spans.push(Span { engine: None, cta, warp, stall, start, end, pc });
        }
    }
    /// Adds cycles in which a unit is busy.
    pub(super) fn add_unit_cycles(&mut self, unit: Unit, cycles: f64) {
        self.unit_cycles[unit as usize] += cycles;
    }
    /// Adds cycles in which an engine is busy.
    pub(super) fn add_engine_cycles(&mut self, engine: Engine, cycles: f64) {
        self.engine_cycles[engine as usize] += cycles;
    }
    /// Records for the timeline that phase `number` of the mbarrier at `address` completes.
    pub(super) fn record_phase(&mut self, time: f64, cta: usize, address: u32, number: u32) {
        if self.records_timeline {
            self.phases.push((time, cta, address, number));
        }
    }
    /// Records that a warp ends at the time `end`.
    pub(super) fn record_warp_end(&mut self, end: f64) {
        self.end = self.end.max(end);
    }
}
