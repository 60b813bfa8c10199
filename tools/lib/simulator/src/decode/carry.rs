//! Arithmetic with the carry flag: `.cc` writes it; `addc`, `subc` and `madc` read it. The flag is an additional register.

use super::builder::Builder;
use super::{only, unsupported};
use crate::fault::Fault;
use crate::lanes::{LaneFn, map4};
use crate::program::Op;
use ptx::{Instruction, Type};

type Result<T> = std::result::Result<T, Box<Fault>>;

impl Builder<'_> {
    /// Decodes an instruction that accesses the carry flag. Returns `None` for other instructions.
    pub(super) fn with_carry(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        let (name, reads) = match &*instruction.opcode {
            "addc" => ("add", true),
            "subc" => ("sub", true),
            "madc" => ("mad", true),
            name @ ("add" | "sub" | "mad") if instruction.has("cc") => (name, false),
            _ => return Ok(None),
        };
        only(instruction, &["lo", "hi", "cc"])?;
        let ty = instruction.types().next().filter(|ty| matches!(ty, Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64));
        let Some(ty) = ty else { return Err(unsupported(instruction, "its type")) };
        let bits = ty.bits();
        let flag = self.carry();
        // Register slot 0 is zero, so operations without a product or without a carry-in have the same form.
        let mut src = [0; 4];
        for (i, slot) in src.iter_mut().enumerate().take(if name == "mad" { 3 } else { 2 }) {
            *slot = self.source(instruction, i + 1, bits)?;
        }
        if reads {
            src[3] = flag;
        }
        let form = match (name, instruction.has("hi")) {
            ("add", _) => Form::Add,
            ("sub", _) => Form::Sub,
            (_, true) => Form::High { signed: matches!(ty, Type::S32 | Type::S64) },
            _ => Form::Low,
        };
        let value = Op::Lane { f: part(form, bits, false), dst: self.result(instruction, 0)?, src, parts: false };
        if instruction.has("cc") {
            // The destination may be a source, so the flag is computed first and assigned last.
            let next = self.temporary();
            self.emit(Op::Lane { f: part(form, bits, true), dst: next, src, parts: false });
            self.emit(value);
            return Ok(Some(Op::Move { dst: flag, src: next }));
        }
        Ok(Some(value))
    }
}

#[derive(Clone, Copy)]
enum Form {
    Add,
    Sub,
    Low,
    High { signed: bool },
}

/// Returns the value or the carry (for a difference, the borrow) of an operation on `bits` bits.
fn part(form: Form, bits: u32, carry: bool) -> LaneFn {
    let mask = u64::MAX >> (64 - bits);
    map4(move |a, b, c, flag| {
        let (a, b) = (a & mask, b & mask);
        let wide = match form {
            Form::Add => u128::from(a) + u128::from(b) + u128::from(flag),
            Form::Sub => u128::from(a).wrapping_sub(u128::from(b)).wrapping_sub(u128::from(flag)),
            Form::Low => (u128::from(a) * u128::from(b) & u128::from(mask)) + u128::from(c & mask) + u128::from(flag),
            Form::High { signed } => u128::from(high(a, b, bits, signed)) + u128::from(c & mask) + u128::from(flag),
        };
        if carry { (wide >> bits) as u64 & 1 } else { wide as u64 & mask }
    })
}

/// Returns the upper half of a product.
fn high(a: u64, b: u64, bits: u32, signed: bool) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    if signed {
        let extend = |value: u64| i128::from(((value << (64 - bits)) as i64) >> (64 - bits));
        (extend(a) * extend(b) >> bits) as u64 & mask
    } else {
        (u128::from(a) * u128::from(b) >> bits) as u64 & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Lanes;

    fn eval(f: &LaneFn, values: [u64; 4]) -> u64 {
        let sources: Vec<Lanes> = values.iter().map(|value| [*value; 32]).collect();
        let mut out = [0; 32];
        f(&[&sources[0], &sources[1], &sources[2], &sources[3]], &mut out);
        out[0]
    }

    #[test]
    fn a_wide_product_is_computed_from_halves() {
        for (a, b, c) in [(u32::MAX, u32::MAX, u32::MAX), (7, 9, 1), (0x8000_0001, 2, 0xffff_fffe)] {
            let [a, b, c] = [a, b, c].map(u64::from);
            let low = eval(&part(Form::Low, 32, false), [a, b, c, 0]);
            let flag = eval(&part(Form::Low, 32, true), [a, b, c, 0]);
            let high = eval(&part(Form::High { signed: false }, 32, false), [a, b, 0, flag]);
            assert_eq!(high << 32 | low, a * b + c);
        }
    }

    #[test]
    fn a_borrow_propagates() {
        let (low, flag) = (eval(&part(Form::Sub, 32, false), [0, 1, 0, 0]), eval(&part(Form::Sub, 32, true), [0, 1, 0, 0]));
        assert_eq!((low, flag), (0xffff_ffff, 1));
        assert_eq!(eval(&part(Form::Sub, 32, false), [5, 2, 0, flag]), 2);
    }
}
