//! Integer operations in two's complement. Results wrap. The overflow flags are promises of the program and do not change results.
//!
//! For cases that Tile IR does not define, the results are those of GPUs. A shift by at least the width of the type shifts out all
//! bits. A division or remainder by zero gives all ones. The smallest signed number divided by -1 gives the same number, with
//! remainder 0.

use super::word::{Map1, Map2, Word};
use super::{Binary, Predicate, Rounding, Signedness, Unary};
use crate::Scalar;

/// Returns a mask of the lowest `BITS` bits.
fn mask<const BITS: u32>() -> u64 {
    u64::MAX >> (64 - BITS)
}

/// Interprets the lowest `BITS` bits of a word as a signed integer.
#[inline(always)]
fn signed<const BITS: u32>(word: impl Word) -> i64 {
    ((word.bits() << (64 - BITS)) as i64) >> (64 - BITS)
}

/// Returns the lowest `BITS` bits of a number.
#[inline(always)]
fn wrap<W: Word, const BITS: u32>(value: u64) -> W {
    W::from_bits(value & mask::<BITS>())
}

/// Calls `$function` with the word type and the width in bits of an integer type as generic arguments.
macro_rules! by_width {
    ($ty:expr, $function:ident ($($argument:expr),*)) => {
        match $ty {
            Scalar::I1 => $function::<u8, 1, _>($($argument),*),
            Scalar::I4 => $function::<u8, 4, _>($($argument),*),
            Scalar::I8 => $function::<u8, 8, _>($($argument),*),
            Scalar::I16 => $function::<u16, 16, _>($($argument),*),
            Scalar::I32 => $function::<u32, 32, _>($($argument),*),
            Scalar::I64 => $function::<u64, 64, _>($($argument),*),
            other => panic!("an integer operation on {other}"),
        }
    };
}

/// Applies a unary operation to integers of type `ty`.
pub(super) fn unary<M: Map1>(op: Unary, ty: Scalar, map: M) -> M::Output {
    by_width!(ty, unary_of_width(op, map))
}

/// Applies a unary operation to integers of `BITS` bits.
fn unary_of_width<W: Word, const BITS: u32, M: Map1>(op: Unary, map: M) -> M::Output {
    match op {
        Unary::AbsI => map.map(|x: W| wrap::<W, BITS>(signed::<BITS>(x).unsigned_abs())),
        Unary::NegI { .. } => map.map(|x: W| wrap::<W, BITS>(x.bits().wrapping_neg())),
        other => panic!("{other:?} is not an integer operation"),
    }
}

/// Applies a binary operation to integers of type `ty`.
pub(super) fn binary<M: Map2>(op: Binary, ty: Scalar, map: M) -> M::Output {
    by_width!(ty, binary_of_width(op, map))
}

/// Applies a binary operation to integers of `BITS` bits.
fn binary_of_width<W: Word, const BITS: u32, M: Map2>(op: Binary, map: M) -> M::Output {
    use Signedness::{Signed, Unsigned};
    let wrap_signed = |value: i64| wrap::<W, BITS>(value as u64);
    match op {
        Binary::AddI { .. } => map.map(|a: W, b: W| wrap::<W, BITS>(a.bits().wrapping_add(b.bits()))),
        Binary::SubI { .. } => map.map(|a: W, b: W| wrap::<W, BITS>(a.bits().wrapping_sub(b.bits()))),
        Binary::MulI { .. } => map.map(|a: W, b: W| wrap::<W, BITS>(a.bits().wrapping_mul(b.bits()))),
        Binary::MulHiU => map.map(|a: W, b: W| wrap::<W, BITS>(((u128::from(a.bits()) * u128::from(b.bits())) >> BITS) as u64)),
        Binary::DivI { signedness: Signed, rounding } => {
            map.map(|a: W, b: W| wrap_signed(divide_signed(signed::<BITS>(a), signed::<BITS>(b), rounding)))
        }
        Binary::DivI { signedness: Unsigned, rounding } => {
            map.map(|a: W, b: W| wrap::<W, BITS>(divide_unsigned(a.bits(), b.bits(), rounding)))
        }
        Binary::RemI { signedness: Signed } => map.map(|a: W, b: W| {
            let (a, b) = (signed::<BITS>(a), signed::<BITS>(b));
            wrap_signed(if b == 0 { -1 } else { a.wrapping_rem(b) })
        }),
        Binary::RemI { signedness: Unsigned } => {
            map.map(|a: W, b: W| wrap::<W, BITS>(a.bits().checked_rem(b.bits()).unwrap_or(u64::MAX)))
        }
        Binary::MaxI { signedness: Signed } => map.map(|a: W, b: W| if signed::<BITS>(a) >= signed::<BITS>(b) { a } else { b }),
        Binary::MaxI { signedness: Unsigned } => map.map(|a: W, b: W| if a.bits() >= b.bits() { a } else { b }),
        Binary::MinI { signedness: Signed } => map.map(|a: W, b: W| if signed::<BITS>(a) <= signed::<BITS>(b) { a } else { b }),
        Binary::MinI { signedness: Unsigned } => map.map(|a: W, b: W| if a.bits() <= b.bits() { a } else { b }),
        Binary::And => map.map(|a: W, b: W| W::from_bits(a.bits() & b.bits())),
        Binary::Or => map.map(|a: W, b: W| W::from_bits(a.bits() | b.bits())),
        Binary::Xor => map.map(|a: W, b: W| W::from_bits(a.bits() ^ b.bits())),
        Binary::ShL { .. } => map.map(|a: W, b: W| {
            let count = b.bits();
            wrap::<W, BITS>(if count < BITS.into() { a.bits() << count } else { 0 })
        }),
        Binary::ShR { signedness: Signed } => map.map(|a: W, b: W| wrap_signed(signed::<BITS>(a) >> b.bits().min(63))),
        Binary::ShR { signedness: Unsigned } => map.map(|a: W, b: W| {
            let count = b.bits();
            wrap::<W, BITS>(if count < BITS.into() { a.bits() >> count } else { 0 })
        }),
        other => panic!("{other:?} is not an integer operation"),
    }
}

/// Divides with the requested rounding of the quotient. Division by zero gives all ones.
#[inline(always)]
fn divide_signed(a: i64, b: i64, rounding: Rounding) -> i64 {
    if b == 0 {
        return -1;
    }
    let (quotient, remainder) = (a.wrapping_div(b), a.wrapping_rem(b));
    match rounding {
        Rounding::NegativeInf if remainder != 0 && (remainder < 0) != (b < 0) => quotient - 1,
        Rounding::PositiveInf if remainder != 0 && (remainder < 0) == (b < 0) => quotient + 1,
        _ => quotient,
    }
}

/// Divides unsigned numbers with the requested rounding. Division by zero gives all ones.
#[inline(always)]
fn divide_unsigned(a: u64, b: u64, rounding: Rounding) -> u64 {
    match (b, rounding) {
        (0, _) => u64::MAX,
        (_, Rounding::PositiveInf) => a.div_ceil(b),
        _ => a / b,
    }
}

/// Compares integers of type `ty`. The result is 1 or 0.
pub(super) fn compare<M: Map2>(predicate: Predicate, signedness: Signedness, ty: Scalar, map: M) -> M::Output {
    by_width!(ty, compare_of_width(predicate, signedness, map))
}

/// Applies a comparison to integers of `BITS` bits.
fn compare_of_width<W: Word, const BITS: u32, M: Map2>(predicate: Predicate, signedness: Signedness, map: M) -> M::Output {
    let to_signed = signed::<BITS>;
    match (predicate, signedness) {
        (Predicate::Equal, _) => map.map(|a: W, b: W| u8::from(a.bits() == b.bits())),
        (Predicate::NotEqual, _) => map.map(|a: W, b: W| u8::from(a.bits() != b.bits())),
        (Predicate::LessThan, Signedness::Signed) => map.map(|a: W, b: W| u8::from(to_signed(a) < to_signed(b))),
        (Predicate::LessThanOrEqual, Signedness::Signed) => map.map(|a: W, b: W| u8::from(to_signed(a) <= to_signed(b))),
        (Predicate::GreaterThan, Signedness::Signed) => map.map(|a: W, b: W| u8::from(to_signed(a) > to_signed(b))),
        (Predicate::GreaterThanOrEqual, Signedness::Signed) => map.map(|a: W, b: W| u8::from(to_signed(a) >= to_signed(b))),
        (Predicate::LessThan, Signedness::Unsigned) => map.map(|a: W, b: W| u8::from(a.bits() < b.bits())),
        (Predicate::LessThanOrEqual, Signedness::Unsigned) => map.map(|a: W, b: W| u8::from(a.bits() <= b.bits())),
        (Predicate::GreaterThan, Signedness::Unsigned) => map.map(|a: W, b: W| u8::from(a.bits() > b.bits())),
        (Predicate::GreaterThanOrEqual, Signedness::Unsigned) => map.map(|a: W, b: W| u8::from(a.bits() >= b.bits())),
    }
}
