//! Purpose: hoist loop-invariant scalars, memrefs and views out of loops.
//! Requires: `.aa`.
//! Establishes: invariant scalars precede their loops. Tiles stay in the loop, because the registers that hold them may cost more
//! than hoisting saves; later stages decide whether to hoist a tile.
//! Preserves: traps. A division is hoisted only if the divisor is a nonzero constant, because the loop may have no iterations.
//! See also: LLVM's `LICM`.

use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::rules::CoreDialectOp;
use numerics::arith::Binary;
use tileaa::{Function, Op, Type};

/// Runs the pass on a function. Returns the number of hoisted ops.
pub(super) fn run(function: &mut Function) -> usize {
    let block_of = function.body.op_blocks();
    let order = function.body.walk(function.region);
    let loops = order.iter().copied().filter(|op| function.body.ops[*op].kind.core().is_some_and(Core::is_loop));
    let mut hoisted_count = 0;
    // Inner loops first, so that hoisted ops can leave the outer loops too.
    for op in loops.collect::<Vec<_>>().into_iter().rev() {
        let outer_block = block_of[op.0 as usize].expect("compaction puts every op into a block");
        hoisted_count += hoist_out_of_loop(function, op, outer_block);
    }
    if hoisted_count > 0 {
        *function = base::text::compact(function);
    }
    hoisted_count
}

/// Hoists ops out of one loop, to before the loop in `outer_block`. Returns the number of hoisted ops.
fn hoist_out_of_loop(function: &mut Function, loop_op: OpId, outer_block: Block) -> usize {
    let region = function.body.ops[loop_op].kind.regions()[0];
    let block = function.body.block_of(region);
    let mut varies = vec![false; function.body.values.len()];
    function.body.blocks[block].args.iter().for_each(|arg| varies[arg.0 as usize] = true);
    let (mut hoisted, mut remaining) = (Vec::new(), Vec::new());
    for op in function.body.blocks[block].ops.clone() {
        let node = &function.body.ops[op];
        let invariant = node.kind.operands().iter().all(|value| !varies[value.0 as usize]);
        if invariant && has_hoistable_results(function, op) && is_speculatable(function, op) {
            hoisted.push(op);
        } else {
            remaining.push(op);
            // Results of an op that stays in the loop are not available before the loop.
            node.results.iter().for_each(|result| varies[result.0 as usize] = true);
        }
    }
    if hoisted.is_empty() {
        return 0;
    }
    let count = hoisted.len();
    function.body.blocks[block].ops = remaining;
    let outer_ops = &mut function.body.blocks[outer_block].ops;
    let at = outer_ops.iter().position(|op| *op == loop_op).expect("the loop is in its block");
    outer_ops.splice(at..at, hoisted);
    count
}

/// Whether all results are scalars, memrefs or views. Tiles and tokens stay in the loop.
fn has_hoistable_results(function: &Function, op: OpId) -> bool {
    function.body.ops[op].results.iter().all(|result| match function.body.ty(*result) {
        Type::Tile { shape, .. } => shape.is_empty(),
        Type::MemRef(_) | Type::View(_) => true,
        Type::Token => false,
    })
}

/// Returns whether an op may execute even if the loop has no iterations. A division may do so only if its divisor is a nonzero
/// constant.
fn is_speculatable(function: &Function, op: OpId) -> bool {
    // Other ops access memory, or take long: reductions, scans and MMAs.
    let Op::Core(core) = &function.body.ops[op].kind else { return false };
    match core {
        Core::Assume { .. } => false,
        Core::Binary { kind: Binary::DivI { .. } | Binary::RemI { .. }, rhs, .. } => {
            let producer = function.body.defining_op(*rhs).map(|op| &function.body.ops[op].kind);
            matches!(producer, Some(Op::Core(Core::Constant { value })) if value.at(0) != 0)
        }
        core => core.is_pure(),
    }
}
