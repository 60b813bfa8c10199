//! Decodes arithmetic with the carry flag. `.cc` writes the flag. `addc`, `subc` and `madc` read the flag, which is an additional
//! register.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::Fault;
use crate::lanes::{LaneFn, map4};
use crate::program::Op;
use ptx::{Instruction, Type};

type Result<T> = std::result::Result<T, Box<Fault>>;

impl Builder<'_> {
    /// Decodes an instruction that accesses the carry flag. Returns `None` for other instructions.
    pub(super) fn decode_carry(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        let (name, reads_flag) = match &*instruction.opcode {
            "addc" => ("add", true),
            "subc" => ("sub", true),
            "madc" => ("mad", true),
            name @ ("add" | "sub" | "mad") if instruction.has_modifier("cc") => (name, false),
            _ => return Ok(None),
        };
        check_modifiers(instruction, &["lo", "hi", "cc"])?;
        let ty = instruction.types().next().filter(|ty| matches!(ty, Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64));
        let Some(ty) = ty else { return Err(unsupported(instruction, "its type")) };
        let bits = ty.bits();
        let flag = self.carry_slot();
        // Register slot 0 is zero. It fills the addend and the carry-in that an instruction lacks, so all functions have four
        // sources.
        let mut src = [0; 4];
        for (i, slot) in src.iter_mut().enumerate().take(if name == "mad" { 3 } else { 2 }) {
            *slot = self.source_slot(instruction, i + 1, bits)?;
        }
        if reads_flag {
            src[3] = flag;
        }
        let op = match (name, instruction.has_modifier("hi")) {
            ("add", _) => CarryOp::Add,
            ("sub", _) => CarryOp::Sub,
            (_, true) => CarryOp::High { signed: matches!(ty, Type::S32 | Type::S64) },
            _ => CarryOp::Low,
        };
        let result_op = Op::Elementwise {
            f: carry_function(op, bits, false),
            dst: self.result_slot(instruction, 0)?,
            src,
            selects_bytes: false,
        };
        if instruction.has_modifier("cc") {
            // The destination may also be a source, so the first op computes the flag. The flag may be a source too, so the last op
            // assigns it.
            let next_flag = self.allocate_temporary();
            self.emit(Op::Elementwise { f: carry_function(op, bits, true), dst: next_flag, src, selects_bytes: false });
            self.emit(result_op);
            return Ok(Some(Op::Move { dst: flag, src: next_flag }));
        }
        Ok(Some(result_op))
    }
}

/// An operation that reads or writes the carry flag.
#[derive(Clone, Copy)]
enum CarryOp {
    Add,
    Sub,
    /// The lower half of a product, plus an addend.
    Low,
    /// The upper half of a product, plus an addend.
    High {
        signed: bool,
    },
}

/// Returns the lane function of an operation on `bits` bits. If `returns_carry` is true, the function computes the carry (for
/// `sub`, the borrow) instead of the result.
fn carry_function(op: CarryOp, bits: u32, returns_carry: bool) -> LaneFn {
    let mask = u64::MAX >> (64 - bits);
    map4(move |a, b, c, flag| {
        let (a, b) = (a & mask, b & mask);
        let wide = match op {
            CarryOp::Add => u128::from(a) + u128::from(b) + u128::from(flag),
            CarryOp::Sub => u128::from(a).wrapping_sub(u128::from(b)).wrapping_sub(u128::from(flag)),
            CarryOp::Low => (u128::from(a) * u128::from(b) & u128::from(mask)) + u128::from(c & mask) + u128::from(flag),
            CarryOp::High { signed } => u128::from(high_half(a, b, bits, signed)) + u128::from(c & mask) + u128::from(flag),
        };
        if returns_carry { (wide >> bits) as u64 & 1 } else { wide as u64 & mask }
    })
}

/// Returns the upper half of the product of two integers of `bits` bits.
fn high_half(a: u64, b: u64, bits: u32, signed: bool) -> u64 {
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
            let low = eval(&carry_function(CarryOp::Low, 32, false), [a, b, c, 0]);
            let flag = eval(&carry_function(CarryOp::Low, 32, true), [a, b, c, 0]);
            let high = eval(&carry_function(CarryOp::High { signed: false }, 32, false), [a, b, 0, flag]);
            assert_eq!(high << 32 | low, a * b + c);
        }
    }

    #[test]
    fn a_borrow_propagates() {
        let (low, flag) = (
            eval(&carry_function(CarryOp::Sub, 32, false), [0, 1, 0, 0]),
            eval(&carry_function(CarryOp::Sub, 32, true), [0, 1, 0, 0]),
        );
        assert_eq!((low, flag), (0xffff_ffff, 1));
        assert_eq!(eval(&carry_function(CarryOp::Sub, 32, false), [5, 2, 0, flag]), 2);
    }
}
