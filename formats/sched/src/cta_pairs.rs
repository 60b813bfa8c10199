//! CTA pairs: one thread of the leader CTA issues a tensor-memory MMA whose accumulator is split over both CTAs of a cluster. Each
//! CTA has its own rows of the left operand and of the accumulator, and half of the columns of the right operand. The MMA reads
//! both halves.
//!
//! `tile-sched` marks a function (`cta_pair`). This module finds the halved buffers and checks that both CTAs issue the same MMAs
//! in the same order, with the same right operands. [`crate::FunctionAttrs::is_of_cta_pair`] defines their synchronisation.

use crate::{Function, Op, multicast};
use std::collections::BTreeMap;
use tileas::{Buffer, MmaAtom, MmaOperand, Type, tma_tiles};

/// The buffers of the right operands of `tcgen05` MMAs. The value is the dimension of the buffer that is the columns, of which each
/// CTA has half. The map is empty if the function is not marked as a CTA pair.
pub fn halved_buffers(function: &Function) -> BTreeMap<Buffer, usize> {
    let body = &function.body;
    let halved_operand = |op: &Op| match op {
        Op::Core(tileas::Op::Mma { rhs: MmaOperand::Memory { buffer, transposed, .. }, atom: MmaAtom::Tensor(_), .. }) => {
            let rank = function.attrs.program.buffers.get(*buffer)?.shape.len();
            Some((*buffer, rank.checked_sub(if *transposed { 2 } else { 1 })?))
        }
        _ => None,
    };
    let ops = body.walk(function.region).into_iter().filter(|_| function.attrs.program.cta_pair);
    ops.filter_map(|op| halved_operand(&body.ops[op].kind)).collect()
}

/// Checks the TMA copies to the halved buffers of a function that is marked as a CTA pair. Both CTAs must copy the same tiles in
/// the same order ([`multicast`]), and each CTA must copy half of a tile. The error is the violated condition.
pub fn check_cta_pair(function: &Function) -> Result<(), String> {
    if !function.attrs.program.cta_pair {
        return Ok(());
    }
    let halved_dims = halved_buffers(function);
    let buffers: Vec<Buffer> = halved_dims.keys().copied().collect();
    multicast::check_uniform_copies(function, &buffers)?;
    let body = &function.body;
    for op in body.ops.values() {
        let Op::Core(tileas::Op::TmaLoad { view, buffer, .. }) = &op.kind else { continue };
        let (Type::View(view), Some(info)) = (body.ty(*view), function.attrs.program.buffers.get(*buffer)) else { continue };
        if tma_tiles::halved_dim(&view.tile, &info.shape) != halved_dims.get(buffer).copied() {
            return Err(format!("{buffer} is not a CTA's half of the tile"));
        }
    }
    Ok(())
}
