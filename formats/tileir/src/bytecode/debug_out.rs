//! Writes the debug section.

use super::debug_tag as tag;
use super::writer::{StringTable, write_padding_bytes, write_varint};
use crate::gates::Feature;
use crate::version::Version;
use base::loc::{DebugInfo, Loc, LocData, Scope, ScopeData};
use std::collections::HashMap;

/// A location or a scope, each of which becomes a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Record {
    Loc(Loc),
    Scope(Scope),
}

/// Collects the records that functions refer to. A record receives its number on first use, after the records to which it refers.
pub(super) struct DebugWriter<'a> {
    debug: &'a DebugInfo,
    version: Version,
    /// The records in the order of their numbers.
    records: Vec<Record>,
    /// The number of each record.
    number_of: HashMap<Record, u64>,
    /// For each function, the position of its first entry in `record_numbers`.
    function_starts: Vec<u32>,
    record_numbers: Vec<u64>,
}

impl<'a> DebugWriter<'a> {
    pub(super) fn new(debug: &'a DebugInfo, version: Version) -> Self {
        DebugWriter {
            debug,
            version,
            records: Vec::new(),
            number_of: HashMap::new(),
            function_starts: Vec::new(),
            record_numbers: Vec::new(),
        }
    }

    /// Adds the locations of a function and its ops. Returns the number of the function's entry in the debug section, counted from
    /// 1. Returns 0, and adds no entry, if all locations are unknown.
    pub(super) fn add_function(&mut self, locs: &[Loc]) -> u64 {
        let numbers: Vec<u64> = locs.iter().map(|loc| self.record_number(Record::Loc(*loc))).collect();
        if numbers.iter().all(|number| *number == 0) {
            return 0;
        }
        self.function_starts.push(self.record_numbers.len() as u32);
        self.record_numbers.extend(numbers);
        self.function_starts.len() as u64
    }

    /// Returns the number of a record, and numbers the record on first use. A location that bytecode cannot express has number 0.
    fn record_number(&mut self, record: Record) -> u64 {
        let mut pending = vec![record];
        while let Some(record) = pending.last().copied() {
            if self.number_of.contains_key(&record) {
                pending.pop();
                continue;
            }
            let referenced = self.referenced_records(record);
            let unnumbered: Vec<Record> = referenced
                .iter()
                .flatten()
                .copied()
                .filter(|referenced_record| !self.number_of.contains_key(referenced_record))
                .collect();
            if unnumbered.is_empty() {
                let number = if referenced.is_some() { self.records.len() as u64 + 1 } else { 0 };
                if referenced.is_some() {
                    self.records.push(record);
                }
                self.number_of.insert(record, number);
                pending.pop();
            }
            pending.extend(unnumbered);
        }
        self.number_of[&record]
    }

    /// The records to which a record refers; `None` if bytecode cannot express the record.
    fn referenced_records(&self, record: Record) -> Option<Vec<Record>> {
        match record {
            Record::Loc(loc) => match &self.debug.locs[loc] {
                LocData::Source { scope: Some(scope), .. } => Some(vec![Record::Scope(*scope)]),
                LocData::CallSite { callee, caller } => Some(vec![Record::Loc(*callee), Record::Loc(*caller)]),
                LocData::Unknown | LocData::Source { scope: None, .. } | LocData::Fused(_) => None,
            },
            Record::Scope(scope) => Some(match &self.debug.scopes[scope] {
                ScopeData::File { .. } => Vec::new(),
                ScopeData::CompileUnit { file } => vec![Record::Scope(*file)],
                ScopeData::Subprogram { file, compile_unit, .. } => vec![Record::Scope(*file), Record::Scope(*compile_unit)],
                ScopeData::LexicalBlock { scope, file, .. } => vec![Record::Scope(*scope), Record::Scope(*file)],
            }),
        }
    }

    /// Returns the payload of the debug section, or `None` if no function has locations.
    pub(super) fn encode_section(&self, strings: &mut StringTable<'a>) -> Option<Vec<u8>> {
        if self.function_starts.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        write_varint(&mut out, self.function_starts.len() as u64);
        write_padding_bytes(&mut out, 4);
        out.extend(self.function_starts.iter().flat_map(|start| start.to_le_bytes()));
        write_varint(&mut out, self.record_numbers.len() as u64);
        write_padding_bytes(&mut out, 8);
        out.extend(self.record_numbers.iter().flat_map(|index| index.to_le_bytes()));
        let records: Vec<Vec<u8>> = self.records.iter().map(|record| self.encode_record(*record, strings)).collect();
        write_varint(&mut out, records.len() as u64);
        write_padding_bytes(&mut out, 4);
        let mut start = 0u32;
        for record in &records {
            out.extend(start.to_le_bytes());
            start += record.len() as u32;
        }
        out.extend(records.iter().flatten());
        Some(out)
    }

    fn encode_record(&self, record: Record, strings: &mut StringTable<'a>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut write = |value: u64| write_varint(&mut out, value);
        let scope_number = |scope: &Scope| self.number_of[&Record::Scope(*scope)];
        match record {
            Record::Loc(loc) => match &self.debug.locs[loc] {
                LocData::Source { file, line, column, scope: Some(inner) } => {
                    let file = strings.intern(&self.debug.names[*file]);
                    [tag::LOC, scope_number(inner), file, (*line).into(), (*column).into()].into_iter().for_each(write);
                }
                LocData::CallSite { callee, caller } => {
                    let loc_number = |loc: &Loc| self.number_of[&Record::Loc(*loc)];
                    [tag::CALL_SITE, loc_number(callee), loc_number(caller)].into_iter().for_each(write);
                }
                _ => write(0),
            },
            Record::Scope(id) => match &self.debug.scopes[id] {
                ScopeData::File { name, directory } => {
                    let name = strings.intern(&self.debug.names[*name]);
                    let directory = strings.intern(&self.debug.names[*directory]);
                    [tag::FILE, name, directory].into_iter().for_each(write);
                }
                ScopeData::CompileUnit { file } => [tag::COMPILE_UNIT, scope_number(file)].into_iter().for_each(write),
                ScopeData::LexicalBlock { scope: outer, file, line, column } => {
                    let fields = [tag::LEXICAL_BLOCK, scope_number(outer), scope_number(file), (*line).into(), (*column).into()];
                    fields.into_iter().for_each(write);
                }
                ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration } => {
                    let name = strings.intern(&self.debug.names[*name]);
                    let linkage_name = strings.intern(&self.debug.names[*linkage_name]);
                    let unit = scope_number(compile_unit);
                    let (line, scope_line) = ((*line).into(), (*scope_line).into());
                    let flags = self.version.has(Feature::SubprogramFlags).then_some(u64::from(*declaration));
                    let fields = [tag::SUBPROGRAM, scope_number(file), line, name, linkage_name, unit, scope_line];
                    fields.into_iter().chain(flags).for_each(write);
                }
            },
        }
        out
    }
}
