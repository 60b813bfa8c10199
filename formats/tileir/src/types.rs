//! The types of Tile IR, and the attributes of ops and hints. A module stores each type and string once; attributes refer to types
//! and strings by id.

use crate::enums::{Access, ExprOp, MemorySpace, PointerSharing, Synchronization};
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
    /// The data of a constant, or of a global's initial value.
    pub struct ConstantId = "#";
}

/// A reference to a global by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol(pub StringId);

/// An extent or stride of a tensor view that is known only at run time.
pub const DYNAMIC: i64 = i64::MIN;

/// The type of a tile's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Element {
    Scalar(Scalar),
    Ptr(Pointer),
}

/// A type of Tile IR.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Type {
    /// A scalar type. No value has a scalar type: a scalar occurs only inside another type, such as a tile.
    Scalar(Scalar),
    Ptr(Pointer),
    Tile {
        element: Element,
        shape: Box<[i64]>,
    },
    /// The extents, and the strides in elements. [`DYNAMIC`] extents and strides are operands of `make_tensor_view`.
    TensorView {
        element: Scalar,
        shape: Box<[i64]>,
        strides: Box<[i64]>,
        space: PointerSharing,
    },
    /// The tensor partitioned into adjacent tiles; tile dimension `i` runs along tensor dimension `dim_map[i]`.
    PartitionView {
        tile: Box<[i32]>,
        tensor: TypeId,
        dim_map: Box<[i32]>,
        padding: Option<Padding>,
    },
    /// Like a partition view, but the origins of neighbouring tiles are `traversal` elements apart, so tiles can overlap.
    StridedView {
        tile: Box<[i32]>,
        traversal: Box<[i32]>,
        tensor: TypeId,
        dim_map: Box<[i32]>,
        padding: Option<Padding>,
    },
    /// Rows of the tensor selected by an index tile along `sparse_dim`.
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
    /// A type that exists only in preview content.
    Preview(PreviewType),
}

/// A pointer type: the pointee, and how devices share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pointer {
    pub pointee: Scalar,
    /// How several devices share the memory to which the pointer points.
    pub space: PointerSharing,
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
    /// The element type and shape, if the type is a tile.
    pub fn tile(&self) -> Option<(Element, &[i64])> {
        match self {
            Type::Tile { element, shape } => Some((*element, shape)),
            _ => None,
        }
    }
    /// The tile shape and the tensor view of a partition, strided or gather/scatter view. `None` for other types.
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

/// A compile-time value of an op, hint or parameter. The dictionary in `OptimizationHints` has hints for several targets; a later
/// stage selects the hints of its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Attribute {
    /// An integer as its bits. The bits above the width of the type are zero.
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
    /// A predicate of `assume`: `divisor` divides the values. With `every` and `along`, it divides the first value of each group of
    /// `every` consecutive values along the dimension `along`.
    DivBy {
        divisor: u64,
        every: Option<i64>,
        along: Option<i64>,
    },
    SameElements(Box<[i64]>),
    /// A predicate of `assume`: the values are between the bounds, both included. `None` means no bound.
    Bounded {
        lower: Option<i64>,
        upper: Option<i64>,
    },
    MulticastReduction(MulticastReduction),
    Preview(Preview),
}

/// Names with values, sorted by name. Bytecode and text may have another order; their readers sort the entries.
pub type Dictionary = Box<[(StringId, Attribute)]>;

/// An attribute that exists only in preview content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Preview {
    Int(i64),
    Var(StringId),
    Binary { op: ExprOp, lhs: Box<Preview>, rhs: Box<Preview> },
    Neg(Box<Preview>),
    Tuple(Box<[Preview]>),
    Layout { shape: Box<[Preview]>, strides: Box<[Preview]> },
    ConcreteType(TypeId),
    MemorySpace(MemorySpace),
    Synchronization(Synchronization),
    Access(Access),
    Scratch { size: Box<Preview>, alignment: Box<Preview> },
    ConstParam { name: StringId, ty: TypeId },
    Builtin { name: StringId, ty: TypeId },
    ConstString(StringId),
}

/// A type that exists only in preview content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PreviewType {
    /// A type known by name only.
    Symbol(Preview),
    /// A tile with symbolic extents, which are [`DYNAMIC`] in `shape`.
    Tile {
        element: TypeId,
        shape: Box<[i64]>,
        symbols: Box<[Preview]>,
    },
    /// The part of a tile that one thread holds.
    Fragment(Box<Fragment>),
    Datatype,
    Shape,
    String,
    Index,
    None,
}

/// The part of a tile that one thread holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fragment {
    /// The extents of the tile as expressions. `shape` has the numeric extents, and [`DYNAMIC`] for the others.
    pub symbols: Box<[Preview]>,
    pub shape: Box<[i64]>,
    pub element: TypeId,
    pub space: MemorySpace,
    pub layout: Preview,
    pub map: Preview,
    pub alignment: Preview,
}
