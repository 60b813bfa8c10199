//! `tile-reduce` reduces a test case: it removes parts of a program as long as a command fails on the program in the same way.

use base::diag::{Diagnostic, Result};
use base::envelope::{Form, Sniffed, sniff};
use base::{Envelope, File};
use case_reducer::Program;
use common::{About, Session};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const ABOUT: About = About {
    name: "tile-reduce",
    summary: "Reduces a Tile IR program while a command keeps failing on it in the same way",
    examples: &[
        ("tile-reduce k.tileirbc -o small.tileirbc -- tileiras {} --gpu-name=sm_90 -o /dev/null", "a failure of the driver"),
        ("tile-reduce k.tile --prints PX900 -o small.tile -- ./compile.sh", "a failure with a given message"),
        ("tile-reduce k.mlir -- sh -c 'tile-read $0 | tile-lower-aa -o /dev/null' {}", "a failure of several tools"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    /// The command; `{}` is replaced by the program's file, which is appended if there is no `{}`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Text that the command must print, to standard output or standard error
    #[arg(long, value_name = "TEXT")]
    prints: Option<String>,
    /// Time limit of the command in seconds; a timeout counts as one way to fail
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u32,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, run)
}

/// Reduces the input program and writes the result.
fn run(session: &mut Session, options: &Options) -> Result<()> {
    let input = session.input()?;
    let file = tileir::import::open(&input.bytes, &input.name, &session.producer())?;
    let form = FileForm::detect(&input.bytes);
    let folder = tempfile::Builder::new().prefix("tile-reduce-").tempdir();
    let folder = folder.map_err(|error| {
        Diagnostic::io("RED001", format!("cannot create a folder for programs: {}", common::os_error_text(&error)))
    })?;
    let path = folder.path().join("program");
    let original = Program { module: file.payload, debug: file.envelope.debug };
    let run_on = |program: &Program| -> Result<CommandResult> {
        common::write_file(Some(&path), &form.write(program)?)?;
        run_command(options, &path)
    };
    let expected_result = run_on(&original)?;
    if options.prints.is_some() && !expected_result.prints_text {
        return Err(Diagnostic::usage("RED002", "the command does not print the text for the original program"));
    }
    if options.prints.is_none() && expected_result.code == Some(0) {
        return Err(Diagnostic::usage("RED002", "the command succeeds on the original program, so there is nothing to reduce"));
    }
    let (original_size, mut command_runs) = (original.size(), 0);
    let reduced = session.timed("reduce", |_| {
        case_reducer::reduce(original, &mut |program| {
            command_runs += 1;
            run_on(program).is_ok_and(|result| result == expected_result)
        })
    });
    session.write_stderr(&format!(
        "reduced {original_size} bytes of text to {} in {command_runs} runs of the command",
        reduced.size()
    ));
    session.write_bytes(&form.write(&reduced)?, form != FileForm::Text)
}

/// The form of the input file. The reduced program has the same form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileForm {
    Bytecode,
    Stage,
    Text,
}

impl FileForm {
    /// Returns the form of a file with this content.
    fn detect(bytes: &[u8]) -> FileForm {
        match sniff(bytes) {
            Sniffed::Stage { .. } => FileForm::Stage,
            Sniffed::Text => FileForm::Text,
            _ => FileForm::Bytecode,
        }
    }

    /// Encodes a program in this form.
    fn write(self, program: &Program) -> Result<Vec<u8>> {
        let Program { module, debug } = program;
        match self {
            FileForm::Bytecode => tileir::bytecode::write(module, debug, module.version),
            FileForm::Text => Ok((tileir::text::header(module) + &tileir::text::print_complete(module, debug)).into_bytes()),
            FileForm::Stage => {
                let mut envelope = Envelope::new::<tileir::Module>(tileir::import::PHASE, "tile-reduce", &[]);
                envelope.debug = debug.clone();
                File { envelope, payload: module.clone() }.write(Form::Binary)
            }
        }
    }
}

/// The properties of the command's run that every reduction step must preserve.
#[derive(PartialEq, Eq)]
struct CommandResult {
    /// The exit code; `None` if a signal terminated the command. Also `None` with `--prints`, because then only the output counts.
    code: Option<i32>,
    /// Whether the command prints the text of `--prints`.
    prints_text: bool,
}

/// Runs the command on a program file.
fn run_command(options: &Options, program: &Path) -> Result<CommandResult> {
    let path = program.as_os_str();
    let mut arguments: Vec<OsString> = options.command.clone();
    match arguments.iter_mut().find(|word| *word == "{}") {
        Some(word) => *word = path.into(),
        None => arguments.push(path.into()),
    }
    let mut command = Command::new("timeout");
    command.arg(options.patience.to_string()).args(&arguments);
    let output = common::child::run_captured(&mut command, None).map_err(|error| {
        let name = PathBuf::from(&arguments[0]);
        Diagnostic::io("RED001", format!("cannot start 'timeout' for {}: {}", name.display(), common::os_error_text(&error)))
    })?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let prints_text = options.prints.as_ref().is_some_and(|expected| text.contains(expected.as_str()));
    Ok(CommandResult { code: output.status.code().filter(|_| options.prints.is_none()), prints_text })
}
