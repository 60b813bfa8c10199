//! Rules of multimem ops, which access the memory of several devices through one address.

use super::memory::{check_load_ordering, check_store_ordering, check_view_access, tensor_of_view};
use super::{Check, OpView, spelling};
use crate::enums::PointerSharing;
use crate::ops::Op;
use crate::types::Type;
use base::ir::Value;
use core_dialect::memory::{MemoryOrdering, MulticastReduction};
use numerics::Scalar::{self, *};

/// Checks the rules of a multimem op.
pub(super) fn check_multimem(view: &OpView<'_, '_>) -> Check {
    match &view.node.kind {
        Op::MultimemLoadReduceViewTko { memory_ordering, memory_scope, reduction, inbounds, view: target, index, .. } => {
            let result = view.node.results[0];
            check_access(view, *target, result, index, inbounds)?;
            check_load_reduction(*reduction, tensor_of_view(view, *target).0)?;
            check_load_ordering(*memory_ordering, *memory_scope)
        }
        Op::MultimemReduceViewTko { memory_ordering, reduction, inbounds, view: target, tile, index, .. } => {
            check_access(view, *target, *tile, index, inbounds)?;
            let element = tensor_of_view(view, *target).0;
            check_integers_only(*reduction, element)?;
            if *reduction != MulticastReduction::Add && element.is_float() {
                return Err("supports only add for floating-point element types".into());
            }
            check_reduce_ordering(*memory_ordering)
        }
        Op::MultimemStoreViewTko { memory_ordering, memory_scope, inbounds, view: target, tile, index, .. } => {
            check_access(view, *target, *tile, index, inbounds)?;
            check_store_ordering(*memory_ordering, *memory_scope)
        }
        _ => Ok(()),
    }
}

/// Checks the rules for the view and the tile that the three multimem ops share.
fn check_access(view: &OpView<'_, '_>, target: Value, tile: Value, index: &[Value], inbounds: &[bool]) -> Check {
    if !matches!(view.ty(target), Type::PartitionView { .. }) {
        let got = view.quoted_type(view.type_id(target));
        return Err(format!("multimem view operations support only partition_view; got {got}"));
    }
    let (element, strides, space) = tensor_of_view(view, target);
    if space != PointerSharing::Multicast {
        return Err(format!("expected a multicast pointer, but got {}", space.spelling()));
    }
    check_view_access(view, target, index, tile, inbounds)?;
    check_element_type(element)?;
    if matches!(element, F16 | BF16) {
        let unit_strides = strides.iter().filter(|stride| **stride == 1).count();
        if unit_strides != 1 {
            let what = "f16/bf16 multimem views must have exactly one element stride statically known to equal 1";
            return Err(format!("{what}; got {unit_strides}"));
        }
    }
    let elements = view.tile(tile).1.iter().product::<i64>();
    let (bits, total_bits) = (element.bits(), elements * i64::from(element.bits()));
    if element.is_float() && total_bits % 32 != 0 {
        let what = "multimem op requires tile total size to be a multiple of 4 bytes for float element types";
        return Err(format!("{what}; got {elements} element(s) of {bits} bits (total {total_bits} bits)"));
    }
    Ok(())
}

fn check_element_type(element: Scalar) -> Check {
    match element {
        I32 | I64 | F16 | BF16 | F32 | F64 => Ok(()),
        _ if element.is_int() => {
            let bits = element.bits();
            Err(format!("multimem requires 32- or 64-bit integer/index element types; got {bits} bits"))
        }
        _ => Err("multimem supports only f16, bf16, f32, and f64 floating-point element types".into()),
    }
}

/// Checks that a bitwise or unsigned reduction has an integer element type.
fn check_integers_only(reduction: MulticastReduction, element: Scalar) -> Check {
    use MulticastReduction::{And, Or, UMax, UMin, Xor};
    match matches!(reduction, And | Or | Xor | UMin | UMax) && element.is_float() {
        true => Err("and/or/xor/umin/umax reductions require integer element types".into()),
        false => Ok(()),
    }
}

/// Checks that a multimem load supports a reduction of this element type.
fn check_load_reduction(reduction: MulticastReduction, element: Scalar) -> Check {
    check_integers_only(reduction, element)?;
    match (reduction, element) {
        (MulticastReduction::Min | MulticastReduction::Max, F32 | F64) => {
            Err(format!("min/max supports f16 and bf16 float types only; got '{element}'"))
        }
        _ => Ok(()),
    }
}

fn check_reduce_ordering(ordering: MemoryOrdering) -> Check {
    match ordering {
        MemoryOrdering::Relaxed | MemoryOrdering::Release => Ok(()),
        _ => Err(format!("memory ordering semantics must be one of: {}, {}", spelling(MemoryOrdering::Relaxed), "release")),
    }
}
