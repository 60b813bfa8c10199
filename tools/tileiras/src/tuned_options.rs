//! Options that a search found for the kernel: `--plan FILE` reads the options from a plan file, and `-O4` searches options with
//! `tile-tune`.
//!
//! Options of the command line override the options of a search.

use crate::failure::{DriverError, exit, plain_line, style};
use crate::pipeline::{JSON_MESSAGES, tools_folder};
use crate::source::Source;
use crate::targets::Plan;
use common::child::{self, MemoryFile};
use common::cl::{Parsed, parse_integer};
use common::plan_file::{DECISION_OPTIONS, PlanFile, TunedKernel, decision, kernel_digest};
use std::path::Path;
use std::process::Command;

/// The optimisation level at which the driver searches for options.
pub(crate) const SEARCH_LEVEL: i32 = 4;
/// The optimisation level with which the driver compiles the candidates and the result of the search.
const COMPILE_LEVEL: &str = "3";
/// Maximum number of candidates of `-O4`. One pass of a guided search over all decisions has 24 candidates.
const MAX_CANDIDATES: u32 = 32;
/// The default of `--max-time` in seconds. All tools have this default.
const DEFAULT_STAGE_SECONDS: i32 = 1800;

/// A command line with the options that a search found, and text for standard error.
pub(crate) struct Tuned {
    pub(crate) parsed: Parsed,
    pub(crate) text: String,
}

/// Adds the options that the plan file of `--plan` or the search of `-O4` provides. Returns `None` if the command line has neither
/// `--plan` nor `-O4`.
pub(crate) fn add_tuned_options(parsed: &Parsed, source: &Source, plan: &Plan) -> Result<Option<Tuned>, DriverError> {
    let is_search = level(parsed) == SEARCH_LEVEL;
    if (is_search || parsed.get("plan").is_some()) && plan.has_several_targets() {
        let message = "--plan and -O4 apply to one target; compile for each --gpu-name alone";
        return Err(DriverError::new(exit::CONFIGURATION, message));
    }
    let target = parsed.get("gpu-name").unwrap_or_default();
    let kernel = kernel_digest(&source.bytes);
    let mut text = String::new();
    let mut options = Vec::new();
    let mut has_plan = false;
    if let Some(path) = parsed.get("plan") {
        let file = PlanFile::read(Path::new(path)).map_err(|error| DriverError::new(exit::CONFIGURATION, error.message))?;
        match file.find(&kernel, target) {
            Some(plan) => {
                has_plan = true;
                options.extend(plan.options.iter().cloned());
            }
            None => text += &plain_line(&format!("warning: {path} has no plan for this kernel and {target}"), style(parsed)),
        }
    }
    if parsed.get("launch").is_some() && !is_search {
        return Err(DriverError::new(exit::CONFIGURATION, "--launch applies to -O4 only"));
    }
    // A plan without options is still a plan: no option makes the kernel faster. So search only without a plan.
    if is_search && !has_plan {
        let tuned = search(parsed, source, &kernel, target)?;
        if parsed.flag("verbose") {
            let line = format!("tileiras: -O4 found the options: {}", tuned.options.join(" "));
            text += &plain_line(&line, style(parsed));
        }
        options = tuned.options;
    }
    if !is_search && parsed.get("plan").is_none() {
        return Ok(None);
    }
    let tuned = options.iter().filter_map(|option| decision(option)).map(|(name, value)| (name, value.to_string()));
    let level = is_search.then(|| ("opt-level", COMPILE_LEVEL.to_string()));
    let option_values = tuned.chain(parsed.option_values.iter().cloned()).chain(level).collect();
    Ok(Some(Tuned { parsed: Parsed { option_values, ..parsed.clone() }, text }))
}

/// Returns the optimisation level that the command line requests; 3 by default.
pub(crate) fn level(parsed: &Parsed) -> i32 {
    parsed.get("opt-level").and_then(parse_integer).unwrap_or(3)
}

/// Searches options with `tile-tune`. The search does not change options that the command line sets.
fn search(parsed: &Parsed, source: &Source, kernel: &str, target: &str) -> Result<TunedKernel, DriverError> {
    let failed = |why: String| DriverError::new(exit::COMPILE, format!("-O4: {why}"));
    let input = MemoryFile::new("input", &source.bytes).map_err(|error| failed(common::os_error_text(&error)))?;
    let mut command = Command::new(tools_folder().join("tile-tune"));
    command.args([JSON_MESSAGES.to_string(), format!("--gpu-name={target}"), format!("--limit={MAX_CANDIDATES}")]);
    command.arg("--launch").arg(parsed.get("launch").unwrap_or_default()).arg("--plan=-");
    // `--max-time` and `--max-memory` of the driver limit each stage, and not the search.
    let step_seconds = match parsed.get("max-time").and_then(parse_integer) {
        Some(seconds @ 1..) => seconds,
        Some(_) => i32::MAX,
        None => DEFAULT_STAGE_SECONDS,
    };
    command.args(["--max-time=0".to_string(), format!("--step-time={step_seconds}")]);
    if let Some(mebibytes) = parsed.get("max-memory").and_then(parse_integer) {
        command.args([format!("--max-memory={mebibytes}"), format!("--with=max-memory={mebibytes}")]);
    }
    for name in DECISION_OPTIONS {
        command.args(parsed.get(name).map(|value| format!("--with={name}={value}")));
    }
    command.args(parsed.flag("check-bounds").then_some("--with=check-bounds=true"));
    let output = child::run_captured(command.arg(input.path()), None)
        .map_err(|error| failed(format!("cannot run tile-tune: {}", common::os_error_text(&error))))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let reported = stderr.lines().find_map(|line| serde_json::from_str::<base::diag::Diagnostic>(line).ok());
        return Err(failed(reported.map_or_else(|| child::describe(output.status), |diagnostic| diagnostic.message)));
    }
    let plans = PlanFile::parse(&output.stdout, "tile-tune").map_err(|error| failed(error.message.clone()))?;
    plans.find(kernel, target).cloned().ok_or_else(|| failed("tile-tune found no plan".into()))
}
