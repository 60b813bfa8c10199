//! Source locations, and the debug scopes that contain them.
//!
//! Invariant: every op has a [`Loc`]. A pass gives a new op the location of the op that it replaces, or a [`LocData::Fused`]
//! location. The envelopes of the stage files carry the table of locations from `tile-read` to `tile-link`.

use crate::Arena;
use crate::entity::Entity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

crate::entity! {
    /// A location. Id 0 is always [`LocData::Unknown`].
    pub struct Loc = "@";
}
crate::entity! {
    /// A file, directory or function name in the table of names. Many locations and scopes share a name.
    pub struct Name = "$";
}
crate::entity! {
    /// A debug scope: file, compile unit, subprogram or lexical block.
    pub struct Scope = "!";
}

/// An entry of the table of locations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LocData {
    Unknown,
    /// A source position. `scope` is the subprogram or lexical block that contains the position; `None` if the bytecode has none.
    Source {
        file: Name,
        line: u32,
        column: u32,
        scope: Option<Scope>,
    },
    /// A position in an inlined function. `callee` is the position in the function, and `caller` is the position of the call.
    CallSite {
        callee: Loc,
        caller: Loc,
    },
    /// The locations of several ops that one op replaces (MLIR's `FusedLoc`).
    Fused(Vec<Loc>),
}

/// An entry of the table of scopes, with the fields of the debug-info attributes of Tile IR.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScopeData {
    File { name: Name, directory: Name },
    CompileUnit { file: Scope },
    Subprogram { file: Scope, line: u32, name: Name, linkage_name: Name, compile_unit: Scope, scope_line: u32, declaration: bool },
    LexicalBlock { scope: Scope, file: Scope, line: u32, column: u32 },
}

/// The tables of a program's source locations: names, locations and debug scopes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DebugInfo {
    pub names: Arena<Name, String>,
    pub locs: Arena<Loc, LocData>,
    pub scopes: Arena<Scope, ScopeData>,
}

impl Loc {
    /// The location of an op without a source position.
    pub const UNKNOWN: Loc = Loc(0);
}

impl Default for DebugInfo {
    fn default() -> Self {
        DebugInfo { names: Arena::new(), locs: [LocData::Unknown].into_iter().collect(), scopes: Arena::new() }
    }
}

impl DebugInfo {
    /// Returns a table with one location per line of a file. The id of a location is its line number.
    pub fn with_line_locations(name: &str, lines: usize) -> DebugInfo {
        let mut debug = DebugInfo::default();
        let file = debug.names.push(name.into());
        for line in 1..=lines as u32 {
            debug.locs.push(LocData::Source { file, line, column: 1, scope: None });
        }
        debug
    }

    /// Returns the file, line and column of a location, or `None` if the location has no source position. The position of a call
    /// site is the position in the callee. The position of a fused location is that of the first part with a position.
    pub fn position(&self, loc: Loc) -> Option<(&str, u32, u32)> {
        // No recursion, because the input decides how deep locations are nested. Each part is visited once, because several fused
        // locations may share a part.
        let (mut loc, mut parts, mut seen) = (loc, Vec::new(), BTreeSet::new());
        loop {
            match self.locs.get(loc)? {
                LocData::Unknown => {}
                LocData::Source { file, line, column, .. } => return Some((&self.names[*file], *line, *column)),
                LocData::CallSite { callee, .. } => {
                    loc = *callee;
                    continue;
                }
                LocData::Fused(fused) => parts.extend(fused.iter().rev().copied()),
            }
            loc = loop {
                let part = parts.pop()?;
                if seen.insert(part) {
                    break part;
                }
            };
        }
    }

    /// Deduplicates the tables. Returns the new tables and the new id of every old location.
    pub fn deduplicated(&self) -> (DebugInfo, Vec<Loc>) {
        let (mut names, mut scopes, mut locs) = (Dedup::default(), Dedup::default(), Dedup::default());
        self.names.iter().for_each(|(_, name)| names.add(name.clone()));
        for (_, scope) in self.scopes.iter() {
            let (name_of, scope_of) = (|name: &Name| names.new_id(*name), |scope: &Scope| scopes.new_id(*scope));
            let scope = match scope {
                ScopeData::File { name, directory } => ScopeData::File { name: name_of(name), directory: name_of(directory) },
                ScopeData::CompileUnit { file } => ScopeData::CompileUnit { file: scope_of(file) },
                ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration } => {
                    ScopeData::Subprogram {
                        file: scope_of(file),
                        line: *line,
                        name: name_of(name),
                        linkage_name: name_of(linkage_name),
                        compile_unit: scope_of(compile_unit),
                        scope_line: *scope_line,
                        declaration: *declaration,
                    }
                }
                ScopeData::LexicalBlock { scope, file, line, column } => {
                    ScopeData::LexicalBlock { scope: scope_of(scope), file: scope_of(file), line: *line, column: *column }
                }
            };
            scopes.add(scope);
        }
        for (_, loc) in self.locs.iter() {
            let loc = match loc {
                LocData::Unknown => LocData::Unknown,
                LocData::Source { file, line, column, scope } => {
                    let scope = scope.map(|scope| scopes.new_id(scope));
                    LocData::Source { file: names.new_id(*file), line: *line, column: *column, scope }
                }
                LocData::CallSite { callee, caller } => {
                    LocData::CallSite { callee: locs.new_id(*callee), caller: locs.new_id(*caller) }
                }
                LocData::Fused(parts) => LocData::Fused(parts.iter().map(|part| locs.new_id(*part)).collect()),
            };
            locs.add(loc);
        }
        (DebugInfo { names: names.table, locs: locs.table, scopes: scopes.table }, locs.new_ids)
    }

    /// Checks that locations refer to earlier locations, and scopes to earlier scopes, so walks terminate. Also checks that each
    /// name and scope of a location is in its table.
    pub fn verify(&self) -> Result<(), String> {
        let require_earlier = |used: u32, index: usize, kind: &str| {
            if (used as usize) < index {
                Ok(())
            } else {
                Err(format!("{kind} {index} refers to {used}, which does not come before it"))
            }
        };
        let require_scope = |scope: &Scope| {
            if (scope.0 as usize) < self.scopes.len() { Ok(()) } else { Err(format!("debug scope {scope} is not in the table")) }
        };
        let require_name = |name: &Name| {
            if (name.0 as usize) < self.names.len() { Ok(()) } else { Err(format!("debug name {name} is not in the table")) }
        };
        if self.locs.get(Loc::UNKNOWN) != Some(&LocData::Unknown) {
            return Err("location 0 must be the unknown location".into());
        }
        for (loc, data) in self.locs.iter() {
            let index = loc.0 as usize;
            match data {
                LocData::Unknown => {}
                LocData::Source { file, scope, .. } => {
                    require_name(file)?;
                    scope.iter().try_for_each(require_scope)?;
                }
                LocData::CallSite { callee, caller } => {
                    require_earlier(callee.0, index, "location")?;
                    require_earlier(caller.0, index, "location")?;
                }
                LocData::Fused(parts) => parts.iter().try_for_each(|part| require_earlier(part.0, index, "location"))?,
            }
        }
        for (scope, data) in self.scopes.iter() {
            let index = scope.0 as usize;
            match data {
                ScopeData::File { name, directory } => {
                    require_name(name)?;
                    require_name(directory)?;
                }
                ScopeData::CompileUnit { file } => require_earlier(file.0, index, "scope")?,
                ScopeData::Subprogram { file, compile_unit, name, linkage_name, .. } => {
                    require_name(name)?;
                    require_name(linkage_name)?;
                    require_earlier(file.0, index, "scope")?;
                    require_earlier(compile_unit.0, index, "scope")?;
                }
                ScopeData::LexicalBlock { scope: outer, file, .. } => {
                    require_earlier(outer.0, index, "scope")?;
                    require_earlier(file.0, index, "scope")?;
                }
            }
        }
        Ok(())
    }
}

/// The state of the deduplication of one table.
struct Dedup<K, V> {
    /// The new id of each distinct entry.
    ids: HashMap<V, K>,
    /// The distinct entries.
    table: Arena<K, V>,
    /// The new id of each old entry.
    new_ids: Vec<K>,
}

impl<K: Entity, V> Default for Dedup<K, V> {
    fn default() -> Self {
        Dedup { ids: HashMap::new(), table: Arena::new(), new_ids: Vec::new() }
    }
}

impl<K: Entity, V: Clone + Eq + Hash> Dedup<K, V> {
    /// Adds the next old entry to the table, unless an equal entry exists.
    fn add(&mut self, value: V) {
        let id = *self.ids.entry(value.clone()).or_insert_with(|| self.table.push(value));
        self.new_ids.push(id);
    }
    /// Returns the new id of an old entry. Returns `id` itself for an entry that was not added so far. [`DebugInfo::verify`]
    /// rejects such references to later entries.
    fn new_id(&self, id: K) -> K {
        self.new_ids.get(id.index()).copied().unwrap_or(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_in_deeply_nested_locations() {
        let mut debug = DebugInfo::default();
        let file = debug.names.push("k.py".into());
        // Each level doubles the paths to the bottom, an unknown location.
        let mut positionless = Loc::UNKNOWN;
        for _ in 0..64 {
            positionless = debug.locs.push(LocData::Fused(vec![positionless, positionless]));
        }
        assert_eq!(debug.position(positionless), None);
        let mut deep = debug.locs.push(LocData::Source { file, line: 7, column: 3, scope: None });
        for _ in 0..1_000_000 {
            deep = debug.locs.push(LocData::CallSite { callee: deep, caller: Loc::UNKNOWN });
        }
        let fused = debug.locs.push(LocData::Fused(vec![positionless, deep]));
        assert_eq!(debug.position(fused), Some(("k.py", 7, 3)));
    }

    #[test]
    fn duplicate_entries_are_merged() {
        let mut debug = DebugInfo::default();
        let files = ["k.py", "k.py"].map(|name| debug.names.push(name.into()));
        let scopes = files.map(|name| debug.scopes.push(ScopeData::File { name, directory: files[0] }));
        let source_at = |file, scope| LocData::Source { file, line: 1, column: 2, scope: Some(scope) };
        let [first, second] = [0, 1].map(|i| debug.locs.push(source_at(files[i], scopes[1 - i])));
        debug.locs.push(LocData::CallSite { callee: second, caller: first });
        let (once, new_ids) = debug.deduplicated();
        assert_eq!((once.names.len(), once.scopes.len(), once.locs.len()), (1, 1, 3));
        assert_eq!(new_ids, [0, 1, 1, 2].map(Loc));
        assert_eq!(once.locs[Loc(2)], LocData::CallSite { callee: Loc(1), caller: Loc(1) });
        assert_eq!(once.deduplicated(), (once.clone(), [0, 1, 2].map(Loc).into()));
    }
}
