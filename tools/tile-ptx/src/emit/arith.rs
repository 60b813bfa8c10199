//! Element-wise integer and basic float arithmetic. Transcendental functions are in [`super::math`].

use super::Emitter;
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use core_dialect::tile::Elem;
use inkwell::values::{FloatValue, IntValue};
use inkwell::{FloatPredicate, IntPredicate};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Fma, Predicate, Rounding, Signedness, Unary};

impl<'c> Emitter<'c, '_> {
    /// Applies `f` to each register of the operands, and sets the registers of the result.
    fn map_registers<const N: usize>(
        &mut self,
        operands: [Value; N],
        result: Value,
        f: impl Fn(&Self, [Val<'c>; N]) -> Result<Val<'c>>,
    ) -> Result<()> {
        let register_count = self.layout(result).registers();
        let mut registers = Vec::with_capacity(register_count);
        for i in 0..register_count {
            registers.push(f(self, operands.map(|operand| self.registers_of(operand)[i]))?);
        }
        self.set_registers(result, registers);
        Ok(())
    }

    /// Emits a unary op, register by register.
    pub(super) fn emit_unary(&mut self, kind: Unary, x: Value, result: Value) -> Result<()> {
        let elem = self.elem(result);
        self.map_registers([x], result, |e, [x]| match kind {
            Unary::AbsI => Ok(e.ir.intrinsic_value("llvm.abs", &[x.get_type()], &[x, e.ir.i1().const_zero().into()])),
            Unary::NegI { .. } => {
                let x = x.into_int_value();
                Ok(e.ir.sub(x.get_type().const_zero(), x).into())
            }
            Unary::NegF => Ok(e.ir.builder.build_float_neg(x.into_float_value(), "").expect("floats negate").into()),
            Unary::AbsF => Ok(e.ir.intrinsic_value("llvm.fabs", &[x.get_type()], &[x])),
            _ => e.emit_math(kind, elem, x),
        })
    }

    /// Emits a binary op, register by register.
    pub(super) fn emit_binary(&mut self, kind: Binary, lhs: Value, rhs: Value, result: Value) -> Result<()> {
        let elem = self.elem(result);
        self.map_registers([lhs, rhs], result, |e, [a, b]| e.binary_on_registers(kind, elem, a, b))
    }

    /// Emits a binary op on two registers.
    fn binary_on_registers(&self, kind: Binary, elem: Elem, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>> {
        let ir = self.ir;
        if let Binary::PowI = kind {
            return self.emit_binary_math(kind, elem, a, b);
        }
        if a.is_float_value() {
            return self.binary_float(kind, elem, a.into_float_value(), b.into_float_value());
        }
        let (x, y) = (a.into_int_value(), b.into_int_value());
        let int_min_or_max = |signedness: Signedness, signed_name: &str, unsigned_name: &str| {
            let name = if signedness == Signedness::Signed { signed_name } else { unsigned_name };
            Ok(ir.intrinsic_value(name, &[a.get_type()], &[a, b]))
        };
        Ok(match kind {
            Binary::AddI { overflow } => ir.set_wrap_flags(ir.add(x, y), overflow).into(),
            Binary::SubI { overflow } => ir.set_wrap_flags(ir.sub(x, y), overflow).into(),
            Binary::MulI { overflow } => ir.set_wrap_flags(ir.mul(x, y), overflow).into(),
            Binary::MulHiU => self.high_half_of_product(x, y).into(),
            Binary::DivI { signedness, rounding } => self.divide_int(x, y, signedness, rounding).into(),
            Binary::RemI { signedness } => ir.rem(x, y, signedness == Signedness::Signed).into(),
            Binary::MaxI { signedness } => return int_min_or_max(signedness, "llvm.smax", "llvm.umax"),
            Binary::MinI { signedness } => return int_min_or_max(signedness, "llvm.smin", "llvm.umin"),
            Binary::And => ir.and(x, y).into(),
            Binary::Or => ir.or(x, y).into(),
            Binary::Xor => ir.xor(x, y).into(),
            Binary::ShL { .. } => self.shift_int(x, y, None).into(),
            Binary::ShR { signedness } => self.shift_int(x, y, Some(signedness)).into(),
            _ => return Err(self.unsupported_type("float arithmetic", elem)),
        })
    }

    /// The upper half of the unsigned double-width product.
    fn high_half_of_product(&self, x: IntValue<'c>, y: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let bits = x.get_type().get_bit_width();
        let wide = ir.context.custom_width_int_type(std::num::NonZeroU32::new(bits * 2).expect("not zero")).expect("a small width");
        let product = ir.mul(ir.resize(x, wide, false), ir.resize(y, wide, false));
        let high = ir.shr(product, wide.const_int(u64::from(bits), false), false);
        ir.resize(high, x.get_type(), false)
    }

    /// Divides integers, and rounds the quotient toward zero, down or up.
    fn divide_int(&self, x: IntValue<'c>, y: IntValue<'c>, signedness: Signedness, rounding: Rounding) -> IntValue<'c> {
        let ir = self.ir;
        let is_signed = signedness == Signedness::Signed;
        let quotient = ir.div(x, y, is_signed);
        let round_up = match rounding {
            Rounding::NegativeInf => false,
            Rounding::PositiveInf => true,
            _ => return quotient,
        };
        let ty = x.get_type();
        let zero = ty.const_zero();
        let is_inexact = ir.icmp(IntPredicate::NE, ir.mul(quotient, y), x);
        let is_negative = if is_signed { ir.icmp(IntPredicate::SLT, ir.xor(x, y), zero) } else { ir.i1().const_zero() };
        let needs_step = ir.and(is_inexact, if round_up { ir.not(is_negative) } else { is_negative });
        let step = ir.resize(needs_step, ty, false);
        if round_up { ir.add(quotient, step) } else { ir.sub(quotient, step) }
    }

    /// Emits a shift to the left if `right_shift` is `None`, or a right shift of this signedness. A shift by the bit width or more
    /// gives 0, except that a signed right shift fills all bits with the sign.
    fn shift_int(&self, x: IntValue<'c>, count: IntValue<'c>, right_shift: Option<Signedness>) -> IntValue<'c> {
        let ir = self.ir;
        let ty = x.get_type();
        let bit_width = u64::from(ty.get_bit_width());
        let max_count = ty.const_int(bit_width - 1, false);
        let is_too_large = ir.icmp(IntPredicate::UGT, count, max_count);
        let clamped_count = ir.select(is_too_large, max_count.into(), count.into()).into_int_value();
        if right_shift == Some(Signedness::Signed) {
            return ir.shr(x, clamped_count, true);
        }
        // The back end fuses the shift and the select into one instruction with a 32-bit count, which would lose the upper bits of
        // a 64-bit count.
        let count = if bit_width > 32 { clamped_count } else { count };
        let shifted = if right_shift.is_some() { ir.shr(x, count, false) } else { ir.shl(x, count) };
        ir.select(is_too_large, ty.const_zero().into(), shifted.into()).into_int_value()
    }

    /// Emits a float op on two registers.
    fn binary_float(&self, kind: Binary, elem: Elem, a: FloatValue<'c>, b: FloatValue<'c>) -> Result<Val<'c>> {
        let ir = self.ir;
        let expect_float = |result: std::result::Result<FloatValue<'c>, _>| -> Val<'c> {
            let value: std::result::Result<FloatValue<'c>, inkwell::builder::BuilderError> = result;
            value.expect("float arithmetic fits").into()
        };
        let is_default = |rounding: Rounding, ftz: bool| rounding == Rounding::NearestEven && !ftz;
        match kind {
            Binary::AddF { rounding, ftz } if is_default(rounding, ftz) => Ok(expect_float(ir.builder.build_float_add(a, b, ""))),
            Binary::SubF { rounding, ftz } if is_default(rounding, ftz) => Ok(expect_float(ir.builder.build_float_sub(a, b, ""))),
            Binary::MulF { rounding, ftz } if is_default(rounding, ftz) => Ok(expect_float(ir.builder.build_float_mul(a, b, ""))),
            Binary::AddF { rounding, ftz } => self.arith_with_rounding("add", elem, rounding, ftz, &[a.into(), b.into()]),
            Binary::SubF { rounding, ftz } => {
                let negated = ir.builder.build_float_neg(b, "").expect("floats negate");
                self.arith_with_rounding("add", elem, rounding, ftz, &[a.into(), negated.into()])
            }
            Binary::MulF { rounding, ftz } => self.arith_with_rounding("mul", elem, rounding, ftz, &[a.into(), b.into()]),
            Binary::DivF { rounding, ftz } => self.divide_float(elem, rounding, ftz, a, b),
            Binary::MaxF { propagate_nan, ftz } => self.min_or_max("max", propagate_nan, ftz, a, b),
            Binary::MinF { propagate_nan, ftz } => self.min_or_max("min", propagate_nan, ftz, a, b),
            _ => self.emit_binary_math(kind, elem, a.into(), b.into()),
        }
    }

    /// Emits an arithmetic instruction with a rounding mode in its name, such as `add.rz.f32`. For f16 and bf16, it computes in f32
    /// and rounds the result again. Two roundings in the same direction equal one rounding.
    pub(super) fn arith_with_rounding(
        &self,
        name: &str,
        elem: Elem,
        rounding: Rounding,
        ftz: bool,
        args: &[Val<'c>],
    ) -> Result<Val<'c>> {
        if let half @ (Scalar::F16 | Scalar::BF16) = elem.carrier() {
            let wide: Vec<Val<'c>> = args.iter().map(|arg| self.widen_half(*arg)).collect();
            let result = self.arith_with_rounding(name, Elem::Scalar(Scalar::F32), rounding, false, &wide)?;
            return Ok(self.round_floats(Scalar::F32, half, rounding, &[result])?[0]);
        }
        let (mode, suffix) = (rounding_suffix(rounding), if ftz { ".ftz" } else { "" });
        let (ty, constraint) = match elem {
            Elem::Scalar(Scalar::F32) => ("f32", "f"),
            Elem::Scalar(Scalar::F64) => ("f64", "d"),
            _ => return Err(self.unsupported_type(&format!("{name}.{mode}"), elem)),
        };
        let operand_names: Vec<String> = (1..=args.len()).map(|i| format!("${i}")).collect();
        let text = format!("{name}.{mode}{suffix}.{ty} $0, {};", operand_names.join(", "));
        let constraints = format!("={constraint}{}", format!(",{constraint}").repeat(args.len()));
        Ok(self.ir.asm(Some(self.ir.elem_type(elem)), &text, &constraints, args, false).expect("the instruction has a result"))
    }

    /// Emits a float division with a rounding mode.
    fn divide_float(&self, elem: Elem, rounding: Rounding, ftz: bool, a: FloatValue<'c>, b: FloatValue<'c>) -> Result<Val<'c>> {
        let scalar = elem.carrier();
        let rounds_to_nearest = matches!(rounding, Rounding::NearestEven | Rounding::Approx | Rounding::Full);
        if rounds_to_nearest && matches!(scalar, Scalar::F16 | Scalar::BF16) {
            // A division in f32 with a second rounding gives the same result, because f32 has more than twice as many mantissa bits
            // as f16 and bf16.
            let f32 = Elem::Scalar(Scalar::F32);
            let widen = |value: FloatValue<'c>| self.ir.builder.build_float_ext(value, self.ir.f32(), "").expect("halves widen");
            let quotient = self.divide_float(f32, Rounding::NearestEven, false, widen(a), widen(b))?;
            let half_type = self.ir.elem_type(elem).into_float_type();
            return Ok(self
                .ir
                .builder
                .build_float_trunc(quotient.into_float_value(), half_type, "")
                .expect("floats narrow")
                .into());
        }
        let args = [a.into(), b.into()];
        match rounding {
            Rounding::NearestEven if !ftz => Ok(self.ir.builder.build_float_div(a, b, "").expect("floats divide").into()),
            Rounding::Approx | Rounding::Full if scalar == Scalar::F32 => {
                let name = if rounding == Rounding::Approx { "approx" } else { "full" };
                let text = format!("div.{name}{}.f32 $0, $1, $2;", if ftz { ".ftz" } else { "" });
                Ok(self.ir.asm(Some(self.ir.f32().into()), &text, "=f,f,f", &args, false).expect("division has a result"))
            }
            _ => self.arith_with_rounding("div", elem, rounding, ftz, &args),
        }
    }

    /// Emits a float minimum or maximum (`name` is `min` or `max`).
    fn min_or_max(&self, name: &str, propagate_nan: bool, ftz: bool, a: FloatValue<'c>, b: FloatValue<'c>) -> Result<Val<'c>> {
        if ftz {
            let text = format!("{name}.ftz{}.f32 $0, $1, $2;", if propagate_nan { ".NaN" } else { "" });
            let args = [a.into(), b.into()];
            return Ok(self.ir.asm(Some(self.ir.f32().into()), &text, "=f,f,f", &args, false).expect("it has a result"));
        }
        let intrinsic = format!("llvm.{name}{}", if propagate_nan { "imum" } else { "num" });
        Ok(self.ir.intrinsic_value(&intrinsic, &[a.get_type().into()], &[a.into(), b.into()]))
    }

    /// Emits a fused multiply-add, register by register.
    pub(super) fn emit_fma(&mut self, kind: Fma, operands: [Value; 3], result: Value) -> Result<()> {
        let elem = self.elem(result);
        self.map_registers(operands, result, |e, args| {
            if kind.rounding == Rounding::NearestEven && !kind.ftz {
                return Ok(e.ir.intrinsic_value("llvm.fma", &[args[0].get_type()], &args));
            }
            e.arith_with_rounding("fma", elem, kind.rounding, kind.ftz, &args)
        })
    }

    /// Emits a comparison, register by register.
    pub(super) fn emit_compare(&mut self, kind: Compare, lhs: Value, rhs: Value, result: Value) {
        let compared = self.map_registers([lhs, rhs], result, |e, [a, b]| {
            Ok(match kind {
                Compare::Float { predicate, ordered } => {
                    let predicate = float_predicate(predicate, ordered);
                    e.ir.fcmp(predicate, a.into_float_value(), b.into_float_value()).into()
                }
                Compare::Int { predicate, signedness } => {
                    let is_signed = signedness == Signedness::Signed;
                    let predicate = int_predicate(predicate, is_signed);
                    e.ir.icmp(predicate, a.into_int_value(), b.into_int_value()).into()
                }
            })
        });
        compared.expect("comparisons exist for every type");
    }

    /// Emits an element-wise `select`, register by register.
    pub(super) fn emit_select(&mut self, cond: Value, yes: Value, no: Value, result: Value) {
        let selected =
            self.map_registers([cond, yes, no], result, |e, [cond, yes, no]| Ok(e.ir.select(cond.into_int_value(), yes, no)));
        selected.expect("selection exists for every type");
    }
}

/// Returns the PTX modifier of a rounding mode, without the dot.
pub(super) fn rounding_suffix(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::Zero | Rounding::NearestIntToZero => "rz",
        Rounding::NegativeInf => "rm",
        Rounding::PositiveInf => "rp",
        Rounding::NearestAway => "rna",
        Rounding::NearestEven | Rounding::Approx | Rounding::Full => "rn",
    }
}

/// Converts a comparison predicate to that of LLVM's `fcmp`.
fn float_predicate(predicate: Predicate, ordered: bool) -> FloatPredicate {
    match (predicate, ordered) {
        (Predicate::Equal, true) => FloatPredicate::OEQ,
        (Predicate::Equal, false) => FloatPredicate::UEQ,
        (Predicate::NotEqual, true) => FloatPredicate::ONE,
        (Predicate::NotEqual, false) => FloatPredicate::UNE,
        (Predicate::LessThan, true) => FloatPredicate::OLT,
        (Predicate::LessThan, false) => FloatPredicate::ULT,
        (Predicate::LessThanOrEqual, true) => FloatPredicate::OLE,
        (Predicate::LessThanOrEqual, false) => FloatPredicate::ULE,
        (Predicate::GreaterThan, true) => FloatPredicate::OGT,
        (Predicate::GreaterThan, false) => FloatPredicate::UGT,
        (Predicate::GreaterThanOrEqual, true) => FloatPredicate::OGE,
        (Predicate::GreaterThanOrEqual, false) => FloatPredicate::UGE,
    }
}

/// Converts a comparison predicate to that of LLVM's `icmp`.
fn int_predicate(predicate: Predicate, signed: bool) -> IntPredicate {
    match (predicate, signed) {
        (Predicate::Equal, _) => IntPredicate::EQ,
        (Predicate::NotEqual, _) => IntPredicate::NE,
        (Predicate::LessThan, true) => IntPredicate::SLT,
        (Predicate::LessThan, false) => IntPredicate::ULT,
        (Predicate::LessThanOrEqual, true) => IntPredicate::SLE,
        (Predicate::LessThanOrEqual, false) => IntPredicate::ULE,
        (Predicate::GreaterThan, true) => IntPredicate::SGT,
        (Predicate::GreaterThan, false) => IntPredicate::UGT,
        (Predicate::GreaterThanOrEqual, true) => IntPredicate::SGE,
        (Predicate::GreaterThanOrEqual, false) => IntPredicate::UGE,
    }
}
