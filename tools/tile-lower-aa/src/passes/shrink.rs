//! Purpose: apply elementwise ops before broadcasts of their operands instead of after them.
//! Requires: `.aa`.
//! Establishes: index and mask arithmetic of 2-D accesses uses 1-D tiles instead of 2-D tiles. Reason: each element of these 2-D
//! tiles depends on one coordinate only.
//! Preserves: values.
//! See also: Triton's `ReorderBroadcast`.

use super::edit::Edit;
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Shape};
use tileaa::{Function, Op, Type};

/// Runs the pass on a function. Returns the number of changes.
pub(super) fn run(function: &mut Function) -> usize {
    let mut edit = Edit::new(function);
    for op in edit.ops_in_order() {
        if let Op::Core(core) = edit.resolved_op(op)
            && core.is_elementwise()
            && !matches!(core, Core::Assume { .. })
        {
            apply_before_broadcast(&mut edit, op, core);
        }
    }
    edit.finish()
}

/// Applies an elementwise op to the sources of its broadcast operands, and broadcasts the result.
fn apply_before_broadcast(edit: &mut Edit<'_>, op: OpId, core: Core) {
    let result = edit.function.body.result(op);
    let Type::Tile { elem, shape } = edit.ty(result).clone() else { return };
    if shape.iter().all(|extent| *extent == 1) {
        return;
    }
    let operands = core.operands();
    let Some(sources) = operands.iter().map(|operand| broadcast_source(edit, *operand)).collect::<Option<Vec<_>>>() else { return };
    let small_shape = common_shape(&sources, shape.len());
    if small_shape == shape {
        return;
    }
    let mut core = core;
    let mut sources = sources.into_iter();
    core.for_each_operand_mut(&mut |operand| {
        let source = sources.next().expect("there is a source for each operand");
        *operand = broadcast_to(edit, op, *operand, source, &small_shape);
    });
    let value = edit.insert(op, core, Type::Tile { elem, shape: small_shape });
    edit.replace_op(op, Core::Broadcast { x: value });
}

/// The value that an operand broadcasts.
enum BroadcastSource {
    /// A tile or scalar, with its shape.
    Tile(Value, Shape),
    /// A constant, as the bits of every element.
    Splat(u64),
}

/// The value that an operand broadcasts. `None` if the operand is neither a broadcast nor a splat constant.
fn broadcast_source(edit: &Edit<'_>, operand: Value) -> Option<BroadcastSource> {
    match edit.defining_core(operand)? {
        Core::Broadcast { x } => Some(BroadcastSource::Tile(x, edit.ty(x).tile()?.1.clone())),
        Core::Constant { value: Dense::Splat(bits) } => Some(BroadcastSource::Splat(bits)),
        _ => None,
    }
}

/// The smallest shape to which all sources can be broadcast: a scalar if all sources are scalars.
fn common_shape(sources: &[BroadcastSource], rank: usize) -> Shape {
    let shapes: Vec<&Shape> = sources
        .iter()
        .filter_map(|source| match source {
            BroadcastSource::Tile(_, shape) if !shape.is_empty() => Some(shape),
            _ => None,
        })
        .collect();
    if shapes.is_empty() {
        return Shape::new();
    }
    (0..rank).map(|dim| shapes.iter().map(|shape| shape[dim]).max().unwrap_or(1)).collect()
}

/// Broadcasts the source of an operand to a smaller shape than the operand has.
fn broadcast_to(edit: &mut Edit<'_>, op: OpId, operand: Value, source: BroadcastSource, small_shape: &Shape) -> Value {
    let Some((elem, _)) = edit.ty(operand).tile() else { return operand };
    let ty = Type::Tile { elem, shape: small_shape.clone() };
    match source {
        BroadcastSource::Splat(bits) => edit.insert(op, Core::Constant { value: Dense::Splat(bits) }, ty),
        BroadcastSource::Tile(value, shape) if shape == *small_shape => value,
        BroadcastSource::Tile(value, _) => edit.insert(op, Core::Broadcast { x: value }, ty),
    }
}
