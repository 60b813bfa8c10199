//! Checks the facts that an `.aa` (TileAA) file records for a value against the computed value.

use crate::tile::Tile;
use crate::tile::shape::{for_each_index, row_strides};
use core_dialect::tile::Elem;
use tileaa::facts::{AxisInfo, ValueFacts};

/// Returns a description of the violation, if a recorded fact does not hold.
pub(crate) fn violation(known: &ValueFacts, tile: &Tile) -> Option<String> {
    let number = |at: usize| tile.carrier().sign_extend(tile.lanes().get(at));
    for at in 0..tile.count() {
        let value = number(at);
        if let Some(divisor) = known.divisor.filter(|divisor| !divides(*divisor, value)) {
            return Some(format!("{value} is not a multiple of {divisor}"));
        }
        if let Some((low, high)) = known.range.filter(|(low, high)| value < *low || value > *high) {
            return Some(format!("{value} is not within {low} and {high}"));
        }
    }
    known.axes.iter().enumerate().find_map(|(dim, axis)| axis_violation(tile, dim, *axis, &number))
}

fn divides(divisor: u64, value: i64) -> bool {
    value as u64 & (divisor - 1) == 0
}

/// Checks neighbours within a group. The comparison uses the wrapping arithmetic of the element type.
fn axis_violation(tile: &Tile, dim: usize, axis: AxisInfo, number: &dyn Fn(usize) -> i64) -> Option<String> {
    let step = match tile.elem {
        Elem::Ptr { pointee, .. } => u64::from(pointee.bytes()),
        Elem::Scalar(_) => 1,
    };
    let (strides, mask) = (row_strides(&tile.shape), tile.carrier().mask());
    let mut wrong = None;
    for_each_index(&tile.shape, |index| {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| *i as usize * stride).sum();
        let place = u64::from(index[dim]);
        let value = number(at);
        if place.is_multiple_of(axis.contiguity) && !divides(axis.divisibility, value) {
            wrong.get_or_insert(format!("{value} at {index:?} is not a multiple of {}", axis.divisibility));
        }
        if place == 0 {
            return;
        }
        let before = number(at - strides[dim]);
        if !place.is_multiple_of(axis.contiguity) && (value.wrapping_sub(before) as u64 ^ step) & mask != 0 {
            wrong.get_or_insert(format!("{value} at {index:?} is not the successor of {before}"));
        }
        if !place.is_multiple_of(axis.constancy) && value != before {
            wrong.get_or_insert(format!("{value} at {index:?} differs from {before}"));
        }
    });
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use numerics::Scalar;
    use numerics::arith::Lanes;

    #[test]
    fn runs_are_checked_per_group() {
        let tile = |numbers: &[u64]| {
            let lanes = Lanes::collect(Scalar::I32, numbers.iter().copied());
            Tile::new([numbers.len() as u32].into_iter().collect(), Elem::Scalar(Scalar::I32), lanes)
        };
        let known = |contiguity, divisibility, constancy| ValueFacts {
            value: base::Value(0),
            divisor: None,
            range: Some((0, 100)),
            axes: vec![AxisInfo { contiguity, divisibility, constancy }],
        };
        assert_eq!(violation(&known(2, 4, 1), &tile(&[8, 9, 4, 5])), None);
        assert!(violation(&known(4, 4, 1), &tile(&[8, 9, 4, 5])).is_some());
        assert!(violation(&known(2, 8, 1), &tile(&[8, 9, 4, 5])).is_some());
        assert!(violation(&known(1, 1, 2), &tile(&[8, 9, 4, 5])).is_some());
        assert!(violation(&known(1, 1, 1), &tile(&[101])).is_some());
    }
}
