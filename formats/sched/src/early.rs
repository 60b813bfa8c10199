//! Loops of which a round's last products stand behind the first reads of the next round: the tensor cores then have work while the next
//! slot is waited for and its first fragments are read. `tile-sched` says of which waits that is so; the verifier holds that the order
//! of what anyone can see is the same.

use crate::{Function, Op, pieces};
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use tileas::{MmaAtom, Place};
use vocabulary::core_ops::Core;

/// What is done of the next round, and behind what.
#[derive(Clone, Debug)]
pub struct Early {
    pub waits: Vec<OpId>,
    /// The loads in pieces of both operands.
    pub loads: [OpId; 2],
    pub product: OpId,
    /// What stands between the product and the end of the round.
    pub behind: Vec<OpId>,
}

/// The same of the body of a loop, or why it has to wait where it does.
pub fn of(function: &Function, block: Block) -> Result<Early, &'static str> {
    let body = &function.body;
    let node = &body.blocks[block];
    let kind = |op: &OpId| &body.ops[*op].kind;
    let products: Vec<OpId> = node.ops.iter().copied().filter(|op| matches!(kind(op), Op::Core(tileas::Op::Mma { .. }))).collect();
    let [product] = products[..] else { return Err("it makes more than one product in a round, or none") };
    let Op::Core(tileas::Op::Mma { lhs: Place::Registers(lhs), rhs: Place::Registers(rhs), atom: MmaAtom::Sync(_), .. }) =
        kind(&product)
    else {
        return Err("its product reads no fragments");
    };
    let load = |value: &Value| pieces::origin(function, *value).filter(|op| in_pieces(kind(op)) && node.ops.contains(op));
    let (Some(lhs), Some(rhs)) = (load(lhs), load(rhs)) else { return Err("its fragments are not read in pieces") };
    let loads = [lhs, rhs];
    let at = |op: OpId| node.ops.iter().position(|other| *other == op).expect("it is in the block");
    let Some((end, ops)) = node.ops.split_last() else { return Err("it has no end") };
    if !matches!(kind(end).core(), Some(Core::Continue { .. })) {
        return Err("a round ends in several places");
    }
    let (before, behind) = (&ops[..at(product)], &ops[at(product) + 1..]);
    let waits: Vec<OpId> = ops.iter().copied().filter(|op| matches!(kind(op), Op::PipeWait { .. })).collect();
    let first = loads.into_iter().map(at).min().expect("there are two");
    if waits.is_empty() || waits.iter().any(|wait| at(*wait) > first) {
        return Err("it waits for no slot before its fragments are read");
    }
    let waits_alone = |op: &OpId| waits.contains(op) || kind(op).effects().synchronises.is_none();
    if before.iter().any(|op| !waits_alone(op) || !kind(op).regions().is_empty()) {
        return Err("something else is waited for in a round");
    }
    let result = body.result(product);
    let leaves = |op: &OpId| {
        let leaves = matches!(kind(op), Op::AsyncFence {} | Op::PipeRelease { .. });
        let counts = kind(op).is_pure() && kind(op).regions().is_empty();
        (leaves || counts) && !kind(op).operands().contains(&result)
    };
    if !behind.iter().all(leaves) {
        return Err("something stands between its product and the end of a round");
    }
    let is_known = |value: Value| node.args.contains(&value) || body.defining_op(value).is_none_or(|op| !node.ops.contains(&op));
    let asked = waits.iter().chain(&loads).flat_map(|op| kind(op).operands());
    match asked.into_iter().all(is_known) {
        true => Ok(Early { waits, loads, product, behind: behind.to_vec() }),
        false => Err("a slot is computed in the round that reads it"),
    }
}

fn in_pieces(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::SharedLoad { in_pieces: true, .. }))
}

/// Whether the waits of a block are early.
pub fn is_said(function: &Function, block: Block) -> bool {
    let early = |op: &OpId| matches!(function.body.ops[*op].kind, Op::PipeWait { early: true, .. });
    function.body.blocks[block].ops.iter().any(early)
}

/// Whether a step of a pipe waits, other than in the body of a loop.
pub(crate) fn refused(function: &Function, block: Block) -> Result<(), &'static str> {
    let is_body = |op: &Op| matches!(op.core(), Some(Core::For { body, .. }) if function.body.block_of(*body) == block);
    if !function.body.ops.values().any(|op| is_body(&op.kind)) {
        return Err("it is in no loop");
    }
    let Early { waits, .. } = of(function, block)?;
    let early = |op: &OpId| matches!(function.body.ops[*op].kind, Op::PipeWait { early: true, .. });
    if waits.iter().all(early) { Ok(()) } else { Err("another slot is waited for later") }
}
