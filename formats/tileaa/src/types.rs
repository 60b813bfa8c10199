//! The types of `.aa` values.

use base::text::TypeText;
use core_dialect::rules::{CoreDialectType, CoreType};
use core_dialect::tile::{Elem, MemRef, Shape, View, parse_literal, parse_shape, print_literal, print_shape};
use serde::{Deserialize, Serialize};

/// The type of a value in `.aa`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// A tile; a scalar when the shape is empty.
    Tile {
        elem: Elem,
        shape: Shape,
    },
    MemRef(MemRef),
    View(View),
    Token,
}

impl Type {
    /// The type of a scalar: a tile without dimensions.
    pub fn scalar(scalar: numerics::Scalar) -> Type {
        Type::Tile { elem: Elem::Scalar(scalar), shape: Shape::new() }
    }
    pub fn is_token(&self) -> bool {
        *self == Type::Token
    }
    /// The element type of a scalar; `None` for a tile with dimensions, a pointer and other types.
    pub fn as_scalar(&self) -> Option<numerics::Scalar> {
        self.tile().filter(|(_, shape)| shape.is_empty()).and_then(|(elem, _)| elem.scalar())
    }
    /// The element type and the shape of a tile; `None` for other types.
    pub fn tile(&self) -> Option<(Elem, &Shape)> {
        match self {
            Type::Tile { elem, shape } => Some((*elem, shape)),
            _ => None,
        }
    }
}

impl CoreDialectType for Type {
    fn core_type(&self) -> CoreType<'_> {
        match self {
            Type::Tile { elem, shape } => CoreType::Tile { elem: *elem, shape },
            Type::MemRef(memref) => CoreType::MemRef(memref),
            Type::View(view) => CoreType::View(view),
            Type::Token => CoreType::Token,
        }
    }
}

impl TypeText for Type {
    fn print(&self) -> String {
        match self {
            Type::Tile { elem, shape } if shape.is_empty() => elem.print(),
            Type::Tile { elem, shape } => format!("tile<{}{}>", print_shape(shape), elem.print()),
            Type::MemRef(memref) => memref.print(),
            Type::View(view) => view.print(),
            Type::Token => "token".into(),
        }
    }
    fn parse(text: &str) -> Option<Self> {
        let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>');
        if text == "token" {
            Some(Type::Token)
        } else if let Some(tile) = inner("tile") {
            let (shape, elem) = parse_shape(tile);
            Some(Type::Tile { elem: Elem::parse(elem)?, shape })
        } else if text.starts_with("memref<") {
            MemRef::parse(text).map(Type::MemRef)
        } else if text.starts_with("view<") {
            View::parse(text).map(Type::View)
        } else {
            Some(Type::Tile { elem: Elem::parse(text)?, shape: Shape::new() })
        }
    }
    fn table_types(&self) -> Vec<String> {
        match self {
            Type::MemRef(memref) => vec![memref.print()],
            Type::View(view) => vec![view.memref.print(), view.print()],
            _ => Vec::new(),
        }
    }
    fn literal(&self, bits: u64) -> Option<String> {
        self.tile().map(|(elem, _)| elem).map(|elem| print_literal(elem, bits))
    }
    fn literal_bits(&self, literal: &str) -> Option<u64> {
        self.tile().map(|(elem, _)| elem).and_then(|elem| parse_literal(elem, literal))
    }
}
