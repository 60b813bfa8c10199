//! Decides from the options and the optimisation level of a file whether loops are pipelined.

use base::Envelope;
use base::diag::{Diagnostic, Result};
use common::options;

/// Returns whether loops are pipelined at the optimisation level and with the options of a file.
pub(crate) fn pipelines_loops(envelope: &Envelope) -> Result<bool> {
    let requested = options::Scheduling::stages(envelope)?;
    let is_possible = envelope.options.opt_level() >= 2;
    match requested {
        Some(2..) if !is_possible => Err(stages_error("loops are pipelined only at -O2 and above".into())),
        _ => Ok(is_possible && requested != Some(1)),
    }
}

/// Creates the error that the request of `--stages` cannot be met.
pub(crate) fn stages_error(reason: String) -> Box<Diagnostic> {
    Diagnostic::unsupported("SC101", format!("--stages: {reason}"))
}
