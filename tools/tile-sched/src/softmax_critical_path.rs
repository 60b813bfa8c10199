//! Purpose: in functions with two compute roles, move the ops that an MMA waits for ahead of the ops that it does not.
//! Requires: final loops with the pipeline steps of MMAs, and no barriers yet.
//! Establishes: only a new op order.
//! Preserves: the order of conflicting accesses and of the steps of each pipeline.
//! See also: the softmax of FlashAttention-3 and FlashAttention-4.
//!
//! An MMA can issue once its operand is stored and its accumulator is rescaled. The rescale factors are ready before the
//! exponentials, so rescale first; the row sums of the exponentials overlap the MMA. The accumulator is already free: the
//! previous MMA of the same warp has completed.

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
        let scales: Vec<OpId> = ops(function, block).iter().copied().filter(|op| scaled(function, *op).is_some()).collect();
        if scales.is_empty() {
            continue;
        }
        for scale in scales {
            scale_early(function, block, scale);
            acquire_early(function, block, scale);
        }
        add_up_late(function, block);
    }
}

fn ops(function: &Function, block: Block) -> &[OpId] {
    &function.body.blocks[block].ops
}

/// The accumulator that an op rescales.
fn scaled(function: &Function, op: OpId) -> Option<Buffer> {
    match function.body.ops[op].kind {
        Op::Core(tileas::Op::TmemScale { buffer, .. }) => Some(buffer),
        _ => None,
    }
}

/// Moves a rescaling op, with its pipeline steps and the ops that compute its factors, to the first position at which the
/// factors are available.
fn scale_early(function: &mut Function, block: Block, scale: OpId) {
    let Some((pipeline, _)) = scaled(function, scale).and_then(|buffer| function.attrs.pipeline_of(buffer)) else { return };
    let body = &function.body;
    let all = ops(function, block);
    let of_pipeline = |op: &OpId| match &body.ops[*op].kind {
        Op::PipelineAcquire { pipeline: other, .. } | Op::PipelineCommit { pipeline: other, .. } => *other == pipeline,
        _ => false,
    };
    let Some(at) = all.iter().position(|op| *op == scale) else { return };
    let (Some(before), Some(behind)) = (at.checked_sub(1), all.get(at + 1)) else { return };
    // If another op is between them, the steps also cover that op.
    if !of_pipeline(&all[before]) || !of_pipeline(behind) {
        return;
    }
    let steps = [all[before], scale, *behind];
    let here: BTreeSet<OpId> = all.iter().copied().collect();
    let (mut moved, mut work, mut others): (BTreeSet<OpId>, Vec<OpId>, BTreeSet<OpId>) =
        (steps.into_iter().collect(), steps.to_vec(), BTreeSet::new());
    while let Some(op) = work.pop() {
        for from in used(function, op).into_iter().filter(|from| here.contains(from)) {
            let is_pure = body.ops[from].kind.is_pure();
            if is_pure && moved.insert(from) {
                work.push(from);
            } else if !is_pure && !moved.contains(&from) {
                others.insert(from);
            }
        }
    }
    // Releases that follow once an accumulator is in registers stay before the rescaling.
    let is_signalled = |op: &OpId| matches!(body.ops[*op].kind, Op::PipelineRelease { .. });
    let last = all.iter().rposition(|op| others.contains(op)).map_or(0, |last| last + 1);
    let start = last + all[last..].iter().take_while(|op| is_signalled(op)).count();
    let crossed = all[start.min(before)..before].iter().filter(|op| !moved.contains(op));
    if start >= before || !crossed.into_iter().all(|op| may_follow(function, *op, scale)) {
        return;
    }
    let (early, rest): (Vec<OpId>, Vec<OpId>) = all[start..].iter().partition(|op| moved.contains(op));
    let order = all[..start].iter().copied().chain(early).chain(rest).collect();
    function.body.blocks[block].ops = order;
}

/// Moves the acquire of the next operand's stage directly after the rescaling. The MMA that releases both has completed by
/// then, so threads can compute and store the operand piece by piece.
fn acquire_early(function: &mut Function, block: Block, scale: OpId) {
    let body = &function.body;
    let all = ops(function, block);
    let Some(at) = all.iter().position(|op| *op == scale) else { return };
    let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmemStore { .. }));
    let is_acquired = |op: &OpId| matches!(body.ops[*op].kind, Op::PipelineAcquire { .. });
    let behind = &all[at + 1..];
    let until = behind.iter().position(|op| scaled(function, *op).is_some()).unwrap_or(behind.len());
    let Some(store) = behind[..until].iter().position(is_store).map(|store| at + 1 + store) else { return };
    let acquire = store - 1;
    // After the commit of the rescaled accumulator.
    let to = at + 2;
    if acquire <= to || !is_acquired(&all[acquire]) || all[to..acquire].iter().any(is_of_pipeline_of(function, all[acquire])) {
        return;
    }
    function.body.blocks[block].ops[to..=acquire].rotate_right(1);
}

/// Returns a predicate for the steps of the pipeline that `acquire` acquires.
fn is_of_pipeline_of(function: &Function, acquire: OpId) -> impl Fn(&OpId) -> bool + '_ {
    let pipeline = |op: OpId| match function.body.ops[op].kind {
        Op::PipelineAcquire { pipeline, .. }
        | Op::PipelineCommit { pipeline, .. }
        | Op::PipelineWait { pipeline, .. }
        | Op::PipelineRelease { pipeline, .. } => Some(pipeline),
        _ => None,
    };
    move |op| pipeline(*op) == pipeline(acquire)
}

/// Returns whether an op before a rescaling op may move after it.
fn may_follow(function: &Function, op: OpId, scale: OpId) -> bool {
    let kind = &function.body.ops[op].kind;
    let buffers =
        |op: OpId| function.body.ops[op].kind.effects().buffers.into_iter().map(|access| access.buffer).collect::<BTreeSet<_>>();
    kind.is_pure()
        || matches!(kind.effects().other, Effect::Nothing) && kind.regions().is_empty() && buffers(op).is_disjoint(&buffers(scale))
}

/// Moves ops that only the next iteration needs after all others.
fn add_up_late(function: &mut Function, block: Block) {
    let body = &function.body;
    let all = ops(function, block);
    let mut needed: BTreeSet<OpId> = BTreeSet::new();
    let mut late: BTreeSet<OpId> = BTreeSet::new();
    for &op in all.iter().rev() {
        let kind = &body.ops[op].kind;
        let is_last = kind.is_terminator();
        match kind.is_pure() && !needed.contains(&op) && !is_last {
            true => _ = late.insert(op),
            false if is_last => {}
            false => needed.extend(used(function, op)),
        }
    }
    let (late, mut first): (Vec<OpId>, Vec<OpId>) = all.iter().partition(|op| late.contains(op));
    let end = first.pop();
    function.body.blocks[block].ops = first.into_iter().chain(late).chain(end).collect();
}

/// The ops whose results an op uses, including uses in its regions.
fn used(function: &Function, op: OpId) -> Vec<OpId> {
    let body = &function.body;
    let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    inner.chain([op]).flat_map(|op| body.ops[op].kind.operands()).filter_map(|value| body.defining_op(value)).collect()
}
