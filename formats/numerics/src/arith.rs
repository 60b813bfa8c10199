//! Element-wise scalar operations of `.tile`, `.aa`, `.as` and `.sched`, and their semantics.
//!
//! The enums name the operations. `eval` applies an operation to the bits of one element, `eval_words` to all elements of a tile.
//! Tile IR does not define the results of approximate functions exactly. Here, such a result is correctly rounded, or it is the
//! result of the host's `f64` function, rounded once. Both kinds of results are deterministic.
//! In all operations, `ftz` replaces operands and results that are subnormal in f32 by zero, as the PTX modifier `.ftz` does.

mod convert;
mod double;
mod float;
mod int;
mod math;
mod word;

pub use crate::rounding::Rounding;
pub use convert::ToBool;
pub use word::{ElementWords, Word};

use crate::Scalar;
use serde::{Deserialize, Serialize};
use word::{AllElements, Map2, OneElement};

/// Whether an integer operation interprets its operands as signed or unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signedness {
    Unsigned,
    Signed,
}

/// The kind of integer overflow that does not occur in the operation, as the program promises. This crate ignores the promise:
/// results always wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    None,
    NoSignedWrap,
    NoUnsignedWrap,
    NoWrap,
}

/// The relation that a comparison tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicate {
    Equal,
    NotEqual,
    LessThan,
    LessThanOrEqual,
    GreaterThan,
    GreaterThanOrEqual,
}

/// An operation with one operand, on integers (`AbsI`, `NegI`) or floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unary {
    AbsF,
    AbsI,
    NegF,
    NegI { overflow: Overflow },
    Ceil,
    Floor,
    Sqrt { rounding: Rounding, ftz: bool },
    Rsqrt { ftz: bool },
    Exp { rounding: Rounding },
    Exp2 { ftz: bool },
    Log,
    Log2,
    Sin,
    Cos,
    Tan,
    Sinh,
    Cosh,
    Tanh { rounding: Rounding },
}

/// An operation with two operands of one type, on integers or floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binary {
    AddF {
        rounding: Rounding,
        ftz: bool,
    },
    SubF {
        rounding: Rounding,
        ftz: bool,
    },
    MulF {
        rounding: Rounding,
        ftz: bool,
    },
    DivF {
        rounding: Rounding,
        ftz: bool,
    },
    RemF,
    MaxF {
        /// Whether the result is NaN if one operand is NaN. Otherwise the result is the other operand.
        propagate_nan: bool,
        ftz: bool,
    },
    MinF {
        propagate_nan: bool,
        ftz: bool,
    },
    PowF,
    /// A float raised to an integer power. The right operand is the integer.
    PowI,
    Atan2,
    AddI {
        overflow: Overflow,
    },
    SubI {
        overflow: Overflow,
    },
    MulI {
        overflow: Overflow,
    },
    /// The upper half of the unsigned product.
    MulHiU,
    DivI {
        signedness: Signedness,
        rounding: Rounding,
    },
    RemI {
        signedness: Signedness,
    },
    MaxI {
        signedness: Signedness,
    },
    MinI {
        signedness: Signedness,
    },
    And,
    Or,
    Xor,
    ShL {
        overflow: Overflow,
    },
    ShR {
        signedness: Signedness,
    },
}

/// A comparison of two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// If an operand is NaN, an `ordered` comparison is false, and an unordered comparison is true.
    Float {
        predicate: Predicate,
        ordered: bool,
    },
    Int {
        predicate: Predicate,
        signedness: Signedness,
    },
}

/// A conversion of an operand to another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convert {
    ExtI { signedness: Signedness },
    TruncI { overflow: Overflow },
    FToF { rounding: Rounding },
    FToI { signedness: Signedness, saturating: bool },
    IToF { signedness: Signedness, rounding: Rounding },
    Bitcast,
}

/// A fused multiply-add `a * b + c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fma {
    pub rounding: Rounding,
    pub ftz: bool,
}

impl Unary {
    fn is_int(self) -> bool {
        matches!(self, Unary::AbsI | Unary::NegI { .. })
    }

    /// Returns the bits of the result for operand bits `x` of type `ty`.
    pub fn eval(self, ty: Scalar, x: u64) -> u64 {
        if self.is_int() { int::unary(self, ty, OneElement([x])) } else { float::unary(self, ty, OneElement([x])) }
    }

    /// Applies `eval` to all elements of the operands.
    pub fn eval_words(self, ty: Scalar, x: &ElementWords) -> ElementWords {
        if self.is_int() { int::unary(self, ty, AllElements([x])) } else { float::unary(self, ty, AllElements([x])) }
    }
}

impl Binary {
    /// Returns whether the result stays the same if the operands are swapped. Different bits of a NaN count as the same.
    pub fn is_commutative(self) -> bool {
        use Binary::*;
        match self {
            AddF { .. } | MulF { .. } | MaxF { .. } | MinF { .. } => true,
            AddI { .. } | MulI { .. } | MulHiU | MaxI { .. } | MinI { .. } | And | Or | Xor => true,
            SubF { .. } | DivF { .. } | RemF | PowF | PowI | Atan2 => false,
            SubI { .. } | DivI { .. } | RemI { .. } | ShL { .. } | ShR { .. } => false,
        }
    }

    pub fn is_int(self) -> bool {
        match self {
            Binary::AddF { .. } | Binary::SubF { .. } | Binary::MulF { .. } | Binary::DivF { .. } | Binary::RemF => false,
            Binary::MaxF { .. } | Binary::MinF { .. } | Binary::PowF | Binary::PowI | Binary::Atan2 => false,
            Binary::AddI { .. } | Binary::SubI { .. } | Binary::MulI { .. } | Binary::MulHiU => true,
            Binary::DivI { .. } | Binary::RemI { .. } | Binary::MaxI { .. } | Binary::MinI { .. } => true,
            Binary::And | Binary::Or | Binary::Xor | Binary::ShL { .. } | Binary::ShR { .. } => true,
        }
    }

    /// Returns the bits of the result for operands of type `ty`. The exponent of `PowI` has the bits of an i64.
    pub fn eval(self, ty: Scalar, a: u64, b: u64) -> u64 {
        if self.is_int() { int::binary(self, ty, OneElement([a, b])) } else { float::binary(self, ty, OneElement([a, b])) }
    }

    /// Applies `eval` to all elements of the operands.
    pub fn eval_words(self, ty: Scalar, a: &ElementWords, b: &ElementWords) -> ElementWords {
        if self.is_int() { int::binary(self, ty, AllElements([a, b])) } else { float::binary(self, ty, AllElements([a, b])) }
    }
}

impl Compare {
    fn apply<M: Map2>(self, ty: Scalar, map: M) -> M::Output {
        match self {
            Compare::Float { predicate, ordered } => float::compare(predicate, ordered, ty, map),
            Compare::Int { predicate, signedness } => int::compare(predicate, signedness, ty, map),
        }
    }

    /// Returns the result, 1 or 0, for operands of type `ty`.
    pub fn eval(self, ty: Scalar, a: u64, b: u64) -> u64 {
        self.apply(ty, OneElement([a, b]))
    }

    /// Applies `eval` to all elements of the operands.
    pub fn eval_words(self, ty: Scalar, a: &ElementWords, b: &ElementWords) -> ElementWords {
        self.apply(ty, AllElements([a, b]))
    }
}

impl Convert {
    /// Returns the bits of type `to` that result from the bits `x` of type `from`.
    pub fn eval(self, from: Scalar, to: Scalar, x: u64) -> u64 {
        self.apply(from, to, OneElement([x]))
    }

    /// Applies `eval` to all elements of the operand.
    pub fn eval_words(self, from: Scalar, to: Scalar, x: &ElementWords) -> ElementWords {
        self.apply(from, to, AllElements([x]))
    }
}

impl Fma {
    /// Returns the bits of `a * b + c` for operands of type `ty`, rounded once.
    pub fn eval(self, ty: Scalar, a: u64, b: u64, c: u64) -> u64 {
        self.apply(ty, OneElement([a, b, c]))
    }

    /// Applies `eval` to all elements of the operands.
    pub fn eval_words(self, ty: Scalar, a: &ElementWords, b: &ElementWords, c: &ElementWords) -> ElementWords {
        self.apply(ty, AllElements([a, b, c]))
    }
}
