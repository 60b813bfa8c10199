//! What is around each op of a function, and where terminators give their values.

use crate::{Function, Op};
use base::core_ops::Core;
use base::ir::{Op as OpId, Operation};

/// For each op, by its id.
pub struct Nesting {
    /// The op whose region it is in; none at the function's own level.
    pub parent: Vec<Option<OpId>>,
    /// For `yield` the op around it, for `continue` the loop it goes on with, for `break` the loop it leaves.
    pub target: Vec<Option<OpId>>,
    /// Inside the body of a reduction or scan.
    pub combines: Vec<bool>,
}

/// What a block passes on to the blocks in it.
#[derive(Clone, Copy, Default)]
struct Around {
    parent: Option<OpId>,
    continued: Option<OpId>,
    broken: Option<OpId>,
    combines: bool,
}

impl Nesting {
    pub fn of(function: &Function) -> Nesting {
        let body = &function.body;
        let mut of_op = vec![Around::default(); body.ops.len()];
        let count = body.ops.len();
        let mut nesting = Nesting { parent: vec![None; count], target: vec![None; count], combines: vec![false; count] };
        for op in body.walk(function.region) {
            let outer = of_op[op.0 as usize];
            let parent = Some(op);
            let inner = match &body.ops[op].kind {
                Op::Core(Core::For { .. }) => Around { parent, continued: Some(op), broken: None, ..outer },
                Op::Core(Core::Loop { .. }) => Around { parent, continued: Some(op), broken: Some(op), ..outer },
                Op::Core(Core::If { .. }) => Around { parent, ..outer },
                _ => Around { parent, continued: None, broken: None, combines: true },
            };
            for region in body.ops[op].kind.regions() {
                for block in &body.regions[region].blocks {
                    body.blocks[*block].ops.iter().for_each(|op| of_op[op.0 as usize] = inner);
                }
            }
            let index = op.0 as usize;
            nesting.parent[index] = outer.parent;
            nesting.combines[index] = outer.combines;
            nesting.target[index] = match &body.ops[op].kind {
                Op::Core(Core::Yield { .. }) => outer.parent,
                Op::Core(Core::Continue { .. }) => outer.continued,
                Op::Core(Core::Break { .. }) => outer.broken,
                _ => None,
            };
        }
        nesting
    }
}

impl Op {
    /// The values that a terminator gives to its target.
    pub fn given(&self) -> Option<&[base::Value]> {
        match self {
            Op::Core(Core::Yield { values } | Core::Continue { values } | Core::Break { values }) => Some(values),
            _ => None,
        }
    }
}
