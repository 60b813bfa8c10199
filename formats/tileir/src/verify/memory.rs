//! Rules of loads, stores, atomics and views.

use super::{Check, OpView, list, spelling};
use crate::ops::Op;
use crate::types::{DYNAMIC, Element, PointerSpace, Type, TypeId};
use base::ir::Value;
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope};
use numerics::Scalar;

/// Checks that pointers, values, masks and padding match. NVIDIA's verifier counts these among the type relations.
pub(super) fn types_match(view: &OpView<'_, '_>) -> Check {
    let same_shape = |a: Value, b: Value| view.tile(a).1 == view.tile(b).1;
    let points_to = |pointer: Value, value: Value| {
        same_shape(pointer, value) && view.tile(pointer).0.pointee().map(Element::Scalar) == Some(view.tile(value).0)
    };
    let fail = |what: &str| Err(format!("failed to verify that {what}"));
    match &view.node.kind {
        Op::LoadPtrTko { source, mask, padding_value, .. } => {
            let result = view.node.results[0];
            if !points_to(*source, result) {
                return fail("`source` type is expected a pointer type of `result` type");
            }
            if mask.is_some_and(|mask| !same_shape(mask, *source)) {
                return fail("shape of 'mask' must match the shape of 'source'");
            }
            if padding_value.is_some_and(|padding| view.id(padding) != view.id(result)) {
                return fail("type of 'paddingValue' must match the type of 'result'");
            }
            Ok(())
        }
        Op::StorePtrTko { destination, value, mask, .. } => {
            if !points_to(*destination, *value) {
                return fail("`destination` type is expected a pointer type of `value` type");
            }
            if mask.is_some_and(|mask| !same_shape(mask, *destination)) {
                return fail("shape of 'destination' must match the shape of 'mask'");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn load_ordering(ordering: MemoryOrdering, scope: Option<MemoryScope>) -> Check {
    use MemoryOrdering::{Acquire, Relaxed, Weak};
    if ![Weak, Relaxed, Acquire].contains(&ordering) {
        return Err(format!("expect one of: weak, relaxed, or acquire, but got: {}", spelling(ordering)));
    }
    scope_fits_ordering(ordering, scope, "load")
}

pub(super) fn store_ordering(ordering: MemoryOrdering, scope: Option<MemoryScope>) -> Check {
    use MemoryOrdering::{Relaxed, Release, Weak};
    if ![Weak, Relaxed, Release].contains(&ordering) {
        return Err(format!("expect one of: weak, relaxed, or release, but got: {}", spelling(ordering)));
    }
    scope_fits_ordering(ordering, scope, "store")
}

fn scope_fits_ordering(ordering: MemoryOrdering, scope: Option<MemoryScope>, what: &str) -> Check {
    match (ordering, scope) {
        (MemoryOrdering::Weak, Some(_)) => Err(format!("weak {what} must not have memory scope")),
        (MemoryOrdering::Weak, None) | (_, Some(_)) => Ok(()),
        (_, None) => Err(format!("memory scope is required for {} {what}", spelling(ordering))),
    }
}

fn atomic_ordering(ordering: MemoryOrdering) -> Check {
    if ordering == MemoryOrdering::Weak {
        return Err("memory ordering semantics must be one of: relaxed, acquire, release, acq_rel".into());
    }
    Ok(())
}

fn atomic_mode(mode: AtomicMode, element: Element) -> Check {
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

fn pointee_matches(view: &OpView<'_, '_>, pointers: Value, value: Value, name: &str) -> Check {
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

pub(super) fn atomic(view: &OpView<'_, '_>) -> Check {
    match &view.node.kind {
        Op::AtomicRMWTko { memory_ordering, mode, pointers, arg, mask, .. } => {
            pointee_matches(view, *pointers, *arg, "arg")?;
            not_multicast(view, *pointers, "multicast pointer is not supported for atomic_rmw")?;
            if mask.is_some_and(|mask| view.tile(mask).1 != view.tile(*arg).1) {
                return Err("failed to verify that all of {pointers, arg, mask} have same shape".into());
            }
            atomic_mode(*mode, view.tile(*arg).0)?;
            atomic_ordering(*memory_ordering)
        }
        Op::AtomicCASTko { memory_ordering, pointers, val, mask, .. } => {
            pointee_matches(view, *pointers, *val, "val")?;
            not_multicast(view, *pointers, "multicast pointer is not supported for atomic_cas")?;
            let scalar = view.tile(*val).0.scalar();
            if !scalar.is_some_and(|scalar| [32, 64].contains(&scalar.bits()) && scalar != Scalar::TF32) {
                return Err("expect only float or integer types with 32 or 64 bit".into());
            }
            if mask.is_some_and(|mask| view.tile(mask).1 != view.tile(*val).1) {
                return Err("failed to verify that all of {pointers, val, cmp and mask} have same shape".into());
            }
            atomic_ordering(*memory_ordering)
        }
        Op::AtomicRedViewTko { memory_ordering, memory_scope, mode, inbounds, view: target, index, value, .. } => {
            atomic_view(view, *memory_ordering, *memory_scope, *mode, *target, index, *value)?;
            inbounds_length(inbounds, index)?;
            not_multicast_view(view, *target)
        }
        _ => Ok(()),
    }
}

fn atomic_view(
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
        let (shape, value) = (list(&shape), list(value_shape));
        return Err(format!("view tile shape {shape} must match value shape {value} for element-wise atomic operations"));
    }
    if mode == AtomicMode::Xchg {
        return Err("atomic_red_view_tko op cannot use xchg operation".into());
    }
    atomic_mode(mode, value_element)?;
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
            let shape = list(view.tile(index[i]).1);
            Err(format!("index operand {i} must be a scalar tile (rank 0), got shape {shape}"))
        }
        None => Ok(()),
    }
}

/// Element and shape of the tiles of a view.
fn view_tile(view: &OpView<'_, '_>, value: Value) -> (Element, Vec<i64>) {
    let (tile, tensor) = view.ty(value).tile_view().expect("the predicate of the operand holds");
    let Type::TensorView { element, .. } = view.module().ty(tensor) else { unreachable!("views look at tensor views") };
    (Element::Scalar(*element), tile.iter().map(|dim| i64::from(*dim)).collect())
}

/// An access of a tile through a view.
pub(super) fn view_access(view: &OpView<'_, '_>, target: Value, index: &[Value], tile: Value, inbounds: &[bool]) -> Check {
    let (element, shape) = view_tile(view, target);
    if index.len() != shape.len() {
        let (rank, got) = (shape.len(), index.len());
        return Err(format!("expected {rank} index operands (based on view type), got {got}"));
    }
    if view.tile(tile) != (element, &shape[..]) {
        let dims: String = shape.iter().map(|dim| format!("{dim}x")).collect();
        let element = element.scalar().map_or("?", Scalar::name);
        let got = view.quoted(view.id(tile));
        return Err(format!("expected tile type to be '!cuda_tile.tile<{dims}{element}>' (based on view type), got {got}"));
    }
    match view.ty(target) {
        Type::GatherScatterView { tile, sparse_dim, .. } => gather_indices(view, index, tile, *sparse_dim as usize)?,
        _ => scalar_indices(view, index)?,
    }
    inbounds_length(inbounds, index)
}

fn inbounds_length(inbounds: &[bool], index: &[Value]) -> Check {
    if !inbounds.is_empty() && inbounds.len() != index.len() {
        let (got, rank) = (inbounds.len(), index.len());
        return Err(format!("inbounds size ({got}) must match the number of index dimensions ({rank})"));
    }
    Ok(())
}

/// Checks that the pointer of an op other than a multimem op is not multicast.
pub(super) fn not_multicast(view: &OpView<'_, '_>, pointers: Value, message: &str) -> Check {
    match view.tile(pointers).0 {
        Element::Ptr(pointer) if pointer.space == PointerSpace::Multicast => Err(message.into()),
        _ => Ok(()),
    }
}

/// Element, strides and pointer attribute of a view's tensor.
pub(super) fn tensor<'a>(view: &OpView<'_, 'a>, target: Value) -> (Scalar, &'a [i64], PointerSpace) {
    let (_, tensor) = view.ty(target).tile_view().expect("the predicate of the operand holds");
    let Type::TensorView { element, strides, space, .. } = view.module().ty(tensor) else {
        unreachable!("views look at tensor views")
    };
    (*element, strides, *space)
}

fn not_multicast_view(view: &OpView<'_, '_>, target: Value) -> Check {
    match tensor(view, target).2 {
        PointerSpace::Multicast => Err("multicast ptr_attr is not allowed".into()),
        _ => Ok(()),
    }
}

/// Additional rules of loads and stores through a view: the memory of one device and, for f4, a dimension along which two elements
/// share a byte.
pub(super) fn single_device_view(view: &OpView<'_, '_>, target: Value) -> Check {
    not_multicast_view(view, target)?;
    let (element, strides, _) = tensor(view, target);
    if element != Scalar::F4E2M1FN {
        return Ok(());
    }
    let units = strides.iter().filter(|stride| **stride == 1).count();
    if units != 1 {
        let what = "an f4 view access requires exactly one statically encoded unit stride to identify the packing dimension";
        let (_, tensor) = view.ty(target).tile_view().expect("the predicate of the operand holds");
        return Err(format!("{what}; got {units} in {}", view.quoted(tensor)));
    }
    let packing = strides.iter().position(|stride| *stride == 1).unwrap_or_default();
    match view.ty(target) {
        Type::GatherScatterView { sparse_dim, .. } if *sparse_dim as usize == packing => {
            Err(format!("an f4 gather/scatter view cannot use packing dimension {packing} as its sparse dimension"))
        }
        _ => Ok(()),
    }
}

fn scalar_indices(view: &OpView<'_, '_>, index: &[Value]) -> Check {
    if let Some(bad) = index.iter().find(|index| !view.tile(**index).1.is_empty()) {
        return Err(format!("expected index type to be a scalar tile, got {}", view.quoted(view.id(*bad))));
    }
    for (i, value) in index.iter().enumerate() {
        if view.id(*value) != view.id(index[0]) {
            let (first, got) = (view.quoted(view.id(index[0])), view.quoted(view.id(*value)));
            return Err(format!("expected index type {i} to be the same as other index types ({first}), got {got}"));
        }
    }
    Ok(())
}

fn gather_indices(view: &OpView<'_, '_>, index: &[Value], tile: &[i32], sparse_dim: usize) -> Check {
    let (_, shape) = view.tile(index[sparse_dim]);
    if shape.len() != 1 {
        let rank = shape.len();
        return Err(format!(
            "expected index at sparse_dim position {sparse_dim} to be a 1D tensor for GatherScatterView, got rank {rank}"
        ));
    }
    if shape[0] != i64::from(tile[sparse_dim]) {
        let (got, want) = (shape[0], tile[sparse_dim]);
        return Err(format!(
            "expected gather/scatter index size ({got}) to match tile shape at gather/scatter dimension {sparse_dim} ({want})"
        ));
    }
    let mut first: Option<TypeId> = None;
    for (i, value) in index.iter().enumerate().filter(|(i, _)| *i != sparse_dim) {
        let id = view.id(*value);
        if !view.tile(*value).1.is_empty() {
            return Err(format!("expected index {i} to be a scalar tile for GatherScatterView"));
        }
        if *first.get_or_insert(id) != id {
            let (first, got) = (view.quoted(first.unwrap_or(id)), view.quoted(id));
            return Err(format!("expected scalar index {i} to have the same type as other scalar indices ({first}), got {got}"));
        }
    }
    Ok(())
}

pub(super) fn make_tensor_view(view: &OpView<'_, '_>, base: Value, shape: &[Value], strides: &[Value]) -> Check {
    let Type::TensorView { element, shape: dims, strides: steps, space } = view.ty(view.node.results[0]) else { return Ok(()) };
    let Element::Ptr(pointer) = view.tile(base).0 else { return Ok(()) };
    if pointer.space != *space {
        return Err(match pointer.space {
            PointerSpace::Absent => "pointer base without ptr_attr cannot produce tensor_view with ptr_attr".into(),
            kept => format!("tensor_view must preserve ptr_attr from base pointer (#cuda_tile.ptr_attr<{}>)", kept.spelling()),
        });
    }
    let pointee = Some(pointer.pointee);
    if pointee != Some(*element) {
        let pointee = pointee.map_or("?", Scalar::name);
        return Err(format!("expected pointer to '{element}' to build tensor_view of this type, got '{pointee}'"));
    }
    for (given, known, what) in [(shape, dims, "shape"), (strides, steps, "stride")] {
        let dynamic = known.iter().filter(|value| **value == DYNAMIC).count();
        if given.len() != dynamic {
            return Err(format!("expected {dynamic} dynamic {what} operands, got {}", given.len()));
        }
    }
    let Some(first) = shape.iter().chain(strides).next().map(|value| view.id(*value)) else { return Ok(()) };
    for (values, what) in [(shape, "shape"), (strides, "stride")] {
        if let Some((i, other)) = values.iter().enumerate().find(|(_, value)| view.id(**value) != first) {
            let (first, got) = (view.quoted(first), view.quoted(view.id(*other)));
            return Err(format!(
                "expected dynamic {what} index {i} to be of the same type as the other dynamic values ({first}), got {got}"
            ));
        }
    }
    Ok(())
}

/// Checks that a view of a tensor view has its type.
pub(super) fn make_view(view: &OpView<'_, '_>, tensor: Value) -> Check {
    let Some((_, wanted)) = view.ty(view.node.results[0]).tile_view() else { return Ok(()) };
    if wanted != view.id(tensor) {
        let (got, wanted) = (view.quoted(view.id(tensor)), view.quoted(wanted));
        return Err(format!(
            "expected the type of the provided tensor_view value ({got}) to be the same as the view's tensor_view type ({wanted})"
        ));
    }
    Ok(())
}

pub(super) fn alloca(view: &OpView<'_, '_>, alignment: i64) -> Check {
    if alignment <= 0 || alignment & (alignment - 1) != 0 {
        return Err("'alignment' must be power of two".into());
    }
    let Some(pointee) = view.result().0.pointee() else { return Ok(()) };
    let bits = if pointee == Scalar::TF32 { 19 } else { pointee.bits() };
    let size = if pointee == Scalar::I1 { 1 } else { i64::from(bits / 8) };
    if alignment < size {
        return Err(format!(
            "'alignment' ({alignment}) must be at least the natural size ({size} bytes) for element type '{pointee}'"
        ));
    }
    Ok(())
}
