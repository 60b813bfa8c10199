//! Functions of an IR format, and the invariant that their ids are in program order.

use crate::Loc;
use crate::ir::{Block, Body, Op, Operation, Region, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A function of an IR format. `attrs` are the function attributes that the format defines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "O: Serialize, T: Serialize, A: Serialize",
    deserialize = "O: DeserializeOwned, T: DeserializeOwned, A: DeserializeOwned"
))]
pub struct Function<O, T, A> {
    pub name: String,
    pub attrs: A,
    pub loc: Loc,
    /// The body's root region. Its only block has the parameters as arguments.
    pub region: Region,
    pub body: Body<O, T>,
}

/// The traits that a format's function attributes need. Every type with these traits implements this trait.
pub trait FunctionAttributes: Clone + Serialize + DeserializeOwned {}
impl<A: Clone + Serialize + DeserializeOwned> FunctionAttributes for A {}

impl<O: Operation, T, A> Function<O, T, A> {
    /// Creates a function with an empty body of one block.
    pub fn new(name: &str, attrs: A, loc: Loc) -> Self {
        let mut body = Body::default();
        let region = body.new_region();
        body.new_block(region);
        Function { name: name.into(), attrs, loc, region, body }
    }
    /// Returns the only block of the root region.
    pub fn entry(&self) -> Block {
        self.body.block_of(self.region)
    }
    pub fn params(&self) -> &[Value] {
        &self.body.blocks[self.entry()].args
    }
}

/// Drops unreachable entities and renumbers all ids in program order, as in stage files.
pub fn compact<O: Operation + Clone, T: Clone, A: Clone>(function: &Function<O, T, A>) -> Function<O, T, A> {
    compact_with_map(function).0
}

/// Does the same as [`compact`], and also returns the new id of each old value; `None` for unreachable values. The caller needs the
/// ids for tables outside the body.
pub fn compact_with_map<O: Operation + Clone, T: Clone, A: Clone>(
    function: &Function<O, T, A>,
) -> (Function<O, T, A>, Vec<Option<Value>>) {
    let mut compacter = Compacter { from: &function.body, to: Body::default(), values: vec![None; function.body.values.len()] };
    let region = compacter.to.new_region();
    compacter.copy_region(function.region, region);
    let (attrs, name) = (function.attrs.clone(), function.name.clone());
    (Function { name, attrs, loc: function.loc, region, body: compacter.to }, compacter.values)
}

/// The state of [`compact`]: the old body, and the new body under construction.
struct Compacter<'a, O, T> {
    from: &'a Body<O, T>,
    to: Body<O, T>,
    /// The new id of each old value; `None` for a value that was not copied so far.
    values: Vec<Option<Value>>,
}

/// A copy that remains to be done: from an entity of the old body to a region or block of the new body.
enum PendingCopy {
    Region(Region, Region),
    Op(Op, Block),
}

impl<O: Operation + Clone, T: Clone> Compacter<'_, O, T> {
    /// Copies the blocks and ops of a region, and of all nested regions.
    fn copy_region(&mut self, from: Region, to: Region) {
        let mut stack = vec![PendingCopy::Region(from, to)];
        while let Some(copy) = stack.pop() {
            match copy {
                PendingCopy::Region(from, to) => {
                    for &block in &self.from.regions[from].blocks {
                        let new = self.to.new_block(to);
                        for &arg in &self.from.blocks[block].args {
                            let value = self.to.add_argument(new, self.from.values[arg].ty.clone());
                            self.values[arg.0 as usize] = Some(value);
                        }
                        stack.extend(self.from.blocks[block].ops.iter().rev().map(|op| PendingCopy::Op(*op, new)));
                    }
                }
                PendingCopy::Op(op, block) => self.copy_op(op, block, &mut stack),
            }
        }
    }

    /// Copies an op to the end of a block, and pushes the copies of its regions to the stack.
    fn copy_op(&mut self, op: Op, block: Block, stack: &mut Vec<PendingCopy>) {
        let node = &self.from.ops[op];
        let mut kind = node.kind.clone();
        kind.for_each_operand_mut(&mut |value| {
            *value = self.values[value.0 as usize].expect("a verified body defines before it uses")
        });
        let mut regions = Vec::new();
        let to = &mut self.to;
        kind.for_each_region_mut(&mut |region| {
            let new = to.new_region();
            regions.push(PendingCopy::Region(*region, new));
            *region = new;
        });
        stack.extend(regions.into_iter().rev());
        let new = self.to.append(block, kind, node.results.iter().map(|value| self.from.values[*value].ty.clone()), node.loc);
        for (old, new) in node.results.iter().zip(&self.to.ops[new].results) {
            self.values[old.0 as usize] = Some(*new);
        }
    }
}

/// Returns whether all ids are in program order and all entities are reachable, as after [`compact`]. The structure of the function
/// must be valid.
pub fn is_compact<O: Operation, T, A>(function: &Function<O, T, A>) -> bool {
    // An entity that remains to be checked.
    enum Pending {
        Region(Region),
        Op(Op),
    }
    let body = &function.body;
    let (mut ops, mut values, mut blocks, mut regions) = (0, 0, 0, 1);
    let is_next = |id: u32, count: &mut u32| {
        *count += 1;
        id + 1 == *count
    };
    let mut ordered = function.region == Region(0);
    let mut stack = vec![Pending::Region(function.region)];
    while let Some(pending) = stack.pop() {
        match pending {
            Pending::Region(region) => {
                for &block in &body.regions[region].blocks {
                    ordered &= is_next(block.0, &mut blocks);
                    body.blocks[block].args.iter().for_each(|arg| ordered &= is_next(arg.0, &mut values));
                    stack.extend(body.blocks[block].ops.iter().rev().map(|op| Pending::Op(*op)));
                }
            }
            Pending::Op(op) => {
                ordered &= is_next(op.0, &mut ops);
                body.ops[op].results.iter().for_each(|result| ordered &= is_next(result.0, &mut values));
                let inner = body.ops[op].kind.regions();
                inner.iter().for_each(|region| ordered &= is_next(region.0, &mut regions));
                stack.extend(inner.into_iter().rev().map(Pending::Region));
            }
        }
    }
    let counts = [body.ops.len(), body.values.len(), body.blocks.len(), body.regions.len()];
    ordered && counts == [ops, values, blocks, regions].map(|count| count as usize)
}
