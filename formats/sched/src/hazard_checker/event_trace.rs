//! Unrolls each warp role into events for given trip counts; [`super::happens_before`] executes the events of all roles together.
//!
//! Both paths of an unknown condition become two branches of a fork. A loop with an unknown trip count runs twice or not at all.
//!
//! Some conditions decide pipeline steps, or how often a loop with pipeline steps runs. In one execution, such a condition has the
//! outcome of its symbol ([`super::symbols`]). Warp roles that compute the condition in the same way then take the same path.

use super::Fault;
use super::accumulators::{accumulators_in_flight, accumulators_used};
use super::global_order::GlobalOrder;
use super::scalars::{ScalarValue, Scalars};
use super::symbols::{Outcomes, Symbols};
use crate::module::{Pipeline, WarpRole};
use crate::pipeline_step::{PipelineStep, StepKind};
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::structured_ops::Terminator;
use core_dialect::structured_ops::{LoopBounds, LoopOp, StructuredOp};
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::{BufferAccess, Completes, Synchronises};
use tileas::{Buffer, Type};

/// Maximum ops that one execution visits, to limit the time of the check.
const MAX_EXECUTED_OPS: u64 = 1 << 22;
/// Maximum iterations of a loop with known bounds, to limit the time of the check.
const MAX_ITERATIONS: u64 = 1 << 16;

/// The effect of an op when it executes.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) op: OpId,
    pub(super) kind: EventKind,
    /// The accumulators that the op uses, with the MMAs that must be complete before the op executes.
    pub(super) used_accumulators: Vec<(Value, BTreeSet<OpId>)>,
}

/// The kind of an event, which determines the rules that the checker applies.
#[derive(Clone, Debug)]
pub(super) enum EventKind {
    /// Accesses to stages of buffers, each with its stage number, and when the accesses are complete.
    Accesses(Vec<(BufferAccess, u32)>, Completes),
    /// From here on copies may fill any stage of a staged buffer. No other live buffer may then share the memory of the staged
    /// buffer.
    Prefetched(Buffer),
    /// A copy to a buffer that its loop prefetches. No other buffer may then share the memory of the buffer.
    PrefetchingCopy(Buffer),
    /// An access to global memory that tokens order with another access.
    GlobalAccess,
    /// A loop that contains a `GlobalAccess` begins another iteration.
    NextIteration,
    /// The op only uses accumulators.
    Computes,
    /// A fork begins: two paths, of which either may be taken. The first path ends at `OtherPath`, the second at `PathsJoin`.
    Fork,
    OtherPath,
    PathsJoin,
    /// The threads of the warp role wait for each other.
    Barrier,
    /// The threads make their earlier writes visible to other proxies.
    Fence,
    /// A group of `cp.async` copies ends.
    EndCopies,
    /// The threads wait until at most this many groups of `cp.async` copies are pending.
    WaitForCopies(u64),
    /// The threads wait until at most this many wgmma MMAs are in flight.
    WaitForMmas(u64),
    /// The producer waits until a stage is empty.
    Acquire(Position),
    /// The producer signals that a stage is full. The fields are the pipeline and the stage number.
    Commit(Pipeline, u32),
    /// A consumer waits until a stage is full.
    Wait(Position),
    /// A consumer signals that a stage is empty. The fields are the pipeline and the stage number.
    Release(Pipeline, u32),
}

/// A visit of a pipeline stage: the stage, and the phase for which the role waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) pipeline: Pipeline,
    pub(super) stage: u32,
    /// The parity of the barrier's phase: 0 or 1.
    pub(super) phase: u64,
}

/// The function that the checker executes, with the results of earlier analyses.
pub(super) struct Program<'a> {
    pub(super) function: &'a Function,
    /// The ops of each block that the checker executes.
    pub(super) relevant_ops: &'a BTreeMap<Block, Vec<OpId>>,
    /// The accesses to global memory that need synchronisation between threads.
    pub(super) global_order: &'a GlobalOrder,
    /// For each loop, the buffers into which its copies will prefetch.
    pub(super) prefetched: &'a BTreeMap<OpId, BTreeSet<Buffer>>,
}

/// The callback that receives each event of a warp role.
pub(super) type Listener<'a> = dyn FnMut(WarpRole, Event) -> Result<(), Fault> + 'a;

/// The symbols of a function's scalars, and the outcomes of conditions on them in one execution.
pub(super) struct Conditions<'a> {
    pub(super) symbols: &'a mut Symbols,
    pub(super) outcomes: &'a mut Outcomes,
}

/// Emits the events of each warp role, one role after the other. A function without warp roles is a single role. Without
/// `conditions` both paths of every unknown condition are executed.
pub(super) fn unroll(
    program: &Program<'_>,
    forced_bounds: BTreeMap<Value, u64>,
    conditions: Option<Conditions<'_>>,
    listener: &mut Listener<'_>,
) -> Result<(), Fault> {
    let function = program.function;
    let accumulators = accumulators_in_flight(function);
    let mut unroller = Unroller {
        program,
        warp_role: WarpRole(0),
        accumulators: &accumulators,
        scalars: Scalars::new(function, forced_bounds),
        conditions,
        listener,
        executed_ops: 0,
        unknown_nesting: 0,
        loops_with_steps: 0,
    };
    unroller.define(function.params(), &[]);
    if function.attrs.warp_roles.is_empty() {
        return unroller.execute_region(function.region).map(drop);
    }
    let body = &function.body;
    for &op in &body.blocks[function.entry()].ops {
        match &body.ops[op].kind {
            Op::WarpRole { role: warp_role, body: region } => {
                let scalars_before = unroller.scalars.clone();
                unroller.warp_role = *warp_role;
                unroller.execute_region(*region)?;
                unroller.scalars = scalars_before;
            }
            _ => unroller.define_results(op),
        }
    }
    Ok(())
}

/// How the execution of a region ended: the kind of the terminator, and the values that the terminator forwards.
struct RegionEnd {
    terminator: RegionExit,
    /// The values of the forwarded operands; `None` for an operand with neither a number nor a symbol.
    values: Vec<Option<ScalarValue>>,
}

/// The kind of the terminator at which the execution of a region ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RegionExit {
    Yields,
    Continues,
    Breaks,
    Returns,
}

impl RegionEnd {
    fn new(core: Option<&Core>, values: Vec<Option<ScalarValue>>) -> RegionEnd {
        let terminator = match core.and_then(Core::as_terminator) {
            Some(Terminator::Continue(_)) => RegionExit::Continues,
            Some(Terminator::Break(_)) => RegionExit::Breaks,
            Some(Terminator::Return) => RegionExit::Returns,
            Some(Terminator::Yield(_)) | None => RegionExit::Yields,
        };
        RegionEnd { terminator, values }
    }
}

/// The state of the unrolling of one warp role after the other.
struct Unroller<'a, 'b> {
    program: &'a Program<'a>,
    warp_role: WarpRole,
    /// For each value, the asynchronous MMAs that must be complete before an op uses the value.
    accumulators: &'a BTreeMap<Value, BTreeSet<OpId>>,
    scalars: Scalars<'a>,
    /// The outcomes of unknown conditions; `None` if both branches of each unknown condition are executed.
    conditions: Option<Conditions<'a>>,
    listener: &'a mut Listener<'b>,
    /// The number of ops executed so far, up to [`MAX_EXECUTED_OPS`].
    executed_ops: u64,
    /// The number of enclosing ops whose regions execute under an unknown condition, or an unknown number of times.
    unknown_nesting: u32,
    /// The number of enclosing loops with pipeline steps.
    loops_with_steps: u32,
}

impl Unroller<'_, '_> {
    fn record(&mut self, op: OpId, kind: EventKind) -> Result<(), Fault> {
        (self.listener)(self.warp_role, Event { op, kind, used_accumulators: Vec::new() })
    }

    /// Defines values. If the execution has conditions, each value without a number or symbol in `known` gets a new symbol.
    fn define(&mut self, values: &[Value], known: &[Option<ScalarValue>]) {
        self.scalars.define(values, known);
        let Some(Conditions { symbols, .. }) = &mut self.conditions else { return };
        for value in values.iter().filter(|value| is_followed(self.program.function.body.ty(**value))) {
            if self.scalars.value(value).is_none() {
                let symbol = symbols.unknown_symbol(self.warp_role, *value);
                self.scalars.define(&[*value], &[Some(ScalarValue::Symbol(symbol))]);
            }
        }
    }

    /// Defines the results of an op without regions.
    fn define_results(&mut self, op: OpId) {
        let function = self.program.function;
        let node = &function.body.ops[op];
        let result = node.kind.core().and_then(|core| self.scalars.result_of(core, &node.results));
        let results = match (&mut self.conditions, result) {
            (Some(Conditions { symbols, .. }), None) if !self.program.global_order.ordered_accesses.contains(&op) => {
                symbols.result_symbols(function, op, &self.scalars)
            }
            _ => vec![result],
        };
        self.define(&node.results, &results);
    }

    /// Executes the relevant ops of a region, up to the first op that ends the region.
    fn execute_region(&mut self, region: Region) -> Result<RegionEnd, Fault> {
        let Program { function, relevant_ops, .. } = *self.program;
        let body = &function.body;
        for &op in &relevant_ops[&body.block_of(region)] {
            self.executed_ops += 1;
            if self.executed_ops > MAX_EXECUTED_OPS {
                return Err(Fault::TooLong);
            }
            let node = &body.ops[op];
            let used = accumulators_used(self.accumulators, &node.kind).into_iter();
            let used_accumulators: Vec<_> = used.map(|(value, mmas)| (value, mmas.clone())).collect();
            let event_kind = self.event_kind(&node.kind).map_err(|message| Fault::OpViolation { op, message })?;
            if self.program.global_order.ordered_accesses.contains(&op) {
                self.record(op, EventKind::GlobalAccess)?;
            }
            if let Some(kind) = event_kind.or_else(|| (!used_accumulators.is_empty()).then_some(EventKind::Computes)) {
                (self.listener)(self.warp_role, Event { op, kind, used_accumulators })?;
            }
            match node.kind.core() {
                Some(core) if core.is_structured() => {
                    if let Some(end) = self.execute_region_op(op, core, &node.results)? {
                        return Ok(end);
                    }
                }
                core if node.kind.is_terminator() => {
                    return Ok(RegionEnd::new(core, node.kind.operands().iter().map(|value| self.scalars.value(value)).collect()));
                }
                _ => self.define_results(op),
            }
        }
        Ok(RegionEnd { terminator: RegionExit::Yields, values: Vec::new() })
    }

    /// Records that a loop begins another iteration, if the loop contains ordered accesses to global memory.
    fn record_next_iteration(&mut self, loop_op: OpId) -> Result<(), Fault> {
        match self.program.global_order.accesses_in_loop.contains_key(&loop_op) {
            true => self.record(loop_op, EventKind::NextIteration),
            false => Ok(()),
        }
    }

    fn event_kind(&self, kind: &Op) -> Result<Option<EventKind>, String> {
        let effects = kind.effects();
        let pipeline_stage = |pipeline: &Pipeline, stage: &Option<Value>| -> Result<(Pipeline, u32), String> {
            if self.unknown_nesting > 0 {
                return Err("whether it is executed, or how often, is not computed from loop counters".into());
            }
            let depth = self.program.function.attrs.pipelines[*pipeline].depth;
            Ok((*pipeline, self.stage_number(stage, depth, pipeline)?))
        };
        if let Some(PipelineStep { kind: step_kind, pipeline, stage, phase }) = kind.pipeline_step() {
            let (pipeline, stage) = pipeline_stage(&pipeline, &stage)?;
            let position = || -> Result<Position, String> {
                let phase = phase.and_then(|phase| self.scalars.number_of(&phase));
                Ok(Position { pipeline, stage, phase: phase.ok_or("the phase is not computed from loop counters")? })
            };
            return Ok(Some(match step_kind {
                StepKind::Acquire => EventKind::Acquire(position()?),
                StepKind::Wait => EventKind::Wait(position()?),
                StepKind::Commit => EventKind::Commit(pipeline, stage),
                StepKind::Release => EventKind::Release(pipeline, stage),
            }));
        }
        Ok(match kind {
            Op::CopyWait { pending } => Some(EventKind::WaitForCopies(u64::from(*pending))),
            Op::GroupWait { pending, .. } => Some(EventKind::WaitForMmas(u64::from(*pending))),
            _ => match effects.synchronises {
                // A barrier that is not for all threads of the warp role orders nothing.
                Some(Synchronises::Barrier) => {
                    let role_threads = self.program.function.attrs.role_threads(self.warp_role);
                    matches!(kind, Op::Barrier { threads, .. } if Some(*threads) == role_threads).then_some(EventKind::Barrier)
                }
                Some(Synchronises::Fence) => Some(EventKind::Fence),
                Some(Synchronises::EndsCopies) => Some(EventKind::EndCopies),
                Some(_) => unreachable!("no other op waits or steps"),
                None if effects.buffers.is_empty() => None,
                None if effects.copied_to().is_some_and(|buffer| self.is_prefetched(buffer)) => {
                    effects.copied_to().map(EventKind::PrefetchingCopy)
                }
                None => {
                    let accesses = effects.buffers.iter().map(|access| {
                        let depth = self.program.function.attrs.placements[access.buffer].depth;
                        let access = BufferAccess { access_kind: self.scalars.access_kind(access.access_kind), ..*access };
                        Ok((access, self.stage_number(&access.stage, depth, &access.buffer)?))
                    });
                    Some(EventKind::Accesses(accesses.collect::<Result<_, String>>()?, effects.completes))
                }
            },
        })
    }

    fn is_prefetched(&self, buffer: Buffer) -> bool {
        self.program.prefetched.values().any(|staged_buffers| staged_buffers.contains(&buffer))
    }

    /// The stage number that an op names, for a staged buffer or pipeline; 0 if the op names none.
    fn stage_number(&self, stage: &Option<Value>, depth: u32, staged_buffer: &impl std::fmt::Display) -> Result<u32, String> {
        let Some(stage) = stage else { return Ok(0) };
        let number = self.scalars.number_of(stage).ok_or("the stage is not computed from loop counters")?;
        match u32::try_from(number).ok().filter(|number| *number < depth) {
            Some(number) => Ok(number),
            None => Err(format!("{staged_buffer} has {depth} stages, and the op names stage {number}")),
        }
    }

    /// Executes an op with regions. Returns the end of the enclosing region if the op ends that region, otherwise `None`.
    fn execute_region_op(&mut self, op: OpId, core: &Core, results: &[Value]) -> Result<Option<RegionEnd>, Fault> {
        match core.as_structured() {
            Some(StructuredOp::If(branch)) => self.execute_if(op, branch.cond, branch.regions(), results),
            Some(StructuredOp::Loop(loop_op)) => match loop_op.bounds {
                Some(bounds) => self.execute_for(op, bounds, loop_op, results),
                None => self.execute_loop(op, loop_op.init, loop_op.body, results),
            },
            None => unreachable!("only ops with regions come here"),
        }
    }

    /// Executes an `if`: one path if the condition has a known value or outcome, otherwise both. A condition that decides pipeline
    /// steps gets an outcome, unless an enclosing region is executed for an unknown condition or trip count.
    fn execute_if(&mut self, op: OpId, cond: Value, regions: [Region; 2], results: &[Value]) -> Result<Option<RegionEnd>, Fault> {
        let function = self.program.function;
        let decides_steps = regions.into_iter().any(|region| {
            super::has_pipeline_steps(function, region) || self.loops_with_steps > 0 && super::leaves_a_loop(function, region)
        });
        let outcome = match (self.scalars.value(&cond), &mut self.conditions) {
            (Some(ScalarValue::Number(outcome)), _) => Some(outcome != 0),
            (Some(ScalarValue::Symbol(symbol)), Some(Conditions { outcomes, .. })) if self.unknown_nesting == 0 => {
                outcomes.outcome_of(symbol, decides_steps)
            }
            _ => None,
        };
        if let Some(outcome) = outcome {
            let end = self.execute_region(regions[usize::from(!outcome)])?;
            if end.terminator != RegionExit::Yields {
                return Ok(Some(end));
            }
            self.define(results, &end.values);
            return Ok(None);
        }
        self.unknown_nesting += 1;
        self.record(op, EventKind::Fork)?;
        let then_end = self.execute_region(regions[0])?;
        self.record(op, EventKind::OtherPath)?;
        let otherwise_end = self.execute_region(regions[1])?;
        self.record(op, EventKind::PathsJoin)?;
        self.unknown_nesting -= 1;
        let (cond, path_values) = (self.scalars.value(&cond), [then_end, otherwise_end].map(|end| end.values));
        let joined: Vec<Option<ScalarValue>> = match (&mut self.conditions, cond) {
            (Some(Conditions { symbols, .. }), Some(cond)) => {
                let value_at = |path: &Vec<Option<ScalarValue>>, result_index: usize| path.get(result_index).copied().flatten();
                let pairs = (0..results.len())
                    .map(|result_index| [value_at(&path_values[0], result_index), value_at(&path_values[1], result_index)]);
                pairs.map(|[then_end, otherwise_end]| Some(symbols.selected_value(cond, then_end?, otherwise_end?))).collect()
            }
            _ => Vec::new(),
        };
        self.define(results, &joined);
        Ok(None)
    }

    fn execute_for(
        &mut self,
        op: OpId,
        bounds: LoopBounds,
        loop_op: LoopOp<'_>,
        results: &[Value],
    ) -> Result<Option<RegionEnd>, Fault> {
        let LoopBounds { lower, upper, step, unsigned } = bounds;
        let inner = loop_op.body;
        let function = self.program.function;
        for buffer in self.program.prefetched.get(&op).into_iter().flatten() {
            self.record(op, EventKind::Prefetched(*buffer))?;
        }
        let args = &function.body.blocks[function.body.block_of(inner)].args;
        let mut carried: Vec<Option<ScalarValue>> = loop_op.init.iter().map(|value| self.scalars.value(value)).collect();
        let [from, to, step] = [lower, upper, step].map(|value| self.scalars.number_of(&value));
        let has_known_bounds = from.is_some() && to.is_some();
        let (mut counter, step) = (from, step.unwrap_or(1).max(1));
        // Without pipeline steps and copy groups, no rule depends on the number of iterations. Two iterations then cover all
        // interactions between iterations.
        let has_steps = super::has_pipeline_steps(function, inner);
        let max_iterations =
            if has_known_bounds && (has_steps || super::ends_copies(function, inner)) { MAX_ITERATIONS } else { 2 };
        self.unknown_nesting += u32::from(!has_known_bounds);
        self.loops_with_steps += u32::from(has_steps);
        if !has_known_bounds {
            self.record(op, EventKind::Fork)?;
        }
        let (mut iterations, mut early_return) = (0, None);
        while iterations < max_iterations
            && counter.zip(to).is_none_or(|(counter, to)| self.scalars.has_next_iteration(&lower, unsigned, counter, to))
        {
            let arguments: Vec<Option<ScalarValue>> =
                std::iter::once(counter.map(ScalarValue::Number)).chain(carried.iter().copied()).collect();
            self.define(args, &arguments);
            if iterations > 0 {
                self.record_next_iteration(op)?;
            }
            let end = self.execute_region(inner)?;
            if end.terminator == RegionExit::Returns && has_known_bounds {
                early_return = Some(end);
                break;
            }
            carried = end.values;
            counter = counter.map(|counter| self.scalars.next_counter(&lower, counter, step));
            iterations += 1;
        }
        if !has_known_bounds {
            self.record(op, EventKind::OtherPath)?;
            self.record(op, EventKind::PathsJoin)?;
        }
        self.unknown_nesting -= u32::from(!has_known_bounds);
        self.loops_with_steps -= u32::from(has_steps);
        // If the checker did not execute all iterations, the results of the loop are unknown.
        let ran_all_iterations =
            counter.zip(to).is_some_and(|(counter, to)| !self.scalars.has_next_iteration(&lower, unsigned, counter, to));
        self.define(results, if ran_all_iterations { &carried } else { &[] });
        Ok(early_return)
    }

    /// Executes a `loop`. A loop with pipeline steps, outside regions with an unknown condition or trip count, runs until an
    /// iteration leaves the loop. Any other loop runs two iterations.
    fn execute_loop(&mut self, op: OpId, init: &[Value], inner: Region, results: &[Value]) -> Result<Option<RegionEnd>, Fault> {
        let function = self.program.function;
        let args = &function.body.blocks[function.body.block_of(inner)].args;
        if self.conditions.is_some() && self.unknown_nesting == 0 && super::has_pipeline_steps(function, inner) {
            return self.execute_loop_with_pipeline_steps(op, init, inner, results);
        }
        self.unknown_nesting += 1;
        for iteration in 0..2 {
            if iteration > 0 {
                self.record_next_iteration(op)?;
            }
            self.define(args, &[]);
            self.execute_region(inner)?;
        }
        self.unknown_nesting -= 1;
        self.define(results, &[]);
        Ok(None)
    }

    fn execute_loop_with_pipeline_steps(
        &mut self,
        op: OpId,
        init: &[Value],
        inner: Region,
        results: &[Value],
    ) -> Result<Option<RegionEnd>, Fault> {
        let function = self.program.function;
        let args = &function.body.blocks[function.body.block_of(inner)].args;
        let mut carried: Vec<Option<ScalarValue>> = init.iter().map(|value| self.scalars.value(value)).collect();
        self.loops_with_steps += 1;
        let mut early_return = None;
        for iteration in 0.. {
            if iteration > MAX_ITERATIONS {
                return Err(Fault::TooLong);
            }
            if iteration > 0 {
                self.record_next_iteration(op)?;
            }
            self.define(args, &carried);
            let end = self.execute_region(inner)?;
            match end.terminator {
                RegionExit::Continues | RegionExit::Yields => carried = end.values,
                RegionExit::Breaks => {
                    self.define(results, &end.values);
                    break;
                }
                RegionExit::Returns => {
                    early_return = Some(end);
                    break;
                }
            }
        }
        self.loops_with_steps -= 1;
        Ok(early_return)
    }
}

/// Returns whether the checker follows a value of this type: all threads of a role have the same value.
pub(super) fn is_followed(ty: &Type) -> bool {
    match ty {
        Type::Tile { .. } => core_dialect::tile::element_count(ty.shape()) == 1,
        Type::Scalar(_) | Type::MemRef(_) | Type::View(_) => true,
        Type::Token => false,
    }
}
