//! Emits asynchronous copies from global to shared memory: `cp.async`, commit groups, and waits.

use super::Emitter;
use super::view::{Dim, Window};
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::memory::MemoryOrdering;
use core_dialect::tile::{Elem, ViewKind};
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use tileas::layout::xor_of_bases;
use tileas::{Buffer, CopyAtom, Layout, Type};

impl<'c> Emitter<'c, '_> {
    /// Emits the `cp.async` instructions of a copy from a view to a shared-memory buffer.
    pub(super) fn emit_copy_view(&mut self, op: OpId, program: &tileas::Op, result: Value) -> Result<()> {
        let tileas::Op::CopyView { view, index, order, in_bounds, whole, buffer, layout, atom, versioned, .. } = program else {
            unreachable!("called for copies only")
        };
        let CopyAtom::Async { bytes } = atom else { return Err(self.unsupported(op)) };
        let Type::View(ty) = self.ty(*view) else { unreachable!("the operand is a view") };
        if order.semantics != MemoryOrdering::Weak || matches!(ty.kind, ViewKind::Gather { .. }) {
            return Err(self.unsupported(op));
        }
        let layout = &self.module.layouts[*layout];
        let elem = Elem::Scalar(ty.memref.elem);
        let window = self.window_of(op, *view, index, in_bounds, layout)?.with_versioned_path(*versioned);
        let (start, thread_offset) = (self.buffer_start(*buffer), self.shared_thread_offset(layout, *buffer));
        let elements_per_copy = bytes / elem.bytes();
        // The dimension along which the elements of one copy are contiguous.
        let register_basis = layout.register.first().copied().unwrap_or(0);
        let contiguous_dim = (0..window.dims.len()).find(|t| window.strides.coordinate(register_basis, *t) != 0);
        let cache_op = cache_operator(*bytes);
        let emit_copies = |e: &Self, window: &Window<'c>| {
            let ir = e.ir;
            for first in (0..layout.registers()).step_by(elements_per_copy as usize) {
                let (to, fixed) = e.copy_destination(layout, *buffer, [start, thread_offset], first);
                let from = e.address_as_integer(window, layout, first);
                let element = xor_of_bases(&layout.register, first as u32);
                let register_coordinate = |t: usize| u64::from(window.strides.coordinate(element, t));
                let copy_sizes = window.dims.iter().enumerate().filter(|(_, dim)| dim.checked).map(|(t, dim)| {
                    let may_be_split = !whole && contiguous_dim == Some(t);
                    e.bytes_in_bounds(dim, register_coordinate(t), *bytes, may_be_split.then_some(elem.bytes()))
                });
                let text = format!("cp.async.{cache_op}.shared.global [$0+{fixed}], [$1], {bytes}");
                match copy_sizes.reduce(|a, b| e.smaller_size(a, b, *whole)) {
                    Some(size) => {
                        let args = [to.into(), from.into(), size.into()];
                        ir.asm(None, &format!("{text}, $2;"), "r,l,r", &args, true);
                    }
                    None => _ = ir.asm(None, &format!("{text};"), "r,l", &[to.into(), from.into()], true),
                }
            }
            Vec::new()
        };
        self.emit_guarded(self.is_representative(layout), &[], |e| e.emit_window_access(&window, emit_copies));
        self.set_token(result);
        Ok(())
    }

    /// Emits the `cp.async` instructions of a copy from a tile of pointers to a shared-memory buffer.
    pub(super) fn copy_pointers(&mut self, op: OpId, program: &tileas::Op, result: Value) -> Result<()> {
        let tileas::Op::Copy { ptr, mask, buffer, order, atom: CopyAtom::Async { bytes }, .. } = program else {
            return Err(self.unsupported(op));
        };
        if order.semantics != MemoryOrdering::Weak {
            return Err(self.unsupported(op));
        }
        let layout = self.layout(*ptr);
        let elem = self.function.attrs.program.buffers[*buffer].elem;
        let (start, thread_offset) = (self.buffer_start(*buffer), self.shared_thread_offset(&layout, *buffer));
        let cache_op = cache_operator(*bytes);
        self.emit_guarded(self.is_representative(&layout), &[], |e| {
            let ir = e.ir;
            for first in (0..layout.registers()).step_by((bytes / elem.bytes()) as usize) {
                let (to, fixed) = e.copy_destination(&layout, *buffer, [start, thread_offset], first);
                let from = ir.ptr_to_int(e.registers_of(*ptr)[first].into_pointer_value());
                let text = format!("cp.async.{cache_op}.shared.global [$0+{fixed}], [$1], {bytes}");
                match mask {
                    Some(mask) => {
                        let all_bytes = ir.const32(*bytes).into();
                        let size = ir.select(e.registers_of(*mask)[first].into_int_value(), all_bytes, ir.const32(0).into());
                        ir.asm(None, &format!("{text}, $2;"), "r,l,r", &[to.into(), from.into(), size], true);
                    }
                    None => _ = ir.asm(None, &format!("{text};"), "r,l", &[to.into(), from.into()], true),
                }
            }
            Vec::new()
        });
        self.set_token(result);
        Ok(())
    }

    /// The shared-memory address to which the copy that starts with register `first` writes. The result is an address that depends
    /// on the thread, and a constant to add to it, in bytes.
    fn copy_destination(
        &self,
        layout: &Layout,
        buffer: Buffer,
        [start, thread_offset]: [IntValue<'c>; 2],
        first: usize,
    ) -> (IntValue<'c>, u32) {
        let ir = self.ir;
        let bytes = self.function.attrs.program.buffers[buffer].elem.bytes();
        let (changed_bits, constant_offset) = self.register_offset_parts(layout, buffer, first);
        let to = ir.add(start, ir.mul(ir.xor(thread_offset, ir.const32(changed_bits)), ir.const32(bytes)));
        (to, constant_offset * bytes + self.function.attrs.placements[buffer].offset)
    }

    /// The number of bytes of one copy that are inside the bounds of a dimension. Without `split_elem_bytes`, the result is all
    /// bytes or 0. If the bound may split the copy, `split_elem_bytes` is the size of an element, and the result is a multiple of
    /// this size.
    fn bytes_in_bounds(&self, dim: &Dim<'c>, register_coordinate: u64, bytes: u32, split_elem_bytes: Option<u32>) -> IntValue<'c> {
        let ir = self.ir;
        let index_type = dim.size.get_type();
        let coordinate = ir.add(dim.coordinate, index_type.const_int(register_coordinate, false));
        let is_inside = ir.icmp(IntPredicate::ULT, coordinate, dim.size);
        let all_bytes = ir.const32(bytes);
        let bytes_to_copy = match split_elem_bytes {
            None => all_bytes,
            Some(elem_bytes) => {
                let max_elements = index_type.const_int(u64::from(bytes / elem_bytes), false);
                let remaining_elements = ir.sub(dim.size, coordinate);
                let is_partial = ir.icmp(IntPredicate::ULT, remaining_elements, max_elements);
                let remaining_elements = ir.select(is_partial, remaining_elements.into(), max_elements.into()).into_int_value();
                ir.mul(ir.resize(remaining_elements, ir.i32(), false), ir.const32(elem_bytes))
            }
        };
        ir.select(is_inside, bytes_to_copy.into(), ir.const32(0).into()).into_int_value()
    }

    /// Returns the smaller of two copy sizes. With `whole`, each size is 0 or the full copy size, so one `and` suffices.
    fn smaller_size(&self, a: IntValue<'c>, b: IntValue<'c>, whole: bool) -> IntValue<'c> {
        if whole {
            return self.ir.and(a, b);
        }
        let is_a_smaller = self.ir.icmp(IntPredicate::ULT, a, b);
        self.ir.select(is_a_smaller, a.into(), b.into()).into_int_value()
    }

    /// Emits `cp.async.commit_group`.
    pub(super) fn copy_commit(&self) {
        self.ir.asm(None, "cp.async.commit_group;", "", &[], true);
    }
    /// Emits the wait until at most `pending` groups of copies are in flight.
    pub(super) fn copy_wait(&self, pending: u32) {
        self.ir.asm(None, &format!("cp.async.wait_group {pending};"), "", &[], true);
    }
}

/// The `cp.async` cache operator of a copy with this size. Only 16-byte copies can bypass the L1 cache (`cg`).
fn cache_operator(bytes: u32) -> &'static str {
    if bytes == 16 { "cg" } else { "ca" }
}
