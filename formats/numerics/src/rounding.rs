//! The rounding of float operations and conversions.

use serde::{Deserialize, Serialize};

/// The rounding of an inexact result. The variants are in the order of their numbers in the bytecode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    NearestEven,
    Zero,
    NegativeInf,
    PositiveInf,
    /// A fast approximation, as PTX `.approx`. This crate computes the correctly rounded result instead.
    Approx,
    /// An approximation of nearly full precision, as PTX `div.full`. This crate computes the correctly rounded result instead.
    Full,
    /// Toward zero, to an integer.
    NearestIntToZero,
    NearestAway,
}
