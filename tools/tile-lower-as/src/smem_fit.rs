//! Checks that a converted function fits shared memory with one stage for each buffer, the least that `tile-sched` can allocate. If
//! not, selects the copy or MMA selection that the lowering must revise.

use base::ir::Operation;
use base::{Op as OpId, Target};
use std::collections::{BTreeMap, BTreeSet};
use tileas::liveness::{self, LiveRange};
use tileas::{Buffer, Function, MmaAtom, MmaOperand, Op, budget};

/// Bytes reserved for the mbarriers of TMA pipelines, if the function has tensor maps.
const MBARRIER_BYTES: u32 = 1024;

/// For buffers of a converted function, the `.aa` op from which the buffer originates. Layout conversions have no entry.
#[derive(Default)]
pub(crate) struct BufferOrigins {
    /// The loads that copies replace, by the buffer that they fill.
    pub(crate) copies: BTreeMap<Buffer, OpId>,
    /// The `wgmma` and `tcgen05` MMAs, by the buffer that they read.
    pub(crate) mmas: BTreeMap<Buffer, OpId>,
}

/// The choice that `convert` must revise, because shared memory does not fit the function.
pub(crate) enum SmemOverflow {
    /// The asynchronous copy that replaces this load.
    Copy(OpId),
    /// The selection of an instruction that reads the operands of this MMA from shared memory.
    Mma(OpId),
}

/// If a function exceeds shared memory, returns the choice to revise; otherwise `None`. The choice is the copy with the largest
/// buffer that is live at the op with the most live bytes. Without any copy, it is the MMA that reads the largest such buffer,
/// because `mma.sync` would read this operand from registers.
pub(crate) fn smem_overflow(function: &Function, buffer_origins: &BufferOrigins, target: Target) -> Option<SmemOverflow> {
    let buffers = &function.attrs.buffers;
    let bytes = |buffer: Buffer| buffers[buffer].bytes();
    let staged_buffers = liveness::min_staged_buffers(&function.body, function.region, Op::effects);
    let mut liveness = liveness::liveness(&function.body, function.region, buffers, Op::effects, &staged_buffers);
    for buffer in stored_mma_operands(function) {
        liveness[buffer] = LiveRange { first: 0, last: usize::MAX };
    }
    let places = liveness::place_buffers(buffers, |one, other| liveness[one].overlaps(liveness[other]), |_| 1);
    let end = places.iter().map(|(buffer, at)| at.saturating_add(bytes(buffer))).max()?;
    let barriers = if function.attrs.maps.is_empty() { 0 } else { MBARRIER_BYTES };
    if end.saturating_add(barriers) <= budget::shared_memory(target) {
        return None;
    }
    let live_buffers = |at: usize| {
        liveness.iter().filter(move |(_, live_range)| (live_range.first..=live_range.last).contains(&at)).map(|(buffer, _)| buffer)
    };
    let live_bytes = |at: &usize| live_buffers(*at).map(bytes).fold(0, u32::saturating_add);
    // The number of live bytes grows only where a live range starts.
    let range_starts =
        liveness.values().filter(|live_range| **live_range != LiveRange::NEVER_LIVE).map(|live_range| live_range.first);
    let fullest_position = range_starts.max_by_key(live_bytes)?;
    let largest_of = |buffer_origins: &BTreeMap<Buffer, OpId>, buffers: &mut dyn Iterator<Item = Buffer>| {
        buffers.filter_map(|buffer| Some((bytes(buffer), *buffer_origins.get(&buffer)?))).max().map(|(_, op)| op)
    };
    // A buffer that is not live at `fullest_position` may still cause the overflow by fragmentation.
    let largest = |buffer_origins| {
        largest_of(buffer_origins, &mut live_buffers(fullest_position)).or_else(|| largest_of(buffer_origins, &mut buffers.ids()))
    };
    largest(&buffer_origins.copies).map(SmemOverflow::Copy).or_else(|| largest(&buffer_origins.mmas).map(SmemOverflow::Mma))
}

/// The buffers that threads fill in a loop and `tcgen05.mma` reads. An MMA may still read its operand after the threads that stored
/// the operand have left the loop. Therefore `tile-sched` lets no other buffer share this memory.
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
