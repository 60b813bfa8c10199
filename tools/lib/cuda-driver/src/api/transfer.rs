//! The entry points that copy or fill memory.

use super::{entry_points, read_from_client};
use crate::driver::{Driver, driver};
use crate::execution::{check_fill, check_rows, issue};
use crate::handle::Handle;
use crate::status::{Result, Status};
use crate::work::Work;
use std::ffi::{c_uint, c_void};

/// The legacy default stream, which the synchronous functions use.
const DEFAULT_STREAM: Handle = 0;

/// The source or the destination of a copy.
#[derive(Clone, Copy)]
enum CopyEnd {
    Device(u64),
    /// Memory of the client, or of the device.
    Any(u64),
}

impl CopyEnd {
    /// Returns the address. For device memory, first checks that the `bytes` bytes from the address are inside one allocation.
    fn checked_address(self, driver: &Driver, bytes: u64) -> Result<u64> {
        match self {
            CopyEnd::Device(address) => driver.tables().allocations.check_range(address, bytes).map(|()| address),
            // A range that starts in an allocation must end in it. Any other range is memory of the client, which no check covers.
            CopyEnd::Any(address) => {
                let tables = driver.tables();
                match tables.allocations.find(address) {
                    Some(_) => tables.allocations.check_range(address, bytes)?,
                    None if address == 0 && bytes > 0 => return Err(Status::InvalidValue.into()),
                    None => {}
                }
                Ok(address)
            }
        }
    }
}

/// Copies bytes in a stream.
fn copy(to: CopyEnd, from: CopyEnd, bytes: usize, stream: Handle) -> Result<()> {
    let driver = driver()?;
    let bytes = bytes as u64;
    let (to, from) = (to.checked_address(driver, bytes)?, from.checked_address(driver, bytes)?);
    issue(driver, stream, Work::Copy { to, from, bytes })
}

/// Returns the end of a copy at a host pointer of the client. The pointer may also point to device memory.
fn copy_end_at_host_pointer(pointer: *const c_void) -> CopyEnd {
    CopyEnd::Any(pointer as u64)
}

/// Fills rows of `count` elements with a value, in a stream.
fn fill(to: u64, pitch: usize, value: u32, element_bytes: u64, count: usize, rows: usize, stream: Handle) -> Result<()> {
    let driver = driver()?;
    let (pitch, count, rows) = (pitch as u64, count as u64, rows as u64);
    check_fill(driver, to, pitch, element_bytes, count, rows)?;
    issue(driver, stream, Work::Fill { to, pitch, value, element_bytes, count, rows })
}

/// The parameters of a two-dimensional copy, `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy2D {
    from: Plane,
    to: Plane,
    width: usize,
    rows: usize,
}

/// The source or the destination in `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Plane {
    x: usize,
    y: usize,
    memory_type: c_uint,
    host: u64,
    device: u64,
    array: usize,
    pitch: usize,
}

/// `CU_MEMORYTYPE_HOST`.
const HOST: c_uint = 1;
/// `CU_MEMORYTYPE_DEVICE`.
const DEVICE: c_uint = 2;
/// `CU_MEMORYTYPE_UNIFIED`.
const UNIFIED: c_uint = 4;

impl Plane {
    /// Returns the address of the first byte. For memory of the device, checks that all rows are inside one allocation.
    fn checked_start(&self, driver: &Driver, width: usize, rows: usize) -> Result<u64> {
        let base = match self.memory_type {
            HOST => self.host,
            DEVICE | UNIFIED => self.device,
            _ => return Err(Status::NotSupported.because("copies of CUDA arrays")),
        };
        let skip = self.y.checked_mul(self.pitch).and_then(|skip| skip.checked_add(self.x)).ok_or(Status::InvalidValue)?;
        let start = base.checked_add(skip as u64).ok_or(Status::InvalidValue)?;
        // A unified address outside all allocations is memory of the client.
        let is_of_device = self.memory_type == DEVICE || driver.tables().allocations.find(start).is_some();
        if is_of_device {
            check_rows(driver, start, self.pitch as u64, width as u64, rows as u64)?;
        }
        Ok(start)
    }
}

/// Copies rows in a stream, as `CUDA_MEMCPY2D` describes.
fn copy_2d(parameters: *const c_void, stream: Handle) -> Result<()> {
    let driver = driver()?;
    let copy = read_from_client(parameters.cast::<Copy2D>())?;
    let (from, to) =
        (copy.from.checked_start(driver, copy.width, copy.rows)?, copy.to.checked_start(driver, copy.width, copy.rows)?);
    let (width, rows) = (copy.width as u64, copy.rows as u64);
    let (to_pitch, from_pitch) = (copy.to.pitch as u64, copy.from.pitch as u64);
    issue(driver, stream, Work::Copy2D { to, to_pitch, from, from_pitch, width, rows })
}

entry_points! {
    fn cuMemcpy(to: u64, from: u64, bytes: usize) {
        copy(CopyEnd::Any(to), CopyEnd::Any(from), bytes, DEFAULT_STREAM)
    }
    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) {
        copy(CopyEnd::Any(to), CopyEnd::Any(from), bytes, stream)
    }
    fn cuMemcpyPeer(to: u64, _to_context: Handle, from: u64, _from_context: Handle, bytes: usize) {
        copy(CopyEnd::Device(to), CopyEnd::Device(from), bytes, DEFAULT_STREAM)
    }
    fn cuMemcpyPeerAsync(to: u64, _to_context: Handle, from: u64, _from_context: Handle, bytes: usize, stream: Handle) {
        copy(CopyEnd::Device(to), CopyEnd::Device(from), bytes, stream)
    }
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        copy(CopyEnd::Device(to), copy_end_at_host_pointer(from), bytes, DEFAULT_STREAM)
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        copy(CopyEnd::Device(to), copy_end_at_host_pointer(from), bytes, stream)
    }
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        copy(copy_end_at_host_pointer(to), CopyEnd::Device(from), bytes, DEFAULT_STREAM)
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        copy(copy_end_at_host_pointer(to), CopyEnd::Device(from), bytes, stream)
    }
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        copy(CopyEnd::Device(to), CopyEnd::Device(from), bytes, DEFAULT_STREAM)
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) {
        copy(CopyEnd::Device(to), CopyEnd::Device(from), bytes, stream)
    }
    fn cuMemcpy2D_v2(copy: *const c_void) {
        copy_2d(copy, DEFAULT_STREAM)
    }
    fn cuMemcpy2DUnaligned_v2(copy: *const c_void) {
        copy_2d(copy, DEFAULT_STREAM)
    }
    fn cuMemcpy2DAsync_v2(copy: *const c_void, stream: Handle) {
        copy_2d(copy, stream)
    }
    fn cuMemsetD8_v2(to: u64, value: u8, count: usize) {
        fill(to, 0, value.into(), 1, count, 1, DEFAULT_STREAM)
    }
    fn cuMemsetD16_v2(to: u64, value: u16, count: usize) {
        fill(to, 0, value.into(), 2, count, 1, DEFAULT_STREAM)
    }
    fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) {
        fill(to, 0, value, 4, count, 1, DEFAULT_STREAM)
    }
    fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) {
        fill(to, 0, value.into(), 1, count, 1, stream)
    }
    fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) {
        fill(to, 0, value.into(), 2, count, 1, stream)
    }
    fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, stream: Handle) {
        fill(to, 0, value, 4, count, 1, stream)
    }
    fn cuMemsetD2D8_v2(to: u64, pitch: usize, value: u8, width: usize, rows: usize) {
        fill(to, pitch, value.into(), 1, width, rows, DEFAULT_STREAM)
    }
    fn cuMemsetD2D16_v2(to: u64, pitch: usize, value: u16, width: usize, rows: usize) {
        fill(to, pitch, value.into(), 2, width, rows, DEFAULT_STREAM)
    }
    fn cuMemsetD2D32_v2(to: u64, pitch: usize, value: c_uint, width: usize, rows: usize) {
        fill(to, pitch, value, 4, width, rows, DEFAULT_STREAM)
    }
    fn cuMemsetD2D8Async(to: u64, pitch: usize, value: u8, width: usize, rows: usize, stream: Handle) {
        fill(to, pitch, value.into(), 1, width, rows, stream)
    }
    fn cuMemsetD2D16Async(to: u64, pitch: usize, value: u16, width: usize, rows: usize, stream: Handle) {
        fill(to, pitch, value.into(), 2, width, rows, stream)
    }
    fn cuMemsetD2D32Async(to: u64, pitch: usize, value: c_uint, width: usize, rows: usize, stream: Handle) {
        fill(to, pitch, value, 4, width, rows, stream)
    }
}
