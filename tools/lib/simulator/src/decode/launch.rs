//! Decodes `clusterlaunchcontrol` and `tensormap`.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::lanes::map1;
use crate::program::*;
use ptx::{Instruction, Operand};

/// Flag in the upper half of a `try_cancel` response: a cluster was stolen. The three words before it are the cluster's first CTA.
pub(crate) const CANCELED: u64 = 1 << 63;

impl Builder<'_> {
    pub(super) fn decode_launch(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        Ok(Some(match &*instruction.opcode {
            "clusterlaunchcontrol" if instruction.has("try_cancel") => {
                check_modifiers(instruction, &["try_cancel", "async", "mbarrier::complete_tx::bytes", "multicast::cluster::all"])?;
                Op::CancelLaunch {
                    response: self.address(instruction, 0)?,
                    barrier: self.address(instruction, 1)?,
                    multicast: instruction.has("multicast::cluster::all"),
                }
            }
            "clusterlaunchcontrol" => self.query_cancel(instruction)?,
            "tensormap" if instruction.has("cp_fenceproxy") => {
                let words = ["cp_fenceproxy", "tensormap::generic", "release", "cta", "cluster", "gpu", "sys", "sync", "aligned"];
                check_modifiers(instruction, &words)?;
                let Some(Operand::Integer(128)) = instruction.operands.get(2) else {
                    return Err(unsupported(instruction, "this size"));
                };
                Op::CopyMap { to: self.address(instruction, 0)?, from: self.address(instruction, 1)? }
            }
            "tensormap" => self.replace_in_map(instruction)?,
            _ => return Ok(None),
        }))
    }

    fn query_cancel(&mut self, instruction: &Instruction) -> Result<Op> {
        let parts = ["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"];
        check_modifiers(instruction, &[&["query_cancel", "is_canceled", "get_first_ctaid", "v4"], &parts[..]].concat())?;
        let handle = self.operand(instruction, 1)?;
        let handle = self.destination(handle)?.0;
        let shifted = |by: u32, mask: u64| map1(move |a| a >> by & mask);
        if instruction.has("is_canceled") {
            return Ok(Op::Elementwise {
                f: shifted(63, 1),
                dst: self.result(instruction, 0)?,
                src: [handle + 1, 0, 0, 0],
                selects_bytes: false,
            });
        }
        let place = [(handle, 0, u32::MAX.into()), (handle, 32, u32::MAX.into()), (handle + 1, 0, 0x7fff_ffff), (0, 0, 0)];
        let lane = |dst, (src, by, mask): (RegSlot, u32, u64)| Op::Elementwise {
            f: shifted(by, mask),
            dst,
            src: [src, 0, 0, 0],
            selects_bytes: false,
        };
        if let Some(part) = parts.iter().position(|part| instruction.has(part)) {
            return Ok(lane(self.result(instruction, 0)?, place[part]));
        }
        let Operand::Vector(results) = self.operand(instruction, 0)? else { return Err(unsupported(instruction, "this result")) };
        let results = results.iter().map(|result| Ok(self.destination(result)?.0)).collect::<Result<Vec<_>>>()?;
        let [x, y, z, w] = results[..] else { return Err(unsupported(instruction, "it needs four results")) };
        for (dst, place) in [(x, place[0]), (y, place[1]), (z, place[2])] {
            self.emit(lane(dst, place));
        }
        Ok(lane(w, place[3]))
    }

    fn replace_in_map(&mut self, instruction: &Instruction) -> Result<Op> {
        let fields = [
            ("global_address", MapField::Address),
            ("rank", MapField::Rank),
            ("box_dim", MapField::Box(0)),
            ("global_dim", MapField::Dim(0)),
            ("global_stride", MapField::Stride(0)),
            ("element_stride", MapField::ElementStride),
            ("elemtype", MapField::ElementType),
            ("interleave_layout", MapField::Interleave),
            ("swizzle_mode", MapField::Swizzle),
            ("swizzle_atomicity", MapField::SwizzleAtom),
            ("fill_mode", MapField::Fill),
        ];
        let known: Vec<&str> = fields.iter().map(|field| field.0).chain(["replace", "tile"]).collect();
        check_modifiers(instruction, &[&known[..], &["b1024"]].concat())?;
        let field = fields.into_iter().find(|(word, _)| instruction.has(word)).map(|(_, field)| field);
        let Some(field) = field.filter(|_| instruction.has("replace")) else { return Err(unsupported(instruction, "this field")) };
        let ordinal = |instruction: &Instruction| match instruction.operands.get(1) {
            Some(Operand::Integer(value @ 0..=4)) if instruction.operands.len() == 3 => Ok(*value as u32),
            _ => Err(unsupported(instruction, "it needs a dimension from 0 to 4")),
        };
        let field = match field {
            MapField::Box(_) => MapField::Box(ordinal(instruction)?),
            MapField::Dim(_) => MapField::Dim(ordinal(instruction)?),
            MapField::Stride(_) => MapField::Stride(ordinal(instruction)?.min(3)),
            other => other,
        };
        let space = match instruction.space() {
            Some(ptx::Space::Global) => Space::Global,
            Some(ptx::Space::SharedCta | ptx::Space::Shared) => Space::SharedCta,
            None => Space::Generic,
            _ => return Err(unsupported(instruction, "this space")),
        };
        let value = self.source(instruction, instruction.operands.len() - 1, 64)?;
        Ok(Op::ReplaceInMap { space, address: self.address(instruction, 0)?, field, value })
    }
}
