//! Device memory, and the memory of the host program that kernels may access. Device memory is host memory at addresses from
//! [`FIRST_ADDRESS`] to [`END_ADDRESS`]. The address of a new allocation follows the previous allocation. The driver therefore
//! reuses the addresses of freed allocations only after it has reached [`END_ADDRESS`].
//!
//! Each allocation is a mapping of its own between inaccessible pages. The executors look up each address before they access it. An
//! access outside all allocations is therefore a fault of the kernel with its source line. The table also keeps recently freed
//! allocations, so that a message can name the freed memory.

use crate::status::{Failure, Result, Status};
use common::launch::Contents;
use executor::{Memory, Segment};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use simulator::DeviceGlobalMemory;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The first device address.
const FIRST_ADDRESS: u64 = 0x2000_0000_0000;
/// The end of the range of device addresses.
const END_ADDRESS: u64 = 0x4000_0000_0000;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of a huge page. Allocations of at least this size start at a huge page and use huge pages. Their first use therefore
/// causes fewer page faults.
const HUGE_PAGE: u64 = 2 << 20;
/// Number of freed allocations that messages can name.
const MAX_NAMED_FREED: usize = 256;

/// The origin of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    Device,
    /// Page-locked host memory.
    Host,
    Managed,
    /// Memory of the host program, registered by address.
    Registered,
    /// A variable of a module.
    Variable,
}

/// An allocation, or registered memory of the host program.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) kind: MemoryKind,
    /// The number of the allocation, counted from 1. Messages name the allocation by this number.
    pub(crate) serial: u64,
    /// The name of a variable. `None` for memory of other kinds.
    variable: Option<String>,
    read_only: bool,
    /// The bytes that the client or a kernel has written. `None` if all bytes count as written.
    written_ranges: Option<Ranges>,
}

impl Allocation {
    /// Returns the first address after the allocation.
    fn end(&self) -> u64 {
        self.address + self.size
    }
    /// Returns the name of the allocation for messages.
    fn name(&self) -> String {
        match &self.variable {
            Some(name) => format!("variable {name}"),
            None => format!("allocation {}", self.serial),
        }
    }
}

/// Disjoint address ranges: the start is the key, the end is the value.
type Ranges = BTreeMap<u64, u64>;

/// The table of all allocations.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    /// Live allocations by address.
    live: BTreeMap<u64, Allocation>,
    /// The last freed allocations, oldest first, at most `MAX_NAMED_FREED`.
    recently_freed: VecDeque<Allocation>,
    /// The address at which the search for the next allocation starts.
    next: u64,
    /// Number of allocations and registrations so far.
    allocation_count: u64,
    /// Bytes of all live allocations.
    used: u64,
    /// Whether a check reports reads of bytes that neither the client nor a kernel has written.
    pub(crate) tracks_writes: bool,
}

/// Memory of the host program that the next launch may access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostRange {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) name: String,
    pub(crate) read_only: bool,
}

impl Allocations {
    /// Returns the size of all live allocations in bytes.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Allocates memory, aligned to a page. `capacity` is the size of the device memory in bytes.
    pub(crate) fn allocate(&mut self, size: u64, kind: MemoryKind, capacity: u64) -> Result<u64> {
        let out_of_memory =
            || Status::OutOfMemory.because(format!("an allocation of {size} bytes exceeds the {capacity} bytes of the device"));
        if size == 0 {
            return Err(Status::InvalidValue.because("an allocation of 0 bytes"));
        }
        if self.used.checked_add(size).is_none_or(|used| used > capacity) {
            return Err(out_of_memory());
        }
        let mapped_bytes = size.next_multiple_of(PAGE);
        let address = self.map(mapped_bytes).ok_or_else(out_of_memory)?;
        self.allocation_count += 1;
        self.used += size;
        let written_ranges = (self.tracks_writes && kind == MemoryKind::Device).then(Ranges::new);
        let serial = self.allocation_count;
        self.live.insert(address, Allocation { address, size, kind, serial, variable: None, read_only: false, written_ranges });
        Ok(address)
    }

    /// Allocates memory for a variable of a module and stores its initial contents. Kernels cannot write a constant variable.
    pub(crate) fn allocate_variable(&mut self, name: &str, data: &[u8], constant: bool, capacity: u64) -> Result<u64> {
        let address = self.allocate(data.len() as u64, MemoryKind::Variable, capacity)?;
        self.set_variable_data(address, data);
        let allocation = self.live.get_mut(&address).expect("just allocated");
        (allocation.variable, allocation.read_only) = (Some(name.into()), constant);
        Ok(address)
    }

    /// Stores the contents of the variable that [`allocate_variable`](Self::allocate_variable) placed at `address`.
    pub(crate) fn set_variable_data(&mut self, address: u64, data: &[u8]) {
        assert!(self.live.get(&address).is_some_and(|found| found.size == data.len() as u64), "the size of a variable is constant");
        // SAFETY: the pages of the allocation are mapped, and no launch knows the address of a module that is not yet loaded.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as usize as *mut u8, data.len()) };
    }

    /// Maps pages after the previous allocation, and returns their address. Skips addresses that already have a mapping, up to 64
    /// times.
    fn map(&mut self, mapped_bytes: u64) -> Option<u64> {
        let uses_huge_pages = mapped_bytes >= HUGE_PAGE;
        for _ in 0..64 {
            let mut start = self.next.max(FIRST_ADDRESS).next_multiple_of(if uses_huge_pages { HUGE_PAGE } else { PAGE });
            if start.checked_add(mapped_bytes + PAGE)? > END_ADDRESS {
                start = FIRST_ADDRESS;
            }
            self.next = start + mapped_bytes + PAGE;
            let hint = start as usize as *mut c_void;
            // SAFETY: with `FIXED_NOREPLACE`, the call does not replace an existing mapping.
            let mapping = unsafe {
                mmap_anonymous(
                    hint,
                    mapped_bytes as usize,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
                )
            };
            match mapping {
                Ok(pages) => {
                    if uses_huge_pages {
                        // SAFETY: the range is the new mapping. The advice changes only the size of its pages. An operating system
                        // without huge pages refuses the advice.
                        let _ = unsafe { madvise(pages, mapped_bytes as usize, Advice::LinuxHugepage) };
                    }
                    return Some(pages as u64);
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Frees an allocation that has one of the given kinds.
    pub(crate) fn free(&mut self, address: u64, kinds: &[MemoryKind]) -> Result<()> {
        match self.live.get(&address) {
            Some(found) if kinds.contains(&found.kind) => {}
            _ => return Err(self.no_allocation(address)),
        }
        let allocation = self.live.remove(&address).expect("just found");
        self.used -= allocation.size;
        // SAFETY: these are the pages of this allocation. No launch uses them, because a launch ends before its call returns.
        let _ = unsafe { munmap(address as usize as *mut c_void, allocation.size.next_multiple_of(PAGE) as usize) };
        self.recently_freed.push_back(Allocation { written_ranges: None, ..allocation });
        if self.recently_freed.len() > MAX_NAMED_FREED {
            self.recently_freed.pop_front();
        }
        Ok(())
    }

    /// Returns the error for an address at which no live allocation starts.
    fn no_allocation(&self, address: u64) -> Failure {
        let freed = self.recently_freed.iter().rev().find(|freed| freed.address == address);
        Status::InvalidValue.because(match freed {
            Some(freed) => format!("the memory at {address:#x}, {}, has been freed", freed.name()),
            None => format!("no allocation starts at {address:#x}"),
        })
    }

    /// Registers memory of the host program until `unregister`.
    pub(crate) fn register(&mut self, address: u64, size: u64, read_only: bool) -> Result<()> {
        let end = address.checked_add(size).filter(|end| address > 0 && *end > address).ok_or(Status::InvalidValue)?;
        if self.live.range(..end).next_back().is_some_and(|(_, last)| last.end() > address) {
            return Err(Status::HostMemoryAlreadyRegistered.into());
        }
        self.allocation_count += 1;
        let serial = self.allocation_count;
        let kind = MemoryKind::Registered;
        self.live.insert(address, Allocation { address, size, kind, serial, variable: None, read_only, written_ranges: None });
        Ok(())
    }

    /// Removes the registration of client memory that starts at this address.
    pub(crate) fn unregister(&mut self, address: u64) -> Result<()> {
        match self.live.get(&address) {
            Some(found) if found.kind == MemoryKind::Registered => drop(self.live.remove(&address)),
            _ => return Err(Status::HostMemoryNotRegistered.into()),
        }
        Ok(())
    }

    /// Returns the live allocation or registered memory that contains an address. `None` if there is none.
    pub(crate) fn find(&self, address: u64) -> Option<&Allocation> {
        self.live.range(..=address).next_back().map(|(_, found)| found).filter(|found| address < found.end())
    }

    /// Checks that a range that a client copies or fills is inside one allocation.
    pub(crate) fn check_range(&self, address: u64, bytes: u64) -> Result<()> {
        match self.find(address) {
            Some(found) if address.checked_add(bytes).is_some_and(|end| end <= found.end()) => Ok(()),
            Some(found) => Err(Status::InvalidValue.because(format!(
                "{bytes} bytes at byte {} of {}, whose size is {}",
                address - found.address,
                found.name(),
                found.size
            ))),
            None if bytes == 0 => Ok(()),
            None => Err(match self.recently_freed.iter().rev().find(|freed| (freed.address..freed.end()).contains(&address)) {
                Some(freed) => Status::InvalidValue.because(format!("{bytes} bytes in {}, which has been freed", freed.name())),
                None => Status::InvalidValue.because(format!("no allocation contains address {address:#x}")),
            }),
        }
    }

    /// Records that the client or a kernel wrote these bytes.
    pub(crate) fn record_write(&mut self, address: u64, bytes: u64) {
        let Some((_, found)) = self.live.range_mut(..=address).next_back() else { return };
        let end = address.saturating_add(bytes).min(found.end());
        let Some(written) = found.written_ranges.as_mut().filter(|_| address < end) else { return };
        let (mut start, mut stop) = (address, end);
        while let Some((&from, &to)) = written.range(..=stop).next_back().filter(|(_, to)| **to >= start) {
            written.remove(&from);
            (start, stop) = (start.min(from), stop.max(to));
        }
        written.insert(start, stop);
    }

    /// Returns the memory that a launch may access, as segments for the executor.
    pub(crate) fn segments(&self, host: &[HostRange]) -> Vec<Segment> {
        let mut all: Vec<Segment> = self.accessible_ranges(host).into_iter().map(AccessibleRange::segment).collect();
        // An access to freed memory is outside all other segments. The message of the fault names the nearest segment. An empty
        // segment at the address of the freed memory therefore makes the message name the freed allocation.
        let freed = self.freed_outside(&all).map(|freed| Segment {
            name: format!("{} of {} bytes, which has been freed", freed.name(), freed.size),
            address: freed.address,
            contents: Contents::default(),
            constant: false,
        });
        let freed: Vec<Segment> = freed.collect();
        all.extend(freed);
        all
    }

    /// Returns the memory that a launch may access, for the executor of Tile IR and stage files.
    pub(crate) fn executor_memory(&self, host: &[HostRange]) -> Memory {
        let mut memory = Memory::default();
        self.segments(host).into_iter().for_each(|segment| memory.add(segment));
        memory
    }

    /// Returns the memory that a launch may access, for the simulator of PTX.
    pub(crate) fn simulator_memory(&self, host: &[HostRange]) -> DeviceGlobalMemory {
        let mut global = DeviceGlobalMemory::default();
        for segment in self.segments(host) {
            global.add(&segment.name, segment.address, segment.contents);
        }
        global
    }

    /// Returns the address ranges (start and end) that neither the client nor a kernel has written, in address order.
    pub(crate) fn unwritten_ranges(&self) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        for allocation in self.live.values() {
            let Some(written) = &allocation.written_ranges else { continue };
            let mut at = allocation.address;
            for (&start, &end) in written {
                out.extend((at < start).then_some((at, start)));
                at = end;
            }
            out.extend((at < allocation.end()).then_some((at, allocation.end())));
        }
        out
    }

    /// Returns the freed allocations whose addresses no segment uses again.
    fn freed_outside<'a>(&'a self, segments: &'a [Segment]) -> impl Iterator<Item = &'a Allocation> {
        let is_unused = |freed: &&Allocation| {
            !segments
                .iter()
                .any(|segment| segment.address < freed.end() && freed.address < segment.address + segment.contents.len() as u64)
        };
        self.recently_freed.iter().filter(is_unused)
    }

    /// Returns the memory that a launch may access, as disjoint ranges in address order. Overlapping ranges are merged.
    fn accessible_ranges(&self, host: &[HostRange]) -> Vec<AccessibleRange> {
        let live = self.live.values().map(|one| AccessibleRange {
            start: one.address,
            end: one.end(),
            names: vec![one.name()],
            read_only: one.read_only,
        });
        let host = host.iter().filter(|range| range.size > 0).map(|range| AccessibleRange {
            start: range.address,
            end: range.address + range.size,
            names: vec![range.name.clone()],
            read_only: range.read_only,
        });
        let mut all: Vec<AccessibleRange> = live.chain(host).collect();
        all.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<AccessibleRange> = Vec::new();
        for range in all {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.join(range),
                _ => merged.push(range),
            }
        }
        merged
    }
}

/// An address range that a launch may access, with the names of the memory in the range.
struct AccessibleRange {
    start: u64,
    end: u64,
    names: Vec<String>,
    read_only: bool,
}

impl AccessibleRange {
    /// Extends the range by an overlapping range. The result is writable if one of the two ranges is writable.
    fn join(&mut self, other: AccessibleRange) {
        self.end = self.end.max(other.end);
        self.read_only &= other.read_only;
        for name in other.names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }

    /// Converts the range to a segment of the executor, which accesses the memory directly.
    fn segment(self) -> Segment {
        let length = (self.end - self.start) as usize;
        let contents = match NonNull::new(self.start as usize as *mut u8) {
            // SAFETY: an allocation is mapped until the client frees it, and `Driver::free` waits for the running launch. The
            // client keeps its own memory valid during the launch and does not access it, as CUDA requires.
            Some(start) => unsafe { Contents::borrowed(start, length) },
            None => Contents::default(),
        };
        Segment { name: self.names.join("+"), address: self.start, contents, constant: self.read_only }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_checked_and_named_after_it_is_freed() {
        let mut all = Allocations::default();
        let first = all.allocate(100, MemoryKind::Device, 1 << 30).unwrap();
        let second = all.allocate(100, MemoryKind::Device, 1 << 30).unwrap();
        assert!(second > first && first % 256 == 0);
        all.check_range(first + 60, 40).unwrap();
        assert_eq!(all.check_range(first + 60, 41).unwrap_err().status, Status::InvalidValue);
        all.free(first, &[MemoryKind::Device]).unwrap();
        assert!(all.check_range(first, 1).unwrap_err().message.unwrap().contains("freed"));
        assert!(all.free(first, &[MemoryKind::Device]).unwrap_err().message.unwrap().contains("allocation 1"));
        assert_eq!(all.used(), 100);
        assert_eq!(all.segments(&[]).len(), 2);
        assert!(all.allocate(1 << 30, MemoryKind::Device, 1 << 30).is_err());
        all.free(second, &[MemoryKind::Device]).unwrap();
    }

    #[test]
    fn written_ranges_join() {
        let mut all = Allocations { tracks_writes: true, ..Allocations::default() };
        let at = all.allocate(100, MemoryKind::Device, 1 << 30).unwrap();
        assert_eq!(all.unwritten_ranges(), [(at, at + 100)]);
        for (start, bytes) in [(10, 10), (30, 10), (15, 20), (90, 50)] {
            all.record_write(at + start, bytes);
        }
        assert_eq!(all.unwritten_ranges(), [(at, at + 10), (at + 40, at + 90)]);
        all.free(at, &[MemoryKind::Device]).unwrap();
    }

    #[test]
    fn overlapping_host_ranges_are_one_segment() {
        let all = Allocations::default();
        let memory = [0u8; 64];
        let address = memory.as_ptr() as u64;
        let range =
            |at: u64, size: u64, name: &str| HostRange { address: address + at, size, name: name.into(), read_only: name == "c" };
        let segments = all.segments(&[range(16, 16, "b"), range(0, 24, "a"), range(40, 8, "c")]);
        let shown: Vec<_> =
            segments.iter().map(|one| (one.name.as_str(), one.address - address, one.contents.len(), one.constant)).collect();
        assert_eq!(shown, [("a+b", 0, 32, false), ("c", 40, 8, true)]);
    }
}
