//! Matrix descriptors of `wgmma` and `tcgen05.mma` for shared memory: a start address, two strides and a swizzle mode.

use crate::fault::{Fault, Result};
use crate::tensor_map::Swizzle;

/// The decoded matrix descriptor of a shared-memory operand. Addresses and offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    start_address: u32,
    /// The leading-dimension byte offset (LBO).
    leading_offset: u32,
    /// The stride-dimension byte offset (SBO).
    stride_offset: u32,
    swizzle: Swizzle,
}

/// The dimension of a matrix that is contiguous in shared memory: K (the reduction dimension), or M or N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Major {
    K,
    Mn,
}

impl Descriptor {
    /// Decodes the fields that all descriptors have in common, which are in units of 16 bytes.
    fn decode_fields(bits: u64, swizzle: Swizzle) -> Descriptor {
        let field = |from: u32| ((bits >> from & 0x3fff) << 4) as u32;
        Descriptor { start_address: field(0), leading_offset: field(16), stride_offset: field(32), swizzle }
    }
    /// Decodes a `wgmma` descriptor.
    pub(crate) fn decode_wgmma(bits: u64) -> Result<Descriptor> {
        let swizzle = [Swizzle::None, Swizzle::Bytes128, Swizzle::Bytes64, Swizzle::Bytes32][(bits >> 62) as usize];
        if bits >> 49 & 7 != 0 {
            return Err(Fault::unsupported("a matrix descriptor with a base offset"));
        }
        Ok(Descriptor::decode_fields(bits, swizzle))
    }
    /// Decodes a `tcgen05` descriptor.
    pub(crate) fn decode_tcgen05(bits: u64) -> Result<Descriptor> {
        let swizzle = match bits >> 61 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128Atom32,
            2 => Swizzle::Bytes128,
            4 => Swizzle::Bytes64,
            6 => Swizzle::Bytes32,
            other => return Err(Fault::new("SIM072", format!("a matrix descriptor has swizzle {other}"))),
        };
        if bits >> 46 & 3 != 1 {
            return Err(Fault::new("SIM072", "a matrix descriptor of tcgen05 lacks version 1 in bits 46 and 47"));
        }
        if bits >> 49 & 7 != 0 || bits >> 52 & 1 != 0 {
            return Err(Fault::unsupported("a matrix descriptor with a base offset or an absolute leading offset"));
        }
        Ok(Descriptor::decode_fields(bits, swizzle))
    }

    /// Returns the distance in bytes between neighbouring rows of a swizzle atom.
    fn row_pitch(self) -> u32 {
        match self.swizzle {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => 128,
        }
    }

    /// Returns the address of 16 contiguous bytes of a matrix. If the matrix is K-major, `index` is the row along M or N, and
    /// `offset` is the byte along K. If the matrix is MN-major, `index` is the row along K, and `offset` is the byte along M or N.
    pub(crate) fn chunk_address(self, major: Major, index: u32, offset: u32) -> u32 {
        let row_bytes = self.row_pitch();
        let rows_per_group = if self.swizzle == Swizzle::Bytes128Atom32 { 4 } else { 8 };
        let linear = match (major, self.swizzle) {
            (Major::K, Swizzle::None) => index / 8 * self.stride_offset + index % 8 * 16 + offset / 16 * self.leading_offset,
            (Major::K, _) => index / 8 * self.stride_offset + index % 8 * row_bytes + offset,
            (Major::Mn, Swizzle::None) => offset / 16 * self.stride_offset + index % 8 * 16 + index / 8 * self.leading_offset,
            (Major::Mn, _) => {
                offset / row_bytes * self.leading_offset
                    + index / rows_per_group * self.stride_offset
                    + index % rows_per_group * row_bytes
                    + offset % row_bytes
            }
        };
        self.swizzle.apply(self.start_address.wrapping_add(linear) & 0x3_ffff)
    }
}

/// The extents of an operand: along M or N, and along K.
pub(crate) struct MatrixExtents {
    pub(crate) mn: usize,
    pub(crate) k: usize,
    pub(crate) element_bytes: usize,
}

/// Reads a matrix. Calls `visit(row, k, bits)` for each element, where `row` is the index along M or N.
pub(crate) fn read_matrix<'a>(
    descriptor: Descriptor,
    major: Major,
    extents: MatrixExtents,
    mut read_chunk: impl FnMut(u32) -> Result<&'a [u8]>,
    mut visit: impl FnMut(usize, usize, u64),
) -> Result<()> {
    let MatrixExtents { mn, k, element_bytes } = extents;
    let elements_per_chunk = 16 / element_bytes;
    let (rows, contiguous_extent) = if major == Major::K { (mn, k) } else { (k, mn) };
    for row in 0..rows {
        for start in (0..contiguous_extent).step_by(elements_per_chunk) {
            let data = read_chunk(descriptor.chunk_address(major, row as u32, (start * element_bytes) as u32))?;
            for (index, element) in data.chunks_exact(element_bytes).enumerate().take(contiguous_extent - start) {
                let bits = element.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                match major {
                    Major::K => visit(row, start + index, bits),
                    Major::Mn => visit(start + index, row, bits),
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 9, byte 32 of a 128-byte row: the second group of eight rows, 16-byte unit 2 ^ 1.
    #[test]
    fn chunk_addresses_of_a_k_major_matrix() {
        let descriptor = Descriptor::decode_wgmma(0x4000_0040_0001_0000 | 0x4000 >> 4).unwrap();
        assert_eq!(descriptor.chunk_address(Major::K, 9, 32), 0x4000 + 1024 + 128 + 0x30);
        let plain = Descriptor::decode_wgmma(0x0000_0010_0008_0000 | 0x4000 >> 4).unwrap();
        assert_eq!(plain.chunk_address(Major::K, 9, 16), 0x4000 + 256 + 16 + 128);
    }

    /// MN-major: 64 elements of 16 bits form a row, and the next 64 are one leading offset away.
    #[test]
    fn chunk_addresses_of_an_mn_major_matrix() {
        let descriptor = Descriptor::decode_wgmma(0x4000_0040_0200_0000 | 0x4000 >> 4).unwrap();
        assert_eq!(descriptor.chunk_address(Major::Mn, 9, 128 + 16), 0x4000 + 8192 + 1024 + 128);
        let tcgen05 = Descriptor::decode_tcgen05(0x4000_4040_0200_0000 | 0x4000 >> 4).unwrap();
        assert_eq!(tcgen05, descriptor);
        let wide = Descriptor::decode_tcgen05(0x2000_4020_0200_0000).unwrap();
        assert_eq!(wide.chunk_address(Major::Mn, 5, 32), 512 + 128);
    }
}
