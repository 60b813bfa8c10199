//! Loads from shared memory that are made piece by piece, as the product that they are for comes to each: few fragments are then
//! in registers at a time. `tile-sched` says which loads those are; the verifier holds that nothing can tell the difference.

use crate::{Function, Op};
use base::Block;
use base::ir::{Op as OpId, Operation};
use tileas::CopyAtom;
use tileas::effects::{Completes, Effects, Synchronises, Way};
use vocabulary::core_ops::Effect;

/// Why a load cannot be made in pieces, if it cannot. `uses` counts those of each value, `block` is the load's.
pub fn refused(function: &Function, uses: &[u32], block: Block, load: OpId) -> Result<(), &'static str> {
    let body = &function.body;
    let Op::Core(tileas::Op::SharedLoad { atom: CopyAtom::Matrix { .. } | CopyAtom::ByteMatrix, .. }) = &body.ops[load].kind else {
        return Err("only `ldmatrix` reads in pieces");
    };
    let value = body.result(load);
    if uses[value.0 as usize] != 1 {
        return Err("something else uses what is read in pieces, or nothing does");
    }
    for &op in body.blocks[block].ops.iter().skip_while(|op| **op != load).skip(1) {
        let kind = &body.ops[op].kind;
        if kind.operands().contains(&value) {
            let fragments = matches!(kind, Op::Core(program) if program.fragments().is_some_and(|both| both.contains(&value)));
            return if fragments { Ok(()) } else { Err("what is read in pieces is not multiplied") };
        }
        if !kind.regions().is_empty() || !passes(&kind.effects()) {
            return Err("something between a load in pieces and its product waits, or touches memory");
        }
    }
    Err("what is read in pieces is used in another block")
}

/// Whether an op may stand between: it computes, reads shared memory, or issues copies that are done later.
fn passes(effects: &Effects<'_>) -> bool {
    let later = effects.completes == Completes::WithItsCopies;
    let shared = effects.buffers.iter().all(|access| !access.does.writes() || access.way == Way::Copies && later);
    let quiet = matches!(effects.synchronises, None | Some(Synchronises::EndsCopies));
    shared && quiet && (effects.global.is_none() || later) && effects.other == Effect::Nothing
}
