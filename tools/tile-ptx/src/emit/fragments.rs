//! MMA fragments through `ldmatrix` and `stmatrix`.
//!
//! A load with `per_k_step` is emitted at the MMA, one K step at a time, instead of at its own position. So only a few fragments
//! are in registers at a time.

use super::Emitter;
use crate::ir::Val;
use base::{Op as OpId, Value};
use core_dialect::tile::Elem;
use inkwell::values::IntValue;
use std::collections::BTreeMap;
use tileas::{Buffer, CopyAtom, Layout};

/// The kind of matrices that an `ldmatrix` or `stmatrix` instruction moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Eight rows of eight 16-bit elements, or of other elements with the same fragment layout.
    Halfwords { trans: bool },
    /// Sixteen rows of sixteen bytes, transposed.
    Bytes,
}

/// The shared-memory positions of a tile's matrices. Lane `8 j + i` (`16 j + i` for byte matrices) gives the address of row `i`
/// of matrix `j`.
struct MatrixRows<'c> {
    /// Number of registers of one instruction.
    count: usize,
    /// With transposed 8-bit elements, the register bit that selects a byte of a pair (see [`Emitter::regroup_byte_pairs`]). With
    /// `Shape::Bytes`, the bit that selects a half of a row. `None` otherwise.
    pair: Option<usize>,
    /// The layout of row addresses over lanes. A register of this layout is one instruction.
    addresses: Layout,
    buffer: Buffer,
    /// The address of the stage.
    start: IntValue<'c>,
    /// The thread's part of the offset, in elements.
    thread_offset: IntValue<'c>,
    /// Row addresses that have been computed, by the offset bits that the instruction changes.
    row_addresses: BTreeMap<u32, IntValue<'c>>,
    elem: Elem,
}

/// A tile load that is emitted one K step at a time.
pub(crate) struct MatrixRead<'c> {
    rows: MatrixRows<'c>,
    shape: Shape,
    /// The words that each instruction returned, for the instructions emitted so far.
    loaded: BTreeMap<usize, Vec<Val<'c>>>,
}

impl<'c> Emitter<'c, '_> {
    /// `ldmatrix`: each lane gets one 32-bit word of every matrix.
    pub(super) fn matrix_load(&mut self, buffer: Buffer, shape: Shape, per_k_step: bool, result: Value) {
        let (elem, registers) = (self.elem(result), self.layout(result).registers());
        let mut read = self.matrix_read(result, buffer, shape);
        if per_k_step {
            self.use_prefetched_words(result, &mut read);
            self.deferred.insert(result, read);
            return;
        }
        let words = self.words_of(&mut read, 0, registers / elements_of_word(elem));
        let registers = words.into_iter().flat_map(|word| self.ir.unpack_word(word, elem)).collect();
        self.set(result, registers);
    }

    fn matrix_read(&self, result: Value, buffer: Buffer, shape: Shape) -> MatrixRead<'c> {
        let rows = self.matrix_rows(result, buffer, shape);
        let shape = match shape {
            Shape::Halfwords { trans } => Shape::Halfwords { trans: trans != common::fault_injected("ptx.matrix") },
            Shape::Bytes => shape,
        };
        MatrixRead { rows, shape, loaded: BTreeMap::new() }
    }

    /// The state of a load that is emitted one K step at a time.
    pub(super) fn read_per_k_step(&mut self, load: OpId) -> MatrixRead<'c> {
        let sched::Op::Core(tileas::Op::SharedLoad { buffer, atom, .. }) = &self.function.body.ops[load].kind else {
            unreachable!("only loads are emitted per K step")
        };
        let shape = match atom {
            CopyAtom::Matrix { trans } => Shape::Halfwords { trans: *trans },
            _ => Shape::Bytes,
        };
        self.enter_stages(&[load]);
        self.matrix_read(self.function.body.result(load), *buffer, shape)
    }

    /// Emits some `ldmatrix` instructions early. Returns their addresses, then their results; the next iteration reuses both.
    pub(super) fn load_early(&self, read: &MatrixRead<'c>, groups: &[usize]) -> Vec<Val<'c>> {
        let mut words: Vec<Val<'c>> = vec![read.rows.start.into()];
        words.extend(self.row_changes(read, groups).into_values().map(|group| Val::from(self.row_address(&read.rows, group).0)));
        words.extend(groups.iter().flat_map(|group| self.load_group(read, *group)));
        words
    }

    /// Takes the addresses and results that the previous iteration prefetched.
    pub(super) fn restore_prefetched(
        &self,
        read: &mut MatrixRead<'c>,
        groups: &[usize],
        words: &mut impl Iterator<Item = Val<'c>>,
    ) {
        let changes = self.row_changes(read, groups).into_keys();
        let mut address = || words.next().expect("addresses come first").into_int_value();
        read.rows.start = address();
        read.rows.row_addresses = changes.map(|changes| (changes, address())).collect();
        for group in groups {
            read.loaded.insert(*group, words.by_ref().take(read.rows.count).collect());
        }
    }

    /// The offset bits that the instructions change, each with the first instruction that changes them.
    fn row_changes(&self, read: &MatrixRead<'c>, groups: &[usize]) -> BTreeMap<u32, usize> {
        let changes = |group: &usize| self.register_part(&read.rows.addresses, read.rows.buffer, *group).0;
        groups.iter().rev().map(|group| (changes(group), *group)).collect()
    }

    /// The instructions that load `count` registers from `first` on.
    pub(super) fn instructions_of(&self, read: &MatrixRead<'c>, first: usize, count: usize) -> std::ops::RangeInclusive<usize> {
        let each = elements_of_word(read.rows.elem) * read.rows.count;
        first / each..=(first + count - 1) / each
    }

    /// `stmatrix`: each lane gives one 32-bit word of every matrix.
    pub(super) fn matrix_store(&mut self, x: Value, buffer: Buffer, trans: bool) {
        let shape = Shape::Halfwords { trans };
        let (rows, words) = (self.matrix_rows(x, buffer, shape), self.ir.words(self.get(x)));
        for (group, words) in words.chunks(rows.count).enumerate() {
            let (at, fixed) = self.row_address(&rows, group);
            let inputs: Vec<String> = (1..=rows.count).map(|i| format!("${i}")).collect();
            let text = format!("stmatrix.{} [$0+{fixed}], {{{}}};", shape.name(rows.count), inputs.join(", "));
            let args: Vec<Val<'c>> = std::iter::once(at.into()).chain(words.iter().copied()).collect();
            self.ir.asm(None, &text, &vec!["r"; args.len()].join(","), &args, true);
        }
    }

    fn matrix_rows(&self, tile: Value, buffer: Buffer, shape: Shape) -> MatrixRows<'c> {
        let layout = self.layout(tile);
        let info = &self.function.attrs.program.buffers[buffer];
        let (matrices, most, registers) = match shape {
            Shape::Halfwords { trans } => (info.matrices(&layout, trans), 2, 1),
            Shape::Bytes => (info.byte_matrices(&layout), 1, 2),
        };
        let matrices = matrices.expect("the verifier checks that the atom fits");
        let matrix_bits = matrices.others.len().min(most);
        // The row addresses have their own layout: the lowest lane bits select the row, the next ones the matrix.
        let (in_instruction, between_instructions) = matrices.others.split_at(matrix_bits);
        let mut lane: Vec<u32> = matrices.rows.iter().chain(in_instruction).copied().collect();
        lane.resize(tileas::layout::LANE_BITS, 0);
        let addresses = Layout { register: between_instructions.to_vec(), lane, warp: layout.warp.clone() };
        let (start, thread_offset) = (self.buffer_start(buffer), self.shared_thread_offset(&addresses, buffer));
        MatrixRows {
            count: registers << matrix_bits,
            pair: matrices.pair,
            addresses,
            buffer,
            start,
            thread_offset,
            row_addresses: BTreeMap::new(),
            elem: self.elem(tile),
        }
    }

    /// The row address of a lane for an instruction, and a constant offset to add.
    fn row_address(&self, rows: &MatrixRows<'c>, group: usize) -> (IntValue<'c>, u32) {
        let ir = self.ir;
        let (changes, adds) = self.register_part(&rows.addresses, rows.buffer, group);
        let bytes = rows.elem.bytes();
        let own = || ir.mul(ir.xor(rows.thread_offset, ir.const32(changes)), ir.const32(bytes));
        let at = rows.row_addresses.get(&changes).copied().unwrap_or_else(|| ir.add(own(), rows.start));
        (at, adds * bytes + self.function.attrs.placements[rows.buffer].offset)
    }

    /// `count` registers of a tile from `first` on, as words. Loads them if the tile is loaded one K step at a time.
    pub(super) fn fragment(&mut self, value: Value, first: usize, count: usize) -> Vec<Val<'c>> {
        let Some(mut read) = self.deferred.remove(&value) else { return self.ir.words(&self.get(value)[first..first + count]) };
        let each = elements_of_word(read.rows.elem);
        let words = self.words_of(&mut read, first / each, count / each);
        self.deferred.insert(value, read);
        words
    }

    fn words_of(&self, read: &mut MatrixRead<'c>, first: usize, count: usize) -> Vec<Val<'c>> {
        let each = read.rows.count;
        let mut words = Vec::with_capacity(count);
        while words.len() < count {
            let at = first + words.len();
            let group = at / each;
            let all = match read.loaded.get(&group) {
                Some(all) => all.clone(),
                None => {
                    let all = self.load_group(read, group);
                    read.loaded.insert(group, all.clone());
                    all
                }
            };
            words.extend(all.into_iter().skip(at % each));
        }
        words.truncate(count);
        words
    }

    fn load_group(&self, read: &MatrixRead<'c>, group: usize) -> Vec<Val<'c>> {
        let (ir, rows) = (self.ir, &read.rows);
        let (at, fixed) = self.row_address(rows, group);
        let outputs: Vec<String> = (0..rows.count).map(|i| format!("${i}")).collect();
        let text = format!("ldmatrix.{} {{{}}}, [${}+{fixed}];", read.shape.name(rows.count), outputs.join(", "), rows.count);
        let constraints = format!("{}r", "=r,".repeat(rows.count));
        let words = ir.asm_many(&vec![ir.i32().into(); rows.count], &text, &constraints, &[at.into()], true);
        match (rows.pair, read.shape) {
            (Some(bit), Shape::Bytes) => {
                // An instruction returns both halves of one matrix before the halves of the next matrix.
                let in_tile_order = |number: usize| {
                    let [half, matrix] = numbers(number, bit);
                    words[2 * matrix + half]
                };
                (0..words.len()).map(in_tile_order).collect()
            }
            (Some(bit), _) => self.regroup_byte_pairs(&words, bit),
            (None, _) => words,
        }
    }

    /// Regroups bytes. Each source word has two rows of two columns (a byte pair per row). Each result word has four rows of one
    /// column. The lowest bit of a source word's number selects the rows.
    fn regroup_byte_pairs(&self, words: &[Val<'c>], pair: usize) -> Vec<Val<'c>> {
        /// The `prmt` selectors of the lower and the higher byte of each pair.
        const SELECT: [u32; 2] = [0x6420, 0x7531];
        let result = |number: usize| {
            let [column, word_pair] = numbers(number, pair);
            let args = [words[2 * word_pair], words[2 * word_pair + 1], self.ir.const32(SELECT[column]).into()];
            self.ir.intrinsic_value("llvm.nvvm.prmt", &[], &args)
        };
        (0..words.len()).map(result).collect()
    }
}

impl Shape {
    /// The common part of the `ldmatrix` and `stmatrix` names, for `count` registers.
    fn name(self, count: usize) -> String {
        match self {
            Shape::Halfwords { trans } => format!("sync.aligned.m8n8.x{count}{}.shared.b16", if trans { ".trans" } else { "" }),
            Shape::Bytes => format!("sync.aligned.m16n16.x{}.trans.shared.b8", count / 2),
        }
    }
}

/// Splits the number of one of up to four words. Bit `pair - 2` is the first result and selects the column or half. The other bit
/// is the second result.
fn numbers(number: usize, pair: usize) -> [usize; 2] {
    [number >> (pair - 2) & 1, number >> (3 - pair) & 1]
}

fn elements_of_word(elem: Elem) -> usize {
    (4 / elem.bytes()) as usize
}
