//! Floats as text. Invariant: printed text reads back to the same bits. The text has six digits if six digits identify the float.
//! Otherwise the text has as many digits as floats of the type can need. If these digits have no point, the text is the hexadecimal
//! bits instead.

use numerics::arith::Rounding;
use numerics::{Scalar, float};

/// A value as decimal digits, most significant first, times a power of ten.
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i32,
}

/// Returns the text of a float, as NVIDIA's printer writes it.
pub fn float_text(scalar: Scalar, bits: u64) -> String {
    let value = float::decode(scalar, bits);
    if value.is_finite() {
        let short = scientific_text(&Decimal::from_float(value, 6), 6);
        if parse_float(scalar, &short) == Some(bits) {
            return short;
        }
        let digits = 2 + precision_bits(scalar) as usize * 59 / 196;
        let long = plain_or_scientific_text(&Decimal::from_float(value, digits), digits);
        if long.contains('.') {
            return long;
        }
    }
    format!("0x{:X}", if scalar == Scalar::TF32 { bits >> 13 } else { bits })
}

/// Returns the bits of a float from decimal or hexadecimal text.
pub fn parse_float(scalar: Scalar, text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(hex, 16).ok()?;
        let width = if scalar == Scalar::TF32 { 19 } else { scalar.bits() };
        let shift = if scalar == Scalar::TF32 { 13 } else { 0 };
        return (width == 64 || bits >> width == 0).then_some(bits << shift);
    }
    let value: f64 = text.parse().ok()?;
    Some(match scalar {
        Scalar::F64 => value.to_bits(),
        Scalar::F32 => u64::from(text.parse::<f32>().ok()?.to_bits()),
        _ => float::encode(scalar, value, Rounding::NearestEven, float::OverflowResult::Ieee),
    })
}

/// The number of significant bits of a float type, with the implicit leading bit.
fn precision_bits(scalar: Scalar) -> u32 {
    let mantissa = scalar.float_format().map_or(0, |format| format.mantissa_bits);
    if scalar == Scalar::TF32 { 11 } else { mantissa + 1 }
}

/// Adds one in the last place of a decimal number, and drops the zeros at its end. Returns the number of dropped places.
fn increment(digits: &mut Vec<u8>) -> i32 {
    let length = digits.len();
    while digits.last() == Some(&b'9') {
        digits.pop();
    }
    match digits.last_mut() {
        Some(digit) => *digit += 1,
        None => {
            digits.push(b'1');
            return length as i32;
        }
    }
    (length - digits.len()) as i32
}

/// A finite value as an odd integer times a power of two.
fn odd_mantissa(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7FF) as i32);
    let (mantissa, exponent) = if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    match mantissa {
        0 => (0, 0),
        _ => (mantissa >> mantissa.trailing_zeros(), exponent + mantissa.trailing_zeros() as i32),
    }
}

impl Decimal {
    /// The value with at most `limit` digits, without trailing zeros.
    ///
    /// The function rounds like NVIDIA's printer, which uses LLVM's `APFloat::toString`. The value is truncated to the bits that
    /// `limit` digits need. The remaining digits are then rounded half away from zero. 59 / 196 approximates log10(2), the number
    /// of digits per bit.
    fn from_float(value: f64, limit: usize) -> Decimal {
        let is_negative = value.is_sign_negative();
        let (mantissa, exponent) = odd_mantissa(value.abs());
        if mantissa == 0 {
            return Decimal { is_negative, digits: vec![b'0'], exponent: 0 };
        }
        // The value as an integer times a power of ten; Rust prints all its digits.
        let places = (-exponent).max(0) as usize;
        let mut digits: Vec<u8> = format!("{:.places$}", value.abs()).bytes().filter(u8::is_ascii_digit).collect();
        let leading_zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading_zeros);
        let mut exponent_of_ten = -(places as i32);

        let value_bits = match exponent {
            0.. => 64 - mantissa.leading_zeros() as usize + exponent as usize,
            _ => ((mantissa as f64).log2() + places as f64 * 5f64.log2()).floor() as usize + 1,
        };
        let needed_bits = (limit * 196).div_ceil(59);
        let dropped_digits = value_bits.saturating_sub(needed_bits) * 59 / 196;
        digits.truncate(digits.len() - dropped_digits);
        exponent_of_ten += dropped_digits as i32;
        if digits.len() > limit {
            exponent_of_ten += (digits.len() - limit) as i32;
            let round_up = digits[limit] >= b'5';
            digits.truncate(limit);
            if round_up {
                exponent_of_ten += increment(&mut digits);
            }
        }
        while digits.len() > 1 && digits.last() == Some(&b'0') {
            digits.pop();
            exponent_of_ten += 1;
        }
        Decimal { is_negative, digits, exponent: exponent_of_ten }
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|digit| *digit == b'0')
    }
    /// The digits from index `from` up to `to`, without `to`.
    fn digit_text(&self, from: usize, to: usize) -> &str {
        std::str::from_utf8(&self.digits[from..to]).expect("digits are ASCII")
    }
    fn sign(&self) -> &'static str {
        if self.is_negative { "-" } else { "" }
    }
}

/// Returns `d.dddddde+xx` with `places` digits after the point.
fn scientific_text(decimal: &Decimal, places: usize) -> String {
    let count = decimal.digits.len();
    let exponent = if decimal.is_zero() { 0 } else { decimal.exponent + count as i32 - 1 };
    // The last place is always zero: a value of six digits has five after the point, and NVIDIA's printer pads them to six.
    let fraction = decimal.digit_text(1, count);
    format!("{}{}.{fraction:0<places$}e{exponent:+03}", decimal.sign(), decimal.digit_text(0, 1))
}

/// Returns plain notation if it needs at most three zeros of padding, otherwise `d.dddE-x`.
fn plain_or_scientific_text(decimal: &Decimal, precision: usize) -> String {
    const MAX_PADDING_ZEROS: i32 = 3;
    if decimal.is_zero() {
        return format!("{}0", decimal.sign());
    }
    let count = decimal.digits.len();
    let leading_exponent = decimal.exponent + count as i32 - 1;
    let uses_exponent = if decimal.exponent >= 0 {
        decimal.exponent > MAX_PADDING_ZEROS || count + decimal.exponent as usize > precision
    } else {
        leading_exponent < 0 && -leading_exponent > MAX_PADDING_ZEROS
    };
    let sign = decimal.sign();
    if uses_exponent {
        let fraction = if count == 1 { "0" } else { decimal.digit_text(1, count) };
        return format!("{sign}{}.{fraction}E{leading_exponent:+}", decimal.digit_text(0, 1));
    }
    if decimal.exponent >= 0 {
        return format!("{sign}{}{}", decimal.digit_text(0, count), "0".repeat(decimal.exponent as usize));
    }
    if leading_exponent >= 0 {
        let integer_digits = leading_exponent as usize + 1;
        return format!("{sign}{}.{}", decimal.digit_text(0, integer_digits), decimal.digit_text(integer_digits, count));
    }
    format!("{sign}0.{}{}", "0".repeat((-leading_exponent) as usize - 1), decimal.digit_text(0, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32_text(value: f32) -> String {
        float_text(Scalar::F32, u64::from(value.to_bits()))
    }

    #[test]
    fn floats_have_six_digits_if_these_suffice() {
        assert_eq!(f32_text(0.0), "0.000000e+00");
        assert_eq!(f32_text(-0.0), "-0.000000e+00");
        assert_eq!(f32_text(-1e30), "-1.000000e+30");
        assert_eq!(f32_text(2.5), "2.500000e+00");
        assert_eq!(float_text(Scalar::F8E8M0FNU, 0), "5.877470e-39");
    }

    #[test]
    fn floats_have_more_digits_if_six_do_not_suffice() {
        assert_eq!(f32_text(1e-5), "9.99999974E-6");
        assert_eq!(f32_text(f32::from_bits(0xbd82_0821)), "-0.0634920672");
        assert_eq!(f32_text(3.3650794), "3.3650794");
    }

    #[test]
    fn infinities_and_nans_are_hexadecimal_bits() {
        assert_eq!(f32_text(f32::NEG_INFINITY), "0xFF800000");
        assert_eq!(float_text(Scalar::F64, f64::NAN.to_bits()), "0x7FF8000000000000");
    }

    #[test]
    fn texts_of_sampled_floats_read_back_to_the_same_bits() {
        for scalar in Scalar::ALL.iter().copied().filter(|scalar| scalar.is_float()) {
            let step = (scalar.mask() / 977).max(1);
            let shift = if scalar == Scalar::TF32 { 13 } else { 0 };
            for bits in (0..=977).map(|i| (i * step & scalar.mask()) >> shift << shift) {
                let text = float_text(scalar, bits);
                assert_eq!(parse_float(scalar, &text), Some(bits), "{scalar} {text}");
            }
        }
    }
}
