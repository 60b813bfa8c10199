//! Whether an atom fits a layout and a buffer. Vectors must be contiguous in both. `ldmatrix` and `stmatrix` need rows of 16 bytes.

use crate::layout::{Layout, solve};
use crate::{BufferInfo, CopyAtom};

/// Bytes of a row of an `ldmatrix` matrix, which are also the maximum bytes of a vector access (PTX ISA).
const ROW_BYTES: u32 = 16;

impl BufferInfo {
    /// The byte offset of an element in the buffer. `None` if the buffer does not hold the element.
    fn byte_offset(&self, element: u32) -> Option<u32> {
        solve(&self.offset_bases, element).map(|offset| offset as u32 * self.elem.bytes())
    }

    /// Returns whether the lowest `1 << vector_bits` registers of each thread hold an aligned vector of the buffer. The elements of
    /// an aligned vector are adjacent in the buffer, and the vector starts at a multiple of its size.
    pub fn has_vectors(&self, layout: &Layout, vector_bits: u32) -> bool {
        let bytes = self.elem.bytes();
        if vector_bits as usize > layout.register.len() || u64::from(bytes) << vector_bits.min(32) > u64::from(ROW_BYTES.max(bytes))
        {
            return false;
        }
        let (vector, rest) = layout.register.split_at(vector_bits as usize);
        let starts = rest.iter().chain(&layout.lane).chain(&layout.warp);
        vector.iter().enumerate().all(|(bit, basis)| self.byte_offset(*basis) == Some(bytes << bit))
            && starts
                .into_iter()
                .all(|basis| self.byte_offset(*basis).is_some_and(|offset| offset.is_multiple_of(bytes << vector_bits)))
    }

    /// The `ldmatrix` atom that loads the buffer into this layout. `None` if the instruction does not deliver this layout, or if a
    /// matrix row of 16 bytes is not contiguous in the buffer.
    pub fn ldmatrix_atom(&self, layout: &Layout) -> Option<CopyAtom> {
        let trans = [false, true].into_iter().find(|trans| self.matrices(layout, *trans).is_some())?;
        Some(CopyAtom::Matrix { trans })
    }

    /// The `stmatrix` atom that stores this layout to the buffer. `None` if `ldmatrix` could not read the same data back, if
    /// several warps hold copies, or if bytes are transposed in pairs.
    pub fn stmatrix_atom(&self, layout: &Layout) -> Option<CopyAtom> {
        let warps_differ = layout.warp.iter().all(|basis| self.byte_offset(*basis) != Some(0));
        let has_no_pairs = |trans: &bool| self.matrices(layout, *trans).is_some_and(|matrices| matrices.pair_bit.is_none());
        let trans = [false, true].into_iter().find(has_no_pairs).filter(|_| warps_differ)?;
        Some(CopyAtom::Matrix { trans })
    }

    /// The role of each layout bit for an `ldmatrix` that loads the buffer into this layout. `None` if no `ldmatrix` can do so.
    pub fn matrices(&self, layout: &Layout, trans: bool) -> Option<Matrices> {
        let bytes = self.elem.bytes();
        if self.elem.bits() < 8 || bytes > if trans { 2 } else { 4 } {
            return None;
        }
        let mut words = layout.register.clone();
        let is_pair = |bit: &usize| layout.register.get(*bit).is_some_and(|basis| self.byte_offset(*basis) == Some(1));
        let pair = if trans && bytes == 1 { Some((2..4).find(is_pair)?) } else { None };
        pair.map(|bit| words.remove(bit));
        // Bytes that `ldmatrix` moves as one unit.
        let unit = if trans { 2 } else { bytes };
        let packed = (4 / unit).ilog2() as usize;
        let further_matrices = (words.len() >= packed).then(|| words.split_off(packed))?;
        let (columns, fragment_rows) = layout.lane.split_at(2);
        words.extend(columns);
        // With `trans`, the lanes that share a result column hold a row of memory.
        let (in_row, rows) = if trans { (fragment_rows.to_vec(), words) } else { (words, fragment_rows.to_vec()) };
        self.are_rows(&in_row, unit, [&rows, &further_matrices, &layout.warp]).then_some(Matrices {
            rows,
            further_matrices,
            pair_bit: pair,
        })
    }

    /// The role of each layout bit for an `ldmatrix` of bytes, which transposes. `None` if this instruction cannot load the buffer
    /// into this layout.
    pub fn byte_matrices(&self, layout: &Layout) -> Option<Matrices> {
        if self.elem.bits() != 8 || layout.lane.len() < 2 {
            return None;
        }
        let mut rows = layout.register.clone();
        let is_half = |bit: &usize| layout.register.get(*bit).is_some_and(|basis| self.byte_offset(*basis) == Some(ROW_BYTES / 2));
        let half = (2..4).find(is_half)?;
        let half_basis = rows.remove(half);
        let further_matrices = rows.split_off(2);
        let (columns, fragment_rows) = layout.lane.split_at(2);
        rows.extend(columns);
        let in_row: Vec<u32> = fragment_rows.iter().copied().chain([half_basis]).collect();
        let fits = self.are_rows(&in_row, 1, [&rows, &further_matrices, &layout.warp]);
        fits.then_some(Matrices { rows, further_matrices, pair_bit: Some(half) })
    }

    /// Returns whether the bases describe matrices that `ldmatrix` can load. The units of `unit` bytes in a matrix row are
    /// adjacent. The rows and matrices of each warp start at multiples of 16 bytes, and no two rows or matrices coincide.
    fn are_rows(&self, in_row: &[u32], unit: u32, [rows, further_matrices, warps]: [&Vec<u32>; 3]) -> bool {
        let adjacent = in_row.iter().enumerate().all(|(bit, basis)| self.byte_offset(*basis) == Some(unit << bit));
        let starts = |basis: &u32| self.byte_offset(*basis).is_some_and(|offset| offset.is_multiple_of(ROW_BYTES));
        let is_distinct = |basis: &u32| starts(basis) && self.byte_offset(*basis) != Some(0);
        adjacent && rows.iter().chain(further_matrices).all(is_distinct) && warps.iter().all(starts)
    }
}

/// The bases of a layout that select the 16-byte rows and the matrices of an `ldmatrix` or `stmatrix`.
pub struct Matrices {
    /// Bases of the eight rows of a matrix, or of sixteen.
    pub rows: Vec<u32>,
    /// Bases of the further register bits, lowest first. Each combination of these bases selects another matrix.
    pub further_matrices: Vec<u32>,
    /// The register bit that selects a byte of a pair. Transposed bytes arrive in pairs, while the four bytes of a register come
    /// from four rows, which the two lowest bits select. For byte matrices, which have sixteen rows, `pair_bit` is the bit that
    /// selects a half of a row.
    pub pair_bit: Option<usize>,
}
