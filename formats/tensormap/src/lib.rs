//! Tensor maps: 128-byte descriptors for the TMA unit (sm_90 and later). A map describes a strided tensor in global memory and the
//! TMA tile of one copy.
//!
//! A [`Map`] is a recipe. Its address, extents and strides are expressions ([`Expr`]) over a kernel's visible parameters, which are
//! evaluated at launch. A function of `.as` or `.sched` has a table of maps. A `.ptx` file has its maps in the envelope.
//! `tile-link` compiles the expressions to host code, and the executors evaluate the expressions.
//!
//! Invariant: only [`Map::words`] defines the positions of fields in the bytes. The result of this function is expressions too, so
//! host code and executors compute the same map.

mod expr;
mod map;

pub use expr::Expr;
pub use map::{BYTES, DataType, Map, STRIDE_LIMIT, Swizzle, WORDS};
