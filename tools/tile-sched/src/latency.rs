//! How far ahead of its rounds the author of a loop wants what it loads.
//!
//! A hint of 1 or 2 says that memory answers soon, and leaves room for other blocks; higher ones ask for what is done without any.

use crate::tensor;
use base::Block;
use base::ir::Op as OpId;
use sched::{Function, Op};

/// The highest hint that says so.
const SOON: u32 = 2;
/// Slots that let a copy run ahead at all, and one more where a product in tensor memory may still read the one before.
const FEWEST: u32 = 2;

/// Slots at most of the rings that a loop's copies fill, where all that have a hint about latency say that it is low. Copies that go
/// together share slots, so it is one number for all of them.
pub(crate) fn slots(function: &Function, block: Block) -> Option<u32> {
    use tileas::Op::{Copy, CopyBoxes, CopyView};
    let hinted = |op: &OpId| match &function.body.ops[*op].kind {
        Op::Core(CopyView { latency, .. } | Copy { latency, .. } | CopyBoxes { latency, .. }) => *latency,
        _ => None,
    };
    let highest = function.body.blocks[block].ops.iter().filter_map(hinted).max()?;
    (highest <= SOON).then(|| FEWEST + u32::from(!tensor::operands_in(function, block).is_empty()))
}
