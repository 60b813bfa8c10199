//! Purpose: mark the view accesses that are emitted twice: with a bounds check per vector, and without checks for tiles fully
//! inside.
//! Requires: all other decisions about the function.
//! Establishes: `versioned` on every eligible access for which the unchecked version saves more than a few checks.
//! Preserves: the op order and every other attribute.
//! See also: LLVM's loop versioning (`LoopVersioning`), here applied to single accesses.

use base::Arena;
use base::ir::{Op as OpId, OpNode};
use sched::packed_ops::registers;
use sched::{Function, Op, versioned_accesses};
use std::collections::BTreeSet;
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, CopyAtom};

/// Number of checked vectors from which a second version pays.
const VERSIONING_LIMIT: usize = 4;
/// Minimum number of checked vectors for copies to shared memory. It is higher because predicates, not branches, check their
/// bounds.
const COPY_VERSIONING_LIMIT: usize = 8;
/// Minimum for copies in a block with MMAs. It is higher still: the branch between the two versions would separate the copies
/// from the MMAs.
const COPY_AMONG_MMAS_VERSIONING_LIMIT: usize = 16;

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
                let limit = if among { COPY_AMONG_MMAS_VERSIONING_LIMIT } else { COPY_VERSIONING_LIMIT };
                return layouts[*layout].registers() >= limit * (piece / bytes(buffer)) as usize;
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
        function.body.ops.iter().filter(|(id, op)| pays(*id, op) && versioned_accesses::check(function, op).is_ok()).collect();
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
