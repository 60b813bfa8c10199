//! Shared memory of launch control: a block that takes over others asks for the next one a iteration ahead, and all of its warp_roles read each
//! answer, which is in one of two stages. As with pipelines a barrier of a stage says that the answer is there, and one that all have read it.
//!
//! It is the last of the function's shared memory, and nothing else lies there.

use crate::{Function, FunctionAttrs, PipelineInfo};
use core_dialect::rules::{Rule, require, uses_clc};
use tileas::Space;

/// Answers that are in flight or being read.
pub const STAGES: u32 = 2;
/// Bytes of an answer, which is aligned to as many.
pub const CLC_RESPONSE_BYTES: u32 = 16;
/// Bytes of all clc_responses and their barriers.
pub const BYTES: u32 = STAGES * (CLC_RESPONSE_BYTES + 2 * PipelineInfo::BARRIER);

/// Where the clc_responses of a function lie whose blocks take over others: first those, then the barriers that say they are there, then those
/// that say they were read.
pub fn memory(function: &Function) -> Option<u32> {
    uses_clc(&function.body).then(|| function.attrs.shared_bytes.saturating_sub(BYTES))
}

/// Nothing else is where the clc_responses are.
pub(crate) fn are_apart(function: &Function) -> Rule {
    let Some(start) = memory(function) else { return Ok(()) };
    let FunctionAttrs { shared_bytes, tensor, program, placements, pipelines, .. } = &function.attrs;
    let fits = *shared_bytes >= BYTES && start.is_multiple_of(CLC_RESPONSE_BYTES);
    require(fits, || {
        format!(
            "the clc_responses of launch control take the last {BYTES} bytes of shared memory, from a multiple of {CLC_RESPONSE_BYTES}"
        )
    })?;
    let shared = placements.iter().filter(|(buffer, _)| program.buffers[*buffer].space == Space::Shared);
    let buffers = shared.map(|(buffer, place)| (place.offset, u64::from(program.buffers[buffer].bytes()) * u64::from(place.depth)));
    let barriers = pipelines.values().map(|info| (info.barriers, u64::from(2 * PipelineInfo::BARRIER) * u64::from(info.depth)));
    let word = tensor.iter().map(|tensor| (tensor.address, u64::from(tileas::tensor_memory::WORD)));
    let apart = buffers.chain(barriers).chain(word).all(|(from, bytes)| u64::from(from) + bytes <= u64::from(start));
    require(apart, || format!("something else lies where the clc_responses of launch control are, from {start} on"))
}
