//! Decodes `setp` and `set`.

use super::builder::Builder;
use super::float::scalar_and_count;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::lanes::map3;
use crate::program::Op;
use numerics::float::{decode, flush_f32};
use ptx::{Instruction, Operand, Type};
use std::cmp::Ordering;

/// The comparison modifiers of `setp` and `set`.
const COMPARISONS: &[&str] =
    &["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
/// The modifiers that combine the result of a comparison with a predicate operand.
const COMBINATIONS: &[&str] = &["and", "or", "xor"];

/// Returns the result of a comparison for the order of its operands. `None` means unordered.
fn comparison_holds(comparison: &str, order: Option<Ordering>) -> bool {
    let Some(order) = order else { return matches!(comparison, "ne" | "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" | "nan") };
    match comparison {
        "eq" | "equ" => order.is_eq(),
        "ne" | "neu" => order.is_ne(),
        "lt" | "ltu" | "lo" => order.is_lt(),
        "le" | "leu" | "ls" => order.is_le(),
        "gt" | "gtu" | "hi" => order.is_gt(),
        "ge" | "geu" | "hs" => order.is_ge(),
        "num" => true,
        _ => false,
    }
}

/// Returns the truth table of a comparison: bits 0 to 3 for less, equal, greater and unordered.
fn truth_table(comparison: &str, float: bool) -> u32 {
    let cases = [Some(Ordering::Less), Some(Ordering::Equal), Some(Ordering::Greater), None];
    let table =
        cases.iter().enumerate().fold(0, |table, (bit, &order)| table | u32::from(comparison_holds(comparison, order)) << bit);
    // For floats, `ne` is an ordered comparison: it is false if an operand is NaN.
    if float && comparison == "ne" { table & 7 } else { table }
}

impl Builder<'_> {
    /// Decodes `setp` and `set`.
    pub(super) fn decode_setp(&mut self, instruction: &Instruction) -> Result<Op> {
        let known_modifiers: Vec<&str> = COMPARISONS.iter().chain(COMBINATIONS).chain(&["ftz"]).copied().collect();
        check_modifiers(instruction, &known_modifiers)?;
        let comparison = COMPARISONS.iter().find(|word| instruction.has_modifier(word));
        let Some(comparison) = comparison else { return Err(unsupported(instruction, "it has no comparison")) };
        let Some(ty) = instruction.types().next_back() else { return Err(unsupported(instruction, "it has no type")) };
        let is_set = instruction.opcode == "set";
        let is_float = scalar_and_count(ty).is_some();
        let combination = COMBINATIONS.iter().find(|word| instruction.has_modifier(word)).copied();
        let table = truth_table(comparison, is_float);
        let classify = classification_function(instruction, ty)?;
        let (a, b) = (self.source_slot(instruction, 1, ty.bits())?, self.source_slot(instruction, 2, ty.bits())?);
        let c = if combination.is_some() { self.source_slot(instruction, 3, 1)? } else { 0 };
        let combine = move |x: bool, c: u64| match combination {
            Some("and") => x && c != 0,
            Some("or") => x || c != 0,
            Some(_) => x != (c != 0),
            None => x,
        };
        let src = [a, b, c, 0];
        if is_set {
            let dst_ty = instruction.types().next().unwrap_or(ty);
            let true_value = match dst_ty {
                Type::F32 => 0x3f80_0000,
                Type::U32 | Type::S32 => 0xffff_ffff,
                _ => return Err(unsupported(instruction, "this result type")),
            };
            let f = map3(move |a, b, c| if combine(table >> classify(a, b) & 1 == 1, c) { true_value } else { 0 });
            return Ok(Op::Elementwise { f, dst: self.result_slot(instruction, 0)?, src, selects_bytes: false });
        }
        if let Operand::Pair(first, second) = self.operand(instruction, 0)? {
            let (first, second) = (self.destination_slot(first)?.0, self.destination_slot(second)?.0);
            let comparison_result = self.allocate_temporary();
            let f = map3(move |a, b, c| combine(table >> classify(a, b) & 1 == 1, c).into());
            self.emit(Op::Elementwise { f, dst: comparison_result, src, selects_bytes: false });
            let f = map3(move |a, b, c| combine(table >> classify(a, b) & 1 == 0, c).into());
            self.emit(Op::Elementwise { f, dst: second, src, selects_bytes: false });
            return Ok(Op::Move { dst: first, src: comparison_result });
        }
        let dst = self.result_slot(instruction, 0)?;
        let f = if combination.is_none() {
            specialised_function(ty, table).unwrap_or_else(|| map3(move |a, b, _| u64::from(table >> classify(a, b) & 1)))
        } else {
            map3(move |a, b, c| combine(table >> classify(a, b) & 1 == 1, c).into())
        };
        Ok(Op::Elementwise { f, dst, src, selects_bytes: false })
    }
}

/// Returns a specialised function for a comparison that is frequent in loops and bounds checks. `None` for other comparisons.
/// Reason: a specialised function is faster than a lookup in the truth table.
fn specialised_function(ty: Type, table: u32) -> Option<crate::lanes::LaneFn> {
    use crate::lanes::map2;
    Some(match (ty, table & 7) {
        (Type::U32 | Type::B32 | Type::U64 | Type::B64, 0b010) => map2(|a, b| (a == b).into()),
        (Type::U32 | Type::B32 | Type::U64 | Type::B64, 0b101) => map2(|a, b| (a != b).into()),
        (Type::U32 | Type::U64, 0b001) => map2(|a, b| (a < b).into()),
        (Type::U32 | Type::U64, 0b110) => map2(|a, b| (a >= b).into()),
        (Type::S32, 0b001) => map2(|a, b| ((a as i32) < b as i32).into()),
        (Type::S32, 0b110) => map2(|a, b| (a as i32 >= b as i32).into()),
        _ => return None,
    })
}

/// Returns the function that classifies the operands: 0 for less, 1 for equal, 2 for greater, 3 for unordered.
fn classification_function(instruction: &Instruction, ty: Type) -> Result<fn(u64, u64) -> u32> {
    /// Returns 0, 1 or 2 if `a` is less than, equal to or greater than `b`, and 3 if they are unordered.
    fn classify_values<T: PartialOrd>(a: T, b: T) -> u32 {
        a.partial_cmp(&b).map_or(3, |order| (order as i8 + 1) as u32)
    }
    let ftz = instruction.has_modifier("ftz");
    Ok(match ty {
        Type::U8 | Type::B8 => |a, b| classify_values(a as u8, b as u8),
        Type::U16 | Type::B16 => |a, b| classify_values(a as u16, b as u16),
        Type::U32 | Type::B32 => |a, b| classify_values(a as u32, b as u32),
        Type::U64 | Type::B64 => |a, b| classify_values(a, b),
        Type::S16 => |a, b| classify_values(a as i16, b as i16),
        Type::S32 => |a, b| classify_values(a as i32, b as i32),
        Type::S64 => |a, b| classify_values(a as i64, b as i64),
        Type::F32 if ftz => |a, b| classify_values(f32::from_bits(flush_f32(a as u32)), f32::from_bits(flush_f32(b as u32))),
        Type::F32 => |a, b| classify_values(f32::from_bits(a as u32), f32::from_bits(b as u32)),
        Type::F64 => |a, b| classify_values(f64::from_bits(a), f64::from_bits(b)),
        Type::F16 => |a, b| classify_values(decode(numerics::Scalar::F16, a), decode(numerics::Scalar::F16, b)),
        Type::Bf16 => |a, b| classify_values(decode(numerics::Scalar::BF16, a), decode(numerics::Scalar::BF16, b)),
        _ => return Err(unsupported(instruction, &format!("comparing '.{ty}'"))),
    })
}
