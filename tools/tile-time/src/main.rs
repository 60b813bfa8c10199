//! `tile-time`: how long PTX takes on a GPU, and what holds it up, told without one.
//!
//! `sample` executes a few blocks of the launch (crate `simulator`) and notes what each warp does. `code` says what each instruction
//! costs on the machine (`cost`), and in which order an assembler would have them (`order`). `engine` computes when everything
//! happens on a multiprocessor; `grid` goes from there to the whole launch; `report` says it to people and programs, `timeline` to
//! a viewer of traces.

mod advice;
mod code;
mod cost;
mod engine;
mod grid;
mod order;
mod registers;
mod report;
mod sample;
mod timeline;

use base::diag::{Diagnostic, Result};
use clap::Args;
use common::{About, Session};
use machine::Machine;
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-time",
    summary: "How long PTX takes on a GPU, and what holds it up",
    examples: &[
        ("tile-time k.ptx --launch launch.json", "on the chip that stands for the PTX's target"),
        ("tile-time k.ptx --launch launch.json --gpu h200 --json -", "for programs"),
        ("tile-time k.ptx --launch launch.json --trace trace.json", "with a timeline for Perfetto"),
        ("tile-time k.ptx --launch launch.json --gpu b200 --set chip.clock=1500", "with another clock"),
    ],
    passes: &[],
    forms: false,
};

#[derive(Args)]
struct Arguments {
    /// Which kernel, grid, buffers and arguments
    #[arg(long, value_name = "FILE")]
    launch: PathBuf,
    /// The chip; without it the one that stands for the target
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// A file with a chip of your own
    #[arg(long, value_name = "FILE", conflicts_with = "gpu")]
    machine: Option<PathBuf>,
    /// Overrides a number of the chip
    #[arg(long, value_name = "SECTION.NAME=VALUE")]
    set: Vec<String>,
    /// Writes the report as JSON, `-` to the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a timeline in the format of Chrome's trace viewer, for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The 128-byte tensor maps of the hidden parameters, one after the other; PTX of this project needs none
    #[arg(long, value_name = "FILE")]
    tensor_maps: Option<PathBuf>,
    /// Leaves out what would help: it takes a run of the model for each thing that might
    #[arg(long)]
    no_advice: bool,
    /// Registers of a thread; without it what ptxas reports, and where there is none an estimate
    #[arg(long, value_name = "N")]
    registers: Option<u32>,
    /// Threads of a block, for kernels that do not say it
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = block)]
    block: Option<[u32; 3]>,
    /// Bytes of shared memory that the launch adds
    #[arg(long, value_name = "BYTES")]
    dynamic_shared: Option<u32>,
    /// Warp instructions of a sample block after which it is cut off
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    instruction_limit: u64,
}

fn block(text: &str) -> std::result::Result<[u32; 3], String> {
    let mut dims = [1; 3];
    for (index, part) in text.split(',').enumerate() {
        let dim = dims.get_mut(index).ok_or("a block has three dimensions")?;
        *dim = part.parse().map_err(|_| format!("'{part}' is no number"))?;
    }
    Ok(dims)
}

fn main() -> std::process::ExitCode {
    common::runner::<Arguments>(&ABOUT, run)
}

fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let input = session.input()?;
    let (module, text) = ptx::open(&input.bytes, &input.name)?;
    let machine = chip(arguments, &module)?;
    let sample = sample::Sample::take(&module, text, &input.name, arguments, &machine)?;
    let prediction = grid::predict(&sample, &machine, arguments.trace.is_some());
    if let Some(path) = &arguments.trace {
        common::write_file(Some(path), timeline::trace(&sample, &machine, &prediction.statistics).as_bytes())?;
    }
    let advice = if arguments.no_advice { Vec::new() } else { advice::advice(&sample, &machine, &prediction) };
    let report = report::Report::new(&sample, &machine, &prediction, advice);
    match &arguments.json {
        Some(path) => {
            let to = (path.as_os_str() != "-").then_some(path.as_path());
            common::write_file(to, report.json().as_bytes())
        }
        None => common::write_file(None, report.text().as_bytes()),
    }
}

fn chip(arguments: &Arguments, module: &ptx::Module) -> Result<Machine> {
    let target = module.target.first().map_or("", String::as_str);
    let mut machine = match (&arguments.machine, &arguments.gpu) {
        (Some(path), _) => {
            let file = common::read_file(Some(path))?;
            let text =
                std::str::from_utf8(&file.bytes).map_err(|_| Diagnostic::invalid("TIM001", "the machine file is not text"))?;
            Machine::parse(&file.name, text)?
        }
        (None, Some(name)) => Machine::named(name)?,
        (None, None) => {
            let name = machine::of_target(target).ok_or_else(|| {
                Diagnostic::unsupported("TIM002", format!("no machine stands for target '{target}'; name one with --gpu"))
            })?;
            Machine::named(name)?
        }
    };
    for assignment in &arguments.set {
        machine = machine.set(assignment)?;
    }
    Ok(machine)
}
