//! Chooses shared-memory layouts and swizzles that avoid bank conflicts of a buffer's writers and readers.
//!
//! A row consists of the elements along the innermost dimension, divided into chunks of 4 to 16 bytes. A swizzle XORs the chunk
//! index with bits of the row index. In rows longer than 128 bytes, it may also use bits of the 128-byte line index. The search
//! takes the swizzle with the fewest shared-memory wavefronts. It stops early at the lower bound, where each wavefront moves 128
//! bytes. See also: Triton's `optimalSwizzling` and CUTLASS `Swizzle<B, M, S>`.

use crate::layout_transforms::neighbours_first;
use core_dialect::tile::Elem;
use numerics::Scalar;
use tileas::layout::{LANE_BITS, Span, Strides, xor_of_bases};
use tileas::{BufferInfo, CopyAtom, Layout, Space, wgmma_atoms};

/// Bytes of a shared-memory line: one 4-byte word in each of 32 banks.
pub(crate) const LINE: u32 = 128;
/// Bytes of the largest chunk, which is also the widest access of a thread.
const CHUNK: u32 = 16;

/// A shared-memory buffer for a tile with the innermost dimension `inner` and a swizzle of 16-byte chunks. The swizzle has the
/// fewest wavefronts for accesses in the layouts `accesses`.
pub(crate) fn swizzled_buffer(elem: Elem, shape: &[u32], inner: usize, accesses: &[&Layout]) -> BufferInfo {
    cheapest_buffer(elem, shape, swizzle_candidates(elem, CHUNK).map(|swizzle| (inner, swizzle)), accesses)
}

/// A shared-memory buffer for a layout conversion. Its innermost dimension is one of `inner`, and chunks have 4, 8 or 16 bytes. The
/// swizzle has the fewest wavefronts for accesses in the layouts `accesses`.
pub(crate) fn conversion_buffer(elem: Elem, shape: &[u32], inner: [usize; 2], accesses: &[&Layout]) -> BufferInfo {
    let chunk_sizes = [CHUNK, CHUNK / 2, CHUNK / 4];
    let candidates = chunk_sizes
        .into_iter()
        .flat_map(|chunk_bytes| swizzle_candidates(elem, chunk_bytes))
        .flat_map(|swizzle| inner.into_iter().map(move |inner| (inner, swizzle)));
    cheapest_buffer(elem, shape, candidates, accesses)
}

/// The cost for each warp of a layout conversion through shared memory.
#[derive(Default)]
pub(crate) struct ConversionCost {
    /// The wavefronts of all stores and loads.
    pub(crate) wavefronts: u32,
    /// The number of store and load instructions.
    pub(crate) accesses: u32,
}

/// The cost of the conversion of a tile from layout `from` to layout `to`, whose innermost dimensions are `inner`. The cost is zero
/// if all elements stay in their threads.
pub(crate) fn conversion_cost(elem: Elem, shape: &[u32], inner: [usize; 2], [from, to]: [&Layout; 2]) -> ConversionCost {
    if to.renaming(from, |element| element).is_some() {
        return ConversionCost::default();
    }
    let from = &neighbours_first(from, shape, inner[0]);
    let buffer = conversion_buffer(elem, shape, inner, &[from, to]);
    let accesses = |layout: &Layout| 1u32 << (layout.register.len() - widest_vector(&buffer, layout) as usize);
    ConversionCost { wavefronts: wavefronts(&buffer, from) + wavefronts(&buffer, to), accesses: accesses(from) + accesses(to) }
}

/// The buffer of the first candidate with the fewest wavefronts for accesses in the layouts `accesses`. A candidate is an innermost
/// dimension and a swizzle. The search stops at a candidate with the lowest possible number of wavefronts.
fn cheapest_buffer(
    elem: Elem,
    shape: &[u32],
    candidates: impl Iterator<Item = (usize, Swizzle)>,
    accesses: &[&Layout],
) -> BufferInfo {
    let strides = Strides::for_shape(shape);
    let wavefronts_at_least = |layout: &&Layout| (layout.registers() as u32 * distinct_lanes(layout) * elem.bytes()).div_ceil(LINE);
    let lower_bound: u32 = accesses.iter().map(wavefronts_at_least).sum();
    let mut best: Option<(u32, BufferInfo)> = None;
    let has_lines = |inner: usize| shape[inner] * elem.bytes() > LINE;
    for (inner, swizzle) in candidates.filter(|(inner, swizzle)| swizzle.lines.is_none() || has_lines(*inner)) {
        let others = (0..shape.len()).rev().filter(|dim| *dim != inner);
        let order = std::iter::once(inner).chain(others).flat_map(|dim| strides.dim_bits(dim));
        let mut offset_bases: Vec<u32> = order.map(|bit| 1 << bit).collect();
        swizzle.apply(&mut offset_bases, strides.bits[inner] as usize, elem.bytes());
        let info = BufferInfo { elem, shape: shape.into(), offset_bases, align: LINE, space: Space::Shared };
        let cost = accesses.iter().map(|layout| wavefronts(&info, layout)).sum::<u32>();
        if best.as_ref().is_none_or(|(lowest, _)| cost < *lowest) {
            best = Some((cost, info));
        }
        if cost <= lower_bound {
            break;
        }
    }
    best.expect("there are candidates").1
}

/// The number of lanes of a warp that hold distinct elements.
fn distinct_lanes(layout: &Layout) -> u32 {
    1 << layout.lane.iter().filter(|basis| **basis != 0).count()
}

/// A swizzle of a shared-memory buffer: the chunk index is XORed with bits of the row index, the line index, or both.
#[derive(Clone, Copy)]
struct Swizzle {
    /// The bits of the row index that are XORed; `None` for none.
    rows: Option<SelectedBits>,
    /// The bits of the index of a 128-byte line in its row that are XORed; `None` for none. Without `rows`, the selected bits may
    /// continue into the row index.
    lines: Option<SelectedBits>,
    /// Whether the second row index bit is skipped. Reason: threads transpose 8-bit elements in pairs of rows.
    gap: bool,
    /// Bytes of a chunk.
    chunk_bytes: u32,
}

/// The selection of the row or line index bits that a swizzle XORs to the chunk index.
#[derive(Clone, Copy)]
struct SelectedBits {
    /// The number of low index bits that are not selected.
    skip: usize,
    /// The first chunk index bit to which a selected bit is XORed. Later selected bits follow cyclically.
    rotation: usize,
}

/// All candidate swizzles with chunks of `chunk_bytes`, in the order in which equally good swizzles are preferred.
fn swizzle_candidates(elem: Elem, chunk_bytes: u32) -> impl Iterator<Item = Swizzle> {
    let bits = |skips| (0..skips).flat_map(|skip| (0..3).map(move |rotation| SelectedBits { skip, rotation }));
    let gaps = if elem.bytes() == 1 { &[false, true][..] } else { &[false] };
    let rows = gaps.iter().flat_map(move |gap| bits(4).map(move |rows| (Some(rows), None, *gap)));
    let lines = bits(4).map(|lines| (None, Some(lines), false));
    let both = bits(2).flat_map(move |rows| bits(1).map(move |lines| (Some(rows), Some(lines), false)));
    rows.chain(lines).chain(both).map(move |(rows, lines, gap)| Swizzle { rows, lines, gap, chunk_bytes })
}

impl Swizzle {
    /// Applies the swizzle to the offset bases of a buffer. `row_bits` is log2 of the extent of the innermost dimension, and
    /// `bytes` the bytes of an element.
    fn apply(self, offset_bases: &mut [u32], row_bits: usize, bytes: u32) {
        let chunk_bits = (self.chunk_bytes / bytes.clamp(1, self.chunk_bytes)).ilog2() as usize;
        let line_bits = (LINE / bytes.clamp(1, LINE)).ilog2() as usize;
        let chunk_index_bits = row_bits.saturating_sub(chunk_bits).min(line_bits - chunk_bits);
        let (first_row_bit, bit_count) = (row_bits.max(line_bits), offset_bases.len());
        let mut xor_bits = |bits: SelectedBits, at: std::ops::Range<usize>| {
            for bit in 0..chunk_index_bits {
                let other = at.start + bits.skip + bit + usize::from(self.gap && bit > 0);
                if other < at.end {
                    offset_bases[other] ^= offset_bases[chunk_bits + (bit + bits.rotation) % chunk_index_bits];
                }
            }
        };
        if let Some(bits) = self.lines {
            xor_bits(bits, line_bits..if self.rows.is_some() { first_row_bit } else { bit_count });
        }
        if let Some(bits) = self.rows {
            xor_bits(bits, first_row_bit..bit_count);
        }
    }
}

/// Log2 of the elements of the widest vector with which threads access a buffer in `layout`. The elements of a vector are in
/// consecutive registers, and contiguous and aligned in the buffer.
pub(crate) fn widest_vector(info: &BufferInfo, layout: &Layout) -> u32 {
    let widest = (CHUNK / info.elem.bytes().clamp(1, CHUNK)).ilog2() as usize;
    let offset_bases = Span::from_bases(&info.offset_bases);
    let offset_of = |basis: &u32| offset_bases.solve(*basis);
    let contiguous_bits =
        layout.register.iter().enumerate().take_while(|(bit, basis)| offset_of(basis) == Some(1 << bit)).count().min(widest);
    let are_vectors_aligned = |bits: usize| {
        let others = layout.register[bits..].iter().chain(&layout.lane).chain(&layout.warp);
        others.into_iter().all(|basis| offset_of(basis).is_some_and(|offset| offset.is_multiple_of(1 << bits)))
    };
    (0..=contiguous_bits).rev().find(|bits| are_vectors_aligned(*bits)).unwrap_or(0) as u32
}

/// The atom with which threads read a buffer into registers in `layout`. It is `ldmatrix` if possible, else `ldmatrix` for 8-bit
/// elements if `has_byte_ldmatrix` (the target supports it), else vector loads.
pub(crate) fn read_atom(info: &BufferInfo, layout: &Layout, has_byte_ldmatrix: bool) -> CopyAtom {
    let vector = || CopyAtom::Vector { vector_bits: widest_vector(info, layout) };
    let bytes = || info.byte_matrices(layout).filter(|_| has_byte_ldmatrix).map(|_| CopyAtom::ByteMatrix);
    info.ldmatrix_atom(layout).or_else(bytes).unwrap_or_else(vector)
}

/// The atom with which threads write a tile in `layout` to a buffer: `stmatrix` or vector stores. `stmatrix` is faster if vectors
/// have at most one word. `has_stmatrix` tells whether the target supports it.
pub(crate) fn write_atom(info: &BufferInfo, layout: &Layout, has_stmatrix: bool) -> CopyAtom {
    /// Bytes of a shared-memory word, and of a row that a thread supplies to `stmatrix`.
    const WORD: u32 = 4;
    let vector_bits = widest_vector(info, layout);
    let bytes = info.elem.bytes();
    let words = (layout.registers() as u32).saturating_mul(bytes) / WORD;
    let pays = has_stmatrix && words > 1 && bytes << vector_bits <= WORD;
    info.stmatrix_atom(layout).filter(|_| pays).unwrap_or(CopyAtom::Vector { vector_bits })
}

/// Changes the layout in which threads read a swizzled TMA tile so that the reads have fewer bank conflicts. Lanes that would
/// access the same banks read another chunk of their row. The threads only move the tile, so each element may be in any lane.
pub(crate) fn with_fewer_conflicts(elem: Scalar, shape: [u32; 2], inner: usize, layout: Layout) -> Layout {
    let elem = Elem::Scalar(elem);
    let Some(info) = wgmma_atoms::operand_buffer(elem, &shape, inner) else { return layout };
    let chunk_bases = Strides::for_shape(&shape).dim_bits(inner).map(|bit| 1 << bit).skip((CHUNK / elem.bytes()).ilog2() as usize);
    let with_lane_in_chunk = |(lane, chunk_basis): (usize, u32)| {
        let mut variant = layout.clone();
        variant.lane[lane] ^= chunk_basis;
        variant
    };
    let variants: Vec<Layout> =
        chunk_bases.flat_map(|chunk_basis| (0..2).map(move |lane| (lane, chunk_basis))).map(with_lane_in_chunk).collect();
    std::iter::once(layout).chain(variants).min_by_key(|layout| wavefronts(&info, layout)).expect("there is one")
}

/// The shared-memory wavefronts in which a warp reads its part of a tile from a buffer, in `layout` and with the best atom.
pub(crate) fn wavefronts(info: &BufferInfo, layout: &Layout) -> u32 {
    // A layout that fits byte matrices exists only on targets with byte matrices.
    wavefronts_of(info, layout, read_atom(info, layout, true))
}

/// The shared-memory wavefronts in which a warp accesses its part of a tile, in `layout` and with `atom`. The function counts one
/// access and multiplies, because the addresses of the other accesses differ by an XOR, which only permutes banks.
pub(crate) fn wavefronts_of(info: &BufferInfo, layout: &Layout, atom: CopyAtom) -> u32 {
    let bytes = info.elem.bytes();
    let offset_bases = Span::from_bases(&info.offset_bases);
    let address = |element: u32| offset_bases.solve(element).map_or(0, |offset| offset as u32 * bytes);
    match atom {
        CopyAtom::Matrix { trans } => {
            let matrices = info.matrices(layout, trans).expect("the atom was chosen for these");
            let rows: Vec<u32> = (0..8).map(|row| address(xor_of_bases(&matrices.rows, row))).collect();
            words_of_busiest_bank(&rows, CHUNK) << matrices.further_matrices.len()
        }
        CopyAtom::ByteMatrix => {
            let matrices = info.byte_matrices(layout).expect("the atom was chosen for these");
            let rows: Vec<u32> = (0..16).map(|row| address(xor_of_bases(&matrices.rows, row))).collect();
            rows.chunks(8).map(|rows| words_of_busiest_bank(rows, CHUNK)).sum::<u32>() << matrices.further_matrices.len()
        }
        CopyAtom::Vector { .. } | CopyAtom::Async { .. } => {
            let vector_bits = widest_vector(info, layout);
            let width = (bytes << vector_bits).clamp(1, CHUNK);
            let lanes: Vec<u32> = (0..1 << LANE_BITS).map(|lane| address(xor_of_bases(&layout.lane, lane))).collect();
            let lanes_per_phase = (LINE / width.max(4)) as usize;
            let wavefronts_per_access = lanes.chunks(lanes_per_phase).map(|lanes| words_of_busiest_bank(lanes, width)).sum::<u32>();
            wavefronts_per_access << (layout.register.len() - vector_bits as usize)
        }
    }
}

/// The number of distinct 4-byte words that the busiest bank serves for accesses of `width` bytes at these addresses.
fn words_of_busiest_bank(addresses: &[u32], width: u32) -> u32 {
    let mut words: Vec<u32> = addresses.iter().flat_map(|at| (0..width.div_ceil(4)).map(move |word| at / 4 + word)).collect();
    words.sort_unstable();
    words.dedup();
    let mut banks = [0; (LINE / 4) as usize];
    words.iter().for_each(|word| banks[(word % (LINE / 4)) as usize] += 1);
    banks.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tileas::mma_sync_atoms::{Operand, WarpsPerDim, sync_atom_named};

    /// Checks that fragments of A and B of the atom `name` are read in the fewest possible wavefronts, with either dimension
    /// innermost.
    fn check_operands(name: &str, scalar: Scalar, k: u32) {
        let atom = sync_atom_named(name).unwrap();
        let warps = WarpsPerDim { m_bits: 1, n_bits: 1, ..WarpsPerDim::default() };
        let operands = [(Operand::A, [128, k], 0), (Operand::B, [k, 128], 1)];
        for ((operand, shape, lines), by_bytes) in operands.into_iter().flat_map(|operand| [(operand, false), (operand, true)]) {
            for inner in [0, 1] {
                // Without `ldmatrix` for 8-bit elements, threads transpose these elements in pairs of rows.
                let transposes_bytes = inner == lines && scalar.bits() == 8;
                let transposes_pairs = transposes_bytes && !by_bytes;
                let warps_per_dim = atom.interleave(warps, [128; 2], transposes_pairs, transposes_pairs);
                let layout = atom.layout(operand, 1, shape[0], shape[1], warps_per_dim, 2);
                let info = swizzled_buffer(Elem::Scalar(scalar), &shape, inner, &[&layout]);
                let lower_bound = (layout.registers() as u32 * 32 * scalar.bits() / 8).div_ceil(LINE);
                assert_eq!(wavefronts(&info, &layout), lower_bound, "{name} {operand:?} inner {inner} k {k}");
                if scalar.bits() <= 16 {
                    let one_by_one = transposes_bytes && by_bytes;
                    let atom = if one_by_one { CopyAtom::ByteMatrix } else { CopyAtom::Matrix { trans: inner == lines } };
                    assert_eq!(read_atom(&info, &layout, by_bytes), atom);
                    assert!(!one_by_one || matches!(read_atom(&info, &layout, false), CopyAtom::Vector { .. }));
                }
            }
        }
    }

    /// Threads of a warp store chunks of a row that are 128-byte lines apart, and read rows in order.
    #[test]
    fn conversion_buffer_of_long_rows_has_no_bank_conflicts() {
        let layout = |register: &[u32], lane: &[u32]| Layout { register: register.into(), lane: lane.into(), ..Layout::default() };
        let stored = layout(&[1, 2, 4, 8, 2048], &[16, 32, 64, 128, 256]);
        let read = layout(&[1, 2, 128, 256, 512, 1024, 2048], &[4, 8, 16, 32, 64]);
        let info = conversion_buffer(Elem::Scalar(Scalar::F32), &[16, 256], [1; 2], &[&stored, &read]);
        assert_eq!([&stored, &read].map(|layout| wavefronts(&info, layout)), [32, 128]);
    }

    #[test]
    fn mma_fragments_are_read_without_bank_conflicts() {
        for k in [16, 32, 64, 128] {
            check_operands("mma.m16n8k16.f32", Scalar::F16, k);
        }
        for k in [32, 64] {
            check_operands("mma.m16n8k8.f32", Scalar::F32, k);
        }
        for k in [32, 64, 128] {
            check_operands("mma.m16n8k32.s32", Scalar::I8, k);
        }
    }
}
