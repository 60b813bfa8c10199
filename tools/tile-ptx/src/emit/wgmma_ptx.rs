//! Warp-group MMAs: a `wgmma` sequence, from its fence to the commit of its group or to its wait.
//!
//! Invariant: the sequence is one piece of inline assembly, so no other instruction accesses the accumulators within it.
//! Asynchronous MMAs pass the accumulators unchanged from one piece of assembly to the next, and through the wait.

use super::Emitter;
use super::mma_sync_ptx::element_type_name;
use super::tmem_ptx::ADDRESS_BITS;
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use inkwell::values::IntValue;
use std::fmt::Write as _;
use tileas::layout::{Strides, apply};
use tileas::mma_sync_atoms::Operand;
use tileas::wgmma_atoms::{GroupAtom, M, MAX_COLUMNS, Matrix};
use tileas::{Buffer, MmaOperand};

/// Number of bytes that one unit of a descriptor's address and offsets stands for.
const DESCRIPTOR_UNIT: u32 = 16;
/// Number of words of a left operand in registers, per instruction.
const LEFT_WORDS: usize = 4;

/// An operand in shared memory: its matrix layout, and the descriptor of this warp group's first part.
struct SharedOperand<'c> {
    matrix: Matrix,
    descriptor: IntValue<'c>,
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn wgmma(&mut self, op: OpId, program: &tileas::Op, atom: &GroupAtom, result: Value) -> Result<()> {
        let tileas::Op::Mma { in_flight, lhs, rhs, acc: MmaOperand::Registers(acc), zero_init, signed_lhs, signed_rhs, .. } =
            program
        else {
            unreachable!("called for MMA ops only")
        };
        let MmaOperand::Memory { buffer: right, transposed: right_transposed, .. } = rhs else { return Err(self.unsupported(op)) };
        let (layout, strides) = (self.layout(*acc), Strides::of(self.ty(*acc).shape()));
        let rank = strides.bits.len();
        let [row_of, column_of] = [rank - 2, rank - 1].map(|dim| move |strides: &Strides, at: u32| strides.coordinate(at, dim));
        let buffers = &self.function.attrs.program.buffers;
        let (a, left, lhs_elem) = match lhs {
            MmaOperand::Memory { buffer, transposed, .. } => {
                let a = self.shared_operand(*buffer, Operand::A, *transposed, |matrix| {
                    layout.warp[2..].iter().map(|basis| matrix.start(row_of(&strides, *basis), 0)).collect()
                });
                (Some(a), Vec::new(), buffers[*buffer].elem)
            }
            MmaOperand::Registers(value) => (None, self.ir.words(self.get(*value)), self.elem(*value)),
        };
        let b = self.shared_operand(*right, Operand::B, *right_transposed, |matrix| {
            layout.warp[2..].iter().map(|basis| matrix.start(column_of(&strides, *basis), 0)).collect()
        });
        let elem = self.elem(*acc);
        let zero_init = zero_init.map(|zero_init| self.scalar(zero_init).into_int_value());
        let accumulators = match zero_init.and_then(|zero_init| zero_init.get_zero_extended_constant()) {
            Some(1) => self.get(*acc).iter().map(|sum| self.ir.poison_like(*sum)).collect(),
            _ => self.get(*acc).to_vec(),
        };
        let words = if atom.acc.bits() == 32 { accumulators.clone() } else { self.ir.words(&accumulators) };
        let elements_per_word = accumulators.len() / words.len();
        // Eight columns of a row are spread over four lanes. A row of the warp's tile takes one instruction, or several if it is
        // too wide.
        let column_bits = layout.register.iter().filter(|basis| column_of(&strides, **basis) != 0).count();
        let width = (4u32 << column_bits).min(MAX_COLUMNS);
        let (accumulators_per_instruction, depth) = ((width / 2) as usize, self.depth(*right, *right_transposed));
        let [a_type, b_type] = [(lhs_elem, *signed_lhs), (buffers[*right].elem, *signed_rhs)]
            .map(|(elem, signed)| element_type_name(elem.carrier(), signed));
        let kind = format!("m64n{width}k{}.{}.{a_type}.{b_type}", atom.k, element_type_name(atom.acc, true));
        let mut sequence = Sequence::new(kind, atom, words.len(), left.len(), a.is_some());
        for step in (0..depth).step_by(atom.k as usize) {
            for first in (0..accumulators.len()).step_by(accumulators_per_instruction) {
                let at = apply(&layout.register, first as u32);
                let (row, column) = (row_of(&strides, at), column_of(&strides, at));
                let from = match &a {
                    Some(a) => Left::SharedOperand { offset: a.matrix.start(row, step), transposed: !a.matrix.along_depth },
                    None => Left::Words((row / M * depth + step) as usize / atom.k as usize * LEFT_WORDS),
                };
                let adds = step > 0 || zero_init.is_none();
                let step = if common::fault_injected("ptx.descriptor") { 0 } else { step };
                sequence.append_mma(
                    [first / elements_per_word, accumulators_per_instruction / elements_per_word],
                    from,
                    (b.matrix.start(column, step), !b.matrix.along_depth),
                    adds,
                );
            }
        }
        sequence.end(*in_flight);
        let descriptors = [a.map(|a| a.descriptor), Some(b.descriptor)].into_iter().flatten();
        let adds = zero_init.map(|zero_init| self.ir.not(zero_init));
        let others: Vec<Val<'c>> = left.iter().copied().chain(descriptors.chain(adds).map(Into::into)).collect();
        let done = self.modify_in_place(&sequence.text, &words, &others);
        let done =
            if elements_per_word == 1 { done } else { done.into_iter().flat_map(|word| self.ir.unpack_word(word, elem)).collect() };
        self.set(result, done);
        Ok(())
    }

    /// Emits a wait for MMAs, and passes the accumulators through it so that no user can be moved before it.
    pub(super) fn group_wait(&mut self, pending: u32, accumulators: &[Value]) {
        if !accumulators.is_empty() && accumulators.iter().all(|sum| self.awaited.contains(sum)) {
            return;
        }
        let done = self.wait_for_accumulators(pending, accumulators.iter().map(|sum| self.get(*sum).to_vec()).collect());
        for (sum, registers) in accumulators.iter().zip(done) {
            self.set(*sum, registers);
        }
    }

    /// Emits a wait. Returns the registers of the accumulators after it.
    pub(super) fn wait_for_accumulators(&self, pending: u32, accumulators: Vec<Vec<Val<'c>>>) -> Vec<Vec<Val<'c>>> {
        let text = format!("wgmma.wait_group.sync.aligned {pending};");
        let values: Vec<Val<'c>> = accumulators.iter().flatten().copied().collect();
        if values.is_empty() {
            self.instruction_alone(&text);
            return accumulators;
        }
        let mut done = self.modify_in_place(&text, &values, &[]).into_iter();
        accumulators.iter().map(|sum| done.by_ref().take(sum.len()).collect()).collect()
    }

    /// Inline assembly that modifies values in place. Its operands are the values as results, the same values as tied inputs, and
    /// other inputs.
    fn modify_in_place(&self, text: &str, values: &[Val<'c>], others: &[Val<'c>]) -> Vec<Val<'c>> {
        let letter = |word: &Val<'c>| match word {
            Val::FloatValue(_) => "f",
            Val::IntValue(number) => match number.get_type().get_bit_width() {
                64 => "l",
                1 => "b",
                _ => "r",
            },
            _ => "r",
        };
        let results = values.iter().map(|word| format!("={}", letter(word)));
        let tied_inputs = (0..values.len()).map(|i| i.to_string());
        let other_inputs = others.iter().map(|word| letter(word).to_string());
        let constraints: Vec<String> = results.chain(tied_inputs).chain(other_inputs).collect();
        let types: Vec<_> = values.iter().map(|word| word.get_type()).collect();
        let args = [values, others].concat();
        self.ir.asm_many(&types, text, &constraints.join(","), &args, true)
    }

    /// The extent along K of the right operand.
    fn depth(&self, rhs: Buffer, transposed: bool) -> u32 {
        let shape = &self.function.attrs.program.buffers[rhs].shape;
        shape[shape.len() - if transposed { 1 } else { 2 }]
    }

    /// The descriptor of an operand in shared memory. `groups` gives the offset of each bit of the warp-group index.
    fn shared_operand(
        &self,
        buffer: Buffer,
        operand: Operand,
        transposed: bool,
        groups: impl Fn(&Matrix) -> Vec<u32>,
    ) -> SharedOperand<'c> {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let matrix = Matrix::of(info, operand, transposed).expect("the verifier checks that a descriptor can express its position");
        let fixed = ir.const32(self.function.attrs.placements[buffer].offset);
        let bases: Vec<u32> = [0; 7].into_iter().chain(groups(&matrix)).collect();
        let start = ir.add(ir.add(self.buffer_start(buffer), fixed), self.xor_of_bases(self.thread, &bases));
        let units = ir.shr(start, ir.const32(DESCRIPTOR_UNIT.ilog2()), false);
        // In a cluster, shared-memory addresses contain the CTA rank, for which a descriptor has no bits. So these bits are
        // cleared.
        let units = match self.function.attrs.program.cluster {
            Some(_) => ir.and(units, ir.const32(ADDRESS_BITS)),
            None => units,
        };
        let descriptor = ir.or(ir.resize(units, ir.i64(), false), ir.const64(matrix.descriptor()));
        SharedOperand { matrix, descriptor }
    }
}

/// The source of the left operand.
enum Left {
    /// Shared memory, at an offset in bytes. `transposed`: the operand is contiguous along M instead of K.
    SharedOperand { offset: u32, transposed: bool },
    /// Registers, from this word on.
    Words(usize),
}

/// The inline assembly of an MMA. Its operands are the accumulators as results and as tied inputs, the words of the left operand,
/// the descriptors, and the `scale-d` predicate of the first step, if there is one.
struct Sequence {
    kind: String,
    /// The operands after the `scale-d` predicate: the signs of A and B.
    signs: &'static str,
    /// Whether the instruction has transpose flags.
    transposes: bool,
    accumulators: usize,
    words: usize,
    /// Whether the left operand is a descriptor.
    left_is_shared: bool,
    /// The offsets in bytes at which the registers `a` and `b` currently are.
    current_offsets: [Option<u32>; 2],
    text: String,
}

impl Sequence {
    fn new(kind: String, atom: &GroupAtom, accumulators: usize, words: usize, left_is_shared: bool) -> Sequence {
        let text = "{\n\t.reg .b64 a, b;\n\t.reg .pred p;\n\tsetp.ne.b32 p, 1, 0;\n\twgmma.fence.sync.aligned;\n\t".to_string();
        let signs = if atom.acc.is_int() { "" } else { ", 1, 1" };
        Sequence { kind, signs, transposes: atom.transposes, accumulators, words, left_is_shared, current_offsets: [None; 2], text }
    }

    /// Appends one instruction with `count` accumulators from `first` on. `right` is the offset of the right operand in bytes,
    /// and `right_transposed` whether it is contiguous along N instead of K. If `adds` is set, the instruction adds to the
    /// accumulators. Otherwise the predicate operand decides whether it overwrites them.
    fn append_mma(&mut self, [first, count]: [usize; 2], left: Left, (right, right_transposed): (u32, bool), adds: bool) {
        let list = |first: usize, count: usize| (first..first + count).map(|i| format!("${i}")).collect::<Vec<String>>().join(", ");
        let (accumulators, first_descriptor) = (list(first, count), 2 * self.accumulators + self.words);
        let last = first_descriptor + usize::from(self.left_is_shared);
        let transposes = self.transposes;
        let transpose_flag = |transposed: bool| if transposes { format!(", {}", u32::from(transposed)) } else { String::new() };
        let (a, flags) = match left {
            Left::SharedOperand { offset, transposed: left_transposed } => {
                (self.descriptor(0, first_descriptor, offset), transpose_flag(left_transposed) + &transpose_flag(right_transposed))
            }
            Left::Words(word) => {
                (format!("{{{}}}", list(2 * self.accumulators + word, LEFT_WORDS)), transpose_flag(right_transposed))
            }
        };
        let b = self.descriptor(1, last, right);
        let adds = if adds { "p".to_string() } else { format!("${}", last + 1) };
        let _ = write!(
            self.text,
            "wgmma.mma_async.sync.aligned.{} {{{accumulators}}}, {a}, {b}, {adds}{}{flags};\n\t",
            self.kind, self.signs
        );
    }

    /// The text of the descriptor at an offset in bytes from the start of an operand. It may append the addition that computes
    /// the descriptor.
    fn descriptor(&mut self, side: usize, first: usize, offset: u32) -> String {
        if offset == 0 {
            return format!("${first}");
        }
        let name = ["a", "b"][side];
        if self.current_offsets[side] != Some(offset) {
            let _ = write!(self.text, "add.s64 {name}, ${first}, {};\n\t", offset / DESCRIPTOR_UNIT);
            self.current_offsets[side] = Some(offset);
        }
        name.to_string()
    }

    fn end(&mut self, in_flight: bool) {
        self.text += "wgmma.commit_group.sync.aligned;\n\t";
        self.text += if in_flight { "}" } else { "wgmma.wait_group.sync.aligned 0;\n\t}" };
    }
}
