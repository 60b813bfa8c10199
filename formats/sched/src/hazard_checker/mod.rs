//! The hazard checker verifies the placements, waits, barriers and fences of a file by abstract execution. Every reader and writer
//! of `.sched` calls the checker, so all tools accept the same files. The checker uses no decision of the scheduler. It shares only
//! three inputs with the scheduler: the effects column, the order of tokens ([`crate::token_order`]) and the iteration distance
//! ([`crate::iteration_distance`]).
//!
//! The checker executes every function. [`event_trace`] unrolls each warp role into events, and [`happens_before`] executes the
//! events of all roles together. A function without warp roles is a single role. If a condition does not depend on loop counters
//! and constants alone, the checker executes both paths. A loop with unknown bounds runs twice or not at all. Pipelined loops end
//! groups of copies. For a loop that does so, the checker tries each trip count up to twice the stage count. It also tries 17 as an
//! example of a long loop. The checker evaluates a scalar only if it depends on loop counters and constants alone. It ignores the
//! contents of tiles.
//!
//! | code | rule |
//! |---|---|
//! | SC130 | conflicting accesses are ordered; warp roles visit stages in order, hold the stages that they access, never deadlock |
//! | SC131 | one execution of a function executes at most 2^22 ops, and at most 2^16 iterations of each loop |
//! | SC132 | a staged buffer has a stage for every iteration in flight |
//! | SC133 | arrival counts match the threads; at the end, every stage is committed, waited for and released |
//!
//! If the function has warp roles or pipelines, the checker tries each trip count up to twice the largest stage count plus one, and
//! 17. If a condition decides pipeline steps, the checker executes the function once with each outcome of the condition. All roles
//! that compute the condition from equal operands then have the same outcome ([`symbols`]). If iterations evaluate such a condition
//! anew, the checker executes all sequences of four outcomes for loops of up to three iterations. For longer loops, it executes all
//! sequences of two outcomes. Later iterations repeat the sequence.

mod accumulators;
mod buffer_stage;
mod event_trace;
mod global_order;
mod happens_before;
mod last_access;
mod scalars;
mod symbols;

use crate::Op;
use crate::module::{Function, LoopSchedule, Module};
use crate::phase::Phase;
use base::diag::{Diagnostic, Place, Result};
use base::ir::{Def, Op as OpId, Operation};
use base::{Arena, Block, Envelope, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::structured_ops::Terminator;
use core_dialect::structured_ops::{LoopBounds, LoopOp};
use core_dialect::tile::Dense;
use event_trace::{Conditions, Program};
use global_order::GlobalOrder;
use happens_before::{AbstractExecution, Rules};
use numerics::Scalar;
use numerics::arith::Binary;
use std::collections::{BTreeMap, BTreeSet};
use symbols::{Outcomes, Symbols};
use tileas::Buffer;
use tileas::effects::Proxy;
use tileas::layout::{Layout, LayoutId};

/// The reason why the checker refuses a program.
enum Fault {
    /// An op that violates a rule.
    OpViolation { op: OpId, message: String },
    /// A fault of the final state or of the pipeline table, which no single op causes.
    FinalState { message: String },
    /// The execution exceeds a limit on ops or iterations.
    TooLong,
}

/// The message of the first hazard in a function of phase `materialize`; `None` if the function has no hazard.
pub fn first_hazard(function: &Function, layouts: &Arena<LayoutId, Layout>) -> Option<String> {
    let (fault, _) = check_function(function, layouts, &[], &BTreeMap::new(), true).err()?;
    Some(match fault {
        Fault::OpViolation { op, message } => format!("{}: {message}", function.body.ops[op].kind.mnemonic()),
        Fault::FinalState { message } => message,
        Fault::TooLong => "it is too large for the hazard checker: one execution has too many ops or iterations".into(),
    })
}

/// Checks every function of a file of phases `alloc` to `pipeline-loops` (excluded) and `materialize`, and accepts all other files.
/// Before phase `alloc` no op can cause a hazard. From `pipeline-loops` to `materialize` (excluded), later passes still add
/// synchronisation.
pub(crate) fn check_module(module: &Module, phase: Phase, envelope: &Envelope) -> Result<()> {
    if !phase.has_placements() || phase.has_pipelined_loops() && !phase.is_complete() {
        return Ok(());
    }
    module.functions.iter().try_for_each(|function| {
        let own_schedules: Vec<&LoopSchedule> =
            module.schedules.iter().filter(|schedule| schedule.function == function.name).collect();
        let refuse = |code: &str, op: Option<OpId>, message: String, entity: String| {
            let loc = op.map_or(function.loc, |op| function.body.ops[op].loc);
            let diagnostic = Diagnostic::invalid(code, message).at_loc(&envelope.debug, loc);
            if diagnostic.place.is_some() { diagnostic.note(format!("in {entity}")) } else { diagnostic.at(Place::Entity(entity)) }
        };
        let prefetched = if phase.is_complete() { Ok(BTreeMap::new()) } else { prefetched_buffers(function, &own_schedules) };
        let prefetched = prefetched.map_err(|message| refuse("SC132", None, message, format!("func {}", function.name)))?;
        check_function(function, &module.layouts, &own_schedules, &prefetched, phase.is_complete()).map_err(
            |(fault, trip_count)| match fault {
                Fault::OpViolation { op, message } => {
                    let kind = function.body.ops[op].kind.mnemonic();
                    let suffix = trip_count.map_or(String::new(), |trip_count| format!(", {trip_count} iterations"));
                    refuse("SC130", Some(op), format!("{kind}: {message}"), format!("func {}{suffix}", function.name))
                }
                Fault::FinalState { message } => {
                    let suffix = trip_count.map_or(String::new(), |trip_count| format!(", {trip_count} iterations"));
                    refuse("SC133", None, message, format!("func {}{suffix}", function.name))
                }
                Fault::TooLong => {
                    let message = "is too large for the hazard checker: one execution has too many ops or iterations";
                    Diagnostic::unsupported("SC131", format!("'{}' {message}", function.name))
                }
            },
        )
    })
}

/// Checks a function. The error is the first fault, with the trip count that exposes it; `None` if the checker forced no trip
/// count. `synchronised`: the function has its waits and barriers (phase `materialize`).
fn check_function(
    function: &Function,
    layouts: &Arena<LayoutId, Layout>,
    schedules: &[&LoopSchedule],
    prefetched: &BTreeMap<OpId, BTreeSet<Buffer>>,
    synchronised: bool,
) -> std::result::Result<(), (Fault, Option<u64>)> {
    let global_order = if synchronised { GlobalOrder::analyse(function, layouts) } else { GlobalOrder::empty() };
    let relevant_ops = accumulators::relevant_ops(function, &global_order.ordered_accesses);
    if relevant_ops.is_empty() {
        return Ok(());
    }
    let program = Program { function, relevant_ops: &relevant_ops, global_order: &global_order, prefetched };
    if !function.attrs.warp_roles.is_empty() || !function.attrs.pipelines.is_empty() {
        return check_warp_roles(&program);
    }
    let rules = Rules { synchronised, in_order: !schedules.is_empty() };
    let execute = |forced_bounds: BTreeMap<Value, u64>| execute(&program, rules, forced_bounds, None);
    let Some(bounds) = pipelined_bounds(function).filter(|bounds| !bounds.is_empty()) else {
        return execute(BTreeMap::new()).map_err(|fault| (fault, None));
    };
    let stages = schedules.iter().map(|schedule| schedule.last_stage() + 1).max().unwrap_or(1);
    (0..=2 * u64::from(stages)).chain([17]).try_for_each(|trip_count| {
        let forced_bounds = bounds.iter().flat_map(|bounds| bounds.for_trip_count(trip_count, &BTreeMap::new())).collect();
        execute(forced_bounds).map_err(|fault| (fault, Some(trip_count)))
    })
}

/// Checks a function with warp roles or pipelines: executes its roles together. The error is as for [`check_function`].
fn check_warp_roles(program: &Program<'_>) -> std::result::Result<(), (Fault, Option<u64>)> {
    let function = program.function;
    happens_before::check_arrival_counts(&function.attrs).map_err(|message| (Fault::FinalState { message }, None))?;
    let mut symbols = Symbols::default();
    let mut execute = |forced_bounds, trip_count| execute_all_outcomes(program, &forced_bounds, trip_count, &mut symbols);
    let loops = loops_with_pipelines(function);
    if loops.is_empty() {
        return execute(BTreeMap::new(), 0).map_err(|fault| (fault, None));
    }
    let max_depth = function.attrs.pipelines.values().map(|info| u64::from(info.depth)).max().unwrap_or(1);
    // Each group of loops in turn takes every trip count that may matter, while all other groups run zero, one or two iterations.
    for tried_group in 0..loops.len() {
        for trip_count in (0..=2 * max_depth + 1).chain([17]) {
            for other_trip_count in 0..if loops.len() > 1 { 3 } else { 1 } {
                let trip_count_of = |group_index: usize| if group_index == tried_group { trip_count } else { other_trip_count };
                execute(bounds_for_trip_counts(&loops, trip_count_of), trip_count).map_err(|fault| (fault, Some(trip_count)))?;
            }
        }
    }
    Ok(())
}

/// Executes a function once, with the given values for unknown loop bounds, and the given outcomes of conditions. Without
/// `conditions`, both paths of every unknown condition are executed.
fn execute(
    program: &Program<'_>,
    rules: Rules,
    forced_bounds: BTreeMap<Value, u64>,
    conditions: Option<Conditions<'_>>,
) -> std::result::Result<(), Fault> {
    let mut happens_before = AbstractExecution::new(program, rules);
    event_trace::unroll(program, forced_bounds, conditions, &mut |warp_role, event| happens_before.add_event(warp_role, event))?;
    happens_before.run()
}

/// Lengths of the sequences of outcomes that the checker executes: for loops of at most [`MAX_LONG_SEQUENCE_TRIPS`] iterations, and
/// for longer loops. After the end of a sequence, the outcomes repeat it.
const SEQUENCE_LENGTHS: [usize; 2] = [4, 2];
/// Maximum trip count for which the checker executes the longer sequences of outcomes.
const MAX_LONG_SEQUENCE_TRIPS: u64 = 3;

/// Executes the warp roles together, for all outcomes of the conditions that decide pipeline steps.
fn execute_all_outcomes(
    program: &Program<'_>,
    forced_bounds: &BTreeMap<Value, u64>,
    trip_count: u64,
    symbols: &mut Symbols,
) -> std::result::Result<(), Fault> {
    let length = SEQUENCE_LENGTHS[usize::from(trip_count > MAX_LONG_SEQUENCE_TRIPS)];
    let rules = Rules { synchronised: true, in_order: false };
    let mut next = Some(Outcomes::first_execution(length));
    while let Some(mut outcomes) = next {
        symbols.start_execution();
        let conditions = Conditions { symbols, outcomes: &mut outcomes };
        execute(program, rules, forced_bounds.clone(), Some(conditions))?;
        next = outcomes.next_execution();
    }
    Ok(())
}

/// Returns whether a region contains pipeline steps.
fn has_pipeline_steps(function: &Function, region: Region) -> bool {
    function.body.walk(region).into_iter().any(|op| function.body.ops[op].kind.pipeline_step().is_some())
}

/// Returns whether a region, or an `if` inside it, contains a `continue`, `break` or `return`.
fn leaves_a_loop(function: &Function, region: Region) -> bool {
    let body = &function.body;
    body.blocks[body.block_of(region)].ops.iter().any(|op| {
        let kind = &body.ops[*op].kind;
        match kind.core() {
            Some(core) if core.is_if() => kind.regions().into_iter().any(|inner| leaves_a_loop(function, inner)),
            Some(core) => !matches!(core.as_terminator(), None | Some(Terminator::Yield(_))),
            None => false,
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

/// The key by which the checker groups loops with equal trip counts. Loops with the same upper bound have equal trip counts if the
/// bound is computed before the bodies of the warp roles. Other loops are grouped by nesting depth.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum TripCountKey {
    /// The upper bound, for a loop whose upper bound is computed before the bodies of the warp roles.
    UpperBound(Value),
    /// The number of enclosing loops, for a loop whose upper bound is computed later.
    NestingDepth(usize),
}

/// The values of loop bounds that give each group of loops the requested trip count. If the lower bound of a loop is the upper
/// bound of another loop, the other loop is handled first.
fn bounds_for_trip_counts(
    loops: &BTreeMap<TripCountKey, Vec<CheckedLoopBounds>>,
    trip_count_of: impl Fn(usize) -> u64,
) -> BTreeMap<Value, u64> {
    let mut forced_bounds = BTreeMap::new();
    let mut remaining: Vec<(usize, (&TripCountKey, &Vec<CheckedLoopBounds>))> = loops.iter().enumerate().collect();
    while !remaining.is_empty() {
        let starts_at_remaining_end = |(group_index, (_, group)): &(usize, (&TripCountKey, &Vec<CheckedLoopBounds>))| {
            let other_loops =
                remaining.iter().filter(|(other, _)| other != group_index).flat_map(|(_, (_, other_loops))| other_loops.iter());
            let ends: BTreeSet<Value> = other_loops.map(|bounds| bounds.upper.0).collect();
            group.iter().any(|bounds| bounds.lower.1.is_none() && ends.contains(&bounds.lower.0))
        };
        let next = remaining.iter().position(|one| !starts_at_remaining_end(one)).unwrap_or(0);
        let (group_index, (key, group)) = remaining.remove(next);
        for (value, number) in group_bounds_for_trip_count(key, group, trip_count_of(group_index), &forced_bounds) {
            forced_bounds.entry(value).or_insert(number);
        }
    }
    forced_bounds
}

/// The values of the bounds that give a group of loops this trip count. If the loops start at different values, they share the
/// smallest upper bound, so only the loop that starts first runs all iterations.
fn group_bounds_for_trip_count(
    key: &TripCountKey,
    group: &[CheckedLoopBounds],
    trip_count: u64,
    known: &BTreeMap<Value, u64>,
) -> Vec<(Value, u64)> {
    let trip_count = trip_count.max(group.iter().any(CheckedLoopBounds::has_iteration).into());
    let mut forced_bounds: Vec<(Value, u64)> = group.iter().flat_map(|bounds| bounds.for_trip_count(trip_count, known)).collect();
    if let TripCountKey::UpperBound(upper) = key {
        let ends = forced_bounds.iter().filter(|(value, _)| value == upper).map(|(_, end)| *end).min();
        forced_bounds.iter_mut().filter(|(value, _)| value == upper).for_each(|(_, end)| *end = ends.unwrap_or(*end));
    }
    forced_bounds
}

/// The `for` loops whose trip counts the checker varies, grouped by the value that determines the trip count. These loops contain
/// pipeline steps, end groups of copies, or only compute inside a warp role. Loops with a small constant trip count are excluded.
fn loops_with_pipelines(function: &Function) -> BTreeMap<TripCountKey, Vec<CheckedLoopBounds>> {
    let body = &function.body;
    let entry = function.entry();
    let blocks = body.op_blocks();
    let precedes_roles = |value: Value| match body.values[value].def {
        Def::Argument { block, .. } => block == entry,
        Def::Result { op, .. } => blocks[op.0 as usize] == Some(entry),
    };
    let mut loops: BTreeMap<TripCountKey, Vec<CheckedLoopBounds>> = BTreeMap::new();
    let main_loops = main_loops(function);
    let mut regions = vec![(function.region, 0)];
    while let Some((region, depth)) = regions.pop() {
        for &op in &body.blocks[body.block_of(region)].ops {
            let kind = &body.ops[op].kind;
            let mut inner_depth = depth;
            if let Some(LoopOp { bounds: Some(LoopBounds { lower, upper, step, unsigned }), body: region, .. }) =
                kind.core().and_then(Core::as_loop)
            {
                let has_steps = has_pipeline_steps(function, region);
                inner_depth += usize::from(has_steps);
                let lower = main_loops.get(&op).map_or(lower, |main_loop| lower_bound_of(function, *main_loop));
                let bounds = CheckedLoopBounds::from_values(function, [lower, upper, step], unsigned);
                let is_main_loop = main_loops.values().any(|main_loop| *main_loop == op);
                // Loops that end copy groups are included, because waits depend on the number of groups. If a warp role only
                // computes in a loop, code after the loop may still rely on an iteration. All other loops are executed as if they
                // might not run.
                let is_compute_only = !precedes_roles(upper) && bounds.upper.1.is_none() && only_computes(function, region);
                if (has_steps || is_compute_only || is_pipelined(function, op)) && !is_main_loop && !bounds.is_short() {
                    let key =
                        if precedes_roles(upper) { TripCountKey::UpperBound(upper) } else { TripCountKey::NestingDepth(depth) };
                    loops.entry(key).or_default().push(bounds);
                }
            }
            regions.extend(kind.regions().into_iter().map(|region| (region, inner_depth)));
        }
    }
    loops
}

/// The bits of a value that a scalar constant defines; `None` for other values.
fn constant_value(function: &Function, value: Value) -> Option<u64> {
    match function.body.ops[function.body.defining_op(value)?].kind.core() {
        Some(Core::Constant { value: Dense::Splat(bits) }) => Some(*bits),
        _ => None,
    }
}

/// The bounds of a loop for which the checker chooses trip counts.
struct CheckedLoopBounds {
    /// The lower bound, with its value if it is constant.
    lower: (Value, Option<u64>),
    /// The step, with its value if it is constant.
    step: (Value, Option<u64>),
    /// The upper bound, excluded, with its value if it is constant.
    upper: (Value, Option<u64>),
    /// The integer type of the bounds.
    scalar: Scalar,
    /// Whether the bounds are unsigned integers.
    unsigned: bool,
}

impl CheckedLoopBounds {
    fn from_values(function: &Function, values: [Value; 3], unsigned: bool) -> CheckedLoopBounds {
        let [lower, upper, step] = values.map(|value| (value, constant_value(function, value)));
        CheckedLoopBounds { lower, step, upper, scalar: scalars::carrier_type(function, lower.0), unsigned }
    }
    /// Returns whether the trip count is constant and small enough to execute the loop as it is.
    fn is_short(&self) -> bool {
        /// Maximum iterations of a loop that the checker executes with its own bounds.
        const MAX_SHORT_TRIP_COUNT: i128 = 64;
        self.constant_range().zip(self.step.1).is_some_and(|((from, to), by)| to - from <= i128::from(by) * MAX_SHORT_TRIP_COUNT)
    }
    /// Returns whether constant bounds show that the loop runs at least once.
    fn has_iteration(&self) -> bool {
        self.constant_range().is_some_and(|(from, to)| from < to)
    }
    /// The lower bound and the upper bound as signed or unsigned integers, if both are constants.
    fn constant_range(&self) -> Option<(i128, i128)> {
        let to_number = |bits: Option<u64>| bits.map(|bits| scalars::as_number(self.scalar, self.unsigned, bits));
        to_number(self.lower.1).zip(to_number(self.upper.1))
    }
    /// Returns values for the bounds that give the loop this trip count. `known` has the values that other loops gave to bounds. If
    /// only the upper bound is constant, it keeps its value, because other loops may use the same constant. If constant bounds show
    /// that the loop has an iteration, the trip count is at least 1. Reason: code after the loop may rely on this iteration.
    fn for_trip_count(&self, trip_count: u64, known: &BTreeMap<Value, u64>) -> Vec<(Value, u64)> {
        let trip_count = trip_count.max(self.has_iteration().into());
        let step = self.step.1.unwrap_or(1).max(1);
        let span = trip_count.wrapping_mul(step);
        let if_unknown = |(value, known): (Value, Option<u64>), number| known.is_none().then_some((value, number));
        let step = if_unknown(self.step, step);
        let bound_values = match (self.lower.1, self.upper.1) {
            (None, Some(end)) => [Some((self.lower.0, scalars::truncated(self.scalar, end.wrapping_sub(span)))), None],
            (start, _) => {
                let start = start.or_else(|| known.get(&self.lower.0).copied()).unwrap_or(0);
                [if_unknown(self.lower, start), Some((self.upper.0, scalars::truncated(self.scalar, start.wrapping_add(span))))]
            }
        };
        bound_values.into_iter().flatten().chain(step).collect()
    }
}

/// Returns whether the iterations of a loop end groups of copies.
fn is_pipelined(function: &Function, op: OpId) -> bool {
    let body = &function.body;
    body.ops[op].kind.core().and_then(Core::for_body).is_some_and(|region| ends_copies(function, region))
}

/// Returns whether the block of a region ends a group of copies.
fn ends_copies(function: &Function, region: Region) -> bool {
    let body = &function.body;
    body.blocks[body.block_of(region)].ops.iter().any(|op| matches!(body.ops[*op].kind, Op::CopyCommit {}))
}

/// The main loop of an epilogue loop, which runs the remaining iterations; `None` if the op is not an epilogue loop. In the first
/// form, both loops are pipelined, and the epilogue starts where the main loop ends. In the second form, the main loop ends a fixed
/// number of iterations before the upper bound of the epilogue. A warp role that issues no copies has the second form.
fn main_loop(function: &Function, op: OpId) -> Option<OpId> {
    let body = &function.body;
    let bounds_of = |op: OpId| body.ops[op].kind.core().and_then(Core::loop_bounds);
    let LoopBounds { lower, upper, .. } = bounds_of(op)?;
    let previous_loop = body.defining_op(lower)?;
    let LoopBounds { lower: previous_lower, upper: end, .. } = bounds_of(previous_loop)?;
    let defining_core = |value: Value| body.defining_op(value).and_then(|op| body.ops[op].kind.core());
    let ends_before = match defining_core(end) {
        Some(Core::Select { yes, no, .. }) if *no == previous_lower => {
            matches!(defining_core(*yes), Some(Core::Binary { kind: Binary::SubI { .. }, lhs, .. }) if *lhs == upper)
        }
        _ => false,
    };
    (ends_before || is_pipelined(function, op) && is_pipelined(function, previous_loop)).then_some(previous_loop)
}

/// Each epilogue loop with its main loop.
fn main_loops(function: &Function) -> BTreeMap<OpId, OpId> {
    let all = function.body.walk(function.region).into_iter();
    all.filter_map(|op| Some((op, main_loop(function, op)?))).collect()
}

/// The lower bound of a `for`.
fn lower_bound_of(function: &Function, op: OpId) -> Value {
    function.body.ops[op].kind.core().and_then(Core::loop_bounds).expect("only `for` loops have parts").lower
}

/// The bounds of the pipelined loops, except loops with a small constant trip count. A main loop and its epilogue loop count as one
/// loop. `None` if there is no pipelined loop.
fn pipelined_bounds(function: &Function) -> Option<Vec<CheckedLoopBounds>> {
    let body = &function.body;
    let pipelined: Vec<OpId> = body.walk(function.region).into_iter().filter(|op| is_pipelined(function, *op)).collect();
    let bounds = |op: OpId| {
        let LoopBounds { lower, upper, step, unsigned } =
            body.ops[op].kind.core().and_then(Core::loop_bounds).expect("only `for` loops are pipelined");
        ([lower, upper, step], unsigned)
    };
    let main_loops = main_loops(function);
    let has_epilogue: BTreeSet<OpId> = main_loops.values().copied().collect();
    let bounds_of = |&op: &OpId| {
        let ([_, upper, step], unsigned) = bounds(op);
        let lower = lower_bound_of(function, main_loops.get(&op).copied().unwrap_or(op));
        let bounds = CheckedLoopBounds::from_values(function, [lower, upper, step], unsigned);
        (!bounds.is_short()).then_some(bounds)
    };
    let last_loops = pipelined.iter().filter(|op| !has_epilogue.contains(op));
    (!pipelined.is_empty()).then(|| last_loops.filter_map(bounds_of).collect())
}

/// For each scheduled loop, the buffers into which copies prefetch. The error is the message for a buffer that lacks a stage for an
/// iteration in flight.
fn prefetched_buffers(
    function: &Function,
    schedules: &[&LoopSchedule],
) -> std::result::Result<BTreeMap<OpId, BTreeSet<Buffer>>, String> {
    let body = &function.body;
    let is_loop = |op: &OpId| body.ops[*op].kind.core().is_some_and(Core::is_for);
    let loops: Vec<OpId> = body.walk(function.region).into_iter().filter(is_loop).collect();
    let mut buffers_of_loops = BTreeMap::new();
    for schedule in schedules {
        let Some(&for_op) = loops.get(schedule.index as usize) else { continue };
        let Some(block): Option<Block> = crate::loop_body(function, schedule.index) else { continue };
        let ops = &body.blocks[block].ops;
        let mut prefetched = BTreeSet::new();
        for entry in &schedule.entries {
            let copied = ops.get(entry.op as usize).and_then(|op| body.ops[*op].kind.effects().copied_to());
            let ahead = schedule.last_stage() - entry.stage;
            let Some(buffer) = copied.filter(|_| ahead > 0) else { continue };
            // An MMA in flight still reads the buffer while the next iteration computes.
            let mma_in_flight = schedule.in_flight && read_by_mmas(function, block, buffer);
            let in_flight = u64::from(ahead) + 1 + u64::from(mma_in_flight);
            let depth = function.attrs.placements[buffer].depth;
            if u64::from(depth) < in_flight {
                return Err(format!("{buffer} has {depth} stages, but is filled {ahead} iterations ahead and needs {in_flight}"));
            }
            prefetched.insert(buffer);
        }
        buffers_of_loops.insert(for_op, prefetched);
    }
    Ok(buffers_of_loops)
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
    ops.iter().any(|op| reads(op) && !body.ops[*op].results.iter().any(|result| used.contains(result)))
}
