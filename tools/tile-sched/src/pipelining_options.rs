//! Whether the options and the optimisation level of a file let loops be pipelined.

use base::Envelope;
use base::diag::{Diagnostic, Result};
use common::options;

/// Returns whether loops are pipelined at the optimisation level and with the options of a file.
pub(crate) fn pipelines_loops(envelope: &Envelope) -> Result<bool> {
    let requested = options::Scheduling::stages(envelope)?;
    let is_possible = envelope.options.opt_level() >= 2;
    match requested {
        Some(2..) if !is_possible => Err(refuse("loops are pipelined only at -O2 and above".into())),
        _ => Ok(is_possible && requested != Some(1)),
    }
}

/// Reports that `--stages` cannot be honoured.
pub(crate) fn refuse(reason: String) -> Box<Diagnostic> {
    Diagnostic::unsupported("SC101", format!("--stages: {reason}"))
}
