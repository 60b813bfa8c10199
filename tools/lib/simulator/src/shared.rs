//! Shared memory of a CTA, with what is known about each byte: was it written, and how.

use crate::fault::{Fault, Result};
use crate::happens_before::Actor;
use std::cell::RefCell;

/// The unit in which writes are tracked.
const GRANULE: u32 = 16;

pub(crate) struct Shared {
    data: Vec<u8>,
    /// One bit a byte.
    written: Vec<u64>,
    granules: Vec<Granule>,
    /// Counts the writes, so that a fence can say which it covers.
    pub(crate) clock: u32,
    /// Whether a missing proxy fence is only noted, and the first one that was.
    lenient: bool,
    pub(crate) unfenced: RefCell<Option<Box<Fault>>>,
}

#[derive(Clone, Copy, Default)]
struct Granule {
    /// When a thread last wrote here, and its warp; 0 is never.
    generic_write: u32,
    warp: u16,
    /// Asynchronous writes that are in flight.
    arriving: u8,
    /// Asynchronous reads that are in flight.
    leaving: u16,
}

impl Shared {
    pub(crate) fn new(bytes: u32, lenient: bool) -> Shared {
        let granules = bytes.div_ceil(GRANULE) as usize;
        Shared {
            data: vec![0; bytes as usize],
            written: vec![0; (bytes as usize).div_ceil(64)],
            granules: vec![Granule::default(); granules],
            clock: 0,
            lenient,
            unfenced: RefCell::default(),
        }
    }
    fn check(&self, address: u32, length: u32) -> Result<()> {
        if u64::from(address) + u64::from(length) <= self.data.len() as u64 && address >= crate::decode::SHARED_START {
            return Ok(());
        }
        let (start, end) = (crate::decode::SHARED_START, self.data.len());
        Err(Fault::new("SIM010", format!("an access of {length} bytes at shared address {address:#x} is out of bounds"))
            .note(format!("shared memory is from {start:#x} to {end:#x}")))
    }
    fn granules_of(address: u32, length: u32) -> std::ops::Range<usize> {
        (address / GRANULE) as usize..(address + length).div_ceil(GRANULE) as usize
    }
    fn all_written(&self, address: u32, length: u32) -> bool {
        if length <= 16 && address % 16 + length <= 16 {
            let bits = (1u64 << length) - 1;
            return self.written[address as usize / 64] >> (address % 64) & bits == bits;
        }
        (address..address + length).all(|byte| self.written[byte as usize / 64] >> (byte % 64) & 1 == 1)
    }
    fn mark_written(&mut self, address: u32, length: u32) {
        if length <= 16 && address % 16 + length <= 16 {
            self.written[address as usize / 64] |= ((1u64 << length) - 1) << (address % 64);
            return;
        }
        for byte in address..address + length {
            self.written[byte as usize / 64] |= 1 << (byte % 64);
        }
    }

    /// A read by a thread.
    #[inline]
    pub(crate) fn read(&self, address: u32, length: u32) -> Result<&[u8]> {
        self.check(address, length)?;
        if self.granules[Self::granules_of(address, length)].iter().any(|granule| granule.arriving > 0) {
            return Err(Fault::new(
                "SIM031",
                format!("shared memory at {address:#x} is read while an asynchronous copy to it is in flight"),
            ));
        }
        Ok(&self.data[address as usize..(address + length) as usize])
    }
    /// Whether a read gives bytes that nothing wrote.
    pub(crate) fn is_undefined(&self, address: u32, length: u32) -> bool {
        !self.all_written(address, length)
    }
    /// A write by a thread of a warp.
    #[inline]
    pub(crate) fn write(&mut self, address: u32, bytes: &[u8], warp: usize) -> Result<()> {
        let length = bytes.len() as u32;
        self.check(address, length)?;
        self.clock += 1;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            if granule.arriving > 0 || granule.leaving > 0 {
                let what = if granule.arriving > 0 { "copy to" } else { "read of" };
                return Err(Fault::new(
                    "SIM032",
                    format!("shared memory at {address:#x} is written while an asynchronous {what} it is in flight"),
                ));
            }
            (granule.generic_write, granule.warp) = (self.clock, warp as u16);
        }
        self.mark_written(address, length);
        self.data[address as usize..(address + length) as usize].copy_from_slice(bytes);
        Ok(())
    }
    /// A write of a thread's asynchronous copy, when it is done.
    pub(crate) fn write_copy(&mut self, address: u32, bytes: &[u8], warp: usize) -> Result<()> {
        let length = bytes.len() as u32;
        self.check(address, length)?;
        self.clock += 1;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            (granule.generic_write, granule.warp) = (self.clock, warp as u16);
        }
        self.mark_written(address, length);
        self.data[address as usize..(address + length) as usize].copy_from_slice(bytes);
        Ok(())
    }
    /// Bytes for an atomic operation, as they are.
    pub(crate) fn atomic(&mut self, address: u32, length: u32, warp: usize) -> Result<&mut [u8]> {
        let bytes = self.read(address, length)?.to_vec();
        self.write(address, &bytes, warp)?;
        Ok(&mut self.data[address as usize..(address + length) as usize])
    }

    /// A write that does not come from a thread's own store: the data of an asynchronous copy.
    pub(crate) fn write_async(&mut self, address: u32, bytes: &[u8]) -> Result<()> {
        let length = bytes.len() as u32;
        self.check(address, length)?;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            granule.generic_write = 0;
        }
        self.mark_written(address, length);
        self.data[address as usize..(address + length) as usize].copy_from_slice(bytes);
        Ok(())
    }
    /// What threads wrote here is fenced before the async proxy comes to it. `fenced` gives, for a warp, the time of its last proxy
    /// fence; either the writer's or that of who issued the operation will do.
    fn is_fenced(&self, granule: &Granule, does: &str, address: u32, issuer: Actor, fenced: &[u32]) -> Result<()> {
        let fence = |warp: usize| fenced.get(warp).copied().unwrap_or(0);
        if granule.generic_write <= fence(granule.warp.into()) || granule.generic_write <= fence(issuer.warp) {
            return Ok(());
        }
        let known = self.lenient && self.unfenced.borrow().is_some();
        if known {
            return Ok(());
        }
        let writer = granule.warp;
        let message =
            format!("the async proxy {does} shared memory at {address:#x}, which warp {writer} wrote without fence.proxy.async");
        let fault = Fault::new("SIM030", message);
        if !self.lenient {
            return Err(fault);
        }
        *self.unfenced.borrow_mut() = Some(fault.line(issuer.line));
        Ok(())
    }
    /// A read by the async proxy.
    pub(crate) fn read_async(&self, address: u32, length: u32, issuer: Actor, fenced: &[u32]) -> Result<&[u8]> {
        self.check(address, length)?;
        for granule in &self.granules[Self::granules_of(address, length)] {
            self.is_fenced(granule, "reads", address, issuer, fenced)?;
            if granule.arriving > 0 {
                return Err(Fault::new(
                    "SIM031",
                    format!("shared memory at {address:#x} is read while an asynchronous copy to it is in flight"),
                ));
            }
        }
        Ok(&self.data[address as usize..(address + length) as usize])
    }
    /// The bytes, unchecked but for bounds.
    pub(crate) fn peek(&self, address: u32, length: u32) -> Result<&[u8]> {
        self.check(address, length)?;
        Ok(&self.data[address as usize..(address + length) as usize])
    }

    /// The begin of a write by the async proxy: what threads wrote before has to be fenced, and nobody may read meanwhile.
    pub(crate) fn begin_async(&self, address: u32, length: u32, issuer: Actor, fenced: &[u32]) -> Result<()> {
        self.check(address, length)?;
        for granule in &self.granules[Self::granules_of(address, length)] {
            self.is_fenced(granule, "writes", address, issuer, fenced)?;
            if granule.arriving > 0 || granule.leaving > 0 {
                let what = if granule.arriving > 0 { "copy to" } else { "read of" };
                let message =
                    format!("a copy to shared memory at {address:#x} begins while an asynchronous {what} it is in flight");
                return Err(Fault::new("SIM032", message));
            }
        }
        Ok(())
    }
    /// Notes the begin or the end of an asynchronous write to a range.
    pub(crate) fn arriving(&mut self, address: u32, length: u32, begin: bool) -> Result<()> {
        self.check(address, length)?;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            granule.arriving = if begin { granule.arriving.saturating_add(1) } else { granule.arriving.saturating_sub(1) };
        }
        Ok(())
    }
    /// Notes the begin or the end of an asynchronous read of a range.
    pub(crate) fn leaving(&mut self, address: u32, length: u32, begin: bool) -> Result<()> {
        self.check(address, length)?;
        for granule in &mut self.granules[Self::granules_of(address, length)] {
            granule.leaving = if begin { granule.leaving.saturating_add(1) } else { granule.leaving.saturating_sub(1) };
        }
        Ok(())
    }
}
