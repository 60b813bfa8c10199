//! Emits loads, stores, gathers and scatters in shared memory, and computes the addresses of buffers.

use super::Emitter;
use super::fragments::MatrixKind;
use crate::ir::{SHARED, Val};
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use inkwell::values::{IntValue, PointerValue};
use tileas::layout::{solve, xor_of_bases};
use tileas::{Buffer, CopyAtom, Layout};

impl<'c> Emitter<'c, '_> {
    /// Emits a load from or a store to a shared-memory buffer, according to its atom.
    pub(super) fn emit_shared_access(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        match program {
            tileas::Op::SharedStore { x, buffer, atom: CopyAtom::Vector { vector_bits }, .. } => {
                self.shared_store(*x, *buffer, *vector_bits);
                Ok(())
            }
            tileas::Op::SharedStore { x, buffer, atom: CopyAtom::Matrix { trans }, .. } => {
                self.matrix_store(*x, *buffer, *trans);
                Ok(())
            }
            tileas::Op::SharedLoad { buffer, atom: CopyAtom::Vector { vector_bits }, .. } => {
                self.shared_load(*buffer, *vector_bits, results[0]);
                Ok(())
            }
            tileas::Op::SharedLoad { buffer, atom: CopyAtom::Matrix { trans }, per_k_step, .. } => {
                self.matrix_load(*buffer, MatrixKind::Halfwords { trans: *trans }, *per_k_step, results[0]);
                Ok(())
            }
            tileas::Op::SharedLoad { buffer, atom: CopyAtom::ByteMatrix, per_k_step, .. } => {
                self.matrix_load(*buffer, MatrixKind::Bytes, *per_k_step, results[0]);
                Ok(())
            }
            _ => Err(self.unsupported(op)),
        }
    }

    /// Emits vector stores of a tile to a shared-memory buffer.
    fn shared_store(&mut self, x: Value, buffer: Buffer, vector_bits: u32) {
        let (elem, layout) = (self.elem(x), self.layout(x));
        let width = 1usize << vector_bits;
        let thread_offset = self.shared_thread_offset(&layout, buffer);
        let is_representative = self.is_representative(&layout);
        self.emit_guarded(is_representative, &[], |e| {
            for first in (0..layout.registers()).step_by(width) {
                let values: Vec<Val<'c>> =
                    e.registers_of(x)[first..first + width].iter().map(|value| e.memory_form(elem, *value)).collect();
                let ptr = e.shared_ptr(&thread_offset, &layout, buffer, first);
                e.ir.store(e.ir.pack(&values), ptr, elem.bytes() * width as u32);
            }
            Vec::new()
        });
    }

    /// Emits vector loads of a tile from a shared-memory buffer.
    fn shared_load(&mut self, buffer: Buffer, vector_bits: u32, result: Value) {
        let (elem, layout) = (self.elem(result), self.layout(result));
        let width = 1usize << vector_bits;
        let thread_offset = self.shared_thread_offset(&layout, buffer);
        let ty = self.ir.vector_type(self.ir.memory_type(elem), width as u32);
        let mut registers = Vec::with_capacity(layout.registers());
        for first in (0..layout.registers()).step_by(width) {
            let vector = self.ir.load(ty, self.shared_ptr(&thread_offset, &layout, buffer, first), elem.bytes() * width as u32);
            registers.extend(self.ir.unpack(vector, width).into_iter().map(|value| self.register_form(elem, value)));
        }
        self.set_registers(result, registers);
    }

    /// Emits loads of single elements at computed indices.
    pub(super) fn shared_gather(&mut self, buffer: Buffer, index: Value, result: Value) {
        let elem = self.elem(result);
        let ty = self.ir.memory_type(elem);
        let load = |index: &Val<'c>| {
            let value = self.ir.load(ty, self.ptr_of_computed_index(buffer, *index), elem.bytes());
            self.register_form(elem, value)
        };
        let registers = self.registers_of(index).iter().map(load).collect();
        self.set_registers(result, registers);
    }

    /// Emits stores of single elements to computed indices.
    pub(super) fn shared_scatter(&mut self, x: Value, buffer: Buffer, index: Value) {
        let (elem, layout) = (self.elem(x), self.layout(x));
        self.emit_guarded(self.is_representative(&layout), &[], |e| {
            for (value, index) in e.registers_of(x).iter().zip(e.registers_of(index)) {
                e.ir.store(e.memory_form(elem, *value), e.ptr_of_computed_index(buffer, *index), elem.bytes());
            }
            Vec::new()
        });
    }

    /// The shared-memory address of an element whose number is known only at run time.
    fn ptr_of_computed_index(&self, buffer: Buffer, index: Val<'c>) -> PointerValue<'c> {
        let ir = self.ir;
        let offset_bases = &self.function.attrs.program.buffers[buffer].offset_bases;
        let bases_of_element_bits: Vec<u32> = (0..offset_bases.len()).map(|bit| offset_of(offset_bases, 1 << bit)).collect();
        let index = ir.resize(index.into_int_value(), ir.i32(), false);
        self.buffer_ptr(buffer, self.xor_of_bases(index, &bases_of_element_bits))
    }

    /// The part of an element's offset in a buffer that depends on the thread and not on the register, in elements.
    pub(super) fn shared_thread_offset(&self, layout: &Layout, buffer: Buffer) -> IntValue<'c> {
        let offset_bases = &self.function.attrs.program.buffers[buffer].offset_bases;
        self.thread_part(layout, |basis| offset_of(offset_bases, basis))
    }

    /// The shared-memory address of the element that a register of the layout holds.
    pub(super) fn shared_ptr(
        &self,
        thread_offset: &IntValue<'c>,
        layout: &Layout,
        buffer: Buffer,
        register: usize,
    ) -> PointerValue<'c> {
        let ir = self.ir;
        let (changed_bits, constant_offset) = self.register_offset_parts(layout, buffer, register);
        let ptr = self.buffer_ptr(buffer, ir.xor(*thread_offset, ir.const32(changed_bits)));
        let bytes = self.function.attrs.program.buffers[buffer].elem.bytes();
        ir.element_ptr(ir.int_type(8).into(), ptr, ir.const64(u64::from(constant_offset * bytes)))
    }

    /// The register's part of an offset in a buffer, in elements: bits to XOR with the thread's part, and a constant to add. The
    /// constant has no bit in common with the thread's part. Registers with equal XOR bits therefore share one computed address.
    pub(super) fn register_offset_parts(&self, layout: &Layout, buffer: Buffer, register: usize) -> (u32, u32) {
        let register_offset = self.offset_in(buffer, xor_of_bases(&layout.register, register as u32));
        let thread_bits = layout.lane.iter().chain(&layout.warp).fold(0, |bits, basis| bits | self.offset_in(buffer, *basis));
        (register_offset & thread_bits, register_offset & !thread_bits)
    }

    /// The address of the current stage of a buffer, plus the offset `element`, which is in elements.
    pub(super) fn buffer_ptr(&self, buffer: Buffer, element: IntValue<'c>) -> PointerValue<'c> {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let memory = self.shared_memory.expect("a function with buffers has shared memory").as_pointer_value();
        let element_offset_bytes = ir.mul(element, ir.const32(info.elem.bytes()));
        let buffer_offset = ir.add(element_offset_bytes, ir.const32(self.function.attrs.placements[buffer].offset));
        let buffer_offset = self.stage_bytes(buffer).map_or(buffer_offset, |stage| ir.add(buffer_offset, stage));
        debug_assert_eq!(memory.get_type().get_address_space(), inkwell::AddressSpace::from(SHARED));
        ir.element_ptr(ir.int_type(8).into(), memory, ir.resize(buffer_offset, ir.i64(), false))
    }

    /// The offset of the current stage from the start of the buffer, in bytes. `None` if the op has no stage for the buffer.
    pub(super) fn stage_bytes(&self, buffer: Buffer) -> Option<IntValue<'c>> {
        let bytes = self.function.attrs.program.buffers[buffer].bytes();
        self.current_stages.get(&buffer).map(|stage| self.ir.mul(*stage, self.ir.const32(bytes)))
    }

    /// The 32-bit address of shared memory, plus the offset of the buffer's current stage. The caller adds the placement of the
    /// buffer.
    pub(super) fn buffer_start(&self, buffer: Buffer) -> IntValue<'c> {
        let base = self.shared_base.expect("a function with buffers has shared memory");
        self.stage_bytes(buffer).map_or(base, |stage| self.ir.add(base, stage))
    }

    /// The offset of the element with this number in a buffer, in elements.
    pub(super) fn offset_in(&self, buffer: Buffer, element: u32) -> u32 {
        offset_of(&self.function.attrs.program.buffers[buffer].offset_bases, element)
    }
}

/// The offset of an element in a buffer, in elements. `element` is its row-major number. `offset_bases`: see
/// [`tileas::BufferInfo::offset_bases`].
fn offset_of(offset_bases: &[u32], element: u32) -> u32 {
    solve(offset_bases, element).expect("the verifier checks that every element has an offset") as u32
}
