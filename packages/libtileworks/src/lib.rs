//! The Tile IR compiler as a library: bytecode or text in memory to PTX, cubins, fatbins and the files of all stages.
//!
//! ```no_run
//! let compiled = tileworks::Compilation::new(std::fs::read("k.tileirbc").unwrap()).option("gpu-name", "sm_90").run();
//! match compiled.status {
//!     tileworks::Status::Ok => std::fs::write("k.cubin", compiled.output).unwrap(),
//!     _ => eprintln!("{}", compiled.diagnostics[0].message),
//! }
//! ```
//!
//! The options are those of `tileiras`, and the output has the bytes that `tileiras` writes. A compilation uses no global state, so
//! any number of threads can compile at a time. It writes to no standard stream, but Rust's default panic hook prints the message
//! of an internal error to standard error. The first four stages run in this process. `tile-ptx`, which contains LLVM, and
//! `tile-link` with `ptxas` run as processes: they can crash or exhaust memory, and the host may have another LLVM.
//!
//! [`c_api`] has the functions of `include/tileworks.h`.

mod c_api;
mod stages;
mod tools_folder;

pub use base::Diagnostic;
use common::cl::parse_integer;
use common::{Control, DEFAULT_TIME_SECONDS};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a compilation ended. The numbers are the exit codes of `tileiras`, and two more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    /// An option is unknown or has an invalid value. In C, also: an argument is NULL or not UTF-8.
    Usage = 1,
    /// The options do not fit each other, or a tool is missing.
    Configuration = 2,
    /// The input is invalid.
    Input = 3,
    /// A stage rejects the program.
    Compile = 5,
    /// The compilation was cancelled, or its time is over.
    Cancelled = 6,
    /// The library or a stage has a bug. In C, also: the status of a NULL result.
    Internal = 101,
}

impl Status {
    /// Returns the status for an exit code of `tileiras`.
    fn from_exit_code(exit_code: u8) -> Status {
        match exit_code {
            0 => Status::Ok,
            1 => Status::Usage,
            2 => Status::Configuration,
            3 => Status::Input,
            5 => Status::Compile,
            _ => Status::Internal,
        }
    }
}

/// A compilation: an input, and options.
#[derive(Clone, Debug, Default)]
pub struct Compilation {
    input: Vec<u8>,
    name: String,
    options: Vec<(String, String)>,
    tools: Option<PathBuf>,
    canceller: Canceller,
}

/// Cancels a compilation from another thread.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<Control>);

impl Canceller {
    /// Ends the compilation within milliseconds of its next step. A compilation that is cancelled before it runs ends at once.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

/// The result of a compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub status: Status,
    /// The output that the option `emit` requests; empty if the compilation failed.
    pub output: Vec<u8>,
    /// Errors, warnings and notes, in the order in which the stages reported them.
    pub diagnostics: Vec<Diagnostic>,
    /// The messages as text: a JSON object in each line. Lines without a diagnostic have the form `{"line": ...}`.
    pub json: String,
}

impl Compilation {
    /// A compilation of bytecode, or of the text of a program.
    pub fn new(input: impl Into<Vec<u8>>) -> Compilation {
        Compilation { input: input.into(), name: "<memory>".into(), ..Compilation::default() }
    }
    /// The name of the input in diagnostics.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Compilation {
        self.name = name.into();
        self
    }
    /// Adds an option of `tileiras`, such as `gpu-name`. A later value overrides an earlier one, except for the targets of a fatbin.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Compilation {
        self.options.push((name.into(), value.into()));
        self
    }
    /// The folder with the executables `tile-ptx` and `tile-link`. By default, it is the first folder with `tile-ptx` of these:
    /// `$TILEWORKS_TOOLS`, the folder of this library, `../bin` from there, and the folders of `PATH`.
    #[must_use]
    pub fn tools(mut self, folder: impl Into<PathBuf>) -> Compilation {
        self.tools = Some(folder.into());
        self
    }
    /// Cancels this compilation and its clones.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Compiles. The function can run in any number of threads at a time.
    pub fn run(&self) -> Compiled {
        let tools = match self.tools.clone().map_or_else(tools_folder::find, Ok) {
            Ok(tools) => tools,
            Err(error) => return failed(Status::Configuration, &error),
        };
        let deadline = self.time_limit().and_then(|limit| Instant::now().checked_add(limit));
        let control = Arc::new(self.canceller.0.with_deadline(deadline));
        let host = tileiras::Host { stages: &stages::InProcess, tools: &tools, control: control.clone() };
        let result = tileiras::compile_in_host(&host, &self.options, &self.name, self.input.clone());
        let diagnostics: Vec<Diagnostic> = result.messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let status = match Status::from_exit_code(result.status) {
            Status::Compile if diagnostics.iter().any(|diagnostic| diagnostic.code == "BUG001") => Status::Internal,
            Status::Compile if control.is_cancelled() => Status::Cancelled,
            status => status,
        };
        Compiled { status, output: result.output, diagnostics, json: result.messages }
    }

    /// The last value of the option `max-time`; zero is no limit.
    fn time_limit(&self) -> Option<Duration> {
        let last = self.options.iter().rfind(|(name, _)| name == "max-time");
        let requested = last.and_then(|(_, value)| parse_integer(value)).and_then(|seconds| u64::try_from(seconds).ok());
        Some(requested.unwrap_or(DEFAULT_TIME_SECONDS)).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }
}

/// A compilation that failed before a stage ran.
fn failed(status: Status, error: &Diagnostic) -> Compiled {
    let json = serde_json::to_string(error).expect("a diagnostic is plain data") + "\n";
    Compiled { status, output: Vec::new(), diagnostics: vec![error.clone()], json }
}
