//! Values in every float format: exact decoding, rounding in every direction, and arithmetic for results that are rounded once.
//!
//! Invariant: a result is rounded once. Operations on formats up to 32 bits use `f64` with a sticky last bit ("round to odd"). This
//! `f64` and the exact value round to the same number, in any direction, in any format of at most 50 significant bits.

use crate::Scalar;
use crate::rounding::Rounding;
use crate::scalar::{FloatFormat, SpecialValues};

/// The encoding of a number whose magnitude exceeds the largest finite number of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowResult {
    /// As in IEEE 754: the largest finite number if the rounding direction requires it, otherwise infinity. NaN replaces infinity
    /// in a format without infinity. The largest finite number replaces both in a format without infinity and NaN.
    Ieee,
    /// The largest finite number, also for infinities.
    Saturate,
}

/// Returns the distance from 1 to the next larger number of the type.
pub fn epsilon(ty: Scalar) -> f64 {
    decode(ty, encode(ty, 1.0 + f64::EPSILON, Rounding::PositiveInf, OverflowResult::Ieee)) - 1.0
}

/// Converts the bits of a float to its value, exactly.
pub fn decode(ty: Scalar, bits: u64) -> f64 {
    match ty {
        Scalar::F64 => f64::from_bits(bits),
        Scalar::F32 | Scalar::TF32 => f32::from_bits(bits as u32).into(),
        Scalar::BF16 => f32::from_bits((bits as u32) << 16).into(),
        // The multiplication by 2^112 corrects the exponent bias (127 - 15). The product is exact, also for subnormals.
        Scalar::F16 if bits & 0x7c00 != 0x7c00 => {
            let magnitude = f32::from_bits((bits as u32 & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
            f64::from(f32::from_bits(magnitude.to_bits() | (bits as u32 & 0x8000) << 16))
        }
        _ => decode_fields(ty.float_format().expect("a float type"), bits & ty.mask()),
    }
}

/// Decodes a value of any format field by field, without a conversion instruction of the host.
fn decode_fields(format: FloatFormat, bits: u64) -> f64 {
    let mantissa = bits & ((1 << format.mantissa_bits) - 1);
    let max_exponent = (1 << format.exponent_bits) - 1;
    let exponent = bits >> format.mantissa_bits & max_exponent;
    let negative = format.signed && bits >> (format.mantissa_bits + format.exponent_bits) & 1 == 1;
    let magnitude = if exponent == max_exponent && format.special == SpecialValues::Ieee {
        if mantissa == 0 { f64::INFINITY } else { f64::NAN }
    } else if is_all_ones_nan(format, bits) {
        f64::NAN
    } else if exponent == 0 && format.mantissa_bits > 0 {
        multiply_by_power_of_two(mantissa as f64, 1 - format.bias - format.mantissa_bits as i32)
    } else {
        multiply_by_power_of_two(
            (mantissa | 1 << format.mantissa_bits) as f64,
            exponent as i32 - format.bias - format.mantissa_bits as i32,
        )
    };
    if negative { -magnitude } else { magnitude }
}

/// Returns whether the format has only the all-ones NaN, and the bits are this NaN.
fn is_all_ones_nan(format: FloatFormat, bits: u64) -> bool {
    let magnitude_mask = (1 << (format.mantissa_bits + format.exponent_bits)) - 1;
    format.special == SpecialValues::NanOnly && bits & magnitude_mask == magnitude_mask
}

/// Returns `x * 2^exponent`. The result must be a normal number or zero.
fn multiply_by_power_of_two(x: f64, exponent: i32) -> f64 {
    x * f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Returns the bits of the largest finite number of a float type.
pub fn largest_finite(ty: Scalar) -> u64 {
    let format = ty.float_format().expect("a float type");
    let magnitude_mask = (1u64 << (format.mantissa_bits + format.exponent_bits)) - 1;
    match format.special {
        SpecialValues::Ieee => (((1 << format.exponent_bits) - 2) << format.mantissa_bits) | ((1 << format.mantissa_bits) - 1),
        SpecialValues::NanOnly => magnitude_mask - 1,
        SpecialValues::None => magnitude_mask,
    }
}

/// Returns the NaN that is the result of arithmetic on GPUs (the canonical NaN). All bits except the sign are set. In f64, only the
/// exponent bits and the highest mantissa bit are set. In a format without NaN, returns the largest finite number.
pub fn nan(ty: Scalar) -> u64 {
    match ty {
        Scalar::F64 => 0x7ff8_0000_0000_0000,
        _ => {
            let format = ty.float_format().expect("a float type");
            match format.special {
                SpecialValues::None => largest_finite(ty),
                SpecialValues::Ieee | SpecialValues::NanOnly => (1 << (format.mantissa_bits + format.exponent_bits)) - 1,
            }
        }
    }
}

/// Rounds a value once to a format, and returns its bits. `Approx` and `Full` round to nearest even. A format without a sign bit
/// drops the sign.
pub fn encode(ty: Scalar, value: f64, rounding: Rounding, overflow: OverflowResult) -> u64 {
    let is_to_nearest_even = !matches!(
        rounding,
        Rounding::Zero | Rounding::NegativeInf | Rounding::PositiveInf | Rounding::NearestAway | Rounding::NearestIntToZero
    );
    if is_to_nearest_even && overflow == OverflowResult::Ieee && !value.is_nan() {
        match ty {
            Scalar::F64 => return value.to_bits(),
            Scalar::F32 => return u64::from((value as f32).to_bits()),
            _ => {}
        }
    }
    if value.is_nan() {
        return nan(ty);
    }
    if ty == Scalar::F64 {
        return value.to_bits();
    }
    let (format, dropped_bits) = match ty {
        Scalar::TF32 => (FloatFormat { mantissa_bits: 10, ..ty.float_format().expect("a float type") }, 13),
        _ => (ty.float_format().expect("a float type"), 0),
    };
    encode_fields(format, ty, value, rounding, overflow) << dropped_bits
}

/// Encodes a value that is not NaN field by field, without a conversion instruction of the host. Returns a tf32 value in the low 19
/// bits.
fn encode_fields(format: FloatFormat, ty: Scalar, value: f64, rounding: Rounding, overflow: OverflowResult) -> u64 {
    let negative = value.is_sign_negative();
    let sign = u64::from(negative && format.signed) << (format.exponent_bits + format.mantissa_bits);
    let limit = if ty == Scalar::TF32 { largest_finite(ty) >> 13 } else { largest_finite(ty) };
    let infinity = ((1u64 << format.exponent_bits) - 1) << format.mantissa_bits;
    let overflow_bits = |is_finite: bool| {
        let stays_finite = is_finite
            && match rounding {
                Rounding::Zero | Rounding::NearestIntToZero => true,
                Rounding::NegativeInf => !negative,
                Rounding::PositiveInf => negative,
                _ => false,
            };
        match format.special {
            _ if stays_finite || overflow == OverflowResult::Saturate => limit,
            SpecialValues::Ieee => infinity,
            SpecialValues::NanOnly => nan(ty),
            SpecialValues::None => limit,
        }
    };
    if value.is_infinite() {
        return sign | overflow_bits(false);
    }
    let magnitude = round_magnitude(format, value.abs(), negative, rounding);
    sign | if magnitude > limit { overflow_bits(true) } else { magnitude }
}

/// Returns the bits of the rounded magnitude. If the exponent is above the format's range, the result has more bits than the
/// format, so it exceeds the bits of every finite number.
fn round_magnitude(format: FloatFormat, magnitude: f64, negative: bool, rounding: Rounding) -> u64 {
    let bits = magnitude.to_bits();
    if bits == 0 {
        return 0;
    }
    let (exponent, significand) = match (bits >> 52) as i32 {
        0 => (-1074, bits),
        e => (e - 1075, bits & ((1 << 52) - 1) | 1 << 52),
    };
    // The value is `significand * 2^exponent`; the result is a multiple of 2^quantum.
    let leading_exponent = exponent + 63 - significand.leading_zeros() as i32;
    let has_subnormals = format.mantissa_bits > 0;
    let min_exponent = if has_subnormals { 1 - format.bias } else { -format.bias };
    let quantum = leading_exponent.max(min_exponent) - format.mantissa_bits as i32;
    let shift = quantum - exponent;
    // `half` is half of the last kept bit, in units of `dropped`.
    let (kept, dropped, half) = if shift <= 0 {
        (significand << -shift.max(-11), 0, 1)
    } else if shift > 60 {
        (0, 1, 2)
    } else {
        (significand >> shift, significand & ((1 << shift) - 1), 1u64 << (shift - 1))
    };
    let rounds_up = match rounding {
        Rounding::Zero | Rounding::NearestIntToZero => false,
        Rounding::NegativeInf => negative && dropped != 0,
        Rounding::PositiveInf => !negative && dropped != 0,
        Rounding::NearestAway => dropped >= half,
        _ => dropped > half || dropped == half && kept & 1 == 1,
    };
    let rounded = kept + u64::from(rounds_up);
    if !has_subnormals {
        // A format without mantissa bits (`f8e8m0fnu`) encodes only the exponent. If the magnitude rounds to less than the smallest
        // number, `rounded` is 0, and the result is the encoding of this number, 0. Otherwise `rounded` is 1, or 2 after a carry.
        return if rounded == 0 { 0 } else { (leading_exponent.max(min_exponent) + format.bias) as u64 + rounded - 1 };
    }
    // The addition of the significand with its hidden bit carries into the exponent where necessary.
    let biased = (quantum + format.mantissa_bits as i32 - min_exponent) as u64;
    (biased << format.mantissa_bits) + rounded
}

/// Converts a result that was rounded to nearest into a result that is rounded to odd: the last bit becomes sticky. `error` has the
/// sign of the part that the rounding to nearest dropped.
fn to_odd(result: f64, error: f64) -> f64 {
    let bits = result.to_bits();
    if error == 0.0 || !result.is_finite() || !error.is_finite() || bits & 1 == 1 {
        return result;
    }
    let is_away_from_zero = (error > 0.0) == (result > 0.0);
    f64::from_bits(if is_away_from_zero { bits + 1 } else { bits - 1 })
}

/// Returns `a + b` rounded to odd. Knuth's 2Sum computes the error of the sum.
pub fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let rounded_b = sum - a;
    to_odd(sum, (a - (sum - rounded_b)) + (b - rounded_b))
}

/// Returns `a * b + c` rounded to odd. `a` and `b` must have at most 26 significant bits, as in every format below `f64`, so their
/// product is exact in `f64`.
pub fn fma_to_odd(a: f64, b: f64, c: f64) -> f64 {
    add_to_odd(a * b, c)
}

/// Returns `a / b` rounded to odd.
pub fn div_to_odd(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if !quotient.is_finite() || quotient == 0.0 || !b.is_finite() {
        return quotient;
    }
    let remainder = (-quotient).mul_add(b, a);
    to_odd(quotient, if b < 0.0 { -remainder } else { remainder })
}

/// Returns the square root of `x` rounded to odd.
pub fn sqrt_to_odd(x: f64) -> f64 {
    let root = x.sqrt();
    if !root.is_finite() || root == 0.0 { root } else { to_odd(root, (-root).mul_add(root, x)) }
}

/// Replaces a subnormal f32 by a zero of its sign, as the PTX modifier `.ftz` does with operands and results.
pub fn flush_f32(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_is_the_last_bit_of_the_mantissa() {
        let mantissa_bits = [(Scalar::F64, 52), (Scalar::F32, 23), (Scalar::TF32, 10), (Scalar::F16, 10), (Scalar::BF16, 7)];
        mantissa_bits.into_iter().for_each(|(ty, bits)| assert_eq!(epsilon(ty), 2f64.powi(-bits), "{ty:?}"));
    }

    /// Returns all float types with few enough values for exhaustive tests.
    fn small_floats() -> impl Iterator<Item = Scalar> {
        Scalar::ALL.iter().copied().filter(|ty| ty.is_float() && ty.bits() <= 16)
    }

    #[test]
    fn every_small_number_round_trips() {
        for ty in small_floats() {
            for bits in 0..=ty.mask() {
                let value = decode(ty, bits);
                for rounding in [Rounding::NearestEven, Rounding::Zero, Rounding::PositiveInf, Rounding::NegativeInf] {
                    let again = encode(ty, value, rounding, OverflowResult::Ieee);
                    assert!(again == bits || value.is_nan() && again == nan(ty), "{ty} {bits:#x} {value} {again:#x}");
                }
            }
        }
    }

    /// Between two neighbours, a quarter of the distance rounds down, a half rounds to even, and three quarters round up. Directed
    /// modes round in their direction.
    #[test]
    fn neighbours_round_in_the_requested_direction() {
        for ty in small_floats() {
            for bits in 0..largest_finite(ty) {
                let (low, high) = (decode(ty, bits), decode(ty, bits + 1));
                let rounded = |fraction: f64, rounding| encode(ty, low + (high - low) * fraction, rounding, OverflowResult::Ieee);
                assert_eq!(rounded(0.25, Rounding::NearestEven), bits, "{ty} {bits:#x}");
                assert_eq!(rounded(0.75, Rounding::NearestEven), bits + 1);
                if ty != Scalar::F8E8M0FNU {
                    assert_eq!(rounded(0.5, Rounding::NearestEven), bits + (bits & 1));
                }
                assert_eq!(rounded(0.5, Rounding::NearestAway), bits + 1);
                assert_eq!(rounded(0.9, Rounding::Zero), bits);
                assert_eq!(rounded(0.9, Rounding::NegativeInf), bits);
                assert_eq!(rounded(0.1, Rounding::PositiveInf), bits + 1);
            }
        }
    }

    #[test]
    fn numbers_beyond_the_range_encode_as_requested() {
        let nearest = |ty, value, overflow| encode(ty, value, Rounding::NearestEven, overflow);
        assert_eq!(nearest(Scalar::F16, 65519.0, OverflowResult::Ieee), 0x7bff);
        assert_eq!(nearest(Scalar::F16, 65520.0, OverflowResult::Ieee), 0x7c00);
        assert_eq!(nearest(Scalar::F16, -1e9, OverflowResult::Saturate), 0xfbff);
        assert_eq!(nearest(Scalar::F8E4M3FN, 448.0, OverflowResult::Ieee), 0x7e);
        assert_eq!(nearest(Scalar::F8E4M3FN, 464.0, OverflowResult::Ieee), 0x7e);
        assert_eq!(nearest(Scalar::F8E4M3FN, 465.0, OverflowResult::Ieee), 0x7f);
        assert_eq!(nearest(Scalar::F8E4M3FN, -465.0, OverflowResult::Saturate), 0xfe);
        assert_eq!(nearest(Scalar::F8E5M2, f64::INFINITY, OverflowResult::Ieee), 0x7c);
        assert_eq!(nearest(Scalar::F8E5M2, f64::INFINITY, OverflowResult::Saturate), 0x7b);
        assert_eq!(nearest(Scalar::F4E2M1FN, 100.0, OverflowResult::Ieee), 7);
        assert_eq!(encode(Scalar::F16, 1e9, Rounding::Zero, OverflowResult::Ieee), 0x7bff);
        assert_eq!(encode(Scalar::F32, 1e300, Rounding::NegativeInf, OverflowResult::Ieee), 0x7f7f_ffff);
        assert_eq!(encode(Scalar::F32, -1e300, Rounding::NegativeInf, OverflowResult::Ieee), 0xff80_0000);
    }

    #[test]
    fn tf32_keeps_the_upper_bits() {
        assert_eq!(encode(Scalar::TF32, 1.0 + 1.0 / 1024.0, Rounding::NearestEven, OverflowResult::Ieee), 0x3f80_2000);
        assert_eq!(encode(Scalar::TF32, 1.0 + 1.0 / 2048.0, Rounding::NearestEven, OverflowResult::Ieee), 0x3f80_0000);
        assert_eq!(encode(Scalar::TF32, 1.0 + 1.0 / 2048.0, Rounding::NearestAway, OverflowResult::Ieee), 0x3f80_2000);
    }

    #[test]
    fn sticky_results_do_not_round_twice() {
        // The sum is 1 + 2^-24 + 2^-60. Rounding it to the nearest `f64` drops 2^-60. Rounding that tie to `f32` would give 1.
        let sum = add_to_odd(1.0 + 2f64.powi(-24), 2f64.powi(-60));
        assert_eq!(encode(Scalar::F32, sum, Rounding::NearestEven, OverflowResult::Ieee), 0x3f80_0001);
        assert_eq!(encode(Scalar::F32, add_to_odd(1.0, 1e-200), Rounding::PositiveInf, OverflowResult::Ieee), 0x3f80_0001);
        assert_eq!(encode(Scalar::F32, add_to_odd(1.0, -1e-200), Rounding::Zero, OverflowResult::Ieee), 0x3f7f_ffff);
        let mut state = 1u64;
        for _ in 0..20000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (a, b) = (f32::from_bits((state >> 32) as u32), f32::from_bits(state as u32 ^ 0x2aaa_5555));
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let c = f32::from_bits((state >> 32) as u32);
            let round = |x: f64| encode(Scalar::F32, x, Rounding::NearestEven, OverflowResult::Ieee) as u32;
            let is_same =
                |result: u32, expected: f32| result == expected.to_bits() || f32::from_bits(result).is_nan() && expected.is_nan();
            assert!(is_same(round(fma_to_odd(a.into(), b.into(), c.into())), a.mul_add(b, c)), "{a} {b} {c}");
            assert!(is_same(round(div_to_odd(a.into(), b.into())), a / b), "{a} / {b}");
            assert!(is_same(round(sqrt_to_odd(a.into())), a.sqrt()), "sqrt {a}");
        }
    }
}
