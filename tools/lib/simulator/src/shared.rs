//! Shared memory of a CTA. Shadow state per byte and per 16-byte granule finds reads of uninitialised bytes, missing proxy fences,
//! and accesses that conflict with asynchronous work in flight.

use crate::address_space::SHARED_START;
use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use std::cell::RefCell;

/// The granularity of write tracking, in bytes.
const GRANULE_BYTES: u32 = 16;

/// The shared memory of one CTA.
pub(crate) struct CtaSharedMemory {
    data: Vec<u8>,
    /// Bitmap of written bytes.
    written: Vec<u64>,
    granules: Vec<Granule>,
    /// Number of generic-proxy writes. It serves as a time: a fence covers the writes up to the count at which it executes.
    pub(crate) write_count: u32,
    /// Whether a missing proxy fence is not an error. `first_unfenced` then records the fault for the first
    /// missing fence.
    lenient: bool,
    pub(crate) first_unfenced: RefCell<Option<Box<Fault>>>,
}

/// The shadow state of 16 bytes.
#[derive(Clone, Copy, Default)]
struct Granule {
    /// The value of `CtaSharedMemory::write_count` at the last generic-proxy write. 0 means that no write needs a fence.
    generic_write: u32,
    /// The warp of the last generic-proxy write.
    warp: u16,
    /// Number of asynchronous writes in flight.
    async_writes: u8,
    /// Number of asynchronous reads in flight.
    async_reads: u16,
}

impl CtaSharedMemory {
    /// Returns the shared memory of a CTA, in which no byte is written yet.
    pub(crate) fn new(bytes: u32, lenient: bool) -> CtaSharedMemory {
        let granules = bytes.div_ceil(GRANULE_BYTES) as usize;
        CtaSharedMemory {
            data: vec![0; bytes as usize],
            written: vec![0; (bytes as usize).div_ceil(64)],
            granules: vec![Granule::default(); granules],
            write_count: 0,
            lenient,
            first_unfenced: RefCell::default(),
        }
    }
    /// Reports an access outside the CTA's shared memory.
    fn check_bounds(&self, address: u32, length: u32) -> Result<()> {
        if u64::from(address) + u64::from(length) <= self.data.len() as u64 && address >= SHARED_START {
            return Ok(());
        }
        let (start, end) = (SHARED_START, self.data.len());
        Err(Fault::new("SIM010", format!("an access of {length} bytes at shared address {address:#x} is out of bounds"))
            .note(format!("shared memory is from {start:#x} to {end:#x}")))
    }
    /// Returns the granules that a range of bytes overlaps.
    fn granules_of(address: u32, length: u32) -> std::ops::Range<usize> {
        (address / GRANULE_BYTES) as usize..(address + length).div_ceil(GRANULE_BYTES) as usize
    }
    /// Returns whether all bytes of a range have been written.
    fn all_written(&self, address: u32, length: u32) -> bool {
        if length <= 16 && address % 16 + length <= 16 {
            let bits = (1u64 << length) - 1;
            return self.written[address as usize / 64] >> (address % 64) & bits == bits;
        }
        (address..address + length).all(|byte| self.written[byte as usize / 64] >> (byte % 64) & 1 == 1)
    }
    /// Marks the bytes of a range as written.
    fn mark_written(&mut self, address: u32, length: u32) {
        if length <= 16 && address % 16 + length <= 16 {
            self.written[address as usize / 64] |= ((1u64 << length) - 1) << (address % 64);
            return;
        }
        for byte in address..address + length {
            self.written[byte as usize / 64] |= 1 << (byte % 64);
        }
    }

    /// Returns the bytes that a thread reads. A read is a fault if an asynchronous write to the bytes is in flight.
    #[inline]
    pub(crate) fn read(&self, address: u32, length: u32) -> Result<&[u8]> {
        self.check_bounds(address, length)?;
        if self.granules[Self::granules_of(address, length)].iter().any(|granule| granule.async_writes > 0) {
            return Err(Fault::new(
                "SIM031",
                format!("shared memory at {address:#x} is read while an asynchronous copy to it is in flight"),
            ));
        }
        Ok(&self.data[address as usize..(address + length) as usize])
    }
    /// Returns whether a read contains bytes that were never written.
    pub(crate) fn is_undefined(&self, address: u32, length: u32) -> bool {
        !self.all_written(address, length)
    }
    /// Writes bytes for a thread of a warp. A write is a fault if an asynchronous access to the bytes is in flight.
    #[inline]
    pub(crate) fn write(&mut self, address: u32, bytes: &[u8], warp: usize) -> Result<()> {
        let length = bytes.len() as u32;
        self.check_bounds(address, length)?;
        self.write_count += 1;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            if granule.async_writes > 0 || granule.async_reads > 0 {
                let what = if granule.async_writes > 0 { "copy to" } else { "read of" };
                return Err(Fault::new(
                    "SIM032",
                    format!("shared memory at {address:#x} is written while an asynchronous {what} it is in flight"),
                ));
            }
            (granule.generic_write, granule.warp) = (self.write_count, warp as u16);
        }
        self.mark_written(address, length);
        self.data[address as usize..(address + length) as usize].copy_from_slice(bytes);
        Ok(())
    }
    /// Writes the bytes of a thread's `cp.async` copy when the copy completes.
    pub(crate) fn write_copy(&mut self, address: u32, bytes: &[u8], warp: usize) -> Result<()> {
        let length = bytes.len() as u32;
        self.check_bounds(address, length)?;
        self.write_count += 1;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            (granule.generic_write, granule.warp) = (self.write_count, warp as u16);
        }
        self.mark_written(address, length);
        self.data[address as usize..(address + length) as usize].copy_from_slice(bytes);
        Ok(())
    }
    /// Returns the bytes that an atomic operation modifies, after the checks of a read and of a write.
    pub(crate) fn bytes_for_atomic(&mut self, address: u32, length: u32, warp: usize) -> Result<&mut [u8]> {
        let bytes = self.read(address, length)?.to_vec();
        self.write(address, &bytes, warp)?;
        Ok(&mut self.data[address as usize..(address + length) as usize])
    }

    /// Writes bytes through the async proxy, for example the data of a bulk copy. Later async-proxy accesses need no fence after
    /// this write.
    pub(crate) fn write_async(&mut self, address: u32, bytes: &[u8]) -> Result<()> {
        let length = bytes.len() as u32;
        self.check_bounds(address, length)?;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            granule.generic_write = 0;
        }
        self.mark_written(address, length);
        self.data[address as usize..(address + length) as usize].copy_from_slice(bytes);
        Ok(())
    }
    /// Checks that a proxy fence separates a generic-proxy write from an async-proxy access. `proxy_fence_times` has the write
    /// count at the last proxy fence of each warp. A fence by the writing warp or by the issuer of the access suffices.
    fn check_fence(
        &self,
        granule: &Granule,
        access_verb: &str,
        address: u32,
        issuer: Actor,
        proxy_fence_times: &[u32],
    ) -> Result<()> {
        let fence_time = |warp: usize| proxy_fence_times.get(warp).copied().unwrap_or(0);
        if granule.generic_write <= fence_time(granule.warp.into()) || granule.generic_write <= fence_time(issuer.warp) {
            return Ok(());
        }
        let is_recorded = self.lenient && self.first_unfenced.borrow().is_some();
        if is_recorded {
            return Ok(());
        }
        let writer = granule.warp;
        let message = format!(
            "the async proxy {access_verb} shared memory at {address:#x}, which warp {writer} wrote without fence.proxy.async"
        );
        let fault = Fault::new("SIM030", message);
        if !self.lenient {
            return Err(fault);
        }
        *self.first_unfenced.borrow_mut() = Some(fault.line(issuer.line));
        Ok(())
    }
    /// Returns the bytes that asynchronous work reads. A read is a fault if a proxy fence is missing, or if an asynchronous write
    /// to the bytes is in flight.
    pub(crate) fn read_async(&self, address: u32, length: u32, issuer: Actor, proxy_fence_times: &[u32]) -> Result<&[u8]> {
        self.check_bounds(address, length)?;
        for granule in &self.granules[Self::granules_of(address, length)] {
            self.check_fence(granule, "reads", address, issuer, proxy_fence_times)?;
            if granule.async_writes > 0 {
                return Err(Fault::new(
                    "SIM031",
                    format!("shared memory at {address:#x} is read while an asynchronous copy to it is in flight"),
                ));
            }
        }
        Ok(&self.data[address as usize..(address + length) as usize])
    }
    /// Returns bytes with only a bounds check, without the checks of a program's read.
    pub(crate) fn peek(&self, address: u32, length: u32) -> Result<&[u8]> {
        self.check_bounds(address, length)?;
        Ok(&self.data[address as usize..(address + length) as usize])
    }

    /// Checks a write by the async proxy at its issue: earlier generic writes must be fenced, and no asynchronous read or write may
    /// be in flight.
    pub(crate) fn check_async_write(&self, address: u32, length: u32, issuer: Actor, proxy_fence_times: &[u32]) -> Result<()> {
        self.check_bounds(address, length)?;
        for granule in &self.granules[Self::granules_of(address, length)] {
            self.check_fence(granule, "writes", address, issuer, proxy_fence_times)?;
            if granule.async_writes > 0 || granule.async_reads > 0 {
                let what = if granule.async_writes > 0 { "copy to" } else { "read of" };
                let message =
                    format!("a copy to shared memory at {address:#x} begins while an asynchronous {what} it is in flight");
                return Err(Fault::new("SIM032", message));
            }
        }
        Ok(())
    }
    /// Counts the beginning (`begin`) or the end of an asynchronous write to a range.
    pub(crate) fn mark_async_write(&mut self, address: u32, length: u32, begin: bool) -> Result<()> {
        self.check_bounds(address, length)?;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            granule.async_writes =
                if begin { granule.async_writes.saturating_add(1) } else { granule.async_writes.saturating_sub(1) };
        }
        Ok(())
    }
    /// Counts the beginning (`begin`) or the end of an asynchronous read of a range.
    pub(crate) fn mark_async_read(&mut self, address: u32, length: u32, begin: bool) -> Result<()> {
        self.check_bounds(address, length)?;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            granule.async_reads = if begin { granule.async_reads.saturating_add(1) } else { granule.async_reads.saturating_sub(1) };
        }
        Ok(())
    }
}
