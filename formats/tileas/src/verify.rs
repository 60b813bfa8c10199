//! The rules of `.as` files.

use crate::layout::{Layout, LayoutId};
use crate::{CopyAtom, Function, FunctionAttrs, Module, Op, Type};
use base::diag::{Diagnostic, Place, Result};
use base::tile::Elem;
use base::{Arena, Envelope};

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
    for node in function.body.ops.values() {
        if let Op::CopyView { view, .. } = &node.kind {
            let copy = copy_view(&node.kind, function.body.ty(*view), &module.layouts, &function.attrs);
            copy.map_err(|message| refuse("AS007", message))?;
        }
    }
    Ok(())
}

/// A copy names a layout and a buffer of the view's tile, and its pieces are whole registers of the layout and whole in the buffer.
pub fn copy_view(op: &Op, view: &Type, layouts: &Arena<LayoutId, Layout>, attrs: &FunctionAttrs) -> Result<(), String> {
    let Op::CopyView { buffer, layout, atom, .. } = op else { return Ok(()) };
    let (Type::View(view), CopyAtom::Async { bytes }) = (view, atom) else {
        return Err("a copy is of a view, by an asynchronous atom".into());
    };
    let info = attrs.buffers.get(*buffer).ok_or_else(|| format!("{buffer} is not in the table"))?;
    let layout = layouts.get(*layout).ok_or("a copy has an unknown layout")?;
    if info.shape != view.tile || info.elem != Elem::Scalar(view.memref.elem) {
        return Err(format!("{buffer} does not hold tiles of the view"));
    }
    layout.covers(info.offsets.len() as u32)?;
    let width = bytes / info.elem.bytes();
    let whole = matches!(bytes, 4 | 8 | 16) && width.is_power_of_two() && width * info.elem.bytes() == *bytes;
    let bits = if whole { width.ilog2() as usize } else { usize::MAX };
    let neighbours = layout.register.iter().zip(&info.offsets).take(bits).filter(|(register, offset)| register == offset).count();
    if neighbours != bits {
        return Err(format!("pieces of {bytes} bytes are not whole in {buffer} or in the copy's layout"));
    }
    Ok(())
}
