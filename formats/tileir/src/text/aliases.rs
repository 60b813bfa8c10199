//! Writes locations in NVIDIA's debug form: each location and scope has an alias, whose definition follows the program.
//!
//! Aliases are numbered in NVIDIA's order: by nesting depth, then kind, then first use. Equal locations share an alias, because
//! their texts are equal.

use base::loc::{DebugInfo, Loc, LocData, Name, Scope, ScopeData};
use std::collections::HashMap;
use std::fmt::Write as _;

/// A location or scope that has an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AliasTarget {
    Loc(Loc),
    /// The file, line and column inside a location with a scope.
    Place(Name, u32, u32),
    Scope(Scope),
}

/// The locations and scopes of a program, and the alias of each.
pub(super) struct Aliases<'a> {
    debug: &'a DebugInfo,
    /// The id in `debug` of each location of the program. `debug` has equal locations only once.
    deduplicated_ids: &'a [Loc],
    /// The visited targets in order of first use, with their nesting depths.
    visited: Vec<(AliasTarget, usize)>,
    /// The index in `visited` of each visited target.
    seen: HashMap<AliasTarget, usize>,
    /// The nesting depth of each scope.
    scope_depth: Vec<usize>,
    /// The nesting depth of each location.
    loc_depth: Vec<usize>,
    /// The alias of each visited target, from [`Aliases::assign_names`].
    names: HashMap<AliasTarget, String>,
}

impl<'a> Aliases<'a> {
    pub(super) fn new(debug: &'a DebugInfo, deduplicated_ids: &'a [Loc]) -> Self {
        // Locations and scopes refer only to earlier entries of their tables, so one pass in table order suffices.
        let mut scope_depth: Vec<usize> = Vec::new();
        for scope in debug.scopes.values() {
            let depth = referenced_scopes(scope).map(|part| scope_depth[part.0 as usize] + 1).max().unwrap_or(0);
            scope_depth.push(depth);
        }
        let mut loc_depth: Vec<usize> = Vec::new();
        for loc in debug.locs.values() {
            let depth = match loc {
                LocData::Source { scope: Some(scope), .. } => scope_depth[scope.0 as usize] + 1,
                _ => referenced_locs(loc).map(|part| loc_depth[part.0 as usize] + 1).max().unwrap_or(0),
            };
            loc_depth.push(depth);
        }
        Aliases {
            debug,
            deduplicated_ids,
            visited: Vec::new(),
            seen: HashMap::new(),
            scope_depth,
            loc_depth,
            names: HashMap::new(),
        }
    }

    /// Records the use of a location, and of the locations and scopes to which the location refers.
    pub(super) fn visit(&mut self, loc: Loc) {
        let mut pending = vec![AliasTarget::Loc(self.deduplicated_ids[loc.0 as usize])];
        while let Some(target) = pending.pop() {
            if self.seen.contains_key(&target) {
                continue;
            }
            self.seen.insert(target, self.visited.len());
            let depth = match target {
                AliasTarget::Loc(loc) => self.loc_depth[loc.0 as usize],
                AliasTarget::Place(..) => 0,
                AliasTarget::Scope(scope) => self.scope_depth[scope.0 as usize],
            };
            self.visited.push((target, depth));
            let first_pushed = pending.len();
            match target {
                AliasTarget::Loc(loc) => match &self.debug.locs[loc] {
                    LocData::Source { file, line, column, scope: Some(scope) } => {
                        pending.extend([AliasTarget::Place(*file, *line, *column), AliasTarget::Scope(*scope)]);
                    }
                    other => pending.extend(referenced_locs(other).map(AliasTarget::Loc)),
                },
                AliasTarget::Scope(scope) => pending.extend(referenced_scopes(&self.debug.scopes[scope]).map(AliasTarget::Scope)),
                AliasTarget::Place(..) => {}
            }
            pending[first_pushed..].reverse();
        }
    }

    /// Assigns names to all visited targets.
    pub(super) fn assign_names(&mut self) {
        let kind = |target: AliasTarget| match target {
            AliasTarget::Loc(_) | AliasTarget::Place(..) => "loc",
            AliasTarget::Scope(scope) => self.debug.scopes[scope].kind(),
        };
        self.visited.sort_by_key(|(target, depth)| (*depth, kind(*target)));
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (target, _) in &self.visited {
            let kind = kind(*target);
            let count = counts.entry(kind).or_default();
            let name = if *count == 0 { format!("#{kind}") } else { format!("#{kind}{count}") };
            self.names.insert(*target, name);
            *count += 1;
        }
    }

    /// Writes ` loc(#alias)` after an op.
    pub(super) fn write_use(&self, out: &mut String, loc: Loc) {
        let _ = write!(out, " loc({})", self.name(AliasTarget::Loc(self.deduplicated_ids[loc.0 as usize])));
    }

    /// The alias of a target; `unknown` if the target was not visited.
    fn name(&self, target: AliasTarget) -> &str {
        self.names.get(&target).map_or("unknown", String::as_str)
    }

    /// Writes the definitions of all aliases, one per line.
    pub(super) fn write_definitions(&self, out: &mut String) {
        for (target, _) in &self.visited {
            let _ = write!(out, "{} = ", self.name(*target));
            match target {
                AliasTarget::Place(file, line, column) => self.write_place(out, *file, *line, *column),
                AliasTarget::Loc(loc) => self.write_loc(out, &self.debug.locs[*loc]),
                AliasTarget::Scope(scope) => self.write_scope(out, &self.debug.scopes[*scope]),
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
        let name = |loc: &Loc| self.name(AliasTarget::Loc(*loc)).to_string();
        match loc {
            LocData::Unknown => out.push_str("loc(unknown)"),
            LocData::Source { file, line, column, scope: None } => self.write_place(out, *file, *line, *column),
            LocData::Source { file, line, column, scope: Some(scope) } => {
                let (place, scope) = (self.name(AliasTarget::Place(*file, *line, *column)), self.name(AliasTarget::Scope(*scope)));
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
        let name = |scope: &Scope| self.name(AliasTarget::Scope(*scope)).to_string();
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
            ScopeData::Subprogram { file, line, name: subprogram_name, linkage_name, compile_unit, scope_line, declaration } => {
                let _ = write!(out, "#cuda_tile.di_subprogram<file = {}, line = {line}, name = ", name(file));
                self.write_name(out, *subprogram_name);
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

/// Returns the text of a scope. In place of the alias of another scope, the text has that scope's own text. The text of a scope
/// that refers to more than about 64 scopes is abbreviated.
pub fn scope_text(debug: &DebugInfo, scope: Scope) -> String {
    let mut aliases = Aliases::new(debug, &[]);
    // A scope refers only to earlier scopes, so in table order each scope's text exists before its use.
    let mut scopes = vec![scope];
    let mut index = 0;
    while index < scopes.len() {
        scopes.extend(referenced_scopes(&debug.scopes[scopes[index]]));
        index += 1;
        if scopes.len() > 64 {
            return "#cuda_tile.di_scope<...>".into();
        }
    }
    scopes.sort();
    scopes.dedup();
    for scope in scopes {
        let mut text = String::new();
        aliases.write_scope(&mut text, &debug.scopes[scope]);
        aliases.names.insert(AliasTarget::Scope(scope), text);
    }
    aliases.name(AliasTarget::Scope(scope)).to_string()
}

fn write_unless_zero(out: &mut String, name: &str, value: u32) {
    if value != 0 {
        let _ = write!(out, ", {name} = {value}");
    }
}

/// The locations that a location contains.
fn referenced_locs(loc: &LocData) -> impl Iterator<Item = Loc> + '_ {
    let (pair, rest): ([Option<Loc>; 2], &[Loc]) = match loc {
        LocData::CallSite { callee, caller } => ([Some(*callee), Some(*caller)], &[]),
        LocData::Fused(parts) => ([None, None], parts),
        LocData::Unknown | LocData::Source { .. } => ([None, None], &[]),
    };
    pair.into_iter().flatten().chain(rest.iter().copied())
}

/// The scopes to which a scope refers.
fn referenced_scopes(scope: &ScopeData) -> impl Iterator<Item = Scope> + use<> {
    let parts = match scope {
        ScopeData::File { .. } => [None, None],
        ScopeData::CompileUnit { file } => [Some(*file), None],
        ScopeData::Subprogram { file, compile_unit, .. } => [Some(*file), Some(*compile_unit)],
        ScopeData::LexicalBlock { scope, file, .. } => [Some(*scope), Some(*file)],
    };
    parts.into_iter().flatten()
}
