//! The fields of a tensor map and their positions, as observed in the output of NVIDIA's host code:
//!
//! | word | bits |
//! |---|---|
//! | 0 | address, a multiple of 16 |
//! | 1 | 0-3: always 2 (a tiled map); 4-6: rank - 1; 7-10: element type; 13-14: swizzle; 16: tf32; 18: always 1; 19: swizzle in atoms of 32 bytes; 21: the tensor spans 128 KiB or more; 32-63: stride 1 / 16 |
//! | 2, 3 | strides 2, 3 and 4, each divided by 16 in 32 bits |
//! | 4, 5, 6 | extents 0 to 4 of the tensor, each less 1 in 32 bits; bits 56-63 of word 6: extent 0 of the TMA tile less 1 |
//! | 7 | extents 1 to 4 of the TMA tile less 1, in 8 bits each |
//!
//! The upper 64 bytes of a map are zero.

use crate::Expr;
use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Bytes of a tensor map.
pub const BYTES: usize = 128;
/// Number of 64-bit words with fields. These words are the first half of a map. The second half is zero.
pub const WORDS: usize = 8;
/// The exclusive limit of a stride in bytes. A map has 32 bits for a stride in units of 16 bytes. `cuTensorMapEncodeTiled` accepts
/// strides below 2^40, but NVIDIA documents no field for their upper bits.
pub const STRIDE_LIMIT: u64 = 1 << 36;
/// Minimum bytes of a tensor for which bit 21 of word 1 is set.
const LARGE_TENSOR_BYTES: u64 = 128 << 10;

/// A strided tensor in memory and the TMA tile of one copy. The tensor has up to five dimensions. The elements along the first
/// dimension are contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Map {
    /// The address of the first element.
    pub base: Expr,
    /// The type of an element.
    pub element: DataType,
    /// Elements of the tensor in each dimension.
    pub dims: Vec<Expr>,
    /// Bytes from one element to the next along each dimension except the first one.
    pub strides: Vec<Expr>,
    /// Elements of the TMA tile in each dimension.
    pub extent: Vec<u32>,
    /// The layout of the TMA tile in shared memory.
    pub swizzle: Swizzle,
    /// Whether TMA loads round `f32` elements to tf32.
    pub tf32: bool,
}

/// The element type of a tensor map (`CUtensorMapDataType` of the CUDA driver).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    /// Any 8-bit type.
    Byte,
    Int16,
    Int32,
    Int64,
    F16,
    F32,
    F64,
    Bf16,
}

/// The swizzle of a TMA tile in shared memory: a permutation of the 16-byte chunks of a row, which depends on the row number. The
/// number in a name is the size in bytes of the segment within which chunks are permuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
    /// Segments of 128 bytes with chunks of 32 bytes instead of 16.
    Bytes128Atom32,
}

impl DataType {
    pub const ALL: [DataType; 8] = [
        DataType::Byte,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::F16,
        DataType::F32,
        DataType::F64,
        DataType::Bf16,
    ];

    /// Returns the size of an element in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            DataType::Byte => 1,
            DataType::Int16 | DataType::F16 | DataType::Bf16 => 2,
            DataType::Int32 | DataType::F32 => 4,
            DataType::Int64 | DataType::F64 => 8,
        }
    }
    /// Returns the value of the type field in word 1.
    fn field_value(self) -> i64 {
        match self {
            DataType::Byte => 0,
            DataType::Int16 => 1,
            DataType::Int32 => 2,
            DataType::Int64 => 4,
            DataType::F16 => 6,
            DataType::F32 => 7,
            DataType::F64 => 9,
            DataType::Bf16 => 10,
        }
    }
}

impl Swizzle {
    pub const ALL: [Swizzle; 5] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128, Swizzle::Bytes128Atom32];

    /// Returns the maximum size of a row of the TMA tile in bytes, or `None` for [`Swizzle::None`], which has no such limit.
    pub fn max_row_bytes(self) -> Option<u32> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => Some(128),
        }
    }
    /// Returns the value of the swizzle field in word 1.
    fn field_value(self) -> i64 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => 3,
        }
    }
}

impl Map {
    /// Checks the properties of the map that are the same for all launches. `params` is the number of the kernel's visible
    /// parameters. [`Map::encode`] checks the values of the address, the extents and the strides at a launch.
    pub fn check(&self, params: usize) -> Result<(), String> {
        let (rank, stride_count, extent_count) = (self.dims.len(), self.strides.len(), self.extent.len());
        if !(1..=5).contains(&rank) || stride_count + 1 != rank || extent_count != rank {
            return Err(format!("its rank is {rank}, with {stride_count} strides and {extent_count} extents of the TMA tile"));
        }
        let row_bytes = self.extent[0].saturating_mul(self.element.bytes());
        let fits = row_bytes.is_multiple_of(16) && self.swizzle.max_row_bytes().is_none_or(|limit| row_bytes <= limit);
        if self.extent.iter().any(|extent| !(1..=256).contains(extent)) || !fits {
            return Err(format!("a TMA tile of {:?} elements of {} bytes", self.extent, self.element.bytes()));
        }
        if self.tf32 && self.element != DataType::F32 {
            return Err("only f32 loads can round to tf32".into());
        }
        [&self.base].into_iter().chain(&self.dims).chain(&self.strides).try_for_each(|expr| expr.check(params))
    }

    /// Returns the indices of the parameters on which the map depends.
    pub fn params(&self) -> BTreeSet<u32> {
        let mut indices = BTreeSet::new();
        let mut exprs: Vec<&Expr> = [&self.base].into_iter().chain(&self.dims).chain(&self.strides).collect();
        while let Some(expr) = exprs.pop() {
            exprs.extend(expr.operands());
            if let Expr::Param(index) = expr {
                indices.insert(*index);
            }
        }
        indices
    }

    /// Returns the bytes that one TMA copy writes to shared memory, including zeros for elements outside the tensor.
    pub fn tile_bytes(&self) -> u32 {
        self.extent.iter().product::<u32>() * self.element.bytes()
    }

    /// Returns the words of the first half of the map, as expressions. The map must have passed [`Map::check`].
    pub fn words(&self) -> [Expr; WORDS] {
        let zero = || Expr::Const(0);
        let stride_units = |index: usize| self.strides.get(index).map_or_else(zero, |stride| stride.clone().shift_right(4));
        let minus_one = |expr: &Expr| expr.clone().sum(Expr::Const(-1));
        let dim_minus_one = |index: usize| self.dims.get(index).map_or_else(zero, minus_one);
        let extent_minus_one = |index: usize| i64::from(self.extent.get(index).map_or(0, |extent| extent - 1));
        let pair = |low: Expr, high: Expr| low.or(high.shift_left(32));

        // The distance from the first byte of the tensor to the end of its last row.
        let rows = self.dims[1..].iter().zip(&self.strides).map(|(dim, stride)| minus_one(dim).product(stride.clone()));
        let span = rows.fold(self.dims[0].clone().product(Expr::Const(self.element.bytes().into())), Expr::sum);
        let large_flag = match span {
            Expr::Const(span) => Expr::Const((span as u64 >= LARGE_TENSOR_BYTES).into()),
            span => Expr::AtLeast(span.into(), LARGE_TENSOR_BYTES),
        };
        let flags = 2
            | (self.dims.len() as i64 - 1) << 4
            | self.element.field_value() << 7
            | self.swizzle.field_value() << 13
            | i64::from(self.tf32) << 16
            | 1 << 18
            | i64::from(self.swizzle == Swizzle::Bytes128Atom32) << 19;
        [
            self.base.clone(),
            pair(Expr::Const(flags).or(large_flag.shift_left(21)), stride_units(0)),
            pair(stride_units(1), stride_units(2)),
            stride_units(3),
            pair(dim_minus_one(0), dim_minus_one(1)),
            pair(dim_minus_one(2), dim_minus_one(3)),
            dim_minus_one(4).or(Expr::Const(extent_minus_one(0) << 56)),
            Expr::Const(extent_minus_one(1) | extent_minus_one(2) << 8 | extent_minus_one(3) << 16 | extent_minus_one(4) << 24),
        ]
    }

    /// Encodes the map for the values of the visible parameters. Integers in `params` are sign-extended to 64 bits, addresses are
    /// unchanged.
    pub fn encode(&self, params: &[i64]) -> Result<[u8; BYTES]> {
        let encode_error = |what: String| Diagnostic::invalid("MAP001", format!("a tensor map cannot be encoded: {what}"));
        self.check(params.len()).map_err(encode_error)?;
        let base = self.base.eval(params) as u64;
        if !base.is_multiple_of(16) {
            return Err(encode_error(format!("its address {base:#x} is not a multiple of 16")));
        }
        let values = |exprs: &[Expr]| exprs.iter().map(|expr| expr.eval(params) as u64).collect::<Vec<_>>();
        if let Some(dim) = values(&self.dims).into_iter().find(|dim| !(1..=1 << 32).contains(dim)) {
            return Err(encode_error(format!("a dimension has {dim} elements")));
        }
        let invalid_stride = values(&self.strides).into_iter().find(|stride| !stride.is_multiple_of(16) || *stride >= STRIDE_LIMIT);
        if let Some(invalid_stride) = invalid_stride {
            return Err(encode_error(format!("a stride is {invalid_stride} bytes")));
        }
        let mut bytes = [0; BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            chunk.copy_from_slice(&word.eval(params).to_le_bytes());
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_map() -> Map {
        Map {
            base: Expr::Param(0),
            element: DataType::F16,
            dims: vec![Expr::Param(1), Expr::Const(30)],
            strides: vec![Expr::Param(2).product(Expr::Const(2))],
            extent: vec![64, 8],
            swizzle: Swizzle::Bytes128,
            tf32: false,
        }
    }
    fn encoded_words(map: &Map, params: &[i64]) -> Vec<u64> {
        let bytes = map.encode(params).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn words_equal_those_of_captured_maps() {
        let words = encoded_words(&sample_map(), &[0x1000, 100, 128]);
        assert_eq!(words[..4], [0x1000, 0x46312 | 16 << 32, 0, 0]);
        assert_eq!(words[4..8], [99 | 29 << 32, 0, 63 << 56, 7]);
        assert!(words[8..].iter().all(|&word| word == 0));
        let flags = |change: fn(&mut Map)| {
            let mut map = sample_map();
            change(&mut map);
            encoded_words(&map, &[0, 8, 8])[1] as u32
        };
        assert_eq!(flags(|m| (m.element, m.extent) = (DataType::F32, vec![32, 8])), 0x46392);
        assert_eq!(flags(|m| (m.element, m.swizzle) = (DataType::Byte, Swizzle::Bytes64)), 0x44012);
        assert_eq!(flags(|m| (m.element, m.swizzle) = (DataType::F32, Swizzle::None)), 0x40392);
        let tf32 = |m: &mut Map| (m.element, m.extent, m.tf32) = (DataType::F32, vec![32, 8], true);
        assert_eq!(flags(tf32), 0x56392);
        let mut transposed = sample_map();
        tf32(&mut transposed);
        transposed.swizzle = Swizzle::Bytes128Atom32;
        assert_eq!(encoded_words(&transposed, &[0, 8, 8])[1] as u32, 0xd6392);
    }

    /// The size of a tensor is the distance from its first byte to the end of its last row.
    #[test]
    fn tensors_of_128_kib_or_more_set_bit_21() {
        let large_bit = |map: &Map, params: &[i64]| encoded_words(map, params)[1] >> 21 & 1;
        assert_eq!([1, 2].map(|rows| large_bit(&sample_map(), &[0, 64, rows * 2048])), [0, 1]);
        let mut one_dimensional = Map { dims: vec![Expr::Param(1)], strides: Vec::new(), extent: vec![64], ..sample_map() };
        assert_eq!([0xffff, 0x10000].map(|length| large_bit(&one_dimensional, &[0, length])), [0, 1]);
        one_dimensional.element = DataType::Byte;
        assert_eq!(large_bit(&one_dimensional, &[0, 0x10000]), 0);
        let three_dimensional = Map {
            dims: vec![Expr::Const(64), Expr::Const(2), Expr::Param(1)],
            strides: vec![Expr::Const(0x400), Expr::Const(0x1000)],
            extent: vec![64, 2, 1],
            ..sample_map()
        };
        // The size is 128 + 0x400 bytes, plus 0x1000 bytes for each plane after the first one.
        assert_eq!([32, 33].map(|planes| large_bit(&three_dimensional, &[0, planes])), [0, 1]);
    }

    #[test]
    fn invalid_maps_are_refused() {
        let assert_refused = |change: fn(&mut Map), params: &[i64]| {
            let mut map = sample_map();
            change(&mut map);
            assert!(map.encode(params).is_err());
        };
        assert!(sample_map().encode(&[0, 100, 128]).is_ok());
        assert_refused(|_| (), &[8, 100, 128]);
        assert_refused(|_| (), &[0, 0, 128]);
        assert_refused(|_| (), &[0, 100, 3]);
        assert_refused(|_| (), &[0, 100]);
        assert_refused(|m| m.extent = vec![128, 8], &[0, 100, 128]);
        assert_refused(|m| m.extent = vec![64, 257], &[0, 100, 128]);
        assert_refused(|m| m.strides.clear(), &[0, 100, 128]);
        assert_refused(|m| m.tf32 = true, &[0, 100, 128]);
        assert_refused(|m| m.base = Expr::CeilDiv(Expr::Const(1).into(), 0), &[0, 100, 128]);
        assert_refused(|m| m.base = Expr::ShiftLeft(Expr::Const(1).into(), 64), &[0, 100, 128]);
        assert_refused(
            |m| m.base = (0..100).fold(Expr::Param(0), |sum, _| Expr::Sum(sum.into(), Expr::Const(0).into())),
            &[0, 100, 128],
        );
    }
}
