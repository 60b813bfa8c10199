//! The element types of Tile IR, one row each: name, width and, for floats, the format. Values of all types are bits in a `u64`.

use serde::{Deserialize, Serialize};

/// The layout of a float format, from the highest bit: an optional sign bit, the exponent, the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFormat {
    /// Whether the format has a sign bit.
    pub signed: bool,
    pub exponent_bits: u32,
    pub mantissa_bits: u32,
    /// The exponent bias: the number that is subtracted from the exponent field.
    pub bias: i32,
    pub special: SpecialValues,
}

/// The special values of a float format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialValues {
    /// Infinity and NaN, as in IEEE 754.
    Ieee,
    /// The only NaN has ones in all exponent and mantissa bits. There is no infinity.
    NanOnly,
    /// Every bit pattern is a number.
    None,
}

/// A row of the table of element types.
struct Row {
    name: &'static str,
    bits: u32,
    /// The float format; `None` for an integer type.
    format: Option<FloatFormat>,
}

/// A row without its name: the width in bits, and the float format.
type RowFormat = (u32, Option<FloatFormat>);

/// Returns the format of an integer type.
const fn int(bits: u32) -> RowFormat {
    (bits, None)
}

/// Returns the format of a float type with a sign bit.
const fn float(exponent_bits: u32, mantissa_bits: u32, bias: i32, special: SpecialValues) -> RowFormat {
    (1 + exponent_bits + mantissa_bits, Some(FloatFormat { signed: true, exponent_bits, mantissa_bits, bias, special }))
}

/// Returns the format of a float type without a sign bit.
const fn unsigned_float(exponent_bits: u32, mantissa_bits: u32, bias: i32, special: SpecialValues) -> RowFormat {
    (exponent_bits + mantissa_bits, Some(FloatFormat { signed: false, exponent_bits, mantissa_bits, bias, special }))
}

macro_rules! scalars {
    ($($(#[$note:meta])* $scalar:ident $name:literal = $row_format:expr,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Scalar {
            $($(#[$note])* #[serde(rename = $name)] $scalar,)*
        }

        impl Scalar {
            /// All types in table order.
            pub const ALL: &[Scalar] = &[$(Scalar::$scalar,)*];
            const ROWS: &[Row] = &[$({
                let (bits, format) = $row_format;
                assert!(bits >= 1 && bits <= 8 || bits == 16 || bits == 32 || bits == 64, "no word of `arith` holds such values");
                Row { name: $name, bits, format }
            },)*];
        }
    };
}

scalars! {
    I1 "i1" = int(1),
    I4 "i4" = int(4),
    I8 "i8" = int(8),
    I16 "i16" = int(16),
    I32 "i32" = int(32),
    I64 "i64" = int(64),
    F16 "f16" = float(5, 10, 15, SpecialValues::Ieee),
    BF16 "bf16" = float(8, 7, 127, SpecialValues::Ieee),
    F32 "f32" = float(8, 23, 127, SpecialValues::Ieee),
    /// An f32 whose lower 13 bits are zero: sign, 8 exponent bits and 10 mantissa bits remain. A value occupies 32 bits.
    TF32 "tf32" = float(8, 23, 127, SpecialValues::Ieee),
    F64 "f64" = float(11, 52, 1023, SpecialValues::Ieee),
    F8E4M3FN "f8E4M3FN" = float(4, 3, 7, SpecialValues::NanOnly),
    F8E5M2 "f8E5M2" = float(5, 2, 15, SpecialValues::Ieee),
    F8E8M0FNU "f8E8M0FNU" = unsigned_float(8, 0, 127, SpecialValues::NanOnly),
    F4E2M1FN "f4E2M1FN" = float(2, 1, 1, SpecialValues::None),
    F8E5M3FNU "fnv8E5M3FNU" = unsigned_float(5, 3, 15, SpecialValues::NanOnly),
}

impl Scalar {
    fn row(self) -> &'static Row {
        &Self::ROWS[self as usize]
    }
    /// Returns the name in Tile IR text.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// Returns the type with this name in Tile IR text, or `None` if there is none.
    pub fn parse(name: &str) -> Option<Scalar> {
        Self::ALL.iter().copied().find(|scalar| scalar.name() == name)
    }
    /// Returns whether this is an integer type, including the boolean type `i1`.
    pub fn is_int(self) -> bool {
        self.row().format.is_none()
    }
    pub fn is_float(self) -> bool {
        !self.is_int()
    }
    /// Returns the width of an element in bits.
    pub fn bits(self) -> u32 {
        self.row().bits
    }
    /// Returns the bytes of one element, rounded up. The result for a 4-bit type is 1, although a byte of memory has two elements.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
    /// Returns a mask of the bits that a value of this type has.
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
    /// Returns the float format, or `None` for an integer type.
    pub fn float_format(self) -> Option<FloatFormat> {
        self.row().format
    }
    /// Returns the signed integer that the bits represent in two's complement of this width.
    pub fn sign_extend(self, bits: u64) -> i64 {
        let shift = 64 - self.bits();
        ((bits << shift) as i64) >> shift
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
