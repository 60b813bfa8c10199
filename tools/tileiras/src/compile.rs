//! One compilation: from a parsed command line to the output file and the exit code.

use crate::cache::{self, Cache, Key};
use crate::container;
use crate::depfile;
use crate::dry_run;
use crate::failure::{DriverError, exit, plain_line, render_diagnostic, style};
use crate::host::Host;
use crate::pipeline::{Pipeline, Step, is_cpu_module};
use crate::remarks::RemarkFilter;
use crate::run::{CommandEnd, Failure, Outcome, Runner, StageOutput, run};
use crate::targets::{self, Plan};
use crate::tuned_options::{self, Tuned};
use crate::validate;
use base::diag::{Diagnostic, Severity, Style};
use base::envelope::{Sniffed, sniff};
use common::child::MemoryFile;
use common::cl::Parsed;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The output of a compilation and its messages.
pub(crate) struct Compiled {
    pub(crate) output: Vec<u8>,
    /// The text for standard error.
    pub(crate) text: String,
    /// The diagnostics in `text`. The cache stores them with the output, and a cache hit prints them again.
    pub(crate) warnings: String,
}

/// Compiles one input and writes the output. Returns the text for standard error.
pub(crate) fn compile(parsed: &Parsed, input: &str, output: &str) -> Result<String, DriverError> {
    let (pipeline, _) = Pipeline::load(parsed.get("pipeline")).map_err(|message| DriverError::new(exit::CONFIGURATION, message))?;
    let plan = plan_targets(&pipeline, parsed)?;
    let source = Source::read(input)?;
    check_input(parsed, &source, pipeline.needs_target(plan.steps()))?;
    if parsed.get("apply-controls").is_some_and(|path| !path.is_empty()) {
        return Err(DriverError::new(exit::CONFIGURATION, "--apply-controls is not supported on this platform"));
    }
    if let Some(library) = parsed.get("l") {
        return Err(tile_library_error(parsed, plan.steps(), &source, library));
    }
    let tuned = tuned_options::add_tuned_options(parsed, &source, &plan)?;
    let (parsed, plan, tuning_text) = match &tuned {
        Some(Tuned { parsed, text }) => (parsed, plan_targets(&pipeline, parsed)?, text.as_str()),
        None => (parsed, plan, ""),
    };
    let steps = plan.steps();
    if parsed.flag("dry-run") {
        return crate::write_answer(&dry_run::planned_commands(&plan, input, output));
    }
    if parsed.flag("print-cache-key") {
        return crate::write_answer(&cache_key_line(parsed, &plan, &source)?);
    }
    let symbol = container::symbol(parsed, input)?;
    let depfile =
        depfile::requested_depfile(parsed, steps, input, output).map_err(|error| DriverError::new(exit::USAGE, error.message))?;
    let remarks = RemarkFilter::from_options(parsed)?;
    check_outputs(parsed, &plan, remarks.is_some())?;
    let cache = if remarks.is_none() { Cache::from_options(parsed)? } else { None };
    let entry = cache.as_ref().and_then(|cache| Some((cache, cache.key(&plan, &source.bytes)?)));
    let cached = entry.as_ref().and_then(|(cache, key)| cache.get(key));
    let cache_message = entry.as_ref().map_or(String::new(), |(_, key)| cache_message(parsed, key, cached.is_some()));
    let compiled = match cached {
        Some(compiled) => compiled,
        None => {
            let compiled = match plan.has_several_targets() {
                true => targets::run(parsed, &plan, &source, output, Runner::Processes)?,
                false => run_steps(parsed, steps, &source, output, remarks.as_ref(), Runner::Processes)?,
            };
            entry.inspect(|(cache, key)| cache.put(key, &compiled));
            compiled
        }
    };
    let text =
        tuning_text.to_string() + &cache_message + &compiled.text + &validate::validate_if_requested(parsed, &plan, &source)?;
    let header = requested_header(parsed, &compiled.output, &symbol);
    let output_bytes = output_bytes(parsed, &plan, compiled.output, &symbol)?;
    // Write the depfile first. If only the output were written, a build tool would later miss changed dependencies.
    let written = depfile.map_or(Ok(()), |depfile| depfile.write()).and_then(|()| match header? {
        Some((path, header)) => write_output(path, &header),
        None => Ok(()),
    });
    match written.and_then(|()| write_output(output, &output_bytes)) {
        Ok(()) => Ok(text),
        Err(error) => Err(DriverError::after_messages(text, exit::CONFIGURATION, error.message)),
    }
}

/// Returns the commands for each target of a command line.
fn plan_targets(pipeline: &Pipeline, parsed: &Parsed) -> Result<Plan, DriverError> {
    Plan::new(pipeline, parsed).map_err(|message| DriverError::new(exit::CONFIGURATION, message))
}

/// Compiles a program in a host process. Returns the output and the messages.
pub(crate) fn compile_in_host(
    parsed: &Parsed,
    pipeline: &Pipeline,
    source: &Source,
    host: &Host,
) -> Result<(Vec<u8>, String), DriverError> {
    let plan = plan_targets(pipeline, parsed)?;
    check_input(parsed, source, pipeline.needs_target(plan.steps()))?;
    check_outputs(parsed, &plan, false)?;
    let symbol = container::symbol(parsed, source.path)?;
    let compiled = match plan.has_several_targets() {
        true => targets::run(parsed, &plan, source, "", Runner::Host(host))?,
        false => run_steps(parsed, plan.steps(), source, "", None, Runner::Host(host))?,
    };
    Ok((output_bytes(parsed, &plan, compiled.output, &symbol)?, compiled.text))
}

/// Converts the output of the last stage to the form that `--emit` requests.
fn output_bytes(parsed: &Parsed, plan: &Plan, compiled: Vec<u8>, symbol: &str) -> Result<Vec<u8>, DriverError> {
    match plan.form {
        Some(form) => container::convert_fatbin(form, compiled, symbol, parsed),
        None if is_cpu_module(parsed) => Ok(cubin::program::cpu_module(&[&compiled])),
        None => Ok(compiled),
    }
}

/// Returns the line of `--verbose` that states whether the output comes from the cache; empty without `--verbose`.
fn cache_message(parsed: &Parsed, key: &Key, is_hit: bool) -> String {
    let line = format!("tileiras: cache: {} {}", if is_hit { "hit" } else { "miss" }, key.hex_prefix());
    if parsed.flag("verbose") { plain_line(&line, style(parsed)) } else { String::new() }
}

/// Returns the path and the text of the C header that `--c-header` requests; `None` without the option.
fn requested_header<'a>(parsed: &'a Parsed, fatbin: &[u8], symbol: &str) -> base::diag::Result<Option<(&'a str, Vec<u8>)>> {
    let Some(path) = parsed.get("c-header") else { return Ok(None) };
    Ok(Some((path, crate::c_header::write(fatbin, symbol)?)))
}

/// Checks that the options about outputs fit the plan.
fn check_outputs(parsed: &Parsed, plan: &Plan, has_remarks: bool) -> Result<(), DriverError> {
    let usage = |message: &str| Err(DriverError::new(exit::USAGE, message));
    match plan.form {
        None if parsed.get("c-header").is_some() => usage("--c-header requires --emit=fatbin, c-array or object"),
        None if parsed.get("symbol").is_some() => usage("--symbol requires --emit=fatbin, c-array or object"),
        Some(_) if has_remarks && plan.has_several_targets() => {
            usage("remarks are about the code for one target; compile for each --gpu-name alone to get them")
        }
        _ => Ok(()),
    }
}

/// The line that `--print-cache-key` prints: the key of the output in a cache.
fn cache_key_line(parsed: &Parsed, plan: &Plan, source: &Source) -> Result<String, DriverError> {
    // A cache folder has the hashes of the programs.
    let key = match Cache::from_options(parsed)? {
        Some(cache) => cache.key(plan, &source.bytes),
        None => cache::key(plan, &source.bytes, &cache::content_hash),
    };
    let unreadable = || DriverError::new(exit::CONFIGURATION, "a program of the plan, or ptxas, cannot be read; see --doctor");
    Ok(format!("{}\n", key.ok_or_else(unreadable)?.hex()))
}

/// Returns the error for a tile library that `-l` names, because tile libraries are not supported. Errors of the input take
/// precedence, as in NVIDIA's tileiras.
fn tile_library_error(parsed: &Parsed, steps: &[Step], source: &Source, library: &str) -> DriverError {
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

/// Creates the folder that an option names, and its missing parent folders.
pub(crate) fn make_folder(path: &str) -> Result<(), DriverError> {
    let create_error =
        |error| DriverError::new(exit::CONFIGURATION, format!("cannot create folder '{path}': {}", common::os_error_text(&error)));
    std::fs::create_dir_all(path).map_err(create_error)
}

/// Writes the output to a file, or to standard output for `-`.
fn write_output(output: &str, bytes: &[u8]) -> base::diag::Result<()> {
    common::write_file((output != "-").then_some(Path::new(output)), bytes)
}

/// Performs the checks that NVIDIA's tileiras performs before it compiles, in the order of NVIDIA's tileiras.
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
    let level = tuned_options::level(parsed);
    // NVIDIA's tileiras has no level 4, so -O4 without a launch description fails as in NVIDIA's tileiras.
    let is_search = level == tuned_options::SEARCH_LEVEL && parsed.get("launch").is_some();
    if !(0..=3).contains(&level) && !is_search {
        return Err(DriverError::new(exit::CONFIGURATION, format!("invalid optimization level: {level}")));
    }
    if parsed.flag("device-debug") && level != 0 {
        let message =
            "optimized debugging is currently not supported, change the optimization level to 0 or disable full debug info";
        return Err(DriverError::new(exit::CONFIGURATION, message));
    }
    Ok(())
}

/// The input program. The driver reads the file once, so the cache key belongs to the compiled bytes even if the file changes
/// during the compilation.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) bytes: Vec<u8>,
    /// The bytecode version in the header.
    version: (u8, u8),
}

impl<'a> Source<'a> {
    /// Creates a source from bytecode or from the text of a program. Returns an error for bytes that are neither.
    pub(crate) fn from_memory(name: &'a str, bytes: Vec<u8>) -> Result<Source<'a>, DriverError> {
        let version = bytecode_version(&bytes);
        if version.is_none() && sniff(&bytes) != Sniffed::Text {
            return Err(no_bytecode_error(&bytes, name));
        }
        Ok(Source { path: name, bytes, version: version.unwrap_or_default() })
    }

    /// Reads a bytecode file. Checks the header before it reads the whole file.
    fn read(path: &'a str) -> Result<Source<'a>, DriverError> {
        const HEADER_BYTES: u64 = 10;
        let unreadable = |reason: String| DriverError::new(exit::USAGE, format!("unable to read input file '{path}': {reason}"));
        let read_error = |error: std::io::Error| unreadable(common::os_error_text(&error));
        let mut file = std::fs::File::open(path).map_err(read_error)?;
        let mut bytes = Vec::new();
        file.by_ref().take(HEADER_BYTES).read_to_end(&mut bytes).map_err(read_error)?;
        let Some(version) = bytecode_version(&bytes) else {
            let _ = file.take(base::codec::SIZE_LIMIT as u64).read_to_end(&mut bytes);
            return Err(no_bytecode_error(&bytes, path));
        };
        bytes.extend(common::read_at_most(file, path, base::codec::SIZE_LIMIT as u64).map_err(|error| unreadable(error.message))?);
        Ok(Source { path, bytes, version })
    }
}

/// Returns the version in the header of bytecode; `None` if the bytes are not bytecode. A missing byte counts as zero, as in
/// `tile-read`.
fn bytecode_version(bytes: &[u8]) -> Option<(u8, u8)> {
    let version = bytes.strip_prefix(b"\x7fTileIR\0")?;
    Some((version.first().copied().unwrap_or(0), version.get(1).copied().unwrap_or(0)))
}

/// Returns the error for an input that is not bytecode.
fn no_bytecode_error(bytes: &[u8], path: &str) -> DriverError {
    let hint = describe_other_format(bytes).map_or(String::new(), |kind| format!(" ({kind})"));
    DriverError::new(exit::INPUT, format!("input does not correspond to Tile IR bytecode{hint}")).in_input(path)
}

/// Describes the detected format of a file that is not bytecode, and names the tool that reads this format. Returns `None` if the
/// format is uncertain.
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

/// Runs the stages of a plan for one target. If `--save-temps` or remarks need the files between the stages, runs the stages in
/// groups. Otherwise, all stages run as one pipeline.
fn run_steps(
    parsed: &Parsed,
    steps: &[Step],
    source: &Source,
    output: &str,
    remarks: Option<&RemarkFilter>,
    runner: Runner,
) -> Result<Compiled, DriverError> {
    let start = Instant::now();
    let program_file = steps.iter().any(Step::reads_input).then(|| MemoryFile::new("program", &source.bytes)).transpose();
    let program_file = program_file.map_err(|error| temporary_file_error(&error))?;
    let steps_on_input: Vec<Step> = match &program_file {
        Some(file) => steps.iter().map(|step| step.on_input(&file.path())).collect(),
        None => steps.to_vec(),
    };
    let plan = &steps_on_input;
    let mut outcome = match (create_save_temps_folder(parsed, source.path, output)?, remarks) {
        (Some(stem), _) => run_in_groups(plan, StageInput::from_source(source), Some(&stem), remarks, runner)?,
        (None, Some(_)) => run_in_groups(plan, StageInput::from_source(source), None, remarks, runner)?,
        (None, None) => runner.run(plan, &source.bytes, Some(source.path)),
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

/// Runs the stages in groups, each group on the output of the previous group. With `stem`, each stage is a group, and the driver
/// writes its output to `stem` with the kind as extension. Without `stem`, the stage that writes PTX ends the first group.
/// `remarks` prints the remarks in the log of the PTX file, or in the log of the output if the plan ends earlier.
pub(crate) fn run_in_groups(
    steps: &[Step],
    input: StageInput,
    stem: Option<&Path>,
    remarks: Option<&RemarkFilter>,
    runner: Runner,
) -> Result<Outcome, DriverError> {
    let mut combined = Outcome::default();
    let mut finished_stages = 0;
    let groups = steps.split_inclusive(|step| stem.is_some() || step.writes == "ptx");
    for (index, group) in groups.enumerate() {
        let group_outcome =
            if index == 0 { runner.run(group, input.bytes, input.name) } else { runner.run(group, &combined.output, None) };
        let group_failure = group_outcome.failed.map(|failure| Failure { index: finished_stages + failure.index, ..failure });
        let last = group.last().expect("a group has a stage");
        combined = Outcome {
            ptx: if last.writes == "ptx" { Some(group_outcome.output.clone()) } else { combined.ptx },
            output: group_outcome.output,
            failed: group_failure,
            stage_output: combined.stage_output.into_iter().chain(group_outcome.stage_output).collect(),
        };
        finished_stages += group.len();
        if combined.failed.is_some() {
            break;
        }
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

/// The input of the first stage of a group, and its name in messages.
#[derive(Clone, Copy)]
pub(crate) struct StageInput<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) name: Option<&'a str>,
}

impl<'a> StageInput<'a> {
    pub(crate) fn from_source(source: &'a Source) -> StageInput<'a> {
        StageInput { bytes: &source.bytes, name: Some(source.path) }
    }
}

/// Returns the error for a temporary file that cannot be created.
pub(crate) fn temporary_file_error(error: &std::io::Error) -> DriverError {
    DriverError::new(exit::CONFIGURATION, format!("cannot make a temporary file: {}", common::os_error_text(error)))
}

/// Returns the path of the `--save-temps` files without extension; `None` without the option. Creates the folder that the option
/// names.
pub(crate) fn create_save_temps_folder(parsed: &Parsed, input: &str, output: &str) -> Result<Option<PathBuf>, DriverError> {
    let Some(folder) = parsed.get("save-temps") else { return Ok(None) };
    if !folder.is_empty() {
        make_folder(folder)?;
    }
    Ok(Some(save_temps_stem(parsed, folder, input, output)))
}

/// Returns the path of the `--save-temps` files without extension: in the folder that the option names, or next to the output. The
/// file names start with the name of the input. In a batch they start with the name of the output, because an input may have
/// several outputs.
fn save_temps_stem(parsed: &Parsed, folder: &str, input: &str, output: &str) -> PathBuf {
    let named_after = if parsed.get("out-dir").is_some() { output } else { input };
    let name = Path::new(named_after).file_stem().unwrap_or_default();
    match folder {
        "" => Path::new(output).with_file_name(name),
        folder => Path::new(folder).join(name),
    }
}

/// Renders the messages of the stages in the requested format.
pub(crate) fn render_messages(parsed: &Parsed, outcome: &Outcome) -> String {
    outcome.stage_output.iter().map(|stage_output| render_stage_output(stage_output, style(parsed))).collect()
}

/// Renders a message of a stage in the format `style`.
pub(crate) fn render_stage_output(stage_output: &StageOutput, style: Style) -> String {
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

/// Returns the error of a failed run. `text` contains the rendered messages of the stages. If the first stage rejects its input,
/// the exit code is `exit::INPUT`; for all other failures, it is `exit::COMPILE`.
pub(crate) fn compile_error(
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
    if failure.end == CommandEnd::Fault
        && let Some(folder) = crate::crash_dir::write_crash_dir(steps, failure.index, source, &failure.status)
    {
        let mut note = Diagnostic::io(
            "BUG001",
            format!("this is a bug of {}; reproduce it with: sh {}/command", failure.tool, folder.display()),
        );
        note.severity = Severity::Note;
        text += &render_diagnostic(&note, style);
    }
    if failure.index == 0 && matches!(failure.end, CommandEnd::Code(1 | 3)) {
        return DriverError::reported(text, exit::INPUT);
    }
    // NVIDIA's format ends with NVIDIA's summary line. The other formats have already reported the cause.
    if style != Style::Reference {
        return DriverError::reported(text, exit::COMPILE);
    }
    DriverError::after_messages(text, exit::COMPILE, "failed to compile Tile IR program")
}
