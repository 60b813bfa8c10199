//! `tile-sim`: executes PTX on a CPU.
//!
//! The work is done by the crate `simulator`, whose head lists what is reported; here are the command line and the files.

mod launch;

use base::diag::Result;
use clap::{Args, ValueEnum};
use common::launch::LaunchOptions;
use common::{About, Session};
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-sim",
    summary: "Executes PTX on a CPU: memory in, memory out",
    examples: &[
        ("tile-sim k.ptx --launch launch.json --out-dir out", "run a kernel, write its output buffers"),
        ("tile-sim k.ptx --grid 4 a.npy b.npy zeros:f32[1024] 1024 --print-outputs", "each word one parameter"),
        ("tile-sim k.ptx --launch launch.json --sample-blocks --out-dir out", "some blocks of a grid that is too large"),
        ("tile-sim k.ptx --launch launch.json --out-dir out --delivery late", "with asynchronous work as late as allowed"),
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
    /// The 128-byte tensor maps of the hidden parameters, one after the other; PTX of this project needs none
    #[arg(long, value_name = "FILE")]
    tensor_maps: Option<PathBuf>,
    /// An object file with the callback that makes the tensor maps, or the cubin that a compiler embedded it in
    #[arg(long, value_name = "FILE", requires = "allow_native", conflicts_with = "tensor_maps")]
    host_object: Option<PathBuf>,
    /// Lets the callback run on this machine, in a child process with limits of time and memory
    #[arg(long)]
    allow_native: bool,
    /// When asynchronous work is done
    #[arg(long, value_enum, default_value_t = DeliveryArgument::Early)]
    delivery: DeliveryArgument,
    /// Writes what was executed, and the traffic to memory, as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// What is done about accesses to shared memory that no barrier orders; by default a warning for PTX of other origin. Races on
    /// global memory, between CTAs or within one, are not detected: `tile-run --check` finds those of earlier stages
    #[arg(long, value_enum)]
    races: Option<RacesArgument>,
    /// Another order of warps; each seed always gives the same
    #[arg(long, value_name = "N")]
    schedule_seed: Option<u64>,
    /// Threads of a block, for kernels that do not say it
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = block)]
    block: Option<[u32; 3]>,
    /// Bytes of shared memory that the launch adds
    #[arg(long, value_name = "BYTES")]
    dynamic_shared: Option<u32>,
    /// Warp instructions after which a kernel is taken not to end
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
    if session.verify_only() && !arguments.launch.is_given() {
        return Ok(());
    }
    launch::run(session, &module, text, &input.name, arguments)
}
