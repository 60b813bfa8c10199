//! Fills of buffers: rules that generate any element independently.

use super::element::Element;
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{Overflow, encode};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a fill is \"zero\", \"empty\", {\"random\": TYPE, \"seed\": S, \"scale\": X, \
\"offset\": Y}, {\"iota\": TYPE, \"modulo\": M}, {\"constant\": TYPE, \"value\": X} or {\"file\": NAME}"
)]
pub enum Fill {
    Plain(Plain),
    /// Uniformly distributed numbers, from `splitmix64`.
    Random {
        random: Element,
        seed: u64,
        scale: f64,
        #[serde(default)]
        offset: f64,
    },
    /// The index of the element.
    Iota {
        iota: Element,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modulo: Option<u64>,
    },
    Constant {
        constant: Element,
        value: f64,
    },
    File {
        file: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plain {
    Zero,
    /// Uninitialized memory, which reads as zeros; `--check` reports reads of it.
    Empty,
}

impl Fill {
    pub(super) fn element(&self) -> Option<Element> {
        match self {
            Fill::Random { random: element, .. } | Fill::Iota { iota: element, .. } | Fill::Constant { constant: element, .. } => {
                Some(*element)
            }
            Fill::Plain(_) | Fill::File { .. } => None,
        }
    }
    pub(super) fn is_zero(&self) -> bool {
        matches!(self, Fill::Plain(_))
    }
    pub(super) fn is_empty(&self) -> bool {
        *self == Fill::Plain(Plain::Empty)
    }

    /// Generates the bytes from `at` on, which is a multiple of the element size.
    pub(super) fn generate(&self, at: usize, out: &mut [u8]) {
        let Some(element) = self.element() else { return out.fill(0) };
        let item = element.bytes();
        for (index, bytes) in out.chunks_mut(item).enumerate() {
            let bits = self.bits((at / item + index) as u64);
            bytes.copy_from_slice(&bits.to_le_bytes()[..bytes.len()]);
        }
    }

    /// The bits of the element at an index.
    fn bits(&self, index: u64) -> u64 {
        match *self {
            Fill::Random { random, seed, scale, offset } => {
                let hash = splitmix64((seed << 32).wrapping_add(index));
                let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
                encode_number(
                    random,
                    match (random.scalar.is_float(), random.unsigned) {
                        (true, _) => offset + scale * (2.0 * unit - 1.0),
                        (false, false) => offset - scale + (unit * (2.0 * scale + 1.0)).floor(),
                        (false, true) => offset + (unit * (scale + 1.0)).floor(),
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

fn encode_number(element: Element, value: f64) -> u64 {
    let Element { scalar, unsigned } = element;
    match (scalar.is_float(), unsigned) {
        (true, _) => encode(scalar, value, Rounding::NearestEven, Overflow::Ieee),
        (false, true) => value as u64 & scalar.mask(),
        (false, false) if scalar == Scalar::I1 => u64::from(value != 0.0),
        (false, false) => value as i64 as u64 & scalar.mask(),
    }
}

/// Returns the output for a state of the generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(json: &str) -> Fill {
        serde_json::from_str(json).unwrap()
    }
    fn numbers(json: &str, count: u64) -> Vec<f64> {
        let fill = fill(json);
        let Element { scalar, unsigned } = fill.element().unwrap();
        let number = |index| match (scalar.is_float(), unsigned) {
            (true, _) => numerics::float::decode(scalar, fill.bits(index)),
            (false, true) => fill.bits(index) as f64,
            (false, false) => scalar.sign_extend(fill.bits(index)) as f64,
        };
        (0..count).map(number).collect()
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // The first numbers of the reference implementation for seed 1234567.
        let state = |n: u64| 1_234_567u64.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first: Vec<u64> = (0..3).map(|n| splitmix64(state(n))).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn random_numbers_fill_their_range_evenly() {
        for (json, low, high) in [
            (r#"{"random": "f32", "seed": 1, "scale": 2, "offset": 10}"#, 8.0, 12.0),
            (r#"{"random": "bf16", "seed": 2, "scale": 1}"#, -1.0, 1.0),
            (r#"{"random": "e4m3", "seed": 3, "scale": 1}"#, -1.0, 1.0),
            (r#"{"random": "i8", "seed": 4, "scale": 5}"#, -5.0, 5.0),
            (r#"{"random": "u8", "seed": 5, "scale": 10, "offset": 120}"#, 120.0, 130.0),
        ] {
            let all = numbers(json, 4000);
            assert!(all.iter().all(|x| (low..=high).contains(x)), "{json}");
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            assert!((mean - (low + high) / 2.0).abs() < (high - low) * 0.03, "{json}: {mean}");
            assert!(all.iter().any(|x| *x > high - 0.1 * (high - low)) && all.iter().any(|x| *x < low + 0.1 * (high - low)));
        }
    }

    #[test]
    fn any_element_is_computed_independently() {
        let fill = fill(r#"{"random": "f16", "seed": 7, "scale": 1}"#);
        let (mut full, mut part) = ([0; 64], [0; 16]);
        fill.generate(0, &mut full);
        fill.generate(32, &mut part);
        assert_eq!(full[32..48], part);
    }

    #[test]
    fn wrong_fills_are_reported() {
        for wrong in [r#""ones""#, r#"{"random": "f16"}"#, r#"{"iota": "i32", "module": 3}"#] {
            let error = serde_json::from_str::<Fill>(wrong).unwrap_err().to_string();
            assert!(error.contains("a fill is \"zero\""), "{error}");
        }
        let error = serde_json::from_str::<Element>(r#""g32""#).unwrap_err().to_string();
        assert!(error.contains("no type of elements"), "{error}");
    }
}
