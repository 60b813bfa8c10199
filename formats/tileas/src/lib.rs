//! The `.as` format: where every tile lives and which atom moves or computes it.
//!
//! A tile's type names a [`Layout`] over (register, lane, warp), and every data movement and product names the hardware atom that
//! does it. Exchange between warps goes through buffers of a table, which have a layout of their own but no address yet. The warps
//! of a block are fixed here; stage counts, barriers and phases are not: an op is executed by all threads of the block
//! before the next one starts, and where that needs a barrier is for `tile-sched` to find.
//!
//! Written by `tile-lower-as`, read by `tile-sched`; `tile-run` executes it, distributed over the threads.

pub mod atoms;
pub mod budget;
pub mod effects;
pub mod layout;
pub mod lives;
pub mod module;
pub mod ops;
pub mod renaming;
pub mod strands;
pub mod types;
pub mod verify;

pub use atoms::{MmaAtom, boxes, group, mma, tensor};
pub use effects::Effects;
pub use layout::{Layout, LayoutId};
pub use module::{BufferInfo, Function, FunctionAttrs, Global, Module, Space};
pub use ops::{Buffer, CopyAtom, MOST_LATENCY, MapId, Op, Order, Place, Route};
pub use types::Type;
