//! `tile-dump` prints each kind of file of the pipeline as text: bytecode, stage files, PTX and cubins.

mod layout;

use base::diag::{Diagnostic, Result};
use base::envelope::{Form, Sniffed, sniff};
use base::{File, Payload};
use common::{About, Format, Input, Session};
use tileir::bytecode::Features;

const ABOUT: About = About {
    name: "tile-dump",
    summary: "Prints a file as text; bytecode as NVIDIA's tileirdisasm does",
    examples: &[
        ("tile-dump k.tileirbc", "bytecode as text"),
        ("tile-dump -g k.tileirbc", "with source locations"),
        ("tile-dump k.sched", "a stage file as text that reads back without loss"),
        ("tile-dump --bare k.sched", "the program alone"),
        ("tile-dump --format=ron k.as", "a stage file to edit"),
        ("tile-dump --layout '#2' k.as", "which warp, lane and register holds each element of a tile"),
        ("tile-dump k.cubin", "the kernels of a cubin and their resources"),
    ],
    passes: &[],
    writes_stage_files: true,
};

#[derive(clap::Args)]
struct Options {
    /// Print source locations too, for bytecode and .tile
    #[arg(short = 'g', long)]
    print_debug_info: bool,
    /// Accepted preview features of the bytecode: simt
    #[arg(long, value_name = "FEATURE", value_parser = ["simt"], value_delimiter = ',')]
    preview: Vec<String>,
    /// Omit the log and the location tables; source lines stay as comments
    #[arg(long)]
    bare: bool,
    /// Draw a layout of an .as or .sched file, for each type that uses it
    #[arg(long, value_name = "#N")]
    layout: Option<String>,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let input = session.input()?;
        input.reject_truncated()?;
        if let Some(name) = &options.layout {
            return session.write_bytes(layout::draw(&input, name, session.output_path().is_none())?.as_bytes(), false);
        }
        match sniff(&input.bytes) {
            Sniffed::Stage { format, .. } => print_any_stage_file(session, &input, &format, options),
            Sniffed::Elf => session.write_bytes(cubin::print(&cubin::read(&input.bytes, &input.name)?).as_bytes(), false),
            Sniffed::Ptx => session.write_bytes(&input.bytes, false),
            _ => print_program(session, &input, options),
        }
    })
}

/// Prints a stage file of any format of the pipeline.
fn print_any_stage_file(session: &mut Session, input: &Input, format: &str, options: &Options) -> Result<()> {
    match format {
        tileaa::Module::FORMAT => print_stage_file::<tileaa::Module>(session, input, options),
        tileas::Module::FORMAT => print_stage_file::<tileas::Module>(session, input, options),
        sched::Module::FORMAT => print_stage_file::<sched::Module>(session, input, options),
        tileir::Module::FORMAT => print_program(session, input, options),
        other => Err(Diagnostic::invalid("DMP001", format!("{} is a file of an unknown format '{other}'", input.name))),
    }
}

/// Prints a stage file in the requested form. The default is text.
fn print_stage_file<P: Payload>(session: &mut Session, input: &Input, options: &Options) -> Result<()> {
    let file: File<P> = session.decode(input)?;
    if options.bare {
        return session.write_bytes(file.text_without_locations()?.as_bytes(), false);
    }
    write_file(session, &file)
}

/// Writes a stage file in the requested form. The default is text.
fn write_file<P: Payload>(session: &mut Session, file: &File<P>) -> Result<()> {
    let form = session.format().map_or(Form::Text, Form::from);
    let bytes = file.write(form)?;
    session.write_bytes(&bytes, form == Form::Binary)
}

/// Prints a Tile IR program as text, as NVIDIA's tileirdisasm does. The text has no envelope. If the command line selects another
/// form, writes a `.tile` file in that form.
fn print_program(session: &mut Session, input: &Input, options: &Options) -> Result<()> {
    let producer = session.producer();
    let features = Features { simt: !options.preview.is_empty() };
    let file = session.timed("decode", |_| tileir::import::open_with(&input.bytes, &input.name, &producer, features))?;
    if session.format().is_some_and(|format| format != Format::Text) {
        return write_file(session, &file);
    }
    let debug = options.print_debug_info.then_some(&file.envelope.debug);
    session.write_bytes(tileir::text::print(&file.payload, debug).as_bytes(), false)
}
