//! `vprintf`, to which device compilers lower `printf`. The format string and the argument buffer are in memory. The buffer has the
//! layout of C's variadic arguments.

use crate::address_space::{LOCAL_BASE, PARAM_BASE, SHARED_BASE};
use crate::fault::{Fault, Result};
use crate::lanes::WARP_SIZE;
use crate::machine::Machine;
use crate::warp::Warp;

/// Maximum number of bytes of a format string or a string argument.
const STRING_LIMIT: u64 = 1 << 16;
/// Maximum number of bytes that a run prints.
const PRINT_LIMIT: usize = 64 << 20;

impl Machine<'_> {
    /// Executes `vprintf` for one lane. Returns the number of printed arguments.
    pub(super) fn vprintf(&mut self, warp: &Warp, lane: usize, format: u64, arguments: u64) -> Result<u64> {
        let format = self.read_string(warp, lane, format)?;
        let mut argument_address = arguments;
        let mut printed = 0;
        let mut rest = &*format;
        let mut out = Vec::new();
        while let Some(percent) = rest.iter().position(|&byte| byte == b'%')
            && out.len() <= PRINT_LIMIT
        {
            out.extend_from_slice(&rest[..percent]);
            rest = &rest[percent + 1..];
            let length = rest.iter().position(|byte| byte.is_ascii_alphabetic() && !b"hlLqjzt".contains(byte) || *byte == b'%');
            let Some(length) = length else { break };
            let (directive, conversion) = (&rest[..length], rest[length]);
            rest = &rest[length + 1..];
            if conversion == b'%' {
                out.push(b'%');
                continue;
            }
            let long = directive.iter().any(|byte| b"lqjzt".contains(byte));
            let bytes = if long || b"feEgGaAsp".contains(&conversion) { 8 } else { 4 };
            argument_address = argument_address.checked_next_multiple_of(bytes).unwrap_or(0);
            let value = self.read_argument(warp, lane, argument_address, bytes)?;
            argument_address = argument_address.wrapping_add(bytes);
            printed += 1;
            let text = match conversion {
                b's' => String::from_utf8_lossy(&self.read_string(warp, lane, value)?).into_owned(),
                _ => format_conversion(directive, conversion, value, bytes),
            };
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(rest);
        if self.printed.len() + out.len() > PRINT_LIMIT {
            return Err(Fault::unsupported(format!("more than {PRINT_LIMIT} bytes of printed text")));
        }
        self.printed.extend_from_slice(&out);
        Ok(printed)
    }

    /// Reads an argument of `vprintf` from the argument buffer.
    fn read_argument(&mut self, warp: &Warp, lane: usize, address: u64, bytes: u64) -> Result<u64> {
        let mut value = [0; 8];
        for (index, byte) in value.iter_mut().enumerate().take(bytes as usize) {
            *byte = self.read_byte(warp, lane, address + index as u64)?;
        }
        Ok(u64::from_le_bytes(value))
    }
    /// Reads a byte of the lane's local memory or of global memory. A fault reports other spaces.
    fn read_byte(&mut self, warp: &Warp, lane: usize, address: u64) -> Result<u8> {
        let local = self.program.local_bytes;
        match address >> 32 << 32 {
            LOCAL_BASE if (address as u32) < local && warp.local_memory.len() == local as usize * WARP_SIZE => {
                Ok(warp.local_memory[lane * local as usize + address as u32 as usize])
            }
            LOCAL_BASE | SHARED_BASE | PARAM_BASE => {
                Err(Fault::new("SIM010", "vprintf reads memory of a space that it does not support"))
            }
            _ => Ok(self.global.read(address, 1)?[0]),
        }
    }
    /// Reads a string up to its terminating zero byte.
    fn read_string(&mut self, warp: &Warp, lane: usize, address: u64) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        for offset in 0..STRING_LIMIT {
            match self.read_byte(warp, lane, address + offset)? {
                0 => return Ok(text),
                byte => text.push(byte),
            }
        }
        Err(Fault::new("SIM010", "a printed string is not terminated"))
    }
}

/// Formats one argument of `bytes` bytes for a C conversion. `directive` has the flags, the width and the precision.
fn format_conversion(directive: &[u8], conversion: u8, value: u64, bytes: u64) -> String {
    let digits = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<usize>().ok()).map(|n| n.min(1000));
    let spec: Vec<u8> = directive.iter().copied().filter(|byte| !byte.is_ascii_alphabetic()).collect();
    let (width, precision) = match spec.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&spec[..dot], Some(digits(&spec[dot + 1..]).unwrap_or(0))),
        None => (&spec[..], None),
    };
    let start = width.iter().position(|byte| byte.is_ascii_digit() && *byte != b'0').unwrap_or(width.len());
    let (flags, width) = (&width[..start], digits(&width[start..]).unwrap_or(0));
    let signed = if bytes == 8 { value as i64 } else { i64::from(value as i32) };
    let float = f64::from_bits(value);
    let body = match conversion {
        b'd' | b'i' => signed.to_string(),
        b'u' => value.to_string(),
        b'x' => format!("{value:x}"),
        b'X' => format!("{value:X}"),
        b'o' => format!("{value:o}"),
        b'p' => format!("{value:#x}"),
        b'c' => char::from(value as u8).to_string(),
        b'f' | b'F' if float.is_finite() => format!("{float:.*}", precision.unwrap_or(6)),
        b'e' | b'E' | b'g' | b'G' if float.is_finite() => format_scientific(conversion, float, precision.unwrap_or(6)),
        _ if float.is_nan() => (if float.is_sign_negative() { "-nan" } else { "nan" }).into(),
        _ => (if float < 0.0 { "-inf" } else { "inf" }).into(),
    };
    let body =
        if flags.contains(&b'+') && b"difeEgG".contains(&conversion) && !body.starts_with('-') { format!("+{body}") } else { body };
    if flags.contains(&b'-') {
        format!("{body:<width$}")
    } else if flags.contains(&b'0') && body.len() < width {
        let (sign, number) = body.split_at(usize::from(body.starts_with(['-', '+'])));
        format!("{sign}{number:0>fill$}", fill = width - sign.len())
    } else {
        format!("{body:>width$}")
    }
}

/// Formats a number for the conversions `%e` and `%g`.
fn format_scientific(conversion: u8, value: f64, precision: usize) -> String {
    let exponential = |digits: usize| {
        let text = format!("{value:.digits$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let number: i32 = exponent.parse().unwrap_or(0);
        (mantissa.to_owned(), number)
    };
    let trimmed =
        |text: String| if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    let joined = |mantissa: &str, exponent: i32| {
        format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
    };
    let text = if conversion.eq_ignore_ascii_case(&b'e') {
        let (mantissa, exponent) = exponential(precision);
        joined(&mantissa, exponent)
    } else {
        let significant_digits = precision.max(1);
        let (mantissa, exponent) = exponential(significant_digits - 1);
        if exponent < -4 || exponent >= significant_digits as i32 {
            joined(&trimmed(mantissa), exponent)
        } else {
            trimmed(format!("{value:.*}", (significant_digits as i32 - 1 - exponent) as usize))
        }
    };
    if conversion.is_ascii_uppercase() { text.to_uppercase() } else { text }
}
