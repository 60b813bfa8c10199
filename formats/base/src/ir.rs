//! The SSA container of the IR formats.
//!
//! A [`Body`] has ops of a format's op enum `O`, and values whose types are of the format's type enum `T`. Ops are in blocks,
//! blocks in regions, regions in ops. Control flow is structured: a region has one block unless a format defines otherwise.
//!
//! An op enum has its operands and regions as fields (`AddF { lhs: Value, rhs: Value, .. }`) and implements [`Operation`]. Generic
//! code visits operands and regions through [`Operation`]; code for one op accesses its fields by name.
//!
//! See also: MLIR operations, regions and blocks.

use crate::{Arena, Loc};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;

crate::entity! {
    /// An SSA value: the result of an op or the argument of a block.
    pub struct Value = "%";
}
crate::entity! {
    /// An op of a body, by its id.
    pub struct Op = "op";
}
crate::entity! {
    /// A list of ops that execute in order, with arguments.
    pub struct Block = "^";
}
crate::entity! {
    /// A list of blocks inside an op or function.
    pub struct Region = "region";
}

/// The interface of op enums for generic code. The functions visit operands and regions in field order.
pub trait Operation {
    fn mnemonic(&self) -> &'static str;
    fn for_each_operand(&self, f: &mut dyn FnMut(Value));
    fn for_each_operand_mut(&mut self, f: &mut dyn FnMut(&mut Value));
    fn for_each_region(&self, f: &mut dyn FnMut(Region));
    fn for_each_region_mut(&mut self, f: &mut dyn FnMut(&mut Region));
    fn is_terminator(&self) -> bool;

    fn operands(&self) -> SmallVec<[Value; 4]> {
        let mut out = SmallVec::new();
        self.for_each_operand(&mut |value| out.push(value));
        out
    }
    fn regions(&self) -> SmallVec<[Region; 2]> {
        let mut out = SmallVec::new();
        self.for_each_region(&mut |region| out.push(region));
        out
    }
}

/// The definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Def {
    Result { op: Op, index: u32 },
    Argument { block: Block, index: u32 },
}

/// The type and the definition of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueNode<T> {
    pub ty: T,
    pub def: Def,
}

/// An op with its results and its location. `kind` has the operands and regions as fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpNode<O> {
    pub kind: O,
    pub results: SmallVec<[Value; 2]>,
    pub loc: Loc,
}

/// The arguments and the ops of a block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockNode {
    pub args: Vec<Value>,
    pub ops: Vec<Op>,
}

/// The blocks of a region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionNode {
    pub blocks: Vec<Block>,
}

/// The ops, values, blocks and regions of one function. Ops outside all blocks are dead; the printer omits them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Body<O, T> {
    pub ops: Arena<Op, OpNode<O>>,
    pub values: Arena<Value, ValueNode<T>>,
    pub blocks: Arena<Block, BlockNode>,
    pub regions: Arena<Region, RegionNode>,
}

impl<O, T> Default for Body<O, T> {
    fn default() -> Self {
        Body { ops: Arena::new(), values: Arena::new(), blocks: Arena::new(), regions: Arena::new() }
    }
}

impl<O: Operation, T> Body<O, T> {
    /// Creates a region without blocks. No op has the region so far.
    pub fn new_region(&mut self) -> Region {
        self.regions.push(RegionNode::default())
    }

    /// Creates a block at the end of a region.
    pub fn new_block(&mut self, region: Region) -> Block {
        let block = self.blocks.push(BlockNode::default());
        self.regions[region].blocks.push(block);
        block
    }

    /// Adds an argument at the end of a block's arguments.
    pub fn add_argument(&mut self, block: Block, ty: T) -> Value {
        let index = self.blocks[block].args.len() as u32;
        let value = self.values.push(ValueNode { ty, def: Def::Argument { block, index } });
        self.blocks[block].args.push(value);
        value
    }

    /// Creates an op outside all blocks. `results` are the types of the op's results.
    pub fn new_op(&mut self, kind: O, results: impl IntoIterator<Item = T>, loc: Loc) -> Op {
        let op = Op(self.ops.len() as u32);
        let values = &mut self.values;
        let results =
            results.into_iter().enumerate().map(|(i, ty)| values.push(ValueNode { ty, def: Def::Result { op, index: i as u32 } }));
        let results = results.collect();
        self.ops.push(OpNode { kind, results, loc })
    }

    /// Creates an op at the end of a block.
    pub fn append(&mut self, block: Block, kind: O, results: impl IntoIterator<Item = T>, loc: Loc) -> Op {
        let op = self.new_op(kind, results, loc);
        self.blocks[block].ops.push(op);
        op
    }

    /// Replaces each op by the result of `f`, which must keep the operands and regions of the op.
    pub fn map_ops<P: Operation>(self, f: impl Fn(O) -> P) -> Body<P, T> {
        let ops = self.ops.into_iter().map(|OpNode { kind, results, loc }| OpNode { kind: f(kind), results, loc }).collect();
        Body { ops, values: self.values, blocks: self.blocks, regions: self.regions }
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: Value) -> &T {
        &self.values[value].ty
    }

    /// Returns the first result of an op that has results.
    pub fn result(&self, op: Op) -> Value {
        self.ops[op].results[0]
    }

    /// Returns the op that defines a value, or `None` for a block argument.
    pub fn defining_op(&self, value: Value) -> Option<Op> {
        match self.values[value].def {
            Def::Result { op, .. } => Some(op),
            Def::Argument { .. } => None,
        }
    }

    /// Returns the only block of a structured region.
    pub fn block_of(&self, region: Region) -> Block {
        self.regions[region].blocks[0]
    }

    /// Returns the last op of a block, or `None` if the last op is not a terminator.
    pub fn terminator(&self, block: Block) -> Option<Op> {
        self.blocks[block].ops.last().copied().filter(|op| self.ops[*op].kind.is_terminator())
    }

    /// Returns all ops in a region and its nested regions, in program order. An op comes before the ops of its regions.
    pub fn walk(&self, region: Region) -> Vec<Op> {
        // A stack instead of recursion, because the input decides the nesting depth.
        let mut out = Vec::new();
        let mut stack: Vec<Op> = Vec::new();
        let push_region = |stack: &mut Vec<Op>, region: Region| {
            for block in self.regions[region].blocks.iter().rev() {
                stack.extend(self.blocks[*block].ops.iter().rev());
            }
        };
        push_region(&mut stack, region);
        while let Some(op) = stack.pop() {
            out.push(op);
            for inner in self.ops[op].kind.regions().into_iter().rev() {
                push_region(&mut stack, inner);
            }
        }
        out
    }

    /// Returns the number of uses of each value by the ops in `region` and its nested regions.
    pub fn use_counts(&self, region: Region) -> Vec<u32> {
        let mut counts = vec![0; self.values.len()];
        for op in self.walk(region) {
            self.ops[op].kind.for_each_operand(&mut |value| counts[value.0 as usize] += 1);
        }
        counts
    }

    /// Replaces every use of the value `from` by the value `to`, in all ops.
    pub fn replace_uses(&mut self, from: Value, to: Value) {
        for node in self.ops.values_mut() {
            node.kind.for_each_operand_mut(&mut |value| {
                if *value == from {
                    *value = to;
                }
            });
        }
    }

    /// Appends copies of ops, with their regions, to a block. `map` has the replacement of each operand that a copy replaces. The
    /// function adds the results and arguments of the originals to `map`, with those of the copies as replacements.
    pub fn clone_ops(&mut self, ops: &[Op], to: Block, map: &mut BTreeMap<Value, Value>)
    where
        O: Clone,
        T: Clone,
    {
        // No recursion: the input decides the nesting depth.
        let mut stack: Vec<(Op, Block)> = ops.iter().rev().map(|op| (*op, to)).collect();
        while let Some((op, to)) = stack.pop() {
            let OpNode { mut kind, results, loc } = self.ops[op].clone();
            kind.for_each_operand_mut(&mut |value| *value = map.get(value).copied().unwrap_or(*value));
            kind.for_each_region_mut(&mut |region| {
                let new_region = self.new_region();
                for block in self.regions[*region].blocks.clone() {
                    let new_block = self.new_block(new_region);
                    for arg in self.blocks[block].args.clone() {
                        let ty = self.ty(arg).clone();
                        map.insert(arg, self.add_argument(new_block, ty));
                    }
                    stack.extend(self.blocks[block].ops.iter().rev().map(|op| (*op, new_block)));
                }
                *region = new_region;
            });
            let types: Vec<T> = results.iter().map(|value| self.ty(*value).clone()).collect();
            let copy = self.append(to, kind, types, loc);
            map.extend(results.into_iter().zip(self.ops[copy].results.clone()));
        }
    }
}

/// The bits of a constant tile's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dense {
    /// All elements have these bits.
    Splat(u64),
    /// The bits of each element, in row-major order.
    Elements(Vec<u64>),
}

impl Dense {
    /// Returns the bits of one element, by its row-major index.
    pub fn at(&self, index: usize) -> u64 {
        match self {
            Dense::Splat(bits) => *bits,
            Dense::Elements(elements) => elements[index],
        }
    }
}
