//! Device memory: host memory at addresses that are not used again soon, and the memory of the host program that kernels may access.
//!
//! Each allocation is a mapping of its own between inaccessible pages. An access outside all allocations is a fault of the kernel
//! with its source line, because executors look every address up here before they touch it. Freed allocations stay known by name, so
//! that a report names the freed memory.

use crate::status::{Failure, Result, Status};
use common::launch::Contents;
use executor::{Memory, Segment};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use simulator::Global;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The range of device addresses.
const FIRST: u64 = 0x2000_0000_0000;
const END: u64 = 0x4000_0000_0000;
const PAGE: u64 = 4096;
/// Freed allocations that reports can name.
const MOST_FREED: usize = 256;

/// The origin of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    /// Page-locked host memory.
    Host,
    Managed,
    /// Memory of the host program, registered by address.
    Registered,
}

#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    /// The name that the client gave the memory.
    label: Option<String>,
    read_only: bool,
    /// Bytes that were written, as disjoint ranges, unless all count as written.
    written: Option<Ranges>,
}

impl Allocation {
    fn end(&self) -> u64 {
        self.address + self.size
    }
    fn name(&self) -> String {
        match &self.label {
            Some(label) => label.clone(),
            None => format!("allocation {}", self.number),
        }
    }
}

/// Disjoint ranges: start and end.
type Ranges = BTreeMap<u64, u64>;

#[derive(Debug, Default)]
pub(crate) struct Allocations {
    live: BTreeMap<u64, Allocation>,
    freed: VecDeque<Allocation>,
    next: u64,
    issued: u64,
    used: u64,
    /// Whether reads of bytes that nothing has written are findings.
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
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Allocates memory, aligned to a page. `capacity` is the size of the device.
    pub(crate) fn allocate(&mut self, size: u64, kind: Kind, capacity: u64) -> Result<u64> {
        let full =
            || Status::OutOfMemory.because(format!("an allocation of {size} bytes exceeds the {capacity} bytes of the device"));
        if size == 0 {
            return Err(Status::InvalidValue.because("an allocation of 0 bytes"));
        }
        if self.used.checked_add(size).is_none_or(|used| used > capacity) {
            return Err(full());
        }
        let mapped = size.next_multiple_of(PAGE);
        let address = self.map(mapped).ok_or_else(full)?;
        self.issued += 1;
        self.used += size;
        let written = (self.tracks_writes && kind == Kind::Device).then(Ranges::new);
        self.live.insert(address, Allocation { address, size, kind, number: self.issued, label: None, read_only: false, written });
        Ok(address)
    }

    /// Maps pages at the next free addresses.
    fn map(&mut self, mapped: u64) -> Option<u64> {
        for _ in 0..64 {
            let mut start = self.next.max(FIRST);
            if start.checked_add(mapped + PAGE)? > END {
                start = FIRST;
            }
            self.next = start + mapped + PAGE;
            let hint = start as usize as *mut c_void;
            // SAFETY: `NOREPLACE` keeps existing mappings.
            let at = unsafe {
                mmap_anonymous(
                    hint,
                    mapped as usize,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
                )
            };
            match at {
                Ok(at) => return Some(at as u64),
                Err(rustix::io::Errno::EXIST) => {}
                Err(_) => return None,
            }
        }
        None
    }

    pub(crate) fn free(&mut self, address: u64, kinds: &[Kind]) -> Result<()> {
        match self.live.get(&address) {
            Some(found) if kinds.contains(&found.kind) => {}
            _ => return Err(self.no_allocation(address)),
        }
        let allocation = self.live.remove(&address).expect("just found");
        self.used -= allocation.size;
        // SAFETY: the pages of this allocation, which nothing uses any more: launches end before they return.
        let _ = unsafe { munmap(address as usize as *mut c_void, allocation.size.next_multiple_of(PAGE) as usize) };
        self.freed.push_back(Allocation { written: None, ..allocation });
        if self.freed.len() > MOST_FREED {
            self.freed.pop_front();
        }
        Ok(())
    }

    fn no_allocation(&self, address: u64) -> Failure {
        let freed = self.freed.iter().rev().find(|freed| freed.address == address);
        Status::InvalidValue.because(match freed {
            Some(freed) => format!("the memory at {address:#x}, allocation {}, has been freed", freed.number),
            None => format!("no allocation starts at {address:#x}"),
        })
    }

    /// Registers memory of the host program until `unregister`.
    pub(crate) fn register(&mut self, address: u64, size: u64, read_only: bool) -> Result<()> {
        let end = address.checked_add(size).filter(|end| address > 0 && *end > address).ok_or(Status::InvalidValue)?;
        if self.live.range(..end).next_back().is_some_and(|(_, last)| last.end() > address) {
            return Err(Status::HostMemoryAlreadyRegistered.into());
        }
        self.issued += 1;
        let number = self.issued;
        self.live
            .insert(address, Allocation { address, size, kind: Kind::Registered, number, label: None, read_only, written: None });
        Ok(())
    }

    pub(crate) fn unregister(&mut self, address: u64) -> Result<()> {
        match self.live.get(&address) {
            Some(found) if found.kind == Kind::Registered => drop(self.live.remove(&address)),
            _ => return Err(Status::HostMemoryNotRegistered.into()),
        }
        Ok(())
    }

    /// The allocation that contains an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Allocation> {
        self.live.range(..=address).next_back().map(|(_, found)| found).filter(|found| address < found.end())
    }

    /// Checks that a copy of the client stays inside an allocation of the device.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<()> {
        match self.find(address) {
            Some(found) if address.checked_add(bytes).is_some_and(|end| end <= found.end()) => Ok(()),
            Some(found) => Err(Status::InvalidValue.because(format!(
                "{bytes} bytes at byte {} of allocation {}, whose size is {}",
                address - found.address,
                found.number,
                found.size
            ))),
            None if bytes == 0 => Ok(()),
            None => Err(match self.freed.iter().rev().find(|freed| (freed.address..freed.end()).contains(&address)) {
                Some(freed) => {
                    Status::InvalidValue.because(format!("{bytes} bytes in allocation {}, which has been freed", freed.number))
                }
                None => Status::InvalidValue.because(format!("no allocation contains address {address:#x}")),
            }),
        }
    }

    /// Records that the client or a kernel wrote these bytes.
    pub(crate) fn record_write(&mut self, address: u64, bytes: u64) {
        let Some((_, found)) = self.live.range_mut(..=address).next_back() else { return };
        let end = address.saturating_add(bytes).min(found.end());
        let Some(written) = found.written.as_mut().filter(|_| address < end) else { return };
        let (mut start, mut stop) = (address, end);
        while let Some((&from, &to)) = written.range(..=stop).next_back().filter(|(_, to)| **to >= start) {
            written.remove(&from);
            (start, stop) = (start.min(from), stop.max(to));
        }
        written.insert(start, stop);
    }

    /// Returns the memory that a launch may access, as segments for the executor.
    pub(crate) fn segments(&self, host: &[HostRange]) -> Vec<Segment> {
        let mut all: Vec<Segment> = self.ranges(host).into_iter().map(Range::segment).collect();
        // An empty segment makes the report of an access to freed memory name that memory.
        let freed = self.freed_ranges(&all).map(|freed| Segment {
            name: format!("allocation {} of {} bytes, which has been freed", freed.number, freed.size),
            address: freed.address,
            contents: Contents::default(),
            constant: false,
        });
        let freed: Vec<Segment> = freed.collect();
        all.extend(freed);
        all
    }

    pub(crate) fn memory(&self, host: &[HostRange]) -> Memory {
        let mut memory = Memory::default();
        self.segments(host).into_iter().for_each(|segment| memory.add(segment));
        memory
    }

    pub(crate) fn global(&self, host: &[HostRange]) -> Global {
        let mut global = Global::default();
        for segment in self.segments(host) {
            global.add(&segment.name, segment.address, segment.contents);
        }
        global
    }

    /// Returns the bytes that nothing has written, as start and end, in address order.
    pub(crate) fn unwritten(&self) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        for allocation in self.live.values() {
            let Some(written) = &allocation.written else { continue };
            let mut at = allocation.address;
            for (&start, &end) in written {
                out.extend((at < start).then_some((at, start)));
                at = end;
            }
            out.extend((at < allocation.end()).then_some((at, allocation.end())));
        }
        out
    }

    fn freed_ranges<'a>(&'a self, segments: &'a [Segment]) -> impl Iterator<Item = &'a Allocation> {
        let used = |freed: &&Allocation| {
            !segments
                .iter()
                .any(|segment| segment.address < freed.end() && freed.address < segment.address + segment.contents.len() as u64)
        };
        self.freed.iter().filter(used)
    }

    /// The disjoint ranges of a launch in address order. Host ranges that overlap each other are one range.
    fn ranges(&self, host: &[HostRange]) -> Vec<Range> {
        let live = self.live.values().map(|one| Range {
            start: one.address,
            end: one.end(),
            names: vec![one.name()],
            read_only: one.read_only,
        });
        let host = host.iter().filter(|range| range.size > 0).map(|range| Range {
            start: range.address,
            end: range.address + range.size,
            names: vec![range.name.clone()],
            read_only: range.read_only,
        });
        let mut all: Vec<Range> = live.chain(host).collect();
        all.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range> = Vec::new();
        for range in all {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.join(range),
                _ => merged.push(range),
            }
        }
        merged
    }
}

/// A part of host memory.
struct Range {
    start: u64,
    end: u64,
    names: Vec<String>,
    read_only: bool,
}

impl Range {
    fn join(&mut self, other: Range) {
        self.end = self.end.max(other.end);
        self.read_only &= other.read_only;
        for name in other.names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }

    fn segment(self) -> Segment {
        let length = (self.end - self.start) as usize;
        let contents = match NonNull::new(self.start as usize as *mut u8) {
            // SAFETY: an allocation is mapped until it is freed, which waits for launches. The client keeps its own memory valid and
            // unused during the launch, as CUDA requires.
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
        let first = all.allocate(100, Kind::Device, 1 << 30).unwrap();
        let second = all.allocate(100, Kind::Device, 1 << 30).unwrap();
        assert!(second > first && first % 256 == 0);
        all.check(first + 60, 40).unwrap();
        assert_eq!(all.check(first + 60, 41).unwrap_err().status, Status::InvalidValue);
        all.free(first, &[Kind::Device]).unwrap();
        assert!(all.check(first, 1).unwrap_err().message.unwrap().contains("freed"));
        assert!(all.free(first, &[Kind::Device]).unwrap_err().message.unwrap().contains("allocation 1"));
        assert_eq!(all.used(), 100);
        assert_eq!(all.segments(&[]).len(), 2);
        assert!(all.allocate(1 << 30, Kind::Device, 1 << 30).is_err());
        all.free(second, &[Kind::Device]).unwrap();
    }

    #[test]
    fn written_ranges_join() {
        let mut all = Allocations { tracks_writes: true, ..Allocations::default() };
        let at = all.allocate(100, Kind::Device, 1 << 30).unwrap();
        assert_eq!(all.unwritten(), [(at, at + 100)]);
        for (start, bytes) in [(10, 10), (30, 10), (15, 20), (90, 50)] {
            all.record_write(at + start, bytes);
        }
        assert_eq!(all.unwritten(), [(at, at + 10), (at + 40, at + 90)]);
        all.free(at, &[Kind::Device]).unwrap();
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
