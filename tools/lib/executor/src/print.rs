//! Text output: `print_tko` and `assert` in the form of the reference implementation, and tiles for display.

use crate::tile::Tile;
use base::diag::{Diagnostic, Result};
use core_dialect::tile::Elem;
use numerics::{Scalar, float};

/// A conversion of a C format string.
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    kind: char,
}

/// The widest field that a format string may request.
const MOST_WIDTH: usize = 4096;

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
            parse(rest).ok_or_else(|| Diagnostic::invalid("RUN041", "an unknown conversion in a format string"))?;
        let tile = args.next().ok_or_else(|| Diagnostic::invalid("RUN042", "more conversions than values in a format string"))?;
        out.push_str(&nested(tile, &|bits| conversion.apply(tile.elem, bits)));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn parse(text: &str) -> Option<(Conversion, &str)> {
    let flags = text.len() - text.trim_start_matches(['-', '+', ' ', '#', '0']).len();
    let (flags, rest) = text.split_at(flags);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (width, mut rest) = rest.split_at(digits(rest));
    let mut precision = None;
    if let Some(after) = rest.strip_prefix('.') {
        let (number, after) = after.split_at(digits(after));
        precision = Some(number.parse().unwrap_or(0).min(MOST_WIDTH));
        rest = after;
    }
    let rest = rest.trim_start_matches(['l', 'h', 'j', 'z', 't', 'L', 'q']);
    let kind = rest.chars().next().filter(|kind| "diuxXocfFeEgGaAps".contains(*kind))?;
    let conversion = Conversion {
        left: flags.contains('-'),
        plus: flags.contains('+'),
        space: flags.contains(' '),
        alternate: flags.contains('#'),
        zero: flags.contains('0'),
        width: width.parse().unwrap_or(0).min(MOST_WIDTH),
        precision,
        kind,
    };
    Some((conversion, &rest[1..]))
}

impl Conversion {
    fn apply(&self, elem: Elem, bits: u64) -> String {
        let ty = elem.carrier();
        let body = match self.kind {
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' | 'p' | 's' => {
                let value = if ty.is_float() { float::decode(ty, bits) as i64 } else { signed(ty, bits) };
                self.integer(value, bits & ty.mask())
            }
            _ => self.float(if ty.is_float() { float::decode(ty, bits) } else { signed(ty, bits) as f64 }),
        };
        self.pad(body)
    }

    fn integer(&self, value: i64, bits: u64) -> String {
        let prefix = |prefix: &'static str| if self.alternate && bits != 0 { prefix } else { "" };
        match self.kind {
            'u' => bits.to_string(),
            'x' => format!("{}{bits:x}", prefix("0x")),
            'X' => format!("{}{bits:X}", prefix("0X")),
            'o' => format!("{}{bits:o}", prefix("0")),
            'p' => format!("{bits:#x}"),
            'c' => char::from(bits as u8).to_string(),
            _ => self.sign(value < 0) + &value.unsigned_abs().to_string(),
        }
    }

    fn sign(&self, negative: bool) -> String {
        match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
        .into()
    }

    fn float(&self, value: f64) -> String {
        let magnitude = value.abs();
        let body = match self.kind {
            _ if value.is_nan() => "nan".into(),
            _ if value.is_infinite() => "inf".into(),
            'f' | 'F' => format!("{magnitude:.*}", self.precision.unwrap_or(6)),
            'e' | 'E' => scientific(magnitude, self.precision.unwrap_or(6)),
            'a' | 'A' => format!("{:#x}", magnitude.to_bits()),
            _ => self.general(magnitude),
        };
        let body = if self.kind.is_uppercase() { body.to_uppercase() } else { body };
        self.sign(value.is_sign_negative() && !value.is_nan()) + &body
    }

    /// `%g`: the shorter of `%f` and `%e`, without trailing zeros.
    fn general(&self, magnitude: f64) -> String {
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

    fn pad(&self, body: String) -> String {
        let missing = self.width.saturating_sub(body.len());
        match (self.left, self.zero) {
            (true, _) => body + &" ".repeat(missing),
            (false, true) => {
                let digits = body.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(0);
                format!("{}{}{}", &body[..digits], "0".repeat(missing), &body[digits..])
            }
            _ => " ".repeat(missing) + &body,
        }
    }
}

/// Reads i1 as 0 or 1 and all other types as signed.
fn signed(ty: Scalar, bits: u64) -> i64 {
    if ty == Scalar::I1 { (bits & 1) as i64 } else { ty.sign_extend(bits) }
}

/// Formats an exponent as C does. Rust writes `1.5e0` where C writes `1.5e+00`.
fn scientific(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Formats a tile as `[[a, b], [c, d]]`; a scalar has no brackets.
fn nested(tile: &Tile, element: &dyn Fn(u64) -> String) -> String {
    list(&tile.shape, usize::MAX, &|at| element(tile.lanes().get(at)))
}

/// Formats elements as nested lists with at most `most` elements per dimension.
fn list(shape: &[u32], most: usize, element: &dyn Fn(usize) -> String) -> String {
    let shape: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    common::launch::nested_list(&shape, most, element)
}

/// Formats a tile for display: type and elements, with long dimensions shortened.
pub fn shortened(tile: &Tile) -> String {
    let (name, ty) = match tile.elem {
        Elem::Scalar(ty) => (ty.name().to_string(), ty),
        Elem::Ptr { pointee, .. } => (format!("ptr<{pointee}>"), Scalar::I64),
    };
    let element = |at: usize| {
        let bits = tile.lanes().get(at);
        match tile.elem {
            Elem::Ptr { .. } => format!("{bits:#x}"),
            _ if ty.is_float() => short_float(float::decode(ty, bits)),
            _ => signed(ty, bits).to_string(),
        }
    };
    let extents: Vec<_> = tile.shape.iter().map(u32::to_string).collect();
    let extents = if extents.is_empty() { String::new() } else { format!("[{}]", extents.join(", ")) };
    format!("{name}{extents} {}", list(&tile.shape, 6, &element))
}

/// Formats a float with the fewest digits that identify it, with an exponent if it is very large or very small.
pub fn short_float(value: f64) -> String {
    let text = format!("{:?}", value as f32);
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// Formats the first false element of a condition. Also returns the number of other false elements.
pub(crate) fn failed_assert(condition: &Tile, message: &str, block: [u32; 3]) -> (String, usize) {
    let mut first = None;
    let (mut at, mut failed) = (0, 0);
    crate::tile::shape::for_each_index(&condition.shape, |index| {
        if condition.lanes().get(at) & 1 == 0 {
            first.get_or_insert_with(|| format!("tile block: {block:?}, position: {index:?}: {message}"));
            failed += 1;
        }
        at += 1;
    });
    (first.expect("an element is false"), failed - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numerics::arith::Lanes;

    fn floats(values: &[f32]) -> Tile {
        let lanes = Lanes::W32(values.iter().map(|value| value.to_bits()).collect());
        Tile::new([values.len() as u32].into_iter().collect(), Elem::Scalar(Scalar::F32), lanes)
    }

    #[test]
    fn formats_as_c_does() {
        let scalar = |value: f32| Tile::scalar(Elem::Scalar(Scalar::F32), value.to_bits().into());
        let one = |text: &str, tile: &Tile| format(text, &[tile]).unwrap();
        assert_eq!(one("x %f\n", &scalar(1.5)), "x 1.500000\n");
        assert_eq!(one("%8.2f|", &scalar(-1.5)), "   -1.50|");
        assert_eq!(one("%-8.2f|", &scalar(-1.5)), "-1.50   |");
        assert_eq!(one("%08.2f|", &scalar(-1.5)), "-0001.50|");
        assert_eq!(one("%e", &scalar(12345.0)), "1.234500e+04");
        assert_eq!(one("%g", &scalar(0.0001)), "0.0001");
        assert_eq!(one("%g", &scalar(1e10)), "1e+10");
        assert_eq!(one("100%% %d", &Tile::i32(-3)), "100% -3");
        assert_eq!(one("%x %%", &Tile::i32(-1)), "ffffffff %");
        assert_eq!(one("tile %f", &floats(&[1.0, 2.0])), "tile [1.000000, 2.000000]");
        assert!(format("%d", &[]).is_err() && format("%k", &[&Tile::i32(1)]).is_err());
    }

    #[test]
    fn long_tiles_are_shortened() {
        let tile = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(shortened(&tile), "f32[8] [1, 2, 3, ..., 6, 7, 8]");
        let extremes = floats(&[-0.5, f32::MAX, f32::MIN_POSITIVE, f32::NEG_INFINITY, f32::NAN]);
        assert_eq!(shortened(&extremes), "f32[5] [-0.5, 3.4028235e38, 1.1754944e-38, -inf, NaN]");
    }
}
