//! Plays a function: follows its control flow, computes what loops count, and tells [`super::memory`] what happens.

use super::memory::Memory;
use super::scalars::Scalars;
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::{Completes, Synchronises};
use tileas::{Buffer, Type};
use vocabulary::core_ops::Core;

/// Ops that are played at most.
pub(super) const MOST_STEPS: u64 = 1 << 22;
/// Rounds of a loop whose bounds are known.
pub(super) const MOST_ROUNDS: u64 = 1 << 16;

pub(super) enum Fault {
    Broken {
        op: OpId,
        message: String,
    },
    /// What no one op is to blame for.
    Left {
        message: String,
    },
    /// Steps of pipes depend on a condition that all agents know and the judge does not: both ways are to be played.
    Either {
        condition: Value,
    },
    TooLong,
}

type Outcome<T> = Result<T, Fault>;

/// The ops of each block that matter to memory or to what loops count; empty where none matters to memory.
pub(super) fn relevant(function: &Function) -> BTreeMap<Block, Vec<OpId>> {
    let body = &function.body;
    let sums = sums(function);
    let mut any = false;
    let mut matters = |op: OpId| {
        let node = &body.ops[op];
        let effects = node.kind.effects();
        let memory = !effects.buffers.is_empty() || effects.synchronises.is_some();
        any |= memory;
        let counts = node.results.iter().any(|result| matches!(body.ty(*result), Type::Scalar(_)));
        let regions = !node.kind.regions().is_empty() || node.kind.is_terminator();
        memory || counts || regions || node.kind.operands().iter().any(|value| sums.contains_key(value))
    };
    let mut blocks = BTreeMap::new();
    let mut regions = vec![function.region];
    while let Some(region) = regions.pop() {
        let block = body.block_of(region);
        let ops: Vec<OpId> = body.blocks[block].ops.iter().copied().filter(|op| matters(*op)).collect();
        regions.extend(ops.iter().flat_map(|op| body.ops[*op].kind.regions()));
        blocks.insert(block, ops);
    }
    if any { blocks } else { BTreeMap::new() }
}

/// The values that are, or become in a loop, the sums of products that may be in flight, and which products'.
pub(super) fn sums(function: &Function) -> BTreeMap<Value, BTreeSet<OpId>> {
    let body = &function.body;
    let all = body.walk(function.region);
    let mut sums: BTreeMap<Value, BTreeSet<OpId>> = BTreeMap::new();
    for &op in all.iter().filter(|op| body.ops[**op].kind.effects().completes == Completes::WithItsProducts) {
        sums.entry(body.result(op)).or_default().insert(op);
    }
    let mut before = 0;
    // Until nothing new comes around a loop.
    while before != sums.values().map(BTreeSet::len).sum::<usize>() {
        before = sums.values().map(BTreeSet::len).sum();
        for &op in &all {
            for (from, to) in handed_on(function, op) {
                if let Some(products) = sums.get(&from).cloned() {
                    sums.entry(to).or_default().extend(products);
                }
            }
        }
    }
    sums
}

/// Which values an op with regions hands on as which others, unchanged.
fn handed_on(function: &Function, op: OpId) -> Vec<(Value, Value)> {
    let body = &function.body;
    let results = &body.ops[op].results;
    let ends =
        |region: Region| body.terminator(body.block_of(region)).map_or(Vec::new(), |end| body.ops[end].kind.operands().to_vec());
    let pairs = |from: Vec<Value>, to: &[Value]| from.into_iter().zip(to.iter().copied()).collect::<Vec<_>>();
    match body.ops[op].kind.core() {
        Some(Core::If { then, otherwise, .. }) => [pairs(ends(*then), results), pairs(ends(*otherwise), results)].concat(),
        Some(Core::For { init, body: inner, .. }) => {
            let args = &body.blocks[body.block_of(*inner)].args[1..];
            [pairs(init.to_vec(), args), pairs(ends(*inner), args), pairs(ends(*inner), results), pairs(init.to_vec(), results)]
                .concat()
        }
        Some(Core::Loop { init, body: inner }) => {
            let args = &body.blocks[body.block_of(*inner)].args;
            [pairs(init.to_vec(), args), pairs(ends(*inner), args), pairs(ends(*inner), results)].concat()
        }
        _ => Vec::new(),
    }
}

/// The sums that an op uses, with the products that make them. Nothing but the next product takes the sums of one in flight; what
/// hands them on does not touch them.
pub(super) fn sums_used<'a>(sums: &'a BTreeMap<Value, BTreeSet<OpId>>, kind: &Op) -> Vec<(Value, &'a BTreeSet<OpId>)> {
    let effects = kind.effects();
    let next = effects.completes == Completes::WithItsProducts;
    let hands_on = !kind.regions().is_empty() || kind.is_terminator();
    if sums.is_empty() || next || hands_on || effects.synchronises.is_some() {
        return Vec::new();
    }
    kind.operands().into_iter().filter_map(|value| Some((value, sums.get(&value)?))).collect()
}

pub(super) struct Play<'a> {
    function: &'a Function,
    relevant: &'a BTreeMap<Block, Vec<OpId>>,
    /// For each loop the buffers to which copies will run ahead in it.
    ahead: &'a BTreeMap<OpId, BTreeSet<Buffer>>,
    sums: BTreeMap<Value, BTreeSet<OpId>>,
    scalars: Scalars<'a>,
    memory: Memory<'a>,
    steps: u64,
}

impl<'a> Play<'a> {
    pub(super) fn new(
        function: &'a Function,
        relevant: &'a BTreeMap<Block, Vec<OpId>>,
        ahead: &'a BTreeMap<OpId, BTreeSet<Buffer>>,
        forced: BTreeMap<Value, u64>,
        memory: Memory<'a>,
    ) -> Play<'a> {
        Play { function, relevant, ahead, sums: sums(function), scalars: Scalars::new(function, forced), memory, steps: 0 }
    }

    pub(super) fn whole(mut self) -> Outcome<()> {
        self.scalars.define(self.function.params(), &[]);
        self.region(self.function.region)?;
        match self.memory.left_in_flight() {
            Some(op) => Err(Fault::Broken { op, message: "nothing waits for the product".into() }),
            None => Ok(()),
        }
    }

    /// Executes a region; gives the operands of the op that leaves it.
    fn region(&mut self, region: Region) -> Outcome<Vec<Option<u64>>> {
        let body = &self.function.body;
        for &op in &self.relevant[&body.block_of(region)] {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return Err(Fault::TooLong);
            }
            let node = &body.ops[op];
            self.effects(op).map_err(|message| Fault::Broken { op, message })?;
            match node.kind.core() {
                Some(core @ (Core::If { .. } | Core::For { .. } | Core::Loop { .. })) => self.construct(op, core)?,
                _ if node.kind.is_terminator() => {
                    return Ok(node.kind.operands().iter().map(|value| self.scalars.get(value)).collect());
                }
                Some(core) => self.scalars.compute(core, &node.results),
                None => self.scalars.define(&node.results, &[]),
            }
        }
        Ok(Vec::new())
    }

    fn effects(&mut self, op: OpId) -> Result<(), String> {
        let kind = &self.function.body.ops[op].kind;
        let mut effects = kind.effects();
        effects.buffers.iter_mut().for_each(|access| access.does = self.scalars.does(access.does));
        self.sums_are_complete(op)?;
        match effects.synchronises {
            Some(Synchronises::Barrier) => {
                // Others may still be anywhere.
                if matches!(kind, Op::Barrier { threads, .. } if *threads == self.function.attrs.program.warps * 32) {
                    self.memory.barrier();
                }
            }
            Some(Synchronises::EndsCopies) => self.memory.end_copies(),
            Some(Synchronises::WaitsForCopies | Synchronises::WaitsForProducts) => match kind {
                Op::CopyWait { pending } => self.memory.wait_for_copies(u64::from(*pending)),
                Op::GroupWait { pending, .. } => self.memory.wait_for_products(u64::from(*pending)),
                _ => unreachable!("no other op waits"),
            },
            Some(Synchronises::Fence) => self.memory.fence(),
            Some(Synchronises::Acquires | Synchronises::Commits | Synchronises::WaitsForSlot | Synchronises::Releases) => {
                unreachable!("functions with pipes are played by their agents")
            }
            None => {}
        }
        for access in &effects.buffers {
            let Some(slot) = access.slot else { continue };
            self.memory.select(access.buffer, self.scalars.get(&slot))?;
        }
        let runs_ahead = |buffer: &Buffer| self.ahead.values().any(|rings| rings.contains(buffer));
        if let Some(buffer) = effects.copied_to().filter(runs_ahead) {
            return self.memory.is_alone(buffer);
        }
        self.memory.accesses(op, &effects.buffers, effects.completes)
    }

    fn sums_are_complete(&self, op: OpId) -> Result<(), String> {
        let mut used = sums_used(&self.sums, &self.function.body.ops[op].kind).into_iter();
        match used.find(|(_, products)| products.iter().any(|op| self.memory.is_in_flight(*op))) {
            Some((value, _)) => Err(format!("{value} is used while the product that makes it is in flight")),
            None => Ok(()),
        }
    }

    fn construct(&mut self, op: OpId, core: &Core) -> Outcome<()> {
        let body = &self.function.body;
        let results = &body.ops[op].results;
        match core {
            Core::If { cond, then, otherwise } => {
                let left = match self.scalars.get(cond) {
                    Some(0) => self.region(*otherwise)?,
                    Some(_) => self.region(*then)?,
                    None => {
                        let from = self.memory.clone();
                        self.region(*then)?;
                        let then = std::mem::replace(&mut self.memory, from.clone());
                        self.region(*otherwise)?;
                        self.memory.merge(then, &from);
                        Vec::new()
                    }
                };
                self.scalars.define(results, &left);
            }
            Core::For { lower, upper, step, init, unsigned, body: inner } => {
                self.ahead.get(&op).into_iter().flatten().for_each(|buffer| self.memory.run_ahead(*buffer));
                let args = &body.blocks[body.block_of(*inner)].args;
                let mut carried: Vec<Option<u64>> = init.iter().map(|value| self.scalars.get(value)).collect();
                let [from, to, step] = [lower, upper, step].map(|value| self.scalars.get(value));
                // In two rounds everything that can happen between the rounds of other loops has happened.
                let known = from.is_some() && to.is_some();
                let most = if known && super::is_pipelined(self.function, op) { MOST_ROUNDS } else { 2 };
                let before = (!known).then(|| self.memory.clone());
                let (mut at, step) = (from, step.unwrap_or(1).max(1));
                let mut rounds = 0;
                while rounds < most && at.zip(to).is_none_or(|(at, to)| self.scalars.goes_on(lower, *unsigned, at, to)) {
                    let entry: Vec<Option<u64>> = std::iter::once(at).chain(carried).collect();
                    self.scalars.define(args, &entry);
                    carried = self.region(*inner)?;
                    at = at.map(|at| self.scalars.next(lower, at, step));
                    rounds += 1;
                }
                if let Some(before) = before {
                    self.memory.merge(before.clone(), &before);
                }
                self.scalars.define(results, &carried);
            }
            Core::Loop { body: inner, .. } => {
                for _ in 0..2 {
                    self.scalars.define(&body.blocks[body.block_of(*inner)].args, &[]);
                    self.region(*inner)?;
                }
                self.scalars.define(results, &[]);
            }
            _ => unreachable!("only ops with regions come here"),
        }
        Ok(())
    }
}
