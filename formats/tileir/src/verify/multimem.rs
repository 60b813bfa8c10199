//! Rules of multimem ops, which access the memory of several devices through one address.

use super::memory::{load_ordering, store_ordering, tensor, view_access};
use super::{Check, OpView, spelling};
use crate::ops::Op;
use crate::types::{PointerSpace, Type};
use base::ir::Value;
use core_dialect::memory::{MemoryOrdering, MulticastReduction};
use numerics::Scalar::{self, *};

pub(super) fn check(view: &OpView<'_, '_>) -> Check {
    match &view.node.kind {
        Op::MultimemLoadReduceViewTko { memory_ordering, memory_scope, reduction, inbounds, view: target, index, .. } => {
            let result = view.node.results[0];
            access(view, *target, result, index, inbounds)?;
            load_reduction(*reduction, tensor(view, *target).0)?;
            load_ordering(*memory_ordering, *memory_scope)
        }
        Op::MultimemReduceViewTko { memory_ordering, reduction, inbounds, view: target, tile, index, .. } => {
            access(view, *target, *tile, index, inbounds)?;
            let element = tensor(view, *target).0;
            integers_only(*reduction, element)?;
            if *reduction != MulticastReduction::Add && element.is_float() {
                return Err("supports only add for floating-point element types".into());
            }
            reduce_ordering(*memory_ordering)
        }
        Op::MultimemStoreViewTko { memory_ordering, memory_scope, inbounds, view: target, tile, index, .. } => {
            access(view, *target, *tile, index, inbounds)?;
            store_ordering(*memory_ordering, *memory_scope)
        }
        _ => Ok(()),
    }
}

/// The common rules of all three ops for the view and the tile.
fn access(view: &OpView<'_, '_>, target: Value, tile: Value, index: &[Value], inbounds: &[bool]) -> Check {
    if !matches!(view.ty(target), Type::PartitionView { .. }) {
        let got = view.quoted(view.id(target));
        return Err(format!("multimem view operations support only partition_view; got {got}"));
    }
    let (element, strides, space) = tensor(view, target);
    if space != PointerSpace::Multicast {
        return Err(format!("expected a multicast pointer, but got {}", space.spelling()));
    }
    view_access(view, target, index, tile, inbounds)?;
    element_type(element)?;
    if matches!(element, F16 | BF16) {
        let units = strides.iter().filter(|stride| **stride == 1).count();
        if units != 1 {
            let what = "f16/bf16 multimem views must have exactly one element stride statically known to equal 1";
            return Err(format!("{what}; got {units}"));
        }
    }
    let elements = view.tile(tile).1.iter().product::<i64>();
    let (bits, total) = (element.bits(), elements * i64::from(element.bits()));
    if element.is_float() && total % 32 != 0 {
        let what = "multimem op requires tile total size to be a multiple of 4 bytes for float element types";
        return Err(format!("{what}; got {elements} element(s) of {bits} bits (total {total} bits)"));
    }
    Ok(())
}

fn element_type(element: Scalar) -> Check {
    match element {
        I32 | I64 | F16 | BF16 | F32 | F64 => Ok(()),
        _ if element.is_int() => {
            let bits = element.bits();
            Err(format!("multimem requires 32- or 64-bit integer/index element types; got {bits} bits"))
        }
        _ => Err("multimem supports only f16, bf16, f32, and f64 floating-point element types".into()),
    }
}

fn integers_only(reduction: MulticastReduction, element: Scalar) -> Check {
    use MulticastReduction::{And, Or, UMax, UMin, Xor};
    match matches!(reduction, And | Or | Xor | UMin | UMax) && element.is_float() {
        true => Err("and/or/xor/umin/umax reductions require integer element types".into()),
        false => Ok(()),
    }
}

fn load_reduction(reduction: MulticastReduction, element: Scalar) -> Check {
    integers_only(reduction, element)?;
    match (reduction, element) {
        (MulticastReduction::Min | MulticastReduction::Max, F32 | F64) => {
            Err(format!("min/max supports f16 and bf16 float types only; got '{element}'"))
        }
        _ => Ok(()),
    }
}

fn reduce_ordering(ordering: MemoryOrdering) -> Check {
    match ordering {
        MemoryOrdering::Relaxed | MemoryOrdering::Release => Ok(()),
        _ => Err(format!("memory ordering semantics must be one of: {}, {}", spelling(MemoryOrdering::Relaxed), "release")),
    }
}
