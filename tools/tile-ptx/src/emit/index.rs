//! Computes element numbers and coordinates from the thread index and a layout.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use core_dialect::tile::{Dense, Elem};
use inkwell::AddressSpace;
use inkwell::values::IntValue;
use numerics::arith::Overflow;
use tileas::Layout;
use tileas::layout::{Strides, xor_of_bases};

impl<'c> Emitter<'c, '_> {
    /// The part of an element number that the thread determines; the register determines the other part. `map` is a linear function
    /// of element numbers, such as a coordinate, and the result is the thread's part of `map` of the element number.
    pub(super) fn thread_part(&self, layout: &Layout, map: impl Fn(u32) -> u32) -> IntValue<'c> {
        let bases: Vec<u32> = layout.lane.iter().chain(&layout.warp).map(|basis| map(*basis)).collect();
        self.xor_of_bases(self.thread_index, &bases)
    }

    /// The XOR of the bases of all bits that are set in `number`. Bits of `number` that move by the same distance to their
    /// positions in the result share a mask and a shift.
    pub(super) fn xor_of_bases(&self, number: IntValue<'c>, bases: &[u32]) -> IntValue<'c> {
        let ir = self.ir;
        let all_bits = ((1u64 << bases.len()) - 1) as u32;
        let mut result: Option<IntValue<'c>> = None;
        for distance in -31..32i32 {
            let bit_moves_by_distance =
                |bit: usize| (bit as i32 + distance).try_into().is_ok_and(|to: u32| to < 32 && bases[bit] >> to & 1 == 1);
            let mask: u32 = (0..bases.len()).filter(|bit| bit_moves_by_distance(*bit)).map(|bit| 1 << bit).sum();
            if mask == 0 {
                continue;
            }
            // A right shift removes the lowest bits, so the mask need not clear them.
            let shifted_out = if distance < 0 { (1 << -distance) - 1 } else { 0 };
            let bits = if mask == all_bits & !shifted_out { number } else { ir.and(number, ir.const32(mask)) };
            let part = match distance {
                0 => bits,
                1.. => ir.shl(bits, ir.const32(distance as u32)),
                _ => ir.shr(bits, ir.const32(-distance as u32), false),
            };
            result = Some(result.map_or(part, |result| ir.xor(result, part)));
        }
        result.unwrap_or_else(|| ir.const32(0))
    }

    /// Whether this thread represents all threads that hold the same elements. `None` if no two threads hold the same element.
    pub(super) fn is_representative(&self, layout: &Layout) -> Option<IntValue<'c>> {
        let bases: Vec<u32> = layout.lane.iter().chain(&layout.warp).copied().collect();
        let replica_bits: u32 = bases.iter().enumerate().filter(|(_, basis)| **basis == 0).map(|(bit, _)| 1 << bit).sum();
        if replica_bits == 0 {
            return None;
        }
        let set_replica_bits = self.ir.and(self.thread_index, self.ir.const32(replica_bits));
        Some(self.ir.icmp(inkwell::IntPredicate::EQ, set_replica_bits, self.ir.const32(0)))
    }

    /// For each dimension, the part of an element's coordinate that the thread determines. The part that the register determines
    /// has no bit in common with the thread's part, so callers may add the two parts.
    pub(super) fn thread_coordinates(&self, layout: &Layout, shape: &[u32]) -> Vec<IntValue<'c>> {
        let strides = Strides::for_shape(shape);
        (0..shape.len()).map(|dim| self.thread_part(layout, |basis| strides.coordinate(basis, dim))).collect()
    }

    /// Emits the linear index of each element that the thread holds.
    pub(super) fn emit_iota(&mut self, result: Value) {
        let layout = self.layout(result);
        let elem = self.elem(result);
        let ty = self.ir.elem_type(elem).into_int_type();
        let thread_part = self.thread_part(&layout, |basis| basis);
        let thread_part = self.ir.resize(thread_part, ty, false);
        let thread_bits = layout.lane.iter().chain(&layout.warp).fold(0, |bits, basis| bits | basis);
        let register_parts = (0..layout.registers()).map(|register| xor_of_bases(&layout.register, register as u32));
        let registers =
            register_parts.map(|register_part| self.combine_parts(thread_part, thread_bits, register_part).into()).collect();
        self.set_registers(result, registers);
    }

    /// Combines the thread's part and the register's part of a number by XOR. `thread_bits` has all bits that may be set in the
    /// thread's part. If the parts have no bit in common, an addition is emitted instead, so that LLVM finds the constant part of
    /// addresses.
    fn combine_parts(&self, thread_part: IntValue<'c>, thread_bits: u32, register_part: u32) -> IntValue<'c> {
        let ty = thread_part.get_type();
        let register_value = ty.const_int(u64::from(register_part), false);
        if register_part == 0 {
            return thread_part;
        }
        if register_part & thread_bits != 0 {
            return self.ir.xor(thread_part, register_value);
        }
        let is_never_negative = u64::from(register_part | thread_bits) >> (ty.get_bit_width() - 1) == 0;
        self.ir.set_wrap_flags(
            self.ir.add(thread_part, register_value),
            if is_never_negative { Overflow::NoWrap } else { Overflow::NoUnsignedWrap },
        )
    }

    /// Emits the coordinate along `dim` of each element that the thread holds.
    pub(super) fn emit_coordinate(&mut self, dim: usize, result: Value) {
        let (ir, layout) = (self.ir, self.layout(result));
        let strides = Strides::for_shape(self.ty(result).shape());
        let ty = ir.elem_type(self.elem(result)).into_int_type();
        let thread_part = ir.resize(self.thread_part(&layout, |basis| strides.coordinate(basis, dim)), ty, false);
        let thread_bits = layout.lane.iter().chain(&layout.warp).fold(0, |bits, basis| bits | strides.coordinate(*basis, dim));
        let register_parts =
            (0..layout.registers()).map(|register| strides.coordinate(xor_of_bases(&layout.register, register as u32), dim));
        let registers =
            register_parts.map(|register_part| self.combine_parts(thread_part, thread_bits, register_part).into()).collect();
        self.set_registers(result, registers);
    }

    /// Loads a non-splat constant tile from a table in global memory.
    pub(super) fn constant_table(&self, value: &Dense, elem: Elem, layout: &Layout) -> Vec<Val<'c>> {
        let ir = self.ir;
        let Dense::Elements(encoded_elements) = value else { unreachable!("a splat needs no table") };
        let elem_bytes = elem.bytes() as usize;
        let data: Vec<u8> = encoded_elements.iter().flat_map(|bits| bits.to_le_bytes()[..elem_bytes].to_vec()).collect();
        let data = ir.context.const_string(&data, false);
        let table = ir.module.add_global(data.get_type(), Some(AddressSpace::from(crate::ir::GLOBAL)), "table");
        table.set_initializer(&data);
        table.set_constant(true);
        table.set_linkage(inkwell::module::Linkage::Internal);
        table.set_alignment(elem_bytes as u32);
        let thread_part = self.thread_part(layout, |basis| basis);
        let ty = ir.memory_type(elem);
        (0..layout.registers())
            .map(|register| {
                let register_part = xor_of_bases(&layout.register, register as u32);
                let element = ir.xor(thread_part, ir.const32(register_part));
                let element = ir.resize(element, ir.i64(), false);
                let value = ir.load(ty, ir.element_ptr(ty, table.as_pointer_value(), element), elem_bytes as u32);
                self.register_form(elem, value)
            })
            .collect()
    }
}
