//! Runs the commands of a plan as processes connected by pipes, all at once, and collects what they say.

use crate::pipeline::Step;
use base::Diagnostic;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

const SIGPIPE: i32 = 13;
/// Hang-up, interrupt, quit, termination: somebody wanted the end.
const WANTED: [i32; 4] = [1, 2, 3, 15];
/// Said to every stage; for people it is left out of commands.
pub(crate) const JSON: &str = "--error-format=json";

/// What the first command reads.
pub(crate) enum Feed<'a> {
    File(&'a str),
    Bytes(&'a [u8]),
}

/// What a run left.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) output: Vec<u8>,
    pub(crate) said: Vec<Said>,
    /// The first command that failed, by its place in the plan.
    pub(crate) failed: Option<Failure>,
}

#[derive(Debug)]
pub(crate) struct Failure {
    /// Its place in the plan.
    pub(crate) index: usize,
    pub(crate) tool: String,
    pub(crate) status: String,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    /// By a signal that a bug of its own may have raised.
    Signal,
    Stopped,
    NotStarted,
}

/// A line of standard error, understood where it is ours.
#[derive(Debug)]
pub(crate) enum Said {
    Diagnostic(Diagnostic),
    Times { tool: String, times: Vec<(String, f64)> },
    Line(String),
}

#[derive(serde::Deserialize)]
struct Times {
    tool: String,
    times: Vec<(String, f64)>,
}

/// Runs the commands in `folder`. All have ended when this returns.
pub(crate) fn run(folder: &Path, steps: &[Step], feed: &Feed) -> Outcome {
    let mut children: Vec<io::Result<Child>> = Vec::new();
    let mut previous: Option<Stdio> = None;
    for (index, step) in steps.iter().enumerate() {
        let input = previous.take();
        let mut child = command(folder, step, (index == 0).then_some(feed), input).spawn();
        previous =
            child.as_mut().ok().and_then(|child| (index + 1 < steps.len()).then(|| child.stdout.take()).flatten()).map(Stdio::from);
        let stop = child.is_err();
        children.push(child);
        if stop {
            break;
        }
    }
    drop(previous);
    thread::scope(|scope| {
        if let (Feed::Bytes(bytes), Some(Ok(first))) = (feed, children.first_mut()) {
            let mut stdin = first.stdin.take();
            // A command that ends early needs no more of its input.
            scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(bytes)));
        }
        let listeners: Vec<_> = children
            .iter_mut()
            .map(|child| {
                child.as_mut().ok().and_then(|child| child.stderr.take()).map(|stderr| scope.spawn(move || read_all(stderr)))
            })
            .collect();
        let last = children.last_mut().and_then(|child| child.as_mut().ok()).and_then(|child| child.stdout.take());
        let output = last.map(read_all).unwrap_or_default();
        let heard: Vec<Vec<u8>> =
            listeners.into_iter().map(|l| l.map(|l| l.join().unwrap_or_default()).unwrap_or_default()).collect();
        let statuses: Vec<io::Result<ExitStatus>> =
            children.into_iter().map(|child| child.and_then(|mut child| child.wait())).collect();
        judge(steps, output, &heard, statuses)
    })
}

fn command(folder: &Path, step: &Step, feed: Option<&Feed>, input: Option<Stdio>) -> Command {
    let mut command = Command::new(folder.join(&step.tool));
    command.args(&step.arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match (feed, input) {
        (Some(Feed::File(path)), _) => {
            command.arg(as_file(path));
        }
        (Some(Feed::Bytes(_)), _) => {
            command.stdin(Stdio::piped());
        }
        (None, Some(input)) => {
            command.stdin(input);
        }
        (None, None) => {}
    }
    command
}

/// A path that no tool takes for an option or for standard input.
pub(crate) fn as_file(path: &str) -> PathBuf {
    if path.starts_with('-') { Path::new(".").join(path) } else { PathBuf::from(path) }
}

fn read_all(mut source: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = source.read_to_end(&mut bytes);
    bytes
}

/// The earliest failure decides, and only what was said up to it counts: later stages got nothing to read.
fn judge(steps: &[Step], output: Vec<u8>, heard: &[Vec<u8>], statuses: Vec<io::Result<ExitStatus>>) -> Outcome {
    let mut outcome = Outcome { output, ..Outcome::default() };
    for (index, ((step, heard), status)) in steps.iter().zip(heard).zip(statuses).enumerate() {
        outcome.said.extend(String::from_utf8_lossy(heard).lines().map(understand));
        let (status, end) = match status {
            // Whoever should have read from this one is the one that failed.
            Ok(status) if status.success() || status.signal() == Some(SIGPIPE) => continue,
            Ok(status) => (status.to_string(), end_of(status)),
            Err(error) => (format!("it cannot be run: {}", common::plain(&error)), End::NotStarted),
        };
        outcome.failed = Some(Failure { index, tool: step.tool.clone(), status, end });
        break;
    }
    outcome
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(signal)) if WANTED.contains(&signal) => End::Stopped,
        _ => End::Signal,
    }
}

fn understand(line: &str) -> Said {
    if !line.starts_with('{') {
        return Said::Line(line.to_string());
    }
    if let Ok(diagnostic) = serde_json::from_str(line) {
        return Said::Diagnostic(diagnostic);
    }
    match serde_json::from_str::<Times>(line) {
        Ok(Times { tool, times }) => Said::Times { tool, times },
        Err(_) => Said::Line(line.to_string()),
    }
}
