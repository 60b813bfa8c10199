//! When an atom fits a layout and a buffer: whether vectors are whole in both, and whether a buffer is read by `ldmatrix`.

use crate::layout::{Layout, solve};
use crate::{BufferInfo, CopyAtom};

/// Bytes of a vector at most, and of a row of a matrix.
const PIECE: u32 = 16;

impl BufferInfo {
    /// Where an element lies, in bytes.
    fn place(&self, element: u32) -> Option<u32> {
        solve(&self.offsets, element).map(|offset| offset as u32 * self.elem.bytes())
    }

    /// Whether each thread's lowest `1 << bits` registers lie side by side, from a multiple of their number on.
    pub fn neighbours(&self, layout: &Layout, bits: u32) -> bool {
        let bytes = self.elem.bytes();
        if bits as usize > layout.register.len() || u64::from(bytes) << bits.min(32) > u64::from(PIECE.max(bytes)) {
            return false;
        }
        let (vector, rest) = layout.register.split_at(bits as usize);
        let starts = rest.iter().chain(&layout.lane).chain(&layout.warp);
        vector.iter().enumerate().all(|(bit, basis)| self.place(*basis) == Some(bytes << bit))
            && starts.into_iter().all(|basis| self.place(*basis).is_some_and(|at| at.is_multiple_of(bytes << bits)))
    }

    /// `ldmatrix`, when the layout is that of its registers and each row of 16 bytes is whole in the buffer.
    pub fn matrix(&self, layout: &Layout) -> Option<CopyAtom> {
        let bytes = self.elem.bytes();
        let packed = 4u32.checked_div(bytes)?.checked_ilog2()? as usize;
        if !matches!(bytes, 1 | 2 | 4) || self.elem.bits() < 8 || layout.register.len() < packed {
            return None;
        }
        if !layout.warp.iter().all(|basis| self.place(*basis).is_some_and(|at| at.is_multiple_of(PIECE))) {
            return None;
        }
        let row_apart = |basis: u32| self.place(basis).is_some_and(|at| at != 0 && at.is_multiple_of(PIECE));
        let (across, down) = layout.lane.split_at(2);
        let pairs = layout.register[..packed].iter().chain(across);
        let in_row = pairs.enumerate().all(|(bit, basis)| self.place(*basis) == Some(bytes << bit));
        let rest = &layout.register[packed..];
        if in_row && down.iter().chain(rest).all(|basis| row_apart(*basis)) {
            return Some(CopyAtom::Matrix { trans: false });
        }
        // Transposed, lanes that share a result column were rows in memory.
        let column = down.iter().enumerate().all(|(bit, basis)| self.place(*basis) == Some(bytes << bit));
        let rows = layout.register[..packed].iter().chain(across).chain(rest);
        (bytes == 2 && column && rows.copied().all(row_apart)).then_some(CopyAtom::Matrix { trans: true })
    }
}
