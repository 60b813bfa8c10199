//! Fragments of products through `ldmatrix`.
//!
//! A load in pieces is not made where it stands but as the product gets to each, which keeps few fragments in registers at a time.

use super::Emitter;
use crate::ir::Val;
use base::Value;
use inkwell::values::IntValue;
use std::collections::BTreeMap;
use tileas::{Buffer, Layout};
use vocabulary::tile::Elem;

/// How the registers of a tile are read from a buffer.
pub(crate) struct MatrixRead<'c> {
    text: String,
    /// Matrices of one instruction.
    count: usize,
    /// The register bit of pairs of bytes, for [`Emitter::pairs_apart`].
    pair: Option<usize>,
    /// Which rows the lanes point at; its registers are instructions.
    addresses: Layout,
    buffer: Buffer,
    /// The slot's address, and the thread's part of the offset, in elements.
    start: IntValue<'c>,
    place: IntValue<'c>,
    elem: Elem,
    loaded: BTreeMap<usize, Vec<Val<'c>>>,
}

impl<'c> Emitter<'c, '_> {
    /// `ldmatrix`: lane `8 j + i` gives the address of row `i` of matrix `j`; each lane gets one 32-bit word of every matrix.
    pub(super) fn matrix_load(&mut self, buffer: Buffer, trans: bool, in_pieces: bool, result: Value) {
        let (elem, layout) = (self.elem(result), self.layout(result));
        let info = &self.function.attrs.program.buffers[buffer];
        let matrices = info.matrices(&layout, trans).expect("the verifier holds that the atom fits");
        let matrix_bits = matrices.others.len().min(2);
        // The addresses follow a layout of their own: lanes are rows, then matrices.
        let (together, after) = matrices.others.split_at(matrix_bits);
        let mut lane: Vec<u32> = matrices.rows.iter().chain(together).copied().collect();
        lane.resize(tileas::layout::LANE_BITS, 0);
        let addresses = Layout { register: after.to_vec(), lane, warp: layout.warp.clone() };
        let count = 1usize << matrix_bits;
        let text = format!(
            "ldmatrix.sync.aligned.m8n8.x{count}{}.shared.b16",
            if trans != common::planted("ptx.matrix") { ".trans" } else { "" }
        );
        let (start, place) = (self.buffer_start(buffer), self.shared_place(&addresses, buffer));
        let pair = matrices.pair;
        let mut read = MatrixRead { text, count, pair, addresses, buffer, start, place, elem, loaded: BTreeMap::new() };
        if in_pieces {
            self.deferred.insert(result, read);
            return;
        }
        let words = self.words_of(&mut read, 0, layout.registers() / elements_of_word(elem));
        let registers = words.into_iter().flat_map(|word| self.unpack_word(word, elem)).collect();
        self.set(result, registers);
    }

    /// Registers of a tile that is read piece by piece, or is in registers, in words.
    pub(super) fn fragment(&mut self, value: Value, first: usize, count: usize) -> Vec<Val<'c>> {
        let Some(mut read) = self.deferred.remove(&value) else { return self.words(&self.get(value)[first..first + count]) };
        let each = elements_of_word(read.elem);
        let words = self.words_of(&mut read, first / each, count / each);
        self.deferred.insert(value, read);
        words
    }

    fn words_of(&self, read: &mut MatrixRead<'c>, first: usize, count: usize) -> Vec<Val<'c>> {
        let each = read.count;
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
        let ir = self.ir;
        let (changes, adds) = self.register_part(&read.addresses, read.buffer, group);
        let bytes = read.elem.bytes();
        let own = ir.mul(ir.xor(read.place, ir.const32(changes)), ir.const32(bytes));
        let at = ir.add(own, read.start);
        let fixed = adds * bytes + self.function.attrs.placements[read.buffer].offset;
        let outputs: Vec<String> = (0..read.count).map(|i| format!("${i}")).collect();
        let text = format!("{} {{{}}}, [${}+{fixed}];", read.text, outputs.join(", "), read.count);
        let constraints = format!("{}r", "=r,".repeat(read.count));
        let words = ir.asm_many(&vec![ir.i32().into(); read.count], &text, &constraints, &[at.into()], true);
        match read.pair {
            Some(bit) => self.pairs_apart(&words, bit),
            None => words,
        }
    }

    /// Words whose bytes are from four rows, of words that hold two rows of a pair of columns each. The lowest bit of a given
    /// word's number tells the rows apart. Of the number of a result, bit `pair - 2` tells the columns apart, the other is that
    /// of further words.
    fn pairs_apart(&self, words: &[Val<'c>], pair: usize) -> Vec<Val<'c>> {
        /// The lower byte of each pair, and the higher one, as `prmt` selects them.
        const SELECT: [u32; 2] = [0x6420, 0x7531];
        let result = |number: usize| {
            let column = number >> (pair - 2) & 1;
            let further = number >> (3 - pair) & 1;
            let args = [words[2 * further], words[2 * further + 1], self.ir.const32(SELECT[column]).into()];
            self.ir.intrinsic_value("llvm.nvvm.prmt", &[], &args)
        };
        (0..words.len()).map(result).collect()
    }
}

fn elements_of_word(elem: Elem) -> usize {
    (4 / elem.bytes()) as usize
}
