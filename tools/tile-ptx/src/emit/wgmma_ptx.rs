//! Emits warp-group MMAs. Each MMA op becomes a sequence of `wgmma` instructions that starts with `wgmma.fence` and ends with the
//! commit of its group or with a wait.
//!
//! Invariant: the sequence is one piece of inline assembly, so no other instruction in between accesses the accumulators.
//! While MMAs are in flight, the code passes the accumulators unchanged from one piece of assembly to the next, and through the
//! wait.

use super::Emitter;
use super::mma_sync_ptx::element_type_name;
use super::tmem_ptx::ADDRESS_BITS;
use crate::ir::Val;
use base::Value;
use base::diag::Result;
use base::ir::Op as OpId;
use inkwell::values::IntValue;
use std::fmt::Write as _;
use tileas::layout::{Strides, xor_of_bases};
use tileas::mma_sync_atoms::Operand;
use tileas::wgmma_atoms::{GroupAtom, INSTRUCTION_ROWS, MAX_COLUMNS, Matrix};
use tileas::{Buffer, MmaOperand};

/// The unit of addresses and offsets in a descriptor, in bytes.
const DESCRIPTOR_UNIT_BYTES: u32 = 16;
/// Number of 32-bit words of a left operand in registers, per instruction.
const LEFT_WORDS_PER_INSTRUCTION: usize = 4;

/// An operand in shared memory: its matrix layout, and the descriptor of the first matrix that this warp group reads.
struct SharedOperand<'c> {
    matrix: Matrix,
    descriptor: IntValue<'c>,
}

impl<'c> Emitter<'c, '_> {
    /// Emits an MMA as one block of inline assembly with a `wgmma` for each step along K.
    pub(super) fn emit_wgmma(&mut self, op: OpId, program: &tileas::Op, atom: &GroupAtom, result: Value) -> Result<()> {
        let tileas::Op::Mma { in_flight, lhs, rhs, acc: MmaOperand::Registers(acc), zero_init, signed_lhs, signed_rhs, .. } =
            program
        else {
            unreachable!("called for MMA ops only")
        };
        let MmaOperand::Memory { buffer: right_buffer, transposed: right_transposed, .. } = rhs else {
            return Err(self.unsupported(op));
        };
        let (layout, strides) = (self.layout(*acc), Strides::for_shape(self.ty(*acc).shape()));
        let rank = strides.bits.len();
        let [row_of, column_of] = [rank - 2, rank - 1].map(|dim| move |strides: &Strides, at: u32| strides.coordinate(at, dim));
        let buffers = &self.function.attrs.program.buffers;
        let (a, left_words, lhs_elem) = match lhs {
            MmaOperand::Memory { buffer, transposed, .. } => {
                let a = self.shared_operand(*buffer, Operand::A, *transposed, |matrix| {
                    layout.warp[2..].iter().map(|basis| matrix.element_offset(row_of(&strides, *basis), 0)).collect()
                });
                (Some(a), Vec::new(), buffers[*buffer].elem)
            }
            MmaOperand::Registers(value) => (None, self.ir.pack_words(self.registers_of(*value)), self.elem(*value)),
        };
        let b = self.shared_operand(*right_buffer, Operand::B, *right_transposed, |matrix| {
            layout.warp[2..].iter().map(|basis| matrix.element_offset(column_of(&strides, *basis), 0)).collect()
        });
        let elem = self.elem(*acc);
        let zero_init = zero_init.map(|zero_init| self.scalar_value(zero_init).into_int_value());
        let accumulators = match zero_init.and_then(|zero_init| zero_init.get_zero_extended_constant()) {
            Some(1) => self.registers_of(*acc).iter().map(|sum| self.ir.poison_like(*sum)).collect(),
            _ => self.registers_of(*acc).to_vec(),
        };
        let words = if atom.acc.bits() == 32 { accumulators.clone() } else { self.ir.pack_words(&accumulators) };
        let elements_per_word = accumulators.len() / words.len();
        // Each group of eight columns is spread over four lanes, with two columns in each. A row of the warp's tile takes one
        // instruction, or several instructions if it has more than `MAX_COLUMNS` columns.
        let column_bits = layout.register.iter().filter(|basis| column_of(&strides, **basis) != 0).count();
        let instruction_columns = (4u32 << column_bits).min(MAX_COLUMNS);
        let (accumulators_per_instruction, k_extent) =
            ((instruction_columns / 2) as usize, self.k_extent(*right_buffer, *right_transposed));
        let [a_type, b_type] = [(lhs_elem, *signed_lhs), (buffers[*right_buffer].elem, *signed_rhs)]
            .map(|(elem, signed)| element_type_name(elem.carrier(), signed));
        let kind = format!("m64n{instruction_columns}k{}.{}.{a_type}.{b_type}", atom.k, element_type_name(atom.acc, true));
        let mut sequence = WgmmaSequence::new(kind, atom, words.len(), left_words.len(), a.is_some());
        for step in (0..k_extent).step_by(atom.k as usize) {
            for first in (0..accumulators.len()).step_by(accumulators_per_instruction) {
                let first_element = xor_of_bases(&layout.register, first as u32);
                let (row, column) = (row_of(&strides, first_element), column_of(&strides, first_element));
                let left_operand = match &a {
                    Some(a) => {
                        LeftOperand::SharedOperand { offset: a.matrix.element_offset(row, step), transposed: !a.matrix.along_depth }
                    }
                    None => LeftOperand::Words(
                        (row / INSTRUCTION_ROWS * k_extent + step) as usize / atom.k as usize * LEFT_WORDS_PER_INSTRUCTION,
                    ),
                };
                let accumulates = step > 0 || zero_init.is_none();
                sequence.append_mma(
                    [first / elements_per_word, accumulators_per_instruction / elements_per_word],
                    left_operand,
                    b.matrix.element_offset(column, step),
                    !b.matrix.along_depth,
                    accumulates,
                );
            }
        }
        sequence.end(*in_flight);
        let descriptors = [a.map(|a| a.descriptor), Some(b.descriptor)].into_iter().flatten();
        let accumulates = zero_init.map(|zero_init| self.ir.not(zero_init));
        let other_inputs: Vec<Val<'c>> = left_words.iter().copied().chain(descriptors.chain(accumulates).map(Into::into)).collect();
        let new_words = self.asm_in_place(&sequence.text, &words, &other_inputs);
        let new_words = if elements_per_word == 1 {
            new_words
        } else {
            new_words.into_iter().flat_map(|word| self.ir.unpack_word(word, elem)).collect()
        };
        self.set_registers(result, new_words);
        Ok(())
    }

    /// Emits a wait for MMAs, through which the accumulators pass. Reason: LLVM then cannot move a use of an accumulator before the
    /// wait.
    pub(super) fn group_wait(&mut self, pending: u32, accumulators: &[Value]) {
        if !accumulators.is_empty() && accumulators.iter().all(|sum| self.awaited_accumulators.contains(sum)) {
            return;
        }
        let results =
            self.wait_for_accumulators(pending, accumulators.iter().map(|sum| self.registers_of(*sum).to_vec()).collect());
        for (sum, registers) in accumulators.iter().zip(results) {
            self.set_registers(*sum, registers);
        }
    }

    /// Emits a wait until at most `pending` groups of MMAs are in flight. Returns the registers of the accumulators after the wait.
    pub(super) fn wait_for_accumulators(&self, pending: u32, accumulators: Vec<Vec<Val<'c>>>) -> Vec<Vec<Val<'c>>> {
        let text = format!("wgmma.wait_group.sync.aligned {pending};");
        let values: Vec<Val<'c>> = accumulators.iter().flatten().copied().collect();
        if values.is_empty() {
            self.emit_instruction(&text);
            return accumulators;
        }
        let mut results = self.asm_in_place(&text, &values, &[]).into_iter();
        accumulators.iter().map(|sum| results.by_ref().take(sum.len()).collect()).collect()
    }

    /// Emits inline assembly that modifies values in place. Its operands are the values as results, the same values as tied inputs,
    /// and the other inputs. Returns the new values.
    fn asm_in_place(&self, text: &str, modified_values: &[Val<'c>], other_inputs: &[Val<'c>]) -> Vec<Val<'c>> {
        let constraint = |word: &Val<'c>| match word {
            Val::FloatValue(_) => "f",
            Val::IntValue(number) => match number.get_type().get_bit_width() {
                64 => "l",
                1 => "b",
                _ => "r",
            },
            _ => "r",
        };
        let results = modified_values.iter().map(|word| format!("={}", constraint(word)));
        let tied_inputs = (0..modified_values.len()).map(|i| i.to_string());
        let other_constraints = other_inputs.iter().map(|word| constraint(word).to_string());
        let constraints: Vec<String> = results.chain(tied_inputs).chain(other_constraints).collect();
        let types: Vec<_> = modified_values.iter().map(|word| word.get_type()).collect();
        let args = [modified_values, other_inputs].concat();
        self.ir.asm_many(&types, text, &constraints.join(","), &args, true)
    }

    /// The K extent of the right operand, in elements.
    fn k_extent(&self, rhs: Buffer, transposed: bool) -> u32 {
        let shape = &self.function.attrs.program.buffers[rhs].shape;
        shape[shape.len() - if transposed { 1 } else { 2 }]
    }

    /// Computes the descriptor of an operand in shared memory. `warp_group_bases` returns the offset in bytes for each bit of the
    /// warp-group index.
    fn shared_operand(
        &self,
        buffer: Buffer,
        operand: Operand,
        transposed: bool,
        warp_group_bases: impl Fn(&Matrix) -> Vec<u32>,
    ) -> SharedOperand<'c> {
        let ir = self.ir;
        let info = &self.function.attrs.program.buffers[buffer];
        let matrix =
            Matrix::from_buffer(info, operand, transposed).expect("the verifier checks that a descriptor can express its position");
        let buffer_offset = ir.const32(self.function.attrs.placements[buffer].offset);
        let thread_bases: Vec<u32> = [0; 7].into_iter().chain(warp_group_bases(&matrix)).collect();
        let start = ir.add(ir.add(self.buffer_start(buffer), buffer_offset), self.xor_of_bases(self.thread_index, &thread_bases));
        let address_units = ir.shr(start, ir.const32(DESCRIPTOR_UNIT_BYTES.ilog2()), false);
        // In a cluster, shared-memory addresses contain the CTA rank, for which a descriptor has no bits. The `and` clears these
        // bits.
        let address_units = match self.function.attrs.program.cluster {
            Some(_) => ir.and(address_units, ir.const32(ADDRESS_BITS)),
            None => address_units,
        };
        let descriptor = ir.or(ir.resize(address_units, ir.i64(), false), ir.const64(matrix.descriptor()));
        SharedOperand { matrix, descriptor }
    }
}

/// The source of the left operand (A) of one `wgmma` instruction.
enum LeftOperand {
    /// Shared memory, at an offset in bytes. `transposed`: the operand is contiguous along M instead of K.
    SharedOperand { offset: u32, transposed: bool },
    /// Registers, from this word of the left operand on.
    Words(usize),
}

/// The inline assembly of an MMA. Its operands are the accumulators as results and as tied inputs, the words of the left operand,
/// the descriptors, and the `scale-d` predicate of the first K step, if there is one.
struct WgmmaSequence {
    /// The shape and types in the names of the instructions.
    kind: String,
    /// The text of the sign operands of A and B, which follow the `scale-d` predicate; empty for integers.
    signs: &'static str,
    /// Whether the instructions have transpose flags.
    has_transpose_flags: bool,
    accumulator_words: usize,
    left_words: usize,
    /// Whether the left operand is a descriptor.
    left_is_shared: bool,
    /// For the PTX registers `a` and `b`, the offset in bytes of the descriptor that they currently hold, if any.
    current_offsets: [Option<u32>; 2],
    text: String,
}

impl WgmmaSequence {
    /// Starts the assembly text with its registers and a fence.
    fn new(kind: String, atom: &GroupAtom, accumulator_words: usize, left_words: usize, left_is_shared: bool) -> WgmmaSequence {
        let text = "{\n\t.reg .b64 a, b;\n\t.reg .pred p;\n\tsetp.ne.b32 p, 1, 0;\n\twgmma.fence.sync.aligned;\n\t".to_string();
        let signs = if atom.acc.is_int() { "" } else { ", 1, 1" };
        WgmmaSequence {
            kind,
            signs,
            has_transpose_flags: atom.transposes,
            accumulator_words,
            left_words,
            left_is_shared,
            current_offsets: [None; 2],
            text,
        }
    }

    /// Appends one instruction with `count` accumulator words from `first` on. The right operand is at `right_offset`, in bytes;
    /// `right_transposed` is set if it is contiguous along N instead of K. If `accumulates` is set, the instruction adds to the
    /// accumulators. Otherwise the `scale-d` operand decides whether it adds to them or overwrites them.
    fn append_mma(
        &mut self,
        [first, count]: [usize; 2],
        left: LeftOperand,
        right_offset: u32,
        right_transposed: bool,
        accumulates: bool,
    ) {
        let operand_list =
            |first: usize, count: usize| (first..first + count).map(|i| format!("${i}")).collect::<Vec<String>>().join(", ");
        let (accumulators, first_descriptor) = (operand_list(first, count), 2 * self.accumulator_words + self.left_words);
        let right_descriptor = first_descriptor + usize::from(self.left_is_shared);
        let has_flags = self.has_transpose_flags;
        let transpose_flag = |transposed: bool| if has_flags { format!(", {}", u32::from(transposed)) } else { String::new() };
        let (a, flags) = match left {
            LeftOperand::SharedOperand { offset, transposed: left_transposed } => (
                self.descriptor_text(0, first_descriptor, offset),
                transpose_flag(left_transposed) + &transpose_flag(right_transposed),
            ),
            LeftOperand::Words(word) => (
                format!("{{{}}}", operand_list(2 * self.accumulator_words + word, LEFT_WORDS_PER_INSTRUCTION)),
                transpose_flag(right_transposed),
            ),
        };
        let b = self.descriptor_text(1, right_descriptor, right_offset);
        let accumulates = if accumulates { "p".to_string() } else { format!("${}", right_descriptor + 1) };
        let _ = write!(
            self.text,
            "wgmma.mma_async.sync.aligned.{} {{{accumulators}}}, {a}, {b}, {accumulates}{}{flags};\n\t",
            self.kind, self.signs
        );
    }

    /// Returns the operand text of the descriptor at an offset in bytes from the start of an operand. Appends the addition that
    /// computes the descriptor if the PTX register does not hold it yet.
    fn descriptor_text(&mut self, side: usize, first: usize, offset: u32) -> String {
        if offset == 0 {
            return format!("${first}");
        }
        let name = ["a", "b"][side];
        if self.current_offsets[side] != Some(offset) {
            let _ = write!(self.text, "add.s64 {name}, ${first}, {};\n\t", offset / DESCRIPTOR_UNIT_BYTES);
            self.current_offsets[side] = Some(offset);
        }
        name.to_string()
    }

    /// Ends the assembly text. Without `in_flight`, the text also waits for the MMAs.
    fn end(&mut self, in_flight: bool) {
        self.text += "wgmma.commit_group.sync.aligned;\n\t";
        self.text += if in_flight { "}" } else { "wgmma.wait_group.sync.aligned 0;\n\t}" };
    }
}
