//! The options that affect the plan of a function.

use base::Envelope;
use base::diag::Result;
use common::kernel_plan;
use tileaa::Function;

/// Options that affect the plan.
#[derive(Clone, Copy)]
pub(crate) struct PlanOptions {
    /// The optimisation level (`-O`).
    pub(crate) level: u32,
    pub(crate) tma_copies: TmaChoice,
    pub(crate) prefetch: Prefetch,
}

impl PlanOptions {
    /// The options for a function, from the file's envelope and the kernel plan.
    pub(crate) fn from_envelope(envelope: &Envelope, function: &Function) -> Result<PlanOptions> {
        let prefetch = Prefetch::from_options(envelope, &function.name)?;
        let tma_copies = TmaChoice::from_options(envelope, &function.name)?;
        Ok(PlanOptions { level: envelope.options.opt_level(), tma_copies, prefetch })
    }
}

/// Whether TMA executes copies (`--tma`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TmaChoice {
    /// No copy uses TMA.
    Never,
    /// TMA executes the copies for which it is likely faster than `cp.async`.
    WherePays,
    /// TMA executes every copy that it can execute.
    WherePossible,
}

impl TmaChoice {
    /// The choice for a function, from the option `--tma` or the kernel plan.
    pub(crate) fn from_options(envelope: &Envelope, function: &str) -> Result<TmaChoice> {
        Ok(match kernel_plan::tma(envelope, function)? {
            Some("off") => TmaChoice::Never,
            Some("on") => TmaChoice::WherePossible,
            _ => TmaChoice::WherePays,
        })
    }
}

/// Which loads without MMA readers become asynchronous copies (`--prefetch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefetch {
    /// No such load becomes a copy.
    Never,
    /// The default: loads of persistent loops for which the cost model predicts a gain.
    WherePays,
    /// All such loads that can become copies.
    WherePossible,
}

impl Prefetch {
    /// The choice for a function, from the option `--prefetch` or the kernel plan.
    pub(crate) fn from_options(envelope: &Envelope, function: &str) -> Result<Prefetch> {
        Ok(match kernel_plan::prefetch(envelope, function)? {
            Some("off") => Prefetch::Never,
            Some("on") => Prefetch::WherePossible,
            _ => Prefetch::WherePays,
        })
    }
}
