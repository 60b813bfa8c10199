//! The interface of structured control flow of Tile IR, without a match on each op.

use crate::ops::Op;
use base::{Region, Value};

/// A loop: `for` or `loop`.
#[derive(Clone, Copy, Debug)]
pub struct LoopOp<'a> {
    /// Whether the first argument of the body is a counter: the loop is a `for`. Its results are the loop-carried values of the
    /// last iteration. A `loop` gets its results from `break`.
    pub has_counter: bool,
    /// The initial loop-carried values.
    pub init: &'a [Value],
    pub body: Region,
}

impl Op {
    /// The loop, if the op is a `for` or a `loop`; otherwise `None`.
    pub fn as_loop(&self) -> Option<LoopOp<'_>> {
        match self {
            Op::For { init_values, body, .. } => Some(LoopOp { has_counter: true, init: init_values, body: *body }),
            Op::Loop { init_values, body } => Some(LoopOp { has_counter: false, init: init_values, body: *body }),
            _ => None,
        }
    }
    /// Returns whether the op is an `if`.
    pub fn is_if(&self) -> bool {
        matches!(self, Op::If { .. })
    }
}
