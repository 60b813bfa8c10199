//! `tileiras`: from Tile IR bytecode to a cubin, by running the stage tools that lie beside it.
//!
//! The command line, the exit codes and the messages are those of NVIDIA's tool of this name, so that its clients can use this
//! one: [`common::cl`] parses, [`options`] lists, [`drive`] compiles. What the stages are is in `pipeline.toml` ([`pipeline`]).

mod artefact;
mod bug;
mod cache;
mod depfile;
mod drive;
mod explain;
mod help;
mod many;
mod ninja;
mod options;
mod pipeline;
mod remarks;
mod run;

use common::cl::{self, Parsed};
use drive::{Stop, exit};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    common::limit_of_file_sizes_is_an_error();
    let result = cl::words().map_err(|message| Stop::new(exit::USAGE, message));
    let result = result.and_then(|(program, words)| answer(&program, &cl::parse(options::OPTIONS, &program, &words)));
    ExitCode::from(match result {
        Ok(text) => {
            print(&mut std::io::stderr(), &text);
            exit::OK
        }
        Err(stop) => {
            print(&mut std::io::stderr(), &stop.text);
            stop.code
        }
    })
}

/// Does what the command line asks. Gives what goes to standard error at the end.
fn answer(program: &str, parsed: &Parsed) -> Result<String, Stop> {
    let mut errors: String = parsed.errors.iter().map(|line| format!("{line}\n")).collect();
    if let Some(name) = parsed.immediate {
        print(&mut std::io::stderr(), &errors);
        return answer_with(&information(name));
    }
    let several = parsed.get("out-dir").is_some() || parsed.get("emit-ninja").is_some();
    if parsed.positional.len() > 1 && !several {
        errors += &cl::too_many(program);
    }
    if !errors.is_empty() {
        return Err(Stop { code: exit::USAGE, text: errors });
    }
    if let Some(code) = parsed.get("explain") {
        let text = explain::explain(code).ok_or_else(|| Stop::new(exit::USAGE, format!("there is no code '{code}'")))?;
        return answer_with(&text);
    }
    if parsed.flag("preview-create-tile-lib") {
        return Err(match parsed.get("preview-interface").map(std::fs::read) {
            Some(Ok(_)) => Stop::new(exit::CONFIGURATION, "making tile libraries is not supported"),
            _ => {
                let path = parsed.get("preview-interface").unwrap_or_default();
                Stop::new(exit::CONFIGURATION, format!("unable to read interface file '{path}': No such file or directory"))
            }
        });
    }
    if parsed.positional.first().is_none_or(String::is_empty) {
        print(&mut std::io::stderr(), "error: no input file provided\n\n");
        print(&mut std::io::stdout(), &help::HELP.list(false));
        return Err(Stop { code: exit::USAGE, text: String::new() });
    }
    match (parsed.get("emit-ninja"), parsed.get("out-dir")) {
        (Some(path), _) => ninja::emit(parsed, path),
        (None, Some(folder)) => many::compile(parsed, folder),
        (None, None) => drive::compile(parsed, &parsed.positional[0], parsed.get("output-file").unwrap_or("elf.o")),
    }
}

fn information(name: &str) -> String {
    match name {
        "version" => help::version(&toolchain()),
        "list-versions" => help::VERSIONS.to_string(),
        _ => help::HELP.text(name),
    }
}

/// A short name for the ptxas and libdevice that would be used: others may generate other code.
fn toolchain() -> String {
    use common::toolkit::{libdevice, ptxas};
    let described = [ptxas(), libdevice()].map(|found| {
        let path = found.ok()?.path;
        let data = std::fs::metadata(&path).ok()?;
        let modified = data.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}", path.display(), data.len(), modified.as_nanos()))
    });
    match &described {
        [None, _] => "no-ptxas".into(),
        [_, None] => "no-libdevice".into(),
        all => blake3::hash(format!("{all:?}").as_bytes()).to_hex()[..8].to_string(),
    }
}

/// Writes what was asked for to standard output; that it cannot be is a failure.
pub(crate) fn answer_with(text: &str) -> Result<String, Stop> {
    let written = common::write_file(None, text.as_bytes());
    written.map(|()| String::new()).map_err(|error| Stop::new(exit::CONFIGURATION, error.message))
}

/// Writes; that nobody reads is no reason to fail.
pub(crate) fn print(out: &mut dyn Write, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
