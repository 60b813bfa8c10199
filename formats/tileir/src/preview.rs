//! Preview content of 13.5 (`simt`): functions for single threads that a tile program calls by name, and the symbolic expressions
//! in their types. This crate reads, prints, writes and verifies preview content. No stage after `.tile` accepts it.

use crate::enums::{ExprOp, Synchronization, Visibility};
use crate::reader_limits::MAX_RANK;
use crate::types::{Attribute, DYNAMIC, Dictionary, Fragment, Preview, PreviewType, StringId, Type, TypeId};
use base::Loc;
use serde::{Deserialize, Serialize};

/// The name of the attribute with a function's access to an argument.
pub const ACCESS_ATTRIBUTE: &str = "cuda_tile.preview$access";

/// A function that is declared only, or implemented outside the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extern {
    pub name: StringId,
    pub ty: TypeId,
    pub visibility: Visibility,
    pub arg_attrs: Box<[Dictionary]>,
    pub const_params: Box<[Preview]>,
    /// The implementation outside the module; `None` for a declaration.
    pub implementation: Option<Box<Implementation>>,
    pub loc: Loc,
    /// The position of the function in the module: the number of entry functions before it.
    pub after: u32,
}

/// The properties of a function's implementation outside the module, besides its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Implementation {
    /// The name of the implemented function.
    pub implements: StringId,
    pub const_args: Box<[Preview]>,
    pub res_attrs: Option<Box<[Attribute]>>,
    /// The size and the alignment of the shared memory that the implementation uses.
    pub scratch: Option<(Preview, Preview)>,
    pub config: Option<Dictionary>,
    pub arch: Option<Box<[StringId]>>,
    pub abi: Option<Dictionary>,
    pub synchronization: Option<Synchronization>,
    pub provider_score: Option<u64>,
}

impl Extern {
    /// The op's name in messages.
    pub fn mnemonic(&self) -> &'static str {
        if self.implementation.is_some() { "preview$extern_impl" } else { "preview$func" }
    }
}

impl Preview {
    /// Whether the attribute is a valid value of a constant parameter, such as an integer expression.
    pub fn is_expression(&self) -> bool {
        match self {
            Preview::Tuple(parts) => parts.iter().all(Preview::is_expression),
            Preview::Int(_)
            | Preview::Var(_)
            | Preview::Binary { .. }
            | Preview::Neg(_)
            | Preview::ConcreteType(_)
            | Preview::Builtin { .. }
            | Preview::ConstString(_) => true,
            _ => false,
        }
    }

    /// Whether the attribute can be an extent: it has only names and numbers, combined by `+`, `-`, `*` and negation.
    pub fn is_extent(&self) -> bool {
        match self {
            Preview::Int(_) | Preview::Var(_) | Preview::Builtin { .. } => true,
            Preview::Neg(inner) => inner.is_extent(),
            Preview::Binary { op: ExprOp::Mul | ExprOp::Add | ExprOp::Sub, lhs, rhs } => lhs.is_extent() && rhs.is_extent(),
            _ => false,
        }
    }

    /// The attributes that the attribute directly contains.
    fn children(&self) -> Vec<&Preview> {
        match self {
            Preview::Binary { lhs, rhs, .. } => vec![lhs, rhs],
            Preview::Neg(inner) => vec![inner],
            Preview::Tuple(parts) => parts.iter().collect(),
            Preview::Layout { shape, strides } => shape.iter().chain(strides).collect(),
            Preview::Scratch { size, alignment } => vec![size, alignment],
            _ => Vec::new(),
        }
    }

    /// Calls `f` with the attribute and with all attributes in it.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Preview)) {
        f(self);
        self.children().into_iter().for_each(|part| part.walk(f));
    }

    /// The nesting depth: 1 for an attribute without children.
    pub fn depth(&self) -> usize {
        1 + self.children().into_iter().map(Preview::depth).max().unwrap_or(0)
    }
}

impl PreviewType {
    /// The element type and the attributes that the type contains.
    pub fn element_and_attributes(&self) -> (Option<TypeId>, Vec<&Preview>) {
        match self {
            PreviewType::Symbol(name) => (None, vec![name]),
            PreviewType::Tile { element, symbols, .. } => (Some(*element), symbols.iter().collect()),
            PreviewType::Fragment(fragment) => {
                let Fragment { symbols, layout, map, alignment, .. } = &**fragment;
                (Some(fragment.element), symbols.iter().chain([layout, map, alignment]).collect())
            }
            _ => (None, Vec::new()),
        }
    }
}

impl Type {
    pub fn preview(&self) -> Option<&PreviewType> {
        if let Type::Preview(preview) = self { Some(preview) } else { None }
    }
}

/// Checks that `shape` has the numeric extents of the symbolic shape `symbols`, and [`DYNAMIC`] for its other extents.
pub(crate) fn check_symbols(symbols: &[Preview], shape: &[i64]) -> std::result::Result<(), String> {
    if symbols.len() != shape.len() || shape.len() > MAX_RANK {
        return Err("concrete shape cache and symbolic shape have different ranks".into());
    }
    for (i, (symbol, dim)) in symbols.iter().zip(shape).enumerate() {
        if !symbol.is_extent() {
            return Err(format!("shape dimension {i} must be an integer-valued expression"));
        }
        let expected_dim = if let Preview::Int(extent) = symbol { *extent } else { DYNAMIC };
        if *dim != expected_dim {
            return Err(format!("concrete shape cache dimension {i} does not match symbolic shape"));
        }
    }
    Ok(())
}
