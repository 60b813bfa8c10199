//! Marks the accesses to tiles of views that are written twice: with a check of each piece, and without any for a tile that lies
//! inside.
//!
//! Requires: everything else about the function decided. Establishes: which accesses have two ways; those of which that spares the
//! checks of more than a few pieces.

use base::Arena;
use base::ir::{Op as OpId, OpNode};
use sched::packed_ops::registers;
use sched::{Function, Op, versioned_accesses};
use std::collections::BTreeSet;
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, CopyAtom};

/// From how many checked pieces on it pays to have an access a second time.
const VERSIONING_LIMIT: usize = 4;
/// The same of copies to shared memory, whose checks are no branches.
const COPY_VERSIONING_LIMIT: usize = 8;
/// And of copies among mmas, that are made while those are: a branch parts them.
const MIN_MMAS_TO_SPLIT: usize = 16;

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>) {
    let blocks = function.body.op_blocks();
    let is_mma = |op: &OpId| matches!(function.body.ops[*op].kind, Op::Core(tileas::Op::Mma { .. }));
    let among_mmas: BTreeSet<_> =
        function.body.walk(function.region).into_iter().filter(is_mma).filter_map(|op| blocks[op.0 as usize]).collect();
    let bytes = |buffer: &Buffer| function.attrs.program.buffers[*buffer].elem.bytes();
    let pays = |id: OpId, op: &OpNode<Op>| {
        let (moved, atom) = match &op.kind {
            Op::Core(tileas::Op::CopyView { layout, buffer, atom: CopyAtom::Async { bytes: piece }, .. }) => {
                let among = blocks[id.0 as usize].is_some_and(|block| among_mmas.contains(&block));
                let least = if among { MIN_MMAS_TO_SPLIT } else { COPY_VERSIONING_LIMIT };
                return layouts[*layout].registers() >= least * (piece / bytes(buffer)) as usize;
            }
            Op::Core(tileas::Op::LoadView { atom, .. }) => (op.results[0], *atom),
            Op::Core(tileas::Op::StoreView { tile, atom, .. }) => (*tile, *atom),
            Op::Core(tileas::Op::ReduceView { tile, .. }) => (*tile, CopyAtom::Vector { vector_bits: 0 }),
            _ => return false,
        };
        let CopyAtom::Vector { vector_bits } = atom else { return false };
        registers(layouts, function.body.ty(moved)) >> vector_bits >= VERSIONING_LIMIT
    };
    let chosen: Vec<_> =
        function.body.ops.iter().filter(|(id, op)| pays(*id, op) && versioned_accesses::refused(function, op).is_ok()).collect();
    let chosen: Vec<_> = chosen.into_iter().map(|(id, _)| id).collect();
    for id in chosen {
        if let Op::Core(
            tileas::Op::LoadView { versioned, .. }
            | tileas::Op::StoreView { versioned, .. }
            | tileas::Op::ReduceView { versioned, .. }
            | tileas::Op::CopyView { versioned, .. },
        ) = &mut function.body.ops[id].kind
        {
            *versioned = true;
        }
    }
}
