//! Shared memory for cluster launch control (CLC). A persistent CTA requests the next tile block one iteration ahead. All its warp
//! roles read the response, which is in one of two stages. As in pipelines, a stage has a full barrier and an empty barrier.
//!
//! The responses and their barriers are at the end of the function's shared memory, and share no memory with other data.

use crate::{Function, FunctionAttrs, PipelineInfo};
use core_dialect::rules::{RuleResult, require, uses_clc};
use tileas::Space;

/// The number of stages: one response is in use while another is in flight.
pub const RESPONSE_STAGES: u32 = 2;
/// Size and alignment of a response in bytes (PTX ISA, `clusterlaunchcontrol.try_cancel`).
pub const CLC_RESPONSE_BYTES: u32 = 16;
/// Size of all responses and their barriers, in bytes.
pub const TOTAL_BYTES: u32 = RESPONSE_STAGES * (CLC_RESPONSE_BYTES + 2 * PipelineInfo::BARRIER_BYTES);

/// The shared-memory address of a function's responses; `None` if the function does not use CLC. The full barriers of both stages
/// follow the responses, and the empty barriers follow the full barriers.
pub fn responses_address(function: &Function) -> Option<u32> {
    uses_clc(&function.body).then(|| function.attrs.shared_bytes.saturating_sub(TOTAL_BYTES))
}

/// Checks that no buffer, pipeline barrier or TMEM address word overlaps the responses.
pub(crate) fn check_no_overlap(function: &Function) -> RuleResult {
    let Some(start) = responses_address(function) else { return Ok(()) };
    let FunctionAttrs { shared_bytes, tensor, program, placements, pipelines, .. } = &function.attrs;
    let fits = *shared_bytes >= TOTAL_BYTES && start.is_multiple_of(CLC_RESPONSE_BYTES);
    require(fits, || {
        format!("the CLC responses take the last {TOTAL_BYTES} bytes of shared memory, from a multiple of {CLC_RESPONSE_BYTES}")
    })?;
    let smem_buffers = placements.iter().filter(|(buffer, _)| program.buffers[*buffer].space == Space::Shared);
    let buffer_ranges =
        smem_buffers.map(|(buffer, place)| (place.offset, u64::from(program.buffers[buffer].bytes()) * u64::from(place.depth)));
    let barrier_ranges =
        pipelines.values().map(|info| (info.barriers, u64::from(2 * PipelineInfo::BARRIER_BYTES) * u64::from(info.depth)));
    let tmem_address_range = tensor.iter().map(|tensor| (tensor.address, u64::from(tileas::tensor_memory::WORD_BYTES)));
    let no_overlap = buffer_ranges
        .chain(barrier_ranges)
        .chain(tmem_address_range)
        .all(|(from, bytes)| u64::from(from) + bytes <= u64::from(start));
    require(no_overlap, || format!("something else overlaps the CLC responses, which start at {start}"))
}
