//! The driver without a command line, files and standard streams, for libtileworks: one compilation inside a host process.

use crate::compile;
use crate::failure::{DriverError, exit};
use crate::host::Host;
use crate::options::OPTIONS;
use crate::pipeline::Pipeline;
use crate::source::Source;
use base::diag::Style;
use common::cl;
use common::plan_file::DECISION_OPTIONS;

/// The result of a compilation in a host process.
#[derive(Debug)]
pub struct HostOutput {
    /// The exit code that the driver would have.
    pub status: u8,
    /// Empty if the compilation failed.
    pub output: Vec<u8>,
    /// The messages, each a JSON object in a line.
    pub messages: String,
}

/// The options that a host process can set, besides [`DECISION_OPTIONS`]. The other options name files, or print text.
const HOST_OPTIONS: &[&str] = &[
    "gpu-name",
    "opt-level",
    "emit",
    "format",
    "cpu-stage",
    "lineinfo",
    "device-debug",
    "sanitize",
    "host-arch",
    "host-os",
    "preview",
    "check-bounds",
    "embed-program",
    "ptxas-options",
    "stop-after",
    "symbol",
    "max-memory",
    "max-time",
    "jobs",
];

/// All options that a host process can set.
fn host_options() -> impl Iterator<Item = &'static str> {
    HOST_OPTIONS.iter().chain(DECISION_OPTIONS).copied()
}

/// Compiles a program in a host process. `options` are pairs of a name and a value, as on the command line of the driver. `name` is
/// the name of the input in messages.
pub fn compile(host: &Host, options: &[(String, String)], name: &str, input: Vec<u8>) -> HostOutput {
    match try_compile(host, options, name, input) {
        Ok((output, messages)) => HostOutput { status: exit::OK, output, messages },
        Err(error) => HostOutput { status: error.code, output: Vec::new(), messages: error.render(Style::Json) },
    }
}

/// Like [`compile()`], but returns the output and the messages, or the error.
fn try_compile(host: &Host, options: &[(String, String)], name: &str, input: Vec<u8>) -> Result<(Vec<u8>, String), DriverError> {
    if let Some((option, _)) = options.iter().find(|(option, _)| host_options().all(|known| known != option)) {
        let known: Vec<&str> = host_options().collect();
        let message = format!("there is no option '{option}' in a host process; the options are {}", known.join(", "));
        return Err(DriverError::new(exit::USAGE, message));
    }
    let arguments: Vec<String> = options.iter().map(|(option, value)| format!("--{option}={value}")).collect();
    let mut parsed = cl::parse(OPTIONS, "tileworks", &arguments);
    if !parsed.errors.is_empty() {
        return Err(DriverError::usage("tileworks", &parsed.errors, Style::Json));
    }
    parsed.option_values.push(("error-format", "json".into()));
    let pipeline = Pipeline::built_in(host.tools).map_err(|message| DriverError::new(exit::CONFIGURATION, message))?;
    compile::compile_in_host(&parsed, &pipeline, &Source::from_memory(name, input)?, host)
}
