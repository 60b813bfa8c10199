//! Internal errors (panics): the report and the crash directory.
//!
//! The crash directory holds the input, the IR before the failing pass, the message, and a script that reproduces the error. Tools
//! are deterministic, so this module gets the IR by running the tool a second time with `--stop-after`. Runs without an internal
//! error therefore need not save the IR after each pass.

use crate::about::About;
use crate::files::Input;
use crate::report::{ErrorFormat, Reporter, write_stderr};
use crate::running::{self, Running};
use base::diag::Diagnostic;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that marks the second run of a tool, which repeats an internal error to get the IR. A marked run
/// writes no crash directory.
const REPRODUCING: &str = "TILEWORKS_REPRODUCING";
/// The environment variable whose value, e.g. `tile-lower-aa:fold`, names a tool and one of its steps. In debug builds that step
/// panics, which tests this module.
const FAIL_IN: &str = "TILEWORKS_FAIL_IN";

/// The message and source location of the panic, recorded by the panic hook.
pub(crate) static PANIC: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

/// Panics in debug builds if the environment variable `TILEWORKS_FAIL_IN` names this tool and step.
pub(crate) fn fail_if_requested(about: &About, step: &str) {
    if cfg!(debug_assertions) && std::env::var(FAIL_IN).is_ok_and(|requested| requested == format!("{}:{step}", about.name)) {
        panic!("{FAIL_IN} requests it");
    }
}

/// Reports the internal error with the step in which it occurred, and writes the crash directory. `has_output`: the tool has the
/// option `-o`.
pub(crate) fn report(about: &About, reporter: Reporter, has_output: bool) {
    let message = PANIC.lock().unwrap_or_else(|error| error.into_inner()).clone();
    let running = running::running().clone();
    let in_pass = running.step.map(|pass| format!(" in pass '{pass}'")).unwrap_or_default();
    let mut error = Diagnostic::io("BUG001", format!("internal error of {}{in_pass}: {message}", about.name));
    if let Some(folder) = write_crash_directory(about, &error.message, &running, has_output) {
        error =
            error.note(format!("this is a bug of the tool, not of its input; reproduce it with: sh {}/command", folder.display()));
    }
    if reporter.0 == ErrorFormat::Reference {
        write_stderr(&format!("error: {}\n", error.message));
    } else {
        reporter.report(&error);
    }
}

/// Writes the crash directory and returns its path. Returns `None` if the tool has not read its input, if this is the second run,
/// or if writing fails.
fn write_crash_directory(about: &About, message: &str, running: &Running, has_output: bool) -> Option<PathBuf> {
    let input = running.input.as_ref()?;
    if std::env::var_os(REPRODUCING).is_some() {
        return None;
    }
    let folder = std::env::temp_dir().join(format!("{}-bug-{}", about.name, std::process::id()));
    fs::create_dir(&folder).ok()?;
    let written = write_crash_files(&folder, about, message, running, input, has_output);
    if written.is_none() {
        let _ = fs::remove_dir_all(&folder);
    }
    written.map(|()| folder)
}

/// Writes the files of the crash directory. Returns `None` if a write fails.
fn write_crash_files(
    folder: &Path,
    about: &About,
    message: &str,
    running: &Running,
    input: &Input,
    has_output: bool,
) -> Option<()> {
    let args = options_without_files(&input.name);
    let tool = std::env::current_exe().map_or_else(|_| about.name.to_string(), |path| path.display().to_string());
    let quoted_args: String = std::iter::once(&tool).chain(&args).map(|arg| quote(arg) + " ").collect();
    // The script changes to the current folder, because options may contain paths relative to it.
    let current_dir = quote(&std::env::current_dir().unwrap_or_default().display().to_string());
    let output_option = if has_output { "-o \"$here/output\" " } else { "" };
    let script =
        format!("here=$(cd \"$(dirname \"$0\")\" && pwd)\ncd {current_dir}\n{quoted_args}{output_option}\"$here/input\"\n");
    fs::write(folder.join("input"), input.bytes.as_slice()).ok()?;
    fs::write(folder.join("message"), format!("{message}\n")).ok()?;
    fs::write(folder.join("command"), script).ok()?;
    if let Some(last_pass) = running.last_pass {
        write_ir_before(&tool, &args, last_pass, folder);
    }
    Some(())
}

/// Quotes an argument for the shell.
fn quote(arg: &str) -> String {
    format!("'{}'", arg.replace('\'', r"'\''"))
}

/// Writes the file `before`: the IR after `pass`, the last successful pass. Errors are ignored, because the other files suffice to
/// reproduce the internal error.
fn write_ir_before(tool: &str, args: &[String], pass: &str, folder: &Path) {
    let other_args =
        args.iter().filter(|arg| !["--stop-after", "--print-after", "--format", "--emit"].iter().any(|name| arg.starts_with(name)));
    let mut rerun = Command::new(tool);
    rerun.args(other_args).arg(format!("--stop-after={pass}")).arg("-o").arg(folder.join("before")).arg(folder.join("input"));
    let _ = rerun.env(REPRODUCING, "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Returns the arguments of the command line without the input and output files. Each option is joined to its value.
fn options_without_files(input: &str) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut remaining_args = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
    while let Some(arg) = remaining_args.next() {
        match arg.as_str() {
            "-o" | "--output" => drop(remaining_args.next()),
            "-" => {}
            _ if arg.starts_with("--output=") || (arg.starts_with("-o") && !arg.starts_with("--")) => {}
            _ if arg == input => {}
            _ if arg.starts_with('-') => args.push(arg),
            // The value of the previous option.
            _ => match args.last_mut() {
                Some(option) if option.starts_with("--") => *option += &format!("={arg}"),
                Some(option) => *option += &arg,
                None => {}
            },
        }
    }
    args
}
