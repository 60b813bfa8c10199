//! The rules of `.as` files.

use crate::layout::Layout;
use crate::{Function, Module, Type};
use base::Envelope;
use base::diag::{Diagnostic, Place, Result};

pub(crate) fn module(module: &Module, envelope: &Envelope) -> Result<()> {
    envelope.target()?;
    module.functions.iter().try_for_each(|f| function(f, module, envelope))
}

fn function(function: &Function, module: &Module, envelope: &Envelope) -> Result<()> {
    let refuse =
        |code: &str, message: String| Diagnostic::invalid(code, message).at(Place::Entity(format!("func {}", function.name)));
    function.body.verify_structure(function.region).map_err(|message| refuse("AS001", message))?;
    if let Some(op) = function.body.ops.values().find(|op| envelope.debug.locs.get(op.loc).is_none()) {
        return Err(refuse("AS002", format!("an op has location {}, which is not in the table", op.loc)));
    }
    if !function.attrs.warps().is_power_of_two() {
        return Err(refuse("AS003", format!("the agents have {} warps, which is not a power of two", function.attrs.warps())));
    }
    for (value, node) in function.body.values.iter() {
        if let Type::Tile { shape, layout, .. } = &node.ty {
            let bits = shape.iter().map(|extent| extent.trailing_zeros()).sum();
            let layout: &Layout =
                module.layouts.get(*layout).ok_or_else(|| refuse("AS004", format!("{value} has an unknown layout")))?;
            layout.covers(bits).map_err(|message| refuse("AS005", format!("{value}: {message}")))?;
        }
    }
    for (buffer, info) in function.attrs.buffers.iter() {
        let bits = info.shape.iter().map(|extent| extent.trailing_zeros()).sum::<u32>();
        if crate::layout::rank(info.offsets.iter().copied()) != bits || info.offsets.len() != bits as usize {
            return Err(refuse("AS006", format!("{buffer} does not give every element one offset")));
        }
    }
    Ok(())
}
