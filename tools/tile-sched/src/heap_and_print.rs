//! Purpose: free device-heap memory where its region ends, and stage the tiles of a print in the print buffer.
//! Requires: barriers.
//! Establishes: a barrier and a `free` directly before each op that leaves an allocation's region; a lock, a barrier, the
//! staged tiles and a second barrier before each print of tiles.
//! Preserves: the order of all existing ops.
//! See also: CUDA device-side `malloc`, `free` and `printf`.

use base::Loc;
use base::ir::Op as OpId;
use sched::{Function, Op, heap_and_print_rules};

pub(crate) fn run(function: &mut Function) {
    let mut allocations_to_free = heap_and_print_rules::allocations_ended_by(function);
    let prints_tiles = |op: &OpId| !heap_and_print_rules::printed_tiles(function, &function.body.ops[*op].kind).is_empty();
    if allocations_to_free.is_empty() && !function.body.ops.ids().any(|op| prints_tiles(&op)) {
        return;
    }
    for block in function.body.blocks.ids().collect::<Vec<_>>() {
        let ops = std::mem::take(&mut function.body.blocks[block].ops);
        let mut out: Vec<OpId> = Vec::with_capacity(ops.len());
        for op in ops {
            let tiles = heap_and_print_rules::printed_tiles(function, &function.body.ops[op].kind);
            let loc = function.body.ops[op].loc;
            if !tiles.is_empty() {
                out.push(function.body.new_op(Op::PrintLock {}, [], loc));
                out.push(new_barrier(function, loc));
                out.push(function.body.new_op(Op::PrintStage { tiles }, [], loc));
                out.push(new_barrier(function, loc));
            }
            if let Some(ptrs) = allocations_to_free.remove(&op) {
                out.push(new_barrier(function, loc));
                out.push(function.body.new_op(Op::Free { ptrs }, [], loc));
            }
            out.push(op);
        }
        function.body.blocks[block].ops = out;
    }
    *function = base::text::compact(function);
}

fn new_barrier(function: &mut Function, loc: Loc) -> OpId {
    let threads = function.attrs.program.warps * 32;
    function.body.new_op(Op::Barrier { id: 0, threads }, [], loc)
}
