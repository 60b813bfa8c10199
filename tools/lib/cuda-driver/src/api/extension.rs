//! Entry points of this project, which the Python package `tileworks.cpu` uses.

use super::{entry_points, text};
use crate::allocations::HostRange;
use crate::driver::{HOST_RANGES, driver};
use crate::status::Status;
use std::ffi::{c_char, c_int};

/// Maximum number of host ranges that a thread can allow for one launch.
const MAX_HOST_RANGES: usize = 1 << 16;

entry_points! {
    /// Lets the next launch of this thread access memory of the host program. `name` may be null.
    fn tileworksAllowHostMemory(address: u64, bytes: u64, name: *const c_char, read_only: c_int) {
        driver()?;
        if address == 0 || address.checked_add(bytes).is_none() {
            return Err(Status::InvalidValue.into());
        }
        let name = if name.is_null() { format!("host memory at {address:#x}") } else { text(name)? };
        HOST_RANGES.with_borrow_mut(|ranges| {
            let range = HostRange { address, size: bytes, name, read_only: read_only != 0 };
            if ranges.len() < MAX_HOST_RANGES && !ranges.contains(&range) {
                ranges.push(range);
            }
        });
        Ok(())
    }
    /// Withdraws the permissions of `tileworksAllowHostMemory` that no launch of this thread has used yet.
    fn tileworksForgetHostMemory() {
        HOST_RANGES.take();
        Ok(())
    }
}
