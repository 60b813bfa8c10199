//! How far ahead of its iterations the author of a loop wants what it loads.
//!
//! A hint of 1 or 2 says that memory clc_responses soon, and leaves capacity for other blocks; higher ones ask for what is done without any.

use crate::tmem_pipelines;
use base::Block;
use base::ir::Op as OpId;
use sched::{Function, Op};

/// The highest hint that says so.
const SOON: u32 = 2;
/// Slots that let a copy run ahead at all, and one more where a mma in tensor memory may still read the one before.
const FEWEST: u32 = 2;

/// Slots at most of the staged_buffers that a loop's copies fill, where all that have a hint about latency say that it is low. Copies that go
/// together share stages, so it is one number for all of them.
pub(crate) fn stages(function: &Function, block: Block) -> Option<u32> {
    use tileas::Op::{Copy, CopyView, TmaLoad};
    let hinted = |op: &OpId| match &function.body.ops[*op].kind {
        Op::Core(CopyView { latency, .. } | Copy { latency, .. } | TmaLoad { latency, .. }) => *latency,
        _ => None,
    };
    let highest = function.body.blocks[block].ops.iter().filter_map(hinted).max()?;
    (highest <= SOON).then(|| FEWEST + u32::from(!tmem_pipelines::operands_in(function, block).is_empty()))
}
