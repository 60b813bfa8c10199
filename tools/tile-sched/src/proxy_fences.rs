//! Puts a fence before every barrier of a function whose warp groups, or the copy engine, read shared memory in place: what threads
//! wrote to it by stores and copies is otherwise not there for them, barrier or not.
//!
//! Requires: barriers. Establishes: between a write to shared memory and its reading by a warp group, or the copy engine, the writer passes a fence.

use base::ir::Op as OpId;
use sched::{Function, Op};
use tileas::MmaAtom;

pub(crate) fn run(function: &mut Function) {
    use tileas::Op::{Mma, TmaStore};
    let in_place = |op: &OpId| {
        match &function.body.ops[*op].kind {
            Op::Core(Mma { atom: MmaAtom::Group(_), .. }) => true,
            // Where a pipeline says that it is filled, the fence stands there.
            Op::Core(TmaStore { buffer, .. }) => function.attrs.pipeline_of(*buffer).is_none(),
            _ => false,
        }
    };
    if !function.body.walk(function.region).iter().any(in_place) {
        return;
    }
    for block in function.body.blocks.ids().collect::<Vec<_>>() {
        let ops = std::mem::take(&mut function.body.blocks[block].ops);
        let mut out: Vec<OpId> = Vec::with_capacity(ops.len());
        for op in ops {
            let fenced = out.last().is_some_and(|op| matches!(function.body.ops[*op].kind, Op::AsyncFence {}));
            if matches!(function.body.ops[op].kind, Op::Barrier { .. }) && !fenced && !common::fault_injected("sched.fence") {
                let loc = function.body.ops[op].loc;
                out.push(function.body.new_op(Op::AsyncFence {}, [], loc));
            }
            out.push(op);
        }
        function.body.blocks[block].ops = out;
    }
    *function = base::text::compact(function);
}
