//! The interface of structured control flow: loops and conditions.
//!
//! Passes use [`LoopOp`] and [`IfOp`] instead of patterns on `for`, `loop` and `if`. MLIR's `LoopLikeOpInterface` has the same
//! purpose. [`crate::region_edges`] lists the values that loops and conditions forward.

use crate::core_ops::Core;
use base::ir::{Op, Operation};
use base::{Block, Body, Region, Value};

/// The bounds and the step of a `for`, which are scalar integers. `unsigned`: whether the integers are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopBounds {
    pub lower: Value,
    pub upper: Value,
    pub step: Value,
    pub unsigned: bool,
}

/// A loop: `for` or `loop`.
#[derive(Clone, Copy, Debug)]
pub struct LoopOp<'a> {
    /// `None` for `loop`, which runs until a `break`.
    pub bounds: Option<LoopBounds>,
    /// The initial loop-carried values.
    pub init: &'a [Value],
    pub body: Region,
}

impl LoopOp<'_> {
    /// The number of arguments of the body before the loop-carried values: one for the counter of a `for`.
    pub fn counter_args(&self) -> usize {
        usize::from(self.bounds.is_some())
    }
    /// The arguments of the body that hold the loop-carried values.
    pub fn carried_args<'b, O: Operation, T>(&self, body: &'b Body<O, T>) -> &'b [Value] {
        body.blocks[self.block(body)].args.get(self.counter_args()..).unwrap_or_default()
    }
    /// The lists of values that receive the initial values and the values of each `continue`. One list is the loop-carried
    /// arguments. For a `for`, another list is the results, because any iteration may be the last. `op` is the loop.
    pub fn destinations<'b, O: Operation, T>(&self, body: &'b Body<O, T>, op: Op) -> Vec<&'b [Value]> {
        let results = self.bounds.is_some().then(|| &body.ops[op].results[..]);
        std::iter::once(self.carried_args(body)).chain(results).collect()
    }
    /// The block of the body.
    pub fn block<O: Operation, T>(&self, body: &Body<O, T>) -> Block {
        body.block_of(self.body)
    }
}

/// An `if`.
#[derive(Clone, Copy, Debug)]
pub struct IfOp {
    pub cond: Value,
    pub then: Region,
    pub otherwise: Region,
}

impl IfOp {
    /// The two branches.
    pub fn regions(self) -> [Region; 2] {
        [self.then, self.otherwise]
    }
}

/// An op of structured control flow.
#[derive(Clone, Copy, Debug)]
pub enum StructuredOp<'a> {
    If(IfOp),
    Loop(LoopOp<'a>),
}

/// An op that ends a region, with the values that it forwards.
#[derive(Clone, Copy, Debug)]
pub enum Terminator<'a> {
    Yield(&'a [Value]),
    Continue(&'a [Value]),
    Break(&'a [Value]),
    Return,
}

impl Core {
    /// The loop or the `if`; `None` for other ops.
    pub fn as_structured(&self) -> Option<StructuredOp<'_>> {
        self.as_loop().map(StructuredOp::Loop).or_else(|| self.as_if().map(StructuredOp::If))
    }
    /// Creates a `for` with these bounds, or a `loop` without bounds.
    pub fn new_loop(bounds: Option<LoopBounds>, init: Vec<Value>, body: Region) -> Core {
        match bounds {
            Some(LoopBounds { lower, upper, step, unsigned }) => Core::For { lower, upper, step, init, unsigned, body },
            None => Core::Loop { init, body },
        }
    }
    /// Creates an `if`.
    pub fn new_if(cond: Value, [then, otherwise]: [Region; 2]) -> Core {
        Core::If { cond, then, otherwise }
    }
    /// The loop, if the op is a `for` or a `loop`; otherwise `None`.
    pub fn as_loop(&self) -> Option<LoopOp<'_>> {
        match self {
            Core::For { lower, upper, step, init, unsigned, body } => {
                let bounds = LoopBounds { lower: *lower, upper: *upper, step: *step, unsigned: *unsigned };
                Some(LoopOp { bounds: Some(bounds), init, body: *body })
            }
            Core::Loop { init, body } => Some(LoopOp { bounds: None, init, body: *body }),
            _ => None,
        }
    }
    /// The bounds, if the op is a `for`.
    pub fn loop_bounds(&self) -> Option<LoopBounds> {
        self.as_loop()?.bounds
    }
    /// The body, if the op is a `for`.
    pub fn for_body(&self) -> Option<Region> {
        self.as_loop().filter(|loop_op| loop_op.bounds.is_some()).map(|loop_op| loop_op.body)
    }
    /// The condition and the branches, if the op is an `if`.
    pub fn as_if(&self) -> Option<IfOp> {
        match self {
            Core::If { cond, then, otherwise } => Some(IfOp { cond: *cond, then: *then, otherwise: *otherwise }),
            _ => None,
        }
    }
    /// The op as a terminator, if it ends a region.
    pub fn as_terminator(&self) -> Option<Terminator<'_>> {
        match self {
            Core::Yield { values } => Some(Terminator::Yield(values)),
            Core::Continue { values } => Some(Terminator::Continue(values)),
            Core::Break { values } => Some(Terminator::Break(values)),
            Core::Return {} => Some(Terminator::Return),
            _ => None,
        }
    }
    /// The operands that decide which regions of a structured op run and how often: the bounds of a `for`, the condition of an
    /// `if`.
    pub fn conditions(&self) -> Vec<Value> {
        let bounds = self.loop_bounds().map(|bounds| vec![bounds.lower, bounds.upper, bounds.step]);
        bounds.or_else(|| Some(vec![self.as_if()?.cond])).unwrap_or_default()
    }
    /// The operands of [`Core::conditions`], for a pass that replaces them.
    pub fn conditions_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Core::For { lower, upper, step, .. } => vec![lower, upper, step],
            Core::If { cond, .. } => vec![cond],
            _ => Vec::new(),
        }
    }
    /// The values that a terminator forwards, or the initial values of a loop, for a pass that removes some of them.
    pub fn forwarded_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Core::Yield { values } | Core::Continue { values } | Core::Break { values } => Some(values),
            _ => self.init_mut(),
        }
    }
    /// The initial loop-carried values, for a pass that appends or removes some of them. `None` if the op is not a loop.
    pub fn init_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Core::For { init, .. } | Core::Loop { init, .. } => Some(init),
            _ => None,
        }
    }

    /// Returns whether the op is a `for` or a `loop`.
    pub fn is_loop(&self) -> bool {
        self.as_loop().is_some()
    }
    /// Returns whether the op is a `for`.
    pub fn is_for(&self) -> bool {
        self.for_body().is_some()
    }
    /// Returns whether the op is an `if`.
    pub fn is_if(&self) -> bool {
        self.as_if().is_some()
    }
    /// Returns whether the op is a `for`, a `loop` or an `if`.
    pub fn is_structured(&self) -> bool {
        self.is_loop() || self.is_if()
    }
}
