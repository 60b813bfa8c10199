//! Purpose: put an async-proxy fence before each barrier of a function whose `wgmma` or TMA stores read shared memory directly.
//! Without the fence the async proxy may not see generic-proxy writes, even after a barrier.
//! Requires: barriers.
//! Establishes: a thread that writes shared memory through the generic proxy executes a fence before the async proxy reads the
//! data.
//! Preserves: the order of all existing ops.
//! See also: PTX `fence.proxy.async`, Triton's `ProxyFenceInsertion`, CUTLASS `fence_view_async_shared`.

use base::ir::Op as OpId;
use sched::{Function, Op};
use tileas::MmaAtom;

pub(crate) fn run(function: &mut Function) {
    use tileas::Op::{Mma, TmaStore};
    let reads_through_async_proxy = |op: &OpId| {
        match &function.body.ops[*op].kind {
            Op::Core(Mma { atom: MmaAtom::Group(_), .. }) => true,
            // If threads fill a pipeline with the stored data, that pipeline already has the fence before its commit.
            Op::Core(TmaStore { buffer, .. }) => function.attrs.pipeline_of(*buffer).is_none(),
            _ => false,
        }
    };
    if !function.body.walk(function.region).iter().any(reads_through_async_proxy) {
        return;
    }
    for block in function.body.blocks.ids().collect::<Vec<_>>() {
        let ops = std::mem::take(&mut function.body.blocks[block].ops);
        let mut out: Vec<OpId> = Vec::with_capacity(ops.len());
        for op in ops {
            let has_fence = out.last().is_some_and(|op| matches!(function.body.ops[*op].kind, Op::AsyncFence {}));
            if matches!(function.body.ops[op].kind, Op::Barrier { .. }) && !has_fence {
                let loc = function.body.ops[op].loc;
                out.push(function.body.new_op(Op::AsyncFence {}, [], loc));
            }
            out.push(op);
        }
        function.body.blocks[block].ops = out;
    }
    *function = base::text::compact(function);
}
