//! One run of a tool: its standard arguments, input, output and timing.

use crate::about::About;
use crate::cancellation::{Control, Streams, stop_if_cancelled};
use crate::files::{Input, read_file, write_file};
use crate::limits::Limits;
use crate::report::{ErrorFormat, Reporter, write_stderr};
use crate::running::running;
use base::diag::{Diagnostic, Result, Severity};
use base::envelope::{self, Form};
use base::nearest::did_you_mean;
use base::{File, Payload};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The options that every tool has.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct CommonOptions {
    /// Input file; standard input if absent or `-`
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<PathBuf>,
    /// Read and verify the input without writing output
    #[arg(long)]
    pub(crate) verify_only: bool,
    /// Format of diagnostics
    #[arg(long, value_name = "FORM", value_enum, default_value_t = ErrorFormat::Human)]
    pub(crate) error_format: ErrorFormat,
    /// Use verbose output
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print the time of each step
    #[arg(long)]
    pub(crate) time: bool,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Explain an error code, or list all codes with `list`
    #[arg(long, value_name = "CODE")]
    pub(crate) explain: Option<String>,
    /// Name of the input in messages if it comes from standard input
    #[arg(long, value_name = "NAME")]
    pub(crate) input_name: Option<String>,
}

/// The options of tools that write one file.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct OutputOptions {
    /// Output file; standard output if absent or `-`
    #[arg(short, long, value_name = "OUTPUT")]
    pub(crate) output: Option<PathBuf>,
    /// Output format: binary, RON (editable) or text (readable); all tools read all formats
    #[arg(long, value_name = "FORM", value_enum)]
    pub(crate) format: Option<Format>,
    /// Stop after this pass and write its result
    #[arg(long, value_name = "PASS")]
    pub(crate) stop_after: Option<String>,
    /// Print the IR after this pass, or after every pass with `all`, to standard error
    #[arg(long, value_name = "PASS")]
    pub(crate) print_after: Vec<String>,
    /// Print the changes of each pass to standard error
    #[arg(long)]
    pub(crate) print_changed: bool,
}

/// The format of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Bin,
    Ron,
    Text,
}

impl From<Format> for Form {
    fn from(format: Format) -> Form {
        match format {
            Format::Bin => Form::Binary,
            Format::Ron => Form::Ron,
            Format::Text => Form::Text,
        }
    }
}

/// The state of one run of a tool.
pub struct Session {
    pub about: &'static About,
    pub(crate) options: CommonOptions,
    /// `None` for a tool that does not write one file.
    pub(crate) output_options: Option<OutputOptions>,
    /// The finished steps in order, each with its time.
    times: Vec<(&'static str, Duration)>,
    /// Whether the pass that `--stop-after` names has run.
    stopped: bool,
    /// The number of log entries in the input file. `--verbose` prints only the entries after them.
    input_log_entries: usize,
    /// With `--print-changed`, the IR after the previous pass.
    pub(crate) previous_ir: Option<String>,
    /// The streams of a run inside a host process; `None` in a process of its own.
    pub(crate) streams: Option<Box<Streams>>,
}

/// The name of the step that waits for input from a Unix pipe. The total time excludes it.
const WAIT: &str = "wait";

impl Session {
    /// Starts a session of a tool. `output_options`: `None` for a tool that does not write one file.
    pub(crate) fn new(about: &'static About, options: CommonOptions, output_options: Option<OutputOptions>) -> Session {
        Session {
            about,
            options,
            output_options,
            times: Vec::new(),
            stopped: false,
            input_log_entries: 0,
            previous_ir: None,
            streams: None,
        }
    }

    /// Returns the name and version of the tool, for the `producer` of envelopes.
    pub fn producer(&self) -> String {
        format!("{} {}", self.about.name, env!("CARGO_PKG_VERSION"))
    }
    /// Returns whether `--verbose` is given.
    pub fn verbose(&self) -> bool {
        self.options.verbose
    }
    /// Returns the memory and time limits of the tool and of its child processes.
    pub fn limits(&self) -> Limits {
        self.options.limits
    }
    /// Returns whether `--verify-only` is given: the tool verifies the input and writes no output.
    pub fn verify_only(&self) -> bool {
        self.options.verify_only
    }
    /// Returns whether the pass that `--stop-after` names has run. If so, the tool only writes the output.
    pub fn stopped(&self) -> bool {
        self.stopped
    }
    /// Returns the value of `--format`. `None` without the option.
    pub fn format(&self) -> Option<Format> {
        self.output_options.as_ref().and_then(|output| output.format)
    }
    /// Returns the output file of `-o`. `None` means standard output.
    pub fn output_path(&self) -> Option<&PathBuf> {
        self.output_options.as_ref().and_then(|output| output.output.as_ref()).filter(|path| path.as_os_str() != "-")
    }
    /// Returns the control with which another thread can end the run. `None` if the tool runs in a process of its own.
    pub fn control(&self) -> Option<&Control> {
        self.streams.as_ref().map(|streams| &*streams.control)
    }
    /// Reports a diagnostic that does not end the run.
    pub fn report(&self, diagnostic: &Diagnostic) {
        self.print_stderr(&Reporter(self.options.error_format).text(diagnostic));
    }
    /// Prints a message if `--verbose` is given.
    pub fn write_stderr(&self, text: &str) {
        if self.options.verbose {
            self.print_stderr(&format!("{}: {text}\n", self.about.name));
        }
    }
    /// Writes text to standard error.
    pub fn print_stderr(&self, text: &str) {
        match &self.streams {
            Some(streams) => streams.stderr.borrow_mut().push_str(text),
            None => write_stderr(text),
        }
    }

    /// Reads the input file or standard input. The time of reading from a Unix pipe is reported as `wait`, because it is mostly the
    /// time of an earlier stage, which writes its output to this pipe.
    pub fn input(&mut self) -> Result<Input> {
        if let Some(streams) = &self.streams {
            return Ok(streams.input.clone());
        }
        let path = self.options.input.clone().filter(|path| path.as_os_str() != "-");
        let mut input = self.timed("read", |_| read_file(path.as_deref()))?;
        if let (None, Some(name)) = (path, &self.options.input_name) {
            input.name.clone_from(name);
        }
        if input.piped
            && let Some(last) = self.times.last_mut()
        {
            last.0 = WAIT;
        }
        running().input = Some(input.clone());
        Ok(input)
    }

    /// Reads, decodes and verifies the input as a stage file in any format.
    pub fn read<P: Payload>(&mut self) -> Result<File<P>> {
        let input = self.input()?;
        self.decode(&input)
    }

    /// Decodes and verifies a stage file. If a Unix pipe delivered an empty or truncated file, the run ends without a message,
    /// because an earlier stage failed and has reported the reason.
    pub fn decode<P: Payload>(&mut self, input: &Input) -> Result<File<P>> {
        input.reject_truncated()?;
        let file = self.timed("decode", |_| File::<P>::read(&input.bytes, &input.name))?;
        self.input_log_entries = file.envelope.log.len();
        Ok(file)
    }

    /// Verifies a stage file and writes it in the format of `--format`, binary by default. With `--verbose`, prints the log entries
    /// of this run.
    pub fn write<P: Payload>(&mut self, file: &File<P>) -> Result<()> {
        let form = self.format().map_or(Form::Binary, Form::from);
        let bytes = self.timed("encode", |_| file.write(form))?;
        if self.options.verbose {
            file.envelope.log.iter().skip(self.input_log_entries).for_each(|entry| {
                self.print_stderr(&format!(
                    "{}: {}: {:?} {}: {}\n",
                    self.about.name, entry.pass, entry.outcome, entry.name, entry.message
                ));
            });
        }
        self.write_bytes(&bytes, form == Form::Binary)
    }

    /// Writes the output, except with `--verify-only`. Binary output to a terminal is an error.
    pub fn write_bytes(&mut self, bytes: &[u8], is_binary: bool) -> Result<()> {
        if self.options.verify_only {
            return Ok(());
        }
        if let Some(streams) = &mut self.streams {
            streams.output = bytes.to_vec();
            return Ok(());
        }
        let path = self.output_path().cloned();
        if is_binary && path.is_none() && std::io::stdout().is_terminal() {
            return Err(Diagnostic::usage("CLI004", "binary output to a terminal: use -o FILE, or --format=text to read it"));
        }
        self.timed("write", |_| write_file(path.as_deref(), bytes))
    }

    /// Runs a step and records its time. If the step panics, the report of the internal error names the step. A step can contain
    /// other steps.
    pub fn timed<T>(&mut self, name: &'static str, step: impl FnOnce(&mut Session) -> T) -> T {
        if let Some(control) = self.control() {
            stop_if_cancelled(control);
            let start = Instant::now();
            let result = step(self);
            self.times.push((name, start.elapsed()));
            return result;
        }
        let outer_step = running().step.replace(name);
        crate::bug::fail_if_requested(self.about, name);
        let start = Instant::now();
        let result = step(self);
        self.times.push((name, start.elapsed()));
        let mut running = running();
        running.step = outer_step;
        if self.about.passes.contains(&name) {
            running.last_pass = Some(name);
        }
        result
    }

    /// Returns whether `--print-after` names the pass, or is `all`.
    pub(crate) fn prints_after(&self, name: &str) -> bool {
        self.output_options
            .as_ref()
            .is_some_and(|output| output.print_after.iter().any(|requested| requested == name || requested == "all"))
    }
    /// Stops the run if `--stop-after` names the pass.
    pub(crate) fn stop_if_named(&mut self, name: &str) {
        self.stopped |= self.output_options.as_ref().is_some_and(|output| output.stop_after.as_deref() == Some(name));
    }

    /// Returns whether `--print-changed` is given.
    pub(crate) fn prints_changed(&self) -> bool {
        self.output_options.as_ref().is_some_and(|output| output.print_changed)
    }

    /// Checks that `--format`, `--stop-after`, `--print-after` and `--print-changed` have an effect on this tool, and that the
    /// named passes exist.
    pub(crate) fn check_options(&self) -> Result<()> {
        let Some(output) = &self.output_options else { return Ok(()) };
        let (writes_stage_files, has_passes) = (self.about.writes_stage_files, !self.about.passes.is_empty());
        // For each option: its name, whether it is given, whether it has an effect, and the reason if it has none.
        let options = [
            (
                "--format",
                output.format.is_some(),
                writes_stage_files,
                "does not write stage files, so its output has a single format",
            ),
            ("--stop-after", output.stop_after.is_some(), has_passes, "has no passes"),
            ("--print-after", !output.print_after.is_empty(), has_passes, "has no passes"),
            ("--print-changed", output.print_changed, has_passes, "has no passes"),
        ];
        if let Some((option, .., why)) = options.iter().find(|(_, is_given, has_effect, _)| *is_given && !has_effect) {
            return Err(Diagnostic::usage("CLI009", format!("{option} has no effect: {} {why}", self.about.name)));
        }
        let printed_passes = output.print_after.iter().filter(|name| *name != "all");
        for name in printed_passes.chain(&output.stop_after) {
            if !self.about.passes.contains(&name.as_str()) {
                let passes = self.about.passes.join(", ");
                let suggestion = did_you_mean(name, self.about.passes.iter().copied());
                let message = format!("{} has no pass '{name}'{suggestion}; its passes are: {passes}", self.about.name);
                return Err(Diagnostic::usage("CLI005", message));
            }
        }
        Ok(())
    }

    /// With `--time`, prints a table of the times of all steps. With `--error-format=json`, prints one line of JSON for the driver.
    pub(crate) fn print_times(&self) {
        if !self.options.time {
            return;
        }
        let name = self.about.name;
        let milliseconds = |time: &Duration| time.as_secs_f64() * 1e3;
        if self.options.error_format == ErrorFormat::Json {
            let steps: Vec<_> = self.times.iter().map(|(step, time)| (step, milliseconds(time))).collect();
            self.print_stderr(&format!("{}\n", serde_json::json!({ "tool": name, "times": steps })));
            return;
        }
        let total: f64 = self.times.iter().filter(|(step, _)| *step != WAIT).map(|(_, time)| milliseconds(time)).sum();
        let rows = self.times.iter().map(|(step, time)| format!("{name:14} {step:24} {:9.3} ms\n", milliseconds(time)));
        self.print_stderr(&(rows.collect::<String>() + &format!("{name:14} {:24} {total:9.3} ms\n", "total")));
    }
}

impl Input {
    /// Returns an error if a Unix pipe delivered nothing, or fewer bytes than the header states. The error ends the run without a
    /// message, because the earlier stage that writes this Unix pipe has reported its own error.
    pub fn reject_truncated(&self) -> Result<()> {
        if self.piped && envelope::is_truncated(&self.bytes) {
            return Err(silent_error());
        }
        Ok(())
    }
}

/// The code of the diagnostic that ends a run without a message.
const SILENT_CODE: &str = "CLI000";

/// Returns the error that ends a run without a message, because an earlier stage has reported the reason.
fn silent_error() -> Box<Diagnostic> {
    Diagnostic::io(SILENT_CODE, "an earlier stage failed")
}

/// Returns whether a diagnostic ends the run without a message.
pub(crate) fn is_silent(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error && diagnostic.code == SILENT_CODE
}
