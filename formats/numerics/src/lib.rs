//! Numbers as Tile IR has them: the scalar types, their formats, and what each operation makes of the bits.
//!
//! Values of any type are bits in a `u64`. [`scalar`] names the types, [`float`] rounds between formats, [`literal`] writes and reads numbers, and [`arith`] has the
//! operations, one at a time and for whole tiles. Nothing here knows of programs; executors and folds compute with it.

pub mod arith;
pub mod float;
pub mod literal;
pub mod scalar;

pub use scalar::{FloatFormat, Scalar, Special};
