//! The fields of a tensor map and their positions, as observed in the output of NVIDIA's host code:
//!
//! | word | bits |
//! |---|---|
//! | 0 | address, a multiple of 16 |
//! | 1 | 0-3: 2 (tiled); 4-6: rank - 1; 7-10: element type; 13-14: swizzle; 16: tf32; 18: 1; 19: swizzle in atoms of 32 bytes; 21: the tensor spans 128 KiB or more; 32-63: stride 1 / 16 |
//! | 2, 3 | strides 2, 3 and 4, each divided by 16 in 32 bits |
//! | 4, 5, 6 | extents 0 to 4 of the tensor, each less 1 in 32 bits; 6: 56-63: extent 0 of the TMA tile less 1 |
//! | 7 | extents 1 to 4 of the TMA tile less 1, in 8 bits each |
//!
//! The other half of the bytes is zero.

use crate::Expr;
use base::diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Bytes of a tensor map.
pub const BYTES: usize = 128;
/// The 64-bit words that hold the fields; the other words are zero.
pub const WORDS: usize = 8;
/// Tensors from this number of bytes on count as large.
const LARGE: u64 = 128 << 10;

/// A strided tensor of up to five dimensions in memory, the contiguous one first, and the TMA tile of one copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Map {
    /// The address of the first element.
    pub base: Expr,
    pub element: Element,
    /// Elements per dimension.
    pub dims: Vec<Expr>,
    /// Bytes from one element to the next, from the second dimension on.
    pub strides: Vec<Expr>,
    /// Elements of the TMA tile.
    pub extent: Vec<u32>,
    pub swizzle: Swizzle,
    /// Whether loads round `f32` elements to tf32.
    pub tf32: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Element {
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

/// The arrangement of a TMA tile in shared memory: the row number permutes the 16-byte chunks of a row. The names give the bytes
/// within which chunks are permuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
    /// 128 bytes, permuted in chunks of 32.
    Bytes128Atom32,
}

impl Element {
    pub const ALL: [Element; 8] =
        [Element::Byte, Element::Int16, Element::Int32, Element::Int64, Element::F16, Element::F32, Element::F64, Element::Bf16];

    pub fn bytes(self) -> u32 {
        match self {
            Element::Byte => 1,
            Element::Int16 | Element::F16 | Element::Bf16 => 2,
            Element::Int32 | Element::F32 => 4,
            Element::Int64 | Element::F64 => 8,
        }
    }
    fn code(self) -> i64 {
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
    pub const ALL: [Swizzle; 5] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128, Swizzle::Bytes128Atom32];

    /// Maximum bytes of a row of the TMA tile; none without swizzle.
    pub fn max_row_bytes(self) -> Option<u32> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => Some(128),
        }
    }
    fn code(self) -> i64 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => 3,
        }
    }
}

impl Map {
    /// Checks the fields of the map that do not depend on arguments, for a kernel with this number of parameters. [`Map::encode`]
    /// checks the other fields.
    pub fn check(&self, params: usize) -> Result<(), String> {
        let (rank, strides, extents) = (self.dims.len(), self.strides.len(), self.extent.len());
        if !(1..=5).contains(&rank) || strides + 1 != rank || extents != rank {
            return Err(format!("its rank is {rank}, with {strides} strides and {extents} extents of the TMA tile"));
        }
        let row = self.extent[0].saturating_mul(self.element.bytes());
        let fits = row.is_multiple_of(16) && self.swizzle.max_row_bytes().is_none_or(|limit| row <= limit);
        if self.extent.iter().any(|extent| !(1..=256).contains(extent)) || !fits {
            return Err(format!("a TMA tile of {:?} elements of {} bytes", self.extent, self.element.bytes()));
        }
        if self.tf32 && self.element != Element::F32 {
            return Err("only f32 loads can round to tf32".into());
        }
        [&self.base].into_iter().chain(&self.dims).chain(&self.strides).try_for_each(|expr| expr.check(params))
    }

    /// The parameters that the map depends on.
    pub fn params(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut rest: Vec<&Expr> = [&self.base].into_iter().chain(&self.dims).chain(&self.strides).collect();
        while let Some(expr) = rest.pop() {
            rest.extend(expr.operands());
            if let Expr::Param(index) = expr {
                found.insert(*index);
            }
        }
        found
    }

    /// Bytes of one TMA copy, including elements outside the tensor.
    pub fn tile_bytes(&self) -> u32 {
        self.extent.iter().product::<u32>() * self.element.bytes()
    }

    /// The first half of the bytes, as words. The map must have passed [`Map::check`].
    pub fn words(&self) -> [Expr; WORDS] {
        let zero = || Expr::Const(0);
        let stride = |index: usize| self.strides.get(index).map_or_else(zero, |stride| stride.clone().shift_right(4));
        let minus_one = |expr: &Expr| expr.clone().sum(Expr::Const(-1));
        let dim = |index: usize| self.dims.get(index).map_or_else(zero, minus_one);
        let extent = |index: usize| i64::from(self.extent.get(index).map_or(0, |extent| extent - 1));
        let pair = |low: Expr, high: Expr| low.or(high.shift_left(32));

        let rows = self.dims[1..].iter().zip(&self.strides).map(|(dim, stride)| minus_one(dim).product(stride.clone()));
        let span = rows.fold(self.dims[0].clone().product(Expr::Const(self.element.bytes().into())), Expr::sum);
        let large = match span {
            Expr::Const(span) => Expr::Const((span as u64 >= LARGE).into()),
            span => Expr::AtLeast(span.into(), LARGE),
        };
        let flags = 2
            | (self.dims.len() as i64 - 1) << 4
            | self.element.code() << 7
            | self.swizzle.code() << 13
            | i64::from(self.tf32) << 16
            | 1 << 18
            | i64::from(self.swizzle == Swizzle::Bytes128Atom32) << 19;
        [
            self.base.clone(),
            pair(Expr::Const(flags).or(large.shift_left(21)), stride(0)),
            pair(stride(1), stride(2)),
            stride(3),
            pair(dim(0), dim(1)),
            pair(dim(2), dim(3)),
            dim(4).or(Expr::Const(extent(0) << 56)),
            Expr::Const(extent(1) | extent(2) << 8 | extent(3) << 16 | extent(4) << 24),
        ]
    }

    /// Encodes the map for the values of the visible parameters: addresses as they are, integers sign-extended.
    pub fn encode(&self, params: &[i64]) -> Result<[u8; BYTES]> {
        let wrong = |what: String| Diagnostic::invalid("MAP001", format!("a tensor map cannot be encoded: {what}"));
        self.check(params.len()).map_err(wrong)?;
        let base = self.base.eval(params) as u64;
        if !base.is_multiple_of(16) {
            return Err(wrong(format!("its address {base:#x} is not a multiple of 16")));
        }
        let values = |exprs: &[Expr]| exprs.iter().map(|expr| expr.eval(params) as u64).collect::<Vec<_>>();
        if let Some(dim) = values(&self.dims).into_iter().find(|dim| !(1..=1 << 32).contains(dim)) {
            return Err(wrong(format!("a dimension has {dim} elements")));
        }
        let stride = values(&self.strides).into_iter().find(|stride| !stride.is_multiple_of(16) || *stride >= 1 << 36);
        if let Some(stride) = stride {
            return Err(wrong(format!("a stride is {stride} bytes")));
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

    fn map() -> Map {
        Map {
            base: Expr::Param(0),
            element: Element::F16,
            dims: vec![Expr::Param(1), Expr::Const(30)],
            strides: vec![Expr::Param(2).product(Expr::Const(2))],
            extent: vec![64, 8],
            swizzle: Swizzle::Bytes128,
            tf32: false,
        }
    }
    fn words(map: &Map, params: &[i64]) -> Vec<u64> {
        let bytes = map.encode(params).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn words_are_those_of_observed_maps() {
        let all = words(&map(), &[0x1000, 100, 128]);
        assert_eq!(all[..4], [0x1000, 0x46312 | 16 << 32, 0, 0]);
        assert_eq!(all[4..8], [99 | 29 << 32, 0, 63 << 56, 7]);
        assert!(all[8..].iter().all(|&word| word == 0));
        let flags = |change: fn(&mut Map)| {
            let mut map = map();
            change(&mut map);
            words(&map, &[0, 8, 8])[1] as u32
        };
        assert_eq!(flags(|m| (m.element, m.extent) = (Element::F32, vec![32, 8])), 0x46392);
        assert_eq!(flags(|m| (m.element, m.swizzle) = (Element::Byte, Swizzle::Bytes64)), 0x44012);
        assert_eq!(flags(|m| (m.element, m.swizzle) = (Element::F32, Swizzle::None)), 0x40392);
        let tf32 = |m: &mut Map| (m.element, m.extent, m.tf32) = (Element::F32, vec![32, 8], true);
        assert_eq!(flags(tf32), 0x56392);
        let mut transposed = map();
        tf32(&mut transposed);
        transposed.swizzle = Swizzle::Bytes128Atom32;
        assert_eq!(words(&transposed, &[0, 8, 8])[1] as u32, 0xd6392);
    }

    /// From 128 KiB on, counted from the first byte to the end of the last row.
    #[test]
    fn large_tensors_are_marked() {
        let large = |map: &Map, params: &[i64]| words(map, params)[1] >> 21 & 1;
        assert_eq!([1, 2].map(|rows| large(&map(), &[0, 64, rows * 2048])), [0, 1]);
        let mut line = Map { dims: vec![Expr::Param(1)], strides: Vec::new(), extent: vec![64], ..map() };
        assert_eq!([0xffff, 0x10000].map(|length| large(&line, &[0, length])), [0, 1]);
        line.element = Element::Byte;
        assert_eq!(large(&line, &[0, 0x10000]), 0);
        let deep = Map {
            dims: vec![Expr::Const(64), Expr::Const(2), Expr::Param(1)],
            strides: vec![Expr::Const(0x400), Expr::Const(0x1000)],
            extent: vec![64, 2, 1],
            ..map()
        };
        // 128 + 0x400 bytes and as many steps of 0x1000.
        assert_eq!([32, 33].map(|planes| large(&deep, &[0, planes])), [0, 1]);
    }

    #[test]
    fn invalid_maps_are_refused() {
        let refused = |change: fn(&mut Map), params: &[i64]| {
            let mut map = map();
            change(&mut map);
            assert!(map.encode(params).is_err());
        };
        assert!(map().encode(&[0, 100, 128]).is_ok());
        refused(|_| (), &[8, 100, 128]);
        refused(|_| (), &[0, 0, 128]);
        refused(|_| (), &[0, 100, 3]);
        refused(|_| (), &[0, 100]);
        refused(|m| m.extent = vec![128, 8], &[0, 100, 128]);
        refused(|m| m.extent = vec![64, 257], &[0, 100, 128]);
        refused(|m| m.strides.clear(), &[0, 100, 128]);
        refused(|m| m.tf32 = true, &[0, 100, 128]);
        refused(|m| m.base = Expr::CeilDiv(Expr::Const(1).into(), 0), &[0, 100, 128]);
        refused(|m| m.base = Expr::ShiftLeft(Expr::Const(1).into(), 64), &[0, 100, 128]);
        refused(|m| m.base = (0..100).fold(Expr::Param(0), |sum, _| Expr::Sum(sum.into(), Expr::Const(0).into())), &[0, 100, 128]);
    }
}
