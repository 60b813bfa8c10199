//! Tensor maps: 128-byte descriptors for the TMA unit (sm_90 and later). A map describes a strided tensor in global memory and the
//! TMA tile of one copy.
//!
//! A [`Map`] is a recipe: its address, extents and strides are expressions ([`Expr`]) over a kernel's visible parameters, evaluated
//! at launch. `.as` and `.sched` have a table of maps per function, `.ptx` has them in its envelope, `tile-link` compiles them, and
//! the executors evaluate them.
//! Invariant: only [`Map::words`] knows the positions of fields in the bytes. The words are expressions too, so every component
//! computes the same map.

mod expr;
mod map;

pub use expr::Expr;
pub use map::{BYTES, Element, Map, Swizzle, WORDS};
