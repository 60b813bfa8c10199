//! Tiles, pointers, strided memory and views as the middle formats (`.aa`, `.as`, `.sched`) type them.

use crate::memory::Padding;
use base::Loc;
use base::text::TypeText;
use numerics::Scalar;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The extents of a tile; empty for a scalar. Each is a power of two.
pub type Shape = SmallVec<[u32; 4]>;

/// Where a pointer points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    Global,
    /// Memory of one tile block, from `alloca`.
    Local,
    /// Could be either; only a pointer made from an integer or read from memory.
    Generic,
}

/// What a tile holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Elem {
    Scalar(Scalar),
    Ptr { pointee: Scalar, space: Space },
}

/// A strided object in memory: a base with an extent and a stride, in elements, for each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemRef {
    pub elem: Scalar,
    pub space: Space,
    /// `None` where the extent is an operand of the op that made it.
    pub sizes: Vec<Option<u64>>,
    pub strides: Vec<Option<u64>>,
    /// The object that the base was derived from, numbered from 1 in its function; 0 when it is not known. Different scopes
    /// are different parameters, globals or allocations, yet a caller may pass the same memory twice: tokens alone order.
    pub alias_scope: u32,
}

/// How a view cuts a memref into tiles.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    pub memref: MemRef,
    pub tile: Shape,
    /// `dim_map[t]` is the memref dimension that tile dimension `t` runs along.
    pub dim_map: Vec<u32>,
    pub kind: ViewKind,
    /// What a load gives outside the memref; unspecified when `None`.
    pub padding: Option<Padding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewKind {
    /// Tiles side by side: tile index `i` starts at `i * tile`.
    Partition,
    /// Tile index `i` starts at `i * step`.
    Strided { steps: Vec<u32> },
    /// Along `sparse_dim` every row has its own index, from a one-dimensional tile; along the others the index is the first
    /// element's.
    Gather { sparse_dim: u32 },
}

/// The bits of a constant tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dense {
    /// Every element alike.
    Splat(u64),
    /// Row by row.
    Elements(Vec<u64>),
}

/// Memory that exists as long as the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Global {
    pub name: String,
    pub elem: Scalar,
    pub count: u64,
    pub value: Dense,
    pub align: u64,
    pub constant: bool,
    pub private: bool,
    pub loc: Loc,
}

impl Dense {
    pub fn at(&self, index: usize) -> u64 {
        match self {
            Dense::Splat(bits) => *bits,
            Dense::Elements(all) => all[index],
        }
    }
}

impl Elem {
    pub fn bits(self) -> u32 {
        match self {
            Elem::Scalar(scalar) => scalar.bits(),
            Elem::Ptr { .. } => 64,
        }
    }
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
    pub fn scalar(self) -> Option<Scalar> {
        match self {
            Elem::Scalar(scalar) => Some(scalar),
            Elem::Ptr { .. } => None,
        }
    }
    /// The type of the bits: a pointer counts as a 64-bit integer.
    pub fn carrier(self) -> Scalar {
        self.scalar().unwrap_or(Scalar::I64)
    }
}

impl ViewKind {
    /// How far apart the origins of neighbouring tiles are along tile dimension `t`.
    pub fn step(&self, tile: &Shape, t: usize) -> u32 {
        match self {
            ViewKind::Strided { steps } => steps[t],
            ViewKind::Partition => tile[t],
            ViewKind::Gather { .. } => 1,
        }
    }
}

pub fn element_count(shape: &[u32]) -> usize {
    shape.iter().map(|dim| *dim as usize).product()
}

impl TypeText for Elem {
    fn print(&self) -> String {
        match self {
            Elem::Scalar(scalar) => scalar.name().into(),
            Elem::Ptr { pointee, space: Space::Global } => format!("ptr<{pointee}>"),
            Elem::Ptr { pointee, space: Space::Local } => format!("ptr<{pointee}, local>"),
            Elem::Ptr { pointee, space: Space::Generic } => format!("ptr<{pointee}, generic>"),
        }
    }
    fn parse(text: &str) -> Option<Self> {
        let Some(inner) = text.strip_prefix("ptr<").and_then(|rest| rest.strip_suffix('>')) else {
            return Scalar::parse(text).map(Elem::Scalar);
        };
        let (pointee, space) = match inner.split_once(", ") {
            None => (inner, Space::Global),
            Some((pointee, "local")) => (pointee, Space::Local),
            Some((pointee, "generic")) => (pointee, Space::Generic),
            Some(_) => return None,
        };
        Some(Elem::Ptr { pointee: Scalar::parse(pointee)?, space })
    }
}

/// `8x16x` before an element type; nothing for a scalar.
pub fn print_shape(shape: &[u32]) -> String {
    shape.iter().map(|dim| format!("{dim}x")).collect()
}

/// Splits `8x16xf32` into its extents and the rest.
pub fn parse_shape(text: &str) -> (Shape, &str) {
    let mut shape = Shape::new();
    let mut rest = text;
    while let Some((dim, after)) = rest.split_once('x')
        && let Ok(dim) = dim.parse()
    {
        shape.push(dim);
        rest = after;
    }
    (shape, rest)
}
