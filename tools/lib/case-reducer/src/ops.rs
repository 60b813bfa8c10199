//! Removes ops. A constant replaces each removed result that other ops need.

use crate::{Program, take};
use base::Loc;
use base::ir::{Block, Op as OpId, Operation, Region, Value};
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::Overflow;
use tileir::module::Constant;
use tileir::{Element, Module, Op, Type};

/// Removes ops in chunks, large chunks first, from the end to the beginning.
pub(crate) fn without_ops(best: &mut Program, is_interesting: &mut dyn FnMut(&Program) -> bool) {
    for function in 0..best.module.functions.len() {
        let mut size = in_order(&best.module, function).len().next_power_of_two();
        while size > 0 {
            let mut end = in_order(&best.module, function).len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let chosen = in_order(&best.module, function)[start..end].to_vec();
                let mut candidate = best.clone();
                if without(&mut candidate.module, function, &chosen) {
                    take(best, candidate, is_interesting);
                }
                end = start.min(in_order(&best.module, function).len());
            }
            size /= 2;
        }
    }
}

/// Replaces an op by the contents of its regions.
pub(crate) fn without_regions(best: &mut Program, is_interesting: &mut dyn FnMut(&Program) -> bool) {
    for function in 0..best.module.functions.len() {
        for op in in_order(&best.module, function) {
            let mut candidate = best.clone();
            if unwrap(&mut candidate.module, function, op).is_some() {
                take(best, candidate, is_interesting);
            }
        }
    }
}

fn unwrap(module: &mut Module, function: usize, op: OpId) -> Option<()> {
    let body = &module.functions[function].body;
    let (block, at) = place(module, function, op)?;
    let regions = body.ops[op].kind.regions();
    let inner: Vec<_> = regions.iter().flat_map(|region| body.regions[*region].blocks.clone()).collect();
    let arguments: Vec<Value> = inner.iter().flat_map(|block| body.blocks[*block].args.clone()).collect();
    let kept = |op: &OpId| !body.ops[*op].kind.is_terminator();
    let moved: Vec<OpId> = inner.iter().flat_map(|block| body.blocks[*block].ops.clone()).filter(kept).collect();
    if inner.is_empty() {
        return None;
    }
    let before = replace_values(module, function, &arguments)?;
    let blocks = &mut module.functions[function].body.blocks;
    inner.iter().for_each(|block| blocks[*block].ops.retain(|op| !moved.contains(op)));
    blocks[block].ops.splice(at..at, before.into_iter().chain(moved));
    drop_one(module, function, op)
}

/// Returns the removable ops of a function, outer ops before inner ones.
fn in_order(module: &Module, function: usize) -> Vec<OpId> {
    let function = &module.functions[function];
    let mut found = Vec::new();
    let mut pending: Vec<Region> = vec![function.region];
    while let Some(region) = pending.pop() {
        for block in &function.body.regions[region].blocks {
            for op in &function.body.blocks[*block].ops {
                let kind = &function.body.ops[*op].kind;
                pending.extend(kind.regions());
                if !kind.is_terminator() {
                    found.push(*op);
                }
            }
        }
    }
    found
}

/// Removes ops from their blocks. Returns whether any was removed.
fn without(module: &mut Module, function: usize, chosen: &[OpId]) -> bool {
    let mut any = false;
    for op in chosen {
        any |= drop_one(module, function, *op).is_some();
    }
    any
}

/// Returns the block of an op and the op's index in it.
fn place(module: &Module, function: usize, op: OpId) -> Option<(Block, usize)> {
    let blocks = &module.functions[function].body.blocks;
    blocks.iter().find_map(|(id, block)| Some((id, block.ops.iter().position(|other| *other == op)?)))
}

fn drop_one(module: &mut Module, function: usize, op: OpId) -> Option<()> {
    let (block, at) = place(module, function, op)?;
    let body = &module.functions[function].body;
    let stands_in = matches!(body.ops[op].kind, Op::Constant { .. } | Op::MakeToken { .. });
    let results = body.ops[op].results.to_vec();
    if stands_in && !needed(module, function, &results).is_empty() {
        return None;
    }
    let made = replace_values(module, function, &results)?;
    module.functions[function].body.blocks[block].ops.splice(at..=at, made);
    Some(())
}

/// Returns the values that remaining ops use.
fn needed(module: &Module, function: usize, values: &[Value]) -> Vec<Value> {
    let body = &module.functions[function].body;
    let mut found: Vec<Value> = Vec::new();
    for op in body.blocks.values().flat_map(|block| &block.ops) {
        body.ops[*op].kind.for_each_operand(&mut |value| {
            if values.contains(&value) && !found.contains(&value) {
                found.push(value);
            }
        });
    }
    found
}

/// Creates unplaced ops that replace the used values.
fn replace_values(module: &mut Module, function: usize, values: &[Value]) -> Option<Vec<OpId>> {
    let mut made = Vec::new();
    for value in needed(module, function, values) {
        let kind = stand_in(module, module.functions[function].body.values[value].ty)?;
        let body = &mut module.functions[function].body;
        let ty = body.values[value].ty;
        let op = body.new_op(kind, [ty], Loc::UNKNOWN);
        made.push((value, body.ops[op].results[0], op));
    }
    let body = &mut module.functions[function].body;
    let placed: Vec<OpId> = body.blocks.values().flat_map(|block| block.ops.to_vec()).collect();
    for user in placed {
        body.ops[user].kind.for_each_operand_mut(&mut |value| {
            if let Some((_, to, _)) = made.iter().find(|(from, _, _)| from == value) {
                *value = *to;
            }
        });
    }
    Some(made.into_iter().map(|(_, _, op)| op).collect())
}

/// Returns an op without operands that produces a value of this type: ones, or a token.
fn stand_in(module: &mut Module, ty: tileir::TypeId) -> Option<Op> {
    match &module.types[ty] {
        Type::Tile { element: Element::Scalar(scalar), .. } => {
            let bits = match *scalar {
                Scalar::I1 => 0xff,
                scalar if scalar.is_int() => 1,
                Scalar::TF32 => one(Scalar::F32) >> 13,
                scalar => one(scalar),
            };
            let size = tileir::module::stored_bytes(*scalar);
            let data = bits.to_le_bytes()[..size].into();
            Some(Op::Constant { value: module.constants.push(Constant { data }) })
        }
        Type::Token => Some(Op::MakeToken {}),
        _ => None,
    }
}

fn one(scalar: Scalar) -> u64 {
    numerics::float::encode(scalar, 1.0, Rounding::NearestEven, Overflow::Ieee)
}
