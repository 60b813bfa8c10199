//! Runs the commands of a plan as concurrent processes connected by pipes, and collects their standard error.

use crate::artefact;
use crate::pipeline::{NESTED_VARIABLE, Step};
use base::Diagnostic;
use base::codec::SIZE_LIMIT;
use common::child::{self, SignalCause};
use common::read_at_most;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

/// The number of the signal for a write to a pipe without a reader.
const SIGPIPE: i32 = 13;
/// Messages of runtime libraries that run out of memory. The library then aborts the process with the same signal as after a bug,
/// so only the message distinguishes the two cases.
const OUT_OF_MEMORY_MESSAGES: [&str; 3] = ["memory allocation of ", "LLVM ERROR: out of memory", "std::bad_alloc"];

/// The result of running the commands of a plan.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) output: Vec<u8>,
    /// The PTX, if a group of stages ended with the stage that writes PTX; see `compile::run_in_groups`.
    pub(crate) ptx: Option<Vec<u8>>,
    /// The messages that the commands wrote to standard error.
    pub(crate) stage_output: Vec<StageOutput>,
    /// The first command of the plan that failed; `None` if all commands succeeded.
    pub(crate) failed: Option<Failure>,
}

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The position of the failed command in the plan.
    pub(crate) index: usize,
    pub(crate) tool: String,
    /// How the command ended, in words.
    pub(crate) status: String,
    pub(crate) end: CommandEnd,
}

/// How a failed command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// The command exited with this exit code.
    Code(i32),
    /// A signal that a bug of the command may have raised terminated the command.
    Fault,
    /// A signal of a user or of a limit terminated the command.
    Stopped,
    /// SIGPIPE terminated the command, because the next command closed the pipe.
    ReaderGone,
    /// The command exited with success, but its output is invalid.
    WrongOutput,
    /// The operating system could not start the program.
    NotStarted,
}

/// A line that a stage wrote to standard error, parsed if it is the JSON form of a diagnostic or of a time table.
#[derive(Debug)]
pub(crate) enum StageOutput {
    Diagnostic(Diagnostic),
    /// The names of the tool's steps and their times in milliseconds.
    Times {
        tool: String,
        times: Vec<(String, f64)>,
    },
    /// A line in another form.
    Line(String),
}

/// The times of a tool's steps in milliseconds, as `--time` prints them in JSON.
#[derive(serde::Deserialize)]
struct Times {
    tool: String,
    times: Vec<(String, f64)>,
}

/// Runs the commands concurrently and waits for all of them. Each command reads the output of the previous command. The first
/// command reads `input`, whose name in messages is `name`.
pub(crate) fn run(steps: &[Step], input: &[u8], name: Option<&str>) -> Outcome {
    let mut children: Vec<io::Result<Child>> = Vec::new();
    let mut previous_stdout: Option<Stdio> = None;
    for (index, step) in steps.iter().enumerate() {
        let mut command = piped_command(step, previous_stdout.take().unwrap_or_else(Stdio::piped));
        if let (0, Some(name)) = (index, name) {
            command.arg(format!("--input-name={}", as_file(name).display()));
        }
        let mut child = command.spawn();
        previous_stdout =
            child.as_mut().ok().and_then(|child| (index + 1 < steps.len()).then(|| child.stdout.take()).flatten()).map(Stdio::from);
        let could_not_start = child.is_err();
        children.push(child);
        if could_not_start {
            break;
        }
    }
    drop(previous_stdout);
    thread::scope(|scope| {
        if let Some(Ok(first)) = children.first_mut() {
            let mut stdin = first.stdin.take();
            // Ignore a write error, because a command that ends early does not read all of its input.
            scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(input)));
        }
        let stderr_readers: Vec<_> = children
            .iter_mut()
            .map(|child| {
                child
                    .as_mut()
                    .ok()
                    .and_then(|child| child.stderr.take())
                    .map(|stderr| scope.spawn(move || child::read_bounded(stderr)))
            })
            .collect();
        let last_stdout = children.last_mut().and_then(|child| child.as_mut().ok()).and_then(|child| child.stdout.take());
        let output = last_stdout.map_or(Ok(Vec::new()), |last_stdout| read_at_most(last_stdout, "its output", SIZE_LIMIT as u64));
        let stderr_text: Vec<Vec<u8>> = stderr_readers
            .into_iter()
            .map(|reader| reader.map(|reader| reader.join().unwrap_or_default()).unwrap_or_default())
            .collect();
        let statuses: Vec<io::Result<ExitStatus>> =
            children.into_iter().map(|child| child.and_then(|mut child| child.wait())).collect();
        outcome_of(steps, output, &stderr_text, statuses)
    })
}

/// Returns the command of a stage. Its standard streams are not configured.
pub(crate) fn stage_command(step: &Step) -> Command {
    let mut command = Command::new(&step.program);
    command.args(&step.arguments).env(NESTED_VARIABLE, "1");
    command
}

/// Returns the command of a stage that reads `input` and writes its output and standard error to pipes.
fn piped_command(step: &Step, input: Stdio) -> Command {
    let mut command = stage_command(step);
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    child::end_with_parent(&mut command, None);
    command
}

/// Returns a path that a program cannot mistake for an option or for standard input: `-x` becomes `./-x`.
pub(crate) fn as_file(path: &str) -> PathBuf {
    if path.starts_with('-') { Path::new(".").join(path) } else { PathBuf::from(path) }
}

/// Combines the results of the commands: the output of the last command, and the standard error and exit status of each command.
/// The first failed command determines the outcome. The messages of later commands are dropped, because their input was incomplete.
fn outcome_of(
    steps: &[Step],
    output: base::diag::Result<Vec<u8>>,
    stderr_text: &[Vec<u8>],
    statuses: Vec<io::Result<ExitStatus>>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut broken_pipe_failure: Option<Failure> = None;
    for (index, ((step, stderr_text), status)) in steps.iter().zip(stderr_text).zip(statuses).enumerate() {
        let stderr_text = String::from_utf8_lossy(stderr_text);
        outcome.stage_output.extend(stderr_text.lines().map(parse_stderr_line));
        let (status, end) = match status {
            Ok(status) if status.success() => continue,
            Ok(status) => (child::describe(status), command_end(status, &stderr_text)),
            Err(error) => (format!("cannot be executed: {}", common::os_error_text(&error)), CommandEnd::NotStarted),
        };
        let failure = Failure { index, tool: step.tool.clone(), status, end };
        if failure.end == CommandEnd::ReaderGone {
            // The next command closed the pipe. If the next command failed, report its failure instead of the broken pipe.
            broken_pipe_failure.get_or_insert(failure);
            continue;
        }
        outcome.failed = Some(failure);
        return outcome;
    }
    let last = steps.last().expect("a plan has a stage");
    let wrong_output = |status| Failure { index: steps.len() - 1, tool: last.tool.clone(), status, end: CommandEnd::WrongOutput };
    outcome.failed = broken_pipe_failure;
    match output {
        Err(error) => outcome.failed = outcome.failed.or(Some(wrong_output(error.message))),
        Ok(output) => {
            let defect = if outcome.failed.is_none() { artefact::describe_defect(&last.writes, &output) } else { None };
            outcome.failed = outcome.failed.or_else(|| defect.map(wrong_output));
            outcome.output = output;
        }
    }
    outcome
}

/// Returns how a failed command ended, from its exit status and its standard error.
pub(crate) fn command_end(status: ExitStatus, stderr_text: &str) -> CommandEnd {
    match (status.code(), child::signal_cause(status)) {
        (Some(code), _) => CommandEnd::Code(code),
        _ if status.signal() == Some(SIGPIPE) => CommandEnd::ReaderGone,
        (None, Some(SignalCause::Fault)) if !OUT_OF_MEMORY_MESSAGES.iter().any(|message| stderr_text.contains(message)) => {
            CommandEnd::Fault
        }
        _ => CommandEnd::Stopped,
    }
}

/// Parses a line that a stage wrote to standard error.
pub(crate) fn parse_stderr_line(line: &str) -> StageOutput {
    if !line.starts_with('{') {
        return StageOutput::Line(line.to_string());
    }
    if let Ok(diagnostic) = serde_json::from_str(line) {
        return StageOutput::Diagnostic(diagnostic);
    }
    match serde_json::from_str::<Times>(line) {
        Ok(Times { tool, times }) => StageOutput::Times { tool, times },
        Err(_) => StageOutput::Line(line.to_string()),
    }
}
