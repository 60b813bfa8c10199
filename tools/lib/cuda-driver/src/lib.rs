//! The CUDA driver API on the CPU: a `libcuda.so.1` for programs that run without a GPU.
//!
//! A client loads the library instead of NVIDIA's. Device memory is host memory, and a launch executes the kernel's program in this
//! process before it returns: Tile IR and stage files with [`executor`], PTX with [`simulator`]. A module is a cubin of this project,
//! which contains its program ([`cubin::program`]), a fatbin or PTX of any origin.
//!
//! | file | contents |
//! |---|---|
//! | `api/` | the entry points, one file per group; they check pointers and handles and call the rest |
//! | `driver.rs` | the state of the process; what every entry point does before and after its work |
//! | `allocations.rs` | device memory, and the memory that a launch may access |
//! | `module.rs`, `launch.rs` | programs and kernels; one launch |
//! | `work.rs`, `graph.rs` | operations in streams; graphs of them, built or captured |
//! | `device.rs`, `config.rs` | the imitated GPU; the environment variables |
//! | `report.rs` | faults for a person, and the statistics of a run |
//!
//! Handles are numbers that the library looks up, never addresses that it dereferences, so a wrong handle is an error. All streams
//! execute at once, in the order of the calls, which is one of the orders that CUDA permits. A panic of an executor is a failed launch.

#![allow(unsafe_code, reason = "the interface is a C library, and device memory is host memory")]

mod allocations;
mod api;
mod config;
mod device;
mod driver;
mod graph;
mod handles;
mod launch;
mod module;
mod report;
mod status;
mod work;
