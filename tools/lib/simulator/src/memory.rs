//! Global memory: buffers and variables at fixed addresses, each with bounds checks.

use crate::fault::{Fault, Result};
use common::launch::Contents;

/// Maximum number of bytes that device code can allocate with `malloc`, and that the simulator allocates as private CTA memory.
const HEAP_LIMIT: u64 = 1 << 30;
/// Base address of the heap from which the simulator serves `malloc` and private CTA memory.
const HEAP_BASE: u64 = 0x0500_0000_0000;
/// Maximum distance in bytes between an out-of-bounds access and a region that the fault names in a note.
const MAX_NOTE_DISTANCE: u64 = 1 << 28;

/// A region of global memory: a buffer of the launch, a module variable or a heap allocation.
#[derive(Clone)]
struct Region {
    base: u64,
    name: String,
    data: Contents,
    /// For each byte, whether it was written, if the memory tracks writes.
    written: Option<Vec<bool>>,
}

/// The global memory of a launch: the buffers, the module variables and the heap.
#[derive(Clone, Default)]
pub struct DeviceGlobalMemory {
    /// Sorted by address.
    regions: Vec<Region>,
    /// Index of the last accessed region, which the next lookup tries first.
    last_region: usize,
    /// Bytes of the heap in use, from `HEAP_BASE` to the end of the last allocation.
    heap_bytes: u64,
}

impl DeviceGlobalMemory {
    /// Adds a region with the given contents at the address `base`.
    pub fn add(&mut self, name: &str, base: u64, data: impl Into<Contents>) {
        let at = self.regions.partition_point(|region| region.base < base);
        self.regions.insert(at, Region { base, name: name.to_owned(), data: data.into(), written: None });
    }
    /// Returns the contents of the region with this name. `None` if there is no such region.
    pub fn region(&self, name: &str) -> Option<&Contents> {
        self.regions.iter().find(|region| region.name == name).map(|region| &region.data)
    }
    /// Returns the total size of all regions in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.regions.iter().map(|region| region.data.len() as u64).sum()
    }
    /// Returns a copy that records which of its bytes a later access writes.
    pub(crate) fn with_tracked_writes(&self) -> DeviceGlobalMemory {
        let mut copy = self.clone();
        copy.regions.iter_mut().for_each(|region| region.written = Some(vec![false; region.data.len()]));
        copy
    }
    /// Copies the bytes that `copy` tracked as written to this memory.
    pub(crate) fn apply_tracked_writes(&mut self, copy: &DeviceGlobalMemory) {
        for (region, tracked) in self.regions.iter_mut().zip(&copy.regions) {
            let mut at = 0;
            for run in tracked.written.as_deref().unwrap_or_default().chunk_by(|a, b| a == b) {
                if run[0] {
                    tracked.data.read(at, region.data.bytes_mut(at..at + run.len()));
                }
                at += run.len();
            }
        }
    }
    /// Allocates memory for device code. Returns `None` if the heap is exhausted.
    pub(crate) fn allocate(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let base = (HEAP_BASE + self.heap_bytes + 64).checked_next_multiple_of(align.max(16))?;
        let end = base.checked_add(bytes)?;
        if end - HEAP_BASE > HEAP_LIMIT {
            return None;
        }
        self.heap_bytes = end - HEAP_BASE;
        self.add(&format!("allocation {base:#x}"), base, vec![0; bytes as usize]);
        Some(base)
    }

    /// Reads bytes, which must be in one region.
    pub(crate) fn read(&mut self, address: u64, length: usize) -> Result<&[u8]> {
        let (region, offset) = self.locate(address, length)?;
        Ok(self.regions[region].data.bytes_mut(offset..offset + length))
    }
    /// Writes bytes, which must be in one region.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        self.bytes_mut(address, bytes.len()).map(|destination| destination.copy_from_slice(bytes))
    }
    /// Returns the bytes at an address for writing, and records them as written if the memory tracks writes.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, address: u64, length: usize) -> Result<&mut [u8]> {
        let (region, offset) = self.locate(address, length)?;
        let region = &mut self.regions[region];
        if let Some(written) = &mut region.written {
            written[offset..offset + length].fill(true);
        }
        Ok(region.data.bytes_mut(offset..offset + length))
    }
    /// Returns the index of the region that contains an access, and the offset of the access in the region.
    #[inline]
    fn locate(&mut self, address: u64, length: usize) -> Result<(usize, usize)> {
        let contains_access = |region: &Region| {
            let offset = address.wrapping_sub(region.base);
            offset < region.data.len() as u64 && region.data.len() as u64 - offset >= length as u64
        };
        if !self.regions.get(self.last_region).is_some_and(contains_access) {
            let at = self.regions.partition_point(|region| region.base <= address);
            match at.checked_sub(1) {
                Some(index) if contains_access(&self.regions[index]) => self.last_region = index,
                _ => return Err(self.out_of_bounds(address, length, at)),
            }
        }
        Ok((self.last_region, (address - self.regions[self.last_region].base) as usize))
    }

    /// Returns the fault for an access outside all regions, with notes about the nearest regions.
    #[cold]
    fn out_of_bounds(&self, address: u64, length: usize, at: usize) -> Box<Fault> {
        let mut fault =
            Fault::new("SIM010", format!("an access of {length} bytes at global address {address:#x} is out of bounds"));
        let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|index| self.regions.get(index));
        let is_near = |region: &&Region| {
            let bytes_after_end = address.checked_sub(region.base + region.data.len() as u64);
            bytes_after_end.or_else(|| region.base.checked_sub(address)).is_none_or(|distance| distance <= MAX_NOTE_DISTANCE)
        };
        for region in neighbours.filter(is_near) {
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
