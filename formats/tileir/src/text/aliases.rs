//! The debug form: every location and scope has a short name, defined after the program.
//!
//! The order of names is NVIDIA's: nesting depth, then kind, then first use.
//! Equal table entries share a name, because a reader cannot distinguish them.

use base::loc::{DebugInfo, Loc, LocData, Name, Scope, ScopeData};
use std::collections::HashMap;
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Item {
    Loc(Loc),
    /// The position in a file inside a location with a scope.
    Place(Name, u32, u32),
    Scope(Scope),
}

pub(super) struct Aliases<'a> {
    debug: &'a DebugInfo,
    /// The deduplicated id of each location of the program.
    deduplicated_ids: &'a [Loc],
    /// In order of first use, with nesting depth.
    order: Vec<(Item, usize)>,
    seen: HashMap<Item, usize>,
    scope_depth: Vec<usize>,
    loc_depth: Vec<usize>,
    names: HashMap<Item, String>,
}

impl<'a> Aliases<'a> {
    pub(super) fn new(debug: &'a DebugInfo, deduplicated_ids: &'a [Loc]) -> Self {
        // A record refers only to earlier ones, so one pass in order suffices.
        let mut scope_depth: Vec<usize> = Vec::new();
        for scope in debug.scopes.values() {
            let depth = scope_parts(scope).map(|part| scope_depth[part.0 as usize] + 1).max().unwrap_or(0);
            scope_depth.push(depth);
        }
        let mut loc_depth: Vec<usize> = Vec::new();
        for loc in debug.locs.values() {
            let depth = match loc {
                LocData::Source { scope: Some(scope), .. } => scope_depth[scope.0 as usize] + 1,
                _ => loc_parts(loc).map(|part| loc_depth[part.0 as usize] + 1).max().unwrap_or(0),
            };
            loc_depth.push(depth);
        }
        Aliases { debug, deduplicated_ids, order: Vec::new(), seen: HashMap::new(), scope_depth, loc_depth, names: HashMap::new() }
    }

    /// Records the use of a location.
    pub(super) fn visit(&mut self, loc: Loc) {
        let mut pending = vec![Item::Loc(self.deduplicated_ids[loc.0 as usize])];
        while let Some(item) = pending.pop() {
            if self.seen.contains_key(&item) {
                continue;
            }
            self.seen.insert(item, self.order.len());
            let depth = match item {
                Item::Loc(loc) => self.loc_depth[loc.0 as usize],
                Item::Place(..) => 0,
                Item::Scope(scope) => self.scope_depth[scope.0 as usize],
            };
            self.order.push((item, depth));
            let first = pending.len();
            match item {
                Item::Loc(loc) => match &self.debug.locs[loc] {
                    LocData::Source { file, line, column, scope: Some(scope) } => {
                        pending.extend([Item::Place(*file, *line, *column), Item::Scope(*scope)]);
                    }
                    other => pending.extend(loc_parts(other).map(Item::Loc)),
                },
                Item::Scope(scope) => pending.extend(scope_parts(&self.debug.scopes[scope]).map(Item::Scope)),
                Item::Place(..) => {}
            }
            pending[first..].reverse();
        }
    }

    /// Assigns names to all visited items.
    pub(super) fn assign(&mut self) {
        let kind = |item: Item| match item {
            Item::Loc(_) | Item::Place(..) => "loc",
            Item::Scope(scope) => self.debug.scopes[scope].kind(),
        };
        self.order.sort_by_key(|(item, depth)| (*depth, kind(*item)));
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (item, _) in &self.order {
            let kind = kind(*item);
            let count = counts.entry(kind).or_default();
            let name = if *count == 0 { format!("#{kind}") } else { format!("#{kind}{count}") };
            self.names.insert(*item, name);
            *count += 1;
        }
    }

    pub(super) fn write_use(&self, out: &mut String, loc: Loc) {
        let _ = write!(out, " loc({})", self.name(Item::Loc(self.deduplicated_ids[loc.0 as usize])));
    }

    fn name(&self, item: Item) -> &str {
        self.names.get(&item).map_or("unknown", String::as_str)
    }

    pub(super) fn write_definitions(&self, out: &mut String) {
        for (item, _) in &self.order {
            let _ = write!(out, "{} = ", self.name(*item));
            match item {
                Item::Place(file, line, column) => self.write_place(out, *file, *line, *column),
                Item::Loc(loc) => self.write_loc(out, &self.debug.locs[*loc]),
                Item::Scope(scope) => self.write_scope(out, &self.debug.scopes[*scope]),
            }
            out.push('\n');
        }
    }

    fn write_place(&self, out: &mut String, file: Name, line: u32, column: u32) {
        out.push_str("loc(");
        self.write_name(out, file);
        let _ = write!(out, ":{line}:{column})");
    }

    fn write_loc(&self, out: &mut String, loc: &LocData) {
        let name = |loc: &Loc| self.name(Item::Loc(*loc)).to_string();
        match loc {
            LocData::Unknown => out.push_str("loc(unknown)"),
            LocData::Source { file, line, column, scope: None } => self.write_place(out, *file, *line, *column),
            LocData::Source { file, line, column, scope: Some(scope) } => {
                let (place, scope) = (self.name(Item::Place(*file, *line, *column)), self.name(Item::Scope(*scope)));
                let _ = write!(out, "#cuda_tile.di_loc<{place} in {scope}>");
            }
            LocData::CallSite { callee, caller } => {
                let _ = write!(out, "loc(callsite({} at {}))", name(callee), name(caller));
            }
            LocData::Fused(parts) => {
                let _ = write!(out, "loc(fused[{}])", parts.iter().map(name).collect::<Vec<_>>().join(", "));
            }
        }
    }

    fn write_scope(&self, out: &mut String, scope: &ScopeData) {
        let name = |scope: &Scope| self.name(Item::Scope(*scope)).to_string();
        match scope {
            ScopeData::File { name, directory } => {
                out.push_str("#cuda_tile.di_file<");
                self.write_name(out, *name);
                out.push_str(" in ");
                self.write_name(out, *directory);
                out.push('>');
            }
            ScopeData::CompileUnit { file } => {
                let _ = write!(out, "#cuda_tile.di_compile_unit<file = {}>", name(file));
            }
            ScopeData::LexicalBlock { scope, file, line, column } => {
                let (scope, file) = (name(scope), name(file));
                let _ = write!(out, "#cuda_tile.di_lexical_block<scope = {scope}, file = {file}, line = {line}");
                write_unless_zero(out, "column", *column);
                out.push('>');
            }
            ScopeData::Subprogram { file, line, name: short, linkage_name, compile_unit, scope_line, declaration } => {
                let _ = write!(out, "#cuda_tile.di_subprogram<file = {}, line = {line}, name = ", name(file));
                self.write_name(out, *short);
                out.push_str(", linkageName = ");
                self.write_name(out, *linkage_name);
                let _ = write!(out, ", compileUnit = {}", name(compile_unit));
                write_unless_zero(out, "scopeLine", *scope_line);
                out.push_str(if *declaration { ", flags = declaration" } else { "" });
                out.push('>');
            }
        }
    }

    fn write_name(&self, out: &mut String, name: Name) {
        super::attributes::write_string(out, &self.debug.names[name]);
    }
}

/// A scope and everything it refers to, written in full.
pub fn scope_text(debug: &DebugInfo, scope: Scope) -> String {
    let mut aliases = Aliases::new(debug, &[]);
    // Scopes refer to earlier scopes only, so each is complete when it is used.
    let mut needed = vec![scope];
    let mut at = 0;
    while at < needed.len() {
        needed.extend(scope_parts(&debug.scopes[needed[at]]));
        at += 1;
        if needed.len() > 64 {
            return "#cuda_tile.di_scope<...>".into();
        }
    }
    needed.sort();
    needed.dedup();
    for scope in needed {
        let mut text = String::new();
        aliases.write_scope(&mut text, &debug.scopes[scope]);
        aliases.names.insert(Item::Scope(scope), text);
    }
    aliases.name(Item::Scope(scope)).to_string()
}

fn write_unless_zero(out: &mut String, name: &str, value: u32) {
    if value != 0 {
        let _ = write!(out, ", {name} = {value}");
    }
}

fn loc_parts(loc: &LocData) -> impl Iterator<Item = Loc> + '_ {
    let (pair, rest): ([Option<Loc>; 2], &[Loc]) = match loc {
        LocData::CallSite { callee, caller } => ([Some(*callee), Some(*caller)], &[]),
        LocData::Fused(parts) => ([None, None], parts),
        LocData::Unknown | LocData::Source { .. } => ([None, None], &[]),
    };
    pair.into_iter().flatten().chain(rest.iter().copied())
}

fn scope_parts(scope: &ScopeData) -> impl Iterator<Item = Scope> + use<> {
    let parts = match scope {
        ScopeData::File { .. } => [None, None],
        ScopeData::CompileUnit { file } => [Some(*file), None],
        ScopeData::Subprogram { file, compile_unit, .. } => [Some(*file), Some(*compile_unit)],
        ScopeData::LexicalBlock { scope, file, .. } => [Some(*scope), Some(*file)],
    };
    parts.into_iter().flatten()
}
