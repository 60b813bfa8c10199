//! Decodes loads, stores, atomics and fences.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::program::*;
use ptx::{Instruction, Operand, Type};

/// Memory-ordering modifiers and cache hints of loads, stores and atomics. The simulator ignores them, because it executes lanes
/// and warps sequentially.
const ORDER_AND_HINTS: &[&str] = &[
    "weak",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "sc",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "volatile",
    "mmio",
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "unified",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::cache_hint",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_first",
    "L2::evict_last",
    "L2::evict_normal",
];

impl Builder<'_> {
    /// Decodes loads, stores, atomics and fences. Returns `None` for other instructions.
    pub(super) fn decode_memory(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        Ok(Some(match &*instruction.opcode {
            "ld" | "ldu" => self.decode_load(instruction)?,
            "st" => self.decode_store(instruction)?,
            "atom" | "red" => self.decode_atomic(instruction)?,
            "multimem" => self.decode_multimem(instruction)?,
            "fence" => self.decode_fence(instruction)?,
            "prefetch" | "prefetchu" | "membar" | "applypriority" | "discard" => Op::Nop,
            _ => return Ok(None),
        }))
    }

    /// Returns the state space of an access. Without a state space, the access is generic.
    fn memory_space(&self, instruction: &Instruction) -> Result<Space> {
        Ok(match instruction.space() {
            None => Space::Generic,
            Some(ptx::Space::Global | ptx::Space::Const) => Space::Global,
            Some(ptx::Space::Shared | ptx::Space::SharedCta) => Space::SharedCta,
            Some(ptx::Space::SharedCluster) => Space::SharedCluster,
            Some(ptx::Space::Local) => Space::Local,
            Some(ptx::Space::Param | ptx::Space::ParamEntry) => Space::Param,
            Some(space) => return Err(unsupported(instruction, &format!("space '.{space}'"))),
        })
    }

    /// Returns a fault if a load or store has a modifier that the simulator does not support.
    fn check_access_modifiers(instruction: &Instruction) -> Result<()> {
        let known_modifiers: Vec<&str> = ORDER_AND_HINTS.iter().chain(&["v2", "v4", "v8"]).copied().collect();
        check_modifiers(instruction, &known_modifiers)
    }
    /// Returns the element type of a load or store. Checks that the instruction has `count` vector elements.
    fn element_type(instruction: &Instruction, count: usize) -> Result<Type> {
        let length =
            [("v2", 2), ("v4", 4), ("v8", 8)].into_iter().find(|(word, _)| instruction.has_modifier(word)).map_or(1, |(_, n)| n);
        let Some(ty) = instruction.types().next() else { return Err(unsupported(instruction, "it has no type")) };
        if count != length || ty.bits() > 64 {
            return Err(unsupported(instruction, "these operands"));
        }
        Ok(ty)
    }

    /// Decodes a load. Decoding inlines calls, so a load of a call result is a register copy.
    fn decode_load(&mut self, instruction: &Instruction) -> Result<Op> {
        Self::check_access_modifiers(instruction)?;
        if let Some(src) = self.call_argument(instruction, 1)? {
            let dst = self.result_slot(instruction, 0)?;
            return Ok(self.register_copy(dst, src));
        }
        if let Some(dst) = self.halves_of_b128_operand(instruction, 0)? {
            let (space, address) = self.access_location(instruction, 1)?;
            return Ok(Op::Load { space, element: ElementConversion { bytes: 8, sign_extended_bits: None }, dst, address });
        }
        let to = self.operand(instruction, 0)?;
        let dst = self.result_slots(to)?;
        let ty = Self::element_type(instruction, dst.len())?;
        let width = match to {
            Operand::Name(_) => self.destination_slot(to)?.1,
            Operand::Vector(parts) => self.destination_slot(&parts[0])?.1,
            _ => ty.bits(),
        };
        let sign_extended_bits = (ty.is_signed() && width > ty.bits()).then_some(width);
        let element = ElementConversion { bytes: ty.bytes(), sign_extended_bits };
        let (space, address) = self.access_location(instruction, 1)?;
        Ok(Op::Load { space, element, dst, address })
    }

    /// Decodes a store. Decoding inlines calls, so a store to a call argument is a register copy.
    fn decode_store(&mut self, instruction: &Instruction) -> Result<Op> {
        Self::check_access_modifiers(instruction)?;
        if let Some(dst) = self.call_argument(instruction, 0)? {
            let bits = instruction.types().next().map_or(64, Type::bits);
            let src = self.source_slot(instruction, 1, bits)?;
            return Ok(self.register_copy(dst, src));
        }
        if let Some(src) = self.halves_of_b128_operand(instruction, 1)? {
            let (space, address) = self.access_location(instruction, 0)?;
            return Ok(Op::Store { space, bytes: 8, src, address });
        }
        let from = self.operand(instruction, 1)?;
        let bits = instruction.types().next().map_or(64, Type::bits);
        let src = self.operand_slots(from, bits)?;
        let ty = Self::element_type(instruction, src.len())?;
        let (space, address) = self.access_location(instruction, 0)?;
        Ok(Op::Store { space, bytes: ty.bytes(), src, address })
    }

    /// Returns the state space and the address of an access. Byte arrays of calls are in local memory.
    fn access_location(&mut self, instruction: &Instruction, index: usize) -> Result<(Space, Address)> {
        if let Operand::Address(address) = self.operand(instruction, index)?
            && let Some(place) = self.byte_array_address(address)
        {
            return Ok((Space::Local, place));
        }
        Ok((self.memory_space(instruction)?, self.address_operand(instruction, index)?))
    }

    /// Returns the slots of the two halves of 128-bit operand `index`. `None` if the instruction does not have type `.b128`.
    fn halves_of_b128_operand(&mut self, instruction: &Instruction, index: usize) -> Result<Option<Box<[RegSlot]>>> {
        if instruction.types().next() != Some(Type::B128) {
            return Ok(None);
        }
        let operand = self.operand(instruction, index)?;
        let slot = self.destination_slot(operand)?.0;
        Ok(Some([slot, slot + 1].into()))
    }

    /// Decodes `multimem`, accesses to one copy of the data per GPU. The simulator has one GPU, so a reducing load reads the only
    /// copy.
    fn decode_multimem(&mut self, instruction: &Instruction) -> Result<Op> {
        const MULTIMEM_MODIFIERS: &[&str] =
            &["ld_reduce", "st", "red", "add", "min", "max", "and", "or", "xor", "acc::f32", "acc::f16", "v2", "v4", "v8"];
        let known_modifiers: Vec<&str> = ORDER_AND_HINTS.iter().chain(MULTIMEM_MODIFIERS).copied().collect();
        check_modifiers(instruction, &known_modifiers)?;
        let Some(ty) = instruction.types().next() else { return Err(unsupported(instruction, "it has no type")) };
        if instruction.has_modifier("ld_reduce") {
            let dst = self.result_slots(self.operand(instruction, 0)?)?;
            let element =
                ElementConversion { bytes: Self::element_type(instruction, dst.len())?.bytes(), sign_extended_bits: None };
            return Ok(Op::Load {
                space: self.memory_space(instruction)?,
                element,
                dst,
                address: self.address_operand(instruction, 1)?,
            });
        }
        let src = self.operand_slots(self.operand(instruction, 1)?, ty.bits())?;
        Self::element_type(instruction, src.len())?;
        let (space, address) = (self.memory_space(instruction)?, self.address_operand(instruction, 0)?);
        if instruction.has_modifier("st") {
            return Ok(Op::Store { space, bytes: ty.bytes(), src, address });
        }
        let op = self.atom_op(instruction)?;
        Ok(Op::MultimemReduce { space, op, ty, src, old_value_dst: self.allocate_temporary(), address })
    }

    /// Decodes `fence`. Simulated memory is sequentially consistent, so only proxy fences have an effect.
    fn decode_fence(&mut self, instruction: &Instruction) -> Result<Op> {
        let words = ["proxy", "async", "alias", "mbarrier_init", "sync_restrict", "tensormap::generic"];
        let known_modifiers: Vec<&str> = ORDER_AND_HINTS.iter().chain(&words).copied().collect();
        check_modifiers(instruction, &known_modifiers)?;
        Ok(if instruction.has_modifier("proxy") && instruction.has_modifier("async") { Op::ProxyFence } else { Op::Nop })
    }

    /// Returns the register of a call argument or result that an address such as `[param0]` names. `None` for other addresses.
    fn call_argument(&mut self, instruction: &Instruction, index: usize) -> Result<Option<RegSlot>> {
        let Operand::Address(address) = self.operand(instruction, index)? else { return Ok(None) };
        let Some(slot) = address.base.as_ref().and_then(|name| self.argument_slot(name)) else { return Ok(None) };
        if address.offset != 0 {
            return Err(unsupported(instruction, "parts of an argument"));
        }
        Ok(Some(slot))
    }

    /// Decodes `atom` and `red`.
    fn decode_atomic(&mut self, instruction: &Instruction) -> Result<Op> {
        let ops = ["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", "noftz"];
        let known_modifiers: Vec<&str> = ORDER_AND_HINTS.iter().chain(&ops).copied().collect();
        check_modifiers(instruction, &known_modifiers)?;
        let op = self.atom_op(instruction)?;
        let Some(ty) = instruction.types().next() else { return Err(unsupported(instruction, "it has no type")) };
        if !matches!(ty.bits(), 16 | 32 | 64) || ty == Type::F32x2 {
            return Err(unsupported(instruction, &format!("type '.{ty}'")));
        }
        let reduction = instruction.opcode == "red";
        let first = usize::from(!reduction);
        let dst = if reduction { self.allocate_temporary() } else { self.result_slot(instruction, 0)? };
        let a = self.source_slot(instruction, first + 1, ty.bits())?;
        let b = if op == AtomOp::CompareSwap { self.source_slot(instruction, first + 2, ty.bits())? } else { 0 };
        Ok(Op::Atom {
            space: self.memory_space(instruction)?,
            op,
            ty,
            dst,
            src: [a, b],
            address: self.address_operand(instruction, first)?,
        })
    }
}
