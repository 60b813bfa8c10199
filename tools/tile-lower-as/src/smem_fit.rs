//! Whether what was made has capacity in shared memory: with one slot for each buffer, which is the least that `tile-sched` may give.

use base::ir::Operation;
use base::{Op as OpId, Target};
use std::collections::{BTreeMap, BTreeSet};
use tileas::liveness::{self, LiveRange};
use tileas::{Buffer, Function, MmaAtom, MmaOperand, Op, budget};

/// Bytes for the barriers of the pipes that copies by tma_copies will have.
const BARRIERS: u32 = 1024;

/// What buffers are for, in the function that was converted.
#[derive(Default)]
pub(crate) struct LoweredFor {
    /// The loads that fill them by copies.
    pub(crate) copies: BTreeMap<Buffer, OpId>,
    /// The MMAs of warp groups and of tensor memory that read them.
    pub(crate) mmas: BTreeMap<Buffer, OpId>,
}

/// What is to be made in another way.
pub(crate) enum TooMuch {
    Copy(OpId),
    MmaSelection(OpId),
}

/// The largest of the copies that hold something where most is needed, if that is more than a block has; without any the mma that
/// reads the largest buffer there, which by `mma.sync` is in registers.
pub(crate) fn too_much(function: &Function, lowered_for: &LoweredFor, target: Target) -> Option<TooMuch> {
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
    let together = |at: &usize| alive(*at).map(bytes).fold(0, u32::saturating_add);
    // Only where a live_range begins can more be needed than before.
    let begins = liveness.values().filter(|live_range| **live_range != LiveRange::NEVER_LIVE).map(|live_range| live_range.first);
    let fullest = begins.max_by_key(together)?;
    let largest_of = |lowered_for: &BTreeMap<Buffer, OpId>, buffers: &mut dyn Iterator<Item = Buffer>| {
        buffers.filter_map(|buffer| Some((bytes(buffer), *lowered_for.get(&buffer)?))).max().map(|(_, op)| op)
    };
    // Elsewhere one may still be what leaves a gap.
    let largest =
        |lowered_for| largest_of(lowered_for, &mut alive(fullest)).or_else(|| largest_of(lowered_for, &mut buffers.ids()));
    largest(&lowered_for.copies).map(TooMuch::Copy).or_else(|| largest(&lowered_for.mmas).map(TooMuch::MmaSelection))
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
