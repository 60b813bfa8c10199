//! The op whose region contains each op of a function, and the destination of each terminator's values.

use super::CoreDialectOp;
use crate::core_ops::Core;
use crate::structured_ops::Terminator;
use base::ir::Op as OpId;
use base::{Body, Region};

/// The parents and targets of all ops of a function. Each vector is indexed by op id.
pub struct OpParents {
    /// The op whose region contains the op; `None` at function level.
    pub parent: Vec<Option<OpId>>,
    /// For `yield` the parent, for `continue` the loop whose next iteration it starts, for `break` the loop that it leaves. `None`
    /// for other ops.
    pub target: Vec<Option<OpId>>,
    /// Whether the op is inside the body of a reduction or scan.
    pub in_combiner: Vec<bool>,
    /// The nesting depth of the innermost op.
    pub deepest: u32,
}

/// The ops that enclose the ops of a block, and the nesting depth of the block.
#[derive(Clone, Copy, Default)]
struct Enclosing {
    parent: Option<OpId>,
    /// The loop that a `continue` in the block would continue.
    continue_target: Option<OpId>,
    /// The loop that a `break` in the block would leave.
    break_target: Option<OpId>,
    in_combiner: bool,
    depth: u32,
}

impl OpParents {
    /// Computes the tables for all ops under `root`.
    pub fn analyse<O: CoreDialectOp, T>(body: &Body<O, T>, root: Region) -> OpParents {
        let mut enclosing = vec![Enclosing::default(); body.ops.len()];
        let count = body.ops.len();
        let mut tables =
            OpParents { parent: vec![None; count], target: vec![None; count], in_combiner: vec![false; count], deepest: 0 };
        for op in body.walk(root) {
            let outer = enclosing[op.0 as usize];
            let parent = Some(op);
            let core = body.ops[op].kind.core();
            let inner = match core.and_then(Core::as_loop) {
                Some(loop_op) => {
                    let break_target = loop_op.bounds.is_none().then_some(op);
                    Enclosing { parent, continue_target: Some(op), break_target, ..outer }
                }
                None if core.is_some_and(Core::is_if) => Enclosing { parent, ..outer },
                None => {
                    let in_combiner = outer.in_combiner || body.ops[op].kind.combination().is_some();
                    Enclosing { parent, continue_target: None, break_target: None, in_combiner, ..outer }
                }
            };
            let inner = Enclosing { depth: outer.depth + 1, ..inner };
            for region in body.ops[op].kind.regions() {
                for block in &body.regions[region].blocks {
                    body.blocks[*block].ops.iter().for_each(|op| enclosing[op.0 as usize] = inner);
                }
            }
            let index = op.0 as usize;
            tables.parent[index] = outer.parent;
            tables.in_combiner[index] = outer.in_combiner;
            tables.deepest = tables.deepest.max(outer.depth);
            tables.target[index] = match body.ops[op].kind.core().and_then(Core::as_terminator) {
                Some(Terminator::Yield(_)) => outer.parent,
                Some(Terminator::Continue(_)) => outer.continue_target,
                Some(Terminator::Break(_)) => outer.break_target,
                Some(Terminator::Return) | None => None,
            };
        }
        tables
    }
}
