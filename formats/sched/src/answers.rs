//! Shared memory of launch control: a block that takes over others asks for the next one a round ahead, and all of its agents read each
//! answer, which is in one of two slots. As with pipes a barrier of a slot says that the answer is there, and one that all have read it.
//!
//! It is the last of the function's shared memory, and nothing else lies there.

use crate::{Function, FunctionAttrs, PipeInfo};
use tileas::Space;
use vocabulary::rules::{Rule, require, takes_over};

/// Answers that are under way or being read.
pub const SLOTS: u32 = 2;
/// Bytes of an answer, which is aligned to as many.
pub const ANSWER: u32 = 16;
/// Bytes of all answers and their barriers.
pub const BYTES: u32 = SLOTS * (ANSWER + 2 * PipeInfo::BARRIER);

/// Where the answers of a function lie whose blocks take over others: first those, then the barriers that say they are there, then those
/// that say they were read.
pub fn memory(function: &Function) -> Option<u32> {
    takes_over(&function.body).then(|| function.attrs.shared_bytes.saturating_sub(BYTES))
}

/// Nothing else is where the answers are.
pub(crate) fn are_apart(function: &Function) -> Rule {
    let Some(start) = memory(function) else { return Ok(()) };
    let FunctionAttrs { shared_bytes, tensor, program, placements, pipes, .. } = &function.attrs;
    let fits = *shared_bytes >= BYTES && start.is_multiple_of(ANSWER);
    require(fits, || {
        format!("the answers of launch control take the last {BYTES} bytes of shared memory, from a multiple of {ANSWER}")
    })?;
    let shared = placements.iter().filter(|(buffer, _)| program.buffers[*buffer].space == Space::Shared);
    let buffers = shared.map(|(buffer, place)| (place.offset, u64::from(program.buffers[buffer].bytes()) * u64::from(place.depth)));
    let barriers = pipes.values().map(|info| (info.barriers, u64::from(2 * PipeInfo::BARRIER) * u64::from(info.depth)));
    let word = tensor.iter().map(|tensor| (tensor.address, u64::from(tileas::tensor::WORD)));
    let apart = buffers.chain(barriers).chain(word).all(|(from, bytes)| u64::from(from) + bytes <= u64::from(start));
    require(apart, || format!("something else lies where the answers of launch control are, from {start} on"))
}
