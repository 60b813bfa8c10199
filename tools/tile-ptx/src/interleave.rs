//! Purpose: reorders pure instructions of long blocks so that the execution units work in parallel.
//! Requires: blocks after LLVM's passes and [`crate::list_schedule`], in an order that ptxas can allocate.
//! Establishes: an order with a shorter estimated time for one warp and at most `EXTRA_REGISTERS` more live registers.
//! Preserves: the order of instructions with side effects, and each value's dependences.
//! See also: LLVM `MachineScheduler`.
//!
//! Reason: the emitters write all registers of one op before the next op. The exponentials of a tile, for example, then keep the
//! special function unit busy while the float units are idle.

use crate::block_dag::{BlockDag, assembly, live_out};
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
/// little, longer ones take too long.
const MIN_INSTRUCTIONS: usize = 64;
const MAX_INSTRUCTIONS: usize = 16 << 10;
/// Number of ready instructions that the scheduler ranks. A smaller window keeps fewer registers live.
const WIDE_WINDOW: usize = 128;
const NARROW_WINDOW: usize = 32;
/// An instruction with at least this many followers is preferred, because it makes many instructions ready.
const MANY_FOLLOWERS: usize = 8;
/// Tolerated increase of the peak register pressure. Reason: the scheduler has no lookahead.
const EXTRA_REGISTERS: u64 = 4;
/// Number of registers above the minimum pressure that the scheduler may use for values in flight.
const IN_FLIGHT_REGISTERS: u64 = 32;
/// The pass reorders a block only if that saves at least 1/`MIN_GAIN_DIVISOR` of its cycles.
const MIN_GAIN_DIVISOR: u64 = 32;
/// Number of cycles by which the scheduler delays a wait, in favour of other instructions.
const WAIT_DELAY: u64 = 64;
/// Number of lanes of a warp.
const LANES: u64 = 32;
/// Number of sub-partitions of an SM. A warp uses the units of one sub-partition.
const SUB_PARTITIONS: u64 = 4;

/// The execution unit that an instruction occupies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    None,
    Float,
    Integer,
    Special,
    Other,
}

#[derive(Clone, Copy)]
struct Cost {
    unit: Unit,
    /// Cycles for which the instruction keeps the unit busy.
    busy: u64,
    /// Cycles until the result is available.
    latency: u64,
    /// Cycles during which the scheduler prefers other instructions.
    held_back: u64,
}

impl Cost {
    /// The number of issue cycles that the instruction takes.
    fn issued(self) -> usize {
        usize::from(self.unit != Unit::None)
    }
}

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

/// Applies the first candidate order that is profitable, if any.
fn interleave<'c>(block: BasicBlock<'c>, live_out: &HashSet<LLVMValueRef>, rates: &Rates, builder: &Builder<'c>) {
    let dag = BlockDag::of(block, live_out);
    let plan = InterleavePlan::of(&dag, rates);
    let original: Vec<usize> = (0..dag.instructions.len()).collect();
    let cycles_before = plan.cycles(&original);
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

/// The dependences of a block's instructions, with a cost per instruction.
struct InterleavePlan<'s, 'c> {
    dag: &'s BlockDag<'c>,
    costs: Vec<Cost>,
    /// The operands of each instruction.
    operands: Vec<Vec<usize>>,
    /// The predecessors of each instruction: its operands and, for a side effect, the previous side effect.
    predecessors: Vec<Vec<usize>>,
    /// The followers of each instruction, each with whether it uses the result.
    followers: Vec<Vec<(usize, bool)>>,
}

/// The simulated warp: the current cycle, and when units and instructions become available.
struct Clock {
    cycle: u64,
    /// The cycle at which each unit becomes free.
    units: [u64; 5],
    /// The earliest cycle at which the operands of each instruction are available.
    ready: Vec<u64>,
}

impl Clock {
    fn new(count: usize) -> Clock {
        Clock { cycle: 0, units: [0; 5], ready: vec![0; count] }
    }

    /// The first cycle at which an instruction can issue.
    fn start(&self, number: usize, cost: Cost) -> u64 {
        self.cycle.max(self.ready[number]).max(self.units[cost.unit as usize])
    }

    fn issue(&mut self, number: usize, cost: Cost, followers: &[(usize, bool)]) {
        let start = self.start(number, cost);
        if cost.unit != Unit::None {
            self.cycle = start + 1;
            self.units[cost.unit as usize] = start + cost.busy;
        }
        for (follower, uses_result) in followers {
            let from = if *uses_result { start + cost.latency } else { start };
            self.ready[*follower] = self.ready[*follower].max(from);
        }
    }
}

impl<'s, 'c> InterleavePlan<'s, 'c> {
    fn of(dag: &'s BlockDag<'c>, rates: &Rates) -> InterleavePlan<'s, 'c> {
        let count = dag.instructions.len();
        let names: Vec<Option<String>> = dag.instructions.iter().map(|one| called_name(*one)).collect();
        let operands: Vec<Vec<usize>> = dag.operands.iter().map(|operands| distinct(operands)).collect();
        let mut predecessors = operands.clone();
        let (mut last_effect, end) = (None, count - 1);
        let keeps_order = |number: &usize| !dag.is_pure[*number] && !is_lane_exchange(names[*number].as_deref());
        for number in (0..count).filter(keeps_order) {
            predecessors[number].extend(last_effect);
            last_effect = Some(number);
        }
        predecessors[end] = (0..end).collect();
        predecessors = predecessors.iter().map(|before| distinct(before)).collect();
        let mut followers = vec![Vec::new(); count];
        for (number, before) in predecessors.iter().enumerate() {
            before.iter().for_each(|one| followers[*one].push((number, operands[number].contains(one))));
        }
        let costs = (0..count).map(|one| cost(dag.instructions[one], names[one].as_deref(), dag.is_pure[one], rates)).collect();
        InterleavePlan { dag, costs, operands, predecessors, followers }
    }

    /// The estimated cycles of an order, for a single warp.
    fn cycles(&self, order: &[usize]) -> u64 {
        let mut clock = Clock::new(order.len());
        order.iter().for_each(|number| clock.issue(*number, self.costs[*number], &self.followers[*number]));
        clock.cycle
    }

    /// A lower bound on the cycles of any order.
    fn min_cycles(&self) -> u64 {
        let mut busy = [0; 5];
        self.costs.iter().for_each(|cost| busy[cost.unit as usize] += cost.busy);
        let issued = self.costs.iter().map(|cost| cost.issued()).sum::<usize>() as u64;
        busy.into_iter().max().unwrap_or(0).max(issued)
    }

    /// Computes an order close to `base`, and its cycles. Each step takes the instruction with the best rank among the first
    /// `window` ready instructions.
    fn schedule(&self, base: &[usize], window: usize, max_registers: u64) -> (Vec<usize>, u64) {
        let count = self.costs.len();
        let mut position = vec![0; count];
        base.iter().enumerate().for_each(|(at, number)| position[*number] = at);
        let mut missing_predecessors: Vec<usize> = self.predecessors.iter().map(Vec::len).collect();
        // Ready instructions, by position in `base`.
        let mut candidates: BTreeSet<usize> = (0..count).filter(|at| missing_predecessors[base[*at]] == 0).collect();
        let (mut list, mut order) = (ListSchedule::new(self, max_registers), Vec::with_capacity(count));
        while let Some(at) = candidates.iter().take(window).copied().min_by_key(|at| (list.cluster_rank(base[*at]), *at)) {
            candidates.remove(&at);
            list.add(base[at]);
            order.push(base[at]);
            for (follower, _) in &self.followers[base[at]] {
                missing_predecessors[*follower] -= 1;
                if missing_predecessors[*follower] == 0 {
                    candidates.insert(position[*follower]);
                }
            }
        }
        (order, list.clock.cycle)
    }
}

/// An order under construction.
struct ListSchedule<'p, 's, 'c> {
    plan: &'p InterleavePlan<'s, 'c>,
    clock: Clock,
    /// The registers that are live after the instructions so far.
    pressure: u64,
    /// The number of live registers that the schedule should not exceed.
    max_registers: u64,
    /// For each result, the number of uses that have not been scheduled yet.
    remaining_uses: Vec<usize>,
    /// For each unit, the busy cycles of the instructions that have not been scheduled yet.
    remaining_busy: [u64; 5],
    /// The number of issue cycles so far.
    issued: usize,
    /// For each instruction, the number of issue cycles before it in the original order.
    original_index: Vec<usize>,
}

impl<'p, 's, 'c> ListSchedule<'p, 's, 'c> {
    fn new(plan: &'p InterleavePlan<'s, 'c>, max_registers: u64) -> Self {
        let count = plan.costs.len();
        let (mut remaining_uses, mut remaining_busy) = (vec![0; count], [0; 5]);
        plan.operands.iter().flatten().for_each(|one| remaining_uses[*one] += 1);
        plan.costs.iter().for_each(|cost| remaining_busy[cost.unit as usize] += cost.busy);
        let original_position = |original_position: &mut usize, cost: &Cost| {
            Some(std::mem::replace(original_position, *original_position + cost.issued()))
        };
        let original_index = plan.costs.iter().scan(0, original_position).collect();
        ListSchedule {
            plan,
            clock: Clock::new(count),
            pressure: 0,
            max_registers,
            remaining_uses,
            remaining_busy,
            issued: 0,
            original_index,
        }
    }

    /// The scheduling priority; the smallest comes first. It compares the excess over the register limit, the issue cycle, the
    /// number of followers, and the remaining work of the unit.
    fn cluster_rank(&self, number: usize) -> (u64, u64, bool, u64) {
        let cost = self.plan.costs[number];
        let (defined, freed) = self.register_change(number);
        let grows = defined.saturating_sub(freed);
        // A side effect, in particular a load, is not delayed beyond its original position to save registers.
        let is_due = !self.plan.dag.is_pure[number] && self.original_index[number] <= self.issued;
        let excess = if self.pressure + grows > self.max_registers && !is_due { grows } else { 0 };
        let has_few_followers = self.plan.followers[number].len() < MANY_FOLLOWERS;
        (
            excess,
            self.clock.start(number, cost) + cost.held_back,
            has_few_followers,
            u64::MAX - self.remaining_busy[cost.unit as usize],
        )
    }

    fn add(&mut self, number: usize) {
        let (defined, freed) = self.register_change(number);
        self.pressure = (self.pressure + defined).saturating_sub(freed);
        self.plan.operands[number].iter().for_each(|operand| self.remaining_uses[*operand] -= 1);
        let cost = self.plan.costs[number];
        self.clock.issue(number, cost, &self.plan.followers[number]);
        self.remaining_busy[cost.unit as usize] -= cost.busy;
        self.issued += cost.issued();
    }

    /// Registers that an instruction defines, and registers that it frees.
    fn register_change(&self, number: usize) -> (u64, u64) {
        let dag = self.plan.dag;
        let is_used = self.remaining_uses[number] > 0 || dag.is_live_out[number];
        let last_uses =
            self.plan.operands[number].iter().filter(|operand| self.remaining_uses[**operand] == 1 && !dag.is_live_out[**operand]);
        (if is_used { dag.registers[number] } else { 0 }, last_uses.map(|operand| dag.registers[*operand]).sum())
    }
}

fn distinct(numbers: &[usize]) -> Vec<usize> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn cost(instruction: InstructionValue<'_>, name: Option<&str>, is_pure: bool, rates: &Rates) -> Cost {
    let per_lane = |rate: u32, unit: Unit| Cost {
        unit,
        busy: (LANES * SUB_PARTITIONS / u64::from(rate).max(1)).max(1),
        latency: u64::from(rates.arithmetic_latency),
        held_back: 0,
    };
    let (float, integer) = (per_lane(rates.multiply_add, Unit::Float), per_lane(rates.integer, Unit::Integer));
    let special = |rate: u32| Cost { latency: 4 * u64::from(rates.arithmetic_latency), ..per_lane(rate, Unit::Special) };
    let no_instruction = Cost { unit: Unit::None, busy: 0, latency: 0, held_back: 0 };
    let other = |latency: u32| Cost { unit: Unit::Other, busy: 1, latency: u64::from(latency), held_back: 0 };
    match instruction.get_opcode() {
        Code::FAdd | Code::FSub | Code::FMul => float,
        Code::FDiv => special(rates.special),
        Code::Phi | Code::ExtractElement | Code::InsertElement | Code::ExtractValue | Code::InsertValue => no_instruction,
        Code::BitCast | Code::FNeg | Code::Freeze | Code::ShuffleVector => no_instruction,
        Code::Trunc | Code::ZExt if is_narrow(instruction) => no_instruction,
        Code::Load | Code::Store => other(rates.shared_latency),
        Code::Call => match name {
            Some(name) if name.contains("fma") => float,
            Some(name) if name.contains("ex2") => special(rates.exponential),
            Some(name) if ["rcp", "div", "sqrt", "tanh", "lg2", "sin", "cos"].iter().any(|part| name.contains(part)) => {
                special(rates.special)
            }
            Some(name) if name.contains("wait") => Cost { held_back: WAIT_DELAY, ..other(rates.shared_latency) },
            Some(_) if is_pure => integer,
            Some(_) | None => other(rates.shared_latency),
        },
        Code::Add | Code::Sub | Code::Mul | Code::SDiv | Code::UDiv | Code::SRem | Code::URem | Code::FRem => integer,
        Code::And | Code::Or | Code::Xor | Code::Shl | Code::LShr | Code::AShr => integer,
        Code::ICmp | Code::FCmp | Code::Select => integer,
        Code::Trunc | Code::ZExt | Code::SExt | Code::FPExt | Code::FPTrunc => integer,
        Code::FPToSI | Code::FPToUI | Code::SIToFP | Code::UIToFP => integer,
        Code::GetElementPtr | Code::IntToPtr | Code::PtrToInt | Code::PtrToAddr | Code::AddrSpaceCast | Code::Alloca => integer,
        Code::AtomicCmpXchg | Code::AtomicRMW | Code::Fence => integer,
        // Terminators execute on the integer unit, too.
        Code::Br | Code::Switch | Code::IndirectBr | Code::Return | Code::Unreachable => integer,
        Code::CallBr | Code::Invoke | Code::Resume | Code::LandingPad | Code::VAArg | Code::UserOp1 | Code::UserOp2 => {
            unreachable!("kernels have neither exceptions nor variable arguments")
        }
        Code::CatchPad | Code::CatchRet | Code::CatchSwitch | Code::CleanupPad | Code::CleanupRet => {
            unreachable!("kernels have no exceptions")
        }
    }
}

/// Whether an instruction exchanges registers between lanes. All lanes of a warp execute the block together, so such an
/// instruction may be moved within the block.
fn is_lane_exchange(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with("llvm.nvvm.shfl.") || name.starts_with("llvm.nvvm.redux."))
}

/// The name of the called function, or the text of the inline assembly.
fn called_name(call: InstructionValue<'_>) -> Option<String> {
    if call.get_opcode() != Code::Call {
        return None;
    }
    let function = CallSiteValue::try_from(call).ok()?.get_called_fn_value();
    function.map(|function| function.get_name().to_string_lossy().into_owned()).or_else(|| Some(assembly(call)?.text))
}

/// Whether the result is narrower than a register.
fn is_narrow(instruction: InstructionValue<'_>) -> bool {
    matches!(instruction.get_type().as_any_type_enum(), AnyTypeEnum::IntType(ty) if ty.get_bit_width() < 32)
}
