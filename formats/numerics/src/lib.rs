//! Tile IR numbers: scalar types, their formats, and the semantics of operations on their bits.
//!
//! Values of any type are bits in a `u64`. [`scalar`] names the types, [`float`] rounds between formats, [`literal`] prints and
//! parses numbers, and [`arith`] has the operations on single values and on tiles. The crate is independent of any IR. The
//! executors and the constant folding of the compiler use this crate.

pub mod arith;
pub mod float;
pub mod literal;
pub mod rounding;
pub mod scalar;

pub use scalar::{FloatFormat, Scalar, SpecialValues};
