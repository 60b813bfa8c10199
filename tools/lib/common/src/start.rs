//! Start-up of a tool, from the command line to the exit code: argument parsing, the stack, panics.

use crate::bug::{self, PANIC};
use crate::limits::Limits;
use crate::report::{ErrorFormat, Reporter};
use crate::session::{Basics, Output, Session, is_silent};
use base::diag::{self, Diagnostic};
use clap::{Args, Parser, ValueEnum};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;
use std::sync::Arc;

/// Stack size of the worker thread, in bytes.
const STACK: usize = 256 << 20;

/// The description of a tool for its help text.
#[derive(Debug)]
pub struct About {
    pub name: &'static str,
    pub summary: &'static str,
    /// Commands with descriptions.
    pub examples: &'static [(&'static str, &'static str)],
    /// The passes that `--stop-after` and `--print-after` accept, in order.
    pub passes: &'static [&'static str],
    /// Whether the tool writes stage files, so that `--format` applies.
    pub forms: bool,
}

#[derive(Parser)]
struct FilterLine<E: Args> {
    #[command(flatten)]
    basics: Basics,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    extra: E,
}

#[derive(Parser)]
struct RunnerLine<E: Args> {
    #[command(flatten)]
    basics: Basics,
    #[command(flatten)]
    extra: E,
}

/// Runs a tool that reads one file and writes one.
pub fn filter<E: Args + Send + 'static>(about: &'static About, run: fn(&mut Session, &E) -> diag::Result<()>) -> ExitCode {
    start(about, |line: FilterLine<E>| (Session::new(about, line.basics, Some(line.output)), line.extra), run)
}

/// Runs a tool that reads one file and writes its outputs itself.
pub fn runner<E: Args + Send + 'static>(about: &'static About, run: fn(&mut Session, &E) -> diag::Result<()>) -> ExitCode {
    start(about, |line: RunnerLine<E>| (Session::new(about, line.basics, None), line.extra), run)
}

/// Runs an interactive tool, which has no time limit by default.
pub fn interactive<E: Args + Send + 'static>(about: &'static About, run: fn(&mut Session, &E) -> diag::Result<()>) -> ExitCode {
    let split = |mut line: RunnerLine<E>| {
        line.basics.limits.max_time.get_or_insert(0);
        (Session::new(about, line.basics, None), line.extra)
    };
    start(about, split, run)
}

fn start<L: Parser, E: Send + 'static>(
    about: &'static About,
    split: impl FnOnce(L) -> (Session, E),
    run: fn(&mut Session, &E) -> diag::Result<()>,
) -> ExitCode {
    let line = match command::<L>(about).try_get_matches().and_then(|matches| L::from_arg_matches(&matches)) {
        Ok(line) => line,
        Err(error) => return ExitCode::from(report_usage_error(&error)),
    };
    let (session, extra) = split(line);
    if let Some(code) = &session.basics.explain {
        return ExitCode::from(explain(code, Reporter(session.basics.error_format)));
    }
    fail_writes_beyond_file_size_limit();
    let (name, limits, reporter) = (about.name, session.basics.limits, Reporter(session.basics.error_format));
    let exit_code = on_large_stack(limits, move || run_catching_panics(session, &extra, run));
    ExitCode::from(exit_code.unwrap_or_else(|reason| {
        let step = crate::session::running_step().map(|step| format!(", in step '{step}'")).unwrap_or_default();
        reporter.report(&Diagnostic::io("CLI006", format!("{name} was stopped: {reason}{step}")));
        crate::exit::IO
    }))
}

/// The command line. Options without effect on this tool are hidden, and [`Session::check_options`] rejects them.
fn command<L: Parser>(about: &About) -> clap::Command {
    let command =
        L::command().name(about.name).version(env!("CARGO_PKG_VERSION")).about(about.summary).after_help(after_help(about));
    let hidden_options = [("format", about.forms), ("stop_after", !about.passes.is_empty())];
    let hidden_options =
        hidden_options.into_iter().chain(["print_after", "print_changed"].map(|name| (name, !about.passes.is_empty())));
    hidden_options.filter(|(_, useful)| !useful).fold(command, |command, (name, _)| {
        let known = command.get_arguments().any(|argument| argument.get_id() == name);
        if known { command.mut_arg(name, |argument| argument.hide(true)) } else { command }
    })
}

/// Reports a usage error in the format that the command line itself selects, or prints the requested help.
fn report_usage_error(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return crate::exit::OK;
    }
    let args: Vec<String> = std::env::args().collect();
    let requested = args.iter().zip(args.iter().skip(1).map(String::as_str).chain([""]));
    let requested =
        requested.filter_map(|(arg, next)| arg.strip_prefix("--error-format=").or((arg == "--error-format").then_some(next)));
    let format = requested.last().and_then(|form| ErrorFormat::from_str(form, true).ok()).unwrap_or(ErrorFormat::Human);
    if format == ErrorFormat::Human {
        let _ = error.print();
        return crate::exit::USAGE;
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_string();
    let diagnostic = lines.filter(|line| !line.is_empty()).fold(Diagnostic::usage("CLI008", message), |all, line| all.note(line));
    Reporter(format).report(&diagnostic);
    crate::exit::USAGE
}

fn explain(code: &str, reporter: Reporter) -> u8 {
    let known = || Diagnostic::usage("CLI010", format!("there is no code '{code}'; --explain list lists all codes"));
    let written = crate::explain::explain(code).ok_or_else(known).and_then(|text| crate::write_file(None, text.as_bytes()));
    written.map_or_else(
        |error| {
            reporter.report(&error);
            error.exit_code()
        },
        |()| crate::exit::OK,
    )
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error. Without this call, a signal ends the process.
pub fn fail_writes_beyond_file_size_limit() {
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Runs the work on a thread with a large stack, because the tools walk deeply nested input by recursion. Only the used part of
/// the stack takes memory. The calling thread enforces the limits. If a limit is exceeded, the process ends while the work is still
/// running.
fn on_large_stack(limits: Limits, work: impl FnOnce() -> u8 + Send + 'static) -> Result<u8, String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let spawned = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let _ = sender.send(work());
    });
    match spawned {
        Ok(_) => limits.wait(&receiver),
        Err(error) => {
            Err(format!("it cannot get {} MiB of address space for its stack: {}", STACK >> 20, crate::os_error_text(&error)))
        }
    }
}

fn run_catching_panics<E>(mut session: Session, extra: &E, run: fn(&mut Session, &E) -> diag::Result<()>) -> u8 {
    set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        let text = info.payload_as_str().unwrap_or("a panic without a message");
        *PANIC.lock().unwrap_or_else(|error| error.into_inner()) = format!("{text}{place}");
    }));
    let reporter = Reporter(session.basics.error_format);
    let result = catch_unwind(AssertUnwindSafe(|| {
        session.check_options()?;
        let result = run(&mut session, extra);
        session.print_times();
        result
    }));
    match result {
        Ok(Ok(())) => crate::exit::OK,
        Ok(Err(diagnostic)) => {
            if !is_silent(&diagnostic) {
                reporter.report(&diagnostic);
            }
            diagnostic.exit_code()
        }
        Err(_) => {
            bug::report(session.about, reporter, session.output.is_some());
            crate::exit::BUG
        }
    }
}

fn after_help(about: &About) -> String {
    let width = about.examples.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let examples: String = about.examples.iter().map(|(command, what)| format!("  {command:width$}  {what}\n")).collect();
    let passes = if about.passes.is_empty() { String::new() } else { format!("\nPasses: {}\n", about.passes.join(", ")) };
    format!(
        "Examples:\n{examples}{passes}\nExit codes:\n  0 success, 1 invalid input, 2 usage error, 3 not supported, 4 input/output or child failure, 101 internal error"
    )
}
