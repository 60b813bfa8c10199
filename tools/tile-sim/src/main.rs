//! `tile-sim`: executes PTX on a CPU.
//!
//! The crate `simulator` executes the PTX and documents the detected faults; this file handles the command line and the files.

mod launch;

use base::diag::Result;
use clap::{Args, ValueEnum};
use common::launch::LaunchOptions;
use common::{About, Session};
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-sim",
    summary: "Executes PTX on the CPU and checks it for races and other faults",
    examples: &[
        ("tile-sim k.ptx --launch launch.json --out-dir out", "run a kernel, write its output buffers"),
        ("tile-sim k.ptx --grid 4 a.npy b.npy zeros:f32[1024] 1024 --print-outputs", "one argument per parameter"),
        ("tile-sim k.ptx --launch launch.json --sample-blocks --out-dir out", "representative blocks of a large grid"),
        ("tile-sim k.ptx --launch launch.json --out-dir out --delivery late", "complete asynchronous work as late as allowed"),
        (
            "tile-sim k.ptx --launch launch.json --out-dir out --stats stats.json",
            "count instructions, traffic and conflicts, by loop",
        ),
    ],
    passes: &[],
    forms: false,
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    launch: LaunchOptions,
    /// File with the concatenated 128-byte tensor maps of the hidden parameters; PTX of this project does not need it
    #[arg(long, value_name = "FILE")]
    tensor_maps: Option<PathBuf>,
    /// Object file with the callback that encodes the tensor maps, or the cubin that contains it
    #[arg(long, value_name = "FILE", requires = "allow_native", conflicts_with = "tensor_maps")]
    host_object: Option<PathBuf>,
    /// Allow native execution of the callback, in a child process with time and memory limits
    #[arg(long)]
    allow_native: bool,
    /// Completion time of asynchronous work
    #[arg(long, value_enum, default_value_t = DeliveryArgument::Early)]
    delivery: DeliveryArgument,
    /// Write instruction counts and memory traffic as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Handling of data races in shared memory [default: a warning for PTX of other compilers]. Races on global memory are not
    /// detected; `tile-run --check` detects them in earlier stages
    #[arg(long, value_enum)]
    races: Option<RacesArgument>,
    /// Seed of the warp order; each seed is deterministic
    #[arg(long, value_name = "N")]
    schedule_seed: Option<u64>,
    /// Threads per CTA, for kernels that do not declare it
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = block)]
    block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory of the launch
    #[arg(long, value_name = "BYTES")]
    dynamic_shared: Option<u32>,
    /// Maximum number of warp instructions, to stop endless kernels
    #[arg(long, value_name = "N", default_value_t = 4_000_000_000)]
    instruction_limit: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DeliveryArgument {
    Early,
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RacesArgument {
    Error,
    Warn,
    Ignore,
}

fn block(text: &str) -> std::result::Result<[u32; 3], String> {
    let mut dims = [1; 3];
    for (index, part) in text.split(',').enumerate() {
        let dim = dims.get_mut(index).ok_or("a block has three dimensions")?;
        *dim = part.parse().map_err(|_| format!("'{part}' is not a number"))?;
    }
    Ok(dims)
}

fn main() -> std::process::ExitCode {
    common::runner::<Arguments>(&ABOUT, run)
}

fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let input = session.input()?;
    let (module, text) = ptx::open(&input.bytes, &input.name)?;
    if session.verify_only() && !arguments.launch.is_given() {
        return Ok(());
    }
    launch::run(session, &module, text, &input.name, arguments)
}
