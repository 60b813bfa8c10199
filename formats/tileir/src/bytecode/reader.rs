//! Reads a bytecode file: header, sections, function table and globals.

use super::cursor::{Cursor, ErrorContext};
use super::debug::DebugReader;
use super::error::{Line, ReadError, Result};
use super::function::DecodedFunction;
use super::tables::{Constants, Strings, check_fits};
use super::types::Types;
use super::{MAGIC, section};
use crate::enums::{Visibility, WireEnum};
use crate::gates::Feature;
use crate::module::{Function, Global, Module};
use crate::preview::Extern;
use crate::types::Type;
use crate::verify::{self, Failure};
use crate::version::Version;
use base::{DebugInfo, Loc};

/// The optional language features of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether the file may have preview content for SIMT code ([`crate::preview`]).
    pub simt: bool,
}

impl Features {
    /// The names that `--preview` accepts.
    pub const NAMES: &'static [&'static str] = &["simt"];
    pub const ALL: Features = Features { simt: true };

    /// Parses a comma-separated list. The error is the first unknown name.
    pub fn parse(list: &str) -> std::result::Result<Features, &str> {
        let mut features = Features::default();
        for name in list.split(',') {
            match name {
                "simt" => features.simt = true,
                other => return Err(other),
            }
        }
        Ok(features)
    }
}

/// A program that a reader decoded, and its debug information.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedProgram {
    pub module: Module,
    pub debug: DebugInfo,
}

/// The tables that the parts of a file refer to.
pub(super) struct Tables<'a> {
    pub(super) version: Version,
    /// Whether the header signals preview content.
    pub(super) preview: bool,
    pub(super) strings: Strings<'a>,
    pub(super) types: Types<'a>,
    pub(super) constants: Constants<'a>,
    pub(super) debug: DebugReader<'a>,
    /// How many more parameters the functions may have. The limit bounds the memory that a damaged file can request.
    pub(super) parameter_budget: usize,
}

/// Reads a file and verifies the program.
pub fn read(bytes: &[u8], features: Features) -> Result<DecodedProgram> {
    let program = decode(bytes, features)?;
    let read_error = |failure: Failure, conclusion: &str| ReadError {
        lines: vec![Line::without_offset(failure.message), Line::without_offset(conclusion)],
        position: program.debug.position(failure.loc).map(|(file, line, column)| (file.to_string(), line, column)),
        has_conclusion: true,
    };
    verify::verify(&program.module, &program.debug).map_err(|failure| read_error(failure, VERIFICATION_FAILED))?;
    verify::check_expressible(&program.module).map_err(|failure| read_error(failure, INEXPRESSIBLE))?;
    Ok(program)
}

/// The error line that follows a violated language rule.
const VERIFICATION_FAILED: &str = "verification failed for deserialized cuda_tile::ModuleOp";

/// The error line that follows a violated format rule.
const INEXPRESSIBLE: &str = "deserialized module does not conform to bytecode format invariants";

/// Decodes a file without verifying the program.
fn decode(bytes: &[u8], features: Features) -> Result<DecodedProgram> {
    let mut cursor = Cursor::new(bytes);
    let (version, preview) = read_header(&mut cursor, bytes, features)?;
    let sections = read_sections(&mut cursor)?;
    // The error lines about sections have the offset of the file's end, as in NVIDIA's reader.
    let with_line = |error: ReadError, message: &str| error.with_outer_line(cursor.offset(), message);

    let Some(strings) = sections[section::STRING as usize] else {
        return Err(cursor.error("string section is mandatory"));
    };
    let strings = Strings::new(strings, bytes.len()).map_err(|error| with_line(error, "failed to parse string section"))?;
    let no_types = Types::new(None, version, preview, bytes.len())?;
    let mut tables = Tables {
        version,
        preview,
        strings,
        types: no_types,
        constants: Constants::default(),
        debug: DebugReader::default(),
        parameter_budget: bytes.len(),
    };
    let producer = sections[section::PRODUCER as usize]
        .map(|payload| read_producer(payload, &mut tables))
        .transpose()
        .map_err(|error| with_line(error, "failed to parse producer section"))?;
    tables.types = Types::new(sections[section::TYPE as usize], version, preview, bytes.len())
        .map_err(|error| with_line(error, "failed to parse type section"))?;
    if let Some(payload) = sections[section::CONSTANT as usize] {
        tables.constants = Constants::new(payload).map_err(|error| with_line(error, "failed to parse constant section"))?;
    }
    let globals = match sections[section::GLOBAL as usize] {
        Some(payload) => read_globals(payload, version).map_err(|error| with_line(error, "failed to parse global section"))?,
        None => Vec::new(),
    };
    let Some(payload) = sections[section::FUNCTION as usize] else {
        return Err(cursor.error("function section is mandatory"));
    };
    let records = tables.read_function_table(payload).map_err(|error| with_line(error, "failed to parse function section"))?;
    if let Some(payload) = sections[section::DEBUG as usize] {
        tables.debug = DebugReader::new(payload, version).map_err(|error| with_line(error, "failed to parse debug section"))?;
    }

    let globals = globals
        .into_iter()
        .map(|record| tables.decode_global(record, &cursor))
        .collect::<Result<Vec<_>>>()
        .map_err(|error| with_line(error, "failed to create global from bytecode"))?;
    let functions = records
        .iter()
        .map(|record| tables.decode_function(record, &cursor))
        .collect::<Result<Vec<DecodedFunction>>>()
        .map_err(|error| with_line(error, "failed to create function from bytecode"))?;
    let (functions, externs) = separate_externs(functions, features)?;
    if let Some(index) = tables.strings.not_utf8 {
        return Err(ReadError::without_offset(format!("string {index} is not UTF-8 text")));
    }
    let module = Module {
        version,
        preview,
        producer,
        strings: tables.strings.arena,
        types: tables.types.arena,
        constants: tables.constants.arena,
        globals,
        functions,
        externs,
    };
    Ok(DecodedProgram { module, debug: tables.debug.info })
}

/// Separates the entries of a file from its functions without a body. Returns an error for a function without a body if the preview
/// feature `simt` is not enabled. Also returns an error for a function with a body that is not an entry.
fn separate_externs(functions_of_file: Vec<DecodedFunction>, features: Features) -> Result<(Vec<Function>, Vec<Extern>)> {
    let (mut functions, mut externs) = (Vec::new(), Vec::new());
    let mut has_device_function = false;
    for decoded_function in functions_of_file {
        match decoded_function {
            DecodedFunction::Entry(function) => functions.push(function),
            DecodedFunction::Extern(function) => externs.push(Extern { after: functions.len() as u32, ..function }),
            DecodedFunction::Device => has_device_function = true,
        }
    }
    let lines = match (has_device_function || !externs.is_empty(), features.simt) {
        (true, false) => vec!["uses preview feature 'simt', which is not enabled", VERIFICATION_FAILED],
        (true, true) if has_device_function => {
            vec!["'cuda_tile.preview$func' op must be extern when serialized to bytecode", INEXPRESSIBLE]
        }
        _ => return Ok((functions, externs)),
    };
    Err(ReadError { lines: lines.into_iter().map(Line::without_offset).collect(), ..ReadError::without_message() })
}

/// Reads the version, and whether the header signals preview content.
fn read_header(cursor: &mut Cursor<'_>, bytes: &[u8], features: Features) -> Result<(Version, bool)> {
    if !bytes.starts_with(&MAGIC) {
        return Err(not_bytecode(bytes));
    }
    cursor.bytes(MAGIC.len() as u64)?;
    // A missing byte counts as zero, as in NVIDIA's reader, which reads the zero after the end of its buffer.
    let (major, minor) = (cursor.byte().unwrap_or(0), cursor.byte().unwrap_or(0));
    let Some(version) = Version::new(major, minor) else {
        return Err(ReadError::without_conclusion(format!("unsupported Tile IR bytecode version: {major}.{minor}")));
    };
    let tag = cursor.byte_array().with_message(cursor, "failed to parse bytecode header")?;
    let (tag, unknown_bits) = (u16::from_le_bytes(tag), u16::from_le_bytes(tag) & !PREVIEW_BIT);
    if unknown_bits != 0 {
        return Err(cursor.error(format!("header has unrecognized version tag bits (0x{unknown_bits:X});")))
            .with_message(cursor, "failed to parse bytecode header");
    }
    if tag == 0 {
        return Ok((version, false));
    }
    if !version.has(Feature::HeaderPreview) {
        return Err(cursor.error(format!(
            "public-preview bytecode at version {version}.{tag} is not readable; preview content is only valid at the current \
             version {}",
            Version::LATEST
        )));
    }
    if features == Features::default() {
        return Err(cursor.error("public-preview bytecode requires at least one enabled preview feature"));
    }
    Ok((version, true))
}

/// The bit of the version tag that signals preview content; no other bit is valid. The version tag is the 16-bit word that follows
/// the major and minor version in the header.
const PREVIEW_BIT: u16 = 1;

/// The error for a file without the magic number. Like the error of NVIDIA's reader, the error names the actual kind of the file
/// only for MLIR bytecode.
fn not_bytecode(bytes: &[u8]) -> ReadError {
    if bytes.starts_with(b"ML\xefR") {
        return ReadError::without_conclusion(format!("{} (it looks like MLIR bytecode instead)", super::error::CONCLUSION));
    }
    ReadError::without_message()
}

/// Returns the payloads by section number. A later section replaces an earlier section of the same kind.
fn read_sections<'a>(cursor: &mut Cursor<'a>) -> Result<[Option<&'a [u8]>; section::COUNT as usize]> {
    let mut payloads = [None; section::COUNT as usize];
    loop {
        let header = read_section_header(cursor).with_message(cursor, "failed to parse section header")?;
        if header.id == section::END {
            if cursor.remaining() != 0 {
                return Err(cursor.error("end section is not the last section"));
            }
            return Ok(payloads);
        }
        let required_alignment = match header.id {
            section::STRING | section::TYPE => 4,
            section::CONSTANT | section::DEBUG | section::FUNCTION => 8,
            _ => 1,
        };
        if required_alignment > 1 && header.alignment.is_none_or(|alignment| alignment % required_alignment != 0) {
            let got = match header.alignment {
                Some(alignment) => format!("has alignment of {alignment}"),
                None => "has no alignment flag set".into(),
            };
            let id = header.id;
            return Err(cursor
                .error(format!("section {id} must have alignment that is a multiple of {required_alignment} bytes, but {got}")));
        }
        if header.length > cursor.remaining() as u64 {
            let (length, rest) = (header.length, cursor.remaining());
            return Err(cursor.error(format!("section length {length} exceeds remaining bytecode data. {rest}")));
        }
        payloads[header.id as usize] = Some(cursor.bytes(header.length)?);
    }
}

/// The header of a section. `length` is the size of the payload in bytes.
struct SectionHeader {
    id: u8,
    length: u64,
    /// The alignment of the payload in the file; `None` without padding.
    alignment: Option<u64>,
}

/// Reads the header of a section and the padding before its payload.
fn read_section_header(cursor: &mut Cursor<'_>) -> Result<SectionHeader> {
    let first_byte = cursor.byte().with_message(cursor, "unexpected end of data while reading section header")?;
    let (id, has_alignment) = (first_byte & 0x7F, first_byte & 0x80 != 0);
    if id == section::END {
        if has_alignment {
            return Err(cursor.error("end section should not have alignment flag set"));
        }
        return Ok(SectionHeader { id, length: 0, alignment: None });
    }
    if id >= section::COUNT {
        return Err(cursor.error(format!("unknown section ID: {id}")));
    }
    let length = cursor.varint().with_message(cursor, "failed to read section length")?;
    if length > cursor.remaining() as u64 {
        let rest = cursor.remaining();
        return Err(cursor.error(format!("section length {length} exceeds remaining data size {rest}")));
    }
    let mut alignment = None;
    if has_alignment {
        let value = cursor.varint()?;
        if !value.is_power_of_two() {
            return Err(cursor.error(format!("invalid alignment value: {value}")));
        }
        cursor.align(value)?;
        alignment = Some(value);
    }
    Ok(SectionHeader { id, length, alignment })
}

/// Reads the name of the producer.
fn read_producer(payload: &[u8], tables: &mut Tables<'_>) -> Result<crate::types::StringId> {
    let mut cursor = Cursor::new(payload);
    let index = cursor.varint().with_message(&cursor, "failed to read producer string index")?;
    tables.strings.get_lossy(index).context(&cursor, || format!("failed to get producer string at index {index}"))
}

/// A global before its references are resolved: `name`, `ty` and `value` are indices of a string, a type and a constant.
struct GlobalRecord {
    name: u64,
    ty: u64,
    value: u64,
    alignment: u64,
    visibility: u64,
    constant: u64,
}

/// Reads the records of the global section, without resolving their references.
fn read_globals(payload: &[u8], version: Version) -> Result<Vec<GlobalRecord>> {
    let mut cursor = Cursor::new(payload);
    let cursor = &mut cursor;
    let count = cursor.varint().with_message(cursor, "failed to read number of global.")?;
    let has_flags = version.has(Feature::GlobalFlags);
    check_fits(cursor, count, if has_flags { 6 } else { 4 }, "globals")?;
    let mut records = Vec::new();
    for _ in 0..count {
        records.push(GlobalRecord {
            name: cursor.varint().with_message(cursor, "failed to read global symbol name string.")?,
            ty: cursor.varint().with_message(cursor, "failed to read global value type")?,
            value: cursor.varint().with_message(cursor, "failed to read global value constant index")?,
            alignment: cursor.varint().with_message(cursor, "failed to read global alignment")?,
            visibility: if has_flags {
                cursor.varint().with_message(cursor, "failed to read global symbol visibility")?
            } else {
                0
            },
            constant: if has_flags { cursor.varint().with_message(cursor, "failed to read global constant flag")? } else { 0 },
        });
    }
    Ok(records)
}

impl Tables<'_> {
    /// Resolves the references of a global. `file_end` is the end of the file, for messages.
    fn decode_global(&mut self, record: GlobalRecord, file_end: &Cursor<'_>) -> Result<Global> {
        if record.value >= self.constants.len() {
            return Err(file_end.error("global value constant index out of bounds"));
        }
        let index = record.name;
        let name =
            self.strings.get(index).context(file_end, || format!("failed to get global symbol name string for index {index}"))?;
        if self.strings.text(name).is_empty() {
            return Err(file_end.error(format!("global symbol name at index {index} is empty")));
        }
        let ty = self.types.get(record.ty, &mut self.strings).map_err(|error| match error.lines.is_empty() {
            true => ReadError::at(0, "provided type is null"),
            false => error.with_outer_line(0, "provided type is null"),
        })?;
        if !matches!(self.types.arena[ty], Type::Tile { .. }) {
            return Err(ReadError::at(0, "expect Cuda Tile integer or float type but got: <<NULL TYPE>>"));
        }
        let value = self.intern_constant(record.value, ty)?;
        let visibility = u8::try_from(record.visibility).ok().and_then(Visibility::from_number);
        let visibility =
            visibility.ok_or_else(|| file_end.error(format!("invalid symbol visibility value: {}", record.visibility)))?;
        let (alignment, constant) = (record.alignment, record.constant != 0);
        Ok(Global { name, ty, value, alignment, visibility, constant, loc: Loc::UNKNOWN })
    }
}
