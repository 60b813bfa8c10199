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
    pub(super) what: What,
    /// The accumulators in use, with the MMAs that must be complete.
    pub(super) needs: Vec<(Value, BTreeSet<OpId>)>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// Accesses to stages of buffers.
    Accesses(Vec<(BufferAccess, u32)>, Completes),
    /// From here on copies may fill any stage of a staged buffer; no other live buffer may then share its memory.
    Prefetched(Buffer),
    SingleThread(Buffer),
    /// Accesses global memory that other threads have accessed before.
    Reaches,
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

/// A stage of a pipeline in one of its iterations.
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
    pub(super) ahead: &'a BTreeMap<OpId, BTreeSet<Buffer>>,
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
    let of_all = entry.iter().flat_map(|op| function.body.ops[*op].results.iter()).chain(function.params());
    let of_all: BTreeSet<Value> = of_all.copied().collect();
    let mut own = Unroll {
        program,
        warp_role: WarpRole(0),
        accumulators: &accumulators,
        of_all: &of_all,
        scalars,
        listener,
        steps: 0,
        conditions: 0,
    };
    if function.attrs.warp_roles.is_empty() {
        return own.region(function.region).map(drop);
    }
    let body = &function.body;
    for &op in &body.blocks[function.entry()].ops {
        let node = &body.ops[op];
        match (&node.kind, node.kind.core()) {
            (Op::WarpRole { role: warp_role, body: region }, _) => {
                let before = own.scalars.clone();
                own.warp_role = *warp_role;
                own.region(*region)?;
                own.scalars = before;
            }
            (_, Some(core)) => own.scalars.compute(core, &node.results),
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
    of_all: &'a BTreeSet<Value>,
    scalars: Scalars<'a>,
    listener: &'a mut Listener<'b>,
    steps: u64,
    /// The surrounding constructs for which it is unknown whether or how often they execute.
    conditions: u32,
}

impl Unroll<'_, '_> {
    fn record(&mut self, op: OpId, what: What) -> Result<(), Fault> {
        (self.listener)(self.warp_role, Event { op, what, needs: Vec::new() })
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
            let what = self.event(&node.kind).map_err(|message| Fault::Broken { op, message })?;
            if self.program.order.accesses.contains(&op) {
                self.record(op, What::Reaches)?;
            }
            if let Some(what) = what.or_else(|| (!needs.is_empty()).then_some(What::Computes)) {
                (self.listener)(self.warp_role, Event { op, what, needs })?;
            }
            match node.kind.core() {
                Some(core @ (Core::If { .. } | Core::For { .. } | Core::Loop { .. })) => self.construct(op, core, &node.results)?,
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
            true => self.record(for_op, What::NextIteration),
            false => Ok(()),
        }
    }

    fn event(&self, kind: &Op) -> Result<Option<What>, String> {
        let effects = kind.effects();
        let of_pipeline = |pipeline: &Pipeline, stage: &Option<Value>| -> Result<(Pipeline, u32), String> {
            if self.conditions > 0 {
                return Err("whether it is executed, or how often, is not computed from loop counters".into());
            }
            let depth = self.program.function.attrs.pipelines[*pipeline].depth;
            Ok((*pipeline, self.number(stage, depth, pipeline)?))
        };
        let position = |pipeline: &Pipeline, stage: &Option<Value>, phase: &Value| -> Result<Position, String> {
            let (pipeline, stage) = of_pipeline(pipeline, stage)?;
            let phase = self.scalars.get(phase).ok_or("the phase is not computed from loop counters")?;
            Ok(Position { pipeline, stage, phase })
        };
        Ok(match kind {
            Op::PipelineAcquire { pipeline, stage, phase } => Some(What::Acquire(position(pipeline, stage, phase)?)),
            Op::PipelineWait { pipeline, stage, phase } => Some(What::Wait(position(pipeline, stage, phase)?)),
            Op::PipelineCommit { pipeline, stage } => {
                of_pipeline(pipeline, stage).map(|(pipeline, stage)| Some(What::Commit(pipeline, stage)))?
            }
            Op::PipelineRelease { pipeline, stage } => {
                of_pipeline(pipeline, stage).map(|(pipeline, stage)| Some(What::Release(pipeline, stage)))?
            }
            Op::CopyWait { pending } => Some(What::WaitForCopies(u64::from(*pending))),
            Op::GroupWait { pending, .. } => Some(What::WaitForMmas(u64::from(*pending))),
            _ => match effects.synchronises {
                // If not all threads reach the barrier, it orders nothing.
                Some(Synchronises::Barrier) => {
                    let all = self.program.function.attrs.role_threads(self.warp_role);
                    matches!(kind, Op::Barrier { threads, .. } if Some(*threads) == all).then_some(What::Barrier)
                }
                Some(Synchronises::Fence) => Some(What::Fence),
                Some(Synchronises::EndsCopies) => Some(What::EndCopies),
                Some(_) => unreachable!("no other op waits or steps"),
                None if effects.buffers.is_empty() => None,
                None if effects.copied_to().is_some_and(|buffer| self.is_prefetched(buffer)) => {
                    effects.copied_to().map(What::SingleThread)
                }
                None => {
                    let stages = effects.buffers.iter().map(|access| {
                        let depth = self.program.function.attrs.placements[access.buffer].depth;
                        let access = BufferAccess { access_kind: self.scalars.access_kind(access.access_kind), ..*access };
                        Ok((access, self.number(&access.stage, depth, &access.buffer)?))
                    });
                    Some(What::Accesses(stages.collect::<Result<_, String>>()?, effects.completes))
                }
            },
        })
    }

    fn is_prefetched(&self, buffer: Buffer) -> bool {
        self.program.ahead.values().any(|staged_buffers| staged_buffers.contains(&buffer))
    }

    /// The number of a stage of a staged buffer or pipeline.
    fn number(&self, stage: &Option<Value>, depth: u32, staged_buffer: &impl std::fmt::Display) -> Result<u32, String> {
        let Some(stage) = stage else { return Ok(0) };
        let number = self.scalars.get(stage).ok_or("the stage is not computed from loop counters")?;
        match u32::try_from(number).ok().filter(|number| *number < depth) {
            Some(number) => Ok(number),
            None => Err(format!("{staged_buffer} has {depth} stages, and the op names stage {number}")),
        }
    }

    fn construct(&mut self, op: OpId, core: &Core, results: &[Value]) -> Result<(), Fault> {
        let function = self.program.function;
        let body = &function.body;
        match core {
            Core::If { cond, then, otherwise } => {
                let left = match self.scalars.get(cond) {
                    Some(0) => self.region(*otherwise)?,
                    Some(_) => self.region(*then)?,
                    None if self.conditions == 0
                        && self.of_all.contains(cond)
                        && [then, otherwise].into_iter().any(|region| super::steps_pipelines(function, *region)) =>
                    {
                        return Err(Fault::Either { condition: *cond });
                    }
                    None => {
                        self.conditions += 1;
                        self.record(op, What::Fork)?;
                        self.region(*then)?;
                        self.record(op, What::OtherPath)?;
                        self.region(*otherwise)?;
                        self.record(op, What::PathsJoin)?;
                        self.conditions -= 1;
                        Vec::new()
                    }
                };
                self.scalars.define(results, &left);
            }
            Core::For { lower, upper, step, init, unsigned, body: inner } => {
                for buffer in self.program.ahead.get(&op).into_iter().flatten() {
                    self.record(op, What::Prefetched(*buffer))?;
                }
                let args = &body.blocks[body.block_of(*inner)].args;
                let mut carried: Vec<Option<u64>> = init.iter().map(|value| self.scalars.get(value)).collect();
                let [from, to, step] = [lower, upper, step].map(|value| self.scalars.get(value));
                let known = from.is_some() && to.is_some();
                let (mut at, step) = (from, step.unwrap_or(1).max(1));
                // Two iterations cover all interactions between iterations of a loop whose iterations do not depend on each other's
                // count.
                let counts = super::steps_pipelines(function, *inner) || super::ends_copies(function, *inner);
                let most = if known && counts { MAX_ITERATIONS } else { 2 };
                self.conditions += u32::from(!known);
                if !known {
                    self.record(op, What::Fork)?;
                }
                let mut iterations = 0;
                while iterations < most && at.zip(to).is_none_or(|(at, to)| self.scalars.goes_on(lower, *unsigned, at, to)) {
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
                    self.record(op, What::OtherPath)?;
                    self.record(op, What::PathsJoin)?;
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
