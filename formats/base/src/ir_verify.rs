//! The structural verifier of [`crate::ir::Body`]. Code that runs later relies on these invariants, and indexes without checks.

use crate::entity::Entity;
use crate::ir::{Block, Body, Def, Op, Operation, Region, Value};

impl<O: Operation, T> Body<O, T> {
    /// Checks the structural invariants of every IR, and returns the first violation as an error:
    /// - Ids are in range.
    /// - No op is in two blocks, no block in two regions, no region in two ops.
    /// - Definitions dominate uses.
    /// - Terminators are last in their blocks.
    ///
    /// The check walks the tree of regions with an explicit stack, and rejects entities that the walk reaches twice. A value is
    /// visible from its definition to the end of its block, also in the regions of later ops of the block.
    pub fn verify_structure(&self, root: Region) -> Result<(), String> {
        check_ids(self, root)?;
        let mut walk = Walk {
            body: self,
            region_seen: vec![false; self.regions.len()],
            block_seen: vec![false; self.blocks.len()],
            op_seen: vec![false; self.ops.len()],
            visible: vec![false; self.values.len()],
        };
        walk.run(root)
    }
}

/// Checks that ids are in range, and that the `def` of each value names the op or block that lists the value.
fn check_ids<O: Operation, T>(body: &Body<O, T>, root: Region) -> Result<(), String> {
    let check = |ok: bool, referenced: &dyn std::fmt::Display, referrer: &dyn std::fmt::Display| {
        if ok { Ok(()) } else { Err(format!("{referrer} refers to {referenced}, which does not exist")) }
    };
    check(root.index() < body.regions.len(), &root, &"the function")?;
    for (region, node) in body.regions.iter() {
        for block in &node.blocks {
            check(block.index() < body.blocks.len(), block, &region)?;
        }
    }
    for (block, node) in body.blocks.iter() {
        for (i, arg) in node.args.iter().enumerate() {
            check(arg.index() < body.values.len(), arg, &block)?;
            if body.values[*arg].def != (Def::Argument { block, index: i as u32 }) {
                return Err(format!("{arg} is listed as an argument of {block} but is defined elsewhere"));
            }
        }
        for op in &node.ops {
            check(op.index() < body.ops.len(), op, &block)?;
        }
    }
    for (op, node) in body.ops.iter() {
        for (i, result) in node.results.iter().enumerate() {
            check(result.index() < body.values.len(), result, &op)?;
            if body.values[*result].def != (Def::Result { op, index: i as u32 }) {
                return Err(format!("{result} is listed as a result of {op} but is defined elsewhere"));
            }
        }
        if let Some(value) = node.kind.operands().iter().find(|value| value.index() >= body.values.len()) {
            return check(false, value, &op);
        }
        if let Some(region) = node.kind.regions().iter().find(|region| region.index() >= body.regions.len()) {
            return check(false, region, &op);
        }
    }
    Ok(())
}

/// The state of the walk over a body. The vectors are indexed by id.
struct Walk<'a, O, T> {
    body: &'a Body<O, T>,
    region_seen: Vec<bool>,
    block_seen: Vec<bool>,
    op_seen: Vec<bool>,
    /// For each value, whether the current op of the walk may use the value.
    visible: Vec<bool>,
}

/// A block that the walk has entered and not left.
struct OpenBlock {
    block: Block,
    /// The index of the next op in the block.
    next_op: usize,
    /// The values that are visible so far in the block.
    defined: Vec<Value>,
    /// The values that become visible before the next op: the results of the current op. Before the first op, the block's
    /// arguments.
    pending: Vec<Value>,
}

impl<O: Operation, T> Walk<'_, O, T> {
    /// Checks all ops in `root` and its nested regions.
    fn run(&mut self, root: Region) -> Result<(), String> {
        let mut stack = Vec::new();
        self.enter_region(root, &mut stack)?;
        while let Some(open_block) = stack.last_mut() {
            for value in std::mem::take(&mut open_block.pending) {
                self.visible[value.index()] = true;
                open_block.defined.push(value);
            }
            let ops = &self.body.blocks[open_block.block].ops;
            let Some(&op) = ops.get(open_block.next_op) else {
                for value in stack.pop().expect("the stack is not empty").defined {
                    self.visible[value.index()] = false;
                }
                continue;
            };
            open_block.next_op += 1;
            let is_last = open_block.next_op == ops.len();
            let node = &self.body.ops[op];
            // Results become visible when the walk returns to this block, so an op's own regions cannot use the results.
            open_block.pending = node.results.to_vec();
            self.check_op(op, is_last)?;
            for region in node.kind.regions().into_iter().rev() {
                self.enter_region(region, &mut stack)?;
            }
        }
        Ok(())
    }

    /// Checks an op's parent, its operands, and its position in the block if it is a terminator.
    fn check_op(&mut self, op: Op, is_last: bool) -> Result<(), String> {
        let kind = &self.body.ops[op].kind;
        if std::mem::replace(&mut self.op_seen[op.index()], true) {
            return Err(format!("{op} ({}) has more than one parent", kind.mnemonic()));
        }
        let mut undefined_operand = None;
        kind.for_each_operand(&mut |value| {
            if !self.visible[value.index()] {
                undefined_operand = undefined_operand.or(Some(value));
            }
        });
        if let Some(value) = undefined_operand {
            return Err(format!("{op} ({}) uses {value} where it is not defined", kind.mnemonic()));
        }
        if kind.is_terminator() && !is_last {
            return Err(format!("{op} ({}) ends a block but is not its last op", kind.mnemonic()));
        }
        Ok(())
    }

    /// Pushes the blocks of a region to the stack.
    fn enter_region(&mut self, region: Region, stack: &mut Vec<OpenBlock>) -> Result<(), String> {
        if std::mem::replace(&mut self.region_seen[region.index()], true) {
            return Err(format!("{region} has more than one parent"));
        }
        for &block in self.body.regions[region].blocks.iter().rev() {
            if std::mem::replace(&mut self.block_seen[block.index()], true) {
                return Err(format!("{block} has more than one parent"));
            }
            stack.push(OpenBlock { block, next_op: 0, defined: Vec::new(), pending: self.body.blocks[block].args.clone() });
        }
        Ok(())
    }
}
