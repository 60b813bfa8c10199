//! Entry points for events. An event records the time on the CPU's clock.

use super::{entry_points, write_to_client};
use crate::driver::driver;
use crate::execution::issue;
use crate::handle::Handle;
use crate::handles::{Event, Object};
use crate::status::{Result, Status};
use crate::work::Work;
use std::ffi::c_uint;

/// `CU_EVENT_DISABLE_TIMING`: clients must not query the time of the event.
const DISABLE_TIMING: c_uint = 2;

/// Writes the milliseconds from the event `start` to the event `end`.
fn write_elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Result<()> {
    let (start, end) = {
        let tables = driver()?.tables();
        (*tables.handles.event(start)?, *tables.handles.event(end)?)
    };
    if !start.has_timing || !end.has_timing {
        return Err(Status::InvalidHandle.into());
    }
    let (Some(start), Some(end)) = (start.recorded_at, end.recorded_at) else { return Err(Status::InvalidHandle.into()) };
    let signed_seconds = end.saturating_duration_since(start).as_secs_f64() - start.saturating_duration_since(end).as_secs_f64();
    write_to_client(milliseconds, (signed_seconds * 1e3) as f32)
}

entry_points! {
    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        let new = Event { has_timing: flags & DISABLE_TIMING == 0, ..Event::default() };
        write_to_client(event, driver()?.tables().handles.add(Object::Event(new)))
    }
    fn cuEventDestroy_v2(event: Handle) {
        driver()?.tables().handles.remove(event, |object| matches!(object, Object::Event(_))).map(drop)
    }
    fn cuEventRecord(event: Handle, stream: Handle) {
        let driver = driver()?;
        driver.tables().handles.event_mut(event)?.capture_graph = None;
        issue(driver, stream, Work::RecordEvent(event))
    }
    fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) {
        let driver = driver()?;
        driver.tables().handles.event_mut(event)?.capture_graph = None;
        issue(driver, stream, Work::RecordEvent(event))
    }
    fn cuEventQuery(event: Handle) {
        check_not_captured(event)
    }
    fn cuEventSynchronize(event: Handle) {
        check_not_captured(event)
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        write_elapsed(milliseconds, start, end)
    }
    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) {
        write_elapsed(milliseconds, start, end)
    }
}

/// Returns an error for an event that a capture recorded. The work before any other event is complete, so no wait is necessary.
fn check_not_captured(event: Handle) -> Result<()> {
    match driver()?.tables().handles.event(event)?.capture_graph {
        None => Ok(()),
        Some(_) => Err(Status::CapturedEvent.into()),
    }
}
