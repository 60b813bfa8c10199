//! Entry points for devices. There is one device, which imitates a GPU.

use super::{entry_points, read_text_from_client, write_optional_to_client, write_to_client};
use crate::driver::driver;
use crate::status::{Result, Status};
use std::ffi::{c_char, c_int, c_uint};

/// The bus id of the only device.
const BUS_ID: &str = "0000:00:00.0";
/// The UUID of the only device.
const UUID: [u8; 16] = *b"tileworks-cpu-0\0";

/// Checks that an ordinal is 0, the ordinal of the only device.
fn check_ordinal(device: c_int) -> Result<()> {
    if device == 0 { Ok(()) } else { Err(Status::InvalidDevice.into()) }
}

/// Writes a text and a NUL to memory of the client. Truncates the text if the memory is too small.
fn write_text_to_client(place: *mut c_char, size: c_int, text: &[u8]) -> Result<()> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0 && !place.is_null()).ok_or(Status::InvalidValue)?;
    let count = text.len().min(size - 1);
    // SAFETY: the client states the size of its memory.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), place, count);
        place.add(count).write(0);
    }
    Ok(())
}

entry_points! {
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        driver()?;
        check_ordinal(ordinal)?;
        write_to_client(device, 0)
    }
    fn cuDeviceGetCount(count: *mut c_int) {
        driver()?;
        write_to_client(count, 1)
    }
    fn cuDeviceGetName(name: *mut c_char, size: c_int, device: c_int) {
        check_ordinal(device)?;
        write_text_to_client(name, size, driver()?.device.name.as_bytes())
    }
    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        check_ordinal(device)?;
        write_to_client(uuid, UUID)
    }
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        check_ordinal(device)?;
        write_to_client(uuid, UUID)
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        check_ordinal(device)?;
        write_to_client(bytes, driver()?.device.memory_bytes as usize)
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        check_ordinal(device)?;
        write_to_client(value, driver()?.device.attribute(attribute).ok_or(Status::InvalidValue)?)
    }
    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) {
        check_ordinal(device)?;
        let capability = driver()?.device.capability();
        write_to_client(major, capability.0)?;
        write_to_client(minor, capability.1)
    }
    fn cuDeviceGetPCIBusId(id: *mut c_char, size: c_int, device: c_int) {
        check_ordinal(device)?;
        write_text_to_client(id, size, BUS_ID.as_bytes())
    }
    fn cuDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char) {
        if read_text_from_client(id)? == BUS_ID { write_to_client(device, 0) } else { Err(Status::InvalidDevice.into()) }
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        check_ordinal(device)?;
        check_ordinal(peer)?;
        write_to_client(can, 0)
    }
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        check_ordinal(device)?;
        let driver = driver()?;
        driver.tables().primary_users += 1;
        write_to_client(context, driver.primary_context)
    }
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        check_ordinal(device)?;
        let mut tables = driver()?.tables();
        tables.primary_users = tables.primary_users.checked_sub(1).ok_or(Status::InvalidContext)?;
        Ok(())
    }
    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        check_ordinal(device)
    }
    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: c_uint) {
        check_ordinal(device)
    }
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        check_ordinal(device)?;
        write_optional_to_client(flags, 0);
        write_to_client(active, c_int::from(driver()?.tables().primary_users > 0))
    }
    fn cuDeviceGetDefaultMemPool(pool: *mut usize, device: c_int) {
        check_ordinal(device)?;
        write_to_client(pool, driver()?.default_pool)
    }
    fn cuDeviceGetMemPool(pool: *mut usize, device: c_int) {
        check_ordinal(device)?;
        write_to_client(pool, driver()?.default_pool)
    }
    fn cuDeviceSetMemPool(device: c_int, pool: usize) {
        check_ordinal(device)?;
        driver()?.tables().handles.pool(pool).map(drop)
    }
}
