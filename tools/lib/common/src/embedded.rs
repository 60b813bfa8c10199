//! Runs of stages inside a host process. A run reads its input from memory, and returns its output and its messages. It never
//! ends the process, can be cancelled, and uses no standard stream. Exception: the panic hook of the host prints an internal error.

use crate::about::About;
use crate::cancellation::{Cancelled, Control, Streams};
use crate::files::Input;
use crate::session::{CommonOptions, OutputOptions, Session, is_silent};
use crate::start::{FilterLine, STACK_BYTES, clap_command};
use base::diag::{self, Diagnostic};
use clap::{Args, FromArgMatches};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The result of a run.
#[derive(Debug, Default)]
pub struct EmbeddedRun {
    pub output: Vec<u8>,
    /// The text that the tool would write to standard error.
    pub stderr: String,
    pub exit_code: u8,
}

/// Runs a filter with these arguments, on a thread with a large stack.
pub fn run_embedded<E: Args + Send + 'static>(
    about: &'static About,
    arguments: &[String],
    input: Input,
    control: Arc<Control>,
    run: fn(&mut Session, &E) -> diag::Result<()>,
) -> EmbeddedRun {
    let argument_list = std::iter::once(about.name).chain(arguments.iter().map(String::as_str));
    let line = clap_command::<FilterLine<E>>(about).try_get_matches_from(argument_list);
    let line = match line.and_then(|matches| FilterLine::<E>::from_arg_matches(&matches)) {
        Ok(line) => line,
        Err(error) => return failed(&Diagnostic::usage("CLI008", error.to_string().trim_end())),
    };
    let streams = Streams { input, output: Vec::new(), stderr: RefCell::default(), control };
    let work = move || run_on_this_thread(about, line.common, line.output, streams, &line.extra, run);
    let spawned = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    match spawned.map(|thread| thread.join()) {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) => failed(&Diagnostic::io("BUG001", format!("internal error of {}", about.name))),
        Err(error) => failed(&Diagnostic::io("CLI006", format!("cannot start a thread: {}", crate::os_error_text(&error)))),
    }
}

/// Runs the tool on this thread. A panic or a cancellation becomes a diagnostic of the run.
fn run_on_this_thread<E>(
    about: &'static About,
    common: CommonOptions,
    output: OutputOptions,
    streams: Streams,
    extra: &E,
    run: fn(&mut Session, &E) -> diag::Result<()>,
) -> EmbeddedRun {
    let mut session = Session::new(about, common, Some(output));
    session.streams = Some(Box::new(streams));
    let result = catch_unwind(AssertUnwindSafe(|| {
        session.check_options()?;
        let result = run(&mut session, extra);
        session.print_times();
        result
    }));
    let error = match result {
        Ok(result) => result.err(),
        Err(payload) => Some(diagnostic_of_panic(about, payload.as_ref())),
    };
    let streams = session.streams.take().expect("the session of an embedded run has streams");
    let mut ended = EmbeddedRun { output: streams.output, stderr: streams.stderr.into_inner(), exit_code: crate::exit::OK };
    if let Some(error) = error {
        ended.exit_code = if error.code == "BUG001" { crate::exit::BUG } else { error.exit_code() };
        if !is_silent(&error) {
            ended.stderr += &json_line(&error);
        }
    }
    ended
}

/// Returns the diagnostic of a run that unwound its stack: a cancellation or an internal error.
fn diagnostic_of_panic(about: &About, payload: &(dyn Any + Send)) -> Box<Diagnostic> {
    if payload.is::<Cancelled>() {
        return Diagnostic::io("CLI011", format!("{} was cancelled", about.name));
    }
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    Diagnostic::io("BUG001", format!("internal error of {}: {}", about.name, text.unwrap_or("a panic without a message")))
}

/// Returns the result of a run with an error as its only message.
fn failed(error: &Diagnostic) -> EmbeddedRun {
    EmbeddedRun { output: Vec::new(), stderr: json_line(error), exit_code: error.exit_code() }
}

/// Returns a diagnostic as one line of JSON.
fn json_line(diagnostic: &Diagnostic) -> String {
    serde_json::to_string(diagnostic).expect("a diagnostic is plain data") + "\n"
}
