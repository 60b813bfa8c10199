//! The `.aa` format: what a Tile IR program does to memory, said explicitly.
//!
//! Pointers have a space, memory is seen through strided objects (memrefs) that carry an alias scope, views cut them into
//! tiles, and every access consumes and returns a token, so the token graph alone orders memory. Facts about scalars and
//! pointers (divisibility, bounds) stand in a table per function that [`Facts::of`](facts::Facts::of) re-derives. There are no
//! layouts, threads or hardware atoms, and nothing depends on the target.
//!
//! Written by `tile-lower-aa`, read by `tile-lower-as`; `tile-run` executes it.
//!
//! ```text
//! func "scale"(%0: ptr<f32>, %1: i32) (kernel: (params: [])) @1 {
//!   %2 = make_memref(base: %0, sizes: [%1]) : memref<?xf32, strides=[1], scope=1> @2
//!   %3 = make_view(memref: %2) : view<tile=256, ...>
//! }
//! ```

pub mod facts;
pub mod module;
pub mod ops;
pub mod types;
mod verify;

pub use module::{Function, FunctionAttrs, Global, Hint, KernelSpec, Module};
pub use ops::Op;
pub use types::Type;
