//! The `.as` format (TileAS, the assembler-near dialect): the layout of every tile, and the atom that moves or computes it.
//!
//! A tile's type names a [`Layout`] over (register, lane, warp), and every data movement and MMA names its hardware atom. Warps
//! exchange data through buffers, which have a layout but no address yet. The format fixes the warp count of a CTA, but no stage
//! counts, barriers and phases. *Sequential execution*: all threads of the CTA execute an op before the next op starts.
//! `tile-sched` determines where this rule needs a barrier.
//!
//! `tile-lower-as` writes the format. `tile-sched` reads the format, and `tile-run` executes files of the format, distributed over
//! the threads.

pub mod atoms;
pub mod budget;
pub mod effects;
pub mod layout;
pub mod liveness;
pub mod module;
pub mod ops;
pub mod ping_pong;
pub mod register_liveness;
pub mod renaming;
pub mod types;
pub mod verify;

pub use atoms::{MmaAtom, mma_sync_atoms, tensor_memory, tma_tiles, tma_windows, wgmma_atoms};
pub use effects::Effects;
pub use layout::{Layout, LayoutId};
pub use module::{BufferInfo, Function, FunctionAttrs, Global, Module, Space};
pub use ops::{Buffer, CopyAtom, MAX_LATENCY, MapId, MmaOperand, Op, Order, Route};
pub use types::Type;
