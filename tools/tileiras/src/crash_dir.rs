//! Crash directories for stages that a fault terminated. Such a stage cannot write one itself, so the driver does.

use crate::compile::{Source, quote};
use crate::pipeline::Step;
use crate::run::{JSON, run};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a crash directory with the input, the file that the stage read, and the command. None if it cannot be created.
pub(crate) fn keep(steps: &[Step], failed: usize, source: &Source, message: &str) -> Option<PathBuf> {
    let step = &steps[failed];
    // Several compilations of one run may fail in the same stage.
    let name = |number| std::env::temp_dir().join(format!("{}-bug-{}-{number}", step.name(), std::process::id()));
    let folder = (0..100).map(name).find(|folder| fs::create_dir(folder).is_ok())?;
    let filled = fill(&folder, steps, failed, source, message);
    if filled.is_err() {
        let _ = fs::remove_dir_all(&folder);
    }
    filled.ok().map(|()| folder)
}

fn fill(folder: &Path, steps: &[Step], failed: usize, source: &Source, message: &str) -> std::io::Result<()> {
    let step = steps[failed].on_input(Path::new("input"));
    fs::write(folder.join("input"), &source.bytes)?;
    let before = if failed == 0 { "input" } else { "before" };
    if failed > 0 {
        fs::write(folder.join("before"), run(&steps[..failed], &source.bytes, Some(source.path)).output)?;
    }
    let args = std::iter::once(step.program.to_string_lossy().into_owned())
        .chain(step.arguments.iter().filter(|argument| *argument != JSON).cloned());
    let line: Vec<String> = args.map(|arg| quote(&arg)).collect();
    fs::write(folder.join("message"), format!("{message}\n"))?;
    fs::write(folder.join("command"), format!("cd \"$(dirname \"$0\")\" && {} -o output {before}\n", line.join(" ")))
}
