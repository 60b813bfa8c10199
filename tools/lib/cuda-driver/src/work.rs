//! Operations in a stream. They execute when the client issues them, or become nodes of the graph that captures the stream.

use crate::allocations::Kind;
use crate::driver::Driver;
use crate::graph::Node;
use crate::handles::{Handle, Object};
use crate::launch::Launch;
use crate::status::{Result, Status};
use std::ffi::c_void;
use std::sync::PoisonError;
use std::time::Instant;

/// A function of the host program.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Launch(Launch),
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    /// Rows of `width` bytes, at distances of `pitch`.
    Copy2D {
        to: u64,
        to_pitch: u64,
        from: u64,
        from_pitch: u64,
        width: u64,
        rows: u64,
    },
    /// Rows of elements with the same value.
    Fill {
        to: u64,
        pitch: u64,
        value: u32,
        element: u64,
        count: u64,
        rows: u64,
    },
    RecordEvent(Handle),
    Call {
        function: HostFunction,
        data: usize,
    },
    /// An allocation that the entry point has already created.
    Allocate,
    Free {
        address: u64,
    },
    /// A dependency without an effect.
    Nothing,
    Graph(Vec<Work>),
}

impl Work {
    /// Executes the operation.
    pub(crate) fn run(&self, driver: &Driver) -> Result<()> {
        let locked = || driver.execution.lock().unwrap_or_else(PoisonError::into_inner);
        match self {
            Work::Launch(launch) => {
                let _locked = locked();
                launch.run(driver)
            }
            Work::Copy { to, from, bytes } => {
                let _locked = locked();
                copy(driver, *to, *from, *bytes);
                Ok(())
            }
            Work::Copy2D { to, to_pitch, from, from_pitch, width, rows } => {
                let _locked = locked();
                (0..*rows).for_each(|row| copy(driver, to + row * to_pitch, from + row * from_pitch, *width));
                Ok(())
            }
            Work::Fill { to, pitch, value, element, count, rows } => {
                let _locked = locked();
                (0..*rows).for_each(|row| fill(driver, to + row * pitch, *value, *element, *count));
                Ok(())
            }
            Work::RecordEvent(event) => {
                driver.tables().handles.event_mut(*event)?.recorded = Some(Instant::now());
                Ok(())
            }
            // SAFETY: the client passes a function and its argument.
            Work::Call { function, data } => {
                unsafe { function(*data as *mut c_void) };
                Ok(())
            }
            Work::Allocate | Work::Nothing => Ok(()),
            Work::Free { address } => driver.free(*address, &[Kind::Device]),
            Work::Graph(works) => works.iter().try_for_each(|work| work.run(driver)),
        }
    }
}

/// Issues an operation in a stream.
pub(crate) fn issue(driver: &Driver, stream: Handle, work: Work) -> Result<()> {
    let captured = driver.stream(stream)?.capture;
    let Some(capture) = captured else { return work.run(driver) };
    let mut tables = driver.tables();
    if let Work::RecordEvent(event) = &work {
        tables.handles.event_mut(*event)?.capture = Some(capture.graph);
    }
    let graph = tables.handles.graph_mut(capture.graph)?;
    // A captured stream is sequential, and joined streams are captured in the order of the calls.
    let after = graph.nodes.len().checked_sub(1).into_iter().collect();
    let index = graph.nodes.len();
    graph.nodes.push(Node { work, after, handle: 0, removed: false });
    let handle = tables.handles.add(Object::GraphNode { graph: capture.graph, index });
    tables.handles.graph_mut(capture.graph)?.nodes[index].handle = handle;
    Ok(())
}

/// Copies memory whose ranges the entry point has checked. The ranges may overlap.
fn copy(driver: &Driver, to: u64, from: u64, bytes: u64) {
    // SAFETY: both ranges are inside allocations, or in memory of the client that the API requires to be valid.
    unsafe { std::ptr::copy(from as usize as *const u8, to as usize as *mut u8, bytes as usize) };
    driver.tables().allocations.record_write(to, bytes);
}

fn fill(driver: &Driver, to: u64, value: u32, element: u64, count: u64) {
    let start = to as usize as *mut u8;
    // SAFETY: the entry point has checked that the range is inside an allocation.
    unsafe {
        match element {
            1 => std::ptr::write_bytes(start, value as u8, count as usize),
            2 => (0..count as usize).for_each(|at| start.cast::<u16>().add(at).write_unaligned(value as u16)),
            _ => (0..count as usize).for_each(|at| start.cast::<u32>().add(at).write_unaligned(value)),
        }
    }
    driver.tables().allocations.record_write(to, element * count);
}

/// Checks the ranges of a fill.
pub(crate) fn check_fill(driver: &Driver, to: u64, pitch: u64, element: u64, count: u64, rows: u64) -> Result<()> {
    if !matches!(element, 1 | 2 | 4) || !to.is_multiple_of(element) {
        return Err(Status::InvalidValue.into());
    }
    let width = element.checked_mul(count).ok_or(Status::InvalidValue)?;
    check_rows(driver, to, pitch, width, rows)
}

/// Checks that rows are inside an allocation.
pub(crate) fn check_rows(driver: &Driver, at: u64, pitch: u64, width: u64, rows: u64) -> Result<()> {
    if rows == 0 || width == 0 {
        return Ok(());
    }
    let last = (rows - 1).checked_mul(pitch).and_then(|skip| skip.checked_add(width)).ok_or(Status::InvalidValue)?;
    driver.tables().allocations.check(at, last)
}
