//! Entry points for contexts. All contexts share the memory and the modules of the device.

use super::{entry_points, write_optional_to_client, write_to_client};
use crate::driver::driver;
use crate::handle::Handle;
use crate::handles::Object;
use crate::status::{Result, Status};
use crate::thread_state::{current_context, pop_context, push_context};
use std::ffi::{c_int, c_uint, c_void};

/// Checks that a handle is the handle of a context.
fn check_context(context: Handle) -> Result<()> {
    match driver()?.tables().handles.get(context) {
        Ok(Object::Context { .. }) => Ok(()),
        _ => Err(Status::InvalidContext.into()),
    }
}

/// Returns the current context of the thread, or an error if the thread has no current context.
fn require_current() -> Result<Handle> {
    driver()?;
    current_context().ok_or_else(|| Status::InvalidContext.into())
}

/// Creates a context, and makes it the current context of the thread.
fn create_context(context: *mut Handle, device: c_int) -> Result<()> {
    if device != 0 {
        return Err(Status::InvalidDevice.into());
    }
    let handle = driver()?.tables().handles.add(Object::Context { created_by_client: true });
    push_context(handle)?;
    write_to_client(context, handle)
}

/// The results of `cuCtxGetLimit` in bytes, by `CUlimit` number: stack size, size of the printf buffer, and size of the heap.
const LIMIT_BYTES_BY_NUMBER: [usize; 3] = [1024, 1 << 20, 8 << 20];

entry_points! {
    fn cuCtxCreate_v2(context: *mut Handle, _flags: c_uint, device: c_int) {
        create_context(context, device)
    }
    fn cuCtxCreate_v3(context: *mut Handle, _affinity: *const c_void, _count: c_int, _flags: c_uint, device: c_int) {
        create_context(context, device)
    }
    fn cuCtxCreate_v4(context: *mut Handle, _params: *const c_void, _flags: c_uint, device: c_int) {
        create_context(context, device)
    }
    fn cuCtxDestroy_v2(context: Handle) {
        let is_created = |object: &Object| matches!(object, Object::Context { created_by_client: true });
        driver()?.tables().handles.remove(context, is_created).map_err(|_| Status::InvalidContext)?;
        if current_context() == Some(context) {
            pop_context();
        }
        Ok(())
    }
    fn cuCtxPushCurrent_v2(context: Handle) {
        check_context(context)?;
        push_context(context)
    }
    fn cuCtxPopCurrent_v2(context: *mut Handle) {
        driver()?;
        let top = pop_context().ok_or(Status::InvalidContext)?;
        write_optional_to_client(context, top);
        Ok(())
    }
    fn cuCtxSetCurrent(context: Handle) {
        if context != 0 {
            check_context(context)?;
        }
        pop_context();
        if context == 0 { Ok(()) } else { push_context(context) }
    }
    fn cuCtxGetCurrent(context: *mut Handle) {
        driver()?;
        write_to_client(context, current_context().unwrap_or(0))
    }
    fn cuCtxGetDevice(device: *mut c_int) {
        require_current()?;
        write_to_client(device, 0)
    }
    fn cuCtxGetDevice_v2(device: *mut c_int, context: Handle) {
        check_context(if context == 0 { require_current()? } else { context })?;
        write_to_client(device, 0)
    }
    fn cuCtxGetId(context: Handle, id: *mut u64) {
        let context = if context == 0 { require_current()? } else { context };
        check_context(context)?;
        write_to_client(id, context as u64)
    }
    fn cuCtxSynchronize() {
        require_current().map(drop)
    }
    fn cuCtxSynchronize_v2(context: Handle) {
        if context == 0 { require_current().map(drop) } else { check_context(context) }
    }
    fn cuCtxGetApiVersion(_context: Handle, version: *mut c_uint) {
        driver()?;
        write_to_client(version, 3020)
    }
    fn cuCtxGetFlags(flags: *mut c_uint) {
        require_current()?;
        write_to_client(flags, 0)
    }
    fn cuCtxSetFlags(_flags: c_uint) {
        require_current().map(drop)
    }
    fn cuCtxGetLimit(value: *mut usize, limit: c_int) {
        require_current()?;
        let value_of = usize::try_from(limit).ok().and_then(|limit| LIMIT_BYTES_BY_NUMBER.get(limit));
        write_to_client(value, *value_of.ok_or(Status::InvalidValue)?)
    }
    fn cuCtxSetLimit(_limit: c_int, _value: usize) {
        require_current().map(drop)
    }
    fn cuCtxGetCacheConfig(config: *mut c_int) {
        require_current()?;
        write_to_client(config, 0)
    }
    fn cuCtxSetCacheConfig(_config: c_int) {
        require_current().map(drop)
    }
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        require_current()?;
        write_optional_to_client(least, 0);
        write_optional_to_client(greatest, -5);
        Ok(())
    }
    fn cuCtxResetPersistingL2Cache() {
        require_current().map(drop)
    }
}
