//! Pointer arithmetic, and loads and stores through tiles of pointers.

use super::Emitter;
use crate::ir::{Val, address_space};
use base::Value;
use core_dialect::core_ops::Core;
use core_dialect::memory::MemoryOrdering;
use core_dialect::tile::{Elem, Space};
use tileas::CopyAtom;

impl<'c> Emitter<'c, '_> {
    /// Emits pointer arithmetic and conversions between pointers and integers.
    pub(super) fn emit_pointer_op(&mut self, core: &Core, result: Value) {
        let ir = self.ir;
        let registers: Vec<Val<'c>> = match core {
            Core::IntToPtr { x } => {
                let Elem::Ptr { space, .. } = self.elem(result) else { unreachable!("the result is a pointer") };
                self.registers_of(*x).iter().map(|x| ir.int_to_ptr(x.into_int_value(), llvm_address_space(space)).into()).collect()
            }
            Core::PtrToInt { x } => self.registers_of(*x).iter().map(|x| ir.ptr_to_int(x.into_pointer_value()).into()).collect(),
            Core::PtrCast { x } => self.registers_of(*x).to_vec(),
            Core::Offset { ptr, offset } => {
                let Elem::Ptr { pointee, .. } = self.elem(*ptr) else { unreachable!("the operand is a pointer") };
                let ty = ir.memory_type(Elem::Scalar(pointee));
                let pairs = self.registers_of(*ptr).iter().zip(self.registers_of(*offset));
                pairs
                    .map(|(ptr, offset)| {
                        let offset = ir.resize(offset.into_int_value(), ir.i64(), true);
                        ir.element_ptr(ty, ptr.into_pointer_value(), offset).into()
                    })
                    .collect()
            }
            _ => unreachable!("called for pointer arithmetic only"),
        };
        self.set_registers(result, registers);
    }

    /// Emits a load or a store through a tile of pointers.
    pub(super) fn emit_pointer_access(&mut self, program: &tileas::Op, results: &[Value]) {
        match program {
            tileas::Op::Load { ptr, mask, other, order, atom, .. } => {
                let (elem, layout) = (self.elem(results[0]), self.layout(results[0]));
                let is_ordered = order.semantics != MemoryOrdering::Weak;
                // Another thread may change the memory between two loads of an element. So one thread loads the element for all
                // threads that hold it.
                let is_representative = if is_ordered { self.is_representative(&layout) } else { None };
                let width = vector_width(*atom);
                let mut registers = Vec::with_capacity(layout.registers());
                for first in (0..layout.registers()).step_by(width) {
                    let at = self.registers_of(*ptr)[first].into_pointer_value();
                    let mask = mask.map(|mask| self.registers_of(mask)[first].into_int_value());
                    let otherwise = match other {
                        Some(other) => self.registers_of(*other)[first..first + width].to_vec(),
                        None => vec![self.ir.constant(elem, 0); width],
                    };
                    let read = self.load_where(self.conjunction(mask, is_representative), &otherwise, results[0], at, *order);
                    registers.extend(self.loaded_registers(elem, read));
                }
                if is_representative.is_some() {
                    registers = self.broadcast_in_warp(&layout, elem, registers);
                }
                self.set_registers(results[0], registers);
                self.set_token(results[1]);
            }
            tileas::Op::Store { ptr, value, mask, order, atom, .. } => {
                let (elem, layout) = (self.elem(*value), self.layout(*value));
                let is_representative = self.is_representative(&layout);
                let width = vector_width(*atom);
                for first in (0..layout.registers()).step_by(width) {
                    let at = self.registers_of(*ptr)[first].into_pointer_value();
                    let mask = mask.map(|mask| self.registers_of(mask)[first].into_int_value());
                    self.emit_guarded(self.conjunction(mask, is_representative), &[], |e| {
                        e.store_elements(elem, at, &e.registers_of(*value)[first..first + width], *order);
                        Vec::new()
                    });
                }
                self.set_token(results[0]);
            }
            _ => unreachable!("called for pointer accesses only"),
        }
    }
}

/// The number of registers that one access moves. The pointer and the mask of the first register apply to all of them.
pub(super) fn vector_width(atom: CopyAtom) -> usize {
    match atom {
        CopyAtom::Vector { vector_bits } => 1 << vector_bits,
        _ => unreachable!("pointers are accessed by vectors"),
    }
}

/// Returns the LLVM address space of pointers in a space.
fn llvm_address_space(space: Space) -> u16 {
    match space {
        Space::Global => crate::ir::GLOBAL,
        Space::Local => crate::ir::GLOBAL,
        Space::Generic => {
            debug_assert_eq!(address_space(space), inkwell::AddressSpace::default());
            0
        }
    }
}
