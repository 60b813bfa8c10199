//! Emits accesses to multicast memory (one address for the memories of several devices) as inline assembly. Reason: LLVM has no
//! `multimem` instructions.
//!
//! Each instruction accesses a word: one element, or two neighbouring 16-bit elements. The instruction is relaxed at system scope,
//! whatever the op's memory order, because several devices share the address. For a release, a fence with the op's scope precedes
//! the instruction; for an acquire, a fence follows it.

use super::Emitter;
use super::access_runs::space_suffix;
use super::view::Window;
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use core_dialect::memory::{MemoryOrdering, MemoryScope, MulticastReduction, Order};
use core_dialect::tile::Elem;
use inkwell::values::{IntValue, PointerValue};
use numerics::Scalar;

/// The form of the words through which `multimem` instructions access elements of a type.
struct WordFormat {
    elem: Elem,
    /// Number of elements per word.
    elements_per_word: usize,
    /// The type suffix of the instruction.
    type_suffix: &'static str,
    /// The constraint letter of an operand.
    constraint: &'static str,
}

impl<'c> Emitter<'c, '_> {
    /// Emits a load from or a store to multicast memory, with `multimem` instructions.
    pub(super) fn emit_multicast(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        match program {
            tileas::Op::MulticastLoad { view, index, order, in_bounds, reduction, .. } => {
                let window = self.window_of(op, *view, index, in_bounds, &self.layout(results[0]))?;
                let registers = self.multicast_load(op, &window, results[0], *reduction)?;
                if order.semantics == MemoryOrdering::Acquire {
                    self.emit_fence("acquire", *order);
                }
                self.set_registers(results[0], registers);
                self.set_token(results[1]);
            }
            tileas::Op::MulticastStore { tile, view, index, order, in_bounds, write, .. } => {
                let window = self.window_of(op, *view, index, in_bounds, &self.layout(*tile))?;
                if order.semantics == MemoryOrdering::Release {
                    self.emit_fence("release", *order);
                }
                self.multicast_store(op, &window, *tile, write.reduction())?;
                self.set_token(results[0]);
            }
            _ => unreachable!("called for accesses to multicast memory only"),
        }
        Ok(())
    }

    /// Emits a memory fence with these semantics (`acquire` or `release`) and the scope of `order`.
    fn emit_fence(&self, semantics: &str, order: Order) {
        let scope = match order.scope {
            Some(MemoryScope::TileBlock) => "cta",
            Some(MemoryScope::Device) => "gpu",
            Some(MemoryScope::System) | None => "sys",
        };
        self.emit_instruction(&format!("fence.{semantics}.{scope};"));
    }

    /// Loads words that the hardware reduces over all devices. Another device may change the memory between two loads, so one
    /// thread loads each element for all threads that hold it.
    fn multicast_load(
        &mut self,
        op: OpId,
        window: &Window<'c>,
        tile: Value,
        reduction: MulticastReduction,
    ) -> Result<Vec<Val<'c>>> {
        let layout = self.layout(tile);
        let format = self.word_format(op, self.elem(tile))?;
        let name = self.reduction_name(op, &format, reduction)?;
        let is_representative = self.is_representative(&layout);
        let padding = self.padding_of(format.elem, window);
        let mut registers = Vec::with_capacity(layout.registers());
        for first in (0..layout.registers()).step_by(format.elements_per_word) {
            let (ptr, inside) = self.element_ptr_and_bounds_test(window, &layout, first);
            let otherwise = vec![padding; format.elements_per_word];
            let read =
                self.emit_guarded(self.conjunction(inside, is_representative), &otherwise, |e| e.load_reduce(&format, &name, ptr));
            for (i, value) in read.into_iter().enumerate() {
                // The second element of a pair may be outside although the first is inside.
                let (_, inside) = if i == 0 { (ptr, None) } else { self.element_ptr_and_bounds_test(window, &layout, first + i) };
                registers.push(inside.map_or(value, |inside| self.ir.select(inside, value, padding)));
            }
        }
        Ok(if is_representative.is_some() { self.broadcast_in_warp(&layout, format.elem, registers) } else { registers })
    }

    /// Emits `multimem.ld_reduce`, which loads a word from the memory of each device and reduces the words.
    fn load_reduce(&self, format: &WordFormat, name: &str, ptr: PointerValue<'c>) -> Vec<Val<'c>> {
        let (results, constraint) = (vec![self.ir.memory_type(format.elem); format.elements_per_word], format.constraint);
        let operands = if format.elements_per_word == 1 { "$0, [$1]" } else { "{$0, $1}, [$2]" };
        let text = format!("multimem.ld_reduce.relaxed.sys{}.{name} {operands};", space_suffix(ptr));
        let constraints = format!("{}l", format!("={constraint},").repeat(format.elements_per_word));
        self.ir.asm_many(&results, &text, &constraints, &[ptr.into()], true)
    }

    /// Emits the stores or reductions of a tile to multicast memory.
    fn multicast_store(&self, op: OpId, window: &Window<'c>, tile: Value, reduction: Option<MulticastReduction>) -> Result<()> {
        let layout = self.layout(tile);
        let format = self.word_format(op, self.elem(tile))?;
        let name = reduction.map(|reduction| self.store_reduction_name(op, &format, reduction)).transpose()?;
        let is_representative = self.is_representative(&layout);
        for first in (0..layout.registers()).step_by(format.elements_per_word) {
            let (ptr, inside) = self.element_ptr_and_bounds_test(window, &layout, first);
            let second_inside =
                if format.elements_per_word == 2 { self.element_ptr_and_bounds_test(window, &layout, first + 1).1 } else { None };
            self.emit_guarded(self.conjunction(inside, is_representative), &[], |e| {
                let values = &e.registers_of(tile)[first..first + format.elements_per_word];
                match &name {
                    Some(name) => e.reduce_word_into_memory(&format, name, ptr, values, second_inside),
                    None => e.store_word(&format, ptr, values, second_inside),
                }
                Vec::new()
            });
        }
        Ok(())
    }

    /// Emits `multimem.red`, which reduces a word into memory. If the second element is outside the tensor, minus zero replaces it.
    /// Minus zero is neutral for the addition, the only `multimem.red` operation on words of two elements.
    fn reduce_word_into_memory(
        &self,
        format: &WordFormat,
        name: &str,
        ptr: PointerValue<'c>,
        values: &[Val<'c>],
        second_inside: Option<IntValue<'c>>,
    ) {
        /// The bits of minus zero, which are the same in f16 and bf16.
        const MINUS_ZERO: u64 = 0x8000;
        let mut values = values.to_vec();
        if let Some(inside) = second_inside {
            values[1] = self.ir.select(inside, values[1], self.ir.constant(format.elem, MINUS_ZERO));
        }
        self.emit_word_instruction(format, &format!("red.relaxed.sys{}.{name}", space_suffix(ptr)), ptr, &values);
    }

    /// Emits the store of a word. `second_inside` is the predicate that the second element is inside the tensor.
    fn store_word(&self, format: &WordFormat, ptr: PointerValue<'c>, values: &[Val<'c>], second_inside: Option<IntValue<'c>>) {
        let space = space_suffix(ptr);
        let store_full_word = |e: &Self| {
            e.emit_word_instruction(format, &format!("st.relaxed.sys{space}.{}", format.type_suffix), ptr, values);
            Vec::new()
        };
        self.emit_guarded(second_inside, &[], store_full_word);
        // If the second element is outside the tensor, only the lower half of the word may change: an `and` clears it, and an `or`
        // sets it.
        if let Some(inside) = second_inside {
            self.emit_guarded(Some(self.ir.not(inside)), &[], |e| {
                let half = e.join_word(&values[..1], format.elem, e.ir.i32());
                let red = format!("multimem.red.relaxed.sys{space}");
                let text = format!("{red}.and.b32 [$0], 0xffff0000; {red}.or.b32 [$0], $1;");
                e.ir.asm(None, &text, "l,r", &[ptr.into(), half.into()], true);
                Vec::new()
            });
        }
    }

    /// Emits a `multimem` instruction that writes a word.
    fn emit_word_instruction(&self, format: &WordFormat, instruction: &str, ptr: PointerValue<'c>, values: &[Val<'c>]) {
        let operands = if format.elements_per_word == 1 { "$1" } else { "{$1, $2}" };
        let args: Vec<Val<'c>> = std::iter::once(ptr.into()).chain(values.iter().copied()).collect();
        let constraints = format!("l{}", format!(",{}", format.constraint).repeat(format.elements_per_word));
        self.ir.asm(None, &format!("multimem.{instruction} [$0], {operands};"), &constraints, &args, true);
    }

    /// Returns the word format of an element type, or an error if `multimem` does not support the type.
    fn word_format(&self, op: OpId, elem: Elem) -> Result<WordFormat> {
        let (elements_per_word, type_suffix, constraint) = match elem.scalar() {
            Some(Scalar::I32) => (1, "u32", "r"),
            Some(Scalar::I64) => (1, "u64", "l"),
            Some(Scalar::F32) => (1, "f32", "f"),
            Some(Scalar::F64) => (1, "f64", "d"),
            Some(Scalar::F16) => (2, "v2.f16", "h"),
            Some(Scalar::BF16) => (2, "v2.bf16", "h"),
            _ => return Err(self.unsupported(op)),
        };
        Ok(WordFormat { elem, elements_per_word, type_suffix, constraint })
    }

    /// The operation and type in the name of a reducing load. Additions of 16-bit floats accumulate in f32.
    fn reduction_name(&self, op: OpId, format: &WordFormat, reduction: MulticastReduction) -> Result<String> {
        use MulticastReduction::{Add, Max, Min};
        match (reduction, format.elements_per_word) {
            (Add, 2) => Ok(format!("add.acc::f32.{}", format.type_suffix)),
            (Min, 2) => Ok(format!("min.{}", format.type_suffix)),
            (Max, 2) => Ok(format!("max.{}", format.type_suffix)),
            _ => self.store_reduction_name(op, format, reduction),
        }
    }

    /// The operation and type in the name of a reducing store.
    fn store_reduction_name(&self, op: OpId, format: &WordFormat, reduction: MulticastReduction) -> Result<String> {
        use MulticastReduction::{Add, And, Max, Min, Or, UMax, UMin, Xor};
        let bits = format.elem.bits();
        let is_float = format.elem.scalar().is_some_and(Scalar::is_float);
        Ok(match reduction {
            Add => format!("add.{}", format.type_suffix),
            _ if is_float => return Err(self.unsupported(op)),
            Min => format!("min.s{bits}"),
            Max => format!("max.s{bits}"),
            UMin => format!("min.u{bits}"),
            UMax => format!("max.u{bits}"),
            And => format!("and.b{bits}"),
            Or => format!("or.b{bits}"),
            Xor => format!("xor.b{bits}"),
        })
    }
}
