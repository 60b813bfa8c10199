//! Emits ops whose result registers are registers of the operand, so that they need no instruction: broadcasts, reshapes, permutes
//! and slices. Also emits layout conversions within a thread or a warp.

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
use tileas::renaming::source_element;

impl<'c> Emitter<'c, '_> {
    /// Emits a reshape or another op that only changes the coordinates of elements.
    pub(super) fn emit_renaming(&mut self, op: OpId, core: &Core, result: Value) -> Result<()> {
        let operand = base::ir::Operation::operands(core)[0];
        let (from_shape, to_shape) = (self.ty(operand).shape().to_vec(), self.ty(result).shape().to_vec());
        if let Some(read) = self.deferred_loads.remove(&operand) {
            // The operand has no registers yet, because the MMA loads it one K step at a time. The deferred load now belongs to the
            // result. Each register of the result has the same number as the register of the operand.
            self.deferred_loads.insert(result, read);
            return Ok(());
        }
        self.rename_registers(op, operand, result, source_element(core, &from_shape, &to_shape))
    }

    /// Emits a layout conversion within threads or within warps.
    pub(super) fn convert_layout(&mut self, op: OpId, operand: Value, route: Route, result: Value) -> Result<()> {
        if route == Route::Registers {
            return self.rename_registers(op, operand, result, |element| element);
        }
        let exchange = self.layout(result).exchange(&self.layout(operand)).ok_or_else(|| self.unsupported(op))?;
        let (elem, needed_registers) = (self.elem(result), self.registers_of_slices(result));
        let lane = self.xor_of_bases(self.thread_index, &exchange.lanes);
        let operand_registers: Vec<Val<'c>> = self.registers_of(operand).to_vec();
        let mut registers = vec![operand_registers[0]; exchange.sources.len()];
        let needed_sources = exchange
            .sources
            .iter()
            .enumerate()
            .filter(|(register, _)| needed_registers.as_ref().is_none_or(|needed| needed.contains(register)));
        for (register, (source, source_lane)) in needed_sources {
            registers[register] =
                self.lane_value(operand_registers[*source], elem, self.ir.xor(lane, self.ir.const32(*source_lane)));
        }
        self.set_registers(result, registers);
        Ok(())
    }

    /// Returns the registers of a tile that its users read, if all users extract slices at constant positions. Otherwise `None`.
    fn registers_of_slices(&self, tile: Value) -> Option<BTreeSet<usize>> {
        let slice_ops = self.slice_ops.get_or_init(|| slice_ops_by_tile(self.function)).get(&tile).map_or(&[][..], Vec::as_slice);
        if slice_ops.len() != self.use_counts[tile.0 as usize] as usize {
            return None;
        }
        let registers = slice_ops.iter().map(|op| {
            let Some(Core::Extract { indices, .. }) = self.function.body.ops[*op].kind.core() else { return None };
            self.slice_registers(tile, indices, self.function.body.result(*op))
        });
        Some(registers.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Concatenates two tiles. One bit of the result's register number selects the tile: `lhs` if the bit is 0, `rhs` if it is 1.
    pub(super) fn emit_cat(&mut self, op: OpId, lhs: Value, rhs: Value, dim: u32, result: Value) -> Result<()> {
        let layout = self.layout(result);
        let upper_bit = Strides::for_shape(self.ty(result).shape()).dim_bits(dim as usize).end - 1;
        let bit = layout.register.iter().position(|basis| *basis == 1 << upper_bit).ok_or_else(|| self.unsupported(op))?;
        let register_of_half = |register: usize| register & ((1 << bit) - 1) | register >> (bit + 1) << bit;
        let from = |register: usize| if register >> bit & 1 == 1 { rhs } else { lhs };
        let registers =
            (0..layout.registers()).map(|register| self.registers_of(from(register))[register_of_half(register)]).collect();
        self.set_registers(result, registers);
        Ok(())
    }

    /// Extracts a slice at a constant position: the result has a subset of the tile's registers.
    pub(super) fn emit_extract(&mut self, op: OpId, x: Value, indices: &[Value], result: Value) -> Result<()> {
        if Slice::at_constant_indices(self, [x, result], indices).is_none() {
            return Err(self.unsupported(op));
        }
        let registers = self.slice_registers(x, indices, result).ok_or_else(|| self.error_moves_between_threads(op, x, result))?;
        self.set_registers(result, registers.into_iter().map(|register| self.registers_of(x)[register]).collect());
        Ok(())
    }

    /// The registers of a tile that form a slice. `None` if the position is not constant, or if the slice's layout assigns elements
    /// to other threads than the tile's layout.
    fn slice_registers(&self, tile: Value, indices: &[Value], slice_value: Value) -> Option<Vec<usize>> {
        let slice = Slice::at_constant_indices(self, [tile, slice_value], indices)?;
        let (from, to) = (self.layout(tile), self.layout(slice_value));
        let tile_registers = to.renaming(&from, |element| slice.element_in_tile_at_origin(element))?;
        let first_register = solve(&from.register, slice.first_element)?;
        Some(tile_registers.into_iter().map(|register| register ^ first_register).collect())
    }

    /// Inserts a slice at a constant position: the result has some registers of the slice, and all other registers of the tile.
    pub(super) fn emit_insert(&mut self, op: OpId, [x, into]: [Value; 2], indices: &[Value], result: Value) -> Result<()> {
        let slice = Slice::at_constant_indices(self, [result, x], indices).ok_or_else(|| self.unsupported(op))?;
        let (slice_layout, tile_layout) = (self.layout(x), self.layout(result));
        if self.layout(into) != tile_layout {
            return Err(self.error_moves_between_threads(op, into, result));
        }
        let tile_registers = slice_layout
            .renaming(&tile_layout, |element| slice.element_in_tile_at_origin(element))
            .ok_or_else(|| self.error_moves_between_threads(op, x, result))?;
        let first_register =
            solve(&tile_layout.register, slice.first_element).ok_or_else(|| self.error_moves_between_threads(op, x, result))?;
        let mut registers = self.registers_of(into).to_vec();
        for (register, value) in tile_registers.into_iter().zip(self.registers_of(x).to_vec()) {
            registers[register ^ first_register] = value;
        }
        self.set_registers(result, registers);
        Ok(())
    }

    /// Returns the error for an op whose layouts would move elements between threads.
    fn error_moves_between_threads(&self, op: OpId, from: Value, to: Value) -> Box<Diagnostic> {
        let name = base::ir::Operation::mnemonic(&self.function.body.ops[op].kind);
        Diagnostic::invalid("PX005", format!("'{name}' of {from} to {to} would move elements between threads"))
    }

    /// Reinterprets the bits of elements. A wide element corresponds to several narrow elements in consecutive registers, of which
    /// the first has the lowest bits.
    pub(super) fn emit_reinterpret(&mut self, x: Value, result: Value) {
        let (from, to) = (self.elem(x), self.elem(result));
        let registers = match from.bits().cmp(&to.bits()) {
            std::cmp::Ordering::Equal => {
                let reinterpreted = |value: &Val<'c>| self.value_of_bits(self.as_bits(*value), self.ir.elem_type(to));
                self.registers_of(x).iter().map(reinterpreted).collect()
            }
            std::cmp::Ordering::Greater => {
                let count = (from.bits() / to.bits()) as usize;
                self.registers_of(x).iter().flat_map(|value| self.split_word(self.as_bits(*value), to, count)).collect()
            }
            std::cmp::Ordering::Less => {
                let count = (to.bits() / from.bits()) as usize;
                let joined_word = |pieces: &[Val<'c>]| self.join_word(pieces, from, self.ir.int_type(to.bits()));
                self.registers_of(x)
                    .chunks(count)
                    .map(|pieces| self.value_of_bits(joined_word(pieces), self.ir.elem_type(to)))
                    .collect()
            }
        };
        self.set_registers(result, registers);
    }

    /// Sets the registers of a result to registers of the operand. `source` maps an element of the result to an element of the
    /// operand.
    fn rename_registers(&mut self, op: OpId, operand: Value, result: Value, source: impl Fn(u32) -> u32) -> Result<()> {
        let (from, to) = (self.layout(operand), self.layout(result));
        let source_registers = to.renaming(&from, source).ok_or_else(|| self.error_moves_between_threads(op, operand, result))?;
        let registers = source_registers.into_iter().map(|register| self.registers_of(operand)[register]).collect();
        self.set_registers(result, registers);
        Ok(())
    }
}

/// For each tile, returns the ops that extract a slice of it.
fn slice_ops_by_tile(function: &Function) -> BTreeMap<Value, Vec<OpId>> {
    let mut ops_by_tile: BTreeMap<Value, Vec<OpId>> = BTreeMap::new();
    for op in function.body.walk(function.region) {
        if let Some(Core::Extract { x, .. }) = function.body.ops[op].kind.core() {
            ops_by_tile.entry(*x).or_default().push(op);
        }
    }
    ops_by_tile
}

/// A slice of a tile at a constant position.
struct Slice {
    tile_strides: Strides,
    slice_strides: Strides,
    /// The element number, in the tile, of the slice's first element.
    first_element: u32,
}

impl Slice {
    /// Describes the slice at `indices`, which count in units of the slice's extents. Returns `None` if an index is not constant or
    /// is out of range.
    fn at_constant_indices(emitter: &Emitter<'_, '_>, [tile, slice_value]: [Value; 2], indices: &[Value]) -> Option<Slice> {
        let [tile_strides, slice_strides] = [tile, slice_value].map(|value| Strides::for_shape(emitter.ty(value).shape()));
        let body = &emitter.function.body;
        let constant = |value: Value| match body.ops[body.defining_op(value)?].kind.core()? {
            Core::Constant { value: Dense::Splat(bits) } => u32::try_from(*bits).ok(),
            _ => None,
        };
        let mut first_element = 0;
        for (dim, index) in indices.iter().enumerate() {
            let first = constant(*index)?.checked_shl(slice_strides.bits[dim])?;
            if first >> tile_strides.bits[dim] != 0 {
                return None;
            }
            first_element |= first << tile_strides.shift[dim];
        }
        Some(Slice { tile_strides, slice_strides, first_element })
    }

    /// Maps an element of the slice to its element number in the tile, as if the slice were at position zero.
    fn element_in_tile_at_origin(&self, element: u32) -> u32 {
        (0..self.slice_strides.bits.len())
            .map(|dim| self.slice_strides.coordinate(element, dim) << self.tile_strides.shift[dim])
            .sum()
    }
}
