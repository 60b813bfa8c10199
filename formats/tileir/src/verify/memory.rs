//! Rules of loads, stores, atomics and views.

use super::{Check, OpView, join, spelling};
use crate::enums::PointerSharing;
use crate::ops::Op;
use crate::types::{DYNAMIC, Element, Type, TypeId};
use base::ir::Value;
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope};
use numerics::Scalar;

/// Checks that the types of a load's or store's pointers, values, masks and padding match. As in NVIDIA's verifier, this check
/// comes directly after the type relations of the op table.
pub(super) fn check_types_match(view: &OpView<'_, '_>) -> Check {
    let have_same_shape = |a: Value, b: Value| view.tile(a).1 == view.tile(b).1;
    let points_to = |pointer: Value, value: Value| {
        have_same_shape(pointer, value) && view.tile(pointer).0.pointee().map(Element::Scalar) == Some(view.tile(value).0)
    };
    let fail = |what: &str| Err(format!("failed to verify that {what}"));
    match &view.node.kind {
        Op::LoadPtrTko { source, mask, padding_value, .. } => {
            let result = view.node.results[0];
            if !points_to(*source, result) {
                return fail("`source` type is expected a pointer type of `result` type");
            }
            if mask.is_some_and(|mask| !have_same_shape(mask, *source)) {
                return fail("shape of 'mask' must match the shape of 'source'");
            }
            if padding_value.is_some_and(|padding| view.type_id(padding) != view.type_id(result)) {
                return fail("type of 'paddingValue' must match the type of 'result'");
            }
            Ok(())
        }
        Op::StorePtrTko { destination, value, mask, .. } => {
            if !points_to(*destination, *value) {
                return fail("`destination` type is expected a pointer type of `value` type");
            }
            if mask.is_some_and(|mask| !have_same_shape(mask, *destination)) {
                return fail("shape of 'destination' must match the shape of 'mask'");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn check_load_ordering(ordering: MemoryOrdering, scope: Option<MemoryScope>) -> Check {
    use MemoryOrdering::{Acquire, Relaxed, Weak};
    if ![Weak, Relaxed, Acquire].contains(&ordering) {
        return Err(format!("expect one of: weak, relaxed, or acquire, but got: {}", spelling(ordering)));
    }
    check_scope(ordering, scope, "load")
}

pub(super) fn check_store_ordering(ordering: MemoryOrdering, scope: Option<MemoryScope>) -> Check {
    use MemoryOrdering::{Relaxed, Release, Weak};
    if ![Weak, Relaxed, Release].contains(&ordering) {
        return Err(format!("expect one of: weak, relaxed, or release, but got: {}", spelling(ordering)));
    }
    check_scope(ordering, scope, "store")
}

/// Checks that an access has a memory scope if, and only if, it is not weak.
fn check_scope(ordering: MemoryOrdering, scope: Option<MemoryScope>, what: &str) -> Check {
    match (ordering, scope) {
        (MemoryOrdering::Weak, Some(_)) => Err(format!("weak {what} must not have memory scope")),
        (MemoryOrdering::Weak, None) | (_, Some(_)) => Ok(()),
        (_, None) => Err(format!("memory scope is required for {} {what}", spelling(ordering))),
    }
}

fn check_atomic_ordering(ordering: MemoryOrdering) -> Check {
    if ordering == MemoryOrdering::Weak {
        return Err("memory ordering semantics must be one of: relaxed, acquire, release, acq_rel".into());
    }
    Ok(())
}

/// Checks that an atomic operation supports an element type.
fn check_atomic_mode(mode: AtomicMode, element: Element) -> Check {
    use AtomicMode::{Add, AddF, And, Max, Min, Or, UMax, UMin, Xchg, Xor};
    use Scalar::{BF16, F16, F32, F64, I32, I64};
    let (allowed, what): (&[Scalar], _) = match mode {
        And | Or | Xor | Add | Max | Min | UMax | UMin => (&[I32, I64], "integers i32 and i64"),
        AddF => (&[F32, F64, F16, BF16], "floats f16, bf16, f32, and f64"),
        Xchg => (&[I32, I64, F32, F64], "integers or float of 32 or 64 bitwidth"),
    };
    match element.scalar() {
        Some(scalar) if allowed.contains(&scalar) => Ok(()),
        _ => Err(format!("'{}' works only with {what}", spelling(mode))),
    }
}

fn element_text(element: Element) -> String {
    match element {
        Element::Scalar(scalar) => format!("'{scalar}'"),
        Element::Ptr(pointer) => format!("'!cuda_tile.ptr<{}>'", pointer.pointee),
    }
}

/// Checks that pointers point to the element type of a value. `name` names the value in messages.
fn check_pointee(view: &OpView<'_, '_>, pointers: Value, value: Value, name: &str) -> Check {
    let pointee = view.tile(pointers).0.pointee().map(Element::Scalar);
    let element = view.tile(value).0;
    match pointee {
        Some(pointee) if pointee != element => {
            let (pointee, element) = (element_text(pointee), element_text(element));
            Err(format!("expected pointee type ({pointee}) to match element type of '{name}' ({element})"))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_atomic(view: &OpView<'_, '_>) -> Check {
    match &view.node.kind {
        Op::AtomicRMWTko { memory_ordering, mode, pointers, arg, mask, .. } => {
            check_pointee(view, *pointers, *arg, "arg")?;
            check_not_multicast(view, *pointers, "multicast pointer is not supported for atomic_rmw")?;
            if mask.is_some_and(|mask| view.tile(mask).1 != view.tile(*arg).1) {
                return Err("failed to verify that all of {pointers, arg, mask} have same shape".into());
            }
            check_atomic_mode(*mode, view.tile(*arg).0)?;
            check_atomic_ordering(*memory_ordering)
        }
        Op::AtomicCASTko { memory_ordering, pointers, val, mask, .. } => {
            check_pointee(view, *pointers, *val, "val")?;
            check_not_multicast(view, *pointers, "multicast pointer is not supported for atomic_cas")?;
            let scalar = view.tile(*val).0.scalar();
            if !scalar.is_some_and(|scalar| [32, 64].contains(&scalar.bits()) && scalar != Scalar::TF32) {
                return Err("expect only float or integer types with 32 or 64 bit".into());
            }
            if mask.is_some_and(|mask| view.tile(mask).1 != view.tile(*val).1) {
                return Err("failed to verify that all of {pointers, val, cmp and mask} have same shape".into());
            }
            check_atomic_ordering(*memory_ordering)
        }
        Op::AtomicRedViewTko { memory_ordering, memory_scope, mode, inbounds, view: target, index, value, .. } => {
            check_atomic_view(view, *memory_ordering, *memory_scope, *mode, *target, index, *value)?;
            check_inbounds_length(inbounds, index)?;
            check_view_not_multicast(view, *target)
        }
        _ => Ok(()),
    }
}

/// Checks the rules of an atomic reduction through a view.
fn check_atomic_view(
    view: &OpView<'_, '_>,
    ordering: MemoryOrdering,
    scope: MemoryScope,
    mode: AtomicMode,
    target: Value,
    index: &[Value],
    value: Value,
) -> Check {
    let ty = view.ty(target);
    if matches!(ty, Type::GatherScatterView { .. }) {
        return Err("gather_scatter_view is not supported; use partition_view instead".into());
    }
    let (element, shape) = view_tile(view, target);
    let (value_element, value_shape) = view.tile(value);
    if element != value_element {
        let (element, value) = (element_text(element), element_text(value_element));
        return Err(format!("view element type ({element}) must match value element type ({value})"));
    }
    if shape != value_shape {
        let (shape, value) = (join(&shape), join(value_shape));
        return Err(format!("view tile shape {shape} must match value shape {value} for element-wise atomic operations"));
    }
    if mode == AtomicMode::Xchg {
        return Err("atomic_red_view_tko op cannot use xchg operation".into());
    }
    check_atomic_mode(mode, value_element)?;
    if ordering != MemoryOrdering::Relaxed {
        return Err("only 'relaxed' memory ordering is supported for view-based atomic reductions".into());
    }
    if scope == MemoryScope::System {
        let what = "memory scope 'sys' is not supported for view-based atomic reductions";
        return Err(format!("{what}; use 'tl_blk' or 'device' for TMA compatibility"));
    }
    if index.len() != shape.len() {
        let (rank, got) = (shape.len(), index.len());
        return Err(format!("expected {rank} index operand(s) for view with tile rank {rank}, got {got}"));
    }
    match index.iter().position(|index| !view.tile(*index).1.is_empty()) {
        Some(i) => {
            let shape = join(view.tile(index[i]).1);
            Err(format!("index operand {i} must be a scalar tile (rank 0), got shape {shape}"))
        }
        None => Ok(()),
    }
}

/// The element type and shape of the tiles of a view.
fn view_tile(view: &OpView<'_, '_>, value: Value) -> (Element, Vec<i64>) {
    let (tile, tensor) = view.ty(value).tile_view().expect("the predicate of the operand holds");
    let Type::TensorView { element, .. } = view.module().ty(tensor) else { unreachable!("views look at tensor views") };
    (Element::Scalar(*element), tile.iter().map(|dim| i64::from(*dim)).collect())
}

/// Checks an access of a tile through a view.
pub(super) fn check_view_access(view: &OpView<'_, '_>, target: Value, index: &[Value], tile: Value, inbounds: &[bool]) -> Check {
    let (element, shape) = view_tile(view, target);
    if index.len() != shape.len() {
        let (rank, got) = (shape.len(), index.len());
        return Err(format!("expected {rank} index operands (based on view type), got {got}"));
    }
    if view.tile(tile) != (element, &shape[..]) {
        let dims: String = shape.iter().map(|dim| format!("{dim}x")).collect();
        let element = element.scalar().map_or("?", Scalar::name);
        let got = view.quoted_type(view.type_id(tile));
        return Err(format!("expected tile type to be '!cuda_tile.tile<{dims}{element}>' (based on view type), got {got}"));
    }
    match view.ty(target) {
        Type::GatherScatterView { tile, sparse_dim, .. } => check_gather_indices(view, index, tile, *sparse_dim as usize)?,
        _ => check_scalar_indices(view, index)?,
    }
    check_inbounds_length(inbounds, index)
}

fn check_inbounds_length(inbounds: &[bool], index: &[Value]) -> Check {
    if !inbounds.is_empty() && inbounds.len() != index.len() {
        let (got, rank) = (inbounds.len(), index.len());
        return Err(format!("inbounds size ({got}) must match the number of index dimensions ({rank})"));
    }
    Ok(())
}

/// Checks that pointers are not multicast, because only multimem ops may access multicast memory.
pub(super) fn check_not_multicast(view: &OpView<'_, '_>, pointers: Value, message: &str) -> Check {
    match view.tile(pointers).0 {
        Element::Ptr(pointer) if pointer.space == PointerSharing::Multicast => Err(message.into()),
        _ => Ok(()),
    }
}

/// The element type, strides and pointer attribute of a view's tensor.
pub(super) fn tensor_of_view<'a>(view: &OpView<'_, 'a>, target: Value) -> (Scalar, &'a [i64], PointerSharing) {
    let (_, tensor) = view.ty(target).tile_view().expect("the predicate of the operand holds");
    let Type::TensorView { element, strides, space, .. } = view.module().ty(tensor) else {
        unreachable!("views look at tensor views")
    };
    (*element, strides, *space)
}

fn check_view_not_multicast(view: &OpView<'_, '_>, target: Value) -> Check {
    match tensor_of_view(view, target).2 {
        PointerSharing::Multicast => Err("multicast ptr_attr is not allowed".into()),
        _ => Ok(()),
    }
}

/// Checks the additional rules of loads and stores through a view. The pointer must not be multicast. An f4 view must have one
/// dimension with stride 1, along which two elements share a byte.
pub(super) fn check_single_device_view(view: &OpView<'_, '_>, target: Value) -> Check {
    check_view_not_multicast(view, target)?;
    let (element, strides, _) = tensor_of_view(view, target);
    if element != Scalar::F4E2M1FN {
        return Ok(());
    }
    let unit_strides = strides.iter().filter(|stride| **stride == 1).count();
    if unit_strides != 1 {
        let what = "an f4 view access requires exactly one statically encoded unit stride to identify the packing dimension";
        let (_, tensor) = view.ty(target).tile_view().expect("the predicate of the operand holds");
        return Err(format!("{what}; got {unit_strides} in {}", view.quoted_type(tensor)));
    }
    let packing_dim = strides.iter().position(|stride| *stride == 1).unwrap_or_default();
    match view.ty(target) {
        Type::GatherScatterView { sparse_dim, .. } if *sparse_dim as usize == packing_dim => {
            Err(format!("an f4 gather/scatter view cannot use packing dimension {packing_dim} as its sparse dimension"))
        }
        _ => Ok(()),
    }
}

/// Checks that the indices are scalars of one type.
fn check_scalar_indices(view: &OpView<'_, '_>, index: &[Value]) -> Check {
    if let Some(non_scalar) = index.iter().find(|index| !view.tile(**index).1.is_empty()) {
        return Err(format!("expected index type to be a scalar tile, got {}", view.quoted_type(view.type_id(*non_scalar))));
    }
    for (i, value) in index.iter().enumerate() {
        if view.type_id(*value) != view.type_id(index[0]) {
            let (first, got) = (view.quoted_type(view.type_id(index[0])), view.quoted_type(view.type_id(*value)));
            return Err(format!("expected index type {i} to be the same as other index types ({first}), got {got}"));
        }
    }
    Ok(())
}

/// Checks the indices of an access through a gather/scatter view: one tile of row indices, and scalars.
fn check_gather_indices(view: &OpView<'_, '_>, index: &[Value], tile: &[i32], sparse_dim: usize) -> Check {
    let (_, shape) = view.tile(index[sparse_dim]);
    if shape.len() != 1 {
        let rank = shape.len();
        return Err(format!(
            "expected index at sparse_dim position {sparse_dim} to be a 1D tensor for GatherScatterView, got rank {rank}"
        ));
    }
    if shape[0] != i64::from(tile[sparse_dim]) {
        let (got, expected) = (shape[0], tile[sparse_dim]);
        return Err(format!(
            "expected gather/scatter index size ({got}) to match tile shape at gather/scatter dimension {sparse_dim} ({expected})"
        ));
    }
    let mut first: Option<TypeId> = None;
    for (i, value) in index.iter().enumerate().filter(|(i, _)| *i != sparse_dim) {
        let id = view.type_id(*value);
        if !view.tile(*value).1.is_empty() {
            return Err(format!("expected index {i} to be a scalar tile for GatherScatterView"));
        }
        if *first.get_or_insert(id) != id {
            let (first, got) = (view.quoted_type(first.unwrap_or(id)), view.quoted_type(id));
            return Err(format!("expected scalar index {i} to have the same type as other scalar indices ({first}), got {got}"));
        }
    }
    Ok(())
}

pub(super) fn check_make_tensor_view(view: &OpView<'_, '_>, base: Value, shape: &[Value], strides: &[Value]) -> Check {
    let Type::TensorView { element, shape: view_shape, strides: view_strides, space } = view.ty(view.node.results[0]) else {
        return Ok(());
    };
    let Element::Ptr(pointer) = view.tile(base).0 else { return Ok(()) };
    if pointer.space != *space {
        return Err(match pointer.space {
            PointerSharing::Absent => "pointer base without ptr_attr cannot produce tensor_view with ptr_attr".into(),
            base_space => {
                format!("tensor_view must preserve ptr_attr from base pointer (#cuda_tile.ptr_attr<{}>)", base_space.spelling())
            }
        });
    }
    let pointee = Some(pointer.pointee);
    if pointee != Some(*element) {
        let pointee = pointee.map_or("?", Scalar::name);
        return Err(format!("expected pointer to '{element}' to build tensor_view of this type, got '{pointee}'"));
    }
    for (operands, dims, what) in [(shape, view_shape, "shape"), (strides, view_strides, "stride")] {
        let dynamic_count = dims.iter().filter(|value| **value == DYNAMIC).count();
        if operands.len() != dynamic_count {
            return Err(format!("expected {dynamic_count} dynamic {what} operands, got {}", operands.len()));
        }
    }
    let Some(first) = shape.iter().chain(strides).next().map(|value| view.type_id(*value)) else { return Ok(()) };
    for (values, what) in [(shape, "shape"), (strides, "stride")] {
        if let Some((i, other)) = values.iter().enumerate().find(|(_, value)| view.type_id(**value) != first) {
            let (first, got) = (view.quoted_type(first), view.quoted_type(view.type_id(*other)));
            return Err(format!(
                "expected dynamic {what} index {i} to be of the same type as the other dynamic values ({first}), got {got}"
            ));
        }
    }
    Ok(())
}

/// Checks that the type of a new view names the type of its tensor view operand.
pub(super) fn check_make_view(view: &OpView<'_, '_>, tensor: Value) -> Check {
    let Some((_, expected)) = view.ty(view.node.results[0]).tile_view() else { return Ok(()) };
    if expected != view.type_id(tensor) {
        let (got, expected) = (view.quoted_type(view.type_id(tensor)), view.quoted_type(expected));
        return Err(format!(
            "expected the type of the provided tensor_view value ({got}) to be the same as the view's tensor_view type ({expected})"
        ));
    }
    Ok(())
}

/// Checks the alignment of an `alloca`.
pub(super) fn check_alloca(view: &OpView<'_, '_>, alignment: i64) -> Check {
    if alignment <= 0 || alignment & (alignment - 1) != 0 {
        return Err("'alignment' must be power of two".into());
    }
    let Some(pointee) = view.result_tile().0.pointee() else { return Ok(()) };
    // As in NVIDIA's verifier, tf32 has 19 bits, and so a size of two bytes.
    let bits = if pointee == Scalar::TF32 { 19 } else { pointee.bits() };
    let size = if pointee == Scalar::I1 { 1 } else { i64::from(bits / 8) };
    if alignment < size {
        return Err(format!(
            "'alignment' ({alignment}) must be at least the natural size ({size} bytes) for element type '{pointee}'"
        ));
    }
    Ok(())
}
