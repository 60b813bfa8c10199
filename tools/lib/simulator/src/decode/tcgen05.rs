//! Decodes `tcgen05`.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::{Fault, Result};
use crate::program::*;
use crate::tmem::TmemShape;
use ptx::{Instruction, Operand};

const COMMON_MODIFIERS: &[&str] = &["cta_group::1", "cta_group::2", "sync", "aligned"];

impl Builder<'_> {
    pub(super) fn decode_tcgen05(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        if instruction.opcode != "tcgen05" {
            return Ok(None);
        }
        let words = |more: &[&str]| {
            let known: Vec<&str> = COMMON_MODIFIERS.iter().chain(more).copied().collect();
            check_modifiers(instruction, &known)
        };
        let has = |word: &str| instruction.has(word);
        if has("cta_group::1") || has("cta_group::2") {
            let of_cta_pair = has("cta_group::2");
            if *self.of_cta_pair.get_or_insert(of_cta_pair) != of_cta_pair {
                let message = "a kernel mixes tcgen05 instructions with different cta_group modifiers";
                return Err(Fault::new("SIM082", message));
            }
        }
        Ok(Some(if has("alloc") {
            words(&["alloc"])?;
            Op::TensorAllocate { address: self.address(instruction, 0)?, columns: self.source(instruction, 1, 32)? }
        } else if has("dealloc") {
            words(&["dealloc"])?;
            Op::TensorFree { address: self.source(instruction, 0, 32)?, columns: self.source(instruction, 1, 32)? }
        } else if has("relinquish_alloc_permit") {
            words(&["relinquish_alloc_permit"])?;
            Op::TensorRelinquish
        } else if has("wait::ld") || has("wait::st") {
            words(&["wait::ld", "wait::st"])?;
            Op::TensorWait { loads: has("wait::ld") }
        } else if has("fence::before_thread_sync") || has("fence::after_thread_sync") {
            words(&["fence::before_thread_sync", "fence::after_thread_sync"])?;
            Op::TensorFence { before: has("fence::before_thread_sync") }
        } else if has("commit") {
            words(&["commit", "mbarrier::arrive::one", "multicast::cluster"])?;
            let multicast = if has("multicast::cluster") { Some(self.source(instruction, 1, 16)?) } else { None };
            Op::TensorCommit { address: self.address(instruction, 0)?, multicast }
        } else if has("ld") || has("st") {
            self.tensor_access(instruction, has("ld"))?
        } else if has("cp") {
            self.tensor_copy(instruction)?
        } else if has("mma") {
            Op::TensorMma(Box::new(self.tensor_mma(instruction)?))
        } else {
            return Ok(None);
        }))
    }

    fn tensor_access(&mut self, instruction: &Instruction, load: bool) -> Result<Op> {
        let shapes = [
            ("32x32b", TmemShape::S32x32),
            ("16x64b", TmemShape::S16x64),
            ("16x128b", TmemShape::S16x128),
            ("16x256b", TmemShape::S16x256),
            ("16x32bx2", TmemShape::S16x32x2),
        ];
        let counts = [("x1", 1), ("x2", 2), ("x4", 4), ("x8", 8), ("x16", 16), ("x32", 32), ("x64", 64), ("x128", 128)];
        let known: Vec<&str> = COMMON_MODIFIERS
            .iter()
            .chain(&["ld", "st", "pack::16b", "unpack::16b"])
            .copied()
            .chain(shapes.iter().map(|shape| shape.0))
            .chain(counts.iter().map(|count| count.0))
            .collect();
        check_modifiers(instruction, &known)?;
        let shape = shapes.into_iter().find(|(word, _)| instruction.has(word)).map(|(_, shape)| shape);
        let count = counts.into_iter().find(|(word, _)| instruction.has(word)).map(|(_, count)| count);
        let (Some(shape), Some(count)) = (shape, count) else { return Err(unsupported(instruction, "this shape")) };
        let packed = instruction.has("pack::16b") || instruction.has("unpack::16b");
        let address = self.address(instruction, usize::from(load))?;
        let split_at = if load { 2 } else { 1 };
        let split = match instruction.operands.get(split_at) {
            Some(Operand::Integer(value)) if shape == TmemShape::S16x32x2 => *value as u32,
            _ if shape == TmemShape::S16x32x2 => return Err(unsupported(instruction, "it needs a split")),
            _ => 0,
        };
        let index = if load { 0 } else { instruction.operands.len() - 1 };
        let vector = self.operand(instruction, index)?;
        let register_count = shape.registers_and_columns().0 * count;
        let wrong = || unsupported(instruction, &format!("it needs {register_count} registers"));
        if load {
            let dst = self.results(vector)?;
            if dst.len() != register_count {
                return Err(wrong());
            }
            return Ok(Op::TmemLoad { shape, packed, split, dst, address });
        }
        let src = self.values(vector, 32)?;
        if src.len() != register_count {
            return Err(wrong());
        }
        Ok(Op::TmemStore { shape, packed, split, src, address })
    }

    fn tensor_copy(&mut self, instruction: &Instruction) -> Result<Op> {
        let shapes = [
            ("128x256b", CopyShape::S128x256),
            ("4x256b", CopyShape::S4x256),
            ("128x128b", CopyShape::S128x128),
            ("32x128b", CopyShape::S32x128),
            ("64x128b", if instruction.has("warpx2::02_13") { CopyShape::S64x128Warps02_13 } else { CopyShape::S64x128Warps01_23 }),
        ];
        let known: Vec<&str> = COMMON_MODIFIERS
            .iter()
            .chain(&["cp", "warpx4", "warpx2::02_13", "warpx2::01_23"])
            .copied()
            .chain(shapes.iter().map(|shape| shape.0))
            .collect();
        check_modifiers(instruction, &known)?;
        if instruction.types().next().is_some() {
            return Err(unsupported(instruction, "a change of format"));
        }
        let shape = shapes.into_iter().find(|(word, _)| instruction.has(word)).map(|(_, shape)| shape);
        let Some(shape) = shape else { return Err(unsupported(instruction, "this shape")) };
        Ok(Op::TensorCopy {
            shape,
            pair: instruction.has("cta_group::2"),
            to: self.address(instruction, 0)?,
            from: self.source(instruction, 1, 64)?,
        })
    }

    fn tensor_mma(&mut self, instruction: &Instruction) -> Result<TensorMma> {
        let kinds = [
            ("kind::f16", TensorKind::F16),
            ("kind::tf32", TensorKind::Tf32),
            ("kind::f8f6f4", TensorKind::F8f6f4),
            ("kind::i8", TensorKind::I8),
            ("kind::mxf8f6f4", TensorKind::Mxf8f6f4),
            ("kind::mxf4", TensorKind::Mxf4),
            ("kind::mxf4nvf4", TensorKind::Mxf4),
        ];
        let known: Vec<&str> = COMMON_MODIFIERS
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
        check_modifiers(instruction, &known)?;
        let kind = kinds.into_iter().find(|(word, _)| instruction.has(word)).map(|(_, kind)| kind);
        let Some(kind) = kind else { return Err(unsupported(instruction, "this kind")) };
        let scale_block = if instruction.has("block16") || instruction.has("scale_vec::4X") { 16 } else { 32 };
        let (mut a_tensor, mut a_shared) = (None, 0);
        match self.operand(instruction, 1)? {
            Operand::Address(address) => a_tensor = Some(self.plain_address(address)?),
            operand => a_shared = self.value(operand, 64)?,
        }
        let mut next = 4;
        let scales = if instruction.has("block_scale") {
            next += 2;
            Some((self.address(instruction, 4)?, self.address(instruction, 5)?))
        } else {
            None
        };
        let mut disabled = Box::default();
        if let Some(vector @ Operand::Vector(_)) = instruction.operands.get(next) {
            disabled = self.values(vector, 32)?;
            next += 1;
        }
        let accumulate = self.source(instruction, next, 1)?;
        let shift = match instruction.operands.get(next + 1) {
            None => 0,
            Some(Operand::Integer(value @ 0..=15)) => *value as u32,
            _ => return Err(unsupported(instruction, "these operands")),
        };
        Ok(TensorMma {
            kind,
            pair: instruction.has("cta_group::2"),
            scale_block,
            d: self.address(instruction, 0)?,
            a_tensor,
            a_shared,
            b: self.source(instruction, 2, 64)?,
            instruction_descriptor: self.source(instruction, 3, 32)?,
            scales,
            disabled,
            accumulate,
            shift,
        })
    }
}
