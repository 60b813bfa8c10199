//! `tileirdisasm`: bytecode as text with the command line of NVIDIA's tool of this name, which clients look for beside tileiras.

use base::diag::Style;
use common::cl::{self, Help, Parsed, Section, Spec, Value, alias, immediate, option};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

static OPTIONS: &[Spec] = &[
    alias("g", "print-debug-info", Section::Tool, "Alias for --print-debug-info"),
    alias("h", "help", Section::Hidden, "Alias for --help"),
    immediate(option("help", Section::Generic, Value::None, "", "Display available options (--help-hidden for more)")),
    immediate(option("help-hidden", Section::Hidden, Value::None, "", "Display all available options")),
    immediate(option(
        "help-list",
        Section::Generic,
        Value::None,
        "",
        "Display list of available options (--help-list-hidden for more)",
    )),
    immediate(option("help-list-hidden", Section::Hidden, Value::None, "", "Display list of all available options")),
    option("preview", Section::Extension, Value::Text, "feature", "Accepted for clients of later versions; nothing depends on it"),
    option("print-all-options", Section::Hidden, Value::Bool, "", "Print all option values after command line parsing"),
    option("print-debug-info", Section::Tool, Value::Bool, "", "Annotate disassembly with debugging information, if present."),
    option("print-options", Section::Hidden, Value::Bool, "", "Print non-default options after command line parsing"),
    immediate(option("version", Section::Generic, Value::None, "", "Display the version of this program")),
];

const HELP: Help = Help {
    options: OPTIONS,
    overview: "OVERVIEW: tileirdisasm: Tileworks, a CUDA Tile IR disassembler (not NVIDIA's)\n\n\
               USAGE: tileirdisasm [options] <tile bytecode file>\n\nOPTIONS:\n",
    headings: &[
        ("Generic Options:\n", Section::Generic),
        ("TileIR Disassembler Options:\n", Section::Tool),
        ("Tileworks Options, which the reference does not have:\n", Section::Extension),
    ],
    more: "\nExit codes:\n\n  0 success, 1 usage, 2 no such input, 3 not bytecode or invalid bytecode\n",
};

/// Exit codes of the reference.
const USAGE: u8 = 1;
const NO_INPUT: u8 = 2;
const INPUT: u8 = 3;

fn main() -> ExitCode {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_else(|| "tileirdisasm".into());
    let parsed = cl::parse(OPTIONS, &program, &words.collect::<Vec<_>>());
    let (stdout, stderr, code) = answer(&program, &parsed);
    // That nobody reads it is no reason to fail.
    let _ = std::io::stderr().write_all(stderr.as_bytes());
    let _ = std::io::stdout().write_all(stdout.as_bytes());
    ExitCode::from(code)
}

/// What goes to standard output and to standard error, and the exit code.
fn answer(program: &str, parsed: &Parsed) -> (String, String, u8) {
    let mut errors: String = parsed.errors.iter().map(|line| format!("{line}\n")).collect();
    if let Some(name) = parsed.immediate {
        let text = if name == "version" { version() } else { HELP.text(name) };
        return (text, errors, 0);
    }
    if parsed.positional.len() > 1 {
        errors += &cl::too_many(program);
    }
    if !errors.is_empty() {
        return (String::new(), errors, USAGE);
    }
    let Some(path) = parsed.positional.first().filter(|path| !path.is_empty()) else {
        return (HELP.list(false), "error: no input file provided\n\n".into(), NO_INPUT);
    };
    let bytes = match std::fs::read(Path::new(path)) {
        Ok(bytes) => bytes,
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or(&reason);
            return (String::new(), format!("error: error: unable to read input file '{path}': {reason}\n\n"), NO_INPUT);
        }
    };
    match tileir::import::open(&bytes, path, "tileirdisasm") {
        Ok(file) => {
            let debug = parsed.flag("print-debug-info").then_some(&file.envelope.debug);
            (tileir::text::print(&file.payload, debug), String::new(), 0)
        }
        Err(diagnostic) => (String::new(), diagnostic.render(Style::Reference, |_| String::new()), INPUT),
    }
}

fn version() -> String {
    format!(
        "tileirdisasm: Tileworks, a CUDA Tile IR disassembler\n\
         This is not NVIDIA's tileirdisasm; it takes the same options and bytecode.\n\
         Tileworks {}\n\
         Cuda compilation tools, release 13.4, V13.4.92\n",
        env!("CARGO_PKG_VERSION")
    )
}
