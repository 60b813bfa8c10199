//! Tensor maps of windows. A window is a part of an array. Its address, and possibly one extent, are known only when the kernel
//! runs. An example is the slice of a ragged array between two loaded row numbers. The map is written before the launch, so it
//! describes the array. The coordinates of a copy select the window.
//!
//! Such a map has two dimensions in addition to those of the view. In bytes, with the stride `s` of the dimension whose extent is
//! unknown (0 if all extents are known):
//!
//! | dimension | stride | coordinate |
//! |---|---|---|
//! | ragged (its extent in the map is [`END`]) | `s` | `x = END - (end - row)` |
//! | fine | [`FINE_STRIDE`] | `y = (T mod PERIOD + h s) / FINE_STRIDE` |
//! | coarse | `PERIOD - s` | `z = END + h` |
//!
//! `row` is a row of the window. `end` is the extent of the window, or the end of the tile if that is smaller. `T` is the distance
//! in bytes from the start of the array to row `end`, and `h` is `T / PERIOD`, rounded down. Rows of the window have `x < END`. TMA
//! fills other rows with zero, and does not store them. The sum of the three offsets is `T - (end - row) s`, the distance of the
//! row from the start of the array. Reason: `END * PERIOD` is 2^64, and addresses wrap.
//! See also: Triton's `ragged_tma`, which has the same three dimensions with the stride `s` for the second one.

use base::Value;
use tensormap::{Expr, Map};

/// The coordinate after the last row of a window, and the extent of the ragged dimension.
pub const END: i64 = 1 << 30;
/// Bytes after which the coarse coordinate increases by one. Invariant: `END * PERIOD` is 2^64.
pub const PERIOD: i64 = 1 << 34;
/// Bytes from one element of the fine dimension to the next, the smallest stride of a map.
pub const FINE_STRIDE: i64 = 16;
/// Extent of the coarse dimension. Its coordinates from `END` on reach 2^58 bytes, more than the address space.
const COARSE_EXTENT: i64 = END + (1 << 24) + 1;
/// Extent of the fine dimension. Its elements span 2^35 bytes, twice `PERIOD`.
const FINE_EXTENT: i64 = i32::MAX as i64;
/// Maximum number of dimensions of a tensor map (CUDA Driver API, `cuTensorMapEncodeTiled`).
const MAX_RANK: usize = 5;

/// The position of a view in the tensor map of the array that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayWindow {
    /// The pointer at which the map starts.
    pub array: Value,
    /// The dimension of unknown extent, in the map's order.
    pub ragged_dim: Option<usize>,
}

impl ArrayWindow {
    /// The window of a view in `array`. `dims` are the extents of the view in the map's order; `None` for an unknown extent. The
    /// error is the reason why a map cannot describe the window.
    pub(super) fn from_dims(array: Value, dims: &[Option<Expr>]) -> Result<ArrayWindow, &'static str> {
        let mut unknown = (0..dims.len()).filter(|dim| dims[*dim].is_none());
        let ragged_dim = unknown.next();
        if unknown.next().is_some() {
            return Err("two of its extents are not computed from parameters");
        }
        if ragged_dim == Some(0) {
            return Err("its extent along contiguous elements is not computed from parameters");
        }
        if dims.len() + 2 > MAX_RANK {
            return Err("its address or extents are not computed from parameters, and it has more than three dimensions");
        }
        Ok(ArrayWindow { array, ragged_dim })
    }

    /// Adds the dimensions of the window to the map of a view.
    pub(super) fn add_dims(self, map: &mut Map) {
        let stride = self.ragged_dim.map_or(Expr::Const(0), |dim| map.strides[dim - 1].clone());
        map.dims.extend([Expr::Const(FINE_EXTENT), Expr::Const(COARSE_EXTENT)]);
        map.strides.extend([Expr::Const(FINE_STRIDE), stride.product(Expr::Const(-1)).sum(Expr::Const(PERIOD))]);
        map.extent.extend([1, 1]);
    }
}
