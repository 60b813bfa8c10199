//! The op around each op of a function, and the destination of each terminator's values.

use super::MiddleOp;
use crate::core_ops::Core;
use base::ir::Op as OpId;
use base::{Body, Region};

/// The parents and targets of all ops of a function. Each table is indexed by op id.
pub struct OpParents {
    /// The op whose region contains it; none at function level.
    pub parent: Vec<Option<OpId>>,
    /// For `yield` the op around it, for `continue` the loop that it continues, for `break` the loop that it leaves.
    pub target: Vec<Option<OpId>>,
    /// Whether it is inside the body of a reduction or scan.
    pub in_combiner: Vec<bool>,
    /// The nesting depth of the innermost op.
    pub deepest: u32,
}

/// The constructs that enclose the ops of a block.
#[derive(Clone, Copy, Default)]
struct Enclosing {
    parent: Option<OpId>,
    continued: Option<OpId>,
    broken: Option<OpId>,
    in_combiner: bool,
    depth: u32,
}

impl OpParents {
    pub fn of<O: MiddleOp, T>(body: &Body<O, T>, root: Region) -> OpParents {
        let mut of_op = vec![Enclosing::default(); body.ops.len()];
        let count = body.ops.len();
        let mut nesting =
            OpParents { parent: vec![None; count], target: vec![None; count], in_combiner: vec![false; count], deepest: 0 };
        for op in body.walk(root) {
            let outer = of_op[op.0 as usize];
            let parent = Some(op);
            let inner = match body.ops[op].kind.core() {
                Some(Core::For { .. }) => Enclosing { parent, continued: Some(op), broken: None, ..outer },
                Some(Core::Loop { .. }) => Enclosing { parent, continued: Some(op), broken: Some(op), ..outer },
                Some(Core::If { .. }) => Enclosing { parent, ..outer },
                _ => {
                    let in_combiner = outer.in_combiner || body.ops[op].kind.combination().is_some();
                    Enclosing { parent, continued: None, broken: None, in_combiner, ..outer }
                }
            };
            let inner = Enclosing { depth: outer.depth + 1, ..inner };
            for region in body.ops[op].kind.regions() {
                for block in &body.regions[region].blocks {
                    body.blocks[*block].ops.iter().for_each(|op| of_op[op.0 as usize] = inner);
                }
            }
            let index = op.0 as usize;
            nesting.parent[index] = outer.parent;
            nesting.in_combiner[index] = outer.in_combiner;
            nesting.deepest = nesting.deepest.max(outer.depth);
            nesting.target[index] = match body.ops[op].kind.core() {
                Some(Core::Yield { .. }) => outer.parent,
                Some(Core::Continue { .. }) => outer.continued,
                Some(Core::Break { .. }) => outer.broken,
                _ => None,
            };
        }
        nesting
    }
}
