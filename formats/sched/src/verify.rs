//! The rules of `.sched` files.

use crate::Op;
use crate::module::{Function, Module, Phase};
use base::Envelope;
use base::diag::{Diagnostic, Place, Result};

pub(crate) fn module(module: &Module, envelope: &Envelope) -> Result<()> {
    envelope.target()?;
    let phase = Phase::of(envelope)
        .ok_or_else(|| Diagnostic::invalid("SC001", format!("'{}' is not a phase of .sched", envelope.phase)))?;
    module.functions.iter().try_for_each(|f| function(f, module, envelope, phase))
}

fn function(function: &Function, module: &Module, envelope: &Envelope, phase: Phase) -> Result<()> {
    let refuse =
        |code: &str, message: String| Diagnostic::invalid(code, message).at(Place::Entity(format!("func {}", function.name)));
    function.body.verify_structure(function.region).map_err(|message| refuse("SC002", message))?;
    if let Some(op) = function.body.ops.values().find(|op| envelope.debug.locs.get(op.loc).is_none()) {
        return Err(refuse("SC003", format!("an op has location {}, which is not in the table", op.loc)));
    }
    for (value, node) in function.body.values.iter() {
        if let Some(layout) = node.ty.layout() {
            let bits = node.ty.shape().iter().map(|extent| extent.trailing_zeros()).sum();
            let layout = module.layouts.get(layout).ok_or_else(|| refuse("SC004", format!("{value} has an unknown layout")))?;
            layout.covers(bits).map_err(|message| refuse("SC005", format!("{value}: {message}")))?;
        }
    }
    for node in function.body.ops.values() {
        if let Op::Core(copy @ tileas::Op::CopyView { view, .. }) = &node.kind {
            let copy = tileas::verify::copy_view(copy, function.body.ty(*view), &module.layouts, &function.attrs.program);
            copy.map_err(|message| refuse("SC007", message))?;
        }
    }
    if phase >= Phase::Alloc {
        placements(function).map_err(|message| refuse("SC006", message))?;
    }
    Ok(())
}

/// Every buffer lies inside the function's memory and is aligned.
fn placements(function: &Function) -> Result<(), String> {
    let attrs = &function.attrs;
    if attrs.placements.len() != attrs.program.buffers.len() {
        return Err(format!("{} of {} buffers have a place", attrs.placements.len(), attrs.program.buffers.len()));
    }
    for (buffer, info) in attrs.program.buffers.iter() {
        let place = attrs.placements[buffer];
        let end = u64::from(place.offset) + u64::from(info.bytes()) * u64::from(place.depth);
        if end > u64::from(attrs.shared_bytes) || !place.offset.is_multiple_of(info.align.max(1)) {
            return Err(format!(
                "{buffer} at {} does not fit the function's {} bytes or its alignment",
                place.offset, attrs.shared_bytes
            ));
        }
    }
    Ok(())
}
