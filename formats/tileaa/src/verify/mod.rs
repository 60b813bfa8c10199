//! Verifier rules of `.aa` files. Code that receives a verified module may index its tables without bounds checks.
//!
//! | code | rule |
//! |---|---|
//! | AA001 | structure: ids exist, each op is in one block, definitions dominate uses, terminators are last |
//! | AA002 | every location is in the table |
//! | AA003 | ids are in program order and all entities are reachable |
//! | AA004 | names of functions and globals are unique; a global's data has its type |
//! | AA005 | types are well formed: extents powers of two, at most 2^24 elements, views that fit their memref |
//! | AA006 | every region is one block with a terminator that its op allows; reduction bodies are pure; nesting is limited |
//! | AA007 | operands and results of every op have types that fit it; `cluster_rank` needs a function with a cluster |
//! | AA008 | the table of facts contains only facts that the analysis derives |
//!
//! `.aa` does not name layouts, threads, stages or targets.

mod memory;

use crate::{Function, Module, Op, Type};
use base::diag::{Diagnostic, Result};
use base::{Envelope, Loc};
use core_dialect::rules::{self, CoreDialectType, describe_op};

/// The op under check, with the function body and the globals to which it refers.
type OpContext<'a> = rules::OpContext<'a, Op, Type>;

/// Checks an `.aa` module.
pub(crate) fn check_module(module: &Module, envelope: &Envelope) -> Result<()> {
    let invalid = |code: &str, message: String| Diagnostic::invalid(code, message);
    let functions = module.functions.iter();
    rules::check_names(&module.globals, functions.map(|f| f.name.as_str())).map_err(|message| invalid("AA004", message))?;
    let globals = module.globals.iter().map(|global| (&global.name, global.loc));
    for (name, loc) in globals.chain(module.functions.iter().map(|f| (&f.name, f.loc))) {
        if envelope.debug.locs.get(loc).is_none() {
            return Err(invalid("AA002", format!("'{name}' has location {loc}, which is not in the table")));
        }
    }
    module.functions.iter().try_for_each(|f| check_function(module, f, envelope))
}

/// Checks all rules for a function.
fn check_function(module: &Module, function: &Function, envelope: &Envelope) -> Result<()> {
    let body = &function.body;
    let reject = |code: &str, loc: Loc, message: String| {
        let message = format!("in '{}': {message}", function.name);
        Err(Diagnostic::invalid(code, message).at_loc(&envelope.debug, loc))
    };
    if let Err(message) = body.verify_structure(function.region) {
        return reject("AA001", Loc::UNKNOWN, message);
    }
    if let Some(op) = body.ops.values().find(|op| envelope.debug.locs.get(op.loc).is_none()) {
        return reject("AA002", Loc::UNKNOWN, format!("an op has location {}, which is not in the table", op.loc));
    }
    if !base::text::is_compact(function) {
        return reject("AA003", function.loc, "ids are not in program order".into());
    }
    if let Err(message) = body.values.iter().try_for_each(|(value, node)| {
        rules::check_type(node.ty.core_type())
            .map_err(|message| format!("{value} is {}: {message}", base::text::TypeText::print(&node.ty)))
    }) {
        return reject("AA005", function.loc, message);
    }
    if let Err(message) = rules::check_cluster(body, function.attrs.cluster) {
        return reject("AA007", function.loc, message);
    }
    if let Err((loc, message)) = rules::check_regions(body, function.region, function.loc) {
        return reject("AA006", loc, message);
    }
    if let Err(message) = rules::check_clc_loops(body, &[function.entry()]) {
        return reject("AA007", function.loc, message);
    }
    for (id, op) in body.ops.iter() {
        if let Err(message) = memory::check_op(&OpContext { body, globals: &module.globals, op }) {
            return reject("AA007", op.loc, format!("{}: {message}", describe_op(body, id)));
        }
    }
    match crate::facts::first_underivable(function, &function.attrs.facts) {
        Some(value) => reject("AA008", function.loc, format!("the table of facts claims more of {value} than can be derived")),
        None => Ok(()),
    }
}
