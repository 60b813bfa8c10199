//! Checks the fact that an `assume` op states about a tile.

use crate::tile::Tile;
use crate::tile::shape::{for_each_index, row_strides};
use core_dialect::core_ops::Fact;

/// Returns a description of the violation, if the fact does not hold.
pub(crate) fn violation(fact: &Fact, tile: &Tile) -> Option<String> {
    match fact {
        Fact::DivBy { divisor, every, along } => not_divisible(tile, *divisor, *every, *along),
        Fact::Bounded { low, high } => {
            let values = tile.lanes().iter().map(|bits| tile.carrier().sign_extend(bits));
            let mut outside = values.filter(|value| low.is_some_and(|low| *value < low) || high.is_some_and(|high| *value > high));
            let bound = |bound: &Option<i64>| bound.map_or("?".to_string(), |bound| bound.to_string());
            outside.next().map(|value| format!("{value} is not within {} and {}", bound(low), bound(high)))
        }
        Fact::SameElements { groups } => not_same(tile, groups),
    }
}

/// Checks a divisor along a dimension. The first element of every group must be a multiple, and each following element must be one
/// larger (for pointers, one element further).
fn not_divisible(tile: &Tile, divisor: u64, every: Option<i64>, along: Option<i64>) -> Option<String> {
    let step = match tile.elem {
        core_dialect::tile::Elem::Ptr { pointee, .. } => i64::from(pointee.bytes()),
        core_dialect::tile::Elem::Scalar(_) => 1,
    };
    let (dim, every) = (along.unwrap_or(0) as usize, every.filter(|every| *every > 0).unwrap_or(1) as u32);
    let strides = row_strides(&tile.shape);
    let mut wrong = None;
    for_each_index(&tile.shape, |index| {
        let value = |index: &[u32]| {
            let at: usize = index.iter().zip(&strides).map(|(i, stride)| *i as usize * stride).sum();
            tile.carrier().sign_extend(tile.lanes().get(at))
        };
        let place = index.get(dim).map_or(0, |i| i % every);
        let mut first = index.to_vec();
        if let Some(i) = first.get_mut(dim) {
            *i -= place;
        }
        let (value, expected) = (value(index), value(&first).wrapping_add(i64::from(place) * step));
        if place == 0 && value as u64 & (divisor - 1) != 0 {
            wrong.get_or_insert(format!("{value} is not a multiple of {divisor}"));
        } else if value != expected {
            wrong.get_or_insert(format!("{value} is not the successor of the preceding element"));
        }
    });
    wrong
}

fn not_same(tile: &Tile, groups: &[i64]) -> Option<String> {
    let strides = row_strides(&tile.shape);
    let mut wrong = None;
    for_each_index(&tile.shape, |index| {
        let at =
            |index: &mut dyn Iterator<Item = u32>| -> usize { index.zip(&strides).map(|(i, stride)| i as usize * stride).sum() };
        let group = |(i, group): (&u32, &i64)| i - i % (*group).clamp(1, i64::from(u32::MAX)) as u32;
        let (here, first) = (at(&mut index.iter().copied()), at(&mut index.iter().zip(groups).map(group)));
        if tile.lanes().get(here) != tile.lanes().get(first) {
            wrong.get_or_insert(format!("element {index:?} differs from the first of its group"));
        }
    });
    wrong
}
