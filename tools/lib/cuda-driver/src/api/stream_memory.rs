//! Entry points for writes of a stream to a word of memory, and for waits of a stream for the value of a word. Clients use the
//! words as flags for synchronisation.

use super::{entry_points, read_list_from_client};
use crate::driver::{Driver, driver};
use crate::execution::issue;
use crate::handle::Handle;
use crate::status::{Result, Status};
use crate::work::{WaitCondition, Work};
use std::ffi::c_uint;

/// Values of `CUstreamBatchMemOpType`.
mod operation {
    use std::ffi::c_uint;

    pub(super) const WAIT_32: c_uint = 1;
    pub(super) const WRITE_32: c_uint = 2;
    pub(super) const FLUSH_REMOTE_WRITES: c_uint = 3;
    pub(super) const WAIT_64: c_uint = 4;
    pub(super) const WRITE_64: c_uint = 5;
    pub(super) const BARRIER: c_uint = 6;
}

/// `CU_STREAM_WAIT_VALUE_FLUSH`, the flag of a wait that also waits for writes of other devices.
const FLUSH: c_uint = 1 << 30;
/// Largest number of operations in a batch, as the API documents.
const MAX_OPERATIONS: c_uint = 256;

/// `CUstreamBatchMemOpParams` of a write or a wait. The other operations use only the first field.
#[repr(C)]
#[derive(Clone, Copy)]
struct Operation {
    kind: c_uint,
    address: u64,
    value: u64,
    flags: c_uint,
    _alias: u64,
    _pad: u64,
}

/// Checks that a word of `bytes` bytes is aligned and inside one allocation.
fn check_word(driver: &Driver, address: u64, bytes: u64) -> Result<()> {
    if !address.is_multiple_of(bytes) {
        return Err(Status::InvalidValue.because(format!("{address:#x} is not a multiple of {bytes}")));
    }
    driver.tables().allocations.check_range(address, bytes)
}

/// Returns the operation that writes a word of `bytes` bytes.
fn write_value_work(driver: &Driver, to: u64, value: u64, bytes: u64) -> Result<Work> {
    check_word(driver, to, bytes)?;
    Ok(Work::WriteValue { to, value, bytes })
}

/// Returns the operation that waits for the value of a word of `bytes` bytes.
fn wait_value_work(driver: &Driver, at: u64, value: u64, bytes: u64, flags: c_uint) -> Result<Work> {
    check_word(driver, at, bytes)?;
    let condition = match flags & !FLUSH {
        0 => WaitCondition::AtLeast,
        1 => WaitCondition::Equal,
        2 => WaitCondition::AnyBit,
        3 => WaitCondition::AnyBitClear,
        _ => return Err(Status::InvalidValue.into()),
    };
    Ok(Work::WaitValue { at, value, bytes, condition })
}

impl Operation {
    /// Returns the operation of the stream.
    fn work(&self, driver: &Driver) -> Result<Work> {
        match self.kind {
            operation::WAIT_32 => wait_value_work(driver, self.address, self.value, 4, self.flags),
            operation::WAIT_64 => wait_value_work(driver, self.address, self.value, 8, self.flags),
            operation::WRITE_32 => write_value_work(driver, self.address, self.value, 4),
            operation::WRITE_64 => write_value_work(driver, self.address, self.value, 8),
            // All earlier work is complete and visible.
            operation::BARRIER | operation::FLUSH_REMOTE_WRITES => Ok(Work::Nothing),
            kind => Err(Status::NotSupported.because(format!("operation {kind} of a batch of memory operations"))),
        }
    }
}

entry_points! {
    fn cuStreamWriteValue32_v2(stream: Handle, address: u64, value: u32, _flags: c_uint) {
        let driver = driver()?;
        issue(driver, stream, write_value_work(driver, address, value.into(), 4)?)
    }
    fn cuStreamWriteValue64_v2(stream: Handle, address: u64, value: u64, _flags: c_uint) {
        let driver = driver()?;
        issue(driver, stream, write_value_work(driver, address, value, 8)?)
    }
    fn cuStreamWaitValue32_v2(stream: Handle, address: u64, value: u32, flags: c_uint) {
        let driver = driver()?;
        issue(driver, stream, wait_value_work(driver, address, value.into(), 4, flags)?)
    }
    fn cuStreamWaitValue64_v2(stream: Handle, address: u64, value: u64, flags: c_uint) {
        let driver = driver()?;
        issue(driver, stream, wait_value_work(driver, address, value, 8, flags)?)
    }
    fn cuStreamBatchMemOp_v2(stream: Handle, count: c_uint, operations: *const [u64; 6], _flags: c_uint) {
        let driver = driver()?;
        if count > MAX_OPERATIONS {
            return Err(Status::InvalidValue.into());
        }
        let operations = read_list_from_client(operations.cast::<Operation>(), count as usize)?;
        let works: Vec<Work> = operations.iter().map(|one| one.work(driver)).collect::<Result<_>>()?;
        works.into_iter().try_for_each(|work| issue(driver, stream, work))
    }
}
