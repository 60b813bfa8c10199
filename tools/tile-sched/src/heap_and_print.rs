//! Writes what stands around ops that call into the system: where memory of the heap is given back, and how the tiles of a print get to
//! where they are printed from.
//!
//! Requires: barriers. Establishes: memory is given back behind a barrier, right before the op that leaves its region; a print of tiles
//! follows on the lock, a barrier, the tiles put in place, and a barrier.

use base::Loc;
use base::ir::Op as OpId;
use sched::{Function, Op, heap_and_print_rules};

pub(crate) fn run(function: &mut Function) {
    let mut left = heap_and_print_rules::left_after(function);
    let prints = |op: &OpId| !heap_and_print_rules::printed_tiles(function, &function.body.ops[*op].kind).is_empty();
    if left.is_empty() && !function.body.ops.ids().any(|op| prints(&op)) {
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
                out.push(barrier(function, loc));
                out.push(function.body.new_op(Op::PrintStage { tiles }, [], loc));
                out.push(barrier(function, loc));
            }
            if let Some(ptrs) = left.remove(&op) {
                out.push(barrier(function, loc));
                out.push(function.body.new_op(Op::Free { ptrs }, [], loc));
            }
            out.push(op);
        }
        function.body.blocks[block].ops = out;
    }
    *function = base::text::compact(function);
}

fn barrier(function: &mut Function, loc: Loc) -> OpId {
    let threads = function.attrs.program.warps * 32;
    function.body.new_op(Op::Barrier { id: 0, threads }, [], loc)
}
