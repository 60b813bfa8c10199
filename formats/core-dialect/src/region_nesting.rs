//! The nesting of regions: the op around each block, and the construct that each terminator ends.

use crate::core_ops::Core;
use crate::rules::MiddleOp;
use base::ir::Op;
use base::{Block, Body, Region};
use std::collections::BTreeMap;

pub struct RegionNesting {
    around: BTreeMap<Block, Op>,
    blocks: Vec<Option<Block>>,
    /// For each construct, the ops that leave it or continue it.
    ends: BTreeMap<Op, Vec<Op>>,
}

impl RegionNesting {
    pub fn of<O: MiddleOp, T>(body: &Body<O, T>, region: Region) -> RegionNesting {
        let all = body.walk(region);
        let mut around = BTreeMap::new();
        for &op in &all {
            let regions = body.ops[op].kind.regions();
            around.extend(regions.into_iter().map(|region| (body.block_of(region), op)));
        }
        let mut nesting = RegionNesting { around, blocks: body.op_blocks(), ends: BTreeMap::new() };
        for &op in all.iter().filter(|op| body.ops[**op].kind.is_terminator()) {
            if let Some(construct) = nesting.ended_by(body, op) {
                nesting.ends.entry(construct).or_default().push(op);
            }
        }
        nesting
    }

    /// The op whose region contains a block.
    pub fn around(&self, block: Block) -> Option<Op> {
        self.around.get(&block).copied()
    }
    /// The op around an op.
    pub fn parent(&self, op: Op) -> Option<Op> {
        self.around(self.blocks[op.0 as usize]?)
    }
    /// The ops that leave a construct or continue it.
    pub fn ends(&self, construct: Op) -> &[Op] {
        self.ends.get(&construct).map_or(&[], Vec::as_slice)
    }

    /// The construct that an op ends, or whose next iteration it starts.
    pub fn ended_by<O: MiddleOp, T>(&self, body: &Body<O, T>, op: Op) -> Option<Op> {
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
