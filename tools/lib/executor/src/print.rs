//! Text output. `print_tko` and `assert` print in the form of NVIDIA's implementation. The module also formats tiles for `--trace`
//! and the debugger.

use crate::tile::Tile;
use base::diag::{Diagnostic, Result};
use core_dialect::tile::Elem;
use numerics::{Scalar, float};

/// A conversion of a C format string, such as `%8.2f`.
struct Conversion {
    /// The flag `-`: pads on the right.
    left_aligned: bool,
    /// The flag `+`.
    plus_sign: bool,
    /// The flag of a space before positive numbers.
    space_sign: bool,
    /// The flag `#`.
    alternate: bool,
    /// The flag `0`.
    zero_padded: bool,
    width: usize,
    precision: Option<usize>,
    /// The conversion letter, such as `d` or `f`.
    kind: char,
}

/// Maximum width and precision. Larger numbers in a format string become this number.
const MAX_WIDTH: usize = 4096;

/// Formats tiles by a C format string with one conversion per tile. The elements of a tile with dimensions become a nested list.
pub(crate) fn format(format: &str, args: &[&Tile]) -> Result<String> {
    let mut out = String::new();
    let mut args = args.iter();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (conversion, after) =
            parse_conversion(rest).ok_or_else(|| Diagnostic::invalid("RUN041", "an unknown conversion in a format string"))?;
        let tile = args.next().ok_or_else(|| Diagnostic::invalid("RUN042", "more conversions than values in a format string"))?;
        out.push_str(&format_elements(tile, &|bits| conversion.format_element(tile.elem, bits)));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Parses a conversion after its `%`. Returns the conversion and the text after it.
fn parse_conversion(text: &str) -> Option<(Conversion, &str)> {
    let flags = text.len() - text.trim_start_matches(['-', '+', ' ', '#', '0']).len();
    let (flags, rest) = text.split_at(flags);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (width, mut rest) = rest.split_at(digits(rest));
    let mut precision = None;
    if let Some(after) = rest.strip_prefix('.') {
        let (number, after) = after.split_at(digits(after));
        precision = Some(number.parse().unwrap_or(0).min(MAX_WIDTH));
        rest = after;
    }
    let rest = rest.trim_start_matches(['l', 'h', 'j', 'z', 't', 'L', 'q']);
    let kind = rest.chars().next().filter(|kind| "diuxXocfFeEgGaAps".contains(*kind))?;
    let conversion = Conversion {
        left_aligned: flags.contains('-'),
        plus_sign: flags.contains('+'),
        space_sign: flags.contains(' '),
        alternate: flags.contains('#'),
        zero_padded: flags.contains('0'),
        width: width.parse().unwrap_or(0).min(MAX_WIDTH),
        precision,
        kind,
    };
    Some((conversion, &rest[1..]))
}

impl Conversion {
    /// Formats one element.
    fn format_element(&self, elem: Elem, bits: u64) -> String {
        let ty = elem.carrier();
        let body = match self.kind {
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' | 'p' | 's' => {
                let value = if ty.is_float() { float::decode(ty, bits) as i64 } else { signed_value(ty, bits) };
                self.format_integer(value, bits & ty.mask())
            }
            _ => self.format_float(if ty.is_float() { float::decode(ty, bits) } else { signed_value(ty, bits) as f64 }),
        };
        self.pad(body)
    }

    fn format_integer(&self, value: i64, bits: u64) -> String {
        let prefix = |prefix: &'static str| if self.alternate && bits != 0 { prefix } else { "" };
        match self.kind {
            'u' => bits.to_string(),
            'x' => format!("{}{bits:x}", prefix("0x")),
            'X' => format!("{}{bits:X}", prefix("0X")),
            'o' => format!("{}{bits:o}", prefix("0")),
            'p' => format!("{bits:#x}"),
            'c' => char::from(bits as u8).to_string(),
            _ => self.sign_text(value < 0) + &value.unsigned_abs().to_string(),
        }
    }

    fn sign_text(&self, negative: bool) -> String {
        match (negative, self.plus_sign, self.space_sign) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
        .into()
    }

    fn format_float(&self, value: f64) -> String {
        let magnitude = value.abs();
        let body = match self.kind {
            _ if value.is_nan() => "nan".into(),
            _ if value.is_infinite() => "inf".into(),
            'f' | 'F' => format!("{magnitude:.*}", self.precision.unwrap_or(6)),
            'e' | 'E' => scientific(magnitude, self.precision.unwrap_or(6)),
            'a' | 'A' => format!("{:#x}", magnitude.to_bits()),
            _ => self.format_general(magnitude),
        };
        let body = if self.kind.is_uppercase() { body.to_uppercase() } else { body };
        self.sign_text(value.is_sign_negative() && !value.is_nan()) + &body
    }

    /// `%g`: the shorter of `%f` and `%e`, without trailing zeros.
    fn format_general(&self, magnitude: f64) -> String {
        let digits = self.precision.unwrap_or(6).max(1);
        let exponent: i32 = match format!("{magnitude:.*e}", digits - 1).split_once('e') {
            Some((_, exponent)) => exponent.parse().unwrap_or(0),
            None => 0,
        };
        let trim = |text: String| match text.contains('.') && !self.alternate {
            true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
            false => text,
        };
        if exponent < -4 || exponent >= digits as i32 {
            let text = scientific(magnitude, digits - 1);
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
            return format!("{}e{exponent}", trim(mantissa.into()));
        }
        trim(format!("{magnitude:.*}", (digits as i32 - 1 - exponent).max(0) as usize))
    }

    /// Pads a formatted number to the width of the conversion.
    fn pad(&self, body: String) -> String {
        let padding_width = self.width.saturating_sub(body.len());
        match (self.left_aligned, self.zero_padded) {
            (true, _) => body + &" ".repeat(padding_width),
            (false, true) => {
                let first_digit = body.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(0);
                format!("{}{}{}", &body[..first_digit], "0".repeat(padding_width), &body[first_digit..])
            }
            _ => " ".repeat(padding_width) + &body,
        }
    }
}

/// Returns the value of an integer element. An i1 is 0 or 1. All other types are signed.
fn signed_value(ty: Scalar, bits: u64) -> i64 {
    if ty == Scalar::I1 { (bits & 1) as i64 } else { ty.sign_extend(bits) }
}

/// Formats a number with the exponent as in C: `1.5e+00`, not `1.5e0` as in Rust.
fn scientific(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Formats the elements of a tile as `[[a, b], [c, d]]`; a scalar has no brackets.
fn format_elements(tile: &Tile, element: &dyn Fn(u64) -> String) -> String {
    format_nested_list(&tile.shape, usize::MAX, &|at| element(tile.element_words().get(at)))
}

/// Formats elements as nested lists. Shows at most `max_shown` elements per dimension.
fn format_nested_list(shape: &[u32], max_shown: usize, element: &dyn Fn(usize) -> String) -> String {
    let shape: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    common::launch::nested_list(&shape, max_shown, element)
}

/// Formats a tile for display: its type, and at most six elements per dimension.
pub fn format_tile(tile: &Tile) -> String {
    let (name, ty) = match tile.elem {
        Elem::Scalar(ty) => (ty.name().to_string(), ty),
        Elem::Ptr { pointee, .. } => (format!("ptr<{pointee}>"), Scalar::I64),
    };
    let element = |at: usize| {
        let bits = tile.element_words().get(at);
        match tile.elem {
            Elem::Ptr { .. } => format!("{bits:#x}"),
            _ if ty.is_float() => short_float(float::decode(ty, bits)),
            _ => signed_value(ty, bits).to_string(),
        }
    };
    let extents: Vec<_> = tile.shape.iter().map(u32::to_string).collect();
    let extents = if extents.is_empty() { String::new() } else { format!("[{}]", extents.join(", ")) };
    format!("{name}{extents} {}", format_nested_list(&tile.shape, 6, &element))
}

/// Formats a float with the fewest digits that identify its f32 value. Very large and very small numbers have an exponent.
pub fn short_float(value: f64) -> String {
    let text = format!("{:?}", value as f32);
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// Returns the message of a failed `assert` for the first false element of its condition, and the number of other false elements.
pub(crate) fn failed_assert(condition: &Tile, message: &str, block: [u32; 3]) -> (String, usize) {
    let mut first_message = None;
    let (mut at, mut false_count) = (0, 0);
    crate::tile::shape::for_each_index(&condition.shape, |index| {
        if condition.element_words().get(at) & 1 == 0 {
            first_message.get_or_insert_with(|| format!("tile block: {block:?}, position: {index:?}: {message}"));
            false_count += 1;
        }
        at += 1;
    });
    (first_message.expect("an element is false"), false_count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numerics::arith::ElementWords;

    fn floats(values: &[f32]) -> Tile {
        let element_words = ElementWords::W32(values.iter().map(|value| value.to_bits()).collect());
        Tile::new([values.len() as u32].into_iter().collect(), Elem::Scalar(Scalar::F32), element_words)
    }

    #[test]
    fn conversions_format_as_in_c() {
        let scalar = |value: f32| Tile::scalar(Elem::Scalar(Scalar::F32), value.to_bits().into());
        let format_one = |text: &str, tile: &Tile| format(text, &[tile]).unwrap();
        assert_eq!(format_one("x %f\n", &scalar(1.5)), "x 1.500000\n");
        assert_eq!(format_one("%8.2f|", &scalar(-1.5)), "   -1.50|");
        assert_eq!(format_one("%-8.2f|", &scalar(-1.5)), "-1.50   |");
        assert_eq!(format_one("%08.2f|", &scalar(-1.5)), "-0001.50|");
        assert_eq!(format_one("%e", &scalar(12345.0)), "1.234500e+04");
        assert_eq!(format_one("%g", &scalar(0.0001)), "0.0001");
        assert_eq!(format_one("%g", &scalar(1e10)), "1e+10");
        assert_eq!(format_one("100%% %d", &Tile::i32(-3)), "100% -3");
        assert_eq!(format_one("%x %%", &Tile::i32(-1)), "ffffffff %");
        assert_eq!(format_one("tile %f", &floats(&[1.0, 2.0])), "tile [1.000000, 2.000000]");
        assert!(format("%d", &[]).is_err() && format("%k", &[&Tile::i32(1)]).is_err());
    }

    #[test]
    fn long_tiles_are_shortened() {
        let tile = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(format_tile(&tile), "f32[8] [1, 2, 3, ..., 6, 7, 8]");
        let extremes = floats(&[-0.5, f32::MAX, f32::MIN_POSITIVE, f32::NEG_INFINITY, f32::NAN]);
        assert_eq!(format_tile(&extremes), "f32[5] [-0.5, 3.4028235e38, 1.1754944e-38, -inf, NaN]");
    }
}
