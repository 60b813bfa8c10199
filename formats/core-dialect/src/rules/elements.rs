//! The element types that each operation supports.

use crate::tile::{Elem, Space};
use numerics::Scalar;
use numerics::arith::{Binary, Convert, Rounding, Unary};

/// Returns whether the elements are pointers.
pub fn is_ptr(elem: Elem) -> bool {
    matches!(elem, Elem::Ptr { .. })
}

/// The address space of a pointer; `None` for a scalar.
pub(super) fn space_of(elem: Elem) -> Option<Space> {
    match elem {
        Elem::Ptr { space, .. } => Some(space),
        Elem::Scalar(_) => None,
    }
}

pub(super) fn is_int(elem: Elem) -> bool {
    elem.scalar().is_some_and(Scalar::is_int)
}

/// Returns whether arithmetic supports a float type. Conversions and MMAs also support the other float types.
pub(super) fn is_float(elem: Elem) -> bool {
    matches!(elem, Elem::Scalar(Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64))
}

pub(super) fn is_f32(elem: Elem) -> bool {
    elem == Elem::Scalar(Scalar::F32)
}

/// Returns whether an operation on an element type may have this value of `ftz` (flush subnormal numbers to zero). Only operations
/// on f32 may have the value true.
pub(super) fn supports_ftz(ftz: bool, elem: Elem) -> bool {
    !ftz || is_f32(elem)
}

/// Returns whether a rounding mode is one of IEEE 754, not an approximation.
pub(super) fn is_ieee_rounding(rounding: Rounding) -> bool {
    matches!(rounding, Rounding::NearestEven | Rounding::Zero | Rounding::NegativeInf | Rounding::PositiveInf)
}

/// Returns whether a unary operation supports an element type.
pub(super) fn supports_unary(kind: Unary, elem: Elem) -> bool {
    match kind {
        Unary::AbsI | Unary::NegI { .. } => is_int(elem),
        Unary::Sqrt { rounding, ftz } => {
            is_float(elem)
                && supports_ftz(ftz, elem)
                && (is_ieee_rounding(rounding) || rounding == Rounding::Approx && is_f32(elem))
        }
        Unary::Exp { rounding } | Unary::Tanh { rounding } => {
            is_float(elem) && (rounding == Rounding::Full || rounding == Rounding::Approx && is_f32(elem))
        }
        Unary::Rsqrt { ftz } | Unary::Exp2 { ftz } => is_float(elem) && supports_ftz(ftz, elem),
        _ => is_float(elem),
    }
}

/// Returns whether a binary operation supports an element type.
pub(super) fn supports_binary(kind: Binary, elem: Elem) -> bool {
    match kind {
        Binary::AddF { rounding, ftz } | Binary::SubF { rounding, ftz } | Binary::MulF { rounding, ftz } => {
            is_float(elem) && is_ieee_rounding(rounding) && supports_ftz(ftz, elem)
        }
        Binary::DivF { rounding, ftz } => {
            let fast_f32_division = matches!(rounding, Rounding::Approx | Rounding::Full) && is_f32(elem);
            is_float(elem) && supports_ftz(ftz, elem) && (is_ieee_rounding(rounding) || fast_f32_division)
        }
        Binary::MaxF { ftz, .. } | Binary::MinF { ftz, .. } => is_float(elem) && supports_ftz(ftz, elem),
        Binary::RemF | Binary::PowF | Binary::PowI | Binary::Atan2 => is_float(elem),
        Binary::DivI { rounding, .. } => {
            is_int(elem) && matches!(rounding, Rounding::Zero | Rounding::NegativeInf | Rounding::PositiveInf)
        }
        _ => is_int(elem),
    }
}

/// Returns whether a conversion supports these element types.
pub(super) fn supports_convert(kind: Convert, from: Scalar, to: Scalar) -> bool {
    match kind {
        Convert::ExtI { .. } => from.is_int() && to.is_int() && from.bits() < to.bits(),
        Convert::TruncI { .. } => from.is_int() && to.is_int() && from.bits() > to.bits(),
        Convert::FToF { .. } => from.is_float() && to.is_float() && from != to,
        Convert::FToI { .. } => from.is_float() && to.is_int(),
        Convert::IToF { .. } => from.is_int() && to.is_float(),
        Convert::Bitcast => from.bits() == to.bits(),
    }
}
