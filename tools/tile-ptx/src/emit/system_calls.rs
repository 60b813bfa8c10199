//! Emits ops that call device functions of the driver or need its support: heap memory, dependent grids, assertions and printing.

use super::Emitter;
use super::convert::is_convertible;
use crate::ir::{GLOBAL, Val};
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::memory::{MemoryOrdering, MemoryScope, Order};
use core_dialect::tile::Elem;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{IntValue, PointerValue};
use inkwell::{AddressSpace, IntPredicate};
use numerics::{Scalar, arith::Signedness};
use std::collections::BTreeMap;
use target_info::Feature;
use tileas::Layout;
use tileas::layout::{Strides, xor_of_bases};

/// Nanoseconds for which a thread waits between the message of a failed assertion or bounds check and `trap`. Reason: the driver
/// needs time to print the message.
const NANOSECONDS_TO_PRINT: u64 = 500_000;

impl<'c> Emitter<'c, '_> {
    /// Emits an instruction without register operands, as inline assembly with side effects.
    pub(super) fn emit_instruction(&self, text: &str) {
        self.ir.asm(None, text, "", &[], true);
    }

    /// Emits a `griddepcontrol` instruction, which orders dependent grids. Targets before Hopper (no clusters) have no such
    /// instruction and need none: they start a grid only after the preceding grid has ended.
    pub(super) fn emit_dependent_grid_instruction(&self, text: &str) {
        if self.target.has(Feature::Clusters) {
            self.emit_instruction(text);
        }
    }

    /// Emits the allocation of heap memory by the first thread of the CTA. If the allocation fails, this thread stops the kernel.
    /// The pointer is broadcast within each warp.
    pub(super) fn emit_alloca(&mut self, count: u64, align: u64, result: Value) {
        let ir = self.ir;
        let elem = self.elem(result);
        let Elem::Ptr { pointee, .. } = elem else { unreachable!("the result is a pointer") };
        let bytes = count.saturating_mul(u64::from(pointee.bytes()));
        let i64_type: BasicTypeEnum<'c> = ir.i64().into();
        let args = [ir.const64(bytes).into(), ir.const64(align).into()];
        let null = ir.context.ptr_type(AddressSpace::from(GLOBAL)).const_null();
        let address = self.emit_guarded(Some(self.is_first_thread()), &[null.into()], |e| {
            let address = e.call_driver_function("__cuda_syscall_aligned_malloc", i64_type, &args).into_int_value();
            let is_null = e.ir.icmp(IntPredicate::EQ, address, e.ir.const64(0));
            e.emit_guarded(Some(is_null), &[], |e| {
                e.emit_instruction("trap;");
                Vec::new()
            });
            vec![e.ir.int_to_ptr(address, GLOBAL).into()]
        });
        let in_all_lanes = self.broadcast_in_warp(&Layout::uniform(self.warp_bits()), elem, address);
        self.set_registers(result, in_all_lanes);
    }

    /// Frees the heap memory that the first thread allocated.
    pub(super) fn free_heap(&self, ptrs: &[Value]) {
        let ir = self.ir;
        let addresses: Vec<Val<'c>> =
            ptrs.iter().map(|ptr| ir.ptr_to_int(self.scalar_value(*ptr).into_pointer_value()).into()).collect();
        self.emit_guarded(Some(self.is_first_thread()), &[], |e| {
            let free_function = ir
                .module
                .get_function("free")
                .unwrap_or_else(|| ir.module.add_function("free", ir.context.void_type().fn_type(&[ir.i64().into()], false), None));
            addresses.iter().for_each(|ptr| {
                e.ir.call(free_function, &[*ptr]);
            });
            Vec::new()
        });
    }

    /// Calls a device function that the CUDA driver provides.
    fn call_driver_function(&self, name: &str, result: BasicTypeEnum<'c>, args: &[Val<'c>]) -> Val<'c> {
        use inkwell::types::BasicType;
        let function = self.ir.module.get_function(name).unwrap_or_else(|| {
            let params: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
            self.ir.module.add_function(name, result.fn_type(&params, false), None)
        });
        self.ir.call(function, args).expect("the function has a result")
    }

    /// Emits a call of `vprintf`, which expects the arguments one after the other in memory, each aligned to its size.
    fn emit_print_text(&self, format: &str, values: &[Val<'c>]) {
        let ir = self.ir;
        let text = ir.context.const_string(format.as_bytes(), true);
        let format_global = ir.module.add_global(text.get_type(), Some(AddressSpace::from(GLOBAL)), "format");
        format_global.set_initializer(&text);
        format_global.set_constant(true);
        format_global.set_linkage(inkwell::module::Linkage::Internal);
        let as_generic = |ptr: PointerValue<'c>| -> Val<'c> {
            let ty = ir.context.ptr_type(AddressSpace::default());
            ir.builder.build_address_space_cast(ptr, ty, "").expect("global memory is generic memory").into()
        };
        let argument_memory = self.emit_at_entry(|ir| {
            let ty = ir.i64().array_type(values.len().max(1) as u32);
            ir.builder.build_alloca(ty, "").expect("the builder is in a block")
        });
        let mut offset = 0;
        for value in values {
            let bytes = if matches!(value, Val::IntValue(int) if int.get_type().get_bit_width() == 32) { 4 } else { 8 };
            offset = u64::next_multiple_of(offset, bytes);
            ir.store(*value, ir.element_ptr(ir.int_type(8).into(), argument_memory, ir.const64(offset)), bytes as u32);
            offset += bytes;
        }
        self.call_driver_function(
            "vprintf",
            ir.i32().into(),
            &[as_generic(format_global.as_pointer_value()), argument_memory.into()],
        );
    }

    /// Emits the instructions of `build` at the start of the kernel, and then returns the builder to its earlier position.
    fn emit_at_entry<T>(&self, build: impl FnOnce(&crate::ir::Ir<'c>) -> T) -> T {
        // `position_before` changes the source location of the builder too, so save and restore the location.
        let (block_before, location) = (self.ir.current_block(), self.ir.builder.get_current_debug_location());
        let entry = self.kernel.get_first_basic_block().expect("the kernel has a body");
        match entry.get_first_instruction() {
            Some(first) => self.ir.builder.position_before(&first),
            None => self.ir.builder.position_at_end(entry),
        }
        let result = build(self.ir);
        self.ir.builder.position_at_end(block_before);
        location.into_iter().for_each(|location| self.ir.builder.set_current_debug_location(location));
        result
    }

    /// Emits an assertion: each thread with a false element prints the message and then stops the kernel.
    pub(super) fn emit_assert(&mut self, op: OpId, cond: Value, message: &str) {
        let (ir, layout) = (self.ir, self.layout(cond));
        let shape = self.ty(cond).shape().to_vec();
        let loc = self.function.body.ops[op].loc;
        let (file, line, _) = self.envelope.debug.position(loc).unwrap_or(("unknown", 0, 0));
        let position = vec!["%d"; shape.len()].join(", ");
        let escape_percent = |text: &str| text.replace('%', "%%");
        let format = format!(
            "{}:{line}: tile block: [%d, %d, %d], position: [{position}]: {}\n",
            escape_percent(file),
            escape_percent(message)
        );
        let block_index: Vec<Val<'c>> = (0..3).map(|axis| self.tile_block_index(axis)).collect();
        let strides = Strides::for_shape(&shape);
        let thread_coordinates = self.thread_coordinates(&layout, &shape);
        let is_representative = self.is_representative(&layout);
        for register in 0..layout.registers() {
            let is_false = ir.not(self.registers_of(cond)[register].into_int_value());
            let element = xor_of_bases(&layout.register, register as u32);
            self.emit_guarded(self.conjunction(Some(is_false), is_representative), &[], |e| {
                let coordinate = |dim: usize| -> Val<'c> {
                    ir.add(thread_coordinates[dim], ir.const32(strides.coordinate(element, dim))).into()
                };
                let mut values = block_index.clone();
                values.extend((0..shape.len()).map(coordinate));
                e.emit_print_text(&format, &values);
                e.emit_delay(NANOSECONDS_TO_PRINT);
                e.emit_instruction("trap;");
                Vec::new()
            });
        }
    }

    /// Emits a bounds check: each thread with an index out of range stops the kernel. Only the first such thread of the grid prints
    /// the message. The index `i64::MIN` means that no access takes place.
    pub(super) fn emit_check_index(&mut self, op: OpId, index: Value, extent: Value, message: &str) {
        let ir = self.ir;
        let loc = self.function.body.ops[op].loc;
        let (file, line, _) = self.envelope.debug.position(loc).unwrap_or(("unknown", 0, 0));
        let escape_percent = |text: &str| text.replace('%', "%%");
        let format = format!(
            "{}:{line}: tile block: [%d, %d, %d]: {}: index %lld, extent %lld\n",
            escape_percent(file),
            escape_percent(message)
        );
        let extent = self.scalar_value(extent).into_int_value();
        let no_access = ir.const64(i64::MIN as u64);
        let mut bad_index = no_access;
        for index in self.registers_of(index).iter().rev().map(|index| index.into_int_value()) {
            let is_negative = ir.icmp(IntPredicate::SLT, index, ir.const64(0));
            let is_outside = ir.or(is_negative, ir.icmp(IntPredicate::SGE, index, extent));
            let is_accessed = ir.icmp(IntPredicate::NE, index, no_access);
            bad_index = ir.select(ir.and(is_outside, is_accessed), index.into(), bad_index.into()).into_int_value();
        }
        let has_failed = ir.icmp(IntPredicate::NE, bad_index, no_access);
        let is_representative = self.is_representative(&self.layout(index));
        self.emit_guarded(self.conjunction(Some(has_failed), is_representative), &[], |e| {
            let (name_and_constraint, i32_elem) = (("exch.b32".to_string(), "r"), Elem::Scalar(Scalar::I32));
            let relaxed = Order { semantics: MemoryOrdering::Relaxed, scope: Some(MemoryScope::Device) };
            let old_report_flag = e.atomic_instruction(
                &name_and_constraint,
                i32_elem,
                relaxed,
                e.global_word_of_module("tile_check_reported"),
                &[ir.const32(1).into()],
            );
            let is_first_report = ir.icmp(IntPredicate::EQ, old_report_flag.into_int_value(), ir.const32(0));
            e.emit_guarded(Some(is_first_report), &[], |e| {
                let mut values: Vec<Val<'c>> = (0..3).map(|axis| e.tile_block_index(axis)).collect();
                values.extend([Val::from(bad_index), extent.into()]);
                e.emit_print_text(&format, &values);
                Vec::new()
            });
            e.emit_delay(NANOSECONDS_TO_PRINT);
            e.emit_instruction("trap;");
            Vec::new()
        });
    }

    /// Emits a loop that ends when the global timer has advanced by `nanoseconds`.
    fn emit_delay(&self, nanoseconds: u64) {
        let ir = self.ir;
        let now = || ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.globaltimer", &[], &[]).into_int_value();
        let end = ir.add(now(), ir.const64(nanoseconds));
        self.emit_loop_until(|_| ir.icmp(IntPredicate::UGE, now(), end));
    }

    /// Emits a loop that repeats the body until the condition that `body` returns is true.
    fn emit_loop_until(&self, body: impl FnOnce(&Self) -> IntValue<'c>) {
        let ir = self.ir;
        let (loop_block, block_after) = (ir.append_block(self.kernel, ""), ir.append_block(self.kernel, ""));
        ir.jump(loop_block);
        ir.builder.position_at_end(loop_block);
        let is_done = body(self);
        ir.conditional_branch(is_done, block_after, loop_block);
        ir.builder.position_at_end(block_after);
    }

    /// Exchanges the word of the print lock, a spin lock of the whole grid: with 1 to acquire the lock, or with 0 to release it.
    /// Returns the old word.
    fn exchange_lock(&self, semantics: MemoryOrdering, word: u32) -> IntValue<'c> {
        let order = Order { semantics, scope: Some(MemoryScope::Device) };
        let (name_and_constraint, elem) = (("exch.b32".to_string(), "r"), Elem::Scalar(Scalar::I32));
        self.atomic_instruction(
            &name_and_constraint,
            elem,
            order,
            self.global_word_of_module("tile_print_lock"),
            &[self.ir.const32(word).into()],
        )
        .into_int_value()
    }

    /// Emits a wait in which the first thread acquires the print lock. No other CTA prints while this CTA holds the lock.
    pub(super) fn print_lock(&self) {
        self.emit_guarded(Some(self.is_first_thread()), &[], |e| {
            e.acquire_print_lock();
            Vec::new()
        });
    }

    /// Emits a loop that repeats the exchange of the print lock until this thread holds the lock.
    fn acquire_print_lock(&self) {
        let ir = self.ir;
        self.emit_loop_until(|e| ir.icmp(IntPredicate::EQ, e.exchange_lock(MemoryOrdering::Acquire, 1), ir.const32(0)));
    }

    /// Emits the stores of each thread's part of the tiles to staging memory, from which the first thread prints. All CTAs share
    /// this memory; only the CTA that holds the print lock may use it.
    pub(super) fn print_stage(&mut self, tiles: &[Value]) {
        for tile in tiles {
            let buffer = self.add_staging_buffer(*tile);
            self.fill_staging_buffer(*tile, buffer);
            self.staging_memory.insert(*tile, buffer);
        }
    }

    /// Prints the text and the values of a format string in order. The elements of a tile are printed in brackets. One thread of
    /// one CTA prints at a time.
    pub(super) fn emit_print(&mut self, format: &str, args: &[Value]) -> Result<()> {
        if let Some(elem) = args.iter().map(|arg| self.elem(*arg)).find(|elem| !is_convertible(elem.carrier())) {
            return Err(self.unsupported_type("print", elem));
        }
        let staging_memory = std::mem::take(&mut self.staging_memory);
        self.emit_guarded(Some(self.is_first_thread()), &[], |e| {
            if staging_memory.is_empty() {
                e.acquire_print_lock();
            }
            e.emit_print_pieces(format, args, &staging_memory);
            e.exchange_lock(MemoryOrdering::Release, 0);
            Vec::new()
        });
        Ok(())
    }

    /// Emits the calls that print the pieces of a format with their arguments.
    fn emit_print_pieces(&self, format: &str, args: &[Value], staging_memory: &BTreeMap<Value, PointerValue<'c>>) {
        let mut args = args.iter().map(|arg| (arg, staging_memory.get(arg)));
        for piece in split_format(format) {
            match piece {
                FormatPiece::Text(text) => self.emit_print_text(text, &[]),
                FormatPiece::Value(spec) => match args.next() {
                    None => self.emit_print_text(&spec.replace('%', "%%"), &[]),
                    Some((arg, None)) => {
                        let (spec, value) = self.to_variadic_argument(spec, self.elem(*arg), self.scalar_value(*arg));
                        self.emit_print_text(&spec, &[value]);
                    }
                    Some((arg, Some(buffer))) => self.emit_print_tile(spec, *arg, *buffer),
                },
            }
        }
    }

    /// Prints the elements of a tile in order, in a loop, with brackets around each slice of each dimension.
    fn emit_print_tile(&self, spec: &str, tile: Value, buffer: PointerValue<'c>) {
        let ir = self.ir;
        let (elem, shape) = (self.elem(tile), self.ty(tile).shape());
        let count = core_dialect::tile::element_count(shape) as u32;
        self.emit_print_text(&"[".repeat(shape.len()), &[]);
        let block_before = ir.current_block();
        let (loop_block, block_after) = (ir.append_block(self.kernel, ""), ir.append_block(self.kernel, ""));
        ir.jump(loop_block);
        ir.builder.position_at_end(loop_block);
        let index = ir.builder.build_phi(ir.i32(), "").expect("the builder is at the start of a block");
        let element_number = index.as_basic_value().into_int_value();
        let value = ir.load(ir.memory_type(elem), ir.element_ptr(ir.memory_type(elem), buffer, element_number), elem.bytes());
        let (spec, value) = self.to_variadic_argument(spec, elem, self.register_form(elem, value));
        self.emit_print_text(&spec, &[value]);
        let next_element = ir.add(element_number, ir.const32(1));
        // A slice of the inner dimensions ends before the next element if the slice's element count divides the number of the next
        // element.
        let mut elements_inside = 1;
        let mut inner_extents = Vec::new();
        for (brackets, extent) in shape.iter().rev().enumerate() {
            inner_extents.push((brackets, elements_inside));
            elements_inside *= extent;
        }
        let has_next = ir.icmp(IntPredicate::NE, next_element, ir.const32(count));
        self.emit_guarded(Some(has_next), &[], |e| {
            for (i, (brackets, size)) in inner_extents.iter().enumerate() {
                let is_multiple_of =
                    |size: u32| ir.icmp(IntPredicate::EQ, ir.and(next_element, ir.const32(size - 1)), ir.const32(0));
                let larger_slice_continues = inner_extents.get(i + 1).map(|(_, size)| ir.not(is_multiple_of(*size)));
                let is_largest_ending_slice = self.conjunction(Some(is_multiple_of(*size)), larger_slice_continues);
                e.emit_guarded(is_largest_ending_slice, &[], |e| {
                    e.emit_print_text(&format!("{}, {}", "]".repeat(*brackets), "[".repeat(*brackets)), &[]);
                    Vec::new()
                });
            }
            Vec::new()
        });
        index.add_incoming(&[(&ir.const32(0), block_before), (&next_element, ir.current_block())]);
        ir.conditional_branch(has_next, loop_block, block_after);
        ir.builder.position_at_end(block_after);
        self.emit_print_text(&"]".repeat(shape.len()), &[]);
    }

    /// Converts a value to a variadic argument: an integer of at least 32 bits, or a double. Adapts the conversion specification
    /// `spec` to the argument.
    fn to_variadic_argument(&self, spec: &str, elem: Elem, value: Val<'c>) -> (String, Val<'c>) {
        let ir = self.ir;
        match value {
            Val::PointerValue(ptr) => (spec.into(), ir.ptr_to_int(ptr).into()),
            _ if elem.carrier().is_float() => {
                let (_, wide) = self.widen_exactly(elem.carrier(), &[value]);
                (spec.into(), self.cast(wide[0].into_float_value(), Scalar::F64).into())
            }
            value if elem.bits() == 64 => {
                let (flags, conversion) = spec.split_at(spec.len() - 1);
                let long_flags = if flags.contains('l') { flags.to_string() } else { format!("{flags}ll") };
                (format!("{long_flags}{conversion}"), value)
            }
            value => {
                let signedness =
                    if elem == Elem::Scalar(Scalar::I1) || spec.ends_with('u') { Signedness::Unsigned } else { Signedness::Signed };
                (spec.into(), ir.resize(value.into_int_value(), ir.i32(), signedness == Signedness::Signed).into())
            }
        }
    }

    /// Adds a staging buffer in global memory for a tile to print.
    fn add_staging_buffer(&self, tile: Value) -> PointerValue<'c> {
        let (elem, shape) = (self.elem(tile), self.ty(tile).shape());
        let ty = self.ir.int_type(8).array_type(core_dialect::tile::element_count(shape) as u32 * elem.bytes());
        let global = self.ir.module.add_global(ty, Some(AddressSpace::from(GLOBAL)), "tile_buffer");
        global.set_initializer(&ty.const_zero());
        global.set_alignment(8);
        global.as_pointer_value()
    }

    /// Emits the stores that copy a tile to a staging buffer in row-major order.
    fn fill_staging_buffer(&self, tile: Value, buffer: PointerValue<'c>) {
        let (ir, layout, elem) = (self.ir, self.layout(tile), self.elem(tile));
        let thread_part = self.thread_part(&layout, |basis| basis);
        let is_representative = self.is_representative(&layout);
        self.emit_guarded(is_representative, &[], |e| {
            for (register, value) in e.registers_of(tile).iter().enumerate() {
                let element = ir.xor(thread_part, ir.const32(xor_of_bases(&layout.register, register as u32)));
                let address = ir.element_ptr(ir.memory_type(elem), buffer, element);
                ir.store(e.memory_form(elem, *value), address, elem.bytes());
            }
            Vec::new()
        });
    }

    /// The address of a 32-bit word in global memory with this name, initially zero. All kernels of the module share the word.
    fn global_word_of_module(&self, name: &str) -> PointerValue<'c> {
        let global = self.ir.module.get_global(name).unwrap_or_else(|| {
            let global = self.ir.module.add_global(self.ir.i32(), Some(AddressSpace::from(GLOBAL)), name);
            global.set_initializer(&self.ir.i32().const_zero());
            global
        });
        global.as_pointer_value()
    }

    /// The index of this CTA's tile block along an axis of the grid.
    fn tile_block_index(&self, axis: u32) -> Val<'c> {
        self.grid_register(axis, true)
    }
}

/// A part of a format string: text, in which `%%` is not replaced by `%`, or the conversion specification of one value.
enum FormatPiece<'a> {
    Text(&'a str),
    Value(&'a str),
}

/// Splits a format string into its parts.
fn split_format(format: &str) -> Vec<FormatPiece<'_>> {
    let mut out = Vec::new();
    let mut start = 0;
    let bytes = format.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            at += 1;
            continue;
        }
        let length =
            bytes[at + 1..].iter().position(|byte| byte.is_ascii_alphabetic() && !b"hlLjzt".contains(byte) || *byte == b'%');
        let Some(length) = length else { break };
        let end = at + 2 + length;
        if bytes[end - 1] != b'%' {
            if start < at {
                out.push(FormatPiece::Text(&format[start..at]));
            }
            out.push(FormatPiece::Value(&format[at..end]));
            start = end;
        }
        at = end;
    }
    if start < format.len() {
        out.push(FormatPiece::Text(&format[start..]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{FormatPiece, split_format};

    #[test]
    fn formats_split_into_text_and_values() {
        let split_and_print = |format| {
            let printed_piece = |piece: FormatPiece<'_>| match piece {
                FormatPiece::Text(text) => format!("'{text}'"),
                FormatPiece::Value(spec) => format!("<{spec}>"),
            };
            split_format(format).into_iter().map(printed_piece).collect::<String>()
        };
        assert_eq!(split_and_print("bid %d sum %5.2f\n"), "'bid '<%d>' sum '<%5.2f>'\n'");
        assert_eq!(split_and_print("100%% of %lld"), "'100%% of '<%lld>");
        assert_eq!(split_and_print("%x%"), "<%x>'%'");
        assert_eq!(split_and_print(""), "");
    }
}
