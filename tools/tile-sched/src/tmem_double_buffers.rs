//! Purpose: find the TMEM buffers that profit from a second stage.
//! Requires: a function whose tensor memory buffers are known.
//! Establishes: nothing; `alloc` gives the buffers a second stage if TMEM has enough columns.
//! Preserves: the function.
//! See also: the accumulator pipeline (`PipelineUmmaAsync`) of CUTLASS.

use crate::tmem_alloc::source_accumulators;
use crate::tmem_mma_buffers::{PipelineKind, buffers_with_pipelines, is_accessed_in_regions, is_tmem_mma, mma_operands};
use base::Region;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use sched::{Function, Op};
use std::collections::BTreeSet;
use tileas::{Buffer, MmaAtom};

/// The accumulators that each iteration of a loop computes anew and then loads, in its body or with the MMAs in an inner loop. With
/// a second stage, MMAs can compute the next accumulator while threads load the current one.
pub(crate) fn recomputed_accumulators(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let (ops, blocks) = (body.walk(function.region), body.op_blocks());
    let loop_region = |op: &OpId| body.ops[*op].kind.core().and_then(Core::for_body);
    let loops: Vec<Region> = ops.iter().filter_map(loop_region).collect();
    let accesses = |op: OpId, buffer: Buffer| body.ops[op].kind.effects().buffers.iter().any(|access| access.buffer == buffer);
    let is_recomputed = |buffer: Buffer| {
        let users: BTreeSet<OpId> = ops.iter().copied().filter(|op| accesses(*op, buffer)).collect();
        let encloses_users = |region: &&Region| users.is_subset(&body.walk(**region).into_iter().collect());
        let Some(innermost) = loops.iter().rfind(encloses_users).map(|region| body.block_of(*region)) else { return false };
        let is_direct = |op: &&OpId| blocks[op.0 as usize] == Some(innermost);
        let mut direct_mmas = users.iter().filter(is_direct).filter(|op| is_tmem_mma(&body.ops[**op].kind)).peekable();
        direct_mmas.peek().is_none() || users.iter().all(|op| is_direct(&op)) && !feeds_stored_operand(function, buffer)
    };
    let accumulators = buffers_with_pipelines(function)
        .into_iter()
        .filter(|(_, kind)| *kind == PipelineKind::Accumulator)
        .map(|(buffer, _)| buffer);
    accumulators.filter(|buffer| is_recomputed(*buffer)).collect()
}

/// Returns whether threads store an MMA operand that they compute from this accumulator. The MMAs of the next iteration then follow
/// the threads of the current one in any case.
fn feeds_stored_operand(function: &Function, accumulator: Buffer) -> bool {
    let body = &function.body;
    let operands: BTreeSet<Buffer> =
        body.walk(function.region).into_iter().flat_map(|op| mma_operands(&body.ops[op].kind)).flatten().collect();
    let stores_operand = |op: &OpId| {
        let kind = &body.ops[*op].kind;
        matches!(kind, Op::Core(tileas::Op::TmemStore { buffer, .. } | tileas::Op::SharedStore { buffer, .. }) if operands.contains(buffer))
    };
    let stores = body.walk(function.region).into_iter().filter(stores_operand);
    stores.into_iter().any(|op| source_accumulators(function, op).contains(&accumulator))
}

/// The buffers of MMA scales that threads store in loops. With a second stage, threads can store the next scales while MMAs use the
/// current scales.
pub(crate) fn stored_scales(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let scales_of_mma = |op: OpId| match &body.ops[op].kind {
        Op::Core(tileas::Op::Mma { lhs_scale, rhs_scale, atom: MmaAtom::Tensor(_), .. }) => [*lhs_scale, *rhs_scale],
        _ => [None; 2],
    };
    let scale_buffers = body.walk(function.region).into_iter().flat_map(scales_of_mma).flatten().filter_map(|place| place.buffer());
    scale_buffers.collect::<BTreeSet<_>>().into_iter().filter(|buffer| is_accessed_in_regions(function, *buffer)).collect()
}

/// The left operands that threads store to tensor memory in loops, and that are not computed from accumulators. With a second
/// stage, threads can store the next operand while an MMA reads the current one.
pub(crate) fn operands_stored_ahead(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let stored = body.walk(function.region).into_iter().filter_map(|op| match &body.ops[op].kind {
        Op::Core(tileas::Op::TmemStore { buffer, .. }) => Some((*buffer, op)),
        _ => None,
    });
    let stored: Vec<(Buffer, OpId)> = stored.collect();
    let buffers_with_pipelines = buffers_with_pipelines(function);
    let is_operand =
        |buffer: Buffer| buffers_with_pipelines.get(&buffer) == Some(&PipelineKind::Operand { in_shared_memory: false });
    let is_stored_once = |buffer: Buffer| stored.iter().filter(|(other, _)| *other == buffer).count() == 1;
    let comes_from_accumulator = |store: OpId| !source_accumulators(function, store).is_empty();
    let found =
        stored.iter().filter(|(buffer, store)| is_stored_once(*buffer) && is_operand(*buffer) && !comes_from_accumulator(*store));
    let scales = stored_scales(function);
    let found = found.map(|(buffer, _)| *buffer).filter(|buffer| !scales.contains(buffer));
    found.filter(|buffer| is_accessed_in_regions(function, *buffer)).collect()
}
