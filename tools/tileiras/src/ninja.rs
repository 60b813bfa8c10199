//! `--emit-ninja FILE`: a ninja file for many compilations, for sweeps over kernels, targets and levels.
//!
//! Every step is a plain command with its inputs and outputs declared (all are known, so there are no depfiles), so the file also
//! runs where commands are sent to other machines: `launcher` goes before each. Options from response files are written out; the
//! file is made again when one of them changes.

use crate::batch;
use crate::compile::quote;
use crate::depfile::utf8;
use crate::failure::{Stop, exit};
use crate::options::{DECISIONS, OPTIONS};
use crate::pipeline::Pipeline;
use common::cl::Value;
use common::cl::{Parsed, dashed};
use std::fmt::Write as _;
use std::path::Path;

/// Options that each command is given as they stand, before and behind what a user decides.
const BEFORE: [&str; 3] = ["max-memory", "max-time", "check-bounds"];
const FORWARDED: [&str; 13] = [
    "lineinfo",
    "device-debug",
    "host-arch",
    "host-os",
    "sanitize",
    "ptxas-options",
    "emit",
    "format",
    "stop-after",
    "pipeline",
    "cache",
    "cache-size",
    "error-format",
];

/// Writes the file. Folders among the inputs stand for the bytecode files in them.
pub(crate) fn emit(parsed: &Parsed, path: &str) -> Result<String, Stop> {
    let parsed = Parsed { positional: inputs(parsed)?, ..parsed.clone() };
    let jobs = batch::jobs(&parsed, parsed.get("out-dir").unwrap_or("build"))?;
    let driver = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_else(|_| "tileiras".into());
    let mut options: Vec<String> = Vec::new();
    for &name in BEFORE.iter().chain(DECISIONS).chain(&FORWARDED) {
        let Some(value) = parsed.get(name) else { continue };
        let boolean = OPTIONS.iter().any(|spec| spec.name == name && spec.value == Value::Bool);
        options.push(if boolean { format!("{}={}", dashed(name), parsed.flag(name)) } else { format!("{}={value}", dashed(name)) });
    }
    let options: Vec<String> = options.iter().map(|option| quote(option)).collect();
    let mut out = String::from("# Written by tileiras --emit-ninja. `launcher` is put before every command.\nlauncher =\n");
    // Ninja has no escape for this character, but takes it from a variable.
    out += "pipe = |\n";
    let _ =
        writeln!(out, "tileiras = {}", in_variable(&quote(&utf8(driver).map_err(|error| Stop::new(exit::USAGE, error.message))?))?);
    let _ = writeln!(out, "options = {}", in_variable(&options.join(" "))?);
    out += "\nrule tileiras\n  command = $launcher $tileiras $own $options -o $out -- $in\n  restat = 1\n  description = $out\n";
    out += "\nbuild toolchain: phony";
    for path in toolchain(&parsed)? {
        let _ = write!(out, " $\n  {}", in_path(&path)?);
    }
    out.push('\n');
    if !parsed.response_files.is_empty() && path != "-" {
        out += &again(&parsed, path)?;
    }
    for job in &jobs {
        let own = ["gpu-name", "opt-level"].iter().filter_map(|name| Some(format!("{}={}", dashed(name), job.parsed.get(name)?)));
        let _ = writeln!(out, "\nbuild {}: tileiras {} | toolchain", in_path(&job.output)?, in_path(&job.input)?);
        let _ = writeln!(out, "  own = {}", own.collect::<Vec<_>>().join(" "));
    }
    let written = common::write_file((path != "-").then_some(Path::new(path)), out.as_bytes());
    written.map_err(|error| Stop::new(exit::CONFIGURATION, error.message))?;
    Ok(String::new())
}

/// The rule that writes the file again.
fn again(parsed: &Parsed, path: &str) -> Result<String, Stop> {
    let args: Vec<String> = std::env::args_os().skip(1).map(|arg| quote(&arg.to_string_lossy())).collect();
    let mut out = format!("\nrule again\n  command = $tileiras {}\n  generator = 1\n  restat = 1\n", in_variable(&args.join(" "))?);
    let _ = write!(out, "\nbuild {}: again", in_path(path)?);
    for file in &parsed.response_files {
        let _ = write!(out, " {}", in_path(file)?);
    }
    out.push('\n');
    Ok(out)
}

/// What every output depends on besides its input.
fn toolchain(parsed: &Parsed) -> Result<Vec<String>, Stop> {
    let bad = |message: String| Stop::new(exit::CONFIGURATION, message);
    let (pipeline, _) = Pipeline::load(parsed.get("pipeline")).map_err(bad)?;
    let steps = pipeline.plan(parsed).map_err(bad)?;
    crate::depfile::toolchain(parsed, &steps).map_err(|error| Stop::new(exit::USAGE, error.message))
}

fn inputs(parsed: &Parsed) -> Result<Vec<String>, Stop> {
    let mut inputs = Vec::new();
    for input in &parsed.positional {
        if !Path::new(input).is_dir() {
            inputs.push(input.clone());
            continue;
        }
        let entries = std::fs::read_dir(input)
            .map_err(|error| Stop::new(exit::USAGE, format!("unable to read folder '{input}': {}", common::plain(&error))))?;
        let mut found = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_bytecode(path)) {
            found.push(utf8(path).map_err(|error| Stop::new(exit::USAGE, error.message))?);
        }
        found.sort();
        if found.is_empty() {
            return Err(Stop::new(exit::USAGE, format!("there is no bytecode file in folder '{input}'")));
        }
        inputs.extend(found);
    }
    Ok(inputs)
}

fn is_bytecode(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"\x7fTileIR\0"
}

/// A file name in a build line.
fn in_path(name: &str) -> Result<String, Stop> {
    if name.contains('\t') {
        return Err(Stop::new(exit::USAGE, format!("ninja's log cannot name {name:?}, which has a tab")));
    }
    let escaped = in_variable(name)?;
    Ok(escaped.replace(' ', "$ ").replace(':', "$:").replace('|', "${pipe}"))
}

/// Text in the value of a variable.
fn in_variable(text: &str) -> Result<String, Stop> {
    if text.contains(['\n', '\r']) {
        return Err(Stop::new(exit::USAGE, format!("a ninja file cannot name {text:?}, which has a line break")));
    }
    Ok(text.replace('$', "$$"))
}
