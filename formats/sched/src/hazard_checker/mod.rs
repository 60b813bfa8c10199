//! The hazard checker verifies the placements, waits, barriers and fences of a file by abstract execution. Every reader and writer
//! of `.sched` calls it, so all tools accept the same files. It shares no decision with the scheduler. The two share three facts:
//! the effects column, the order of tokens ([`crate::token_order`]) and the iteration distance ([`crate::iteration_distance`]).
//!
//! The checker executes every function. [`event_trace`] unrolls each warp role into events, and [`happens_before`] executes the
//! events of all roles together. A function without warp roles is a single role. A condition that does not depend on a loop counter
//! is executed on both paths. A loop with unknown bounds runs twice or not at all. For a loop that ends groups of copies, as
//! pipelined loops do, the checker tries each trip count up to twice the stage count and a few more. Scalars are evaluated only if
//! they depend on loop counters alone; the contents of tiles are ignored.
//!
//! | code | rule |
//! |---|---|
//! | SC130 | conflicting accesses (one buffer, or ordered by tokens) have a barrier between them, and a wait if asynchronous |
//! | SC131 | the hazard checker can execute the program: its branches and nesting do not make the execution too long |
//! | SC132 | a staged buffer has a stage for every iteration in flight, and memory of its own while copies prefetch into it |
//! | SC133 | warp roles visit pipeline stages in order, fill and free them, and never deadlock |
//!
//! If warp roles share pipelines, the checker tries the trip counts around every depth. A condition that decides pipeline steps is
//! executed on both paths, each time with the same outcome in all roles that compute it alike ([`symbols`]). If iterations evaluate
//! such a condition anew, all sequences of four outcomes are executed for loops of up to three iterations, and all sequences of two
//! for longer loops. The outcomes of later iterations repeat them.

mod accumulators;
mod buffer_stage;
mod event_trace;
mod global_order;
mod happens_before;
mod last_access;
mod scalars;
mod symbols;

use crate::Op;
use crate::module::{Function, LoopSchedule, Module, Phase};
use base::diag::{Diagnostic, Place, Result};
use base::ir::{Def, Op as OpId, Operation};
use base::{Arena, Block, Envelope, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use event_trace::{Conditions, Program};
use global_order::Order;
use happens_before::{AbstractExecution, Rules};
use numerics::Scalar;
use numerics::arith::Binary;
use std::collections::{BTreeMap, BTreeSet};
use symbols::{Outcomes, Symbols};
use tileas::Buffer;
use tileas::effects::Proxy;
use tileas::layout::{Layout, LayoutId};

/// Why the checker refuses a program.
enum Fault {
    Broken {
        op: OpId,
        message: String,
    },
    /// A fault of the final state, which no single op causes.
    Left {
        message: String,
    },
    TooLong,
}

/// The message of the first fault of a complete function.
pub fn refusal(function: &Function, layouts: &Arena<LayoutId, Layout>) -> Option<String> {
    let (fault, _) = hazard_checker(function, layouts, &[], &BTreeMap::new(), true).err()?;
    Some(match fault {
        Fault::Broken { op, message } => format!("{}: {message}", function.body.ops[op].kind.mnemonic()),
        Fault::Left { message } => message,
        Fault::TooLong => "it nests too deep for the hazard checker".into(),
    })
}

/// Checks every function of a file from phase alloc on. Before that phase no op can cause a hazard.
pub(crate) fn module(module: &Module, phase: Phase, envelope: &Envelope) -> Result<()> {
    if phase < Phase::Alloc {
        return Ok(());
    }
    module.functions.iter().try_for_each(|function| {
        let own: Vec<&LoopSchedule> = module.schedules.iter().filter(|schedule| schedule.function == function.name).collect();
        let refuse = |code: &str, op: Option<OpId>, message: String, what: String| {
            let loc = op.map_or(function.loc, |op| function.body.ops[op].loc);
            let found = Diagnostic::invalid(code, message).at_loc(&envelope.debug, loc);
            if found.place.is_some() { found.note(format!("in {what}")) } else { found.at(Place::Entity(what)) }
        };
        let ahead = if phase == Phase::Alloc { staged_buffers(function, &own) } else { Ok(BTreeMap::new()) };
        let ahead = ahead.map_err(|message| refuse("SC132", None, message, format!("func {}", function.name)))?;
        hazard_checker(function, &module.layouts, &own, &ahead, phase == Phase::Materialize).map_err(|(fault, trip_count)| {
            match fault {
                Fault::Broken { op, message } => {
                    let kind = function.body.ops[op].kind.mnemonic();
                    let what = trip_count.map_or(String::new(), |trip_count| format!(", {trip_count} iterations"));
                    refuse("SC130", Some(op), format!("{kind}: {message}"), format!("func {}{what}", function.name))
                }
                Fault::Left { message } => {
                    let what = trip_count.map_or(String::new(), |trip_count| format!(", {trip_count} iterations"));
                    refuse("SC133", None, message, format!("func {}{what}", function.name))
                }
                Fault::TooLong => {
                    Diagnostic::unsupported("SC131", format!("'{}' nests too deep for the hazard checker", function.name))
                }
            }
        })
    })
}

/// The faults of a function, with the trip count that exposes them.
fn hazard_checker(
    function: &Function,
    layouts: &Arena<LayoutId, Layout>,
    schedules: &[&LoopSchedule],
    ahead: &BTreeMap<OpId, BTreeSet<Buffer>>,
    synchronised: bool,
) -> std::result::Result<(), (Fault, Option<u64>)> {
    let order = if synchronised { Order::of(function, layouts) } else { Order::none() };
    let relevant = accumulators::relevant(function, &order.accesses);
    if relevant.is_empty() {
        return Ok(());
    }
    let program = Program { function, relevant: &relevant, order: &order, ahead };
    if !function.attrs.warp_roles.is_empty() || !function.attrs.pipelines.is_empty() {
        return together(&program);
    }
    let rules = Rules { synchronised, in_order: !schedules.is_empty() };
    let execute = |forced: BTreeMap<Value, u64>| execute(&program, rules, forced, None);
    let Some(bounds) = pipelined_bounds(function).filter(|bounds| !bounds.is_empty()) else {
        return execute(BTreeMap::new()).map_err(|fault| (fault, None));
    };
    let stages = schedules.iter().map(|schedule| schedule.last_stage() + 1).max().unwrap_or(1);
    (0..=2 * u64::from(stages)).chain([17]).try_for_each(|trip_count| {
        let forced = bounds.iter().flat_map(|bounds| bounds.for_trip_count(trip_count, &BTreeMap::new())).collect();
        execute(forced).map_err(|fault| (fault, Some(trip_count)))
    })
}

/// The faults of a function whose warp roles are executed together.
fn together(program: &Program<'_>) -> std::result::Result<(), (Fault, Option<u64>)> {
    let function = program.function;
    happens_before::arrivals(&function.attrs).map_err(|message| (Fault::Left { message }, None))?;
    let mut symbols = Symbols::default();
    let mut execute = |forced, trip_count| all_outcomes(program, &forced, trip_count, &mut symbols);
    let loops = loops_with_pipelines(function);
    if loops.is_empty() {
        return execute(BTreeMap::new(), 0).map_err(|fault| (fault, None));
    }
    let deepest = function.attrs.pipelines.values().map(|info| u64::from(info.depth)).max().unwrap_or(1);
    // Each loop in turn takes every trip count that may matter, while the other loops run zero times, once or twice.
    for own in 0..loops.len() {
        for trip_count in (0..=2 * deepest + 1).chain([17]) {
            for others in 0..if loops.len() > 1 { 3 } else { 1 } {
                let times = |at: usize| if at == own { trip_count } else { others };
                execute(forced(&loops, times), trip_count).map_err(|fault| (fault, Some(trip_count)))?;
            }
        }
    }
    Ok(())
}

/// Executes a function once, with the given values for unknown loop bounds, and the given outcomes of conditions.
fn execute(
    program: &Program<'_>,
    rules: Rules,
    forced: BTreeMap<Value, u64>,
    conditions: Option<Conditions<'_>>,
) -> std::result::Result<(), Fault> {
    let mut happens_before = AbstractExecution::new(program, rules);
    event_trace::unroll(program, forced, conditions, &mut |warp_role, event| happens_before.add(warp_role, event))?;
    happens_before.run()
}

/// Length of the sequences of outcomes that loops of few iterations see, and those of many. A sequence repeats, so that also the
/// short ones skip every second iteration of a long loop.
const OUTCOMES: [usize; 2] = [4, 2];
/// The most iterations of a loop of few iterations.
const FEW_ITERATIONS: u64 = 3;

/// Executes the warp roles together, for all outcomes of the conditions that decide pipeline steps.
fn all_outcomes(
    program: &Program<'_>,
    forced: &BTreeMap<Value, u64>,
    trip_count: u64,
    symbols: &mut Symbols,
) -> std::result::Result<(), Fault> {
    let length = OUTCOMES[usize::from(trip_count > FEW_ITERATIONS)];
    let rules = Rules { synchronised: true, in_order: false };
    let mut next = Some(Outcomes::first(length));
    while let Some(mut outcomes) = next {
        symbols.restart();
        let conditions = Conditions { symbols, outcomes: &mut outcomes };
        execute(program, rules, forced.clone(), Some(conditions))?;
        next = outcomes.next();
    }
    Ok(())
}

/// Returns whether a region contains pipeline steps.
fn steps_pipelines(function: &Function, region: Region) -> bool {
    let steps = |kind: &Op| {
        matches!(
            kind,
            Op::PipelineAcquire { .. } | Op::PipelineCommit { .. } | Op::PipelineWait { .. } | Op::PipelineRelease { .. }
        )
    };
    function.body.walk(region).into_iter().any(|op| steps(&function.body.ops[op].kind))
}

/// Returns whether a region ends an iteration of a loop around it, or the function.
fn leaves_a_loop(function: &Function, region: Region) -> bool {
    let body = &function.body;
    body.blocks[body.block_of(region)].ops.iter().any(|op| {
        let kind = &body.ops[*op].kind;
        match kind.core() {
            Some(Core::Continue { .. } | Core::Break { .. } | Core::Return {}) => true,
            Some(Core::If { then, otherwise, .. }) => [then, otherwise].into_iter().any(|inner| leaves_a_loop(function, *inner)),
            _ => false,
        }
    })
}

/// Returns whether no op of a region accesses memory or synchronises.
fn only_computes(function: &Function, region: Region) -> bool {
    let does_nothing = |op: OpId| {
        let effects = function.body.ops[op].kind.effects();
        effects.buffers.is_empty() && effects.global.is_none() && effects.synchronises.is_none()
    };
    function.body.walk(region).into_iter().all(does_nothing)
}

/// What determines a trip count: a value computed before the bodies of the warp roles, or the nesting depth of the loop.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Times {
    Of(Value),
    Nested(usize),
}

/// The bounds that give loops the requested trip counts. A loop that starts where another one ends gets its count, too.
fn forced(loops: &BTreeMap<Times, Vec<Bounds>>, times: impl Fn(usize) -> u64) -> BTreeMap<Value, u64> {
    let mut forced = BTreeMap::new();
    let mut left: Vec<(usize, (&Times, &Vec<Bounds>))> = loops.iter().enumerate().collect();
    while !left.is_empty() {
        let waits = |(at, (_, same)): &(usize, (&Times, &Vec<Bounds>))| {
            let others = left.iter().filter(|(other, _)| other != at).flat_map(|(_, (_, others))| others.iter());
            let ends: BTreeSet<Value> = others.map(|bounds| bounds.upper.0).collect();
            same.iter().any(|bounds| bounds.lower.1.is_none() && ends.contains(&bounds.lower.0))
        };
        let next = left.iter().position(|one| !waits(one)).unwrap_or(0);
        let (at, (of, same)) = left.remove(next);
        for (value, number) in for_trip_count(of, same, times(at), &forced) {
            forced.entry(value).or_insert(number);
        }
    }
    forced
}

/// The bounds of loops with equal trip counts. Of the loops that end at one value, the first to start runs all iterations.
fn for_trip_count(times: &Times, same: &[Bounds], trip_count: u64, known: &BTreeMap<Value, u64>) -> Vec<(Value, u64)> {
    let trip_count = trip_count.max(same.iter().any(Bounds::have_iteration).into());
    let mut forced: Vec<(Value, u64)> = same.iter().flat_map(|bounds| bounds.for_trip_count(trip_count, known)).collect();
    if let Times::Of(upper) = times {
        let ends = forced.iter().filter(|(value, _)| value == upper).map(|(_, end)| *end).min();
        forced.iter_mut().filter(|(value, _)| value == upper).for_each(|(_, end)| *end = ends.unwrap_or(*end));
    }
    forced
}

/// The loops with an unknown trip count that contain pipeline steps, or a warp role's part of such a loop. Loops with one bound run
/// equally often.
fn loops_with_pipelines(function: &Function) -> BTreeMap<Times, Vec<Bounds>> {
    let body = &function.body;
    let entry = function.entry();
    let blocks = body.op_blocks();
    let is_of_all = |value: Value| match body.values[value].def {
        Def::Argument { block, .. } => block == entry,
        Def::Result { op, .. } => blocks[op.0 as usize] == Some(entry),
    };
    let mut loops: BTreeMap<Times, Vec<Bounds>> = BTreeMap::new();
    let first_parts = first_parts(function);
    let mut regions = vec![(function.region, 0)];
    while let Some((region, depth)) = regions.pop() {
        for &op in &body.blocks[body.block_of(region)].ops {
            let kind = &body.ops[op].kind;
            let mut inner = depth;
            if let Some(Core::For { lower, upper, step, unsigned, body: region, .. }) = kind.core() {
                let steps = steps_pipelines(function, *region);
                inner += usize::from(steps);
                let lower = first_parts.get(&op).map_or(*lower, |first| lower_of(function, *first));
                let bounds = Bounds::of(function, [lower, *upper, *step], *unsigned);
                let is_first = first_parts.values().any(|first| *first == op);
                // Loops that depend on groups of copies also depend on their iterations. If a warp role's part of a loop only
                // computes, code after the loop may rely on an iteration. Any other such loop is executed as if it might not run.
                let is_signal_only = !is_of_all(*upper) && bounds.upper.1.is_none() && only_computes(function, *region);
                if (steps || is_signal_only || is_pipelined(function, op)) && !is_first && !bounds.are_few() {
                    let times = if is_of_all(*upper) { Times::Of(*upper) } else { Times::Nested(depth) };
                    loops.entry(times).or_default().push(bounds);
                }
            }
            regions.extend(kind.regions().into_iter().map(|region| (region, inner)));
        }
    }
    loops
}

fn constant(function: &Function, value: Value) -> Option<u64> {
    match function.body.ops[function.body.defining_op(value)?].kind.core() {
        Some(Core::Constant { value: Dense::Splat(bits) }) => Some(*bits),
        _ => None,
    }
}

/// The unknown bounds of a pipelined loop.
struct Bounds {
    lower: (Value, Option<u64>),
    step: (Value, Option<u64>),
    upper: (Value, Option<u64>),
    scalar: Scalar,
    unsigned: bool,
}

impl Bounds {
    fn of(function: &Function, values: [Value; 3], unsigned: bool) -> Bounds {
        let [lower, upper, step] = values.map(|value| (value, constant(function, value)));
        Bounds { lower, step, upper, scalar: scalars::carrier(function, lower.0), unsigned }
    }
    /// Returns whether the trip count is constant and small enough to execute the loop as it is.
    fn are_few(&self) -> bool {
        const FEW: i128 = 64;
        self.constant().zip(self.step.1).is_some_and(|((from, to), by)| to - from <= i128::from(by) * FEW)
    }
    /// Returns whether the loop has an iteration for all trip counts that the checker tries.
    fn have_iteration(&self) -> bool {
        self.constant().is_some_and(|(from, to)| from < to)
    }
    fn constant(&self) -> Option<(i128, i128)> {
        let order = |bits: Option<u64>| bits.map(|bits| scalars::order(self.scalar, self.unsigned, bits));
        order(self.lower.1).zip(order(self.upper.1))
    }
    /// The bounds for a trip count, if some values are already known. A constant end stays if possible, since other loops may use
    /// the same constant. Code after a loop may rely on an iteration that the loop is known to have.
    fn for_trip_count(&self, trip_count: u64, known: &BTreeMap<Value, u64>) -> Vec<(Value, u64)> {
        let trip_count = trip_count.max(self.have_iteration().into());
        let step = self.step.1.unwrap_or(1).max(1);
        let span = trip_count.wrapping_mul(step);
        let unknown = |(value, known): (Value, Option<u64>), number| known.is_none().then_some((value, number));
        let step = unknown(self.step, step);
        let first = match (self.lower.1, self.upper.1) {
            (None, Some(end)) => [Some((self.lower.0, scalars::truncated(self.scalar, end.wrapping_sub(span)))), None],
            (start, _) => {
                let start = start.or_else(|| known.get(&self.lower.0).copied()).unwrap_or(0);
                [unknown(self.lower, start), Some((self.upper.0, scalars::truncated(self.scalar, start.wrapping_add(span))))]
            }
        };
        first.into_iter().flatten().chain(step).collect()
    }
}

/// Returns whether the iterations of a loop end groups of copies.
fn is_pipelined(function: &Function, op: OpId) -> bool {
    let body = &function.body;
    matches!(body.ops[op].kind.core(), Some(Core::For { body: region, .. }) if ends_copies(function, *region))
}

fn ends_copies(function: &Function, region: Region) -> bool {
    let body = &function.body;
    body.blocks[body.block_of(region)].ops.iter().any(|op| matches!(body.ops[*op].kind, Op::CopyCommit {}))
}

/// The main loop of an epilogue loop. Either the epilogue starts where the main loop ends and both are pipelined, or the main loop
/// ends a known number of iterations earlier. Another warp role runs the parts of a pipelined loop so, without copies of its own.
fn first_part(function: &Function, op: OpId) -> Option<OpId> {
    let body = &function.body;
    let Some(Core::For { lower, upper, .. }) = body.ops[op].kind.core() else { return None };
    let before = body.defining_op(*lower)?;
    let Some(Core::For { lower: start, upper: end, .. }) = body.ops[before].kind.core() else { return None };
    let made_by = |value: Value| body.defining_op(value).and_then(|op| body.ops[op].kind.core());
    let ends_before = match made_by(*end) {
        Some(Core::Select { yes, no, .. }) if no == start => {
            matches!(made_by(*yes), Some(Core::Binary { kind: Binary::SubI { .. }, lhs, .. }) if lhs == upper)
        }
        _ => false,
    };
    (ends_before || is_pipelined(function, op) && is_pipelined(function, before)).then_some(before)
}

/// Each epilogue loop with its main loop.
fn first_parts(function: &Function) -> BTreeMap<OpId, OpId> {
    let all = function.body.walk(function.region).into_iter();
    all.filter_map(|op| Some((op, first_part(function, op)?))).collect()
}

fn lower_of(function: &Function, op: OpId) -> Value {
    match function.body.ops[op].kind.core() {
        Some(Core::For { lower, .. }) => *lower,
        _ => unreachable!("only `for` loops have parts"),
    }
}

/// The loops whose trip count varies, without those of a few constant iterations. An epilogue loop shares the iterations of its
/// main loop. None if there is no pipelined loop.
fn pipelined_bounds(function: &Function) -> Option<Vec<Bounds>> {
    let body = &function.body;
    let pipelined: Vec<OpId> = body.walk(function.region).into_iter().filter(|op| is_pipelined(function, *op)).collect();
    let bounds = |op: OpId| match body.ops[op].kind.core() {
        Some(Core::For { lower, upper, step, unsigned, .. }) => ([*lower, *upper, *step], *unsigned),
        _ => unreachable!("only `for` loops are pipelined"),
    };
    let first_parts = first_parts(function);
    let has_rest: BTreeSet<OpId> = first_parts.values().copied().collect();
    let of = |&op: &OpId| {
        let ([_, upper, step], unsigned) = bounds(op);
        let lower = lower_of(function, first_parts.get(&op).copied().unwrap_or(op));
        let bounds = Bounds::of(function, [lower, upper, step], unsigned);
        (!bounds.are_few()).then_some(bounds)
    };
    let ends = pipelined.iter().filter(|op| !has_rest.contains(op));
    (!pipelined.is_empty()).then(|| ends.filter_map(of).collect())
}

/// For each scheduled loop, the buffers into which copies prefetch. Each has a stage for every iteration in flight.
fn staged_buffers(
    function: &Function,
    schedules: &[&LoopSchedule],
) -> std::result::Result<BTreeMap<OpId, BTreeSet<Buffer>>, String> {
    let body = &function.body;
    let is_loop = |op: &OpId| matches!(body.ops[*op].kind.core(), Some(Core::For { .. }));
    let loops: Vec<OpId> = body.walk(function.region).into_iter().filter(is_loop).collect();
    let mut staged_buffers = BTreeMap::new();
    for schedule in schedules {
        let Some(&at) = loops.get(schedule.index as usize) else { continue };
        let Some(block): Option<Block> = crate::loop_body(function, schedule.index) else { continue };
        let ops = &body.blocks[block].ops;
        let mut own = BTreeSet::new();
        for entry in &schedule.entries {
            let copied = ops.get(entry.op as usize).and_then(|op| body.ops[*op].kind.effects().copied_to());
            let ahead = schedule.last_stage() - entry.stage;
            let Some(buffer) = copied.filter(|_| ahead > 0) else { continue };
            // An MMA in flight still reads while the next iteration computes.
            let late = schedule.in_flight && read_by_mmas(function, block, buffer);
            let in_flight = u64::from(ahead) + 1 + u64::from(late);
            let depth = function.attrs.placements[buffer].depth;
            if u64::from(depth) < in_flight {
                return Err(format!("{buffer} has {depth} stages, but is filled {ahead} iterations ahead and needs {in_flight}"));
            }
            own.insert(buffer);
        }
        staged_buffers.insert(at, own);
    }
    Ok(staged_buffers)
}

/// Returns whether an MMA that can stay in flight reads a buffer: nothing uses its result before the next iteration.
fn read_by_mmas(function: &Function, block: Block, buffer: Buffer) -> bool {
    let body = &function.body;
    let Some((_, ops)) = body.blocks[block].ops.split_last() else { return false };
    let inside = ops.iter().flat_map(|op| body.ops[*op].kind.regions()).flat_map(|region| body.walk(region));
    let used: BTreeSet<Value> = ops.iter().copied().chain(inside).flat_map(|op| body.ops[op].kind.operands()).collect();
    let reads = |op: &OpId| {
        let mut accesses = body.ops[*op].kind.effects().buffers.into_iter();
        accesses.any(|access| access.buffer == buffer && access.proxy == Proxy::Mma)
    };
    ops.iter().any(|op| reads(op) && !body.ops[*op].results.iter().any(|accumulators| used.contains(accumulators)))
}
