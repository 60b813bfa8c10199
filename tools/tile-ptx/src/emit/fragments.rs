//! Loads and stores MMA fragments in shared memory by `ldmatrix` and `stmatrix`.
//!
//! A load with `per_k_step` is emitted at the MMA, one K step at a time, instead of at its own position. Reason: only the fragments
//! of a few K steps then occupy registers at the same time.

use super::Emitter;
use crate::ir::Val;
use base::{Op as OpId, Value};
use core_dialect::tile::Elem;
use inkwell::values::IntValue;
use std::collections::BTreeMap;
use tileas::{Buffer, CopyAtom, Layout};

/// The kind of matrices that an `ldmatrix` or `stmatrix` instruction moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MatrixKind {
    /// Matrices of eight rows of eight 16-bit elements, or of other elements with the same fragment layout.
    Halfwords { trans: bool },
    /// Matrices of sixteen rows of sixteen bytes, which the load transposes.
    Bytes,
}

/// The shared-memory positions of the matrices of a tile. For each instruction, lane `8 j + i` (`16 j + i` for byte matrices) has
/// the address of row `i` of matrix `j`.
struct MatrixRows<'c> {
    /// Number of 32-bit registers that one instruction loads or stores in each lane.
    registers_per_instruction: usize,
    /// With transposed 8-bit elements, the register bit that selects a byte of a pair (see [`Emitter::regroup_byte_pairs`]). With
    /// `MatrixKind::Bytes`, the bit that selects a half of a row. `None` otherwise.
    pair_bit: Option<usize>,
    /// The layout that maps instructions and lanes to rows. A register of this layout stands for one instruction.
    address_layout: Layout,
    buffer: Buffer,
    /// The shared-memory address of the buffer's current stage.
    stage_address: IntValue<'c>,
    /// The part of the row offset in the buffer that depends on the thread and not on the instruction, in elements.
    thread_offset: IntValue<'c>,
    /// The row addresses that have been computed, by the offset bits that an instruction changes (see
    /// [`Emitter::register_offset_parts`]).
    row_addresses: BTreeMap<u32, IntValue<'c>>,
    elem: Elem,
}

/// The state of a tile load by `ldmatrix`. With `per_k_step`, its instructions are emitted one K step at a time.
pub(crate) struct MatrixRead<'c> {
    rows: MatrixRows<'c>,
    kind: MatrixKind,
    /// For each `ldmatrix` instruction that is emitted, the words that it returned.
    loaded_words: BTreeMap<usize, Vec<Val<'c>>>,
}

impl<'c> Emitter<'c, '_> {
    /// Loads a tile by `ldmatrix`, with which each lane receives one 32-bit word of every matrix. With `per_k_step`, the
    /// instructions are emitted later.
    pub(super) fn matrix_load(&mut self, buffer: Buffer, kind: MatrixKind, per_k_step: bool, result: Value) {
        let (elem, registers) = (self.elem(result), self.layout(result).registers());
        let mut read = self.new_matrix_read(result, buffer, kind);
        if per_k_step {
            self.use_prefetched_words(result, &mut read);
            self.deferred_loads.insert(result, read);
            return;
        }
        let words = self.load_missing_words(&mut read, 0, registers / elements_per_32_bit_word(elem));
        let registers = words.into_iter().flat_map(|word| self.ir.unpack_word(word, elem)).collect();
        self.set_registers(result, registers);
    }

    /// Returns a read of a tile by `ldmatrix` that has not loaded anything yet.
    fn new_matrix_read(&self, result: Value, buffer: Buffer, kind: MatrixKind) -> MatrixRead<'c> {
        let rows = self.matrix_rows(result, buffer, kind);
        MatrixRead { rows, kind, loaded_words: BTreeMap::new() }
    }

    /// Returns the read for a load op with `per_k_step`. No `ldmatrix` of it is emitted yet.
    pub(super) fn read_per_k_step(&mut self, load: OpId) -> MatrixRead<'c> {
        let sched::Op::Core(tileas::Op::SharedLoad { buffer, atom, .. }) = &self.function.body.ops[load].kind else {
            unreachable!("only loads are emitted per K step")
        };
        let kind = match atom {
            CopyAtom::Matrix { trans } => MatrixKind::Halfwords { trans: *trans },
            _ => MatrixKind::Bytes,
        };
        self.set_current_stages(&[load]);
        self.new_matrix_read(self.function.body.result(load), *buffer, kind)
    }

    /// Emits these `ldmatrix` instructions in the iteration before the one that uses their words. Returns the row addresses of the
    /// instructions, then the loaded words. The next iteration uses the addresses and the words.
    pub(super) fn load_early(&self, read: &MatrixRead<'c>, instructions: &[usize]) -> Vec<Val<'c>> {
        let mut words: Vec<Val<'c>> = vec![read.rows.stage_address.into()];
        words.extend(
            self.row_changes(read, instructions)
                .into_values()
                .map(|instruction| Val::from(self.matrix_row_address(&read.rows, instruction).0)),
        );
        words.extend(instructions.iter().flat_map(|instruction| self.load_matrices(read, *instruction)));
        words
    }

    /// Sets the addresses and words that the previous iteration prefetched, in the order in which `load_early` returned them.
    pub(super) fn restore_prefetched(
        &self,
        read: &mut MatrixRead<'c>,
        instructions: &[usize],
        words: &mut impl Iterator<Item = Val<'c>>,
    ) {
        let changed_bits = self.row_changes(read, instructions).into_keys();
        let mut next_address = || words.next().expect("addresses come first").into_int_value();
        read.rows.stage_address = next_address();
        read.rows.row_addresses = changed_bits.map(|changed_bits| (changed_bits, next_address())).collect();
        for instruction in instructions {
            read.loaded_words.insert(*instruction, words.by_ref().take(read.rows.registers_per_instruction).collect());
        }
    }

    /// The different sets of offset bits by which the instructions change the row address. Each set maps to the first instruction
    /// with this set.
    fn row_changes(&self, read: &MatrixRead<'c>, instructions: &[usize]) -> BTreeMap<u32, usize> {
        let changed_bits_of =
            |instruction: &usize| self.register_offset_parts(&read.rows.address_layout, read.rows.buffer, *instruction).0;
        instructions.iter().rev().map(|instruction| (changed_bits_of(instruction), *instruction)).collect()
    }

    /// The indices of the `ldmatrix` instructions that load `count` registers of the tile from `first` on.
    pub(super) fn instructions_of(&self, read: &MatrixRead<'c>, first: usize, count: usize) -> std::ops::RangeInclusive<usize> {
        let elements_per_instruction = elements_per_32_bit_word(read.rows.elem) * read.rows.registers_per_instruction;
        first / elements_per_instruction..=(first + count - 1) / elements_per_instruction
    }

    /// Stores a tile by `stmatrix`, with which each lane provides one 32-bit word of every matrix.
    pub(super) fn matrix_store(&mut self, x: Value, buffer: Buffer, trans: bool) {
        let kind = MatrixKind::Halfwords { trans };
        let (rows, words) = (self.matrix_rows(x, buffer, kind), self.ir.pack_words(self.registers_of(x)));
        for (instruction, words) in words.chunks(rows.registers_per_instruction).enumerate() {
            let (at, fixed) = self.matrix_row_address(&rows, instruction);
            let inputs: Vec<String> = (1..=rows.registers_per_instruction).map(|i| format!("${i}")).collect();
            let text = format!("stmatrix.{} [$0+{fixed}], {{{}}};", kind.name(rows.registers_per_instruction), inputs.join(", "));
            let args: Vec<Val<'c>> = std::iter::once(at.into()).chain(words.iter().copied()).collect();
            self.ir.asm(None, &text, &vec!["r"; args.len()].join(","), &args, true);
        }
    }

    /// Computes the row addresses with which `ldmatrix` or `stmatrix` accesses a tile.
    fn matrix_rows(&self, tile: Value, buffer: Buffer, kind: MatrixKind) -> MatrixRows<'c> {
        let layout = self.layout(tile);
        let info = &self.function.attrs.program.buffers[buffer];
        let (matrices, max_matrix_bits, registers_per_matrix) = match kind {
            MatrixKind::Halfwords { trans } => (info.matrices(&layout, trans), 2, 1),
            MatrixKind::Bytes => (info.byte_matrices(&layout), 1, 2),
        };
        let matrices = matrices.expect("the verifier checks that the atom fits");
        let matrix_bits = matrices.further_matrices.len().min(max_matrix_bits);
        // The row addresses have a layout of their own: the lowest lane bits select the row, the next lane bits the matrix.
        let (in_instruction, between_instructions) = matrices.further_matrices.split_at(matrix_bits);
        let mut lane: Vec<u32> = matrices.rows.iter().chain(in_instruction).copied().collect();
        lane.resize(tileas::layout::LANE_BITS, 0);
        let address_layout = Layout { register: between_instructions.to_vec(), lane, warp: layout.warp.clone() };
        let (stage_address, thread_offset) = (self.buffer_start(buffer), self.shared_thread_offset(&address_layout, buffer));
        MatrixRows {
            registers_per_instruction: registers_per_matrix << matrix_bits,
            pair_bit: matrices.pair_bit,
            address_layout,
            buffer,
            stage_address,
            thread_offset,
            row_addresses: BTreeMap::new(),
            elem: self.elem(tile),
        }
    }

    /// The shared-memory address of the row that this lane provides to an instruction. The second result is a constant to add to
    /// this address, in bytes.
    fn matrix_row_address(&self, rows: &MatrixRows<'c>, instruction: usize) -> (IntValue<'c>, u32) {
        let ir = self.ir;
        let (changed_bits, constant_offset) = self.register_offset_parts(&rows.address_layout, rows.buffer, instruction);
        let bytes = rows.elem.bytes();
        let row_byte_offset = || ir.mul(ir.xor(rows.thread_offset, ir.const32(changed_bits)), ir.const32(bytes));
        let at = rows.row_addresses.get(&changed_bits).copied().unwrap_or_else(|| ir.add(row_byte_offset(), rows.stage_address));
        (at, constant_offset * bytes + self.function.attrs.placements[rows.buffer].offset)
    }

    /// Returns the `count` registers of a tile from `first` on, as 32-bit words. Emits their loads if the tile is loaded with
    /// `per_k_step`.
    pub(super) fn fragment_words(&mut self, value: Value, first: usize, count: usize) -> Vec<Val<'c>> {
        let Some(mut read) = self.deferred_loads.remove(&value) else {
            return self.ir.pack_words(&self.registers_of(value)[first..first + count]);
        };
        let elements_per_word = elements_per_32_bit_word(read.rows.elem);
        let words = self.load_missing_words(&mut read, first / elements_per_word, count / elements_per_word);
        self.deferred_loads.insert(value, read);
        words
    }

    /// Returns `count` words of a tile from word `first` on. Emits the `ldmatrix` instructions of these words that are not emitted
    /// yet.
    fn load_missing_words(&self, read: &mut MatrixRead<'c>, first: usize, count: usize) -> Vec<Val<'c>> {
        let words_per_instruction = read.rows.registers_per_instruction;
        let mut words = Vec::with_capacity(count);
        while words.len() < count {
            let at = first + words.len();
            let instruction = at / words_per_instruction;
            let instruction_words = match read.loaded_words.get(&instruction) {
                Some(instruction_words) => instruction_words.clone(),
                None => {
                    let instruction_words = self.load_matrices(read, instruction);
                    read.loaded_words.insert(instruction, instruction_words.clone());
                    instruction_words
                }
            };
            words.extend(instruction_words.into_iter().skip(at % words_per_instruction));
        }
        words.truncate(count);
        words
    }

    /// Emits one `ldmatrix` instruction. Returns the loaded words in the order of the tile's registers.
    fn load_matrices(&self, read: &MatrixRead<'c>, instruction: usize) -> Vec<Val<'c>> {
        let (ir, rows) = (self.ir, &read.rows);
        let (at, fixed) = self.matrix_row_address(rows, instruction);
        let outputs: Vec<String> = (0..rows.registers_per_instruction).map(|i| format!("${i}")).collect();
        let text = format!(
            "ldmatrix.{} {{{}}}, [${}+{fixed}];",
            read.kind.name(rows.registers_per_instruction),
            outputs.join(", "),
            rows.registers_per_instruction
        );
        let constraints = format!("{}r", "=r,".repeat(rows.registers_per_instruction));
        let words = ir.asm_many(&vec![ir.i32().into(); rows.registers_per_instruction], &text, &constraints, &[at.into()], true);
        match (rows.pair_bit, read.kind) {
            (Some(bit), MatrixKind::Bytes) => {
                // An instruction returns both halves of one matrix before the halves of the next matrix.
                let in_tile_order = |number: usize| {
                    let [half, matrix] = split_word_number(number, bit);
                    words[2 * matrix + half]
                };
                (0..words.len()).map(in_tile_order).collect()
            }
            (Some(bit), _) => self.regroup_byte_pairs(&words, bit),
            (None, _) => words,
        }
    }

    /// Regroups the bytes of transposed 8-bit matrices. Each source word has two rows of two columns, with one byte pair per row.
    /// The lowest bit of the source word's number selects the rows. Each result word has four rows of one column.
    fn regroup_byte_pairs(&self, words: &[Val<'c>], pair_bit: usize) -> Vec<Val<'c>> {
        /// The `prmt` selectors of the lower and the higher byte of each pair.
        const BYTE_SELECTORS: [u32; 2] = [0x6420, 0x7531];
        let result_word = |number: usize| {
            let [column, word_pair] = split_word_number(number, pair_bit);
            let args = [words[2 * word_pair], words[2 * word_pair + 1], self.ir.const32(BYTE_SELECTORS[column]).into()];
            self.ir.intrinsic_value("llvm.nvvm.prmt", &[], &args)
        };
        (0..words.len()).map(result_word).collect()
    }
}

impl MatrixKind {
    /// The part of the PTX name after `ldmatrix.` or `stmatrix.`, for an instruction with `count` registers per lane.
    fn name(self, count: usize) -> String {
        match self {
            MatrixKind::Halfwords { trans } => {
                format!("sync.aligned.m8n8.x{count}{}.shared.b16", if trans { ".trans" } else { "" })
            }
            MatrixKind::Bytes => format!("sync.aligned.m16n16.x{}.trans.shared.b8", count / 2),
        }
    }
}

/// Splits the number of one of up to four words into its two bits. The first result is bit `pair_bit - 2`, which selects the column
/// or the half of a row. The second result is the other bit.
fn split_word_number(number: usize, pair_bit: usize) -> [usize; 2] {
    [number >> (pair_bit - 2) & 1, number >> (3 - pair_bit) & 1]
}

/// Returns the number of elements of a 32-bit word.
fn elements_per_32_bit_word(elem: Elem) -> usize {
    (4 / elem.bytes()) as usize
}
