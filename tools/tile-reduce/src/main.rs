//! `tile-reduce`: test-case reduction. It shrinks a program as long as a command keeps failing in the same way.

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
    forms: false,
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

fn run(session: &mut Session, options: &Options) -> Result<()> {
    let input = session.input()?;
    let file = tileir::import::open(&input.bytes, &input.name, &session.producer())?;
    let form = Written::of(&input.bytes);
    let folder = tempfile::Builder::new().prefix("tile-reduce-").tempdir();
    let folder = folder.map_err(|error| {
        Diagnostic::io("RED001", format!("cannot create a folder for programs: {}", common::os_error_text(&error)))
    })?;
    let path = folder.path().join("program");
    let start = Program { module: file.payload, debug: file.envelope.debug };
    let test = |program: &Program| -> Result<Ended> {
        common::write_file(Some(&path), &form.write(program)?)?;
        ended(options, &path)
    };
    let expected = test(&start)?;
    if options.prints.is_some() && !expected.said {
        return Err(Diagnostic::usage("RED002", "the command does not print the text for the original program"));
    }
    if options.prints.is_none() && expected.code == Some(0) {
        return Err(Diagnostic::usage("RED002", "the command succeeds on the original program, so there is nothing to reduce"));
    }
    let (before, mut tries) = (start.size(), 0);
    let small = session.timed("reduce", |_| {
        case_reducer::reduce(start, &mut |program| {
            tries += 1;
            test(program).is_ok_and(|ended| ended == expected)
        })
    });
    session.write_stderr(&format!("reduced {before} bytes of text to {} in {tries} runs of the command", small.size()));
    session.write_bytes(&form.write(&small)?, form != Written::Text)
}

/// The form of the program's file, which the output keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Bytecode,
    Stage,
    Text,
}

impl Written {
    fn of(bytes: &[u8]) -> Written {
        match sniff(bytes) {
            Sniffed::Stage { .. } => Written::Stage,
            Sniffed::Text => Written::Text,
            _ => Written::Bytecode,
        }
    }

    fn write(self, program: &Program) -> Result<Vec<u8>> {
        let Program { module, debug } = program;
        match self {
            Written::Bytecode => tileir::bytecode::write(module, debug, module.version),
            Written::Text => Ok((tileir::text::header(module) + &tileir::text::print_complete(module, debug)).into_bytes()),
            Written::Stage => {
                let mut envelope = Envelope::new::<tileir::Module>(tileir::import::PHASE, "tile-reduce", &[]);
                envelope.debug = debug.clone();
                File { envelope, payload: module.clone() }.write(Form::Binary)
            }
        }
    }
}

/// The properties of the command's result that every reduction step must preserve.
#[derive(PartialEq, Eq)]
struct Ended {
    /// None if a signal terminated it. Ignored if the output decides.
    code: Option<i32>,
    said: bool,
}

fn ended(options: &Options, program: &Path) -> Result<Ended> {
    let path = program.as_os_str();
    let mut words: Vec<OsString> = options.command.clone();
    match words.iter_mut().find(|word| *word == "{}") {
        Some(word) => *word = path.into(),
        None => words.push(path.into()),
    }
    let mut command = Command::new("timeout");
    command.arg(options.patience.to_string()).args(&words);
    let output = common::child::output(&mut command, None).map_err(|error| {
        let name = PathBuf::from(&words[0]);
        Diagnostic::io("RED001", format!("cannot run {}: {}", name.display(), common::os_error_text(&error)))
    })?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let said = options.prints.as_ref().is_some_and(|expected| text.contains(expected.as_str()));
    Ok(Ended { code: output.status.code().filter(|_| options.prints.is_none()), said })
}
