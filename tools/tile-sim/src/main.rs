//! `tile-sim`: executes PTX on the CPU.
//!
//! The crate `simulator` executes the PTX, and documents the faults that it detects. The crate `tile-sim` parses the command line,
//! and reads and writes the files.

mod launch;

use base::diag::Result;
use clap::{Args, ValueEnum};
use common::launch::LaunchOptions;
use common::{About, Session};
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-sim",
    summary: "Executes PTX on a CPU: launch buffers in, result buffers out",
    examples: &[
        ("tile-sim k.ptx --launch launch.json --out-dir out", "run a kernel, write its output buffers"),
        ("tile-sim k.ptx --grid 4 a.npy b.npy zeros:f32[1024] 1024 --print-outputs", "one argument per parameter"),
        ("tile-sim k.ptx --launch launch.json --sample-blocks --out-dir out", "a sample of CTAs of a large grid"),
        ("tile-sim k.ptx --launch launch.json --out-dir out --delivery late", "complete asynchronous work as late as permitted"),
        (
            "tile-sim k.ptx --launch launch.json --out-dir out --stats stats.json",
            "count instructions, traffic and bank conflicts per loop",
        ),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    launch: LaunchOptions,
    /// File with the consecutive 128-byte tensor maps of hidden parameters; PTX of this project needs none
    #[arg(long, value_name = "FILE")]
    tensor_maps: Option<PathBuf>,
    /// Object file with the callback that creates the tensor maps, or the cubin in which a compiler embedded it
    #[arg(long, value_name = "FILE", requires = "allow_native", conflicts_with = "tensor_maps")]
    host_object: Option<PathBuf>,
    /// Allow the callback to run on this machine, in a child process with time and memory limits
    #[arg(long)]
    allow_native: bool,
    /// When asynchronous work completes
    #[arg(long, value_enum, default_value_t = DeliveryArgument::Early)]
    delivery: DeliveryArgument,
    /// Write execution counts and memory traffic as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Treatment of unordered shared-memory accesses; the default is an error, or a warning for PTX of other compilers. Races on
    /// global memory are not detected; use `tile-run --check` on an earlier stage
    #[arg(long, value_enum)]
    races: Option<RacesArgument>,
    /// Select another interleaving of the warps; a seed always selects the same one
    #[arg(long, value_name = "N")]
    schedule_seed: Option<u64>,
    /// Threads per CTA, for kernels that do not declare them
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = parse_block)]
    block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory
    #[arg(long, value_name = "BYTES")]
    dynamic_shared: Option<u32>,
    /// Report a kernel as endless after this many warp instructions
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

/// Parses the numbers of threads of a CTA along x, y and z. A missing number is 1.
fn parse_block(text: &str) -> std::result::Result<[u32; 3], String> {
    let mut dims = [1; 3];
    for (index, part) in text.split(',').enumerate() {
        let dim = dims.get_mut(index).ok_or("a CTA has three dimensions")?;
        *dim = part.parse().map_err(|_| format!("'{part}' is not a number"))?;
    }
    Ok(dims)
}

fn main() -> std::process::ExitCode {
    common::runner::<Arguments>(&ABOUT, run)
}

/// Reads the PTX, and runs one of its kernels. With `--verify-only`, no kernel runs.
fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let input = session.input()?;
    let (module, text) = ptx::open(&input.bytes, &input.name)?;
    if session.verify_only() && !arguments.launch.is_given() {
        return Ok(());
    }
    launch::run(session, &module, text, &input.name, arguments)
}
