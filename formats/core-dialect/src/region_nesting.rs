//! The nesting of regions: the op whose region contains each block, and the op that each terminator leaves or continues.

use crate::core_ops::Core;
use crate::rules::CoreDialectOp;
use base::ir::Op;
use base::{Block, Body, Region};
use std::collections::BTreeMap;

/// The nesting of the regions of a function.
pub struct RegionNesting {
    /// The op whose region contains each block.
    enclosing_ops: BTreeMap<Block, Op>,
    /// The block of each op, by op id.
    block_of: Vec<Option<Block>>,
    /// For each `if`, loop, reduction or scan, the terminators that leave the op or start its next iteration.
    terminators: BTreeMap<Op, Vec<Op>>,
}

impl RegionNesting {
    /// Computes the nesting of all regions in `region`.
    pub fn analyse<O: CoreDialectOp, T>(body: &Body<O, T>, region: Region) -> RegionNesting {
        let ops = body.walk(region);
        let mut enclosing_ops = BTreeMap::new();
        for &op in &ops {
            let regions = body.ops[op].kind.regions();
            enclosing_ops.extend(regions.into_iter().map(|region| (body.block_of(region), op)));
        }
        let mut nesting = RegionNesting { enclosing_ops, block_of: body.op_blocks(), terminators: BTreeMap::new() };
        for &op in ops.iter().filter(|op| body.ops[**op].kind.is_terminator()) {
            if let Some(construct) = nesting.construct_of_terminator(body, op) {
                nesting.terminators.entry(construct).or_default().push(op);
            }
        }
        nesting
    }

    /// The op whose region contains a block; `None` for the outermost block.
    pub fn enclosing_op(&self, block: Block) -> Option<Op> {
        self.enclosing_ops.get(&block).copied()
    }
    /// The op whose region contains the op `op`; `None` at function level.
    pub fn parent(&self, op: Op) -> Option<Op> {
        self.enclosing_op(self.block_of[op.0 as usize]?)
    }
    /// The terminators that leave the op `construct` (an `if`, loop, reduction or scan) or start its next iteration.
    pub fn terminators(&self, construct: Op) -> &[Op] {
        self.terminators.get(&construct).map_or(&[], Vec::as_slice)
    }

    /// The op that a terminator leaves, or the loop whose next iteration the terminator starts. `None` for `return`, and for ops
    /// that are not terminators.
    pub fn construct_of_terminator<O: CoreDialectOp, T>(&self, body: &Body<O, T>, op: Op) -> Option<Op> {
        let core_of = |op: Op| body.ops[op].kind.core();
        let mut ancestor = self.parent(op);
        while let Some(construct) = ancestor {
            let is_target = matches!(
                (core_of(op), core_of(construct)),
                (Some(Core::Yield { .. }), _)
                    | (Some(Core::Continue { .. }), Some(Core::For { .. } | Core::Loop { .. }))
                    | (Some(Core::Break { .. }), Some(Core::Loop { .. }))
            );
            if is_target {
                return Some(construct);
            }
            ancestor = self.parent(construct);
        }
        None
    }
}
