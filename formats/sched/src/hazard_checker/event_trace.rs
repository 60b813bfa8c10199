//! Unrolls each warp role into events for given trip counts; [`super::happens_before`] executes the events of all roles together.
//!
//! Both paths of an unknown condition become two branches of a fork. A loop with an unknown trip count runs twice or not at all.
//!
//! A condition that decides pipeline steps, or how often a loop with pipeline steps runs, has one outcome in an execution: that of
//! its symbol ([`super::symbols`]). Warp roles that compute the condition alike then take the same path.

use super::Fault;
use super::accumulators::{accumulators, accumulators_used};
use super::global_order::Order;
use super::scalars::{Known, Scalars};
use super::symbols::{Outcomes, Symbols};
use crate::module::{Pipeline, WarpRole};
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::{BufferAccess, Completes, Synchronises};
use tileas::{Buffer, Type};

/// Limit on the ops of one execution.
const MAX_STEPS: u64 = 1 << 22;
/// Limit on the iterations of a loop with known bounds.
const MAX_ITERATIONS: u64 = 1 << 16;

/// The effect of an op when it executes.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) op: OpId,
    pub(super) kind: EventKind,
    /// The accumulators in use, with the MMAs that must be complete.
    pub(super) needs: Vec<(Value, BTreeSet<OpId>)>,
}

#[derive(Clone, Debug)]
pub(super) enum EventKind {
    /// Accesses to stages of buffers.
    Accesses(Vec<(BufferAccess, u32)>, Completes),
    /// From here on copies may fill any stage of a staged buffer; no other live buffer may then share its memory.
    Prefetched(Buffer),
    /// A copy into a buffer into which its loop will prefetch. The buffer then needs memory of its own.
    PrefetchingCopy(Buffer),
    /// An access to global memory that takes part in the order of tokens.
    GlobalAccess,
    /// A loop with such accesses begins another iteration.
    NextIteration,
    /// Only the operands matter.
    Computes,
    /// A fork begins: the first branch ends at `OtherPath`, the second one at `PathsJoin`.
    Fork,
    OtherPath,
    PathsJoin,
    Barrier,
    Fence,
    EndCopies,
    WaitForCopies(u64),
    WaitForMmas(u64),
    Acquire(Position),
    Commit(Pipeline, u32),
    Wait(Position),
    Release(Pipeline, u32),
}

/// A visit of a pipeline stage: the stage, and the phase for which the role waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) pipeline: Pipeline,
    pub(super) stage: u32,
    pub(super) phase: u64,
}

/// The program under test.
pub(super) struct Program<'a> {
    pub(super) function: &'a Function,
    /// The ops of each block that matter to the checker.
    pub(super) relevant: &'a BTreeMap<Block, Vec<OpId>>,
    /// The accesses to global memory that need synchronisation between threads.
    pub(super) order: &'a Order,
    /// For each loop, the buffers into which its copies will prefetch.
    pub(super) prefetched: &'a BTreeMap<OpId, BTreeSet<Buffer>>,
}

/// Receives the events.
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
    forced: BTreeMap<Value, u64>,
    conditions: Option<Conditions<'_>>,
    listener: &mut Listener<'_>,
) -> Result<(), Fault> {
    let function = program.function;
    let accumulators = accumulators(function);
    let mut unroll = Unroll {
        program,
        warp_role: WarpRole(0),
        accumulators: &accumulators,
        scalars: Scalars::new(function, forced),
        decisions: conditions,
        listener,
        steps: 0,
        conditions: 0,
        stepping: 0,
    };
    unroll.define(function.params(), &[]);
    if function.attrs.warp_roles.is_empty() {
        return unroll.region(function.region).map(drop);
    }
    let body = &function.body;
    for &op in &body.blocks[function.entry()].ops {
        match &body.ops[op].kind {
            Op::WarpRole { role: warp_role, body: region } => {
                let before = unroll.scalars.clone();
                unroll.warp_role = *warp_role;
                unroll.region(*region)?;
                unroll.scalars = before;
            }
            _ => unroll.compute(op),
        }
    }
    Ok(())
}

/// How a region ends: the kind of its terminator, and the values that it forwards.
struct End {
    how: How,
    values: Vec<Option<Known>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Yields,
    Continues,
    Breaks,
    Returns,
}

impl End {
    fn of(core: Option<&Core>, values: Vec<Option<Known>>) -> End {
        let how = match core {
            Some(Core::Continue { .. }) => How::Continues,
            Some(Core::Break { .. }) => How::Breaks,
            Some(Core::Return {}) => How::Returns,
            _ => How::Yields,
        };
        End { how, values }
    }
}

struct Unroll<'a, 'b> {
    program: &'a Program<'a>,
    warp_role: WarpRole,
    accumulators: &'a BTreeMap<Value, BTreeSet<OpId>>,
    scalars: Scalars<'a>,
    decisions: Option<Conditions<'a>>,
    listener: &'a mut Listener<'b>,
    steps: u64,
    /// The number of enclosing ops for which it is unknown whether, or how often, their regions execute.
    conditions: u32,
    /// The surrounding loops with pipeline steps.
    stepping: u32,
}

impl Unroll<'_, '_> {
    fn record(&mut self, op: OpId, kind: EventKind) -> Result<(), Fault> {
        (self.listener)(self.warp_role, Event { op, kind, needs: Vec::new() })
    }

    /// Defines values. Without a number or a symbol, each gets a new symbol.
    fn define(&mut self, values: &[Value], known: &[Option<Known>]) {
        self.scalars.define(values, known);
        let Some(Conditions { symbols, .. }) = &mut self.decisions else { return };
        for value in values.iter().filter(|value| is_followed(self.program.function.body.ty(**value))) {
            if self.scalars.known(value).is_none() {
                let symbol = symbols.unknown(self.warp_role, *value);
                self.scalars.define(&[*value], &[Some(Known::Symbol(symbol))]);
            }
        }
    }

    /// Defines the results of an op without regions.
    fn compute(&mut self, op: OpId) {
        let function = self.program.function;
        let node = &function.body.ops[op];
        let number = node.kind.core().and_then(|core| self.scalars.compute(core, &node.results));
        let known = match (&mut self.decisions, number) {
            (Some(Conditions { symbols, .. }), None) if !self.program.order.accesses.contains(&op) => {
                symbols.results(function, op, &self.scalars)
            }
            _ => vec![number],
        };
        self.define(&node.results, &known);
    }

    /// Executes a region.
    fn region(&mut self, region: Region) -> Result<End, Fault> {
        let Program { function, relevant, .. } = *self.program;
        let body = &function.body;
        for &op in &relevant[&body.block_of(region)] {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(Fault::TooLong);
            }
            let node = &body.ops[op];
            let used = accumulators_used(self.accumulators, &node.kind).into_iter();
            let needs: Vec<_> = used.map(|(value, mmas)| (value, mmas.clone())).collect();
            let event_kind = self.event_kind(&node.kind).map_err(|message| Fault::Broken { op, message })?;
            if self.program.order.accesses.contains(&op) {
                self.record(op, EventKind::GlobalAccess)?;
            }
            if let Some(kind) = event_kind.or_else(|| (!needs.is_empty()).then_some(EventKind::Computes)) {
                (self.listener)(self.warp_role, Event { op, kind, needs })?;
            }
            match node.kind.core() {
                Some(core @ (Core::If { .. } | Core::For { .. } | Core::Loop { .. })) => {
                    if let Some(end) = self.execute_region_op(op, core, &node.results)? {
                        return Ok(end);
                    }
                }
                core if node.kind.is_terminator() => {
                    return Ok(End::of(core, node.kind.operands().iter().map(|value| self.scalars.known(value)).collect()));
                }
                _ => self.compute(op),
            }
        }
        Ok(End { how: How::Yields, values: Vec::new() })
    }

    fn next_iteration(&mut self, for_op: OpId) -> Result<(), Fault> {
        match self.program.order.inside.contains_key(&for_op) {
            true => self.record(for_op, EventKind::NextIteration),
            false => Ok(()),
        }
    }

    fn event_kind(&self, kind: &Op) -> Result<Option<EventKind>, String> {
        let effects = kind.effects();
        let of_pipeline = |pipeline: &Pipeline, stage: &Option<Value>| -> Result<(Pipeline, u32), String> {
            if self.conditions > 0 {
                return Err("whether it is executed, or how often, is not computed from loop counters".into());
            }
            let depth = self.program.function.attrs.pipelines[*pipeline].depth;
            Ok((*pipeline, self.stage_number(stage, depth, pipeline)?))
        };
        let position = |pipeline: &Pipeline, stage: &Option<Value>, phase: &Value| -> Result<Position, String> {
            let (pipeline, stage) = of_pipeline(pipeline, stage)?;
            let phase = self.scalars.get(phase).ok_or("the phase is not computed from loop counters")?;
            Ok(Position { pipeline, stage, phase })
        };
        Ok(match kind {
            Op::PipelineAcquire { pipeline, stage, phase } => Some(EventKind::Acquire(position(pipeline, stage, phase)?)),
            Op::PipelineWait { pipeline, stage, phase } => Some(EventKind::Wait(position(pipeline, stage, phase)?)),
            Op::PipelineCommit { pipeline, stage } => {
                of_pipeline(pipeline, stage).map(|(pipeline, stage)| Some(EventKind::Commit(pipeline, stage)))?
            }
            Op::PipelineRelease { pipeline, stage } => {
                of_pipeline(pipeline, stage).map(|(pipeline, stage)| Some(EventKind::Release(pipeline, stage)))?
            }
            Op::CopyWait { pending } => Some(EventKind::WaitForCopies(u64::from(*pending))),
            Op::GroupWait { pending, .. } => Some(EventKind::WaitForMmas(u64::from(*pending))),
            _ => match effects.synchronises {
                // If not all threads reach the barrier, it orders nothing.
                Some(Synchronises::Barrier) => {
                    let all = self.program.function.attrs.role_threads(self.warp_role);
                    matches!(kind, Op::Barrier { threads, .. } if Some(*threads) == all).then_some(EventKind::Barrier)
                }
                Some(Synchronises::Fence) => Some(EventKind::Fence),
                Some(Synchronises::EndsCopies) => Some(EventKind::EndCopies),
                Some(_) => unreachable!("no other op waits or steps"),
                None if effects.buffers.is_empty() => None,
                None if effects.copied_to().is_some_and(|buffer| self.is_prefetched(buffer)) => {
                    effects.copied_to().map(EventKind::PrefetchingCopy)
                }
                None => {
                    let stages = effects.buffers.iter().map(|access| {
                        let depth = self.program.function.attrs.placements[access.buffer].depth;
                        let access = BufferAccess { access_kind: self.scalars.access_kind(access.access_kind), ..*access };
                        Ok((access, self.stage_number(&access.stage, depth, &access.buffer)?))
                    });
                    Some(EventKind::Accesses(stages.collect::<Result<_, String>>()?, effects.completes))
                }
            },
        })
    }

    fn is_prefetched(&self, buffer: Buffer) -> bool {
        self.program.prefetched.values().any(|staged_buffers| staged_buffers.contains(&buffer))
    }

    /// The number of a stage of a staged buffer or pipeline.
    fn stage_number(&self, stage: &Option<Value>, depth: u32, staged_buffer: &impl std::fmt::Display) -> Result<u32, String> {
        let Some(stage) = stage else { return Ok(0) };
        let number = self.scalars.get(stage).ok_or("the stage is not computed from loop counters")?;
        match u32::try_from(number).ok().filter(|number| *number < depth) {
            Some(number) => Ok(number),
            None => Err(format!("{staged_buffer} has {depth} stages, and the op names stage {number}")),
        }
    }

    /// Executes an op with regions. Returns how the region around it ends, if it ends there.
    fn execute_region_op(&mut self, op: OpId, core: &Core, results: &[Value]) -> Result<Option<End>, Fault> {
        match core {
            Core::If { cond, then, otherwise } => self.branch(op, *cond, [*then, *otherwise], results),
            Core::For { .. } => self.counted_loop(op, core, results),
            Core::Loop { init, body: inner } => self.unbounded_loop(op, init, *inner, results),
            _ => unreachable!("only ops with regions come here"),
        }
    }

    /// Executes the path that a condition selects, or both if no pipeline step depends on it.
    fn branch(&mut self, op: OpId, cond: Value, regions: [Region; 2], results: &[Value]) -> Result<Option<End>, Fault> {
        let function = self.program.function;
        let decides = regions.into_iter().any(|region| {
            super::has_pipeline_steps(function, region) || self.stepping > 0 && super::leaves_a_loop(function, region)
        });
        let taken = match (self.scalars.known(&cond), &mut self.decisions) {
            (Some(Known::Number(taken)), _) => Some(taken != 0),
            (Some(Known::Symbol(symbol)), Some(Conditions { outcomes, .. })) if self.conditions == 0 => {
                outcomes.of(symbol, decides)
            }
            _ => None,
        };
        if let Some(taken) = taken {
            let end = self.region(regions[usize::from(!taken)])?;
            if end.how != How::Yields {
                return Ok(Some(end));
            }
            self.define(results, &end.values);
            return Ok(None);
        }
        self.conditions += 1;
        self.record(op, EventKind::Fork)?;
        let one = self.region(regions[0])?;
        self.record(op, EventKind::OtherPath)?;
        let other = self.region(regions[1])?;
        self.record(op, EventKind::PathsJoin)?;
        self.conditions -= 1;
        let (cond, both) = (self.scalars.known(&cond), [one, other].map(|end| end.values));
        let joined: Vec<Option<Known>> = match (&mut self.decisions, cond) {
            (Some(Conditions { symbols, .. }), Some(cond)) => {
                let value = |path: &Vec<Option<Known>>, at: usize| path.get(at).copied().flatten();
                let pairs = (0..results.len()).map(|at| [value(&both[0], at), value(&both[1], at)]);
                pairs.map(|[one, other]| Some(symbols.selected(cond, one?, other?))).collect()
            }
            _ => Vec::new(),
        };
        self.define(results, &joined);
        Ok(None)
    }

    fn counted_loop(&mut self, op: OpId, core: &Core, results: &[Value]) -> Result<Option<End>, Fault> {
        let Core::For { lower, upper, step, init, unsigned, body: inner } = core else { unreachable!("the loop is a `for`") };
        let function = self.program.function;
        for buffer in self.program.prefetched.get(&op).into_iter().flatten() {
            self.record(op, EventKind::Prefetched(*buffer))?;
        }
        let args = &function.body.blocks[function.body.block_of(*inner)].args;
        let mut carried: Vec<Option<Known>> = init.iter().map(|value| self.scalars.known(value)).collect();
        let [from, to, step] = [lower, upper, step].map(|value| self.scalars.get(value));
        let known = from.is_some() && to.is_some();
        let (mut at, step) = (from, step.unwrap_or(1).max(1));
        // Two iterations cover all interactions between iterations of a loop whose iterations do not depend on each other's
        // count.
        let steps = super::has_pipeline_steps(function, *inner);
        let most = if known && (steps || super::ends_copies(function, *inner)) { MAX_ITERATIONS } else { 2 };
        self.conditions += u32::from(!known);
        self.stepping += u32::from(steps);
        if !known {
            self.record(op, EventKind::Fork)?;
        }
        let (mut iterations, mut left) = (0, None);
        while iterations < most && at.zip(to).is_none_or(|(at, to)| self.scalars.has_next_iteration(lower, *unsigned, at, to)) {
            let entry: Vec<Option<Known>> = std::iter::once(at.map(Known::Number)).chain(carried.iter().copied()).collect();
            self.define(args, &entry);
            if iterations > 0 {
                self.next_iteration(op)?;
            }
            let end = self.region(*inner)?;
            if end.how == How::Returns && known {
                left = Some(end);
                break;
            }
            carried = end.values;
            at = at.map(|at| self.scalars.next(lower, at, step));
            iterations += 1;
        }
        if !known {
            self.record(op, EventKind::OtherPath)?;
            self.record(op, EventKind::PathsJoin)?;
        }
        self.conditions -= u32::from(!known);
        self.stepping -= u32::from(steps);
        // The values after a loop of which not all iterations were executed are unknown.
        let all = at.zip(to).is_some_and(|(at, to)| !self.scalars.has_next_iteration(lower, *unsigned, at, to));
        self.define(results, if all { &carried } else { &[] });
        Ok(left)
    }

    /// Executes a loop with pipeline steps until an iteration leaves it, and two iterations of any other.
    fn unbounded_loop(&mut self, op: OpId, init: &[Value], inner: Region, results: &[Value]) -> Result<Option<End>, Fault> {
        let function = self.program.function;
        let args = &function.body.blocks[function.body.block_of(inner)].args;
        if self.decisions.is_some() && self.conditions == 0 && super::has_pipeline_steps(function, inner) {
            return self.stepping_loop(op, init, inner, results);
        }
        self.conditions += 1;
        for iteration in 0..2 {
            if iteration > 0 {
                self.next_iteration(op)?;
            }
            self.define(args, &[]);
            self.region(inner)?;
        }
        self.conditions -= 1;
        self.define(results, &[]);
        Ok(None)
    }

    fn stepping_loop(&mut self, op: OpId, init: &[Value], inner: Region, results: &[Value]) -> Result<Option<End>, Fault> {
        let function = self.program.function;
        let args = &function.body.blocks[function.body.block_of(inner)].args;
        let mut carried: Vec<Option<Known>> = init.iter().map(|value| self.scalars.known(value)).collect();
        self.stepping += 1;
        let mut left = None;
        for iteration in 0.. {
            if iteration > MAX_ITERATIONS {
                return Err(Fault::TooLong);
            }
            if iteration > 0 {
                self.next_iteration(op)?;
            }
            self.define(args, &carried);
            let end = self.region(inner)?;
            match end.how {
                How::Continues | How::Yields => carried = end.values,
                How::Breaks => {
                    self.define(results, &end.values);
                    break;
                }
                How::Returns => {
                    left = Some(end);
                    break;
                }
            }
        }
        self.stepping -= 1;
        Ok(left)
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
