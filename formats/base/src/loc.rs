//! Where a program came from: source locations and the debug scopes around them.
//!
//! Every op carries a [`Loc`]; the table behind it travels in the envelope from `tile-read` to `tile-link`. Passes that create
//! ops give them the location of what they replace, or a [`LocData::Fused`] one.

use crate::Arena;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

crate::entity! {
    /// A location. Id 0 is always [`LocData::Unknown`].
    pub struct Loc = "@";
}
crate::entity! {
    /// A name in the table: files and functions are named by many locations.
    pub struct Name = "$";
}
crate::entity! {
    /// A debug scope: file, compile unit, subprogram or lexical block.
    pub struct Scope = "!";
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LocData {
    Unknown,
    /// A place in a source file; `scope` is a subprogram or lexical block when the producer wrote one.
    Source {
        file: Name,
        line: u32,
        column: u32,
        scope: Option<Scope>,
    },
    CallSite {
        callee: Loc,
        caller: Loc,
    },
    Fused(Vec<Loc>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScopeData {
    File { name: Name, directory: Name },
    CompileUnit { file: Scope },
    Subprogram { file: Scope, line: u32, name: Name, linkage_name: Name, compile_unit: Scope, scope_line: u32, declaration: bool },
    LexicalBlock { scope: Scope, file: Scope, line: u32, column: u32 },
}

/// The source-location table of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DebugInfo {
    pub names: Arena<Name, String>,
    pub locs: Arena<Loc, LocData>,
    pub scopes: Arena<Scope, ScopeData>,
}

impl Loc {
    pub const UNKNOWN: Loc = Loc(0);
}

impl Default for DebugInfo {
    fn default() -> Self {
        DebugInfo { names: Arena::new(), locs: [LocData::Unknown].into_iter().collect(), scopes: Arena::new() }
    }
}

impl DebugInfo {
    /// A location for each line of a file, which has the line's number.
    pub fn of_lines(name: &str, lines: usize) -> DebugInfo {
        let mut debug = DebugInfo::default();
        let file = debug.names.push(name.into());
        for line in 1..=lines as u32 {
            debug.locs.push(LocData::Source { file, line, column: 1, scope: None });
        }
        debug
    }

    /// The innermost source position of a location, if it has one.
    pub fn position(&self, loc: Loc) -> Option<(&str, u32, u32)> {
        // A file chooses how deep locations refer to each other and how often they share parts: no recursion, and each part once.
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

    /// Every reference points backwards and into the table, so walks end.
    pub fn verify(&self) -> Result<(), String> {
        let before = |used: u32, at: usize, what: &str| {
            if (used as usize) < at { Ok(()) } else { Err(format!("{what} {at} refers to {used}, which does not come before it")) }
        };
        let scope_in_table = |scope: &Scope| {
            if (scope.0 as usize) < self.scopes.len() { Ok(()) } else { Err(format!("debug scope {scope} is not in the table")) }
        };
        let named = |name: &Name| {
            if (name.0 as usize) < self.names.len() { Ok(()) } else { Err(format!("debug name {name} is not in the table")) }
        };
        if self.locs.get(Loc::UNKNOWN) != Some(&LocData::Unknown) {
            return Err("location 0 must be the unknown location".into());
        }
        for (loc, data) in self.locs.iter() {
            let at = loc.0 as usize;
            match data {
                LocData::Unknown => {}
                LocData::Source { file, scope, .. } => {
                    named(file)?;
                    scope.iter().try_for_each(scope_in_table)?;
                }
                LocData::CallSite { callee, caller } => {
                    before(callee.0, at, "location")?;
                    before(caller.0, at, "location")?;
                }
                LocData::Fused(parts) => parts.iter().try_for_each(|part| before(part.0, at, "location"))?,
            }
        }
        for (scope, data) in self.scopes.iter() {
            let at = scope.0 as usize;
            match data {
                ScopeData::File { name, directory } => {
                    named(name)?;
                    named(directory)?;
                }
                ScopeData::CompileUnit { file } => before(file.0, at, "scope")?,
                ScopeData::Subprogram { file, compile_unit, name, linkage_name, .. } => {
                    named(name)?;
                    named(linkage_name)?;
                    before(file.0, at, "scope")?;
                    before(compile_unit.0, at, "scope")?;
                }
                ScopeData::LexicalBlock { scope: outer, file, .. } => {
                    before(outer.0, at, "scope")?;
                    before(file.0, at, "scope")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_however_locations_are_nested() {
        let mut debug = DebugInfo::default();
        let file = debug.names.push("k.py".into());
        // Every level doubles the paths to the bottom, which knows nothing.
        let mut hollow = Loc::UNKNOWN;
        for _ in 0..64 {
            hollow = debug.locs.push(LocData::Fused(vec![hollow, hollow]));
        }
        assert_eq!(debug.position(hollow), None);
        let mut deep = debug.locs.push(LocData::Source { file, line: 7, column: 3, scope: None });
        for _ in 0..1_000_000 {
            deep = debug.locs.push(LocData::CallSite { callee: deep, caller: Loc::UNKNOWN });
        }
        let both = debug.locs.push(LocData::Fused(vec![hollow, deep]));
        assert_eq!(debug.position(both), Some(("k.py", 7, 3)));
    }
}
