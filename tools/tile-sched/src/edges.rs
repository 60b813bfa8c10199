//! Marks the accesses to tiles of views that are written twice: with a check of each piece, and without any for a tile that lies
//! inside.
//!
//! Requires: everything else about the function decided. Establishes: which accesses have two ways; those of which that spares the
//! checks of more than a few pieces.

use base::Arena;
use base::ir::{Op as OpId, OpNode};
use sched::pairs::registers;
use sched::{Function, Op, edges};
use std::collections::BTreeSet;
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, CopyAtom};

/// From how many checked pieces on it pays to have an access a second time.
const WORTH_TWO_WAYS: usize = 4;
/// The same of copies to shared memory, whose checks are no branches.
const WORTH_TWO_WAYS_OF_COPIES: usize = 8;
/// And of copies among products, that are made while those are: a branch parts them.
const WORTH_PARTING_PRODUCTS: usize = 16;

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>) {
    let blocks = function.body.op_blocks();
    let is_product = |op: &OpId| matches!(function.body.ops[*op].kind, Op::Core(tileas::Op::Mma { .. }));
    let among_products: BTreeSet<_> =
        function.body.walk(function.region).into_iter().filter(is_product).filter_map(|op| blocks[op.0 as usize]).collect();
    let bytes = |buffer: &Buffer| function.attrs.program.buffers[*buffer].elem.bytes();
    let pays = |id: OpId, op: &OpNode<Op>| {
        let (moved, atom) = match &op.kind {
            Op::Core(tileas::Op::CopyView { layout, buffer, atom: CopyAtom::Async { bytes: piece }, .. }) => {
                let among = blocks[id.0 as usize].is_some_and(|block| among_products.contains(&block));
                let least = if among { WORTH_PARTING_PRODUCTS } else { WORTH_TWO_WAYS_OF_COPIES };
                return layouts[*layout].registers() >= least * (piece / bytes(buffer)) as usize;
            }
            Op::Core(tileas::Op::LoadView { atom, .. }) => (op.results[0], *atom),
            Op::Core(tileas::Op::StoreView { tile, atom, .. }) => (*tile, *atom),
            Op::Core(tileas::Op::ReduceView { tile, .. }) => (*tile, CopyAtom::Vector { vector_bits: 0 }),
            _ => return false,
        };
        let CopyAtom::Vector { vector_bits } = atom else { return false };
        registers(layouts, function.body.ty(moved)) >> vector_bits >= WORTH_TWO_WAYS
    };
    let chosen: Vec<_> =
        function.body.ops.iter().filter(|(id, op)| pays(*id, op) && edges::refused(function, op).is_ok()).collect();
    let chosen: Vec<_> = chosen.into_iter().map(|(id, _)| id).collect();
    for id in chosen {
        if let Op::Core(
            tileas::Op::LoadView { two_ways, .. }
            | tileas::Op::StoreView { two_ways, .. }
            | tileas::Op::ReduceView { two_ways, .. }
            | tileas::Op::CopyView { two_ways, .. },
        ) = &mut function.body.ops[id].kind
        {
            *two_ways = true;
        }
    }
}
