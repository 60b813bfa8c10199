//! Computes what a loop counts from the loop's own counter, so that an iteration needs nothing of the one before for it: loads can
//! then run ahead, and ranges are known.
//!
//! A counter is an integer, of the type of the loop's own, that the loop carries and adds a constant to, or pointers that it moves
//! by the same number of elements each time, and that nothing uses after the loop. Wrapping is the same either way.

use super::edit::Edit;
use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use numerics::Scalar;
use numerics::arith::{Binary, Convert, Overflow, Rounding, Signedness};
use std::collections::BTreeSet;
use tileaa::{Function, Op, Type};
use vocabulary::core_ops::Core;
use vocabulary::tile::{Dense, Elem};

pub(super) fn run(function: &mut Function) -> usize {
    let mut edit = Edit::new(function);
    for op in edit.order() {
        if let Op::Core(Core::For { lower, step, init, body, .. }) = edit.function.body.ops[op].kind.clone() {
            let block = edit.function.body.block_of(body);
            let counters = counters(&edit, op, &init, block);
            for counter in counters {
                from_loop_counter(&mut edit, block, [lower, step], counter);
            }
        }
    }
    edit.finish()
}

struct Counter {
    arg: Value,
    init: Value,
    by: Increment,
}

/// What each iteration adds.
#[derive(Clone, Copy)]
enum Increment {
    /// To a number of the type of the loop's counter.
    Number(u64),
    /// To each pointer of a tile, or to one pointer: an integer from outside the loop, or a constant of so many bits.
    Pointers(Elements),
}

#[derive(Clone, Copy)]
enum Elements {
    Constant { number: u64, bits: u32 },
    Scalar(Value),
}

fn counters(edit: &Edit<'_>, op: OpId, init: &[Value], block: Block) -> Vec<Counter> {
    let body = &edit.function.body;
    let args = &body.blocks[block].args;
    let results = &body.ops[op].results;
    let Some(nexts) = only_continue(edit, block) else { return Vec::new() };
    let inside: BTreeSet<OpId> = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region)).collect();
    let counter = |i: usize| {
        let arg = args[i + 1];
        let by = match body.defining_op(nexts[i]).map(|op| &body.ops[op].kind)? {
            Op::Core(Core::Binary { kind: Binary::AddI { .. }, lhs, rhs }) if *lhs == arg || *rhs == arg => {
                let by = if *lhs == arg { *rhs } else { *lhs };
                (body.ty(arg) == body.ty(args[0])).then(|| edit.splat(by).map(Increment::Number)).flatten()
            }
            Op::Core(Core::Offset { ptr, offset }) if *ptr == arg => elements(edit, *offset, &inside).map(Increment::Pointers),
            _ => None,
        }?;
        (!edit.is_used(results[i])).then_some(Counter { arg, init: init[i], by })
    };
    (0..init.len()).filter_map(counter).collect()
}

/// The one number that all pointers of a tile move by, if it is the same in every iteration.
fn elements(edit: &Edit<'_>, offset: Value, inside: &BTreeSet<OpId>) -> Option<Elements> {
    if let Some(number) = edit.splat(offset) {
        let bits = edit.ty(offset).tile()?.0.bits();
        return Some(Elements::Constant { number, bits });
    }
    let scalar = match edit.made_by(offset) {
        Some(Core::Broadcast { x }) => x,
        _ => offset,
    };
    let from_outside = match edit.function.body.defining_op(scalar) {
        Some(op) => !inside.contains(&op),
        None => edit.function.params().contains(&scalar),
    };
    (from_outside && edit.ty(scalar).tile()?.1.is_empty()).then_some(Elements::Scalar(scalar))
}

/// What an iteration leaves to the next, if it can end at its end only.
fn only_continue(edit: &Edit<'_>, block: Block) -> Option<Vec<Value>> {
    let body = &edit.function.body;
    let mut blocks = vec![block];
    let mut found = None;
    while let Some(inner) = blocks.pop() {
        for &op in &body.blocks[inner].ops {
            match &body.ops[op].kind {
                Op::Core(Core::Continue { values }) if inner == block => found = Some(values.clone()),
                Op::Core(Core::Continue { .. }) => return None,
                Op::Core(Core::If { then, otherwise, .. }) => {
                    blocks.extend([*then, *otherwise].map(|region| body.block_of(region)))
                }
                _ => {}
            }
        }
    }
    found
}

/// Replaces a counter by what it was before the loop and what the iterations since then have added, if that is cheap.
fn from_loop_counter(edit: &mut Edit<'_>, block: Block, [lower, step]: [Value; 2], counter: Counter) {
    let body = &edit.function.body;
    let (first, iv) = (body.blocks[block].ops[0], body.blocks[block].args[0]);
    let Some(step) = edit.splat(step) else { return };
    let bits = edit.ty(iv).tile().map_or(64, |(elem, _)| elem.bits());
    let is_positive_power = step.is_power_of_two() && step >> (bits - 1) == 0;
    if !is_positive_power {
        return;
    }
    let mut passed = Passed { edit, first, value: iv };
    if passed.edit.splat(lower) != Some(0) && !common::planted("aa.counter") {
        passed.value = passed.binary(Binary::SubI { overflow: WRAPS }, iv, lower);
    }
    let value = match counter.by {
        Increment::Number(by) => passed.number(step, by, counter.init),
        Increment::Pointers(by) => passed.pointers(step, by, counter.init),
    };
    edit.forward(counter.arg, value);
}

const WRAPS: Overflow = Overflow::None;

/// How far a loop has come: its counter less its lower bound.
struct Passed<'a, 'b> {
    edit: &'a mut Edit<'b>,
    /// The first op of an iteration, before which the new ones go.
    first: OpId,
    value: Value,
}

impl Passed<'_, '_> {
    fn number(mut self, step: u64, by: u64, init: Value) -> Value {
        let mut value = self.value;
        if step != by {
            value = self.iterations(step);
            if by != 1 {
                value = self.with_number(Binary::MulI { overflow: WRAPS }, value, by);
            }
        }
        if self.edit.splat(init) != Some(0) && !common::planted("aa.start") {
            value = self.binary(Binary::AddI { overflow: WRAPS }, value, init);
        }
        value
    }

    /// Addresses have 64 bits, and so has what is added to them.
    fn pointers(mut self, step: u64, by: Elements, init: Value) -> Value {
        let wide = |shape| Type::Tile { elem: Elem::Scalar(Scalar::I64), shape };
        let scalar = wide(Default::default());
        let iterations = self.iterations(step);
        let iterations = self.extended(iterations, Signedness::Unsigned, &scalar);
        let by = match by {
            Elements::Constant { number, bits } => {
                let number = ((number << (64 - bits)) as i64 >> (64 - bits)) as u64;
                self.edit.insert(self.first, Core::Constant { value: Dense::Splat(number) }, scalar.clone())
            }
            Elements::Scalar(value) => self.extended(value, Signedness::Signed, &scalar),
        };
        let mut offset = self.binary(Binary::MulI { overflow: WRAPS }, iterations, by);
        let pointers = self.edit.ty(init).clone();
        let shape = pointers.tile().expect("pointers are a tile").1.clone();
        if !shape.is_empty() {
            offset = self.edit.insert(self.first, Core::Broadcast { x: offset }, wide(shape));
        }
        self.edit.insert(self.first, Core::Offset { ptr: init, offset }, pointers)
    }

    /// The iterations that have passed.
    fn iterations(&mut self, step: u64) -> Value {
        if step == 1 {
            return self.value;
        }
        let kind = Binary::DivI { signedness: Signedness::Unsigned, rounding: Rounding::Zero };
        self.with_number(kind, self.value, step)
    }

    fn extended(&mut self, x: Value, signedness: Signedness, to: &Type) -> Value {
        if self.edit.ty(x) == to {
            return x;
        }
        self.edit.insert(self.first, Core::Convert { kind: Convert::ExtI { signedness }, x }, to.clone())
    }

    fn binary(&mut self, kind: Binary, lhs: Value, rhs: Value) -> Value {
        let ty = self.edit.ty(lhs).clone();
        self.edit.insert(self.first, Core::Binary { kind, lhs, rhs }, ty)
    }

    fn with_number(&mut self, kind: Binary, lhs: Value, number: u64) -> Value {
        let ty = self.edit.ty(lhs).clone();
        let rhs = self.edit.insert(self.first, Core::Constant { value: Dense::Splat(number) }, ty);
        self.binary(kind, lhs, rhs)
    }
}
