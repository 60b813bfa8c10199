//! Folds ops that rearrange elements.

use super::{Folded, TypedOp, fold_to_splat};
use crate::passes::edit::Edit;
use base::Value;
use core_dialect::core_ops::Core;

/// The replacement of an op that rearranges elements; `None` if no fold applies.
pub(super) fn fold(edit: &Edit<'_>, typed_op: &TypedOp, core: &Core) -> Option<Folded> {
    if let Core::Broadcast { x } | Core::Reshape { x } | Core::Permute { x, .. } | Core::Extract { x, .. } = *core {
        if *edit.ty(x) == typed_op.ty() && !matches!(core, Core::Permute { order, .. } if !is_identity(order)) {
            return Some(Folded::Value(x));
        }
        if let Some(bits) = edit.splat_bits(x) {
            return Some(fold_to_splat(bits));
        }
        if let Some(scalar) = broadcast_scalar(edit, x) {
            return Some(if typed_op.shape.is_empty() { Folded::Value(scalar) } else { Folded::Op(Core::Broadcast { x: scalar }) });
        }
    }
    match core {
        Core::Broadcast { x } => match edit.defining_core(*x)? {
            Core::Broadcast { x } => Some(Folded::Op(Core::Broadcast { x })),
            Core::Reshape { x } if is_scalar(edit, x) => Some(Folded::Op(Core::Broadcast { x })),
            _ => None,
        },
        Core::Reshape { x } => match edit.defining_core(*x)? {
            Core::Reshape { x } => Some(Folded::Op(Core::Reshape { x })),
            _ => None,
        },
        Core::Permute { x, order } => match edit.defining_core(*x)? {
            Core::Permute { x, order: inner } => {
                let order = order.iter().map(|dim| inner[*dim as usize]).collect();
                Some(Folded::Op(Core::Permute { x, order }))
            }
            _ => None,
        },
        Core::Cat { lhs, rhs, .. } => {
            let (left, right) = (edit.splat_bits(*lhs)?, edit.splat_bits(*rhs)?);
            (left == right).then(|| fold_to_splat(left))
        }
        Core::Reinterpret { x } => match edit.defining_core(*x)? {
            Core::Reinterpret { x } if *edit.ty(x) == typed_op.ty() => Some(Folded::Value(x)),
            Core::Reinterpret { x } => Some(Folded::Op(Core::Reinterpret { x })),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a value is a tile without dimensions.
fn is_scalar(edit: &Edit<'_>, value: Value) -> bool {
    edit.ty(value).tile().is_some_and(|(_, shape)| shape.is_empty())
}

/// Whether an order of dimensions leaves all dimensions in place.
fn is_identity(order: &[u32]) -> bool {
    order.iter().enumerate().all(|(i, dim)| i == *dim as usize)
}

/// The scalar whose broadcast defines a value, or `None` if no broadcast of a scalar defines it.
fn broadcast_scalar(edit: &Edit<'_>, value: Value) -> Option<Value> {
    match edit.defining_core(value)? {
        Core::Broadcast { x } if is_scalar(edit, x) => Some(x),
        _ => None,
    }
}
