//! The rounding of float operations and conversions.

use serde::{Deserialize, Serialize};

/// The rounding of an inexact result. The variants are in the order of their numbers in the bytecode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// To the nearest number. A number in the middle of two neighbours rounds to the neighbour whose last bit is 0.
    NearestEven,
    Zero,
    NegativeInf,
    PositiveInf,
    /// A fast approximation, as in PTX `.approx`. This crate computes the correctly rounded result instead.
    Approx,
    /// An approximation of nearly full precision, as in PTX `div.full`. This crate computes the correctly rounded result instead.
    Full,
    /// Toward zero, to an integer.
    NearestIntToZero,
    /// To the nearest number. A number in the middle of two neighbours rounds away from zero.
    NearestAway,
}
