//! Purpose: reorders pure instructions of long blocks so that the execution units work in parallel.
//! Requires: blocks after LLVM's passes and [`crate::list_schedule`], in an order that ptxas can allocate.
//! Establishes: an order with a shorter estimated time of one warp, and a peak of at most `EXTRA_REGISTERS` more live registers.
//! Preserves: data dependences, and the order of instructions with side effects, except lane exchanges.
//! See also: LLVM `MachineScheduler`.
//!
//! Reason: the emitters emit the instructions for all registers of an op before the instructions of the next op. The exponentials
//! of a tile, for example, then keep the special function unit busy while the float units are idle.

use crate::block_dag::{BlockDag, called_assembly, live_out};
use crate::list_schedule::demand_order;
use base::Target;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use inkwell::types::{AnyType, AnyTypeEnum};
use inkwell::values::{CallSiteValue, InstructionOpcode as Code, InstructionValue};
use perf_model::Rates;
use std::collections::{BTreeSet, HashSet};

/// The pass handles blocks with more than `MIN_INSTRUCTIONS` and at most `MAX_INSTRUCTIONS` instructions. Shorter blocks gain
/// little; for longer blocks, the pass takes too long.
const MIN_INSTRUCTIONS: usize = 64;
/// The maximum number of instructions of a block that the pass handles (see [`MIN_INSTRUCTIONS`]).
const MAX_INSTRUCTIONS: usize = 16 << 10;
/// Number of ready instructions among which the scheduler selects the next one, close to the original order.
const WIDE_WINDOW: usize = 128;
/// The window size, in place of [`WIDE_WINDOW`], for orders close to the demand order (see [`demand_order`]). A smaller window
/// keeps fewer registers live.
const NARROW_WINDOW: usize = 32;
/// The scheduler prefers an instruction with at least this many followers, because many instructions become ready after it.
const MANY_FOLLOWERS: usize = 8;
/// Tolerated increase of the peak register pressure, in 32-bit registers. Reason: the scheduler has no lookahead, so it cannot
/// avoid every increase.
const EXTRA_REGISTERS: u64 = 4;
/// Number of 32-bit registers above the peak pressure of the demand order that the scheduler may use for values in flight.
const IN_FLIGHT_REGISTERS: u64 = 32;
/// The pass reorders a block only if the new order saves more than 1/`MIN_GAIN_DIVISOR` of the block's estimated cycles.
const MIN_GAIN_DIVISOR: u64 = 32;
/// Number of cycles that the scheduler adds to the issue cycle of a wait when it selects an instruction, so that other
/// instructions come first.
const WAIT_DELAY: u64 = 64;
/// Number of lanes of a warp.
const LANES: u64 = 32;
/// Number of sub-partitions of an SM. A warp uses the execution units of its sub-partition only.
const SUB_PARTITIONS: u64 = 4;

/// The execution unit that an instruction occupies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExecutionUnit {
    None,
    Float,
    Integer,
    Special,
    Other,
}

/// The cost of an instruction for one warp.
#[derive(Clone, Copy)]
struct IssueCost {
    unit: ExecutionUnit,
    /// Cycles for which the instruction keeps the unit busy.
    busy: u64,
    /// Cycles until the result is available.
    latency: u64,
    /// A penalty in cycles: the scheduler adds it to the earliest issue cycle when it selects the next instruction. It is
    /// `WAIT_DELAY` for waits and zero for other instructions.
    delay: u64,
}

impl IssueCost {
    /// The number of issue cycles that the instruction takes: one, or zero if it needs no machine instruction.
    fn issue_cycles(self) -> usize {
        usize::from(self.unit != ExecutionUnit::None)
    }
}

/// Reorders the instructions of all long blocks in which the new order saves cycles.
pub(crate) fn run(module: &Module<'_>, target: Target, builder: &Builder<'_>) {
    let rates = perf_model::rates(target);
    for function in module.get_functions() {
        let has = |block: &BasicBlock<'_>, count| block.get_instructions().nth(count).is_some();
        let long = |block: &BasicBlock<'_>| has(block, MIN_INSTRUCTIONS) && !has(block, MAX_INSTRUCTIONS);
        let blocks: Vec<BasicBlock<'_>> = function.get_basic_blocks().into_iter().filter(long).collect();
        if blocks.is_empty() {
            continue;
        }
        let live_out = live_out(function);
        blocks.into_iter().for_each(|block| interleave(block, &live_out, rates, builder));
    }
}

/// Applies the first candidate order that is profitable: it saves enough cycles and does not raise the pressure too much.
fn interleave<'c>(block: BasicBlock<'c>, live_out: &HashSet<LLVMValueRef>, rates: &Rates, builder: &Builder<'c>) {
    let dag = BlockDag::build(block, live_out);
    let plan = InterleavePlan::compute(&dag, rates);
    let original: Vec<usize> = (0..dag.instructions.len()).collect();
    let cycles_before = plan.estimated_cycles(&original);
    if plan.min_cycles() + cycles_before / MIN_GAIN_DIVISOR >= cycles_before {
        return;
    }
    let pressure_before = dag.peak_pressure(&original);
    let demand_order = demand_order(&dag);
    let max_registers = pressure_before.min(dag.peak_pressure(&demand_order) + IN_FLIGHT_REGISTERS);
    for (base, window) in [(&original, WIDE_WINDOW), (&demand_order, NARROW_WINDOW)] {
        let (order, cycles) = plan.schedule(base, window, max_registers);
        if cycles + cycles_before / MIN_GAIN_DIVISOR < cycles_before
            && dag.peak_pressure(&order) <= pressure_before + EXTRA_REGISTERS
        {
            return dag.apply_order(&order, block, builder);
        }
    }
}

/// The dependences and the costs of a block's instructions.
struct InterleavePlan<'s, 'c> {
    dag: &'s BlockDag<'c>,
    costs: Vec<IssueCost>,
    /// The distinct operands of each instruction.
    operands: Vec<Vec<usize>>,
    /// The predecessors of each instruction: its operands and, for an instruction with a side effect, the previous one with a side
    /// effect. All other instructions precede the terminator.
    predecessors: Vec<Vec<usize>>,
    /// The followers of each instruction: the instructions of which it is a predecessor. The flag states whether the follower uses
    /// the result.
    followers: Vec<Vec<(usize, bool)>>,
}

/// The state of a simulated warp: the current cycle, and the cycles at which execution units and operands become available.
struct WarpClock {
    cycle: u64,
    /// The cycle at which each unit becomes free.
    unit_free_cycles: [u64; 5],
    /// The earliest cycle at which the operands of each instruction are available.
    ready_cycles: Vec<u64>,
}

impl WarpClock {
    /// Returns the clock of a warp before its first instruction.
    fn new(count: usize) -> WarpClock {
        WarpClock { cycle: 0, unit_free_cycles: [0; 5], ready_cycles: vec![0; count] }
    }

    /// The earliest cycle at which an instruction can issue.
    fn earliest_issue(&self, number: usize, cost: IssueCost) -> u64 {
        self.cycle.max(self.ready_cycles[number]).max(self.unit_free_cycles[cost.unit as usize])
    }

    /// Advances the clock by one instruction, which issues at its earliest cycle. Updates the ready cycles of its followers.
    fn issue(&mut self, number: usize, cost: IssueCost, followers: &[(usize, bool)]) {
        let start = self.earliest_issue(number, cost);
        if cost.unit != ExecutionUnit::None {
            self.cycle = start + 1;
            self.unit_free_cycles[cost.unit as usize] = start + cost.busy;
        }
        for (follower, uses_result) in followers {
            let from = if *uses_result { start + cost.latency } else { start };
            self.ready_cycles[*follower] = self.ready_cycles[*follower].max(from);
        }
    }
}

impl<'s, 'c> InterleavePlan<'s, 'c> {
    /// Builds the plan of a block from its graph: costs, dependences and followers of the instructions.
    fn compute(dag: &'s BlockDag<'c>, rates: &Rates) -> InterleavePlan<'s, 'c> {
        let instruction_count = dag.instructions.len();
        let called_names: Vec<Option<String>> = dag.instructions.iter().map(|instruction| called_name(*instruction)).collect();
        let operands: Vec<Vec<usize>> = dag.operands.iter().map(|operands| sorted_distinct(operands)).collect();
        let mut predecessors = operands.clone();
        let (mut last_effect, end) = (None, instruction_count - 1);
        let keeps_order = |number: &usize| !dag.is_pure[*number] && !is_lane_exchange(called_names[*number].as_deref());
        for number in (0..instruction_count).filter(keeps_order) {
            predecessors[number].extend(last_effect);
            last_effect = Some(number);
        }
        predecessors[end] = (0..end).collect();
        predecessors = predecessors.iter().map(|before_it| sorted_distinct(before_it)).collect();
        let mut followers = vec![Vec::new(); instruction_count];
        for (number, before_it) in predecessors.iter().enumerate() {
            before_it.iter().for_each(|predecessor| followers[*predecessor].push((number, operands[number].contains(predecessor))));
        }
        let costs = (0..instruction_count)
            .map(|number| cost(dag.instructions[number], called_names[number].as_deref(), dag.is_pure[number], rates))
            .collect();
        InterleavePlan { dag, costs, operands, predecessors, followers }
    }

    /// Estimates the issue cycles of an order, for a single warp.
    fn estimated_cycles(&self, order: &[usize]) -> u64 {
        let mut clock = WarpClock::new(order.len());
        order.iter().for_each(|number| clock.issue(*number, self.costs[*number], &self.followers[*number]));
        clock.cycle
    }

    /// A lower bound on the estimated cycles of every order.
    fn min_cycles(&self) -> u64 {
        let mut busy_cycles = [0; 5];
        self.costs.iter().for_each(|cost| busy_cycles[cost.unit as usize] += cost.busy);
        let issue_cycles = self.costs.iter().map(|cost| cost.issue_cycles()).sum::<usize>() as u64;
        busy_cycles.into_iter().max().unwrap_or(0).max(issue_cycles)
    }

    /// Computes an order close to `base_order`, and its estimated cycles. Each step selects the instruction with the best priority
    /// among the first `window` ready instructions of `base_order`.
    fn schedule(&self, base_order: &[usize], window: usize, max_registers: u64) -> (Vec<usize>, u64) {
        let instruction_count = self.costs.len();
        let mut position_in_base = vec![0; instruction_count];
        base_order.iter().enumerate().for_each(|(at, number)| position_in_base[*number] = at);
        let mut missing_predecessors: Vec<usize> = self.predecessors.iter().map(Vec::len).collect();
        // The positions of ready instructions in `base_order`.
        let mut ready_positions: BTreeSet<usize> =
            (0..instruction_count).filter(|at| missing_predecessors[base_order[*at]] == 0).collect();
        let (mut list, mut order) = (ListSchedule::new(self, max_registers), Vec::with_capacity(instruction_count));
        while let Some(at) = ready_positions.iter().take(window).copied().min_by_key(|at| (list.priority(base_order[*at]), *at)) {
            ready_positions.remove(&at);
            list.add(base_order[at]);
            order.push(base_order[at]);
            for (follower, _) in &self.followers[base_order[at]] {
                missing_predecessors[*follower] -= 1;
                if missing_predecessors[*follower] == 0 {
                    ready_positions.insert(position_in_base[*follower]);
                }
            }
        }
        (order, list.clock.cycle)
    }
}

/// An order under construction.
struct ListSchedule<'p, 's, 'c> {
    plan: &'p InterleavePlan<'s, 'c>,
    clock: WarpClock,
    /// The number of 32-bit registers that are live after the instructions scheduled so far.
    live_registers: u64,
    /// The number of live 32-bit registers that the schedule should not exceed.
    max_registers: u64,
    /// For each result, the number of uses that have not been scheduled yet.
    remaining_uses: Vec<usize>,
    /// For each execution unit, the busy cycles of the instructions that have not been scheduled yet.
    remaining_busy: [u64; 5],
    /// The number of issue cycles of the instructions scheduled so far.
    issue_cycles: usize,
    /// For each instruction, the number of issue cycles before it in the original order.
    original_issue_cycle: Vec<usize>,
}

impl<'p, 's, 'c> ListSchedule<'p, 's, 'c> {
    fn new(plan: &'p InterleavePlan<'s, 'c>, max_registers: u64) -> Self {
        let count = plan.costs.len();
        let (mut remaining_uses, mut remaining_busy) = (vec![0; count], [0; 5]);
        plan.operands.iter().flatten().for_each(|operand| remaining_uses[*operand] += 1);
        plan.costs.iter().for_each(|cost| remaining_busy[cost.unit as usize] += cost.busy);
        let next_issue_cycle = |cycle: &mut usize, cost: &IssueCost| Some(std::mem::replace(cycle, *cycle + cost.issue_cycles()));
        let original_issue_cycle = plan.costs.iter().scan(0, next_issue_cycle).collect();
        ListSchedule {
            plan,
            clock: WarpClock::new(count),
            live_registers: 0,
            max_registers,
            remaining_uses,
            remaining_busy,
            issue_cycles: 0,
            original_issue_cycle,
        }
    }

    /// The scheduling priority of an instruction; the smallest tuple comes first. Its fields are the registers above the limit, the
    /// issue cycle, whether few instructions follow, and the remaining work of the execution unit (more work comes first).
    fn priority(&self, number: usize) -> (u64, u64, bool, u64) {
        let cost = self.plan.costs[number];
        let (defined, freed) = self.register_change(number);
        let pressure_increase = defined.saturating_sub(freed);
        // An instruction with a side effect, for example a load, is not delayed beyond its original position to save registers.
        let is_due = !self.plan.dag.is_pure[number] && self.original_issue_cycle[number] <= self.issue_cycles;
        let registers_above_limit =
            if self.live_registers + pressure_increase > self.max_registers && !is_due { pressure_increase } else { 0 };
        let has_few_followers = self.plan.followers[number].len() < MANY_FOLLOWERS;
        (
            registers_above_limit,
            self.clock.earliest_issue(number, cost) + cost.delay,
            has_few_followers,
            u64::MAX - self.remaining_busy[cost.unit as usize],
        )
    }

    /// Schedules an instruction next.
    fn add(&mut self, number: usize) {
        let (defined, freed) = self.register_change(number);
        self.live_registers = (self.live_registers + defined).saturating_sub(freed);
        self.plan.operands[number].iter().for_each(|operand| self.remaining_uses[*operand] -= 1);
        let cost = self.plan.costs[number];
        self.clock.issue(number, cost, &self.plan.followers[number]);
        self.remaining_busy[cost.unit as usize] -= cost.busy;
        self.issue_cycles += cost.issue_cycles();
    }

    /// The number of 32-bit registers that an instruction defines, and the number that it frees.
    fn register_change(&self, number: usize) -> (u64, u64) {
        let dag = self.plan.dag;
        let is_used = self.remaining_uses[number] > 0 || dag.is_live_out[number];
        let last_uses =
            self.plan.operands[number].iter().filter(|operand| self.remaining_uses[**operand] == 1 && !dag.is_live_out[**operand]);
        (if is_used { dag.result_registers[number] } else { 0 }, last_uses.map(|operand| dag.result_registers[*operand]).sum())
    }
}

/// Returns the numbers without duplicates, in ascending order.
fn sorted_distinct(numbers: &[usize]) -> Vec<usize> {
    let mut sorted_numbers = numbers.to_vec();
    sorted_numbers.sort_unstable();
    sorted_numbers.dedup();
    sorted_numbers
}

/// Returns the cost of an instruction. `name` is the name of a called function, or its inline assembly.
fn cost(instruction: InstructionValue<'_>, name: Option<&str>, is_pure: bool, rates: &Rates) -> IssueCost {
    let per_lane = |rate: u32, unit: ExecutionUnit| IssueCost {
        unit,
        busy: (LANES * SUB_PARTITIONS / u64::from(rate).max(1)).max(1),
        latency: u64::from(rates.arithmetic_latency),
        delay: 0,
    };
    let (float_cost, integer_cost) =
        (per_lane(rates.multiply_add, ExecutionUnit::Float), per_lane(rates.integer, ExecutionUnit::Integer));
    let special_cost =
        |rate: u32| IssueCost { latency: 4 * u64::from(rates.arithmetic_latency), ..per_lane(rate, ExecutionUnit::Special) };
    let no_cost = IssueCost { unit: ExecutionUnit::None, busy: 0, latency: 0, delay: 0 };
    let other_cost = |latency: u32| IssueCost { unit: ExecutionUnit::Other, busy: 1, latency: u64::from(latency), delay: 0 };
    match instruction.get_opcode() {
        Code::FAdd | Code::FSub | Code::FMul => float_cost,
        Code::FDiv => special_cost(rates.special),
        Code::Phi | Code::ExtractElement | Code::InsertElement | Code::ExtractValue | Code::InsertValue => no_cost,
        Code::BitCast | Code::FNeg | Code::Freeze | Code::ShuffleVector => no_cost,
        Code::Trunc | Code::ZExt if is_narrow(instruction) => no_cost,
        Code::Load | Code::Store => other_cost(rates.shared_latency),
        Code::Call => match name {
            Some(name) if name.contains("fma") => float_cost,
            Some(name) if name.contains("ex2") => special_cost(rates.exponential),
            Some(name) if ["rcp", "div", "sqrt", "tanh", "lg2", "sin", "cos"].iter().any(|part| name.contains(part)) => {
                special_cost(rates.special)
            }
            Some(name) if name.contains("wait") => IssueCost { delay: WAIT_DELAY, ..other_cost(rates.shared_latency) },
            Some(_) if is_pure => integer_cost,
            Some(_) | None => other_cost(rates.shared_latency),
        },
        Code::Add | Code::Sub | Code::Mul | Code::SDiv | Code::UDiv | Code::SRem | Code::URem | Code::FRem => integer_cost,
        Code::And | Code::Or | Code::Xor | Code::Shl | Code::LShr | Code::AShr => integer_cost,
        Code::ICmp | Code::FCmp | Code::Select => integer_cost,
        Code::Trunc | Code::ZExt | Code::SExt | Code::FPExt | Code::FPTrunc => integer_cost,
        Code::FPToSI | Code::FPToUI | Code::SIToFP | Code::UIToFP => integer_cost,
        Code::GetElementPtr | Code::IntToPtr | Code::PtrToInt | Code::PtrToAddr | Code::AddrSpaceCast | Code::Alloca => {
            integer_cost
        }
        Code::AtomicCmpXchg | Code::AtomicRMW | Code::Fence => integer_cost,
        // Terminators execute on the integer unit too.
        Code::Br | Code::Switch | Code::IndirectBr | Code::Return | Code::Unreachable => integer_cost,
        Code::CallBr | Code::Invoke | Code::Resume | Code::LandingPad | Code::VAArg | Code::UserOp1 | Code::UserOp2 => {
            unreachable!("kernels have neither exceptions nor variable arguments")
        }
        Code::CatchPad | Code::CatchRet | Code::CatchSwitch | Code::CleanupPad | Code::CleanupRet => {
            unreachable!("kernels have no exceptions")
        }
    }
}

/// Whether an instruction exchanges values between the lanes of a warp. All lanes of a warp execute the block together, so such an
/// instruction may move within the block although it is not pure.
fn is_lane_exchange(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with("llvm.nvvm.shfl.") || name.starts_with("llvm.nvvm.redux."))
}

/// The name of the called function, or the text of the called inline assembly. `None` if the instruction is not a call.
fn called_name(instruction: InstructionValue<'_>) -> Option<String> {
    if instruction.get_opcode() != Code::Call {
        return None;
    }
    let function = CallSiteValue::try_from(instruction).ok()?.get_called_fn_value();
    function.map(|function| function.get_name().to_string_lossy().into_owned()).or_else(|| Some(called_assembly(instruction)?.text))
}

/// Whether the result is an integer of fewer than 32 bits.
fn is_narrow(instruction: InstructionValue<'_>) -> bool {
    matches!(instruction.get_type().as_any_type_enum(), AnyTypeEnum::IntType(ty) if ty.get_bit_width() < 32)
}
