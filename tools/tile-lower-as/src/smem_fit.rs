//! Checks that a converted function fits shared memory with one stage per buffer, the least that `tile-sched` can allocate.

use base::ir::Operation;
use base::{Op as OpId, Target};
use std::collections::{BTreeMap, BTreeSet};
use tileas::liveness::{self, LiveRange};
use tileas::{Buffer, Function, MmaAtom, MmaOperand, Op, budget};

/// Bytes reserved for the mbarriers of TMA pipelines.
const BARRIERS: u32 = 1024;

/// The origin of the buffers of a converted function.
#[derive(Default)]
pub(crate) struct LoweredFor {
    /// The loads that copies replace, by the buffer that they fill.
    pub(crate) copies: BTreeMap<Buffer, OpId>,
    /// The `wgmma` and `tcgen05` MMAs, by the buffer that they read.
    pub(crate) mmas: BTreeMap<Buffer, OpId>,
}

/// The choice that `convert` must revise.
pub(crate) enum SmemOverflow {
    Copy(OpId),
    Mma(OpId),
}

/// If shared memory overflows, returns the largest copy that is live at the point of the highest demand. Without live copies there,
/// returns the MMA that reads the largest buffer, because `mma.sync` would read this operand from registers.
pub(crate) fn smem_overflow(function: &Function, lowered_for: &LoweredFor, target: Target) -> Option<SmemOverflow> {
    let buffers = &function.attrs.buffers;
    let bytes = |buffer: Buffer| buffers[buffer].bytes();
    let staged_buffers = liveness::min_staged_buffers((&function.body, function.region), Op::effects);
    let mut liveness = liveness::liveness((&function.body, function.region), buffers, Op::effects, &staged_buffers);
    for buffer in stored_mma_operands(function) {
        liveness[buffer] = LiveRange { first: 0, last: usize::MAX };
    }
    let places = liveness::places(buffers, |one, other| liveness[one].meets(liveness[other]), |_| 1);
    let end = places.iter().map(|(buffer, at)| at.saturating_add(bytes(buffer))).max()?;
    let barriers = if function.attrs.maps.is_empty() { 0 } else { BARRIERS };
    if end.saturating_add(barriers) <= budget::shared_memory(target) {
        return None;
    }
    let alive = |at: usize| {
        liveness.iter().filter(move |(_, live_range)| (live_range.first..=live_range.last).contains(&at)).map(|(buffer, _)| buffer)
    };
    let live_bytes = |at: &usize| alive(*at).map(bytes).fold(0, u32::saturating_add);
    // Demand grows only where a live range starts.
    let begins = liveness.values().filter(|live_range| **live_range != LiveRange::NEVER_LIVE).map(|live_range| live_range.first);
    let fullest = begins.max_by_key(live_bytes)?;
    let largest_of = |lowered_for: &BTreeMap<Buffer, OpId>, buffers: &mut dyn Iterator<Item = Buffer>| {
        buffers.filter_map(|buffer| Some((bytes(buffer), *lowered_for.get(&buffer)?))).max().map(|(_, op)| op)
    };
    // A buffer that is not live there may still cause fragmentation.
    let largest =
        |lowered_for| largest_of(lowered_for, &mut alive(fullest)).or_else(|| largest_of(lowered_for, &mut buffers.ids()));
    largest(&lowered_for.copies).map(SmemOverflow::Copy).or_else(|| largest(&lowered_for.mmas).map(SmemOverflow::Mma))
}

/// The buffers that threads store to inside a loop and `tcgen05.mma` reads. An MMA may still read its operand when the threads that
/// stored it have left the loop, so `tile-sched` lets no other buffer share that memory.
fn stored_mma_operands(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let inner = body.blocks[function.entry()].ops.iter().flat_map(|op| body.ops[*op].kind.regions());
    let (mut stored, mut read) = (BTreeSet::new(), BTreeSet::new());
    for op in inner.flat_map(|region| body.walk(region)) {
        match &body.ops[op].kind {
            Op::SharedStore { buffer, .. } => _ = stored.insert(*buffer),
            Op::Mma { lhs, rhs, atom: MmaAtom::Tensor(_), .. } => {
                read.extend([lhs, rhs].into_iter().filter_map(MmaOperand::buffer))
            }
            _ => {}
        }
    }
    read.into_iter().filter(|buffer| stored.contains(buffer)).collect()
}
