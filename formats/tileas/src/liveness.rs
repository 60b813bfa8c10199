//! Live ranges of buffers, and the placement of buffers in shared memory. The placement gives the shared memory that a function
//! needs. `tile-lower-as` places buffers of one stage each, and `tile-sched` places buffers with the final stage counts.

use crate::effects::{Effects, Proxy};
use crate::{Buffer, BufferInfo};
use base::ir::{Body, Operation};
use base::{Arena, Block, Region};
use std::collections::BTreeMap;

/// The first and last op that access a buffer, by position in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRange {
    /// The position of the first access.
    pub first: usize,
    /// The position of the last access.
    pub last: usize,
}

/// A multi-stage buffer. Copies in a loop fill the buffer for later iterations, so the buffer is live throughout the loop.
#[derive(Clone, Copy, Debug)]
pub struct StagedBuffer {
    /// The loop's body.
    pub block: Block,
    /// Whether its producer fills the first stages without waiting for earlier users of the memory. The buffer is then live from
    /// the start of the function.
    pub from_start: bool,
}

impl LiveRange {
    /// The range of a buffer that is never live.
    pub const NEVER_LIVE: LiveRange = LiveRange { first: usize::MAX, last: 0 };

    /// Returns whether two live ranges have a common op.
    pub fn overlaps(self, other: LiveRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The buffers that have stages of a pipeline even if no copy is a prefetch. Asynchronous copies fill these buffers in the block of
/// a loop or branch that also contains TMA copies. Reason: TMA copies fill pipeline stages.
pub fn min_staged_buffers<O: Operation, T>(
    body: &Body<O, T>,
    region: Region,
    effects: for<'a> fn(&'a O) -> Effects<'a>,
) -> BTreeMap<Buffer, StagedBuffer> {
    let mut staged_buffers = BTreeMap::new();
    let entry_block = body.block_of(region);
    for (block, node) in body.blocks.iter().filter(|(block, _)| *block != entry_block) {
        let accesses = node.ops.iter().flat_map(|op| effects(&body.ops[*op].kind).buffers);
        let copies = accesses.filter(|access| matches!(access.proxy, Proxy::Copies | Proxy::Tma) && access.access_kind.writes());
        let copies: Vec<_> = copies.collect();
        if copies.iter().any(|access| access.proxy == Proxy::Tma) {
            staged_buffers.extend(copies.iter().map(|access| (access.buffer, StagedBuffer { block, from_start: false })));
        }
    }
    staged_buffers
}

/// The live ranges of a function's buffers.
pub fn liveness<O: Operation, T>(
    body: &Body<O, T>,
    region: Region,
    buffers: &Arena<Buffer, BufferInfo>,
    effects: for<'a> fn(&'a O) -> Effects<'a>,
    staged_buffers: &BTreeMap<Buffer, StagedBuffer>,
) -> Arena<Buffer, LiveRange> {
    let liveness = buffers.ids().map(|_| LiveRange::NEVER_LIVE).collect();
    let mut walk = Walk { body, effects, staged_buffers, position: 0, liveness };
    walk.walk_region(region);
    // TMA copies outside loops may be issued as soon as the function starts.
    for op in &body.blocks[body.block_of(region)].ops {
        let filled = effects(&body.ops[*op].kind)
            .buffers
            .into_iter()
            .filter(|access| access.proxy == Proxy::Tma && access.access_kind.writes());
        filled.for_each(|access| walk.liveness[access.buffer].first = 0);
    }
    walk.liveness
}

/// A walk over all ops in program order, which collects live ranges.
struct Walk<'a, O, T> {
    body: &'a Body<O, T>,
    /// Returns the effects of an op.
    effects: for<'b> fn(&'b O) -> Effects<'b>,
    staged_buffers: &'a BTreeMap<Buffer, StagedBuffer>,
    /// The number of ops visited so far.
    position: usize,
    /// The live ranges found so far.
    liveness: Arena<Buffer, LiveRange>,
}

impl<O: Operation, T> Walk<'_, O, T> {
    /// Extends the live ranges by the accesses of a region and of its inner regions.
    fn walk_region(&mut self, region: Region) {
        let body = self.body;
        for &op in &body.blocks[body.block_of(region)].ops {
            self.position += 1;
            let kind = &body.ops[op].kind;
            for access in (self.effects)(kind).buffers {
                let live_range = &mut self.liveness[access.buffer];
                *live_range = LiveRange { first: live_range.first.min(self.position), last: live_range.last.max(self.position) };
            }
            let start = self.position;
            let inner = kind.regions();
            if inner.is_empty() {
                continue;
            }
            inner.iter().for_each(|inner| self.walk_region(*inner));
            // A buffer that is live before a loop and used in the loop stays live to the end of the loop. Reason: the next
            // iteration uses the buffer again.
            for live_range in self.liveness.values_mut().filter(|live_range| live_range.last > start && live_range.first < start) {
                live_range.last = self.position;
            }
            // Copies start to fill a staged buffer right before its loop.
            let fills = |staged_buffer: &StagedBuffer| inner.iter().any(|inner| body.block_of(*inner) == staged_buffer.block);
            for (buffer, staged_buffer) in self.staged_buffers.iter().filter(|(_, staged_buffer)| fills(staged_buffer)) {
                let live_range = &mut self.liveness[*buffer];
                *live_range = LiveRange {
                    first: if staged_buffer.from_start { 0 } else { live_range.first.min(start) },
                    last: self.position,
                };
            }
        }
    }
}

/// Assigns each buffer a byte offset in shared memory, so that two buffers for which `conflicts` returns true do not overlap.
/// `depth` returns the number of stages of a buffer. The function places the largest buffers first, each at the first gap that fits
/// (first fit), because small buffers fit into the remaining gaps.
pub fn place_buffers(
    buffers: &Arena<Buffer, BufferInfo>,
    conflicts: impl Fn(Buffer, Buffer) -> bool,
    depth: impl Fn(Buffer) -> u32,
) -> Arena<Buffer, u32> {
    let bytes = |buffer: Buffer| buffers[buffer].bytes().saturating_mul(depth(buffer));
    let mut order: Vec<Buffer> = buffers.ids().collect();
    order.sort_by_key(|buffer| (std::cmp::Reverse(bytes(*buffer)), *buffer));
    let mut placed: Vec<(Buffer, u32)> = Vec::new();
    for buffer in order {
        let align = buffers[buffer].align.max(1);
        let conflicting = placed.iter().filter(|(other, _)| conflicts(buffer, *other));
        let mut occupied: Vec<(u32, u32)> =
            conflicting.map(|(other, offset)| (*offset, offset.saturating_add(bytes(*other)))).collect();
        occupied.sort_unstable();
        let mut offset = 0u32;
        for (start, end) in occupied {
            if offset.saturating_add(bytes(buffer)) <= start {
                break;
            }
            offset = offset.max(end.next_multiple_of(align));
        }
        placed.push((buffer, offset));
    }
    placed.sort_unstable();
    placed.into_iter().map(|(_, offset)| offset).collect()
}
