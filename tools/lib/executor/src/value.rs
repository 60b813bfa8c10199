//! Run-time values of the interpreter: the contents that an SSA value has during a run.

use crate::kernel_memory::Token;
use crate::tile::Tile;
use core_dialect::memory::Padding;
use core_dialect::tile::{Shape, ViewKind};
use numerics::Scalar;
use std::sync::Arc;

/// The run-time value of an SSA value.
#[derive(Clone, Debug)]
pub enum Value {
    Tile(Tile),
    Token(Token),
    Tensor(Arc<Tensor>),
    View(Arc<View>),
}

/// A strided tensor in memory. Extents and strides are in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub base: u64,
    pub elem: Scalar,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
}

/// A tensor partitioned into tiles. Tile dimension `t` runs along tensor dimension `dim_map[t]`.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub tensor: Arc<Tensor>,
    /// The shape of a tile.
    pub tile: Shape,
    pub dim_map: Vec<usize>,
    /// How tile indices map to tile origins: partition, strided or gather.
    pub kind: ViewKind,
    pub padding: Option<Padding>,
}

impl View {
    /// Returns the extents of the index space: the number of tile origins along each tile dimension. In a gather, each row and each
    /// element of a dense dimension is an origin.
    pub fn index_space(&self) -> Vec<i64> {
        let extent = |t: usize| self.tensor.sizes[self.dim_map[t]].max(0);
        (0..self.tile.len()).map(|t| (extent(t) as u64).div_ceil(self.kind.step(&self.tile, t).into()) as i64).collect()
    }
}

/// Returns the bits of an element that a load reads outside the tensor; zero if the view specifies no padding.
pub(crate) fn padding_bits(padding: Option<Padding>, ty: Scalar) -> u64 {
    let encode = |value: f64| {
        let rounding = numerics::arith::Rounding::NearestEven;
        numerics::float::encode(ty, value, rounding, numerics::float::OverflowResult::Ieee)
    };
    match padding {
        None => 0,
        Some(Padding::Zero) if ty.is_int() => 0,
        Some(Padding::Zero) => encode(0.0),
        Some(Padding::NegZero) => encode(-0.0),
        Some(Padding::Nan) => encode(f64::NAN),
        Some(Padding::PosInf) => encode(f64::INFINITY),
        Some(Padding::NegInf) => encode(f64::NEG_INFINITY),
    }
}
