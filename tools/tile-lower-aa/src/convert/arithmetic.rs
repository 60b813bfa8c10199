//! Converts elementwise ops.

use super::Converter;
use super::wrong_group;
use base::Value;
use core_dialect::core_ops::Core;
use numerics::arith::{Binary, Compare, Convert, Fma, Unary};
use tileir::Op;
use tileir::enums::ComparisonOrdering;

impl Converter<'_> {
    /// The core op for a unary op.
    pub(super) fn unary_op(&self, op: &Op) -> Core {
        let (kind, x) = match *op {
            Op::AbsF { source } => (Unary::AbsF, source),
            Op::AbsI { source } => (Unary::AbsI, source),
            Op::NegF { source } => (Unary::NegF, source),
            Op::NegI { overflow, source } => (Unary::NegI { overflow }, source),
            Op::Ceil { source } => (Unary::Ceil, source),
            Op::Floor { source } => (Unary::Floor, source),
            Op::Sqrt { flush_to_zero: ftz, rounding_mode: rounding, source } => (Unary::Sqrt { rounding, ftz }, source),
            Op::Rsqrt { flush_to_zero: ftz, source } => (Unary::Rsqrt { ftz }, source),
            Op::Exp { rounding_mode: rounding, source } => (Unary::Exp { rounding }, source),
            Op::Exp2 { flush_to_zero: ftz, source } => (Unary::Exp2 { ftz }, source),
            Op::Log { source } => (Unary::Log, source),
            Op::Log2 { source } => (Unary::Log2, source),
            Op::Sin { source } => (Unary::Sin, source),
            Op::Cos { source } => (Unary::Cos, source),
            Op::Tan { source } => (Unary::Tan, source),
            Op::SinH { source } => (Unary::Sinh, source),
            Op::CosH { source } => (Unary::Cosh, source),
            Op::TanH { rounding_mode: rounding, source } => (Unary::Tanh { rounding }, source),
            ref op => wrong_group(op),
        };
        Core::Unary { kind, x: self.new_value(x) }
    }

    /// The core op for a binary op.
    pub(super) fn binary_op(&self, op: &Op) -> Core {
        let (kind, lhs, rhs) = match *op {
            Op::AddF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::AddF { rounding, ftz }, lhs, rhs),
            Op::SubF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::SubF { rounding, ftz }, lhs, rhs),
            Op::MulF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::MulF { rounding, ftz }, lhs, rhs),
            Op::DivF { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs } => (Binary::DivF { rounding, ftz }, lhs, rhs),
            Op::RemF { lhs, rhs } => (Binary::RemF, lhs, rhs),
            Op::MaxF { propagate_nan, flush_to_zero: ftz, lhs, rhs } => (Binary::MaxF { propagate_nan, ftz }, lhs, rhs),
            Op::MinF { propagate_nan, flush_to_zero: ftz, lhs, rhs } => (Binary::MinF { propagate_nan, ftz }, lhs, rhs),
            Op::FPowF { source, exponent } => (Binary::PowF, source, exponent),
            Op::FPowI { source, exponent } => (Binary::PowI, source, exponent),
            Op::Atan2 { x, y } => (Binary::Atan2, x, y),
            Op::AddI { overflow, lhs, rhs } => (Binary::AddI { overflow }, lhs, rhs),
            Op::SubI { overflow, lhs, rhs } => (Binary::SubI { overflow }, lhs, rhs),
            Op::MulI { overflow, lhs, rhs } => (Binary::MulI { overflow }, lhs, rhs),
            Op::MulhiI { x, y } => (Binary::MulHiU, x, y),
            Op::DivI { signedness, rounding, lhs, rhs } => (Binary::DivI { signedness, rounding }, lhs, rhs),
            Op::RemI { signedness, lhs, rhs } => (Binary::RemI { signedness }, lhs, rhs),
            Op::MaxI { signedness, lhs, rhs } => (Binary::MaxI { signedness }, lhs, rhs),
            Op::MinI { signedness, lhs, rhs } => (Binary::MinI { signedness }, lhs, rhs),
            Op::AndI { lhs, rhs } => (Binary::And, lhs, rhs),
            Op::OrI { lhs, rhs } => (Binary::Or, lhs, rhs),
            Op::XOrI { lhs, rhs } => (Binary::Xor, lhs, rhs),
            Op::ShLI { overflow, lhs, rhs } => (Binary::ShL { overflow }, lhs, rhs),
            Op::ShRI { signedness, lhs, rhs } => (Binary::ShR { signedness }, lhs, rhs),
            ref op => wrong_group(op),
        };
        Core::Binary { kind, lhs: self.new_value(lhs), rhs: self.new_value(rhs) }
    }

    /// The core op for a conversion.
    pub(super) fn conversion_op(&self, op: &Op) -> Core {
        let (kind, x) = match *op {
            Op::ExtI { signedness, from } => (Convert::ExtI { signedness }, from),
            Op::TruncI { overflow, from } => (Convert::TruncI { overflow }, from),
            Op::FToF { rounding_mode: rounding, from } => (Convert::FToF { rounding }, from),
            // The only rounding of ftoi is towards zero.
            Op::FToI { saturating, signedness, rounding_mode: _, from } => (Convert::FToI { signedness, saturating }, from),
            Op::IToF { signedness, rounding_mode: rounding, from } => (Convert::IToF { signedness, rounding }, from),
            Op::Bitcast { source } => (Convert::Bitcast, source),
            ref op => wrong_group(op),
        };
        Core::Convert { kind, x: self.new_value(x) }
    }

    /// The core op for any other elementwise op, such as a select.
    pub(super) fn other_elementwise_op(&self, op: &Op, results: &[Value]) -> Core {
        match *op {
            Op::Constant { value } => {
                Core::Constant { value: super::dense_constant(self.module, value, *self.source.body.ty(results[0])) }
            }
            Op::Fma { flush_to_zero: ftz, rounding_mode: rounding, lhs, rhs, acc } => {
                Core::Fma { kind: Fma { rounding, ftz }, a: self.new_value(lhs), b: self.new_value(rhs), c: self.new_value(acc) }
            }
            Op::CmpF { comparison_predicate: predicate, comparison_ordering, lhs, rhs } => {
                let kind = Compare::Float { predicate, ordered: comparison_ordering == ComparisonOrdering::Ordered };
                Core::Compare { kind, lhs: self.new_value(lhs), rhs: self.new_value(rhs) }
            }
            Op::CmpI { comparison_predicate: predicate, signedness, lhs, rhs } => {
                let kind = Compare::Int { predicate, signedness };
                Core::Compare { kind, lhs: self.new_value(lhs), rhs: self.new_value(rhs) }
            }
            Op::Select { cond, val_if_true, val_if_false } => {
                Core::Select { cond: self.new_value(cond), yes: self.new_value(val_if_true), no: self.new_value(val_if_false) }
            }
            Op::IntToPtr { source } => Core::IntToPtr { x: self.new_value(source) },
            Op::PtrToInt { source } => Core::PtrToInt { x: self.new_value(source) },
            Op::PtrToPtr { source } => Core::PtrCast { x: self.new_value(source) },
            Op::Offset { ptr, offset } => Core::Offset { ptr: self.new_value(ptr), offset: self.new_value(offset) },
            ref op => wrong_group(op),
        }
    }
}
