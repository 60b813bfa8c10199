//! Array types and numpy's `.npy` files.

use super::element::{self, Element};
use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};

/// The type of a row-major array in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArrayType {
    /// The element type. `None` if only `descr` is known, as for an array from a numpy file.
    pub element: Option<Element>,
    /// The numpy type string of the elements, such as `<f4`.
    pub descr: String,
    pub shape: Vec<usize>,
}

/// The first bytes of a `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";

impl std::fmt::Display for ArrayType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape: Vec<_> = self.shape.iter().map(usize::to_string).collect();
        let element = self.element.map_or_else(|| format!("'{}'", self.descr), String::from);
        write!(f, "{element}[{}]", shape.join(", "))
    }
}

impl TryFrom<String> for ArrayType {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<ArrayType, String> {
        ArrayType::parse(&text).ok_or_else(|| format!("'{text}' is not an array type such as f32[4, 8]"))
    }
}

impl From<ArrayType> for String {
    fn from(array: ArrayType) -> String {
        array.to_string()
    }
}

impl ArrayType {
    /// Parses `f32[4, 8]`.
    pub fn parse(text: &str) -> Option<ArrayType> {
        let (name, shape) = text.trim().strip_suffix(']')?.split_once('[')?;
        let element = Element::parse(name.trim())?;
        let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let shape = dims.map(|dim| dim.parse().ok()).collect::<Option<Vec<usize>>>()?;
        Some(ArrayType { element: Some(element), descr: element.descr().into(), shape })
    }

    /// Returns the size of the array in bytes; `None` if it overflows.
    pub fn bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.element_bytes(), |size, dim| size.checked_mul(*dim))
    }

    /// Returns the size of an element in bytes, which is the number after the first two characters of `descr`.
    fn element_bytes(&self) -> usize {
        self.descr.get(2..).and_then(|size| size.parse().ok()).unwrap_or(1)
    }

    /// Returns the element type for printing.
    pub(super) fn print_element(&self) -> Option<Element> {
        self.element.or_else(|| element::element_of_descr(&self.descr))
    }

    /// Returns the header of a `.npy` file in version 1.0 of the format, from the magic bytes up to the data.
    pub fn header(&self) -> Vec<u8> {
        let dims: String = self.shape.iter().map(|dim| format!("{dim}, ")).collect();
        let shape = if self.shape.len() == 1 { dims.trim_end().to_string() } else { dims.trim_end_matches(", ").to_string() };
        let mut header = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", self.descr);
        // The format requires the data to start at a multiple of 64 bytes. The prefix has the magic bytes, two bytes of version and
        // two bytes of length; one byte is the final line end.
        let padding = 64 - (MAGIC.len() + 4 + header.len() + 1) % 64;
        header.push_str(&" ".repeat(padding % 64));
        header.push('\n');
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes()].concat()
    }
}

/// Parses the bytes of a `.npy` file into the array type and the bytes of the elements. `name` is for messages.
pub(super) fn parse_npy(mut bytes: Vec<u8>, name: &str) -> Result<(ArrayType, Vec<u8>)> {
    let npy_error = |reason: &str| Diagnostic::invalid("LCH014", format!("{name}: {reason}"));
    let after_magic = bytes.strip_prefix(MAGIC).ok_or_else(|| npy_error("not a .npy file"))?;
    // The offset of the header's text in `after_magic`, and its length.
    let (start, length) = match after_magic {
        [1, _, a, b, ..] => (4, usize::from(u16::from_le_bytes([*a, *b]))),
        [2 | 3, _, a, b, c, d, ..] => (6, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        _ => return Err(npy_error("an unknown version of the .npy format")),
    };
    let header = after_magic.get(start..start + length).ok_or_else(|| npy_error("the file is truncated"))?;
    let header = std::str::from_utf8(header).map_err(|_| npy_error("a header that is not text"))?;
    let field = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    if field("fortran_order").is_none_or(|value| !value.starts_with("False")) {
        return Err(npy_error("the array is not in C order"));
    }
    let descr = field("descr").and_then(|value| value.split('\'').nth(1)).ok_or_else(|| npy_error("no element type"))?;
    if !element::is_readable_descr(descr) {
        return Err(npy_error(&format!("elements of type '{descr}' are not supported")));
    }
    let shape = field("shape").and_then(|value| value.strip_prefix('(')?.split_once(')')).ok_or_else(|| npy_error("no shape"))?.0;
    let shape: std::result::Result<Vec<usize>, _> =
        shape.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(str::parse).collect();
    let array = ArrayType { element: None, descr: descr.into(), shape: shape.map_err(|_| npy_error("an invalid shape"))? };
    let header_bytes = MAGIC.len() + start + length;
    if array.bytes() != Some(bytes.len() - header_bytes) {
        return Err(npy_error("the length does not match the shape"));
    }
    bytes.drain(..header_bytes);
    Ok((array, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_header_parses_to_the_same_array_type() {
        for ty in ["f32[]", "f32[6]", "i16[2, 3]", "bool[4]"] {
            let array = ArrayType::parse(ty).unwrap();
            assert_eq!(array.to_string(), ty);
            let data: Vec<u8> = (0..array.bytes().unwrap() as u8).collect();
            assert_eq!(array.header().len() % 64, 0);
            let (parsed, elements) = parse_npy([array.header(), data.clone()].concat(), "a").unwrap();
            assert_eq!((parsed.descr, parsed.shape, elements), (array.descr, array.shape, data));
        }
    }

    #[test]
    fn truncated_files_and_invalid_types_are_rejected() {
        let array = ArrayType::parse("i64[2]").unwrap();
        let complete = [array.header(), vec![0; 16]].concat();
        for end in 0..complete.len() {
            assert!(parse_npy(complete[..end].to_vec(), "a").is_err());
        }
        for wrong in ["f32", "f32[", "f32[a]", "g32[4]", "f32[-1]", "[4]"] {
            assert!(ArrayType::parse(wrong).is_none(), "{wrong}");
        }
    }
}
