//! The result codes (`CUresult`) of the driver API, and the failure of a call.

use base::diag::{Diagnostic, Kind, Style};
use std::ffi::{CStr, c_int};

/// The failure of an entry point.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    /// The cause in words, if the result code alone does not explain it.
    pub(crate) message: Option<String>,
}

/// The result of an entry point or of a helper of an entry point.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure { status, message: None }
    }
}

impl Status {
    /// Returns the failure with this result code and a cause in words.
    pub(crate) fn because(self, message: impl Into<String>) -> Failure {
        Failure { status: self, message: Some(message.into()) }
    }
}

/// Defines the result codes with their names and descriptions.
macro_rules! statuses {
    ($($variant:ident = $code:literal, $name:literal, $text:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(dead_code, reason = "clients may request the name of any code")]
        pub(crate) enum Status { $($variant = $code,)* }

        /// Returns the name and the description of a result code.
        pub(crate) fn name_and_description(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                $($code => Some(($name, $text)),)*
                _ => None,
            }
        }
    };
}

statuses! {
    Success = 0, c"CUDA_SUCCESS", c"no error";
    InvalidValue = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OutOfMemory = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NotInitialized = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NoDevice = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    InvalidDevice = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    InvalidImage = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    InvalidContext = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    NoBinaryForGpu = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device";
    InvalidPtx = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    FileNotFound = 301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found";
    OperatingSystem = 304, c"CUDA_ERROR_OPERATING_SYSTEM", c"OS call failed or operation not supported on this OS";
    InvalidHandle = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NotFound = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NotReady = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    IllegalAddress = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    LaunchOutOfResources = 701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch";
    LaunchTimeout = 702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated";
    ContextIsDestroyed = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed";
    Assert = 710, c"CUDA_ERROR_ASSERT", c"device-side assert triggered";
    HostMemoryAlreadyRegistered = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region";
    MisalignedAddress = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address";
    LaunchFailed = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NotSupported = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    StreamCaptureInvalidated = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture";
    StreamCaptureUnsupported = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing";
    StreamCaptureUnmatched = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"capture was not ended in the same stream as it began";
    CapturedEvent = 907, c"CUDA_ERROR_CAPTURED_EVENT", c"operation not permitted on an event last recorded in a capturing stream";
    GraphExecUpdateFailure = 910, c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    Unknown = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

/// Returns the result code of a launch whose kernel ended with this fault.
pub(crate) fn status_of_fault(fault: &Diagnostic) -> Status {
    match fault.code.as_str() {
        "RUN001" | "RUN002" | "SIM010" | "SIM014" => Status::IllegalAddress,
        "SIM011" => Status::MisalignedAddress,
        "RUN015" | "SIM042" | "SIM041" => Status::LaunchTimeout,
        "RUN040" => Status::Assert,
        "SIM002" => Status::InvalidValue,
        _ if fault.kind == Kind::Unsupported => Status::NotSupported,
        _ => Status::LaunchFailed,
    }
}

/// Returns a failure with this result code, whose cause is the text of the diagnostic.
pub(crate) fn failure_from(status: Status, error: &Diagnostic) -> Failure {
    status.because(error.render(Style::Human, |_| String::new()).trim_end())
}
