//! `tile-diff` shows the difference between two files of the same kind as text. It ignores the numbers of values and registers,
//! because an inserted op changes the numbers in all later lines.

use base::diag::{Diagnostic, Result};
use base::envelope::{Sniffed, sniff};
use base::{File, Payload};
use common::{About, Colour, Input};
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-diff",
    summary: "Shows the difference between two files of the pipeline; prints nothing for equal programs",
    examples: &[
        ("tile-diff before.sched after.sched", "layouts, ops, schedules and buffers"),
        ("tile-diff k.tileirbc k.tile", "programs in different forms"),
        ("tile-diff O0.ptx O3.ptx", "instructions, regardless of register names"),
        ("tile-diff ours.cubin theirs.cubin", "kernels and their resources"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    /// The file to compare the input with
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let Some(other) = &options.other else {
            return Err(Diagnostic::usage("DIF001", "expected two files: tile-diff FIRST SECOND"));
        };
        let first = session.input()?;
        let second = common::read_file(Some(other))?;
        let kinds = [&first, &second].map(file_kind);
        if kinds[0] != kinds[1] {
            let message = format!("{} is {}, and {} is {}", first.name, kinds[0], second.name, kinds[1]);
            return Err(Diagnostic::usage("DIF002", message));
        }
        let producer = session.producer();
        let (before, after) = (file_text(&first, &producer)?, file_text(&second, &producer)?);
        let colour = if session.output_path().is_none() { Colour::for_stdout() } else { Colour::No };
        session.write_bytes(common::difference(&before, &after, colour).as_bytes(), false)
    })
}

/// Returns the kind of a file. Bytecode, MLIR text and `.tile` have the same kind. Each other format is a separate kind.
fn file_kind(input: &Input) -> String {
    match sniff(&input.bytes) {
        Sniffed::Bytecode | Sniffed::Text | Sniffed::Other => "a program".into(),
        Sniffed::Stage { format, .. } if format == tileir::Module::FORMAT => "a program".into(),
        other => other.describe(),
    }
}

/// Returns the text of a file of any kind. The text contains no lines that state the origin of the file.
fn file_text(input: &Input, producer: &str) -> Result<String> {
    match sniff(&input.bytes) {
        Sniffed::Stage { format, .. } if format == tileaa::Module::FORMAT => stage_file_text::<tileaa::Module>(input),
        Sniffed::Stage { format, .. } if format == tileas::Module::FORMAT => stage_file_text::<tileas::Module>(input),
        Sniffed::Stage { format, .. } if format == sched::Module::FORMAT => stage_file_text::<sched::Module>(input),
        Sniffed::Elf => Ok(cubin::print(&cubin::read(&input.bytes, &input.name)?)),
        Sniffed::Ptx => Ok(without_origin(&String::from_utf8_lossy(&input.bytes))),
        _ => {
            let file = tileir::import::open(&input.bytes, &input.name, producer)?;
            Ok(tileir::text::print(&file.payload, None))
        }
    }
}

/// Returns the text of a stage file, without its envelope and without the lines that state its origin.
fn stage_file_text<P: Payload>(input: &Input) -> Result<String> {
    Ok(without_origin(&File::<P>::read(&input.bytes, &input.name)?.text_without_locations()?))
}

/// Removes the lines that state the origin of a file: its producer and its input. The origin is not part of the program.
fn without_origin(text: &str) -> String {
    let origin_prefixes = ["//!tile producer ", "//!tile input "];
    text.lines()
        .filter(|line| !origin_prefixes.iter().any(|prefix| line.starts_with(prefix)))
        .map(|line| format!("{line}\n"))
        .collect()
}
