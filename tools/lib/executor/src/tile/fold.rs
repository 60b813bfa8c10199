//! Reductions and scans along one dimension, with any combiner body. A line is a set of elements that differ only along that
//! dimension.
//!
//! A reduction combines neighbours pairwise, then neighbouring results, and so on. Reason: associativity permits this fixed order,
//! and rounding errors grow slowly in it. The elements with the lower indices are the left argument of the body. A scan is
//! sequential, and the prefix is the left argument. The identity is never an argument, because extents are at least 1.

use super::Tile;
use base::diag::Result;
use core_dialect::tile::{Elem, Shape, element_count};
use numerics::arith::{ElementWords, Word};
use numerics::match_words;

/// Evaluates the body for many pairs of elements at once. The arguments are one-dimensional tiles, a left and a right tile per
/// operand (for a scan, the prefix and the elements). The results are one tile per operand.
pub(crate) type Combiner<'a> = &'a mut dyn FnMut(Vec<Tile>) -> Result<Vec<Tile>>;

/// The shape of a tile relative to one dimension: the number of elements of the dimensions before it (`outer`), its extent
/// (`along`), and the number of elements of the dimensions after it (`inner`).
#[derive(Clone, Copy)]
struct AxisExtents {
    outer: usize,
    along: usize,
    inner: usize,
}

impl AxisExtents {
    fn new(shape: &[u32], dim: usize) -> AxisExtents {
        AxisExtents { outer: element_count(&shape[..dim]), along: shape[dim] as usize, inner: element_count(&shape[dim + 1..]) }
    }
    /// Returns the elements at the given positions along the dimension.
    fn gather_positions(self, element_words: &ElementWords, positions: impl Iterator<Item = usize> + Clone) -> ElementWords {
        fn copy<W: Word>(words: &[W], extents: AxisExtents, positions: impl Iterator<Item = usize> + Clone) -> ElementWords {
            let mut out = Vec::new();
            for block in words.chunks_exact(extents.along * extents.inner) {
                for position in positions.clone() {
                    out.extend_from_slice(&block[position * extents.inner..][..extents.inner]);
                }
            }
            W::element_words(out)
        }
        match_words!(element_words, words => copy(words, self, positions))
    }
}

/// Returns a one-dimensional tile of the given elements.
fn flat_tile(elem: Elem, element_words: ElementWords) -> Tile {
    Tile::new(Shape::from_slice(&[element_words.len() as u32]), elem, element_words)
}

/// The elements of a line that a step of a reduction combines.
#[derive(Clone, Copy)]
pub(crate) enum Pairing {
    /// Adjacent elements.
    Neighbours,
    /// Elements whose distance is half of the line, as in a warp butterfly.
    Halves,
}

/// Reduces tiles along a dimension. The results do not have this dimension. `pairing` selects the combined elements of each step.
pub(crate) fn reduce(operands: &[Tile], dim: usize, pairing: Pairing, body: Combiner<'_>) -> Result<Vec<Tile>> {
    let mut extents = AxisExtents::new(&operands[0].shape, dim);
    let mut shape = operands[0].shape.clone();
    shape.remove(dim);
    let mut tiles: Vec<Tile> = operands.to_vec();
    while extents.along > 1 {
        let pairs = extents.along / 2;
        let mut arguments = Vec::with_capacity(tiles.len() * 2);
        for tile in &tiles {
            for side in 0..2 {
                let position = |pair: usize| match pairing {
                    Pairing::Neighbours => 2 * pair + side,
                    Pairing::Halves => pair + side * pairs,
                };
                arguments.push(flat_tile(tile.elem, extents.gather_positions(tile.element_words(), (0..pairs).map(position))));
            }
        }
        tiles = body(arguments)?;
        extents.along = pairs;
    }
    Ok(tiles.into_iter().map(|tile| tile.with_shape(shape.clone())).collect())
}

/// Scans tiles along a dimension, from the last element if `reverse` is set.
pub(crate) fn scan(operands: &[Tile], dim: usize, reverse: bool, body: Combiner<'_>) -> Result<Vec<Tile>> {
    let extents = AxisExtents::new(&operands[0].shape, dim);
    let slice = |position: usize| -> Vec<Tile> {
        operands
            .iter()
            .map(|tile| flat_tile(tile.elem, extents.gather_positions(tile.element_words(), std::iter::once(position))))
            .collect()
    };
    let mut results: Vec<ElementWords> = operands.iter().map(|tile| tile.element_words().clone()).collect();
    let mut prefix: Option<Vec<Tile>> = None;
    for step in 0..extents.along {
        let position = if reverse { extents.along - 1 - step } else { step };
        let elements = slice(position);
        let combined = match prefix {
            None => elements,
            Some(prefix) => body(prefix.into_iter().zip(elements).flat_map(|(prefix, element)| [prefix, element]).collect())?,
        };
        for (result, tile) in results.iter_mut().zip(&combined) {
            write_slice(result, tile.element_words(), extents, position..position + 1);
        }
        prefix = Some(combined);
    }
    Ok(results
        .into_iter()
        .zip(operands)
        .map(|(element_words, tile)| Tile::new(tile.shape.clone(), tile.elem, element_words))
        .collect())
}

/// Scans tiles in another order that associativity permits (Hillis-Steele). The steps combine each element with the element at
/// distance 1, then at distances 2, 4 and so on.
pub(crate) fn scan_by_doubling(operands: &[Tile], dim: usize, reverse: bool, body: Combiner<'_>) -> Result<Vec<Tile>> {
    let extents = AxisExtents::new(&operands[0].shape, dim);
    let mut words_of_operands: Vec<ElementWords> = operands.iter().map(|tile| tile.element_words().clone()).collect();
    let mut distance = 1;
    while distance < extents.along {
        let (low, high) = (0..extents.along - distance, distance..extents.along);
        let (before, elements) = if reverse { (high, low) } else { (low, high) };
        let sides = [before, elements.clone()];
        let arguments = words_of_operands.iter().zip(operands).flat_map(|(element_words, tile)| {
            let side = |positions: &std::ops::Range<usize>| {
                flat_tile(tile.elem, extents.gather_positions(element_words, positions.clone()))
            };
            sides.each_ref().map(side)
        });
        let combined = body(arguments.collect())?;
        words_of_operands
            .iter_mut()
            .zip(&combined)
            .for_each(|(element_words, tile)| write_slice(element_words, tile.element_words(), extents, elements.clone()));
        distance *= 2;
    }
    Ok(words_of_operands
        .into_iter()
        .zip(operands)
        .map(|(element_words, tile)| Tile::new(tile.shape.clone(), tile.elem, element_words))
        .collect())
}

/// Returns for each line the sum of the magnitudes of its finite elements. Zero for non-float types.
pub(crate) fn magnitudes(tile: &Tile, dim: usize) -> Vec<f64> {
    let extents = AxisExtents::new(&tile.shape, dim);
    let mut accumulators = vec![0.0; extents.outer * extents.inner];
    let Some(scalar) = tile.elem.scalar().filter(|scalar| scalar.is_float()) else { return accumulators };
    for (at, bits) in tile.element_words().iter().enumerate() {
        let line = at / (extents.along * extents.inner) * extents.inner + at % extents.inner;
        let value = numerics::float::decode(scalar, bits).abs();
        accumulators[line] += if value.is_finite() { value } else { 0.0 };
    }
    accumulators
}

/// Writes `from` to the elements of `to` at the given positions along the dimension.
fn write_slice(to: &mut ElementWords, from: &ElementWords, extents: AxisExtents, positions: std::ops::Range<usize>) {
    fn copy<W: Word>(to: &mut [W], from: &ElementWords, extents: AxisExtents, positions: std::ops::Range<usize>) {
        let from = W::words_of(from).expect("a body's results have the types of its operands");
        let run = positions.len() * extents.inner;
        for block in 0..extents.outer {
            let start = (block * extents.along + positions.start) * extents.inner;
            to[start..start + run].copy_from_slice(&from[block * run..][..run]);
        }
    }
    match_words!(to, words => copy(words, from, extents, positions));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile;
    use numerics::Scalar;
    use numerics::arith::{Binary, Overflow};

    const I32: Elem = Elem::Scalar(Scalar::I32);

    fn iota_tile(shape: &[u32]) -> Tile {
        tile::shape::iota([element_count(shape) as u32].into_iter().collect(), I32).with_shape(shape.into())
    }
    fn values(tile: &Tile) -> Vec<u64> {
        tile.element_words().iter().collect()
    }

    /// The combiner body composes affine maps, which is associative but not commutative.
    #[test]
    fn reductions_and_scans_combine_elements_in_order() {
        // Affine maps x -> a x + b as pairs: (a1, b1) followed by (a2, b2) is (a1 a2, b1 a2 + b2).
        let operands = [iota_tile(&[3, 8, 2]), iota_tile(&[3, 8, 2])];
        let compose = &mut |args: Vec<Tile>| {
            let [a1, a2, b1, b2] = &args[..] else { panic!("two operands") };
            let overflow = Overflow::None;
            let product = tile::binary(Binary::MulI { overflow }, a1, a2);
            let sum = tile::binary(Binary::AddI { overflow }, &tile::binary(Binary::MulI { overflow }, b1, a2), b2);
            Ok(vec![product, sum])
        };
        let composed = |line: &mut dyn Iterator<Item = u64>| -> [u64; 2] {
            let step = |(a, b): (u32, u32), x: u64| {
                let x = x as u32;
                (a.wrapping_mul(x), b.wrapping_mul(x).wrapping_add(x))
            };
            let (a, b) = line.fold((1, 0), step);
            [a.into(), b.into()]
        };
        // Each of the six lines along the dimension of extent 8, identified by its outer and inner index.
        let lines = |range: std::ops::Range<u64>, reverse: bool| -> Vec<[u64; 2]> {
            let line = |(outer, inner): (u64, u64)| range.clone().map(move |along| outer * 16 + along * 2 + inner);
            let all = (0..3).flat_map(|outer| [(outer, 0), (outer, 1)]);
            all.map(|at| if reverse { composed(&mut line(at).rev()) } else { composed(&mut line(at)) }).collect()
        };
        let reduced = reduce(&operands, 1, Pairing::Neighbours, compose).unwrap();
        for (i, tile) in reduced.iter().enumerate() {
            assert_eq!(tile.shape[..], [3, 2]);
            assert_eq!(values(tile), lines(0..8, false).iter().map(|pair| pair[i]).collect::<Vec<u64>>());
        }
        for reverse in [false, true] {
            let scanned = scan(&operands, 1, reverse, compose).unwrap();
            for at in 0..8 {
                let expected = lines(if reverse { at..8 } else { 0..at + 1 }, reverse);
                for (i, tile) in scanned.iter().enumerate() {
                    let tile = tile::shape::extract(tile, [3, 1, 2].into_iter().collect(), &[0, at, 0]).unwrap();
                    assert_eq!(values(&tile), expected.iter().map(|pair| pair[i]).collect::<Vec<u64>>(), "{at} {reverse}");
                }
            }
        }
    }

    #[test]
    fn scans_run_in_both_directions() {
        let add = &mut |args: Vec<Tile>| Ok(vec![tile::binary(Binary::AddI { overflow: Overflow::None }, &args[0], &args[1])]);
        let up = scan(&[iota_tile(&[2, 4])], 1, false, add).unwrap();
        assert_eq!(values(&up[0]), [0, 1, 3, 6, 4, 9, 15, 22]);
        let down = scan(&[iota_tile(&[2, 4])], 0, true, add).unwrap();
        assert_eq!(values(&down[0]), [4, 6, 8, 10, 4, 5, 6, 7]);
    }
}
