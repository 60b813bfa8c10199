//! PTX as a program that can be executed, for the tools that do so: `tile-sim` for its results, `tile-time` for what it does when.
//!
//! `decode` turns a parsed module into a program of one entry: names are slots, labels are indices, the function of an
//! element-wise instruction is a closure. `machine` runs clusters of CTAs of warps in turns; `exec` does one instruction for the
//! lanes of a warp that are at the same place. Asynchronous work (`pending`) is done when it is issued, or, with late delivery,
//! when its issuer waits for it or nobody can go on without it. `hidden` makes the tensor maps that a launch does not give.
//!
//! What is reported, always with line, warp and lanes:
//!
//! | code | the program |
//! |---|---|
//! | SIM002, SIM003 | does not fit the launch; uses what is not supported |
//! | SIM010 to SIM014 | reaches outside memory, is misaligned, writes a parameter, copies too much, reaches a CTA that ended |
//! | SIM020 | decides by, or addresses with, what nothing has set |
//! | SIM030 to SIM034 | lacks a proxy fence, or uses memory, registers or tensor memory that asynchronous work still has |
//! | SIM035, SIM036 | reads or writes shared memory that no barrier orders |
//! | SIM037 | lacks a `wgmma.fence` between its use of registers and a product's |
//! | SIM038 | touches tensor memory without the fences, barriers or commits that order it |
//! | SIM040, SIM041 | deadlocks; does not end |
//! | SIM050 to SIM055 | uses a barrier, a collective or an mbarrier wrongly |
//! | SIM060, SIM061 | traps; branches to nowhere |
//! | SIM070 to SIM072, SIM080 to SIM083 | has a wrong tensor map or descriptor, uses tensor memory wrongly |

mod barrier;
mod decode;
mod descriptor;
mod exec;
mod fault;
mod fragment;
mod happens_before;
pub mod hidden;
mod lanes;
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
mod shared;
mod source_locations;
mod stats;
mod tensor_map;
mod tmem;
mod tmem_happens_before;
mod warp;

pub use decode::{Sizes, decode};
pub use fault::{Fault, Result};
pub use lanes::{LaneFn, Lanes, WARP};
pub use machine::{Delivery, Machine, Options, Races};
pub use memory::Global;
pub use mma_arith::{Accumulator, Kind};
pub use record::{Bar, Event, Record, Recording, Stream};
pub use source_locations::{SourceLocation, SourceLocations};
pub use tmem::Shape;
