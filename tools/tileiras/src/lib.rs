//! `tileiras`, the driver: compiles Tile IR bytecode to a cubin by running the stage tools next to it.
//!
//! Command line, exit codes and messages are compatible with NVIDIA's tileiras, so its clients work unchanged. [`common::cl`]
//! parses the command line, [`options`] lists the options, [`compile`] compiles, and `pipeline.toml` ([`pipeline`]) lists the
//! stages.

mod artefact;
mod batch;
mod c_header;
mod cache;
mod compile;
mod container;
mod crash_dir;
mod depfile;
mod doctor;
mod dry_run;
mod failure;
mod help;
mod host;
mod host_compile;
mod ninja;
mod options;
mod pipeline;
mod remarks;
mod run;
mod runner;
mod shell;
mod source;
mod stage_groups;
mod targets;
mod tuned_options;
mod validate;

pub use host::{Host, Stages};
pub use host_compile::{HostOutput, compile as compile_in_host};

use base::diag::Style;
use common::cl::{self, Parsed};
use failure::{DriverError, exit, style};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Checks the text of a pipeline file. Returns the error message for an invalid file.
pub fn check_pipeline(text: &str) -> Result<(), String> {
    pipeline::Pipeline::parse(text, "the pipeline", std::path::Path::new("")).map(drop)
}

/// The environment variable with options that precede the options of the command line.
const EXTRA_OPTIONS_VARIABLE: &str = "TILEWORKS_OPTIONS";

/// Runs the driver: parses the command line, executes it, and returns the exit code.
pub fn main() -> ExitCode {
    common::fail_writes_beyond_file_size_limit();
    let (style, result) = match cl::args() {
        Err(message) => (Style::Reference, Err(DriverError::new(exit::USAGE, message))),
        Ok((program, args)) => {
            let command_line = cl::parse(options::OPTIONS, &program, &args);
            match with_environment_options(command_line, std::env::var_os(EXTRA_OPTIONS_VARIABLE)) {
                Ok(parsed) => {
                    watch_memory(&parsed);
                    (style(&parsed), execute(&program, &parsed))
                }
                Err(driver_error) => (Style::Reference, Err(driver_error)),
            }
        }
    };
    let (text, code) = match result {
        Ok(text) => (text, exit::OK),
        Err(driver_error) => (driver_error.render(style), driver_error.code),
    };
    print(&mut std::io::stderr(), &text);
    ExitCode::from(code)
}

/// Prepends the options `extra` of the environment to a command line, so the command line overrides them. If a pipeline stage
/// started this driver, the driver ignores `extra`, because the outer driver has already applied these options.
fn with_environment_options(command_line: Parsed, extra: Option<OsString>) -> Result<Parsed, DriverError> {
    let Some(extra) = extra.filter(|_| std::env::var_os(pipeline::NESTED_VARIABLE).is_none()) else { return Ok(command_line) };
    let variable_error = |message: &str| DriverError::new(exit::USAGE, format!("{EXTRA_OPTIONS_VARIABLE}: {message}"));
    let extra = extra.into_string().map_err(|_| variable_error("it is not UTF-8"))?;
    let extra = cl::parse(options::OPTIONS, EXTRA_OPTIONS_VARIABLE, &cl::split_arguments(&extra));
    if !extra.errors.is_empty() {
        return Err(DriverError::usage(EXTRA_OPTIONS_VARIABLE, &extra.errors, style(&command_line)));
    }
    if let Some(name) = extra.immediate {
        return Err(variable_error(&format!("{} is allowed on the command line only", cl::dashed(name))));
    }
    if let Some(arg) = extra.positional.first() {
        return Err(variable_error(&format!("'{arg}' is not an option")));
    }
    Ok(Parsed {
        option_values: extra.option_values.into_iter().chain(command_line.option_values).collect(),
        response_files: extra.response_files.into_iter().chain(command_line.response_files).collect(),
        ..command_line
    })
}

/// Starts a watchdog that ends this process and its stages if the driver itself exceeds the memory limit. The driver has no time
/// limit, because a batch may have any number of compilations; `--max-time` limits each stage.
fn watch_memory(parsed: &Parsed) {
    let max_memory = parsed.get("max-memory").and_then(cl::parse_integer).and_then(|number| u64::try_from(number).ok());
    let style = style(parsed);
    common::Limits { max_memory, max_time: Some(0) }.watch(move |reason| {
        let driver_error = DriverError::new(exit::COMPILE, format!("tileiras was stopped: {reason}"));
        print(&mut std::io::stderr(), &driver_error.render(style));
        std::process::exit(i32::from(exit::COMPILE));
    });
}

/// Executes the command line. Returns the text for standard error.
fn execute(program: &str, parsed: &Parsed) -> Result<String, DriverError> {
    let mut errors = parsed.errors.clone();
    if let Some(name) = parsed.immediate {
        print(&mut std::io::stderr(), &DriverError::usage(program, &errors, style(parsed)).render(style(parsed)));
        return match name {
            "doctor" => doctor::check_installation(parsed),
            _ => write_answer(&information_text(name)),
        };
    }
    let has_several_outputs = parsed.get("out-dir").is_some() || parsed.get("emit-ninja").is_some();
    if parsed.positional.len() > 1 && !has_several_outputs {
        errors.extend(cl::too_many_positional(program).lines().map(str::to_string));
    }
    if !errors.is_empty() {
        return Err(DriverError::usage(program, &errors, style(parsed)));
    }
    if let Some(code) = parsed.get("explain") {
        let unknown_code = || DriverError::new(exit::USAGE, format!("there is no code '{code}'; --explain list lists all codes"));
        let text = common::explain::explain(code).ok_or_else(unknown_code)?;
        return write_answer(&text);
    }
    if parsed.flag("cache-stats") {
        let without_cache = || DriverError::new(exit::USAGE, "--cache-stats requires --cache");
        return write_answer(&cache::Cache::from_options(parsed)?.ok_or_else(without_cache)?.statistics());
    }
    if parsed.flag("preview-create-tile-lib") {
        return Err(match parsed.get("preview-interface").map(std::fs::read) {
            Some(Ok(_)) => DriverError::new(exit::CONFIGURATION, "creating tile libraries is not supported"),
            _ => {
                let path = parsed.get("preview-interface").unwrap_or_default();
                DriverError::new(exit::CONFIGURATION, format!("unable to read interface file '{path}': No such file or directory"))
            }
        });
    }
    if parsed.positional.first().is_none_or(String::is_empty) {
        if style(parsed) != Style::Reference {
            return Err(DriverError::new(exit::USAGE, "no input file provided"));
        }
        print(&mut std::io::stderr(), "error: no input file provided\n\n");
        print(&mut std::io::stdout(), &help::HELP.list(false));
        return Err(DriverError::reported(String::new(), exit::USAGE));
    }
    match (parsed.get("emit-ninja"), parsed.get("out-dir")) {
        (Some(path), _) => ninja::write_ninja_file(parsed, path),
        (None, Some(folder)) => batch::compile_all(parsed, folder),
        (None, None) => compile::compile(parsed, &parsed.positional[0], parsed.get("output-file").unwrap_or("elf.o")),
    }
}

/// The text that an immediate option prints, such as `--version` or `--help`.
fn information_text(name: &str) -> String {
    match name {
        "version" => help::version(&toolchain_hash()),
        "list-versions" => help::VERSIONS.to_string(),
        _ => help::HELP.text(name),
    }
}

/// Returns the part of the version text that depends on the installation. It is a hash of the paths, sizes and times of the
/// selected ptxas and libdevice, and of the options in the environment. These files and options affect the generated code, and
/// clients use the version text in their cache keys.
fn toolchain_hash() -> String {
    use common::toolkit::{libdevice, ptxas};
    let toolkit_states = [ptxas(), libdevice()].map(|component| {
        let path = component.ok()?.path;
        let metadata = std::fs::metadata(&path).ok()?;
        let modified = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}", path.display(), metadata.len(), modified.as_nanos()))
    });
    let short_hash = |data: String| blake3::hash(data.as_bytes()).to_hex()[..8].to_string();
    let options = std::env::var_os(EXTRA_OPTIONS_VARIABLE).filter(|options| !options.is_empty());
    let toolkit_hash = match &toolkit_states {
        [None, _] => "no-ptxas".into(),
        [_, None] => "no-libdevice".into(),
        known => short_hash(format!("{known:?}")),
    };
    options.map_or(toolkit_hash.clone(), |options| format!("{toolkit_hash}-{}", short_hash(format!("{options:?}"))))
}

/// Writes information that the user requested to standard output. Returns empty text for standard error, or the write error.
pub(crate) fn write_answer(text: &str) -> Result<String, DriverError> {
    let written = common::write_file(None, text.as_bytes());
    written.map(|()| String::new()).map_err(|error| DriverError::new(exit::CONFIGURATION, error.message))
}

/// Writes text to a stream and ignores write errors, because the reader may close the stream early.
pub(crate) fn print(out: &mut dyn Write, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
