//! Interprets the latency hints that the author of a kernel puts on loads.
//!
//! A hint of 1 or 2 means that the latency is low, so a shallow pipeline suffices and leaves shared memory for other CTAs. A higher
//! hint requests the depth that the scheduler chooses without a hint.

use crate::tmem_mma_buffers;
use base::Block;
use base::ir::Op as OpId;
use sched::{Function, Op};

/// The highest hint that requests a shallow pipeline.
const MAX_SHALLOW_HINT: u32 = 2;
/// Minimum number of stages with which a copy can run ahead. If a tensor memory MMA may still read the previous stage, the minimum
/// is one higher.
const MIN_STAGES: u32 = 2;

/// Returns the largest pipeline depth for a loop whose latency hints are all low. Copies that are issued together share stages,
/// so the limit applies to all of them.
pub(crate) fn depth_limit(function: &Function, block: Block) -> Option<u32> {
    use tileas::Op::{Copy, CopyView, TmaLoad};
    let latency_hint = |op: &OpId| match &function.body.ops[*op].kind {
        Op::Core(CopyView { latency, .. } | Copy { latency, .. } | TmaLoad { latency, .. }) => *latency,
        _ => None,
    };
    let highest = function.body.blocks[block].ops.iter().filter_map(latency_hint).max()?;
    (highest <= MAX_SHALLOW_HINT).then(|| MIN_STAGES + u32::from(!tmem_mma_buffers::operands_in(function, block).is_empty()))
}
