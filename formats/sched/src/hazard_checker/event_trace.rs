//! Unrolls each warp role into events for given trip counts; [`super::happens_before`] executes the events of all roles together.
//!
//! Both paths of an unknown condition become two branches of a fork. A loop with an unknown trip count runs twice or not at all.
//! Pipeline steps may depend only on a condition that is computed before the warp roles start, and whose value the caller must
//! supply.

use super::Fault;
use super::accumulators::{accumulators, accumulators_used};
use super::global_order::Order;
use super::scalars::Scalars;
use crate::module::{Pipeline, WarpRole};
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use tileas::Buffer;
use tileas::effects::{BufferAccess, Completes, Synchronises};

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

/// Emits the events of each warp role, one role after the other. A function without warp roles is a single role.
pub(super) fn unroll(program: &Program<'_>, forced: BTreeMap<Value, u64>, listener: &mut Listener<'_>) -> Result<(), Fault> {
    let function = program.function;
    let mut scalars = Scalars::new(function, forced);
    scalars.define(function.params(), &[]);
    let accumulators = accumulators(function);
    let entry = &function.body.blocks[function.entry()].ops;
    let common_values = entry.iter().flat_map(|op| function.body.ops[*op].results.iter()).chain(function.params());
    let common_values: BTreeSet<Value> = common_values.copied().collect();
    let mut unroll = Unroll {
        program,
        warp_role: WarpRole(0),
        accumulators: &accumulators,
        common_values: &common_values,
        scalars,
        listener,
        steps: 0,
        conditions: 0,
    };
    if function.attrs.warp_roles.is_empty() {
        return unroll.region(function.region).map(drop);
    }
    let body = &function.body;
    for &op in &body.blocks[function.entry()].ops {
        let node = &body.ops[op];
        match (&node.kind, node.kind.core()) {
            (Op::WarpRole { role: warp_role, body: region }, _) => {
                let before = unroll.scalars.clone();
                unroll.warp_role = *warp_role;
                unroll.region(*region)?;
                unroll.scalars = before;
            }
            (_, Some(core)) => unroll.scalars.compute(core, &node.results),
            _ => {}
        }
    }
    Ok(())
}

struct Unroll<'a, 'b> {
    program: &'a Program<'a>,
    warp_role: WarpRole,
    accumulators: &'a BTreeMap<Value, BTreeSet<OpId>>,
    /// Values computed before the warp roles start.
    common_values: &'a BTreeSet<Value>,
    scalars: Scalars<'a>,
    listener: &'a mut Listener<'b>,
    steps: u64,
    /// The number of enclosing ops for which it is unknown whether, or how often, their regions execute.
    conditions: u32,
}

impl Unroll<'_, '_> {
    fn record(&mut self, op: OpId, kind: EventKind) -> Result<(), Fault> {
        (self.listener)(self.warp_role, Event { op, kind, needs: Vec::new() })
    }

    /// Executes a region and returns the operands of its terminator.
    fn region(&mut self, region: Region) -> Result<Vec<Option<u64>>, Fault> {
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
                    self.execute_region_op(op, core, &node.results)?
                }
                _ if node.kind.is_terminator() => {
                    return Ok(node.kind.operands().iter().map(|value| self.scalars.get(value)).collect());
                }
                Some(core) => self.scalars.compute(core, &node.results),
                None => self.scalars.define(&node.results, &[]),
            }
        }
        Ok(Vec::new())
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

    fn execute_region_op(&mut self, op: OpId, core: &Core, results: &[Value]) -> Result<(), Fault> {
        let function = self.program.function;
        let body = &function.body;
        match core {
            Core::If { cond, then, otherwise } => {
                let yielded = match self.scalars.get(cond) {
                    Some(0) => self.region(*otherwise)?,
                    Some(_) => self.region(*then)?,
                    None if self.conditions == 0
                        && self.common_values.contains(cond)
                        && [then, otherwise].into_iter().any(|region| super::has_pipeline_steps(function, *region)) =>
                    {
                        return Err(Fault::UnknownCondition { condition: *cond });
                    }
                    None => {
                        self.conditions += 1;
                        self.record(op, EventKind::Fork)?;
                        self.region(*then)?;
                        self.record(op, EventKind::OtherPath)?;
                        self.region(*otherwise)?;
                        self.record(op, EventKind::PathsJoin)?;
                        self.conditions -= 1;
                        Vec::new()
                    }
                };
                self.scalars.define(results, &yielded);
            }
            Core::For { lower, upper, step, init, unsigned, body: inner } => {
                for buffer in self.program.prefetched.get(&op).into_iter().flatten() {
                    self.record(op, EventKind::Prefetched(*buffer))?;
                }
                let args = &body.blocks[body.block_of(*inner)].args;
                let mut carried: Vec<Option<u64>> = init.iter().map(|value| self.scalars.get(value)).collect();
                let [from, to, step] = [lower, upper, step].map(|value| self.scalars.get(value));
                let known = from.is_some() && to.is_some();
                let (mut at, step) = (from, step.unwrap_or(1).max(1));
                // Without pipeline steps and copy groups, nothing depends on the number of iterations, and two iterations cover all
                // interactions.
                let depends_on_trip_count = super::has_pipeline_steps(function, *inner) || super::ends_copies(function, *inner);
                let max_iterations = if known && depends_on_trip_count { MAX_ITERATIONS } else { 2 };
                self.conditions += u32::from(!known);
                if !known {
                    self.record(op, EventKind::Fork)?;
                }
                let mut iterations = 0;
                while iterations < max_iterations
                    && at.zip(to).is_none_or(|(at, to)| self.scalars.has_next_iteration(lower, *unsigned, at, to))
                {
                    let entry: Vec<Option<u64>> = std::iter::once(at).chain(carried).collect();
                    self.scalars.define(args, &entry);
                    if iterations > 0 {
                        self.next_iteration(op)?;
                    }
                    carried = self.region(*inner)?;
                    at = at.map(|at| self.scalars.next(lower, at, step));
                    iterations += 1;
                }
                if !known {
                    self.record(op, EventKind::OtherPath)?;
                    self.record(op, EventKind::PathsJoin)?;
                }
                self.conditions -= u32::from(!known);
                self.scalars.define(results, &carried);
            }
            Core::Loop { body: inner, .. } => {
                self.conditions += 1;
                for iteration in 0..2 {
                    if iteration > 0 {
                        self.next_iteration(op)?;
                    }
                    self.scalars.define(&body.blocks[body.block_of(*inner)].args, &[]);
                    self.region(*inner)?;
                }
                self.conditions -= 1;
                self.scalars.define(results, &[]);
            }
            _ => unreachable!("only ops with regions come here"),
        }
        Ok(())
    }
}
