//! Conversions between element types.
//!
//! As on GPUs, a float outside the range of the integer type is clamped, and NaN becomes 0. A conversion to an integer of
//! at most eight bits first converts to 16 bits and then drops the upper bits, unless the conversion saturates. A conversion to a
//! float of at most eight bits saturates.
//!
//! A conversion to `i1` is a comparison with zero, see [`ToBool`].

use super::float::{Format, by_format, conversion_overflow};
use super::word::{Map1, Word};
use super::{Convert, Rounding, Signedness, double};
use crate::Scalar;
use crate::float;

impl Convert {
    /// Applies the conversion to one element or to all elements of a tile.
    pub(super) fn apply<M: Map1>(self, from: Scalar, to: Scalar, map: M) -> M::Output {
        match self {
            Convert::ExtI { signedness: Signedness::Signed } => map_bits(to, |x| from.sign_extend(x) as u64, from, map),
            Convert::ExtI { signedness: Signedness::Unsigned } | Convert::TruncI { .. } => map_bits(to, |x| x, from, map),
            Convert::Bitcast => map_bits(to, |x| x, from, map),
            Convert::FToF { rounding } => float_to_float(from, to, rounding, map),
            Convert::FToI { .. } if to == Scalar::I1 => by_format!(from, format => float_to_bool(format, map)),
            Convert::FToI { signedness, saturating } => {
                by_format!(from, format => float_to_int(format, to, signedness, saturating, map))
            }
            Convert::IToF { signedness, rounding } => int_to_float(from, to, signedness, rounding, map),
        }
    }
}

/// Runs an expression with `$word` bound to the word type of a scalar type.
macro_rules! by_word {
    ($ty:expr, $word:ident => $body:expr) => {
        match $ty.bits() {
            ..=8 => {
                type $word = u8;
                $body
            }
            16 => {
                type $word = u16;
                $body
            }
            32 => {
                type $word = u32;
                $body
            }
            _ => {
                type $word = u64;
                $body
            }
        }
    };
}

/// Applies a function of the bits to each element. Drops the bits of a result above the width of type `to`.
fn map_bits<M: Map1>(to: Scalar, f: impl Fn(u64) -> u64, from: Scalar, map: M) -> M::Output {
    by_word!(from, A => map_bits_from::<A, _, _>(to, f, map))
}

/// Applies a function of bits to each element, whose word type is `A`.
fn map_bits_from<A: Word, G: Fn(u64) -> u64, M: Map1>(to: Scalar, f: G, map: M) -> M::Output {
    let mask = to.mask();
    by_word!(to, R => map_bits_between::<A, R, _, _>(|x| f(x) & mask, map))
}

/// Applies a function of bits to each element, from word type `A` to word type `R`.
fn map_bits_between<A: Word, R: Word, G: Fn(u64) -> u64, M: Map1>(f: G, map: M) -> M::Output {
    map.map(|x: A| R::from_bits(f(x.bits())))
}

/// Converts between float types in the requested rounding direction.
fn float_to_float<M: Map1>(from: Scalar, to: Scalar, rounding: Rounding, map: M) -> M::Output {
    by_format!(from, source => match rounding {
        Rounding::NearestEven | Rounding::Approx | Rounding::Full => by_format!(to, target => round_to_nearest(source, target, map)),
        _ => by_word!(to, R => round_in_direction::<R, _, _>(source, |x| float::encode(to, x, rounding, conversion_overflow(to)), map)),
    })
}

/// Rounds each element to the nearest even value of the target format.
fn round_to_nearest<A: Format, B: Format, M: Map1>(source: A, target: B, map: M) -> M::Output {
    map.map(|x: A::Word| target.encode_f64(source.to_f64(x)))
}

/// Converts each element with a function that rounds in the requested direction.
fn round_in_direction<R: Word, A: Format, M: Map1>(source: A, encode: impl Fn(f64) -> u64, map: M) -> M::Output {
    map.map(|x: A::Word| R::from_bits(encode(source.to_f64(x))))
}

/// The comparison with zero that converts a float to `i1`, as in NVIDIA's compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToBool {
    /// Types with PTX arithmetic compare numbers by `setp.neu`: NaN is true, and -0.0 is false.
    Number,
    /// All other types compare bits, so -0.0 is true.
    Bits,
}

impl ToBool {
    /// Returns the comparison for a float type.
    pub fn for_type(from: Scalar) -> ToBool {
        if matches!(from, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64) { ToBool::Number } else { ToBool::Bits }
    }
}

/// Converts floats to `i1` by the comparison [`ToBool`].
fn float_to_bool<F: Format, M: Map1>(from: F, map: M) -> M::Output {
    match ToBool::for_type(from.ty()) {
        ToBool::Number => map.map(|x: F::Word| u8::from(from.to_f64(x) != 0.0)),
        ToBool::Bits => map.map(|x: F::Word| u8::from(x.bits() != 0)),
    }
}

/// Converts floats to an integer type, rounded toward zero. The header of this file states the rules for values out of range.
fn float_to_int<F: Format, M: Map1>(from: F, to: Scalar, signedness: Signedness, saturating: bool, map: M) -> M::Output {
    let mask = to.mask();
    match (signedness, to.bits()) {
        (Signedness::Signed, 64) => map.map(|x: F::Word| from.to_f64(x) as i64 as u64),
        (Signedness::Unsigned, 64) => map.map(|x: F::Word| from.to_f64(x) as u64),
        (Signedness::Signed, 32) => map.map(|x: F::Word| from.to_f64(x) as i32 as u32),
        (Signedness::Unsigned, 32) => map.map(|x: F::Word| from.to_f64(x) as u32),
        (Signedness::Signed, 16) => map.map(|x: F::Word| from.to_f64(x) as i16 as u16),
        (Signedness::Unsigned, 16) => map.map(|x: F::Word| from.to_f64(x) as u16),
        (Signedness::Signed, _) => {
            let (low, high) = if saturating { (!(mask >> 1) as i64 as i16, (mask >> 1) as i16) } else { (i16::MIN, i16::MAX) };
            map.map(|x: F::Word| ((from.to_f64(x) as i16).clamp(low, high) as u64 & mask) as u8)
        }
        (Signedness::Unsigned, _) => {
            let high = if saturating { mask as u16 } else { u16::MAX };
            map.map(|x: F::Word| (u64::from((from.to_f64(x) as u16).min(high)) & mask) as u8)
        }
    }
}

/// Converts integers to a float type in the requested rounding direction.
fn int_to_float<M: Map1>(from: Scalar, to: Scalar, signedness: Signedness, rounding: Rounding, map: M) -> M::Output {
    let encode = move |x: u64| {
        let (nearest, exact) = match signedness {
            Signedness::Signed => (from.sign_extend(x) as f64, i128::from(from.sign_extend(x))),
            Signedness::Unsigned => (x as f64, i128::from(x)),
        };
        if to == Scalar::F64 {
            return double::from_int(exact, rounding).to_bits();
        }
        float::encode(to, with_sticky_bit(nearest, exact), rounding, conversion_overflow(to))
    };
    by_word!(from, A => int_to_float_from::<A, _, _>(to, encode, map))
}

/// Converts each integer, whose word type is `A`, to a float with the function `encode`.
fn int_to_float_from<A: Word, G: Fn(u64) -> u64, M: Map1>(to: Scalar, encode: G, map: M) -> M::Output {
    by_word!(to, R => map_bits_between::<A, R, _, _>(encode, map))
}

/// Returns the integer `exact` as an `f64` with a sticky last bit. Rounding this `f64` gives the same result as rounding the
/// integer. `nearest` is the integer, rounded to the nearest `f64`.
fn with_sticky_bit(nearest: f64, exact: i128) -> f64 {
    let error = exact - nearest as i128;
    match nearest.to_bits() {
        bits if error == 0 || bits & 1 == 1 => f64::from_bits(bits),
        bits if (error > 0) == (nearest > 0.0) => f64::from_bits(bits + 1),
        bits => f64::from_bits(bits - 1),
    }
}
