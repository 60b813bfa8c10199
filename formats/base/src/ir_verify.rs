//! The structural verifier of [`crate::ir::Body`]: the invariants that indexing relies on.

use crate::entity::Entity;
use crate::ir::{Block, Body, Def, Op, Operation, Region, Value};

/// Walks the tree with an explicit stack and marks reachable entities. A value is visible from its definition to the end of its
/// block.
pub(crate) fn structure<O: Operation, T>(body: &Body<O, T>, root: Region) -> Result<(), String> {
    ids_in_range(body, root)?;
    let mut walk = Walk {
        body,
        region_seen: vec![false; body.regions.len()],
        block_seen: vec![false; body.blocks.len()],
        op_seen: vec![false; body.ops.len()],
        visible: vec![false; body.values.len()],
    };
    walk.run(root)
}

fn ids_in_range<O: Operation, T>(body: &Body<O, T>, root: Region) -> Result<(), String> {
    let check = |ok: bool, what: &dyn std::fmt::Display, by: &dyn std::fmt::Display| {
        if ok { Ok(()) } else { Err(format!("{by} refers to {what}, which does not exist")) }
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

struct Walk<'a, O, T> {
    body: &'a Body<O, T>,
    region_seen: Vec<bool>,
    block_seen: Vec<bool>,
    op_seen: Vec<bool>,
    visible: Vec<bool>,
}

/// A block during the walk: its position, its visible definitions, and the pending results of the current op.
struct Frame {
    block: Block,
    next: usize,
    defined: Vec<Value>,
    pending: Vec<Value>,
}

impl<O: Operation, T> Walk<'_, O, T> {
    fn run(&mut self, root: Region) -> Result<(), String> {
        let mut stack = Vec::new();
        self.enter(root, &mut stack)?;
        while let Some(frame) = stack.last_mut() {
            for value in std::mem::take(&mut frame.pending) {
                self.visible[value.index()] = true;
                frame.defined.push(value);
            }
            let ops = &self.body.blocks[frame.block].ops;
            let Some(&op) = ops.get(frame.next) else {
                for value in stack.pop().expect("the stack is not empty").defined {
                    self.visible[value.index()] = false;
                }
                continue;
            };
            frame.next += 1;
            let is_last = frame.next == ops.len();
            let node = &self.body.ops[op];
            // Results become visible when the walk returns to this frame, so an op's own regions cannot use them.
            frame.pending = node.results.to_vec();
            self.check(op, is_last)?;
            for region in node.kind.regions().into_iter().rev() {
                self.enter(region, &mut stack)?;
            }
        }
        Ok(())
    }

    fn check(&mut self, op: Op, is_last: bool) -> Result<(), String> {
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

    fn enter(&mut self, region: Region, stack: &mut Vec<Frame>) -> Result<(), String> {
        if std::mem::replace(&mut self.region_seen[region.index()], true) {
            return Err(format!("{region} has more than one parent"));
        }
        for &block in self.body.regions[region].blocks.iter().rev() {
            if std::mem::replace(&mut self.block_seen[block.index()], true) {
                return Err(format!("{block} has more than one parent"));
            }
            stack.push(Frame { block, next: 0, defined: Vec::new(), pending: self.body.blocks[block].args.clone() });
        }
        Ok(())
    }
}
