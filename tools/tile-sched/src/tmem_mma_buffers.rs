//! The tensor memory MMAs of a function, and the buffers that they share with threads and TMA stores. Only analyses.

use crate::tma_pipelines;
use crate::token_sources::TokenSources;
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use sched::{Function, Op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::BufferAccess;
use tileas::{Buffer, MmaAtom, Space};

/// What the buffer of a pipeline holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipelineKind {
    /// An accumulator to which only MMAs write.
    Accumulator,
    /// An accumulator that threads rescale between MMAs. Threads own it, except while MMAs add to it.
    Scaled,
    /// An operand in shared memory or in tensor memory.
    Operand { in_shared_memory: bool },
    /// A buffer from which TMA stores.
    Stored,
    /// No buffer: the ping-pong order of two compute roles.
    PingPong,
}

/// The buffers for which pass `tmem-pipelines` adds a pipeline: buffers of tensor memory MMAs that TMA does not fill, and buffers
/// of TMA stores.
pub(crate) fn buffers_with_pipelines(function: &Function) -> BTreeMap<Buffer, PipelineKind> {
    let (body, attrs) = (&function.body, &function.attrs);
    let ops = body.walk(function.region);
    let by_tma: BTreeSet<Buffer> = ops.iter().filter_map(|op| tma_pipelines::buffer_filled_by_tma(&body.ops[*op].kind)).collect();
    let mma_accesses = |op: OpId| if is_tmem_mma(&body.ops[op].kind) { body.ops[op].kind.effects().buffers } else { Vec::new() };
    let rescaled: BTreeSet<Buffer> = ops.iter().filter_map(|op| rescaled_accumulator(&body.ops[*op].kind)).collect();
    let kind = |access: BufferAccess| match access.access_kind.writes() {
        true if rescaled.contains(&access.buffer) => PipelineKind::Scaled,
        true => PipelineKind::Accumulator,
        false => PipelineKind::Operand { in_shared_memory: attrs.program.buffers[access.buffer].space == Space::Shared },
    };
    let accesses = ops.into_iter().flat_map(mma_accesses).filter(|access| !by_tma.contains(&access.buffer));
    let stored = tma_store_buffers(function).into_iter().map(|buffer| (buffer, PipelineKind::Stored));
    accesses.map(|access| (access.buffer, kind(access))).chain(stored).collect()
}

/// The accumulator that an op rescales, or `None` for other ops.
pub(crate) fn rescaled_accumulator(op: &Op) -> Option<Buffer> {
    match op {
        Op::Core(tileas::Op::TmemScale { buffer, .. }) => Some(*buffer),
        _ => None,
    }
}

/// The buffers of TMA stores that only threads fill. Empty unless a store warp can issue all TMA stores: tokens order these stores
/// only after each other.
pub(crate) fn tma_store_buffers(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let ops = body.walk(function.region);
    if !ops.iter().any(|op| is_tmem_mma(&body.ops[*op].kind)) {
        return BTreeSet::new();
    }
    let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmaStore { .. }));
    let follows_only_tma_stores = |token: Value| {
        let mut sources = TokenSources::new(function);
        sources.follow(token);
        !sources.is_incomplete && sources.accesses.iter().all(is_store)
    };
    let (mut store_buffers, mut accessed_by_other_ops): (BTreeSet<Buffer>, BTreeSet<Buffer>) = Default::default();
    let mut can_have_store_warp = true;
    for op in ops {
        let kind = &body.ops[op].kind;
        match kind {
            Op::Core(tileas::Op::TmaStore { buffer, token, .. }) => {
                store_buffers.insert(*buffer);
                can_have_store_warp &= token.is_none_or(follows_only_tma_stores);
            }
            // Threads fill the buffer.
            Op::Core(tileas::Op::SharedStore { .. }) => {}
            _ => accessed_by_other_ops.extend(kind.effects().buffers.iter().map(|access| access.buffer)),
        }
    }
    // A store warp issues all TMA stores or none, because one thread must issue the stores that tokens order.
    if can_have_store_warp && store_buffers.is_disjoint(&accessed_by_other_ops) { store_buffers } else { BTreeSet::new() }
}

/// Returns whether an op inside a loop or condition accesses a buffer.
pub(crate) fn is_accessed_in_regions(function: &Function, buffer: Buffer) -> bool {
    let body = &function.body;
    let inner = body.blocks[function.entry()].ops.iter().flat_map(|op| body.ops[*op].kind.regions()).flat_map(|at| body.walk(at));
    inner.into_iter().any(|op| body.ops[op].kind.effects().buffers.iter().any(|access| access.buffer == buffer))
}

/// The shared-memory buffers that threads fill with operands of tensor memory MMAs.
pub(crate) fn stored_operands(function: &Function) -> Vec<Buffer> {
    let is_stored = |(_, kind): &(Buffer, PipelineKind)| *kind == PipelineKind::Operand { in_shared_memory: true };
    buffers_with_pipelines(function).into_iter().filter(is_stored).map(|(buffer, _)| buffer).collect()
}

/// The shared-memory operands of MMAs whose accumulators threads rescale, each with the accumulator. Threads wait for such an MMA
/// only when they access the accumulator again, so the operand buffers stay live until then.
pub(crate) fn operands_of_rescaled_accumulators(function: &Function) -> Vec<(Buffer, Buffer)> {
    let body = &function.body;
    let buffers_with_pipelines = buffers_with_pipelines(function);
    let accumulators = |op: &Op| {
        op.effects().buffers.into_iter().find(|access| buffers_with_pipelines.get(&access.buffer) == Some(&PipelineKind::Scaled))
    };
    let mmas = body.walk(function.region).into_iter().map(|op| &body.ops[op].kind).filter(|kind| is_tmem_mma(kind));
    let read = mmas.filter_map(|kind| Some((mma_operands(kind), accumulators(kind)?.buffer)));
    let read = read.flat_map(|(operands, accumulators)| operands.into_iter().flatten().map(move |buffer| (buffer, accumulators)));
    read.filter(|(buffer, _)| function.attrs.program.buffers[*buffer].space == Space::Shared).collect()
}

/// The buffers that TMA fills outside loops and that tensor memory MMAs read. If no loop iteration runs, no wait of the compute
/// roles covers these copies.
pub(crate) fn operands_filled_before_loops(function: &Function) -> Vec<Buffer> {
    let body = &function.body;
    let read: BTreeSet<Buffer> =
        body.walk(function.region).into_iter().flat_map(|op| mma_operands(&body.ops[op].kind)).flatten().collect();
    let filled = body.blocks[function.entry()].ops.iter().filter_map(|op| tma_pipelines::buffer_filled_by_tma(&body.ops[*op].kind));
    filled.filter(|buffer| read.contains(buffer)).collect()
}

/// Returns whether a function has tensor memory MMAs.
pub(crate) fn has_tmem_mma(function: &Function) -> bool {
    function.body.walk(function.region).iter().any(|op| is_tmem_mma(&function.body.ops[*op].kind))
}

/// Returns whether an op is a tensor memory MMA.
pub(crate) fn is_tmem_mma(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::Mma { atom: MmaAtom::Tensor(_), .. }))
}

/// The buffers of the left and right operand of a tensor memory MMA. `None` for an operand in registers, and for both operands if
/// the op is no such MMA.
pub(crate) fn mma_operands(op: &Op) -> [Option<Buffer>; 2] {
    match op {
        Op::Core(tileas::Op::Mma { lhs, rhs, atom: MmaAtom::Tensor(_), .. }) => [lhs.buffer(), rhs.buffer()],
        _ => [None; 2],
    }
}

/// The shared-memory buffers that tensor memory MMAs of a block read. An MMA is asynchronous, so it may read these buffers after
/// its op in program order.
pub(crate) fn operands_in(function: &Function, block: Block) -> BTreeSet<Buffer> {
    let body = &function.body;
    let read = body.blocks[block].ops.iter().flat_map(|op| mma_operands(&body.ops[*op].kind)).flatten();
    read.filter(|buffer| function.attrs.program.buffers[*buffer].space == Space::Shared).collect()
}
