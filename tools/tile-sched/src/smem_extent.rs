//! The shared memory that the placements of a function take.

use base::{Arena, Target};
use sched::{FunctionAttrs, Placement};
use tileas::{Buffer, BufferInfo, budget};

/// Returns the end of the last shared-memory buffer, in bytes.
pub(crate) fn end_of_buffers(attrs: &FunctionAttrs) -> u32 {
    end_of_placements(&attrs.program.buffers, &attrs.placements)
}

/// Returns the end of the last placed buffer, in bytes.
pub(crate) fn end_of_placements(buffers: &Arena<Buffer, BufferInfo>, placements: &Arena<Buffer, Placement>) -> u32 {
    placements.iter().map(|(buffer, place)| place.offset.saturating_add(buffers[buffer].bytes() * place.depth)).max().unwrap_or(0)
}

/// Returns how many CTAs of a function fit the shared memory of an SM, at least 1.
pub(crate) fn ctas_by_smem(attrs: &FunctionAttrs, target: Target) -> u32 {
    budget::ctas_by_shared_memory(target, attrs.shared_bytes).max(1)
}
