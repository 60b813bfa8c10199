//! `tileirdisasm` prints bytecode as text. It accepts the command line of NVIDIA's tileirdisasm. Clients of tileiras expect a tool
//! with this name in the directory of tileiras.

use base::diag::Style;
use common::cl::{self, Help, Parsed, Section, Spec, Value, alias, immediate, option};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use tileir::bytecode::Features;

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
    option(
        "max-memory",
        Section::Extension,
        Value::Integer,
        "MiB",
        "Memory limit, 0 for none [default: three quarters of the machine's memory]",
    ),
    option("max-time", Section::Extension, Value::Integer, "seconds", "Time limit, 0 for none [default: 1800]"),
    option(
        "preview",
        Section::Tool,
        Value::Features(Features::NAMES),
        "feature[,feature...]",
        "Enable one or more named preview features",
    ),
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
        ("Tileworks Options:\n", Section::Extension),
    ],
    footer: "\nExit codes:\n\n  0 success, 1 usage error, 2 missing input, 3 invalid bytecode, 4 output error or limit exceeded\n",
};

/// The exit code of NVIDIA's tileirdisasm for a wrong command line.
const EXIT_USAGE: u8 = 1;
/// The exit code of NVIDIA's tileirdisasm for an input file that is missing or unreadable.
const EXIT_NO_INPUT: u8 = 2;
/// The exit code of NVIDIA's tileirdisasm for invalid bytecode.
const EXIT_INVALID_INPUT: u8 = 3;
/// The exit code for an output error or an exceeded limit. NVIDIA's tileirdisasm does not have this exit code.
const EXIT_NO_OUTPUT: u8 = 4;

fn main() -> ExitCode {
    let (stdout, stderr, code) = match cl::args() {
        Ok((program, args)) => {
            let parsed = cl::parse(OPTIONS, &program, &args);
            let limit_option = |name| parsed.get(name).and_then(cl::parse_integer).and_then(|number| u64::try_from(number).ok());
            common::Limits { max_memory: limit_option("max-memory"), max_time: limit_option("max-time") }.watch(|reason| {
                let _ = writeln!(std::io::stderr(), "error: tileirdisasm was stopped: {reason}");
                std::process::exit(i32::from(EXIT_NO_OUTPUT));
            });
            run(&program, &parsed)
        }
        Err(message) => (String::new(), format!("error: {message}\n"), EXIT_USAGE),
    };
    // A closed standard error does not change the exit code.
    let _ = std::io::stderr().write_all(stderr.as_bytes());
    if let Err(error) = if stdout.is_empty() { Ok(()) } else { common::write_file(None, stdout.as_bytes()) } {
        let _ = writeln!(std::io::stderr(), "error: {}", error.message);
        return ExitCode::from(EXIT_NO_OUTPUT);
    }
    ExitCode::from(code)
}

/// Executes the command line. Returns the text for standard output, the text for standard error, and the exit code.
fn run(program: &str, parsed: &Parsed) -> (String, String, u8) {
    let mut errors: String = parsed.errors.iter().map(|line| format!("{line}\n")).collect();
    if let Some(name) = parsed.immediate {
        let text = if name == "version" { version_text() } else { HELP.text(name) };
        return (text, errors, 0);
    }
    if parsed.positional.len() > 1 {
        errors += &cl::too_many_positional(program);
    }
    if !errors.is_empty() {
        return (String::new(), errors, EXIT_USAGE);
    }
    let Some(path) = parsed.positional.first().filter(|path| !path.is_empty()) else {
        return (HELP.list(false), "error: no input file provided\n\n".into(), EXIT_NO_INPUT);
    };
    let bytes = match read_input(path) {
        Ok(bytes) => bytes,
        Err(reason) => {
            return (String::new(), format!("error: error: unable to read input file '{path}': {reason}\n\n"), EXIT_NO_INPUT);
        }
    };
    let features = parsed.get("preview").and_then(|list| Features::parse(list).ok()).unwrap_or_default();
    match tileir::import::open_with(&bytes, path, "tileirdisasm", features) {
        Ok(file) => {
            let debug = parsed.flag("print-debug-info").then_some(&file.envelope.debug);
            (tileir::text::print(&file.payload, debug), String::new(), 0)
        }
        Err(diagnostic) => (String::new(), diagnostic.render(Style::Reference, |_| String::new()), EXIT_INVALID_INPUT),
    }
}

/// Reads the input file, or returns the reason why the read fails.
fn read_input(path: &str) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(Path::new(path)).map_err(|error| common::os_error_text(&error))?;
    common::read_at_most(file, path, base::codec::SIZE_LIMIT as u64)
        .map_err(|error| error.message.rsplit_once(": ").map_or(error.message.clone(), |(_, reason)| reason.to_string()))
}

/// Returns the output of `--version`.
fn version_text() -> String {
    format!(
        "tileirdisasm: Tileworks, a CUDA Tile IR disassembler\n\
         This is not NVIDIA's tileirdisasm; it takes the same options and bytecode.\n\
         Tileworks {}\n\
         Cuda compilation tools, release 13.5, V13.5.37\n",
        env!("CARGO_PKG_VERSION")
    )
}
