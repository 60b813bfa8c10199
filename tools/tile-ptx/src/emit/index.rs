//! From the thread's number to element numbers and coordinates.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use base::tile::{Dense, Elem};
use inkwell::AddressSpace;
use inkwell::values::IntValue;
use tileas::Layout;
use tileas::layout::{Strides, apply};

impl<'c> Emitter<'c, '_> {
    /// The bits of the element number that the thread's number decides, seen through a linear map such as a coordinate.
    pub(super) fn thread_part(&self, layout: &Layout, map: impl Fn(u32) -> u32) -> IntValue<'c> {
        let bases: Vec<u32> = layout.lane.iter().chain(&layout.warp).map(|basis| map(*basis)).collect();
        self.linear(self.thread, &bases)
    }

    /// The exclusive or of the bases of the bits that are set in a number of as many bits.
    pub(super) fn linear(&self, number: IntValue<'c>, bases: &[u32]) -> IntValue<'c> {
        let ir = self.ir;
        let mut sum: Option<IntValue<'c>> = None;
        let mut bit = 0;
        while bit < bases.len() {
            if bases[bit] == 0 {
                bit += 1;
                continue;
            }
            // A run of neighbouring bits that stay neighbours is one mask and one shift.
            let single = bases[bit].is_power_of_two();
            let run = 1 + (bit + 1..bases.len()).take_while(|&next| single && bases[next] == bases[bit] << (next - bit)).count();
            let part = if single {
                self.shifted_bits(number, bit as u32, run as u32, bases[bit].trailing_zeros(), bases.len() as u32)
            } else {
                let set = ir.resize(self.bit(number, bit as u32), ir.i32(), true);
                ir.and(set, ir.const32(bases[bit]))
            };
            sum = Some(match sum {
                None => part,
                Some(sum) => ir.xor(sum, part),
            });
            bit += run;
        }
        sum.unwrap_or_else(|| ir.const32(0))
    }

    /// `count` bits of a number from `from` on, moved to `to`.
    fn shifted_bits(&self, number: IntValue<'c>, from: u32, count: u32, to: u32, total: u32) -> IntValue<'c> {
        let ir = self.ir;
        let mask = ((1u64 << count) - 1) as u32;
        let masked = |value: IntValue<'c>, mask: u32| {
            if from + count == total && from == 0 { value } else { ir.and(value, ir.const32(mask)) }
        };
        match to.cmp(&from) {
            std::cmp::Ordering::Equal => masked(number, mask << from),
            std::cmp::Ordering::Greater => masked(ir.shl(number, ir.const32(to - from)), mask << to),
            std::cmp::Ordering::Less => masked(ir.shr(number, ir.const32(from - to), false), mask << to),
        }
    }

    /// Whether a bit of a number is set.
    fn bit(&self, number: IntValue<'c>, bit: u32) -> IntValue<'c> {
        let ir = self.ir;
        let set = ir.and(number, ir.const32(1 << bit));
        ir.icmp(inkwell::IntPredicate::NE, set, ir.const32(0))
    }

    /// Whether this thread is the one among those that hold the same elements that acts for all; none when all differ.
    pub(super) fn speaks(&self, layout: &Layout) -> Option<IntValue<'c>> {
        let bases: Vec<u32> = layout.lane.iter().chain(&layout.warp).copied().collect();
        let copies: u32 = bases.iter().enumerate().filter(|(_, basis)| **basis == 0).map(|(bit, _)| 1 << bit).sum();
        if copies == 0 {
            return None;
        }
        let set = self.ir.and(self.thread, self.ir.const32(copies));
        Some(self.ir.icmp(inkwell::IntPredicate::EQ, set, self.ir.const32(0)))
    }

    /// The coordinates of each dimension that the thread decides; a register adds its own, which shares no bit.
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
        let registers = (0..layout.registers()).map(|register| {
            let element = apply(&layout.register, register as u32);
            self.ir.xor(thread, ty.const_int(u64::from(element), false)).into()
        });
        let registers = registers.collect();
        self.set(result, registers);
    }

    pub(super) fn coordinate(&mut self, dim: usize, result: Value) {
        let (ir, layout) = (self.ir, self.layout(result));
        let strides = Strides::of(self.ty(result).shape());
        let ty = ir.elem(self.elem(result)).into_int_type();
        let thread = ir.resize(self.thread_part(&layout, |basis| strides.coordinate(basis, dim)), ty, false);
        let registers = (0..layout.registers()).map(|register| {
            let own = strides.coordinate(apply(&layout.register, register as u32), dim);
            ir.xor(thread, ty.const_int(u64::from(own), false)).into()
        });
        let registers = registers.collect();
        self.set(result, registers);
    }

    /// A constant tile whose elements differ: read from a table in constant memory.
    pub(super) fn table(&self, value: &Dense, elem: Elem, layout: &Layout) -> Vec<Val<'c>> {
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
        let ty = ir.stored(elem);
        (0..layout.registers())
            .map(|register| {
                let element = ir.xor(thread, ir.const32(apply(&layout.register, register as u32)));
                let element = ir.resize(element, ir.i64(), false);
                let value = ir.load(ty, ir.element_ptr(ty, table.as_pointer_value(), element), bytes as u32);
                self.register_form(elem, value)
            })
            .collect()
    }
}
