//! Entry points that this library has in addition to the driver API. The Python package `tileworks.cpu` uses them to pass host
//! memory to kernels.

use super::{entry_points, read_text_from_client};
use crate::allocations::HostRange;
use crate::driver::driver;
use crate::status::Status;
use crate::thread_state::with_host_ranges;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

/// Maximum number of host ranges that a thread can allow for one launch.
const MAX_HOST_RANGES: usize = 1 << 16;

/// A function that finds the memory of the host program that contains an address. If the function finds memory, it writes the start
/// and the size in bytes, and returns 1. Otherwise it returns 0.
type HostMemoryFinder = unsafe extern "C" fn(address: u64, start: *mut u64, bytes: *mut u64) -> c_int;

static FINDER: Mutex<Option<HostMemoryFinder>> = Mutex::new(None);

/// Returns the memory of the host program that contains an address, if the program has set a [`HostMemoryFinder`]. The caller must
/// not have taken a lock of the driver, because the function may wait for a lock of the host program.
pub(super) fn find_host_memory(address: u64) -> Option<HostRange> {
    let finder = (*FINDER.lock().unwrap_or_else(PoisonError::into_inner))?;
    let (mut start, mut size) = (0, 0);
    // SAFETY: the host program keeps the function valid until it sets another function.
    let found = unsafe { finder(address, &mut start, &mut size) } == 1;
    let contains = start > 0 && start.checked_add(size).is_some() && address.wrapping_sub(start) < size;
    (found && contains).then(|| HostRange { address: start, size, name: format!("host memory at {start:#x}"), read_only: false })
}

entry_points! {
    /// Sets the function that finds the memory behind a pointer parameter of a launch, if neither an allocation nor
    /// `tileworksAllowHostMemory` has this memory. A null pointer removes the function.
    fn tileworksSetHostMemoryFinder(finder: Option<HostMemoryFinder>) {
        *FINDER.lock().unwrap_or_else(PoisonError::into_inner) = finder;
        Ok(())
    }
    /// Lets the next launch of this thread access memory of the host program. `name` may be null.
    fn tileworksAllowHostMemory(address: u64, bytes: u64, name: *const c_char, read_only: c_int) {
        driver()?;
        if address == 0 || address.checked_add(bytes).is_none() {
            return Err(Status::InvalidValue.into());
        }
        let name = if name.is_null() { format!("host memory at {address:#x}") } else { read_text_from_client(name)? };
        with_host_ranges(|ranges| {
            let range = HostRange { address, size: bytes, name, read_only: read_only != 0 };
            if ranges.len() < MAX_HOST_RANGES && !ranges.contains(&range) {
                ranges.push(range);
            }
        });
        Ok(())
    }
    /// Withdraws the permissions of `tileworksAllowHostMemory` that no launch of this thread has used yet.
    fn tileworksForgetHostMemory() {
        with_host_ranges(Vec::clear);
        Ok(())
    }
}
