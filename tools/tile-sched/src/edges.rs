//! Marks the accesses to tiles of views that are written twice: with a check of each piece, and without any for a tile that lies
//! inside.
//!
//! Requires: everything else about the function decided. Establishes: which accesses have two ways; those of which that spares the
//! checks of more than a few pieces.

use base::Arena;
use base::ir::OpNode;
use sched::pairs::registers;
use sched::{Function, Op, edges};
use tileas::CopyAtom;
use tileas::layout::{Layout, LayoutId};

/// From how many checked pieces on it pays to have an access a second time.
const WORTH_TWO_WAYS: usize = 4;

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>) {
    let pays = |op: &OpNode<Op>| {
        let (moved, atom) = match &op.kind {
            Op::Core(tileas::Op::LoadView { atom, .. }) => (op.results[0], *atom),
            Op::Core(tileas::Op::StoreView { tile, atom, .. }) => (*tile, *atom),
            Op::Core(tileas::Op::ReduceView { tile, .. }) => (*tile, CopyAtom::Vector { vector_bits: 0 }),
            _ => return false,
        };
        let CopyAtom::Vector { vector_bits } = atom else { return false };
        registers(layouts, function.body.ty(moved)) >> vector_bits >= WORTH_TWO_WAYS
    };
    let chosen: Vec<_> = function.body.ops.iter().filter(|(_, op)| pays(op) && edges::refused(function, op).is_ok()).collect();
    let chosen: Vec<_> = chosen.into_iter().map(|(id, _)| id).collect();
    for id in chosen {
        if let Op::Core(
            tileas::Op::LoadView { two_ways, .. }
            | tileas::Op::StoreView { two_ways, .. }
            | tileas::Op::ReduceView { two_ways, .. },
        ) = &mut function.body.ops[id].kind
        {
            *two_ways = true;
        }
    }
}
