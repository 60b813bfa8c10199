//! Ops that only rename elements, and conversions that stay within a thread.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use base::diag::{Diagnostic, Result};
use base::ir::Op as OpId;
use tileas::layout::{Strides, solve};
use vocabulary::core_ops::Core;
use vocabulary::tile::Dense;

impl<'c> Emitter<'c, '_> {
    pub(super) fn rename(&mut self, op: OpId, core: &Core, result: Value) -> Result<()> {
        let operand = base::ir::Operation::operands(core)[0];
        let (from_shape, to_shape) = (self.ty(operand).shape().to_vec(), self.ty(result).shape().to_vec());
        let (from, to) = (Strides::of(&from_shape), Strides::of(&to_shape));
        let source = |element: u32| -> u32 {
            match core {
                Core::Permute { order, .. } => {
                    (0..to_shape.len()).map(|k| to.coordinate(element, k) << from.shift[order[k] as usize]).sum()
                }
                Core::Broadcast { .. } if from_shape.is_empty() => 0,
                Core::Broadcast { .. } => {
                    (0..to_shape.len()).filter(|&d| from_shape[d] != 1).map(|d| to.coordinate(element, d) << from.shift[d]).sum()
                }
                _ => element,
            }
        };
        self.rename_registers(op, operand, result, source)
    }

    pub(super) fn convert_layout(&mut self, op: OpId, operand: Value, result: Value) -> Result<()> {
        self.rename_registers(op, operand, result, |element| element)
    }

    /// The operands are the halves of the result that differ in one bit of the register number.
    pub(super) fn cat(&mut self, op: OpId, lhs: Value, rhs: Value, dim: u32, result: Value) -> Result<()> {
        let layout = self.layout(result);
        let upper = Strides::of(self.ty(result).shape()).dim_bits(dim as usize).end - 1;
        let bit = layout.register.iter().position(|basis| *basis == 1 << upper).ok_or_else(|| self.unsupported(op))?;
        let half = |register: usize| register & ((1 << bit) - 1) | register >> (bit + 1) << bit;
        let from = |register: usize| if (register >> bit & 1 == 1) != common::planted("ptx.cat") { rhs } else { lhs };
        let registers = (0..layout.registers()).map(|register| self.get(from(register))[half(register)]).collect();
        self.set(result, registers);
        Ok(())
    }

    /// A slice at a constant place is some of the registers.
    pub(super) fn extract(&mut self, op: OpId, x: Value, indices: &[Value], result: Value) -> Result<()> {
        let slice = Slice::of(self, [x, result], indices).ok_or_else(|| self.unsupported(op))?;
        let (from, to) = (self.layout(x), self.layout(result));
        let names = to.renaming(&from, |element| slice.in_whole(element)).ok_or_else(|| self.moves_elements(op, x, result))?;
        let start = solve(&from.register, slice.start).ok_or_else(|| self.moves_elements(op, x, result))?;
        let start = if common::planted("ptx.slice") { 0 } else { start };
        let registers = names.into_iter().map(|register| self.get(x)[register ^ start]).collect();
        self.set(result, registers);
        Ok(())
    }

    /// Putting a slice at a constant place takes some registers from the slice, the others from the tile.
    pub(super) fn insert(&mut self, op: OpId, [x, into]: [Value; 2], indices: &[Value], result: Value) -> Result<()> {
        let slice = Slice::of(self, [result, x], indices).ok_or_else(|| self.unsupported(op))?;
        let (part, whole) = (self.layout(x), self.layout(result));
        if self.layout(into) != whole {
            return Err(self.moves_elements(op, into, result));
        }
        let names = part.renaming(&whole, |element| slice.in_whole(element)).ok_or_else(|| self.moves_elements(op, x, result))?;
        let start = solve(&whole.register, slice.start).ok_or_else(|| self.moves_elements(op, x, result))?;
        let mut registers = self.get(into).to_vec();
        for (register, value) in names.into_iter().zip(self.get(x).to_vec()) {
            registers[register ^ start] = value;
        }
        self.set(result, registers);
        Ok(())
    }

    fn moves_elements(&self, op: OpId, from: Value, to: Value) -> Box<Diagnostic> {
        let name = base::ir::Operation::mnemonic(&self.function.body.ops[op].kind);
        Diagnostic::invalid("PX005", format!("'{name}' of {from} to {to} would move elements between threads"))
    }

    /// The pieces of a wide element are in neighbouring registers, its low bits in the first.
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
        let names = to.renaming(&from, source).ok_or_else(|| self.moves_elements(op, operand, result))?;
        let registers = names.into_iter().map(|register| self.get(operand)[register]).collect();
        self.set(result, registers);
        Ok(())
    }
}

/// A slice of a tile at a constant place.
struct Slice {
    whole: Strides,
    part: Strides,
    /// Its first element's number in the tile.
    start: u32,
}

impl Slice {
    /// None when an index is not a constant.
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

    /// The number in the tile that an element of the first slice has.
    fn in_whole(&self, element: u32) -> u32 {
        (0..self.part.bits.len()).map(|dim| self.part.coordinate(element, dim) << self.whole.shift[dim]).sum()
    }
}
