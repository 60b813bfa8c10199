//! The types of `.as` values.

use crate::layout::LayoutId;
use base::text::TypeText;
use serde::{Deserialize, Serialize};
use vocabulary::rules::{MiddleType, Seen};
use vocabulary::tile::{Elem, MemRef, Shape, View, parse_shape, print_shape};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// Known alike to every thread of the block.
    Scalar(Elem),
    /// Spread over registers, lanes and warps.
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
    pub fn elem(&self) -> Option<Elem> {
        match self {
            Type::Scalar(elem) | Type::Tile { elem, .. } => Some(*elem),
            _ => None,
        }
    }
    pub fn shape(&self) -> &[u32] {
        match self {
            Type::Tile { shape, .. } => shape,
            _ => &[],
        }
    }
    pub fn layout(&self) -> Option<LayoutId> {
        match self {
            Type::Tile { layout, .. } => Some(*layout),
            _ => None,
        }
    }
}

impl MiddleType for Type {
    fn seen(&self) -> Seen<'_> {
        match self {
            Type::Scalar(elem) => Seen::Tile { elem: *elem, shape: &[] },
            Type::Tile { elem, shape, .. } => Seen::Tile { elem: *elem, shape },
            Type::MemRef(memref) => Seen::MemRef(memref),
            Type::View(view) => Seen::View(view),
            Type::Token => Seen::Token,
        }
    }
    fn fits(&self, to: &Self) -> bool {
        self.layout() == to.layout() && self.seen().fits(to.seen())
    }
}

impl TypeText for Type {
    fn print(&self) -> String {
        match self {
            Type::Scalar(elem) => elem.print(),
            Type::Tile { elem, shape, layout } => format!("tile<{}{}, {layout}>", print_shape(shape), elem.print()),
            Type::MemRef(memref) => format!("memref<{}>", base::text::to_text(memref)),
            Type::View(view) => format!("view<{}>", base::text::to_text(view)),
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
        } else if let Some(memref) = inner("memref") {
            base::text::from_text(memref).map(Type::MemRef)
        } else if let Some(view) = inner("view") {
            base::text::from_text(view).map(Type::View)
        } else {
            Elem::parse(text).map(Type::Scalar)
        }
    }
}
