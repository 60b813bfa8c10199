//! The `.as` format: where every tile liveness and which atom moves or computes it.
//!
//! A tile's type names a [`Layout`] over (register, lane, warp), and every data movement and mma names the hardware atom that
//! does it. Exchange between warps goes through buffers of a table, which have a layout of their own but no address yet. The warps
//! of a block are fixed here; stage counts, barriers and phases are not: an op is executed by all threads of the block
//! before the next one starts, and where that needs a barrier is for `tile-sched` to find.
//!
//! Written by `tile-lower-as`, read by `tile-sched`; `tile-run` executes it, distributed over the threads.

pub mod atoms;
pub mod budget;
pub mod effects;
pub mod layout;
pub mod liveness;
pub mod module;
pub mod ops;
pub mod ping_pong;
pub mod renaming;
pub mod types;
pub mod verify;

pub use atoms::{MmaAtom, mma_sync_atoms, tensor_memory, tma_tiles, wgmma_atoms};
pub use effects::Effects;
pub use layout::{Layout, LayoutId};
pub use module::{BufferInfo, Function, FunctionAttrs, Global, Module, Space};
pub use ops::{Buffer, CopyAtom, MAX_LATENCY, MapId, MmaOperand, Op, Order, Route};
pub use types::Type;
