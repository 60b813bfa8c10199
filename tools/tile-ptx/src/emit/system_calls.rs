//! Ops that call the driver or need driver support: heap memory, dependent grids, assertions and printing.

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
use tileas::layout::{Strides, apply};

/// How long a failing thread waits before it stops the kernel, so that its message arrives.
const NANOSECONDS_TO_PRINT: u64 = 500_000;

impl<'c> Emitter<'c, '_> {
    /// Emits an instruction without operands.
    pub(super) fn instruction_alone(&self, text: &str) {
        self.ir.asm(None, text, "", &[], true);
    }

    /// Emits an instruction that orders dependent grids. Targets without the feature start a grid only after its predecessor has
    /// ended, so they need no such instruction.
    pub(super) fn dependent_grid(&self, text: &str) {
        if self.target.has(Feature::Clusters) {
            self.instruction_alone(text);
        }
    }

    /// Allocates heap memory in the first thread, and broadcasts the pointer.
    pub(super) fn alloca(&mut self, count: u64, align: u64, result: Value) {
        let ir = self.ir;
        let elem = self.elem(result);
        let Elem::Ptr { pointee, .. } = elem else { unreachable!("the result is a pointer") };
        let bytes = count.saturating_mul(u64::from(pointee.bytes()));
        let long: BasicTypeEnum<'c> = ir.i64().into();
        let args = [ir.const64(bytes).into(), ir.const64(align).into()];
        let null = ir.context.ptr_type(AddressSpace::from(GLOBAL)).const_null();
        let address = self.guarded(Some(self.first_thread()), &[null.into()], |e| {
            let address = e.external("__cuda_syscall_aligned_malloc", long, &args).into_int_value();
            let failed = e.ir.icmp(IntPredicate::EQ, address, e.ir.const64(0));
            e.guarded(Some(failed), &[], |e| {
                e.instruction_alone("trap;");
                Vec::new()
            });
            vec![e.ir.int_to_ptr(address, GLOBAL).into()]
        });
        let in_all_lanes = self.broadcast_in_warp(&Layout::uniform(self.warp_bits()), elem, address);
        self.set(result, in_all_lanes);
    }

    /// Frees the heap memory that the first thread allocated.
    pub(super) fn free_heap(&self, ptrs: &[Value]) {
        let ir = self.ir;
        let addresses: Vec<Val<'c>> = ptrs.iter().map(|ptr| ir.ptr_to_int(self.scalar(*ptr).into_pointer_value()).into()).collect();
        self.guarded(Some(self.first_thread()), &[], |e| {
            let free = ir
                .module
                .get_function("free")
                .unwrap_or_else(|| ir.module.add_function("free", ir.context.void_type().fn_type(&[ir.i64().into()], false), None));
            addresses.iter().for_each(|ptr| {
                e.ir.call(free, &[*ptr]);
            });
            Vec::new()
        });
    }

    /// Calls a device function that the CUDA driver provides.
    fn external(&self, name: &str, result: BasicTypeEnum<'c>, args: &[Val<'c>]) -> Val<'c> {
        use inkwell::types::BasicType;
        let function = self.ir.module.get_function(name).unwrap_or_else(|| {
            let params: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
            self.ir.module.add_function(name, result.fn_type(&params, false), None)
        });
        self.ir.call(function, args).expect("the function has a result")
    }

    /// Prints with `vprintf`. It expects the arguments consecutively in memory, each aligned to its size.
    fn print_text(&self, format: &str, values: &[Val<'c>]) {
        let ir = self.ir;
        let text = ir.context.const_string(format.as_bytes(), true);
        let global = ir.module.add_global(text.get_type(), Some(AddressSpace::from(GLOBAL)), "format");
        global.set_initializer(&text);
        global.set_constant(true);
        global.set_linkage(inkwell::module::Linkage::Internal);
        let generic = |ptr: PointerValue<'c>| -> Val<'c> {
            let ty = ir.context.ptr_type(AddressSpace::default());
            ir.builder.build_address_space_cast(ptr, ty, "").expect("global memory is generic memory").into()
        };
        let memory = self.at_entry(|ir| {
            let ty = ir.i64().array_type(values.len().max(1) as u32);
            ir.builder.build_alloca(ty, "").expect("the builder is in a block")
        });
        let mut offset = 0;
        for value in values {
            let bytes = if matches!(value, Val::IntValue(int) if int.get_type().get_bit_width() == 32) { 4 } else { 8 };
            offset = u64::next_multiple_of(offset, bytes);
            ir.store(*value, ir.element_ptr(ir.int(8).into(), memory, ir.const64(offset)), bytes as u32);
            offset += bytes;
        }
        self.external("vprintf", ir.i32().into(), &[generic(global.as_pointer_value()), memory.into()]);
    }

    /// Builds instructions at the start of the kernel.
    fn at_entry<T>(&self, build: impl FnOnce(&crate::ir::Ir<'c>) -> T) -> T {
        // `position_before` also changes the source location of the builder, so save and restore it.
        let (back, location) = (self.ir.current_block(), self.ir.builder.get_current_debug_location());
        let entry = self.kernel.get_first_basic_block().expect("the kernel has a body");
        match entry.get_first_instruction() {
            Some(first) => self.ir.builder.position_before(&first),
            None => self.ir.builder.position_at_end(entry),
        }
        let built = build(self.ir);
        self.ir.builder.position_at_end(back);
        location.into_iter().for_each(|location| self.ir.builder.set_current_debug_location(location));
        built
    }

    /// Emits an assertion: each thread with a false element prints the message and stops the kernel.
    pub(super) fn assert(&mut self, op: OpId, cond: Value, message: &str) {
        let (ir, layout) = (self.ir, self.layout(cond));
        let shape = self.ty(cond).shape().to_vec();
        let loc = self.function.body.ops[op].loc;
        let (file, line, _) = self.envelope.debug.position(loc).unwrap_or(("unknown", 0, 0));
        let position = vec!["%d"; shape.len()].join(", ");
        let quoted = |text: &str| text.replace('%', "%%");
        let format = format!("{}:{line}: tile block: [%d, %d, %d], position: [{position}]: {}\n", quoted(file), quoted(message));
        let blocks: Vec<Val<'c>> = (0..3).map(|axis| self.block_number(axis)).collect();
        let strides = Strides::of(&shape);
        let thread = self.thread_coordinates(&layout, &shape);
        let is_representative = self.is_representative(&layout);
        for register in 0..layout.registers() {
            let failed = ir.not(self.get(cond)[register].into_int_value());
            let element = apply(&layout.register, register as u32);
            self.guarded(self.conjunction(Some(failed), is_representative), &[], |e| {
                let coordinate =
                    |dim: usize| -> Val<'c> { ir.add(thread[dim], ir.const32(strides.coordinate(element, dim))).into() };
                let mut values = blocks.clone();
                values.extend((0..shape.len()).map(coordinate));
                e.print_text(&format, &values);
                e.delay(NANOSECONDS_TO_PRINT);
                e.instruction_alone("trap;");
                Vec::new()
            });
        }
    }

    /// Emits a bounds check: each thread with an index out of range stops the kernel. Only the first such thread of the grid
    /// prints the message.
    pub(super) fn check_index(&mut self, op: OpId, index: Value, extent: Value, message: &str) {
        let ir = self.ir;
        let loc = self.function.body.ops[op].loc;
        let (file, line, _) = self.envelope.debug.position(loc).unwrap_or(("unknown", 0, 0));
        let quoted = |text: &str| text.replace('%', "%%");
        let format = format!("{}:{line}: tile block: [%d, %d, %d]: {}: index %lld, extent %lld\n", quoted(file), quoted(message));
        let extent = self.scalar(extent).into_int_value();
        let no_access = ir.const64(i64::MIN as u64);
        let mut bad_index = no_access;
        for index in self.get(index).iter().rev().map(|index| index.into_int_value()) {
            let negative = ir.icmp(IntPredicate::SLT, index, ir.const64(0));
            let outside = ir.or(negative, ir.icmp(IntPredicate::SGE, index, extent));
            let accessed = ir.icmp(IntPredicate::NE, index, no_access);
            bad_index = ir.select(ir.and(outside, accessed), index.into(), bad_index.into()).into_int_value();
        }
        let failed = ir.icmp(IntPredicate::NE, bad_index, no_access);
        let is_representative = self.is_representative(&self.layout(index));
        self.guarded(self.conjunction(Some(failed), is_representative), &[], |e| {
            let (exchange, word) = (("exch.b32".to_string(), "r"), Elem::Scalar(Scalar::I32));
            let relaxed = Order { semantics: MemoryOrdering::Relaxed, scope: Some(MemoryScope::Device) };
            let reported = e.atomic_instruction(&exchange, word, relaxed, e.word("tile_check_reported"), &[ir.const32(1).into()]);
            let is_first_report = ir.icmp(IntPredicate::EQ, reported.into_int_value(), ir.const32(0));
            e.guarded(Some(is_first_report), &[], |e| {
                let mut values: Vec<Val<'c>> = (0..3).map(|axis| e.block_number(axis)).collect();
                values.extend([Val::from(bad_index), extent.into()]);
                e.print_text(&format, &values);
                Vec::new()
            });
            e.delay(NANOSECONDS_TO_PRINT);
            e.instruction_alone("trap;");
            Vec::new()
        });
    }

    /// Makes the thread wait.
    fn delay(&self, nanoseconds: u64) {
        let ir = self.ir;
        let now = || ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.globaltimer", &[], &[]).into_int_value();
        let end = ir.add(now(), ir.const64(nanoseconds));
        self.repeat_until(|_| ir.icmp(IntPredicate::UGE, now(), end));
    }

    /// Repeats the body until the condition that it returns is true.
    fn repeat_until(&self, body: impl FnOnce(&Self) -> IntValue<'c>) {
        let ir = self.ir;
        let (again, after) = (ir.block(self.kernel, ""), ir.block(self.kernel, ""));
        ir.jump(again);
        ir.builder.position_at_end(again);
        let done = body(self);
        ir.branch(done, after, again);
        ir.builder.position_at_end(after);
    }

    /// Exchanges the word of the grid-wide spin lock for printing, to acquire (1) or release (0) the lock. Returns the old word.
    fn exchange_lock(&self, semantics: MemoryOrdering, word: u32) -> IntValue<'c> {
        let order = Order { semantics, scope: Some(MemoryScope::Device) };
        let (exchange, elem) = (("exch.b32".to_string(), "r"), Elem::Scalar(Scalar::I32));
        self.atomic_instruction(&exchange, elem, order, self.word("tile_print_lock"), &[self.ir.const32(word).into()])
            .into_int_value()
    }

    /// Makes the first thread wait until it holds the print lock, that is, until no other CTA prints.
    pub(super) fn print_lock(&self) {
        self.guarded(Some(self.first_thread()), &[], |e| {
            e.wait_for_lock();
            Vec::new()
        });
    }

    fn wait_for_lock(&self) {
        let ir = self.ir;
        self.repeat_until(|e| ir.icmp(IntPredicate::EQ, e.exchange_lock(MemoryOrdering::Acquire, 1), ir.const32(0)));
    }

    /// Makes each thread store its part of the tiles to the grid's staging memory, from which the first thread prints. Only the
    /// CTA that holds the print lock may use this memory.
    pub(super) fn print_stage(&mut self, tiles: &[Value]) {
        for tile in tiles {
            let buffer = self.stage_tile(*tile);
            self.fill_staging_buffer(*tile, buffer);
            self.staged.insert(*tile, buffer);
        }
    }

    /// Prints text and values in order. A tile is printed as its elements in brackets. One thread of one CTA prints at a time.
    pub(super) fn print(&mut self, format: &str, args: &[Value]) -> Result<()> {
        if let Some(elem) = args.iter().map(|arg| self.elem(*arg)).find(|elem| !is_convertible(elem.carrier())) {
            return Err(self.unsupported_type("print", elem));
        }
        let staged = std::mem::take(&mut self.staged);
        self.guarded(Some(self.first_thread()), &[], |e| {
            if staged.is_empty() {
                e.wait_for_lock();
            }
            e.print_pieces(format, args, &staged);
            e.exchange_lock(MemoryOrdering::Release, 0);
            Vec::new()
        });
        Ok(())
    }

    fn print_pieces(&self, format: &str, args: &[Value], staged: &BTreeMap<Value, PointerValue<'c>>) {
        let mut args = args.iter().map(|arg| (arg, staged.get(arg)));
        for piece in pieces(format) {
            match piece {
                Piece::Text(text) => self.print_text(text, &[]),
                Piece::Value(spec) => match args.next() {
                    None => self.print_text(&spec.replace('%', "%%"), &[]),
                    Some((arg, None)) => {
                        let (spec, value) = self.printable(spec, self.elem(*arg), self.scalar(*arg));
                        self.print_text(&spec, &[value]);
                    }
                    Some((arg, Some(buffer))) => self.print_tile(spec, *arg, *buffer),
                },
            }
        }
    }

    /// Prints the elements in order, with brackets around each row of each dimension.
    fn print_tile(&self, spec: &str, tile: Value, buffer: PointerValue<'c>) {
        let ir = self.ir;
        let (elem, shape) = (self.elem(tile), self.ty(tile).shape());
        let count = core_dialect::tile::element_count(shape) as u32;
        self.print_text(&"[".repeat(shape.len()), &[]);
        let before = ir.current_block();
        let (head, after) = (ir.block(self.kernel, ""), ir.block(self.kernel, ""));
        ir.jump(head);
        ir.builder.position_at_end(head);
        let index = ir.builder.build_phi(ir.i32(), "").expect("the builder is at the start of a block");
        let number = index.as_basic_value().into_int_value();
        let value = ir.load(ir.memory_type(elem), ir.element_ptr(ir.memory_type(elem), buffer, number), elem.bytes());
        let (spec, value) = self.printable(spec, elem, self.register_form(elem, value));
        self.print_text(&spec, &[value]);
        let next = ir.add(number, ir.const32(1));
        // A dimension of the tile ends before the next element if the product of the extents inside the dimension divides the
        // element's number.
        let mut inner = 1;
        let mut dims = Vec::new();
        for (brackets, extent) in shape.iter().rev().enumerate() {
            dims.push((brackets, inner));
            inner *= extent;
        }
        let more = ir.icmp(IntPredicate::NE, next, ir.const32(count));
        self.guarded(Some(more), &[], |e| {
            for (i, (brackets, size)) in dims.iter().enumerate() {
                let is_multiple_of = |size: u32| ir.icmp(IntPredicate::EQ, ir.and(next, ir.const32(size - 1)), ir.const32(0));
                let not_of_larger = dims.get(i + 1).map(|(_, size)| ir.not(is_multiple_of(*size)));
                let only_these_end = self.conjunction(Some(is_multiple_of(*size)), not_of_larger);
                e.guarded(only_these_end, &[], |e| {
                    e.print_text(&format!("{}, {}", "]".repeat(*brackets), "[".repeat(*brackets)), &[]);
                    Vec::new()
                });
            }
            Vec::new()
        });
        index.add_incoming(&[(&ir.const32(0), before), (&next, ir.current_block())]);
        ir.branch(more, head, after);
        ir.builder.position_at_end(after);
        self.print_text(&"]".repeat(shape.len()), &[]);
    }

    /// Converts a value to a variadic argument: integers have at least 32 bits, and floats are doubles. Adapts the conversion in
    /// the format.
    fn printable(&self, spec: &str, elem: Elem, value: Val<'c>) -> (String, Val<'c>) {
        let ir = self.ir;
        match value {
            Val::PointerValue(ptr) => (spec.into(), ir.ptr_to_int(ptr).into()),
            _ if elem.carrier().is_float() => {
                let (_, wide) = self.widen_exactly(elem.carrier(), &[value]);
                (spec.into(), self.cast(wide[0].into_float_value(), Scalar::F64).into())
            }
            value if elem.bits() == 64 => {
                let (flags, conversion) = spec.split_at(spec.len() - 1);
                let long = if flags.contains('l') { flags.to_string() } else { format!("{flags}ll") };
                (format!("{long}{conversion}"), value)
            }
            value => {
                let signed =
                    if elem == Elem::Scalar(Scalar::I1) || spec.ends_with('u') { Signedness::Unsigned } else { Signedness::Signed };
                (spec.into(), ir.resize(value.into_int_value(), ir.i32(), signed == Signedness::Signed).into())
            }
        }
    }

    /// A staging buffer in global memory for a printed tile.
    fn stage_tile(&self, tile: Value) -> PointerValue<'c> {
        let (elem, shape) = (self.elem(tile), self.ty(tile).shape());
        let ty = self.ir.int(8).array_type(core_dialect::tile::element_count(shape) as u32 * elem.bytes());
        let global = self.ir.module.add_global(ty, Some(AddressSpace::from(GLOBAL)), "tile_buffer");
        global.set_initializer(&ty.const_zero());
        global.set_alignment(8);
        global.as_pointer_value()
    }

    fn fill_staging_buffer(&self, tile: Value, buffer: PointerValue<'c>) {
        let (ir, layout, elem) = (self.ir, self.layout(tile), self.elem(tile));
        let thread = self.thread_part(&layout, |basis| basis);
        let is_representative = self.is_representative(&layout);
        self.guarded(is_representative, &[], |e| {
            for (register, value) in e.get(tile).iter().enumerate() {
                let element = ir.xor(thread, ir.const32(apply(&layout.register, register as u32)));
                let address = ir.element_ptr(ir.memory_type(elem), buffer, element);
                ir.store(e.memory_form(elem, *value), address, elem.bytes());
            }
            Vec::new()
        });
    }

    /// The address of a word in global memory, initially zero, which all kernels of the module share.
    fn word(&self, name: &str) -> PointerValue<'c> {
        let word = self.ir.module.get_global(name).unwrap_or_else(|| {
            let word = self.ir.module.add_global(self.ir.i32(), Some(AddressSpace::from(GLOBAL)), name);
            word.set_initializer(&self.ir.i32().const_zero());
            word
        });
        word.as_pointer_value()
    }

    /// The index of the tile block along an axis.
    fn block_number(&self, axis: u32) -> Val<'c> {
        self.grid_register(axis, true)
    }
}

/// A part of a format string: text (with its `%%`), or the conversion of one value.
enum Piece<'a> {
    Text(&'a str),
    Value(&'a str),
}

/// Splits a format string into its parts.
fn pieces(format: &str) -> Vec<Piece<'_>> {
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
                out.push(Piece::Text(&format[start..at]));
            }
            out.push(Piece::Value(&format[at..end]));
            start = end;
        }
        at = end;
    }
    if start < format.len() {
        out.push(Piece::Text(&format[start..]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Piece, pieces};

    #[test]
    fn formats_split_into_text_and_values() {
        let show = |format| {
            let name = |piece: Piece<'_>| match piece {
                Piece::Text(text) => format!("'{text}'"),
                Piece::Value(spec) => format!("<{spec}>"),
            };
            pieces(format).into_iter().map(name).collect::<String>()
        };
        assert_eq!(show("bid %d sum %5.2f\n"), "'bid '<%d>' sum '<%5.2f>'\n'");
        assert_eq!(show("100%% of %lld"), "'100%% of '<%lld>");
        assert_eq!(show("%x%"), "<%x>'%'");
        assert_eq!(show(""), "");
    }
}
