//! Two blocks of a cluster as a pair: one thread of the first asks for a mma in tensor memory that both have the accumulators of. Each has
//! its own rows of the left operand and of the accumulators, and half of the columns of the right one, which the mma reads in both.
//!
//! `tile-sched` says so of a function (`pair`). Here is which buffers are halves, and what the blocks must have in common: they make the
//! same mmas one after the other, of the same right operands. Who waits for whom is in [`crate::FunctionAttrs::is_of_cta_pair`].

use crate::{Function, Op, multicast};
use std::collections::BTreeMap;
use tileas::{Buffer, MmaAtom, MmaOperand, Type, tma_tiles};

/// The buffers of which each block has half of the columns, and the dimension along which these lie there.
pub fn halves(function: &Function) -> BTreeMap<Buffer, usize> {
    let body = &function.body;
    let half = |op: &Op| match op {
        Op::Core(tileas::Op::Mma { rhs: MmaOperand::Memory { buffer, transposed, .. }, atom: MmaAtom::Tensor(_), .. }) => {
            let rank = function.attrs.program.buffers.get(*buffer)?.shape.len();
            Some((*buffer, rank.checked_sub(if *transposed { 2 } else { 1 })?))
        }
        _ => None,
    };
    let all = body.walk(function.region).into_iter().filter(|_| function.attrs.program.cta_pair);
    all.filter_map(|op| half(&body.ops[op].kind)).collect()
}

/// Why the blocks of a cluster are no pair, if they are said to be one.
pub fn refused(function: &Function) -> Result<(), String> {
    if !function.attrs.program.cta_pair {
        return Ok(());
    }
    let halves = halves(function);
    let buffers: Vec<Buffer> = halves.keys().copied().collect();
    multicast::are_same(function, &buffers)?;
    let body = &function.body;
    for op in body.ops.values() {
        let Op::Core(tileas::Op::TmaLoad { view, buffer, .. }) = &op.kind else { continue };
        let (Type::View(view), Some(info)) = (body.ty(*view), function.attrs.program.buffers.get(*buffer)) else { continue };
        if tma_tiles::halved(&view.tile, &info.shape) != halves.get(buffer).copied() {
            return Err(format!("{buffer} is not the part of a tile that a block has"));
        }
    }
    Ok(())
}
