//! Purpose: in functions with two compute roles, move the ops on which an MMA depends before the ops on which it does not depend.
//! Requires: final loops with the pipeline ops of MMAs, and no barriers yet.
//! Establishes: only a new op order.
//! Preserves: the order of conflicting accesses, and of the pipeline ops of each pipeline.
//! See also: the softmax of FlashAttention-3 and FlashAttention-4.
//!
//! An MMA can issue once its operand is stored and its accumulator is rescaled. The rescale factors are ready before the
//! exponentials, so the rescaling comes first. The row sums of the exponentials are computed while the MMA runs. The rescaling does
//! not have to wait for the accumulator: the previous MMA of the same warp has completed.

use base::Block;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Effect;
use sched::{Function, Op};
use std::collections::BTreeSet;
use tileas::Buffer;

pub(crate) fn run(function: &mut Function) {
    let entry = function.entry();
    let blocks: Vec<Block> = function.body.blocks.ids().filter(|block| *block != entry).collect();
    for block in blocks {
        let rescaling_ops: Vec<OpId> =
            ops_of_block(function, block).iter().copied().filter(|op| rescaled_accumulator(function, *op).is_some()).collect();
        if rescaling_ops.is_empty() {
            continue;
        }
        for rescaling_op in rescaling_ops {
            move_rescaling_early(function, block, rescaling_op);
            move_acquire_early(function, block, rescaling_op);
        }
        move_unneeded_ops_last(function, block);
    }
}

fn ops_of_block(function: &Function, block: Block) -> &[OpId] {
    &function.body.blocks[block].ops
}

/// The accumulator that an op rescales, or `None` for other ops.
fn rescaled_accumulator(function: &Function, op: OpId) -> Option<Buffer> {
    match function.body.ops[op].kind {
        Op::Core(tileas::Op::TmemScale { buffer, .. }) => Some(buffer),
        _ => None,
    }
}

/// Moves a rescaling op, with its pipeline ops and the ops that compute its factors, to the first position at which the factors
/// are available.
fn move_rescaling_early(function: &mut Function, block: Block, scale: OpId) {
    let Some((pipeline, _)) = rescaled_accumulator(function, scale).and_then(|buffer| function.attrs.pipeline_of(buffer)) else {
        return;
    };
    let body = &function.body;
    let ops = ops_of_block(function, block);
    let is_op_of_pipeline = |op: &OpId| {
        let step = body.ops[*op].kind.pipeline_step();
        step.is_some_and(|step| step.is_of_producer() && step.pipeline == pipeline)
    };
    let Some(at) = ops.iter().position(|op| *op == scale) else { return };
    let (Some(before), Some(after)) = (at.checked_sub(1), ops.get(at + 1)) else { return };
    // If another op is between the rescaling and its pipeline ops, the pipeline ops cover that op too, so the rescaling stays.
    if !is_op_of_pipeline(&ops[before]) || !is_op_of_pipeline(after) {
        return;
    }
    let rescaling_ops = [ops[before], scale, *after];
    let block_ops: BTreeSet<OpId> = ops.iter().copied().collect();
    let (mut ops_to_move, mut work, mut needed_impure): (BTreeSet<OpId>, Vec<OpId>, BTreeSet<OpId>) =
        (rescaling_ops.into_iter().collect(), rescaling_ops.to_vec(), BTreeSet::new());
    while let Some(op) = work.pop() {
        for from in producers(function, op).into_iter().filter(|from| block_ops.contains(from)) {
            let is_pure = body.ops[from].kind.is_pure();
            if is_pure && ops_to_move.insert(from) {
                work.push(from);
            } else if !is_pure && !ops_to_move.contains(&from) {
                needed_impure.insert(from);
            }
        }
    }
    // Releases of accumulators stay before the rescaling, because threads have just loaded these accumulators.
    let is_release = |op: &OpId| matches!(body.ops[*op].kind, Op::PipelineRelease { .. });
    let last = ops.iter().rposition(|op| needed_impure.contains(op)).map_or(0, |last| last + 1);
    let start = last + ops[last..].iter().take_while(|op| is_release(op)).count();
    let ops_moved_over = ops[start.min(before)..before].iter().filter(|op| !ops_to_move.contains(op));
    if start >= before || !ops_moved_over.into_iter().all(|op| may_follow(function, *op, scale)) {
        return;
    }
    let (early, remaining): (Vec<OpId>, Vec<OpId>) = ops[start..].iter().partition(|op| ops_to_move.contains(op));
    let new_order = ops[..start].iter().copied().chain(early).chain(remaining).collect();
    function.body.blocks[block].ops = new_order;
}

/// Moves the acquire of the next operand's stage directly after the rescaling. The MMA that releases the accumulator and the
/// operand has completed by then, so the acquire does not wait. Threads can then compute and store the operand piece by piece.
fn move_acquire_early(function: &mut Function, block: Block, scale: OpId) {
    let body = &function.body;
    let ops = ops_of_block(function, block);
    let Some(at) = ops.iter().position(|op| *op == scale) else { return };
    let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmemStore { .. }));
    let is_acquire = |op: &OpId| matches!(body.ops[*op].kind, Op::PipelineAcquire { .. });
    let ops_after = &ops[at + 1..];
    let next_rescaling = ops_after.iter().position(|op| rescaled_accumulator(function, *op).is_some()).unwrap_or(ops_after.len());
    let Some(store) = ops_after[..next_rescaling].iter().position(is_store).map(|store| at + 1 + store) else { return };
    let acquire_index = store - 1;
    // The position after the commit of the rescaled accumulator.
    let target_index = at + 2;
    if acquire_index <= target_index
        || !is_acquire(&ops[acquire_index])
        || ops[target_index..acquire_index].iter().any(is_op_of_acquired_pipeline(function, ops[acquire_index]))
    {
        return;
    }
    function.body.blocks[block].ops[target_index..=acquire_index].rotate_right(1);
}

/// Returns a predicate that selects the pipeline ops of the pipeline that `acquire` acquires.
fn is_op_of_acquired_pipeline(function: &Function, acquire: OpId) -> impl Fn(&OpId) -> bool + '_ {
    let pipeline = |op: OpId| function.body.ops[op].kind.pipeline_step().map(|step| step.pipeline);
    move |op| pipeline(*op) == pipeline(acquire)
}

/// Returns whether an op that precedes the rescaling op `scale` may move after it.
fn may_follow(function: &Function, op: OpId, scale: OpId) -> bool {
    let kind = &function.body.ops[op].kind;
    let buffers =
        |op: OpId| function.body.ops[op].kind.effects().buffers.into_iter().map(|access| access.buffer).collect::<BTreeSet<_>>();
    kind.is_pure()
        || matches!(kind.effects().core_effect, Effect::Nothing)
            && kind.regions().is_empty()
            && buffers(op).is_disjoint(&buffers(scale))
}

/// Moves the pure ops whose results only the terminator uses, so only the next iteration needs, to the end of the block.
fn move_unneeded_ops_last(function: &mut Function, block: Block) {
    let body = &function.body;
    let ops = ops_of_block(function, block);
    let mut needed: BTreeSet<OpId> = BTreeSet::new();
    let mut unneeded: BTreeSet<OpId> = BTreeSet::new();
    for &op in ops.iter().rev() {
        let kind = &body.ops[op].kind;
        let is_last = kind.is_terminator();
        match kind.is_pure() && !needed.contains(&op) && !is_last {
            true => _ = unneeded.insert(op),
            false if is_last => {}
            false => needed.extend(producers(function, op)),
        }
    }
    let (unneeded, mut needed_ops): (Vec<OpId>, Vec<OpId>) = ops.iter().partition(|op| unneeded.contains(op));
    let end = needed_ops.pop();
    function.body.blocks[block].ops = needed_ops.into_iter().chain(unneeded).chain(end).collect();
}

/// The ops whose results an op uses, including uses in its regions.
fn producers(function: &Function, op: OpId) -> Vec<OpId> {
    let body = &function.body;
    let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    inner.chain([op]).flat_map(|op| body.ops[op].kind.operands()).filter_map(|value| body.defining_op(value)).collect()
}
