//! The end of who asks for boxes that go to other blocks, too: it waits until each slot is free once more.
//!
//! Requires: loops that carry the place in the pipe. Establishes: that no product of another block has yet to free a slot of this one.

use base::ir::Op as OpId;
use base::{Block, Body, Loc, Value};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Overflow, Predicate, Signedness};
use sched::{Function, Op, Pipe};
use tileas::Type;
use vocabulary::core_ops::Core;
use vocabulary::tile::{Dense, Elem};

/// Where a loop carries the slot and the phase that come next, among what it carries.
#[derive(Clone, Copy)]
struct Place {
    slot: Option<usize>,
    phase: usize,
}

/// Behind what the producer of a pipe does; nothing where its last place is not known.
pub(crate) fn write(function: &mut Function, pipe: Pipe) -> Option<()> {
    let body = &function.body;
    let producer = function.attrs.pipes[pipe].producer;
    let own = |op: &OpId| match body.ops[*op].kind {
        Op::Agent { agent, body: region } if agent == producer => Some(body.block_of(region)),
        _ => None,
    };
    let entry = function.entry();
    let block = body.blocks[entry].ops.iter().find_map(own).unwrap_or(entry);
    let (last, place) = body.blocks[block].ops.iter().rev().find_map(|op| Some((*op, place(body, *op, pipe)?)))?;
    let results = &body.ops[last].results;
    let (slot, phase) = (place.slot.map(|at| results[at]), results[place.phase]);
    let depth = function.attrs.pipes[pipe].depth;
    let ops = std::mem::take(&mut function.body.blocks[block].ops);
    let (end, others) = ops.split_last().expect("a body ends in a return");
    let mut writer = Writer { body: &mut function.body, out: others.to_vec(), loc: function.loc };
    writer.tail(pipe, depth, slot, phase);
    writer.out.push(*end);
    function.body.blocks[block].ops = writer.out;
    Some(())
}

/// The place in a pipe that a loop carries, if it fills it.
fn place(body: &Body<Op, Type>, op: OpId, pipe: Pipe) -> Option<Place> {
    let Some(Core::For { body: region, .. }) = body.ops[op].kind.core() else { return None };
    let block = &body.blocks[body.block_of(*region)];
    let carried = |value: Value| block.args.get(1..)?.iter().position(|arg| *arg == value);
    block.ops.iter().find_map(|inner| match &body.ops[*inner].kind {
        Op::PipeAcquire { pipe: own, slot, phase } if *own == pipe => {
            let slot = slot.map(|slot| carried(slot).ok_or(())).transpose().ok()?;
            Some(Place { slot, phase: carried(*phase)? })
        }
        kind => {
            let inner = place(body, *inner, pipe)?;
            let Some(Core::For { init, .. }) = kind.core() else { return None };
            let slot = inner.slot.map(|at| carried(init[at]).ok_or(())).transpose().ok()?;
            Some(Place { slot, phase: carried(init[inner.phase])? })
        }
    })
}

struct Writer<'a> {
    body: &'a mut Body<Op, Type>,
    out: Vec<OpId>,
    loc: Loc,
}

impl Writer<'_> {
    /// Acquires all slots, one after the other.
    fn tail(&mut self, pipe: Pipe, depth: u32, slot: Option<Value>, phase: Value) {
        let Some(slot) = slot else { return self.append(Op::PipeAcquire { pipe, slot: None, phase }) };
        let [zero, one, all] = [0, 1, depth].map(|number| self.number(number));
        let region = self.body.new_region();
        let block = self.body.new_block(region);
        self.round(pipe, block, all, one);
        let kind = Core::For { lower: zero, upper: all, step: one, init: vec![slot, phase], unsigned: false, body: region };
        let op = self.body.new_op(Op::Core(tileas::Op::Core(kind)), [number(), number()], self.loc);
        self.out.push(op);
    }

    fn round(&mut self, pipe: Pipe, block: Block, all: Value, one: Value) {
        let [_, slot, phase] = [(); 3].map(|()| self.body.add_argument(block, number()));
        let outer = std::mem::take(&mut self.out);
        self.append(Op::PipeAcquire { pipe, slot: Some(slot), phase });
        let next = self.core(Core::Binary { kind: Binary::AddI { overflow: Overflow::None }, lhs: slot, rhs: one }, number());
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let around = self.core(Core::Compare { kind, lhs: next, rhs: all }, Type::Scalar(Elem::Scalar(Scalar::I1)));
        let [first, other] = [self.number(0), self.core(Core::Binary { kind: Binary::Xor, lhs: phase, rhs: one }, number())];
        let slot = self.core(Core::Select { cond: around, yes: first, no: next }, number());
        let phase = self.core(Core::Select { cond: around, yes: other, no: phase }, number());
        self.append(Op::Core(tileas::Op::Core(Core::Continue { values: vec![slot, phase] })));
        self.body.blocks[block].ops = std::mem::replace(&mut self.out, outer);
    }

    fn append(&mut self, op: Op) {
        let op = self.body.new_op(op, [], self.loc);
        self.out.push(op);
    }
    fn core(&mut self, core: Core, ty: Type) -> Value {
        let op = self.body.new_op(Op::Core(tileas::Op::Core(core)), [ty], self.loc);
        self.out.push(op);
        self.body.result(op)
    }
    fn number(&mut self, value: u32) -> Value {
        self.core(Core::Constant { value: Dense::Splat(value.into()) }, number())
    }
}

fn number() -> Type {
    Type::Scalar(Elem::Scalar(Scalar::I32))
}
