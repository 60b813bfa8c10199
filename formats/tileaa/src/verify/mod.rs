//! The rules of `.aa` files (V-AA). A reader may index freely in what passes them.
//!
//! | code | rule |
//! |---|---|
//! | AA001 | structure: ids exist, each op in one place, definitions before uses, terminators last |
//! | AA002 | every location is in the table |
//! | AA003 | ids are in program order and nothing is unreachable |
//! | AA004 | names of functions and globals are unique; a global's data has its type |
//! | AA005 | types are well formed: extents powers of two, at most 2^24 elements, views that fit their memref |
//! | AA006 | every region is one block that ends in a terminator its op allows, with the values the op expects; bodies of reductions are pure |
//! | AA007 | operands and results of every op have types that fit it |
//! | AA008 | the table of facts claims nothing that cannot be derived |
//!
//! There is nothing in `.aa` that names a layout, thread, stage or target.

mod control;
mod memory;
mod ops;
mod types;

use crate::{Function, Module, Op};
use base::diag::{Diagnostic, Result};
use base::ir::{Op as OpId, Operation};
use base::tile::Dense;
use base::{Envelope, Loc};
use std::collections::BTreeMap;

/// What a rule says when it is broken.
type Rule = std::result::Result<(), String>;

fn require(holds: bool, message: impl FnOnce() -> String) -> Rule {
    if holds { Ok(()) } else { Err(message()) }
}

pub(crate) fn module(module: &Module, envelope: &Envelope) -> Result<()> {
    let invalid = |code: &str, message: String| Diagnostic::invalid(code, message);
    let mut names = BTreeMap::new();
    let globals = module.globals.iter().map(|global| (&global.name, global.loc));
    for (name, loc) in globals.chain(module.functions.iter().map(|f| (&f.name, f.loc))) {
        if names.insert(name, ()).is_some() {
            return Err(invalid("AA004", format!("there are two things called '{name}'")));
        }
        if envelope.debug.locs.get(loc).is_none() {
            return Err(invalid("AA002", format!("'{name}' has location {loc}, which is not in the table")));
        }
    }
    for global in &module.globals {
        let fits = match &global.value {
            Dense::Splat(_) => true,
            Dense::Elements(elements) => elements.len() as u64 == global.count,
        };
        if !fits || !global.align.is_power_of_two() {
            return Err(invalid("AA004", format!("global '{}' has data or an alignment that does not fit its type", global.name)));
        }
    }
    module.functions.iter().try_for_each(|f| function(module, f, envelope))
}

fn function(module: &Module, function: &Function, envelope: &Envelope) -> Result<()> {
    let body = &function.body;
    let refuse = |code: &str, loc: Loc, message: String| {
        let message = format!("in '{}': {message}", function.name);
        Err(Diagnostic::invalid(code, message).at_loc(&envelope.debug, loc))
    };
    if let Err(message) = body.verify_structure(function.region) {
        return refuse("AA001", Loc::UNKNOWN, message);
    }
    if let Some(lost) = body.ops.values().find(|op| envelope.debug.locs.get(op.loc).is_none()) {
        return refuse("AA002", Loc::UNKNOWN, format!("an op has location {}, which is not in the table", lost.loc));
    }
    if !base::text::is_compact(function) {
        return refuse("AA003", function.loc, "ids are not in program order".into());
    }
    if let Err(message) = body.values.iter().try_for_each(|(value, node)| {
        types::well_formed(&node.ty).map_err(|message| format!("{value} is {}: {message}", base::text::TypeText::print(&node.ty)))
    }) {
        return refuse("AA005", function.loc, message);
    }
    if let Err((loc, message)) = control::regions(function) {
        return refuse("AA006", loc, message);
    }
    for (id, op) in body.ops.iter() {
        if let Err(message) = one(module, function, id) {
            return refuse("AA007", op.loc, format!("{}: {message}", described(function, id)));
        }
    }
    match crate::facts::unfounded(function, &function.attrs.facts) {
        Some(value) => refuse("AA008", function.loc, format!("the table of facts claims more of {value} than can be derived")),
        None => Ok(()),
    }
}

fn one(module: &Module, function: &Function, id: OpId) -> Rule {
    let uses = ops::Uses { module, function, op: &function.body.ops[id] };
    match &uses.op.kind {
        Op::Core(core) => uses.core(core),
        _ => uses.memory(),
    }
}

/// An op as messages name it: by its first result if it has one.
fn described(function: &Function, op: OpId) -> String {
    let node = &function.body.ops[op];
    match node.results.first() {
        Some(result) => format!("{result} = {}", node.kind.mnemonic()),
        None => node.kind.mnemonic().into(),
    }
}
