//! Opens a program in any form: bytecode, the framed container, MLIR text, or a `.tile` file.

use crate::bytecode::{self, Features};
use crate::framed;
use crate::module::Module;
use crate::text;
use base::diag::{Diagnostic, Result};
use base::envelope::{Sniffed, sniff};
use base::{Envelope, File, Payload};

/// The field `phase` in the header of every `.tile` file. Unlike the later formats, `.tile` has only one phase.
pub const PHASE: &str = "read";

/// Reads and verifies a program. `name` is the file's name for messages, and `producer` the name of the reading tool.
pub fn open(bytes: &[u8], name: &str, producer: &str) -> Result<File<Module>> {
    open_with(bytes, name, producer, Features::default())
}

/// Does the same as [`open`]. Bytecode may contain the preview content that `features` enables.
pub fn open_with(bytes: &[u8], name: &str, producer: &str, features: Features) -> Result<File<Module>> {
    match sniff(bytes) {
        Sniffed::Stage { .. } => File::read(bytes, name),
        _ if bytes.starts_with(&framed::MAGIC) => {
            let program = framed::read(bytes, name)?;
            Ok(with_envelope(program, bytes, producer))
        }
        Sniffed::Text if bytes[0] != bytecode::MAGIC[0] => open_text(bytes, name, producer),
        _ => open_bytecode(bytes, name, producer, features),
    }
}

/// Reads bytecode. For a file of another kind, the error has a note with the actual kind.
fn open_bytecode(bytes: &[u8], name: &str, producer: &str, features: Features) -> Result<File<Module>> {
    let program = bytecode::read(bytes, features).map_err(|error| {
        let diagnostic = error.into_diagnostic(name);
        match actual_kind(bytes) {
            Some(kind) => diagnostic.note(format!("{name} is {kind}")),
            None => diagnostic,
        }
    })?;
    Ok(with_envelope(program, bytes, producer))
}

/// Returns a decoded program as a stage file.
fn with_envelope(program: bytecode::DecodedProgram, bytes: &[u8], producer: &str) -> File<Module> {
    let mut envelope = Envelope::new::<Module>(PHASE, producer, bytes);
    envelope.debug = program.debug;
    File { envelope, payload: program.module }
}

/// Describes the actual kind of a file that is not bytecode, for a diagnostic. `None` if the file begins with the magic number of
/// bytecode.
fn actual_kind(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(&bytecode::MAGIC) {
        return None;
    }
    Some(match sniff(bytes) {
        _ if bytes.is_empty() => "empty".into(),
        _ if bytecode::MAGIC.starts_with(bytes) => format!("cut after {} bytes, inside its header", bytes.len()),
        _ if bytes.starts_with(b"ML\xefR") => "ordinary MLIR bytecode".into(),
        other => other.describe(),
    })
}

fn open_text(bytes: &[u8], name: &str, producer: &str) -> Result<File<Module>> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| Diagnostic::invalid("TI004", format!("{name} is not UTF-8 text: {error}")))?;
    let mut envelope = Envelope::new::<Module>(PHASE, producer, bytes);
    let payload = text::parse(text, name, 1, &mut envelope.debug)?;
    payload.verify(&envelope)?;
    Ok(File { envelope, payload })
}
