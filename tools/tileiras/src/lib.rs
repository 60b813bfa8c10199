//! `tileiras`, the driver: compiles Tile IR bytecode to a cubin by running the stage tools next to it.
//!
//! Command line, exit codes and messages are compatible with NVIDIA's tileiras, so its clients work unchanged. [`common::cl`]
//! parses the command line, [`options`] lists the options, [`compile`] compiles, and `pipeline.toml` ([`pipeline`]) lists the
//! stages.

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

/// Checks the text of a pipeline file.
pub fn check_pipeline(text: &str) -> Result<(), String> {
    pipeline::Pipeline::parse(text, "the pipeline", std::path::Path::new("")).map(drop)
}

/// The environment variable with extra options.
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

/// Prepends the options of the environment to a command line, so the command line overrides them. A driver that a pipeline stage
/// started ignores the environment: its caller has applied the options already.
fn with_environment(line: Parsed, more: Option<OsString>) -> Result<Parsed, Stop> {
    let Some(more) = more.filter(|_| std::env::var_os(pipeline::NESTED).is_none()) else { return Ok(line) };
    let wrong = |what: &str| Stop::new(exit::USAGE, format!("{MORE_OPTIONS}: {what}"));
    let more = more.into_string().map_err(|_| wrong("it is not UTF-8"))?;
    let more = cl::parse(options::OPTIONS, MORE_OPTIONS, &cl::split(&more));
    if !more.errors.is_empty() {
        return Err(Stop::misused(MORE_OPTIONS, &more.errors, style(&line)));
    }
    if let Some(name) = more.immediate {
        return Err(wrong(&format!("{} is allowed on the command line only", cl::dashed(name))));
    }
    if let Some(arg) = more.positional.first() {
        return Err(wrong(&format!("'{arg}' is not an option")));
    }
    Ok(Parsed {
        given: more.given.into_iter().chain(line.given).collect(),
        response_files: more.response_files.into_iter().chain(line.response_files).collect(),
        ..line
    })
}

/// Ends this process and its stages if the driver itself exceeds the memory limit. The time limit applies to each stage only,
/// because the number of compilations is not limited.
fn watch(parsed: &Parsed) {
    let max_memory = parsed.get("max-memory").and_then(cl::parse_integer).and_then(|number| u64::try_from(number).ok());
    let style = style(parsed);
    common::Limits { max_memory, max_time: Some(0) }.watch(move |reason| {
        let stop = Stop::new(exit::COMPILE, format!("tileiras was stopped: {reason}"));
        print(&mut std::io::stderr(), &stop.rendered(style));
        std::process::exit(i32::from(exit::COMPILE));
    });
}

/// Executes the command line. Returns the text for standard error.
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
        let unknown = || Stop::new(exit::USAGE, format!("there is no code '{code}'; --explain list lists all codes"));
        let text = common::explain::explain(code).ok_or_else(unknown)?;
        return answer_with(&text);
    }
    if parsed.flag("preview-create-tile-lib") {
        return Err(match parsed.get("preview-interface").map(std::fs::read) {
            Some(Ok(_)) => Stop::new(exit::CONFIGURATION, "creating tile libraries is not supported"),
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

/// A short hash of the selected ptxas and libdevice and of the options in the environment, because they affect the generated code.
/// Clients use the version in the keys of their caches.
fn toolchain() -> String {
    use common::toolkit::{libdevice, ptxas};
    let described = [ptxas(), libdevice()].map(|found| {
        let path = found.ok()?.path;
        let data = std::fs::metadata(&path).ok()?;
        let modified = data.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}", path.display(), data.len(), modified.as_nanos()))
    });
    let short = |data: String| blake3::hash(data.as_bytes()).to_hex()[..8].to_string();
    let options = std::env::var_os(MORE_OPTIONS).filter(|options| !options.is_empty());
    let tools = match &described {
        [None, _] => "no-ptxas".into(),
        [_, None] => "no-libdevice".into(),
        all => short(format!("{all:?}")),
    };
    options.map_or(tools.clone(), |options| format!("{tools}-{}", short(format!("{options:?}"))))
}

/// Writes requested information to standard output; a write error is a failure.
pub(crate) fn answer_with(text: &str) -> Result<String, Stop> {
    let written = common::write_file(None, text.as_bytes());
    written.map(|()| String::new()).map_err(|error| Stop::new(exit::CONFIGURATION, error.message))
}

/// Writes and ignores errors: a closed reader is not a failure.
pub(crate) fn print(out: &mut dyn Write, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
