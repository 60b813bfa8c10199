//! Writes out what an agent does for given numbers of iterations: events, which [`super::game`] plays with those of the others.
//!
//! Both sides of a condition that is not known are written, as two ways of which one is taken, and a loop of which it is not known how
//! often it goes round does so twice or not at all. Steps of pipes may only depend on a condition that was computed before the agents
//! part, and what it is must be said.

use super::Fault;
use super::order::Order;
use super::scalars::Scalars;
use super::sums::{sums, sums_used};
use crate::module::{Agent, Pipe};
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use std::collections::{BTreeMap, BTreeSet};
use tileas::Buffer;
use tileas::effects::{BufferAccess, Completes, Synchronises};
use vocabulary::core_ops::Core;

/// Ops that are played at most.
const MOST_STEPS: u64 = 1 << 22;
/// Rounds of a loop whose bounds are known.
const MOST_ROUNDS: u64 = 1 << 16;

/// What an op does when it is executed.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) op: OpId,
    pub(super) what: What,
    /// Sums that are used, with the products that must be complete for it.
    pub(super) needs: Vec<(Value, BTreeSet<OpId>)>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// Accesses to slots of buffers.
    Accesses(Vec<(BufferAccess, u32)>, Completes),
    /// From here on copies may fill any slot of a ring; nothing else is in its memory when one does.
    RunsAhead(Buffer),
    IsAlone(Buffer),
    /// Reaches global memory, where others have before it.
    Reaches,
    /// Of a loop that does so another round begins.
    NextRound,
    /// Only its operands matter.
    Computes,
    /// Two ways begin, of which one is taken: up to the other one, and from there to where they meet.
    Ways,
    OtherWay,
    WaysMeet,
    Barrier,
    Fence,
    EndCopies,
    WaitForCopies(u64),
    WaitForProducts(u64),
    Acquire(Position),
    Commit(Pipe, u32),
    Wait(Position),
    Release(Pipe, u32),
}

/// A slot of a pipe in one of its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) pipe: Pipe,
    pub(super) slot: u32,
    pub(super) phase: u64,
}

/// The program that is played.
pub(super) struct Program<'a> {
    pub(super) function: &'a Function,
    /// The ops of each block that matter.
    pub(super) relevant: &'a BTreeMap<Block, Vec<OpId>>,
    /// Of accesses to global memory that threads have to wait for each other for.
    pub(super) order: &'a Order,
    /// For each loop the buffers to which copies will run ahead in it.
    pub(super) ahead: &'a BTreeMap<OpId, BTreeSet<Buffer>>,
}

/// Who is told of events.
pub(super) type Listener<'a> = dyn FnMut(Agent, Event) -> Result<(), Fault> + 'a;

/// Tells the events of each agent, one agent after the other; a function without agents is one.
pub(super) fn unroll(program: &Program<'_>, forced: BTreeMap<Value, u64>, listener: &mut Listener<'_>) -> Result<(), Fault> {
    let function = program.function;
    let mut scalars = Scalars::new(function, forced);
    scalars.define(function.params(), &[]);
    let sums = sums(function);
    let entry = &function.body.blocks[function.entry()].ops;
    let of_all = entry.iter().flat_map(|op| function.body.ops[*op].results.iter()).chain(function.params());
    let of_all: BTreeSet<Value> = of_all.copied().collect();
    let mut own = Unroll { program, agent: Agent(0), sums: &sums, of_all: &of_all, scalars, listener, steps: 0, conditions: 0 };
    if function.attrs.agents.is_empty() {
        return own.region(function.region).map(drop);
    }
    let body = &function.body;
    for &op in &body.blocks[function.entry()].ops {
        let node = &body.ops[op];
        match (&node.kind, node.kind.core()) {
            (Op::Agent { agent, body: region }, _) => {
                let before = own.scalars.clone();
                own.agent = *agent;
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
    agent: Agent,
    sums: &'a BTreeMap<Value, BTreeSet<OpId>>,
    /// Values that are computed before the agents part.
    of_all: &'a BTreeSet<Value>,
    scalars: Scalars<'a>,
    listener: &'a mut Listener<'b>,
    steps: u64,
    /// Constructs around, of which it is not known whether they are executed, or how often.
    conditions: u32,
}

impl Unroll<'_, '_> {
    fn tell(&mut self, op: OpId, what: What) -> Result<(), Fault> {
        (self.listener)(self.agent, Event { op, what, needs: Vec::new() })
    }

    /// Executes a region; gives the operands of the op that leaves it.
    fn region(&mut self, region: Region) -> Result<Vec<Option<u64>>, Fault> {
        let Program { function, relevant, .. } = *self.program;
        let body = &function.body;
        for &op in &relevant[&body.block_of(region)] {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return Err(Fault::TooLong);
            }
            let node = &body.ops[op];
            let used = sums_used(self.sums, &node.kind).into_iter();
            let needs: Vec<_> = used.map(|(value, products)| (value, products.clone())).collect();
            let what = self.event(&node.kind).map_err(|message| Fault::Broken { op, message })?;
            if self.program.order.accesses.contains(&op) {
                self.tell(op, What::Reaches)?;
            }
            if let Some(what) = what.or_else(|| (!needs.is_empty()).then_some(What::Computes)) {
                (self.listener)(self.agent, Event { op, what, needs })?;
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

    fn next_round(&mut self, for_op: OpId) -> Result<(), Fault> {
        match self.program.order.inside.contains_key(&for_op) {
            true => self.tell(for_op, What::NextRound),
            false => Ok(()),
        }
    }

    fn event(&self, kind: &Op) -> Result<Option<What>, String> {
        let effects = kind.effects();
        let of_pipe = |pipe: &Pipe, slot: &Option<Value>| -> Result<(Pipe, u32), String> {
            if self.conditions > 0 {
                return Err("whether it is executed, or how often, is not computed from loop counters".into());
            }
            let depth = self.program.function.attrs.pipes[*pipe].depth;
            Ok((*pipe, self.number(slot, depth, pipe)?))
        };
        let position = |pipe: &Pipe, slot: &Option<Value>, phase: &Value| -> Result<Position, String> {
            let (pipe, slot) = of_pipe(pipe, slot)?;
            let phase = self.scalars.get(phase).ok_or("the phase is not computed from loop counters")?;
            Ok(Position { pipe, slot, phase })
        };
        Ok(match kind {
            Op::PipeAcquire { pipe, slot, phase } => Some(What::Acquire(position(pipe, slot, phase)?)),
            Op::PipeWait { pipe, slot, phase } => Some(What::Wait(position(pipe, slot, phase)?)),
            Op::PipeCommit { pipe, slot } => of_pipe(pipe, slot).map(|(pipe, slot)| Some(What::Commit(pipe, slot)))?,
            Op::PipeRelease { pipe, slot } => of_pipe(pipe, slot).map(|(pipe, slot)| Some(What::Release(pipe, slot)))?,
            Op::CopyWait { pending } => Some(What::WaitForCopies(u64::from(*pending))),
            Op::GroupWait { pending, .. } => Some(What::WaitForProducts(u64::from(*pending))),
            _ => match effects.synchronises {
                // Where not all come to it, others may still be anywhere.
                Some(Synchronises::Barrier) => {
                    let all = self.program.function.attrs.agent_threads(self.agent);
                    matches!(kind, Op::Barrier { threads, .. } if Some(*threads) == all).then_some(What::Barrier)
                }
                Some(Synchronises::Fence) => Some(What::Fence),
                Some(Synchronises::EndsCopies) => Some(What::EndCopies),
                Some(_) => unreachable!("no other op waits or steps"),
                None if effects.buffers.is_empty() => None,
                None if effects.copied_to().is_some_and(|buffer| self.runs_ahead(buffer)) => effects.copied_to().map(What::IsAlone),
                None => {
                    let slots = effects.buffers.iter().map(|access| {
                        let depth = self.program.function.attrs.placements[access.buffer].depth;
                        let access = BufferAccess { does: self.scalars.does(access.does), ..*access };
                        Ok((access, self.number(&access.slot, depth, &access.buffer)?))
                    });
                    Some(What::Accesses(slots.collect::<Result<_, String>>()?, effects.completes))
                }
            },
        })
    }

    fn runs_ahead(&self, buffer: Buffer) -> bool {
        self.program.ahead.values().any(|rings| rings.contains(&buffer))
    }

    /// The number of a slot of a ring, or of a pipe.
    fn number(&self, slot: &Option<Value>, depth: u32, ring: &impl std::fmt::Display) -> Result<u32, String> {
        let Some(slot) = slot else { return Ok(0) };
        let number = self.scalars.get(slot).ok_or("the slot is not computed from loop counters")?;
        match u32::try_from(number).ok().filter(|number| *number < depth) {
            Some(number) => Ok(number),
            None => Err(format!("{ring} has {depth} slots, and slot {number} is meant")),
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
                        && [then, otherwise].into_iter().any(|region| super::steps_pipes(function, *region)) =>
                    {
                        return Err(Fault::Either { condition: *cond });
                    }
                    None => {
                        self.conditions += 1;
                        self.tell(op, What::Ways)?;
                        self.region(*then)?;
                        self.tell(op, What::OtherWay)?;
                        self.region(*otherwise)?;
                        self.tell(op, What::WaysMeet)?;
                        self.conditions -= 1;
                        Vec::new()
                    }
                };
                self.scalars.define(results, &left);
            }
            Core::For { lower, upper, step, init, unsigned, body: inner } => {
                for buffer in self.program.ahead.get(&op).into_iter().flatten() {
                    self.tell(op, What::RunsAhead(*buffer))?;
                }
                let args = &body.blocks[body.block_of(*inner)].args;
                let mut carried: Vec<Option<u64>> = init.iter().map(|value| self.scalars.get(value)).collect();
                let [from, to, step] = [lower, upper, step].map(|value| self.scalars.get(value));
                let known = from.is_some() && to.is_some();
                let (mut at, step) = (from, step.unwrap_or(1).max(1));
                // In two rounds everything that can happen between the rounds of a loop has happened where they do not count on others.
                let counts = super::steps_pipes(function, *inner) || super::ends_copies(function, *inner);
                let most = if known && counts { MOST_ROUNDS } else { 2 };
                self.conditions += u32::from(!known);
                if !known {
                    self.tell(op, What::Ways)?;
                }
                let mut rounds = 0;
                while rounds < most && at.zip(to).is_none_or(|(at, to)| self.scalars.goes_on(lower, *unsigned, at, to)) {
                    let entry: Vec<Option<u64>> = std::iter::once(at).chain(carried).collect();
                    self.scalars.define(args, &entry);
                    if rounds > 0 {
                        self.next_round(op)?;
                    }
                    carried = self.region(*inner)?;
                    at = at.map(|at| self.scalars.next(lower, at, step));
                    rounds += 1;
                }
                if !known {
                    self.tell(op, What::OtherWay)?;
                    self.tell(op, What::WaysMeet)?;
                }
                self.conditions -= u32::from(!known);
                self.scalars.define(results, &carried);
            }
            Core::Loop { body: inner, .. } => {
                self.conditions += 1;
                for round in 0..2 {
                    if round > 0 {
                        self.next_round(op)?;
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
