//! The number of iterations of a loop that `ptxas` unrolls. The loads of these iterations are in flight together.
//!
//! Observed with ptxas 13.5.37 on generated loops with one to eight loads, 1 to 200 multiply-adds and 4 to 200 iterations. The
//! results for sm_80, sm_90, sm_100 and sm_120 are equal. `tests/cli/unrolling.rs` repeats the observations next to the limits.
//!
//! See also: LLVM's `LoopUnrollPass`, with its full, partial and runtime unrolling.

/// Iterations that `ptxas` unrolls if the trip count is unknown.
const UNKNOWN_TRIPS_FACTOR: u32 = 4;
/// Maximum machine instructions of a loop body that `ptxas` unrolls although the trip count is unknown.
pub const MAX_BODY_INSTRUCTIONS: f64 = 47.0;
/// Maximum machine instructions of all iterations of a loop that `ptxas` unrolls completely. The number is a lower bound: `ptxas`
/// accepts up to 1,400 instructions if there are many iterations.
const MAX_UNROLLED_INSTRUCTIONS: f64 = 500.0;

/// Returns the number of iterations of a loop that `ptxas` unrolls, or 1 for a loop that `ptxas` does not unroll. `trips` is the
/// trip count, or `None` if the trip count is not constant.
pub fn unrolled_iterations(body_instructions: f64, trips: Option<f64>) -> f64 {
    match trips {
        Some(trips) if trips * body_instructions <= MAX_UNROLLED_INSTRUCTIONS => trips.max(1.0),
        None if body_instructions <= MAX_BODY_INSTRUCTIONS => f64::from(UNKNOWN_TRIPS_FACTOR),
        _ => 1.0,
    }
}
