//! Reference interpreter for Tile IR on the CPU. It defines the semantics of programs in this project and shares no lowering code
//! with the stages. It is a library because several programs execute Tile IR: `tile-run`, `tile-debug`, and the CUDA driver
//! stand-in.
//!
//! [`ProgramFile`] is a file of any of the four formats, [`Kernel`] one of its kernels. [`Kernel::run`] executes the kernel and
//! notifies an [`Observer`] before and after each op.
//!
//! Where the Tile IR specification leaves freedom, the interpreter chooses deterministically:
//!
//! | topic | choice |
//! |---|---|
//! | order of a reduction | pairwise tree over neighbours ([`tile::fold`]), lower index on the left; registers of a thread as in [`core_dialect::combining`]; identities are not combined |
//! | order of a scan | sequential from the first element, the running value on the left |
//! | MMA | along K in order; each product and sum rounded to f32 (f64 for f64 and scaled MMAs), then once to the accumulator |
//! | `approx`, `full`, transcendental functions | the host's f64 function, rounded once |
//! | computed NaN | one bit pattern per type |
//! | float to integer out of range | clamped, NaN gives 0; types of at most eight bits truncate a 16-bit result |
//! | float to types of at most eight bits | saturates, also from infinity |
//! | shift by at least the width | all bits are shifted out |
//! | division and remainder by zero | all ones, like the hardware |
//! | loads outside a tensor or masked out, without padding | zero |
//! | `for` with a non-positive step | error when the loop would run |
//! | accesses outside all buffers | error |
//! | grid dependencies (`gdc_*`), alias fences | no-ops: one grid runs at a time and memory has one mapping |
//! | order of tile blocks | see [`exec::schedule`] |

mod check;
mod exec;
mod exec_aa;
mod exec_as;
mod exec_core;
mod exec_sched;
mod exec_tile;
mod input;
mod listing;
mod memory;
mod observe;
mod print;
mod run;
mod tile;
mod trace;
mod value;
mod world;

pub use check::{Check, Finding};
pub use exec::BlockPosition;
pub use input::{Kernel, ProgramFile};
pub use listing::{Listing, ListingRow};
pub use memory::{Memory, Segment};
pub use observe::{Moment, NoopObserver, Observer};
pub use print::{format_tile, short_float};
pub use run::{LaunchRequest, Outcome, RunOptions};
pub use tile::Tile;
pub use tile::shape::from_bytes;
pub use trace::Trace;
pub use value::{Tensor, Value, View};

/// Stack size of the threads that run tile blocks, in bytes. It is large because nested reductions recurse.
const STACK_BYTES: usize = 64 << 20;

/// Prepares the threads that run tile blocks. Callers call it once, before the first run.
pub fn prepare_threads() {
    // `build_global` fails only if a global pool exists already. No caller has created one.
    let _ = rayon::ThreadPoolBuilder::new().stack_size(STACK_BYTES).build_global();
}
