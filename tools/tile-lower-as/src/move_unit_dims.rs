//! Purpose: move unit dimensions of loaded matrices to the front, so that rows and columns are last, as MMA operand buffers need.
//! Requires: `.aa`. The pass changes loads in functions with MMAs if only reshapes use the loaded tile.
//! Establishes: the two non-unit dimensions of the view of such a load are its last dimensions.
//! Preserves: the linear element order of the tile.
//! See also: MLIR's unit-dim folding (`vector` `CastAwayLeadingOneDim`).

use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::tile::{View, ViewKind};
use tileaa::{Function, Op, Type};

/// Returns the function in which loads of matrices have their unit dimensions first.
pub(crate) fn run(function: &Function) -> Function {
    let body = &function.body;
    let order = body.walk(function.region);
    if !order.iter().any(|op| matches!(body.ops[*op].kind, Op::Mma { .. } | Op::MmaScaled { .. })) {
        return function.clone();
    }
    let mut only_reshaped = vec![true; body.values.len()];
    for &op in &order {
        let kind = &body.ops[op].kind;
        let reshapes = matches!(kind, Op::Core(Core::Reshape { .. }));
        kind.operands().into_iter().for_each(|value| only_reshaped[value.0 as usize] &= reshapes);
    }
    let loads: Vec<(OpId, Vec<usize>)> = order
        .into_iter()
        .filter(|op| matches!(body.ops[*op].kind, Op::LoadView { .. }) && only_reshaped[body.result(*op).0 as usize])
        .filter_map(|op| Some((op, unit_dims_first(function, op)?)))
        .collect();
    let mut function = function.clone();
    loads.into_iter().for_each(|(op, order)| reorder_load_dims(&mut function, op, &order));
    function
}

/// The dimension order of a load's view with unit dimensions first. `None` if the unit dimensions are first already, or if the tile
/// does not have exactly two other dimensions.
fn unit_dims_first(function: &Function, load: OpId) -> Option<Vec<usize>> {
    let body = &function.body;
    let Op::LoadView { view, .. } = body.ops[load].kind else { return None };
    let Type::View(View { tile, kind: ViewKind::Partition, .. }) = body.ty(view) else { return None };
    let view_op = body.defining_op(view)?;
    let (ones, others): (Vec<usize>, Vec<usize>) = (0..tile.len()).partition(|dim| tile[*dim] == 1);
    let order: Vec<usize> = ones.into_iter().chain(others.iter().copied()).collect();
    let is_make_view = matches!(body.ops[view_op].kind, Op::Core(Core::MakeView { .. }));
    (is_make_view && others.len() == 2 && !order.is_sorted()).then_some(order)
}

/// Permutes the dimensions of a load's view and result to `order`. Emits a new view after the old view, which other ops may still
/// use.
fn reorder_load_dims(function: &mut Function, load: OpId, order: &[usize]) {
    let body = &mut function.body;
    let Op::LoadView { view, index, in_bounds, .. } = &body.ops[load].kind else { unreachable!("only loads are rewritten") };
    let (old_view, index, in_bounds) = (*view, index.clone(), in_bounds.clone());
    let view_op = body.defining_op(old_view).expect("an op defines its view");
    let (kind, loc) = (body.ops[view_op].kind.clone(), body.ops[view_op].loc);
    let Type::View(mut ty) = body.ty(old_view).clone() else { unreachable!("the verifier checks that views are views") };
    ty.dim_map = order.iter().map(|dim| ty.dim_map[*dim]).collect();
    ty.tile = order.iter().map(|dim| ty.tile[*dim]).collect();
    let shape = ty.tile.clone();
    let new = body.new_op(kind, [Type::View(ty)], loc);
    let block = body.op_blocks()[view_op.0 as usize].expect("the view is defined in a block");
    let ops = &mut body.blocks[block].ops;
    let at = ops.iter().position(|op| *op == view_op).expect("the view is defined in its block");
    ops.insert(at + 1, new);
    let (new_view, tile) = (body.result(new), body.result(load));
    if let Op::LoadView { view, index: load_index, in_bounds: load_in_bounds, .. } = &mut body.ops[load].kind {
        *view = new_view;
        *load_index = order.iter().map(|dim| index[*dim]).collect();
        *load_in_bounds = order.iter().filter_map(|dim| in_bounds.get(*dim).copied()).collect();
    }
    if let Type::Tile { shape: tile_shape, .. } = &mut body.values[tile].ty {
        *tile_shape = shape;
    }
}
