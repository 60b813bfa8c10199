//! The recipe of a tensor map: how a hidden parameter of 128 bytes follows from the visible parameters of a kernel.
//!
//! A recipe is a line `//!tile tensor-map …` of the envelope. `tile-link` turns it into the callback that the driver runs when
//! arguments change; `tile-sim` evaluates it. [`Recipe::encode`] makes the bytes that the copy engine of sm_90 and later reads:
//! the layout was observed in what NVIDIA's own callbacks write.
//!
//! ```text
//! //!tile tensor-map (entry:"k",param:"k_param_3",base:Param(0),element:F16,dims:[Param(1),Const(64)],strides:[Product(Param(2),
//! Const(2))],extent:[64,32],swizzle:Bytes128,tf32:false)
//! ```

use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};

/// The key of a recipe's line in the envelope.
pub const TENSOR_MAP: &str = "tensor-map";
/// Bytes of a tensor map.
pub const TENSOR_MAP_BYTES: usize = 128;
/// How deep expressions may nest.
const DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The kernel, and its hidden parameter.
    pub entry: String,
    pub param: String,
    /// The address of the first element.
    pub base: Value,
    pub element: Element,
    /// Elements per dimension, the contiguous one first.
    pub dims: Vec<Value>,
    /// Bytes from one element to the next, from the second dimension on.
    pub strides: Vec<Value>,
    /// The box that one copy moves, in elements.
    pub extent: Vec<u32>,
    pub swizzle: Swizzle,
    /// Whether loads round `f32` elements to tf32.
    pub tf32: bool,
}

/// A number computed from parameters, in wrapping 64-bit arithmetic. Integer parameters are sign-extended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    Const(i64),
    /// The number of a visible parameter.
    Param(u32),
    Sum(Box<Value>, Box<Value>),
    Product(Box<Value>, Box<Value>),
    Min(Box<Value>, Box<Value>),
    Max(Box<Value>, Box<Value>),
    /// Division of non-negative numbers, rounded up; by a constant.
    CeilDiv(Box<Value>, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Element {
    /// Any type of 8 bits.
    Byte,
    Int16,
    Int32,
    Int64,
    F16,
    F32,
    F64,
    Bf16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
    /// 128 bytes, exchanged in units of 32.
    Bytes128Atom32,
}

impl Element {
    pub fn bytes(self) -> u64 {
        match self {
            Element::Byte => 1,
            Element::Int16 | Element::F16 | Element::Bf16 => 2,
            Element::Int32 | Element::F32 => 4,
            Element::Int64 | Element::F64 => 8,
        }
    }
    fn code(self) -> u64 {
        match self {
            Element::Byte => 0,
            Element::Int16 => 1,
            Element::Int32 => 2,
            Element::Int64 => 4,
            Element::F16 => 6,
            Element::F32 => 7,
            Element::F64 => 9,
            Element::Bf16 => 10,
        }
    }
}

impl Swizzle {
    /// Bytes of a row of the box; any number without a swizzle.
    pub fn row(self) -> u64 {
        match self {
            Swizzle::None => u64::MAX,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => 128,
        }
    }
    fn code(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => 3,
        }
    }
}

impl Value {
    fn eval(&self, params: &[i64], depth: usize) -> Result<i64> {
        if depth > DEPTH {
            return Err(wrong("an expression nests too deep"));
        }
        let of = |value: &Value| value.eval(params, depth + 1);
        Ok(match self {
            Value::Const(value) => *value,
            Value::Param(index) => {
                let missing = || wrong(&format!("there is no parameter {index}"));
                params.get(*index as usize).copied().ok_or_else(missing)?
            }
            Value::Sum(a, b) => of(a)?.wrapping_add(of(b)?),
            Value::Product(a, b) => of(a)?.wrapping_mul(of(b)?),
            Value::Min(a, b) => of(a)?.min(of(b)?),
            Value::Max(a, b) => of(a)?.max(of(b)?),
            Value::CeilDiv(a, by) => (of(a)?.max(0) as u64).div_ceil(u64::from((*by).max(1))) as i64,
        })
    }
}

fn wrong(what: &str) -> Box<Diagnostic> {
    Diagnostic::invalid("PTX020", format!("a tensor map cannot be made: {what}"))
}

impl Recipe {
    /// The line of the envelope.
    pub fn to_line(&self) -> String {
        format!("//!tile {TENSOR_MAP} {}\n", ron::to_string(self).expect("a recipe can be written as RON"))
    }
    /// Reads what follows the key of a line.
    pub fn parse(text: &str) -> Result<Recipe> {
        // The reader of RON has its own limit of depth.
        ron::from_str(text)
            .map_err(|error| Diagnostic::invalid("PTX021", format!("a recipe of a tensor map does not parse: {error}")))
    }
    /// The recipes among the lines of an envelope.
    pub fn all(lines: &[String]) -> Result<Vec<Recipe>> {
        let key = format!("//!tile {TENSOR_MAP} ");
        lines.iter().filter_map(|line| line.strip_prefix(&*key)).map(Recipe::parse).collect()
    }

    /// The map for the values of the visible parameters: addresses as they are, integers sign-extended.
    pub fn encode(&self, params: &[i64]) -> Result<[u8; TENSOR_MAP_BYTES]> {
        let rank = self.dims.len();
        if !(1..=5).contains(&rank) || self.strides.len() + 1 != rank || self.extent.len() != rank {
            return Err(wrong(&format!(
                "its rank is {rank}, with {} strides and {} extents",
                self.strides.len(),
                self.extent.len()
            )));
        }
        let eval = |values: &[Value]| values.iter().map(|value| Ok(value.eval(params, 0)? as u64)).collect::<Result<Vec<u64>>>();
        let (dims, strides) = (eval(&self.dims)?, eval(&self.strides)?);
        let base = self.base.eval(params, 0)? as u64;
        let size = self.element.bytes();
        if !base.is_multiple_of(16) {
            return Err(wrong(&format!("its address {base:#x} is no multiple of 16")));
        }
        if let Some(dim) = dims.iter().find(|dim| !(1..=1 << 32).contains(*dim)) {
            return Err(wrong(&format!("a dimension of {dim} elements")));
        }
        if let Some(stride) = strides.iter().find(|stride| !stride.is_multiple_of(16) || **stride >= 1 << 36) {
            return Err(wrong(&format!("a stride of {stride} bytes")));
        }
        let row = u64::from(self.extent[0]) * size;
        if self.extent.iter().any(|extent| !(1..=256).contains(extent)) || !row.is_multiple_of(16) || row > self.swizzle.row() {
            return Err(wrong(&format!("a box of {:?} elements of {size} bytes", self.extent)));
        }
        let stride = |index: usize| strides.get(index).map_or(0, |stride| stride >> 4);
        let dim = |index: usize| dims.get(index).map_or(0, |dim| dim - 1);
        let extent = |index: usize| u64::from(self.extent.get(index).map_or(0, |extent| extent - 1));
        let spans = rank > 1 && dim(1).saturating_mul(strides[0]).saturating_add(dims[0].saturating_mul(size)) >= 0x20000;
        let flags = 2
            | (rank as u64 - 1) << 4
            | self.element.code() << 7
            | self.swizzle.code() << 13
            | u64::from(self.tf32) << 16
            | 1 << 18
            | u64::from(self.swizzle == Swizzle::Bytes128Atom32) << 19
            | u64::from(spans) << 21;
        let words = [
            base,
            flags | stride(0) << 32,
            stride(1) | stride(2) << 32,
            stride(3),
            dim(0) | dim(1) << 32,
            dim(2) | dim(3) << 32,
            dim(4) | extent(0) << 56,
            extent(1) | extent(2) << 8 | extent(3) << 16 | extent(4) << 24,
        ];
        let mut bytes = [0; TENSOR_MAP_BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> Recipe {
        let times = |value, by| Value::Product(Box::new(value), Box::new(Value::Const(by)));
        Recipe {
            entry: "k".into(),
            param: "k_param_3".into(),
            base: Value::Param(0),
            element: Element::F16,
            dims: vec![Value::Param(1), Value::Const(30)],
            strides: vec![times(Value::Param(2), 2)],
            extent: vec![64, 8],
            swizzle: Swizzle::Bytes128,
            tf32: false,
        }
    }
    fn words(recipe: &Recipe, params: &[i64]) -> Vec<u64> {
        let bytes = recipe.encode(params).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn the_bits_that_were_observed() {
        let all = words(&recipe(), &[0x1000, 100, 128]);
        assert_eq!(all[..4], [0x1000, 0x46312 | 16 << 32, 0, 0]);
        assert_eq!(all[4..8], [99 | 29 << 32, 0, 63 << 56, 7]);
        assert!(all[8..].iter().all(|&word| word == 0));
        let flags = |change: fn(&mut Recipe)| {
            let mut recipe = recipe();
            change(&mut recipe);
            words(&recipe, &[0, 8, 8])[1] as u32
        };
        assert_eq!(flags(|r| (r.element, r.extent) = (Element::F32, vec![32, 8])), 0x46392);
        assert_eq!(flags(|r| (r.element, r.swizzle) = (Element::Byte, Swizzle::Bytes64)), 0x44012);
        assert_eq!(flags(|r| (r.element, r.swizzle) = (Element::F32, Swizzle::None)), 0x40392);
        let tf32 = |r: &mut Recipe| (r.element, r.extent, r.tf32) = (Element::F32, vec![32, 8], true);
        assert_eq!(flags(|r| (r.element, r.extent, r.tf32) = (Element::F32, vec![32, 8], true)), 0x56392);
        let mut transposed = recipe();
        tf32(&mut transposed);
        transposed.swizzle = Swizzle::Bytes128Atom32;
        assert_eq!(words(&transposed, &[0, 8, 8])[1] as u32, 0xd6392);
        // From 128 KiB on.
        assert_eq!(words(&recipe(), &[0, 64, 4096])[1] as u32 >> 21, 1);
    }

    #[test]
    fn recipes_are_lines_of_the_envelope() {
        let line = recipe().to_line();
        let lines = ["//!tile ptx 1 final".to_string(), line.trim_end().to_string()];
        assert_eq!(Recipe::all(&lines).unwrap(), [recipe()]);
        assert!(Recipe::parse("(entry:\"k\")").is_err());
        assert!(Recipe::parse(&"Sum(".repeat(100_000)).is_err());
    }

    #[test]
    fn what_no_map_can_say_is_refused() {
        let refused = |change: fn(&mut Recipe), params: &[i64]| {
            let mut recipe = recipe();
            change(&mut recipe);
            assert!(recipe.encode(params).is_err());
        };
        refused(|_| (), &[8, 100, 128]);
        refused(|_| (), &[0, 0, 128]);
        refused(|_| (), &[0, 100, 3]);
        refused(|_| (), &[0, 100]);
        refused(|r| r.extent = vec![128, 8], &[0, 100, 128]);
        refused(|r| r.extent = vec![64, 257], &[0, 100, 128]);
        refused(|r| r.strides.clear(), &[0, 100, 128]);
    }
}
