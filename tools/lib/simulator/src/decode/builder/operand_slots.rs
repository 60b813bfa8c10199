//! Assigns register slots to the operands of instructions: registers, constants, special registers and addresses.

use super::{Binding, Builder};
use crate::decode::unsupported;
use crate::fault::{Fault, Result};
use crate::lanes::map1;
use crate::program::*;
use ptx::{Instruction, Operand, Type};

impl<'m> Builder<'m> {
    /// Returns an operand of an instruction, or a fault if the instruction has too few.
    pub(in crate::decode) fn operand<'i>(&self, instruction: &'i Instruction, index: usize) -> Result<&'i Operand> {
        let missing = || Fault::new("SIM002", format!("'{}' needs more operands", instruction.full_name()));
        instruction.operands.get(index).ok_or_else(missing)
    }

    /// Returns the slot of source operand `index` of an instruction. An immediate operand has `bits` bits.
    pub(in crate::decode) fn source_slot(&mut self, instruction: &Instruction, index: usize, bits: u32) -> Result<RegSlot> {
        let operand = self.operand(instruction, index)?;
        self.operand_slot(operand, bits)
    }

    /// Returns the slot of a source operand. An immediate operand has `bits` bits.
    pub(in crate::decode) fn operand_slot(&mut self, operand: &Operand, bits: u32) -> Result<RegSlot> {
        let mask = u64::MAX >> (64 - bits.clamp(1, 64));
        match operand {
            Operand::Name(name) => self.slot_of_name(name),
            Operand::Offset { name, offset } => match self.look_up(name) {
                Some(Binding::Shared { address }) => Ok(self.shared_address(address.wrapping_add_signed(*offset))),
                _ => {
                    let address = self.variable_address(name)?.wrapping_add_signed(*offset);
                    Ok(self.constant_slot(address))
                }
            },
            Operand::Integer(value) if bits == 1 => Ok(self.constant_slot(u64::from(*value != 0))),
            Operand::Integer(value) => Ok(self.constant_slot(*value as u64 & mask)),
            Operand::F32(value) => Ok(self.constant_slot(u64::from(*value))),
            Operand::F64(value) if bits == 32 => Ok(self.constant_slot(u64::from((f64::from_bits(*value) as f32).to_bits()))),
            Operand::F64(value) => Ok(self.constant_slot(*value)),
            Operand::Not(name) => {
                let src = self.slot_of_name(name)?;
                let dst = self.allocate_temporary();
                let guard = self.guard.take();
                self.emit(Op::Elementwise { f: map1(|a| a ^ 1), dst, src: [src, 0, 0, 0], selects_bytes: false });
                self.guard = guard;
                Ok(dst)
            }
            _ => Err(Fault::new("SIM002", "the operand must be a register or a number")),
        }
    }

    /// Returns the register slot of a register, a special register or the address of a variable.
    pub(super) fn slot_of_name(&mut self, name: &str) -> Result<RegSlot> {
        if let Some(special) = special_register(name) {
            return Ok(self.special_slot(special));
        }
        match self.look_up(name) {
            Some(Binding::Register { slot, .. } | Binding::Argument { slot }) => Ok(slot),
            Some(Binding::Variable { address }) => Ok(self.constant_slot(address)),
            Some(Binding::Shared { address }) => Ok(self.shared_address(address)),
            _ => Err(Self::undeclared(name)),
        }
    }

    /// Returns the register slot of a destination operand, and the width of the register in bits.
    pub(in crate::decode) fn destination_slot(&mut self, operand: &Operand) -> Result<(RegSlot, u32)> {
        let Operand::Name(name) = operand else { return Err(Fault::new("SIM002", "the operand must be a register")) };
        if name == "_" {
            return Ok((self.allocate_register(Type::B128), 64));
        }
        match self.look_up(name) {
            Some(Binding::Register { slot, ty }) => Ok((slot, ty.bits())),
            _ => Err(Self::undeclared(name)),
        }
    }

    /// Returns the register slot to which an instruction writes operand `index`.
    pub(in crate::decode) fn result_slot(&mut self, instruction: &Instruction, index: usize) -> Result<RegSlot> {
        let operand = self.operand(instruction, index)?;
        Ok(self.destination_slot(operand)?.0)
    }

    /// Returns the registers of a destination `d|p`. The second register is `None` for a destination `d`.
    pub(in crate::decode) fn result_pair(&mut self, instruction: &Instruction) -> Result<(RegSlot, Option<RegSlot>)> {
        match self.operand(instruction, 0)? {
            Operand::Pair(first, second) => Ok((self.destination_slot(first)?.0, Some(self.destination_slot(second)?.0))),
            other => Ok((self.destination_slot(other)?.0, None)),
        }
    }

    /// Returns the result slots of `{a, b}` or of a single register.
    pub(in crate::decode) fn result_slots(&mut self, operand: &Operand) -> Result<Box<[RegSlot]>> {
        match operand {
            Operand::Vector(parts) => parts.iter().map(|part| Ok(self.destination_slot(part)?.0)).collect(),
            single => Ok([self.destination_slot(single)?.0].into()),
        }
    }

    /// Returns the source slots of `{a, b}` or of a single operand.
    pub(in crate::decode) fn operand_slots(&mut self, operand: &Operand, bits: u32) -> Result<Box<[RegSlot]>> {
        match operand {
            Operand::Vector(parts) => parts.iter().map(|part| self.operand_slot(part, bits)).collect(),
            single => Ok([self.operand_slot(single, bits)?].into()),
        }
    }

    /// Decodes an address operand without coordinates.
    pub(in crate::decode) fn address_operand(&mut self, instruction: &Instruction, index: usize) -> Result<Address> {
        let operand = self.operand(instruction, index)?;
        let Operand::Address(address) = operand else {
            return Err(Fault::new("SIM002", format!("'{}' needs an address", instruction.full_name())));
        };
        if !address.trailing_operands.is_empty() {
            return Err(unsupported(instruction, "coordinates in this address"));
        }
        self.plain_address(address)
    }

    /// Decodes the base register and the offset of an address.
    pub(in crate::decode) fn plain_address(&mut self, address: &ptx::Address) -> Result<Address> {
        let base = match &address.base {
            Some(name) => self.slot_of_name(name)?,
            None => 0,
        };
        Ok(Address { base, offset: address.offset })
    }
}

/// Returns the special register with this name, such as `%tid.x`.
fn special_register(name: &str) -> Option<Special> {
    let dimension = |suffix: &str| match suffix {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    if let Some((base, suffix)) = name.split_once('.') {
        let dimension = dimension(suffix)?;
        return Some(match base {
            "%tid" => Special::Tid(dimension),
            "%ntid" => Special::Ntid(dimension),
            "%ctaid" => Special::Ctaid(dimension),
            "%nctaid" => Special::Nctaid(dimension),
            "%clusterid" => Special::ClusterId(dimension),
            "%nclusterid" => Special::NclusterId(dimension),
            "%cluster_ctaid" => Special::ClusterCtaid(dimension),
            "%cluster_nctaid" => Special::ClusterNctaid(dimension),
            _ => return None,
        });
    }
    Some(match name {
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NwarpId,
        "%cluster_ctarank" => Special::ClusterCtarank,
        "%cluster_nctarank" => Special::ClusterNctarank,
        "%lanemask_eq" => Special::LaneMask(LaneMask::Eq),
        "%lanemask_le" => Special::LaneMask(LaneMask::Le),
        "%lanemask_lt" => Special::LaneMask(LaneMask::Lt),
        "%lanemask_ge" => Special::LaneMask(LaneMask::Ge),
        "%lanemask_gt" => Special::LaneMask(LaneMask::Gt),
        "%smid" | "%gridid" => Special::Zero,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%perctamemoryoffset" => Special::CtaMemory,
        "%perctamemorysize" => Special::CtaMemorySize,
        "%nsmid" | "%is_explicit_cluster" => Special::One,
        "%total_smem_size" => Special::SharedSize,
        _ => return None,
    })
}
