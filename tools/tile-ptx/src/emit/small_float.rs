//! Conversions of floats with eight and four bits: by the target's instructions, which convert pairs, or by arithmetic on bits.

use super::Emitter;
use crate::ir::Val;
use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue};
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float;
use target_info::Feature;

impl<'c> Emitter<'c, '_> {
    /// Whether the target has instructions that convert pairs of this format.
    fn has_small(&self, format: Scalar) -> bool {
        match format {
            Scalar::F4E2M1FN => self.target.has(Feature::ConvertFp4),
            _ => self.target.has(Feature::ConvertFp8),
        }
    }

    /// Converts one or two values exactly to f16.
    pub(super) fn read_small(&self, from: Scalar, pair: &[Val<'c>]) -> Vec<Val<'c>> {
        let ir = self.ir;
        if !self.has_small(from) {
            return pair.iter().map(|x| self.read_bits(from, x.into_int_value()).into()).collect();
        }
        let word = ir.int(16);
        let bits = |x: &Val<'c>| ir.resize(x.into_int_value(), word, false);
        let second = pair.get(1).map_or(word.const_zero(), bits);
        let packed = ir.or(bits(&pair[0]), ir.shl(second, word.const_int(u64::from(from.bits()), false)));
        ir.unpack(self.small_pair(from, packed), 2)[..pair.len()].to_vec()
    }

    /// Converts the bits of a pair to a pair of f16 values. The target must support the format.
    pub(super) fn small_pair(&self, from: Scalar, packed: IntValue<'c>) -> Val<'c> {
        let name = match from {
            Scalar::F8E4M3FN => "llvm.nvvm.e4m3x2.to.f16x2.rn",
            Scalar::F8E5M2 => "llvm.nvvm.e5m2x2.to.f16x2.rn",
            _ => "llvm.nvvm.e2m1x2.to.f16x2.rn",
        };
        self.ir.intrinsic_value(name, &[], &[packed.into()])
    }

    /// Converts one or two values to a small format. Rounds to nearest even; a value that is too large becomes the largest
    /// number.
    pub(super) fn write_small(&self, from: Scalar, to: Scalar, pair: &[Val<'c>]) -> Vec<Val<'c>> {
        let ir = self.ir;
        if !self.has_small(to) {
            let wide = |x: &Val<'c>| self.f32_to_round(x.into_float_value(), from, None);
            return pair.iter().map(|x| self.write_bits(to, wide(x)).into()).collect();
        }
        let name = match (from, to) {
            (Scalar::F16, Scalar::F8E4M3FN) => "llvm.nvvm.f16x2.to.e4m3x2.rn",
            (Scalar::F16, Scalar::F8E5M2) => "llvm.nvvm.f16x2.to.e5m2x2.rn",
            (_, Scalar::F8E4M3FN) => "llvm.nvvm.ff.to.e4m3x2.rn",
            (_, Scalar::F8E5M2) => "llvm.nvvm.ff.to.e5m2x2.rn",
            _ => "llvm.nvvm.ff.to.e2m1x2.rn.satfinite",
        };
        let packed = if name.starts_with("llvm.nvvm.f16x2") {
            let second = pair.get(1).copied().unwrap_or(pair[0].get_type().const_zero());
            ir.intrinsic_value(name, &[], &[ir.pack(&[pair[0], second])])
        } else {
            let wide = |x: &Val<'c>| -> Val<'c> { self.f32_to_round(x.into_float_value(), from, None).into() };
            let second = pair.get(1).map_or(ir.f32().const_zero().into(), wide);
            ir.intrinsic_value(name, &[], &[second, wide(&pair[0])])
        };
        let packed = packed.into_int_value();
        let part = |i: usize| {
            let shift = packed.get_type().const_int(u64::from(to.bits()) * i as u64, false);
            ir.resize(ir.shr(packed, shift, false), ir.scalar(to).into_int_type(), false).into()
        };
        (0..pair.len()).map(part).collect()
    }

    /// Moves the bits to their f16 positions, then multiplies to correct the exponent bias.
    fn read_bits(&self, from: Scalar, x: IntValue<'c>) -> FloatValue<'c> {
        let ir = self.ir;
        let format = from.float_format().expect("a float type");
        let (ty, half) = (ir.int(16), ir.context.f16_type());
        let word = |value: u64| ty.const_int(value, false);
        let x = ir.resize(x, ty, false);
        let magnitude_bits = format.exponent_bits + format.mantissa_bits;
        let magnitude = ir.and(x, word((1 << magnitude_bits) - 1));
        let moved = ir.shl(magnitude, word(u64::from(10 - format.mantissa_bits)));
        let scale = half.const_float(f64::from(1u32 << (15 - format.bias)));
        let scaled = ir.builder.build_float_mul(ir.bitcast(moved, half).into_float_value(), scale, "").expect("floats multiply");
        let mut bits = ir.bitcast(scaled, ty).into_int_value();
        if from == Scalar::F8E4M3FN {
            let nan = ir.icmp(IntPredicate::EQ, magnitude, word(float::nan(from)));
            bits = ir.select(nan, word(float::nan(Scalar::F16)).into(), bits.into()).into_int_value();
        }
        let sign = ir.shl(ir.shr(x, word(u64::from(magnitude_bits)), false), word(15));
        ir.bitcast(ir.or(bits, sign), half).into_float_value()
    }

    /// Converts an unsigned format of at most eight bits, with one NaN, to f32. The bits move to their f32 positions. A
    /// multiplication then corrects the exponent bias and normalises subnormal numbers.
    pub(super) fn read_unsigned(&self, from: Scalar, x: IntValue<'c>) -> FloatValue<'c> {
        let ir = self.ir;
        let format = from.float_format().expect("a float type");
        let x = ir.resize(x, ir.i32(), false);
        let moved = ir.shl(x, ir.const32(23 - format.mantissa_bits));
        let scale = ir.f32().const_float(2f64.powi(127 - format.bias));
        let number =
            ir.builder.build_float_mul(ir.bitcast(moved, ir.f32()).into_float_value(), scale, "").expect("floats multiply");
        let nan = ir.icmp(IntPredicate::EQ, x, ir.const32(float::nan(from) as u32));
        ir.select(nan, ir.bitcast(ir.const32(0x7fff_ffff), ir.f32()), number.into()).into_float_value()
    }

    /// Rounds an f32 value to a small format, to nearest even, with saturation.
    fn write_bits(&self, to: Scalar, x: FloatValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let format = to.float_format().expect("a float type");
        let (mantissa, bias) = (format.mantissa_bits, format.bias as u32);
        let bits = ir.bitcast(x, ir.i32()).into_int_value();
        let magnitude = ir.and(bits, ir.const32(0x7fff_ffff));
        // If the result is normal: round off the dropped bits, then correct the exponent.
        let drop = 23 - mantissa;
        let last = ir.and(ir.shr(magnitude, ir.const32(drop), false), ir.const32(1));
        let rounded = ir.add(ir.add(magnitude, ir.const32((1 << (drop - 1)) - 1)), last);
        let normal = ir.sub(ir.shr(rounded, ir.const32(drop), false), ir.const32((127 - bias) << mantissa));
        // If the result is subnormal: add a number whose last bit has the value of the smallest subnormal. The addition then
        // rounds.
        let unit = ir.const32((127 + 24 - bias - mantissa) << 23);
        let float = |bits: IntValue<'c>| ir.bitcast(bits, ir.f32()).into_float_value();
        let sum = ir.builder.build_float_add(float(magnitude), float(unit), "").expect("floats add");
        let subnormal = ir.sub(ir.bitcast(sum, ir.i32()).into_int_value(), unit);
        let small = ir.icmp(IntPredicate::ULT, magnitude, ir.const32((128 - bias) << 23));
        let code = ir.select(small, subnormal.into(), normal.into());
        let largest = ir.const32(float::largest(to) as u32);
        let code = ir.intrinsic_value("llvm.umin", &[ir.i32().into()], &[code, largest.into()]);
        let nan = ir.fcmp(inkwell::FloatPredicate::UNO, x, x);
        let code = ir.select(nan, ir.const32(float::nan(to) as u32).into(), code).into_int_value();
        let sign = ir.and(ir.shr(bits, ir.const32(32 - to.bits()), false), ir.const32(1 << (to.bits() - 1)));
        let sign = ir.select(nan, ir.const32(0).into(), sign.into()).into_int_value();
        ir.resize(ir.or(code, sign), ir.scalar(to).into_int_type(), false)
    }

    /// Converts an 8-bit exponent to the power of two. The exponent with all bits set is NaN.
    pub(super) fn read_exponent(&self, x: IntValue<'c>) -> FloatValue<'c> {
        let ir = self.ir;
        let x = ir.resize(x, ir.i32(), false);
        let is = |code: u32| ir.icmp(IntPredicate::EQ, x, ir.const32(code));
        let moved = ir.shl(x, ir.const32(23));
        let bits = ir.select(is(0), ir.const32(1 << 22).into(), moved.into());
        let bits = ir.select(is(255), ir.const32(0x7fff_ffff).into(), bits);
        ir.bitcast(bits, ir.f32()).into_float_value()
    }

    /// Rounds to a power of two, and returns its exponent: the nearest power (ties go up), or the next one in the rounding
    /// direction. The sign is dropped.
    pub(super) fn write_exponent(&self, x: FloatValue<'c>, rounding: Rounding) -> IntValue<'c> {
        let ir = self.ir;
        let bits = ir.bitcast(x, ir.i32()).into_int_value();
        let magnitude = ir.and(bits, ir.const32(0x7fff_ffff));
        let negative = ir.icmp(IntPredicate::SLT, bits, ir.const32(0));
        let only_if = |cond: IntValue<'c>| ir.select(cond, ir.const32(0x7f_ffff).into(), ir.const32(0).into()).into_int_value();
        let step = match rounding {
            Rounding::Zero | Rounding::NearestIntToZero => ir.const32(0),
            Rounding::NegativeInf => only_if(negative),
            Rounding::PositiveInf => only_if(ir.not(negative)),
            _ => ir.const32(0x40_0000),
        };
        let normal = ir.shr(ir.add(magnitude, step), ir.const32(23), false);
        // Below the smallest normal f32 value there are only the codes 0 (2^-127) and 1 (2^-126).
        let smallest = ir.const32(0x40_0000);
        let is_one = match rounding {
            Rounding::NearestEven | Rounding::NearestAway | Rounding::Approx | Rounding::Full => {
                ir.icmp(IntPredicate::UGE, magnitude, ir.const32(0x60_0000))
            }
            _ => ir.and(ir.icmp(IntPredicate::UGT, magnitude, smallest), ir.icmp(IntPredicate::NE, step, ir.const32(0))),
        };
        let small = ir.icmp(IntPredicate::ULT, magnitude, ir.const32(0x80_0000));
        let code = ir.select(small, ir.resize(is_one, ir.i32(), false).into(), normal.into());
        let code = ir.intrinsic_value("llvm.umin", &[ir.i32().into()], &[code, ir.const32(254).into()]);
        let nan = ir.fcmp(inkwell::FloatPredicate::UNO, x, x);
        let code = ir.select(nan, ir.const32(255).into(), code).into_int_value();
        ir.resize(code, ir.int(8), false)
    }
}
