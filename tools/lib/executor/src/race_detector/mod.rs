//! The memory of a CTA and the detector of races between its warps, for `.as` and `.sched`. `exec_as` executes ops on it.

pub(crate) mod access_history;
pub(crate) mod access_runs;
pub(crate) mod cta_memory;
pub(crate) mod hazards;
pub(crate) mod in_flight;
pub(crate) mod pipelines;

/// A warp role, with the warps that execute its body.
pub(crate) struct WarpRole {
    pub(crate) name: String,
    /// The number of the role's first warp within the CTA.
    pub(crate) first_warp: usize,
    /// The number of warps.
    pub(crate) warps: usize,
}
