//! The block of each op of a body.

use crate::ir::{Block, Body, Operation};

impl<O: Operation, T> Body<O, T> {
    /// Returns the block of each op, by op id; `None` for ops outside all blocks.
    pub fn op_blocks(&self) -> Vec<Option<Block>> {
        let mut out = vec![None; self.ops.len()];
        for (block, node) in self.blocks.iter() {
            node.ops.iter().for_each(|op| out[op.0 as usize] = Some(block));
        }
        out
    }
}
