//! Purpose: mark the view accesses that are emitted twice: with a bounds check per vector, and without checks for tiles that are
//! fully inside the view.
//! Requires: all other decisions about the function.
//! Establishes: `versioned` on every eligible access for which the unchecked version saves at least [`VERSIONING_LIMIT`] checks
//! (more for copies).
//! Preserves: the op order and every other attribute.
//! See also: LLVM's loop versioning (`LoopVersioning`), here applied to single accesses.

use base::Arena;
use base::ir::{Op as OpId, OpNode};
use sched::packed_ops::registers_per_thread;
use sched::{Function, Op, versioned_accesses};
use std::collections::BTreeSet;
use tileas::layout::{Layout, LayoutId};
use tileas::{Buffer, CopyAtom};

/// Minimum number of checked vectors per thread for which a load, store or reduction gets a version without checks.
/// An estimate: the branch to a version costs about 20 cycles (`latency.predicate` and `latency.branch` in `machines/`), and the check
/// of a vector about 5 instructions, for the comparisons of two dimensions and a branch.
const VERSIONING_LIMIT: usize = 4;
/// [`VERSIONING_LIMIT`] for copies to shared memory. It is higher because the checks of copies are predicates, not branches:
/// about half of the instructions.
const COPY_VERSIONING_LIMIT: usize = 8;
/// [`VERSIONING_LIMIT`] for copies in a block with MMAs. It is still higher because the branch between the two versions separates
/// the copies from the MMAs. An estimate without a measurement.
const COPY_AMONG_MMAS_VERSIONING_LIMIT: usize = 16;

pub(crate) fn run(function: &mut Function, layouts: &Arena<LayoutId, Layout>) {
    let blocks = function.body.op_blocks();
    let is_mma = |op: &OpId| matches!(function.body.ops[*op].kind, Op::Core(tileas::Op::Mma { .. }));
    let among_mmas: BTreeSet<_> =
        function.body.walk(function.region).into_iter().filter(is_mma).filter_map(|op| blocks[op.0 as usize]).collect();
    let bytes = |buffer: &Buffer| function.attrs.program.buffers[*buffer].elem.bytes();
    let is_worthwhile = |id: OpId, op: &OpNode<Op>| {
        let (moved, atom) = match &op.kind {
            Op::Core(tileas::Op::CopyView { layout, buffer, atom: CopyAtom::Async { bytes: vector_bytes }, .. }) => {
                let is_among_mmas = blocks[id.0 as usize].is_some_and(|block| among_mmas.contains(&block));
                let limit = if is_among_mmas { COPY_AMONG_MMAS_VERSIONING_LIMIT } else { COPY_VERSIONING_LIMIT };
                return layouts[*layout].registers() >= limit * (vector_bytes / bytes(buffer)) as usize;
            }
            Op::Core(tileas::Op::LoadView { atom, .. }) => (op.results[0], *atom),
            Op::Core(tileas::Op::StoreView { tile, atom, .. }) => (*tile, *atom),
            Op::Core(tileas::Op::ReduceView { tile, .. }) => (*tile, CopyAtom::Vector { vector_bits: 0 }),
            _ => return false,
        };
        let CopyAtom::Vector { vector_bits } = atom else { return false };
        registers_per_thread(layouts, function.body.ty(moved)) >> vector_bits >= VERSIONING_LIMIT
    };
    let chosen: Vec<_> = function
        .body
        .ops
        .iter()
        .filter(|(id, op)| is_worthwhile(*id, op) && versioned_accesses::check_versioned_access(function, op).is_ok())
        .collect();
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
