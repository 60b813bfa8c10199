//! One compilation: from a parsed command line to the output file and the exit code.

use crate::cache::Cache;
use crate::depfile;
use crate::failure::{DriverError, exit, plain_line, render_diagnostic, style};
use crate::options::DECISION_OVERRIDES;
use crate::pipeline::{Pipeline, Step, is_cpu_module};
use crate::remarks::RemarkFilter;
use crate::run::{End, Failure, JSON_MESSAGES, Outcome, StageOutput, run};
use base::diag::{Diagnostic, Severity, Style};
use base::envelope::{Sniffed, sniff};
use common::child::{self, MemoryFile};
use common::cl::{Parsed, parse_integer};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The output of a compilation and its messages.
pub(crate) struct Compiled {
    /// The bytes of the output file.
    pub(crate) output: Vec<u8>,
    /// The text for standard error.
    pub(crate) text: String,
    /// The diagnostics in `text`. The cache stores them with the output, and a cache hit prints them again.
    pub(crate) warnings: String,
}

/// Compiles one input and writes the output. Returns the text for standard error.
pub(crate) fn compile(parsed: &Parsed, input: &str, output: &str) -> Result<String, DriverError> {
    let (pipeline, _) = Pipeline::load(parsed.get("pipeline")).map_err(|message| DriverError::new(exit::CONFIGURATION, message))?;
    let steps = pipeline.plan(parsed).map_err(|message| DriverError::new(exit::CONFIGURATION, message))?;
    let source = Source::read(input)?;
    check_input(parsed, &source, pipeline.needs_target(&steps))?;
    if parsed.get("apply-controls").is_some_and(|path| !path.is_empty()) {
        return Err(DriverError::new(exit::CONFIGURATION, "--apply-controls is not supported on this platform"));
    }
    if let Some(library) = parsed.get("l") {
        return Err(reject_library(parsed, &steps, &source, library));
    }
    if parsed.flag("dry-run") {
        return crate::write_answer(&shell_commands(&steps, input, output));
    }
    let depfile =
        depfile::requested_depfile(parsed, &steps, input, output).map_err(|error| DriverError::new(exit::USAGE, error.message))?;
    let remarks = RemarkFilter::from_options(parsed)?;
    let cache = if remarks.is_none() { Cache::from_options(parsed)? } else { None };
    let entry = cache.as_ref().and_then(|cache| Some((cache, cache.key(&steps, &source.bytes)?)));
    let cached = entry.as_ref().and_then(|(cache, key)| cache.get(key));
    let cache_message = match &entry {
        Some((_, key)) if parsed.flag("verbose") => {
            let line = format!("tileiras: cache: {} {}", if cached.is_some() { "hit" } else { "miss" }, key.hex_prefix());
            plain_line(&line, style(parsed))
        }
        _ => String::new(),
    };
    let compiled = match cached {
        Some(compiled) => compiled,
        None => {
            let compiled = run_steps(parsed, &steps, &source, output, remarks.as_ref())?;
            entry.inspect(|(cache, key)| cache.put(key, &compiled));
            compiled
        }
    };
    let output_bytes = match is_cpu_module(parsed) {
        true => cubin::program::cpu_module(&[&compiled.output]),
        false => compiled.output,
    };
    let verdict_text = if parsed.flag("validate") { validate(parsed, &source)? } else { String::new() };
    let text = cache_message + &compiled.text + &verdict_text;
    // Write the depfile first. If only the output were written, a build tool would later miss changed dependencies.
    let written = depfile.map_or(Ok(()), |depfile| depfile.write());
    match written.and_then(|()| write_output(output, &output_bytes)) {
        Ok(()) => Ok(text),
        Err(error) => Err(DriverError::after_messages(text, exit::CONFIGURATION, error.message)),
    }
}

/// Runs `tile-validate` on the stages and returns its output. If `tile-validate` reaches no verdict, its errors become warnings.
fn validate(parsed: &Parsed, source: &Source) -> Result<String, DriverError> {
    let spawn_error = |error: std::io::Error| {
        DriverError::new(exit::CONFIGURATION, format!("cannot run tile-validate: {}", common::os_error_text(&error)))
    };
    let input = MemoryFile::new("input", &source.bytes).map_err(spawn_error)?;
    let mut command = std::process::Command::new(crate::pipeline::tools_folder().join("tile-validate"));
    command.arg(JSON_MESSAGES).arg(format!("-O{}", parsed.get("opt-level").and_then(parse_integer).unwrap_or(3)));
    command.arg(format!("--gpu-name={}", parsed.get("gpu-name").unwrap_or_default())).arg(input.path());
    let overrides = DECISION_OVERRIDES.iter().filter_map(|name| Some(format!("--{name}={}", parsed.get(name)?)));
    command.args(overrides);
    let validator_output = child::run_captured(&mut command, None).map_err(spawn_error)?;
    let stderr_text = String::from_utf8_lossy(&validator_output.stderr);
    let mut diagnostics: Vec<Diagnostic> = stderr_text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    match validator_output.status.code() {
        Some(0) => {
            return Ok(String::from_utf8_lossy(&validator_output.stdout)
                .lines()
                .map(|line| plain_line(line, style(parsed)))
                .collect());
        }
        // No verdict: the kernel has undefined behaviour on the generated arguments, a feature is not supported, or a limit ended
        // the run.
        Some(2..=4) => diagnostics.iter_mut().for_each(|diagnostic| diagnostic.severity = Severity::Warning),
        Some(_) if !diagnostics.is_empty() => {}
        _ => {
            return Err(DriverError::new(
                exit::COMPILE,
                format!("tile-validate failed: {}", child::describe(validator_output.status)),
            ));
        }
    }
    let text = diagnostics.iter().map(|diagnostic| render_diagnostic(diagnostic, style(parsed))).collect();
    if validator_output.status.code() == Some(1) { Err(DriverError::reported(text, exit::COMPILE)) } else { Ok(text) }
}

/// Returns the error for a tile library, because libraries are not supported. Errors of the input take precedence, as in NVIDIA's
/// tileiras.
fn reject_library(parsed: &Parsed, steps: &[Step], source: &Source, library: &str) -> DriverError {
    let outcome = run(&steps[..1], &source.bytes, Some(source.path));
    if let Some(failure) = &outcome.failed {
        return compile_error(failure, steps, source, &outcome.stage_output, style(parsed), render_messages(parsed, &outcome));
    }
    let message = match std::fs::read(library) {
        _ if parsed.get("preview").is_none() => "libraries require the 'simt' preview feature".into(),
        Err(_) => "failed to open tile library: No such file or directory".into(),
        Ok(bytes) if !bytes.starts_with(b"\x7fELF") => {
            "failed to open tile library: The file was not recognized as a valid object file".into()
        }
        Ok(_) => format!("linking with tile libraries is not supported: {library}"),
    };
    DriverError::new(exit::COMPILE, message)
}

/// Creates the folder that an option names, with its parents.
pub(crate) fn make_folder(path: &str) -> Result<(), DriverError> {
    let create_error =
        |error| DriverError::new(exit::CONFIGURATION, format!("cannot create folder '{path}': {}", common::os_error_text(&error)));
    std::fs::create_dir_all(path).map_err(create_error)
}

fn write_output(output: &str, bytes: &[u8]) -> base::diag::Result<()> {
    common::write_file((output != "-").then_some(Path::new(output)), bytes)
}

/// The checks that NVIDIA's tileiras performs before it compiles, in the same order.
fn check_input(parsed: &Parsed, source: &Source, needs_target: bool) -> Result<(), DriverError> {
    if needs_target && parsed.get("gpu-name").is_none() {
        if style(parsed) != Style::Reference {
            return Err(DriverError::new(exit::CONFIGURATION, &common::options::no_target().message));
        }
        let (major, minor) = source.version;
        let message = format!(
            "GPU architecture sm_0 is not supported by this version of tileiras. You may need a newer toolchain that supports \
             this architecture (bytecode in file is version {major}.{minor})."
        );
        return Err(DriverError::new(exit::CONFIGURATION, message).note(&common::options::no_target().message));
    }
    let level = parsed.get("opt-level").and_then(parse_integer).unwrap_or(3);
    if !(0..=3).contains(&level) {
        return Err(DriverError::new(exit::CONFIGURATION, format!("invalid optimization level: {level}")));
    }
    if parsed.flag("device-debug") && level != 0 {
        let message =
            "optimized debugging is currently not supported, change the optimization level to 0 or disable full debug info";
        return Err(DriverError::new(exit::CONFIGURATION, message));
    }
    Ok(())
}

/// The input. It is read once, so the cache key always belongs to the compiled bytes, even if the file changes meanwhile.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) bytes: Vec<u8>,
    /// The bytecode version in the header.
    version: (u8, u8),
}

impl<'a> Source<'a> {
    fn read(path: &'a str) -> Result<Source<'a>, DriverError> {
        const HEADER_BYTES: u64 = 10;
        let unreadable = |reason: String| DriverError::new(exit::USAGE, format!("unable to read input file '{path}': {reason}"));
        let read_error = |error: std::io::Error| unreadable(common::os_error_text(&error));
        let mut file = std::fs::File::open(path).map_err(read_error)?;
        let mut bytes = Vec::new();
        file.by_ref().take(HEADER_BYTES).read_to_end(&mut bytes).map_err(read_error)?;
        let version = match bytes.strip_prefix(b"\x7fTileIR\0") {
            // A missing byte counts as zero, as in the reader.
            Some(version) => (version.first().copied().unwrap_or(0), version.get(1).copied().unwrap_or(0)),
            None => {
                let _ = file.take(base::codec::SIZE_LIMIT as u64).read_to_end(&mut bytes);
                let hint = describe_other_format(&bytes).map_or(String::new(), |kind| format!(" ({kind})"));
                let message = format!("input does not correspond to Tile IR bytecode{hint}");
                return Err(DriverError::new(exit::INPUT, message).in_input(path));
            }
        };
        bytes.extend(common::read_at_most(file, path, base::codec::SIZE_LIMIT as u64).map_err(|error| unreadable(error.message))?);
        Ok(Source { path, bytes, version })
    }
}

/// Describes the detected format of a file that is not bytecode, and names the tool that reads it. None if the format is uncertain.
fn describe_other_format(bytes: &[u8]) -> Option<String> {
    let kind = sniff(bytes);
    let reading_tool = match &kind {
        _ if bytes.starts_with(b"ML\xefR") => return Some("it looks like MLIR bytecode instead".into()),
        Sniffed::Stage { format, .. } => match format.as_str() {
            "tileir" => "tile-lower-aa",
            "tileaa" => "tile-lower-as",
            "tileas" => "tile-sched",
            "sched" => "tile-ptx",
            _ => "tile-dump",
        },
        Sniffed::Ptx => "tile-link",
        Sniffed::Elf => "tile-dump",
        Sniffed::Bytecode | Sniffed::Text | Sniffed::Other => return None,
    };
    Some(format!("it is {}, which {reading_tool} reads", kind.describe()))
}

/// Runs the plan as one pipeline of processes, or in groups if `--save-temps` or remarks need the files between the stages.
fn run_steps(
    parsed: &Parsed,
    steps: &[Step],
    source: &Source,
    output: &str,
    remarks: Option<&RemarkFilter>,
) -> Result<Compiled, DriverError> {
    let start = Instant::now();
    let program_file = steps.iter().any(Step::reads_input).then(|| MemoryFile::new("program", &source.bytes)).transpose();
    let program_file = program_file.map_err(|error| {
        DriverError::new(exit::CONFIGURATION, format!("cannot make a temporary file: {}", common::os_error_text(&error)))
    })?;
    let steps_on_input: Vec<Step> = match &program_file {
        Some(file) => steps.iter().map(|step| step.on_input(&file.path())).collect(),
        None => steps.to_vec(),
    };
    let plan = &steps_on_input;
    let mut outcome = match (parsed.get("save-temps"), remarks) {
        (Some(folder), _) => {
            if !folder.is_empty() {
                make_folder(folder)?;
            }
            run_in_groups(plan, source, Some(&temporary_stem(parsed, folder, source.path, output)), remarks)?
        }
        (None, Some(_)) => run_in_groups(plan, source, None, remarks)?,
        (None, None) => run(plan, &source.bytes, Some(source.path)),
    };
    if parsed.flag("time") {
        let wall = start.elapsed().as_secs_f64() * 1e3;
        outcome.stage_output.push(StageOutput::Times { tool: "tileiras".into(), times: vec![("all stages".into(), wall)] });
    }
    let text = render_messages(parsed, &outcome);
    match outcome.failed {
        None => {
            let diagnostics = outcome.stage_output.iter().filter(|stage_output| matches!(stage_output, StageOutput::Diagnostic(_)));
            let warnings = diagnostics.map(|stage_output| render_stage_output(stage_output, style(parsed))).collect();
            Ok(Compiled { output: outcome.output, text, warnings })
        }
        Some(failure) => Err(compile_error(&failure, steps, source, &outcome.stage_output, style(parsed), text)),
    }
}

/// Runs the stages in groups. With `stem`, each stage is a group, and the driver writes its output to `stem` with the kind as
/// extension. Without `stem`, the stage that writes PTX ends the first group.
/// Remarks come from the log of the PTX file, or of the output if the plan ends earlier.
fn run_in_groups(
    steps: &[Step],
    source: &Source,
    stem: Option<&Path>,
    remarks: Option<&RemarkFilter>,
) -> Result<Outcome, DriverError> {
    let mut combined = Outcome::default();
    let mut finished_stages = 0;
    let groups = steps.split_inclusive(|step| stem.is_some() || step.writes == "ptx");
    for (index, group) in groups.enumerate() {
        let group_outcome =
            if index == 0 { run(group, &source.bytes, Some(source.path)) } else { run(group, &combined.output, None) };
        let group_failure = group_outcome.failed.map(|failure| Failure { index: finished_stages + failure.index, ..failure });
        combined = Outcome {
            output: group_outcome.output,
            failed: group_failure,
            stage_output: combined.stage_output.into_iter().chain(group_outcome.stage_output).collect(),
        };
        finished_stages += group.len();
        if combined.failed.is_some() {
            break;
        }
        let last = group.last().expect("a group has a stage");
        if let Some(stem) = stem {
            let path = stem.with_added_extension(&last.writes);
            common::write_file(Some(&path), &combined.output)
                .map_err(|error| DriverError::new(exit::CONFIGURATION, error.message))?;
        }
        let has_log = last.writes == "ptx" || steps.last() == Some(last);
        remarks.filter(|_| has_log).map_or(Ok(()), |remarks| remarks.show(&combined.output))?;
    }
    Ok(combined)
}

/// The path of the `--save-temps` files without extension: in the folder that the option names, or next to the output. The files
/// are named after the input, but in a batch after the output, because an input may have several outputs.
fn temporary_stem(parsed: &Parsed, folder: &str, input: &str, output: &str) -> PathBuf {
    let named_after = if parsed.get("out-dir").is_some() { output } else { input };
    let name = Path::new(named_after).file_stem().unwrap_or_default();
    match folder {
        "" => Path::new(output).with_file_name(name),
        folder => Path::new(folder).join(name),
    }
}

/// Renders the messages of the stages in the requested format.
fn render_messages(parsed: &Parsed, outcome: &Outcome) -> String {
    outcome.stage_output.iter().map(|stage_output| render_stage_output(stage_output, style(parsed))).collect()
}

fn render_stage_output(stage_output: &StageOutput, style: Style) -> String {
    match stage_output {
        StageOutput::Diagnostic(diagnostic) => render_diagnostic(diagnostic, style),
        StageOutput::Line(line) => plain_line(line, style),
        StageOutput::Times { tool, times } if style == Style::Json => {
            format!("{}\n", serde_json::json!({ "tool": tool, "times": times }))
        }
        StageOutput::Times { tool, times } => {
            let rows: String = times.iter().map(|(step, time)| format!("{tool:14} {step:24} {time:9.3} ms\n")).collect();
            let total: f64 = times.iter().filter(|(step, _)| step != "wait").map(|(_, time)| time).sum();
            rows + &format!("{tool:14} {:24} {total:9.3} ms\n", "total")
        }
    }
}

/// Builds the error of a failed run. If the first stage rejects its input, the exit code means invalid input; all other failures
/// share one exit code.
fn compile_error(
    failure: &Failure,
    steps: &[Step],
    source: &Source,
    stage_output: &[StageOutput],
    style: Style,
    mut text: String,
) -> DriverError {
    let has_error_message = stage_output
        .iter()
        .any(|stage_output| matches!(stage_output, StageOutput::Diagnostic(diagnostic) if diagnostic.severity == Severity::Error));
    if !has_error_message {
        let cause = Diagnostic::io("DRI006", format!("{} failed: {}", failure.tool, failure.status));
        text += &render_diagnostic(&cause, style);
    }
    if failure.end == End::Fault
        && let Some(folder) = crate::crash_dir::write_crash_dir(steps, failure.index, source, &failure.status)
    {
        let mut note = Diagnostic::io(
            "BUG001",
            format!("this is a bug of {}; reproduce it with: sh {}/command", failure.tool, folder.display()),
        );
        note.severity = Severity::Note;
        text += &render_diagnostic(&note, style);
    }
    if failure.index == 0 && matches!(failure.end, End::Code(1 | 3)) {
        return DriverError::reported(text, exit::INPUT);
    }
    // NVIDIA's format ends with NVIDIA's summary line. The other formats have already reported the cause.
    if style != Style::Reference {
        return DriverError::reported(text, exit::COMPILE);
    }
    DriverError::after_messages(text, exit::COMPILE, "failed to compile Tile IR program")
}

/// The plan as a shell pipeline, for `--dry-run`.
fn shell_commands(steps: &[Step], input: &str, output: &str) -> String {
    let mut line = String::new();
    let input_path = crate::run::as_file(input);
    for (index, step) in steps.iter().map(|step| step.on_input(&input_path)).enumerate() {
        let arguments = step.arguments.iter().filter(|argument| *argument != JSON_MESSAGES);
        let args: Vec<String> = std::iter::once(&step.printed_program).chain(arguments).map(|arg| shell_quote(arg)).collect();
        line += if index == 0 { "" } else { " | " };
        line += &args.join(" ");
        if index == 0 {
            line += &format!(" {}", shell_quote(&crate::run::as_file(input).to_string_lossy()));
        }
    }
    let output = if output == "-" { PathBuf::from(output) } else { crate::run::as_file(output) };
    format!("{line} -o {}\n", shell_quote(&output.to_string_lossy()))
}

/// Quotes an argument for a shell, if it needs quotes.
pub(crate) fn shell_quote(arg: &str) -> String {
    let needs_no_quotes = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,%@".contains(c);
    if !arg.is_empty() && arg.chars().all(needs_no_quotes) { arg.into() } else { format!("'{}'", arg.replace('\'', r"'\''")) }
}
