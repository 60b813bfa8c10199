//! Parses locations and debug scopes. Their names may be defined anywhere in the text, usually after the program.

use super::lex::Cursor;
use crate::bytecode::MAX_DEBUG_DEPTH;
use base::diag::Result;
use base::loc::{DebugInfo, Loc, LocData, Name, Scope, ScopeData};
use std::collections::HashMap;

#[derive(Clone, Copy)]
enum Item {
    Loc(Loc),
    Scope(Scope),
}

/// The definitions of a text, parsed on first use.
pub(super) struct Debug<'a, 'd> {
    info: &'d mut DebugInfo,
    /// The start of each definition's text.
    defined: HashMap<&'a str, usize>,
    read: HashMap<&'a str, Item>,
    places: HashMap<&'a str, (Name, u32, u32)>,
    names: HashMap<String, Name>,
    locs: HashMap<LocData, Loc>,
    scopes: HashMap<ScopeData, Scope>,
    depth: usize,
}

impl<'a, 'd> Debug<'a, 'd> {
    /// Finds the definitions, which are lines that begin with `#name =`.
    pub(super) fn new(text: &'a str, info: &'d mut DebugInfo) -> Self {
        let mut defined = HashMap::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if let Some((name, _)) = line.strip_prefix('#').and_then(|line| line.split_once('=')) {
                defined.insert(name.trim(), at + line.find('=').unwrap_or(0) + 1);
            }
            at += line.len();
        }
        // A file with a location table keeps its ids.
        let names = info.names.iter().map(|(id, name)| (name.clone(), id)).collect();
        let locs = info.locs.iter().map(|(id, loc)| (loc.clone(), id)).collect();
        let scopes = info.scopes.iter().map(|(id, scope)| (scope.clone(), id)).collect();
        Debug { info, defined, read: HashMap::new(), places: HashMap::new(), names, locs, scopes, depth: 0 }
    }

    /// An optional ` loc(…)` after an op.
    pub(super) fn optional(&mut self, c: &mut Cursor<'a>) -> Result<Option<Loc>> {
        if !c.sees("loc") {
            return Ok(None);
        }
        self.location(c).map(Some)
    }

    fn location(&mut self, c: &mut Cursor<'a>) -> Result<Loc> {
        c.expect("loc")?;
        c.expect("(")?;
        let loc = self.inner(c)?;
        c.expect(")")?;
        Ok(loc)
    }

    /// The content of `loc(…)`.
    fn inner(&mut self, c: &mut Cursor<'a>) -> Result<Loc> {
        self.enter_level(c)?;
        let loc = self.inner_at_depth(c);
        self.depth -= 1;
        loc
    }

    fn inner_at_depth(&mut self, c: &mut Cursor<'a>) -> Result<Loc> {
        match c.peek() {
            Some('"') => {
                let (file, line, column) = self.place(c)?;
                Ok(self.loc(LocData::Source { file, line, column, scope: None }))
            }
            Some('#') => {
                c.skip_space();
                let at = c.at();
                match self.item(c)? {
                    Item::Loc(loc) => Ok(loc),
                    Item::Scope(_) => Err(c.error_at(at, "expected a location, and this is a scope")),
                }
            }
            _ if c.eat("unknown") => Ok(Loc::UNKNOWN),
            _ if c.eat("callsite") => {
                c.expect("(")?;
                let callee = self.inner(c)?;
                c.expect("at")?;
                let caller = self.inner(c)?;
                c.expect(")")?;
                Ok(self.loc(LocData::CallSite { callee, caller }))
            }
            _ if c.eat("fused") => {
                let parts = super::parse_types::list(c, |c| self.inner(c))?;
                Ok(self.loc(LocData::Fused(parts)))
            }
            _ => Err(c.error("expected a location")),
        }
    }

    fn enter_level(&mut self, c: &mut Cursor<'a>) -> Result<()> {
        if self.depth >= MAX_DEBUG_DEPTH {
            return Err(c.error(format!("locations are nested deeper than {MAX_DEBUG_DEPTH} levels")));
        }
        self.depth += 1;
        Ok(())
    }

    fn place(&mut self, c: &mut Cursor<'a>) -> Result<(Name, u32, u32)> {
        let file = c.string()?;
        c.expect(":")?;
        let line = number(c)?;
        c.expect(":")?;
        let column = number(c)?;
        Ok((self.name(file), line, column))
    }

    /// The position inside a location with a scope; it is not a location itself.
    fn place_of(&mut self, c: &mut Cursor<'a>) -> Result<(Name, u32, u32)> {
        let mut inner = c.clone();
        if c.peek() == Some('#') {
            let at = c.at();
            let name = c.identifier('#', "a name such as #loc1")?;
            if let Some(place) = self.places.get(name) {
                return Ok(*place);
            }
            let Some(definition) = self.defined.get(name) else {
                return Err(c.error_at(at, format!("#{name} is not defined")));
            };
            inner.goto(*definition);
            let place = self.place_in_parentheses(&mut inner)?;
            self.places.insert(name, place);
            return Ok(place);
        }
        self.place_in_parentheses(c)
    }

    fn place_in_parentheses(&mut self, c: &mut Cursor<'a>) -> Result<(Name, u32, u32)> {
        c.expect("loc")?;
        c.expect("(")?;
        let place = self.place(c)?;
        c.expect(")")?;
        Ok(place)
    }

    /// `#name`, or a scope or location in full.
    fn item(&mut self, c: &mut Cursor<'a>) -> Result<Item> {
        if c.eat("#cuda_tile.") {
            return self.item_in_full(c);
        }
        c.skip_space();
        let at = c.at();
        let name = c.identifier('#', "a name such as #loc1")?;
        if let Some(item) = self.read.get(name) {
            return Ok(*item);
        }
        let Some(definition) = self.defined.get(name).copied() else {
            return Err(c.error_at(at, format!("#{name} is not defined")));
        };
        self.enter_level(c)?;
        let mut inner = c.clone();
        inner.goto(definition);
        let item = match inner.peek() {
            Some('#') => self.item(&mut inner),
            _ => self.location(&mut inner).map(Item::Loc),
        };
        self.depth -= 1;
        let item = item?;
        self.read.insert(name, item);
        Ok(item)
    }

    fn scope_of(&mut self, c: &mut Cursor<'a>) -> Result<Scope> {
        c.skip_space();
        let at = c.at();
        self.enter_level(c)?;
        let item = self.item(c);
        self.depth -= 1;
        match item? {
            Item::Scope(scope) => Ok(scope),
            Item::Loc(_) => Err(c.error_at(at, "expected a scope, and this is a location")),
        }
    }

    fn item_in_full(&mut self, c: &mut Cursor<'a>) -> Result<Item> {
        let kind = c.word("a kind of scope")?;
        c.expect("<")?;
        let item = match kind {
            "di_loc" => {
                let (file, line, column) = self.place_of(c)?;
                c.expect("in")?;
                let scope = Some(self.scope_of(c)?);
                Item::Loc(self.loc(LocData::Source { file, line, column, scope }))
            }
            "di_file" => {
                let name = c.string()?;
                c.expect("in")?;
                let directory = c.string()?;
                let (name, directory) = (self.name(name), self.name(directory));
                Item::Scope(self.scope(ScopeData::File { name, directory }))
            }
            "di_compile_unit" => {
                field(c, "file")?;
                let file = self.scope_of(c)?;
                Item::Scope(self.scope(ScopeData::CompileUnit { file }))
            }
            "di_lexical_block" => {
                field(c, "scope")?;
                let scope = self.scope_of(c)?;
                let file = self.file_field(c)?;
                let line = number_field(c, "line")?;
                let column = optional_number_field(c, "column")?;
                Item::Scope(self.scope(ScopeData::LexicalBlock { scope, file, line, column }))
            }
            "di_subprogram" => {
                field(c, "file")?;
                let file = self.scope_of(c)?;
                let line = number_field(c, "line")?;
                let name = self.name_field(c, "name")?;
                let linkage_name = self.name_field(c, "linkageName")?;
                c.expect(",")?;
                field(c, "compileUnit")?;
                let compile_unit = self.scope_of(c)?;
                let scope_line = optional_number_field(c, "scopeLine")?;
                let declaration = c.eat(",");
                if declaration {
                    field(c, "flags")?;
                    c.expect("declaration")?;
                }
                let data = ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration };
                Item::Scope(self.scope(data))
            }
            _ => return Err(c.error(format!("unknown kind of scope '{kind}'"))),
        };
        c.expect(">")?;
        Ok(item)
    }

    fn file_field(&mut self, c: &mut Cursor<'a>) -> Result<Scope> {
        c.expect(",")?;
        field(c, "file")?;
        self.scope_of(c)
    }
    fn name_field(&mut self, c: &mut Cursor<'a>, name: &str) -> Result<Name> {
        c.expect(",")?;
        field(c, name)?;
        let text = c.string()?;
        Ok(self.name(text))
    }
    fn name(&mut self, name: String) -> Name {
        *self.names.entry(name.clone()).or_insert_with(|| self.info.names.push(name))
    }
    fn loc(&mut self, loc: LocData) -> Loc {
        *self.locs.entry(loc.clone()).or_insert_with(|| self.info.locs.push(loc))
    }
    fn scope(&mut self, scope: ScopeData) -> Scope {
        *self.scopes.entry(scope.clone()).or_insert_with(|| self.info.scopes.push(scope))
    }
}

fn field(c: &mut Cursor<'_>, name: &str) -> Result<()> {
    c.expect(name)?;
    c.expect("=")
}

fn number(c: &mut Cursor<'_>) -> Result<u32> {
    let at = c.at();
    let value = c.integer("a number")?;
    u32::try_from(value).map_err(|_| c.error_at(at, format!("{value} is no line or column")))
}

fn number_field(c: &mut Cursor<'_>, name: &str) -> Result<u32> {
    c.expect(",")?;
    field(c, name)?;
    number(c)
}

fn optional_number_field(c: &mut Cursor<'_>, name: &str) -> Result<u32> {
    let mut ahead = c.clone();
    if ahead.eat(",") && ahead.sees(name) { number_field(c, name) } else { Ok(0) }
}
