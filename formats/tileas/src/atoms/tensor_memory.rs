//! Tensor memory: the layouts of buffers, the load and store instructions of warps, and the MMAs with accumulators there
//! (`tcgen05`).
//!
//! Tensor memory has 128 lanes, each with a 32-bit word in every column. An offset in a buffer consists of the bits of the position
//! in a word (lowest), of the column, and of the lane. A bit with basis 0 selects an unused part. An accumulator of 128 rows has a
//! lane for each row; one of 64 rows uses the lower half of each warp's 32 lanes. A warp can access the 32 lanes that the two
//! lowest bits of its number select.
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

pub use super::table::{BlockScales, Cell, LaneAtom, TensorAtom};

/// Lanes, and log2 of them.
pub const LANES: u32 = 128;
const ALL_LANE_BITS: usize = 7;
/// Bytes of a word.
pub const WORD: u32 = 4;
/// Log2 of the lanes that a warp can access.
const WARP_LANE_BITS: u32 = 5;
/// Log2 of the warps that together access all lanes.
pub const WARP_BITS: usize = 2;
/// Maximum rows and columns of an instruction, and minimum rows.
pub const MAX_ROWS: u32 = 128;
pub const MIN_ROWS: u32 = 64;
pub const MAX_COLUMNS: u32 = 256;
/// Minimum columns of an instruction with all rows, and of one with fewer rows.
const MIN_INSTRUCTION_COLUMNS: u32 = 16;
const MIN_COLUMNS_OF_FEW_ROWS: u32 = 8;
/// Smallest TMEM allocation, in columns.
pub const MIN_ALLOCATED_COLUMNS: u32 = 32;
/// Minimum columns of a right operand: one group of the matrix descriptor.
const MIN_OPERAND_COLUMNS: u32 = 8;
/// CTAs that issue an MMA as a pair, and the minimum columns of such an MMA.
pub const CTA_PAIR: u32 = 2;
const MIN_OF_CTA_PAIR: u32 = 32;
/// Maximum alignment of a buffer, in columns; a smaller buffer is aligned to its size.
const ALIGN: u32 = 32;

/// A position in tensor memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    pub lane: u32,
    pub column: u32,
    /// The position in the word, in elements.
    pub part: u32,
}

impl BufferInfo {
    /// Log2 of the elements that fit into a word.
    fn part_bits(&self) -> usize {
        (WORD / self.elem.bytes().clamp(1, WORD)).ilog2() as usize
    }

    /// Columns of one stage; 0 in shared memory.
    pub fn columns(&self) -> u32 {
        match self.space {
            Space::Shared => 0,
            Space::Tensor => 1 << self.offsets.len().saturating_sub(self.part_bits() + ALL_LANE_BITS).min(31),
        }
    }

    /// The position of an element. Positions are linear: XOR of elements is XOR of positions.
    pub fn spot(&self, element: u32) -> Option<Spot> {
        let offset = solve(&self.offsets, element)? as u32;
        let (parts, columns) = (self.part_bits() as u32, self.columns().ilog2());
        Some(Spot {
            lane: offset >> (parts + columns),
            column: offset >> parts & ((1 << columns) - 1),
            part: offset & ((1 << parts) - 1),
        })
    }

    /// The basis (element number) of one lane or column bit of a TMEM position; 0 if the buffer does not use the bit.
    fn basis_of(&self, cell: Cell) -> u32 {
        let (parts, columns) = (self.part_bits(), self.columns().ilog2() as usize);
        match cell {
            Cell::Column(bit) if (bit as usize) < columns => self.offsets[parts + bit as usize],
            Cell::Lane(bit) => self.offsets[parts + columns + bit as usize],
            Cell::Column(_) | Cell::SplitOffset => 0,
        }
    }
}

/// A buffer in tensor memory: `part` are the bases of the position in a word, then come those of columns and lanes.
fn buffer(elem: Elem, shape: &[u32], part: Vec<u32>, columns: Vec<u32>, lanes: [u32; ALL_LANE_BITS]) -> BufferInfo {
    let align = (1u32 << columns.len().min(31)).min(ALIGN);
    BufferInfo { elem, shape: shape.into(), offsets: [part, columns, lanes.to_vec()].concat(), align, space: Space::Tensor }
}

/// Assigns rows to lanes. Returns the bases of the lane bits, and the bases of the row bits beyond 128 rows. `None` with fewer than
/// 64 rows.
fn rows(row_bits: u32, row: impl Fn(u32) -> u32) -> Option<([u32; ALL_LANE_BITS], Vec<u32>)> {
    let lanes = match row_bits {
        6 => [row(0), row(1), row(2), row(3), 0, row(4), row(5)],
        7.. => [0, 1, 2, 3, 4, 5, 6].map(&row),
        _ => return None,
    };
    Some((lanes, (ALL_LANE_BITS as u32..row_bits).map(row).collect()))
}

/// Log2 of the last two extents. `None` if another extent is not 1.
fn matrix_bits(shape: &[u32]) -> Option<[u32; 2]> {
    let (outer, last) = shape.split_at(shape.len().checked_sub(2)?);
    outer.iter().all(|extent| *extent == 1).then(|| [last[0], last[1]].map(u32::trailing_zeros))
}

/// Rows and columns of the instructions for an accumulator. With 128 rows, an instruction has at least sixteen columns. It computes
/// each column of an accumulator with eight columns twice.
pub fn instruction_extents([m, n]: [u32; 2]) -> [u32; 2] {
    let fewest = if m < MAX_ROWS { MIN_COLUMNS_OF_FEW_ROWS } else { MIN_INSTRUCTION_COLUMNS };
    [m.min(MAX_ROWS), n.clamp(fewest, MAX_COLUMNS)]
}

/// A buffer for an accumulator: one TMEM column for each column of the tile, and further columns for rows beyond the first 128.
/// Elements shorter than a word occupy a word each. If an instruction computes columns twice, the TMEM columns of the second result
/// hold no element.
pub fn accumulators(elem: Elem, shape: &[u32]) -> Option<BufferInfo> {
    let [row_bits, col_bits] = matrix_bits(shape)?;
    let (lanes, further) = rows(row_bits, |bit| 1 << (col_bits + bit))?;
    let part = vec![0; (WORD / elem.bytes().clamp(1, WORD)).ilog2() as usize];
    let [_, written] = instruction_extents([row_bits, col_bits].map(|bits| 1 << bits.min(31)));
    let duplicate_bits = written.ilog2().saturating_sub(col_bits);
    let columns = (0..col_bits).map(|bit| 1 << bit).chain((0..duplicate_bits).map(|_| 0)).chain(further).collect();
    Some(buffer(elem, shape, part, columns, lanes))
}

/// A buffer for a left operand; neighbours along the depth share words.
pub fn left_operand(elem: Elem, shape: &[u32]) -> Option<BufferInfo> {
    let [row_bits, depth_bits] = matrix_bits(shape)?;
    let (lanes, further) = rows(row_bits, |bit| 1 << (depth_bits + bit))?;
    let part_bits = (WORD / elem.bytes().clamp(1, WORD)).ilog2();
    let depth = |from: u32, to: u32| (from..to).map(|bit| 1u32 << bit);
    (depth_bits >= part_bits).then(|| {
        let columns = depth(part_bits, depth_bits).chain(further).collect();
        buffer(elem, shape, depth(0, part_bits).collect(), columns, lanes)
    })
}

/// Copies of scales, one for the lanes of each warp of a warp group.
pub const COPIES: u32 = 1 << WARP_BITS;
/// Log2 of the minimum number of TMEM columns of a scale buffer, and of its alignment in columns.
const MIN_SCALES: usize = 2;
/// Log2 of the number of rows of A (or columns of B) whose words precede the words of further scale blocks. With fewer rows, the
/// distance is still two TMEM columns.
const LINES_BEFORE_WORDS: u32 = 6;

/// A buffer for the scales of an operand: for A the blocks of each row, for B the columns of each block.
pub fn scales(elem: Elem, shape: &[u32], operand: Operand) -> Option<BufferInfo> {
    let [first, second] = matrix_bits(shape)?;
    // The bits of lines and of blocks, and how many bits of an element's number are below each.
    let ((lines, below_lines), (blocks, below_blocks)) = match operand {
        Operand::B => ((second, 0), (first, second)),
        Operand::A | Operand::C => ((first, second), (second, 0)),
    };
    let line = |bit: u32| if bit < lines { 1 << (below_lines + bit) } else { 0 };
    let block = |bit: u32| if bit < blocks { 1 << (below_blocks + bit) } else { 0 };
    let part_bits = (WORD / elem.bytes().clamp(1, WORD)).ilog2();
    let lanes = std::array::from_fn(|bit| match (bit as u32).checked_sub(WARP_LANE_BITS) {
        None => line(bit as u32),
        Some(copy) => 1 << (first + second + copy),
    });
    let beyond_lanes = if blocks > part_bits { lines.max(LINES_BEFORE_WORDS) } else { lines };
    let mut columns: Vec<u32> = (WARP_LANE_BITS..beyond_lanes).map(line).chain((part_bits..blocks).map(block)).collect();
    columns.resize(columns.len().max(MIN_SCALES), 0);
    let copied: Vec<u32> = std::iter::once(COPIES).chain(shape[shape.len() - 2..].iter().copied()).collect();
    Some(buffer(elem, &copied, (0..part_bits).map(block).collect(), columns, lanes))
}

/// Returns whether two buffers are equal except for their alignment.
pub fn is_same_but_alignment(info: &BufferInfo, other: &BufferInfo) -> bool {
    info.space == other.space && info.offsets == other.offsets && info.shape == other.shape && info.elem == other.elem
}

// MMAs.

/// The atom for an MMA of these types and extents; none if the MMA does not divide into atoms.
pub fn tensor_atom(target: Target, operand: Scalar, acc: Scalar, [m, n, k]: [u32; 3]) -> Option<&'static TensorAtom> {
    let fits = |atom: &&TensorAtom| atom.scales.is_none() && atom.acc == acc && atom.operands.contains(&operand);
    let atom = TENSOR_ATOMS.iter().find(fits)?;
    (target.has(atom.needs) && m >= MIN_ROWS && n >= MIN_OPERAND_COLUMNS && k >= atom.k).then_some(atom)
}

/// The atom for an MMA whose operands have a scale of this type for each `block` elements along the depth.
pub fn scaled_tensor_atom(
    target: Target,
    operand: Scalar,
    (scale, block): (Scalar, u32),
    [m, n, k]: [u32; 3],
) -> Option<&'static TensorAtom> {
    let takes = |scales: &BlockScales| scales.block == block && scales.elems.contains(&scale);
    let fits = |atom: &&TensorAtom| atom.scales.as_ref().is_some_and(takes) && atom.operands.contains(&operand);
    let atom = TENSOR_ATOMS.iter().find(fits)?;
    (target.has(atom.needs) && m >= MAX_ROWS && n >= MIN_INSTRUCTION_COLUMNS && k >= atom.k).then_some(atom)
}

/// Returns whether a CTA pair can compute an MMA with these accumulator extents in each CTA. One instruction covers all rows of
/// both CTAs and all columns; the upper half of the right operand is in the second CTA.
pub fn suits_cta_pairs([m, n]: [u32; 2]) -> bool {
    m >= MAX_ROWS && (MIN_OF_CTA_PAIR..=MAX_COLUMNS).contains(&n)
}

pub fn named(name: &str) -> Option<&'static TensorAtom> {
    TENSOR_ATOMS.iter().find(|atom| atom.name == name)
}

impl TensorAtom {
    /// The instruction descriptor for these extents. `transposed`: whether A and B are contiguous along M and N instead of K.
    pub fn descriptor(&self, operands: [(Scalar, bool); 2], transposed: [bool; 2], [m, n]: [u32; 2]) -> u32 {
        const HAS_CODE: &str = "the test `every_tensor_atom_has_descriptor_codes` checks all atoms";
        let accumulator = self.accumulator_code().expect(HAS_CODE);
        let [a, b] = operands.map(|(elem, signed)| self.operand_code(elem, signed).expect(HAS_CODE));
        let [a_transposed, b_transposed] = transposed.map(u32::from);
        let shared = a << 7 | b << 10 | a_transposed << 15 | b_transposed << 16 | n / 8 << 17 | m / 16 << 24;
        if self.scales.is_some() { shared } else { shared | accumulator << 4 }
    }

    /// The descriptor's code of the accumulator type; none for a type that `tcgen05.mma` lacks.
    fn accumulator_code(&self) -> Option<u32> {
        match self.acc {
            Scalar::F16 => Some(0),
            Scalar::F32 => Some(1),
            Scalar::I32 => Some(2),
            _ => None,
        }
    }

    /// The descriptor's code of an operand type within the instruction's kind; none for a type that the kind lacks.
    fn operand_code(&self, elem: Scalar, signed: bool) -> Option<u32> {
        match (self.kind.split('.').next()?, elem) {
            ("f16", Scalar::F16) | ("f8f6f4" | "mxf8f6f4", Scalar::F8E4M3FN) => Some(0),
            ("f16", Scalar::BF16) | ("f8f6f4" | "mxf8f6f4", Scalar::F8E5M2) => Some(1),
            ("tf32", Scalar::TF32) => Some(2),
            ("i8", Scalar::I8) => Some(u32::from(signed)),
            // Pairs of 4-bit floats, of which there is one kind.
            ("mxf4nvf4", Scalar::I8) => Some(1),
            _ => None,
        }
    }

    /// The bits of the instruction descriptor for block scales: their type, and the position of A's and B's scales in their words.
    pub fn scales_descriptor(elem: Scalar, [of_a, of_b]: [u32; 2]) -> u32 {
        let code = match elem {
            Scalar::F8E4M3FN => 0,
            Scalar::F8E8M0FNU => 1,
            other => unreachable!("the verifier refuses scales of {other} in tensor memory"),
        };
        of_b << 4 | code << 23 | of_a << 29
    }
}

// Loads and stores of warps.

/// A slice of a buffer: a range of its columns.
#[derive(Clone, Copy, Debug)]
pub struct TmemSlice {
    from: u32,
    whole_bits: u32,
    own_bits: u32,
}

impl TmemSlice {
    /// The slice of a buffer of shape `whole` that a tile of shape `tile` occupies, from column `from` on.
    pub fn of(whole: &[u32], tile: &[u32], from: u32) -> Option<TmemSlice> {
        let (last, outer) = whole.split_last()?;
        let (own, own_outer) = tile.split_last()?;
        let inside = from.is_multiple_of(*own) && from.checked_add(*own)? <= *last;
        let (whole_bits, own_bits) = (last.trailing_zeros(), own.trailing_zeros());
        (outer == own_outer && inside).then_some(TmemSlice { from, whole_bits, own_bits })
    }
    /// The buffer's element for an element of the tile, without the offset of the slice.
    pub fn widened(&self, element: u32) -> u32 {
        element >> self.own_bits << self.whole_bits | element & ((1 << self.own_bits) - 1)
    }
    /// The buffer's element for an element of the tile.
    pub fn element(&self, element: u32) -> u32 {
        self.widened(element) ^ self.from
    }
    /// The tile's element for an element of the buffer, or 0 if the bit selects another slice.
    fn narrowed(&self, element: u32) -> u32 {
        let column = element & ((1 << self.whole_bits) - 1);
        if column >> self.own_bits != 0 { 0 } else { element >> self.whole_bits << self.own_bits | column }
    }
}

/// Rounds up to a number of TMEM columns that `tcgen05.alloc` can allocate.
pub fn allocated_columns(columns: u32) -> u32 {
    columns.next_power_of_two().max(MIN_ALLOCATED_COLUMNS)
}

pub fn lane_atom_named(name: &str) -> Option<&'static LaneAtom> {
    LANE_ATOMS.iter().find(|atom| atom.name == name)
}

impl LaneAtom {
    /// Lanes of the 32 of its warp that one instruction accesses.
    pub fn lanes(&self) -> u32 {
        if self.lane.contains(&Cell::Lane(4)) { 32 } else { 16 }
    }
    /// Log2 of the adjacent columns that the lanes and the atom's own registers cover.
    pub fn column_bits(&self) -> u32 {
        let cells = self.lane.iter().chain(self.register);
        cells.map(|cell| if let Cell::Column(bit) = cell { bit + 1 } else { 0 }).max().unwrap_or(0)
    }

    /// The layout in which warps load or store a slice of a buffer with this atom; none if the atom does not fit.
    pub fn layout(&self, info: &BufferInfo, part: &TmemSlice, warp_bits: usize) -> Option<Layout> {
        let at = |cell: Cell| part.narrowed(info.basis_of(cell));
        let mut columns: Vec<u32> = (0..info.columns().ilog2()).collect();
        columns.retain(|bit| at(Cell::Column(*bit)) != 0);
        let mut take = |cell: &Cell| {
            let bit = match cell {
                Cell::Lane(_) => return at(*cell),
                Cell::Column(bit) => *bit,
                Cell::SplitOffset => columns.last().copied().unwrap_or(u32::MAX),
            };
            columns.retain(|other| *other != bit);
            at(Cell::Column(bit))
        };
        let lane: Vec<u32> = self.lane.iter().map(&mut take).collect();
        let own: Vec<u32> = self.register.iter().map(&mut take).collect();
        let mut warp = vec![at(Cell::Lane(5)), at(Cell::Lane(6))];
        for _ in WARP_BITS..warp_bits {
            warp.push(columns.pop().map_or(0, |bit| at(Cell::Column(bit))));
        }
        let upper = if self.lanes() == 16 { at(Cell::Lane(4)) } else { 0 };
        let parts = info.offsets[..info.part_bits()].iter().map(|basis| part.narrowed(*basis));
        let further = columns.iter().map(|bit| at(Cell::Column(*bit))).chain([upper]);
        let register: Vec<u32> = parts.chain(own.iter().copied()).chain(further).filter(|basis| *basis != 0).collect();
        let layout = Layout { register, lane, warp };
        (warp_bits >= WARP_BITS && self.fits(info, part, &layout)).then_some(layout)
    }

    /// The layout in which warps load or store a whole buffer with this atom, and the matching layout of one element per row.
    pub fn whole_and_rows(&self, info: &BufferInfo, warp_bits: usize) -> Option<(Layout, Layout)> {
        let whole = self.layout(info, &TmemSlice::of(&info.shape, &info.shape, 0)?, warp_bits)?;
        let column_bits = info.shape.last()?.trailing_zeros();
        let mut rows = whole.map(|basis| basis >> column_bits);
        rows.register.retain(|basis| *basis != 0);
        Some((whole, rows))
    }

    /// Returns whether threads can load a slice of a buffer into this layout with this atom.
    pub fn fits(&self, info: &BufferInfo, part: &TmemSlice, layout: &Layout) -> bool {
        let spot = |basis: &u32| if *basis == 0 { None } else { info.spot(part.widened(*basis)) };
        let column = |spot: Spot| spot.lane == 0 && spot.part == 0 && spot.column.is_power_of_two();
        let is = |basis: &u32, cell: &Cell| match (spot(basis), cell) {
            (Some(spot), Cell::Lane(bit)) => spot == Spot { lane: 1 << bit, ..Spot::default() },
            (Some(spot), Cell::Column(bit)) => column(spot) && spot.column == 1 << bit,
            (Some(spot), Cell::SplitOffset) => column(spot),
            (None, _) => false,
        };
        let lanes = layout.lane.len() == LANE_BITS && layout.lane.iter().zip(&self.lane).all(|(basis, cell)| is(basis, cell));
        let warps = layout.warp.len() >= WARP_BITS
            && layout.warp.iter().zip(WARP_LANE_BITS..).take(WARP_BITS).all(|(basis, bit)| is(basis, &Cell::Lane(bit)))
            && layout.warp[WARP_BITS..].iter().all(|basis| *basis == 0 || spot(basis).is_some_and(column));
        let own = self.register.iter().all(|cell| layout.register.iter().any(|basis| is(basis, cell)));
        let registers = layout.register.iter().all(|basis| {
            spot(basis).is_some_and(|spot| {
                let one = [spot.lane, spot.column, spot.part].iter().map(|number| number.count_ones()).sum::<u32>() == 1;
                one && spot.lane >> WARP_LANE_BITS == 0
            })
        });
        let inside = info.space == Space::Tensor && info.spot(part.from).is_some_and(|spot| spot.lane == 0 && spot.part == 0);
        lanes && warps && own && registers && inside
    }
}

/// The table entry, serialised as its name.
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
    fn rows_have_the_lanes_of_the_isa() {
        let whole = accumulators(F32, &[128, 64]).unwrap();
        assert_eq!((whole.columns(), whole.spot(77 * 64 + 13)), (64, Some(Spot { lane: 77, column: 13, part: 0 })));
        let half = accumulators(F32, &[64, 32]).unwrap();
        assert_eq!(half.spot(50 * 32 + 3), Some(Spot { lane: 3 * 32 + 2, column: 3, part: 0 }));
        let two = accumulators(F32, &[256, 16]).unwrap();
        assert_eq!((two.columns(), two.spot(200 * 16 + 1)), (32, Some(Spot { lane: 72, column: 17, part: 0 })));
        // Of the sixteen columns that an instruction writes, the upper eight hold no element.
        let few = accumulators(F32, &[256, 8]).unwrap();
        assert_eq!((few.columns(), few.spot(200 * 8 + 1)), (32, Some(Spot { lane: 72, column: 17, part: 0 })));
        assert_eq!(accumulators(F32, &[64, 8]).unwrap().columns(), 8);
        let packed = left_operand(F16, &[128, 64]).unwrap();
        assert_eq!((packed.columns(), packed.spot(5 * 64 + 7)), (32, Some(Spot { lane: 5, column: 3, part: 1 })));
        let short = accumulators(F16, &[128, 64]).unwrap();
        assert_eq!((short.columns(), short.spot(5 * 64 + 7)), (64, Some(Spot { lane: 5, column: 7, part: 0 })));
        assert!(accumulators(F32, &[32, 32]).is_none() && left_operand(F16, &[64]).is_none());
    }

    /// 32 lines occupy consecutive lanes, four blocks of a line share a word, and the lanes of all warps have copies.
    #[test]
    fn scales_have_the_words_of_the_isa() {
        let byte = Elem::Scalar(Scalar::F8E8M0FNU);
        let a = scales(byte, &[128, 8], Operand::A).unwrap();
        let spot = |info: &BufferInfo, element| info.spot(element).unwrap();
        assert_eq!((a.columns(), &a.shape[..]), (8, &[4, 128, 8][..]));
        assert_eq!(spot(&a, 70 * 8 + 6), Spot { lane: 6, column: 4 + 2, part: 2 });
        assert_eq!(spot(&a, (3 * 128 + 70) * 8 + 6), Spot { lane: 96 + 6, column: 4 + 2, part: 2 });
        let b = scales(byte, &[2, 64], Operand::B).unwrap();
        assert_eq!((b.columns(), spot(&b, 64 + 40)), (4, Spot { lane: 8, column: 1, part: 1 }));
        assert_eq!((b.columns(), spot(&b, (2 * 2 + 1) * 64 + 40)), (4, Spot { lane: 64 + 8, column: 1, part: 1 }));
        for (info, warp_bits) in [(&a, 2), (&b, 2), (&a, 3)] {
            let part = TmemSlice::of(&info.shape, &info.shape, 0).unwrap();
            let layout = lane_atom_named("32x32b").unwrap().layout(info, &part, warp_bits).unwrap();
            layout.covers(info.shape.iter().product::<u32>().trailing_zeros()).unwrap();
        }
    }

    /// Each lane holds the elements of the PTX ISA's figure, in every form that fits.
    #[test]
    fn layouts_cover_what_they_load() {
        let mut fitting = Vec::new();
        for info in [
            accumulators(F32, &[128, 64]),
            accumulators(F32, &[64, 64]),
            left_operand(F16, &[128, 64]),
            accumulators(F16, &[64, 64]),
        ] {
            let info = info.unwrap();
            for (columns, from, warp_bits) in [(64, 0, 2), (32, 32, 2), (64, 0, 3), (16, 48, 2)] {
                let tile = [info.shape[0], columns];
                let part = TmemSlice::of(&info.shape, &tile, from).unwrap();
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
    fn an_element_is_in_the_register_of_the_figure() {
        let info = accumulators(F32, &[64, 32]).unwrap();
        let part = TmemSlice::of(&info.shape, &[64, 32], 0).unwrap();
        let layout = lane_atom_named("16x256b").unwrap().layout(&info, &part, 2).unwrap();
        // Thread 4 of warp 1: row 16 + 1, register 1 is column 1, register 2 eight rows further down, register 4 column 8.
        assert_eq!([1, 2, 4].map(|register| layout.element(register, 4, 1)), [17 * 32 + 1, 25 * 32, 17 * 32 + 8]);
        let info = accumulators(F32, &[128, 32]).unwrap();
        let part = TmemSlice::of(&info.shape, &[128, 8], 8).unwrap();
        let layout = lane_atom_named("32x32b").unwrap().layout(&info, &part, 2).unwrap();
        assert_eq!(part.element(layout.element(3, 7, 2) as u32), 71 * 32 + 8 + 3);
    }

    /// The instruction descriptors that the PTX ISA gives for these MMAs.
    #[test]
    fn descriptors_are_those_of_known_mmas() {
        let f16 = named("tcgen05.k16.f32").unwrap();
        assert_eq!(f16.descriptor([(Scalar::F16, true); 2], [false, true], [128, 128]), 0x821_0010);
        assert_eq!(f16.descriptor([(Scalar::BF16, true); 2], [false, true], [128, 128]), 0x821_0490);
        assert_eq!(f16.descriptor([(Scalar::F16, true); 2], [true, true], [128, 128]), 0x821_8010);
        let tf32 = named("tcgen05.k8.f32").unwrap();
        assert_eq!(tf32.descriptor([(Scalar::TF32, true); 2], [false, true], [64, 32]), 0x409_0910);
        let scaled = named("tcgen05.k32.block32.f32").unwrap();
        let form = scaled.descriptor([(Scalar::F8E4M3FN, false); 2], [false, true], [128, 64]);
        assert_eq!(form | TensorAtom::scales_descriptor(Scalar::F8E8M0FNU, [0, 0]), 0x891_0000);
        assert_eq!(TensorAtom::scales_descriptor(Scalar::F8E8M0FNU, [1, 2]), 0x2080_0020);
        let pairs = named("tcgen05.k64.block16.f32").unwrap();
        let form = pairs.descriptor([(Scalar::I8, false); 2], [false; 2], [128, 128]);
        assert_eq!(form | TensorAtom::scales_descriptor(Scalar::F8E4M3FN, [0, 0]), 0x820_0480);
        assert_eq!(form | TensorAtom::scales_descriptor(Scalar::F8E8M0FNU, [0, 0]), 0x8a0_0480);
        let int = named("tcgen05.k32.s32").unwrap();
        assert_eq!(int.descriptor([(Scalar::I8, true); 2], [false, true], [128, 128]), 0x821_04a0);
    }
}
