//! Decodes the `tcgen05` instructions.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::{Fault, Result};
use crate::program::*;
use crate::tmem::TmemShape;
use ptx::{Instruction, Operand};

/// Modifiers that every `tcgen05` instruction accepts.
const COMMON_MODIFIERS: &[&str] = &["cta_group::1", "cta_group::2", "sync", "aligned"];

impl Builder<'_> {
    /// Decodes a `tcgen05` instruction. Returns `None` for other instructions.
    pub(super) fn decode_tcgen05(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        if instruction.opcode != "tcgen05" {
            return Ok(None);
        }
        let check_words = |more: &[&str]| {
            let known_modifiers: Vec<&str> = COMMON_MODIFIERS.iter().chain(more).copied().collect();
            check_modifiers(instruction, &known_modifiers)
        };
        let has = |word: &str| instruction.has_modifier(word);
        if has("cta_group::1") || has("cta_group::2") {
            let uses_cta_pair = has("cta_group::2");
            if *self.uses_cta_pair.get_or_insert(uses_cta_pair) != uses_cta_pair {
                let message = "a kernel mixes tcgen05 instructions with different cta_group modifiers";
                return Err(Fault::new("SIM082", message));
            }
        }
        Ok(Some(if has("alloc") {
            check_words(&["alloc"])?;
            Op::Tcgen05Allocate { address: self.address_operand(instruction, 0)?, columns: self.source_slot(instruction, 1, 32)? }
        } else if has("dealloc") {
            check_words(&["dealloc"])?;
            Op::Tcgen05Free { address: self.source_slot(instruction, 0, 32)?, columns: self.source_slot(instruction, 1, 32)? }
        } else if has("relinquish_alloc_permit") {
            check_words(&["relinquish_alloc_permit"])?;
            Op::Tcgen05RelinquishAllocPermit
        } else if has("wait::ld") || has("wait::st") {
            check_words(&["wait::ld", "wait::st"])?;
            Op::Tcgen05Wait { loads: has("wait::ld") }
        } else if has("fence::before_thread_sync") || has("fence::after_thread_sync") {
            check_words(&["fence::before_thread_sync", "fence::after_thread_sync"])?;
            Op::Tcgen05Fence { before: has("fence::before_thread_sync") }
        } else if has("commit") {
            check_words(&["commit", "mbarrier::arrive::one", "multicast::cluster"])?;
            let cta_mask = if has("multicast::cluster") { Some(self.source_slot(instruction, 1, 16)?) } else { None };
            Op::Tcgen05Commit { address: self.address_operand(instruction, 0)?, cta_mask }
        } else if has("ld") || has("st") {
            self.decode_tmem_access(instruction, has("ld"))?
        } else if has("cp") {
            self.decode_tmem_copy(instruction)?
        } else if has("mma") {
            Op::Tcgen05Mma(Box::new(self.decode_tcgen05_mma(instruction)?))
        } else {
            return Ok(None);
        }))
    }

    /// Decodes `tcgen05.ld` or `tcgen05.st`.
    fn decode_tmem_access(&mut self, instruction: &Instruction, is_load: bool) -> Result<Op> {
        let shapes = [
            ("32x32b", TmemShape::S32x32),
            ("16x64b", TmemShape::S16x64),
            ("16x128b", TmemShape::S16x128),
            ("16x256b", TmemShape::S16x256),
            ("16x32bx2", TmemShape::S16x32x2),
        ];
        let counts = [("x1", 1), ("x2", 2), ("x4", 4), ("x8", 8), ("x16", 16), ("x32", 32), ("x64", 64), ("x128", 128)];
        let known_modifiers: Vec<&str> = COMMON_MODIFIERS
            .iter()
            .chain(&["ld", "st", "pack::16b", "unpack::16b"])
            .copied()
            .chain(shapes.iter().map(|shape| shape.0))
            .chain(counts.iter().map(|count| count.0))
            .collect();
        check_modifiers(instruction, &known_modifiers)?;
        let shape = shapes.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, shape)| shape);
        let count = counts.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, count)| count);
        let (Some(shape), Some(count)) = (shape, count) else { return Err(unsupported(instruction, "this shape")) };
        let packed = instruction.has_modifier("pack::16b") || instruction.has_modifier("unpack::16b");
        let address = self.address_operand(instruction, usize::from(is_load))?;
        let split_index = if is_load { 2 } else { 1 };
        let split = match instruction.operands.get(split_index) {
            Some(Operand::Integer(value)) if shape == TmemShape::S16x32x2 => *value as u32,
            _ if shape == TmemShape::S16x32x2 => return Err(unsupported(instruction, "it needs a split")),
            _ => 0,
        };
        let vector_index = if is_load { 0 } else { instruction.operands.len() - 1 };
        let vector = self.operand(instruction, vector_index)?;
        let register_count = shape.registers_and_columns().0 * count;
        let wrong_register_count = || unsupported(instruction, &format!("it needs {register_count} registers"));
        if is_load {
            let dst = self.result_slots(vector)?;
            if dst.len() != register_count {
                return Err(wrong_register_count());
            }
            return Ok(Op::TmemLoad { shape, packed, split, dst, address });
        }
        let src = self.operand_slots(vector, 32)?;
        if src.len() != register_count {
            return Err(wrong_register_count());
        }
        Ok(Op::TmemStore { shape, packed, split, src, address })
    }

    /// Decodes `tcgen05.cp`.
    fn decode_tmem_copy(&mut self, instruction: &Instruction) -> Result<Op> {
        let shapes = [
            ("128x256b", Tcgen05CopyShape::S128x256),
            ("4x256b", Tcgen05CopyShape::S4x256),
            ("128x128b", Tcgen05CopyShape::S128x128),
            ("32x128b", Tcgen05CopyShape::S32x128),
            (
                "64x128b",
                if instruction.has_modifier("warpx2::02_13") {
                    Tcgen05CopyShape::S64x128Warps02_13
                } else {
                    Tcgen05CopyShape::S64x128Warps01_23
                },
            ),
        ];
        let known_modifiers: Vec<&str> = COMMON_MODIFIERS
            .iter()
            .chain(&["cp", "warpx4", "warpx2::02_13", "warpx2::01_23"])
            .copied()
            .chain(shapes.iter().map(|shape| shape.0))
            .collect();
        check_modifiers(instruction, &known_modifiers)?;
        if instruction.types().next().is_some() {
            return Err(unsupported(instruction, "a change of format"));
        }
        let shape = shapes.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, shape)| shape);
        let Some(shape) = shape else { return Err(unsupported(instruction, "this shape")) };
        Ok(Op::Tcgen05Copy {
            shape,
            cta_pair: instruction.has_modifier("cta_group::2"),
            to: self.address_operand(instruction, 0)?,
            from: self.source_slot(instruction, 1, 64)?,
        })
    }

    /// Decodes `tcgen05.mma`.
    fn decode_tcgen05_mma(&mut self, instruction: &Instruction) -> Result<Tcgen05Mma> {
        let kinds = [
            ("kind::f16", Tcgen05MmaKind::F16),
            ("kind::tf32", Tcgen05MmaKind::Tf32),
            ("kind::f8f6f4", Tcgen05MmaKind::F8f6f4),
            ("kind::i8", Tcgen05MmaKind::I8),
            ("kind::mxf8f6f4", Tcgen05MmaKind::Mxf8f6f4),
            ("kind::mxf4", Tcgen05MmaKind::Mxf4),
            ("kind::mxf4nvf4", Tcgen05MmaKind::Mxf4),
        ];
        let known_modifiers: Vec<&str> = COMMON_MODIFIERS
            .iter()
            .chain(&[
                "mma",
                "block_scale",
                "block16",
                "block32",
                "scale_vec::1X",
                "scale_vec::2X",
                "scale_vec::4X",
                "collector::a::discard",
                "collector::a::fill",
                "collector::a::use",
                "collector::a::lastuse",
            ])
            .copied()
            .chain(kinds.iter().map(|kind| kind.0))
            .collect();
        check_modifiers(instruction, &known_modifiers)?;
        let kind = kinds.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, kind)| kind);
        let Some(kind) = kind else { return Err(unsupported(instruction, "this kind")) };
        let scale_block = if instruction.has_modifier("block16") || instruction.has_modifier("scale_vec::4X") { 16 } else { 32 };
        let (mut a_tensor, mut a_shared) = (None, 0);
        match self.operand(instruction, 1)? {
            Operand::Address(address) => a_tensor = Some(self.plain_address(address)?),
            operand => a_shared = self.operand_slot(operand, 64)?,
        }
        let mut next_operand = 4;
        let scales = if instruction.has_modifier("block_scale") {
            next_operand += 2;
            Some((self.address_operand(instruction, 4)?, self.address_operand(instruction, 5)?))
        } else {
            None
        };
        let mut disabled_lanes = Box::default();
        if let Some(vector @ Operand::Vector(_)) = instruction.operands.get(next_operand) {
            disabled_lanes = self.operand_slots(vector, 32)?;
            next_operand += 1;
        }
        let accumulate = self.source_slot(instruction, next_operand, 1)?;
        let scale_input_d = match instruction.operands.get(next_operand + 1) {
            None => 0,
            Some(Operand::Integer(value @ 0..=15)) => *value as u32,
            _ => return Err(unsupported(instruction, "these operands")),
        };
        Ok(Tcgen05Mma {
            kind,
            cta_pair: instruction.has_modifier("cta_group::2"),
            scale_block,
            d: self.address_operand(instruction, 0)?,
            a_tensor,
            a_shared,
            b: self.source_slot(instruction, 2, 64)?,
            instruction_descriptor: self.source_slot(instruction, 3, 32)?,
            scales,
            disabled_lanes,
            accumulate,
            scale_input_d,
        })
    }
}
