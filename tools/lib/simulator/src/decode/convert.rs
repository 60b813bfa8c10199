//! Decodes `cvt`.

use super::builder::Builder;
use super::float::{rounding_modifier, scalar_and_count};
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::lanes::{LaneFn, map1, map2};
use crate::program::Op;
use numerics::Scalar;
use numerics::arith::{Convert, Rounding, Signedness};
use numerics::float::{self, OverflowResult, decode, encode};
use ptx::{Instruction, Type};

/// The supported modifiers of `cvt`, other than types.
const CVT_MODIFIERS: &[&str] = &["rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "sat", "satfinite", "relu", "ftz"];

impl Builder<'_> {
    /// Decodes `cvt`.
    pub(super) fn decode_cvt(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, CVT_MODIFIERS)?;
        let types: Vec<Type> = instruction.types().collect();
        let [to, from] = types[..] else { return Err(unsupported(instruction, "it needs two types")) };
        let dst = self.operand(instruction, 0)?;
        let (dst, width) = self.destination_slot(dst)?;
        let a = self.source_slot(instruction, 1, from.bits())?;
        let b = if instruction.operands.len() > 2 { self.source_slot(instruction, 2, from.bits())? } else { 0 };
        if instruction.operands.len() > 3 {
            return Err(unsupported(instruction, "random rounding bits and four sources"));
        }
        let is_supported = |ty: Type| {
            scalar_and_count(ty).is_some() || matches!(ty, Type::U8 | Type::U16 | Type::U32 | Type::U64) || ty.is_signed()
        };
        if !is_supported(to) || !is_supported(from) {
            return Err(unsupported(instruction, "these types"));
        }
        let f = match (scalar_and_count(to), scalar_and_count(from)) {
            (None, None) => integer_to_integer(instruction, to, from, width),
            (Some((to, 1)), None) => integer_to_float(instruction, to, from)?,
            (None, Some((from, 1))) => float_to_integer(instruction, to, from),
            (Some((to, 1)), Some((from, 1))) => map1(float_to_float(instruction, to, from)),
            (Some((to, 2)), Some((from, 1))) => {
                let (convert, bits) = (float_to_float(instruction, to, from), to.bits());
                map2(move |a, b| convert(a) << bits | convert(b))
            }
            (Some((to, 2)), Some((from, 2))) => {
                let (convert, bits, narrow) = (float_to_float(instruction, to, from), to.bits(), from.bits());
                map1(move |a| convert(a >> narrow & from.mask()) << bits | convert(a & from.mask()))
            }
            _ => return Err(unsupported(instruction, "these types")),
        };
        Ok(Op::Elementwise { f, dst, src: [a, b, 0, 0], selects_bytes: false })
    }
}

/// Returns the value that the low bits of a register have as an integer of type `ty`.
fn integer_value(ty: Type, bits: u64) -> i128 {
    let shift = 64 - ty.bits();
    if ty.is_signed() { i128::from(((bits << shift) as i64) >> shift) } else { i128::from((bits << shift) >> shift) }
}

/// Returns the smallest and the largest number of an integer type.
fn integer_range(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Returns the function of a conversion between integers. In a wider destination register, a signed result is sign-extended and an
/// unsigned result zero-extended. `width` is the width of the register in bits.
fn integer_to_integer(instruction: &Instruction, to: Type, from: Type, width: u32) -> LaneFn {
    let sat = instruction.has_modifier("sat");
    let (low, high) = integer_range(to);
    let mask = u64::MAX >> (64 - if to.is_signed() { width.max(to.bits()) } else { to.bits() });
    map1(move |a| {
        let value = integer_value(from, a);
        let value = if sat { value.clamp(low, high) } else { integer_value(to, value as u64) };
        value as u64 & mask
    })
}

/// Returns the function of a conversion from an integer to a float.
fn integer_to_float(instruction: &Instruction, to: Scalar, from: Type) -> Result<LaneFn> {
    let rounding = rounding_modifier(instruction).unwrap_or(Rounding::NearestEven);
    if to == Scalar::F64 {
        let signedness = if from.is_signed() { Signedness::Signed } else { Signedness::Unsigned };
        let convert = Convert::IToF { signedness, rounding };
        return Ok(map1(move |a| convert.eval(Scalar::I64, Scalar::F64, integer_value(from, a) as u64)));
    }
    Ok(map1(move |a| {
        let exact = to_sticky_f64(integer_value(from, a));
        encode(to, exact, rounding, OverflowResult::Ieee)
    }))
}

/// Converts an integer to an `f64` that a later rounding to a narrower float rounds correctly. If the integer has more than 53
/// bits, the last bit of the result is sticky: it is set if a dropped bit is set.
fn to_sticky_f64(value: i128) -> f64 {
    let magnitude = value.unsigned_abs() as u64;
    let rounded_magnitude =
        if magnitude >> 53 == 0 { magnitude as f64 } else { (magnitude >> 11 | u64::from(magnitude & 0x7ff != 0)) as f64 * 2048.0 };
    if value < 0 { -rounded_magnitude } else { rounded_magnitude }
}

/// Returns the function that rounds to an integral value, for a modifier such as `.rni`. `None` without a modifier for integral
/// rounding.
fn integral_rounding(instruction: &Instruction) -> Option<fn(f64) -> f64> {
    [("rni", f64::round_ties_even as fn(f64) -> f64), ("rzi", f64::trunc), ("rmi", f64::floor), ("rpi", f64::ceil)]
        .into_iter()
        .find_map(|(word, f)| instruction.has_modifier(word).then_some(f))
}

/// Returns the function of a conversion from a float to an integer. Out-of-range values saturate. NaN gives 0. If either type has
/// 64 bits, NaN gives the number with only the top bit set.
fn float_to_integer(instruction: &Instruction, to: Type, from: Scalar) -> LaneFn {
    let round = integral_rounding(instruction).unwrap_or(f64::trunc);
    let ftz = instruction.has_modifier("ftz");
    let (low, high) = integer_range(to);
    let mask = u64::MAX >> (64 - to.bits());
    let nan = if from == Scalar::F64 || to.bits() == 64 { 1 << (to.bits() - 1) } else { 0 };
    map1(move |a| {
        let a = if ftz && from == Scalar::F32 { float::flush_f32(a as u32).into() } else { a & from.mask() };
        let value = decode(from, a);
        if value.is_nan() { nan } else { (round(value) as i128).clamp(low, high) as u64 & mask }
    })
}

/// Returns the function of a conversion between float types.
fn float_to_float(instruction: &Instruction, to: Scalar, from: Scalar) -> impl Fn(u64) -> u64 + Send + Sync + Copy + 'static {
    let rounding = rounding_modifier(instruction).unwrap_or(Rounding::NearestEven);
    let round_to_whole = integral_rounding(instruction);
    let (ftz, sat, relu) = (instruction.has_modifier("ftz"), instruction.has_modifier("sat"), instruction.has_modifier("relu"));
    let overflow = if instruction.has_modifier("satfinite") { OverflowResult::Saturate } else { OverflowResult::Ieee };
    let flush = move |ty: Scalar, bits: u64| if ftz && ty == Scalar::F32 { float::flush_f32(bits as u32).into() } else { bits };
    move |a| {
        let mut value = decode(from, flush(from, a & from.mask()));
        if let Some(round_to_whole) = round_to_whole {
            value = round_to_whole(value);
        }
        if sat {
            value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
        }
        if relu && value < 0.0 {
            value = 0.0;
        }
        flush(to, encode(to, value, rounding, overflow))
    }
}
