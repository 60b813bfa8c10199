//! Where the ops of a body are: what an op alone does not know.

use crate::ir::{Block, Body, Operation};

impl<O: Operation, T> Body<O, T> {
    /// The block that each op is in; none for ops that are in no block.
    pub fn op_blocks(&self) -> Vec<Option<Block>> {
        let mut out = vec![None; self.ops.len()];
        for (block, node) in self.blocks.iter() {
            node.ops.iter().for_each(|op| out[op.0 as usize] = Some(block));
        }
        out
    }
}
