//! The CUDA driver API on the CPU: a `libcuda.so.1` for programs that run without a GPU.
//!
//! A client loads this library instead of NVIDIA's. Device memory is host memory. A launch executes the program of the kernel in
//! this process before it returns: Tile IR and stage files with [`executor`], PTX with [`simulator`]. A module is a fatbin or PTX
//! of any origin, or a cubin of this project, which contains its program ([`cubin::program`]).
//!
//! | file | contents |
//! |---|---|
//! | `api/` | the entry points, one file per group; they check pointers and handles and call the other files |
//! | `driver.rs` | the state of the driver, and the function `run_entry_point`, which every entry point calls |
//! | `allocations.rs` | device memory, and the memory that a launch may access |
//! | `module.rs`, `launch.rs` | programs and kernels; one launch |
//! | `work.rs`, `graph.rs` | operations in streams; graphs of them, built or captured |
//! | `device.rs`, `config.rs` | the imitated GPU; the environment variables |
//! | `report.rs` | messages about faults, and the statistics of a run |
//!
//! Handles are numbers that the library looks up. It never dereferences them, so a wrong handle is an error. An operation
//! of a stream is complete when its call returns. Operations of all streams therefore execute in the order of the calls, which is
//! an order that CUDA permits. If an executor panics, the launch fails.

#![allow(unsafe_code, reason = "the interface is a C library, and device memory is host memory")]

mod allocations;
mod api;
mod config;
mod device;
mod driver;
mod execution;
mod graph;
mod handle;
mod handles;
mod launch;
mod module;
mod program_source;
mod report;
mod status;
mod thread_state;
mod variables;
mod work;
