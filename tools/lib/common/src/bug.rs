//! When a tool fails by a bug of its own: what is said, and the folder that is kept to see it again.
//!
//! The folder has the input, the file as it was before the pass that failed, the message, and a script with the command. Tools
//! give the same output for the same input, so the file before the pass is made by running the tool again up to there, which
//! costs nothing as long as nothing fails.

use crate::files::Input;
use crate::report::{ErrorFormat, Reporter, write_stderr};
use crate::session::{RUNNING, Running};
use crate::start::About;
use base::diag::Diagnostic;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Set for the second run, which keeps nothing should it fail too.
const AGAIN: &str = "TILEWORKS_REPRODUCING";
/// Names a tool and a step of it, `tile-lower-aa:fold`, that fails in debug builds: for tests of what is here.
const FAIL_IN: &str = "TILEWORKS_FAIL_IN";

/// What the panic hook heard.
pub(crate) static PANIC: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

pub(crate) fn fail_if_requested(about: &About, step: &str) {
    if cfg!(debug_assertions) && std::env::var(FAIL_IN).is_ok_and(|asked| asked == format!("{}:{step}", about.name)) {
        panic!("{FAIL_IN} asks for it");
    }
}

/// Says which pass failed and keeps what is needed to see it again.
pub(crate) fn report(about: &About, reporter: Reporter, has_output: bool) {
    let message = PANIC.lock().unwrap_or_else(|error| error.into_inner()).clone();
    let running = RUNNING.lock().unwrap_or_else(|error| error.into_inner()).clone();
    let place = running.step.map(|pass| format!(" in pass '{pass}'")).unwrap_or_default();
    let mut bug = Diagnostic::io("BUG001", format!("internal error of {}{place}: {message}", about.name));
    if let Some(folder) = keep(about, &bug.message, &running, has_output) {
        bug = bug.note(format!("this is a bug of the tool, not of its input; reproduce it with: sh {}/command", folder.display()));
    }
    if reporter.0 == ErrorFormat::Reference {
        write_stderr(&format!("error: {}\n", bug.message));
    } else {
        reporter.report(&bug);
    }
}

fn keep(about: &About, message: &str, running: &Running, has_output: bool) -> Option<PathBuf> {
    let input = running.input.as_ref()?;
    if std::env::var_os(AGAIN).is_some() {
        return None;
    }
    let folder = std::env::temp_dir().join(format!("{}-bug-{}", about.name, std::process::id()));
    fs::create_dir(&folder).ok()?;
    let filled = fill(&folder, about, message, running, input, has_output);
    if filled.is_none() {
        let _ = fs::remove_dir_all(&folder);
    }
    filled.map(|()| folder)
}

fn fill(folder: &Path, about: &About, message: &str, running: &Running, input: &Input, has_output: bool) -> Option<()> {
    let args = options(&input.name);
    let tool = std::env::current_exe().map_or_else(|_| about.name.to_string(), |path| path.display().to_string());
    let quoted: String = std::iter::once(&tool).chain(&args).map(|arg| quote(arg) + " ").collect();
    // Options may name files relative to where the tool was run.
    let there = quote(&std::env::current_dir().unwrap_or_default().display().to_string());
    let output = if has_output { "-o \"$here/output\" " } else { "" };
    let script = format!("here=$(cd \"$(dirname \"$0\")\" && pwd)\ncd {there}\n{quoted}{output}\"$here/input\"\n");
    fs::write(folder.join("input"), input.bytes.as_slice()).ok()?;
    fs::write(folder.join("message"), format!("{message}\n")).ok()?;
    fs::write(folder.join("command"), script).ok()?;
    if let Some(before) = running.before {
        write_before(&tool, &args, before, folder);
    }
    Some(())
}

fn quote(arg: &str) -> String {
    format!("'{}'", arg.replace('\'', r"'\''"))
}

/// `before`: the file after the last pass that succeeded.
fn write_before(tool: &str, args: &[String], pass: &str, folder: &Path) {
    let kept =
        args.iter().filter(|arg| !["--stop-after", "--print-after", "--format", "--emit"].iter().any(|name| arg.starts_with(name)));
    let mut command = Command::new(tool);
    command.args(kept).arg(format!("--stop-after={pass}")).arg("-o").arg(folder.join("before")).arg(folder.join("input"));
    let _ = command.env(AGAIN, "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// The command line without the files it names, each option joined to its value.
fn options(input: &str) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut given = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
    while let Some(arg) = given.next() {
        match arg.as_str() {
            "-o" | "--output" => drop(given.next()),
            "-" => {}
            _ if arg.starts_with("--output=") || (arg.starts_with("-o") && !arg.starts_with("--")) => {}
            _ if arg == input => {}
            _ if arg.starts_with('-') => args.push(arg),
            // The value of the option before.
            _ => match args.last_mut() {
                Some(option) if option.starts_with("--") => *option += &format!("={arg}"),
                Some(option) => *option += &arg,
                None => {}
            },
        }
    }
    args
}
