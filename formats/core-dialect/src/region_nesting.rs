//! The nesting of regions: the op around each block, and the construct that each terminator ends.

use crate::core_ops::Core;
use crate::rules::MiddleOp;
use base::ir::Op;
use base::{Block, Body, Region};
use std::collections::BTreeMap;

pub struct RegionNesting {
    op_around: BTreeMap<Block, Op>,
    block_of: Vec<Option<Block>>,
    /// For each construct, the terminators that leave it or continue it.
    terminators: BTreeMap<Op, Vec<Op>>,
}

impl RegionNesting {
    pub fn of<O: MiddleOp, T>(body: &Body<O, T>, region: Region) -> RegionNesting {
        let all = body.walk(region);
        let mut op_around = BTreeMap::new();
        for &op in &all {
            let regions = body.ops[op].kind.regions();
            op_around.extend(regions.into_iter().map(|region| (body.block_of(region), op)));
        }
        let mut nesting = RegionNesting { op_around, block_of: body.op_blocks(), terminators: BTreeMap::new() };
        for &op in all.iter().filter(|op| body.ops[**op].kind.is_terminator()) {
            if let Some(construct) = nesting.construct_of_terminator(body, op) {
                nesting.terminators.entry(construct).or_default().push(op);
            }
        }
        nesting
    }

    /// The op whose region contains a block.
    pub fn op_around(&self, block: Block) -> Option<Op> {
        self.op_around.get(&block).copied()
    }
    /// The op around an op.
    pub fn parent(&self, op: Op) -> Option<Op> {
        self.op_around(self.block_of[op.0 as usize]?)
    }
    /// The terminators that leave a construct or continue it.
    pub fn terminators(&self, construct: Op) -> &[Op] {
        self.terminators.get(&construct).map_or(&[], Vec::as_slice)
    }

    /// The construct that a terminator leaves, or whose next iteration it starts. None for `return` and for ops that are no
    /// terminators.
    pub fn construct_of_terminator<O: MiddleOp, T>(&self, body: &Body<O, T>, op: Op) -> Option<Op> {
        let core = |op: Op| body.ops[op].kind.core();
        let mut at = self.parent(op);
        while let Some(construct) = at {
            let ends = matches!(
                (core(op), core(construct)),
                (Some(Core::Yield { .. }), _)
                    | (Some(Core::Continue { .. }), Some(Core::For { .. } | Core::Loop { .. }))
                    | (Some(Core::Break { .. }), Some(Core::Loop { .. }))
            );
            if ends {
                return Some(construct);
            }
            at = self.parent(construct);
        }
        None
    }
}
