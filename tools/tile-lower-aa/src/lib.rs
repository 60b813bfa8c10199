//! From `.tile` to `.aa`: [`mod@convert`] says what the program does to memory, op by op; [`PASSES`] fold and clean up from O1 on;
//! [`RECORD`] writes down what is known of the values. [`CHECK_BOUNDS`] adds assertions, when asked.

mod convert;
mod passes;

pub use passes::{CHECK_BOUNDS, PASSES, RECORD};

use base::diag::Result;
use base::{Envelope, File};

/// The program as written, in `.aa`, with the envelope it shall have.
pub fn convert(input: &tileir::Module, envelope: Envelope) -> Result<File<tileaa::Module>> {
    Ok(File { payload: convert::module(input, &envelope.debug)?, envelope })
}
