//! Emits the instructions that all kinds of memory accesses share: vector loads and stores, accesses with a memory order, and
//! guarded code. Also the broadcast of a loaded value from one lane to all lanes that hold the same element.

use super::Emitter;
use crate::ir::{GLOBAL, Val};
use base::Value;
use core_dialect::memory::{MemoryOrdering, MemoryScope, Order};
use core_dialect::tile::Elem;
use inkwell::values::{IntValue, PointerValue};
use inkwell::{AddressSpace, IntPredicate};
use tileas::Layout;

impl<'c> Emitter<'c, '_> {
    /// Loads neighbouring elements, as many as `otherwise` has. If `cond` is false at run time, the result is `otherwise`. Without
    /// `cond`, the load is unconditional. The result has vectors, or values in memory form; [`Self::loaded_registers`] converts it
    /// to registers.
    pub(super) fn load_where(
        &self,
        cond: Option<IntValue<'c>>,
        otherwise: &[Val<'c>],
        tile: Value,
        ptr: PointerValue<'c>,
        order: Order,
    ) -> Vec<Val<'c>> {
        let (ir, elem, width) = (self.ir, self.elem(tile), otherwise.len());
        let in_memory_form = |values: &[Val<'c>]| values.iter().map(|value| self.memory_form(elem, *value)).collect::<Vec<_>>();
        let otherwise = in_memory_form(otherwise);
        let otherwise = if cond.is_some() { ir.opaque(&otherwise) } else { otherwise };
        if order.semantics != MemoryOrdering::Weak || elem.bits() == 4 {
            return self.emit_guarded(cond, &otherwise, |e| in_memory_form(&e.load_one_by_one(elem, ptr, width, order)));
        }
        let read = || ir.load(ir.vector_type(ir.memory_type(elem), width as u32), ptr, elem.bytes() * width as u32);
        if self.vector_uses.stays_in_vectors(tile, elem) {
            return self.emit_guarded(cond, &[ir.pack(&otherwise)], |_| vec![read()]);
        }
        self.emit_guarded(cond, &otherwise, |_| ir.unpack(read(), width))
    }

    /// Converts the result of [`Self::load_where`] to the registers of a tile.
    pub(super) fn loaded_registers(&self, elem: Elem, read: Vec<Val<'c>>) -> Vec<Val<'c>> {
        let element_count =
            |value: &Val<'c>| if value.is_vector_value() { value.into_vector_value().get_type().get_size() as usize } else { 1 };
        let values = read.into_iter().flat_map(|value| self.ir.unpack(value, element_count(&value)));
        values.map(|value| self.register_form(elem, value)).collect()
    }

    /// Loads neighbouring elements: one at a time if the access has a memory order, otherwise pairs of four-bit elements.
    fn load_one_by_one(&self, elem: Elem, ptr: PointerValue<'c>, width: usize, order: Order) -> Vec<Val<'c>> {
        let ir = self.ir;
        if order.semantics != MemoryOrdering::Weak {
            let read = |i: usize| self.emit_ordered_load(elem, self.element_ptr_at(elem, ptr, i), order);
            return (0..width).map(read).collect();
        }
        let bytes = ir.unpack(ir.load(ir.vector_type(ir.int_type(8).into(), width as u32 / 2), ptr, width as u32 / 2), width / 2);
        bytes.into_iter().flat_map(|byte| self.split_word(byte.into_int_value(), elem, 2)).collect()
    }

    /// Stores neighbouring elements, one at a time if the access has a memory order.
    pub(super) fn store_elements(&self, elem: Elem, ptr: PointerValue<'c>, values: &[Val<'c>], order: Order) {
        let ir = self.ir;
        if order.semantics != MemoryOrdering::Weak {
            for (i, value) in values.iter().enumerate() {
                self.emit_ordered_store(elem, self.element_ptr_at(elem, ptr, i), *value, order);
            }
            return;
        }
        if elem.bits() == 4 {
            let bytes: Vec<Val<'c>> = values.chunks(2).map(|pair| self.join_word(pair, elem, ir.int_type(8)).into()).collect();
            ir.store(ir.pack(&bytes), ptr, bytes.len() as u32);
            return;
        }
        let in_memory_form: Vec<Val<'c>> = values.iter().map(|value| self.memory_form(elem, *value)).collect();
        ir.store(ir.pack(&in_memory_form), ptr, elem.bytes() * values.len() as u32);
    }

    /// The address of the `i`th element after `ptr`.
    fn element_ptr_at(&self, elem: Elem, ptr: PointerValue<'c>, i: usize) -> PointerValue<'c> {
        if i == 0 { ptr } else { self.ir.element_ptr(self.ir.memory_type(elem), ptr, self.ir.const64(i as u64)) }
    }

    /// Emits a load with a memory order and scope as inline assembly.
    fn emit_ordered_load(&self, elem: Elem, ptr: PointerValue<'c>, order: Order) -> Val<'c> {
        let (ir, bits) = (self.ir, elem.bytes() * 8);
        let text = format!("ld{}{}.b{bits} $0, [$1];", order_qualifiers(order), space_suffix(ptr));
        let word = ir.int_type(bits.max(16));
        let constraints = format!("={},l", register_letter(bits));
        let word = ir.asm(Some(word.into()), &text, &constraints, &[ptr.into()], true).expect("a load has a result");
        let word = ir.resize(word.into_int_value(), ir.int_type(bits), false);
        self.register_form(elem, self.value_of_bits(word, ir.memory_type(elem)))
    }

    /// Emits a store with a memory order and scope as inline assembly.
    fn emit_ordered_store(&self, elem: Elem, ptr: PointerValue<'c>, value: Val<'c>, order: Order) {
        let (ir, bits) = (self.ir, elem.bytes() * 8);
        let text = format!("st{}{}.b{bits} [$0], $1;", order_qualifiers(order), space_suffix(ptr));
        let word = ir.resize(self.as_bits(self.memory_form(elem, value)), ir.int_type(bits.max(16)), false);
        ir.asm(None, &text, &format!("l,{}", register_letter(bits)), &[ptr.into(), word.into()], true);
    }

    /// The bits of a value as an integer.
    pub(super) fn as_bits(&self, value: Val<'c>) -> IntValue<'c> {
        match value {
            Val::PointerValue(ptr) => self.ir.ptr_to_int(ptr),
            Val::FloatValue(float) if float.get_type() == self.ir.context.f64_type() => {
                self.ir.bitcast(value, self.ir.i64()).into_int_value()
            }
            Val::FloatValue(float) if float.get_type() == self.ir.f32() => self.ir.bitcast(value, self.ir.i32()).into_int_value(),
            Val::FloatValue(_) => self.ir.bitcast(value, self.ir.int_type(16)).into_int_value(),
            other => other.into_int_value(),
        }
    }

    /// Converts an integer to a value of type `ty` with the same bits.
    pub(super) fn value_of_bits(&self, bits: IntValue<'c>, ty: inkwell::types::BasicTypeEnum<'c>) -> Val<'c> {
        match ty {
            inkwell::types::BasicTypeEnum::PointerType(ty) => {
                self.ir.builder.build_int_to_ptr(bits, ty, "").expect("integers become pointers").into()
            }
            _ => self.ir.bitcast(bits, ty),
        }
    }

    /// Splits a word into `count` elements, the one in the lowest bits first.
    pub(super) fn split_word(&self, word: IntValue<'c>, elem: Elem, count: usize) -> Vec<Val<'c>> {
        let (ir, ty) = (self.ir, word.get_type());
        let element = |i: usize| {
            let low = ir.shr(word, ty.const_int(u64::from(elem.bits()) * i as u64, false), false);
            self.value_of_bits(ir.resize(low, ir.int_type(elem.bits()), false), ir.elem_type(elem))
        };
        (0..count).map(element).collect()
    }

    /// Packs elements into a word of type `ty`, the first one in the lowest bits.
    pub(super) fn join_word(&self, elements: &[Val<'c>], elem: Elem, ty: inkwell::types::IntType<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let shifted_element = |(i, element): (usize, &Val<'c>)| {
            let wide = ir.resize(self.as_bits(*element), ty, false);
            if i == 0 { wide } else { ir.shl(wide, ty.const_int(u64::from(elem.bits()) * i as u64, false)) }
        };
        elements.iter().enumerate().map(shifted_element).reduce(|word, element| ir.or(word, element)).expect("a word has pieces")
    }

    /// Whether any op uses a value.
    pub(super) fn is_used(&self, value: Value) -> bool {
        self.use_counts[value.0 as usize] > 0
    }

    /// Broadcasts each element from its representative thread to the lanes that hold the same element, if all these lanes are in
    /// one warp. Otherwise returns the values unchanged. Reason: in this case the program stores the tile to shared memory next,
    /// and only the representative thread stores.
    pub(super) fn broadcast_in_warp(&self, layout: &Layout, elem: Elem, values: Vec<Val<'c>>) -> Vec<Val<'c>> {
        let ir = self.ir;
        let replica_bits: u32 = (0..).zip(&layout.lane).filter(|(_, basis)| **basis == 0).map(|(bit, _)| 1u32 << bit).sum();
        if replica_bits == 0 || layout.warp.contains(&0) {
            return values;
        }
        let representative_lane = ir.and(self.thread_index, ir.const32(31 & !replica_bits));
        values.into_iter().map(|value| self.lane_value(value, elem, representative_lane)).collect()
    }

    /// Returns the value that another lane of the warp has (`shfl.sync.idx`).
    pub(super) fn lane_value(&self, value: Val<'c>, elem: Elem, lane: IntValue<'c>) -> Val<'c> {
        let ir = self.ir;
        self.map_words(value, elem, |word| {
            let args = [ir.const32(u32::MAX).into(), word, lane.into(), ir.const32(31).into()];
            ir.intrinsic_value("llvm.nvvm.shfl.sync.idx.i32", &[], &args)
        })
    }

    /// Whether this thread is the first one of the threads that execute the current code.
    pub(super) fn is_first_thread(&self) -> IntValue<'c> {
        self.ir.icmp(IntPredicate::EQ, self.thread_index, self.ir.const32(0))
    }

    /// The conjunction of two optional conditions; `None` is true.
    pub(super) fn conjunction(&self, a: Option<IntValue<'c>>, b: Option<IntValue<'c>>) -> Option<IntValue<'c>> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.ir.and(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Emits the code of `then` under a condition, with a branch around it. If the condition is false at run time, the results are
    /// `otherwise`. Without a condition, the code has no branch.
    pub(super) fn emit_guarded(
        &self,
        cond: Option<IntValue<'c>>,
        otherwise: &[Val<'c>],
        then: impl FnOnce(&Self) -> Vec<Val<'c>>,
    ) -> Vec<Val<'c>> {
        let ir = self.ir;
        let Some(cond) = cond else { return then(self) };
        let block_before = ir.current_block();
        let (guarded_block, block_after) = (ir.append_block(self.kernel, ""), ir.append_block(self.kernel, ""));
        ir.conditional_branch(cond, guarded_block, block_after);
        ir.builder.position_at_end(guarded_block);
        let values = then(self);
        let end = ir.current_block();
        ir.jump(block_after);
        ir.builder.position_at_end(block_after);
        let merge_with_phi = |(value, otherwise): (&Val<'c>, &Val<'c>)| {
            let phi = ir.builder.build_phi(value.get_type(), "").expect("the builder is at the start of a block");
            phi.add_incoming(&[(value, end), (otherwise, block_before)]);
            phi.as_basic_value()
        };
        values.iter().zip(otherwise).map(merge_with_phi).collect()
    }
}

/// The PTX qualifiers of a memory order, such as `.relaxed.gpu`. A weak order becomes relaxed.
pub(super) fn order_qualifiers(order: Order) -> String {
    let semantics = match order.semantics {
        MemoryOrdering::Weak | MemoryOrdering::Relaxed => ".relaxed",
        MemoryOrdering::Acquire => ".acquire",
        MemoryOrdering::Release => ".release",
        MemoryOrdering::AcqRel => ".acq_rel",
    };
    let scope = match order.scope {
        Some(MemoryScope::TileBlock) => ".cta",
        Some(MemoryScope::System) => ".sys",
        Some(MemoryScope::Device) | None => ".gpu",
    };
    format!("{semantics}{scope}")
}

/// The state-space suffix of an access through this pointer: `.global`, or none for a generic pointer.
pub(super) fn space_suffix(ptr: PointerValue<'_>) -> &'static str {
    if ptr.get_type().get_address_space() == AddressSpace::from(GLOBAL) { ".global" } else { "" }
}

/// The inline-assembly constraint of an integer register of this width. Widths below 32 bits use 16-bit registers (`h`).
fn register_letter(bits: u32) -> &'static str {
    match bits {
        64 => "l",
        32 => "r",
        _ => "h",
    }
}
