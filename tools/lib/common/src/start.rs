//! The run of a tool from the command line to the exit code: argument parsing, a thread with a large stack, and panics.

use crate::about::About;
use crate::bug::{self, PANIC};
use crate::limits::Limits;
use crate::report::{ErrorFormat, Reporter};
use crate::session::{CommonOptions, OutputOptions, Session, is_silent};
use base::diag::{self, Diagnostic};
use clap::{Args, Parser, ValueEnum};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;
use std::sync::Arc;

/// The stack size of the thread that does the work.
pub(crate) const STACK_BYTES: usize = 256 << 20;

/// The command line of a tool that [`filter`] runs.
#[derive(Parser)]
pub(crate) struct FilterLine<E: Args> {
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(flatten)]
    pub(crate) extra: E,
}

/// The command line of a tool that [`runner`] or [`interactive`] runs.
#[derive(Parser)]
struct RunnerLine<E: Args> {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    extra: E,
}

/// Runs a tool that reads one file and writes one.
pub fn filter<E: Args + Send + 'static>(about: &'static About, run: fn(&mut Session, &E) -> diag::Result<()>) -> ExitCode {
    start(about, |line: FilterLine<E>| (Session::new(about, line.common, Some(line.output)), line.extra), run)
}

/// Runs a tool that reads one file and writes its outputs itself.
pub fn runner<E: Args + Send + 'static>(about: &'static About, run: fn(&mut Session, &E) -> diag::Result<()>) -> ExitCode {
    start(about, |line: RunnerLine<E>| (Session::new(about, line.common, None), line.extra), run)
}

/// Like [`runner`], for an interactive tool, which has no time limit by default.
pub fn interactive<E: Args + Send + 'static>(about: &'static About, run: fn(&mut Session, &E) -> diag::Result<()>) -> ExitCode {
    let split_line = |mut line: RunnerLine<E>| {
        line.common.limits.max_time.get_or_insert(0);
        (Session::new(about, line.common, None), line.extra)
    };
    start(about, split_line, run)
}

/// Runs a tool. `split_line` splits the parsed command line into the session and the tool's own options.
fn start<L: Parser, E: Send + 'static>(
    about: &'static About,
    split_line: impl FnOnce(L) -> (Session, E),
    run: fn(&mut Session, &E) -> diag::Result<()>,
) -> ExitCode {
    let line = match clap_command::<L>(about).try_get_matches().and_then(|matches| L::from_arg_matches(&matches)) {
        Ok(line) => line,
        Err(error) => return ExitCode::from(report_usage_error(&error)),
    };
    let (session, extra) = split_line(line);
    if let Some(code) = &session.options.explain {
        return ExitCode::from(print_explanation(code, Reporter(session.options.error_format)));
    }
    fail_writes_beyond_file_size_limit();
    let (name, limits, reporter) = (about.name, session.options.limits, Reporter(session.options.error_format));
    let exit_code = on_large_stack(limits, move || run_catching_panics(session, &extra, run));
    ExitCode::from(exit_code.unwrap_or_else(|reason| {
        let step = crate::running::running_step().map(|step| format!(", in step '{step}'")).unwrap_or_default();
        reporter.report(&Diagnostic::io("CLI006", format!("{name} was stopped: {reason}{step}")));
        crate::exit::IO
    }))
}

/// Returns the command-line definition for `clap`. It hides options that have no effect on this tool; [`Session::check_options`]
/// rejects them.
pub(crate) fn clap_command<L: Parser>(about: &About) -> clap::Command {
    let command =
        L::command().name(about.name).version(env!("CARGO_PKG_VERSION")).about(about.summary).after_help(after_help(about));
    let pass_options = ["stop_after", "print_after", "print_changed"].map(|name| (name, !about.passes.is_empty()));
    let options = [("format", about.writes_stage_files)].into_iter().chain(pass_options);
    options.filter(|(_, has_effect)| !has_effect).fold(command, |command, (name, _)| {
        let is_defined = command.get_arguments().any(|argument| argument.get_id() == name);
        if is_defined { command.mut_arg(name, |argument| argument.hide(true)) } else { command }
    })
}

/// Handles a result of `clap` other than a parsed command line. Prints the requested help or version, or reports the usage error in
/// the format that `--error-format` on the command line selects. Returns the exit code.
fn report_usage_error(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return crate::exit::OK;
    }
    let args: Vec<String> = std::env::args().collect();
    let args_with_next = args.iter().zip(args.iter().skip(1).map(String::as_str).chain([""]));
    let formats =
        args_with_next.filter_map(|(arg, next)| arg.strip_prefix("--error-format=").or((arg == "--error-format").then_some(next)));
    let format = formats.last().and_then(|name| ErrorFormat::from_str(name, true).ok()).unwrap_or(ErrorFormat::Human);
    if format == ErrorFormat::Human {
        let _ = error.print();
        return crate::exit::USAGE;
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_string();
    let diagnostic =
        lines.filter(|line| !line.is_empty()).fold(Diagnostic::usage("CLI008", message), |diagnostic, line| diagnostic.note(line));
    Reporter(format).report(&diagnostic);
    crate::exit::USAGE
}

/// Prints the text of `--explain`. Returns the exit code.
fn print_explanation(code: &str, reporter: Reporter) -> u8 {
    let unknown_code = || Diagnostic::usage("CLI010", format!("there is no code '{code}'; --explain list lists all codes"));
    let result = crate::explain::explain(code).ok_or_else(unknown_code).and_then(|text| crate::write_file(None, text.as_bytes()));
    result.map_or_else(
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

/// Runs the work on a thread with a large stack, because the tools walk deeply nested input by recursion. Only the used part of the
/// stack takes memory. The calling thread enforces the limits: if one is exceeded, this function returns the reason while the work
/// is still running, and the caller ends the process.
fn on_large_stack(limits: Limits, work: impl FnOnce() -> u8 + Send + 'static) -> Result<u8, String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let spawned = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let _ = sender.send(work());
    });
    match spawned {
        Ok(_) => limits.wait(&receiver),
        Err(error) => {
            Err(format!("it cannot get {} MiB of address space for its stack: {}", STACK_BYTES >> 20, crate::os_error_text(&error)))
        }
    }
}

/// Runs a tool and returns the exit code. Reports an error, or a panic as an internal error.
fn run_catching_panics<E>(mut session: Session, extra: &E, run: fn(&mut Session, &E) -> diag::Result<()>) -> u8 {
    set_hook(Box::new(|info| {
        let location = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let text = info.payload_as_str().unwrap_or("a panic without a message");
        *PANIC.lock().unwrap_or_else(|error| error.into_inner()) = format!("{text}{location}");
    }));
    let reporter = Reporter(session.options.error_format);
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
            bug::report(session.about, reporter, session.output_options.is_some());
            crate::exit::BUG
        }
    }
}

/// Returns the text after the options in `--help`.
fn after_help(about: &About) -> String {
    let width = about.examples.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let examples: String =
        about.examples.iter().map(|(command, description)| format!("  {command:width$}  {description}\n")).collect();
    let passes = if about.passes.is_empty() { String::new() } else { format!("\nPasses: {}\n", about.passes.join(", ")) };
    format!(
        "Examples:\n{examples}{passes}\nExit codes:\n  0 success, 1 invalid input, 2 usage error, 3 not supported, 4 input/output or child failure, 101 internal error"
    )
}
