//! MMAs of warps (`mma.sync`): the atom for types and extents on a target, and the layouts of its fragments.

use crate::Layout;
use base::Target;
use numerics::Scalar;

pub use super::table::{Bit, Fragment, SYNC_ATOMS, SyncAtom};
use Bit::{Col, Row};

/// The first atom of the table for an MMA without scales, which is the fastest one. `None` if the target has no such atom, or if
/// the MMA does not divide into atoms.
pub fn sync_atom(target: Target, operand: Scalar, acc: Scalar, extents: [u32; 3]) -> Option<&'static SyncAtom> {
    SYNC_ATOMS.iter().find(|atom| atom.scales == 0 && atom.acc == acc && atom.supports(target, operand, extents))
}

/// The atom for an MMA whose operands have a scale of type `scale` for each `block` elements along K, if there is one.
pub fn scaled_atom(target: Target, operand: Scalar, scale: Scalar, block: u32, extents: [u32; 3]) -> Option<&'static SyncAtom> {
    // Scales of type `F8E4M3FN`, which have a mantissa, need an atom with four scales.
    let has_scale = |atom: &SyncAtom| scale == Scalar::F8E8M0FNU || scale == Scalar::F8E4M3FN && atom.scales == 4;
    SYNC_ATOMS.iter().find(|atom| atom.scales * block == atom.k && has_scale(atom) && atom.supports(target, operand, extents))
}

/// The atom with a name in `.as`.
pub fn sync_atom_named(name: &str) -> Option<&'static SyncAtom> {
    SYNC_ATOMS.iter().find(|atom| atom.name == name)
}

/// An operand of an MMA: A, B, or the accumulator C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The left operand.
    A,
    /// The right operand.
    B,
    /// The accumulator.
    C,
}

/// The division of an MMA among the warps of a CTA (Triton: `warpsPerCTA`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarpsPerDim {
    /// Log2 of the number of warps that divide the rows.
    pub m_bits: u32,
    /// Log2 of the number of warps that divide the columns.
    pub n_bits: u32,
    /// Log2 of the number of warps that divide the batch.
    pub batch_bits: u32,
    /// Whether neighbouring rows go to different halves of each group of sixteen rows. Row `2 i` of the tile is then row `i` of the
    /// atom, and row `2 i + 1` is row `i + 8`. A lane therefore holds neighbouring rows. Reason: a transposing `ldmatrix` moves
    /// pairs of bytes, so it delivers neighbouring one-byte operands to one lane.
    pub interleaved_m: bool,
    /// Whether neighbouring columns go to different atoms, in the same way as rows with `interleaved_m`.
    pub interleaved_n: bool,
}

/// Number of consecutive rows or columns that one interleaving permutes: the rows of one atom, or the columns of two atoms.
const INTERLEAVED_LINES: u32 = 16;

/// The row or column bit of the tile that the row or column bit `bit` of the atom selects, with or without interleaving.
fn interleaved_bit(bit: u32, interleaved: bool) -> u32 {
    match bit {
        0..3 if interleaved => bit + 1,
        3 if interleaved => 0,
        _ => bit,
    }
}

impl SyncAtom {
    /// Returns whether the target has the instruction of the atom.
    pub fn is_available_on(&self, target: Target) -> bool {
        self.required_feature.is_none_or(|feature| target.has(feature))
    }

    /// Returns whether the atom can execute an MMA with operands of this type and these extents on the target.
    fn supports(&self, target: Target, operand: Scalar, extents: [u32; 3]) -> bool {
        self.operands.contains(&operand) && self.is_available_on(target) && self.divides(extents)
    }

    /// Returns whether an MMA of these extents divides into atoms of this kind. If an extent is smaller than the atom, the surplus
    /// lanes hold copies. Registers cannot hold copies, so only extents whose surplus is in lanes may be smaller.
    pub fn divides(&self, [m, n, k]: [u32; 3]) -> bool {
        // Rows from the eighth on, and neighbouring columns of accumulators, are in registers.
        let rows = m.is_multiple_of(self.m) || self.scales == 0 && self.m == 8 && m < 8;
        let columns = n.is_multiple_of(self.n) || self.scales == 0 && (2..8).contains(&n);
        rows && columns && k.is_multiple_of(self.k)
    }

    /// The fragment of an operand, and its rows and columns.
    fn fragment(&self, operand: Operand) -> (&'static Fragment, u32, u32) {
        match operand {
            Operand::A => (self.a, self.m, self.k),
            Operand::B => (self.b, self.k, self.n),
            Operand::C => (self.c, self.m, self.n),
        }
    }

    /// The number of elements of a fragment that each lane holds.
    pub fn elements_per_lane(&self, operand: Operand) -> u32 {
        1 << self.fragment(operand).0.register.len()
    }

    /// The layout of a full operand of extents `rows` x `cols` (times `batch`). The fragment's bits come first, then the warps'
    /// bits; the remaining bits select further registers. Warps that divide another extent hold copies.
    pub fn layout(&self, operand: Operand, batch: u32, rows: u32, cols: u32, warps_per_dim: WarpsPerDim, warp_bits: u32) -> Layout {
        let (fragment, atom_rows, atom_cols) = self.fragment(operand);
        let col_bits = cols.trailing_zeros();
        let row_bits = rows.trailing_zeros();
        let (has_m_rows, has_n_cols) = (operand != Operand::B, operand != Operand::A);
        let element = |bit: Bit| match bit {
            Row(i) if i >= row_bits => 0,
            Col(i) if i >= col_bits => 0,
            Row(i) => 1 << (col_bits + interleaved_bit(i, has_m_rows && warps_per_dim.interleaved_m)),
            Col(i) => 1 << interleaved_bit(i, has_n_cols && warps_per_dim.interleaved_n),
        };
        let mut register: Vec<u32> = fragment.register.iter().map(|bit| element(*bit)).collect();
        let lane = fragment.lane.iter().map(|bit| element(*bit)).collect();
        // For each extent, the bits that the fragment does not cover. The highest of these bits select the warp.
        let mut row: Vec<u32> = (atom_rows.trailing_zeros()..row_bits).map(|i| element(Row(i))).collect();
        let mut col: Vec<u32> = (atom_cols.trailing_zeros()..col_bits).map(|i| element(Col(i))).collect();
        let mut batches: Vec<u32> = (0..batch.trailing_zeros()).map(|i| 1 << (col_bits + row_bits + i)).collect();
        let mut warp = Vec::new();
        let mut assign_warps = |bits: &mut Vec<u32>, count: u32, divides: bool| {
            for _ in 0..count {
                warp.push(if divides { bits.pop().unwrap_or(0) } else { 0 });
            }
        };
        assign_warps(&mut row, warps_per_dim.m_bits, has_m_rows);
        assign_warps(&mut col, warps_per_dim.n_bits, has_n_cols);
        assign_warps(&mut batches, warps_per_dim.batch_bits, true);
        warp.resize(warp_bits as usize, 0);
        // One `ldmatrix` fills two fragments of B. Both are for the same step of K and adjacent columns. Reason: an MMA reads one
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
    pub fn scale_layout(
        &self,
        operand: Operand,
        batch: u32,
        lines: u32,
        blocks: u32,
        warps_per_dim: WarpsPerDim,
        warp_bits: u32,
    ) -> Layout {
        let [line_bits, block_bits] = [lines, blocks].map(u32::trailing_zeros);
        let (is_a, atom_scale_bits) = (operand == Operand::A, self.scales.trailing_zeros());
        let (line_shift, block_shift) = if is_a { (block_bits, 0) } else { (0, line_bits) };
        let interleaved = if is_a { warps_per_dim.interleaved_m } else { warps_per_dim.interleaved_n };
        let line = |i: u32| 1u32 << (line_shift + interleaved_bit(i, interleaved));
        let [m, n] = [self.m, self.n].map(u32::trailing_zeros);
        let mut lines: Vec<u32> = (if is_a { m } else { n }..line_bits).map(line).collect();
        let mut batches: Vec<u32> = (0..batch.trailing_zeros()).map(|i| 1 << (line_bits + block_bits + i)).collect();
        let mut warp = Vec::new();
        let divisions = [(warps_per_dim.m_bits, is_a), (warps_per_dim.n_bits, !is_a)];
        for (count, divides) in divisions {
            warp.extend((0..count).map(|_| if divides { lines.pop().unwrap_or(0) } else { 0 }));
        }
        warp.extend((0..warps_per_dim.batch_bits).map(|_| batches.pop().unwrap_or(0)));
        warp.resize(warp_bits as usize, 0);
        let mut blocks: Vec<u32> = (0..block_bits).map(|i| 1 << (block_shift + i)).collect();
        let further = blocks.split_off(atom_scale_bits as usize);
        let register = blocks.into_iter().chain(further).chain(lines).chain(batches).collect();
        let lane = vec![if is_a { line(3) } else { 0 }, 0, line(0), line(1), line(2)];
        Layout { register, lane, warp }
    }

    /// Divides the MMA among the warps so that each warp reads few rows of A and columns of B. The batch is divided first, then
    /// always the larger extent. `rows_first`: divide the rows before the columns, so that each warp has full rows of the result.
    pub fn split_among_warps(&self, batch: u32, m: u32, n: u32, warp_bits: u32, rows_first: bool) -> WarpsPerDim {
        let max_bits = [batch, m / self.m, n / self.n].map(|count| count.max(1).trailing_zeros());
        let mut warps_per_dim = WarpsPerDim { batch_bits: warp_bits.min(max_bits[0]), ..WarpsPerDim::default() };
        for _ in warps_per_dim.batch_bits..warp_bits {
            let has_more_rows = m >> warps_per_dim.m_bits >= n >> warps_per_dim.n_bits;
            let (can_m, can_n) = (warps_per_dim.m_bits < max_bits[1], warps_per_dim.n_bits < max_bits[2]);
            if can_m && (rows_first || has_more_rows || !can_n) {
                warps_per_dim.m_bits += 1;
            } else if can_n {
                warps_per_dim.n_bits += 1;
            }
        }
        warps_per_dim
    }

    /// Returns the division `warps_per_dim` with interleaved rows (`rows`) and columns (`columns`). An extent with fewer than
    /// sixteen lines per warp stays without interleaving.
    pub fn interleave(&self, warps_per_dim: WarpsPerDim, [m, n]: [u32; 2], rows: bool, columns: bool) -> WarpsPerDim {
        let is_enough = |lines: u32, bits: u32| lines >> bits >= INTERLEAVED_LINES;
        let (interleaved_m, interleaved_n) =
            (rows && is_enough(m, warps_per_dim.m_bits), columns && is_enough(n, warps_per_dim.n_bits));
        WarpsPerDim { interleaved_m, interleaved_n, ..warps_per_dim }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each layout must hold every element, also for extents smaller than the atom, a batch, and interleaved rows and columns.
    #[test]
    fn every_operand_layout_covers_its_tile() {
        for atom in SYNC_ATOMS {
            let mma_extents = [
                (1, 128, 128, 64),
                (1, 16, 8, 32),
                (4, 32, 16, 32),
                (1, 64, 256, 32),
                (1, 8, 64, 32),
                (2, 4, 4, 64),
                (1, 1, 2, 32),
            ];
            for (batch, m, n, k) in mma_extents.into_iter().filter(|(_, m, n, k)| atom.divides([*m, *n, *k])) {
                let plain = atom.split_among_warps(batch, m, n, 2, false);
                for warps_per_dim in [plain, atom.interleave(plain, [m, n], true, true)] {
                    if let Some(block) = atom.k.checked_div(atom.scales) {
                        let blocks = k / block;
                        for (operand, lines) in [(Operand::A, m), (Operand::B, n)] {
                            let layout = atom.scale_layout(operand, batch, lines, blocks, warps_per_dim, 2);
                            layout.covers((batch * lines * blocks).trailing_zeros()).unwrap();
                        }
                    }
                    for (operand, rows, cols) in [(Operand::A, m, k), (Operand::B, k, n), (Operand::C, m, n)] {
                        let layout = atom.layout(operand, batch, rows, cols, warps_per_dim, 2);
                        layout.covers((batch * rows * cols).trailing_zeros()).unwrap();
                    }
                }
            }
        }
    }

    /// Checks three elements against the tables of the PTX ISA, for m16n8k16 with 16-bit operands: a1 and a6 of lane 5, b2 of lane
    /// 9.
    #[test]
    fn fragment_elements_match_the_ptx_isa() {
        let atom = sync_atom_named("mma.m16n8k16.f32").unwrap();
        let warps_per_dim = WarpsPerDim::default();
        let a = atom.layout(Operand::A, 1, 16, 16, warps_per_dim, 0);
        // group = lane / 4, thread = lane % 4; a1 is (group, 2 * thread + 1), a6 is (group + 8, 2 * thread + 8).
        assert_eq!(a.element(1, 5, 0), 16 + 3);
        assert_eq!(a.element(6, 5, 0), 9 * 16 + 10);
        let b = atom.layout(Operand::B, 1, 16, 8, warps_per_dim, 0);
        // b2 is (2 * thread + 8, group).
        assert_eq!(b.element(2, 9, 0), 10 * 8 + 2);
    }
}
