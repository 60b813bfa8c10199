//! `tile-time` predicts the run time and the bottlenecks of PTX on a GPU, without a GPU.
//!
//! `sample` executes a few CTAs of the launch (crate `simulator`) and records the instructions of each warp. `code` determines the
//! cost of each instruction on the machine (`cost`) and the order that an assembler would choose (`order`). `engine` simulates the
//! timing of one cluster's SMs, and `grid` extrapolates to the launch. `report` prints text and JSON, and `timeline` writes a
//! trace. `assembled` reads a cubin. A cubin cannot be executed, but it shows the decisions of the assembler.

mod advice;
mod assembled;
mod code;
mod cost;
mod engine;
mod grid;
mod if_conversion;
mod loop_unrolling;
mod order;
mod program_analysis;
mod registers;
mod report;
mod resident_ctas;
mod sample;
mod spilled;
mod timeline;

use base::diag::{Diagnostic, Result};
use clap::Args;
use common::{About, Session};
use perf_model::Machine;
use std::path::PathBuf;
use std::sync::Arc;

const ABOUT: About = About {
    name: "tile-time",
    summary: "Predicts the run time and bottlenecks of PTX; no GPU needed",
    examples: &[
        ("tile-time k.ptx --launch launch.json", "on the default GPU of the PTX's target"),
        ("tile-time k.ptx --launch launch.json --gpu h200 --json -", "for programs"),
        ("tile-time k.ptx --launch launch.json --trace trace.json", "with a timeline for Perfetto"),
        ("tile-time k.ptx --launch launch.json --gpu b200 --set chip.clock=1500", "at another clock frequency"),
        ("tile-time k.cubin", "statistics of the machine code: registers, spills, issue cycles"),
        ("tile-time k.cubin --ptx k.ptx --launch launch.json", "a prediction with the cubin's registers and spills"),
        ("tile-time program --launch launch.json", "for PTX in a fatbin, a host object or an executable"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(Args)]
struct Arguments {
    /// Launch description: kernel, grid, buffers and arguments; required for PTX
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    /// The PTX of a cubin, to predict its time
    #[arg(long, value_name = "FILE", requires = "launch")]
    ptx: Option<PathBuf>,
    /// GPU to model [default: the default GPU of the target]
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// Machine description file of a custom GPU
    #[arg(long, value_name = "FILE", conflicts_with = "gpu")]
    machine: Option<PathBuf>,
    /// Override a parameter of the machine description
    #[arg(long, value_name = "SECTION.NAME=VALUE")]
    set: Vec<String>,
    /// Also write the report as JSON to this file; with `-`, write JSON to standard output instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a timeline in Chrome's trace format, e.g. for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// File with the concatenated 128-byte tensor maps of the hidden parameters; PTX of this project does not need it
    #[arg(long, value_name = "FILE")]
    tensor_maps: Option<PathBuf>,
    /// Object or cubin whose host code encodes the tensor maps of the hidden parameters
    #[arg(long, value_name = "FILE", requires = "allow_native", conflicts_with = "tensor_maps")]
    host_object: Option<PathBuf>,
    /// Allow native execution of the code of --host-object
    #[arg(long)]
    allow_native: bool,
    /// Model a repeated launch: the L2 cache already holds as much of its data as fits
    #[arg(long = "repeated")]
    repeated_launch: bool,
    /// Skip the potential savings, each of which takes a run of the model
    #[arg(long)]
    no_advice: bool,
    /// Registers per thread [default: as reported by ptxas, or estimated without ptxas]
    #[arg(long, value_name = "N")]
    registers: Option<u32>,
    /// With --registers: number of spill instructions, and stack bytes per thread
    #[arg(long, value_name = "N,BYTES", requires = "registers", value_parser = parse_spills)]
    spills: Option<(u32, u32)>,
    /// Threads per CTA, for kernels that do not declare it
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = parse_block)]
    block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory of the launch
    #[arg(long, value_name = "BYTES")]
    dynamic_shared: Option<u32>,
    /// Warp instructions after which a sample CTA is truncated
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    instruction_limit: u64,
}

/// Parses the number of threads per CTA in each dimension, such as `128` or `16,8`.
fn parse_block(text: &str) -> std::result::Result<[u32; 3], String> {
    let mut dims = [1; 3];
    for (index, part) in text.split(',').enumerate() {
        let dim = dims.get_mut(index).ok_or("a block has three dimensions")?;
        *dim = part.parse().map_err(|_| format!("'{part}' is not a number"))?;
    }
    Ok(dims)
}

/// Parses the value of `--spills`: the number of spill instructions and the stack bytes per thread, separated by a comma.
fn parse_spills(text: &str) -> std::result::Result<(u32, u32), String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("'{text}' is not a number"));
    let (spill_instructions, stack_bytes) = text.split_once(',').ok_or("expected two numbers separated by a comma")?;
    Ok((number(spill_instructions)?, number(stack_bytes)?))
}

fn main() -> std::process::ExitCode {
    common::runner::<Arguments>(&ABOUT, run)
}

fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let mut input = session.input()?;
    let mut assembled = None;
    if cubin::is_fatbin(&input.bytes) || is_host_file(&input.bytes) {
        input.bytes = embedded_ptx(arguments, &input)?.ok_or_else(|| {
            Diagnostic::unsupported("TIM006", format!("{} has no PTX, and machine code cannot be executed", input.name))
        })?;
    } else if input.bytes.starts_with(b"\x7fELF") {
        let dynamic_shared_bytes = arguments.dynamic_shared.unwrap_or(0);
        assembled = Some(assembled::CubinStatistics::read(&input.bytes, &input.name, arguments.block, dynamic_shared_bytes)?);
        match &arguments.ptx {
            Some(path) => input = common::read_file(Some(path))?,
            None if arguments.launch.is_some() => {
                let text =
                    "this cubin has no PTX, and machine code cannot be executed, so the time of a launch cannot be predicted";
                let note = "pass its PTX with --ptx, or assemble it with `ptxas -g`, which embeds the PTX in the cubin";
                input.bytes = embedded_ptx(arguments, &input)?.ok_or_else(|| Diagnostic::unsupported("TIM006", text).note(note))?;
            }
            None => return report_cubin(arguments, assembled.take()),
        }
    }
    let (module, text) = ptx::open(&input.bytes, &input.name)?;
    let machine = read_machine(arguments, module.target.first().map_or("", String::as_str))?;
    if let Some(assembled) = &mut assembled {
        assembled.compute_occupancy(&machine);
    }
    let sample = sample::Sample::record(&module, text, &input.name, arguments, assembled.as_ref(), &machine)?;
    let prediction = grid::predict(&sample, &machine, arguments.trace.is_some());
    if let Some(path) = &arguments.trace {
        common::write_file(Some(path), timeline::chrome_trace(&sample, &machine, &prediction.statistics).as_bytes())?;
    }
    if let (true, [line, ..]) = (sample.complete, &prediction.statistics.stuck[..]) {
        let text = "a warp waits forever in the timing model, but not in execution: a bug of the model, so there is no prediction";
        return Err(Diagnostic::unsupported("TIM004", text).note(format!("line {line} of the PTX")));
    }
    let advice = if arguments.no_advice { Vec::new() } else { advice::potential_savings(&sample, &machine, &prediction) };
    let report =
        report::Report::new(&sample, &simulator::SourceLocations::from_ptx(text), &machine, &prediction, advice, assembled);
    write_report(arguments, &report, report::Report::text)
}

/// Returns whether `bytes` is a host ELF file: an object, a library or an executable, which may contain fatbins.
fn is_host_file(bytes: &[u8]) -> bool {
    /// The ELF machine number of CUDA code, little-endian (`EM_CUDA`, 190).
    const EM_CUDA: [u8; 2] = [190, 0];
    bytes.starts_with(b"\x7fELF") && bytes.get(18..20).is_some_and(|machine| machine != EM_CUDA)
}

/// Returns the PTX in a fatbin, a host file or a cubin; `None` if the input contains no PTX. If the input contains several PTX
/// texts, prefers texts with the launched kernel. Among these, returns the text for the highest architecture that the GPU supports.
fn embedded_ptx(arguments: &Arguments, input: &common::Input) -> Result<Option<Arc<Vec<u8>>>> {
    let mut candidates = cubin::ptx(&input.bytes, &input.name)?;
    let launch = arguments.launch.as_deref().map(common::launch::Launch::read).transpose()?;
    if let Some(entry) = launch.and_then(|launch| launch.entry) {
        let mentions_entry = |text: &str| text.split(|c: char| c.is_whitespace() || c == '(').any(|word| word == entry);
        if candidates.iter().any(|ptx| mentions_entry(&ptx.text)) {
            candidates.retain(|ptx| mentions_entry(&ptx.text));
        }
    }
    if arguments.gpu.is_some() || arguments.machine.is_some() {
        let max_architecture = read_machine(arguments, "")?.chip.compute_capability as u32;
        if candidates.iter().any(|ptx| ptx.architecture.is_none_or(|architecture| architecture <= max_architecture)) {
            candidates.retain(|ptx| ptx.architecture.is_none_or(|architecture| architecture <= max_architecture));
        }
    }
    Ok(candidates.into_iter().max_by_key(|ptx| ptx.architecture).map(|ptx| Arc::new(ptx.text.into_bytes())))
}

/// Reports the statistics of a cubin. Without a launch, there is no prediction.
fn report_cubin(arguments: &Arguments, assembled: Option<assembled::CubinStatistics>) -> Result<()> {
    let Some(mut assembled) = assembled else { return Ok(()) };
    assembled.compute_occupancy(&read_machine(arguments, &assembled.target)?);
    write_report(arguments, &assembled, assembled::CubinStatistics::text)
}

/// Writes the report as text to standard output. `--json FILE` also writes JSON to the file; `--json -` writes only JSON.
fn write_report<T: serde::Serialize>(arguments: &Arguments, report: &T, text: fn(&T) -> String) -> Result<()> {
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(report).expect("a report is serializable") + "\n";
        if path.as_os_str() == "-" {
            return common::write_file(None, json.as_bytes());
        }
        common::write_file(Some(path), json.as_bytes())?;
    }
    common::write_file(None, text(report).as_bytes())
}

/// Returns the machine description that the options select, or else the description of the target's default GPU. Applies the
/// overrides of `--set`.
fn read_machine(arguments: &Arguments, target: &str) -> Result<Machine> {
    let mut machine = match (&arguments.machine, &arguments.gpu) {
        (Some(path), _) => {
            let file = common::read_file(Some(path))?;
            let text =
                std::str::from_utf8(&file.bytes).map_err(|_| Diagnostic::invalid("TIM001", "the machine file is not text"))?;
            Machine::parse(&file.name, text)?
        }
        (None, Some(name)) => Machine::named(name)?,
        (None, None) => {
            let name = perf_model::typical_chip(target).ok_or_else(|| {
                Diagnostic::unsupported("TIM002", format!("target '{target}' has no default GPU; select one with --gpu"))
            })?;
            Machine::named(name)?
        }
    };
    for assignment in &arguments.set {
        machine = machine.set(assignment)?;
    }
    Ok(machine)
}
