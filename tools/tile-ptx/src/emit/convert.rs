//! Emits conversions between element types. One packed instruction converts two registers if the target has such an instruction.
//!
//! Values of float formats that LLVM lacks are integers in LLVM IR. A conversion from such a format starts with an exact conversion
//! to f16 (f32 for `f8e8m0fnu` and `f8e5m3fnu`). A conversion to such a format starts from f32. [`super::small_float`] has the
//! instructions and, for targets without them, the bit arithmetic.

use super::Emitter;
use super::arith::rounding_suffix;
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::tile::Elem;
use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue};
use numerics::Scalar;
use numerics::arith::{Convert, Rounding, Signedness, ToBool};
use target_info::Feature;

/// The float type of LLVM that represents every value of `from` exactly; `None` for integers.
fn exact_float_type(from: Scalar) -> Option<Scalar> {
    match from {
        Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64 => Some(from),
        Scalar::TF32 | Scalar::F8E8M0FNU | Scalar::F8E5M3FNU => Some(Scalar::F32),
        Scalar::F8E4M3FN | Scalar::F8E5M2 | Scalar::F4E2M1FN => Some(Scalar::F16),
        Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => None,
    }
}

/// Whether this module can convert from and to a type.
pub(super) fn is_convertible(scalar: Scalar) -> bool {
    scalar.is_int() || exact_float_type(scalar).is_some()
}

impl<'c> Emitter<'c, '_> {
    /// Emits a conversion of a tile, two registers at a time.
    pub(super) fn emit_convert(&mut self, op: OpId, kind: Convert, x: Value, result: Value) -> Result<()> {
        let (from, to) = (self.elem(x).carrier(), self.elem(result).carrier());
        if !is_convertible(from) || !is_convertible(to) {
            return Err(self.unsupported(op));
        }
        let mut registers = Vec::with_capacity(self.registers_of(x).len());
        for pair in self.registers_of(x).chunks(2) {
            registers.extend(self.convert_pair(kind, from, to, pair)?);
        }
        self.set_registers(result, registers);
        Ok(())
    }

    /// Emits the conversion of the one or two registers in `pair`. Two registers are neighbours, so that packed instructions apply.
    fn convert_pair(&self, kind: Convert, from: Scalar, to: Scalar, pair: &[Val<'c>]) -> Result<Vec<Val<'c>>> {
        let each = |f: &dyn Fn(Val<'c>) -> Result<Val<'c>>| pair.iter().map(|x| f(*x)).collect::<Result<Vec<Val<'c>>>>();
        match kind {
            Convert::ExtI { signedness } => each(&|x| Ok(self.resize(x, to, signedness).into())),
            Convert::TruncI { .. } => each(&|x| Ok(self.resize(x, to, Signedness::Unsigned).into())),
            Convert::Bitcast => each(&|x| Ok(self.ir.bitcast(x, self.ir.scalar_type(to)))),
            Convert::FToF { rounding } => {
                let (exact_type, values) = self.widen_exactly(from, pair);
                self.round_floats(exact_type, to, rounding, &values)
            }
            Convert::IToF { signedness, rounding } if matches!(to, Scalar::F32 | Scalar::F64) => {
                each(&|x| Ok(self.int_to_float(x.into_int_value(), from, to, signedness, rounding).into()))
            }
            Convert::IToF { signedness, rounding } => {
                // The value is rounded twice: to f32, then to the type. To get the result of one rounding, the first one sets a
                // sticky last bit, or rounds in the requested direction.
                let first_rounding = if rounding == Rounding::NearestEven { None } else { Some(rounding) };
                let wide = each(&|x| {
                    let x = x.into_int_value();
                    Ok(match first_rounding {
                        None => self.int_to_f32_with_sticky_bit(x, from, signedness).into(),
                        Some(rounding) => self.int_to_float(x, from, Scalar::F32, signedness, rounding).into(),
                    })
                })?;
                self.round_floats(Scalar::F32, to, rounding, &wide)
            }
            Convert::FToI { .. } if to == Scalar::I1 => each(&|x| Ok(self.float_to_bool(x, from).into())),
            Convert::FToI { signedness, saturating } => {
                let (exact_type, values) = self.widen_exactly(from, pair);
                values.iter().map(|x| Ok(self.float_to_int(*x, exact_type, to, signedness, saturating).into())).collect()
            }
        }
    }

    /// Extends or truncates an integer.
    fn resize(&self, x: Val<'c>, to: Scalar, signedness: Signedness) -> IntValue<'c> {
        self.ir.resize(x.into_int_value(), self.ir.scalar_type(to).into_int_type(), signedness == Signedness::Signed)
    }

    /// Converts values exactly to f16, bf16, f32 or f64, and returns this type too. The source type must be a float type for which
    /// [`is_convertible`] is true.
    pub(super) fn widen_exactly(&self, from: Scalar, pair: &[Val<'c>]) -> (Scalar, Vec<Val<'c>>) {
        let exact_type = exact_float_type(from).expect("the type is convertible");
        let values = match (from, exact_type) {
            (Scalar::F8E8M0FNU, _) => pair.iter().map(|x| self.widen_exponent(x.into_int_value()).into()).collect(),
            (Scalar::F8E5M3FNU, _) => pair.iter().map(|x| self.widen_unsigned_float(from, x.into_int_value()).into()).collect(),
            (small, Scalar::F16) if small != Scalar::F16 => self.widen_small(small, pair),
            _ => pair.to_vec(),
        };
        (exact_type, values)
    }

    /// Rounds the values that [`Self::widen_exactly`] returned to the type `to`.
    pub(super) fn round_floats(&self, from: Scalar, to: Scalar, rounding: Rounding, pair: &[Val<'c>]) -> Result<Vec<Val<'c>>> {
        let rounds_to_nearest = !matches!(
            rounding,
            Rounding::Zero | Rounding::NegativeInf | Rounding::PositiveInf | Rounding::NearestAway | Rounding::NearestIntToZero
        );
        let each = |f: &dyn Fn(FloatValue<'c>) -> Val<'c>| Ok(pair.iter().map(|x| f(x.into_float_value())).collect());
        match to {
            _ if from == to => Ok(pair.to_vec()),
            Scalar::F64 => each(&|x| self.cast(x, to).into()),
            Scalar::F32 if from == Scalar::F64 && !rounds_to_nearest => each(&|x| self.emit_cvt("f32.f64", to, rounding, x.into())),
            Scalar::F32 if from == Scalar::BF16 => match self.word_of_bf16_pair(pair) {
                Some(word) => Ok(self.widen_bf16_pair(word)),
                None => each(&|x| self.cast(x, to).into()),
            },
            Scalar::F32 => each(&|x| self.cast(x, to).into()),
            Scalar::F16 | Scalar::BF16 if rounds_to_nearest => match (from, pair) {
                (Scalar::F64, _) => each(&|x| self.cast(x, to).into()),
                (_, [low, high]) => Ok(self.narrow_to_half_pair(to, self.to_f32(*low), self.to_f32(*high))),
                _ => each(&|x| self.cast(self.to_f32(x.into()), to).into()),
            },
            Scalar::F16 if from == Scalar::F64 => each(&|x| self.emit_cvt("f16.f64", to, rounding, x.into())),
            Scalar::F16 => each(&|x| self.emit_cvt("f16.f32", to, rounding, self.to_f32(x.into()).into())),
            Scalar::BF16 => each(&|x| {
                let bits = self.round_bits(self.to_roundable_f32(x, from, Some(rounding)), 16, rounding);
                let high = self.ir.shr(bits, self.ir.const32(16), false);
                self.ir.bitcast(self.ir.resize(high, self.ir.int_type(16), false), self.ir.scalar_type(to))
            }),
            Scalar::TF32 => each(&|x| {
                let first_rounding = if rounds_to_nearest { None } else { Some(rounding) };
                self.to_tf32(self.to_roundable_f32(x, from, first_rounding), rounding)
            }),
            Scalar::F8E8M0FNU => each(&|x| self.round_to_exponent(self.to_roundable_f32(x, from, None), rounding).into()),
            Scalar::F8E4M3FN | Scalar::F8E5M2 | Scalar::F4E2M1FN if rounds_to_nearest => Ok(self.round_to_small(from, to, pair)),
            _ => Err(self.unsupported_type(&format!("f_to_f.{}", rounding_suffix(rounding)), Elem::Scalar(to))),
        }
    }

    /// Returns the 32-bit word whose halves are the two bf16 values. `None` if the values are no halves of one word, or if the
    /// target has packed f32 arithmetic. Reason: on such a target, the code of [`Self::widen_bf16_pair`] needs more registers.
    fn word_of_bf16_pair(&self, pair: &[Val<'c>]) -> Option<IntValue<'c>> {
        self.ir.word_of(pair).filter(|_| !self.target.has(Feature::PackedF32))
    }

    /// Widens the two bf16 values of a word to f32. A bf16 value is the upper half of the equal f32 value, so a shift and a mask
    /// suffice. Reason: for LLVM's conversion, ptxas would first extract each half into a register.
    fn widen_bf16_pair(&self, word: IntValue<'c>) -> Vec<Val<'c>> {
        let ir = self.ir;
        let f32_bits = [ir.shl(word, ir.const32(16)), ir.and(word, ir.const32(0xffff_0000))];
        f32_bits.map(|half| ir.bitcast(half, ir.f32())).to_vec()
    }

    /// Emits LLVM's conversion between float types of different widths, which rounds to nearest even.
    pub(super) fn cast(&self, x: FloatValue<'c>, to: Scalar) -> FloatValue<'c> {
        self.ir.builder.build_float_cast(x, self.ir.scalar_type(to).into_float_type(), "").expect("float formats convert")
    }

    /// Converts an f16, bf16 or f32 value to f32, exactly.
    pub(super) fn to_f32(&self, x: Val<'c>) -> FloatValue<'c> {
        if x.get_type() == self.ir.f32().into() { x.into_float_value() } else { self.cast(x.into_float_value(), Scalar::F32) }
    }

    /// Converts a float to an f32 value that may be rounded a second time: it is exact, has a sticky last bit, or is rounded with
    /// `first_rounding`.
    pub(super) fn to_roundable_f32(&self, x: FloatValue<'c>, from: Scalar, first_rounding: Option<Rounding>) -> FloatValue<'c> {
        match (from, first_rounding) {
            (Scalar::F64, Some(rounding)) if rounding != Rounding::NearestAway => {
                self.emit_cvt("f32.f64", Scalar::F32, rounding, x.into()).into_float_value()
            }
            (Scalar::F64, _) => {
                let truncated = self.emit_cvt("f32.f64", Scalar::F32, Rounding::Zero, x.into()).into_float_value();
                self.set_sticky_bit(truncated, self.ir.fcmp(inkwell::FloatPredicate::UNE, self.cast(truncated, Scalar::F64), x))
            }
            _ => self.to_f32(x.into()),
        }
    }

    /// Sets the last bit of a value that was truncated to f32, if the truncation was inexact. Reason: a second rounding then gives
    /// the result of one rounding of the original value.
    fn set_sticky_bit(&self, truncated: FloatValue<'c>, is_inexact: IntValue<'c>) -> FloatValue<'c> {
        let ir = self.ir;
        let bits = ir.or(ir.bitcast(truncated, ir.i32()).into_int_value(), ir.resize(is_inexact, ir.i32(), false));
        ir.bitcast(bits, ir.f32()).into_float_value()
    }

    /// Rounds two f32 values to a vector of f16 or bf16, and returns its elements.
    fn narrow_to_half_pair(&self, to: Scalar, low: FloatValue<'c>, high: FloatValue<'c>) -> Vec<Val<'c>> {
        let name = if to == Scalar::F16 { "llvm.nvvm.ff2f16x2.rn" } else { "llvm.nvvm.ff2bf16x2.rn" };
        let packed = self.ir.intrinsic_value(name, &[], &[high.into(), low.into()]);
        self.ir.unpack(packed, 2)
    }

    /// Emits `cvt.ROUNDING.TYPES`, where `types` is `TO.FROM`, such as `f32.f64`.
    fn emit_cvt(&self, types: &str, to: Scalar, rounding: Rounding, x: Val<'c>) -> Val<'c> {
        let text = format!("cvt.{}.{types} $0, $1;", rounding_suffix(rounding));
        let constraint = |scalar: Scalar| match scalar.bits() {
            64 if scalar.is_float() => "d",
            32 if scalar.is_float() => "f",
            16 => "h",
            64 => "l",
            _ => "r",
        };
        let source_constraint = match x {
            Val::IntValue(x) => constraint(if x.get_type().get_bit_width() == 64 { Scalar::I64 } else { Scalar::I32 }),
            Val::FloatValue(x) if x.get_type() == self.ir.context.f64_type() => "d",
            _ => "f",
        };
        let constraints = format!("={},{source_constraint}", constraint(to));
        self.ir.asm(Some(self.ir.scalar_type(to)), &text, &constraints, &[x], false).expect("conversions have a result")
    }

    /// Rounds an f32 value to fewer mantissa bits, for formats with the exponent of f32. The lowest `dropped_bits` bits become
    /// zero.
    fn round_bits(&self, x: FloatValue<'c>, dropped_bits: u32, rounding: Rounding) -> IntValue<'c> {
        let ir = self.ir;
        let bits = ir.bitcast(x, ir.i32()).into_int_value();
        let dropped_bits_mask = ir.const32((1 << dropped_bits) - 1);
        let is_negative = || ir.icmp(IntPredicate::SLT, bits, ir.const32(0));
        let mask_if = |cond: IntValue<'c>| ir.select(cond, dropped_bits_mask.into(), ir.const32(0).into()).into_int_value();
        let step = match rounding {
            Rounding::Zero | Rounding::NearestIntToZero => ir.const32(0),
            Rounding::NegativeInf => mask_if(is_negative()),
            Rounding::PositiveInf => mask_if(ir.not(is_negative())),
            Rounding::NearestAway => ir.const32(1 << (dropped_bits - 1)),
            _ => {
                let last_kept_bit = ir.and(ir.shr(bits, ir.const32(dropped_bits), false), ir.const32(1));
                ir.add(last_kept_bit, ir.const32((1 << (dropped_bits - 1)) - 1))
            }
        };
        let rounded = ir.and(ir.add(bits, step), ir.const32(!((1u32 << dropped_bits) - 1)));
        let is_nan = ir.fcmp(inkwell::FloatPredicate::UNO, x, x);
        ir.select(is_nan, ir.const32(0x7fff_ffff).into(), rounded.into()).into_int_value()
    }

    /// Emits a conversion from f32 to TF32.
    fn to_tf32(&self, x: FloatValue<'c>, rounding: Rounding) -> Val<'c> {
        let ir = self.ir;
        let mode = match rounding {
            Rounding::NearestAway => "rna",
            Rounding::NearestEven | Rounding::Approx | Rounding::Full if self.target.has(Feature::ConvertTf32) => "rn",
            Rounding::Zero if self.target.has(Feature::ConvertTf32) => "rz",
            _ => return ir.bitcast(self.round_bits(x, 13, rounding), ir.f32()),
        };
        let text = format!("cvt.{mode}.tf32.f32 $0, $1;");
        let bits = ir.asm(Some(ir.i32().into()), &text, "=r,f", &[x.into()], false).expect("conversions have a result");
        ir.bitcast(bits, ir.f32())
    }

    /// Emits a conversion from an integer to a float.
    fn int_to_float(
        &self,
        x: IntValue<'c>,
        from: Scalar,
        to: Scalar,
        signedness: Signedness,
        rounding: Rounding,
    ) -> FloatValue<'c> {
        let ir = self.ir;
        let is_signed = signedness == Signedness::Signed;
        let ty = ir.scalar_type(to).into_float_type();
        let is_exact = from.bits() < if to == Scalar::F64 { 53 } else { 24 };
        if is_exact || matches!(rounding, Rounding::NearestEven | Rounding::Approx | Rounding::Full) {
            let build = if is_signed {
                inkwell::builder::Builder::build_signed_int_to_float
            } else {
                inkwell::builder::Builder::build_unsigned_int_to_float
            };
            return build(&ir.builder, x, ty, "").expect("integers convert");
        }
        let type_name = |scalar: Scalar, letter: char| format!("{letter}{}", scalar.bits());
        let types = format!("{}.{}", type_name(to, 'f'), type_name(from, if is_signed { 's' } else { 'u' }));
        self.emit_cvt(&types, to, rounding, x.into()).into_float_value()
    }

    /// Converts an integer to f32: exactly, or truncated with a sticky last bit.
    fn int_to_f32_with_sticky_bit(&self, x: IntValue<'c>, from: Scalar, signedness: Signedness) -> FloatValue<'c> {
        let truncated = self.int_to_float(x, from, Scalar::F32, signedness, Rounding::Zero);
        if from.bits() < 24 {
            return truncated;
        }
        let round_trip = self.float_to_int(truncated.into(), Scalar::F32, from, signedness, false);
        self.set_sticky_bit(truncated, self.ir.icmp(IntPredicate::NE, round_trip, x))
    }

    /// Emits a conversion of a float to i1: whether the number is not zero.
    fn float_to_bool(&self, x: Val<'c>, from: Scalar) -> IntValue<'c> {
        let ir = self.ir;
        match ToBool::for_type(from) {
            ToBool::Number => {
                let x = x.into_float_value();
                ir.fcmp(inkwell::FloatPredicate::UNE, x, x.get_type().const_zero())
            }
            ToBool::Bits => {
                let bits = ir.bitcast(x, ir.int_type(from.bits())).into_int_value();
                ir.icmp(IntPredicate::NE, bits, bits.get_type().const_zero())
            }
        }
    }

    /// Converts a float to an integer. Values out of range are clamped; NaN gives 0. For types of at most eight bits, the
    /// conversion clamps to 16 bits; its result is then truncated, or clamped if `saturating` is set.
    fn float_to_int(&self, x: Val<'c>, from: Scalar, to: Scalar, signedness: Signedness, saturating: bool) -> IntValue<'c> {
        let ir = self.ir;
        let is_signed = signedness == Signedness::Signed;
        let x: Val<'c> = if from == Scalar::F64 { x } else { self.to_f32(x).into() };
        let (source_type, source_constraint) = if from == Scalar::F64 { ("f64", "d") } else { ("f32", "f") };
        let (result_bits, result_constraint) = match to.bits() {
            64 => (64, "l"),
            32 => (32, "r"),
            _ => (16, "h"),
        };
        let text = format!("cvt.rzi.{}{result_bits}.{source_type} $0, $1;", if is_signed { 's' } else { 'u' });
        let wide =
            ir.asm(Some(ir.int_type(result_bits).into()), &text, &format!("={result_constraint},{source_constraint}"), &[x], false);
        let mut wide = wide.expect("conversions have a result").into_int_value();
        let ty = wide.get_type();
        if result_bits == 64 || from == Scalar::F64 {
            // The conversion instructions from f64, and those to 64 bits, do not give 0 for NaN.
            let float = x.into_float_value();
            let is_nan = ir.fcmp(inkwell::FloatPredicate::UNO, float, float);
            wide = ir.select(is_nan, ty.const_zero().into(), wide.into()).into_int_value();
        }
        if saturating && to.bits() < 16 {
            let clamp = |name: &str, wide: IntValue<'c>, limit: u64| {
                ir.intrinsic_value(name, &[ty.into()], &[wide.into(), ty.const_int(limit, true).into()]).into_int_value()
            };
            wide = if is_signed {
                clamp("llvm.smax", clamp("llvm.smin", wide, to.mask() >> 1), !(to.mask() >> 1))
            } else {
                clamp("llvm.umin", wide, to.mask())
            };
        }
        ir.resize(wide, ir.scalar_type(to).into_int_type(), false)
    }
}
