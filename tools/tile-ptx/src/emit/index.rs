//! Computes element numbers and coordinates from the thread index and the layout.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use core_dialect::tile::{Dense, Elem};
use inkwell::AddressSpace;
use inkwell::values::IntValue;
use numerics::arith::Overflow;
use tileas::Layout;
use tileas::layout::{Strides, apply};

impl<'c> Emitter<'c, '_> {
    /// The thread's part of an element number, mapped by a linear function such as a coordinate.
    pub(super) fn thread_part(&self, layout: &Layout, map: impl Fn(u32) -> u32) -> IntValue<'c> {
        let bases: Vec<u32> = layout.lane.iter().chain(&layout.warp).map(|basis| map(*basis)).collect();
        self.xor_of_bases(self.thread, &bases)
    }

    /// The exclusive or of the bases of all bits that are set in `number`. Input bits that move by the same distance share one
    /// mask and one shift.
    pub(super) fn xor_of_bases(&self, number: IntValue<'c>, bases: &[u32]) -> IntValue<'c> {
        let ir = self.ir;
        let all = ((1u64 << bases.len()) - 1) as u32;
        let mut sum: Option<IntValue<'c>> = None;
        for distance in -31..32i32 {
            let moves = |bit: usize| (bit as i32 + distance).try_into().is_ok_and(|to: u32| to < 32 && bases[bit] >> to & 1 == 1);
            let mask: u32 = (0..bases.len()).filter(|bit| moves(*bit)).map(|bit| 1 << bit).sum();
            if mask == 0 {
                continue;
            }
            // Bits shifted out at the lower end need no mask.
            let lost = if distance < 0 { (1 << -distance) - 1 } else { 0 };
            let bits = if mask == all & !lost { number } else { ir.and(number, ir.const32(mask)) };
            let part = match distance {
                0 => bits,
                1.. => ir.shl(bits, ir.const32(distance as u32)),
                _ => ir.shr(bits, ir.const32(-distance as u32), false),
            };
            sum = Some(sum.map_or(part, |sum| ir.xor(sum, part)));
        }
        sum.unwrap_or_else(|| ir.const32(0))
    }

    /// Whether this thread represents all threads that hold the same elements. `None` if no two threads hold the same element.
    pub(super) fn is_representative(&self, layout: &Layout) -> Option<IntValue<'c>> {
        let bases: Vec<u32> = layout.lane.iter().chain(&layout.warp).copied().collect();
        let replica_bits: u32 = bases.iter().enumerate().filter(|(_, basis)| **basis == 0).map(|(bit, _)| 1 << bit).sum();
        if replica_bits == 0 {
            return None;
        }
        let set = self.ir.and(self.thread, self.ir.const32(replica_bits));
        Some(self.ir.icmp(inkwell::IntPredicate::EQ, set, self.ir.const32(0)))
    }

    /// The thread's part of each coordinate. The register's part has no bit in common with it, so the two are added.
    pub(super) fn thread_coordinates(&self, layout: &Layout, shape: &[u32]) -> Vec<IntValue<'c>> {
        let strides = Strides::of(shape);
        (0..shape.len()).map(|dim| self.thread_part(layout, |basis| strides.coordinate(basis, dim))).collect()
    }

    pub(super) fn iota(&mut self, result: Value) {
        let layout = self.layout(result);
        let elem = self.elem(result);
        let ty = self.ir.elem(elem).into_int_type();
        let thread = self.thread_part(&layout, |basis| basis);
        let thread = self.ir.resize(thread, ty, false);
        let thread_bits = layout.lane.iter().chain(&layout.warp).fold(0, |bits, basis| bits | basis);
        let register_parts = (0..layout.registers()).map(|register| apply(&layout.register, register as u32));
        let registers = register_parts.map(|part| self.combine_parts(thread, thread_bits, part).into()).collect();
        self.set(result, registers);
    }

    /// Combines the thread's part, which has bits only in `thread_bits`, and the register's part. If the parts share no bit, they
    /// are added, so that LLVM finds the constant part of addresses.
    fn combine_parts(&self, thread: IntValue<'c>, thread_bits: u32, register_part: u32) -> IntValue<'c> {
        let ty = thread.get_type();
        let number = ty.const_int(u64::from(register_part), false);
        if register_part == 0 {
            return thread;
        }
        if register_part & thread_bits != 0 {
            return self.ir.xor(thread, number);
        }
        let positive = u64::from(register_part | thread_bits) >> (ty.get_bit_width() - 1) == 0;
        self.ir.set_wrap_flags(self.ir.add(thread, number), if positive { Overflow::NoWrap } else { Overflow::NoUnsignedWrap })
    }

    pub(super) fn coordinate(&mut self, dim: usize, result: Value) {
        let (ir, layout) = (self.ir, self.layout(result));
        let strides = Strides::of(self.ty(result).shape());
        let ty = ir.elem(self.elem(result)).into_int_type();
        let thread = ir.resize(self.thread_part(&layout, |basis| strides.coordinate(basis, dim)), ty, false);
        let thread_bits = layout.lane.iter().chain(&layout.warp).fold(0, |bits, basis| bits | strides.coordinate(*basis, dim));
        let register_parts =
            (0..layout.registers()).map(|register| strides.coordinate(apply(&layout.register, register as u32), dim));
        let registers = register_parts.map(|part| self.combine_parts(thread, thread_bits, part).into()).collect();
        self.set(result, registers);
    }

    /// A non-splat constant tile, read from a global constant table.
    pub(super) fn constant_table(&self, value: &Dense, elem: Elem, layout: &Layout) -> Vec<Val<'c>> {
        let ir = self.ir;
        let Dense::Elements(all) = value else { unreachable!("a splat needs no table") };
        let bytes = elem.bytes() as usize;
        let data: Vec<u8> = all.iter().flat_map(|bits| bits.to_le_bytes()[..bytes].to_vec()).collect();
        let data = ir.context.const_string(&data, false);
        let table = ir.module.add_global(data.get_type(), Some(AddressSpace::from(crate::ir::GLOBAL)), "table");
        table.set_initializer(&data);
        table.set_constant(true);
        table.set_linkage(inkwell::module::Linkage::Internal);
        table.set_alignment(bytes as u32);
        let thread = self.thread_part(layout, |basis| basis);
        let ty = ir.memory_type(elem);
        (0..layout.registers())
            .map(|register| {
                let register_part = if common::fault_injected("ptx.table") { 0 } else { apply(&layout.register, register as u32) };
                let element = ir.xor(thread, ir.const32(register_part));
                let element = ir.resize(element, ir.i64(), false);
                let value = ir.load(ty, ir.element_ptr(ty, table.as_pointer_value(), element), bytes as u32);
                self.register_form(elem, value)
            })
            .collect()
    }
}
