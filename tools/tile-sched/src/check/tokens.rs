//! The token game: executes what synchronises, for a number of trip counts, and follows the data of every slot from copy to read.
//!
//! A slot's data is on its way until the thread has waited for its group, its own until the next barrier, and everyone's from
//! then on. A read must find the data of its own iteration there for everyone; a copy must not meet a slot that someone may still
//! read. A product of warp groups sees only what was fenced before the barrier, and reads until the first barrier after it was
//! waited for. Scalars are computed as far as they depend only on loop counters; what tiles hold plays no part.

use base::diag::{Diagnostic, Place, Result};
use base::ir::{Op as OpId, Operation};
use base::{Block, File, Region, Value};
use numerics::Scalar;
use sched::{Function, Module, Op};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tileas::{Buffer, Type};
use vocabulary::core_ops::Core;
use vocabulary::tile::Dense;

/// Plays every function that has a schedule, for no iterations up to twice as many as its stages, and some more.
pub(crate) fn tokens(file: &File<Module>) -> Result<()> {
    for function in &file.payload.functions {
        let own = file.payload.schedules.iter().filter(|schedule| schedule.function == function.name);
        let Some(stages) = own.map(|schedule| schedule.last_stage() + 1).max() else { continue };
        for trips in (0..=2 * u64::from(stages)).chain([17]) {
            let (forced, values) = (forced(function, trips), BTreeMap::new());
            let mut game = Game { function, forced, values, slots: BTreeMap::new(), state: State::default() };
            game.define(function.params(), &[]);
            let played = game.region(function.region).and_then(|_| game.nothing_is_left());
            played.map_err(|(op, message)| {
                let place = Place::Entity(format!("func {}, {trips} iterations", function.name));
                let kind = function.body.ops[op].kind.mnemonic();
                Diagnostic::invalid("SC130", format!("{kind}: {message}"))
                    .at(place)
                    .at_loc(&file.envelope.debug, function.body.ops[op].loc)
            })?;
        }
    }
    Ok(())
}

/// Whether a loop's rounds end groups of copies.
fn is_pipelined(function: &Function, op: OpId) -> bool {
    let body = &function.body;
    let Some(Core::For { body: region, .. }) = body.ops[op].kind.core() else { return false };
    body.blocks[body.block_of(*region)].ops.iter().any(|op| matches!(body.ops[*op].kind, Op::CopyCommit {}))
}

/// Bounds at which every pipelined loop has `trips` iterations, where it is not a few constant ones. A loop that starts where
/// another ended does the rest of the same iterations.
fn forced(function: &Function, trips: u64) -> BTreeMap<Value, u64> {
    /// Constant iterations that are played as they are.
    const FEW: u64 = 64;
    let body = &function.body;
    let constant = |value: Value| match body.ops[body.defining_op(value)?].kind.core() {
        Some(Core::Constant { value: Dense::Splat(bits) }) => Some(*bits),
        _ => None,
    };
    let pipelined: Vec<OpId> = body.walk(function.region).into_iter().filter(|op| is_pipelined(function, *op)).collect();
    let mut forced = BTreeMap::new();
    let bounds = |op: OpId| match body.ops[op].kind.core() {
        Some(Core::For { lower, upper, step, .. }) => [*lower, *upper, *step],
        _ => unreachable!("only `for` loops are pipelined"),
    };
    let first_part = |op: OpId| body.defining_op(bounds(op)[0]).filter(|before| pipelined.contains(before));
    let has_rest = |op: OpId| pipelined.iter().any(|other| first_part(*other) == Some(op));
    for &op in pipelined.iter().filter(|op| !has_rest(**op)) {
        let [_, upper, step] = bounds(op);
        let lower = bounds(first_part(op).unwrap_or(op))[0];
        let (from, by) = (constant(lower), constant(step));
        let (start, by_known) = (from.unwrap_or(0), by.unwrap_or(1).max(1));
        if let (Some(from), Some(to), Some(by)) = (from, constant(upper), by)
            && to.saturating_sub(from) <= FEW * by
        {
            continue;
        }
        forced.extend(from.is_none().then_some((lower, 0)));
        forced.extend(by.is_none().then_some((step, 1)));
        forced.insert(upper, start + trips * by_known);
    }
    forced
}

/// Where the data of a slot is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// In the group with that number.
    OnItsWay(u64),
    /// Waited for by each thread for its own part.
    Own,
    Everyones,
}

#[derive(Default)]
struct State {
    /// Groups ended, and copies since.
    groups: u64,
    /// The data of each slot, with the number of its copy among those of its buffer.
    data: BTreeMap<(Buffer, u64), (Data, u64)>,
    copies: BTreeMap<Buffer, u64>,
    reads: BTreeMap<Buffer, u64>,
    /// Slots read since the last barrier.
    read: BTreeSet<(Buffer, u64)>,
    /// Slots whose data was fenced, so that warp groups see it.
    fenced: BTreeSet<(Buffer, u64)>,
    /// Products in flight, the oldest first, and what they read.
    in_flight: VecDeque<(OpId, Vec<(Buffer, u64)>)>,
}

struct Game<'a> {
    function: &'a Function,
    /// Bounds of pipelined loops, so that they run as often as is played.
    forced: BTreeMap<Value, u64>,
    /// The scalars that are known.
    values: BTreeMap<Value, u64>,
    /// The selected slots.
    slots: BTreeMap<Buffer, u64>,
    state: State,
}

type Outcome<T> = std::result::Result<T, (OpId, String)>;

impl Game<'_> {
    /// Executes a region; gives the operands of the op that leaves it.
    fn region(&mut self, region: Region) -> Outcome<Vec<Option<u64>>> {
        let body = &self.function.body;
        let block: Block = body.block_of(region);
        for &op in &body.blocks[block].ops {
            let node = &body.ops[op];
            match &node.kind {
                Op::Barrier { .. } => self.barrier(),
                Op::CopyCommit {} => self.state.groups += 1,
                Op::CopyWait { pending } => self.wait(u64::from(*pending)),
                Op::SelectSlot { buffer, slot } => {
                    let slot = self.values.get(slot).copied().ok_or((op, "the slot is not computed from loop counters".into()))?;
                    let depth = self.function.attrs.placements[*buffer].depth;
                    if slot >= u64::from(depth) {
                        return Err((op, format!("{buffer} has {depth} slots, and slot {slot} is selected")));
                    }
                    self.slots.insert(*buffer, slot);
                }
                Op::Core(tileas::Op::CopyView { buffer, .. } | tileas::Op::Copy { buffer, .. }) => self.copy(op, *buffer)?,
                Op::Core(tileas::Op::SharedLoad { buffer, .. }) => self.read(op, *buffer)?,
                Op::AsyncFence {} => self.fence(),
                Op::GroupWait { pending, .. } => self.group_wait(*pending as usize),
                Op::Core(tileas::Op::MmaGroup { in_flight, lhs_buffer, rhs, .. }) => {
                    let buffers: Vec<Buffer> = lhs_buffer.iter().chain([rhs]).copied().collect();
                    self.group_product(op, &buffers, *in_flight)?;
                }
                Op::Core(tileas::Op::Core(core)) => match core {
                    Core::If { .. } | Core::For { .. } | Core::Loop { .. } => self.construct(op, core)?,
                    _ if node.kind.is_terminator() => {
                        return Ok(node.kind.operands().iter().map(|value| self.values.get(value).copied()).collect());
                    }
                    _ => self.compute(core, &node.results),
                },
                _ => {}
            }
        }
        Ok(Vec::new())
    }

    fn construct(&mut self, op: OpId, core: &Core) -> Outcome<()> {
        let body = &self.function.body;
        let results = &body.ops[op].results;
        match core {
            Core::If { cond, then, otherwise } => {
                let left = match self.values.get(cond) {
                    Some(0) => self.region(*otherwise)?,
                    Some(_) => self.region(*then)?,
                    // Not about a loop's counter: both sides in turn, and nothing is known of the results.
                    None => {
                        self.region(*then)?;
                        self.region(*otherwise)?;
                        Vec::new()
                    }
                };
                self.define(results, &left);
            }
            Core::For { lower, upper, step, init, body: inner, .. } => {
                let args = &body.blocks[body.block_of(*inner)].args;
                let mut carried: Vec<Option<u64>> = init.iter().map(|value| self.values.get(value).copied()).collect();
                let [from, to, step] = [lower, upper, step].map(|value| self.values.get(value).copied());
                // In two rounds everything that can happen between the rounds of other loops has happened.
                let known = from.is_some() && to.is_some() && is_pipelined(self.function, op);
                let most = if known { 1 << 16 } else { 2 };
                let (mut at, step) = (from, step.unwrap_or(1).max(1));
                let mut rounds = 0;
                while rounds < most && at.zip(to).is_none_or(|(at, to)| at < to) {
                    let entry: Vec<Option<u64>> = std::iter::once(at).chain(carried).collect();
                    self.define(args, &entry);
                    carried = self.region(*inner)?;
                    at = at.map(|at| at + step);
                    rounds += 1;
                }
                self.define(results, &carried);
            }
            Core::Loop { body: inner, .. } => {
                self.region(*inner)?;
                self.define(results, &[]);
            }
            _ => unreachable!("only ops with regions come here"),
        }
        Ok(())
    }

    fn define(&mut self, values: &[Value], known: &[Option<u64>]) {
        for (i, value) in values.iter().enumerate() {
            match self.forced.get(value).copied().or(known.get(i).copied().flatten()) {
                Some(known) => _ = self.values.insert(*value, known),
                None => _ = self.values.remove(value),
            }
        }
    }

    fn compute(&mut self, core: &Core, results: &[Value]) {
        let known = if let [result] = results { self.eval(core, *result) } else { None };
        self.define(results, &[known]);
    }

    fn eval(&self, core: &Core, result: Value) -> Option<u64> {
        let Type::Scalar(elem) = self.function.body.ty(result) else { return None };
        let scalar = elem.scalar()?;
        let get = |value: &Value| self.values.get(value).copied();
        let of = |value: &Value| self.function.body.ty(*value).elem().map_or(Scalar::I32, |elem| elem.carrier());
        match core {
            Core::Constant { value: Dense::Splat(bits) } => Some(*bits),
            Core::Binary { kind, lhs, rhs } => kind.eval(scalar, get(lhs)?, get(rhs)?).into(),
            Core::Compare { kind, lhs, rhs } => Some(kind.eval(of(lhs), get(lhs)?, get(rhs)?)),
            Core::Select { cond, yes, no } => get(if get(cond)? != 0 { yes } else { no }),
            _ => None,
        }
    }

    fn slot(&self, buffer: Buffer) -> (Buffer, u64) {
        (buffer, self.slots.get(&buffer).copied().unwrap_or(0))
    }

    fn copy(&mut self, op: OpId, buffer: Buffer) -> Outcome<()> {
        let slot = self.slot(buffer);
        if self.state.read.contains(&slot) {
            return Err((op, format!("slot {} of {buffer} is overwritten before a barrier after its last read", slot.1)));
        }
        if self.state.in_flight.iter().any(|(_, slots)| slots.contains(&slot)) {
            return Err((op, format!("slot {} of {buffer} is overwritten while a product in flight reads it", slot.1)));
        }
        self.state.fenced.remove(&slot);
        let number = self.state.copies.entry(buffer).or_default();
        self.state.data.insert(slot, (Data::OnItsWay(self.state.groups), *number));
        *number += 1;
        Ok(())
    }

    fn wait(&mut self, pending: u64) {
        let done = self.state.groups.saturating_sub(pending);
        for (data, _) in self.state.data.values_mut() {
            if matches!(data, Data::OnItsWay(group) if *group < done) {
                *data = Data::Own;
            }
        }
    }

    fn barrier(&mut self) {
        self.state.read.clear();
        for (data, _) in self.state.data.values_mut().filter(|(data, _)| *data == Data::Own) {
            *data = Data::Everyones;
        }
    }

    fn fence(&mut self) {
        let own = self.state.data.iter().filter(|(_, (data, _))| *data == Data::Own);
        self.state.fenced.extend(own.map(|(slot, _)| *slot));
    }

    fn group_product(&mut self, op: OpId, buffers: &[Buffer], in_flight: bool) -> Outcome<()> {
        for &buffer in buffers {
            self.read(op, buffer)?;
            let slot = self.slot(buffer);
            if self.state.data.contains_key(&slot) && !self.state.fenced.contains(&slot) {
                return Err((op, format!("slot {} of {buffer} is read in place without a fence before the barrier", slot.1)));
            }
        }
        let slots = buffers.iter().map(|buffer| self.slot(*buffer)).collect();
        self.state.in_flight.push_back((op, slots));
        if !in_flight {
            self.group_wait(0);
        }
        Ok(())
    }

    fn group_wait(&mut self, pending: usize) {
        let done = self.state.in_flight.len().saturating_sub(pending);
        // Each warp has waited for itself: until a barrier another one's part of the product may still read.
        let read = self.state.in_flight.drain(..done).flat_map(|(_, slots)| slots);
        self.state.read.extend(read);
    }

    fn nothing_is_left(&self) -> Outcome<()> {
        match self.state.in_flight.front() {
            Some((op, _)) => Err((*op, "nothing waits for the product".into())),
            None => Ok(()),
        }
    }

    /// A buffer's copies are read in their order; those of one iteration may be read several times.
    fn read(&mut self, op: OpId, buffer: Buffer) -> Outcome<()> {
        let slot = self.slot(buffer);
        let Some(&(data, number)) = self.state.data.get(&slot) else {
            if self.state.copies.contains_key(&buffer) {
                return Err((op, format!("slot {} of {buffer} is read before anything is copied to it", slot.1)));
            }
            return Ok(());
        };
        match data {
            Data::OnItsWay(_) => return Err((op, format!("slot {} of {buffer} is read before its copy was waited for", slot.1))),
            Data::Own => return Err((op, format!("slot {} of {buffer} is read before a barrier after the wait", slot.1))),
            Data::Everyones => {}
        }
        let last = self.state.reads.insert(buffer, number);
        let next = last.map_or(0, |last| last + 1);
        if number != next && Some(number) != last {
            return Err((op, format!("slot {} of {buffer} holds copy {number}, and copy {next} is due", slot.1)));
        }
        self.state.read.insert(slot);
        Ok(())
    }
}
