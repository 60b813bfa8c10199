//! Tensor memory (TMEM): the layouts of buffers, the load and store instructions of warps, and the `tcgen05` MMAs, whose
//! accumulators are in tensor memory.
//!
//! Tensor memory has 128 lanes, each with a 32-bit word in every column. The bits of an offset in a buffer are, from the lowest:
//! the position in a word, the column, and the lane. A bit with basis 0 is 0 in the offset of every element. An accumulator of 128
//! rows has a lane for each row; one of 64 rows uses the lower half of each warp's 32 lanes. A warp can access the 32 lanes that
//! the two lowest bits of its warp number select.
//!
//! The scales of an operand are stored four times, once in the 32 lanes of each warp. The scales of 32 rows of A (or columns of B)
//! are in these lanes, one row per lane. The next 32 rows use further TMEM columns. A word holds the scales of up to four
//! neighbouring blocks of a row. The first dimension of such a buffer counts the four copies.

use super::mma_sync_atoms::Operand;
use super::table::{LANE_ATOMS, TENSOR_ATOMS};
use crate::layout::{LANE_BITS, Layout, solve};
use crate::{BufferInfo, Space};
use base::Target;
use core_dialect::tile::Elem;
use numerics::Scalar;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

pub use super::table::{BlockScales, LaneAtom, TensorAtom, TmemBit};

/// Number of lanes of tensor memory (PTX ISA).
pub const LANES: u32 = 128;
/// Log2 of `LANES`.
const ALL_LANE_BITS: usize = 7;
/// Bytes of a word: one column of one lane.
pub const WORD_BYTES: u32 = 4;
/// Log2 of the number of lanes that a warp can access (PTX ISA).
const WARP_LANE_BITS: u32 = 5;
/// Log2 of the number of warps that together access all lanes.
pub const WARP_BITS: usize = 2;
/// Maximum rows of a `tcgen05.mma` instruction of one CTA (PTX ISA).
pub const MAX_ROWS: u32 = 128;
/// Minimum rows of a `tcgen05.mma` instruction (PTX ISA).
pub const MIN_ROWS: u32 = 64;
/// Maximum columns of a `tcgen05.mma` instruction (PTX ISA).
pub const MAX_COLUMNS: u32 = 256;
/// Minimum columns of a `tcgen05.mma` instruction with `MAX_ROWS` rows (PTX ISA).
const MIN_INSTRUCTION_COLUMNS: u32 = 16;
/// Minimum columns of a `tcgen05.mma` instruction with fewer rows (PTX ISA).
const MIN_COLUMNS_OF_FEW_ROWS: u32 = 8;
/// Minimum TMEM allocation of `tcgen05.alloc`, in columns (PTX ISA).
pub const MIN_ALLOCATED_COLUMNS: u32 = 32;
/// Minimum columns of a right operand: one core matrix of the matrix descriptor.
const MIN_OPERAND_COLUMNS: u32 = 8;
/// Number of CTAs that issue an MMA as a pair.
pub const CTA_PAIR: u32 = 2;
/// Minimum columns of a `tcgen05.mma` instruction of a CTA pair (PTX ISA).
const MIN_CTA_PAIR_COLUMNS: u32 = 32;
/// Maximum alignment of a buffer in TMEM columns. A smaller buffer is aligned to its size.
const MAX_ALIGN_COLUMNS: u32 = 32;

/// A position in tensor memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TmemPosition {
    pub lane: u32,
    pub column: u32,
    /// The position in the word, in elements.
    pub part: u32,
}

impl BufferInfo {
    /// Log2 of the number of elements that fit into a word.
    fn part_bits(&self) -> usize {
        (WORD_BYTES / self.elem.bytes().clamp(1, WORD_BYTES)).ilog2() as usize
    }

    /// TMEM columns of one stage; 0 for a buffer in shared memory.
    pub fn columns(&self) -> u32 {
        match self.space {
            Space::Shared => 0,
            Space::Tensor => 1 << self.offset_bases.len().saturating_sub(self.part_bits() + ALL_LANE_BITS).min(31),
        }
    }

    /// The position of an element in tensor memory. The map is linear: the XOR of two element numbers has the XOR of their
    /// positions. `None` if the buffer does not hold the element.
    pub fn tmem_position(&self, element: u32) -> Option<TmemPosition> {
        let offset = solve(&self.offset_bases, element)? as u32;
        let (parts, columns) = (self.part_bits() as u32, self.columns().ilog2());
        Some(TmemPosition {
            lane: offset >> (parts + columns),
            column: offset >> parts & ((1 << columns) - 1),
            part: offset & ((1 << parts) - 1),
        })
    }

    /// The basis (element number) of one lane or column bit of a TMEM address; 0 if the buffer does not use the bit.
    fn basis_of(&self, address_bit: TmemBit) -> u32 {
        let (parts, columns) = (self.part_bits(), self.columns().ilog2() as usize);
        match address_bit {
            TmemBit::Column(bit) if (bit as usize) < columns => self.offset_bases[parts + bit as usize],
            TmemBit::Lane(bit) => self.offset_bases[parts + columns + bit as usize],
            TmemBit::Column(_) | TmemBit::SplitOffset => 0,
        }
    }
}

/// A buffer in tensor memory with these bases: `part` for the position in a word, then `columns`, then `lanes`.
fn tmem_buffer(elem: Elem, shape: &[u32], part: Vec<u32>, columns: Vec<u32>, lanes: [u32; ALL_LANE_BITS]) -> BufferInfo {
    let align = (1u32 << columns.len().min(31)).min(MAX_ALIGN_COLUMNS);
    BufferInfo { elem, shape: shape.into(), offset_bases: [part, columns, lanes.to_vec()].concat(), align, space: Space::Tensor }
}

/// Assigns rows to lanes. `row` returns the basis of a row bit. Returns the bases of the lane bits, and the bases of the row bits
/// beyond 128 rows. `None` with fewer than 64 rows.
fn assign_rows_to_lanes(row_bits: u32, row: impl Fn(u32) -> u32) -> Option<([u32; ALL_LANE_BITS], Vec<u32>)> {
    let lanes = match row_bits {
        6 => [row(0), row(1), row(2), row(3), 0, row(4), row(5)],
        7.. => [0, 1, 2, 3, 4, 5, 6].map(&row),
        _ => return None,
    };
    Some((lanes, (ALL_LANE_BITS as u32..row_bits).map(row).collect()))
}

/// Log2 of the last two extents of a shape. `None` if another extent is not 1.
fn matrix_bits(shape: &[u32]) -> Option<[u32; 2]> {
    let (outer, last) = shape.split_at(shape.len().checked_sub(2)?);
    outer.iter().all(|extent| *extent == 1).then(|| [last[0], last[1]].map(u32::trailing_zeros))
}

/// Rows and columns of the MMA instruction for an accumulator of these extents. With 128 rows, an instruction has at least sixteen
/// columns, so it computes the columns of an accumulator with eight columns twice.
pub fn instruction_extents([m, n]: [u32; 2]) -> [u32; 2] {
    let min_columns = if m < MAX_ROWS { MIN_COLUMNS_OF_FEW_ROWS } else { MIN_INSTRUCTION_COLUMNS };
    [m.min(MAX_ROWS), n.clamp(min_columns, MAX_COLUMNS)]
}

/// A buffer for an accumulator. The buffer has one TMEM column for each column of the tile, and further TMEM columns for each
/// further 128 rows. Each element occupies a word. If an instruction computes columns twice, the TMEM columns of the second result
/// hold no element.
pub fn accumulator_buffer(elem: Elem, shape: &[u32]) -> Option<BufferInfo> {
    let [row_bits, col_bits] = matrix_bits(shape)?;
    let (lanes, further) = assign_rows_to_lanes(row_bits, |bit| 1 << (col_bits + bit))?;
    let part = vec![0; (WORD_BYTES / elem.bytes().clamp(1, WORD_BYTES)).ilog2() as usize];
    let [_, written] = instruction_extents([row_bits, col_bits].map(|bits| 1 << bits.min(31)));
    let duplicate_bits = written.ilog2().saturating_sub(col_bits);
    let columns = (0..col_bits).map(|bit| 1 << bit).chain((0..duplicate_bits).map(|_| 0)).chain(further).collect();
    Some(tmem_buffer(elem, shape, part, columns, lanes))
}

/// A buffer for a left operand. Neighbours along the depth share words.
pub fn left_operand_buffer(elem: Elem, shape: &[u32]) -> Option<BufferInfo> {
    let [row_bits, depth_bits] = matrix_bits(shape)?;
    let (lanes, further) = assign_rows_to_lanes(row_bits, |bit| 1 << (depth_bits + bit))?;
    let part_bits = (WORD_BYTES / elem.bytes().clamp(1, WORD_BYTES)).ilog2();
    let depth = |from: u32, to: u32| (from..to).map(|bit| 1u32 << bit);
    (depth_bits >= part_bits).then(|| {
        let columns = depth(part_bits, depth_bits).chain(further).collect();
        tmem_buffer(elem, shape, depth(0, part_bits).collect(), columns, lanes)
    })
}

/// Number of copies of scales: one for the lanes of each warp of a warp group.
pub const SCALE_COPIES: u32 = 1 << WARP_BITS;
/// Log2 of the minimum number of TMEM columns of a scale buffer, and of its alignment in columns.
const MIN_SCALE_COLUMN_BITS: usize = 2;
/// Log2 of the number of rows of A (or columns of B) whose words precede the words of further scale blocks. With fewer rows, the
/// distance is still two TMEM columns.
const LINE_BITS_BEFORE_BLOCKS: u32 = 6;

/// A buffer for the scales of an operand. `shape` is rows x blocks for A, and blocks x columns for B. The shape of the buffer has a
/// leading dimension of four copies.
pub fn scale_buffer(elem: Elem, shape: &[u32], operand: Operand) -> Option<BufferInfo> {
    let [first, second] = matrix_bits(shape)?;
    // A line is a row of A or a column of B. For lines and for blocks: the number of bits, and their shift in the element number.
    let ((lines, line_shift), (blocks, block_shift)) = match operand {
        Operand::B => ((second, 0), (first, second)),
        Operand::A | Operand::C => ((first, second), (second, 0)),
    };
    let line = |bit: u32| if bit < lines { 1 << (line_shift + bit) } else { 0 };
    let block = |bit: u32| if bit < blocks { 1 << (block_shift + bit) } else { 0 };
    let part_bits = (WORD_BYTES / elem.bytes().clamp(1, WORD_BYTES)).ilog2();
    let lanes = std::array::from_fn(|bit| match (bit as u32).checked_sub(WARP_LANE_BITS) {
        None => line(bit as u32),
        Some(copy) => 1 << (first + second + copy),
    });
    let line_bits_end = if blocks > part_bits { lines.max(LINE_BITS_BEFORE_BLOCKS) } else { lines };
    let mut columns: Vec<u32> = (WARP_LANE_BITS..line_bits_end).map(line).chain((part_bits..blocks).map(block)).collect();
    columns.resize(columns.len().max(MIN_SCALE_COLUMN_BITS), 0);
    let shape_with_copies: Vec<u32> = std::iter::once(SCALE_COPIES).chain(shape[shape.len() - 2..].iter().copied()).collect();
    Some(tmem_buffer(elem, &shape_with_copies, (0..part_bits).map(block).collect(), columns, lanes))
}

/// Returns whether two buffers have the same memory space, layout, shape and element type. Their alignments may differ.
pub fn equals_except_alignment(info: &BufferInfo, other: &BufferInfo) -> bool {
    info.space == other.space && info.offset_bases == other.offset_bases && info.shape == other.shape && info.elem == other.elem
}

// MMAs.

/// The atom for an MMA of these types and extents, without scales. `None` if the target has no such atom, or if the MMA does not
/// divide into atoms.
pub fn tensor_atom(target: Target, operand: Scalar, acc: Scalar, [m, n, k]: [u32; 3]) -> Option<&'static TensorAtom> {
    let fits = |atom: &&TensorAtom| atom.scales.is_none() && atom.acc == acc && atom.operands.contains(&operand);
    let atom = TENSOR_ATOMS.iter().find(fits)?;
    (target.has(atom.required_feature) && m >= MIN_ROWS && n >= MIN_OPERAND_COLUMNS && k >= atom.k).then_some(atom)
}

/// The atom for an MMA whose operands have a scale of type `scale` for each `block` elements along the depth, if there is one.
pub fn scaled_tensor_atom(
    target: Target,
    operand: Scalar,
    scale: Scalar,
    block: u32,
    [m, n, k]: [u32; 3],
) -> Option<&'static TensorAtom> {
    let has_scales = |scales: &BlockScales| scales.block == block && scales.elems.contains(&scale);
    let fits = |atom: &&TensorAtom| atom.scales.as_ref().is_some_and(has_scales) && atom.operands.contains(&operand);
    let atom = TENSOR_ATOMS.iter().find(fits)?;
    (target.has(atom.required_feature) && m >= MAX_ROWS && n >= MIN_INSTRUCTION_COLUMNS && k >= atom.k).then_some(atom)
}

/// Returns whether a CTA pair can compute an MMA with these accumulator extents in each CTA. One instruction computes the rows of
/// both CTAs and all columns. The second CTA supplies the upper half of the right operand's columns.
pub fn suits_cta_pairs([m, n]: [u32; 2]) -> bool {
    m >= MAX_ROWS && (MIN_CTA_PAIR_COLUMNS..=MAX_COLUMNS).contains(&n)
}

/// The `tcgen05.mma` atom with a name in `.as`; `None` if there is none.
pub fn tensor_atom_named(name: &str) -> Option<&'static TensorAtom> {
    TENSOR_ATOMS.iter().find(|atom| atom.name == name)
}

impl TensorAtom {
    /// The instruction descriptor of an MMA of `m` rows and `n` columns. `operands` has the element types of A and B, each with
    /// whether it is signed. `transposed` states for A and B whether the operand is contiguous along M or N instead of K.
    pub fn descriptor(&self, operands: [(Scalar, bool); 2], transposed: [bool; 2], [m, n]: [u32; 2]) -> u32 {
        /// The reason why each type of the table has a code: the panic message of `expect`.
        const HAS_CODE: &str = "the test `every_tensor_atom_has_descriptor_codes` checks all atoms";
        let accumulator = self.accumulator_code().expect(HAS_CODE);
        let [a, b] = operands.map(|(elem, signed)| self.operand_code(elem, signed).expect(HAS_CODE));
        let [a_transposed, b_transposed] = transposed.map(u32::from);
        let common_bits = a << 7 | b << 10 | a_transposed << 15 | b_transposed << 16 | n / 8 << 17 | m / 16 << 24;
        if self.scales.is_some() { common_bits } else { common_bits | accumulator << 4 }
    }

    /// The descriptor's code of the accumulator type; `None` for a type that `tcgen05.mma` lacks.
    fn accumulator_code(&self) -> Option<u32> {
        match self.acc {
            Scalar::F16 => Some(0),
            Scalar::F32 => Some(1),
            Scalar::I32 => Some(2),
            _ => None,
        }
    }

    /// The code of an operand type in the descriptor, for the instruction's kind. `None` for a type that the kind lacks.
    fn operand_code(&self, elem: Scalar, signed: bool) -> Option<u32> {
        match (self.kind.split('.').next()?, elem) {
            ("f16", Scalar::F16) | ("f8f6f4" | "mxf8f6f4", Scalar::F8E4M3FN) => Some(0),
            ("f16", Scalar::BF16) | ("f8f6f4" | "mxf8f6f4", Scalar::F8E5M2) => Some(1),
            ("tf32", Scalar::TF32) => Some(2),
            ("i8", Scalar::I8) => Some(u32::from(signed)),
            // A byte holds a pair of 4-bit floats; this kind has one code for them.
            ("mxf4nvf4", Scalar::I8) => Some(1),
            _ => None,
        }
    }

    /// The bits of the instruction descriptor for block scales. They encode the type of the scales, and the byte positions of the
    /// scales of A and of B in a word.
    pub fn scales_descriptor(elem: Scalar, [a_position, b_position]: [u32; 2]) -> u32 {
        let code = match elem {
            Scalar::F8E4M3FN => 0,
            Scalar::F8E8M0FNU => 1,
            other => unreachable!("the verifier refuses scales of {other} in tensor memory"),
        };
        b_position << 4 | code << 23 | a_position << 29
    }
}

// Loads and stores of warps.

/// A slice of a buffer: a range of the columns of its tile.
#[derive(Clone, Copy, Debug)]
pub struct TmemSlice {
    /// The first column.
    from: u32,
    /// Log2 of the columns of the buffer.
    buffer_column_bits: u32,
    /// Log2 of the columns of the slice.
    slice_column_bits: u32,
}

impl TmemSlice {
    /// The slice that a tile of shape `tile` occupies in a buffer of shape `buffer`, from column `from` on. `None` if the shapes do
    /// not match, or if `from` is not a multiple of the tile's columns.
    pub fn from_extents(buffer: &[u32], tile: &[u32], from: u32) -> Option<TmemSlice> {
        let (buffer_columns, buffer_outer) = buffer.split_last()?;
        let (slice_columns, slice_outer) = tile.split_last()?;
        let is_inside = from.is_multiple_of(*slice_columns) && from.checked_add(*slice_columns)? <= *buffer_columns;
        let (buffer_column_bits, slice_column_bits) = (buffer_columns.trailing_zeros(), slice_columns.trailing_zeros());
        (buffer_outer == slice_outer && is_inside).then_some(TmemSlice { from, buffer_column_bits, slice_column_bits })
    }
    /// The buffer's element for an element of the tile, as if the slice started at column 0.
    pub fn buffer_element_from_0(&self, element: u32) -> u32 {
        element >> self.slice_column_bits << self.buffer_column_bits | element & ((1 << self.slice_column_bits) - 1)
    }
    /// The buffer's element for an element of the tile.
    pub fn buffer_element(&self, element: u32) -> u32 {
        self.buffer_element_from_0(element) ^ self.from
    }
    /// The tile's basis for a basis of the buffer; 0 if the basis selects another slice.
    fn tile_basis(&self, basis: u32) -> u32 {
        let column = basis & ((1 << self.buffer_column_bits) - 1);
        if column >> self.slice_column_bits != 0 {
            return 0;
        }
        basis >> self.buffer_column_bits << self.slice_column_bits | column
    }
}

/// Rounds `columns` up to a number of TMEM columns that `tcgen05.alloc` can allocate.
pub fn allocated_columns(columns: u32) -> u32 {
    columns.next_power_of_two().max(MIN_ALLOCATED_COLUMNS)
}

/// The load and store atom with a name in PTX and `.as`; `None` if there is none.
pub fn lane_atom_named(name: &str) -> Option<&'static LaneAtom> {
    LANE_ATOMS.iter().find(|atom| atom.name == name)
}

impl LaneAtom {
    /// The number of lanes that one instruction accesses, of the 32 lanes of its warp.
    pub fn lanes(&self) -> u32 {
        if self.lane.contains(&TmemBit::Lane(4)) { 32 } else { 16 }
    }
    /// Log2 of the number of adjacent columns that the lanes, and the register bits of the atom, select.
    pub fn column_bits(&self) -> u32 {
        let address_bits = self.lane.iter().chain(self.register);
        address_bits.map(|address_bit| if let TmemBit::Column(bit) = address_bit { bit + 1 } else { 0 }).max().unwrap_or(0)
    }

    /// The layout in which warps load or store a slice of a buffer with this atom; `None` if the atom does not fit.
    pub fn layout(&self, info: &BufferInfo, slice: &TmemSlice, warp_bits: usize) -> Option<Layout> {
        let basis_of = |bit: TmemBit| slice.tile_basis(info.basis_of(bit));
        // The column bits that no lane or register of the atom selects yet.
        let mut columns: Vec<u32> = (0..info.columns().ilog2()).collect();
        columns.retain(|bit| basis_of(TmemBit::Column(*bit)) != 0);
        let mut take = |address_bit: &TmemBit| {
            let bit = match address_bit {
                TmemBit::Lane(_) => return basis_of(*address_bit),
                TmemBit::Column(bit) => *bit,
                TmemBit::SplitOffset => columns.last().copied().unwrap_or(u32::MAX),
            };
            columns.retain(|other| *other != bit);
            basis_of(TmemBit::Column(bit))
        };
        let lane: Vec<u32> = self.lane.iter().map(&mut take).collect();
        let atom_registers: Vec<u32> = self.register.iter().map(&mut take).collect();
        let mut warp = vec![basis_of(TmemBit::Lane(5)), basis_of(TmemBit::Lane(6))];
        for _ in WARP_BITS..warp_bits {
            warp.push(columns.pop().map_or(0, |bit| basis_of(TmemBit::Column(bit))));
        }
        let upper_lanes = if self.lanes() == 16 { basis_of(TmemBit::Lane(4)) } else { 0 };
        let parts = info.offset_bases[..info.part_bits()].iter().map(|basis| slice.tile_basis(*basis));
        let further = columns.iter().map(|bit| basis_of(TmemBit::Column(*bit))).chain([upper_lanes]);
        let register: Vec<u32> = parts.chain(atom_registers.iter().copied()).chain(further).filter(|basis| *basis != 0).collect();
        let layout = Layout { register, lane, warp };
        (warp_bits >= WARP_BITS && self.fits(info, slice, &layout)).then_some(layout)
    }

    /// Returns the layout in which warps load or store a full buffer with this atom. Also returns the matching layout of a tile
    /// with one element per row.
    pub fn full_and_row_layouts(&self, info: &BufferInfo, warp_bits: usize) -> Option<(Layout, Layout)> {
        let full_layout = self.layout(info, &TmemSlice::from_extents(&info.shape, &info.shape, 0)?, warp_bits)?;
        let column_bits = info.shape.last()?.trailing_zeros();
        let mut row_layout = full_layout.map(|basis| basis >> column_bits);
        row_layout.register.retain(|basis| *basis != 0);
        Some((full_layout, row_layout))
    }

    /// Returns whether threads can load a slice of a buffer into this layout with this atom.
    pub fn fits(&self, info: &BufferInfo, slice: &TmemSlice, layout: &Layout) -> bool {
        let position = |basis: &u32| if *basis == 0 { None } else { info.tmem_position(slice.buffer_element_from_0(*basis)) };
        let is_column_bit = |at: TmemPosition| at.lane == 0 && at.part == 0 && at.column.is_power_of_two();
        let selects = |basis: &u32, bit: &TmemBit| match (position(basis), bit) {
            (Some(at), TmemBit::Lane(bit)) => at == TmemPosition { lane: 1 << bit, ..TmemPosition::default() },
            (Some(at), TmemBit::Column(bit)) => is_column_bit(at) && at.column == 1 << bit,
            (Some(at), TmemBit::SplitOffset) => is_column_bit(at),
            (None, _) => false,
        };
        let lanes_fit =
            layout.lane.len() == LANE_BITS && layout.lane.iter().zip(&self.lane).all(|(basis, bit)| selects(basis, bit));
        let warps_fit = layout.warp.len() >= WARP_BITS
            && layout.warp.iter().zip(WARP_LANE_BITS..).take(WARP_BITS).all(|(basis, bit)| selects(basis, &TmemBit::Lane(bit)))
            && layout.warp[WARP_BITS..].iter().all(|basis| *basis == 0 || position(basis).is_some_and(is_column_bit));
        let has_atom_registers = self.register.iter().all(|bit| layout.register.iter().any(|basis| selects(basis, bit)));
        let registers_fit = layout.register.iter().all(|basis| {
            position(basis).is_some_and(|at| {
                let is_one_bit = [at.lane, at.column, at.part].iter().map(|number| number.count_ones()).sum::<u32>() == 1;
                is_one_bit && at.lane >> WARP_LANE_BITS == 0
            })
        });
        let starts_at_column =
            info.space == Space::Tensor && info.tmem_position(slice.from).is_some_and(|at| at.lane == 0 && at.part == 0);
        lanes_fit && warps_fit && has_atom_registers && registers_fit && starts_at_column
    }
}

/// A reference to a row of the table of lane atoms. Files contain the name of the atom.
#[derive(Clone, Copy)]
pub struct LaneMove(pub &'static LaneAtom);

impl PartialEq for LaneMove {
    fn eq(&self, other: &LaneMove) -> bool {
        self.0.name == other.0.name
    }
}
impl fmt::Debug for LaneMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
impl Serialize for LaneMove {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}
impl<'de> Deserialize<'de> for LaneMove {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LaneMove, D::Error> {
        let name = String::deserialize(deserializer)?;
        lane_atom_named(&name).map(LaneMove).ok_or_else(|| de::Error::custom(format!("there is no atom '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: Elem = Elem::Scalar(Scalar::F32);
    const F16: Elem = Elem::Scalar(Scalar::F16);

    #[test]
    fn every_tensor_atom_has_descriptor_codes() {
        for atom in TENSOR_ATOMS {
            assert!(atom.accumulator_code().is_some(), "{}", atom.name);
            assert!(atom.operands.iter().all(|elem| atom.operand_code(*elem, true).is_some()), "{}", atom.name);
        }
    }

    #[test]
    fn rows_have_the_lanes_of_the_ptx_isa() {
        let whole = accumulator_buffer(F32, &[128, 64]).unwrap();
        assert_eq!(
            (whole.columns(), whole.tmem_position(77 * 64 + 13)),
            (64, Some(TmemPosition { lane: 77, column: 13, part: 0 }))
        );
        let half = accumulator_buffer(F32, &[64, 32]).unwrap();
        assert_eq!(half.tmem_position(50 * 32 + 3), Some(TmemPosition { lane: 3 * 32 + 2, column: 3, part: 0 }));
        let two = accumulator_buffer(F32, &[256, 16]).unwrap();
        assert_eq!((two.columns(), two.tmem_position(200 * 16 + 1)), (32, Some(TmemPosition { lane: 72, column: 17, part: 0 })));
        // Of the sixteen columns that an instruction writes, the upper eight hold no element.
        let few = accumulator_buffer(F32, &[256, 8]).unwrap();
        assert_eq!((few.columns(), few.tmem_position(200 * 8 + 1)), (32, Some(TmemPosition { lane: 72, column: 17, part: 0 })));
        assert_eq!(accumulator_buffer(F32, &[64, 8]).unwrap().columns(), 8);
        let packed = left_operand_buffer(F16, &[128, 64]).unwrap();
        assert_eq!((packed.columns(), packed.tmem_position(5 * 64 + 7)), (32, Some(TmemPosition { lane: 5, column: 3, part: 1 })));
        let short = accumulator_buffer(F16, &[128, 64]).unwrap();
        assert_eq!((short.columns(), short.tmem_position(5 * 64 + 7)), (64, Some(TmemPosition { lane: 5, column: 7, part: 0 })));
        assert!(accumulator_buffer(F32, &[32, 32]).is_none() && left_operand_buffer(F16, &[64]).is_none());
    }

    /// The scales of 32 rows of A (or columns of B) are in consecutive lanes. Four blocks of a row share a word. The lanes of all
    /// warps have copies.
    #[test]
    fn scales_have_the_words_of_the_ptx_isa() {
        let byte = Elem::Scalar(Scalar::F8E8M0FNU);
        let a = scale_buffer(byte, &[128, 8], Operand::A).unwrap();
        let spot = |info: &BufferInfo, element| info.tmem_position(element).unwrap();
        assert_eq!((a.columns(), &a.shape[..]), (8, &[4, 128, 8][..]));
        assert_eq!(spot(&a, 70 * 8 + 6), TmemPosition { lane: 6, column: 4 + 2, part: 2 });
        assert_eq!(spot(&a, (3 * 128 + 70) * 8 + 6), TmemPosition { lane: 96 + 6, column: 4 + 2, part: 2 });
        let b = scale_buffer(byte, &[2, 64], Operand::B).unwrap();
        assert_eq!((b.columns(), spot(&b, 64 + 40)), (4, TmemPosition { lane: 8, column: 1, part: 1 }));
        assert_eq!((b.columns(), spot(&b, (2 * 2 + 1) * 64 + 40)), (4, TmemPosition { lane: 64 + 8, column: 1, part: 1 }));
        for (info, warp_bits) in [(&a, 2), (&b, 2), (&a, 3)] {
            let part = TmemSlice::from_extents(&info.shape, &info.shape, 0).unwrap();
            let layout = lane_atom_named("32x32b").unwrap().layout(info, &part, warp_bits).unwrap();
            layout.covers(info.shape.iter().product::<u32>().trailing_zeros()).unwrap();
        }
    }

    /// The layout of each atom that fits covers the slice. `32x32b` fits 128 rows only; the other atoms fit 64 rows.
    #[test]
    fn atom_layouts_cover_the_slice() {
        let mut fitting = Vec::new();
        for info in [
            accumulator_buffer(F32, &[128, 64]),
            accumulator_buffer(F32, &[64, 64]),
            left_operand_buffer(F16, &[128, 64]),
            accumulator_buffer(F16, &[64, 64]),
        ] {
            let info = info.unwrap();
            for (columns, from, warp_bits) in [(64, 0, 2), (32, 32, 2), (64, 0, 3), (16, 48, 2)] {
                let tile = [info.shape[0], columns];
                let part = TmemSlice::from_extents(&info.shape, &tile, from).unwrap();
                for atom in LANE_ATOMS {
                    let Some(layout) = atom.layout(&info, &part, warp_bits) else { continue };
                    layout.covers((tile[0] * tile[1]).trailing_zeros()).unwrap();
                    fitting.push((atom.name, tile[0]));
                }
            }
        }
        assert!(fitting.contains(&("32x32b", 128)) && !fitting.contains(&("32x32b", 64)));
        for name in ["16x32bx2", "16x64b", "16x128b", "16x256b"] {
            assert!(fitting.contains(&(name, 64)), "{name}");
        }
    }

    #[test]
    fn elements_are_in_the_registers_of_the_ptx_isa() {
        let info = accumulator_buffer(F32, &[64, 32]).unwrap();
        let part = TmemSlice::from_extents(&info.shape, &[64, 32], 0).unwrap();
        let layout = lane_atom_named("16x256b").unwrap().layout(&info, &part, 2).unwrap();
        // Thread 4 of warp 1: row 16 + 1, register 1 is column 1, register 2 eight rows further down, register 4 column 8.
        assert_eq!([1, 2, 4].map(|register| layout.element(register, 4, 1)), [17 * 32 + 1, 25 * 32, 17 * 32 + 8]);
        let info = accumulator_buffer(F32, &[128, 32]).unwrap();
        let part = TmemSlice::from_extents(&info.shape, &[128, 8], 8).unwrap();
        let layout = lane_atom_named("32x32b").unwrap().layout(&info, &part, 2).unwrap();
        assert_eq!(part.buffer_element(layout.element(3, 7, 2) as u32), 71 * 32 + 8 + 3);
    }

    /// The instruction descriptors that the PTX ISA gives for these MMAs.
    #[test]
    fn descriptors_are_those_of_known_mmas() {
        let f16 = tensor_atom_named("tcgen05.k16.f32").unwrap();
        assert_eq!(f16.descriptor([(Scalar::F16, true); 2], [false, true], [128, 128]), 0x821_0010);
        assert_eq!(f16.descriptor([(Scalar::BF16, true); 2], [false, true], [128, 128]), 0x821_0490);
        assert_eq!(f16.descriptor([(Scalar::F16, true); 2], [true, true], [128, 128]), 0x821_8010);
        let tf32 = tensor_atom_named("tcgen05.k8.f32").unwrap();
        assert_eq!(tf32.descriptor([(Scalar::TF32, true); 2], [false, true], [64, 32]), 0x409_0910);
        let scaled = tensor_atom_named("tcgen05.k32.block32.f32").unwrap();
        let common_bits = scaled.descriptor([(Scalar::F8E4M3FN, false); 2], [false, true], [128, 64]);
        assert_eq!(common_bits | TensorAtom::scales_descriptor(Scalar::F8E8M0FNU, [0, 0]), 0x891_0000);
        assert_eq!(TensorAtom::scales_descriptor(Scalar::F8E8M0FNU, [1, 2]), 0x2080_0020);
        let pairs = tensor_atom_named("tcgen05.k64.block16.f32").unwrap();
        let common_bits = pairs.descriptor([(Scalar::I8, false); 2], [false; 2], [128, 128]);
        assert_eq!(common_bits | TensorAtom::scales_descriptor(Scalar::F8E4M3FN, [0, 0]), 0x820_0480);
        assert_eq!(common_bits | TensorAtom::scales_descriptor(Scalar::F8E8M0FNU, [0, 0]), 0x8a0_0480);
        let int = tensor_atom_named("tcgen05.k32.s32").unwrap();
        assert_eq!(int.descriptor([(Scalar::I8, true); 2], [false, true], [128, 128]), 0x821_04a0);
    }
}
