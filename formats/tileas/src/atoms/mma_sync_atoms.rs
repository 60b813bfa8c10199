//! MMAs of warps (`mma.sync`): the atom for types and extents on a target, and the layouts of its fragments.

use crate::Layout;
use base::Target;
use numerics::Scalar;

pub use super::table::{Bit, Fragment, SYNC_ATOMS, SyncAtom};
use Bit::{Col, Row};

/// The atom for an MMA of these types and extents on a target; none if the MMA does not divide into atoms.
pub fn sync_atom(target: Target, operand: Scalar, acc: Scalar, extents: [u32; 3]) -> Option<&'static SyncAtom> {
    SYNC_ATOMS.iter().find(|atom| atom.scales == 0 && atom.acc == acc && atom.supports(target, operand, extents))
}

/// The atom for an MMA whose operands have a scale of type `scale` for each `block` elements along K.
pub fn scaled_atom(target: Target, operand: Scalar, scale: Scalar, block: u32, extents: [u32; 3]) -> Option<&'static SyncAtom> {
    // Scales with a fraction need an atom with four scales.
    let has_scale = |atom: &SyncAtom| scale == Scalar::F8E8M0FNU || scale == Scalar::F8E4M3FN && atom.scales == 4;
    SYNC_ATOMS.iter().find(|atom| atom.scales * block == atom.k && has_scale(atom) && atom.supports(target, operand, extents))
}

pub fn named(name: &str) -> Option<&'static SyncAtom> {
    SYNC_ATOMS.iter().find(|atom| atom.name == name)
}

/// The operand of an MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    A,
    B,
    C,
}

/// The assignment of warps to an MMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// Log2 of the warps that divide the rows, the columns and the batch.
    pub m_bits: u32,
    pub n_bits: u32,
    pub batch_bits: u32,
    /// Whether neighbouring rows or columns, of each sixteen, go to different groups of eight. Row `2 i` is the atom's row `i`, and
    /// row `2 i + 1` its row `i + 8`. Columns go to two atoms in the same way. A lane then holds neighbours, as a transposing
    /// `ldmatrix` delivers one-byte operands: it moves pairs of them.
    pub interleaved_m: bool,
    pub interleaved_n: bool,
}

/// Rows or columns that are interleaved together.
const INTERLEAVED: u32 = 16;

/// The number of the tile's row or column bit to which a row or column bit of the atom corresponds.
fn interleaved_bit(bit: u32, interleaved: bool) -> u32 {
    match bit {
        0..3 if interleaved => bit + 1,
        3 if interleaved => 0,
        _ => bit,
    }
}

impl SyncAtom {
    pub fn is_on(&self, target: Target) -> bool {
        self.needs.is_none_or(|feature| target.has(feature))
    }

    fn supports(&self, target: Target, operand: Scalar, extents: [u32; 3]) -> bool {
        self.operands.contains(&operand) && self.is_on(target) && self.divides(extents)
    }

    /// Returns whether an MMA of these extents divides into such atoms. If an extent is smaller than the atom, the surplus lanes
    /// hold copies. Registers cannot hold copies.
    pub fn divides(&self, [m, n, k]: [u32; 3]) -> bool {
        // Rows from the eighth on, and neighbouring columns of accumulators, are in registers.
        let rows = m.is_multiple_of(self.m) || self.scales == 0 && self.m == 8 && m < 8;
        let columns = n.is_multiple_of(self.n) || self.scales == 0 && (2..8).contains(&n);
        rows && columns && k.is_multiple_of(self.k)
    }

    fn fragment(&self, operand: Operand) -> (&'static Fragment, u32, u32) {
        match operand {
            Operand::A => (self.a, self.m, self.k),
            Operand::B => (self.b, self.k, self.n),
            Operand::C => (self.c, self.m, self.n),
        }
    }

    /// Elements of a fragment that each lane holds.
    pub fn registers(&self, operand: Operand) -> u32 {
        1 << self.fragment(operand).0.register.len()
    }

    /// The layout of a full operand of extents `rows` x `cols` (times `batch`). The fragment's bits come first, then the warps'
    /// bits; the remaining bits select further registers. Warps that divide another extent hold copies.
    pub fn layout(&self, operand: Operand, batch: u32, rows: u32, cols: u32, cover: Cover, warp_bits: u32) -> Layout {
        let (fragment, atom_rows, atom_cols) = self.fragment(operand);
        let col_bits = cols.trailing_zeros();
        let row_bits = rows.trailing_zeros();
        let (own_row, own_col) = (operand != Operand::B, operand != Operand::A);
        let element = |bit: Bit| match bit {
            Row(i) if i >= row_bits => 0,
            Col(i) if i >= col_bits => 0,
            Row(i) => 1 << (col_bits + interleaved_bit(i, own_row && cover.interleaved_m)),
            Col(i) => 1 << interleaved_bit(i, own_col && cover.interleaved_n),
        };
        let mut register: Vec<u32> = fragment.register.iter().map(|bit| element(*bit)).collect();
        let lane = fragment.lane.iter().map(|bit| element(*bit)).collect();
        // The bits beyond the fragment, of each extent; warps take the highest.
        let mut row: Vec<u32> = (atom_rows.trailing_zeros()..row_bits).map(|i| element(Row(i))).collect();
        let mut col: Vec<u32> = (atom_cols.trailing_zeros()..col_bits).map(|i| element(Col(i))).collect();
        let mut batches: Vec<u32> = (0..batch.trailing_zeros()).map(|i| 1 << (col_bits + row_bits + i)).collect();
        let mut warp = Vec::new();
        let mut assign_warps = |bits: &mut Vec<u32>, count: u32, own: bool| {
            for _ in 0..count {
                warp.push(if own { bits.pop().unwrap_or(0) } else { 0 });
            }
        };
        assign_warps(&mut row, cover.m_bits, own_row);
        assign_warps(&mut col, cover.n_bits, own_col);
        assign_warps(&mut batches, cover.batch_bits, true);
        warp.resize(warp_bits as usize, 0);
        // K changes last among the registers that one `ldmatrix` fills: a fragment of B is half of them. Reason: an MMA reads one
        // step of K at a time.
        if operand == Operand::B && !col.is_empty() {
            register.push(col.remove(0));
        }
        let (first, second) = if operand == Operand::A { (col, row) } else { (row, col) };
        register.extend(first.into_iter().chain(second).chain(batches));
        Layout { register, lane, warp }
    }

    /// The layout of an operand's scales: `blocks` along K for each of `lines` rows of A or columns of B. The lowest registers hold
    /// the scales of one atom. Of the four lanes that hold a row of a fragment, the first lane supplies the scales of this row. For
    /// A, the second lane supplies the scales of the row eight rows further down.
    pub fn scale_layout(&self, operand: Operand, batch: u32, lines: u32, blocks: u32, cover: Cover, warp_bits: u32) -> Layout {
        let [line_bits, block_bits] = [lines, blocks].map(u32::trailing_zeros);
        let (of_a, low) = (operand == Operand::A, self.scales.trailing_zeros());
        let (line_at, block_at) = if of_a { (block_bits, 0) } else { (0, line_bits) };
        let interleaved = if of_a { cover.interleaved_m } else { cover.interleaved_n };
        let line = |i: u32| 1u32 << (line_at + interleaved_bit(i, interleaved));
        let [m, n] = [self.m, self.n].map(u32::trailing_zeros);
        let mut lines: Vec<u32> = (if of_a { m } else { n }..line_bits).map(line).collect();
        let mut batches: Vec<u32> = (0..batch.trailing_zeros()).map(|i| 1 << (line_bits + block_bits + i)).collect();
        let mut warp = Vec::new();
        let shares = [(cover.m_bits, of_a), (cover.n_bits, !of_a)];
        for (count, own) in shares {
            warp.extend((0..count).map(|_| if own { lines.pop().unwrap_or(0) } else { 0 }));
        }
        warp.extend((0..cover.batch_bits).map(|_| batches.pop().unwrap_or(0)));
        warp.resize(warp_bits as usize, 0);
        let mut blocks: Vec<u32> = (0..block_bits).map(|i| 1 << (block_at + i)).collect();
        let further = blocks.split_off(low as usize);
        let register = blocks.into_iter().chain(further).chain(lines).chain(batches).collect();
        let lane = vec![if of_a { line(3) } else { 0 }, 0, line(0), line(1), line(2)];
        Layout { register, lane, warp }
    }

    /// Divides the MMA among the warps so that each warp reads the fewest rows of A and columns of B. `rows`: divide the rows
    /// first, so that each warp has full rows of the result.
    pub fn cover(&self, batch: u32, m: u32, n: u32, warp_bits: u32, rows: bool) -> Cover {
        let most = [batch, m / self.m, n / self.n].map(|count| count.max(1).trailing_zeros());
        let mut cover = Cover { batch_bits: warp_bits.min(most[0]), ..Cover::default() };
        for _ in cover.batch_bits..warp_bits {
            let more_rows = m >> cover.m_bits >= n >> cover.n_bits;
            let (can_m, can_n) = (cover.m_bits < most[1], cover.n_bits < most[2]);
            if can_m && (rows || more_rows || !can_n) {
                cover.m_bits += 1;
            } else if can_n {
                cover.n_bits += 1;
            }
        }
        cover
    }

    /// The same assignment with interleaved rows or columns, if a warp has enough of them.
    pub fn interleave(&self, cover: Cover, [m, n]: [u32; 2], rows: bool, columns: bool) -> Cover {
        let enough = |lines: u32, bits: u32| lines >> bits >= INTERLEAVED;
        let (interleaved_m, interleaved_n) = (rows && enough(m, cover.m_bits), columns && enough(n, cover.n_bits));
        Cover { interleaved_m, interleaved_n, ..cover }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand_layout_covers_its_tile() {
        for atom in SYNC_ATOMS {
            let all = [
                (1, 128, 128, 64),
                (1, 16, 8, 32),
                (4, 32, 16, 32),
                (1, 64, 256, 32),
                (1, 8, 64, 32),
                (2, 4, 4, 64),
                (1, 1, 2, 32),
            ];
            for (batch, m, n, k) in all.into_iter().filter(|(_, m, n, k)| atom.divides([*m, *n, *k])) {
                let plain = atom.cover(batch, m, n, 2, false);
                for cover in [plain, atom.interleave(plain, [m, n], true, true)] {
                    if let Some(block) = atom.k.checked_div(atom.scales) {
                        let blocks = k / block;
                        for (operand, lines) in [(Operand::A, m), (Operand::B, n)] {
                            let layout = atom.scale_layout(operand, batch, lines, blocks, cover, 2);
                            layout.covers((batch * lines * blocks).trailing_zeros()).unwrap();
                        }
                    }
                    for (operand, rows, cols) in [(Operand::A, m, k), (Operand::B, k, n), (Operand::C, m, n)] {
                        let layout = atom.layout(operand, batch, rows, cols, cover, 2);
                        layout.covers((batch * rows * cols).trailing_zeros()).unwrap();
                    }
                }
            }
        }
    }

    /// Spot checks against the tables of the PTX ISA: m16n8k16 with 16-bit operands, a1 and a6 of lane 5, b2 of lane 9.
    #[test]
    fn fragments_are_those_of_the_isa() {
        let atom = named("mma.m16n8k16.f32").unwrap();
        let cover = Cover::default();
        let a = atom.layout(Operand::A, 1, 16, 16, cover, 0);
        // group = lane / 4, thread = lane % 4; a1 is (group, 2 * thread + 1), a6 is (group + 8, 2 * thread + 8).
        assert_eq!(a.element(1, 5, 0), 16 + 3);
        assert_eq!(a.element(6, 5, 0), 9 * 16 + 10);
        let b = atom.layout(Operand::B, 1, 16, 8, cover, 0);
        // b2 is (2 * thread + 8, group).
        assert_eq!(b.element(2, 9, 0), 10 * 8 + 2);
    }
}
