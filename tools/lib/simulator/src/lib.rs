//! Functional simulator for PTX, used by `tile-sim` for results and by `tile-time` for execution traces.
//!
//! `decode` lowers a parsed module to a program of one entry: registers become slots, labels become indices, and element-wise
//! instructions become closures. `machine` runs clusters of CTAs; warps take turns. `exec` executes one instruction for the
//! converged lanes of a warp. With early delivery, asynchronous work (`pending`) completes at its issue. With late delivery, it
//! completes when the issuer waits for it or when no warp can continue. `hidden` provides tensor maps that a launch does not
//! specify.
//!
//! Faults, each reported with line, warp and lanes:
//!
//! | code | fault |
//! |---|---|
//! | SIM002, SIM003 | launch mismatch; unsupported feature |
//! | SIM010 to SIM014 | access out of bounds, misalignment, write to a parameter, oversized copy, access to an ended CTA |
//! | SIM020 | branch or address that depends on an undefined value |
//! | SIM030 to SIM034 | missing proxy fence; use of memory, registers or tensor memory with asynchronous work in flight |
//! | SIM035, SIM036 | shared-memory race |
//! | SIM037 | missing `wgmma.fence` between a register access and a `wgmma` |
//! | SIM038 | TMEM access without the fences, barriers or commits that order it |
//! | SIM040 to SIM042 | deadlock; instruction limit; time limit |
//! | SIM050 to SIM055 | misuse of a barrier, a collective or an mbarrier |
//! | SIM060, SIM061 | trap; branch to an invalid target |
//! | SIM070 to SIM072, SIM080 to SIM083 | invalid tensor map or descriptor; misuse of tensor memory |

mod address_space;
mod barrier_state;
mod decode;
mod descriptor;
mod exec;
mod fault;
mod fragment;
mod happens_before;
pub mod hidden;
mod in_flight_work;
mod lanes;
mod location;
mod machine;
mod memory;
mod mma_arith;
#[cfg(test)]
mod mutants;
mod native;
mod operands;
mod parallel;
mod pending;
pub mod program;
mod record;
mod recording;
mod shared;
mod source_locations;
mod stats;
mod tensor_map;
mod tmem;
mod tmem_accesses;
mod tmem_happens_before;
mod traffic;
mod warp;

pub use decode::{LaunchSizes, VariableAddresses, decode, decode_with_variables, module_variables};
pub use fault::{Fault, Result};
pub use lanes::{LaneFn, Lanes, WARP_SIZE};
pub use machine::{Delivery, ExecutionMode, Machine, Options, Races};
pub use memory::DeviceGlobalMemory;
pub use mma_arith::{AccumulatorType, MmaElement};
pub use record::{Event, MbarrierAddress, Record, Recording, WarpTrace};
pub use source_locations::{SourceLocation, SourceLocations};
pub use tmem::TmemShape;
