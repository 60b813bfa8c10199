//! The simulated memory: segments at fixed addresses.
//!
//! If tile blocks do not synchronise, each of them runs on its own [`Overlay`], which buffers its writes. The scheduler then
//! applies the writes in block order. Therefore the result does not depend on the number of host threads, even for a program with a
//! race.

use base::diag::{Diagnostic, Result};
use common::launch::Contents;
use std::collections::BTreeMap;

/// Base address of memory that tile blocks allocate. Each tile block has its own address range, so addresses do not depend on the
/// order in which tile blocks run.
const LOCAL_BASE: u64 = 0x5000_0000_0000_0000;
/// Size in bytes of the address range of one tile block.
const LOCAL_RANGE_BYTES: u64 = 1 << 36;
/// Maximum number of bytes that one tile block has allocated at a time.
const MAX_LOCAL_BYTES: u64 = 1 << 28;
/// Size in bytes of a page of an [`Overlay`].
const PAGE_BYTES: u64 = 4096;

/// A contiguous range of memory: a buffer of the launch, a global, or memory that a tile block allocated.
#[derive(Clone, Debug)]
pub struct Segment {
    pub name: String,
    pub address: u64,
    pub contents: Contents,
    /// Whether a write to the segment is an error.
    pub constant: bool,
}

impl Segment {
    /// Returns the first address after the segment.
    pub(crate) fn end(&self) -> u64 {
        self.address + self.contents.len() as u64
    }
}

/// All segments, keyed by address.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    segments: BTreeMap<u64, Segment>,
    /// The number of writes that changed bytes. If the number does not change while all tile blocks wait, the scheduler reports a
    /// deadlock.
    pub(crate) change_count: u64,
}

impl Memory {
    pub fn add(&mut self, segment: Segment) {
        self.segments.insert(segment.address, segment);
    }
    pub(crate) fn remove(&mut self, address: u64) {
        self.segments.remove(&address);
    }
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.values()
    }
    /// Returns the last segment that starts at or before an address. The address may be after the end of the segment. `None` if all
    /// segments start after the address.
    pub fn segment(&self, address: u64) -> Option<&Segment> {
        self.segments.range(..=address).next_back().map(|(_, segment)| segment)
    }

    /// Returns the segment that contains a range, and the offset in the segment.
    pub(crate) fn find(&self, address: u64, length: usize) -> Result<(&Segment, usize)> {
        match self.segment(address) {
            Some(segment) if address.checked_add(length as u64).is_some_and(|end| end <= segment.end()) => {
                Ok((segment, (address - segment.address) as usize))
            }
            preceding => Err(out_of_bounds_error(address, length, preceding)),
        }
    }

    pub(crate) fn read(&self, address: u64, out: &mut [u8]) -> Result<()> {
        let (segment, at) = self.find(address, out.len())?;
        segment.contents.read(at, out);
        Ok(())
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        let (segment, at) = self.find(address, bytes.len())?;
        if segment.constant {
            return Err(constant_write_error(segment, address));
        }
        let start = segment.address;
        let old_bytes = self.segments.get_mut(&start).expect("just found").contents.bytes_mut(at..at + bytes.len());
        if old_bytes != bytes {
            old_bytes.copy_from_slice(bytes);
            self.change_count += 1;
        }
        Ok(())
    }
}

/// Maximum distance in bytes between an out-of-bounds access and the end of the segment that the message names.
const MAX_NAMED_DISTANCE: u64 = 1 << 32;

/// Returns the error for an access outside all segments. `preceding` is the last segment that starts before the access.
fn out_of_bounds_error(address: u64, length: usize, preceding: Option<&Segment>) -> Box<Diagnostic> {
    let message = match preceding {
        Some(segment) if address < segment.end() + MAX_NAMED_DISTANCE => format!(
            "an access of {length} bytes at byte {} of '{}', whose size is {}",
            address - segment.address,
            segment.name,
            segment.contents.len()
        ),
        _ => format!("an access of {length} bytes at address {address:#x} is outside all buffers"),
    };
    Diagnostic::invalid("RUN001", message)
}

/// Returns the error for a write to a constant segment.
fn constant_write_error(segment: &Segment, address: u64) -> Box<Diagnostic> {
    Diagnostic::invalid("RUN002", format!("a write to byte {} of the constant '{}'", address - segment.address, segment.name))
}

/// The memory that one tile block has allocated. An allocation stays valid until the allocating region ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalAllocations {
    /// The offset of the next allocation in the address range of the tile block.
    next_offset: u64,
    /// The addresses of the live allocations, oldest first.
    addresses: Vec<u64>,
}

impl LocalAllocations {
    /// Allocates a segment for a tile block. The address depends only on the block and its live allocations.
    pub(crate) fn allocate(&mut self, memory: &mut Memory, block: u64, bytes: u64, align: u64) -> Result<u64> {
        let start = self.next_offset.next_multiple_of(align.max(1));
        let end = start.saturating_add(bytes.max(1));
        if end > MAX_LOCAL_BYTES {
            return Err(Diagnostic::unsupported("RUN003", format!("a tile block allocates more than {MAX_LOCAL_BYTES} bytes")));
        }
        let address = LOCAL_BASE + (block + 1) * LOCAL_RANGE_BYTES + start;
        self.next_offset = end;
        self.addresses.push(address);
        let name = format!("memory allocated by block {block}");
        memory.add(Segment { name, address, contents: vec![0; bytes as usize].into(), constant: false });
        Ok(address)
    }
    /// Returns the number of live allocations.
    pub(crate) fn allocation_mark(&self) -> usize {
        self.addresses.len()
    }
    /// Frees the allocations after the first `mark` live allocations.
    pub(crate) fn release_allocations(&mut self, memory: &mut Memory, mark: usize) {
        for address in self.addresses.drain(mark..) {
            self.next_offset = (address - LOCAL_BASE) % LOCAL_RANGE_BYTES;
            memory.remove(address);
        }
    }
}

/// The writes of one tile block, on top of memory that all tile blocks read.
pub(crate) struct Overlay<'a> {
    base: &'a Memory,
    /// The pages to which the tile block wrote, by page number.
    pages: BTreeMap<u64, Page>,
    /// The memory that the tile block allocated.
    pub(crate) locals: Memory,
}

/// The writes of a tile block to one page of memory.
struct Page {
    data: Box<[u8; PAGE_BYTES as usize]>,
    /// Whether the tile block wrote each byte.
    written: Box<[bool; PAGE_BYTES as usize]>,
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(base: &'a Memory) -> Overlay<'a> {
        Overlay { base, pages: BTreeMap::new(), locals: Memory::default() }
    }

    pub(crate) fn read(&self, address: u64, out: &mut [u8]) -> Result<()> {
        if address >= LOCAL_BASE {
            return self.locals.read(address, out);
        }
        self.base.read(address, out)?;
        for_each_page(address, out.len(), |number, within, range| {
            if let Some(page) = self.pages.get(&number) {
                let (data, written) = (&page.data[within.clone()], &page.written[within]);
                for (byte, (new, written)) in out[range].iter_mut().zip(data.iter().zip(written)) {
                    if *written {
                        *byte = *new;
                    }
                }
            }
        });
        Ok(())
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        if address >= LOCAL_BASE {
            return self.locals.write(address, bytes);
        }
        let (segment, _) = self.base.find(address, bytes.len())?;
        if segment.constant {
            return Err(constant_write_error(segment, address));
        }
        for_each_page(address, bytes.len(), |number, within, range| {
            let new_page = || Page { data: Box::new([0; PAGE_BYTES as usize]), written: Box::new([false; PAGE_BYTES as usize]) };
            let page = self.pages.entry(number).or_insert_with(new_page);
            page.data[within.clone()].copy_from_slice(&bytes[range]);
            page.written[within].fill(true);
        });
        Ok(())
    }

    /// Returns the written bytes as contiguous runs (address and bytes), in address order.
    pub(crate) fn into_writes(self) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        for (number, page) in self.pages {
            let mut at = 0;
            for run in page.written.chunk_by(|a, b| a == b) {
                if run[0] {
                    out.push((number * PAGE_BYTES + at as u64, page.data[at..at + run.len()].to_vec()));
                }
                at += run.len();
            }
        }
        out
    }
}

/// Calls `f` for each page of an address range. The arguments of `f` are the page number, the byte range within the page, and the
/// byte range within the address range.
fn for_each_page(address: u64, length: usize, mut f: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < length {
        let at = address + done as u64;
        let within = (at % PAGE_BYTES) as usize;
        let count = (PAGE_BYTES as usize - within).min(length - done);
        f(at / PAGE_BYTES, within..within + count, done..done + count);
        done += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::default();
        memory.add(Segment { name: "a".into(), address: 4000, contents: (0..200).collect::<Vec<u8>>().into(), constant: false });
        memory
    }

    fn contents_of(memory: &Memory) -> Vec<u8> {
        let mut bytes = vec![0; 200];
        memory.read(4000, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_overlay_isolates_its_writes() {
        let mut memory = memory();
        let mut overlay = Overlay::new(&memory);
        overlay.write(4090, &[255; 10]).unwrap();
        let mut read_bytes = [0; 14];
        overlay.read(4088, &mut read_bytes).unwrap();
        assert_eq!(read_bytes, [88, 89, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 100, 101]);
        let writes = overlay.into_writes();
        assert_eq!(contents_of(&memory)[90], 90);
        for (address, bytes) in writes {
            memory.write(address, &bytes).unwrap();
        }
        assert_eq!(contents_of(&memory)[88..101], [88, 89, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 100]);
    }

    #[test]
    fn accesses_outside_all_segments_are_rejected() {
        let mut memory = memory();
        assert_eq!(memory.read(4199, &mut [0; 2]).unwrap_err().code, "RUN001");
        assert_eq!(memory.write(3999, &[0]).unwrap_err().code, "RUN001");
        assert_eq!(memory.read(u64::MAX, &mut [0; 2]).unwrap_err().code, "RUN001");
    }

    #[test]
    fn allocations_are_released_in_stack_order() {
        let (mut memory, mut locals) = (Memory::default(), LocalAllocations::default());
        let first = locals.allocate(&mut memory, 3, 100, 16).unwrap();
        let mark = locals.allocation_mark();
        let second = locals.allocate(&mut memory, 3, 8, 64).unwrap();
        assert!(second >= first + 100 && second.is_multiple_of(64));
        locals.release_allocations(&mut memory, mark);
        assert!(memory.read(second, &mut [0]).is_err() && memory.read(first, &mut [0]).is_ok());
        assert_eq!(locals.allocate(&mut memory, 3, 8, 64).unwrap(), second);
    }
}
