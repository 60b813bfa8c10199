//! Runs stages in groups, writes the files between the groups, and renders the messages of the stages.

use crate::crash_dir::write_crash_dir;
use crate::failure::{DriverError, exit, plain_line, render_diagnostic, style};
use crate::pipeline::Step;
use crate::remarks::RemarkFilter;
use crate::run::{CommandEnd, Failure, Outcome, StageOutput};
use crate::runner::Runner;
use crate::source::Source;
use base::diag::{Diagnostic, Severity, Style};
use common::cl::Parsed;
use std::path::{Path, PathBuf};

/// Creates the folder that an option names, and its missing parent folders.
pub(crate) fn make_folder(path: &str) -> Result<(), DriverError> {
    let create_error =
        |error| DriverError::new(exit::CONFIGURATION, format!("cannot create folder '{path}': {}", common::os_error_text(&error)));
    std::fs::create_dir_all(path).map_err(create_error)
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
        && let Some(folder) = write_crash_dir(steps, failure.index, source, &failure.status)
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
