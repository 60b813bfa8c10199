//! Purpose: replace a `continue` or `break` inside an `if` by a `yield`, so that later stages see one exit per iteration.
//! Requires: `.aa`.
//! Establishes: if one path of an `if` ends in the same kind of exit (`continue` or `break`) as the enclosing block, the other path
//! does not end in a `yield`. A loop whose first iteration always leaves the loop is replaced by its body.
//! Preserves: the ops that execute, and their order.
//! See also: LLVM's `LoopSimplify` and structured control flow of `CFGStructurizer`.
//!
//! ```text
//! if(cond: %c)                           %2 = if(cond: %c)
//!   continue(values: [%0])                 yield(values: [%0])
//! } {                                    } {
//!   yield                           =>     ..
//! }                                        yield(values: [%1])
//! ..                                     }
//! continue(values: [%1])                 continue(values: [%2])
//! ```

use base::ir::{Block, Def, Op as OpId, Operation, ValueNode};
use core_dialect::core_ops::Core;
use core_dialect::region_nesting::RegionNesting;
use core_dialect::rules::CoreDialectOp;
use core_dialect::structured_ops::Terminator;
use tileaa::{Function, Op};

/// Runs the pass on a function. Returns the number of replaced exits and loops.
pub(super) fn run(function: &mut Function) -> usize {
    let mut changed = 0;
    while let Some((block, at)) = find_early_exit(function) {
        move_following_ops(function, block, at);
        changed += 1;
    }
    while let Some(loop_op) = find_single_iteration_loop(function) {
        replace_by_body(function, loop_op);
        changed += 1;
    }
    if changed > 0 {
        *function = base::text::compact(function);
    }
    changed
}

/// How a block leaves the current iteration of its loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// By a `continue`: the next iteration begins.
    Continues,
    /// By a `break`: the loop ends.
    Breaks,
}

/// The exit in which a block ends, if it ends in `continue` or `break`.
fn block_exit(function: &Function, block: Block) -> Option<Exit> {
    match function.body.ops[function.body.terminator(block)?].kind.core()?.as_terminator()? {
        Terminator::Continue(_) => Some(Exit::Continues),
        Terminator::Break(_) => Some(Exit::Breaks),
        Terminator::Yield(_) | Terminator::Return => None,
    }
}

/// Whether the terminator of a block is a `yield`.
fn ends_in_yield(function: &Function, block: Block) -> bool {
    function.body.terminator(block).is_some_and(|op| matches!(function.body.ops[op].kind, Op::Core(Core::Yield { .. })))
}

/// The blocks of both paths of an `if`.
fn condition_paths(function: &Function, op: OpId) -> Option<[Block; 2]> {
    let branch = function.body.ops[op].kind.core().and_then(Core::as_if)?;
    Some(branch.regions().map(|region| function.body.block_of(region)))
}

/// Finds an `if` with an early exit. Returns its block and its index in the block. One path of the `if` ends in the same kind of
/// exit as the block, and the other path ends in `yield`.
fn find_early_exit(function: &Function) -> Option<(Block, usize)> {
    let body = &function.body;
    let regions = body.walk(function.region).into_iter().flat_map(|op| body.ops[op].kind.regions());
    regions.map(|region| body.block_of(region)).find_map(|block| {
        let block_exit_kind = block_exit(function, block)?;
        let has_early_exit = |op: &OpId| {
            let Some(paths) = condition_paths(function, *op) else { return false };
            let [first_exits, second_exits] = paths.map(|path| block_exit(function, path) == Some(block_exit_kind));
            first_exits && ends_in_yield(function, paths[1]) || second_exits && ends_in_yield(function, paths[0])
        };
        Some((block, body.blocks[block].ops.iter().position(has_early_exit)?))
    })
}

/// Moves the ops after an `if` to the path that ends in `yield`. The other path ends in `continue` or `break`.
fn move_following_ops(function: &mut Function, block: Block, at: usize) {
    let cond = function.body.blocks[block].ops[at];
    let paths = condition_paths(function, cond).expect("the op is a condition");
    let [staying, leaving] = if ends_in_yield(function, paths[0]) { paths } else { [paths[1], paths[0]] };
    let mut following = function.body.blocks[block].ops.split_off(at + 1);
    let terminator = following.pop().expect("a block has a terminator");
    let staying_end = function.body.blocks[staying].ops.pop().expect("a path has a terminator");
    let yielded = function.body.ops[staying_end].kind.operands();
    for (result, value) in function.body.ops[cond].results.clone().into_iter().zip(yielded) {
        function.body.replace_uses(result, value);
    }
    // End both paths in `yield`. The leaving path yields the operands of its own `continue` or `break`. The staying path yields the
    // operands of the terminator after the `if`. That terminator then forwards the results of the `if`.
    let exit_values = function.body.ops[terminator].kind.operands().to_vec();
    let leaving_end = *function.body.blocks[leaving].ops.last().expect("a path has a terminator");
    let values = function.body.ops[leaving_end].kind.operands().to_vec();
    function.body.ops[leaving_end].kind = Op::Core(Core::Yield { values });
    function.body.ops[staying_end].kind = Op::Core(Core::Yield { values: exit_values.clone() });
    function.body.blocks[staying].ops.extend(following.into_iter().chain([staying_end]));
    let mut results = Vec::new();
    for (index, value) in (0..).zip(exit_values) {
        let ty = function.body.ty(value).clone();
        results.push(function.body.values.push(ValueNode { ty, def: Def::Result { op: cond, index } }));
    }
    function.body.ops[cond].results = results.iter().copied().collect();
    if let Op::Core(Core::Continue { values } | Core::Break { values }) = &mut function.body.ops[terminator].kind {
        *values = results;
    }
    function.body.blocks[block].ops.push(terminator);
}

/// Finds a `loop` whose only exit is the `break` that terminates its body, so that it runs one iteration.
fn find_single_iteration_loop(function: &Function) -> Option<OpId> {
    let body = &function.body;
    let nesting = RegionNesting::analyse(body, function.region);
    body.walk(function.region).into_iter().find(|op| {
        let loop_op = body.ops[*op].kind.core().and_then(Core::as_loop).filter(|loop_op| loop_op.bounds.is_none());
        let breaks = loop_op.is_some_and(|loop_op| block_exit(function, loop_op.block(body)) == Some(Exit::Breaks));
        breaks && nesting.terminators(*op).len() == 1
    })
}

/// Replaces a loop that runs one iteration by the ops of its body.
fn replace_by_body(function: &mut Function, loop_op: OpId) {
    let body = &mut function.body;
    let structured = body.ops[loop_op].kind.core().and_then(Core::as_loop).expect("the op is a loop");
    let (init, inner) = (structured.init.to_vec(), structured.body);
    let outer_block = body.op_blocks()[loop_op.0 as usize].expect("the loop is in a block");
    let block = body.block_of(inner);
    for (arg, value) in body.blocks[block].args.clone().into_iter().zip(init) {
        body.replace_uses(arg, value);
    }
    let mut ops = std::mem::take(&mut body.blocks[block].ops);
    let terminator = ops.pop().expect("a loop's body has a terminator");
    for (result, value) in body.ops[loop_op].results.clone().into_iter().zip(body.ops[terminator].kind.operands()) {
        body.replace_uses(result, value);
    }
    let at = body.blocks[outer_block].ops.iter().position(|op| *op == loop_op).expect("the loop is in its block");
    body.blocks[outer_block].ops.splice(at..=at, ops);
}
