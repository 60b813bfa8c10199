//! Tensor maps: the 128 bytes that tell the copy engine of sm_90 and later (TMA) which strided window of global memory a copy
//! reads, and which box of it one copy moves.
//!
//! A [`Map`] is a recipe: its address, extents and strides are expressions ([`Expr`]) over the visible parameters of a kernel, which
//! are known when the kernel is launched. `.as` and `.sched` have a table of them for each function, `.ptx` has them in its envelope,
//! `tile-link` makes them machine code, and the executors evaluate them. [`Map::words`] is the only place that knows where a field
//! lies in the bytes: the words are expressions too, so that whoever computes them, computes the same.

mod expr;
mod map;

pub use expr::Expr;
pub use map::{BYTES, Element, Map, Swizzle, WORDS};
