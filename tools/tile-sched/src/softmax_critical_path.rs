//! Puts what mmas wait for before what they do not, in the iterations of functions that two warp_roles compute.
//!
//! A mma there is requested for when its operand is stored and its accumulators are scaled. The factors are known before the exponentials, and
//! the accumulators of those can be added up while the mma is made. What scales is free by then: the accumulators that were taken up come from the
//! same warp_role as the mma before.
//!
//! Requires: loops as they will be, with the steps of the pipelines of mmas, and no barriers yet. Establishes: nothing but an order.

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

/// The accumulators that threads scale by an op.
fn scaled(function: &Function, op: OpId) -> Option<Buffer> {
    match function.body.ops[op].kind {
        Op::Core(tileas::Op::TmemScale { buffer, .. }) => Some(buffer),
        _ => None,
    }
}

/// Moves an op that scales accumulators, with the steps of its pipeline, and what its factors are computed from, to where those are known first.
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
    // With anything else between them the pipeline is more than this op's.
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
    // What is told as soon as the accumulators are in registers stays before.
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

/// Has the stage of the next operand acquired where its accumulators are scaled: the mma that frees both is over, and the operand can be
/// computed piece by piece up to where it is stored.
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
    // Behind the scaled accumulators' own commit.
    let to = at + 2;
    if acquire <= to || !is_acquired(&all[acquire]) || all[to..acquire].iter().any(is_of_pipeline_of(function, all[acquire])) {
        return;
    }
    function.body.blocks[block].ops[to..=acquire].rotate_right(1);
}

/// Whether an op is a step of the same pipeline.
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

/// Whether an op may as well come behind one that scales accumulators and stands behind it.
fn may_follow(function: &Function, op: OpId, scale: OpId) -> bool {
    let kind = &function.body.ops[op].kind;
    let buffers =
        |op: OpId| function.body.ops[op].kind.effects().buffers.into_iter().map(|access| access.buffer).collect::<BTreeSet<_>>();
    kind.is_pure()
        || matches!(kind.effects().other, Effect::Nothing) && kind.regions().is_empty() && buffers(op).is_disjoint(&buffers(scale))
}

/// Moves what only the next iteration needs behind all else.
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

/// The ops whose results an op uses, with what is inside of it.
fn used(function: &Function, op: OpId) -> Vec<OpId> {
    let body = &function.body;
    let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    inner.chain([op]).flat_map(|op| body.ops[op].kind.operands()).filter_map(|value| body.defining_op(value)).collect()
}
