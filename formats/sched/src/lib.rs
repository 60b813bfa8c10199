//! The `.sched` format: an `.as` program with a checked schedule, an address for every buffer, and all synchronisation between
//! warps.
//!
//! The format extends `.as`: it keeps the layouts and atoms, and adds the decisions of the scheduler. Each pass of `tile-sched`
//! completes one [`Phase`] of the file. The passes up to `analysis` decide the schedule of every pipelined loop. The passes up to
//! `occupancy` decide the address and stage count of every buffer. The later passes write loops, waits, barriers and warp roles
//! into the program. Only a file of the last phase, `materialize`, can be lowered to PTX. A file of a phase before `pipeline-loops`
//! can be edited by hand and passed to `tile-sched` again.
//!
//! `tile-sched` writes the format. `tile-ptx` reads the format, and `tile-run` executes files of the format.

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
mod payload;
pub mod phase;
pub mod pipeline_step;
mod tma_store_order;
pub mod token_order;
mod verify;
pub mod versioned_accesses;

pub use module::{
    Drain, Fill, Function, FunctionAttrs, LoopSchedule, Module, Pipeline, PipelineInfo, Placement, ScheduleEntry, TensorMemory,
    WarpRole, WarpRoleInfo, loop_body,
};
pub use ops::Op;
pub use payload::UncheckedModule;
pub use phase::Phase;
