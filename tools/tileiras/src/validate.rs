//! `--validate`: `tile-validate` executes the stages on generated arguments and compares their results.

use crate::failure::{DriverError, exit, plain_line, render_diagnostic, style};
use crate::pipeline::JSON_MESSAGES;
use crate::source::Source;
use crate::targets::Plan;
use base::diag::{Diagnostic, Severity};
use common::child::{self, MemoryFile};
use common::cl::Parsed;
use common::plan_file::DECISION_OPTIONS;

/// Runs `tile-validate` for each target if the command line has `--validate`. Returns the text for standard error.
pub(crate) fn validate_if_requested(parsed: &Parsed, plan: &Plan, source: &Source) -> Result<String, DriverError> {
    if !parsed.flag("validate") {
        return Ok(String::new());
    }
    let names = plan.targets.iter().map(|target| target.target.map_or("", |target| target.name));
    names.map(|target| validate(parsed, source, target)).collect()
}

/// Runs `tile-validate` on the program for one target, and returns the text for standard error. If `tile-validate` reaches no
/// verdict, its errors become warnings.
fn validate(parsed: &Parsed, source: &Source, target: &str) -> Result<String, DriverError> {
    let spawn_error = |error: std::io::Error| {
        DriverError::new(exit::CONFIGURATION, format!("cannot run tile-validate: {}", common::os_error_text(&error)))
    };
    let input = MemoryFile::new("input", &source.bytes).map_err(spawn_error)?;
    let mut command = std::process::Command::new(crate::pipeline::tools_folder().join("tile-validate"));
    command.arg(JSON_MESSAGES).arg(format!("-O{}", crate::tuned_options::level(parsed)));
    command.arg(format!("--gpu-name={target}")).arg(input.path());
    let overrides = DECISION_OPTIONS.iter().filter_map(|name| Some(format!("--{name}={}", parsed.get(name)?)));
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
