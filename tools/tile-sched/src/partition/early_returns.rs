//! Purpose: turn early returns of a function into conditions around its remaining ops.
//! Requires: final loops; every early return ends a path of a condition in the function's block.
//! Establishes: the function returns only at its end, so that each warp role can copy the conditions.
//! Preserves: the ops that execute, and their order.
//! See also: LLVM's `UnifyFunctionExitNodes`.

use base::Block;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use sched::{Function, Op};
use std::collections::BTreeSet;

/// Returns whether [`run`] can remove all early returns.
pub(super) fn are_removable(function: &Function) -> bool {
    let body = &function.body;
    let ops = &body.blocks[function.entry()].ops;
    let early: BTreeSet<OpId> = ops.iter().filter_map(|op| early_return(function, *op)).map(|(_, end)| end).collect();
    let last = body.terminator(function.entry());
    let is_return = |op: &OpId| matches!(body.ops[*op].kind.core(), Some(Core::Return {}));
    body.walk(function.region).iter().filter(|op| is_return(op) && Some(**op) != last).all(|op| early.contains(op))
}

pub(super) fn run(function: &mut Function) {
    let mut block = function.entry();
    loop {
        let ops = &function.body.blocks[block].ops;
        let found = (0..ops.len()).find_map(|at| Some((at, early_return(function, ops[at])?)));
        let Some((at, (staying, end))) = found else { return };
        enclose(function, block, at, (staying, end));
        block = staying;
    }
}

/// The path of a condition that does not return, and the return at the end of the other path.
fn early_return(function: &Function, op: OpId) -> Option<(Block, OpId)> {
    let body = &function.body;
    let Some(Core::If { then, otherwise, .. }) = body.ops[op].kind.core() else { return None };
    let [then, otherwise] = [then, otherwise].map(|region| body.block_of(*region));
    let returns = |block: Block| body.terminator(block).filter(|end| matches!(body.ops[*end].kind.core(), Some(Core::Return {})));
    match [returns(then), returns(otherwise)] {
        [Some(end), None] => Some((otherwise, end)),
        [None, Some(end)] => Some((then, end)),
        _ => None,
    }
}

/// Moves the ops after a condition to its path that does not return.
fn enclose(function: &mut Function, block: Block, at: usize, (staying, end): (Block, OpId)) {
    let body = &mut function.body;
    let cond = body.blocks[block].ops[at];
    let mut rest = body.blocks[block].ops.split_off(at + 1);
    let last = rest.pop().expect("a block has a terminator");
    body.blocks[block].ops.push(last);
    let forwards = body.blocks[staying].ops.pop().expect("a path has a terminator");
    let yielded = body.ops[forwards].kind.operands();
    for (result, value) in std::mem::take(&mut body.ops[cond].results).into_iter().zip(yielded) {
        body.replace_uses(result, value);
    }
    for op in [end, forwards] {
        body.ops[op].kind = Op::Core(tileas::Op::Core(Core::Yield { values: Vec::new() }));
    }
    body.blocks[staying].ops.extend(rest.into_iter().chain([forwards]));
}
