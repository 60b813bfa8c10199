//! The `.sched` format: an `.as` program with a checked schedule, an address for every buffer and a barrier for every hand-off.
//!
//! It extends `.as` (the program, its layouts and atoms stay what they were) by what the scheduler decides, in three phases that
//! each complete the file further: `analysis` gives every pipelined loop its schedule, `alloc` gives every buffer its address
//! and depth, `materialize` puts the waits and barriers into the program. Only a file of the last phase can become PTX; the
//! earlier ones can be edited by hand and given to `tile-sched` again.
//!
//! Written by `tile-sched`, read by `tile-ptx`; `tile-run` executes it.

pub mod clc_responses;
pub mod cta_pairs;
pub mod first_fragments;
pub mod hazard_checker;
pub mod heap_and_print_rules;
pub mod iteration_distance;
pub mod lazy_fragments;
pub mod module;
pub mod multicast;
pub mod ops;
pub mod packed_ops;
mod region_flow;
mod tma_store_order;
pub mod token_order;
mod verify;
pub mod versioned_accesses;

pub use module::{
    Drain, Fill, Function, FunctionAttrs, LoopSchedule, Module, Phase, Pipeline, PipelineInfo, Placement, ScheduleEntry,
    TensorMemory, UncheckedModule, WarpRole, WarpRoleInfo, loop_body,
};
pub use ops::Op;
