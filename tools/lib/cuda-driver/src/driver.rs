//! The state of the driver, and [`run_entry_point`], which runs the body of each entry point and reports its failure.

use crate::allocations::{Allocations, MemoryKind};
use crate::config::Config;
use crate::device::Device;
use crate::handle::Handle;
use crate::handles::{Handles, Object, Stream};
use crate::report::Report;
use crate::status::{Failure, Result, Status, name_and_description};
use crate::thread_state::{last_failure_text, set_last_failure};
use std::ffi::{CString, c_int};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Stack size in bytes of the threads that execute kernels. The stack is large because the executor recurses over nested regions.
const STACK_BYTES: usize = 64 << 20;

/// The state of the driver. A process initialises the driver at most once, in [`DRIVER`].
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) device: Device,
    pub(crate) report: Report,
    pub(crate) thread_pool: rayon::ThreadPool,
    /// Each operation on device memory takes this lock. Operations of several threads therefore execute one after another.
    pub(crate) execution_lock: Mutex<()>,
    tables: Mutex<Tables>,
    pub(crate) primary_context: Handle,
    /// The default memory pool.
    pub(crate) default_pool: Handle,
    /// The process that initialised the driver. A forked child of this process cannot use the driver, as with CUDA.
    process_id: u32,
}

/// The tables of objects and allocations, which entry points change. The lock `Driver::tables` guards the tables.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) handles: Handles,
    pub(crate) allocations: Allocations,
    /// Number of clients that have retained the primary context.
    pub(crate) primary_users: u32,
    /// The null stream, and the legacy and per-thread default streams.
    default_streams: [Stream; 3],
}

/// The driver, or the reason why its initialisation failed.
static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();

/// Initialises the driver in the first call. Later calls return the result of the first call.
pub(crate) fn initialise() -> Result<&'static Driver> {
    let driver = DRIVER.get_or_init(|| {
        let driver = Driver::new();
        if driver.is_ok() {
            write_totals_at_exit();
        }
        driver
    });
    match driver {
        Ok(driver) => driver.check_not_forked(),
        Err(message) => Err(Status::InvalidValue.because(message.clone())),
    }
}

/// Returns the driver if `cuInit` has initialised it, even in a forked child.
pub(crate) fn initialised_driver() -> Option<&'static Driver> {
    DRIVER.get().and_then(|driver| driver.as_ref().ok())
}

/// Returns the driver, or an error if `cuInit` has not initialised it in this process.
pub(crate) fn driver() -> Result<&'static Driver> {
    match DRIVER.get() {
        Some(Ok(driver)) => driver.check_not_forked(),
        _ => Err(Status::NotInitialized.because("cuInit has not been called")),
    }
}

/// Registers a function that writes the statistics when the process ends.
fn write_totals_at_exit() {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    extern "C" fn finish() {
        if let Some(driver) = initialised_driver()
            && driver.process_id == std::process::id()
        {
            driver.report.write_totals();
        }
    }
    // SAFETY: the function is part of this library, which the process does not unload.
    unsafe { atexit(finish) };
}

impl Driver {
    fn new() -> Result<Driver, String> {
        let config = Config::from_environment()?;
        let device = Device::new(&config)?;
        let thread_pool =
            rayon::ThreadPoolBuilder::new().stack_size(STACK_BYTES).thread_name(|index| format!("tileworks-{index}")).build();
        let thread_pool = thread_pool.map_err(|error| error.to_string())?;
        let mut tables = Tables::default();
        tables.allocations.tracks_writes = !config.checks.is_empty();
        let primary_context = tables.handles.add(Object::Context { created_by_client: false });
        let default_pool = tables.handles.add(Object::Pool(Default::default()));
        let report = Report::new(config.report.as_deref());
        let (execution_lock, tables, process_id) = (Mutex::default(), Mutex::new(tables), std::process::id());
        Ok(Driver { config, device, report, thread_pool, execution_lock, tables, primary_context, default_pool, process_id })
    }

    /// Checks that this process is not a forked child of the process that initialised the driver.
    fn check_not_forked(&self) -> Result<&Driver> {
        if self.process_id == std::process::id() {
            return Ok(self);
        }
        Err(Status::NotInitialized
            .because("the process was forked after cuInit; start it with exec, for example multiprocessing's spawn"))
    }

    /// Locks the tables.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees memory after the running launch, if there is one, has ended.
    pub(crate) fn free(&self, address: u64, kinds: &[MemoryKind]) -> Result<()> {
        let _locked = self.execution_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.tables().allocations.free(address, kinds)
    }

    /// Returns a stream that the client created, or a default stream.
    pub(crate) fn stream(&self, handle: Handle) -> Result<Stream> {
        let tables = self.tables();
        match tables.default_streams.get(handle) {
            Some(stream) => Ok(stream.clone()),
            None => tables.handles.stream(handle).cloned(),
        }
    }

    /// Changes a stream that the client created, or a default stream.
    pub(crate) fn stream_mut<T>(&self, handle: Handle, change: impl FnOnce(&mut Stream) -> T) -> Result<T> {
        let mut tables = self.tables();
        match tables.default_streams.get_mut(handle) {
            Some(stream) => Ok(change(stream)),
            None => tables.handles.stream_mut(handle).map(change),
        }
    }

    /// Ends the capture of all streams whose operations become nodes of this graph.
    pub(crate) fn end_captures(&self, graph: Handle) {
        let mut tables = self.tables();
        let streams: Vec<Handle> = tables.handles.all().map(|(handle, _)| handle).collect();
        for handle in streams {
            if let Ok(stream) = tables.handles.stream_mut(handle) {
                stream.capture = stream.capture.filter(|capture| capture.graph != graph);
            }
        }
        tables
            .default_streams
            .iter_mut()
            .for_each(|stream| stream.capture = stream.capture.filter(|capture| capture.graph != graph));
    }
}

/// Runs the body of an entry point, and returns the result code. Reports a panic, and a failure that has a message.
pub(crate) fn run_entry_point(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    // After a panic, the tables are still consistent, because each lock guards a complete update.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Status::LaunchFailed.because(format!("this is a bug of the CPU device: {}", text.unwrap_or("a panic"))))
    });
    let code = match &result {
        Ok(()) => 0,
        Err(failure) => failure.status as c_int,
    };
    let reporting_driver = initialised_driver();
    if reporting_driver.is_some_and(|driver| driver.config.trace) {
        eprintln!("tileworks: {name} -> {}", name_and_description(code).map_or("?".into(), |(name, _)| name.to_string_lossy()));
    }
    if let Err(Failure { message: Some(message), status }) = result {
        store_last_failure(code, &message);
        let status_name = name_and_description(code).map_or_else(String::new, |(name, _)| name.to_string_lossy().into_owned());
        match reporting_driver {
            Some(driver) => {
                driver.report.report_fault(name, &status_name, &message);
                if driver.config.faults_abort && status as c_int >= Status::IllegalAddress as c_int {
                    driver.report.write_totals();
                    std::process::abort();
                }
            }
            None => eprintln!("tileworks: {name}: {status_name}: {message}"),
        }
    }
    code
}

/// Stores the cause of a failure for `cuGetErrorString`.
fn store_last_failure(code: c_int, message: &str) {
    let text = name_and_description(code).map_or_else(String::new, |(_, text)| text.to_string_lossy().into_owned());
    if let Ok(text) = CString::new(format!("{text}: {}", message.replace('\0', " "))) {
        set_last_failure(code, text);
    }
}

/// Returns the description of a result code. The text includes the cause if the last failure of this thread had this code. The text
/// is valid until the next failure of the thread.
pub(crate) fn error_text(code: c_int) -> Option<*const std::ffi::c_char> {
    last_failure_text(code).or_else(|| name_and_description(code).map(|(_, text)| text.as_ptr()))
}
