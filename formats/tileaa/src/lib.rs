//! The `.aa` format (TileAA, the alias-aware dialect): a Tile IR program with explicit memory effects.
//!
//! Pointers have an address space. Accesses go through strided objects (memrefs) with an alias scope, or through pointers. Views
//! divide memrefs into tiles. Every access consumes and returns a token, so the token graph alone orders memory accesses. A table
//! per function holds facts about values (divisibility, bounds, contiguity), which [`Facts::derive`](facts::Facts::derive)
//! re-derives. The format has no layouts, threads or hardware atoms, and does not depend on the target.
//!
//! `tile-lower-aa` writes the format. `tile-lower-as` reads the format, and `tile-run` executes files of the format.
//!
//! ```text
//! func "scale"(%0: ptr<f32>, %1: i32) (kernel: (params: [])) @1 {
//!   %2 = make_memref(base: %0, sizes: [%1]) : memref<?xf32, strides: [1], scope: 1> @2
//!   %3 = make_view(memref: %2) : view<256, ...> @3
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
