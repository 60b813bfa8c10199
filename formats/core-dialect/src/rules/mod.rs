//! The rules that the verifiers of `.aa`, `.as` and `.sched` share. The rules cover types, structured control flow, operands and
//! results of core ops, memory accesses and MMAs.
//!
//! A format describes its types by [`CoreDialectType`] and its ops by [`CoreDialectOp`]. The rules about layouts are in `tileas`.

mod control;
mod core;
mod elements;
mod memory;
mod module;
mod op_parents;
mod types;

pub use control::{MAX_NESTED, check_regions};
pub use elements::is_ptr;
pub use memory::{ATOMIC_ORDERINGS, LOAD_ORDERINGS, STORE_ORDERINGS, check_mma_types};
pub use module::{check_clc_loops, check_cluster, check_names, uses_clc};
pub use op_parents::OpParents;
pub use types::{check_extents, check_type, is_permutation};

use crate::core_ops::Core;
use crate::tile::{Elem, Global, MemRef, Space, View};
use base::ir::{Op as OpId, OpNode, Operation};
use base::text::TypeText;
use base::{Body, Region, Value};
use numerics::Scalar;

/// The result of checking a rule of the verifier. The error is the message that describes the violation.
pub type RuleResult = Result<(), String>;

/// Returns the message as an error unless the condition `holds` is true.
pub fn require(holds: bool, message: impl FnOnce() -> String) -> RuleResult {
    if holds { Ok(()) } else { Err(message()) }
}

/// A type of `.aa`, `.as` or `.sched` without its layout. The shared rules check only this part of a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CoreType<'a> {
    Tile { elem: Elem, shape: &'a [u32] },
    MemRef(&'a MemRef),
    View(&'a View),
    Token,
}

impl<'a> CoreType<'a> {
    /// The type of a scalar: a tile without dimensions.
    pub fn scalar(scalar: Scalar) -> Self {
        CoreType::Tile { elem: Elem::Scalar(scalar), shape: &[] }
    }
    /// The type of a view's tile.
    pub fn of_view(view: &'a View) -> Self {
        CoreType::Tile { elem: Elem::Scalar(view.memref.elem), shape: &view.tile }
    }
    /// Returns whether a value of this type fits where `to` is expected. A pointer into one space fits where a generic pointer is
    /// expected.
    pub fn fits(self, to: CoreType<'_>) -> bool {
        match (self, to) {
            (
                CoreType::Tile { elem: Elem::Ptr { pointee, .. }, shape },
                CoreType::Tile { elem: Elem::Ptr { pointee: to_pointee, space: Space::Generic }, shape: to_shape },
            ) => pointee == to_pointee && shape == to_shape,
            _ => self == to,
        }
    }
}

/// The type of values in one of the formats `.aa`, `.as` and `.sched`.
pub trait CoreDialectType: PartialEq + TypeText {
    /// The type without its layout.
    fn core_type(&self) -> CoreType<'_>;
    /// Returns whether a value of this type can be forwarded where type `to` is expected.
    fn fits(&self, to: &Self) -> bool {
        self.core_type().fits(to.core_type())
    }
}

/// The op of one of the formats `.aa`, `.as` and `.sched`.
pub trait CoreDialectOp: Operation {
    /// The core op; `None` for an op that only some formats have.
    fn core(&self) -> Option<&Core>;
    fn core_mut(&mut self) -> Option<&mut Core>;
    /// Returns whether a pass can move or repeat the op freely, and remove it if nothing uses its results.
    fn is_pure(&self) -> bool;
    /// The operands and the body of a reduction or scan; `None` for other ops.
    fn combination(&self) -> Option<(&[Value], Region)>;
}

/// An op under check, with the function body and the globals of the module to which the op refers.
pub struct OpContext<'a, O, T> {
    pub body: &'a Body<O, T>,
    pub globals: &'a [Global],
    pub op: &'a OpNode<O>,
}

impl<'a, O: Operation, T: CoreDialectType> OpContext<'a, O, T> {
    pub fn core_type(&self, value: Value) -> CoreType<'a> {
        self.body.ty(value).core_type()
    }

    /// The only result of the op. The error is the message if the op has no result or several.
    pub fn result(&self) -> Result<Value, String> {
        match self.op.results[..] {
            [result] => Ok(result),
            _ => Err(format!("it has one result, not {}", self.op.results.len())),
        }
    }

    /// Checks that the results have exactly these types.
    pub fn check_results(&self, types: &[CoreType<'_>]) -> RuleResult {
        let results = &self.op.results;
        let fit = results.len() == types.len() && results.iter().zip(types).all(|(result, ty)| self.core_type(*result) == *ty);
        require(fit, || "its results have the wrong types".into())
    }

    /// The element type and shape of a tile. The error is the message if the value is not a tile.
    pub fn tile(&self, value: Value) -> Result<(Elem, &'a [u32]), String> {
        match self.core_type(value) {
            CoreType::Tile { elem, shape } => Ok((elem, shape)),
            _ => Err(format!("{value} is not a tile")),
        }
    }

    /// The element type and shape of a tile of numbers. The error is the message for a tile of pointers or another type.
    pub fn scalar_tile(&self, value: Value) -> Result<(Scalar, &'a [u32]), String> {
        let (elem, shape) = self.tile(value)?;
        Ok((elem.scalar().ok_or_else(|| format!("{value} holds pointers"))?, shape))
    }

    /// The element type and shape of the only result, which must be a tile.
    pub fn result_tile(&self) -> Result<(Elem, &'a [u32]), String> {
        self.tile(self.result()?).map_err(|_| "its result is a tile".into())
    }

    /// Checks that all values have this type.
    pub fn check_types(&self, values: &[Value], ty: CoreType<'_>) -> RuleResult {
        match values.iter().find(|value| self.core_type(**value) != ty) {
            Some(value) => Err(format!("{value} has another type than the value it is combined with")),
            None => Ok(()),
        }
    }

    /// Checks that all values are scalar integers.
    pub fn check_scalar_ints(&self, values: &[Value]) -> RuleResult {
        let is_int = |value: &Value| match self.core_type(*value) {
            CoreType::Tile { elem: Elem::Scalar(scalar), shape: [] } => scalar.is_int(),
            _ => false,
        };
        require(values.iter().all(is_int), || "indices, sizes and strides are scalar integers".into())
    }

    /// Checks that all values are tokens.
    pub fn check_tokens(&self, values: impl IntoIterator<Item = Value>) -> RuleResult {
        require(values.into_iter().all(|value| self.core_type(value) == CoreType::Token), || "it is ordered by tokens".into())
    }
}

/// The name of an op in messages. It includes the first result of the op, if there is one.
pub fn describe_op<O: Operation, T>(body: &Body<O, T>, op: OpId) -> String {
    let node = &body.ops[op];
    match node.results.first() {
        Some(result) => format!("{result} = {}", node.kind.mnemonic()),
        None => node.kind.mnemonic().into(),
    }
}
