//! Decodes `setp` and `set`.

use super::builder::Builder;
use super::float::scalar;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::lanes::map3;
use crate::program::Op;
use numerics::float::{decode, flush_f32};
use ptx::{Instruction, Operand, Type};
use std::cmp::Ordering;

const COMPARISONS: &[&str] =
    &["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
const COMBINATIONS: &[&str] = &["and", "or", "xor"];

/// Evaluates a comparison for an ordering. `None` means unordered.
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
    // A float `ne` is an ordered comparison.
    if float && comparison == "ne" { table & 7 } else { table }
}

impl Builder<'_> {
    pub(super) fn compare(&mut self, instruction: &Instruction) -> Result<Op> {
        let known: Vec<&str> = COMPARISONS.iter().chain(COMBINATIONS).chain(&["ftz"]).copied().collect();
        check_modifiers(instruction, &known)?;
        let comparison = COMPARISONS.iter().find(|word| instruction.has(word));
        let Some(comparison) = comparison else { return Err(unsupported(instruction, "it has no comparison")) };
        let Some(ty) = instruction.types().next_back() else { return Err(unsupported(instruction, "it has no type")) };
        let set = instruction.opcode == "set";
        let float = scalar(ty).is_some();
        let combination = COMBINATIONS.iter().find(|word| instruction.has(word)).copied();
        let table = truth_table(comparison, float);
        let order = classifier(instruction, ty)?;
        let (a, b) = (self.source(instruction, 1, ty.bits())?, self.source(instruction, 2, ty.bits())?);
        let c = if combination.is_some() { self.source(instruction, 3, 1)? } else { 0 };
        let combine = move |x: bool, c: u64| match combination {
            Some("and") => x && c != 0,
            Some("or") => x || c != 0,
            Some(_) => x != (c != 0),
            None => x,
        };
        let src = [a, b, c, 0];
        if set {
            let dst_ty = instruction.types().next().unwrap_or(ty);
            let yes = match dst_ty {
                Type::F32 => 0x3f80_0000,
                Type::U32 | Type::S32 => 0xffff_ffff,
                _ => return Err(unsupported(instruction, "this result type")),
            };
            let f = map3(move |a, b, c| if combine(table >> order(a, b) & 1 == 1, c) { yes } else { 0 });
            return Ok(Op::Elementwise { f, dst: self.result(instruction, 0)?, src, selects_bytes: false });
        }
        if let Operand::Pair(first, second) = self.operand(instruction, 0)? {
            let (first, second) = (self.destination(first)?.0, self.destination(second)?.0);
            let holds_bit = self.temporary();
            let f = map3(move |a, b, c| combine(table >> order(a, b) & 1 == 1, c).into());
            self.emit(Op::Elementwise { f, dst: holds_bit, src, selects_bytes: false });
            let f = map3(move |a, b, c| combine(table >> order(a, b) & 1 == 0, c).into());
            self.emit(Op::Elementwise { f, dst: second, src, selects_bytes: false });
            return Ok(Op::Move { dst: first, src: holds_bit });
        }
        let dst = self.result(instruction, 0)?;
        let f = if combination.is_none() {
            specialised(ty, table).unwrap_or_else(|| map3(move |a, b, _| u64::from(table >> order(a, b) & 1)))
        } else {
            map3(move |a, b, c| combine(table >> order(a, b) & 1 == 1, c).into())
        };
        Ok(Op::Elementwise { f, dst, src, selects_bytes: false })
    }
}

/// Returns specialised functions for the comparisons that are frequent in loops and bounds checks.
fn specialised(ty: Type, table: u32) -> Option<crate::lanes::LaneFn> {
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

/// Returns the function that classifies operands: 0 less, 1 equal, 2 greater, 3 unordered.
fn classifier(instruction: &Instruction, ty: Type) -> Result<fn(u64, u64) -> u32> {
    fn case<T: PartialOrd>(a: T, b: T) -> u32 {
        a.partial_cmp(&b).map_or(3, |order| (order as i8 + 1) as u32)
    }
    let ftz = instruction.has("ftz");
    Ok(match ty {
        Type::U8 | Type::B8 => |a, b| case(a as u8, b as u8),
        Type::U16 | Type::B16 => |a, b| case(a as u16, b as u16),
        Type::U32 | Type::B32 => |a, b| case(a as u32, b as u32),
        Type::U64 | Type::B64 => |a, b| case(a, b),
        Type::S16 => |a, b| case(a as i16, b as i16),
        Type::S32 => |a, b| case(a as i32, b as i32),
        Type::S64 => |a, b| case(a as i64, b as i64),
        Type::F32 if ftz => |a, b| case(f32::from_bits(flush_f32(a as u32)), f32::from_bits(flush_f32(b as u32))),
        Type::F32 => |a, b| case(f32::from_bits(a as u32), f32::from_bits(b as u32)),
        Type::F64 => |a, b| case(f64::from_bits(a), f64::from_bits(b)),
        Type::F16 => |a, b| case(decode(numerics::Scalar::F16, a), decode(numerics::Scalar::F16, b)),
        Type::Bf16 => |a, b| case(decode(numerics::Scalar::BF16, a), decode(numerics::Scalar::BF16, b)),
        _ => return Err(unsupported(instruction, &format!("comparing '.{ty}'"))),
    })
}
