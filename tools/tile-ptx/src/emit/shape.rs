//! Ops that only rename elements, slices, and layout conversions within a thread or warp.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use base::diag::{Diagnostic, Result};
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use sched::Function;
use std::collections::{BTreeMap, BTreeSet};
use tileas::Route;
use tileas::layout::{Strides, solve};
use tileas::renaming::source;

impl<'c> Emitter<'c, '_> {
    pub(super) fn rename(&mut self, op: OpId, core: &Core, result: Value) -> Result<()> {
        let operand = base::ir::Operation::operands(core)[0];
        let (from_shape, to_shape) = (self.ty(operand).shape().to_vec(), self.ty(result).shape().to_vec());
        if let Some(read) = self.deferred.remove(&operand) {
            // The MMA loads this tile one K step at a time, from registers with the same numbers.
            self.deferred.insert(result, read);
            return Ok(());
        }
        self.rename_registers(op, operand, result, source(core, &from_shape, &to_shape))
    }

    pub(super) fn convert_layout(&mut self, op: OpId, operand: Value, route: Route, result: Value) -> Result<()> {
        if route == Route::Registers {
            return self.rename_registers(op, operand, result, |element| element);
        }
        let exchange = self.layout(result).exchange(&self.layout(operand)).ok_or_else(|| self.unsupported(op))?;
        let (elem, read) = (self.elem(result), self.registers_of_slices(result));
        let lane = self.xor_of_bases(self.thread, &exchange.lanes);
        let operand_registers: Vec<Val<'c>> = self.get(operand).to_vec();
        let mut registers = vec![operand_registers[0]; exchange.sources.len()];
        let sources =
            exchange.sources.iter().enumerate().filter(|(register, _)| read.as_ref().is_none_or(|read| read.contains(register)));
        for (register, (source, other)) in sources {
            let other = if common::fault_injected("ptx.lane") { 0 } else { *other };
            registers[register] = self.lane_value(operand_registers[*source], elem, self.ir.xor(lane, self.ir.const32(other)));
        }
        self.set(result, registers);
        Ok(())
    }

    /// The registers of a tile that are read, if all users extract slices at constant positions. Otherwise `None`.
    fn registers_of_slices(&self, tile: Value) -> Option<BTreeSet<usize>> {
        let slices = self.slices.get_or_init(|| slices(self.function)).get(&tile).map_or(&[][..], Vec::as_slice);
        if slices.len() != self.uses[tile.0 as usize] as usize {
            return None;
        }
        let registers = slices.iter().map(|op| {
            let Some(Core::Extract { indices, .. }) = self.function.body.ops[*op].kind.core() else { return None };
            self.slice_registers(tile, indices, self.function.body.result(*op))
        });
        Some(registers.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Concatenates two tiles: they are the halves of the result that differ in one bit of the register number.
    pub(super) fn cat(&mut self, op: OpId, lhs: Value, rhs: Value, dim: u32, result: Value) -> Result<()> {
        let layout = self.layout(result);
        let upper = Strides::of(self.ty(result).shape()).dim_bits(dim as usize).end - 1;
        let bit = layout.register.iter().position(|basis| *basis == 1 << upper).ok_or_else(|| self.unsupported(op))?;
        let half = |register: usize| register & ((1 << bit) - 1) | register >> (bit + 1) << bit;
        let from = |register: usize| if (register >> bit & 1 == 1) != common::fault_injected("ptx.cat") { rhs } else { lhs };
        let registers = (0..layout.registers()).map(|register| self.get(from(register))[half(register)]).collect();
        self.set(result, registers);
        Ok(())
    }

    /// Extracts a slice at a constant position: a subset of the registers.
    pub(super) fn extract(&mut self, op: OpId, x: Value, indices: &[Value], result: Value) -> Result<()> {
        if Slice::of(self, [x, result], indices).is_none() {
            return Err(self.unsupported(op));
        }
        let registers = self.slice_registers(x, indices, result).ok_or_else(|| self.moves_elements_error(op, x, result))?;
        self.set(result, registers.into_iter().map(|register| self.get(x)[register]).collect());
        Ok(())
    }

    /// The registers of a tile that form a slice. `None` if the position is not constant, or if other threads hold the slice.
    fn slice_registers(&self, tile: Value, indices: &[Value], slice_value: Value) -> Option<Vec<usize>> {
        let slice = Slice::of(self, [tile, slice_value], indices)?;
        let (from, to) = (self.layout(tile), self.layout(slice_value));
        let tile_registers = to.renaming(&from, |element| slice.in_whole(element))?;
        let start = if common::fault_injected("ptx.slice") { 0 } else { solve(&from.register, slice.start)? };
        Some(tile_registers.into_iter().map(|register| register ^ start).collect())
    }

    /// Inserts a slice at a constant position: takes some registers from the slice, and the others from the tile.
    pub(super) fn insert(&mut self, op: OpId, [x, into]: [Value; 2], indices: &[Value], result: Value) -> Result<()> {
        let slice = Slice::of(self, [result, x], indices).ok_or_else(|| self.unsupported(op))?;
        let (part, whole) = (self.layout(x), self.layout(result));
        if self.layout(into) != whole {
            return Err(self.moves_elements_error(op, into, result));
        }
        let tile_registers =
            part.renaming(&whole, |element| slice.in_whole(element)).ok_or_else(|| self.moves_elements_error(op, x, result))?;
        let start = solve(&whole.register, slice.start).ok_or_else(|| self.moves_elements_error(op, x, result))?;
        let mut registers = self.get(into).to_vec();
        for (register, value) in tile_registers.into_iter().zip(self.get(x).to_vec()) {
            registers[register ^ start] = value;
        }
        self.set(result, registers);
        Ok(())
    }

    fn moves_elements_error(&self, op: OpId, from: Value, to: Value) -> Box<Diagnostic> {
        let name = base::ir::Operation::mnemonic(&self.function.body.ops[op].kind);
        Diagnostic::invalid("PX005", format!("'{name}' of {from} to {to} would move elements between threads"))
    }

    /// Reinterprets the bits of elements. The parts of a wide element are in neighbouring registers, the low bits first.
    pub(super) fn reinterpret(&mut self, x: Value, result: Value) {
        let (from, to) = (self.elem(x), self.elem(result));
        let registers = match from.bits().cmp(&to.bits()) {
            std::cmp::Ordering::Equal => {
                let same = |value: &Val<'c>| self.of_bits(self.as_bits(*value), self.ir.elem(to));
                self.get(x).iter().map(same).collect()
            }
            std::cmp::Ordering::Greater => {
                let count = (from.bits() / to.bits()) as usize;
                self.get(x).iter().flat_map(|value| self.split_word(self.as_bits(*value), to, count)).collect()
            }
            std::cmp::Ordering::Less => {
                let count = (to.bits() / from.bits()) as usize;
                let word = |pieces: &[Val<'c>]| self.join_word(pieces, from, self.ir.int(to.bits()));
                self.get(x).chunks(count).map(|pieces| self.of_bits(word(pieces), self.ir.elem(to))).collect()
            }
        };
        self.set(result, registers);
    }

    fn rename_registers(&mut self, op: OpId, operand: Value, result: Value, source: impl Fn(u32) -> u32) -> Result<()> {
        let (from, to) = (self.layout(operand), self.layout(result));
        let source_registers = to.renaming(&from, source).ok_or_else(|| self.moves_elements_error(op, operand, result))?;
        let registers = source_registers.into_iter().map(|register| self.get(operand)[register]).collect();
        self.set(result, registers);
        Ok(())
    }
}

/// For each tile, the ops that extract a slice of it.
fn slices(function: &Function) -> BTreeMap<Value, Vec<OpId>> {
    let mut slices: BTreeMap<Value, Vec<OpId>> = BTreeMap::new();
    for op in function.body.walk(function.region) {
        if let Some(Core::Extract { x, .. }) = function.body.ops[op].kind.core() {
            slices.entry(*x).or_default().push(op);
        }
    }
    slices
}

/// A slice of a tile at a constant position.
struct Slice {
    whole: Strides,
    part: Strides,
    /// The number of the slice's first element in the tile.
    start: u32,
}

impl Slice {
    /// Returns `None` if an index is not a constant.
    fn of(emitter: &Emitter<'_, '_>, [whole, part]: [Value; 2], indices: &[Value]) -> Option<Slice> {
        let [whole, part] = [whole, part].map(|value| Strides::of(emitter.ty(value).shape()));
        let body = &emitter.function.body;
        let constant = |value: Value| match body.ops[body.defining_op(value)?].kind.core()? {
            Core::Constant { value: Dense::Splat(bits) } => u32::try_from(*bits).ok(),
            _ => None,
        };
        let mut start = 0;
        for (dim, index) in indices.iter().enumerate() {
            let first = constant(*index)?.checked_shl(part.bits[dim])?;
            if first >> whole.bits[dim] != 0 {
                return None;
            }
            start |= first << whole.shift[dim];
        }
        Some(Slice { whole, part, start })
    }

    /// Maps an element of the slice to its number in the tile, for a slice at position zero.
    fn in_whole(&self, element: u32) -> u32 {
        (0..self.part.bits.len()).map(|dim| self.part.coordinate(element, dim) << self.whole.shift[dim]).sum()
    }
}
