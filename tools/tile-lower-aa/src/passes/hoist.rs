//! Purpose: hoist loop-invariant scalars, memrefs and views out of loops.
//! Requires: `.aa`.
//! Establishes: invariant scalars precede their loops. Tiles stay, because their registers may cost more than hoisting saves; later
//! stages decide about them.
//! Preserves: traps: a division is hoisted only if the divisor is known not to be zero.
//! See also: LLVM's `LICM`.

use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use numerics::arith::Binary;
use tileaa::{Function, Op, Type};

pub(super) fn run(function: &mut Function) -> usize {
    let places = function.body.op_blocks();
    let order = function.body.walk(function.region);
    let loops =
        order.iter().copied().filter(|op| matches!(function.body.ops[*op].kind, Op::Core(Core::For { .. } | Core::Loop { .. })));
    let mut moved = 0;
    // Inner loops first, so that hoisted ops can leave the outer loops too.
    for op in loops.collect::<Vec<_>>().into_iter().rev() {
        let place = places[op.0 as usize].expect("compaction puts every op into a block");
        moved += hoist(function, op, place);
    }
    if moved > 0 {
        *function = base::text::compact(function);
    }
    moved
}

/// Hoists ops out of one loop; returns their number.
fn hoist(function: &mut Function, looped: OpId, place: Block) -> usize {
    let region = function.body.ops[looped].kind.regions()[0];
    let block = function.body.block_of(region);
    let mut inside = vec![false; function.body.values.len()];
    function.body.blocks[block].args.iter().for_each(|arg| inside[arg.0 as usize] = true);
    let (mut leaving, mut staying) = (Vec::new(), Vec::new());
    for op in function.body.blocks[block].ops.clone() {
        let node = &function.body.ops[op];
        let invariant =
            common::fault_injected("aa.invariant") || node.kind.operands().iter().all(|value| !inside[value.0 as usize]);
        if invariant && is_worth_it(function, op) && is_safe(function, op) {
            leaving.push(op);
        } else {
            staying.push(op);
            // Values of nested blocks are not available outside the loop.
            node.results.iter().for_each(|result| inside[result.0 as usize] = true);
        }
    }
    if leaving.is_empty() {
        return 0;
    }
    let count = leaving.len();
    function.body.blocks[block].ops = staying;
    let around = &mut function.body.blocks[place].ops;
    let at = around.iter().position(|op| *op == looped).expect("the loop is in its block");
    around.splice(at..at, leaving);
    count
}

fn is_worth_it(function: &Function, op: OpId) -> bool {
    function.body.ops[op].results.iter().all(|result| match function.body.ty(*result) {
        Type::Tile { shape, .. } => shape.is_empty(),
        Type::MemRef(_) | Type::View(_) => true,
        Type::Token => false,
    })
}

/// Whether an op may execute although the loop may have no iterations: a division only if its divisor is known not to be zero.
fn is_safe(function: &Function, op: OpId) -> bool {
    match &function.body.ops[op].kind {
        Op::Core(Core::Assume { .. }) => false,
        Op::Core(Core::Binary { kind: Binary::DivI { .. } | Binary::RemI { .. }, rhs, .. }) => {
            let producer = function.body.defining_op(*rhs).map(|op| &function.body.ops[op].kind);
            matches!(producer, Some(Op::Core(Core::Constant { value })) if value.at(0) != 0)
        }
        Op::Core(core) => core.is_pure(),
        _ => false,
    }
}
