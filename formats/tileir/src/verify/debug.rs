//! The rules of debug information: a function's scope is its subprogram, and the scopes of its ops are inside that subprogram.

use super::{Check, Failure};
use crate::module::{Function, Module};
use crate::text::scope_text;
use base::ir::Operation;
use base::loc::{DebugInfo, Loc, LocData, Scope, ScopeData};

/// Checks that each scope reference refers to a scope of a kind that bytecode allows there.
pub(super) fn check_scope_kinds(debug: &DebugInfo) -> Check {
    let require_scope = |scope: Scope, is_valid: fn(&ScopeData) -> bool, what: &str| match debug.scopes.get(scope) {
        Some(data) if is_valid(data) => Ok(()),
        _ => Err(format!("debug scope {scope} is not {what}")),
    };
    let require_file = |scope: Scope| require_scope(scope, |data| matches!(data, ScopeData::File { .. }), "a file");
    let require_local_scope = |scope: Scope| {
        let is_local = |data: &ScopeData| matches!(data, ScopeData::Subprogram { .. } | ScopeData::LexicalBlock { .. });
        require_scope(scope, is_local, "a subprogram or a lexical block")
    };
    for data in debug.scopes.values() {
        match data {
            ScopeData::File { .. } => {}
            ScopeData::CompileUnit { file } => require_file(*file)?,
            ScopeData::Subprogram { file, compile_unit, .. } => {
                require_file(*file)?;
                require_scope(*compile_unit, |data| matches!(data, ScopeData::CompileUnit { .. }), "a compile unit")?;
            }
            ScopeData::LexicalBlock { scope, file, .. } => {
                require_local_scope(*scope)?;
                require_file(*file)?;
            }
        }
    }
    let scopes = debug.locs.values().filter_map(|data| if let LocData::Source { scope, .. } = data { *scope } else { None });
    scopes.into_iter().try_for_each(require_local_scope)
}

/// Checks the location of an entry. The location is no call site. Its scope, if any, is the subprogram with the name of the entry.
pub(super) fn check_entry(module: &Module, function: &Function, debug: &DebugInfo) -> Check {
    match &debug.locs[function.loc] {
        LocData::CallSite { .. } => {
            Err("invalid function debug info location. Function location must not be a CallSiteLoc.".into())
        }
        LocData::Source { scope: Some(scope), .. } => {
            let ScopeData::Subprogram { linkage_name, .. } = &debug.scopes[*scope] else {
                let scope = scope_text(debug, *scope);
                return Err(format!(
                    "invalid function debug info scope: {scope}. Function location must have cuda_tile.di_subprogram debug info \
                     scope."
                ));
            };
            let (name, linkage_name) = (module.string(function.name), &debug.names[*linkage_name]);
            if name != linkage_name {
                let scope = scope_text(debug, *scope);
                return Err(format!(
                    "invalid function debug info scope: {scope}. Function name \"{name}\" does not match subprogram scope linkage \
                     name \"{linkage_name}\"."
                ));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks the locations of all ops of a function.
pub(super) fn check_function(function: &Function, debug: &DebugInfo, subprograms: &Subprograms) -> Result<(), Failure> {
    let function_scope = subprograms.subprogram_of(function.loc);
    for op in function.body.walk(function.region) {
        let node = &function.body.ops[op];
        let Some(scope) = subprograms.subprogram_of(node.loc) else { continue };
        let message = match function_scope {
            Some(function_scope) if function_scope == scope => continue,
            None => format!(
                "'cuda_tile.{}' op invalid operation debug info scope: {}. Operation has debug info scope, but function debug info \
                 scope is undefined.",
                node.kind.mnemonic(),
                scope_text(debug, scope)
            ),
            Some(function_scope) => format!(
                "invalid operation debug info scope: {}. Operation debug info scope does not match function debug info scope: {}.",
                scope_text(debug, scope),
                scope_text(debug, function_scope)
            ),
        };
        return Err(Failure { message, loc: node.loc });
    }
    Ok(())
}

/// The subprogram of each location, by number; `None` for a location outside all subprograms. A call site has the subprogram of its
/// caller. A fused location has the subprogram of the first of its parts with a subprogram.
pub(super) struct Subprograms(Vec<Option<Scope>>);

impl Subprograms {
    pub(super) fn new(debug: &DebugInfo) -> Self {
        // Scopes and locations refer only to earlier entries of their tables, so one pass in table order suffices.
        let mut scopes: Vec<Option<Scope>> = Vec::new();
        for (id, scope) in debug.scopes.iter() {
            scopes.push(match scope {
                ScopeData::Subprogram { .. } => Some(id),
                ScopeData::LexicalBlock { scope, .. } => scopes[scope.0 as usize],
                ScopeData::File { .. } | ScopeData::CompileUnit { .. } => None,
            });
        }
        let mut locs: Vec<Option<Scope>> = Vec::new();
        for loc in debug.locs.values() {
            locs.push(match loc {
                LocData::Unknown => None,
                LocData::Source { scope, .. } => scope.and_then(|scope| scopes[scope.0 as usize]),
                LocData::CallSite { caller, .. } => locs[caller.0 as usize],
                LocData::Fused(parts) => parts.iter().find_map(|part| locs[part.0 as usize]),
            });
        }
        Subprograms(locs)
    }

    fn subprogram_of(&self, loc: Loc) -> Option<Scope> {
        self.0[loc.0 as usize]
    }
}
