//! `f64` arithmetic that rounds once in any direction. The host's arithmetic rounds to nearest even only.
//!
//! An intermediate result has a 128-bit significand. Its lowest bit is sticky: the OR of itself and all dropped bits. Types of at
//! most 32 bits do not need this module, because an `f64` with a sticky last bit is wide enough for them.

use super::Rounding;

/// The number `significand * 2^exponent`, with the sign `negative`.
#[derive(Clone, Copy)]
struct Intermediate {
    negative: bool,
    exponent: i32,
    significand: u128,
}

/// The position of the highest bit of the operands' significands in an addition. The higher bits are free for the carry.
const SUM_TOP_BIT: u32 = 125;

impl Intermediate {
    /// Decodes a finite `f64`.
    fn decode(x: f64) -> Intermediate {
        let bits = x.to_bits();
        let (exponent, significand) = match (bits >> 52 & 0x7ff) as i32 {
            0 => (-1074, bits & ((1 << 52) - 1)),
            biased => (biased - 1075, bits & ((1 << 52) - 1) | 1 << 52),
        };
        Intermediate { negative: x.is_sign_negative(), exponent, significand: significand.into() }
    }

    /// Returns the same value, with the highest bit of its significand at position `top`.
    fn with_top_bit_at(self, top: u32) -> Intermediate {
        let shift = self.significand.leading_zeros() - (127 - top);
        Intermediate { significand: self.significand << shift, exponent: self.exponent - shift as i32, ..self }
    }

    /// Returns the exact product of two numbers whose significands have at most 64 bits.
    fn product(self, other: Intermediate) -> Intermediate {
        Intermediate {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent,
            significand: self.significand * other.significand,
        }
    }

    /// Returns the sum, with a sticky lowest bit. Returns `None` if operands with different signs cancel to zero. The sign of this
    /// zero depends on the rounding.
    fn sum(self, other: Intermediate) -> Option<Intermediate> {
        match (self.significand, other.significand) {
            (0, 0) => return (self.negative == other.negative).then_some(self),
            (0, _) => return Some(other),
            (_, 0) => return Some(self),
            _ => {}
        }
        let (a, b) = (self.with_top_bit_at(SUM_TOP_BIT), other.with_top_bit_at(SUM_TOP_BIT));
        let (large, small) = if (a.exponent, a.significand) >= (b.exponent, b.significand) { (a, b) } else { (b, a) };
        let addend = shift_right_sticky(small.significand, large.exponent.abs_diff(small.exponent));
        let same_sign = a.negative == b.negative;
        let significand = if same_sign { large.significand + addend } else { large.significand - addend };
        (significand != 0).then_some(Intermediate { significand, ..large })
    }

    /// Returns the quotient, with a sticky lowest bit.
    fn quotient(self, other: Intermediate) -> Intermediate {
        let (a, b) = (self.with_top_bit_at(127), other.with_top_bit_at(63));
        let sticky = u128::from(!a.significand.is_multiple_of(b.significand));
        Intermediate {
            negative: a.negative != b.negative,
            exponent: a.exponent - b.exponent,
            significand: (a.significand / b.significand) | sticky,
        }
    }

    /// Returns the square root of a positive number, with a sticky lowest bit.
    fn square_root(self) -> Intermediate {
        let top = if self.with_top_bit_at(127).exponent % 2 == 0 { 127 } else { 126 };
        let x = self.with_top_bit_at(top);
        let root = x.significand.isqrt();
        let sticky = u128::from(root * root != x.significand);
        // The shift adds a lowest bit to the root. This bit is the sticky bit.
        Intermediate { negative: false, exponent: x.exponent / 2 - 1, significand: root << 1 | sticky }
    }

    /// Rounds once to an `f64`.
    fn round(self, rounding: Rounding) -> f64 {
        let sign = if self.negative { -1.0 } else { 1.0 };
        if self.significand == 0 {
            return 0.0f64.copysign(sign);
        }
        let top = self.exponent + 127 - self.significand.leading_zeros() as i32;
        if top > 1023 {
            return overflow_result(rounding, self.negative).copysign(sign);
        }
        let exponent = top.max(-1022);
        let shift = exponent - 52 - self.exponent;
        // Two guard bits below the kept bits show how the dropped part compares with half of the last kept bit.
        let with_guard_bits =
            if shift < 2 { self.significand << (2 - shift) } else { shift_right_sticky(self.significand, shift as u32 - 2) };
        let (kept, guard_bits) = (with_guard_bits as u64 >> 2, with_guard_bits as u64 & 3);
        let rounds_up = match rounding {
            Rounding::Zero | Rounding::NearestIntToZero => false,
            Rounding::NegativeInf => self.negative && guard_bits != 0,
            Rounding::PositiveInf => !self.negative && guard_bits != 0,
            Rounding::NearestAway => guard_bits >= 2,
            Rounding::NearestEven | Rounding::Approx | Rounding::Full => guard_bits > 2 || guard_bits == 2 && kept & 1 == 1,
        };
        // The addition carries the hidden bit and a rounding carry into the exponent.
        let magnitude = f64::from_bits((((exponent + 1022) as u64) << 52) + kept + u64::from(rounds_up));
        if magnitude.is_infinite() { overflow_result(rounding, self.negative).copysign(sign) } else { magnitude.copysign(sign) }
    }
}

/// Shifts right. The lowest bit of the result is sticky: if the shift drops a bit that is 1, the lowest bit is 1.
fn shift_right_sticky(value: u128, shift: u32) -> u128 {
    match shift {
        0 => value,
        1..=127 => value >> shift | u128::from(value << (128 - shift) != 0),
        _ => u128::from(value != 0),
    }
}

/// Returns the magnitude that replaces a result above the largest finite number.
fn overflow_result(rounding: Rounding, negative: bool) -> f64 {
    match rounding {
        Rounding::Zero | Rounding::NearestIntToZero => f64::MAX,
        Rounding::NegativeInf if !negative => f64::MAX,
        Rounding::PositiveInf if negative => f64::MAX,
        _ => f64::INFINITY,
    }
}

/// Rounds a result of [`Intermediate::sum`]. `None` is a zero whose sign depends on the rounding.
fn round_sum(sum: Option<Intermediate>, rounding: Rounding) -> f64 {
    let zero = if rounding == Rounding::NegativeInf { -0.0 } else { 0.0 };
    sum.map_or(zero, |sum| sum.round(rounding))
}

// For infinite and NaN operands and for divisions by zero, the functions below use the host's result. Reason: these results do not
// depend on the rounding.

pub(super) fn add(a: f64, b: f64, rounding: Rounding) -> f64 {
    match (a.is_finite(), b.is_finite()) {
        (true, true) => round_sum(Intermediate::decode(a).sum(Intermediate::decode(b)), rounding),
        _ => a + b,
    }
}

pub(super) fn mul(a: f64, b: f64, rounding: Rounding) -> f64 {
    match (a.is_finite(), b.is_finite()) {
        (true, true) => Intermediate::decode(a).product(Intermediate::decode(b)).round(rounding),
        _ => a * b,
    }
}

pub(super) fn fma(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    match (a.is_finite() && b.is_finite(), c.is_finite()) {
        (true, true) => round_sum(Intermediate::decode(a).product(Intermediate::decode(b)).sum(Intermediate::decode(c)), rounding),
        (true, false) => c,
        _ => a * b + c,
    }
}

pub(super) fn div(a: f64, b: f64, rounding: Rounding) -> f64 {
    match a.is_finite() && a != 0.0 && b.is_finite() && b != 0.0 {
        true => Intermediate::decode(a).quotient(Intermediate::decode(b)).round(rounding),
        false => a / b,
    }
}

pub(super) fn sqrt(x: f64, rounding: Rounding) -> f64 {
    if x.is_finite() && x > 0.0 { Intermediate::decode(x).square_root().round(rounding) } else { x.sqrt() }
}

pub(super) fn from_int(value: i128, rounding: Rounding) -> f64 {
    Intermediate { negative: value < 0, exponent: 0, significand: value.unsigned_abs() }.round(rounding)
}
