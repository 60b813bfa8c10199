//! Loops of which a round's last products stand behind the first reads of the next round: the tensor cores then have work while the next
//! slots are waited for and their first fragments are read. `tile-sched` says of which loads that is so; the verifier holds that the order
//! of what anyone can see is the same.

use crate::{Function, Op, pieces};
use base::ir::{Op as OpId, Operation};
use base::{Block, Region, Value};
use tileas::effects::{Completes, Synchronises};
use tileas::{MmaAtom, Place};
use vocabulary::core_ops::Core;
use vocabulary::loops::takes_blocks;

/// What is done of the next round, and behind what.
#[derive(Clone, Debug)]
pub struct Early {
    /// What a round waits for before it reads.
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
    let product = only_product(function, block)?;
    let loads = loads_of(function, block, product)?;
    let at = |op: OpId| node.ops.iter().position(|other| *other == op).expect("it is in the block");
    let first = loads.into_iter().map(at).min().expect("there are two");
    let Some((end, ops)) = node.ops.split_last() else { return Err("it has no end") };
    if !matches!(kind(end).core(), Some(Core::Continue { .. })) {
        return Err("a round ends in several places");
    }
    if ops.iter().any(|op| !kind(op).regions().is_empty()) {
        return Err("a round has other ways through it");
    }
    let waits: Vec<OpId> = ops[..first].iter().copied().filter(|op| !kind(op).is_pure()).collect();
    if waits.is_empty() || !waits.iter().all(|op| is_wait(kind(op))) {
        return Err("something else than waits stands before its fragments are read");
    }
    let (beside, behind) = (&ops[first..at(product)], &ops[at(product) + 1..]);
    let waits_not = |op: &OpId| matches!(kind(op).effects().synchronises, None | Some(Synchronises::EndsCopies));
    if !beside.iter().all(waits_not) {
        return Err("something is waited for between its reads");
    }
    let result = body.result(product);
    if !behind.iter().all(|op| is_ahead(kind(op)) && !kind(op).operands().contains(&result)) {
        return Err("something stands between its product and the end of a round");
    }
    let is_known = |value: Value| node.args.contains(&value) || body.defining_op(value).is_none_or(|op| !node.ops.contains(&op));
    let asked = waits.iter().chain(&loads).flat_map(|op| kind(op).operands());
    match asked.into_iter().all(is_known) {
        true => Ok(Early { waits, loads, product, behind: behind.to_vec() }),
        false => Err("a slot is computed in the round that reads it"),
    }
}

fn only_product(function: &Function, block: Block) -> Result<OpId, &'static str> {
    let is_product = |op: &OpId| matches!(function.body.ops[*op].kind, Op::Core(tileas::Op::Mma { .. }));
    let mut products = function.body.blocks[block].ops.iter().copied().filter(is_product);
    match (products.next(), products.next()) {
        (Some(product), None) => Ok(product),
        _ => Err("it makes more than one product in a round, or none"),
    }
}

/// The loads in pieces of both operands, in the product's block.
fn loads_of(function: &Function, block: Block, product: OpId) -> Result<[OpId; 2], &'static str> {
    let body = &function.body;
    let Op::Core(tileas::Op::Mma { lhs: Place::Registers(lhs), rhs: Place::Registers(rhs), atom: MmaAtom::Sync(_), .. }) =
        &body.ops[product].kind
    else {
        return Err("its product reads no fragments");
    };
    let in_pieces = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::SharedLoad { in_pieces: true, .. }));
    let load = |value: &Value| pieces::origin(function, *value).filter(|op| in_pieces(op) && body.blocks[block].ops.contains(op));
    let [Some(lhs), Some(rhs)] = [lhs, rhs].map(load) else { return Err("its fragments are not read in pieces") };
    Ok([lhs, rhs])
}

/// What makes sure that a slot is filled.
fn is_wait(op: &Op) -> bool {
    matches!(op, Op::PipeWait { .. } | Op::CopyWait { .. } | Op::Barrier { .. } | Op::AsyncFence {})
}

/// What may as well be done before the products that stand before it: it computes, gives a slot back, or issues copies that are done later.
fn is_ahead(op: &Op) -> bool {
    let effects = op.effects();
    let copies = effects.completes == Completes::WithItsCopies || effects.synchronises == Some(Synchronises::EndsCopies);
    op.is_pure() || copies || matches!(op, Op::AsyncFence {} | Op::PipeRelease { .. })
}

/// Whether the loads of a block are early.
pub fn is_said(function: &Function, block: Block) -> bool {
    function.body.blocks[block].ops.iter().any(|op| is_early(&function.body.ops[*op].kind))
}

fn is_early(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::SharedLoad { early: true, .. }))
}

/// The bodies of loops in a region that know before a round's end whether there is another one.
pub fn bodies(function: &Function, region: Region) -> Vec<Block> {
    let body = &function.body;
    let of_loop = |op: OpId| match body.ops[op].kind.core() {
        core if takes_blocks(body, core, Op::core) => None,
        Some(Core::For { body: region, .. }) => Some(body.block_of(*region)),
        _ => None,
    };
    body.walk(region).into_iter().filter_map(of_loop).collect()
}

/// Why a load in a block cannot be early, if it cannot.
pub(crate) fn refused(function: &Function, block: Block) -> Result<(), &'static str> {
    if !bodies(function, function.region).contains(&block) {
        return Err("it is in no loop");
    }
    let Early { loads, .. } = of(function, block)?;
    let early = |op: &OpId| is_early(&function.body.ops[*op].kind);
    let others = function.body.blocks[block].ops.iter().any(|op| early(op) && !loads.contains(op));
    if loads.iter().all(early) && !others { Ok(()) } else { Err("of a product both operands are read early, and nothing else") }
}
