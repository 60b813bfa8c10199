//! Float operations. Invariants: every result is rounded once from the exact value, and every NaN is the type's canonical NaN.
//!
//! Operations on types of at most 32 bits are computed in `f64`. A sum, product, quotient or root is rounded to `f64`, and then to
//! the type. If both roundings are to nearest, the rounding to `f64` changes no result, because `f64` has more than twice the
//! significant bits. Other rounding directions and fused operations use `f64` with a sticky last bit. Operations on the type f64 in
//! other directions use [`super::double`].

use super::word::{Map1, Map2, Map3, Word};
use super::{Binary, Fma, Predicate, Rounding, Unary, double, math};
use crate::Scalar;
use crate::float::{self, OverflowResult};
use std::marker::PhantomData;

/// A float type, with its conversions to and from `f64`. Operations are generic over the format, so each loop is compiled for one
/// type.
pub(super) trait Format: Copy {
    type Word: Word;
    fn ty(self) -> Scalar;
    fn to_f64(self, word: Self::Word) -> f64;
    /// Rounds an `f64` to nearest even. Types of at most eight bits saturate, as in the hardware's conversions.
    fn encode_f64(self, value: f64) -> Self::Word;
    /// Rounds an `f64` whose last bit is sticky, in the requested direction.
    fn round(self, sticky: f64, rounding: Rounding) -> Self::Word {
        Word::from_bits(float::encode(self.ty(), sticky, rounding, conversion_overflow(self.ty())))
    }
}

/// Returns the encoding of values beyond the range of a type in conversions. As on GPUs, types of at most eight bits saturate.
pub(super) fn conversion_overflow(ty: Scalar) -> OverflowResult {
    if ty.bits() <= 8 { OverflowResult::Saturate } else { OverflowResult::Ieee }
}

#[derive(Clone, Copy)]
pub(super) struct F64;

impl Format for F64 {
    type Word = u64;
    fn ty(self) -> Scalar {
        Scalar::F64
    }
    #[inline(always)]
    fn to_f64(self, word: u64) -> f64 {
        f64::from_bits(word)
    }
    #[inline(always)]
    fn encode_f64(self, value: f64) -> u64 {
        if value.is_nan() { f64::NAN.to_bits() & (u64::MAX >> 1) } else { value.to_bits() }
    }
}

#[derive(Clone, Copy)]
pub(super) struct F32;

impl Format for F32 {
    type Word = u32;
    fn ty(self) -> Scalar {
        Scalar::F32
    }
    #[inline(always)]
    fn to_f64(self, word: u32) -> f64 {
        f32::from_bits(word).into()
    }
    #[inline(always)]
    fn encode_f64(self, value: f64) -> u32 {
        if value.is_nan() { 0x7fff_ffff } else { (value as f32).to_bits() }
    }
}

/// The type f16 (10 mantissa bits) or bf16 (7 mantissa bits).
#[derive(Clone, Copy)]
pub(super) struct Half<const MANTISSA: u32>;

impl<const MANTISSA: u32> Half<MANTISSA> {
    /// The bits of infinity.
    const INFINITY: u16 = 0x7fff >> MANTISSA << MANTISSA;
    /// The exponent bias of `f64` minus the exponent bias of this type.
    const REBIAS: u64 = 1023 - ((1 << (14 - MANTISSA)) - 1);
}

impl<const MANTISSA: u32> Format for Half<MANTISSA> {
    type Word = u16;
    fn ty(self) -> Scalar {
        if MANTISSA == 10 { Scalar::F16 } else { Scalar::BF16 }
    }
    #[inline(always)]
    fn to_f64(self, word: u16) -> f64 {
        let magnitude = word & 0x7fff;
        // The multiplication corrects the exponent and normalises subnormal values.
        let scaled = f64::from_bits(u64::from(magnitude) << (52 - MANTISSA)) * f64::from_bits((1023 + Self::REBIAS) << 52);
        let special = if magnitude == Self::INFINITY { f64::INFINITY } else { f64::NAN };
        let value = if magnitude < Self::INFINITY { scaled } else { special };
        f64::from_bits(value.to_bits() | u64::from(word & 0x8000) << 48)
    }
    #[inline(always)]
    fn encode_f64(self, value: f64) -> u16 {
        let magnitude = value.abs();
        let sign = (value.to_bits() >> 48) as u16 & 0x8000;
        let dropped = 52 - MANTISSA;
        let bits = magnitude.to_bits();
        let rounded = (bits + ((1 << (dropped - 1)) - 1) + (bits >> dropped & 1)) >> dropped;
        let normal = rounded.saturating_sub(Self::REBIAS << MANTISSA).min(Self::INFINITY.into()) as u16;
        // The last mantissa bit of this power of two has the value of the smallest subnormal. The addition of the power of two
        // therefore rounds the magnitude to a multiple of the smallest subnormal.
        let unit_at_2_52 = f64::from_bits((1023 + 52 - (1023 - Self::REBIAS) + 1 - u64::from(MANTISSA)) << 52);
        let subnormal = (magnitude + unit_at_2_52).to_bits() as u16;
        let smallest_normal = f64::from_bits((Self::REBIAS + 1) << 52);
        let result = if magnitude < smallest_normal { subnormal } else { normal };
        if value.is_nan() { 0x7fff } else { result | sign }
    }
}

/// A float type without a type of its own that implements [`Format`]. It uses the general, slower conversions of [`crate::float`].
#[derive(Clone, Copy)]
pub(super) struct GenericFormat<W>(pub(super) Scalar, pub(super) PhantomData<W>);

impl<W: Word> Format for GenericFormat<W> {
    type Word = W;
    fn ty(self) -> Scalar {
        self.0
    }
    fn to_f64(self, word: W) -> f64 {
        float::decode(self.0, word.bits())
    }
    fn encode_f64(self, value: f64) -> W {
        self.round(value, Rounding::NearestEven)
    }
}

/// Runs an expression with `$format` bound to the [`Format`] of a float type.
macro_rules! by_format {
    ($ty:expr, $format:ident => $body:expr) => {{
        use $crate::arith::float::{F32, F64, GenericFormat, Half};
        match $ty {
            Scalar::F16 => {
                let $format = Half::<10>;
                $body
            }
            Scalar::BF16 => {
                let $format = Half::<7>;
                $body
            }
            Scalar::F32 => {
                let $format = F32;
                $body
            }
            Scalar::F64 => {
                let $format = F64;
                $body
            }
            Scalar::TF32 => {
                let $format = GenericFormat::<u32>(Scalar::TF32, std::marker::PhantomData);
                $body
            }
            other if other.is_float() => {
                let $format = GenericFormat::<u8>(other, std::marker::PhantomData);
                $body
            }
            other => panic!("a float operation on {other}"),
        }
    }};
}
pub(super) use by_format;

/// Replaces a value that is subnormal in f32 by a zero of its sign, if `ftz` is set.
#[inline(always)]
fn flush(value: f64, ftz: bool) -> f64 {
    if ftz && value.abs() < f64::from(f32::MIN_POSITIVE) { 0.0f64.copysign(value) } else { value }
}

/// Rounds to nearest even, and flushes a subnormal result if `ftz` is set.
#[inline(always)]
fn encode_flushed<F: Format>(format: F, value: f64, ftz: bool) -> F::Word {
    let word = format.encode_f64(value);
    if ftz { format.encode_f64(flush(format.to_f64(word), true)) } else { word }
}

/// Rounds a value with a sticky last bit, and flushes a subnormal result if `ftz` is set.
fn round_flushed<F: Format>(format: F, sticky: f64, rounding: Rounding, ftz: bool) -> F::Word {
    let word = format.round(sticky, rounding);
    if ftz { format.encode_f64(flush(format.to_f64(word), true)) } else { word }
}

/// Returns whether a rounding is not to nearest even. If so, an operation must compute its result as `f64` with a sticky last bit
/// before the rounding.
fn is_not_nearest_even(rounding: Rounding) -> bool {
    matches!(
        rounding,
        Rounding::Zero | Rounding::NegativeInf | Rounding::PositiveInf | Rounding::NearestAway | Rounding::NearestIntToZero
    )
}

/// Applies a unary operation to floats of type `ty`.
pub(super) fn unary<M: Map1>(op: Unary, ty: Scalar, map: M) -> M::Output {
    by_format!(ty, format => unary_in_format(op, format, map))
}

/// Applies a unary operation in the format of its type.
fn unary_in_format<F: Format, M: Map1>(op: Unary, format: F, map: M) -> M::Output {
    let sign = match format.ty().float_format() {
        Some(layout) if layout.signed => 1u64 << (format.ty().bits() - 1),
        _ => 0,
    };
    match op {
        Unary::AbsF => map.map(|x: F::Word| F::Word::from_bits(x.bits() & !sign)),
        Unary::NegF => map.map(|x: F::Word| F::Word::from_bits(x.bits() ^ sign)),
        Unary::Ceil => map_function(format, map, false, f64::ceil),
        Unary::Floor => map_function(format, map, false, f64::floor),
        Unary::Sqrt { rounding, ftz } if is_not_nearest_even(rounding) => map.map(|x: F::Word| {
            let x = flush(format.to_f64(x), ftz);
            let root = if format.ty() == Scalar::F64 { double::sqrt(x, rounding) } else { float::sqrt_to_odd(x) };
            round_flushed(format, root, rounding, ftz)
        }),
        Unary::Sqrt { ftz, .. } => map_function(format, map, ftz, f64::sqrt),
        Unary::Rsqrt { ftz } => map_function(format, map, ftz, |x| 1.0 / x.sqrt()),
        Unary::Exp { .. } => map_function(format, map, false, f64::exp),
        Unary::Exp2 { ftz } => map_function(format, map, ftz, f64::exp2),
        Unary::Log => map_function(format, map, false, f64::ln),
        Unary::Log2 => map_function(format, map, false, f64::log2),
        Unary::Sin => map_function(format, map, false, f64::sin),
        Unary::Cos => map_function(format, map, false, f64::cos),
        Unary::Tan => map_function(format, map, false, f64::tan),
        Unary::Sinh => map_function(format, map, false, f64::sinh),
        Unary::Cosh => map_function(format, map, false, f64::cosh),
        Unary::Tanh { .. } => map_function(format, map, false, f64::tanh),
        Unary::AbsI | Unary::NegI { .. } => panic!("{op:?} is not a float operation"),
    }
}

/// Applies a function of `f64` to each element, and rounds the result to nearest even.
fn map_function<F: Format, M: Map1>(format: F, map: M, ftz: bool, f: impl Fn(f64) -> f64) -> M::Output {
    map.map(|x: F::Word| encode_flushed(format, f(flush(format.to_f64(x), ftz)), ftz))
}

/// Applies a binary operation to floats of type `ty`.
pub(super) fn binary<M: Map2>(op: Binary, ty: Scalar, map: M) -> M::Output {
    by_format!(ty, format => binary_in_format(op, format, map))
}

/// Applies a binary operation in the format of its type.
fn binary_in_format<F: Format, M: Map2>(op: Binary, format: F, map: M) -> M::Output {
    match op {
        Binary::AddF { rounding, ftz } if is_not_nearest_even(rounding) => {
            let add = |a, b| if F64.ty() == format.ty() { double::add(a, b, rounding) } else { float::add_to_odd(a, b) };
            map_rounded(format, map, rounding, ftz, |a, b| signed_zero_sum(add(a, b), a, b, rounding))
        }
        Binary::SubF { rounding, ftz } if is_not_nearest_even(rounding) => {
            let add = |a, b| if F64.ty() == format.ty() { double::add(a, b, rounding) } else { float::add_to_odd(a, b) };
            map_rounded(format, map, rounding, ftz, |a, b| signed_zero_sum(add(a, -b), a, -b, rounding))
        }
        Binary::MulF { rounding, ftz } if is_not_nearest_even(rounding) => {
            // A product of types below f64 is exact in f64.
            map_rounded(
                format,
                map,
                rounding,
                ftz,
                |a, b| if F64.ty() == format.ty() { double::mul(a, b, rounding) } else { a * b },
            )
        }
        Binary::DivF { rounding, ftz } if is_not_nearest_even(rounding) => map_rounded(format, map, rounding, ftz, |a, b| {
            if F64.ty() == format.ty() { double::div(a, b, rounding) } else { float::div_to_odd(a, b) }
        }),
        Binary::AddF { ftz, .. } => map_nearest(format, map, ftz, |a, b| a + b),
        Binary::SubF { ftz, .. } => map_nearest(format, map, ftz, |a, b| a - b),
        Binary::MulF { ftz, .. } => map_nearest(format, map, ftz, |a, b| a * b),
        Binary::DivF { ftz, .. } => map_nearest(format, map, ftz, |a, b| a / b),
        Binary::RemF => map_nearest(format, map, false, |a, b| a % b),
        Binary::MaxF { propagate_nan, ftz } => map_nearest(format, map, ftz, move |a, b| math::max(a, b, propagate_nan)),
        Binary::MinF { propagate_nan, ftz } => map_nearest(format, map, ftz, move |a, b| -math::max(-a, -b, propagate_nan)),
        Binary::PowF => map_nearest(format, map, false, f64::powf),
        Binary::PowI => map.map(|a: F::Word, n: u64| format.encode_f64(math::powi(format.to_f64(a), n as i64))),
        Binary::Atan2 => map_nearest(format, map, false, f64::atan2),
        other => panic!("{other:?} is not a float operation"),
    }
}

/// Applies an `f64` operation to each pair of elements, and rounds the result to nearest even.
fn map_nearest<F: Format, M: Map2>(format: F, map: M, ftz: bool, f: impl Fn(f64, f64) -> f64) -> M::Output {
    map.map(|a: F::Word, b: F::Word| encode_flushed(format, f(flush(format.to_f64(a), ftz), flush(format.to_f64(b), ftz)), ftz))
}

/// Applies an operation with a sticky `f64` result to each pair of elements, and rounds the result as requested.
fn map_rounded<F: Format, M: Map2>(format: F, map: M, rounding: Rounding, ftz: bool, f: impl Fn(f64, f64) -> f64) -> M::Output {
    map.map(|a: F::Word, b: F::Word| {
        round_flushed(format, f(flush(format.to_f64(a), ftz), flush(format.to_f64(b), ftz)), rounding, ftz)
    })
}

/// Returns `sum` with the correct sign of a zero. A zero from operands that cancel exactly is negative if the rounding is toward
/// -infinity.
fn signed_zero_sum(sum: f64, a: f64, b: f64, rounding: Rounding) -> f64 {
    let is_cancelled = sum == 0.0 && (a != 0.0 || a.is_sign_negative() != b.is_sign_negative());
    if is_cancelled && rounding == Rounding::NegativeInf { -0.0 } else { sum }
}

impl Fma {
    pub(super) fn apply<M: Map3>(self, ty: Scalar, map: M) -> M::Output {
        by_format!(ty, format => self.apply_in_format(format, map))
    }

    /// Applies the multiply-add in the format of its type.
    fn apply_in_format<F: Format, M: Map3>(self, format: F, map: M) -> M::Output {
        let Fma { rounding, ftz } = self;
        let load = |word: F::Word| flush(format.to_f64(word), ftz);
        match (format.ty(), is_not_nearest_even(rounding)) {
            (Scalar::F64, false) => map.map(|a: F::Word, b, c| format.encode_f64(load(a).mul_add(load(b), load(c)))),
            (Scalar::F64, true) => map.map(|a: F::Word, b, c| format.encode_f64(double::fma(load(a), load(b), load(c), rounding))),
            (_, false) => map.map(|a: F::Word, b, c| encode_flushed(format, float::fma_to_odd(load(a), load(b), load(c)), ftz)),
            (_, true) => map.map(|a: F::Word, b, c| {
                let (a, b, c) = (load(a), load(b), load(c));
                round_flushed(format, signed_zero_sum(float::fma_to_odd(a, b, c), a * b, c, rounding), rounding, ftz)
            }),
        }
    }
}

/// Compares floats of type `ty`. The result is 1 or 0.
pub(super) fn compare<M: Map2>(predicate: Predicate, ordered: bool, ty: Scalar, map: M) -> M::Output {
    by_format!(ty, format => compare_in_format(predicate, ordered, format, map))
}

/// Applies a comparison in the format of its type.
fn compare_in_format<F: Format, M: Map2>(predicate: Predicate, ordered: bool, format: F, map: M) -> M::Output {
    match predicate {
        Predicate::Equal => compare_floats(format, map, ordered, |a, b| a == b),
        Predicate::NotEqual => compare_floats(format, map, ordered, |a, b| a != b),
        Predicate::LessThan => compare_floats(format, map, ordered, |a, b| a < b),
        Predicate::LessThanOrEqual => compare_floats(format, map, ordered, |a, b| a <= b),
        Predicate::GreaterThan => compare_floats(format, map, ordered, |a, b| a > b),
        Predicate::GreaterThanOrEqual => compare_floats(format, map, ordered, |a, b| a >= b),
    }
}

/// Compares two floats. If an operand is NaN, an ordered comparison is false, and an unordered comparison is true.
fn compare_floats<F: Format, M: Map2>(format: F, map: M, ordered: bool, holds: impl Fn(f64, f64) -> bool) -> M::Output {
    map.map(|a: F::Word, b: F::Word| {
        let (a, b) = (format.to_f64(a), format.to_f64(b));
        u8::from(if a.is_nan() || b.is_nan() { !ordered } else { holds(a, b) })
    })
}
