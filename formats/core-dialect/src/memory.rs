//! Attributes of memory operations that `.tile`, `.aa` and `.as` share. The order of an enum's variants is the numbering of the
//! Tile IR bytecode.

use serde::{Deserialize, Serialize};

/// The ordering of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOrdering {
    /// The compiler may assume that no concurrent access to the same element happens.
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

/// The threads among which the ordering of an access holds. A weak access has no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    TileBlock,
    Device,
    System,
}

/// The operation of an atomic read-modify-write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtomicMode {
    And,
    Or,
    Xor,
    Add,
    AddF,
    Max,
    Min,
    UMax,
    UMin,
    Xchg,
}

/// The operation of a multicast access. A load combines the copies of an element on all devices. A store combines the stored value
/// with each copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MulticastReduction {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    UMin,
    UMax,
}

/// The effect of a multicast store on the copy of an element on each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MulticastWrite {
    Replace,
    Combine(MulticastReduction),
}

impl MulticastWrite {
    /// The operation that combines the stored value with each copy; `None` if the store replaces the copies.
    pub fn reduction(self) -> Option<MulticastReduction> {
        match self {
            MulticastWrite::Replace => None,
            MulticastWrite::Combine(reduction) => Some(reduction),
        }
    }
}

/// How several devices share the memory to which a pointer refers, as the program declares. Only targets with
/// `Feature::MultimemPointers` support these pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Memory of one device that other devices can access.
    Unicast,
    /// One address for memory of several devices.
    Multicast,
}

impl Sharing {
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Unicast => "unicast",
            Sharing::Multicast => "multicast",
        }
    }
}

/// The value of a load for elements outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    Zero,
    NegZero,
    Nan,
    PosInf,
    NegInf,
}

/// The memory ordering of an access, and the threads among which the ordering holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    pub semantics: MemoryOrdering,
    /// `None` if, and only if, `semantics` is `Weak`.
    pub scope: Option<MemoryScope>,
}
