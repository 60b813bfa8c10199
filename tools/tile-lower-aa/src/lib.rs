//! Lowers `.tile` to `.aa` (TileAA, the alias-aware dialect). [`mod@convert`] makes memory accesses, tokens and alias scopes
//! explicit. [`PASSES`] canonicalise and clean up from O1 on. [`RECORD`] writes the table of facts. [`CHECK_BOUNDS`] adds
//! assertions if `--check-bounds` requests them.

mod command;
mod convert;
mod passes;

pub use command::{ABOUT, Options, run};
pub use passes::{CHECK_BOUNDS, PASSES, RECORD};

use base::diag::Result;
use base::{Envelope, File};

/// Converts a program to `.aa` without optimisation, in the given envelope.
pub fn convert(input: &tileir::Module, envelope: Envelope) -> Result<File<tileaa::Module>> {
    Ok(File { payload: convert::convert_module(input, &envelope.debug)?, envelope })
}
