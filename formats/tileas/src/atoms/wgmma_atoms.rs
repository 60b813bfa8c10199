//! MMAs of warp groups (`wgmma`): the atoms, the register layouts of accumulators and left operands, and the shared-memory layouts
//! of matrix descriptors.
//!
//! Four warps compute 64 accumulator rows, sixteen each. The right operand is in shared memory, the left operand in shared memory
//! or registers. In shared memory, an operand has rows of 32, 64 or 128 bytes along one dimension. The swizzle XORs the index of
//! each 16-byte chunk with the row number. If the contiguous dimension has more than 128 bytes, its next 128 bytes are in another
//! block, after all rows.

use super::table::GROUP_ATOMS;
use crate::layout::Strides;
use crate::mma_sync_atoms::Operand;
use crate::{BufferInfo, Layout, Space};
use base::Target;
use core_dialect::tile::Elem;
use numerics::Scalar;
use target_info::Feature;

pub use super::table::GroupAtom;

/// Accumulator rows of a `wgmma` instruction (PTX ISA).
pub const INSTRUCTION_ROWS: u32 = 64;
/// Log2 of the number of warps that execute a `wgmma` instruction.
const WARP_BITS: usize = 2;
/// Minimum accumulator columns of a `wgmma` instruction (PTX ISA).
const MIN_COLUMNS: u32 = 8;
/// Maximum accumulator columns of a `wgmma` instruction (PTX ISA).
pub const MAX_COLUMNS: u32 = 256;
/// Rows of a core matrix, the unit in which a matrix descriptor gives strides (PTX ISA).
const CORE_MATRIX_ROWS: u32 = 8;
/// Alignment of operand buffers in bytes: the period of the widest swizzle, 8 rows of 128 bytes (PTX ISA).
const ALIGN_BYTES: u32 = 1024;
/// Maximum bytes of a row of an operand in shared memory: the row of the widest swizzle (PTX ISA).
const MAX_ROW_BYTES: u32 = 128;
/// Bytes of the chunks that the swizzle permutes (PTX ISA).
const CHUNK_BYTES: u32 = 16;

/// The atom for an MMA of these types and extents. `None` if the target has no such atom, or if the MMA does not divide among the
/// warp groups.
pub fn group_atom(target: Target, operand: Scalar, acc: Scalar, [m, n, k]: [u32; 3], warp_bits: u32) -> Option<&'static GroupAtom> {
    let atom = GROUP_ATOMS.iter().find(|atom| atom.acc == acc && atom.operands.contains(&operand))?;
    let groups = warp_bits.checked_sub(WARP_BITS as u32)?;
    // Warp groups divide the rows into multiples of 64 rows, or else the columns into at least 64 columns each.
    let is_divisible = m >= INSTRUCTION_ROWS << groups || m >= INSTRUCTION_ROWS && n >> groups >= 64;
    (target.has(Feature::Wgmma) && is_divisible && n >= MIN_COLUMNS && k >= atom.k).then_some(atom)
}

/// Returns whether the target has a `wgmma` instruction for these element types. The extents of an MMA can still be too small.
pub fn has_mma(target: Target, operand: Scalar, acc: Scalar) -> bool {
    let known = GROUP_ATOMS.iter().any(|atom| atom.acc == acc && atom.operands.contains(&operand));
    known && target.has(Feature::Wgmma)
}

/// The `wgmma` atom with a name in `.as`; `None` if there is none.
pub fn group_atom_named(name: &str) -> Option<&'static GroupAtom> {
    GROUP_ATOMS.iter().find(|atom| atom.name == name)
}

/// The accumulator layout. Warp groups divide the rows, or the columns if there are too few rows.
pub fn accumulator_layout(rows: u32, cols: u32, warp_bits: u32) -> Layout {
    register_layout([rows, cols], 1, warp_bits, true)
}

/// The layout of a left operand in registers. Neighbours along the depth share registers. Warp groups divide the rows, or hold
/// copies if there are too few rows.
pub fn left_operand_layout(elem: Scalar, rows: u32, depth: u32, warp_bits: u32) -> Layout {
    register_layout([rows, depth], (4 / elem.bytes()).ilog2(), warp_bits, false)
}

/// Registers of a thread for the accumulator of one instruction.
pub fn accumulator_registers(acc: Scalar, [m, n]: [u32; 2], warp_bits: u32) -> u32 {
    let groups = warp_bits.saturating_sub(WARP_BITS as u32);
    let along_columns = groups.saturating_sub((m / INSTRUCTION_ROWS).checked_ilog2().unwrap_or(0));
    (n >> along_columns).min(MAX_COLUMNS) * acc.bytes() * INSTRUCTION_ROWS / 4 / (32 << WARP_BITS)
}

/// The layout of a tile whose rows are divided among warps and lanes. Along the columns, the lowest bits select one of `1 <<
/// neighbour_bits` neighbouring registers. The next two bits select one of four lanes, and the other bits select further registers.
/// If there are too few rows for all warp groups, the warp groups divide the columns (`divides_columns`) or hold copies.
fn register_layout([rows, cols]: [u32; 2], neighbour_bits: u32, warp_bits: u32, divides_columns: bool) -> Layout {
    let [row_bits, col_bits] = [rows, cols].map(u32::trailing_zeros);
    let (row, col) = (|i: u32| 1u32 << (col_bits + i), |i: u32| 1u32 << i);
    let mut further_rows: Vec<u32> = (INSTRUCTION_ROWS.trailing_zeros()..row_bits).map(row).collect();
    let mut further_cols: Vec<u32> = (neighbour_bits + 2..col_bits).map(col).collect();
    let mut warp = vec![row(4), row(5)];
    for _ in WARP_BITS..warp_bits as usize {
        let columns = || if divides_columns { further_cols.pop().unwrap_or(0) } else { 0 };
        warp.push(further_rows.pop().unwrap_or_else(columns));
    }
    let register = (0..neighbour_bits).map(col).chain([row(3)]).chain(further_cols).chain(further_rows).collect();
    Layout { register, lane: vec![col(neighbour_bits), col(neighbour_bits + 1), row(0), row(1), row(2)], warp }
}

/// A buffer for an operand that is contiguous along the dimension `inner`, one of the last two dimensions. `None` if the operand
/// has a batch, or if a matrix descriptor cannot describe the element size. Also `None` for rows shorter than 32 bytes and for
/// fewer than eight rows.
pub fn operand_buffer(elem: Elem, shape: &[u32], inner: usize) -> Option<BufferInfo> {
    let bytes = elem.bytes();
    let strides = Strides::for_shape(shape);
    if shape.len() < 2 || inner + 2 < shape.len() || inner >= shape.len() {
        return None;
    }
    let row_bytes = (shape[inner] * bytes).min(MAX_ROW_BYTES);
    let bits_of = |length: u32| (length / bytes).ilog2() as usize;
    let outer = 2 * shape.len() - 3 - inner;
    let has_batch = shape[..shape.len() - 2].iter().any(|extent| *extent != 1);
    if has_batch || row_bytes < 2 * CHUNK_BYTES || shape[outer] < 8 || !matches!(bytes, 1 | 2 | 4) {
        return None;
    }
    let mut bits = strides.dim_bits(inner).map(|bit| 1u32 << bit);
    let row: Vec<u32> = bits.by_ref().take(bits_of(row_bytes)).collect();
    let rows = strides.dim_bits(outer).map(|bit| 1 << bit);
    let mut offset_bases: Vec<u32> = row.into_iter().chain(rows).chain(bits).collect();
    for bit in 0..(row_bytes / CHUNK_BYTES).ilog2() as usize {
        offset_bases[bits_of(MAX_ROW_BYTES) + bit] ^= offset_bases[bits_of(CHUNK_BYTES) + bit];
    }
    Some(BufferInfo { elem, shape: shape.into(), offset_bases, align: ALIGN_BYTES, space: Space::Shared })
}

/// The shared-memory layout of an MMA operand, as a matrix descriptor describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Whether the operand is contiguous along the depth K. Otherwise it is contiguous along M or N.
    pub along_depth: bool,
    /// Bytes of a row.
    row_bytes: u32,
    /// Bytes from one block of rows to the next.
    block_bytes: u32,
    /// Bytes of an element.
    element_bytes: u32,
    /// The extent of the operand along M or N.
    lines: u32,
}

impl Matrix {
    /// The layout of an operand in a buffer. `transposed`: the buffer holds the transposed operand. `None` if a matrix descriptor
    /// cannot describe the layout of the buffer.
    pub fn from_buffer(info: &BufferInfo, operand: Operand, transposed: bool) -> Option<Matrix> {
        let rank = info.shape.len();
        let matches_layout = |inner: &usize| {
            let matches = |expected: BufferInfo| {
                expected.offset_bases == info.offset_bases && expected.space == info.space && info.align >= ALIGN_BYTES
            };
            operand_buffer(info.elem, &info.shape, *inner).is_some_and(matches)
        };
        let inner = (rank.checked_sub(2)?..rank).find(matches_layout)?;
        let depth_is_last = (operand == Operand::A) != transposed;
        let element_bytes = info.elem.bytes();
        let (length, rows) = (info.shape[inner], info.shape[2 * rank - 3 - inner]);
        let row_bytes = (length * element_bytes).min(MAX_ROW_BYTES);
        let along_depth = (inner == rank - 1) == depth_is_last;
        let lines = if along_depth { rows } else { length };
        Some(Matrix { along_depth, row_bytes, block_bytes: rows * row_bytes, element_bytes, lines })
    }

    /// The byte offset of the element at `line` along M or N, and at `depth` along K.
    pub fn element_offset(&self, line: u32, depth: u32) -> u32 {
        let (position, row) = if self.along_depth { (depth, line) } else { (line, depth) };
        let position = position * self.element_bytes;
        position / self.row_bytes * self.block_bytes + position % self.row_bytes + row * self.row_bytes
    }

    /// The `wgmma` descriptor without the start address.
    pub fn descriptor(&self) -> u64 {
        let swizzle: u64 = match self.row_bytes {
            128 => 1,
            64 => 2,
            _ => 3,
        };
        self.stride_fields([self.block_bytes, CORE_MATRIX_ROWS * self.row_bytes]) | swizzle << 62
    }

    /// The `tcgen05` descriptor without the start address. If the operand has at most eight lines along M or N, the distance to the
    /// next core matrix is 0. An instruction with more lines then reads the same core matrix again.
    pub fn tensor_descriptor(&self) -> u64 {
        let swizzle: u64 = match self.row_bytes {
            128 => 2,
            64 => 4,
            _ => 6,
        };
        let strides = match self.lines {
            ..=CORE_MATRIX_ROWS if self.along_depth => [self.block_bytes, 0],
            ..=CORE_MATRIX_ROWS => [0, CORE_MATRIX_ROWS * self.row_bytes],
            _ => [self.block_bytes, CORE_MATRIX_ROWS * self.row_bytes],
        };
        self.stride_fields(strides) | 1 << 46 | swizzle << 61
    }

    /// The two stride fields of a descriptor, from the distance between blocks and the distance between core matrices, in bytes.
    fn stride_fields(&self, [block, core_matrix]: [u32; 2]) -> u64 {
        // The leading offset is the distance between blocks. If the operand is contiguous along K, an instruction reads only one
        // block, so the field has no effect.
        let leading = if self.along_depth { CHUNK_BYTES } else { block };
        let field = |bytes: u32| u64::from(bytes >> 4 & 0x3fff);
        field(leading) << 16 | field(core_matrix) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_cover_their_tile() {
        for (m, n, warp_bits) in [(64, 16, 2), (128, 256, 2), (64, 128, 3), (256, 64, 3), (128, 64, 2)] {
            accumulator_layout(m, n, warp_bits).covers((m * n).trailing_zeros()).unwrap();
            for elem in [Scalar::I8, Scalar::BF16, Scalar::TF32] {
                left_operand_layout(elem, m, n.max(32), warp_bits).covers((m * n.max(32)).trailing_zeros()).unwrap();
            }
        }
    }

    /// A warp has sixteen rows of a left operand, as in `mma.sync`.
    #[test]
    fn a_left_operand_has_the_layout_of_mma_sync() {
        for (elem, acc, k) in [(Scalar::I8, Scalar::I32, 32), (Scalar::F16, Scalar::F32, 16), (Scalar::TF32, Scalar::F32, 8)] {
            let atom = crate::mma_sync_atoms::sync_atom(Target::parse("sm_90").unwrap(), elem, acc, [16, 8, k]).unwrap();
            let fragment = atom.layout(Operand::A, 1, 16, k, crate::mma_sync_atoms::WarpsPerDim::default(), 0);
            let layout = left_operand_layout(elem, 64, k, 2);
            assert_eq!((layout.register, layout.lane), (fragment.register, fragment.lane), "{elem}");
        }
    }

    /// The descriptors that the PTX ISA gives for these operands.
    #[test]
    fn descriptors_are_those_of_known_layouts() {
        let half = Elem::Scalar(Scalar::F16);
        let matrix = |shape: [u32; 2], inner, operand| {
            Matrix::from_buffer(&operand_buffer(half, &shape, inner).unwrap(), operand, false).unwrap()
        };
        let a = matrix([128, 64], 1, Operand::A);
        assert_eq!((a.along_depth, a.descriptor(), a.element_offset(64, 16)), (true, 0x4000_0040_0001_0000, 8192 + 32));
        assert_eq!(a.tensor_descriptor(), 0x4000_4040_0001_0000);
        let short = matrix([128, 32], 1, Operand::A);
        assert_eq!(short.descriptor(), 0x8000_0020_0001_0000);
        assert_eq!(short.tensor_descriptor(), 0x8000_4020_0001_0000);
        let b = matrix([64, 128], 1, Operand::B);
        assert_eq!((b.along_depth, b.descriptor(), b.element_offset(64, 16)), (false, 0x4000_0040_0200_0000, 8192 + 2048));
    }

    #[test]
    fn a_buffer_with_another_layout_is_no_matrix() {
        let mut info = operand_buffer(Elem::Scalar(Scalar::BF16), &[64, 64], 1).unwrap();
        assert!(Matrix::from_buffer(&info, Operand::B, true).is_some_and(|matrix| matrix.along_depth));
        info.offset_bases.swap(0, 7);
        assert!(Matrix::from_buffer(&info, Operand::B, true).is_none());
        assert!(operand_buffer(Elem::Scalar(Scalar::BF16), &[64, 8], 1).is_none());
    }
}
