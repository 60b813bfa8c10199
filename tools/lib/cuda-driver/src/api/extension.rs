//! Entry points of this project, which the Python package `tileworks.cpu` uses.

use super::{entry_points, text};
use crate::allocations::HostRange;
use crate::driver::{HOST, driver};
use crate::status::Status;
use std::ffi::{c_char, c_int};

/// Host ranges that a thread can allow for one launch.
const MOST_RANGES: usize = 1 << 16;

entry_points! {
    /// Lets the next launch of this thread access memory of the host program. `name` may be null.
    fn tileworksAllowHostMemory(address: u64, bytes: u64, name: *const c_char, read_only: c_int) {
        driver()?;
        if address == 0 || address.checked_add(bytes).is_none() {
            return Err(Status::InvalidValue.into());
        }
        let name = if name.is_null() { format!("host memory at {address:#x}") } else { text(name)? };
        HOST.with_borrow_mut(|ranges| {
            let range = HostRange { address, size: bytes, name, read_only: read_only != 0 };
            if ranges.len() < MOST_RANGES && !ranges.contains(&range) {
                ranges.push(range);
            }
        });
        Ok(())
    }
    /// Forgets the memory that `tileworksAllowHostMemory` named, if no launch followed.
    fn tileworksForgetHostMemory() {
        HOST.take();
        Ok(())
    }
}
