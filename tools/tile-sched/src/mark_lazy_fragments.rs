//! Purpose: mark shared-memory loads whose fragments are loaded one K step at a time, just before the MMA that reads them.
//! Requires: final waits, barriers and warp roles; ops that a role does not need are already gone from its body.
//! Establishes: `per_k_step` on every load for which `check_per_k_step_load` finds no obstacle.
//! Preserves: the op order and every other attribute.
//! See also: CUTLASS mainloops, which call `copy(smem_tiled_copy_A, ...)` once per k block.

use base::Arena;
use base::ir::Op as OpId;
use sched::{Function, Op, lazy_fragments};
use tileas::layout::{Layout, LayoutId};

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>) {
    let (uses, blocks) = (function.body.use_counts(function.region), function.body.op_blocks());
    let can_load_per_k_step = |op: &OpId| {
        blocks[op.0 as usize]
            .is_some_and(|block| lazy_fragments::check_per_k_step_load(function, layouts, &uses, block, *op).is_ok())
    };
    let loads: Vec<OpId> = function.body.ops.ids().filter(can_load_per_k_step).collect();
    for op in loads {
        if let Op::Core(tileas::Op::SharedLoad { per_k_step, .. }) = &mut function.body.ops[op].kind {
            *per_k_step = true;
        }
    }
}
