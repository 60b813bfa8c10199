//! Bank conflicts: the number of shared-memory wavefronts of a warp's access to a buffer. Shared memory has 32 banks of 4 bytes.

use serde::Serialize;
use tileas::layout::{LANE_BITS, Span, xor_of_bases};
use tileas::{BufferInfo, CopyAtom, Layout};

/// The number of bytes of one shared-memory line, which has one 4-byte word of each bank.
const LINE_BYTES: u32 = 128;
/// Maximum number of bytes per lane of one instruction. A row of an `ldmatrix` matrix also has this size.
const SEGMENT_BYTES: u32 = 16;

/// The shared-memory wavefronts of one load or store instruction of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wavefronts {
    /// The number of wavefronts that the instruction takes.
    pub count: u32,
    /// The minimum number of wavefronts for the same number of distinct words, without bank conflicts.
    pub minimum: u32,
}

/// Computes the wavefronts of the instruction that accesses the first registers of a warp's lanes. The addresses for other
/// registers differ by an exclusive OR, which only permutes the banks. Returns `None` if the layout does not fit the buffer or the
/// atom.
pub fn wavefronts(info: &BufferInfo, layout: &Layout, atom: CopyAtom) -> Option<Wavefronts> {
    let bytes = info.elem.bytes();
    let offset_bases = Span::from_bases(&info.offset_bases);
    let address = |element: u32| offset_bases.solve(element).map(|offset| offset as u32 * bytes);
    match atom {
        CopyAtom::Matrix { trans } => {
            let matrices = info.matrices(layout, trans)?;
            let row_addresses: Option<Vec<u32>> = (0..8).map(|row| address(xor_of_bases(&matrices.rows, row))).collect();
            Some(count_wavefronts(&[&row_addresses?], SEGMENT_BYTES))
        }
        CopyAtom::ByteMatrix => {
            let matrices = info.byte_matrices(layout)?;
            let row_addresses: Option<Vec<u32>> = (0..16).map(|row| address(xor_of_bases(&matrices.rows, row))).collect();
            Some(count_wavefronts(&row_addresses?.chunks(8).collect::<Vec<_>>(), SEGMENT_BYTES))
        }
        CopyAtom::Vector { vector_bits } => vector_wavefronts(layout, address, bytes << vector_bits.min(4)),
        CopyAtom::Async { bytes } => vector_wavefronts(layout, address, bytes),
    }
}

/// Computes the wavefronts of an access to `width` consecutive bytes per lane. `address` returns the byte address of an element.
fn vector_wavefronts(layout: &Layout, address: impl Fn(u32) -> Option<u32>, width: u32) -> Option<Wavefronts> {
    let width = width.clamp(1, SEGMENT_BYTES);
    let lane_addresses: Option<Vec<u32>> = (0..1 << LANE_BITS).map(|lane| address(xor_of_bases(&layout.lane, lane))).collect();
    // The hardware serves lanes in groups whose bytes fit one line.
    let groups: Vec<&[u32]> = lane_addresses.as_ref()?.chunks((LINE_BYTES / width.max(4)) as usize).collect();
    Some(count_wavefronts(&groups, width))
}

/// Counts the wavefronts of an access. Each group has the byte addresses of lanes that the hardware serves together. `width` is the
/// number of bytes per lane.
fn count_wavefronts(groups: &[&[u32]], width: u32) -> Wavefronts {
    let mut wavefronts = Wavefronts { count: 0, minimum: 0 };
    for addresses in groups {
        let mut words: Vec<u32> =
            addresses.iter().flat_map(|address| (0..width.div_ceil(4)).map(move |word| address / 4 + word)).collect();
        words.sort_unstable();
        words.dedup();
        let mut banks = [0u32; (LINE_BYTES / 4) as usize];
        words.iter().for_each(|word| banks[(word % (LINE_BYTES / 4)) as usize] += 1);
        wavefronts.count += banks.into_iter().max().unwrap_or(0);
        wavefronts.minimum += (words.len() as u32 * 4).div_ceil(LINE_BYTES);
    }
    wavefronts
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::text::TypeText;
    use core_dialect::tile::Elem;
    use tileas::Space;

    fn buffer(elem: &str, shape: &[u32], offset_bases: Vec<u32>) -> BufferInfo {
        BufferInfo {
            elem: Elem::parse(elem).unwrap(),
            shape: shape.iter().copied().collect(),
            offset_bases,
            align: 128,
            space: Space::Shared,
        }
    }

    #[test]
    fn a_column_conflicts_unless_it_is_swizzled() {
        // Lanes 0 to 31 hold the first column of 32x32 words.
        let layout = Layout { register: vec![1, 2, 4, 8, 16], lane: vec![32, 64, 128, 256, 512], warp: vec![] };
        let scalar_access = CopyAtom::Vector { vector_bits: 0 };
        let plain = buffer("f32", &[32, 32], (0..10).map(|bit| 1 << bit).collect());
        assert_eq!(wavefronts(&plain, &layout, scalar_access), Some(Wavefronts { count: 32, minimum: 1 }));
        let swizzled = buffer("f32", &[32, 32], (0..10).map(|bit| if bit < 5 { 1 << bit } else { 33 << (bit - 5) }).collect());
        assert_eq!(wavefronts(&swizzled, &layout, scalar_access), Some(Wavefronts { count: 1, minimum: 1 }));
        // Accesses of 16 bytes per lane take at least four wavefronts.
        let vector_access = CopyAtom::Vector { vector_bits: 2 };
        assert_eq!(wavefronts(&plain, &layout, vector_access), Some(Wavefronts { count: 32, minimum: 4 }));
    }

    #[test]
    fn broadcast_reads_have_no_conflict() {
        let layout = Layout { register: vec![], lane: vec![0; 5], warp: vec![1] };
        let plain = buffer("f32", &[2], vec![1]);
        assert_eq!(wavefronts(&plain, &layout, CopyAtom::Vector { vector_bits: 0 }), Some(Wavefronts { count: 1, minimum: 1 }));
    }
}
