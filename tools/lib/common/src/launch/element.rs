//! Element types: their names in launches, their numpy codes, and the compatibility of arrays with pointer parameters.

use numerics::Scalar;
use serde::{Deserialize, Serialize};

/// The type of the elements of an array or fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Element {
    pub scalar: Scalar,
    /// Whether values of an integer type are unsigned. False for other types.
    pub unsigned: bool,
}

/// The element types: name, scalar type, whether unsigned, and numpy type string (`descr`). If several rows have the same type, the
/// first has the name for output. numpy has no bfloat16, TF32, 8-bit or 4-bit floats: files store them as unsigned integers, or
/// with the package `ml_dtypes` as raw bytes (`V2`, `V1`).
const ELEMENT_TYPES: [(&str, Scalar, bool, &str); 21] = [
    ("f16", Scalar::F16, false, "<f2"),
    ("f32", Scalar::F32, false, "<f4"),
    ("f64", Scalar::F64, false, "<f8"),
    ("i8", Scalar::I8, false, "|i1"),
    ("i16", Scalar::I16, false, "<i2"),
    ("i32", Scalar::I32, false, "<i4"),
    ("i64", Scalar::I64, false, "<i8"),
    ("u8", Scalar::I8, true, "|u1"),
    ("u16", Scalar::I16, true, "<u2"),
    ("u32", Scalar::I32, true, "<u4"),
    ("u64", Scalar::I64, true, "<u8"),
    ("bool", Scalar::I1, false, "|b1"),
    ("i1", Scalar::I1, false, "|b1"),
    ("bf16", Scalar::BF16, false, "<u2"),
    ("tf32", Scalar::TF32, false, "<u4"),
    ("f8E4M3FN", Scalar::F8E4M3FN, false, "|u1"),
    ("f8E5M2", Scalar::F8E5M2, false, "|u1"),
    ("f8E8M0FNU", Scalar::F8E8M0FNU, false, "|u1"),
    ("f4E2M1FN", Scalar::F4E2M1FN, false, "|u1"),
    ("e4m3", Scalar::F8E4M3FN, false, "|u1"),
    ("e5m2", Scalar::F8E5M2, false, "|u1"),
];

/// Further numpy type strings of files whose arrays can be passed as pointers to a type.
const ALTERNATIVE_DESCRS: [(Scalar, &[&str]); 8] = [
    (Scalar::BF16, &["<V2", "|V2"]),
    (Scalar::TF32, &["<f4"]),
    (Scalar::I8, &["|b1"]),
    (Scalar::I1, &["|u1", "|i1"]),
    (Scalar::F8E4M3FN, &["<V1", "|V1"]),
    (Scalar::F8E5M2, &["<V1", "|V1"]),
    (Scalar::F8E8M0FNU, &["<V1", "|V1"]),
    (Scalar::F4E2M1FN, &["<V1", "|V1"]),
];

impl Element {
    /// Returns the element type with a name of the table.
    pub fn parse(name: &str) -> Option<Element> {
        let (_, scalar, unsigned, _) = ELEMENT_TYPES.iter().find(|(row_name, ..)| *row_name == name)?;
        Some(Element { scalar: *scalar, unsigned: *unsigned })
    }
    /// Returns the size of an element in bytes.
    pub(super) fn bytes(self) -> usize {
        self.scalar.bytes() as usize
    }
    /// Returns the first row of the table with this type.
    fn row(self) -> &'static (&'static str, Scalar, bool, &'static str) {
        let row = ELEMENT_TYPES.iter().find(|(_, scalar, unsigned, _)| (*scalar, *unsigned) == (self.scalar, self.unsigned));
        row.expect("every element type is in the table")
    }
    /// Returns the numpy type string with which files are written.
    pub(super) fn descr(self) -> &'static str {
        self.row().3
    }
}

impl TryFrom<String> for Element {
    type Error = String;
    fn try_from(name: String) -> Result<Element, String> {
        let names = || ELEMENT_TYPES.map(|(name, ..)| name).join(", ");
        Element::parse(&name).ok_or_else(|| format!("'{name}' is no type of elements; there are: {}", names()))
    }
}

impl From<Element> for String {
    fn from(element: Element) -> String {
        element.row().0.into()
    }
}

/// Returns whether the tools can read an array with this numpy type string (`descr`).
pub(super) fn is_readable_descr(descr: &str) -> bool {
    ELEMENT_TYPES.iter().any(|(.., row_descr)| *row_descr == descr)
        || ALTERNATIVE_DESCRS.iter().any(|(_, alternatives)| alternatives.contains(&descr))
}

/// Returns whether an array with this numpy type string can be passed as a pointer to `pointee`.
pub(super) fn array_fits_pointee(descr: &str, pointee: Scalar) -> bool {
    let has_main_descr = ELEMENT_TYPES.iter().any(|(_, scalar, _, row_descr)| *scalar == pointee && *row_descr == descr);
    has_main_descr || ALTERNATIVE_DESCRS.iter().any(|(scalar, alternatives)| *scalar == pointee && alternatives.contains(&descr))
}

/// Returns the first element type of the table with this numpy type string (`descr`), for printing an array of unknown element
/// type.
pub(super) fn element_of_descr(descr: &str) -> Option<Element> {
    let (_, scalar, unsigned, _) = ELEMENT_TYPES.iter().find(|(.., row_descr)| *row_descr == descr)?;
    Some(Element { scalar: *scalar, unsigned: *unsigned })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_fit_pointers_to_a_type_of_their_descr() {
        for (descr, pointee, fits) in [
            ("<f4", Scalar::F32, true),
            ("<f2", Scalar::F32, false),
            ("<f8", Scalar::F32, false),
            ("<i2", Scalar::F16, false),
            ("<u2", Scalar::F16, false),
            ("<u2", Scalar::BF16, true),
            ("<V2", Scalar::BF16, true),
            ("<i4", Scalar::I32, true),
            ("<u4", Scalar::I32, true),
            ("<i8", Scalar::I32, false),
            ("|b1", Scalar::I8, true),
        ] {
            assert_eq!(array_fits_pointee(descr, pointee), fits, "{descr} for {pointee}");
        }
    }
}
