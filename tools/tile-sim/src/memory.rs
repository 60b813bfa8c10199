//! Global memory: buffers and variables at fixed addresses, each with its own bounds.

use crate::fault::{Fault, Result};

/// Bytes that device code may allocate.
const HEAP_LIMIT: u64 = 1 << 30;
const HEAP_BASE: u64 = 0x0500_0000_0000;

struct Region {
    base: u64,
    name: String,
    data: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Global {
    /// Sorted by address.
    regions: Vec<Region>,
    /// The region of the last access.
    last: usize,
    heap: u64,
}

impl Global {
    pub(crate) fn add(&mut self, name: &str, base: u64, data: Vec<u8>) {
        let at = self.regions.partition_point(|region| region.base < base);
        self.regions.insert(at, Region { base, name: name.to_owned(), data });
    }
    pub(crate) fn region(&self, name: &str) -> Option<&[u8]> {
        self.regions.iter().find(|region| region.name == name).map(|region| &*region.data)
    }
    /// Memory for device code; `None` when there is no more.
    pub(crate) fn allocate(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let base = (HEAP_BASE + self.heap + 64).checked_next_multiple_of(align.max(16))?;
        let end = base.checked_add(bytes)?;
        if end - HEAP_BASE > HEAP_LIMIT {
            return None;
        }
        self.heap = end - HEAP_BASE;
        self.add(&format!("allocation {base:#x}"), base, vec![0; bytes as usize]);
        Some(base)
    }

    /// The bytes at an address.
    #[inline]
    pub(crate) fn bytes(&mut self, address: u64, length: usize) -> Result<&mut [u8]> {
        let inside = |region: &Region| {
            let offset = address.wrapping_sub(region.base);
            offset < region.data.len() as u64 && region.data.len() as u64 - offset >= length as u64
        };
        if !self.regions.get(self.last).is_some_and(inside) {
            let at = self.regions.partition_point(|region| region.base <= address);
            match at.checked_sub(1) {
                Some(index) if inside(&self.regions[index]) => self.last = index,
                _ => return Err(self.outside(address, length, at)),
            }
        }
        let region = &mut self.regions[self.last];
        let offset = (address - region.base) as usize;
        Ok(&mut region.data[offset..offset + length])
    }

    #[cold]
    fn outside(&self, address: u64, length: usize, at: usize) -> Box<Fault> {
        let mut fault =
            Fault::new("SIM010", format!("an access of {length} bytes at global address {address:#x} is out of bounds"));
        let around = [at.checked_sub(1), Some(at)];
        for region in around.into_iter().flatten().filter_map(|index| self.regions.get(index)) {
            let (base, size) = (region.base, region.data.len());
            let distance = if address >= base {
                format!("{} bytes after its start", address - base)
            } else {
                format!("{} bytes before its start", base - address)
            };
            fault = fault.note(format!("'{}' has {size} bytes at {base:#x}: {distance}", region.name));
        }
        fault
    }
}
