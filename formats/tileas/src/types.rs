//! The types of `.as` values.

use crate::layout::LayoutId;
use base::text::TypeText;
use core_dialect::rules::{CoreDialectType, CoreType};
use core_dialect::tile::{Elem, MemRef, Shape, View, parse_literal, parse_shape, print_literal, print_shape};
use serde::{Deserialize, Serialize};

/// The type of a value in `.as`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// A scalar, with the same value in every thread of the CTA.
    Scalar(Elem),
    /// A tile, distributed over registers, lanes and warps.
    Tile {
        elem: Elem,
        shape: Shape,
        layout: LayoutId,
    },
    MemRef(MemRef),
    View(View),
    Token,
}

impl Type {
    /// The element type of a scalar or tile.
    pub fn elem(&self) -> Option<Elem> {
        match self {
            Type::Scalar(elem) | Type::Tile { elem, .. } => Some(*elem),
            _ => None,
        }
    }
    /// The extents of a tile; empty for other types.
    pub fn shape(&self) -> &[u32] {
        match self {
            Type::Tile { shape, .. } => shape,
            _ => &[],
        }
    }
    /// The layout of a tile.
    pub fn layout(&self) -> Option<LayoutId> {
        match self {
            Type::Tile { layout, .. } => Some(*layout),
            _ => None,
        }
    }
}

impl CoreDialectType for Type {
    fn core_type(&self) -> CoreType<'_> {
        match self {
            Type::Scalar(elem) => CoreType::Tile { elem: *elem, shape: &[] },
            Type::Tile { elem, shape, .. } => CoreType::Tile { elem: *elem, shape },
            Type::MemRef(memref) => CoreType::MemRef(memref),
            Type::View(view) => CoreType::View(view),
            Type::Token => CoreType::Token,
        }
    }
    fn fits(&self, to: &Self) -> bool {
        self.layout() == to.layout() && self.core_type().fits(to.core_type())
    }
}

impl TypeText for Type {
    fn print(&self) -> String {
        match self {
            Type::Scalar(elem) => elem.print(),
            Type::Tile { elem, shape, layout } => format!("tile<{}{}, {layout}>", print_shape(shape), elem.print()),
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
            let (rest, layout) = tile.rsplit_once(", #")?;
            let (shape, elem) = parse_shape(rest);
            Some(Type::Tile { elem: Elem::parse(elem)?, shape, layout: LayoutId(layout.parse().ok()?) })
        } else if text.starts_with("memref<") {
            MemRef::parse(text).map(Type::MemRef)
        } else if text.starts_with("view<") {
            View::parse(text).map(Type::View)
        } else {
            Elem::parse(text).map(Type::Scalar)
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
        self.elem().map(|elem| print_literal(elem, bits))
    }
    fn literal_bits(&self, literal: &str) -> Option<u64> {
        self.elem().and_then(|elem| parse_literal(elem, literal))
    }
}
