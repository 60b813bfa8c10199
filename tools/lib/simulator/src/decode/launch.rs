//! Decodes the `clusterlaunchcontrol` (CLC) instructions, and the instructions that modify tensor maps (`tensormap`).

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::lanes::map1;
use crate::program::*;
use ptx::{Instruction, Operand};

impl Builder<'_> {
    /// Decodes `clusterlaunchcontrol` and `tensormap` instructions. Returns `None` for other instructions.
    pub(super) fn decode_launch(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        Ok(Some(match &*instruction.opcode {
            "clusterlaunchcontrol" if instruction.has_modifier("try_cancel") => {
                check_modifiers(instruction, &["try_cancel", "async", "mbarrier::complete_tx::bytes", "multicast::cluster::all"])?;
                Op::CancelLaunch {
                    response: self.address_operand(instruction, 0)?,
                    barrier: self.address_operand(instruction, 1)?,
                    multicast: instruction.has_modifier("multicast::cluster::all"),
                }
            }
            "clusterlaunchcontrol" => self.decode_query_cancel(instruction)?,
            "tensormap" if instruction.has_modifier("cp_fenceproxy") => {
                let words = ["cp_fenceproxy", "tensormap::generic", "release", "cta", "cluster", "gpu", "sys", "sync", "aligned"];
                check_modifiers(instruction, &words)?;
                let Some(Operand::Integer(128)) = instruction.operands.get(2) else {
                    return Err(unsupported(instruction, "this size"));
                };
                Op::CopyTensorMap { to: self.address_operand(instruction, 0)?, from: self.address_operand(instruction, 1)? }
            }
            "tensormap" => self.decode_tensormap_replace(instruction)?,
            _ => return Ok(None),
        }))
    }

    /// Decodes `clusterlaunchcontrol.query_cancel`, which extracts fields of a response.
    fn decode_query_cancel(&mut self, instruction: &Instruction) -> Result<Op> {
        let parts = ["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"];
        check_modifiers(instruction, &[&["query_cancel", "is_canceled", "get_first_ctaid", "v4"], &parts[..]].concat())?;
        let handle = self.operand(instruction, 1)?;
        let handle = self.destination_slot(handle)?.0;
        let shifted = |by: u32, mask: u64| map1(move |a| a >> by & mask);
        if instruction.has_modifier("is_canceled") {
            return Ok(Op::Elementwise {
                f: shifted(63, 1),
                dst: self.result_slot(instruction, 0)?,
                src: [handle + 1, 0, 0, 0],
                selects_bytes: false,
            });
        }
        let field_positions =
            [(handle, 0, u32::MAX.into()), (handle, 32, u32::MAX.into()), (handle + 1, 0, 0x7fff_ffff), (0, 0, 0)];
        let extract_field = |dst, (src, by, mask): (RegSlot, u32, u64)| Op::Elementwise {
            f: shifted(by, mask),
            dst,
            src: [src, 0, 0, 0],
            selects_bytes: false,
        };
        if let Some(part) = parts.iter().position(|part| instruction.has_modifier(part)) {
            return Ok(extract_field(self.result_slot(instruction, 0)?, field_positions[part]));
        }
        let Operand::Vector(results) = self.operand(instruction, 0)? else { return Err(unsupported(instruction, "this result")) };
        let results = results.iter().map(|result| Ok(self.destination_slot(result)?.0)).collect::<Result<Vec<_>>>()?;
        let [x, y, z, w] = results[..] else { return Err(unsupported(instruction, "it needs four results")) };
        for (dst, field_position) in [(x, field_positions[0]), (y, field_positions[1]), (z, field_positions[2])] {
            self.emit(extract_field(dst, field_position));
        }
        Ok(extract_field(w, field_positions[3]))
    }

    /// Decodes `tensormap.replace`.
    fn decode_tensormap_replace(&mut self, instruction: &Instruction) -> Result<Op> {
        let fields = [
            ("global_address", TensorMapField::Address),
            ("rank", TensorMapField::Rank),
            ("box_dim", TensorMapField::Box(0)),
            ("global_dim", TensorMapField::Dim(0)),
            ("global_stride", TensorMapField::Stride(0)),
            ("element_stride", TensorMapField::ElementStride),
            ("elemtype", TensorMapField::ElementType),
            ("interleave_layout", TensorMapField::Interleave),
            ("swizzle_mode", TensorMapField::Swizzle),
            ("swizzle_atomicity", TensorMapField::SwizzleAtom),
            ("fill_mode", TensorMapField::Fill),
        ];
        let known_modifiers: Vec<&str> = fields.iter().map(|field| field.0).chain(["replace", "tile"]).collect();
        check_modifiers(instruction, &[&known_modifiers[..], &["b1024"]].concat())?;
        let field = fields.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, field)| field);
        let Some(field) = field.filter(|_| instruction.has_modifier("replace")) else {
            return Err(unsupported(instruction, "this field"));
        };
        let dimension = |instruction: &Instruction| match instruction.operands.get(1) {
            Some(Operand::Integer(value @ 0..=4)) if instruction.operands.len() == 3 => Ok(*value as u32),
            _ => Err(unsupported(instruction, "it needs a dimension from 0 to 4")),
        };
        let field = match field {
            TensorMapField::Box(_) => TensorMapField::Box(dimension(instruction)?),
            TensorMapField::Dim(_) => TensorMapField::Dim(dimension(instruction)?),
            TensorMapField::Stride(_) => TensorMapField::Stride(dimension(instruction)?.min(3)),
            other => other,
        };
        let space = match instruction.space() {
            Some(ptx::Space::Global) => Space::Global,
            Some(ptx::Space::SharedCta | ptx::Space::Shared) => Space::SharedCta,
            None => Space::Generic,
            _ => return Err(unsupported(instruction, "this space")),
        };
        let value = self.source_slot(instruction, instruction.operands.len() - 1, 64)?;
        Ok(Op::ReplaceTensorMapField { space, address: self.address_operand(instruction, 0)?, field, value })
    }
}
