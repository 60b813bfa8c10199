//! Purpose: reorders pure instructions of long blocks so that the execution units work in parallel.
//! Requires: blocks after LLVM's passes and [`crate::list_schedule`], in an order that ptxas can allocate.
//! Establishes: an order with a shorter estimated time for one warp and at most `EXTRA_REGISTERS` more live registers.
//! Preserves: the order of instructions with side effects, and each value's dependences.
//! See also: LLVM `MachineScheduler`.
//!
//! Reason: the emitters write all registers of one op before the next op. The exponentials of a tile then keep the special function
//! unit busy while the float units idle.

use crate::block_dag::{BlockDag, assembly, leaving};
use crate::list_schedule::by_need;
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
/// Number of ready instructions that the scheduler ranks: a smaller window keeps fewer registers live.
const WIDE_WINDOW: usize = 128;
const NARROW_WINDOW: usize = 32;
/// An instruction with at least this many followers comes first.
const MANY_FOLLOWERS: usize = 8;
/// Tolerated increase of the peak register pressure, because the scheduler has no lookahead.
const EXTRA_REGISTERS: u64 = 4;
/// Registers above the minimum pressure, for values in flight.
const IN_FLIGHT_REGISTERS: u64 = 32;
/// The pass reorders a block only if that saves at least 1/`MIN_GAIN_DIVISOR` of its cycles.
const MIN_GAIN_DIVISOR: u64 = 32;
/// Cycles during which other instructions are preferred to a wait.
const WAIT_DELAY: u64 = 64;
/// Lanes of a warp, and sub-partitions of an SM; a warp uses the units of one sub-partition.
const LANES: u64 = 32;
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
    /// Cycles that the unit is busy, and cycles until the result is available.
    busy: u64,
    latency: u64,
    /// Cycles during which the scheduler prefers other instructions.
    held_back: u64,
}

impl Cost {
    /// Issue cycles of the instruction.
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
        let leaving = leaving(function);
        blocks.into_iter().for_each(|block| interleave(block, &leaving, rates, builder));
    }
}

/// Applies the first candidate order that is profitable, if any.
fn interleave<'c>(block: BasicBlock<'c>, leaving: &HashSet<LLVMValueRef>, rates: &Rates, builder: &Builder<'c>) {
    let straight = BlockDag::of(block, leaving);
    let plan = InterleavePlan::of(&straight, rates);
    let given: Vec<usize> = (0..straight.instructions.len()).collect();
    let before = plan.cycles(&given);
    if plan.min_cycles() + before / MIN_GAIN_DIVISOR >= before {
        return;
    }
    let alive = straight.alive(&given);
    let by_need = by_need(&straight);
    let most = alive.min(straight.alive(&by_need) + IN_FLIGHT_REGISTERS);
    for (base, window) in [(&given, WIDE_WINDOW), (&by_need, NARROW_WINDOW)] {
        let (order, cycles) = plan.best(base, window, most);
        if cycles + before / MIN_GAIN_DIVISOR < before && straight.alive(&order) <= alive + EXTRA_REGISTERS {
            return straight.put(&order, block, builder);
        }
    }
}

/// The scheduling graph of a block, with costs per execution unit.
struct InterleavePlan<'s, 'c> {
    straight: &'s BlockDag<'c>,
    costs: Vec<Cost>,
    /// The operands of each instruction, and its predecessors: the operands and, for a side effect, the previous side effect.
    used: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// The followers of each instruction, and whether a follower uses the result.
    followers: Vec<Vec<(usize, bool)>>,
}

/// The state of the simulated warp.
struct Clock {
    now: u64,
    /// The cycle at which each unit becomes free.
    units: [u64; 5],
    ready: Vec<u64>,
}

impl Clock {
    fn new(count: usize) -> Clock {
        Clock { now: 0, units: [0; 5], ready: vec![0; count] }
    }

    /// The first cycle at which an instruction can issue.
    fn start(&self, number: usize, cost: Cost) -> u64 {
        self.now.max(self.ready[number]).max(self.units[cost.unit as usize])
    }

    fn issue(&mut self, number: usize, cost: Cost, followers: &[(usize, bool)]) {
        let start = self.start(number, cost);
        if cost.unit != Unit::None {
            self.now = start + 1;
            self.units[cost.unit as usize] = start + cost.busy;
        }
        for (follower, uses) in followers {
            let from = if *uses { start + cost.latency } else { start };
            self.ready[*follower] = self.ready[*follower].max(from);
        }
    }
}

impl<'s, 'c> InterleavePlan<'s, 'c> {
    fn of(straight: &'s BlockDag<'c>, rates: &Rates) -> InterleavePlan<'s, 'c> {
        let count = straight.instructions.len();
        let names: Vec<Option<String>> = straight.instructions.iter().map(|one| named(*one)).collect();
        let used: Vec<Vec<usize>> = straight.uses.iter().map(|used| distinct(used)).collect();
        let mut after = used.clone();
        let (mut last, end) = (None, count - 1);
        let has_place = |number: &usize| !straight.computes[*number] && !exchanges(names[*number].as_deref());
        for number in (0..count).filter(has_place) {
            after[number].extend(last);
            last = Some(number);
        }
        after[end] = (0..end).collect();
        after = after.iter().map(|before| distinct(before)).collect();
        let mut followers = vec![Vec::new(); count];
        for (number, before) in after.iter().enumerate() {
            before.iter().for_each(|one| followers[*one].push((number, used[number].contains(one))));
        }
        let costs =
            (0..count).map(|one| cost(straight.instructions[one], names[one].as_deref(), straight.computes[one], rates)).collect();
        InterleavePlan { straight, costs, used, after, followers }
    }

    /// Estimated cycles of an order for a single warp.
    fn cycles(&self, order: &[usize]) -> u64 {
        let mut clock = Clock::new(order.len());
        order.iter().for_each(|number| clock.issue(*number, self.costs[*number], &self.followers[*number]));
        clock.now
    }

    /// Lower bound on the cycles of any order.
    fn min_cycles(&self) -> u64 {
        let mut busy = [0; 5];
        self.costs.iter().for_each(|cost| busy[cost.unit as usize] += cost.busy);
        let issued = self.costs.iter().map(|cost| cost.issued()).sum::<usize>() as u64;
        busy.into_iter().max().unwrap_or(0).max(issued)
    }

    /// An order close to `base`: each step takes the best-ranked of the first `window` ready instructions.
    fn best(&self, base: &[usize], window: usize, most: u64) -> (Vec<usize>, u64) {
        let count = self.costs.len();
        let mut place = vec![0; count];
        base.iter().enumerate().for_each(|(at, number)| place[*number] = at);
        let mut waiting: Vec<usize> = self.after.iter().map(Vec::len).collect();
        // Ready instructions, by position in `base`.
        let mut candidates: BTreeSet<usize> = (0..count).filter(|at| waiting[base[*at]] == 0).collect();
        let (mut list, mut order) = (List::new(self, most), Vec::with_capacity(count));
        while let Some(at) = candidates.iter().take(window).copied().min_by_key(|at| (list.rank(base[*at]), *at)) {
            candidates.remove(&at);
            list.add(base[at]);
            order.push(base[at]);
            for (follower, _) in &self.followers[base[at]] {
                waiting[*follower] -= 1;
                if waiting[*follower] == 0 {
                    candidates.insert(place[*follower]);
                }
            }
        }
        (order, list.clock.now)
    }
}

/// An order under construction.
struct List<'p, 's, 'c> {
    plan: &'p InterleavePlan<'s, 'c>,
    clock: Clock,
    /// Live registers, and their limit.
    alive: u64,
    most: u64,
    /// Remaining uses of each result.
    users: Vec<usize>,
    /// Remaining busy cycles of each unit.
    left: [u64; 5],
    /// Issued instructions so far, and the number issued before each one in the original order.
    issued: usize,
    original_index: Vec<usize>,
}

impl<'p, 's, 'c> List<'p, 's, 'c> {
    fn new(plan: &'p InterleavePlan<'s, 'c>, most: u64) -> Self {
        let count = plan.costs.len();
        let (mut users, mut left) = (vec![0; count], [0; 5]);
        plan.used.iter().flatten().for_each(|one| users[*one] += 1);
        plan.costs.iter().for_each(|cost| left[cost.unit as usize] += cost.busy);
        let before = |before: &mut usize, cost: &Cost| Some(std::mem::replace(before, *before + cost.issued()));
        let original_index = plan.costs.iter().scan(0, before).collect();
        List { plan, clock: Clock::new(count), alive: 0, most, users, left, issued: 0, original_index }
    }

    /// The scheduling priority, smallest first. It compares register excess, issue cycle, number of followers, and the remaining
    /// work of the unit.
    fn rank(&self, number: usize) -> (u64, u64, bool, u64) {
        let cost = self.plan.costs[number];
        let (defined, freed) = self.registers(number);
        let grows = defined.saturating_sub(freed);
        // A side effect, above all a load, is not delayed past its original position to save registers.
        let is_due = !self.plan.straight.computes[number] && self.original_index[number] <= self.issued;
        let excess = if self.alive + grows > self.most && !is_due { grows } else { 0 };
        let few = self.plan.followers[number].len() < MANY_FOLLOWERS;
        (excess, self.clock.start(number, cost) + cost.held_back, few, u64::MAX - self.left[cost.unit as usize])
    }

    fn add(&mut self, number: usize) {
        let (defined, freed) = self.registers(number);
        self.alive = (self.alive + defined).saturating_sub(freed);
        self.plan.used[number].iter().for_each(|used| self.users[*used] -= 1);
        let cost = self.plan.costs[number];
        self.clock.issue(number, cost, &self.plan.followers[number]);
        self.left[cost.unit as usize] -= cost.busy;
        self.issued += cost.issued();
    }

    /// Registers that an instruction defines, and registers that it frees.
    fn registers(&self, number: usize) -> (u64, u64) {
        let straight = self.plan.straight;
        let is_used = self.users[number] > 0 || straight.leaves[number];
        let last = self.plan.used[number].iter().filter(|used| self.users[**used] == 1 && !straight.leaves[**used]);
        (if is_used { straight.registers[number] } else { 0 }, last.map(|used| straight.registers[*used]).sum())
    }
}

fn distinct(numbers: &[usize]) -> Vec<usize> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn cost(instruction: InstructionValue<'_>, name: Option<&str>, computes: bool, rates: &Rates) -> Cost {
    let lanes = |rate: u32, unit: Unit| Cost {
        unit,
        busy: (LANES * SUB_PARTITIONS / u64::from(rate).max(1)).max(1),
        latency: u64::from(rates.arithmetic_latency),
        held_back: 0,
    };
    let (float, integer) = (lanes(rates.multiply_add, Unit::Float), lanes(rates.integer, Unit::Integer));
    let special = |rate: u32| Cost { latency: 4 * u64::from(rates.arithmetic_latency), ..lanes(rate, Unit::Special) };
    let nothing = Cost { unit: Unit::None, busy: 0, latency: 0, held_back: 0 };
    let other = |latency: u32| Cost { unit: Unit::Other, busy: 1, latency: u64::from(latency), held_back: 0 };
    match instruction.get_opcode() {
        Code::FAdd | Code::FSub | Code::FMul => float,
        Code::FDiv => special(rates.special),
        Code::Phi | Code::ExtractElement | Code::InsertElement | Code::ExtractValue | Code::InsertValue => nothing,
        Code::BitCast | Code::FNeg | Code::Freeze | Code::ShuffleVector => nothing,
        Code::Trunc | Code::ZExt if is_narrow(instruction) => nothing,
        Code::Load | Code::Store => other(rates.shared_latency),
        Code::Call => match name {
            Some(name) if name.contains("fma") => float,
            Some(name) if name.contains("ex2") => special(rates.exponential),
            Some(name) if ["rcp", "div", "sqrt", "tanh", "lg2", "sin", "cos"].iter().any(|part| name.contains(part)) => {
                special(rates.special)
            }
            Some(name) if name.contains("wait") => Cost { held_back: WAIT_DELAY, ..other(rates.shared_latency) },
            Some(_) if computes => integer,
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

/// Whether lanes exchange registers. This needs no fixed position in a block, because all lanes of a warp execute the block
/// together.
fn exchanges(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with("llvm.nvvm.shfl.") || name.starts_with("llvm.nvvm.redux."))
}

/// The name of the called function, or the text of the inline assembly.
fn named(call: InstructionValue<'_>) -> Option<String> {
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
