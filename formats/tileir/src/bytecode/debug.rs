//! The debug section: for each function the records of the function and of its ops in order, then the records themselves.

use super::cursor::{Context, Cursor};
use super::error::{ReadError, Result};
use super::tables::{Offsets, Strings, check_fits};
use super::{MAX_DEBUG_DEPTH, debug_tag as tag};
use crate::gates::Feature;
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

#[derive(Default)]
pub(super) struct Debug<'a> {
    has_subprogram_flags: bool,
    functions: Offsets<'a>,
    indices: &'a [u8],
    offsets: Offsets<'a>,
    data: &'a [u8],
    records: Vec<Option<Record>>,
    being_read: Vec<u64>,
    names: HashMap<StringId, Name>,
    scopes: HashMap<ScopeData, Scope>,
    locs: HashMap<LocData, Loc>,
    pub(super) info: DebugInfo,
}

/// The position of a function's next location in the array of record numbers.
pub(super) enum LocationCursor {
    None,
    From(u64),
    Broken,
}

impl<'a> Debug<'a> {
    pub(super) fn new(payload: &'a [u8], version: Version) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        let c = &mut cursor;
        let functions = c.varint().with_message(c, "failed to read total number of operations with debug info")?;
        c.align(4).with_message(c, "failed to skip padding for debug info index offset pointer")?;
        let functions = table(c, functions, 4, "read debug info index offset pointer.", "skip debug info index offsets")?;
        let indices = c.varint().with_message(c, "failed to read total number of debug info indices")?;
        c.align(8).with_message(c, "failed to skip padding for debug info indices pointer")?;
        let indices = table(c, indices, 8, "read debug info indices pointer", "skip debug info indices")?;
        let count = c.varint().with_message(c, "failed to read total number of debug info attributes")?;
        check_fits(c, count, 4, "debug info attributes")?;
        c.align(4).with_message(c, "failed to skip padding for debug info offset pointer")?;
        let offsets = table(c, count, 4, "read debug info offset pointer", "skip debug info offsets")?;
        let records = vec![None; count as usize];
        Ok(Debug {
            has_subprogram_flags: version.has(Feature::SubprogramFlags),
            functions: Offsets(functions),
            indices,
            offsets: Offsets(offsets),
            data: c.rest(),
            records,
            ..Debug::default()
        })
    }

    /// The locations of a function with entry `index`; 0 means none.
    pub(super) fn locations(&self, index: u64) -> LocationCursor {
        match index.checked_sub(1) {
            None => LocationCursor::None,
            Some(entry) => match usize::try_from(entry).ok().and_then(|entry| self.functions.get(entry)) {
                Some(first) => LocationCursor::From(u64::from(first)),
                None => LocationCursor::Broken,
            },
        }
    }

    pub(super) fn next_loc(&mut self, locations: &mut LocationCursor, strings: &mut Strings<'_>) -> Result<Loc> {
        let position = match locations {
            LocationCursor::None => return Ok(Loc::UNKNOWN),
            LocationCursor::Broken => return Err(ReadError::silent()),
            LocationCursor::From(position) => {
                *position += 1;
                *position - 1
            }
        };
        let start = usize::try_from(position).ok().and_then(|position| position.checked_mul(8)).ok_or_else(ReadError::silent)?;
        let bytes = self.indices.get(start..start + 8).ok_or_else(ReadError::silent)?;
        let index = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        self.loc(index, strings)
    }

    fn loc(&mut self, index: u64, strings: &mut Strings<'_>) -> Result<Loc> {
        match self.record(index, strings)? {
            Record::Loc(loc) => Ok(loc),
            Record::Scope(_) => Err(ReadError::silent()),
        }
    }

    /// A scope of a kind that `accept` allows.
    fn scope(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>, accept: fn(&ScopeData) -> bool) -> Result<Scope> {
        let index = cursor.varint()?;
        match self.record(index, strings)? {
            Record::Scope(scope) if accept(&self.info.scopes[scope]) => Ok(scope),
            _ => Err(ReadError::silent()),
        }
    }

    /// A record by its number in the file; 0 is the unknown location.
    fn record(&mut self, index: u64, strings: &mut Strings<'_>) -> Result<Record> {
        let Some(number) = index.checked_sub(1) else { return Ok(Record::Loc(Loc::UNKNOWN)) };
        let slot = usize::try_from(number).ok().filter(|slot| *slot < self.records.len()).ok_or_else(ReadError::silent)?;
        if let Some(record) = self.records[slot] {
            return Ok(record);
        }
        let start = self.offsets.get(slot).unwrap_or_default() as usize;
        let end = self.offsets.get(slot + 1).map_or(self.data.len(), |end| end as usize);
        if end < start || end > self.data.len() || self.being_read.contains(&number) {
            return Err(ReadError::silent());
        }
        if self.being_read.len() >= MAX_DEBUG_DEPTH {
            return Err(ReadError::plain(format!("debug records are nested deeper than {MAX_DEBUG_DEPTH} levels")));
        }
        self.being_read.push(number);
        let record = self.decode(&self.data[start..end], strings);
        self.being_read.pop();
        let record = record?;
        self.records[slot] = Some(record);
        Ok(record)
    }

    fn decode(&mut self, bytes: &'a [u8], strings: &mut Strings<'_>) -> Result<Record> {
        let mut cursor = Cursor::new(bytes);
        let kind = cursor.varint()? as u8;
        // Offsets in messages start after the tag.
        let mut cursor = Cursor::new(cursor.rest());
        let c = &mut cursor;
        match u64::from(kind) {
            tag::COMPILE_UNIT => {
                let file = self.file(c, strings).with_message(c, "failed to read file attribute when parsing DICompileUnitAttr")?;
                Ok(self.push_scope(ScopeData::CompileUnit { file }))
            }
            tag::FILE => {
                let name = self.name(c, strings).with_message(c, "failed to read file name attribute when parsing DIFileAttr")?;
                let directory =
                    self.name(c, strings).with_message(c, "failed to read directory attribute when parsing DIFileAttr")?;
                Ok(self.push_scope(ScopeData::File { name, directory }))
            }
            tag::LEXICAL_BLOCK => self.lexical_block(c, strings),
            tag::LOC => self.source(c, strings),
            tag::SUBPROGRAM => self.subprogram(c, strings),
            tag::CALL_SITE => self.call_site(c, strings),
            _ => Ok(Record::Loc(Loc::UNKNOWN)),
        }
    }

    fn lexical_block(&mut self, c: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let scope =
            self.local_scope(c, strings).with_message(c, "failed to read scope attribute when parsing DILexicalBlockAttr")?;
        let file = self.file(c, strings).with_message(c, "failed to read file attribute when parsing DILexicalBlockAttr")?;
        let line = c.varint().with_message(c, "failed to read line number when parsing DILexicalBlockAttr")? as u32;
        let column = c.varint().with_message(c, "failed to read column number when parsing DILexicalBlockAttr")? as u32;
        Ok(self.push_scope(ScopeData::LexicalBlock { scope, file, line, column }))
    }

    fn source(&mut self, c: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let scope = self.local_scope(c, strings).with_message(c, "failed to read scope attribute when parsing DILocAttr")?;
        let file = self.name(c, strings).with_message(c, "failed to read file name attribute when parsing FileLineColLoc")?;
        let line = c.varint().with_message(c, "failed to read line number when parsing FileLineColLoc")? as u32;
        let column = c.varint().with_message(c, "failed to read column number when parsing FileLineColLoc")? as u32;
        Ok(self.push_loc(LocData::Source { file, line, column, scope: Some(scope) }))
    }

    fn subprogram(&mut self, c: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let file = self.file(c, strings).with_message(c, "failed to read file attribute when parsing DISubprogramAttr")?;
        let line = c.varint().with_message(c, "failed to read line number when parsing DISubprogramAttr")? as u32;
        let name = self.name(c, strings).with_message(c, "failed to read name attribute when parsing DISubprogramAttr")?;
        let linkage_name =
            self.name(c, strings).with_message(c, "failed to read linkage name attribute when parsing DISubprogramAttr")?;
        let compile_unit = self
            .scope(c, strings, |scope| matches!(scope, ScopeData::CompileUnit { .. }))
            .with_message(c, "failed to read compile unit attribute when parsing DISubprogramAttr")?;
        let scope_line = c.varint().with_message(c, "failed to read scope line number when parsing DISubprogramAttr")? as u32;
        let declaration = self.has_subprogram_flags && {
            let flags = c.varint().with_message(c, "failed to read flags when parsing DISubprogramAttr")?;
            if flags > 1 {
                let other = flags & !1;
                return Err(c.error(format!("unrecognized flag bits (0x{other:X}) when parsing DISubprogramAttr")));
            }
            flags == 1
        };
        Ok(self.push_scope(ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration }))
    }

    fn call_site(&mut self, c: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Record> {
        let callee = self.inner_loc(c, strings).with_message(c, "failed to read callee attribute when parsing CallSiteLoc")?;
        let caller = self.inner_loc(c, strings).with_message(c, "failed to read caller attribute when parsing CallSiteLoc")?;
        Ok(self.push_loc(LocData::CallSite { callee, caller }))
    }

    fn inner_loc(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Loc> {
        let index = cursor.varint()?;
        self.loc(index, strings)
    }
    fn file(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Scope> {
        self.scope(cursor, strings, |scope| matches!(scope, ScopeData::File { .. }))
    }
    fn local_scope(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Scope> {
        self.scope(cursor, strings, |scope| matches!(scope, ScopeData::Subprogram { .. } | ScopeData::LexicalBlock { .. }))
    }
    fn name(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Name> {
        let index = cursor.varint()?;
        let id = strings.get_lossy(index)?;
        Ok(*self.names.entry(id).or_insert_with(|| self.info.names.push(strings.text(id).into())))
    }
    // Deduplicates records, as NVIDIA's reader does.
    fn push_scope(&mut self, scope: ScopeData) -> Record {
        Record::Scope(*self.scopes.entry(scope.clone()).or_insert_with(|| self.info.scopes.push(scope)))
    }
    fn push_loc(&mut self, loc: LocData) -> Record {
        Record::Loc(*self.locs.entry(loc.clone()).or_insert_with(|| self.info.locs.push(loc)))
    }
}

fn table<'a>(cursor: &mut Cursor<'a>, count: u64, size: u64, read: &str, skip: &str) -> Result<&'a [u8]> {
    if cursor.remaining() == 0 {
        return Err(cursor.error(format!("failed to {read}")));
    }
    let length = count.checked_mul(size).ok_or_else(ReadError::silent);
    length.and_then(|length| cursor.bytes(length)).context(cursor, || format!("failed to {skip}"))
}
