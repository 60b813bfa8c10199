//! Removes ops. If other ops need a removed result, a constant (or a new token) replaces it.

use crate::{Program, accept_if_interesting};
use base::Loc;
use base::ir::{Block, Op as OpId, Operation, Region, Value};
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::OverflowResult;
use tileir::module::Constant;
use tileir::{Element, Module, Op, Type};

/// Tries to remove ops in chunks. Large chunks come first, and the chunks of one size go from the last removable ops to the first
/// ones.
pub(crate) fn remove_chunks(best: &mut Program, is_interesting: &mut dyn FnMut(&Program) -> bool) {
    for function in 0..best.module.functions.len() {
        let mut chunk_size = removable_ops(&best.module, function).len().next_power_of_two();
        while chunk_size > 0 {
            let mut end = removable_ops(&best.module, function).len();
            while end > 0 {
                let start = end.saturating_sub(chunk_size);
                let chunk = removable_ops(&best.module, function)[start..end].to_vec();
                let mut candidate = best.clone();
                if remove_ops(&mut candidate.module, function, &chunk) {
                    accept_if_interesting(best, candidate, is_interesting);
                }
                end = start.min(removable_ops(&best.module, function).len());
            }
            chunk_size /= 2;
        }
    }
}

/// For each op with regions, tries to move the ops of the regions before the op, and to remove the op.
pub(crate) fn inline_all_regions(best: &mut Program, is_interesting: &mut dyn FnMut(&Program) -> bool) {
    for function in 0..best.module.functions.len() {
        for op in removable_ops(&best.module, function) {
            let mut candidate = best.clone();
            if inline_regions(&mut candidate.module, function, op).is_some() {
                accept_if_interesting(best, candidate, is_interesting);
            }
        }
    }
}

/// Moves the ops of an op's regions before the op, without their terminators, and removes the op. Returns `None` if the op has no
/// regions, or if a result or block argument has no replacement.
fn inline_regions(module: &mut Module, function: usize, op: OpId) -> Option<()> {
    let body = &module.functions[function].body;
    let (block, at) = position_of(module, function, op)?;
    let regions = body.ops[op].kind.regions();
    let inner_blocks: Vec<_> = regions.iter().flat_map(|region| body.regions[*region].blocks.clone()).collect();
    let arguments: Vec<Value> = inner_blocks.iter().flat_map(|block| body.blocks[*block].args.clone()).collect();
    let is_not_terminator = |op: &OpId| !body.ops[*op].kind.is_terminator();
    let moved_ops: Vec<OpId> =
        inner_blocks.iter().flat_map(|block| body.blocks[*block].ops.clone()).filter(is_not_terminator).collect();
    if inner_blocks.is_empty() {
        return None;
    }
    let replacements = replace_values(module, function, &arguments)?;
    let blocks = &mut module.functions[function].body.blocks;
    inner_blocks.iter().for_each(|block| blocks[*block].ops.retain(|op| !moved_ops.contains(op)));
    blocks[block].ops.splice(at..at, replacements.into_iter().chain(moved_ops));
    remove_op(module, function, op)
}

/// Returns the ops of a function that are not terminators. An op comes before the ops of its regions.
fn removable_ops(module: &Module, function: usize) -> Vec<OpId> {
    let function = &module.functions[function];
    let mut removable = Vec::new();
    let mut pending: Vec<Region> = vec![function.region];
    while let Some(region) = pending.pop() {
        for block in &function.body.regions[region].blocks {
            for op in &function.body.blocks[*block].ops {
                let kind = &function.body.ops[*op].kind;
                pending.extend(kind.regions());
                if !kind.is_terminator() {
                    removable.push(*op);
                }
            }
        }
    }
    removable
}

/// Removes ops from their blocks. Returns whether at least one op was removed.
fn remove_ops(module: &mut Module, function: usize, chunk: &[OpId]) -> bool {
    let mut removed_any = false;
    for op in chunk {
        removed_any |= remove_op(module, function, *op).is_some();
    }
    removed_any
}

/// Returns the block of an op and the op's index in it.
fn position_of(module: &Module, function: usize, op: OpId) -> Option<(Block, usize)> {
    let blocks = &module.functions[function].body.blocks;
    blocks.iter().find_map(|(id, block)| Some((id, block.ops.iter().position(|other| *other == op)?)))
}

/// Removes an op, and inserts replacements for its used results. Returns `None` if a used result has no replacement, or if the op
/// is itself such a replacement and is used.
fn remove_op(module: &mut Module, function: usize, op: OpId) -> Option<()> {
    let (block, at) = position_of(module, function, op)?;
    let body = &module.functions[function].body;
    let is_replacement = matches!(body.ops[op].kind, Op::Constant { .. } | Op::MakeToken { .. });
    let results = body.ops[op].results.to_vec();
    if is_replacement && !used_values(module, function, &results).is_empty() {
        return None;
    }
    let replacements = replace_values(module, function, &results)?;
    module.functions[function].body.blocks[block].ops.splice(at..=at, replacements);
    Some(())
}

/// Returns the values among `values` that ops in blocks use.
fn used_values(module: &Module, function: usize, values: &[Value]) -> Vec<Value> {
    let body = &module.functions[function].body;
    let mut used: Vec<Value> = Vec::new();
    for op in body.blocks.values().flat_map(|block| &block.ops) {
        body.ops[*op].kind.for_each_operand(&mut |value| {
            if values.contains(&value) && !used.contains(&value) {
                used.push(value);
            }
        });
    }
    used
}

/// Creates ops that replace the used values among `values`, and replaces the uses. The caller inserts the new ops into a block.
/// Returns `None` if a value has no replacement.
fn replace_values(module: &mut Module, function: usize, values: &[Value]) -> Option<Vec<OpId>> {
    let mut replacements = Vec::new();
    for value in used_values(module, function, values) {
        let kind = replacement_op(module, module.functions[function].body.values[value].ty)?;
        let body = &mut module.functions[function].body;
        let ty = body.values[value].ty;
        let op = body.new_op(kind, [ty], Loc::UNKNOWN);
        replacements.push((value, body.ops[op].results[0], op));
    }
    let body = &mut module.functions[function].body;
    let ops_in_blocks: Vec<OpId> = body.blocks.values().flat_map(|block| block.ops.to_vec()).collect();
    for user in ops_in_blocks {
        body.ops[user].kind.for_each_operand_mut(&mut |value| {
            if let Some((_, to, _)) = replacements.iter().find(|(from, _, _)| from == value) {
                *value = *to;
            }
        });
    }
    Some(replacements.into_iter().map(|(_, _, op)| op).collect())
}

/// Returns an op without operands that produces a value of this type: a tile of ones, or a token. Returns `None` for other types.
fn replacement_op(module: &mut Module, ty: tileir::TypeId) -> Option<Op> {
    match &module.types[ty] {
        Type::Tile { element: Element::Scalar(scalar), .. } => {
            let bits = match *scalar {
                Scalar::I1 => 0xff,
                scalar if scalar.is_int() => 1,
                Scalar::TF32 => bits_of_one(Scalar::F32) >> 13,
                scalar => bits_of_one(scalar),
            };
            let size = tileir::module::stored_bytes(*scalar);
            let data = bits.to_le_bytes()[..size].into();
            Some(Op::Constant { value: module.constants.push(Constant { data }) })
        }
        Type::Token => Some(Op::MakeToken {}),
        _ => None,
    }
}

/// Returns the bits of 1.0.
fn bits_of_one(scalar: Scalar) -> u64 {
    numerics::float::encode(scalar, 1.0, Rounding::NearestEven, OverflowResult::Ieee)
}
