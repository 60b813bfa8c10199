//! Atomic read-modify-write and compare-and-swap ops as inline assembly. Reason: the NVPTX back end drops the memory order and
//! scope of LLVM's atomic instructions.

use super::Emitter;
use super::access_runs::{order_qualifiers, space_suffix};
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::memory::{AtomicMode, Order};
use core_dialect::tile::Elem;
use inkwell::values::PointerValue;
use numerics::Scalar;
use target_info::Feature;

impl<'c> Emitter<'c, '_> {
    /// Emits an atomic read-modify-write or compare-and-swap for each element of a tile. If several threads hold an element, only
    /// its representative thread executes the instruction.
    pub(super) fn emit_atomic(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        let (ptr, values, mask, order, mode) = match program {
            tileas::Op::AtomicRmw { ptr, value, mask, order, mode, .. } => (*ptr, vec![*value], *mask, *order, Some(*mode)),
            tileas::Op::AtomicCas { ptr, compare, value, mask, order, .. } => (*ptr, vec![*compare, *value], *mask, *order, None),
            _ => unreachable!("called for atomics only"),
        };
        let elem = self.elem(results[0]);
        let name_and_constraint = self.atomic_name(op, elem, mode)?;
        let layout = self.layout(results[0]);
        let is_representative = self.is_representative(&layout);
        let mut registers = Vec::with_capacity(layout.registers());
        for i in 0..layout.registers() {
            let ptr = self.registers_of(ptr)[i].into_pointer_value();
            let operands: Vec<Val<'c>> = values.iter().map(|value| self.registers_of(*value)[i]).collect();
            let mask = mask.map(|mask| self.registers_of(mask)[i].into_int_value());
            let otherwise = [operands[0]];
            let emit_instruction = |e: &Self| vec![e.atomic_instruction(&name_and_constraint, elem, order, ptr, &operands)];
            registers.extend(self.emit_guarded(self.conjunction(mask, is_representative), &otherwise, emit_instruction));
        }
        if is_representative.is_some() && self.is_used(results[0]) {
            registers = self.broadcast_in_warp(&layout, elem, registers);
        }
        self.set_registers(results[0], registers);
        self.set_token(results[1]);
        Ok(())
    }

    /// Emits an atomic instruction on one element. Returns the old value.
    pub(super) fn atomic_instruction(
        &self,
        (name, constraint): &(String, &str),
        elem: Elem,
        order: Order,
        ptr: PointerValue<'c>,
        operands: &[Val<'c>],
    ) -> Val<'c> {
        let operand_list = if operands.len() == 1 { "$2" } else { "$2, $3" };
        let text = format!("atom{}{}.{name} $0, [$1], {operand_list};", order_qualifiers(order), space_suffix(ptr));
        let constraints = format!("={constraint},l{}", format!(",{constraint}").repeat(operands.len()));
        let args: Vec<Val<'c>> = std::iter::once(ptr.into()).chain(operands.iter().copied()).collect();
        self.ir.asm(Some(self.ir.elem_type(elem)), &text, &constraints, &args, true).expect("atomics return the old value")
    }

    /// Returns the operation and type in the name of an atomic instruction, such as `add.u32`, and the constraint of its operands.
    /// Without a mode, the operation is compare-and-swap.
    pub(super) fn atomic_name(&self, op: OpId, elem: Elem, mode: Option<AtomicMode>) -> Result<(String, &'static str)> {
        let scalar = elem.carrier();
        let bits = scalar.bits();
        let is_supported = match mode {
            None => matches!(bits, 16 | 32 | 64),
            Some(AtomicMode::AddF) => scalar.is_float(),
            Some(AtomicMode::Xchg) => matches!(bits, 32 | 64),
            Some(_) => scalar.is_int() && matches!(bits, 32 | 64),
        };
        if !is_supported {
            return Err(self.unsupported(op));
        }
        let constraint = match scalar {
            Scalar::F32 => "f",
            Scalar::F64 => "d",
            Scalar::F16 | Scalar::BF16 => "h",
            _ if bits == 64 => "l",
            _ if bits == 16 => "h",
            _ => "r",
        };
        let name = match mode {
            None => format!("cas.b{bits}"),
            Some(AtomicMode::Xchg) => format!("exch.b{bits}"),
            Some(AtomicMode::And) => format!("and.b{bits}"),
            Some(AtomicMode::Or) => format!("or.b{bits}"),
            Some(AtomicMode::Xor) => format!("xor.b{bits}"),
            Some(AtomicMode::Add) => format!("add.u{bits}"),
            Some(AtomicMode::Max) => format!("max.s{bits}"),
            Some(AtomicMode::Min) => format!("min.s{bits}"),
            Some(AtomicMode::UMax) => format!("max.u{bits}"),
            Some(AtomicMode::UMin) => format!("min.u{bits}"),
            Some(AtomicMode::AddF) => match scalar {
                Scalar::F32 => "add.f32".into(),
                Scalar::F64 => "add.f64".into(),
                Scalar::F16 => "add.noftz.f16".into(),
                Scalar::BF16 if self.target.has(Feature::AtomicAddBf16) => "add.noftz.bf16".into(),
                Scalar::BF16 => return Err(self.incompatible("atomicRMW ADDF with bf16 is not supported")),
                _ => return Err(self.unsupported(op)),
            },
        };
        Ok((name, constraint))
    }
}
