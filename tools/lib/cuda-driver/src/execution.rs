//! The execution of operations. An operation executes when the client issues it, or becomes a node of the graph that captures the
//! stream.

use crate::allocations::MemoryKind;
use crate::driver::Driver;
use crate::graph::Node;
use crate::handle::Handle;
use crate::handles::Object;
use crate::status::{Result, Status};
use crate::work::Work;
use std::ffi::c_void;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

impl Work {
    /// Executes the operation.
    pub(crate) fn run(&self, driver: &Driver) -> Result<()> {
        let lock_execution = || driver.execution_lock.lock().unwrap_or_else(PoisonError::into_inner);
        match self {
            Work::Launch(launch) => {
                let _locked = lock_execution();
                launch.run(driver)
            }
            Work::Copy { to, from, bytes } => {
                let _locked = lock_execution();
                copy(driver, *to, *from, *bytes);
                Ok(())
            }
            Work::Copy2D { to, to_pitch, from, from_pitch, width, rows } => {
                let _locked = lock_execution();
                (0..*rows).for_each(|row| copy(driver, to + row * to_pitch, from + row * from_pitch, *width));
                Ok(())
            }
            Work::Fill { to, pitch, value, element_bytes, count, rows } => {
                let _locked = lock_execution();
                (0..*rows).for_each(|row| fill(driver, to + row * pitch, *value, *element_bytes, *count));
                Ok(())
            }
            Work::WriteValue { to, value, bytes } => {
                write_word(*to, *value, *bytes);
                driver.tables().allocations.record_write(*to, *bytes);
                Ok(())
            }
            Work::WaitValue { at, value, bytes, condition } => {
                // All earlier operations are complete, so no operation can still write the word. A wait would block the thread that
                // could issue a later write.
                match condition.is_met(read_word(*at, *bytes), *value, *bytes) {
                    true => Ok(()),
                    false => {
                        Err(Status::NotSupported.because(format!("a wait for a value at {at:#x} that nothing has written yet")))
                    }
                }
            }
            Work::RecordEvent(event) => {
                driver.tables().handles.event_mut(*event)?.recorded_at = Some(Instant::now());
                Ok(())
            }
            // SAFETY: the client states that the function accepts this argument.
            Work::Call { function, data } => {
                unsafe { function(*data as *mut c_void) };
                Ok(())
            }
            Work::Allocate | Work::Nothing => Ok(()),
            Work::Free { address } => driver.free(*address, &[MemoryKind::Device]),
            Work::Graph(operations) => operations.iter().try_for_each(|work| work.run(driver)),
        }
    }
}

/// Executes an operation of a stream, or adds it to the graph that captures the stream.
pub(crate) fn issue(driver: &Driver, stream: Handle, work: Work) -> Result<()> {
    let captured = driver.stream(stream)?.capture;
    let Some(capture) = captured else { return work.run(driver) };
    let mut tables = driver.tables();
    if let Work::RecordEvent(event) = &work {
        tables.handles.event_mut(*event)?.capture_graph = Some(capture.graph);
    }
    let graph = tables.handles.graph_mut(capture.graph)?;
    // Each node depends on the previous node. The nodes therefore run in the order of the calls, which is legal for one stream and
    // for several streams of a capture.
    let dependencies = graph.nodes.len().checked_sub(1).into_iter().collect();
    let index = graph.nodes.len();
    graph.nodes.push(Node { work, dependencies, handle: 0, removed: false });
    let handle = tables.handles.add(Object::GraphNode { graph: capture.graph, index });
    tables.handles.graph_mut(capture.graph)?.nodes[index].handle = handle;
    Ok(())
}

/// Copies bytes between two ranges, which may overlap. The entry point has checked the ranges.
fn copy(driver: &Driver, to: u64, from: u64, bytes: u64) {
    // SAFETY: both ranges are inside allocations, or in memory of the client that the API requires to be valid.
    unsafe { std::ptr::copy(from as usize as *const u8, to as usize as *mut u8, bytes as usize) };
    driver.tables().allocations.record_write(to, bytes);
}

/// Writes a value to `count` adjacent elements of device memory.
fn fill(driver: &Driver, to: u64, value: u32, element_bytes: u64, count: u64) {
    let start = to as usize as *mut u8;
    // SAFETY: the entry point has checked that the range is inside an allocation.
    unsafe {
        match element_bytes {
            1 => std::ptr::write_bytes(start, value as u8, count as usize),
            2 => (0..count as usize).for_each(|at| start.cast::<u16>().add(at).write_unaligned(value as u16)),
            _ => (0..count as usize).for_each(|at| start.cast::<u32>().add(at).write_unaligned(value)),
        }
    }
    driver.tables().allocations.record_write(to, element_bytes * count);
}

/// Writes a word of 4 or 8 bytes. The entry point has checked the address.
fn write_word(to: u64, value: u64, bytes: u64) {
    // SAFETY: the word is aligned and inside an allocation.
    unsafe {
        match bytes {
            4 => AtomicU32::from_ptr(to as usize as *mut u32).store(value as u32, Ordering::Release),
            _ => AtomicU64::from_ptr(to as usize as *mut u64).store(value, Ordering::Release),
        }
    }
}

/// Reads a word of 4 or 8 bytes. The entry point has checked the address.
fn read_word(at: u64, bytes: u64) -> u64 {
    // SAFETY: the word is aligned and inside an allocation.
    unsafe {
        match bytes {
            4 => AtomicU32::from_ptr(at as usize as *mut u32).load(Ordering::Acquire).into(),
            _ => AtomicU64::from_ptr(at as usize as *mut u64).load(Ordering::Acquire),
        }
    }
}

/// Checks the element size and the alignment of a fill, and that all rows are inside one allocation.
pub(crate) fn check_fill(driver: &Driver, to: u64, pitch: u64, element_bytes: u64, count: u64, rows: u64) -> Result<()> {
    if !matches!(element_bytes, 1 | 2 | 4) || !to.is_multiple_of(element_bytes) {
        return Err(Status::InvalidValue.into());
    }
    let width = element_bytes.checked_mul(count).ok_or(Status::InvalidValue)?;
    check_rows(driver, to, pitch, width, rows)
}

/// Checks that `rows` rows of `width` bytes are inside one allocation. `pitch` is the distance between the starts of two rows in
/// bytes.
pub(crate) fn check_rows(driver: &Driver, at: u64, pitch: u64, width: u64, rows: u64) -> Result<()> {
    if rows == 0 || width == 0 {
        return Ok(());
    }
    let last = (rows - 1).checked_mul(pitch).and_then(|skip| skip.checked_add(width)).ok_or(Status::InvalidValue)?;
    driver.tables().allocations.check_range(at, last)
}
