//! Converts types of `.tile` to types of `.aa`.

use base::diag::{Diagnostic, Result};
use core_dialect::tile::{Elem, MemRef, Shape, Space, View, ViewKind};
use tileir::types::DYNAMIC;
use tileir::{Element, Module, Type, TypeId};

/// Converts the type of a value. If the type contains pointers, they are in `space`, and derived from the object with this alias
/// scope.
pub(super) fn convert_type(module: &Module, ty: TypeId, space: Space, alias_scope: u32) -> Result<tileaa::Type> {
    Ok(match module.ty(ty) {
        Type::Tile { element, shape } => {
            tileaa::Type::Tile { elem: convert_element(*element, space), shape: shape_from_i64(shape) }
        }
        Type::TensorView { .. } => tileaa::Type::MemRef(convert_memref(module, ty, space, alias_scope)?),
        Type::PartitionView { .. } | Type::StridedView { .. } | Type::GatherScatterView { .. } => {
            tileaa::Type::View(convert_view(module, ty, space, alias_scope)?)
        }
        Type::Token => tileaa::Type::Token,
        other => return Err(Diagnostic::unsupported("LAA001", format!(".aa has no values of type {other:?}"))),
    })
}

/// The element type. A pointer gets the address space `space`.
fn convert_element(element: Element, space: Space) -> Elem {
    match element {
        Element::Scalar(scalar) => Elem::Scalar(scalar),
        Element::Ptr(pointer) => Elem::Ptr { pointee: pointer.pointee, space },
    }
}

/// The shape with these extents. The verifier of `.tile` checks that the extents are positive and fit 32 bits.
fn shape_from_i64(shape: &[i64]) -> Shape {
    shape.iter().map(|extent| *extent as u32).collect()
}

fn shape_from_i32(shape: &[i32]) -> Shape {
    shape.iter().map(|extent| *extent as u32).collect()
}

/// The sizes or strides that a tensor view type states; `None` for a dynamic size or stride.
fn static_extents(extents: &[i64]) -> Vec<Option<u64>> {
    extents.iter().map(|extent| (*extent != DYNAMIC).then_some(*extent as u64)).collect()
}

fn convert_memref(module: &Module, ty: TypeId, space: Space, alias_scope: u32) -> Result<MemRef> {
    match module.ty(ty) {
        Type::TensorView { element, shape, strides, .. } => {
            Ok(MemRef { elem: *element, space, sizes: static_extents(shape), strides: static_extents(strides), alias_scope })
        }
        other => Err(Diagnostic::invalid("LAA002", format!("the operand of a view is {other:?}, which is not a tensor view"))),
    }
}

fn convert_view(module: &Module, ty: TypeId, space: Space, alias_scope: u32) -> Result<View> {
    let identity_order = |rank: usize| (0..rank as i32).collect();
    let (tile, tensor, dim_map, kind): (_, _, Box<[i32]>, _) = match module.ty(ty) {
        Type::PartitionView { tile, tensor, dim_map, .. } => (tile, *tensor, dim_map.clone(), ViewKind::Partition),
        Type::StridedView { tile, traversal, tensor, dim_map, .. } => {
            (tile, *tensor, dim_map.clone(), ViewKind::Strided { steps: traversal.iter().map(|step| *step as u32).collect() })
        }
        Type::GatherScatterView { tile, tensor, sparse_dim, .. } => {
            (tile, *tensor, identity_order(tile.len()), ViewKind::Gather { sparse_dim: *sparse_dim })
        }
        other => return Err(Diagnostic::invalid("LAA002", format!("{other:?} is not a view"))),
    };
    Ok(View {
        memref: convert_memref(module, tensor, space, alias_scope)?,
        tile: shape_from_i32(tile),
        dim_map: dim_map.iter().map(|dim| *dim as u32).collect(),
        kind,
        padding: module.ty(ty).padding(),
    })
}
