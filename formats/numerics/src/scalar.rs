//! The element types of Tile IR: their names, sizes and ranges. Values of any of them are held as bits in a `u64`.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scalar {
    #[serde(rename = "i1")]
    I1,
    #[serde(rename = "i4")]
    I4,
    #[serde(rename = "i8")]
    I8,
    #[serde(rename = "i16")]
    I16,
    #[serde(rename = "i32")]
    I32,
    #[serde(rename = "i64")]
    I64,
    #[serde(rename = "f16")]
    F16,
    #[serde(rename = "bf16")]
    BF16,
    #[serde(rename = "f32")]
    F32,
    #[serde(rename = "tf32")]
    TF32,
    #[serde(rename = "f64")]
    F64,
    #[serde(rename = "f8E4M3FN")]
    F8E4M3FN,
    #[serde(rename = "f8E5M2")]
    F8E5M2,
    #[serde(rename = "f8E8M0FNU")]
    F8E8M0FNU,
    #[serde(rename = "f4E2M1FN")]
    F4E2M1FN,
    #[serde(rename = "fnv8E5M3FNU")]
    F8E5M3FNU,
}

/// How a float format is laid out: `1 + exponent + mantissa` bits, or without a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFormat {
    pub signed: bool,
    pub exponent_bits: u32,
    pub mantissa_bits: u32,
    pub bias: i32,
    pub special: Special,
}

/// What the highest exponent means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Infinity and NaN, as IEEE 754 has it.
    Ieee,
    /// Only the all-ones pattern is NaN; there is no infinity.
    NanOnly,
    /// Every pattern is a number.
    None,
}

impl Scalar {
    pub const ALL: [Scalar; 16] = [
        Scalar::I1,
        Scalar::I4,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::F16,
        Scalar::BF16,
        Scalar::F32,
        Scalar::TF32,
        Scalar::F64,
        Scalar::F8E4M3FN,
        Scalar::F8E5M2,
        Scalar::F8E8M0FNU,
        Scalar::F4E2M1FN,
        Scalar::F8E5M3FNU,
    ];

    /// The name in Tile IR text.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::I1 => "i1",
            Scalar::I4 => "i4",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F16 => "f16",
            Scalar::BF16 => "bf16",
            Scalar::F32 => "f32",
            Scalar::TF32 => "tf32",
            Scalar::F64 => "f64",
            Scalar::F8E4M3FN => "f8E4M3FN",
            Scalar::F8E5M2 => "f8E5M2",
            Scalar::F8E8M0FNU => "f8E8M0FNU",
            Scalar::F4E2M1FN => "f4E2M1FN",
            Scalar::F8E5M3FNU => "fnv8E5M3FNU",
        }
    }
    pub fn parse(name: &str) -> Option<Scalar> {
        Self::ALL.into_iter().find(|scalar| scalar.name() == name)
    }
    pub fn is_int(self) -> bool {
        self <= Scalar::I64
    }
    pub fn is_float(self) -> bool {
        !self.is_int()
    }
    /// Width of the value in bits. A tf32 value has 19 bits and is kept in the upper bits of 32.
    pub fn bits(self) -> u32 {
        match self {
            Scalar::I1 => 1,
            Scalar::I4 | Scalar::F4E2M1FN => 4,
            Scalar::I8 | Scalar::F8E4M3FN | Scalar::F8E5M2 | Scalar::F8E8M0FNU | Scalar::F8E5M3FNU => 8,
            Scalar::I16 | Scalar::F16 | Scalar::BF16 => 16,
            Scalar::I32 | Scalar::F32 | Scalar::TF32 => 32,
            Scalar::I64 | Scalar::F64 => 64,
        }
    }
    /// Bytes of one element in memory; four-bit elements come in pairs and count as one byte here.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
    /// All bits that a value of this type may have.
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
    pub fn float_format(self) -> Option<FloatFormat> {
        let format = |signed, exponent_bits, mantissa_bits, bias, special| FloatFormat {
            signed,
            exponent_bits,
            mantissa_bits,
            bias,
            special,
        };
        Some(match self {
            Scalar::F16 => format(true, 5, 10, 15, Special::Ieee),
            Scalar::BF16 => format(true, 8, 7, 127, Special::Ieee),
            Scalar::F32 | Scalar::TF32 => format(true, 8, 23, 127, Special::Ieee),
            Scalar::F64 => format(true, 11, 52, 1023, Special::Ieee),
            Scalar::F8E4M3FN => format(true, 4, 3, 7, Special::NanOnly),
            Scalar::F8E5M2 => format(true, 5, 2, 15, Special::Ieee),
            Scalar::F8E8M0FNU => format(false, 8, 0, 127, Special::NanOnly),
            Scalar::F4E2M1FN => format(true, 2, 1, 1, Special::None),
            Scalar::F8E5M3FNU => format(false, 5, 3, 15, Special::NanOnly),
            _ => return None,
        })
    }
    /// The bits as a signed integer.
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
