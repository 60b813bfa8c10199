//! Shared memory for cluster launch control (CLC). A persistent CTA requests the next tile block one iteration ahead. All its warp
//! roles read the response, which is in one of two stages. As in pipelines, a stage has a full barrier and an empty barrier.
//!
//! The responses are at the end of the function's shared memory, apart from everything else.

use crate::{Function, FunctionAttrs, PipelineInfo};
use core_dialect::rules::{Rule, require, uses_clc};
use tileas::Space;

/// Responses that are in flight or in use.
pub const STAGES: u32 = 2;
/// Bytes of a response, and its alignment.
pub const CLC_RESPONSE_BYTES: u32 = 16;
/// Bytes of all responses and their barriers.
pub const BYTES: u32 = STAGES * (CLC_RESPONSE_BYTES + 2 * PipelineInfo::BARRIER);

/// The address of a function's responses, if it uses CLC: first the responses, then their full barriers, then their empty barriers.
pub fn memory(function: &Function) -> Option<u32> {
    uses_clc(&function.body).then(|| function.attrs.shared_bytes.saturating_sub(BYTES))
}

/// Checks that nothing else overlaps the responses.
pub(crate) fn check_no_overlap(function: &Function) -> Rule {
    let Some(start) = memory(function) else { return Ok(()) };
    let FunctionAttrs { shared_bytes, tensor, program, placements, pipelines, .. } = &function.attrs;
    let fits = *shared_bytes >= BYTES && start.is_multiple_of(CLC_RESPONSE_BYTES);
    require(fits, || {
        format!("the CLC responses take the last {BYTES} bytes of shared memory, from a multiple of {CLC_RESPONSE_BYTES}")
    })?;
    let shared = placements.iter().filter(|(buffer, _)| program.buffers[*buffer].space == Space::Shared);
    let buffers = shared.map(|(buffer, place)| (place.offset, u64::from(program.buffers[buffer].bytes()) * u64::from(place.depth)));
    let barriers = pipelines.values().map(|info| (info.barriers, u64::from(2 * PipelineInfo::BARRIER) * u64::from(info.depth)));
    let tmem_address = tensor.iter().map(|tensor| (tensor.address, u64::from(tileas::tensor_memory::WORD)));
    let no_overlap = buffers.chain(barriers).chain(tmem_address).all(|(from, bytes)| u64::from(from) + bytes <= u64::from(start));
    require(no_overlap, || format!("something else overlaps the CLC responses, which start at {start}"))
}
