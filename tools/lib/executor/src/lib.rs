//! Executes Tile IR on the CPU: a library, because no tool may depend on a tool and two execute Tile IR, `tile-run` for what a
//! kernel leaves and `tile-debug` for how it comes about. It defines for this project what a program means, and shares no lowering
//! code with the stages.
//!
//! [`Input`] is a file of any of the four formats, [`Kernel`] one of its kernels; [`Kernel::run`] runs it, and tells an [`Observer`]
//! of each op before and after.
//!
//! Where the definition of Tile IR leaves freedom, the answer here is always the same one:
//!
//! | what | here |
//! |---|---|
//! | order of a reduction | neighbours pairwise, then their results, and so on ([`tile::fold`]), the lower index on the left; registers of a thread as [`core_dialect::combining`] says; identities are not folded in |
//! | order of a scan | one after the other, from the first element, what came before on the left |
//! | matrix mmas | along K in order, each product and sum rounded to f32 (f64 for f64 and scaled mmas), then once to the accumulator |
//! | `approx`, `full`, transcendental functions | the host's f64 function, rounded once |
//! | NaN that is computed | one bit pattern for each type |
//! | float to integer out of range | clamped, NaN is 0; eight bits and fewer are cut from sixteen |
//! | float to eight bits and fewer | saturates, also from infinity |
//! | shifts by the width or more | everything is shifted out |
//! | division and remainder by zero | all ones, as the hardware gives |
//! | loads outside a tensor without padding, or masked without padding | zero |
//! | `for` with a step that is not positive | refused, when it would run |
//! | accesses outside all buffers | refused |
//! | grid dependencies (`gdc_*`), alias fences | nothing to wait for: one grid runs at a time and memory has one mapping |
//! | order of blocks | see [`exec::schedule`] |

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
pub use input::{Input, Kernel};
pub use listing::{Listing, Row};
pub use memory::{Memory, Segment};
pub use observe::{Moment, NoopObserver, Observer};
pub use print::{short_float, shortened};
pub use run::{Outcome, Watch};
pub use tile::Tile;
pub use tile::shape::from_bytes;
pub use trace::Trace;
pub use value::{Tensor, Value, View};

/// Stack of the threads that run blocks; reductions inside each other take some.
const STACK: usize = 64 << 20;

/// Prepares the threads that run blocks. To be called once, before anything runs.
pub fn prepare_threads() {
    // It fails only where a pool exists already, and there is none.
    let _ = rayon::ThreadPoolBuilder::new().stack_size(STACK).build_global();
}
