//! Reader and writer of NVIDIA's bytecode container, for all versions in [`crate::version`].
//!
//! A file is a magic number, a version, and sections in any order; the string and function sections are mandatory. Tables hold the
//! offsets of their records, so the reader can decode a type or debug record on first use. It accepts a malformed record to which
//! no other record refers. Error messages have the wording of NVIDIA's reader ([`error`]), because client tools parse messages.
//!
//! Invariant: reading is linear in time and memory. The reader therefore rejects some files that NVIDIA's reader accepts. They
//! have:
//! - types of rank above [`MAX_RANK`](crate::reader_limits::MAX_RANK),
//! - attributes nested deeper than [`MAX_DEPTH`](crate::reader_limits::MAX_DEPTH),
//! - strings or type records that overlap, and together are larger than about [`MAX_EXPANSION`] times the file,
//! - more entry parameters than the file has bytes.

mod attributes;
mod attributes_out;
mod body_out;
mod cursor;
mod debug;
mod debug_out;
mod error;
mod function;
pub(crate) mod preview;
mod preview_out;
mod reader;
mod tables;
mod types;
mod types_out;
mod writer;

pub use error::{CONCLUSION, ReadError};
pub use reader::{DecodedProgram, Features, read};
pub use writer::write;

/// The first bytes of every bytecode file.
pub const MAGIC: [u8; 8] = *b"\x7fTileIR\0";

/// The maximum size of the decoded strings, or of the decoded type records, as a multiple of the file size. The reader adds
/// 4096 bytes to the limit, for small files.
pub const MAX_EXPANSION: usize = 4;

/// The padding byte between a section's header and its aligned payload. Readers ignore the value of padding.
const PADDING: u8 = 0xCB;

/// The numbers of the section kinds.
mod section {
    pub(super) const END: u8 = 0;
    pub(super) const STRING: u8 = 1;
    pub(super) const FUNCTION: u8 = 2;
    pub(super) const DEBUG: u8 = 3;
    pub(super) const CONSTANT: u8 = 4;
    pub(super) const TYPE: u8 = 5;
    pub(super) const GLOBAL: u8 = 6;
    pub(super) const PRODUCER: u8 = 7;
    pub(super) const COUNT: u8 = 8;
}

/// Bits of the flags byte of a function. From [`crate::gates::Feature::FunctionKind`] on, bits 1 to 3 are a number, the kind of
/// the function.
mod flag {
    pub(super) const PRIVATE: u8 = 1;
    pub(super) const KERNEL: u8 = 2;
    pub(super) const HINTS: u8 = 4;
}

/// The tags of the records in the debug section.
mod debug_tag {
    pub(super) const COMPILE_UNIT: u64 = 1;
    pub(super) const FILE: u64 = 2;
    pub(super) const LEXICAL_BLOCK: u64 = 3;
    pub(super) const LOC: u64 = 4;
    pub(super) const SUBPROGRAM: u64 = 5;
    pub(super) const CALL_SITE: u64 = 6;
}

/// The reader compares tags as complete numbers. NVIDIA's reader compares them modulo 256.
#[cfg(test)]
mod tests {
    use super::cursor::Cursor;
    use super::debug::DebugReader;
    use super::reader::Tables;
    use super::tables::{Constants, Strings};
    use super::types::Types;
    use crate::version::Version;
    use base::Loc;

    /// Tables that are empty except for the types in a type section.
    fn tables(type_section: &[u8]) -> Tables<'_> {
        Tables {
            version: Version::LATEST,
            preview: false,
            strings: Strings::new(&[0], 0).expect("the table is empty"),
            types: Types::new(Some(type_section), Version::LATEST, false, 0).expect("the table is complete"),
            constants: Constants::default(),
            debug: DebugReader::default(),
            parameter_budget: 0,
        }
    }

    #[test]
    fn a_type_tag_above_255_is_unknown() {
        let table = |tag: [u8; 2]| [&[1, 0, 0, 0, 0, 0, 0, 0], &tag[..]].concat();
        // Both records begin with the tag of i8, which has no payload: once in an overlong encoding, and once with 256 added.
        let (overlong, larger) = (table([0x80 | 1, 0]), table([0x80 | 1, 2]));
        for (bytes, is_known) in [(overlong, true), (larger, false)] {
            let mut tables = tables(&bytes);
            let result = tables.types.get(0, &mut tables.strings);
            assert_eq!(result.is_ok(), is_known, "{result:?}");
            if let Err(error) = result {
                assert_eq!(error.lines[0].message, "unknown type tag: 257");
            }
        }
    }

    #[test]
    fn an_attribute_tag_above_255_is_unknown() {
        let no_types = [0];
        for tag in 256..512u64 {
            let bytes = [tag as u8 | 0x80, (tag >> 7) as u8, 0, 0, 0, 0];
            let error = tables(&no_types).read_attribute(&mut Cursor::new(&bytes)).expect_err("the tag is unknown");
            assert_eq!(error.lines[0].message, format!("unsupported AttributeTag {tag} for self-contained attribute"));
        }
    }

    #[test]
    fn a_debug_tag_above_255_is_an_unknown_location() {
        let file_tag = super::debug_tag::FILE as u8;
        for (tag, is_file) in [([file_tag | 0x80, 0], true), ([file_tag | 0x80, 2], false)] {
            let counts_and_starts =
                [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
            let bytes = [&counts_and_starts[..], &tag[..]].concat();
            let mut tables = tables(&[0]);
            let mut debug = DebugReader::new(&bytes, Version::LATEST).expect("the section is complete");
            let mut locations = debug.locations(1);
            let loc = debug.next_loc(&mut locations, &mut tables.strings);
            // A file is no location.
            assert_eq!(loc.ok(), (!is_file).then_some(Loc::UNKNOWN));
        }
    }
}
