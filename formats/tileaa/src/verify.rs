//! The rules of `.aa` files: ids and structure, and that every op fits the types of what it uses.

use crate::{Function, Module};
use base::Envelope;
use base::diag::{Diagnostic, Place, Result};

pub(crate) fn module(module: &Module, envelope: &Envelope) -> Result<()> {
    module.functions.iter().try_for_each(|f| function(f, envelope))
}

fn function(function: &Function, envelope: &Envelope) -> Result<()> {
    let refuse =
        |code: &str, message: String| Diagnostic::invalid(code, message).at(Place::Entity(format!("func {}", function.name)));
    function.body.verify_structure(function.region).map_err(|message| refuse("AA001", message))?;
    let lost = function.body.ops.values().find(|op| envelope.debug.locs.get(op.loc).is_none());
    match lost {
        Some(op) => Err(refuse("AA002", format!("an op has location {}, which is not in the table", op.loc))),
        None => Ok(()),
    }
}
