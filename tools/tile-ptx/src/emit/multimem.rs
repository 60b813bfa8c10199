//! Accesses to multicast memory, as inline assembly: LLVM has no multimem instructions.
//!
//! Each instruction accesses a word: one element, or two neighbouring 16-bit elements. The instruction is relaxed at system scope
//! regardless of the op's memory order, because several devices share the address. Fences with the op's scope, before or after
//! the instruction, provide acquire and release.

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

/// How words of an element type are accessed.
struct Words {
    elem: Elem,
    /// Number of elements per word.
    width: usize,
    /// The type suffix of the instruction.
    suffix: &'static str,
    /// The constraint letter of an operand.
    letter: &'static str,
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn multicast(&mut self, op: OpId, program: &tileas::Op, results: &[Value]) -> Result<()> {
        match program {
            tileas::Op::MulticastLoad { view, index, order, in_bounds, reduction, .. } => {
                let window = self.window(op, *view, index, in_bounds, &self.layout(results[0]))?;
                let registers = self.multicast_load(op, &window, results[0], *reduction)?;
                if order.semantics == MemoryOrdering::Acquire {
                    self.fence("acquire", *order);
                }
                self.set(results[0], registers);
                self.set_token(results[1]);
            }
            tileas::Op::MulticastStore { tile, view, index, order, in_bounds, write, .. } => {
                let window = self.window(op, *view, index, in_bounds, &self.layout(*tile))?;
                if order.semantics == MemoryOrdering::Release {
                    self.fence("release", *order);
                }
                self.multicast_store(op, &window, *tile, write.reduction())?;
                self.set_token(results[0]);
            }
            _ => unreachable!("called for accesses to multicast memory only"),
        }
        Ok(())
    }

    fn fence(&self, semantics: &str, order: Order) {
        let scope = match order.scope {
            Some(MemoryScope::TileBlock) => "cta",
            Some(MemoryScope::Device) => "gpu",
            Some(MemoryScope::System) | None => "sys",
        };
        self.instruction_alone(&format!("fence.{semantics}.{scope};"));
    }

    /// Loads words that the hardware has reduced over all devices. Another device may change the memory between two loads, so one
    /// thread loads for all threads that hold the element.
    fn multicast_load(
        &mut self,
        op: OpId,
        window: &Window<'c>,
        tile: Value,
        reduction: MulticastReduction,
    ) -> Result<Vec<Val<'c>>> {
        let layout = self.layout(tile);
        let words = self.multicast_words(op, self.elem(tile))?;
        let name = self.reduction_name(op, &words, reduction)?;
        let is_representative = self.is_representative(&layout);
        let padding = self.padding_of(words.elem, window);
        let mut registers = Vec::with_capacity(layout.registers());
        for first in (0..layout.registers()).step_by(words.width) {
            let (ptr, inside) = self.element_place(window, &layout, first);
            let otherwise = vec![padding; words.width];
            let read = self.guarded(self.conjunction(inside, is_representative), &otherwise, |e| e.load_reduce(&words, &name, ptr));
            for (i, value) in read.into_iter().enumerate() {
                // The second element of a pair may be outside although the first is inside.
                let (_, inside) = if i == 0 { (ptr, None) } else { self.element_place(window, &layout, first + i) };
                registers.push(inside.map_or(value, |inside| self.ir.select(inside, value, padding)));
            }
        }
        Ok(if is_representative.is_some() { self.broadcast_in_warp(&layout, words.elem, registers) } else { registers })
    }

    fn load_reduce(&self, words: &Words, name: &str, ptr: PointerValue<'c>) -> Vec<Val<'c>> {
        let (results, letter) = (vec![self.ir.memory_type(words.elem); words.width], words.letter);
        let place = if words.width == 1 { "$0, [$1]" } else { "{$0, $1}, [$2]" };
        let text = format!("multimem.ld_reduce.relaxed.sys{}.{name} {place};", space_suffix(ptr));
        let constraints = format!("{}l", format!("={letter},").repeat(words.width));
        self.ir.asm_many(&results, &text, &constraints, &[ptr.into()], true)
    }

    fn multicast_store(&self, op: OpId, window: &Window<'c>, tile: Value, reduction: Option<MulticastReduction>) -> Result<()> {
        let layout = self.layout(tile);
        let words = self.multicast_words(op, self.elem(tile))?;
        let name = reduction.map(|reduction| self.store_reduction_name(op, &words, reduction)).transpose()?;
        let is_representative = self.is_representative(&layout);
        for first in (0..layout.registers()).step_by(words.width) {
            let (ptr, inside) = self.element_place(window, &layout, first);
            let second_inside = if words.width == 2 { self.element_place(window, &layout, first + 1).1 } else { None };
            self.guarded(self.conjunction(inside, is_representative), &[], |e| {
                let values = &e.get(tile)[first..first + words.width];
                match &name {
                    Some(name) => e.combine_word(&words, name, ptr, values, second_inside),
                    None => e.store_word(&words, ptr, values, second_inside),
                }
                Vec::new()
            });
        }
        Ok(())
    }

    /// Reduces a word into memory. An element outside the tensor is replaced by the neutral element. Only additions combine
    /// pairs, so the neutral element is minus zero.
    fn combine_word(
        &self,
        words: &Words,
        name: &str,
        ptr: PointerValue<'c>,
        values: &[Val<'c>],
        second_inside: Option<IntValue<'c>>,
    ) {
        const MINUS_ZERO: u64 = 0x8000;
        let mut values = values.to_vec();
        if let Some(inside) = second_inside {
            values[1] = self.ir.select(inside, values[1], self.ir.constant(words.elem, MINUS_ZERO));
        }
        self.emit_word_instruction(words, &format!("red.relaxed.sys{}.{name}", space_suffix(ptr)), ptr, &values);
    }

    fn store_word(&self, words: &Words, ptr: PointerValue<'c>, values: &[Val<'c>], second_inside: Option<IntValue<'c>>) {
        let space = space_suffix(ptr);
        let store_whole_word = |e: &Self| {
            e.emit_word_instruction(words, &format!("st.relaxed.sys{space}.{}", words.suffix), ptr, values);
            Vec::new()
        };
        self.guarded(second_inside, &[], store_whole_word);
        // If the second element is outside, only the lower half may change. An `and` clears it, and an `or` sets it.
        if let Some(inside) = second_inside {
            self.guarded(Some(self.ir.not(inside)), &[], |e| {
                let half = e.join_word(&values[..1], words.elem, e.ir.i32());
                let red = format!("multimem.red.relaxed.sys{space}");
                let text = format!("{red}.and.b32 [$0], 0xffff0000; {red}.or.b32 [$0], $1;");
                e.ir.asm(None, &text, "l,r", &[ptr.into(), half.into()], true);
                Vec::new()
            });
        }
    }

    fn emit_word_instruction(&self, words: &Words, instruction: &str, ptr: PointerValue<'c>, values: &[Val<'c>]) {
        let place = if words.width == 1 { "$1" } else { "{$1, $2}" };
        let args: Vec<Val<'c>> = std::iter::once(ptr.into()).chain(values.iter().copied()).collect();
        let constraints = format!("l{}", format!(",{}", words.letter).repeat(words.width));
        self.ir.asm(None, &format!("multimem.{instruction} [$0], {place};"), &constraints, &args, true);
    }

    fn multicast_words(&self, op: OpId, elem: Elem) -> Result<Words> {
        let (width, suffix, letter) = match elem.scalar() {
            Some(Scalar::I32) => (1, "u32", "r"),
            Some(Scalar::I64) => (1, "u64", "l"),
            Some(Scalar::F32) => (1, "f32", "f"),
            Some(Scalar::F64) => (1, "f64", "d"),
            Some(Scalar::F16) => (2, "v2.f16", "h"),
            Some(Scalar::BF16) => (2, "v2.bf16", "h"),
            _ => return Err(self.unsupported(op)),
        };
        Ok(Words { elem, width, suffix, letter })
    }

    /// The operation and type in the name of a load. Additions of 16-bit floats accumulate in f32.
    fn reduction_name(&self, op: OpId, words: &Words, reduction: MulticastReduction) -> Result<String> {
        use MulticastReduction::{Add, Max, Min};
        match (reduction, words.width) {
            (Add, 2) => Ok(format!("add.acc::f32.{}", words.suffix)),
            (Min, 2) => Ok(format!("min.{}", words.suffix)),
            (Max, 2) => Ok(format!("max.{}", words.suffix)),
            _ => self.store_reduction_name(op, words, reduction),
        }
    }

    fn store_reduction_name(&self, op: OpId, words: &Words, reduction: MulticastReduction) -> Result<String> {
        use MulticastReduction::{Add, And, Max, Min, Or, UMax, UMin, Xor};
        let bits = words.elem.bits();
        let float = words.elem.scalar().is_some_and(Scalar::is_float);
        Ok(match reduction {
            Add => format!("add.{}", words.suffix),
            _ if float => return Err(self.unsupported(op)),
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
