//! One compilation: from a parsed command line to the output file and the exit code.

use crate::cache::{self, Cache, Key};
use crate::container;
use crate::depfile;
use crate::dry_run;
use crate::failure::{DriverError, exit, plain_line, style};
use crate::host::Host;
use crate::pipeline::{Pipeline, Step, is_cpu_module};
use crate::remarks::RemarkFilter;
use crate::run::{StageOutput, run};
use crate::runner::Runner;
use crate::source::Source;
use crate::stage_groups::{
    StageInput, compile_error, create_save_temps_folder, render_messages, render_stage_output, run_in_groups, temporary_file_error,
};
use crate::targets::{self, Compiled, Plan};
use crate::tuned_options::{self, Tuned};
use crate::validate;
use base::diag::Style;
use common::child::MemoryFile;
use common::cl::Parsed;
use std::path::Path;
use std::time::Instant;

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

/// Runs the plan as one pipeline of processes, or in groups if `--save-temps` or remarks need the files between the stages.
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
