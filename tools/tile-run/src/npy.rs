//! numpy's `.npy` files, and the names of element types that arguments use.

use base::diag::{Diagnostic, Result};
use numerics::Scalar;

/// An array in memory, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    /// The type as numpy writes it, `<f4`.
    pub(crate) descr: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<u8>,
}

/// The most bytes an argument may have.
pub(crate) const MOST_BYTES: usize = 16 << 30;

/// Names for element types: ours and numpy's letters. numpy has no bfloat16 or float8, which are kept as unsigned integers.
const TYPES: [(&str, &str); 19] = [
    ("f16", "<f2"),
    ("f32", "<f4"),
    ("f64", "<f8"),
    ("i8", "|i1"),
    ("i16", "<i2"),
    ("i32", "<i4"),
    ("i64", "<i8"),
    ("u8", "|u1"),
    ("u16", "<u2"),
    ("u32", "<u4"),
    ("u64", "<u8"),
    ("bool", "|b1"),
    ("i1", "|b1"),
    ("bf16", "<u2"),
    ("tf32", "<u4"),
    ("f8E4M3FN", "|u1"),
    ("f8E5M2", "|u1"),
    ("f8E8M0FNU", "|u1"),
    ("f4E2M1FN", "|u1"),
];

pub(crate) fn descr(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|(ours, _)| *ours == name).map(|(_, numpy)| *numpy)
}

/// The scalar type that a name stands for, to make values of.
pub(crate) fn scalar(name: &str) -> Option<Scalar> {
    match name {
        "bool" => Some(Scalar::I1),
        _ => Scalar::parse(name).or_else(|| Scalar::parse(&name.replacen('u', "i", 1))),
    }
}

fn bytes_of(descr: &str) -> Option<usize> {
    descr.get(2..)?.parse().ok().filter(|size| matches!(size, 1 | 2 | 4 | 8))
}

const MAGIC: &[u8] = b"\x93NUMPY";

impl Array {
    pub(crate) fn item_bytes(&self) -> usize {
        bytes_of(&self.descr).unwrap_or(1)
    }

    pub(crate) fn parse(bytes: &[u8], name: &str) -> Result<Array> {
        let bad = |what: &str| Diagnostic::invalid("RUN050", format!("{name}: {what}"));
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("not a .npy file"))?;
        let (start, length) = match rest {
            [1, _, a, b, ..] => (4, usize::from(u16::from_le_bytes([*a, *b]))),
            [2 | 3, _, a, b, c, d, ..] => (6, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
            _ => return Err(bad("an unknown version of the .npy format")),
        };
        let header = rest.get(start..start + length).ok_or_else(|| bad("the file is cut"))?;
        let header = std::str::from_utf8(header).map_err(|_| bad("a header that is not text"))?;
        let field = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
        if field("fortran_order").is_none_or(|value| !value.starts_with("False")) {
            return Err(bad("the array is not in C order"));
        }
        let descr = field("descr").and_then(|value| value.split('\'').nth(1)).ok_or_else(|| bad("no element type"))?;
        let known = TYPES.iter().any(|(_, numpy)| *numpy == descr);
        if !known {
            return Err(bad(&format!("elements of type '{descr}' are not supported")));
        }
        let shape = field("shape").and_then(|value| value.strip_prefix('(')?.split_once(')')).ok_or_else(|| bad("no shape"))?.0;
        let shape: std::result::Result<Vec<usize>, _> =
            shape.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(str::parse).collect();
        let shape = shape.map_err(|_| bad("a wrong shape"))?;
        let data = rest[start + length..].to_vec();
        let array = Array { descr: descr.into(), shape, data };
        let size = array.shape.iter().try_fold(array.item_bytes(), |size, dim| size.checked_mul(*dim));
        if size != Some(array.data.len()) {
            return Err(bad("the length does not fit the shape"));
        }
        Ok(array)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let dims: String = self.shape.iter().map(|dim| format!("{dim}, ")).collect();
        let shape = if self.shape.len() == 1 { dims.trim_end().to_string() } else { dims.trim_end_matches(", ").to_string() };
        let mut header = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", self.descr);
        // The data starts at a multiple of 64.
        let padding = 64 - (MAGIC.len() + 4 + header.len() + 1) % 64;
        header.push_str(&" ".repeat(padding % 64));
        header.push('\n');
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), &self.data].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_round_trip() {
        for shape in [vec![], vec![6], vec![2, 3]] {
            let count: usize = shape.iter().product();
            let array = Array { descr: "<f4".into(), shape, data: (0..4 * count as u8).collect() };
            let bytes = array.to_bytes();
            assert_eq!((bytes.len() - array.data.len()) % 64, 0);
            assert_eq!(Array::parse(&bytes, "a").unwrap(), array);
        }
    }

    #[test]
    fn broken_files_are_refused() {
        let whole = Array { descr: "<i8".into(), shape: vec![2], data: vec![0; 16] }.to_bytes();
        for end in 0..whole.len() {
            assert!(Array::parse(&whole[..end], "a").is_err());
        }
    }
}
