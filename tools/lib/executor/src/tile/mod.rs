//! The run-time value of a tile (shape, element type, and element bits in row-major order), and element-wise arithmetic on tiles.

pub(crate) mod fold;
pub(crate) mod mma;
pub(crate) mod shape;

use core_dialect::tile::{Elem, Shape, element_count};
use numerics::arith::{Binary, Compare, Convert, ElementWords, Fma, Unary};
use numerics::{Scalar, match_words};
use std::borrow::Cow;
use std::sync::Arc;

/// A tile value. Cloning is cheap because the elements are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    pub shape: Shape,
    pub elem: Elem,
    element_words: Arc<ElementWords>,
    /// The mask of the undetermined elements, which `--check=padding` tracks. `None` if all elements are determined.
    undetermined: Option<Arc<[bool]>>,
}

impl Tile {
    pub fn new(shape: Shape, elem: Elem, element_words: ElementWords) -> Tile {
        debug_assert_eq!(element_count(&shape), element_words.len());
        Tile { shape, elem, element_words: Arc::new(element_words), undetermined: None }
    }
    pub(crate) fn splat(shape: Shape, elem: Elem, bits: u64) -> Tile {
        let element_words = ElementWords::splat(elem.carrier(), bits, element_count(&shape));
        Tile::new(shape, elem, element_words)
    }
    pub(crate) fn scalar(elem: Elem, bits: u64) -> Tile {
        Tile::splat(Shape::new(), elem, bits)
    }
    pub(crate) fn i32(value: i64) -> Tile {
        Tile::scalar(Elem::Scalar(Scalar::I32), value as u64 & 0xffff_ffff)
    }

    pub fn element_words(&self) -> &ElementWords {
        &self.element_words
    }
    pub fn count(&self) -> usize {
        self.element_words.len()
    }
    /// Returns the type that arithmetic on the element bits uses. Pointers are 64-bit integers.
    pub fn carrier(&self) -> Scalar {
        self.elem.carrier()
    }
    /// Returns the bits of the first element. A scalar has no other element.
    pub(crate) fn first(&self) -> u64 {
        self.element_words.get(0)
    }
    pub(crate) fn first_signed(&self) -> i64 {
        self.carrier().sign_extend(self.first())
    }
    pub(crate) fn is_true(&self) -> bool {
        self.first() & 1 == 1
    }

    /// Returns the mask of the undetermined elements. `None` if all elements are determined.
    pub(crate) fn undetermined(&self) -> Option<&[bool]> {
        self.undetermined.as_deref()
    }
    /// Returns the tile with the given elements marked as undetermined.
    pub(crate) fn with_undetermined(&self, undetermined: Vec<bool>) -> Tile {
        debug_assert_eq!(undetermined.len(), self.count());
        let mask = undetermined.contains(&true).then(|| undetermined.into());
        Tile { undetermined: mask, ..self.clone() }
    }
    /// Returns the mask of the undetermined elements as an i1 tile.
    pub(crate) fn undetermined_tile(&self) -> Tile {
        let bit = |at: usize| u64::from(self.undetermined().is_some_and(|mask| mask[at]));
        Tile::new(self.shape.clone(), Elem::Scalar(Scalar::I1), ElementWords::collect(Scalar::I1, (0..self.count()).map(bit)))
    }

    /// Reshapes the tile to a shape of the same size, in row-major order.
    pub(crate) fn with_shape(&self, shape: Shape) -> Tile {
        debug_assert_eq!(element_count(&shape), self.count());
        Tile { shape, ..self.clone() }
    }
    /// Reinterprets the bits as elements of another type of the same width.
    pub(crate) fn with_elem(&self, elem: Elem) -> Tile {
        Tile { elem, ..self.clone() }
    }

    /// Returns a tile of the same shape with other elements.
    fn with_words(&self, elem: Elem, element_words: ElementWords) -> Tile {
        Tile::new(self.shape.clone(), elem, element_words)
    }

    /// Returns `count` elements: the elements of the tile, or `count` copies of its only element. Reason: in a reduction body, an
    /// element-wise op may have scalar operands together with operands of `count` elements.
    fn repeated(&self, count: usize) -> Cow<'_, ElementWords> {
        match self.count() == count {
            true => Cow::Borrowed(&*self.element_words),
            false => Cow::Owned(ElementWords::splat(self.carrier(), self.first(), count)),
        }
    }
}

/// Returns the operand with the most elements, whose shape is the shape of the result.
fn largest_operand<const N: usize>(tiles: [&Tile; N]) -> &Tile {
    tiles.into_iter().max_by_key(|tile| (tile.count(), tile.shape.len())).expect("an operation has operands")
}

pub(crate) fn unary(op: Unary, x: &Tile) -> Tile {
    x.with_words(x.elem, op.eval_words(x.carrier(), &x.element_words))
}

pub(crate) fn binary(op: Binary, a: &Tile, b: &Tile) -> Tile {
    let largest = largest_operand([a, b]);
    let count = largest.count();
    let right = match op {
        // The exponent may have any integer type and is signed.
        Binary::PowI if b.carrier() != Scalar::I64 => {
            let extend = Convert::ExtI { signedness: numerics::arith::Signedness::Signed };
            Cow::Owned(extend.eval_words(b.carrier(), Scalar::I64, &b.repeated(count)))
        }
        _ => b.repeated(count),
    };
    largest.with_words(a.elem, op.eval_words(a.carrier(), &a.repeated(count), &right))
}

pub(crate) fn fma(op: Fma, a: &Tile, b: &Tile, c: &Tile) -> Tile {
    let largest = largest_operand([a, b, c]);
    let count = largest.count();
    largest.with_words(a.elem, op.eval_words(a.carrier(), &a.repeated(count), &b.repeated(count), &c.repeated(count)))
}

pub(crate) fn compare(op: Compare, a: &Tile, b: &Tile) -> Tile {
    let largest = largest_operand([a, b]);
    let count = largest.count();
    largest.with_words(Elem::Scalar(Scalar::I1), op.eval_words(a.carrier(), &a.repeated(count), &b.repeated(count)))
}

pub(crate) fn convert(op: Convert, to: Scalar, x: &Tile) -> Tile {
    x.with_words(Elem::Scalar(to), op.eval_words(x.carrier(), to, &x.element_words))
}

pub(crate) fn select(cond: &Tile, yes: &Tile, no: &Tile) -> Tile {
    let largest = largest_operand([cond, yes, no]);
    let count = largest.count();
    let cond = cond.repeated(count);
    let ElementWords::W8(cond) = &*cond else { panic!("a condition is i1") };
    fn pick<W: numerics::arith::Word>(cond: &[u8], yes: &[W], no: &ElementWords) -> ElementWords {
        let no = W::words_of(no).expect("both sides of a select have one type");
        W::element_words(
            cond.iter().zip(yes.iter().zip(no)).map(|(cond, (yes, no))| if cond & 1 == 1 { *yes } else { *no }).collect(),
        )
    }
    let no = no.repeated(count);
    let element_words = match_words!(&*yes.repeated(count), words => pick(cond, words, &no));
    largest.with_words(yes.elem, element_words)
}

/// Adds an offset in elements to a pointer. A 4-bit element counts half a byte, and the address is rounded down.
pub(crate) fn offset(pointer: &Tile, offset: &Tile) -> Tile {
    let Elem::Ptr { pointee, .. } = pointer.elem else { panic!("an offset of something that is not a pointer") };
    let largest = largest_operand([pointer, offset]);
    let count = largest.count();
    let bits = i64::from(memory_bits(pointee));
    let (pointers, offsets, from) = (pointer.repeated(count), offset.repeated(count), offset.carrier());
    let addresses = pointers.iter().zip(offsets.iter());
    let addresses = addresses.map(|(pointer, by)| pointer.wrapping_add((from.sign_extend(by).wrapping_mul(bits) >> 3) as u64));
    largest.with_words(pointer.elem, ElementWords::W64(addresses.collect()))
}

/// Returns the number of bits of one element in memory. An i1 occupies a byte. Two 4-bit elements share a byte.
pub(crate) fn memory_bits(ty: Scalar) -> u32 {
    if ty.bits() == 4 { 4 } else { ty.bytes() * 8 }
}
