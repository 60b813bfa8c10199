//! Computes what a loop counts from the loop's own counter, so that an iteration needs nothing of the one before for it: loads can
//! then run ahead, and ranges are known.
//!
//! A counter is an integer that the loop carries and adds an invariant to, of the type of the loop's counter, and that nothing
//! uses after the loop. Wrapping is the same either way.

use super::edit::Edit;
use base::Value;
use base::arith::{Binary, Overflow, Rounding, Signedness};
use base::core_ops::Core;
use base::ir::{Block, Op as OpId};
use base::tile::Dense;
use tileaa::{Function, Op};

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
    /// What each iteration adds.
    by: Value,
}

fn counters(edit: &Edit<'_>, op: OpId, init: &[Value], block: Block) -> Vec<Counter> {
    let body = &edit.function.body;
    let args = &body.blocks[block].args;
    let results = &body.ops[op].results;
    let Some(nexts) = only_continue(edit, block) else { return Vec::new() };
    let counter = |i: usize| {
        let arg = args[i + 1];
        let Some(Op::Core(Core::Binary { kind: Binary::AddI { .. }, lhs, rhs })) =
            body.defining_op(nexts[i]).map(|op| &body.ops[op].kind)
        else {
            return None;
        };
        let by = if *lhs == arg { *rhs } else { *lhs };
        let counts = (*lhs == arg || *rhs == arg) && is_invariant(edit, by);
        (counts && body.ty(arg) == body.ty(args[0]) && !edit.is_used(results[i])).then_some(Counter { arg, init: init[i], by })
    };
    (0..init.len()).filter_map(counter).collect()
}

/// Constants do not change, wherever they stand.
fn is_invariant(edit: &Edit<'_>, value: Value) -> bool {
    edit.splat(value).is_some()
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

/// Replaces a counter by `init + (counter of the loop - lower) / step * by`, if that is cheap.
fn from_loop_counter(edit: &mut Edit<'_>, block: Block, [lower, step]: [Value; 2], counter: Counter) {
    let body = &edit.function.body;
    let (first, iv) = (body.blocks[block].ops[0], body.blocks[block].args[0]);
    let (Some(step), Some(by)) = (edit.splat(step), edit.splat(counter.by)) else { return };
    let bits = edit.ty(iv).tile().map_or(64, |(elem, _)| elem.bits());
    let is_positive_power = step.is_power_of_two() && step >> (bits - 1) == 0;
    if !is_positive_power {
        return;
    }
    let overflow = Overflow::None;
    let mut value = iv;
    if edit.splat(lower) != Some(0) {
        value = binary(edit, first, Binary::SubI { overflow }, value, lower);
    }
    if step != by {
        if step != 1 {
            let rounding = Rounding::Zero;
            value = with_number(edit, first, Binary::DivI { signedness: Signedness::Unsigned, rounding }, value, step);
        }
        if by != 1 {
            value = with_number(edit, first, Binary::MulI { overflow }, value, by);
        }
    }
    if edit.splat(counter.init) != Some(0) {
        value = binary(edit, first, Binary::AddI { overflow }, value, counter.init);
    }
    edit.forward(counter.arg, value);
}

fn binary(edit: &mut Edit<'_>, before: OpId, kind: Binary, lhs: Value, rhs: Value) -> Value {
    let ty = edit.ty(lhs).clone();
    edit.insert(before, Core::Binary { kind, lhs, rhs }, ty)
}

fn with_number(edit: &mut Edit<'_>, before: OpId, kind: Binary, lhs: Value, number: u64) -> Value {
    let ty = edit.ty(lhs).clone();
    let rhs = edit.insert(before, Core::Constant { value: Dense::Splat(number) }, ty);
    binary(edit, before, kind, lhs, rhs)
}
