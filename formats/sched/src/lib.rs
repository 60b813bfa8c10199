//! The `.sched` format: an `.as` program with a checked schedule, an address for every buffer and a barrier for every hand-off.
//!
//! It extends `.as` (the program, its layouts and atoms stay what they were) by what the scheduler decides, in three phases that
//! each complete the file further: `analysis` gives every pipelined loop its schedule, `alloc` gives every buffer its address
//! and depth, `materialize` puts the waits and barriers into the program. Only a file of the last phase can become PTX; the
//! earlier ones can be edited by hand and given to `tile-sched` again.
//!
//! Written by `tile-sched`, read by `tile-ptx`; `tile-run` executes it.

pub mod answers;
pub mod block_pairs;
pub mod early;
pub mod edges;
mod flow;
pub mod judge;
pub mod module;
pub mod multicast;
pub mod ops;
pub mod pairs;
pub mod pieces;
pub mod rounds;
mod stores;
pub mod system;
pub mod tokens;
mod verify;

pub use module::{
    Agent, AgentInfo, Drain, Fill, Function, FunctionAttrs, LoopSchedule, Module, Phase, Pipe, PipeInfo, Placement, Slot,
    TensorMemory, Unjudged, loop_body,
};
pub use ops::Op;
