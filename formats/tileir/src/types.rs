//! The types of Tile IR, and the attributes that ops and hints carry. Both are interned or referenced by id in the module.

use crate::preview::{Preview, PreviewType};
use core_dialect::memory::{MulticastReduction, Padding};
use numerics::Scalar;
use serde::{Deserialize, Serialize};

base::entity! {
    /// A type of the module; equal types have equal ids.
    pub struct TypeId = "!";
}
base::entity! {
    /// A string of the module.
    pub struct StringId = "$";
}
base::entity! {
    /// The data of a constant or of a global's initial value.
    pub struct ConstantId = "#";
}

/// A reference to a global by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol(pub StringId);

/// In the shape or strides of a tensor view: known only when the kernel runs.
pub const DYNAMIC: i64 = i64::MIN;

/// What a tile is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Element {
    Scalar(Scalar),
    Ptr(Pointer),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Type {
    /// Outside tiles these occur only as parts of other types.
    Scalar(Scalar),
    Ptr(Pointer),
    Tile {
        element: Element,
        shape: Box<[i64]>,
    },
    /// Dimensions and strides in elements; [`DYNAMIC`] ones are operands of `make_tensor_view`.
    TensorView {
        element: Scalar,
        shape: Box<[i64]>,
        strides: Box<[i64]>,
        space: PointerSpace,
    },
    /// The tensor cut into tiles that touch each other; tile dimension `i` runs along tensor dimension `dim_map[i]`.
    PartitionView {
        tile: Box<[i32]>,
        tensor: TypeId,
        dim_map: Box<[i32]>,
        padding: Option<Padding>,
    },
    /// As a partition, but the origins of neighbouring tiles are `traversal` elements apart.
    StridedView {
        tile: Box<[i32]>,
        traversal: Box<[i32]>,
        tensor: TypeId,
        dim_map: Box<[i32]>,
        padding: Option<Padding>,
    },
    /// Rows of the tensor picked by an index tile along `sparse_dim`.
    GatherScatterView {
        tile: Box<[i32]>,
        tensor: TypeId,
        sparse_dim: u32,
        padding: Option<Padding>,
    },
    Function {
        inputs: Box<[TypeId]>,
        results: Box<[TypeId]>,
    },
    Token,
    Preview(PreviewType),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pointer {
    pub pointee: Scalar,
    pub space: PointerSpace,
}

/// The pointer attribute: what the memory behind a pointer is among several devices. Absent and `none` say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PointerSpace {
    #[default]
    Absent,
    None,
    /// Memory of one device that others can reach.
    Unicast,
    /// One address for memory of several devices; only multimem ops may access it.
    Multicast,
}

impl Element {
    pub fn scalar(self) -> Option<Scalar> {
        match self {
            Element::Scalar(scalar) => Some(scalar),
            Element::Ptr(_) => None,
        }
    }
    pub fn pointee(self) -> Option<Scalar> {
        match self {
            Element::Scalar(_) => None,
            Element::Ptr(pointer) => Some(pointer.pointee),
        }
    }
    /// Width in bits of one element as a value.
    pub fn bits(self) -> u32 {
        self.scalar().map_or(64, Scalar::bits)
    }
}

impl Type {
    pub fn tile(&self) -> Option<(Element, &[i64])> {
        match self {
            Type::Tile { element, shape } => Some((*element, shape)),
            _ => None,
        }
    }
    /// The tile shape of any of the views, and the tensor view they look at.
    pub fn tile_view(&self) -> Option<(&[i32], TypeId)> {
        match self {
            Type::PartitionView { tile, tensor, .. }
            | Type::StridedView { tile, tensor, .. }
            | Type::GatherScatterView { tile, tensor, .. } => Some((tile, *tensor)),
            _ => None,
        }
    }
    pub fn padding(&self) -> Option<Padding> {
        match self {
            Type::PartitionView { padding, .. } | Type::StridedView { padding, .. } | Type::GatherScatterView { padding, .. } => {
                *padding
            }
            _ => None,
        }
    }
    pub fn is_token(&self) -> bool {
        *self == Type::Token
    }
}

/// A value known when the program was written. Those of `optimization_hints` stay unresolved until the target is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Attribute {
    /// Bits above the type's width are zero.
    Integer {
        ty: TypeId,
        bits: u64,
    },
    Float {
        ty: TypeId,
        bits: u64,
    },
    Bool(bool),
    Type(TypeId),
    String(StringId),
    Array(Box<[Attribute]>),
    Dense {
        ty: TypeId,
        data: ConstantId,
    },
    Dictionary(Dictionary),
    OptimizationHints(Dictionary),
    DivBy {
        divisor: u64,
        every: Option<i64>,
        along: Option<i64>,
    },
    SameElements(Box<[i64]>),
    Bounded {
        lower: Option<i64>,
        upper: Option<i64>,
    },
    MulticastReduction(MulticastReduction),
    Preview(Preview),
}

/// Names with values, in the order of the file.
pub type Dictionary = Box<[(StringId, Attribute)]>;
