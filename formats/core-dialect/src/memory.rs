//! The vocabulary of memory operations that `.tile`, `.aa` and `.as` share. The order of variants is the bytecode's numbering.

use serde::{Deserialize, Serialize};

/// What a memory access promises to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOrdering {
    /// No concurrent access to the same element is assumed to happen.
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

/// Between whom an access that is not weak is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    TileBlock,
    Device,
    System,
}

/// What an atomic read-modify-write does with the old value and its operand.
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

/// How a multicast access combines the copies of an element that the devices hold, or what is stored with what is there.
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

/// What a store to multicast memory does to each copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MulticastWrite {
    Replace,
    Combine(MulticastReduction),
}

impl MulticastWrite {
    pub fn reduction(self) -> Option<MulticastReduction> {
        match self {
            MulticastWrite::Replace => None,
            MulticastWrite::Combine(reduction) => Some(reduction),
        }
    }
}

/// What the memory behind a pointer is among several devices, where the program says so. Not every target has such pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Memory of one device that others can reach.
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

/// What a load gives for elements outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    Zero,
    NegZero,
    Nan,
    PosInf,
    NegInf,
}

/// How an access is ordered against other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    pub semantics: MemoryOrdering,
    /// `None` exactly when the semantics is weak.
    pub scope: Option<MemoryScope>,
}
