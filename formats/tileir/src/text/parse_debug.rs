//! Parses locations and debug scopes. A text may define their names, such as `#loc1`, anywhere, usually after the program.

use super::lex::Cursor;
use crate::reader_limits::MAX_DEBUG_DEPTH;
use base::diag::Result;
use base::loc::{DebugInfo, Loc, LocData, Name, Scope, ScopeData};
use std::collections::HashMap;

/// A parsed definition.
#[derive(Clone, Copy)]
enum LocOrScope {
    Loc(Loc),
    Scope(Scope),
}

/// The definitions of locations and scopes in a text, each parsed on first use.
pub(super) struct DebugParser<'a, 'd> {
    info: &'d mut DebugInfo,
    /// The position after the `=` of each definition.
    definition_starts: HashMap<&'a str, usize>,
    /// The parsed definitions, by name.
    parsed: HashMap<&'a str, LocOrScope>,
    /// The file, line and column of each name that [`Self::parse_place_or_alias`] has parsed.
    places: HashMap<&'a str, (Name, u32, u32)>,
    names: HashMap<String, Name>,
    locs: HashMap<LocData, Loc>,
    scopes: HashMap<ScopeData, Scope>,
    /// The nesting depth of the location that is being parsed.
    depth: usize,
}

impl<'a, 'd> DebugParser<'a, 'd> {
    /// Finds the definitions, which are lines that begin with `#name =`.
    pub(super) fn new(text: &'a str, info: &'d mut DebugInfo) -> Self {
        let mut definition_starts = HashMap::new();
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            if let Some((name, _)) = line.strip_prefix('#').and_then(|line| line.split_once('=')) {
                definition_starts.insert(name.trim(), offset + line.find('=').unwrap_or(0) + 1);
            }
            offset += line.len();
        }
        // Locations and scopes that the envelope of the file has already keep their ids.
        let names = info.names.iter().map(|(id, name)| (name.clone(), id)).collect();
        let locs = info.locs.iter().map(|(id, loc)| (loc.clone(), id)).collect();
        let scopes = info.scopes.iter().map(|(id, scope)| (scope.clone(), id)).collect();
        DebugParser { info, definition_starts, parsed: HashMap::new(), places: HashMap::new(), names, locs, scopes, depth: 0 }
    }

    /// Parses an optional ` loc(…)` after an op.
    pub(super) fn parse_optional_loc(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<Loc>> {
        if !cursor.continues_with("loc") {
            return Ok(None);
        }
        self.parse_location(cursor).map(Some)
    }

    fn parse_location(&mut self, cursor: &mut Cursor<'a>) -> Result<Loc> {
        cursor.expect("loc")?;
        cursor.expect("(")?;
        let loc = self.parse_loc_content(cursor)?;
        cursor.expect(")")?;
        Ok(loc)
    }

    /// Parses the content of `loc(…)`.
    fn parse_loc_content(&mut self, cursor: &mut Cursor<'a>) -> Result<Loc> {
        self.enter_level(cursor)?;
        let loc = self.parse_loc_content_at_depth(cursor);
        self.depth -= 1;
        loc
    }

    fn parse_loc_content_at_depth(&mut self, cursor: &mut Cursor<'a>) -> Result<Loc> {
        match cursor.peek() {
            Some('"') => {
                let (file, line, column) = self.parse_place(cursor)?;
                Ok(self.intern_loc(LocData::Source { file, line, column, scope: None }))
            }
            Some('#') => {
                cursor.skip_space();
                let offset = cursor.offset();
                match self.parse_loc_or_scope(cursor)? {
                    LocOrScope::Loc(loc) => Ok(loc),
                    LocOrScope::Scope(_) => Err(cursor.error_at(offset, "expected a location, and this is a scope")),
                }
            }
            _ if cursor.skip_if_next("unknown") => Ok(Loc::UNKNOWN),
            _ if cursor.skip_if_next("callsite") => {
                cursor.expect("(")?;
                let callee = self.parse_loc_content(cursor)?;
                cursor.expect("at")?;
                let caller = self.parse_loc_content(cursor)?;
                cursor.expect(")")?;
                Ok(self.intern_loc(LocData::CallSite { callee, caller }))
            }
            _ if cursor.skip_if_next("fused") => {
                let parts = super::parse_types::parse_list(cursor, |cursor| self.parse_loc_content(cursor))?;
                Ok(self.intern_loc(LocData::Fused(parts)))
            }
            _ => Err(cursor.error("expected a location")),
        }
    }

    /// Counts one more level of nested locations, and fails above [`MAX_DEBUG_DEPTH`].
    fn enter_level(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if self.depth >= MAX_DEBUG_DEPTH {
            return Err(cursor.error(format!("locations are nested deeper than {MAX_DEBUG_DEPTH} levels")));
        }
        self.depth += 1;
        Ok(())
    }

    /// Parses `"file":line:column`.
    fn parse_place(&mut self, cursor: &mut Cursor<'a>) -> Result<(Name, u32, u32)> {
        let file = cursor.string()?;
        cursor.expect(":")?;
        let line = parse_line_or_column(cursor)?;
        cursor.expect(":")?;
        let column = parse_line_or_column(cursor)?;
        Ok((self.intern_name(file), line, column))
    }

    /// Parses the file, line and column inside a location with a scope. The text has the form of a location, `loc(…)`, but the
    /// program has no such location.
    fn parse_place_or_alias(&mut self, cursor: &mut Cursor<'a>) -> Result<(Name, u32, u32)> {
        let mut definition_cursor = cursor.clone();
        if cursor.peek() == Some('#') {
            let offset = cursor.offset();
            let name = cursor.identifier('#', "a name such as #loc1")?;
            if let Some(place) = self.places.get(name) {
                return Ok(*place);
            }
            let Some(definition) = self.definition_starts.get(name) else {
                return Err(cursor.error_at(offset, format!("#{name} is not defined")));
            };
            definition_cursor.set_offset(*definition);
            let place = self.parse_place_in_parentheses(&mut definition_cursor)?;
            self.places.insert(name, place);
            return Ok(place);
        }
        self.parse_place_in_parentheses(cursor)
    }

    /// Parses `loc("file":line:column)`.
    fn parse_place_in_parentheses(&mut self, cursor: &mut Cursor<'a>) -> Result<(Name, u32, u32)> {
        cursor.expect("loc")?;
        cursor.expect("(")?;
        let place = self.parse_place(cursor)?;
        cursor.expect(")")?;
        Ok(place)
    }

    /// Parses `#name`, or the content of a scope or location in place of a name.
    fn parse_loc_or_scope(&mut self, cursor: &mut Cursor<'a>) -> Result<LocOrScope> {
        if cursor.skip_if_next("#cuda_tile.") {
            return self.parse_unnamed_loc_or_scope(cursor);
        }
        cursor.skip_space();
        let offset = cursor.offset();
        let name = cursor.identifier('#', "a name such as #loc1")?;
        if let Some(item) = self.parsed.get(name) {
            return Ok(*item);
        }
        let Some(definition) = self.definition_starts.get(name).copied() else {
            return Err(cursor.error_at(offset, format!("#{name} is not defined")));
        };
        self.enter_level(cursor)?;
        let mut definition_cursor = cursor.clone();
        definition_cursor.set_offset(definition);
        let item = match definition_cursor.peek() {
            Some('#') => self.parse_loc_or_scope(&mut definition_cursor),
            _ => self.parse_location(&mut definition_cursor).map(LocOrScope::Loc),
        };
        self.depth -= 1;
        let item = item?;
        self.parsed.insert(name, item);
        Ok(item)
    }

    fn parse_scope(&mut self, cursor: &mut Cursor<'a>) -> Result<Scope> {
        cursor.skip_space();
        let offset = cursor.offset();
        self.enter_level(cursor)?;
        let item = self.parse_loc_or_scope(cursor);
        self.depth -= 1;
        match item? {
            LocOrScope::Scope(scope) => Ok(scope),
            LocOrScope::Loc(_) => Err(cursor.error_at(offset, "expected a scope, and this is a location")),
        }
    }

    fn parse_unnamed_loc_or_scope(&mut self, cursor: &mut Cursor<'a>) -> Result<LocOrScope> {
        let kind = cursor.word("a kind of scope")?;
        cursor.expect("<")?;
        let item = match kind {
            "di_loc" => {
                let (file, line, column) = self.parse_place_or_alias(cursor)?;
                cursor.expect("in")?;
                let scope = Some(self.parse_scope(cursor)?);
                LocOrScope::Loc(self.intern_loc(LocData::Source { file, line, column, scope }))
            }
            "di_file" => {
                let name = cursor.string()?;
                cursor.expect("in")?;
                let directory = cursor.string()?;
                let (name, directory) = (self.intern_name(name), self.intern_name(directory));
                LocOrScope::Scope(self.intern_scope(ScopeData::File { name, directory }))
            }
            "di_compile_unit" => {
                expect_field(cursor, "file")?;
                let file = self.parse_scope(cursor)?;
                LocOrScope::Scope(self.intern_scope(ScopeData::CompileUnit { file }))
            }
            "di_lexical_block" => {
                expect_field(cursor, "scope")?;
                let scope = self.parse_scope(cursor)?;
                let file = self.parse_file_field(cursor)?;
                let line = parse_number_field(cursor, "line")?;
                let column = parse_optional_number_field(cursor, "column")?;
                LocOrScope::Scope(self.intern_scope(ScopeData::LexicalBlock { scope, file, line, column }))
            }
            "di_subprogram" => {
                expect_field(cursor, "file")?;
                let file = self.parse_scope(cursor)?;
                let line = parse_number_field(cursor, "line")?;
                let name = self.parse_name_field(cursor, "name")?;
                let linkage_name = self.parse_name_field(cursor, "linkageName")?;
                cursor.expect(",")?;
                expect_field(cursor, "compileUnit")?;
                let compile_unit = self.parse_scope(cursor)?;
                let scope_line = parse_optional_number_field(cursor, "scopeLine")?;
                let declaration = cursor.skip_if_next(",");
                if declaration {
                    expect_field(cursor, "flags")?;
                    cursor.expect("declaration")?;
                }
                let data = ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration };
                LocOrScope::Scope(self.intern_scope(data))
            }
            _ => return Err(cursor.error(format!("unknown kind of scope '{kind}'"))),
        };
        cursor.expect(">")?;
        Ok(item)
    }

    fn parse_file_field(&mut self, cursor: &mut Cursor<'a>) -> Result<Scope> {
        cursor.expect(",")?;
        expect_field(cursor, "file")?;
        self.parse_scope(cursor)
    }
    fn parse_name_field(&mut self, cursor: &mut Cursor<'a>, name: &str) -> Result<Name> {
        cursor.expect(",")?;
        expect_field(cursor, name)?;
        let text = cursor.string()?;
        Ok(self.intern_name(text))
    }
    fn intern_name(&mut self, name: String) -> Name {
        *self.names.entry(name.clone()).or_insert_with(|| self.info.names.push(name))
    }
    fn intern_loc(&mut self, loc: LocData) -> Loc {
        *self.locs.entry(loc.clone()).or_insert_with(|| self.info.locs.push(loc))
    }
    fn intern_scope(&mut self, scope: ScopeData) -> Scope {
        *self.scopes.entry(scope.clone()).or_insert_with(|| self.info.scopes.push(scope))
    }
}

/// Skips `name =`.
fn expect_field(cursor: &mut Cursor<'_>, name: &str) -> Result<()> {
    cursor.expect(name)?;
    cursor.expect("=")
}

fn parse_line_or_column(cursor: &mut Cursor<'_>) -> Result<u32> {
    let offset = cursor.offset();
    let value = cursor.integer("a number")?;
    u32::try_from(value).map_err(|_| cursor.error_at(offset, format!("{value} is no line or column")))
}

/// Parses `, name = number`.
fn parse_number_field(cursor: &mut Cursor<'_>, name: &str) -> Result<u32> {
    cursor.expect(",")?;
    expect_field(cursor, name)?;
    parse_line_or_column(cursor)
}

/// Parses `, name = number` if the text has it, and otherwise returns 0.
fn parse_optional_number_field(cursor: &mut Cursor<'_>, name: &str) -> Result<u32> {
    let mut ahead = cursor.clone();
    if ahead.skip_if_next(",") && ahead.continues_with(name) { parse_number_field(cursor, name) } else { Ok(0) }
}
