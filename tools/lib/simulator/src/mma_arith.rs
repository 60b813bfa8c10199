//! MMA arithmetic of the tensor cores.
//!
//! Float MMAs compute each accumulator element in `f64` and round once. Hardware keeps fewer bits of partial sums, so
//! its results may differ in the last bits.

use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{OverflowResult, decode, encode};

/// The element type of operand A or B of an MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmaElement {
    Float(Scalar),
    /// A float of six bits (`e2m3` or `e3m2`), which has no infinities and NaNs. The fields are the widths in bits of exponent and
    /// mantissa.
    Small {
        exponent: u32,
        mantissa: u32,
    },
    Int {
        bits: u32,
        signed: bool,
    },
}

impl MmaElement {
    /// Returns the value of an element's bits.
    pub(crate) fn value(self, bits: u64) -> f64 {
        match self {
            // Hardware ignores the low mantissa bits of a tf32 operand.
            MmaElement::Float(Scalar::TF32) => decode(Scalar::F32, bits & 0xffff_e000),
            MmaElement::Float(ty) => decode(ty, bits),
            MmaElement::Small { exponent, mantissa } => decode_small_float(exponent, mantissa, bits),
            MmaElement::Int { bits: width, signed } => {
                let shift = 64 - width;
                let raised = bits << shift;
                if signed { ((raised as i64) >> shift) as f64 } else { (raised >> shift) as f64 }
            }
        }
    }
    /// Returns the value of every pattern of `width` bits, as a lookup table.
    pub(crate) fn value_table(self, width: u32) -> Vec<f64> {
        (0..1u64 << width).map(|bits| self.value(bits)).collect()
    }
}

/// Returns the value of a float whose format has no infinities and NaNs.
fn decode_small_float(exponent_bits: u32, mantissa_bits: u32, bits: u64) -> f64 {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let mantissa = (bits & ((1 << mantissa_bits) - 1)) as f64 / f64::from(1 << mantissa_bits);
    let exponent = (bits >> mantissa_bits & ((1 << exponent_bits) - 1)) as i32;
    let negative = bits >> (exponent_bits + mantissa_bits) & 1 == 1;
    let magnitude = match exponent {
        0 => mantissa * f64::powi(2.0, 1 - bias),
        _ => (1.0 + mantissa) * f64::powi(2.0, exponent - bias),
    };
    if negative { -magnitude } else { magnitude }
}

/// The type of operands C and D of an MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccumulatorType {
    Float(Scalar),
    Int { saturate: bool },
}

impl AccumulatorType {
    /// Returns the value of an accumulator's bits.
    pub(crate) fn value(self, bits: u64) -> f64 {
        match self {
            AccumulatorType::Float(ty) => decode(ty, bits),
            AccumulatorType::Int { .. } => f64::from(bits as i32),
        }
    }
    /// Rounds a sum to this type and returns its bits. Integer sums are exact in `f64` because they stay below 2^53.
    pub(crate) fn round_to_bits(self, sum: f64) -> u64 {
        match self {
            AccumulatorType::Float(Scalar::F32) if !sum.is_nan() => u64::from((sum as f32).to_bits()),
            AccumulatorType::Float(ty) => encode(ty, sum, Rounding::NearestEven, OverflowResult::Ieee),
            AccumulatorType::Int { saturate: true } => u64::from((sum as i32) as u32),
            AccumulatorType::Int { saturate: false } => u64::from(sum as i64 as u32),
        }
    }
}

/// Adds the matmul of `a` and `b` to the accumulator. All three are row-major: `a` has `k` columns, `b` and the accumulator
/// have `columns` columns.
pub(crate) fn multiply_accumulate(accumulator: &mut [f64], a: &[f64], b: &[f64], k: usize, columns: usize) {
    for (accumulator, a) in accumulator.chunks_exact_mut(columns).zip(a.chunks_exact(k)) {
        for (&a, b) in a.iter().zip(b.chunks_exact(columns)) {
            for (sum, b) in accumulator.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
}

/// Returns whether an accumulator register contains two elements.
pub(crate) fn is_packed(ty: AccumulatorType) -> bool {
    matches!(ty, AccumulatorType::Float(numerics::Scalar::F16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bit_floats_decode_to_their_values() {
        let e2m3 = MmaElement::Small { exponent: 2, mantissa: 3 };
        assert_eq!([0, 1, 8, 0x1f, 0x3f].map(|bits| e2m3.value(bits)), [0.0, 0.125, 1.0, 7.5, -7.5]);
        let e3m2 = MmaElement::Small { exponent: 3, mantissa: 2 };
        assert_eq!([1, 12, 0x1f].map(|bits| e3m2.value(bits)), [0.0625, 1.0, 28.0]);
    }

    #[test]
    fn integers_saturate_or_wrap() {
        assert_eq!(AccumulatorType::Int { saturate: true }.round_to_bits(3e9), 0x7fff_ffff);
        assert_eq!(AccumulatorType::Int { saturate: false }.round_to_bits(4294967297.0), 1);
        assert_eq!(MmaElement::Int { bits: 4, signed: true }.value(0xf), -1.0);
    }

    #[test]
    fn multiply_accumulate_adds_the_matmul_to_the_accumulator() {
        let mut accumulator = [1.0, 0.0];
        multiply_accumulate(&mut accumulator, &[2.0, 3.0], &[1.0, 10.0, 5.0, 100.0], 2, 2);
        assert_eq!(accumulator, [18.0, 320.0]);
    }
}
