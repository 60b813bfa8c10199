//! The state of the process, and what every entry point does before and after its work.

use crate::allocations::{Allocations, HostRange, Kind};
use crate::config::Config;
use crate::device::Device;
use crate::handles::{Handle, Handles, Object, Stream};
use crate::report::Report;
use crate::status::{Failure, Result, Status, describe};
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Stack size of the threads that execute kernels. Nested reductions recurse.
const STACK: usize = 64 << 20;

pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) device: Device,
    pub(crate) report: Report,
    pub(crate) threads: rayon::ThreadPool,
    /// Held by each operation on device memory, so that threads take turns.
    pub(crate) execution: Mutex<()>,
    tables: Mutex<Tables>,
    /// The handle of the primary context, and of the default memory pool.
    pub(crate) context: Handle,
    pub(crate) pool: Handle,
    /// The process that initialised the driver. A forked child cannot use it, as with CUDA.
    process: u32,
}

#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) handles: Handles,
    pub(crate) allocations: Allocations,
    /// Holders of the primary context.
    pub(crate) primary_users: u32,
    /// The null stream, and the legacy and per-thread default streams.
    defaults: [Stream; 3],
}

static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();

thread_local! {
    /// The stack of current contexts.
    pub(crate) static CONTEXTS: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    /// Memory of the host program that the next launch of this thread may access.
    pub(crate) static HOST: RefCell<Vec<HostRange>> = const { RefCell::new(Vec::new()) };
    /// The cause of the last failure of this thread, for `cuGetErrorString`.
    static LAST: RefCell<Option<(c_int, CString)>> = const { RefCell::new(None) };
    /// Capture interactions of this thread, see `cuThreadExchangeStreamCaptureMode`.
    pub(crate) static CAPTURE_MODE: Cell<c_int> = const { Cell::new(0) };
}

/// Initialises the driver. Later calls return the first result.
pub(crate) fn initialise() -> Result<&'static Driver> {
    let driver = DRIVER.get_or_init(|| {
        let driver = Driver::new();
        if driver.is_ok() {
            at_exit();
        }
        driver
    });
    match driver {
        Ok(driver) => driver.in_own_process(),
        Err(message) => Err(Status::InvalidValue.because(message.clone())),
    }
}

/// The driver, if it is initialised.
pub(crate) fn initialised() -> Option<&'static Driver> {
    DRIVER.get().and_then(|driver| driver.as_ref().ok())
}

/// The initialised driver of this process.
pub(crate) fn driver() -> Result<&'static Driver> {
    match DRIVER.get() {
        Some(Ok(driver)) => driver.in_own_process(),
        _ => Err(Status::NotInitialized.because("cuInit has not been called")),
    }
}

/// Writes the statistics when the process ends.
fn at_exit() {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    extern "C" fn finish() {
        if let Some(driver) = initialised()
            && driver.process == std::process::id()
        {
            driver.report.finish();
        }
    }
    // SAFETY: the function is part of this library, which is not unloaded: a static holds its state.
    unsafe { atexit(finish) };
}

impl Driver {
    fn new() -> Result<Driver, String> {
        let config = Config::from_environment()?;
        let device = Device::new(&config)?;
        let threads = rayon::ThreadPoolBuilder::new().stack_size(STACK).thread_name(|index| format!("tileworks-{index}")).build();
        let threads = threads.map_err(|error| error.to_string())?;
        let mut tables = Tables::default();
        tables.allocations.tracks_writes = !config.checks.is_empty();
        let context = tables.handles.add(Object::Context { retained: false });
        let pool = tables.handles.add(Object::Pool(Default::default()));
        let report = Report::new(config.report.as_deref());
        let (execution, tables, process) = (Mutex::default(), Mutex::new(tables), std::process::id());
        Ok(Driver { config, device, report, threads, execution, tables, context, pool, process })
    }

    fn in_own_process(&self) -> Result<&Driver> {
        if self.process == std::process::id() {
            return Ok(self);
        }
        Err(Status::NotInitialized
            .because("the process was forked after cuInit; start it with exec, for example multiprocessing's spawn"))
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees memory after the running launch, if there is one, has ended.
    pub(crate) fn free(&self, address: u64, kinds: &[Kind]) -> Result<()> {
        let _locked = self.execution.lock().unwrap_or_else(PoisonError::into_inner);
        self.tables().allocations.free(address, kinds)
    }

    /// A stream, also one of the default streams.
    pub(crate) fn stream(&self, handle: Handle) -> Result<Stream> {
        let tables = self.tables();
        match tables.defaults.get(handle) {
            Some(stream) => Ok(stream.clone()),
            None => tables.handles.stream(handle).cloned(),
        }
    }

    pub(crate) fn stream_mut<T>(&self, handle: Handle, change: impl FnOnce(&mut Stream) -> T) -> Result<T> {
        let mut tables = self.tables();
        match tables.defaults.get_mut(handle) {
            Some(stream) => Ok(change(stream)),
            None => tables.handles.stream_mut(handle).map(change),
        }
    }

    /// Ends the capture of all streams by a graph.
    pub(crate) fn end_captures(&self, graph: Handle) {
        let mut tables = self.tables();
        let streams: Vec<Handle> = tables.handles.all().map(|(handle, _)| handle).collect();
        for handle in streams {
            if let Ok(stream) = tables.handles.stream_mut(handle) {
                stream.capture = stream.capture.filter(|capture| capture.graph != graph);
            }
        }
        tables.defaults.iter_mut().for_each(|stream| stream.capture = stream.capture.filter(|capture| capture.graph != graph));
    }
}

/// The current context of the thread.
pub(crate) fn current_context() -> Option<Handle> {
    CONTEXTS.with_borrow(|stack| stack.last().copied()).filter(|context| *context != 0)
}

/// Runs the body of an entry point. A panic, and a failure with a message, are reported.
pub(crate) fn enter(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    // The tables stay consistent: each lock guards complete updates.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Status::LaunchFailed.because(format!("this is a bug of the CPU device: {}", text.unwrap_or("a panic"))))
    });
    let code = match &result {
        Ok(()) => 0,
        Err(failure) => failure.status as c_int,
    };
    let known = initialised();
    if known.is_some_and(|driver| driver.config.trace) {
        eprintln!("tileworks: {name} -> {}", describe(code).map_or("?".into(), |(name, _)| name.to_string_lossy()));
    }
    if let Err(Failure { message: Some(message), status }) = result {
        explain(code, &message);
        let status_name = describe(code).map_or_else(String::new, |(name, _)| name.to_string_lossy().into_owned());
        match known {
            Some(driver) => {
                driver.report.fault(name, &status_name, &message);
                if driver.config.faults_abort && status as c_int >= Status::IllegalAddress as c_int {
                    driver.report.finish();
                    std::process::abort();
                }
            }
            None => eprintln!("tileworks: {name}: {status_name}: {message}"),
        }
    }
    code
}

/// Keeps the cause of a failure for `cuGetErrorString`.
fn explain(code: c_int, message: &str) {
    let text = describe(code).map_or_else(String::new, |(_, text)| text.to_string_lossy().into_owned());
    if let Ok(text) = CString::new(format!("{text}: {}", message.replace('\0', " "))) {
        LAST.set(Some((code, text)));
    }
}

/// The description of a result code, with the cause if the last failure of this thread had this code. The text is valid until the
/// next failure of the thread.
pub(crate) fn error_text(code: c_int) -> Option<*const std::ffi::c_char> {
    LAST.with_borrow(|last| match last {
        Some((known, text)) if *known == code => Some(text.as_ptr()),
        _ => describe(code).map(|(_, text)| text.as_ptr()),
    })
}
