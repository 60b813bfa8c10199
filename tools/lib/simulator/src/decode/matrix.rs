//! Decodes `ldmatrix`, `stmatrix`, `movmatrix` and `mma`.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::mma_arith::is_packed;
use crate::mma_arith::{AccumulatorType, MmaElement};
use crate::program::*;
use numerics::Scalar;
use ptx::{Instruction, Operand, Type};

/// Returns the element type of an MMA operand. `None` if the type cannot be an operand type.
pub(super) fn operand_element(ty: Type) -> Option<MmaElement> {
    Some(match ty {
        Type::F16 => MmaElement::Float(Scalar::F16),
        Type::Bf16 => MmaElement::Float(Scalar::BF16),
        Type::Tf32 => MmaElement::Float(Scalar::TF32),
        Type::F64 => MmaElement::Float(Scalar::F64),
        Type::E4m3 | Type::Ue4m3 => MmaElement::Float(Scalar::F8E4M3FN),
        Type::E5m2 => MmaElement::Float(Scalar::F8E5M2),
        Type::E2m1 => MmaElement::Float(Scalar::F4E2M1FN),
        Type::Ue8m0 => MmaElement::Float(Scalar::F8E8M0FNU),
        Type::E3m2 => MmaElement::Small { exponent: 3, mantissa: 2 },
        Type::E2m3 => MmaElement::Small { exponent: 2, mantissa: 3 },
        Type::U8 | Type::S8 => MmaElement::Int { bits: 8, signed: ty.is_signed() },
        Type::U4 => MmaElement::Int { bits: 4, signed: false },
        Type::S4 => MmaElement::Int { bits: 4, signed: true },
        Type::B1 => MmaElement::Int { bits: 1, signed: false },
        _ => return None,
    })
}

/// Returns the accumulator type of an MMA. `None` if the type cannot be an accumulator type.
pub(super) fn accumulator_type(ty: Type, saturate: bool) -> Option<AccumulatorType> {
    Some(match ty {
        Type::F16 => AccumulatorType::Float(Scalar::F16),
        Type::F32 => AccumulatorType::Float(Scalar::F32),
        Type::F64 => AccumulatorType::Float(Scalar::F64),
        Type::S32 => AccumulatorType::Int { saturate },
        _ => return None,
    })
}

/// Returns the extents (m, n, k) of the shape modifier of an MMA, such as `m16n8k32`.
pub(super) fn parse_shape(instruction: &Instruction) -> Option<(usize, usize, usize)> {
    instruction.modifiers.iter().find_map(|modifier| {
        let rest = modifier.name().strip_prefix('m')?;
        let (m, rest) = rest.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
    })
}

impl Builder<'_> {
    /// Decodes `ldmatrix`, `stmatrix`, `movmatrix` and `mma`. Returns `None` for other instructions.
    pub(super) fn decode_matrix(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        Ok(Some(match &*instruction.opcode {
            "ldmatrix" => {
                let shape = self.matrix_shape(instruction)?;
                let to = self.operand(instruction, 0)?;
                let dst = self.result_slots(to)?;
                let registers = if shape == MatrixShape::M16n16 { 2 } else { 1 };
                if dst.len() != self.matrix_count(instruction) * registers || shape == MatrixShape::M16n8 {
                    return Err(unsupported(instruction, "these registers"));
                }
                let bits = match (instruction.has_modifier("b6x16_p32"), instruction.has_modifier("b4x16_p64")) {
                    (true, _) => 6,
                    (_, true) => 4,
                    _ => instruction.types().next().map_or(16, Type::bits),
                };
                Op::LoadMatrix {
                    shape,
                    transposed: instruction.has_modifier("trans"),
                    bits,
                    dst,
                    address: self.address_operand(instruction, 1)?,
                }
            }
            "stmatrix" => {
                let shape = self.matrix_shape(instruction)?;
                let from = self.operand(instruction, 1)?;
                let src = self.operand_slots(from, 32)?;
                if src.len() != self.matrix_count(instruction) || matches!(shape, MatrixShape::M16n16 | MatrixShape::M8n16) {
                    return Err(unsupported(instruction, "these registers"));
                }
                Op::StoreMatrix {
                    shape,
                    transposed: instruction.has_modifier("trans"),
                    src,
                    address: self.address_operand(instruction, 0)?,
                }
            }
            "movmatrix" => {
                check_modifiers(instruction, &["sync", "aligned", "m8n8", "trans"])?;
                Op::MoveMatrix { dst: self.result_slot(instruction, 0)?, src: self.source_slot(instruction, 1, 32)? }
            }
            "mma" => Op::Mma(Box::new(self.decode_mma(instruction)?)),
            _ => return Ok(None),
        }))
    }

    /// Returns the shape that the modifiers of `ldmatrix` or `stmatrix` select.
    fn matrix_shape(&self, instruction: &Instruction) -> Result<MatrixShape> {
        let known_modifiers =
            ["sync", "aligned", "m8n8", "m8n16", "m16n16", "m16n8", "x1", "x2", "x4", "trans", "b8x16", "b6x16_p32", "b4x16_p64"];
        check_modifiers(instruction, &known_modifiers)?;
        let widened =
            instruction.has_modifier("b8x16") && (instruction.has_modifier("b6x16_p32") || instruction.has_modifier("b4x16_p64"));
        let has_byte_elements = widened || instruction.types().next() == Some(Type::B8);
        if instruction.has_modifier("m8n16") {
            let is_supported = widened && !instruction.has_modifier("trans");
            return if is_supported { Ok(MatrixShape::M8n16) } else { Err(unsupported(instruction, "this shape")) };
        }
        match (instruction.has_modifier("m8n8"), instruction.has_modifier("m16n16"), instruction.has_modifier("m16n8")) {
            (true, _, _) if !has_byte_elements => Ok(MatrixShape::M8n8),
            (_, true, _) if has_byte_elements && instruction.has_modifier("trans") => Ok(MatrixShape::M16n16),
            (_, _, true) if has_byte_elements && instruction.has_modifier("trans") => Ok(MatrixShape::M16n8),
            _ => Err(unsupported(instruction, "this shape")),
        }
    }
    /// Returns the number of matrices (`.x1`, `.x2` or `.x4`).
    fn matrix_count(&self, instruction: &Instruction) -> usize {
        if instruction.has_modifier("x4") {
            4
        } else if instruction.has_modifier("x2") {
            2
        } else {
            1
        }
    }

    /// Decodes `mma.sync`.
    fn decode_mma(&mut self, instruction: &Instruction) -> Result<MmaOp> {
        let Some((m, 8, k)) = parse_shape(instruction) else { return Err(unsupported(instruction, "this shape")) };
        let shape_word = format!("m{m}n8k{k}");
        check_modifiers(
            instruction,
            &[
                "sync",
                "aligned",
                &shape_word,
                "row",
                "col",
                "satfinite",
                "xor",
                "and",
                "popc",
                "kind::f8f6f4",
                "kind::mxf8f6f4",
                "kind::mxf4",
                "kind::mxf4nvf4",
                "block_scale",
                "scale_vec::1X",
                "scale_vec::2X",
                "scale_vec::4X",
            ],
        )?;
        let types: Vec<Type> = instruction.types().collect();
        let [d_type, a_type, b_type, c_type, ..] = types[..] else { return Err(unsupported(instruction, "it needs four types")) };
        let saturate = instruction.has_modifier("satfinite");
        let unsupported_types = |_| unsupported(instruction, "these types");
        let d_type = accumulator_type(d_type, saturate).ok_or(()).map_err(unsupported_types)?;
        let c_type = accumulator_type(c_type, saturate).ok_or(()).map_err(unsupported_types)?;
        // The kinds that mix small floats store each element in a byte.
        let in_bytes = instruction.has_modifier("kind::f8f6f4") || instruction.has_modifier("kind::mxf8f6f4");
        let a = self.decode_mma_operand(instruction, 1, a_type, in_bytes, m * k)?;
        let b = self.decode_mma_operand(instruction, 2, b_type, in_bytes, k * 8)?;
        let (to, from) = (self.operand(instruction, 0)?, self.operand(instruction, 3)?);
        let (d, c) = (
            self.result_slots(to)?,
            self.operand_slots(from, if d_type == AccumulatorType::Float(Scalar::F64) { 64 } else { 32 })?,
        );
        let register_count = |ty: AccumulatorType| m * 8 / 32 / if is_packed(ty) { 2 } else { 1 };
        if d.len() != register_count(d_type) || c.len() != register_count(c_type) || !matches!(m, 8 | 16) {
            return Err(unsupported(instruction, "these registers"));
        }
        let (mut scale_a, mut scale_b) = (None, None);
        if instruction.has_modifier("block_scale") {
            let count = if instruction.has_modifier("scale_vec::4X") {
                4
            } else if instruction.has_modifier("scale_vec::2X") {
                2
            } else {
                1
            };
            let kind = types.get(4).and_then(|&ty| operand_element(ty)).ok_or(()).map_err(unsupported_types)?;
            scale_a = Some(self.decode_scale(instruction, 4, kind, count)?);
            scale_b = Some(self.decode_scale(instruction, 6, kind, count)?);
        }
        let uses_xor = instruction.has_modifier("xor");
        if instruction.has_modifier("popc") != (a_type == Type::B1) || a_type != b_type && a_type == Type::B1 {
            return Err(unsupported(instruction, "these types"));
        }
        Ok(MmaOp {
            uses_xor,
            m,
            k,
            d,
            a,
            b,
            c,
            d_type,
            c_type,
            d_packed: is_packed(d_type),
            c_packed: is_packed(c_type),
            scale_a,
            scale_b,
        })
    }

    /// Decodes the registers of an MMA operand. `elements` is the number of its elements in the whole warp.
    fn decode_mma_operand(
        &mut self,
        instruction: &Instruction,
        index: usize,
        ty: Type,
        in_bytes: bool,
        elements: usize,
    ) -> Result<MmaOperand> {
        let Some(kind) = operand_element(ty) else { return Err(unsupported(instruction, &format!("operands of type '.{ty}'"))) };
        let element_bits = match ty {
            Type::E3m2 | Type::E2m3 => 6,
            _ => ty.bits(),
        };
        let container_bits = if in_bytes { 8 } else { element_bits };
        // A 4-bit float occupies bits 2 to 5 of its byte.
        let container_shift = if in_bytes && element_bits == 4 { 2 } else { 0 };
        let from = self.operand(instruction, index)?;
        let slots = self.operand_slots(from, container_bits.max(32))?;
        if slots.len() * (32 / container_bits).max(1) as usize * 32 != elements {
            return Err(unsupported(instruction, "these registers"));
        }
        let value_table = if element_bits <= 8 { kind.value_table(element_bits) } else { Vec::new() };
        Ok(MmaOperand { slots, kind, element_bits, container_bits, container_shift, value_table })
    }

    /// Decodes the scale operand of a block-scaled MMA, and its byte and thread selectors.
    fn decode_scale(&mut self, instruction: &Instruction, index: usize, kind: MmaElement, count: usize) -> Result<ScaleOp> {
        let from = self.operand(instruction, index)?;
        let slots = self.operand_slots(from, 32)?;
        let Operand::Vector(selectors) = self.operand(instruction, index + 1)? else {
            return Err(unsupported(instruction, "it needs scale selectors"));
        };
        let [byte_id, thread_id] = &selectors[..] else { return Err(unsupported(instruction, "it needs two scale selectors")) };
        Ok(ScaleOp {
            slot: slots[0],
            byte_id: self.operand_slot(byte_id, 16)?,
            thread_id: self.operand_slot(thread_id, 16)?,
            kind,
            count,
        })
    }
}
