//! The entry points. Each entry point has the name and the parameters of a function of the driver API. Only the entry points in
//! `extension.rs` are not part of the driver API.

mod context;
mod device;
mod event;
mod extension;
mod graph;
mod host_memory;
mod init;
mod launch;
mod memory;
mod module;
mod pool;
mod stream;
mod stream_memory;
mod transfer;
mod unsupported;

use crate::status::{Result, Status};
use std::ffi::c_void;

/// The name and the address of an entry point, for `cuGetProcAddress`.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) address: *const c_void,
}

// SAFETY: `address` is the address of a function, which is valid in all threads.
unsafe impl Sync for Entry {}

/// Defines entry points, which are exported functions that return the result of their body as a result code. Also defines
/// `ENTRIES`, the list of these entry points.
macro_rules! entry_points {
    ($( $(#[$attribute:meta])* fn $name:ident($($argument:ident: $ty:ty),* $(,)?) $body:block )*) => {
        $(
            $(#[$attribute])*
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, unreachable_pub, clippy::missing_safety_doc, reason = "the name and the contract are those of the driver API")]
            pub unsafe extern "C" fn $name($($argument: $ty),*) -> std::ffi::c_int {
                crate::driver::run_entry_point(stringify!($name), move || $body)
            }
        )*
        pub(crate) static ENTRIES: &[crate::api::Entry] = &[
            $(crate::api::Entry { name: stringify!($name), address: $name as *const std::ffi::c_void },)*
        ];
    };
}
pub(crate) use entry_points;

/// Returns all supported entry points.
fn supported_entries() -> impl Iterator<Item = &'static Entry> {
    let groups = [
        context::ENTRIES,
        device::ENTRIES,
        event::ENTRIES,
        extension::ENTRIES,
        graph::ENTRIES,
        host_memory::ENTRIES,
        init::ENTRIES,
        launch::ENTRIES,
        memory::ENTRIES,
        module::ENTRIES,
        pool::ENTRIES,
        stream::ENTRIES,
        stream_memory::ENTRIES,
        transfer::ENTRIES,
    ];
    groups.into_iter().flatten()
}

/// Writes a result of an entry point to memory of the client.
fn write_to_client<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(Status::InvalidValue.into());
    }
    // SAFETY: the client passes a pointer to memory of this type, as the API requires; it may be unaligned.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Writes a result of an entry point, unless the client passes a null pointer.
fn write_optional_to_client<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the client passes a pointer to memory of this type, as the API requires; it may be unaligned.
        unsafe { place.write_unaligned(value) };
    }
}

/// Reads a structure that the client passes by address.
fn read_from_client<T: Copy>(place: *const T) -> Result<T> {
    if place.is_null() {
        return Err(Status::InvalidValue.into());
    }
    // SAFETY: the client passes a pointer to a structure of this type, as the API requires; it may be unaligned.
    Ok(unsafe { place.read_unaligned() })
}

/// Copies an array of `count` elements from memory of the client.
fn read_list_from_client<T: Copy>(start: *const T, count: usize) -> Result<Vec<T>> {
    if count > 0 && start.is_null() || count > 1 << 24 {
        return Err(Status::InvalidValue.into());
    }
    // SAFETY: the client passes as many elements as it states.
    Ok((0..count).map(|index| unsafe { start.add(index).read_unaligned() }).collect())
}

/// Copies a NUL-terminated string from memory of the client.
fn read_text_from_client(start: *const std::ffi::c_char) -> Result<String> {
    if start.is_null() {
        return Err(Status::InvalidValue.into());
    }
    // SAFETY: the client passes text that ends with a NUL.
    let text = unsafe { std::ffi::CStr::from_ptr(start) };
    text.to_str().map(str::to_string).map_err(|_| Status::InvalidValue.into())
}
