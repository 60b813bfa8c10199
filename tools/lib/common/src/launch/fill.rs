//! Fills of buffers: rules that generate the initial value of each element independently of the others.

use super::element::Element;
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{OverflowResult, encode};
use serde::{Deserialize, Serialize};

/// The rule that generates the initial contents of a buffer. In JSON, the field that has the name of the fill holds the element
/// type, as in `{"iota": "i32"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a fill is \"zero\", \"empty\", {\"random\": TYPE, \"seed\": S, \"scale\": X, \
\"offset\": Y}, {\"iota\": TYPE, \"modulo\": M}, {\"constant\": TYPE, \"value\": X} or {\"file\": NAME}"
)]
pub enum Fill {
    Plain(PlainFill),
    /// Uniformly distributed numbers from the generator `splitmix64`: floats from `offset - scale` to `offset + scale`, signed
    /// integers from `offset - scale` to `offset + scale`, or unsigned integers from `offset` to `offset + scale`.
    Random {
        random: Element,
        seed: u64,
        scale: f64,
        #[serde(default)]
        offset: f64,
    },
    /// The index of the element. If `modulo` is neither absent nor 0, the index modulo `modulo`.
    Iota {
        iota: Element,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modulo: Option<u64>,
    },
    /// The same number in every element.
    Constant {
        constant: Element,
        value: f64,
    },
    /// The bytes of a file, as with the field `file` of the buffer.
    File {
        file: String,
    },
}

/// The fills without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainFill {
    Zero,
    /// Uninitialized memory, which reads as zeros; `--check` reports reads of it.
    Empty,
}

impl Fill {
    /// Returns the element type of a fill that has one.
    pub(super) fn element(&self) -> Option<Element> {
        match self {
            Fill::Random { random: element, .. } | Fill::Iota { iota: element, .. } | Fill::Constant { constant: element, .. } => {
                Some(*element)
            }
            Fill::Plain(_) | Fill::File { .. } => None,
        }
    }
    /// Returns whether all bytes are zero: the fills `zero` and `empty`.
    pub(super) fn is_zero(&self) -> bool {
        matches!(self, Fill::Plain(_))
    }
    /// Returns whether the memory is uninitialized: the fill `empty`.
    pub(super) fn is_uninitialized(&self) -> bool {
        *self == Fill::Plain(PlainFill::Empty)
    }

    /// Generates the bytes from the byte offset `start` on, which is a multiple of the element size.
    pub(super) fn generate(&self, start: usize, out: &mut [u8]) {
        let Some(element) = self.element() else { return out.fill(0) };
        let element_bytes = element.bytes();
        for (index, bytes) in out.chunks_mut(element_bytes).enumerate() {
            let bits = self.element_bits((start / element_bytes + index) as u64);
            bytes.copy_from_slice(&bits.to_le_bytes()[..bytes.len()]);
        }
    }

    /// Returns the bits of the element at an index.
    fn element_bits(&self, index: u64) -> u64 {
        match *self {
            Fill::Random { random, seed, scale, offset } => {
                let hash = splitmix64((seed << 32).wrapping_add(index));
                // From 0 to 1, without 1.
                let fraction = (hash >> 11) as f64 / (1u64 << 53) as f64;
                encode_number(
                    random,
                    match (random.scalar.is_float(), random.unsigned) {
                        (true, _) => offset + scale * (2.0 * fraction - 1.0),
                        (false, false) => offset - scale + (fraction * (2.0 * scale + 1.0)).floor(),
                        (false, true) => offset + (fraction * (scale + 1.0)).floor(),
                    },
                )
            }
            Fill::Iota { iota, modulo } => {
                let number = modulo.filter(|modulo| *modulo > 0).map_or(index, |modulo| index % modulo);
                if iota.scalar.is_float() { encode_number(iota, number as f64) } else { number & iota.scalar.mask() }
            }
            Fill::Constant { constant, value } => encode_number(constant, value),
            Fill::Plain(_) | Fill::File { .. } => 0,
        }
    }
}

/// Returns the bits of a number as an element: rounded to the nearest even float, or truncated to an integer.
fn encode_number(element: Element, value: f64) -> u64 {
    let Element { scalar, unsigned } = element;
    match (scalar.is_float(), unsigned) {
        (true, _) => encode(scalar, value, Rounding::NearestEven, OverflowResult::Ieee),
        (false, true) => value as u64 & scalar.mask(),
        (false, false) if scalar == Scalar::I1 => u64::from(value != 0.0),
        (false, false) => value as i64 as u64 & scalar.mask(),
    }
}

/// Computes the output function of SplitMix64, the generator of Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators".
fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_fill(json: &str) -> Fill {
        serde_json::from_str(json).unwrap()
    }
    fn first_numbers(json: &str, count: u64) -> Vec<f64> {
        let fill = parse_fill(json);
        let Element { scalar, unsigned } = fill.element().unwrap();
        let number_at = |index| match (scalar.is_float(), unsigned) {
            (true, _) => numerics::float::decode(scalar, fill.element_bits(index)),
            (false, true) => fill.element_bits(index) as f64,
            (false, false) => scalar.sign_extend(fill.element_bits(index)) as f64,
        };
        (0..count).map(number_at).collect()
    }

    #[test]
    fn the_first_outputs_are_those_of_the_reference_implementation() {
        // The reference implementation with seed 1234567.
        let state = |n: u64| 1_234_567u64.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first: Vec<u64> = (0..3).map(|n| splitmix64(state(n))).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn random_numbers_have_the_range_and_mean_of_their_fill() {
        for (json, low, high) in [
            (r#"{"random": "f32", "seed": 1, "scale": 2, "offset": 10}"#, 8.0, 12.0),
            (r#"{"random": "bf16", "seed": 2, "scale": 1}"#, -1.0, 1.0),
            (r#"{"random": "e4m3", "seed": 3, "scale": 1}"#, -1.0, 1.0),
            (r#"{"random": "i8", "seed": 4, "scale": 5}"#, -5.0, 5.0),
            (r#"{"random": "u8", "seed": 5, "scale": 10, "offset": 120}"#, 120.0, 130.0),
        ] {
            let numbers = first_numbers(json, 4000);
            assert!(numbers.iter().all(|x| (low..=high).contains(x)), "{json}");
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            assert!((mean - (low + high) / 2.0).abs() < (high - low) * 0.03, "{json}: {mean}");
            assert!(
                numbers.iter().any(|x| *x > high - 0.1 * (high - low)) && numbers.iter().any(|x| *x < low + 0.1 * (high - low))
            );
        }
    }

    #[test]
    fn part_of_a_fill_equals_that_part_of_the_full_fill() {
        let fill = parse_fill(r#"{"random": "f16", "seed": 7, "scale": 1}"#);
        let (mut full, mut part) = ([0; 64], [0; 16]);
        fill.generate(0, &mut full);
        fill.generate(32, &mut part);
        assert_eq!(full[32..48], part);
    }

    #[test]
    fn invalid_fills_and_element_types_are_rejected() {
        for json in [r#""ones""#, r#"{"random": "f16"}"#, r#"{"iota": "i32", "module": 3}"#] {
            let error = serde_json::from_str::<Fill>(json).unwrap_err().to_string();
            assert!(error.contains("a fill is \"zero\""), "{error}");
        }
        let error = serde_json::from_str::<Element>(r#""g32""#).unwrap_err().to_string();
        assert!(error.contains("no type of elements"), "{error}");
    }
}
