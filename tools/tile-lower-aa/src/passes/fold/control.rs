//! Folds branches.

use crate::passes::edit::Edit;
use base::Value;
use base::ir::{Block, Op as OpId, Region};
use core_dialect::core_ops::Core;
use numerics::Scalar;
use numerics::arith::Binary;
use tileaa::{Op, Type};

/// Folds an `if` with a constant or negated condition, with paths that yield equal values, or with paths that contain only a
/// `yield`.
pub(super) fn fold(edit: &mut Edit<'_>, op: OpId, cond: Value, then: Region, otherwise: Region) {
    let blocks = [then, otherwise].map(|region| edit.function.body.block_of(region));
    if let Some(bit) = edit.splat_bits(cond) {
        let taken_block = blocks[if bit == 1 { 0 } else { 1 }];
        if let Some(values) = yielded_values(edit, taken_block) {
            replace_results(edit, op, &values);
            edit.inline_block(op, taken_block);
        }
        return;
    }
    if let Some(Core::Binary { kind: Binary::Xor, lhs, rhs }) = edit.defining_core(cond)
        && edit.splat_bits(rhs) == Some(1)
    {
        edit.replace_op(op, Core::new_if(lhs, [otherwise, then]));
        return;
    }
    if let [Some(yes), Some(no)] = blocks.map(|block| yielded_values(edit, block)) {
        merge_branches(edit, op, cond, &yes, &no, blocks);
    }
}

/// The operands of a block's `yield`, or `None` if the block has another terminator.
fn yielded_values(edit: &Edit<'_>, block: Block) -> Option<Vec<Value>> {
    match edit.resolved_op(edit.function.body.terminator(block)?) {
        Op::Core(Core::Yield { values }) => Some(values),
        _ => None,
    }
}

/// Replaces the uses of all results of an op by these values.
fn replace_results(edit: &mut Edit<'_>, op: OpId, values: &[Value]) {
    let results = edit.function.body.ops[op].results.clone();
    results.iter().zip(values).for_each(|(result, value)| edit.replace_uses(*result, *value));
}

/// Replaces the uses of each result for which both paths yield the same value by that value. If both paths contain only a `yield`,
/// replaces the other scalar results by selects.
fn merge_branches(edit: &mut Edit<'_>, op: OpId, cond: Value, yes: &[Value], no: &[Value], blocks: [Block; 2]) {
    let has_only_yields = blocks.iter().all(|block| edit.function.body.blocks[*block].ops.len() == 1);
    let results = edit.function.body.ops[op].results.clone();
    for ((&result, &yes), &no) in results.iter().zip(yes).zip(no) {
        let ty = edit.ty(result).clone();
        if !edit.is_used(result) {
            continue;
        }
        if yes == no {
            // A value that both paths yield dominates the branch. If the pointer type of this value has another address space than
            // the result, the result stays.
            if *edit.ty(yes) == ty {
                edit.replace_uses(result, yes);
            }
        } else if has_only_yields
            && matches!(&ty, Type::Tile { shape, .. } if shape.is_empty())
            && *edit.ty(cond) == Type::scalar(Scalar::I1)
        {
            let value = edit.insert(op, Core::Select { cond, yes, no }, ty);
            edit.replace_uses(result, value);
        }
    }
}
