//! Entry points for page-locked and registered host memory.

use super::memory::allocate;
use super::{entry_points, write_to_client};
use crate::allocations::MemoryKind;
use crate::driver::driver;
use crate::status::Status;
use std::ffi::{c_uint, c_void};

/// `CU_MEMHOSTREGISTER_READ_ONLY`, the flag of `cuMemHostRegister` for memory that kernels may only read.
const READ_ONLY: c_uint = 8;

entry_points! {
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        write_to_client(pointer, allocate(bytes, MemoryKind::Host)? as usize as *mut c_void)
    }
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        write_to_client(pointer, allocate(bytes, MemoryKind::Host)? as usize as *mut c_void)
    }
    fn cuMemFreeHost(pointer: *mut c_void) {
        if pointer.is_null() { Ok(()) } else { driver()?.free(pointer as u64, &[MemoryKind::Host]) }
    }
    fn cuMemHostGetDevicePointer_v2(device: *mut u64, pointer: *mut c_void, _flags: c_uint) {
        let found = driver()?.tables().allocations.find(pointer as u64).map(|found| found.kind);
        match found {
            Some(MemoryKind::Host | MemoryKind::Registered) => write_to_client(device, pointer as u64),
            _ => Err(Status::InvalidValue.into()),
        }
    }
    fn cuMemHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) {
        driver()?.tables().allocations.find(pointer as u64).ok_or(Status::InvalidValue)?;
        write_to_client(flags, 0)
    }
    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) {
        driver()?.tables().allocations.register(pointer as u64, bytes as u64, flags & READ_ONLY != 0)
    }
    fn cuMemHostUnregister(pointer: *mut c_void) {
        driver()?.tables().allocations.unregister(pointer as u64)
    }
}
