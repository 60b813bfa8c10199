//! Batch compilation: `--out-dir DIR` with any number of inputs and targets, `--jobs N` in parallel.

use crate::compile;
use crate::failure::{DriverError, exit, style};
use crate::pipeline::{Pipeline, is_cpu_module};
use crate::targets::{Plan, requested_workers, run_in_parallel};
use base::diag::Style;
use common::cl::{Parsed, dashed};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One compilation of a batch.
pub(crate) struct Job {
    pub(crate) input: String,
    pub(crate) output: String,
    /// The targets of the output: one, or all for a fatbin.
    pub(crate) targets: Vec<String>,
    /// The command line, reduced to this job's target and optimization level.
    pub(crate) parsed: Parsed,
}

/// Returns the jobs of a command line: one for each input, target and optimization level. A fatbin for several targets is one job.
/// Each job writes its own output.
pub(crate) fn plan_jobs(parsed: &Parsed, folder: &str) -> Result<Vec<Job>, DriverError> {
    for (option, reason) in [
        ("output-file", "names a single output, but --out-dir can produce several"),
        ("MF", "names a single depfile, but --out-dir can produce several; -MD writes one next to each output"),
        ("MT", "names a single target, but --out-dir can produce several"),
        ("c-header", "names a single file, but --out-dir can produce several"),
        ("symbol", "names a single fatbin, but --out-dir can produce several"),
        ("print-cache-key", "prints a single key, but --out-dir can produce several outputs"),
        ("remarks-output-file", "names a single file, but --out-dir can produce several, each next to its output"),
    ] {
        if parsed.get(option).is_some() {
            return Err(DriverError::new(exit::USAGE, format!("{} {reason}", dashed(option))));
        }
    }
    let configuration_error = |message| DriverError::new(exit::CONFIGURATION, message);
    let plan = Pipeline::load(parsed.get("pipeline"))
        .and_then(|(pipeline, _)| Plan::new(&pipeline, parsed))
        .map_err(configuration_error)?;
    let kind = match (plan.form, plan.steps().last().map_or("cubin", |step| &step.writes)) {
        _ if is_cpu_module(parsed) => "cubin",
        (Some(form), _) => form.extension(),
        (None, "host-object") => "o",
        (None, kind) => kind,
    };
    // A fatbin has the code for all targets.
    let all_targets = distinct_values(parsed, "gpu-name");
    let targets = if plan.has_several_targets() { vec![None] } else { all_targets.clone() };
    let path_in_folder = |name: &str| Path::new(folder).join(name).to_string_lossy().into_owned();
    let levels = distinct_values(parsed, "opt-level");
    let mut jobs = Vec::new();
    let mut input_of_output: BTreeMap<String, &str> = BTreeMap::new();
    for input in &parsed.positional {
        let stem = Path::new(input).file_stem().unwrap_or_default().to_string_lossy();
        for target in &targets {
            for level in &levels {
                let mut name = stem.to_string();
                name.extend(target.map(|target| format!(".{target}")));
                name.extend(level.filter(|_| levels.len() > 1).map(|level| format!(".O{level}")));
                let output = path_in_folder(&format!("{name}.{kind}"));
                if let Some(other_input) = input_of_output.insert(output.clone(), input) {
                    return Err(DriverError::new(
                        exit::USAGE,
                        format!("'{other_input}' and '{input}' have the same output '{output}'"),
                    ));
                }
                let mut parsed = parsed.clone();
                parsed.option_values.extend(target.map(|target| ("gpu-name", target.to_string())));
                parsed.option_values.extend(level.map(|level| ("opt-level", level.to_string())));
                parsed.option_values.push(("remarks-output-file", format!("{}.remarks.yaml", path_in_folder(&name))));
                let targets = if plan.has_several_targets() { &all_targets[..] } else { std::slice::from_ref(target) };
                let targets = targets.iter().flatten().map(|target| target.to_string()).collect();
                jobs.push(Job { input: input.clone(), output, targets, parsed });
            }
        }
    }
    Ok(jobs)
}

/// Returns the distinct values of an option, or a single `None` if the command line does not have the option.
fn distinct_values<'a>(parsed: &'a Parsed, name: &'static str) -> Vec<Option<&'a str>> {
    let mut values: Vec<Option<&str>> = Vec::new();
    for value in parsed.values_of(name).map(Some) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if values.is_empty() { vec![None] } else { values }
}

/// Runs all jobs of a command line. If jobs fail, the error has the exit code of the first failed job in command-line order.
pub(crate) fn compile_all(parsed: &Parsed, folder: &str) -> Result<String, DriverError> {
    let jobs = plan_jobs(parsed, folder)?;
    if !parsed.flag("dry-run") {
        crate::stage_groups::make_folder(folder)?;
    }
    let finished_jobs = AtomicUsize::new(0);
    let style = style(parsed);
    let is_terminal = style != Style::Json && std::io::stderr().is_terminal();
    let progress = Progress { total: jobs.len(), style, is_terminal };
    let run_job = |job: &Job| {
        let (text, code) = match compile::compile(&job.parsed, &job.input, &job.output) {
            Ok(text) => (text, exit::OK),
            Err(driver_error) => (driver_error.render(style), driver_error.code),
        };
        progress.report(finished_jobs.fetch_add(1, Ordering::Relaxed) + 1, job, &text, code);
        code
    };
    let codes = run_in_parallel(&jobs, requested_workers(parsed), &run_job);
    if progress.is_terminal {
        crate::print(&mut std::io::stderr(), "\n");
    }
    let failures: Vec<u8> = codes.into_iter().filter(|code| *code != exit::OK).collect();
    match failures.first() {
        None => Ok(String::new()),
        Some(code) => Err(DriverError::new(*code, format!("{} of {} failed", failures.len(), jobs.len()))),
    }
}

/// Prints the progress of a batch.
struct Progress {
    /// The number of jobs.
    total: usize,
    style: Style,
    is_terminal: bool,
}

impl Progress {
    /// Prints the messages and the status line of a finished job. On a terminal, the status line overwrites the status line of the
    /// previous job.
    fn report(&self, finished_jobs: usize, job: &Job, text: &str, code: u8) {
        let report = match self.style {
            Style::Json => self.job_as_json(finished_jobs, job, text, code),
            Style::Human | Style::Terminal | Style::Reference => self.job_as_text(finished_jobs, job, text, code),
        };
        crate::print(&mut std::io::stderr(), &report);
    }

    /// Renders a finished job as JSON lines: each message of the job with the input of the job, then a summary of the job.
    fn job_as_json(&self, finished_jobs: usize, job: &Job, text: &str, code: u8) -> String {
        let with_input = |line: &str| match serde_json::from_str(line) {
            Ok(serde_json::Value::Object(mut object)) => {
                object.insert("input".into(), job.input.as_str().into());
                serde_json::Value::Object(object)
            }
            _ => serde_json::json!({ "line": line, "input": job.input }),
        };
        let messages: String = text.lines().map(|line| format!("{}\n", with_input(line))).collect();
        let summary = serde_json::json!({ "done": finished_jobs, "of": self.total, "input": job.input, "output": job.output, "exit_code": code });
        format!("{messages}{summary}\n")
    }

    /// Renders a finished job as text: the messages of the job, each with the input of the job, then a status line.
    fn job_as_text(&self, finished_jobs: usize, job: &Job, text: &str, code: u8) -> String {
        let failed_suffix = if code == exit::OK { "" } else { " failed" };
        let line = format!("[{finished_jobs}/{}] {}{failed_suffix}", self.total, job.output);
        let stage_output: String = text.lines().map(|line| format!("{}: {line}\n", job.input)).collect();
        match (self.is_terminal, stage_output.is_empty()) {
            (true, true) => format!("\r\x1b[K{line}"),
            (true, false) => format!("\r\x1b[K{stage_output}{line}"),
            (false, _) => format!("{stage_output}{line}\n"),
        }
    }
}
