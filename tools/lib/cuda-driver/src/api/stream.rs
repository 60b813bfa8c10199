//! Entry points for streams and their capture into graphs.

use super::{entry_points, read_from_client, write_optional_to_client, write_to_client};
use crate::driver::{Driver, driver};
use crate::execution::issue;
use crate::graph::Graph;
use crate::handle::Handle;
use crate::handles::{Capture, Object, Stream};
use crate::status::{Result, Status};
use crate::thread_state::CAPTURE_MODE;
use crate::work::{HostFunction, Work};
use std::ffi::{c_int, c_uint, c_void};

/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const CAPTURE_NONE: c_int = 0;
/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const CAPTURE_ACTIVE: c_int = 1;

/// The argument of [`run_callback`]: a stream callback of the client, with its own arguments.
struct Callback {
    function: unsafe extern "C" fn(Handle, c_int, *mut c_void),
    stream: Handle,
    data: *mut c_void,
}

/// Calls a stream callback. This function is the host function that `cuStreamAddCallback` issues.
unsafe extern "C" fn run_callback(data: *mut c_void) {
    // SAFETY: `cuStreamAddCallback` passes the ownership, and each callback runs once.
    let Callback { function, stream, data } = *unsafe { Box::from_raw(data.cast::<Callback>()) };
    // SAFETY: the client states that the function accepts this argument.
    unsafe { function(stream, 0, data) };
}

/// Creates a stream with `CUstream_flags`.
fn create_stream(stream: *mut Handle, flags: c_uint, priority: c_int) -> Result<()> {
    if flags > 1 {
        return Err(Status::InvalidValue.into());
    }
    write_to_client(stream, driver()?.tables().handles.add(Object::Stream(Stream { flags, priority, capture: None })))
}

/// Checks that a stream exists and that no capture of the stream is active. Reason: a client must not wait for a stream during its
/// capture.
fn check_not_capturing(driver: &Driver, stream: Handle) -> Result<()> {
    match driver.stream(stream)?.capture {
        None => Ok(()),
        Some(_) => Err(Status::StreamCaptureUnsupported.into()),
    }
}

/// Writes whether the client captures a stream and, if so, the id and the graph of the capture. Returns the graph.
fn write_capture_info(
    driver: &Driver,
    stream: Handle,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut Handle,
) -> Result<Option<Handle>> {
    let capture = driver.stream(stream)?.capture.map(|capture| capture.graph);
    write_to_client(status, if capture.is_some() { CAPTURE_ACTIVE } else { CAPTURE_NONE })?;
    if let Some(captured) = capture {
        write_optional_to_client(id, captured as u64);
        write_optional_to_client(graph, captured);
    }
    Ok(capture)
}

entry_points! {
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        create_stream(stream, flags, 0)
    }
    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        create_stream(stream, flags, priority.clamp(-5, 0))
    }
    fn cuStreamDestroy_v2(stream: Handle) {
        driver()?.tables().handles.remove(stream, |object| matches!(object, Object::Stream(_))).map(drop)
    }
    fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) {
        write_to_client(priority, driver()?.stream(stream)?.priority)
    }
    fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) {
        write_to_client(flags, driver()?.stream(stream)?.flags)
    }
    fn cuStreamGetId(stream: Handle, id: *mut u64) {
        driver()?.stream(stream)?;
        write_to_client(id, stream as u64)
    }
    fn cuStreamGetCtx(stream: Handle, context: *mut Handle) {
        let driver = driver()?;
        driver.stream(stream)?;
        write_to_client(context, driver.primary_context)
    }
    fn cuStreamGetDevice(stream: Handle, device: *mut c_int) {
        driver()?.stream(stream)?;
        write_to_client(device, 0)
    }
    fn cuStreamQuery(stream: Handle) {
        check_not_capturing(driver()?, stream)
    }
    fn cuStreamSynchronize(stream: Handle) {
        check_not_capturing(driver()?, stream)
    }
    /// All earlier work is complete, so no wait is necessary. If a capture recorded the event, the stream joins the capture.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        let driver = driver()?;
        let captured = driver.tables().handles.event(event)?.capture_graph;
        driver.stream_mut(stream, |stream| {
            if let (None, Some(graph)) = (stream.capture, captured) {
                stream.capture = Some(Capture { graph, is_origin: false });
            }
        })
    }
    fn cuStreamAddCallback(stream: Handle, function: Option<unsafe extern "C" fn(Handle, c_int, *mut c_void)>, data: *mut c_void, _flags: c_uint) {
        let driver = driver()?;
        check_not_capturing(driver, stream)?;
        let callback = Callback { function: function.ok_or(Status::InvalidValue)?, stream, data };
        let data = Box::into_raw(Box::new(callback)) as usize;
        issue(driver, stream, Work::Call { function: run_callback, data })
    }
    fn cuLaunchHostFunc(stream: Handle, function: Option<HostFunction>, data: *mut c_void) {
        issue(driver()?, stream, Work::Call { function: function.ok_or(Status::InvalidValue)?, data: data as usize })
    }
    /// As `cuLaunchHostFunc`. `mode` selects how the driver waits for the function, and has no effect on results.
    fn cuLaunchHostFunc_v2(stream: Handle, function: Option<HostFunction>, data: *mut c_void, _mode: c_uint) {
        issue(driver()?, stream, Work::Call { function: function.ok_or(Status::InvalidValue)?, data: data as usize })
    }
    fn cuStreamAttachMemAsync(stream: Handle, pointer: u64, _bytes: usize, _flags: c_uint) {
        let driver = driver()?;
        driver.stream(stream)?;
        driver.tables().allocations.check_range(pointer, 1)
    }
    fn cuStreamCopyAttributes(to: Handle, from: Handle) {
        let driver = driver()?;
        driver.stream(from)?;
        driver.stream(to).map(drop)
    }
    fn cuStreamGetAttribute(stream: Handle, _attribute: c_int, value: *mut [u64; 8]) {
        driver()?.stream(stream)?;
        write_to_client(value, [0; 8])
    }
    fn cuStreamSetAttribute(stream: Handle, _attribute: c_int, _value: *const c_void) {
        driver()?.stream(stream).map(drop)
    }
    fn cuStreamBeginCapture_v2(stream: Handle, _mode: c_int) {
        let driver = driver()?;
        if stream == 0 {
            return Err(Status::StreamCaptureUnsupported.into());
        }
        check_not_capturing(driver, stream)?;
        let graph = driver.tables().handles.add(Object::Graph(Graph::default()));
        driver.stream_mut(stream, |stream| stream.capture = Some(Capture { graph, is_origin: true }))
    }
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        let driver = driver()?;
        match driver.stream(stream)?.capture {
            Some(Capture { graph: captured, is_origin: true }) => {
                driver.end_captures(captured);
                write_to_client(graph, captured)
            }
            _ => Err(Status::StreamCaptureUnmatched.into()),
        }
    }
    fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) {
        write_to_client(status, if driver()?.stream(stream)?.capture.is_some() { CAPTURE_ACTIVE } else { CAPTURE_NONE })
    }
    fn cuStreamGetCaptureInfo_v2(stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle, dependencies: *mut *const Handle, count: *mut usize) {
        write_capture_info(driver()?, stream, status, id, graph)?;
        write_optional_to_client(dependencies, std::ptr::null());
        write_optional_to_client(count, 0);
        Ok(())
    }
    fn cuStreamGetCaptureInfo_v3(stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle, dependencies: *mut *const Handle, edges: *mut *const c_void, count: *mut usize) {
        write_capture_info(driver()?, stream, status, id, graph)?;
        write_optional_to_client(dependencies, std::ptr::null());
        write_optional_to_client(edges, std::ptr::null());
        write_optional_to_client(count, 0);
        Ok(())
    }
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        let old = CAPTURE_MODE.replace(read_from_client(mode)?);
        write_to_client(mode, old)
    }
}
