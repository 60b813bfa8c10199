//! Decodes the `wgmma` instructions.

use super::builder::Builder;
use super::matrix::{accumulator_type, operand_element, parse_shape};
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::program::*;
use ptx::{Instruction, Operand, Type};

impl Builder<'_> {
    /// Decodes a `wgmma` instruction. Returns `None` for other instructions.
    pub(super) fn decode_wgmma(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        if instruction.opcode != "wgmma" {
            return Ok(None);
        }
        let has = |word: &str| instruction.has_modifier(word);
        if has("fence") || has("commit_group") || has("wait_group") {
            check_modifiers(instruction, &["fence", "commit_group", "wait_group", "sync", "aligned"])?;
            return Ok(Some(if has("fence") {
                Op::WgmmaFence
            } else if has("commit_group") {
                Op::WgmmaCommit
            } else {
                let Operand::Integer(max_open) = self.operand(instruction, 0)? else {
                    return Err(unsupported(instruction, "it needs a number"));
                };
                Op::WgmmaWait { max_open: (*max_open).clamp(0, 1 << 20) as u32 }
            }));
        }
        let Some((64, n, k)) = parse_shape(instruction) else { return Err(unsupported(instruction, "this shape")) };
        check_modifiers(instruction, &["mma_async", "sync", "aligned", "satfinite", &format!("m64n{n}k{k}")])?;
        let types: Vec<Type> = instruction.types().collect();
        let [d_type, a_type, b_type] = types[..] else { return Err(unsupported(instruction, "it needs three types")) };
        let (Some(a_kind), Some(b_kind)) = (operand_element(a_type), operand_element(b_type)) else {
            return Err(unsupported(instruction, "these types"));
        };
        let Some(d_type) = accumulator_type(d_type, has("satfinite")) else { return Err(unsupported(instruction, "this result")) };
        let element_bytes = if a_type == Type::Tf32 { 4 } else { a_type.bytes() };
        if k * element_bytes as usize != 32 || n % 8 != 0 || n > 256 || n == 0 {
            return Err(unsupported(instruction, "this shape"));
        }
        let to = self.operand(instruction, 0)?;
        let d = self.result_slots(to)?;
        let is_packed = d_type == crate::mma_arith::AccumulatorType::Float(numerics::Scalar::F16);
        if d.len() != n / if is_packed { 4 } else { 2 } {
            return Err(unsupported(instruction, "these registers"));
        }
        let a = match self.operand(instruction, 1)? {
            vector @ Operand::Vector(parts) if parts.len() == 4 => WgmmaA::Registers(self.operand_slots(vector, 32)?),
            single => WgmmaA::Shared(self.operand_slot(single, 64)?),
        };
        let b = self.source_slot(instruction, 2, 64)?;
        let accumulate = match instruction.operands.get(3) {
            Some(operand) => self.operand_slot(operand, 1)?,
            None => self.constant_slot(1),
        };
        let immediates: Vec<i64> = instruction
            .operands
            .iter()
            .skip(4)
            .filter_map(|operand| match operand {
                Operand::Integer(value) => Some(*value),
                _ => None,
            })
            .collect();
        if immediates.len() + 4 < instruction.operands.len() {
            return Err(unsupported(instruction, "these immediates"));
        }
        let immediate = |index: usize, otherwise: i64| immediates.get(index).copied().unwrap_or(otherwise);
        // If A is in registers, only B can be transposed.
        let (transpose_a, transpose_b) = match a {
            WgmmaA::Registers(_) => (false, immediate(2, 0) == 1),
            WgmmaA::Shared(_) => (immediate(2, 0) == 1, immediate(3, 0) == 1),
        };
        let mut registers = d.to_vec();
        if let WgmmaA::Registers(slots) = &a {
            registers.extend(slots.iter());
        }
        Ok(Some(Op::Wgmma(Box::new(WgmmaOp {
            n,
            k,
            d,
            a,
            b,
            accumulate,
            d_type,
            a_kind,
            b_kind,
            a_table: if element_bytes == 1 { a_kind.value_table(8) } else { Vec::new() },
            b_table: if element_bytes == 1 { b_kind.value_table(8) } else { Vec::new() },
            element_bytes,
            negate_a: immediate(0, 1) == -1,
            negate_b: immediate(1, 1) == -1,
            transpose_a,
            transpose_b,
            registers: registers.into(),
        }))))
    }
}
