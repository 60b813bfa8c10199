//! Numbers in text: `-1`, `0.5`, `1e-5[0x3727C5AC]`.
//!
//! Integers are signed decimal numbers. The text of a float is the shortest decimal number that identifies the float among all
//! `f32` values (all `f64` values for type `f64`). If this number differs from the exact value, the bits of the float follow in
//! brackets, and the parser uses the bits. The text of an infinity or a NaN is only the bits.

use crate::arith::Rounding;
use crate::float;
use crate::scalar::Scalar;

/// Returns the text of a value with these bits.
pub fn print(scalar: Scalar, bits: u64) -> String {
    if scalar.is_int() {
        return match scalar {
            Scalar::I1 => (bits & 1 == 1).to_string(),
            _ => scalar.sign_extend(bits).to_string(),
        };
    }
    let value = float::decode(scalar, bits);
    let hex = format!("0x{bits:X}");
    if !value.is_finite() {
        return hex;
    }
    let decimal = if scalar == Scalar::F64 { format!("{value:?}") } else { format!("{:?}", value as f32) };
    match parse_decimal(scalar, &decimal) {
        Some(read) if read == bits && is_exact(&decimal, value) => decimal,
        Some(read) if read == bits => format!("{decimal}[{hex}]"),
        _ => hex,
    }
}

/// Parses the output of [`print()`], or a number that a person wrote, and returns its bits. Rounds a float to nearest even. Returns
/// `None` if the text is not a number of the type, or if the decimal number does not round to the bits in brackets.
pub fn parse(scalar: Scalar, text: &str) -> Option<u64> {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().filter(|bits| bits & !scalar.mask() == 0);
    if text.starts_with("0x") {
        return hex(text);
    }
    match text {
        "true" | "false" => return (scalar == Scalar::I1).then_some(u64::from(text == "true")),
        _ if scalar.is_int() => {
            let value: i128 = text.parse().ok()?;
            let limit = 1i128 << scalar.bits();
            return (-limit / 2..limit).contains(&value).then_some(value as u64 & scalar.mask());
        }
        _ => {}
    }
    match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((decimal, bits)) => hex(bits).filter(|bits| parse_decimal(scalar, decimal) == Some(*bits)),
        None => parse_decimal(scalar, text),
    }
}

/// Returns the bits of the float that is nearest to a decimal number, or `None` if the text is not a decimal number.
fn parse_decimal(scalar: Scalar, decimal: &str) -> Option<u64> {
    if !decimal.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    Some(match scalar {
        Scalar::F64 => decimal.parse::<f64>().ok()?.to_bits(),
        Scalar::F32 => u64::from(decimal.parse::<f32>().ok()?.to_bits()),
        _ => float::encode(scalar, decimal.parse().ok()?, Rounding::NearestEven, float::OverflowResult::Ieee),
    })
}

/// Returns whether a decimal number, as Rust prints an `f64`, equals the value exactly.
fn is_exact(decimal: &str, value: f64) -> bool {
    let (mantissa, exponent) = decimal.trim_start_matches('-').split_once('e').unwrap_or((decimal.trim_start_matches('-'), "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let (Ok(digits), Ok(exponent)) = (format!("{whole}{fraction}").parse::<u128>(), exponent.parse::<i32>()) else { return false };
    let tens = exponent - fraction.len() as i32;
    let (odd, twos) = odd_mantissa(value.abs());
    // Compares digits * 10^tens with odd * 2^twos. Negative powers move to the other side of the equation.
    let scaled = |number: u128, base: u128, power: i32| number.checked_mul(base.checked_pow(power.max(0) as u32)?);
    let left = scaled(digits, 10, tens).and_then(|number| scaled(number, 2, -twos));
    let right = scaled(u128::from(odd), 2, twos).and_then(|number| scaled(number, 10, -tens));
    left.is_some() && left == right
}

/// Returns the odd integer and the exponent of 2 whose product is a finite value, or `(0, 0)` for zero.
fn odd_mantissa(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7FF) as i32);
    let (mantissa, exponent) = if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    match mantissa {
        0 => (0, 0),
        _ => (mantissa >> mantissa.trailing_zeros(), exponent + mantissa.trailing_zeros() as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_literals_print_and_parse() {
        let cases = [
            (Scalar::I32, 0xFFFF_FFFF, "-1"),
            (Scalar::I1, 1, "true"),
            (Scalar::I64, 42, "42"),
            (Scalar::F32, 0x3F00_0000, "0.5"),
            (Scalar::F32, 0x8000_0000, "-0.0"),
            (Scalar::F32, 0x3DCC_CCCD, "0.1[0x3DCCCCCD]"),
            (Scalar::F32, 0xFF80_0000, "0xFF800000"),
            (Scalar::F64, 0x3FF0_0000_0000_0000, "1.0"),
            (Scalar::F16, 0x3C00, "1.0"),
        ];
        for (scalar, bits, text) in cases {
            assert_eq!(print(scalar, bits), text);
            assert_eq!(parse(scalar, text), Some(bits), "{text}");
        }
        assert_eq!(parse(Scalar::F32, "0.1"), Some(0x3DCC_CCCD));
        assert_eq!(parse(Scalar::F32, "0.2[0x3DCCCCCD]"), None, "the number was edited and the bits were not");
        assert_eq!(parse(Scalar::I8, "300"), None);
        assert_eq!(parse(Scalar::F32, "inf"), None);
    }

    #[test]
    fn all_values_of_small_types_round_trip() {
        for scalar in Scalar::ALL.iter().copied().filter(|scalar| scalar.bits() <= 16) {
            for bits in 0..=scalar.mask() {
                assert_eq!(parse(scalar, &print(scalar, bits)), Some(bits), "{scalar} {bits:#x}");
            }
        }
    }

    #[test]
    fn random_values_of_wide_types_round_trip() {
        let mut bits = 1u64;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            for scalar in [Scalar::F32, Scalar::F64, Scalar::I32, Scalar::I64] {
                let value = (bits ^ bits >> 29) & scalar.mask();
                assert_eq!(parse(scalar, &print(scalar, value)), Some(value), "{scalar} {value:#x}");
            }
        }
    }
}
