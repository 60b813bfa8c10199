//! The check `--check=facts`: compares the facts that an `.aa` (TileAA) file records for a value with the computed value.

use crate::tile::Tile;
use crate::tile::shape::{for_each_index, row_strides};
use core_dialect::tile::Elem;
use tileaa::facts::{AxisInfo, ValueFacts};

/// Returns a description of the first violation of the recorded facts about a value. `None` if all facts are true.
pub(crate) fn violation(facts: &ValueFacts, tile: &Tile) -> Option<String> {
    let value_at = |at: usize| tile.carrier().sign_extend(tile.element_words().get(at));
    for at in 0..tile.count() {
        let value = value_at(at);
        if let Some(divisor) = facts.divisor.filter(|divisor| !divides(*divisor, value)) {
            return Some(format!("{value} is not a multiple of {divisor}"));
        }
        if let Some((low, high)) = facts.range.filter(|(low, high)| value < *low || value > *high) {
            return Some(format!("{value} is not within {low} and {high}"));
        }
    }
    facts.axes.iter().enumerate().find_map(|(dim, axis)| axis_violation(tile, dim, *axis, &value_at))
}

/// Returns whether `value` is a multiple of `divisor`, which is a power of two.
fn divides(divisor: u64, value: i64) -> bool {
    value as u64 & (divisor - 1) == 0
}

/// Checks the facts about one dimension. The first element of each group of `contiguity` elements must be a multiple of
/// `divisibility`. Each other element of the group must be the successor of its predecessor, in wrapping arithmetic. The elements
/// of each group of `constancy` elements must be equal.
fn axis_violation(tile: &Tile, dim: usize, axis: AxisInfo, value_at: &dyn Fn(usize) -> i64) -> Option<String> {
    let step = match tile.elem {
        Elem::Ptr { pointee, .. } => u64::from(pointee.bytes()),
        Elem::Scalar(_) => 1,
    };
    let (strides, mask) = (row_strides(&tile.shape), tile.carrier().mask());
    let mut first_violation = None;
    for_each_index(&tile.shape, |index| {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| *i as usize * stride).sum();
        let coordinate = u64::from(index[dim]);
        let value = value_at(at);
        if coordinate.is_multiple_of(axis.contiguity) && !divides(axis.divisibility, value) {
            first_violation.get_or_insert(format!("{value} at {index:?} is not a multiple of {}", axis.divisibility));
        }
        if coordinate == 0 {
            return;
        }
        let previous = value_at(at - strides[dim]);
        if !coordinate.is_multiple_of(axis.contiguity) && (value.wrapping_sub(previous) as u64 ^ step) & mask != 0 {
            first_violation.get_or_insert(format!("{value} at {index:?} is not the successor of {previous}"));
        }
        if !coordinate.is_multiple_of(axis.constancy) && value != previous {
            first_violation.get_or_insert(format!("{value} at {index:?} differs from {previous}"));
        }
    });
    first_violation
}

#[cfg(test)]
mod tests {
    use super::*;
    use numerics::Scalar;
    use numerics::arith::ElementWords;

    #[test]
    fn each_recorded_fact_is_checked() {
        let tile = |values: &[u64]| {
            let element_words = ElementWords::collect(Scalar::I32, values.iter().copied());
            Tile::new([values.len() as u32].into_iter().collect(), Elem::Scalar(Scalar::I32), element_words)
        };
        let facts = |contiguity, divisibility, constancy| ValueFacts {
            value: base::Value(0),
            divisor: None,
            range: Some((0, 100)),
            axes: vec![AxisInfo { contiguity, divisibility, constancy }],
        };
        assert_eq!(violation(&facts(2, 4, 1), &tile(&[8, 9, 4, 5])), None);
        assert!(violation(&facts(4, 4, 1), &tile(&[8, 9, 4, 5])).is_some());
        assert!(violation(&facts(2, 8, 1), &tile(&[8, 9, 4, 5])).is_some());
        assert!(violation(&facts(1, 1, 2), &tile(&[8, 9, 4, 5])).is_some());
        assert!(violation(&facts(1, 1, 1), &tile(&[101])).is_some());
    }
}
