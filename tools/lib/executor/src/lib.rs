//! Reference interpreter for Tile IR and its lowered forms (`.tile`, `.aa`, `.as`, `.sched`) on the CPU. The interpreter defines
//! the semantics of programs in this project and shares no lowering code with the compiler stages. It is a library because several
//! programs use it: `tile-run`, `tile-debug`, and the CUDA driver API on the CPU (`cuda-driver`).
//!
//! [`ProgramFile`] is a file of any of the four formats, [`Kernel`] one of its kernels. [`Kernel::run`] executes the kernel and
//! notifies an [`Observer`] before and after each op.
//!
//! If the Tile IR specification allows several results, the interpreter always computes the same one:
//!
//! | topic | choice |
//! |---|---|
//! | order of a reduction | pairwise tree over neighbours ([`tile::fold`]), lower index on the left; registers of a thread in the order of [`core_dialect::combining`]; the identity is not an operand |
//! | order of a scan | sequential from the first element, the running value on the left |
//! | MMA | along K in order; each product and sum rounded to f32 (f64 for f64 and scaled MMAs), then once to the accumulator |
//! | `approx`, `full`, transcendental functions | the host's f64 function, rounded once |
//! | computed NaN | one bit pattern per type |
//! | float to integer out of range | clamped, NaN gives 0; types of at most eight bits truncate a 16-bit result |
//! | float to types of at most eight bits | saturates, also from infinity |
//! | shift by at least the width | shifts out all bits |
//! | integer division and remainder by zero | all ones, as on the hardware |
//! | loads outside a tensor or masked out, without padding | zero |
//! | `for` with a non-positive step | error if the lower bound is less than the upper bound |
//! | accesses outside all buffers | error |
//! | grid dependencies (`gdc_*`), alias fences | no-ops: one grid runs at a time and memory has one mapping |
//! | order of tile blocks | see [`exec::schedule`] |

mod check;
mod check_kind;
mod cta_state;
mod exec;
mod exec_aa;
mod exec_as;
mod exec_core;
mod exec_sched;
mod exec_tile;
mod input;
mod kernel_memory;
mod listing;
mod memory;
mod observe;
mod print;
mod race_detector;
mod run;
mod tile;
mod trace;
mod value;

pub use check_kind::{Check, Finding};
pub use cta_state::BlockPosition;
pub use input::{GlobalData, Kernel, ProgramFile};
pub use listing::{Listing, ListingRow};
pub use memory::{Memory, Segment};
pub use observe::{Moment, NoopObserver, Observer};
pub use print::{format_tile, short_float};
pub use run::{LaunchRequest, Outcome, RunOptions};
pub use tile::Tile;
pub use tile::shape::from_bytes;
pub use trace::Trace;
pub use value::{Tensor, Value, View};

/// Stack size of the threads that run tile blocks, in bytes. The stack is large because nested reductions recurse.
const STACK_BYTES: usize = 64 << 20;

/// Creates the threads that run tile blocks. A program calls this function once, before the first run.
pub fn prepare_threads() {
    // `build_global` fails only if a global pool exists already. No caller has created one.
    let _ = rayon::ThreadPoolBuilder::new().stack_size(STACK_BYTES).build_global();
}
