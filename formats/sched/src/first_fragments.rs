//! First-fragment prefetch: a loop loads the first fragments of the next iteration before it issues the last MMAs of the current
//! iteration. The tensor cores then stay busy while threads wait for the next stages and load from them. `tile-sched` selects the
//! loads; the verifier checks that the observable order is unchanged.

use crate::{Function, Op, lazy_fragments};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_clc_loop;
use tileas::effects::{Completes, Synchronises};
use tileas::{MmaAtom, MmaOperand};

/// The ops of an iteration that a first-fragment prefetch moves or splits.
#[derive(Clone, Debug)]
pub struct FragmentPrefetch {
    /// The waits that precede the loads.
    pub waits: Vec<OpId>,
    /// The per-K-step loads of both operands.
    pub loads: [OpId; 2],
    /// The MMA that reads the loaded fragments.
    pub mma: OpId,
    /// The ops between the MMA and the end of the iteration.
    pub ops_after_mma: Vec<OpId>,
}

/// The ops of a loop body that a first-fragment prefetch moves or splits. The error is the reason why the prefetch is impossible.
pub fn fragment_prefetch(function: &Function, block: Block) -> Result<FragmentPrefetch, &'static str> {
    let body = &function.body;
    let node = &body.blocks[block];
    let kind = |op: &OpId| &body.ops[*op].kind;
    let mma = only_mma(function, block)?;
    let loads = operand_loads(function, block, mma)?;
    let position = |op: OpId| node.ops.iter().position(|other| *other == op).expect("it is in the block");
    let first_load = loads.into_iter().map(position).min().expect("there are two");
    let Some((end, ops)) = node.ops.split_last() else { return Err("it has no end") };
    if !matches!(kind(end).core(), Some(Core::Continue { .. })) {
        return Err("an iteration ends in several places");
    }
    if ops.iter().any(|op| !kind(op).regions().is_empty()) {
        return Err("an iteration has several paths");
    }
    let waits: Vec<OpId> = ops[..first_load].iter().copied().filter(|op| !kind(op).is_pure()).collect();
    if waits.is_empty() || !waits.iter().all(|op| is_stage_synchronisation(kind(op))) {
        return Err("an op other than a wait precedes its fragment loads");
    }
    let (between, after) = (&ops[first_load..position(mma)], &ops[position(mma) + 1..]);
    let never_waits = |op: &OpId| matches!(kind(op).effects().synchronises, None | Some(Synchronises::EndsCopies));
    if !between.iter().all(never_waits) {
        return Err("there is a wait between its fragment loads");
    }
    let mma_result = body.result(mma);
    if !after.iter().all(|op| may_precede_mma(kind(op)) && !kind(op).operands().contains(&mma_result)) {
        return Err("an op stands between its MMA and the end of an iteration");
    }
    let is_known_before =
        |value: Value| node.args.contains(&value) || body.defining_op(value).is_none_or(|op| !node.ops.contains(&op));
    let used = waits.iter().chain(&loads).flat_map(|op| kind(op).operands());
    match used.into_iter().all(is_known_before) {
        true => Ok(FragmentPrefetch { waits, loads, mma, ops_after_mma: after.to_vec() }),
        false => Err("a stage is computed in the iteration that reads it"),
    }
}

/// The MMA of a block, or the reason against the prefetch if there is not exactly one.
fn only_mma(function: &Function, block: Block) -> Result<OpId, &'static str> {
    let is_mma = |op: &OpId| matches!(function.body.ops[*op].kind, Op::Core(tileas::Op::Mma { .. }));
    let mut mmas = function.body.blocks[block].ops.iter().copied().filter(is_mma);
    match (mmas.next(), mmas.next()) {
        (Some(mma), None) => Ok(mma),
        _ => Err("it has more than one MMA in an iteration, or none"),
    }
}

/// The per-K-step loads of both operands of an MMA, in the block of the MMA. The error is the reason why there are none.
fn operand_loads(function: &Function, block: Block, mma: OpId) -> Result<[OpId; 2], &'static str> {
    let body = &function.body;
    let Op::Core(tileas::Op::Mma {
        lhs: MmaOperand::Registers(lhs), rhs: MmaOperand::Registers(rhs), atom: MmaAtom::Sync(_), ..
    }) = &body.ops[mma].kind
    else {
        return Err("its MMA reads no fragments");
    };
    let per_k_step = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::SharedLoad { per_k_step: true, .. }));
    let load = |value: &Value| {
        lazy_fragments::origin_op(function, *value).filter(|op| per_k_step(op) && body.blocks[block].ops.contains(op))
    };
    let [Some(lhs), Some(rhs)] = [lhs, rhs].map(load) else { return Err("its fragments are not loaded per K step") };
    Ok([lhs, rhs])
}

/// Returns whether an op belongs to the synchronisation before the loads of a full stage: a wait, a barrier or a fence.
fn is_stage_synchronisation(op: &Op) -> bool {
    matches!(op, Op::PipelineWait { .. } | Op::CopyWait { .. } | Op::Barrier { .. } | Op::AsyncFence {})
}

/// Returns whether an op after the MMA may move before the MMA. Such an op only computes, releases a stage, issues or groups
/// asynchronous copies, or is a fence.
fn may_precede_mma(op: &Op) -> bool {
    let effects = op.effects();
    let is_async_copy = effects.completes == Completes::WithItsCopies || effects.synchronises == Some(Synchronises::EndsCopies);
    op.is_pure() || is_async_copy || matches!(op, Op::AsyncFence {} | Op::PipelineRelease { .. })
}

/// Returns whether a block contains a load that is marked as prefetched.
pub fn is_prefetched(function: &Function, block: Block) -> bool {
    function.body.blocks[block].ops.iter().any(|op| is_prefetched_load(&function.body.ops[*op].kind))
}

/// Whether an op is a load whose first fragments are loaded an iteration ahead.
fn is_prefetched_load(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::SharedLoad { prefetch_next: true, .. }))
}

/// The bodies of a region's `for` loops, except CLC loops. Only in a counted loop do threads know before the end of an iteration
/// whether another iteration follows.
pub fn counted_loop_bodies(function: &Function, region: Region) -> Vec<Block> {
    let body = &function.body;
    let counted_body = |op: OpId| {
        let core = body.ops[op].kind.core().filter(|core| !is_clc_loop(body, Some(core), Op::core))?;
        Some(body.block_of(core.for_body()?))
    };
    body.walk(region).into_iter().filter_map(counted_body).collect()
}

/// Checks that a first-fragment prefetch is possible for the marked loads of a block. The error is the violated condition.
pub(crate) fn check_prefetched_loads(function: &Function, block: Block) -> Result<(), &'static str> {
    if !counted_loop_bodies(function, function.region).contains(&block) {
        return Err("it is in no loop");
    }
    let FragmentPrefetch { loads, .. } = fragment_prefetch(function, block)?;
    let is_prefetched = |op: &OpId| is_prefetched_load(&function.body.ops[*op].kind);
    let prefetches_others = function.body.blocks[block].ops.iter().any(|op| is_prefetched(op) && !loads.contains(op));
    if loads.iter().all(is_prefetched) && !prefetches_others {
        Ok(())
    } else {
        Err("both operands of an MMA are prefetched, and nothing else")
    }
}
