//! Purpose: turn early returns of a function into conditions around its remaining ops.
//! Requires: final loops; every early return ends a path of a condition in the function's block.
//! Establishes: the function returns only at its end, so that each warp role can copy the conditions.
//! Preserves: the ops that execute, and their order.
//! See also: LLVM's `UnifyFunctionExitNodes`.

use base::Block;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::rules::{MAX_NESTED, OpParents};
use sched::{Function, Op};
use std::collections::BTreeSet;

/// Checks that [`run`] can remove all early returns. The error is the reason why [`run`] cannot.
pub(super) fn check(function: &Function) -> Result<(), &'static str> {
    let body = &function.body;
    let ops = &body.blocks[function.entry()].ops;
    let early_returns: BTreeSet<OpId> = ops.iter().filter_map(|op| early_return(function, *op)).map(|(_, end)| end).collect();
    let last = body.terminator(function.entry());
    let is_return = |op: &OpId| matches!(body.ops[*op].kind.core(), Some(Core::Return {}));
    if !body.walk(function.region).iter().filter(|op| is_return(op) && Some(**op) != last).all(|op| early_returns.contains(op)) {
        return Err("it returns from a loop");
    }
    // Each early return nests the ops after it one level deeper, and a warp role is one more level.
    match OpParents::analyse(body, function.region).deepest + (early_returns.len() as u32) < MAX_NESTED {
        true => Ok(()),
        false => Err("with its early returns as conditions, its ops would nest too deep"),
    }
}

pub(super) fn run(function: &mut Function) {
    let mut block = function.entry();
    loop {
        let ops = &function.body.blocks[block].ops;
        let found = (0..ops.len()).find_map(|at| Some((at, early_return(function, ops[at])?)));
        let Some((at, (remaining_path, end))) = found else { return };
        move_into_path(function, block, at, remaining_path, end);
        block = remaining_path;
    }
}

/// If exactly one path of the `if` op ends in a return: the other path, and that return. Otherwise `None`.
fn early_return(function: &Function, op: OpId) -> Option<(Block, OpId)> {
    let body = &function.body;
    let [then, otherwise] = body.ops[op].kind.core().and_then(Core::as_if)?.regions().map(|region| body.block_of(region));
    let final_return =
        |block: Block| body.terminator(block).filter(|end| matches!(body.ops[*end].kind.core(), Some(Core::Return {})));
    match [final_return(then), final_return(otherwise)] {
        [Some(end), None] => Some((otherwise, end)),
        [None, Some(end)] => Some((then, end)),
        _ => None,
    }
}

/// Moves the ops after the `if` at index `at` to the end of `remaining_path`, its path that does not return. `end` is the return of
/// the other path.
fn move_into_path(function: &mut Function, block: Block, at: usize, remaining_path: Block, end: OpId) {
    let body = &mut function.body;
    let cond = body.blocks[block].ops[at];
    let mut following_ops = body.blocks[block].ops.split_off(at + 1);
    let block_end = following_ops.pop().expect("a block has a terminator");
    body.blocks[block].ops.push(block_end);
    let path_end = body.blocks[remaining_path].ops.pop().expect("a path has a terminator");
    let yielded = body.ops[path_end].kind.operands();
    for (result, value) in std::mem::take(&mut body.ops[cond].results).into_iter().zip(yielded) {
        body.replace_uses(result, value);
    }
    for op in [end, path_end] {
        body.ops[op].kind = Op::Core(tileas::Op::Core(Core::Yield { values: Vec::new() }));
    }
    body.blocks[remaining_path].ops.extend(following_ops.into_iter().chain([path_end]));
}
