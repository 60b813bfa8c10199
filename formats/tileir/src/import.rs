//! Opening a program in whichever form it comes: bytecode, disassembly text, or a `.tile` file.

use crate::bytecode;
use crate::module::Module;
use crate::text;
use base::diag::{Diagnostic, Result};
use base::envelope::{Sniffed, sniff};
use base::{Envelope, File, Payload};

/// The phase of every `.tile` file; there is only one.
pub const PHASE: &str = "read";

/// Reads and verifies a program. `name` is the file's name for messages and `producer` the tool that reads it.
pub fn open(bytes: &[u8], name: &str, producer: &str) -> Result<File<Module>> {
    match sniff(bytes) {
        Sniffed::Stage { .. } => File::read(bytes, name),
        Sniffed::Text => open_text(bytes, name, producer),
        Sniffed::Ptx | Sniffed::Elf => {
            let message = format!("{name} is {}; Tile IR bytecode, its text or a .tile file is expected", sniff(bytes).describe());
            let mut error = bytecode::ReadError { lines: Vec::new(), position: None, concluded: true }.into_diagnostic();
            error.notes.push(message);
            Err(error)
        }
        Sniffed::Bytecode | Sniffed::Other => {
            let read = bytecode::read(bytes).map_err(bytecode::ReadError::into_diagnostic)?;
            let mut envelope = Envelope::new::<Module>(PHASE, producer, bytes);
            envelope.debug = read.debug;
            Ok(File { envelope, payload: read.module })
        }
    }
}

fn open_text(bytes: &[u8], name: &str, producer: &str) -> Result<File<Module>> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| Diagnostic::invalid("TI004", format!("{name} is not UTF-8 text: {error}")))?;
    let mut envelope = Envelope::new::<Module>(PHASE, producer, bytes);
    let payload = text::parse(text, name, 1, &mut envelope.debug)?;
    payload.verify(&envelope)?;
    Ok(File { envelope, payload })
}
