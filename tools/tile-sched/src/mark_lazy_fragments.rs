//! Marks the loads of fragments that are made piece by piece, as their mma comes to each.
//!
//! Requires: waits and barriers, and warp_roles as they will be: what no warp_role needs is not among their ops. Establishes: which loads are
//! made in pieces; those are all that can be.

use base::Arena;
use base::ir::Op as OpId;
use sched::{Function, Op, lazy_fragments};
use tileas::layout::{Layout, LayoutId};

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>) {
    let (uses, blocks) = (function.body.use_counts(function.region), function.body.op_blocks());
    let can = |op: &OpId| {
        blocks[op.0 as usize].is_some_and(|block| lazy_fragments::refused(function, layouts, &uses, block, *op).is_ok())
    };
    let found: Vec<OpId> = function.body.ops.ids().filter(can).collect();
    for op in found {
        if let Op::Core(tileas::Op::SharedLoad { per_k_step, .. }) = &mut function.body.ops[op].kind {
            *per_k_step = true;
        }
    }
}
