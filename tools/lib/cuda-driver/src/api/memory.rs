//! Entry points for device and managed memory, and for the attributes of pointers.

use super::{entry_points, read_list_from_client, write_optional_to_client, write_to_client};
use crate::allocations::MemoryKind;
use crate::driver::{Driver, driver};
use crate::execution::issue;
use crate::handle::Handle;
use crate::status::{Result, Status};
use crate::work::Work;
use std::ffi::{c_int, c_uint, c_void};

/// Attributes of a pointer (`CUpointer_attribute`).
mod attribute {
    use std::ffi::c_int;

    pub(super) const CONTEXT: c_int = 1;
    pub(super) const MEMORY_TYPE: c_int = 2;
    pub(super) const DEVICE_POINTER: c_int = 3;
    pub(super) const HOST_POINTER: c_int = 4;
    pub(super) const SYNC_MEMOPS: c_int = 6;
    pub(super) const BUFFER_ID: c_int = 7;
    pub(super) const IS_MANAGED: c_int = 8;
    pub(super) const DEVICE_ORDINAL: c_int = 9;
    pub(super) const IS_LEGACY_IPC_CAPABLE: c_int = 10;
    pub(super) const RANGE_START: c_int = 11;
    pub(super) const RANGE_SIZE: c_int = 12;
    pub(super) const MAPPED: c_int = 13;
    pub(super) const ALLOWED_HANDLE_TYPES: c_int = 14;
    pub(super) const IS_GPU_DIRECT_RDMA_CAPABLE: c_int = 15;
    pub(super) const ACCESS_FLAGS: c_int = 16;
    pub(super) const MEMPOOL_HANDLE: c_int = 17;
}

/// `CU_MEMORYTYPE_HOST`.
const MEMORY_TYPE_HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
const MEMORY_TYPE_DEVICE: u32 = 2;
/// `CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE`.
const READ_WRITE: u32 = 3;

/// Returns the value of an attribute of a pointer.
fn pointer_attribute(driver: &Driver, attribute: c_int, pointer: u64) -> Result<AttributeValue> {
    use attribute::*;
    let tables = driver.tables();
    let host = crate::thread_state::with_host_ranges(|host| {
        host.iter().find(|range| pointer.wrapping_sub(range.address) < range.size).map(|range| (range.address, range.size))
    });
    let (start, size, serial, kind) = match (tables.allocations.find(pointer), host) {
        (Some(found), _) => (found.address, found.size, found.serial, found.kind),
        (None, Some((start, size))) => (start, size, 0, MemoryKind::Managed),
        (None, None) => return Err(Status::InvalidValue.into()),
    };
    let is_host = matches!(kind, MemoryKind::Host | MemoryKind::Registered);
    Ok(match attribute {
        CONTEXT => AttributeValue::Wide(driver.primary_context as u64),
        MEMORY_TYPE => AttributeValue::Narrow(if is_host { MEMORY_TYPE_HOST } else { MEMORY_TYPE_DEVICE }),
        DEVICE_POINTER => AttributeValue::Wide(pointer),
        HOST_POINTER if kind == MemoryKind::Device => return Err(Status::InvalidValue.into()),
        HOST_POINTER => AttributeValue::Wide(pointer),
        SYNC_MEMOPS => AttributeValue::Narrow(0),
        BUFFER_ID => AttributeValue::Wide(serial),
        IS_MANAGED => AttributeValue::Narrow(u32::from(kind == MemoryKind::Managed)),
        DEVICE_ORDINAL | IS_LEGACY_IPC_CAPABLE | IS_GPU_DIRECT_RDMA_CAPABLE => AttributeValue::Narrow(0),
        RANGE_START => AttributeValue::Wide(start),
        RANGE_SIZE => AttributeValue::Wide(size),
        MAPPED => AttributeValue::Narrow(1),
        ALLOWED_HANDLE_TYPES | MEMPOOL_HANDLE => AttributeValue::Wide(0),
        ACCESS_FLAGS => AttributeValue::Narrow(READ_WRITE),
        _ => return Err(Status::InvalidValue.into()),
    })
}

/// The value of an attribute of a pointer, with the size that CUDA documents for it.
enum AttributeValue {
    Narrow(u32),
    Wide(u64),
}

impl AttributeValue {
    /// Writes the value to memory of the client.
    fn write(self, place: *mut c_void) -> Result<()> {
        match self {
            AttributeValue::Narrow(value) => write_to_client(place.cast(), value),
            AttributeValue::Wide(value) => write_to_client(place.cast(), value),
        }
    }
}

/// Allocates memory of this kind, unless the allocations would exceed the memory of the device. Returns the address.
pub(super) fn allocate(bytes: usize, kind: MemoryKind) -> Result<u64> {
    let driver = driver()?;
    let capacity = driver.device.memory_bytes;
    driver.tables().allocations.allocate(bytes as u64, kind, capacity)
}

entry_points! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let driver = driver()?;
        let used = driver.tables().allocations.used();
        write_optional_to_client(free, (driver.device.memory_bytes - used) as usize);
        write_optional_to_client(total, driver.device.memory_bytes as usize);
        Ok(())
    }
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) {
        write_to_client(pointer, allocate(bytes, MemoryKind::Device)?)
    }
    fn cuMemAllocPitch_v2(pointer: *mut u64, pitch: *mut usize, width: usize, height: usize, _element: c_uint) {
        let row = width.checked_next_multiple_of(512).ok_or(Status::OutOfMemory)?;
        write_to_client(pointer, allocate(row.checked_mul(height).ok_or(Status::OutOfMemory)?, MemoryKind::Device)?)?;
        write_to_client(pitch, row)
    }
    fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, _flags: c_uint) {
        write_to_client(pointer, allocate(bytes, MemoryKind::Managed)?)
    }
    fn cuMemFree_v2(pointer: u64) {
        if pointer == 0 { Ok(()) } else { driver()?.free(pointer, &[MemoryKind::Device, MemoryKind::Managed]) }
    }
    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, pointer: u64) {
        let tables = driver()?.tables();
        let found = tables.allocations.find(pointer).ok_or(Status::NotFound)?;
        write_optional_to_client(base, found.address);
        write_optional_to_client(size, found.size as usize);
        Ok(())
    }
    fn cuMemPrefetchAsync(pointer: u64, bytes: usize, _device: c_int, _stream: Handle) {
        driver()?.tables().allocations.check_range(pointer, bytes as u64)
    }
    fn cuMemPrefetchAsync_v2(pointer: u64, bytes: usize, _location: u64, _flags: c_uint, _stream: Handle) {
        driver()?.tables().allocations.check_range(pointer, bytes as u64)
    }
    fn cuMemAdvise(pointer: u64, bytes: usize, _advice: c_int, _device: c_int) {
        driver()?.tables().allocations.check_range(pointer, bytes as u64)
    }
    fn cuMemAdvise_v2(pointer: u64, bytes: usize, _advice: c_int, _location: u64) {
        driver()?.tables().allocations.check_range(pointer, bytes as u64)
    }
    fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: Handle) {
        allocate_async(pointer, bytes, stream)
    }
    fn cuMemAllocFromPoolAsync(pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle) {
        driver()?.tables().handles.pool(pool)?;
        allocate_async(pointer, bytes, stream)
    }
    fn cuMemFreeAsync(pointer: u64, stream: Handle) {
        if pointer == 0 { Ok(()) } else { issue(driver()?, stream, Work::Free { address: pointer }) }
    }
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, pointer: u64) {
        pointer_attribute(driver()?, attribute, pointer)?.write(data)
    }
    fn cuPointerGetAttributes(count: c_uint, attributes: *const c_int, data: *const *mut c_void, pointer: u64) {
        let driver = driver()?;
        let places = read_list_from_client(data, count as usize)?;
        for (attribute, place) in read_list_from_client(attributes, count as usize)?.into_iter().zip(places) {
            // For memory that the driver does not know, this entry point writes zeros, and -2 as the device ordinal. The single
            // query, `cuPointerGetAttribute`, returns an error instead.
            match pointer_attribute(driver, attribute, pointer) {
                Ok(value) => value.write(place)?,
                Err(_) if matches!(attribute, attribute::DEVICE_ORDINAL) => write_to_client(place.cast(), -2i32)?,
                Err(_) if matches!(attribute, 2 | 6 | 8 | 10 | 13 | 15 | 16) => AttributeValue::Narrow(0).write(place)?,
                Err(_) => AttributeValue::Wide(0).write(place)?,
            }
        }
        Ok(())
    }
    fn cuPointerSetAttribute(_value: *const c_void, _attribute: c_int, pointer: u64) {
        driver()?.tables().allocations.check_range(pointer, 1)
    }
}

/// Allocates memory in the stream-ordered entry points. The allocation takes place during the call, as CUDA permits.
fn allocate_async(pointer: *mut u64, bytes: usize, stream: Handle) -> Result<()> {
    let driver = driver()?;
    driver.stream(stream)?;
    let address = allocate(bytes, MemoryKind::Device)?;
    issue(driver, stream, Work::Allocate)?;
    write_to_client(pointer, address)
}
