//! Operations that rearrange elements of tiles without arithmetic, and the conversion of elements to and from bytes.

use super::Tile;
use core_dialect::tile::{Elem, Shape, element_count};
use numerics::arith::{ElementWords, Word};
use numerics::match_words;

/// Returns the row-major strides of a shape, in elements.
pub(crate) fn row_strides(shape: &[u32]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim] as usize;
    }
    strides
}

/// Returns the elements of a tile of shape `shape`. The element at an index is in `element_words` at `start` plus the index times
/// the strides.
fn gather_strided(element_words: &ElementWords, shape: &[u32], strides: &[usize], start: usize) -> ElementWords {
    fn copy<W: Word>(words: &[W], shape: &[u32], strides: &[usize], start: usize) -> Vec<W> {
        let mut out = Vec::with_capacity(element_count(shape));
        let Some((&inner, outer)) = shape.split_last() else { return vec![words[start]] };
        let step = strides[outer.len()];
        for_each_index(outer, |index| {
            let row = start + index.iter().zip(strides).map(|(i, stride)| *i as usize * stride).sum::<usize>();
            match step {
                0 => out.extend(std::iter::repeat_n(words[row], inner as usize)),
                1 => out.extend_from_slice(&words[row..row + inner as usize]),
                _ => out.extend((0..inner as usize).map(|i| words[row + i * step])),
            }
        });
        out
    }
    match_words!(element_words, words => Word::element_words(copy(words, shape, strides, start)))
}

/// Calls `f` with every index of a shape in row-major order.
pub(crate) fn for_each_index(shape: &[u32], mut f: impl FnMut(&[u32])) {
    let mut index = vec![0; shape.len()];
    loop {
        f(&index);
        let Some(dim) = (0..shape.len()).rev().find(|dim| index[*dim] + 1 < shape[*dim]) else { return };
        index[dim] += 1;
        index[dim + 1..].fill(0);
    }
}

/// Returns a tile whose elements are their row-major indices.
pub(crate) fn iota(shape: Shape, elem: Elem) -> Tile {
    let mask = elem.carrier().mask();
    let element_words = ElementWords::collect(elem.carrier(), (0..element_count(&shape) as u64).map(|i| i & mask));
    Tile::new(shape, elem, element_words)
}

/// Repeats a tile along the dimensions in which its extent is 1. A scalar fills any shape.
pub(crate) fn broadcast(x: &Tile, shape: Shape) -> Tile {
    if x.count() == 1 {
        return Tile::splat(shape, x.elem, x.first());
    }
    let operand_strides = row_strides(&x.shape);
    let strides: Vec<_> = operand_strides.iter().zip(&x.shape).map(|(stride, dim)| if *dim == 1 { 0 } else { *stride }).collect();
    let element_words = gather_strided(x.element_words(), &shape, &strides, 0);
    Tile::new(shape, x.elem, element_words)
}

/// Permutes dimensions: result dimension `k` is operand dimension `order[k]`.
pub(crate) fn permute(x: &Tile, order: &[usize]) -> Tile {
    let operand_strides = row_strides(&x.shape);
    let shape: Shape = order.iter().map(|dim| x.shape[*dim]).collect();
    let strides: Vec<_> = order.iter().map(|dim| operand_strides[*dim]).collect();
    let element_words = gather_strided(x.element_words(), &shape, &strides, 0);
    Tile::new(shape, x.elem, element_words)
}

/// Returns the index of the first element of a slice in a tile. `tile` and `slice` are the extents, `slice_index` counts slices
/// along each dimension. Returns `None` if the slice is outside the tile.
fn slice_start(tile: &[u32], slice: &[u32], slice_index: &[u64]) -> Option<usize> {
    let mut start = 0;
    for (dim, stride) in row_strides(tile).into_iter().enumerate() {
        if slice_index[dim] >= u64::from(tile[dim] / slice[dim]) {
            return None;
        }
        start += slice_index[dim] as usize * slice[dim] as usize * stride;
    }
    Some(start)
}

/// Returns a slice of a tile. `None` if the slice is outside the tile.
pub(crate) fn extract(x: &Tile, shape: Shape, slice_index: &[u64]) -> Option<Tile> {
    let start = slice_start(&x.shape, &shape, slice_index)?;
    let element_words = gather_strided(x.element_words(), &shape, &row_strides(&x.shape), start);
    Some(Tile::new(shape, x.elem, element_words))
}

/// Returns the tile `into` with the slice at `slice_index` replaced by `x`. `None` if the slice is outside the tile.
pub(crate) fn insert(x: &Tile, into: &Tile, slice_index: &[u64]) -> Option<Tile> {
    let start = slice_start(&into.shape, &x.shape, slice_index)?;
    let mut element_words = into.element_words().clone();
    write_strided(x.element_words(), &mut element_words, &x.shape, &row_strides(&into.shape), start);
    Some(Tile::new(into.shape.clone(), into.elem, element_words))
}

/// Concatenates two tiles along a dimension.
pub(crate) fn cat(a: &Tile, b: &Tile, dim: usize) -> Tile {
    let mut shape = a.shape.clone();
    shape[dim] += b.shape[dim];
    let mut element_words = ElementWords::splat(a.carrier(), 0, element_count(&shape));
    let strides = row_strides(&shape);
    write_strided(a.element_words(), &mut element_words, &a.shape, &strides, 0);
    write_strided(b.element_words(), &mut element_words, &b.shape, &strides, a.shape[dim] as usize * strides[dim]);
    Tile::new(shape, a.elem, element_words)
}

/// Writes all elements of `from`, whose shape is `shape`, to `to`. The element at an index goes to `start` plus the index times the
/// strides. The last stride is 1.
fn write_strided(from: &ElementWords, to: &mut ElementWords, shape: &[u32], strides: &[usize], start: usize) {
    fn copy<W: Word>(from: &[W], to: &mut ElementWords, shape: &[u32], strides: &[usize], start: usize) {
        let to = W::words_of_mut(to).expect("both tiles have one element type");
        let mut remaining = from;
        let Some((&inner, outer)) = shape.split_last() else { return to[start] = from[0] };
        for_each_index(outer, |index| {
            let row = start + index.iter().zip(strides).map(|(i, stride)| *i as usize * stride).sum::<usize>();
            let (row_elements, following) = remaining.split_at(inner as usize);
            to[row..row + inner as usize].copy_from_slice(row_elements);
            remaining = following;
        });
    }
    match_words!(from, words => copy(words, to, shape, strides, start));
}

/// Reinterprets the bytes of a one-dimensional tile as elements of another width. The first of two 4-bit elements in a byte is the
/// lower half of the byte.
pub(crate) fn reinterpret(x: &Tile, shape: Shape, elem: Elem) -> Tile {
    let element_words = from_bytes(elem, &to_bytes(x));
    Tile::new(shape, elem, element_words)
}

/// Returns the elements as contiguous bytes in memory format.
pub(crate) fn to_bytes(x: &Tile) -> Vec<u8> {
    let mut out = Vec::new();
    match x.element_words() {
        ElementWords::W8(words) if x.elem.bits() == 4 => {
            out.extend(words.chunks(2).map(|pair| pair[0] & 15 | pair.get(1).map_or(0, |high| high << 4)))
        }
        ElementWords::W8(words) => out.extend_from_slice(words),
        ElementWords::W16(words) => words.iter().for_each(|word| out.extend(word.to_le_bytes())),
        ElementWords::W32(words) => words.iter().for_each(|word| out.extend(word.to_le_bytes())),
        ElementWords::W64(words) => words.iter().for_each(|word| out.extend(word.to_le_bytes())),
    }
    out
}

/// Reads elements from contiguous bytes. A non-zero byte of an i1 is true.
pub fn from_bytes(elem: Elem, bytes: &[u8]) -> ElementWords {
    match elem.bits() {
        1 => ElementWords::W8(bytes.iter().map(|byte| u8::from(*byte != 0)).collect()),
        4 => ElementWords::W8(bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect()),
        bits @ ..=8 => ElementWords::W8(bytes.iter().map(|byte| byte & (0xff >> (8 - bits))).collect()),
        16 => ElementWords::W16(bytes.as_chunks().0.iter().map(|word| u16::from_le_bytes(*word)).collect()),
        32 => ElementWords::W32(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()),
        _ => ElementWords::W64(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numerics::Scalar;

    const I8: Elem = Elem::Scalar(Scalar::I8);

    fn tile(shape: &[u32], values: &[u8]) -> Tile {
        Tile::new(shape.into(), I8, ElementWords::W8(values.to_vec()))
    }
    fn values(tile: &Tile) -> Vec<u8> {
        to_bytes(tile)
    }

    #[test]
    fn rearranging_ops_give_elements_in_row_major_order() {
        let x = tile(&[2, 4], &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(values(&permute(&x, &[1, 0])), [0, 4, 1, 5, 2, 6, 3, 7]);
        let row = tile(&[1, 2], &[8, 9]);
        assert_eq!(values(&broadcast(&row, [2, 2].into_iter().collect())), [8, 9, 8, 9]);
        let column = tile(&[2, 1], &[8, 9]);
        assert_eq!(values(&broadcast(&column, [2, 2].into_iter().collect())), [8, 8, 9, 9]);
        assert_eq!(values(&cat(&x, &x, 0))[8..], values(&x));
        assert_eq!(values(&cat(&column, &column, 1)), [8, 8, 9, 9]);
        let slice = extract(&x, [1, 2].into_iter().collect(), &[1, 1]).unwrap();
        assert_eq!(values(&slice), [6, 7]);
        assert_eq!(values(&insert(&row, &x, &[0, 1]).unwrap()), [0, 1, 8, 9, 4, 5, 6, 7]);
        assert!(extract(&x, [1, 2].into_iter().collect(), &[2, 0]).is_none());
        assert!(insert(&row, &x, &[0, u64::MAX]).is_none());
    }

    #[test]
    fn three_dimensions_are_permuted_and_restored() {
        let x = tile(&[2, 2, 4], &(0..16).collect::<Vec<u8>>());
        let y = permute(&x, &[2, 0, 1]);
        assert_eq!(y.shape[..], [4, 2, 2]);
        assert_eq!(values(&y)[..4], [0, 4, 8, 12]);
        assert_eq!(permute(&y, &[1, 2, 0]), x);
    }

    #[test]
    fn bytes_are_reinterpreted_as_wider_and_narrower_elements() {
        let bytes = tile(&[4], &[0x21, 0x43, 0x65, 0x87]);
        let f4 = Elem::Scalar(Scalar::F4E2M1FN);
        let halves = reinterpret(&bytes, [8].into_iter().collect(), f4);
        assert_eq!(halves.element_words().iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(reinterpret(&halves, [4].into_iter().collect(), I8), bytes);
        let words = reinterpret(&bytes, [2].into_iter().collect(), Elem::Scalar(Scalar::I16));
        assert_eq!(words.element_words().get(1), 0x8765);
        assert_eq!(from_bytes(Elem::Scalar(Scalar::I1), &[0, 7]), ElementWords::W8(vec![0, 1]));
    }
}
