//! Events. Their times are those of the CPU.

use super::{entry_points, put};
use crate::driver::driver;
use crate::handles::{Event, Handle, Object};
use crate::status::{Result, Status};
use crate::work::{Work, issue};
use std::ffi::c_uint;

const DISABLE_TIMING: c_uint = 2;

fn elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Result<()> {
    let (start, end) = {
        let tables = driver()?.tables();
        (*tables.handles.event(start)?, *tables.handles.event(end)?)
    };
    if !start.timing || !end.timing {
        return Err(Status::InvalidHandle.into());
    }
    let (Some(start), Some(end)) = (start.recorded, end.recorded) else { return Err(Status::InvalidHandle.into()) };
    let forwards = end.saturating_duration_since(start).as_secs_f64() - start.saturating_duration_since(end).as_secs_f64();
    put(milliseconds, (forwards * 1e3) as f32)
}

entry_points! {
    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        let new = Event { timing: flags & DISABLE_TIMING == 0, ..Event::default() };
        put(event, driver()?.tables().handles.add(Object::Event(new)))
    }
    fn cuEventDestroy_v2(event: Handle) {
        driver()?.tables().handles.remove(event, |object| matches!(object, Object::Event(_))).map(drop)
    }
    fn cuEventRecord(event: Handle, stream: Handle) {
        let driver = driver()?;
        driver.tables().handles.event_mut(event)?.capture = None;
        issue(driver, stream, Work::RecordEvent(event))
    }
    fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) {
        let driver = driver()?;
        driver.tables().handles.event_mut(event)?.capture = None;
        issue(driver, stream, Work::RecordEvent(event))
    }
    fn cuEventQuery(event: Handle) {
        complete(event)
    }
    fn cuEventSynchronize(event: Handle) {
        complete(event)
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
}

/// All issued work is complete, unless a capture recorded the event.
fn complete(event: Handle) -> Result<()> {
    match driver()?.tables().handles.event(event)?.capture {
        None => Ok(()),
        Some(_) => Err(Status::CapturedEvent.into()),
    }
}
