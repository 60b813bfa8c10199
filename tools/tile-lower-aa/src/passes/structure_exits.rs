//! Purpose: turn `continue` and `break` inside conditions into plain conditions, so that later stages see one exit per iteration.
//! Requires: `.aa`.
//! Establishes: no block has an op after a condition that leaves the same loop in the same way as the block's terminator. A loop
//! whose first iteration always leaves it is replaced by its body.
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
use tileaa::{Function, Op};

pub(super) fn run(function: &mut Function) -> usize {
    let mut changed = 0;
    while let Some((block, at)) = early_exit(function) {
        move_rest(function, block, at);
        changed += 1;
    }
    while let Some(looped) = single_iteration_loop(function) {
        replace_by_body(function, looped);
        changed += 1;
    }
    if changed > 0 {
        *function = base::text::compact(function);
    }
    changed
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    Continues,
    Breaks,
}

fn exit(function: &Function, block: Block) -> Option<Exit> {
    match &function.body.ops[function.body.terminator(block)?].kind {
        Op::Core(Core::Continue { .. }) => Some(Exit::Continues),
        Op::Core(Core::Break { .. }) => Some(Exit::Breaks),
        _ => None,
    }
}

fn yields(function: &Function, block: Block) -> bool {
    function.body.terminator(block).is_some_and(|op| matches!(function.body.ops[op].kind, Op::Core(Core::Yield { .. })))
}

/// The blocks of both paths of a condition.
fn paths(function: &Function, op: OpId) -> Option<[Block; 2]> {
    match &function.body.ops[op].kind {
        Op::Core(Core::If { then, otherwise, .. }) => Some([*then, *otherwise].map(|region| function.body.block_of(region))),
        _ => None,
    }
}

/// A block and the position of a condition of which one path leaves the loop as the block's terminator does.
fn early_exit(function: &Function) -> Option<(Block, usize)> {
    let body = &function.body;
    let regions = body.walk(function.region).into_iter().flat_map(|op| body.ops[op].kind.regions());
    regions.map(|region| body.block_of(region)).find_map(|block| {
        let own = exit(function, block)?;
        let leaves = |op: &OpId| {
            let Some(paths) = paths(function, *op) else { return false };
            let [one, other] = paths.map(|path| exit(function, path) == Some(own));
            one && yields(function, paths[1]) || other && yields(function, paths[0])
        };
        Some((block, body.blocks[block].ops.iter().position(leaves)?))
    })
}

/// Moves the ops after a condition to its path that does not leave the loop.
fn move_rest(function: &mut Function, block: Block, at: usize) {
    let cond = function.body.blocks[block].ops[at];
    let paths = paths(function, cond).expect("the op is a condition");
    let [staying, leaving] = if yields(function, paths[0]) { paths } else { [paths[1], paths[0]] };
    let mut rest = function.body.blocks[block].ops.split_off(at + 1);
    let end = rest.pop().expect("a block has a terminator");
    let last = function.body.blocks[staying].ops.pop().expect("a path has a terminator");
    let yielded = function.body.ops[last].kind.operands();
    for (result, value) in function.body.ops[cond].results.clone().into_iter().zip(yielded) {
        function.body.replace_uses(result, value);
    }
    // The terminators that leave the loop become terminators of the condition.
    let forwarded = function.body.ops[end].kind.operands().to_vec();
    let early = *function.body.blocks[leaving].ops.last().expect("a path has a terminator");
    let values = function.body.ops[early].kind.operands().to_vec();
    function.body.ops[early].kind = Op::Core(Core::Yield { values });
    function.body.ops[last].kind = Op::Core(Core::Yield { values: forwarded.clone() });
    function.body.blocks[staying].ops.extend(rest.into_iter().chain([last]));
    let mut results = Vec::new();
    for (index, value) in (0..).zip(forwarded) {
        let ty = function.body.ty(value).clone();
        results.push(function.body.values.push(ValueNode { ty, def: Def::Result { op: cond, index } }));
    }
    function.body.ops[cond].results = results.iter().copied().collect();
    if let Op::Core(Core::Continue { values } | Core::Break { values }) = &mut function.body.ops[end].kind {
        *values = results;
    }
    function.body.blocks[block].ops.push(end);
}

/// A loop that only the terminator of its body ends, by leaving the loop.
fn single_iteration_loop(function: &Function) -> Option<OpId> {
    let body = &function.body;
    let nesting = RegionNesting::of(body, function.region);
    body.walk(function.region).into_iter().find(|op| match &body.ops[*op].kind {
        Op::Core(Core::Loop { body: inner, .. }) => {
            let block = body.block_of(*inner);
            exit(function, block) == Some(Exit::Breaks) && nesting.terminators(*op).len() == 1
        }
        _ => false,
    })
}

fn replace_by_body(function: &mut Function, looped: OpId) {
    let body = &mut function.body;
    let Op::Core(Core::Loop { init, body: inner }) = body.ops[looped].kind.clone() else { unreachable!("the op is a loop") };
    let around = body.op_blocks()[looped.0 as usize].expect("the loop is in a block");
    let block = body.block_of(inner);
    for (arg, value) in body.blocks[block].args.clone().into_iter().zip(init) {
        body.replace_uses(arg, value);
    }
    let mut ops = std::mem::take(&mut body.blocks[block].ops);
    let end = ops.pop().expect("a loop's body has a terminator");
    for (result, value) in body.ops[looped].results.clone().into_iter().zip(body.ops[end].kind.operands()) {
        body.replace_uses(result, value);
    }
    let at = body.blocks[around].ops.iter().position(|op| *op == looped).expect("the loop is in its block");
    body.blocks[around].ops.splice(at..=at, ops);
}
