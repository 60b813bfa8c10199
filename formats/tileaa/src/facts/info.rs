//! The facts about one value, and their merge and refinement.
//!
//! All lengths and divisors are powers of two, so the greatest common divisor of two of them is the smaller one.

use core_dialect::tile::{Elem, Shape};
use numerics::Scalar;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The maximum divisor that the analysis records. Zero, which every number divides, has this divisor.
pub(super) const MAX_DIVISOR: u64 = 1 << 62;

/// The structure of a tile along one dimension, in groups that start at multiples of their length (compare Triton's `AxisInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisInfo {
    /// Within groups of this length, each element is its predecessor plus one (for pointers: plus one pointee).
    pub contiguity: u64,
    /// The first element of each group of length `contiguity` is a multiple of this number (for pointers: in bytes).
    pub divisibility: u64,
    /// Within groups of this length all elements are equal.
    pub constancy: u64,
}

/// All facts about a tile or scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileFacts {
    /// Bounds of every element as a signed number, both included.
    pub range: (i64, i64),
    /// A common divisor of all elements; for pointers in bytes.
    pub divisor: u64,
    /// The structure along each dimension; empty for a scalar.
    pub axes: SmallVec<[AxisInfo; 2]>,
}

impl AxisInfo {
    /// The facts that hold for every tile: each element is a group of its own.
    pub const UNKNOWN: AxisInfo = AxisInfo { contiguity: 1, divisibility: 1, constancy: 1 };

    /// A common divisor of the elements at multiples of `length` along the dimension. Within a contiguous group, neighbours differ
    /// by `unit`.
    pub(super) fn divisor_at(self, length: u64, unit: u64) -> u64 {
        if length >= self.contiguity { self.divisibility } else { self.divisibility.min(length.saturating_mul(unit)) }
    }

    fn join(self, other: AxisInfo) -> AxisInfo {
        let contiguity = self.contiguity.min(other.contiguity);
        AxisInfo {
            contiguity,
            // With shorter groups, more elements are the first of a group. Neighbours in a group differ by at least one.
            divisibility: self.divisor_at(contiguity, 1).min(other.divisor_at(contiguity, 1)),
            constancy: self.constancy.min(other.constancy),
        }
    }
}

impl TileFacts {
    /// The facts that follow from the element type and the shape alone.
    pub fn unknown(elem: Elem, shape: &Shape) -> TileFacts {
        TileFacts { range: full_range(elem), divisor: 1, axes: shape.iter().map(|_| AxisInfo::UNKNOWN).collect() }
    }

    /// The facts about a tile in which every element is `value`.
    pub(super) fn splat(value: i64, shape: &Shape) -> TileFacts {
        TileFacts::all_equal((value, value), power_of_two_divisor(value as u64), shape)
    }

    /// The facts about a tile whose elements are all equal.
    pub(super) fn all_equal(range: (i64, i64), divisor: u64, shape: &Shape) -> TileFacts {
        let axis = |extent: &u32| AxisInfo { contiguity: 1, divisibility: divisor, constancy: u64::from(*extent) };
        TileFacts { range, divisor, axes: shape.iter().map(axis).collect() }
    }

    /// The value of every element, if the range contains only one number.
    pub(super) fn constant(&self) -> Option<i64> {
        (self.range.0 == self.range.1).then_some(self.range.0)
    }

    /// The facts that hold for both inputs.
    pub(super) fn join(&self, other: &TileFacts) -> TileFacts {
        TileFacts {
            range: (self.range.0.min(other.range.0), self.range.1.max(other.range.1)),
            divisor: self.divisor.min(other.divisor),
            axes: self.axes.iter().zip(&other.axes).map(|(a, b)| a.join(*b)).collect(),
        }
    }

    /// Strengthens each kind of fact by the facts that the other kinds imply.
    pub(super) fn refine(mut self, shape: &Shape) -> TileFacts {
        if let Some(value) = self.constant() {
            return TileFacts::splat(value, shape);
        }
        let axis_divisor = self.axes.iter().map(|axis| axis.divisor_at(1, 1)).max().unwrap_or(1);
        self.divisor = self.divisor.max(axis_divisor);
        for axis in &mut self.axes {
            axis.divisibility = axis.divisibility.max(self.divisor);
        }
        self
    }

    /// The contiguity along a dimension after a conversion of the elements, of type `elem`, to a wider type. If the numbers in a
    /// group may wrap around at the greatest number of `elem`, the result is a shorter length. No group of this length can wrap.
    pub(super) fn contiguity_if_widened(&self, dim: usize, elem: Elem) -> u64 {
        let axis = self.axes[dim];
        let (low, high) = full_range(elem);
        let may_wrap = self.range == (low, high);
        if may_wrap { axis.contiguity.min(axis.divisibility) } else { axis.contiguity }
    }
}

/// The range of an integer type, as signed numbers. For pointers and floats, which the analysis does not bound, the range of i64.
pub fn full_range(elem: Elem) -> (i64, i64) {
    match elem {
        Elem::Scalar(scalar) if scalar.is_int() => scalar_range(scalar),
        _ => (i64::MIN, i64::MAX),
    }
}

/// The lowest and highest signed value of a scalar type.
fn scalar_range(scalar: Scalar) -> (i64, i64) {
    let high = (scalar.mask() >> 1) as i64;
    (-high - 1, high)
}

/// The greatest power of two that divides a number, up to `MAX_DIVISOR`.
pub(super) fn power_of_two_divisor(value: u64) -> u64 {
    if value == 0 { MAX_DIVISOR } else { (1 << value.trailing_zeros()).min(MAX_DIVISOR) }
}
