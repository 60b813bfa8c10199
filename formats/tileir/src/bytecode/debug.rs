//! Reads the debug section. For each function, the section lists record numbers: for the location of the function, then for the
//! location of each op in order. The records follow.

use super::cursor::{Cursor, ErrorContext};
use super::debug_tag as tag;
use super::error::{ReadError, Result};
use super::tables::{Offsets, Strings, check_fits};
use crate::gates::Feature;
use crate::reader_limits::MAX_DEBUG_DEPTH;
use crate::types::StringId;
use crate::version::Version;
use base::loc::{DebugInfo, Loc, LocData, Name, Scope, ScopeData};
use std::collections::HashMap;

/// A decoded record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Record {
    Loc(Loc),
    Scope(Scope),
}

/// The debug section, and the records that the reader has decoded.
#[derive(Default)]
pub(super) struct DebugReader<'a> {
    /// Whether the version of the file has a flags word in subprogram records.
    has_subprogram_flags: bool,
    /// For each function, the position of its first entry in `record_numbers`.
    function_starts: Offsets<'a>,
    /// Record numbers of eight bytes each.
    record_numbers: &'a [u8],
    record_offsets: Offsets<'a>,
    record_bytes: &'a [u8],
    /// The decoded records, by index; `None` for a record that has not been decoded.
    records: Vec<Option<Record>>,
    /// The indices of the records whose decoding has begun but not ended, to detect cycles.
    being_read: Vec<u64>,
    names: HashMap<StringId, Name>,
    scopes: HashMap<ScopeData, Scope>,
    locs: HashMap<LocData, Loc>,
    /// The locations and scopes of the decoded records.
    pub(super) info: DebugInfo,
}

/// The position of a function's next location in the array of record numbers.
pub(super) enum LocationCursor {
    /// The function has no locations.
    None,
    From(u64),
    /// The function refers to an entry that the section does not have.
    Broken,
}

impl<'a> DebugReader<'a> {
    pub(super) fn new(payload: &'a [u8], version: Version) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        let cursor = &mut cursor;
        let function_count = cursor.varint().with_message(cursor, "failed to read total number of operations with debug info")?;
        cursor.align(4).with_message(cursor, "failed to skip padding for debug info index offset pointer")?;
        let function_starts =
            read_entry_array(cursor, function_count, 4, "read debug info index offset pointer.", "skip debug info index offsets")?;
        let record_number_count = cursor.varint().with_message(cursor, "failed to read total number of debug info indices")?;
        cursor.align(8).with_message(cursor, "failed to skip padding for debug info indices pointer")?;
        let record_numbers =
            read_entry_array(cursor, record_number_count, 8, "read debug info indices pointer", "skip debug info indices")?;
        let record_count = cursor.varint().with_message(cursor, "failed to read total number of debug info attributes")?;
        check_fits(cursor, record_count, 4, "debug info attributes")?;
        cursor.align(4).with_message(cursor, "failed to skip padding for debug info offset pointer")?;
        let record_offsets =
            read_entry_array(cursor, record_count, 4, "read debug info offset pointer", "skip debug info offsets")?;
        let records = vec![None; record_count as usize];
        Ok(DebugReader {
            has_subprogram_flags: version.has(Feature::SubprogramFlags),
            function_starts: Offsets(function_starts),
            record_numbers,
            record_offsets: Offsets(record_offsets),
            record_bytes: cursor.rest(),
            records,
            ..DebugReader::default()
        })
    }

    /// Returns a cursor at the first location of a function. `number` is the number of the function's entry in the debug section,
    /// counted from 1. Number 0 means that the function has no locations.
    pub(super) fn locations(&self, number: u64) -> LocationCursor {
        match number.checked_sub(1) {
            None => LocationCursor::None,
            Some(entry) => match usize::try_from(entry).ok().and_then(|entry| self.function_starts.get(entry)) {
                Some(first) => LocationCursor::From(u64::from(first)),
                None => LocationCursor::Broken,
            },
        }
    }

    /// Returns the location at the cursor, and advances the cursor.
    pub(super) fn next_loc(&mut self, locations: &mut LocationCursor, strings: &mut Strings<'_>) -> Result<Loc> {
        let position = match locations {
            LocationCursor::None => return Ok(Loc::UNKNOWN),
            LocationCursor::Broken => return Err(ReadError::without_message()),
            LocationCursor::From(position) => {
                *position += 1;
                *position - 1
            }
        };
        let start =
            usize::try_from(position).ok().and_then(|position| position.checked_mul(8)).ok_or_else(ReadError::without_message)?;
        let bytes = self.record_numbers.get(start..start + 8).ok_or_else(ReadError::without_message)?;
        let number = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        self.find_loc(number, strings)
    }

    /// Returns the location with a record number. A record that is not a location is an error.
    fn find_loc(&mut self, number: u64, strings: &mut Strings<'_>) -> Result<Loc> {
        match self.find_record(number, strings)? {
            Record::Loc(loc) => Ok(loc),
            Record::Scope(_) => Err(ReadError::without_message()),
        }
    }

    /// Reads a reference to a scope. The error is for a record that is not a scope, and for a scope that `accept` rejects.
    fn read_scope(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>, accept: fn(&ScopeData) -> bool) -> Result<Scope> {
        let number = cursor.varint()?;
        match self.find_record(number, strings)? {
            Record::Scope(scope) if accept(&self.info.scopes[scope]) => Ok(scope),
            _ => Err(ReadError::without_message()),
        }
    }

    /// Returns the record with a number, counted from 1, and decodes it on first use. Number 0 is the unknown location.
    fn find_record(&mut self, number: u64, strings: &mut Strings<'_>) -> Result<Record> {
        let Some(index) = number.checked_sub(1) else { return Ok(Record::Loc(Loc::UNKNOWN)) };
        let slot = usize::try_from(index).ok().filter(|slot| *slot < self.records.len()).ok_or_else(ReadError::without_message)?;
        if let Some(record) = self.records[slot] {
            return Ok(record);
        }
        let start = self.record_offsets.get(slot).unwrap_or_default() as usize;
        let end = self.record_offsets.get(slot + 1).map_or(self.record_bytes.len(), |end| end as usize);
        if end < start || end > self.record_bytes.len() || self.being_read.contains(&index) {
            return Err(ReadError::without_message());
        }
        if self.being_read.len() >= MAX_DEBUG_DEPTH {
            return Err(ReadError::without_offset(format!("debug records are nested deeper than {MAX_DEBUG_DEPTH} levels")));
        }
        self.being_read.push(index);
        let record = self.decode(&self.record_bytes[start..end], strings);
        self.being_read.pop();
        let record = record?;
        self.records[slot] = Some(record);
        Ok(record)
    }

    /// Decodes the bytes of a record: a tag, and the fields of the record's kind.
    fn decode(&mut self, bytes: &'a [u8], strings: &mut Strings<'_>) -> Result<Record> {
        let mut cursor = Cursor::new(bytes);
        let kind = cursor.varint()?;
        // Error messages count offsets from the byte after the tag.
        let mut cursor = Cursor::new(cursor.rest());
        let cursor = &mut cursor;
        match kind {
            tag::COMPILE_UNIT => {
                let file = self
                    .read_file(cursor, strings)
                    .with_message(cursor, "failed to read file attribute when parsing DICompileUnitAttr")?;
                Ok(self.push_scope(ScopeData::CompileUnit { file }))
            }
            tag::FILE => {
                let name = self
                    .read_name(cursor, strings)
                    .with_message(cursor, "failed to read file name attribute when parsing DIFileAttr")?;
                let directory = self
                    .read_name(cursor, strings)
                    .with_message(cursor, "failed to read directory attribute when parsing DIFileAttr")?;
                Ok(self.push_scope(ScopeData::File { name, directory }))
            }
            tag::LEXICAL_BLOCK => self.read_lexical_block(cursor, strings),
            tag::LOC => self.read_source_loc(cursor, strings),
            tag::SUBPROGRAM => self.read_subprogram(cursor, strings),
            tag::CALL_SITE => self.read_call_site(cursor, strings),
            _ => Ok(Record::Loc(Loc::UNKNOWN)),
        }
    }

    fn read_lexical_block(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let scope = self
            .read_local_scope(cursor, strings)
            .with_message(cursor, "failed to read scope attribute when parsing DILexicalBlockAttr")?;
        let file = self
            .read_file(cursor, strings)
            .with_message(cursor, "failed to read file attribute when parsing DILexicalBlockAttr")?;
        let line = cursor.varint().with_message(cursor, "failed to read line number when parsing DILexicalBlockAttr")? as u32;
        let column = cursor.varint().with_message(cursor, "failed to read column number when parsing DILexicalBlockAttr")? as u32;
        Ok(self.push_scope(ScopeData::LexicalBlock { scope, file, line, column }))
    }

    fn read_source_loc(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let scope =
            self.read_local_scope(cursor, strings).with_message(cursor, "failed to read scope attribute when parsing DILocAttr")?;
        let file = self
            .read_name(cursor, strings)
            .with_message(cursor, "failed to read file name attribute when parsing FileLineColLoc")?;
        let line = cursor.varint().with_message(cursor, "failed to read line number when parsing FileLineColLoc")? as u32;
        let column = cursor.varint().with_message(cursor, "failed to read column number when parsing FileLineColLoc")? as u32;
        Ok(self.push_loc(LocData::Source { file, line, column, scope: Some(scope) }))
    }

    fn read_subprogram(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let file =
            self.read_file(cursor, strings).with_message(cursor, "failed to read file attribute when parsing DISubprogramAttr")?;
        let line = cursor.varint().with_message(cursor, "failed to read line number when parsing DISubprogramAttr")? as u32;
        let name =
            self.read_name(cursor, strings).with_message(cursor, "failed to read name attribute when parsing DISubprogramAttr")?;
        let linkage_name = self
            .read_name(cursor, strings)
            .with_message(cursor, "failed to read linkage name attribute when parsing DISubprogramAttr")?;
        let compile_unit = self
            .read_scope(cursor, strings, |scope| matches!(scope, ScopeData::CompileUnit { .. }))
            .with_message(cursor, "failed to read compile unit attribute when parsing DISubprogramAttr")?;
        let scope_line =
            cursor.varint().with_message(cursor, "failed to read scope line number when parsing DISubprogramAttr")? as u32;
        let declaration = self.has_subprogram_flags && {
            let flags = cursor.varint().with_message(cursor, "failed to read flags when parsing DISubprogramAttr")?;
            if flags > 1 {
                let unknown_flags = flags & !1;
                return Err(cursor.error(format!("unrecognized flag bits (0x{unknown_flags:X}) when parsing DISubprogramAttr")));
            }
            flags == 1
        };
        Ok(self.push_scope(ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration }))
    }

    fn read_call_site(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let callee =
            self.read_loc(cursor, strings).with_message(cursor, "failed to read callee attribute when parsing CallSiteLoc")?;
        let caller =
            self.read_loc(cursor, strings).with_message(cursor, "failed to read caller attribute when parsing CallSiteLoc")?;
        Ok(self.push_loc(LocData::CallSite { callee, caller }))
    }

    fn read_loc(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Loc> {
        let number = cursor.varint()?;
        self.find_loc(number, strings)
    }
    fn read_file(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Scope> {
        self.read_scope(cursor, strings, |scope| matches!(scope, ScopeData::File { .. }))
    }
    fn read_local_scope(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Scope> {
        self.read_scope(cursor, strings, |scope| matches!(scope, ScopeData::Subprogram { .. } | ScopeData::LexicalBlock { .. }))
    }
    fn read_name(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Name> {
        let index = cursor.varint()?;
        let id = strings.get_lossy(index)?;
        Ok(*self.names.entry(id).or_insert_with(|| self.info.names.push(strings.text(id).into())))
    }
    // Equal records share one scope or location, as in NVIDIA's reader.
    fn push_scope(&mut self, scope: ScopeData) -> Record {
        Record::Scope(*self.scopes.entry(scope.clone()).or_insert_with(|| self.info.scopes.push(scope)))
    }
    fn push_loc(&mut self, loc: LocData) -> Record {
        Record::Loc(*self.locs.entry(loc.clone()).or_insert_with(|| self.info.locs.push(loc)))
    }
}

/// Reads the bytes of an array of `count` entries of `size` bytes. `read` and `skip` are the ends of the two possible error
/// messages.
fn read_entry_array<'a>(cursor: &mut Cursor<'a>, count: u64, size: u64, read: &str, skip: &str) -> Result<&'a [u8]> {
    if cursor.remaining() == 0 {
        return Err(cursor.error(format!("failed to {read}")));
    }
    let length = count.checked_mul(size).ok_or_else(ReadError::without_message);
    length.and_then(|length| cursor.bytes(length)).context(cursor, || format!("failed to {skip}"))
}
