//! A stage that a signal ended could keep nothing itself: the driver keeps what it was given, and the command.

use crate::drive::quote;
use crate::pipeline::Step;
use crate::run::{Feed, JSON, as_file, run};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder with the input, the file that the stage read, and the command. None when it cannot be made.
pub(crate) fn keep(tools: &Path, steps: &[Step], failed: usize, input: &str, message: &str) -> Option<PathBuf> {
    let step = &steps[failed];
    // Several compilations of one run may fail alike.
    let name = |number| std::env::temp_dir().join(format!("{}-bug-{}-{number}", step.tool, std::process::id()));
    let folder = (0..100).map(name).find(|folder| fs::create_dir(folder).is_ok())?;
    fs::copy(as_file(input), folder.join("input")).ok()?;
    let before = match failed {
        0 => "input",
        _ => {
            let outcome = run(tools, &steps[..failed], &Feed::File(input));
            fs::write(folder.join("before"), outcome.output).ok()?;
            "before"
        }
    };
    let tool = tools.join(&step.tool);
    let words = std::iter::once(tool.to_string_lossy().into_owned())
        .chain(step.arguments.iter().filter(|argument| *argument != JSON).cloned());
    let line: Vec<String> = words.map(|word| quote(&word)).collect();
    fs::write(folder.join("message"), format!("{message}\n")).ok()?;
    fs::write(folder.join("command"), format!("cd \"$(dirname \"$0\")\" && {} -o output {before}\n", line.join(" "))).ok()?;
    Some(folder)
}
