//! Writes the debug section.

use super::debug_tag as tag;
use super::writer::{StringTable, pad, varint};
use crate::gates::Feature;
use crate::version::Version;
use base::loc::{DebugInfo, Loc, LocData, Scope, ScopeData};
use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    Loc(Loc),
    Scope(Scope),
}

/// Collects the records that functions refer to. A record is numbered on first use, after the records it refers to.
pub(super) struct DebugWriter<'a> {
    debug: &'a DebugInfo,
    version: Version,
    order: Vec<Item>,
    numbers: HashMap<Item, u64>,
    starts: Vec<u32>,
    indices: Vec<u64>,
}

impl<'a> DebugWriter<'a> {
    pub(super) fn new(debug: &'a DebugInfo, version: Version) -> Self {
        DebugWriter { debug, version, order: Vec::new(), numbers: HashMap::new(), starts: Vec::new(), indices: Vec::new() }
    }

    /// Adds the locations of a function and its ops. Returns the function's entry, or 0 if all are unknown.
    pub(super) fn function(&mut self, locs: &[Loc]) -> u64 {
        let numbers: Vec<u64> = locs.iter().map(|loc| self.number(Item::Loc(*loc))).collect();
        if numbers.iter().all(|number| *number == 0) {
            return 0;
        }
        self.starts.push(self.indices.len() as u32);
        self.indices.extend(numbers);
        self.starts.len() as u64
    }

    /// The number of a record; 0 is the unknown location.
    fn number(&mut self, item: Item) -> u64 {
        let mut pending = vec![item];
        while let Some(item) = pending.last().copied() {
            if self.numbers.contains_key(&item) {
                pending.pop();
                continue;
            }
            let parts = self.parts(item);
            let missing: Vec<Item> = parts.iter().flatten().copied().filter(|part| !self.numbers.contains_key(part)).collect();
            if missing.is_empty() {
                let number = if parts.is_some() { self.order.len() as u64 + 1 } else { 0 };
                if parts.is_some() {
                    self.order.push(item);
                }
                self.numbers.insert(item, number);
                pending.pop();
            }
            pending.extend(missing);
        }
        self.numbers[&item]
    }

    /// The items that a record refers to; none if bytecode cannot express the record.
    fn parts(&self, item: Item) -> Option<Vec<Item>> {
        match item {
            Item::Loc(loc) => match &self.debug.locs[loc] {
                LocData::Source { scope: Some(scope), .. } => Some(vec![Item::Scope(*scope)]),
                LocData::CallSite { callee, caller } => Some(vec![Item::Loc(*callee), Item::Loc(*caller)]),
                LocData::Unknown | LocData::Source { scope: None, .. } | LocData::Fused(_) => None,
            },
            Item::Scope(scope) => Some(match &self.debug.scopes[scope] {
                ScopeData::File { .. } => Vec::new(),
                ScopeData::CompileUnit { file } => vec![Item::Scope(*file)],
                ScopeData::Subprogram { file, compile_unit, .. } => vec![Item::Scope(*file), Item::Scope(*compile_unit)],
                ScopeData::LexicalBlock { scope, file, .. } => vec![Item::Scope(*scope), Item::Scope(*file)],
            }),
        }
    }

    pub(super) fn section(&self, strings: &mut StringTable<'a>) -> Option<Vec<u8>> {
        if self.starts.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        varint(&mut out, self.starts.len() as u64);
        pad(&mut out, 4);
        out.extend(self.starts.iter().flat_map(|start| start.to_le_bytes()));
        varint(&mut out, self.indices.len() as u64);
        pad(&mut out, 8);
        out.extend(self.indices.iter().flat_map(|index| index.to_le_bytes()));
        let records: Vec<Vec<u8>> = self.order.iter().map(|item| self.record(*item, strings)).collect();
        varint(&mut out, records.len() as u64);
        pad(&mut out, 4);
        let mut start = 0u32;
        for record in &records {
            out.extend(start.to_le_bytes());
            start += record.len() as u32;
        }
        out.extend(records.iter().flatten());
        Some(out)
    }

    fn record(&self, item: Item, strings: &mut StringTable<'a>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |value: u64| varint(&mut out, value);
        let scope = |scope: &Scope| self.numbers[&Item::Scope(*scope)];
        match item {
            Item::Loc(loc) => match &self.debug.locs[loc] {
                LocData::Source { file, line, column, scope: Some(inner) } => {
                    let file = strings.index(&self.debug.names[*file]);
                    [tag::LOC, scope(inner), file, (*line).into(), (*column).into()].into_iter().for_each(put);
                }
                LocData::CallSite { callee, caller } => {
                    let number = |loc: &Loc| self.numbers[&Item::Loc(*loc)];
                    [tag::CALL_SITE, number(callee), number(caller)].into_iter().for_each(put);
                }
                _ => put(0),
            },
            Item::Scope(id) => match &self.debug.scopes[id] {
                ScopeData::File { name, directory } => {
                    let name = strings.index(&self.debug.names[*name]);
                    let directory = strings.index(&self.debug.names[*directory]);
                    [tag::FILE, name, directory].into_iter().for_each(put);
                }
                ScopeData::CompileUnit { file } => [tag::COMPILE_UNIT, scope(file)].into_iter().for_each(put),
                ScopeData::LexicalBlock { scope: outer, file, line, column } => {
                    let fields = [tag::LEXICAL_BLOCK, scope(outer), scope(file), (*line).into(), (*column).into()];
                    fields.into_iter().for_each(put);
                }
                ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration } => {
                    let name = strings.index(&self.debug.names[*name]);
                    let linkage_name = strings.index(&self.debug.names[*linkage_name]);
                    let unit = scope(compile_unit);
                    let (line, scope_line) = ((*line).into(), (*scope_line).into());
                    let flags = self.version.has(Feature::SubprogramFlags).then_some(u64::from(*declaration));
                    let fields = [tag::SUBPROGRAM, scope(file), line, name, linkage_name, unit, scope_line];
                    fields.into_iter().chain(flags).for_each(put);
                }
            },
        }
        out
    }
}
