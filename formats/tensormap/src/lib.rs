//! Tensor maps: 128-byte descriptors for the TMA unit (sm_90 and later). A map describes a strided tensor in global memory and the
//! TMA tile of one copy.
//!
//! A [`Map`] is a recipe: its address, extents and strides are expressions ([`Expr`]) over a kernel's visible parameters, evaluated
//! at launch. `.as` and `.sched` have a table of maps per function; `.ptx` has its maps in its envelope. `tile-link` compiles the
//! expressions to host code, and the executors evaluate them.
//! Invariant: only [`Map::words`] defines the positions of fields in the bytes. Its words are expressions too, so host code and
//! executors compute the same map.

mod expr;
mod map;

pub use expr::Expr;
pub use map::{BYTES, DataType, Map, Swizzle, WORDS};
