//! The enumerations of the bytecode: the numbers and spellings of the variants. `core-dialect` and `numerics` define most of these
//! types, because other formats use them too.

use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope, MulticastReduction, Padding};
use numerics::arith::{Overflow, Predicate, Rounding, Signedness};
use serde::{Deserialize, Serialize};

/// An enumeration of the bytecode. The number of a variant is its position in the enumeration, from zero.
pub trait WireEnum: Copy + 'static {
    /// The texts of the variants, by number.
    const SPELLINGS: &'static [&'static str];
    fn number(self) -> u8;
    fn from_number(number: u8) -> Option<Self>;

    fn spelling(self) -> &'static str {
        Self::SPELLINGS[self.number() as usize]
    }
}

macro_rules! wire_enum {
    ($($type:ident { $($variant:ident = $spelling:literal),* $(,)? })*) => {$(
        impl WireEnum for $type {
            const SPELLINGS: &'static [&'static str] = &[$($spelling),*];
            fn number(self) -> u8 {
                self as u8
            }
            fn from_number(number: u8) -> Option<Self> {
                [$($type::$variant),*].get(number as usize).copied()
            }
        }
    )*};
}

/// The result of a float comparison with a NaN: false if ordered, true if unordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ComparisonOrdering {
    Unordered,
    Ordered,
}

/// The direction of a scan along its dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    Forward,
    Reverse,
}

/// An operator of symbolic integer expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ExprOp {
    Mul,
    Div,
    Add,
    Sub,
    FloorDiv,
    CeilDiv,
}

/// The memory that holds a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemorySpace {
    Local,
    Smem,
}

/// The group of threads that an implementation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Synchronization {
    None,
    Warp,
    Warpgroup,
    Cta,
}

/// The access of a function to an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Access {
    In,
    Out,
    InOut,
}

/// The pointer attribute: how several devices share the memory. `Absent` (no attribute) and `None` do not specify the sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PointerSharing {
    #[default]
    Absent,
    None,
    /// Memory of one device that other devices can access.
    Unicast,
    /// One address for the memory of several devices; only multimem ops may access it.
    Multicast,
}

/// The symbol visibility of MLIR: whether code outside the module can refer to a function or global.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Visibility {
    Public,
    Private,
}

wire_enum! {
    Rounding {
        NearestEven = "nearest_even", Zero = "zero", NegativeInf = "negative_inf", PositiveInf = "positive_inf",
        Approx = "approx", Full = "full", NearestIntToZero = "nearest_int_to_zero", NearestAway = "nearest_away",
    }
    Signedness { Unsigned = "unsigned", Signed = "signed" }
    Overflow { None = "none", NoSignedWrap = "no_signed_wrap", NoUnsignedWrap = "no_unsigned_wrap", NoWrap = "no_wrap" }
    Predicate {
        Equal = "equal", NotEqual = "not_equal", LessThan = "less_than", LessThanOrEqual = "less_than_or_equal",
        GreaterThan = "greater_than", GreaterThanOrEqual = "greater_than_or_equal",
    }
    MemoryOrdering { Weak = "weak", Relaxed = "relaxed", Acquire = "acquire", Release = "release", AcqRel = "acq_rel" }
    MemoryScope { TileBlock = "tl_blk", Device = "device", System = "sys" }
    AtomicMode {
        And = "and", Or = "or", Xor = "xor", Add = "add", AddF = "addf", Max = "max", Min = "min", UMax = "umax",
        UMin = "umin", Xchg = "xchg",
    }
    MulticastReduction {
        Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor", UMin = "umin", UMax = "umax",
    }
    Padding { Zero = "zero", NegZero = "neg_zero", Nan = "nan", PosInf = "pos_inf", NegInf = "neg_inf" }
    ComparisonOrdering { Unordered = "unordered", Ordered = "ordered" }
    Direction { Forward = "false", Reverse = "true" }
    Visibility { Public = "public", Private = "private" }
    ExprOp { Mul = "mul", Div = "div", Add = "add", Sub = "sub", FloorDiv = "floor_div", CeilDiv = "ceil_div" }
    MemorySpace { Local = "local", Smem = "smem" }
    Synchronization { None = "none", Warp = "warp", Warpgroup = "warpgroup", Cta = "cta" }
    Access { In = "in", Out = "out", InOut = "inout" }
}

/// The variant `Absent` has no number, because it means that the type has no pointer attribute.
impl PointerSharing {
    pub const SPELLINGS: &'static [&'static str] = &["none", "unicast", "multicast"];

    pub fn number(self) -> Option<u8> {
        (self as u8).checked_sub(1)
    }
    pub fn from_number(number: u64) -> Option<PointerSharing> {
        let variants = [PointerSharing::None, PointerSharing::Unicast, PointerSharing::Multicast];
        variants.get(usize::try_from(number).ok()?).copied()
    }
    pub fn spelling(self) -> &'static str {
        self.number().map_or("none", |number| Self::SPELLINGS[number as usize])
    }
}
