//! The bytecode that a compilation reads.

use crate::failure::{DriverError, exit};
use base::envelope::{Sniffed, sniff};
use std::io::Read;

/// The input program. The driver reads the file once, so the cache key belongs to the compiled bytes even if the file changes
/// during the compilation.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) bytes: Vec<u8>,
    /// The bytecode version in the header.
    pub(crate) version: (u8, u8),
}

impl<'a> Source<'a> {
    /// Creates a source from bytecode or from the text of a program. Returns an error for bytes that are neither.
    pub(crate) fn from_memory(name: &'a str, bytes: Vec<u8>) -> Result<Source<'a>, DriverError> {
        let version = bytecode_version(&bytes);
        if version.is_none() && sniff(&bytes) != Sniffed::Text {
            return Err(no_bytecode_error(&bytes, name));
        }
        Ok(Source { path: name, bytes, version: version.unwrap_or_default() })
    }

    /// Reads a bytecode file. Checks the header before it reads the whole file.
    pub(crate) fn read(path: &'a str) -> Result<Source<'a>, DriverError> {
        const HEADER_BYTES: u64 = 10;
        let unreadable = |reason: String| DriverError::new(exit::USAGE, format!("unable to read input file '{path}': {reason}"));
        let read_error = |error: std::io::Error| unreadable(common::os_error_text(&error));
        let mut file = std::fs::File::open(path).map_err(read_error)?;
        let mut bytes = Vec::new();
        file.by_ref().take(HEADER_BYTES).read_to_end(&mut bytes).map_err(read_error)?;
        let Some(version) = bytecode_version(&bytes) else {
            let _ = file.take(base::codec::SIZE_LIMIT as u64).read_to_end(&mut bytes);
            return Err(no_bytecode_error(&bytes, path));
        };
        bytes.extend(common::read_at_most(file, path, base::codec::SIZE_LIMIT as u64).map_err(|error| unreadable(error.message))?);
        Ok(Source { path, bytes, version })
    }
}

/// Returns the version in the header of bytecode; `None` if the bytes are not bytecode. A missing byte counts as zero, as in
/// `tile-read`.
fn bytecode_version(bytes: &[u8]) -> Option<(u8, u8)> {
    let version = bytes.strip_prefix(b"\x7fTileIR\0")?;
    Some((version.first().copied().unwrap_or(0), version.get(1).copied().unwrap_or(0)))
}

/// Returns the error for an input that is not bytecode.
fn no_bytecode_error(bytes: &[u8], path: &str) -> DriverError {
    let hint = describe_other_format(bytes).map_or(String::new(), |kind| format!(" ({kind})"));
    DriverError::new(exit::INPUT, format!("input does not correspond to Tile IR bytecode{hint}")).in_input(path)
}

/// Describes the detected format of a file that is not bytecode, and names the tool that reads this format. Returns `None` if the
/// format is uncertain.
fn describe_other_format(bytes: &[u8]) -> Option<String> {
    let kind = sniff(bytes);
    let reading_tool = match &kind {
        _ if bytes.starts_with(b"ML\xefR") => return Some("it looks like MLIR bytecode instead".into()),
        Sniffed::Stage { format, .. } => match format.as_str() {
            "tileir" => "tile-lower-aa",
            "tileaa" => "tile-lower-as",
            "tileas" => "tile-sched",
            "sched" => "tile-ptx",
            _ => "tile-dump",
        },
        Sniffed::Ptx => "tile-link",
        Sniffed::Elf => "tile-dump",
        Sniffed::Bytecode | Sniffed::Text | Sniffed::Other => return None,
    };
    Some(format!("it is {}, which {reading_tool} reads", kind.describe()))
}
