//! The element bits of a tile, and the application of functions to them. The bits are a vector of words. A word has the smallest
//! unsigned integer type with enough bits for an element.
//!
//! An operation is a closure over words. The caller selects the closure once, by operation and type. A [`Map1`] or [`Map2`] applies
//! the closure to one element or to entire vectors. Reason: the loop over a vector then has no branches on the type, so the Rust
//! compiler vectorizes the loop.

use crate::Scalar;

/// An unsigned integer type with enough bits for one element.
pub trait Word: Copy + Default + PartialEq + Send + Sync + 'static {
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    /// Returns the variant of [`ElementWords`] for this word type, with these words.
    fn element_words(words: Vec<Self>) -> ElementWords;
    /// Returns the words of a vector, or `None` if the vector has another word type.
    fn words_of(element_words: &ElementWords) -> Option<&[Self]>;
    /// Does the same as [`Word::words_of`], for a mutable vector.
    fn words_of_mut(element_words: &mut ElementWords) -> Option<&mut Vec<Self>>;
}

/// The bits of many elements of one type, such as the elements of a tile, in words of one width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementWords {
    W8(Vec<u8>),
    W16(Vec<u16>),
    W32(Vec<u32>),
    W64(Vec<u64>),
}

macro_rules! word {
    ($word:ty, $variant:ident) => {
        impl Word for $word {
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $word
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }
            fn element_words(words: Vec<Self>) -> ElementWords {
                ElementWords::$variant(words)
            }
            fn words_of(element_words: &ElementWords) -> Option<&[Self]> {
                match element_words {
                    ElementWords::$variant(words) => Some(words),
                    _ => None,
                }
            }
            fn words_of_mut(element_words: &mut ElementWords) -> Option<&mut Vec<Self>> {
                match element_words {
                    ElementWords::$variant(words) => Some(words),
                    _ => None,
                }
            }
        }
    };
}
word!(u8, W8);
word!(u16, W16);
word!(u32, W32);
word!(u64, W64);

/// Evaluates an expression with `$words` bound to the vector in an [`ElementWords`]. The macro expands the expression for
/// each word type.
#[macro_export]
macro_rules! match_words {
    ($element_words:expr, $words:ident => $body:expr) => {
        match $element_words {
            $crate::arith::ElementWords::W8($words) => $body,
            $crate::arith::ElementWords::W16($words) => $body,
            $crate::arith::ElementWords::W32($words) => $body,
            $crate::arith::ElementWords::W64($words) => $body,
        }
    };
}

impl ElementWords {
    /// Returns `count` elements of type `ty` with the same bits.
    pub fn splat(ty: Scalar, bits: u64, count: usize) -> ElementWords {
        match ty.bits() {
            ..=8 => ElementWords::W8(vec![bits as u8; count]),
            16 => ElementWords::W16(vec![bits as u16; count]),
            32 => ElementWords::W32(vec![bits as u32; count]),
            _ => ElementWords::W64(vec![bits; count]),
        }
    }
    /// Returns elements of type `ty` with these bits.
    pub fn collect(ty: Scalar, bits: impl Iterator<Item = u64>) -> ElementWords {
        match ty.bits() {
            ..=8 => ElementWords::W8(bits.map(|bits| bits as u8).collect()),
            16 => ElementWords::W16(bits.map(|bits| bits as u16).collect()),
            32 => ElementWords::W32(bits.map(|bits| bits as u32).collect()),
            _ => ElementWords::W64(bits.collect()),
        }
    }
    pub fn len(&self) -> usize {
        match_words!(self, words => words.len())
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn get(&self, index: usize) -> u64 {
        match_words!(self, words => words[index].bits())
    }
    pub fn set(&mut self, index: usize, bits: u64) {
        match_words!(self, words => words[index] = Word::from_bits(bits))
    }
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
    /// Returns the elements at these indices, in this order.
    pub fn gather(&self, indices: impl Iterator<Item = usize>) -> ElementWords {
        match_words!(self, words => Word::element_words(indices.map(|index| words[index]).collect()))
    }
}

/// Applies a function of one operand to one element or to all elements of a tile.
pub(super) trait Map1 {
    type Output;
    fn map<A: Word, R: Word>(self, f: impl Fn(A) -> R) -> Self::Output;
}

/// Applies a function of two operands to one element or to all elements of two tiles.
pub(super) trait Map2 {
    type Output;
    fn map<A: Word, B: Word, R: Word>(self, f: impl Fn(A, B) -> R) -> Self::Output;
}

/// Applies a function of three operands of one type to one element or to all elements of three tiles.
pub(super) trait Map3 {
    type Output;
    fn map<A: Word>(self, f: impl Fn(A, A, A) -> A) -> Self::Output;
}

/// The bits of one element of each operand.
pub(super) struct OneElement<const N: usize>(pub(super) [u64; N]);

impl Map1 for OneElement<1> {
    type Output = u64;
    fn map<A: Word, R: Word>(self, f: impl Fn(A) -> R) -> u64 {
        f(A::from_bits(self.0[0])).bits()
    }
}

impl Map2 for OneElement<2> {
    type Output = u64;
    fn map<A: Word, B: Word, R: Word>(self, f: impl Fn(A, B) -> R) -> u64 {
        f(A::from_bits(self.0[0]), B::from_bits(self.0[1])).bits()
    }
}

impl Map3 for OneElement<3> {
    type Output = u64;
    fn map<A: Word>(self, f: impl Fn(A, A, A) -> A) -> u64 {
        f(A::from_bits(self.0[0]), A::from_bits(self.0[1]), A::from_bits(self.0[2])).bits()
    }
}

/// All elements of each operand. The vectors of the operands have the same length.
pub(super) struct AllElements<'a, const N: usize>(pub(super) [&'a ElementWords; N]);

/// Returns the words of an operand, whose word type the caller knows.
fn words<A: Word>(element_words: &ElementWords) -> &[A] {
    A::words_of(element_words).expect("the words of an operand have the word type of its element type")
}

impl Map1 for AllElements<'_, 1> {
    type Output = ElementWords;
    fn map<A: Word, R: Word>(self, f: impl Fn(A) -> R) -> ElementWords {
        R::element_words(words::<A>(self.0[0]).iter().map(|a| f(*a)).collect())
    }
}

impl Map2 for AllElements<'_, 2> {
    type Output = ElementWords;
    fn map<A: Word, B: Word, R: Word>(self, f: impl Fn(A, B) -> R) -> ElementWords {
        R::element_words(words::<A>(self.0[0]).iter().zip(words::<B>(self.0[1])).map(|(a, b)| f(*a, *b)).collect())
    }
}

impl Map3 for AllElements<'_, 3> {
    type Output = ElementWords;
    fn map<A: Word>(self, f: impl Fn(A, A, A) -> A) -> ElementWords {
        let pairs = words::<A>(self.0[1]).iter().zip(words::<A>(self.0[2]));
        A::element_words(words::<A>(self.0[0]).iter().zip(pairs).map(|(a, (b, c))| f(*a, *b, *c)).collect())
    }
}
