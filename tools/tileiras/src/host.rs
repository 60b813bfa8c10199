//! Compilation inside a host process, for libtileworks: the driver without a command line, files and standard streams.
//!
//! [`Stages`] runs most stages as functions in the host process. Stages with code that may crash or exhaust memory, such as LLVM,
//! run as processes of their own, as in the driver.

use crate::compile::{self, Source};
use crate::failure::{DriverError, exit};
use crate::options::OPTIONS;
use crate::pipeline::{Pipeline, Step};
use crate::run::{self, CommandEnd, Failure, Outcome};
use base::codec::SIZE_LIMIT;
use base::diag::Style;
use common::child;
use common::cl;
use common::plan_file::DECISION_OPTIONS;
use common::{Control, EmbeddedRun};
use std::path::Path;
use std::sync::Arc;

/// The stages that a host process can run.
pub trait Stages: Sync {
    /// Runs a stage in this process. Returns `None` if the stage needs a process of its own.
    fn run(
        &self,
        tool: &str,
        arguments: &[String],
        input: &Arc<Vec<u8>>,
        name: &str,
        control: &Arc<Control>,
    ) -> Option<EmbeddedRun>;
}

/// A host process.
pub struct Host<'a> {
    pub stages: &'a dyn Stages,
    /// The folder with the executables of the other stages.
    pub tools: &'a Path,
    pub control: Arc<Control>,
}

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

/// Runs the stages one after the other. The first stage reads `input`, whose name in messages is `name`.
pub(crate) fn run_in_host(host: &Host, steps: &[Step], input: &[u8], name: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut bytes = Arc::new(input.to_vec());
    for (index, step) in steps.iter().enumerate() {
        let name = name.filter(|_| index == 0).unwrap_or("<stdin>");
        let (output, stderr, failure) = match host.stages.run(&step.tool, &step.arguments, &bytes, name, &host.control) {
            Some(EmbeddedRun { output, stderr, exit_code: 0 }) => (output, stderr, None),
            Some(EmbeddedRun { output, stderr, exit_code }) => {
                (output, stderr, Some((format!("exit status: {exit_code}"), CommandEnd::Code(exit_code.into()))))
            }
            None => run_process(host, step, &bytes),
        };
        outcome.stage_output.extend(stderr.lines().map(run::parse_stderr_line));
        let failure = failure.or_else(|| {
            let is_last = index + 1 == steps.len();
            let defect = if is_last { crate::artefact::describe_defect(&step.writes, &output) } else { None };
            defect.map(|status| (status, CommandEnd::WrongOutput))
        });
        if let Some((status, end)) = failure {
            outcome.failed = Some(Failure { index, tool: step.tool.clone(), status, end });
            return outcome;
        }
        bytes = Arc::new(output);
    }
    outcome.output = Arc::unwrap_or_clone(bytes);
    outcome
}

/// The output of a stage, its standard error, and the description and kind of its failure (`None` on success).
type StageRun = (Vec<u8>, String, Option<(String, CommandEnd)>);

/// Runs a stage as a child process.
fn run_process(host: &Host, step: &Step, input: &[u8]) -> StageRun {
    let mut command = run::stage_command(step);
    match child::run_cancellable(&mut command, input, None, SIZE_LIMIT as u64, &host.control) {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let failure =
                (!output.status.success()).then(|| (child::describe(output.status), run::command_end(output.status, &stderr)));
            (output.stdout, stderr, failure)
        }
        Err(error) => {
            let status = format!("cannot be executed: {}", common::os_error_text(&error));
            (Vec::new(), String::new(), Some((status, CommandEnd::NotStarted)))
        }
    }
}
