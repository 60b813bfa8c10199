//! Checks the fact that an `assume` op states about a tile.

use crate::tile::Tile;
use crate::tile::shape::{for_each_index, row_strides};
use core_dialect::core_ops::Fact;

/// Returns a description of the first violation of a fact. `None` if the fact is true.
pub(crate) fn violation(fact: &Fact, tile: &Tile) -> Option<String> {
    match fact {
        Fact::DivBy { divisor, every, along } => div_by_violation(tile, *divisor, *every, *along),
        Fact::Bounded { low, high } => {
            let values = tile.element_words().iter().map(|bits| tile.carrier().sign_extend(bits));
            let mut outside = values.filter(|value| low.is_some_and(|low| *value < low) || high.is_some_and(|high| *value > high));
            let bound_text = |bound: &Option<i64>| bound.map_or("?".to_string(), |bound| bound.to_string());
            outside.next().map(|value| format!("{value} is not within {} and {}", bound_text(low), bound_text(high)))
        }
        Fact::SameElements { groups } => same_elements_violation(tile, groups),
    }
}

/// Checks `div_by`. Along dimension `along`, `every` consecutive elements form a group. The first element of a group must be a
/// multiple of the divisor. Each other element must be its predecessor plus one, or plus the pointee size for pointers.
fn div_by_violation(tile: &Tile, divisor: u64, every: Option<i64>, along: Option<i64>) -> Option<String> {
    let step = match tile.elem {
        core_dialect::tile::Elem::Ptr { pointee, .. } => i64::from(pointee.bytes()),
        core_dialect::tile::Elem::Scalar(_) => 1,
    };
    let (dim, every) = (along.unwrap_or(0) as usize, every.filter(|every| *every > 0).unwrap_or(1) as u32);
    let strides = row_strides(&tile.shape);
    let mut first_violation = None;
    for_each_index(&tile.shape, |index| {
        let value_at = |index: &[u32]| {
            let at: usize = index.iter().zip(&strides).map(|(i, stride)| *i as usize * stride).sum();
            tile.carrier().sign_extend(tile.element_words().get(at))
        };
        let index_in_group = index.get(dim).map_or(0, |i| i % every);
        let mut first_index = index.to_vec();
        if let Some(i) = first_index.get_mut(dim) {
            *i -= index_in_group;
        }
        let (value, expected) = (value_at(index), value_at(&first_index).wrapping_add(i64::from(index_in_group) * step));
        if index_in_group == 0 && value as u64 & (divisor - 1) != 0 {
            first_violation.get_or_insert(format!("{value} is not a multiple of {divisor}"));
        } else if value != expected {
            first_violation.get_or_insert(format!("{value} is not the successor of the preceding element"));
        }
    });
    first_violation
}

/// Checks `same_elements`. For each dimension, `groups` gives the number of consecutive elements that must be equal.
fn same_elements_violation(tile: &Tile, groups: &[i64]) -> Option<String> {
    let strides = row_strides(&tile.shape);
    let mut first_violation = None;
    for_each_index(&tile.shape, |index| {
        let flat_index =
            |index: &mut dyn Iterator<Item = u32>| -> usize { index.zip(&strides).map(|(i, stride)| i as usize * stride).sum() };
        let group_start = |(i, group): (&u32, &i64)| i - i % (*group).clamp(1, i64::from(u32::MAX)) as u32;
        let (element, first_of_group) =
            (flat_index(&mut index.iter().copied()), flat_index(&mut index.iter().zip(groups).map(group_start)));
        if tile.element_words().get(element) != tile.element_words().get(first_of_group) {
            first_violation.get_or_insert(format!("element {index:?} differs from the first of its group"));
        }
    });
    first_violation
}
