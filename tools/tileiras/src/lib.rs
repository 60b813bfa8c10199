//! `tileiras`: from Tile IR bytecode to a cubin, by running the stage tools that lie beside it.
//!
//! The command line, the exit codes and the messages are those of NVIDIA's tool of this name, so that its clients can use this
//! one: [`common::cl`] parses, [`options`] lists, [`drive`] compiles. What the stages are is in `pipeline.toml` ([`pipeline`]).

mod artefact;
mod batch;
mod cache;
mod compile;
mod crash_dir;
mod depfile;
mod doctor;
mod failure;
mod help;
mod ninja;
mod options;
mod pipeline;
mod remarks;
mod run;

use base::diag::Style;
use common::cl::{self, Parsed};
use failure::{Stop, exit, style};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// What is wrong with the text of a pipeline file.
pub fn check_pipeline(text: &str) -> Result<(), String> {
    pipeline::Pipeline::parse(text, "the pipeline", std::path::Path::new("")).map(drop)
}

/// Names the variable with more options.
const MORE_OPTIONS: &str = "TILEWORKS_OPTIONS";

/// The tool, from its command line to its exit code.
pub fn main() -> ExitCode {
    common::limit_of_file_sizes_is_an_error();
    let (style, result) = match cl::args() {
        Err(message) => (Style::Reference, Err(Stop::new(exit::USAGE, message))),
        Ok((program, args)) => {
            let line = cl::parse(options::OPTIONS, &program, &args);
            match with_environment(line, std::env::var_os(MORE_OPTIONS)) {
                Ok(parsed) => {
                    watch(&parsed);
                    (style(&parsed), answer(&program, &parsed))
                }
                Err(stop) => (Style::Reference, Err(stop)),
            }
        }
    };
    let (text, code) = match result {
        Ok(text) => (text, exit::OK),
        Err(stop) => (stop.rendered(style), stop.code),
    };
    print(&mut std::io::stderr(), &text);
    ExitCode::from(code)
}

/// A command line with the options of the environment before its own: of an option that counts once, the command line's counts.
/// A driver that a stage of a pipeline starts has had them already.
fn with_environment(line: Parsed, more: Option<OsString>) -> Result<Parsed, Stop> {
    let Some(more) = more.filter(|_| std::env::var_os(pipeline::NESTED).is_none()) else { return Ok(line) };
    let wrong = |what: &str| Stop::new(exit::USAGE, format!("{MORE_OPTIONS}: {what}"));
    let more = more.into_string().map_err(|_| wrong("it is not UTF-8"))?;
    let more = cl::parse(options::OPTIONS, MORE_OPTIONS, &cl::split(&more));
    if !more.errors.is_empty() {
        return Err(Stop::misused(MORE_OPTIONS, &more.errors, style(&line)));
    }
    if let Some(name) = more.immediate {
        return Err(wrong(&format!("{} is for the command line", cl::dashed(name))));
    }
    if let Some(arg) = more.positional.first() {
        return Err(wrong(&format!("'{arg}' is no option")));
    }
    Ok(Parsed {
        given: more.given.into_iter().chain(line.given).collect(),
        response_files: more.response_files.into_iter().chain(line.response_files).collect(),
        ..line
    })
}

/// Ends this process, and its stages with it, where it takes too much memory itself. Time is the stages': how many there are is not
/// limited.
fn watch(parsed: &Parsed) {
    let max_memory = parsed.get("max-memory").and_then(cl::parse_integer).and_then(|number| u64::try_from(number).ok());
    let style = style(parsed);
    common::Limits { max_memory, max_time: Some(0) }.watch(move |reason| {
        let stop = Stop::new(exit::COMPILE, format!("tileiras was stopped: {reason}"));
        print(&mut std::io::stderr(), &stop.rendered(style));
        std::process::exit(i32::from(exit::COMPILE));
    });
}

/// Does what the command line asks. Gives what goes to standard error at the end.
fn answer(program: &str, parsed: &Parsed) -> Result<String, Stop> {
    let mut errors = parsed.errors.clone();
    if let Some(name) = parsed.immediate {
        print(&mut std::io::stderr(), &Stop::misused(program, &errors, style(parsed)).rendered(style(parsed)));
        return match name {
            "doctor" => doctor::examine(parsed),
            _ => answer_with(&information(name)),
        };
    }
    let several = parsed.get("out-dir").is_some() || parsed.get("emit-ninja").is_some();
    if parsed.positional.len() > 1 && !several {
        errors.extend(cl::too_many(program).lines().map(str::to_string));
    }
    if !errors.is_empty() {
        return Err(Stop::misused(program, &errors, style(parsed)));
    }
    if let Some(code) = parsed.get("explain") {
        let unknown = || Stop::new(exit::USAGE, format!("there is no code '{code}'; --explain list shows all"));
        let text = common::explain::explain(code).ok_or_else(unknown)?;
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
        if style(parsed) != Style::Reference {
            return Err(Stop::new(exit::USAGE, "no input file provided"));
        }
        print(&mut std::io::stderr(), "error: no input file provided\n\n");
        print(&mut std::io::stdout(), &help::HELP.list(false));
        return Err(Stop::silent(String::new(), exit::USAGE));
    }
    match (parsed.get("emit-ninja"), parsed.get("out-dir")) {
        (Some(path), _) => ninja::emit(parsed, path),
        (None, Some(folder)) => batch::compile(parsed, folder),
        (None, None) => compile::compile(parsed, &parsed.positional[0], parsed.get("output-file").unwrap_or("elf.o")),
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
