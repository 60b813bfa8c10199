//! Emits conversions of floats with eight or four bits. The emitter uses the target's instructions, which convert pairs of values.
//! For targets without these instructions, it emits integer arithmetic on the bits.

use super::Emitter;
use crate::ir::Val;
use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue};
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float;
use target_info::Feature;

impl<'c> Emitter<'c, '_> {
    /// Whether the target has instructions that convert pairs of values of this format.
    fn has_pair_conversion(&self, format: Scalar) -> bool {
        match format {
            Scalar::F4E2M1FN => self.target.has(Feature::ConvertFp4),
            _ => self.target.has(Feature::ConvertFp8),
        }
    }

    /// Converts one or two values of a small format exactly to f16.
    pub(super) fn widen_small(&self, from: Scalar, pair: &[Val<'c>]) -> Vec<Val<'c>> {
        let ir = self.ir;
        if !self.has_pair_conversion(from) {
            return pair.iter().map(|x| self.widen_small_by_arithmetic(from, x.into_int_value()).into()).collect();
        }
        let word = ir.int_type(16);
        let bits = |x: &Val<'c>| ir.resize(x.into_int_value(), word, false);
        let second_bits = pair.get(1).map_or(word.const_zero(), bits);
        let packed = ir.or(bits(&pair[0]), ir.shl(second_bits, word.const_int(u64::from(from.bits()), false)));
        ir.unpack(self.widen_small_pair(from, packed), 2)[..pair.len()].to_vec()
    }

    /// Converts two values, whose bits are in `packed`, to a vector of two f16 values. The target must have an instruction for the
    /// format `from`.
    pub(super) fn widen_small_pair(&self, from: Scalar, packed: IntValue<'c>) -> Val<'c> {
        let name = match from {
            Scalar::F8E4M3FN => "llvm.nvvm.e4m3x2.to.f16x2.rn",
            Scalar::F8E5M2 => "llvm.nvvm.e5m2x2.to.f16x2.rn",
            _ => "llvm.nvvm.e2m1x2.to.f16x2.rn",
        };
        self.ir.intrinsic_value(name, &[], &[packed.into()])
    }

    /// Rounds one or two values to a small format, to nearest even. A value that is too large becomes the largest finite number.
    pub(super) fn round_to_small(&self, from: Scalar, to: Scalar, pair: &[Val<'c>]) -> Vec<Val<'c>> {
        let ir = self.ir;
        if !self.has_pair_conversion(to) {
            let as_f32 = |x: &Val<'c>| self.to_roundable_f32(x.into_float_value(), from, None);
            return pair.iter().map(|x| self.round_to_small_by_arithmetic(to, as_f32(x)).into()).collect();
        }
        let name = match (from, to) {
            (Scalar::F16, Scalar::F8E4M3FN) => "llvm.nvvm.f16x2.to.e4m3x2.rn",
            (Scalar::F16, Scalar::F8E5M2) => "llvm.nvvm.f16x2.to.e5m2x2.rn",
            (_, Scalar::F8E4M3FN) => "llvm.nvvm.ff.to.e4m3x2.rn",
            (_, Scalar::F8E5M2) => "llvm.nvvm.ff.to.e5m2x2.rn",
            _ => "llvm.nvvm.ff.to.e2m1x2.rn.satfinite",
        };
        let packed = if name.starts_with("llvm.nvvm.f16x2") {
            let second_value = pair.get(1).copied().unwrap_or(pair[0].get_type().const_zero());
            ir.intrinsic_value(name, &[], &[ir.pack(&[pair[0], second_value])])
        } else {
            let as_f32 = |x: &Val<'c>| -> Val<'c> { self.to_roundable_f32(x.into_float_value(), from, None).into() };
            let second_value = pair.get(1).map_or(ir.f32().const_zero().into(), as_f32);
            ir.intrinsic_value(name, &[], &[second_value, as_f32(&pair[0])])
        };
        let packed = packed.into_int_value();
        let bits_of_result = |i: usize| {
            let shift = packed.get_type().const_int(u64::from(to.bits()) * i as u64, false);
            ir.resize(ir.shr(packed, shift, false), ir.scalar_type(to).into_int_type(), false).into()
        };
        (0..pair.len()).map(bits_of_result).collect()
    }

    /// Converts a small format exactly to f16 without an instruction: moves the bits to their f16 positions, and multiplies to
    /// correct the exponent bias.
    fn widen_small_by_arithmetic(&self, from: Scalar, x: IntValue<'c>) -> FloatValue<'c> {
        let ir = self.ir;
        let format = from.float_format().expect("a float type");
        let (ty, half) = (ir.int_type(16), ir.context.f16_type());
        let word = |value: u64| ty.const_int(value, false);
        let x = ir.resize(x, ty, false);
        let magnitude_bits = format.exponent_bits + format.mantissa_bits;
        let magnitude = ir.and(x, word((1 << magnitude_bits) - 1));
        let moved_bits = ir.shl(magnitude, word(u64::from(10 - format.mantissa_bits)));
        let scale = half.const_float(f64::from(1u32 << (15 - format.bias)));
        let scaled =
            ir.builder.build_float_mul(ir.bitcast(moved_bits, half).into_float_value(), scale, "").expect("floats multiply");
        let mut bits = ir.bitcast(scaled, ty).into_int_value();
        if from == Scalar::F8E4M3FN {
            let is_nan = ir.icmp(IntPredicate::EQ, magnitude, word(float::nan(from)));
            bits = ir.select(is_nan, word(float::nan(Scalar::F16)).into(), bits.into()).into_int_value();
        }
        let sign = ir.shl(ir.shr(x, word(u64::from(magnitude_bits)), false), word(15));
        ir.bitcast(ir.or(bits, sign), half).into_float_value()
    }

    /// Converts an unsigned format of at most eight bits, with one NaN, to f32. The code moves the bits to their f32 positions. A
    /// multiplication then corrects the exponent bias, and normalises subnormal numbers.
    pub(super) fn widen_unsigned_float(&self, from: Scalar, x: IntValue<'c>) -> FloatValue<'c> {
        let ir = self.ir;
        let format = from.float_format().expect("a float type");
        let x = ir.resize(x, ir.i32(), false);
        let moved_bits = ir.shl(x, ir.const32(23 - format.mantissa_bits));
        let scale = ir.f32().const_float(2f64.powi(127 - format.bias));
        let scaled =
            ir.builder.build_float_mul(ir.bitcast(moved_bits, ir.f32()).into_float_value(), scale, "").expect("floats multiply");
        let is_nan = ir.icmp(IntPredicate::EQ, x, ir.const32(float::nan(from) as u32));
        ir.select(is_nan, ir.bitcast(ir.const32(0x7fff_ffff), ir.f32()), scaled.into()).into_float_value()
    }

    /// Rounds an f32 value to a small format without an instruction: to nearest even, with saturation to the largest finite number.
    fn round_to_small_by_arithmetic(&self, to: Scalar, x: FloatValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let format = to.float_format().expect("a float type");
        let (mantissa, bias) = (format.mantissa_bits, format.bias as u32);
        let bits = ir.bitcast(x, ir.i32()).into_int_value();
        let magnitude = ir.and(bits, ir.const32(0x7fff_ffff));
        // The code of a normal result: round at the lowest kept bit, then correct the exponent bias.
        let dropped_bits = 23 - mantissa;
        let last_kept_bit = ir.and(ir.shr(magnitude, ir.const32(dropped_bits), false), ir.const32(1));
        let rounded = ir.add(ir.add(magnitude, ir.const32((1 << (dropped_bits - 1)) - 1)), last_kept_bit);
        let normal_code = ir.sub(ir.shr(rounded, ir.const32(dropped_bits), false), ir.const32((127 - bias) << mantissa));
        // The code of a subnormal result: add a number whose last bit has the value of the smallest subnormal, so that the addition
        // rounds to a multiple of it.
        let rounding_addend = ir.const32((127 + 24 - bias - mantissa) << 23);
        let float = |bits: IntValue<'c>| ir.bitcast(bits, ir.f32()).into_float_value();
        let sum = ir.builder.build_float_add(float(magnitude), float(rounding_addend), "").expect("floats add");
        let subnormal_code = ir.sub(ir.bitcast(sum, ir.i32()).into_int_value(), rounding_addend);
        let is_subnormal = ir.icmp(IntPredicate::ULT, magnitude, ir.const32((128 - bias) << 23));
        let code = ir.select(is_subnormal, subnormal_code.into(), normal_code.into());
        let largest_code = ir.const32(float::largest_finite(to) as u32);
        let code = ir.intrinsic_value("llvm.umin", &[ir.i32().into()], &[code, largest_code.into()]);
        let is_nan = ir.fcmp(inkwell::FloatPredicate::UNO, x, x);
        let code = ir.select(is_nan, ir.const32(float::nan(to) as u32).into(), code).into_int_value();
        let sign = ir.and(ir.shr(bits, ir.const32(32 - to.bits()), false), ir.const32(1 << (to.bits() - 1)));
        let sign = ir.select(is_nan, ir.const32(0).into(), sign.into()).into_int_value();
        ir.resize(ir.or(code, sign), ir.scalar_type(to).into_int_type(), false)
    }

    /// Converts an 8-bit exponent to a power of two in f32. The exponent with all bits set is NaN.
    pub(super) fn widen_exponent(&self, x: IntValue<'c>) -> FloatValue<'c> {
        let ir = self.ir;
        let x = ir.resize(x, ir.i32(), false);
        let equals_code = |code: u32| ir.icmp(IntPredicate::EQ, x, ir.const32(code));
        let moved_bits = ir.shl(x, ir.const32(23));
        let bits = ir.select(equals_code(0), ir.const32(1 << 22).into(), moved_bits.into());
        let bits = ir.select(equals_code(255), ir.const32(0x7fff_ffff).into(), bits);
        ir.bitcast(bits, ir.f32()).into_float_value()
    }

    /// Rounds the magnitude of a value to a power of two, and returns its 8-bit exponent: the nearest power (ties go up), or the
    /// next power in the rounding direction. The sign is dropped.
    pub(super) fn round_to_exponent(&self, x: FloatValue<'c>, rounding: Rounding) -> IntValue<'c> {
        let ir = self.ir;
        let bits = ir.bitcast(x, ir.i32()).into_int_value();
        let magnitude = ir.and(bits, ir.const32(0x7fff_ffff));
        let is_negative = ir.icmp(IntPredicate::SLT, bits, ir.const32(0));
        let step_if = |cond: IntValue<'c>| ir.select(cond, ir.const32(0x7f_ffff).into(), ir.const32(0).into()).into_int_value();
        let step = match rounding {
            Rounding::Zero | Rounding::NearestIntToZero => ir.const32(0),
            Rounding::NegativeInf => step_if(is_negative),
            Rounding::PositiveInf => step_if(ir.not(is_negative)),
            _ => ir.const32(0x40_0000),
        };
        let normal_code = ir.shr(ir.add(magnitude, step), ir.const32(23), false);
        // A subnormal f32 value has only two possible results: code 0 (2^-127) and code 1 (2^-126).
        let two_to_minus_127 = ir.const32(0x40_0000);
        let is_one = match rounding {
            Rounding::NearestEven | Rounding::NearestAway | Rounding::Approx | Rounding::Full => {
                ir.icmp(IntPredicate::UGE, magnitude, ir.const32(0x60_0000))
            }
            _ => ir.and(ir.icmp(IntPredicate::UGT, magnitude, two_to_minus_127), ir.icmp(IntPredicate::NE, step, ir.const32(0))),
        };
        let is_subnormal = ir.icmp(IntPredicate::ULT, magnitude, ir.const32(0x80_0000));
        let code = ir.select(is_subnormal, ir.resize(is_one, ir.i32(), false).into(), normal_code.into());
        let code = ir.intrinsic_value("llvm.umin", &[ir.i32().into()], &[code, ir.const32(254).into()]);
        let is_nan = ir.fcmp(inkwell::FloatPredicate::UNO, x, x);
        let code = ir.select(is_nan, ir.const32(255).into(), code).into_int_value();
        ir.resize(code, ir.int_type(8), false)
    }
}
