//! Decodes element-wise integer and bitwise instructions, moves and selections.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::address_space::{LOCAL_BASE, PARAM_BASE, SHARED_BASE};
use crate::fault::Result;
use crate::lanes::{LaneFn, map1, map2, map3, map4};
use crate::program::{Op, RegSlot};
use ptx::{Instruction, Operand, Type};

/// Expands to the lane function (the function that computes one lane's result) for an expression of two integers. The type `$ty`
/// selects the width and signedness of the integers; `None` for other types. The macros `int1` and `int3` have one and three
/// integers.
macro_rules! int2 {
    ($ty:expr, |$a:ident, $b:ident| $body:expr) => {
        match $ty {
            Type::U16 | Type::B16 => Some(int2!(@ u16, u16, $a, $b, $body)),
            Type::S16 => Some(int2!(@ i16, u16, $a, $b, $body)),
            Type::U32 | Type::B32 => Some(int2!(@ u32, u32, $a, $b, $body)),
            Type::S32 => Some(int2!(@ i32, u32, $a, $b, $body)),
            Type::U64 | Type::B64 => Some(int2!(@ u64, u64, $a, $b, $body)),
            Type::S64 => Some(int2!(@ i64, u64, $a, $b, $body)),
            Type::U16x2 => Some(int2!(@@ u16, $a, $b, $body)),
            Type::S16x2 => Some(int2!(@@ i16, $a, $b, $body)),
            _ => None,
        }
    };
    // A packed type: evaluates the expression for the lower and for the upper 16 bits of the operands.
    (@@ $t:ty, $a:ident, $b:ident, $body:expr) => {
        map2(|x, y| {
            let half = |$a: $t, $b: $t| ($body) as u16 as u64;
            half(x as $t, y as $t) | half((x >> 16) as $t, (y >> 16) as $t) << 16
        })
    };
    (@ $t:ty, $u:ty, $a:ident, $b:ident, $body:expr) => {
        map2(|x, y| {
            let ($a, $b) = (x as $t, y as $t);
            ($body) as $u as u64
        })
    };
}

/// Like `int2`, for an expression of three integers.
macro_rules! int3 {
    ($ty:expr, |$a:ident, $b:ident, $c:ident| $body:expr) => {
        match $ty {
            Type::U16 | Type::S16 => Some(int3!(@ u16, $a, $b, $c, $body)),
            Type::U32 | Type::S32 => Some(int3!(@ u32, $a, $b, $c, $body)),
            Type::U64 | Type::S64 => Some(int3!(@ u64, $a, $b, $c, $body)),
            _ => None,
        }
    };
    (@ $t:ty, $a:ident, $b:ident, $c:ident, $body:expr) => {
        map3(|x, y, z| {
            let ($a, $b, $c) = (x as $t, y as $t, z as $t);
            ($body) as u64
        })
    };
}

/// Like `int2`, for an expression of one integer.
macro_rules! int1 {
    ($ty:expr, |$a:ident| $body:expr) => {
        match $ty {
            Type::B16 | Type::U16 => Some(int1!(@ u16, u16, $a, $body)),
            Type::S16 => Some(int1!(@ i16, u16, $a, $body)),
            Type::B32 | Type::U32 => Some(int1!(@ u32, u32, $a, $body)),
            Type::S32 => Some(int1!(@ i32, u32, $a, $body)),
            Type::B64 | Type::U64 => Some(int1!(@ u64, u64, $a, $body)),
            Type::S64 => Some(int1!(@ i64, u64, $a, $body)),
            _ => None,
        }
    };
    (@ $t:ty, $u:ty, $a:ident, $body:expr) => {
        map1(|x| {
            let $a = x as $t;
            ($body) as $u as u64
        })
    };
}

impl Builder<'_> {
    /// Decodes an element-wise instruction. Returns `None` for other instructions.
    pub(super) fn decode_elementwise(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        match &*instruction.opcode {
            "mov" => return self.decode_mov(instruction).map(Some),
            "selp" => return self.decode_selp(instruction).map(Some),
            "setp" | "set" => return self.decode_setp(instruction).map(Some),
            "cvt" => return self.decode_cvt(instruction).map(Some),
            "cvta" => return self.decode_cvta(instruction).map(Some),
            _ => {}
        }
        let Some(ty) = instruction.types().next() else { return Ok(None) };
        let floating = ty.is_float() || matches!(ty, Type::F16x2 | Type::Bf16x2 | Type::F32x2);
        let f = if floating { super::float::float_function(instruction)? } else { integer_function(instruction, ty)? };
        let Some((f, arity)) = f else { return Ok(None) };
        let bits = instruction.types().next_back().unwrap_or(ty).bits();
        let mut src = [0; 4];
        let wide = instruction.has_modifier("wide");
        for (index, slot) in src.iter_mut().enumerate().take(arity) {
            let bits = match (&*instruction.opcode, index) {
                ("shl" | "shr", 1) | ("shf", 2) | ("bfi", 2 | 3) | ("bfe", 1 | 2) | ("prmt", 2) | ("lop3", 3) => 32,
                ("mad", 2) if wide => bits * 2,
                _ => bits,
            };
            *slot = self.source_slot(instruction, index + 1, bits)?;
        }
        let selects_bytes = instruction.opcode == "prmt";
        Ok(Some(Op::Elementwise { f, dst: self.result_slot(instruction, 0)?, src, selects_bytes }))
    }

    /// Decodes `mov`, which also packs and unpacks registers.
    fn decode_mov(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &[])?;
        let Some(ty) = instruction.types().next() else { return Err(unsupported(instruction, "it needs a type")) };
        let (to, from) = (self.operand(instruction, 0)?, self.operand(instruction, 1)?);
        if ty == Type::B128 {
            let (to, from) = (self.half_slots(to)?, self.half_slots(from)?);
            self.emit(Op::Move { dst: to[0], src: from[0] });
            return Ok(Op::Move { dst: to[1], src: from[1] });
        }
        match (to, from) {
            (Operand::Vector(parts), Operand::Vector(sources)) if parts.len() == sources.len() => {
                Err(unsupported(instruction, "a move from a vector to a vector"))
            }
            (Operand::Vector(parts), _) => {
                let bits = ty.bits() / parts.len().max(1) as u32;
                let src = self.operand_slot(from, ty.bits())?;
                Ok(Op::Unpack { dst: self.result_slots(to)?, src, bits })
            }
            (_, Operand::Vector(parts)) => {
                let bits = ty.bits() / parts.len().max(1) as u32;
                let src = self.operand_slots(from, bits)?;
                Ok(Op::Pack { dst: self.result_slot(instruction, 0)?, src, bits })
            }
            (_, Operand::Name(name)) if name.starts_with("%clock") || name.starts_with("%globaltimer") => {
                Ok(Op::Clock { dst: self.result_slot(instruction, 0)? })
            }
            _ => {
                let src = self.operand_slot(from, ty.bits())?;
                Ok(Op::Move { dst: self.result_slot(instruction, 0)?, src })
            }
        }
    }

    /// Returns the two 64-bit halves of a 128-bit register, or of two registers in braces.
    fn half_slots(&mut self, operand: &Operand) -> Result<[RegSlot; 2]> {
        match operand {
            Operand::Vector(parts) if parts.len() == 2 => {
                Ok([self.destination_slot(&parts[0])?.0, self.destination_slot(&parts[1])?.0])
            }
            single => self.destination_slot(single).map(|(slot, _)| [slot, slot + 1]),
        }
    }

    /// Decodes `selp`.
    fn decode_selp(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &[])?;
        let bits = instruction.types().next().map_or(64, Type::bits);
        let (yes, no) = (self.source_slot(instruction, 1, bits)?, self.source_slot(instruction, 2, bits)?);
        Ok(Op::Select { dst: self.result_slot(instruction, 0)?, yes, no, predicate: self.source_slot(instruction, 3, 1)? })
    }

    /// Decodes `cvta`, which converts between generic addresses and addresses of a space.
    fn decode_cvta(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &["to"])?;
        let base = match instruction.space() {
            Some(ptx::Space::Shared | ptx::Space::SharedCta | ptx::Space::SharedCluster) => SHARED_BASE,
            Some(ptx::Space::Local) => LOCAL_BASE,
            Some(ptx::Space::Param | ptx::Space::ParamEntry) => PARAM_BASE,
            Some(ptx::Space::Global | ptx::Space::Const) => 0,
            _ => return Err(unsupported(instruction, "this space")),
        };
        let base = if instruction.has_modifier("to") { base.wrapping_neg() } else { base };
        let src = self.source_slot(instruction, 1, 64)?;
        Ok(Op::Elementwise {
            f: map1(move |a| a.wrapping_add(base)),
            dst: self.result_slot(instruction, 0)?,
            src: [src, 0, 0, 0],
            selects_bytes: false,
        })
    }
}

/// Returns the lane function of an integer or bitwise instruction, and its number of source operands. `None` for other
/// instructions.
fn integer_function(instruction: &Instruction, ty: Type) -> Result<Option<(LaneFn, usize)>> {
    let check_known_modifiers = |known_modifiers: &[&str]| check_modifiers(instruction, known_modifiers);
    let has = |word: &str| instruction.has_modifier(word);
    let f = match &*instruction.opcode {
        "add" => (add_function(instruction, ty)?, 2),
        "sub" => (int2!(ty, |a, b| a.wrapping_sub(b)), 2),
        "mul" => (multiply_function(instruction, ty), 2),
        "mad" => (multiply_add_function(instruction, ty), 3),
        "mul24" => (multiply24_function(instruction, ty), 2),
        "mad24" => (multiply24_function(instruction, ty), 3),
        "div" => (divide_function(ty), 2),
        "rem" => (remainder_function(ty), 2),
        "min" | "max" => (min_max_function(instruction, ty), 2),
        "abs" => (int1!(ty, |a| (a as i64).wrapping_abs()), 1),
        "neg" => (int1!(ty, |a| 0i64.wrapping_sub(a as i64)), 1),
        "and" => (logic_function(ty, |a, b| a & b), 2),
        "or" => (logic_function(ty, |a, b| a | b), 2),
        "xor" => (logic_function(ty, |a, b| a ^ b), 2),
        "not" if ty == Type::Pred => (Some(map1(|a| a ^ 1)), 1),
        "not" => (int1!(ty, |a| !a), 1),
        "cnot" => (int1!(ty, |a| u8::from(a == 0)), 1),
        "shl" => (Some(shift_left_function(ty.bits())), 2),
        "shr" => (shift_right_function(ty), 2),
        "shf" => (Some(funnel_shift_function(has("l"), has("wrap"))), 3),
        "prmt" => {
            check_known_modifiers(&[])?;
            (Some(map3(permute_bytes)), 3)
        }
        "popc" => (int1!(ty, |a| a.count_ones()), 1),
        "clz" => (int1!(ty, |a| a.leading_zeros()), 1),
        "brev" => (int1!(ty, |a| a.reverse_bits()), 1),
        "bfind" => (highest_non_sign_bit_function(ty, has("shiftamt")), 1),
        "bfi" => (Some(insert_bits_function(ty.bits())), 4),
        "bfe" => (Some(extract_bits_function(ty)), 3),
        "lop3" => (lop3_function(instruction), 3),
        "sad" => (int3!(ty, |a, b, c| c.wrapping_add(a.abs_diff(b))), 3),
        "dp2a" => (Some(dot2_function(instruction)), 3),
        "dp4a" => (Some(dot4_function(instruction)), 3),
        "bmsk" => (Some(map2(|a, b| bit_mask(a as u32, b as u32).into())), 2),
        _ => return Ok(None),
    };
    check_known_modifiers(&["lo", "hi", "wide", "l", "r", "wrap", "clamp", "shiftamt", "relu", "sat"])?;
    match f {
        (Some(f), arity) => Ok(Some((f, arity))),
        (None, _) => Err(unsupported(instruction, &format!("type '.{ty}'"))),
    }
}

/// Returns the lane function of an integer `add`.
fn add_function(instruction: &Instruction, ty: Type) -> Result<Option<LaneFn>> {
    if instruction.has_modifier("sat") {
        return match ty {
            Type::S32 => Ok(Some(map2(|a, b| (a as i32).saturating_add(b as i32) as u32 as u64))),
            _ => Err(unsupported(instruction, "saturation of this type")),
        };
    }
    Ok(int2!(ty, |a, b| a.wrapping_add(b)))
}

/// Returns the function of a bitwise instruction. `None` if the type is not a bit type.
fn logic_function(ty: Type, f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Option<LaneFn> {
    matches!(ty, Type::Pred | Type::B16 | Type::B32 | Type::B64).then(|| map2(f))
}

/// Returns the function of an integer `mul`.
fn multiply_function(instruction: &Instruction, ty: Type) -> Option<LaneFn> {
    if instruction.has_modifier("wide") {
        return match ty {
            Type::U16 => Some(map2(|a, b| (a as u16 as u64) * (b as u16 as u64))),
            Type::S16 => Some(map2(|a, b| ((a as i16 as i32) * (b as i16 as i32)) as u32 as u64)),
            Type::U32 => Some(map2(|a, b| (a as u32 as u64) * (b as u32 as u64))),
            Type::S32 => Some(map2(|a, b| ((a as i32 as i64) * (b as i32 as i64)) as u64)),
            _ => None,
        };
    }
    if instruction.has_modifier("hi") {
        return match ty {
            Type::U16 => Some(map2(|a, b| (a * b) >> 16)),
            Type::S16 => Some(map2(|a, b| ((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u16 as u64)),
            Type::U32 => Some(map2(|a, b| (a * b) >> 32)),
            Type::S32 => Some(map2(|a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32 as u64)),
            Type::U64 => Some(map2(|a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64)),
            Type::S64 => Some(map2(|a, b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64)),
            _ => None,
        };
    }
    int2!(ty, |a, b| a.wrapping_mul(b))
}

/// Returns the function of an integer `mad`.
fn multiply_add_function(instruction: &Instruction, ty: Type) -> Option<LaneFn> {
    if instruction.has_modifier("wide") {
        return match ty {
            Type::U16 => Some(map3(|a, b, c| ((a as u16 as u32) * (b as u16 as u32)).wrapping_add(c as u32) as u64)),
            Type::S16 => Some(map3(|a, b, c| ((a as i16 as i32) * (b as i16 as i32)).wrapping_add(c as i32) as u32 as u64)),
            Type::U32 => Some(map3(|a, b, c| ((a as u32 as u64) * (b as u32 as u64)).wrapping_add(c))),
            Type::S32 => Some(map3(|a, b, c| ((a as i32 as i64) * (b as i32 as i64)).wrapping_add(c as i64) as u64)),
            _ => None,
        };
    }
    if instruction.has_modifier("hi") {
        return match ty {
            Type::U32 => Some(map3(|a, b, c| (((a * b) >> 32) as u32).wrapping_add(c as u32) as u64)),
            Type::S32 => {
                Some(map3(|a, b, c| ((i64::from(a as i32) * i64::from(b as i32)) >> 32).wrapping_add(c as i64) as u32 as u64))
            }
            Type::U64 => Some(map3(|a, b, c| (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c))),
            _ => None,
        };
    }
    int3!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c))
}

/// Returns the function of `mul24` and `mad24`. The function adds a third operand to the upper or lower 32 bits of the 48-bit
/// product of two 24-bit integers.
fn multiply24_function(instruction: &Instruction, ty: Type) -> Option<LaneFn> {
    let signed = ty.is_signed();
    if !matches!(ty, Type::U32 | Type::S32) {
        return None;
    }
    let (high, saturate) = (instruction.has_modifier("hi"), instruction.has_modifier("sat"));
    let part = move |x: u64| if signed { i64::from((x as i32) << 8 >> 8) } else { (x & 0xff_ffff) as i64 };
    Some(map3(move |a, b, c| {
        let product = part(a).wrapping_mul(part(b));
        let product = if high { (product >> 16) as i32 } else { product as i32 };
        let sum = if saturate { product.saturating_add(c as i32) } else { product.wrapping_add(c as i32) };
        u64::from(sum as u32)
    }))
}

/// Returns the function of an integer `div`. Division by zero gives all ones, as in the division routine that NVIDIA's assembler
/// generates.
fn divide_function(ty: Type) -> Option<LaneFn> {
    match ty {
        Type::U16 => Some(map2(|a, b| (a as u16).checked_div(b as u16).unwrap_or(u16::MAX).into())),
        Type::U32 => Some(map2(|a, b| (a as u32).checked_div(b as u32).unwrap_or(u32::MAX).into())),
        Type::U64 => Some(map2(|a, b| a.checked_div(b).unwrap_or(u64::MAX))),
        Type::S16 => Some(map2(|a, b| if b as i16 == 0 { 0xffff } else { (a as i16).wrapping_div(b as i16) as u16 as u64 })),
        Type::S32 => Some(map2(|a, b| if b as i32 == 0 { 0xffff_ffff } else { (a as i32).wrapping_div(b as i32) as u32 as u64 })),
        Type::S64 => Some(map2(|a, b| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 })),
        _ => None,
    }
}

/// Returns the function of an integer `rem`. The remainder of a division by zero is the dividend.
fn remainder_function(ty: Type) -> Option<LaneFn> {
    int2!(ty, |a, b| if b == 0 { a } else { a.wrapping_rem(b) })
}

/// Returns the function of an integer `min` or `max`.
fn min_max_function(instruction: &Instruction, ty: Type) -> Option<LaneFn> {
    let relu = instruction.has_modifier("relu");
    match (instruction.opcode == "min", relu, ty) {
        (true, false, _) => int2!(ty, |a, b| a.min(b)),
        (false, false, _) => int2!(ty, |a, b| a.max(b)),
        (true, true, Type::S32) => Some(map2(|a, b| (a as i32).min(b as i32).max(0) as u32 as u64)),
        (false, true, Type::S32) => Some(map2(|a, b| (a as i32).max(b as i32).max(0) as u32 as u64)),
        (true, true, Type::S16x2) => int2!(ty, |a, b| (a as i16).min(b as i16).max(0)),
        (false, true, Type::S16x2) => int2!(ty, |a, b| (a as i16).max(b as i16).max(0)),
        _ => None,
    }
}

/// Returns the function of `shl`. A count of at least `bits` gives 0.
fn shift_left_function(bits: u32) -> LaneFn {
    let all = u64::MAX >> (64 - bits);
    map2(move |a, count| a.checked_shl(count.min(64) as u32).unwrap_or(0) & all)
}

/// Returns the function of `shr`. A count of at least the width gives 0, or for signed types the sign in all bits.
fn shift_right_function(ty: Type) -> Option<LaneFn> {
    match ty {
        Type::U16 | Type::B16 => Some(map2(|a, b| (a as u16).checked_shr(b.min(16) as u32).unwrap_or(0).into())),
        Type::U32 | Type::B32 => Some(map2(|a, b| (a as u32).checked_shr(b.min(32) as u32).unwrap_or(0).into())),
        Type::U64 | Type::B64 => Some(map2(|a, b| a.checked_shr(b.min(64) as u32).unwrap_or(0))),
        Type::S16 => Some(map2(|a, b| ((a as i16) >> b.min(15)) as u16 as u64)),
        Type::S32 => Some(map2(|a, b| ((a as i32) >> b.min(31)) as u32 as u64)),
        Type::S64 => Some(map2(|a, b| ((a as i64) >> b.min(63)) as u64)),
        _ => None,
    }
}

/// Returns the function of `shf`, which shifts the concatenation of two registers.
fn funnel_shift_function(left: bool, wrap: bool) -> LaneFn {
    map3(move |a, b, c| {
        let count = if wrap { c & 31 } else { (c & 0xffff_ffff).min(32) };
        let both = b << 32 | a;
        if left { if count == 32 { a } else { (both << count) >> 32 } } else { (both >> count) & 0xffff_ffff }
    })
}

/// Computes `prmt`: selects four of the eight bytes of two registers.
fn permute_bytes(a: u64, b: u64, selector: u64) -> u64 {
    let both = b << 32 | a;
    (0..4).fold(0, |result, index| {
        let control = selector >> (4 * index);
        let byte = both >> (8 * (control & 7)) & 0xff;
        let byte = if control & 8 == 0 { byte } else { 0xff * (byte >> 7) };
        result | byte << (8 * index)
    })
}

/// Returns the function of `bfind`, which finds the most significant non-sign bit.
fn highest_non_sign_bit_function(ty: Type, shift_amount: bool) -> Option<LaneFn> {
    let bits = ty.bits();
    let signed = ty.is_signed();
    Some(map1(move |a| {
        let a = if bits == 32 && signed { a as i32 as i64 as u64 } else { a };
        let a = if signed && (a as i64) < 0 { !a } else { a };
        match a.checked_ilog2() {
            None => 0xffff_ffff,
            Some(bit_index) if shift_amount => u64::from(bits - 1 - bit_index),
            Some(bit_index) => bit_index.into(),
        }
    }))
}

/// Returns the function of `bfi`, which inserts a bit field.
fn insert_bits_function(bits: u32) -> LaneFn {
    map4(move |a, b, position, length| {
        let (position, length) = ((position & 0xff) as u32, (length & 0xff) as u32);
        let field = if length == 0 || position >= bits { 0 } else { (u64::MAX >> (64 - length.min(64))) << position };
        let all = u64::MAX >> (64 - bits);
        ((b & !field) | (a.checked_shl(position).unwrap_or(0) & field)) & all
    })
}

/// Returns the function of `bfe`, which extracts a bit field.
fn extract_bits_function(ty: Type) -> LaneFn {
    let (bits, signed) = (ty.bits(), ty.is_signed());
    map3(move |a, position, length| {
        let (position, length) = ((position & 0xff) as u32, (length & 0xff) as u32);
        let top = (position + length).saturating_sub(1).min(bits - 1);
        let sign = signed && length > 0 && a >> top & 1 == 1;
        let field_length = length.min(bits.saturating_sub(position));
        let field = if field_length == 0 { 0 } else { u64::MAX >> (64 - field_length) };
        let value = a.checked_shr(position).unwrap_or(0) & field;
        (if sign { value | !field } else { value }) & (u64::MAX >> (64 - bits))
    })
}

/// Returns the function of `lop3`, which combines three registers by a truth table.
fn lop3_function(instruction: &Instruction) -> Option<LaneFn> {
    let Some(Operand::Integer(table)) = instruction.operands.get(4) else { return None };
    let table = *table as u64;
    Some(map3(move |a, b, c| {
        (0..8).filter(|row| table >> row & 1 == 1).fold(0, |result, row| {
            let pick = |bit: u64, x: u64| if row >> bit & 1 == 1 { x } else { !x };
            result | pick(2, a) & pick(1, b) & pick(0, c)
        }) & 0xffff_ffff
    }))
}

/// Returns the function of `dp4a`, a dot product of the four bytes of two words.
fn dot4_function(instruction: &Instruction) -> LaneFn {
    dot_product_function([8, 8], 0, 4, instruction)
}

/// Returns the function of `dp2a`, a dot product of the halves of the first word and two bytes of the second word. `.hi` selects
/// the upper two bytes.
fn dot2_function(instruction: &Instruction) -> LaneFn {
    dot_product_function([16, 8], if instruction.has_modifier("hi") { 2 } else { 0 }, 2, instruction)
}

/// Returns the function that computes a dot product of `count` parts of two words and adds a third operand. The arrays give the
/// widths of the parts in bits. The parts of the second word start at part `first`.
fn dot_product_function([a_bits, b_bits]: [u32; 2], first: u32, count: u32, instruction: &Instruction) -> LaneFn {
    let mut signs = instruction.types().map(Type::is_signed);
    let (a_signed, b_signed) = (signs.next().unwrap_or(false), signs.next().unwrap_or(false));
    let part = |word: u64, bits: u32, index: u32, signed: bool| {
        let top = (word as u32) << (32 - bits * (index + 1));
        if signed { i64::from(top as i32 >> (32 - bits)) } else { i64::from(top >> (32 - bits)) }
    };
    map3(move |a, b, c| {
        let product = |index: u32| part(a, a_bits, index, a_signed) * part(b, b_bits, first + index, b_signed);
        let sum: i64 = (0..count).map(product).sum();
        (c as i64).wrapping_add(sum) as u32 as u64
    })
}

/// Computes `bmsk`: a mask of `length` bits from bit `start`.
fn bit_mask(start: u32, length: u32) -> u32 {
    let field = if length == 0 { 0 } else { u32::MAX >> (32 - length.min(32)) };
    field.checked_shl(start).unwrap_or(0)
}
