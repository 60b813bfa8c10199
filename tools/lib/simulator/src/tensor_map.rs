//! The 128-byte tensor map of TMA. It describes a strided tensor in global memory and the tile that one copy moves.

use crate::fault::{Fault, Result};
use crate::program::TensorMapField;
use ptx::Type;

/// A decoded tensor map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    /// The address of the tensor in global memory.
    pub(crate) address: u64,
    pub(crate) rank: usize,
    pub(crate) ty: Type,
    pub(crate) element_bytes: u32,
    /// Elements per dimension, the contiguous one first.
    pub(crate) dims: [u64; 5],
    /// Byte stride of each dimension.
    pub(crate) strides: [u64; 5],
    /// The extent of a TMA tile, in elements.
    pub(crate) extent: [u32; 5],
    pub(crate) swizzle: Swizzle,
    /// Whether loads round elements to tf32.
    pub(crate) tf32: bool,
}

/// The swizzle mode of a tile in shared memory: an XOR of address bits that avoids bank conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
    /// 128-byte swizzle with 32-byte atoms.
    Bytes128Atom32,
}

impl Swizzle {
    /// Returns the swizzled position of the byte at `address`.
    pub(crate) fn apply(self, address: u32) -> u32 {
        match self {
            Swizzle::None => address,
            Swizzle::Bytes32 => address ^ (address >> 3 & 0x10),
            Swizzle::Bytes64 => address ^ (address >> 3 & 0x30),
            Swizzle::Bytes128 => address ^ (address >> 3 & 0x70),
            Swizzle::Bytes128Atom32 => address ^ (address >> 2 & 0x60),
        }
    }
}

impl TensorMap {
    /// Decodes the 128 bytes of a tensor map. Returns a fault for an invalid or unsupported map.
    pub(crate) fn decode(bytes: &[u8]) -> Result<TensorMap> {
        let mut words = [0u64; 8];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        }
        let flags = words[1];
        let bits = |from: u32, count: u32| flags >> from & ((1 << count) - 1);
        let invalid = |what: &str| Err(Fault::new("SIM070", format!("the tensor map is invalid or unsupported: {what}")));
        if bits(0, 4) != 2 {
            return invalid("it is not tiled");
        }
        let rank = bits(4, 3) as usize + 1;
        let ty = match bits(7, 4) {
            0 => Type::U8,
            1 => Type::U16,
            2 => Type::U32,
            3 => Type::S32,
            4 => Type::U64,
            5 => Type::S64,
            6 => Type::F16,
            7 | 8 => Type::F32,
            9 => Type::F64,
            10 => Type::Bf16,
            _ => return invalid("its element type is unknown"),
        };
        let element_bytes = ty.bytes();
        let swizzle = match (bits(13, 2), bits(19, 1)) {
            (0, _) => Swizzle::None,
            (1, 0) => Swizzle::Bytes32,
            (2, 0) => Swizzle::Bytes64,
            (3, 0) => Swizzle::Bytes128,
            (3, _) => Swizzle::Bytes128Atom32,
            _ => return invalid("its swizzle is unknown"),
        };
        if rank > 5 || words[6] >> 32 & 0xff_ffff != 0 {
            return invalid("its rank or its traversal strides are out of range");
        }
        let half = |word: u64, high: bool| if high { word >> 32 } else { word & 0xffff_ffff };
        let dim = |index: usize| half(words[4 + index / 2], index % 2 == 1) + 1;
        let stride = [(1, true), (2, false), (2, true), (3, false)].map(|(word, high)| half(words[word], high) << 4);
        let extents = words[7];
        let extent = |index: usize| match index {
            0 => (words[6] >> 56) as u32 + 1,
            _ => (extents >> (8 * (index - 1)) & 0xff) as u32 + 1,
        };
        Ok(TensorMap {
            address: words[0],
            rank,
            ty,
            element_bytes,
            dims: std::array::from_fn(|index| if index < rank { dim(index) } else { 1 }),
            strides: std::array::from_fn(|index| if index == 0 { element_bytes.into() } else { stride[index - 1] }),
            extent: std::array::from_fn(|index| if index < rank { extent(index) } else { 1 }),
            swizzle,
            tf32: bits(16, 1) == 1,
        })
    }

    /// Returns the number of bytes of a tile in shared memory, including the out-of-bounds elements.
    pub(crate) fn tile_bytes(&self) -> u32 {
        self.extent.iter().product::<u32>() * self.element_bytes
    }
    /// Returns the rows of a `gather4` or `scatter4` copy: four rows of a matrix, consecutive in shared memory. A row is as wide as
    /// the tile. The coordinates are a column and four row numbers.
    pub(crate) fn four_rows(&self, coordinates: [i32; 5]) -> Vec<TileRow> {
        let single_row_map = TensorMap { extent: [self.extent[0], 1, 1, 1, 1], ..self.clone() };
        let width = self.extent[0] * self.element_bytes;
        let row = |index: usize| {
            single_row_map
                .rows([coordinates[0], coordinates[1 + index], 0, 0, 0])
                .map(move |row| TileRow { offset: index as u32 * width, ..row })
        };
        (0..4).flat_map(row).collect()
    }
    /// Returns the rows of the tile at these coordinates, in the order of the rows in shared memory.
    pub(crate) fn rows(&self, coordinates: [i32; 5]) -> impl Iterator<Item = TileRow> + '_ {
        let rows: u32 = self.extent[1..].iter().product();
        (0..rows).map(move |row| {
            let mut remaining_rows = row;
            let mut is_inside = true;
            let mut address = self.address;
            for (axis, &start) in coordinates.iter().enumerate().skip(1) {
                let index = i64::from(start) + i64::from(remaining_rows % self.extent[axis]);
                remaining_rows /= self.extent[axis];
                is_inside &= index >= 0 && (index as u64) < self.dims[axis];
                address = address.wrapping_add((index as u64).wrapping_mul(self.strides[axis]));
            }
            let start = i64::from(coordinates[0]);
            let first = (-start).clamp(0, self.extent[0].into()) as u32;
            let end = (self.dims[0] as i64 - start).clamp(first.into(), self.extent[0].into()) as u32;
            let (first, end) = if is_inside { (first, end) } else { (0, 0) };
            address = address.wrapping_add((start.wrapping_add(first.into()) as u64).wrapping_mul(self.element_bytes.into()));
            TileRow {
                offset: row * self.extent[0] * self.element_bytes,
                skip: first * self.element_bytes,
                bytes: (end - first) * self.element_bytes,
                address,
            }
        })
    }
}

/// Replaces a field of a map in memory, as `tensormap.replace` does.
pub(crate) fn replace_field(bytes: &mut [u8], field: TensorMapField, value: u64) -> Result<()> {
    let unsupported = |what: &str| Err(Fault::unsupported(format!("a tensor map with {what} {value}")));
    let (word, from, count, bits) = match field {
        TensorMapField::Address => (0, 0, 64, value),
        TensorMapField::Rank => (1, 4, 3, value),
        TensorMapField::Box(0) => (6, 56, 8, value.wrapping_sub(1)),
        TensorMapField::Box(axis) => (7, 8 * (axis - 1), 8, value.wrapping_sub(1)),
        TensorMapField::Dim(axis) => (4 + axis as usize / 2, 32 * (axis % 2), 32, (value & 0xffff_ffff).wrapping_sub(1)),
        TensorMapField::Stride(axis) => (1 + (axis as usize).div_ceil(2), 32 * ((axis + 1) % 2), 32, value >> 4),
        TensorMapField::ElementType if value <= 10 => (1, 7, 4, value),
        TensorMapField::ElementType => return unsupported("element type"),
        TensorMapField::Swizzle if value <= 3 => (1, 13, 2, value),
        TensorMapField::Swizzle => return unsupported("swizzle mode"),
        TensorMapField::SwizzleAtom if value <= 1 => (1, 19, 1, value),
        TensorMapField::SwizzleAtom => return unsupported("swizzle atomicity"),
        TensorMapField::ElementStride if value == 1 => return Ok(()),
        TensorMapField::ElementStride => return unsupported("element stride"),
        TensorMapField::Interleave | TensorMapField::Fill if value == 0 => return Ok(()),
        TensorMapField::Interleave => return unsupported("interleave layout"),
        TensorMapField::Fill => return unsupported("fill mode"),
    };
    let mask = (u64::MAX >> (64 - count)) << from;
    let word_bytes = &mut bytes[8 * word..8 * word + 8];
    let old = u64::from_le_bytes([
        word_bytes[0],
        word_bytes[1],
        word_bytes[2],
        word_bytes[3],
        word_bytes[4],
        word_bytes[5],
        word_bytes[6],
        word_bytes[7],
    ]);
    word_bytes.copy_from_slice(&(old & !mask | bits << from & mask).to_le_bytes());
    Ok(())
}

/// The in-bounds part of a tile row in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileRow {
    /// The row's offset in the tile, in bytes.
    pub(crate) offset: u32,
    /// Out-of-bounds bytes of the row before the in-bounds part.
    pub(crate) skip: u32,
    /// Bytes of the in-bounds part.
    pub(crate) bytes: u32,
    /// The address of the in-bounds part in global memory.
    pub(crate) address: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(flags: u64, dims: [u64; 2], stride: u64, extent: [u64; 2]) -> Vec<u8> {
        let words = [
            0x1000,
            flags | (stride >> 4) << 32,
            0,
            0,
            (dims[0] - 1) | (dims[1] - 1) << 32,
            0,
            (extent[0] - 1) << 56,
            extent[1] - 1,
        ];
        words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
    }

    #[test]
    fn decode_returns_the_fields_of_maps_that_the_driver_encodes() {
        let map = TensorMap::decode(&encode(0x46312, [100, 30], 256, [64, 8])).unwrap();
        assert_eq!((map.rank, map.element_bytes, map.swizzle), (2, 2, Swizzle::Bytes128));
        assert_eq!((map.dims, map.strides[1], map.extent), ([100, 30, 1, 1, 1], 256, [64, 8, 1, 1, 1]));
        assert_eq!(map.tile_bytes(), 1024);
        assert_eq!(TensorMap::decode(&encode(0xd6392, [8, 8], 256, [8, 8])).unwrap().swizzle, Swizzle::Bytes128Atom32);
    }

    #[test]
    fn rows_contain_only_in_bounds_bytes() {
        let map = TensorMap::decode(&encode(0x40312, [100, 30], 256, [64, 2])).unwrap();
        let rows: Vec<TileRow> = map.rows([64, 29, 0, 0, 0]).collect();
        assert_eq!(rows[0], TileRow { offset: 0, skip: 0, bytes: 72, address: 0x1000 + 29 * 256 + 128 });
        assert_eq!((rows[1].offset, rows[1].bytes), (128, 0));
        let rows: Vec<TileRow> = map.rows([-4, 0, 0, 0, 0]).collect();
        assert_eq!(rows[0], TileRow { offset: 0, skip: 8, bytes: 120, address: 0x1000 });
    }

    #[test]
    fn swizzles_are_their_own_inverse() {
        for swizzle in [Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128, Swizzle::Bytes128Atom32] {
            for address in 0..2048 {
                assert_eq!(swizzle.apply(swizzle.apply(address)), address);
            }
        }
        assert_eq!(Swizzle::Bytes128.apply(0x80), 0x90);
        assert_eq!(Swizzle::Bytes64.apply(0x180), 0x1b0);
    }
}
