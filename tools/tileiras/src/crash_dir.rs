//! Crash directories for stages that a signal terminated. Such a stage cannot write its own crash directory, so the driver does.

use crate::pipeline::{JSON_MESSAGES, Step};
use crate::run::run;
use crate::shell::shell_quote;
use crate::source::Source;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a crash directory with the input, the file that the failed stage read, and the command that reproduces the failure.
/// Returns the path of the directory, or `None` if a write fails.
pub(crate) fn write_crash_dir(steps: &[Step], failed: usize, source: &Source, message: &str) -> Option<PathBuf> {
    let step = &steps[failed];
    // Several compilations of a batch may fail in the same stage, so a number makes the folder name unique.
    let folder_path = |number| std::env::temp_dir().join(format!("{}-bug-{}-{number}", step.name(), std::process::id()));
    let folder = (0..100).map(folder_path).find(|folder| fs::create_dir(folder).is_ok())?;
    let written = write_files(&folder, steps, failed, source, message);
    if written.is_err() {
        let _ = fs::remove_dir_all(&folder);
    }
    written.ok().map(|()| folder)
}

/// Writes the files of the crash directory.
fn write_files(folder: &Path, steps: &[Step], failed: usize, source: &Source, message: &str) -> std::io::Result<()> {
    let step = steps[failed].on_input(Path::new("input"));
    fs::write(folder.join("input"), &source.bytes)?;
    let failed_input = if failed == 0 { "input" } else { "before" };
    if failed > 0 {
        fs::write(folder.join("before"), run(&steps[..failed], &source.bytes, Some(source.path)).output)?;
    }
    let args = std::iter::once(step.program.to_string_lossy().into_owned())
        .chain(step.arguments.iter().filter(|argument| *argument != JSON_MESSAGES).cloned());
    let line: Vec<String> = args.map(|arg| shell_quote(&arg)).collect();
    fs::write(folder.join("message"), format!("{message}\n"))?;
    fs::write(folder.join("command"), format!("cd \"$(dirname \"$0\")\" && {} -o output {failed_input}\n", line.join(" ")))
}
