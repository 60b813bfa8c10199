//! `tile-link`: PTX to cubin. See [`link`] for the steps.

mod host;
mod link;
mod maps;
mod ptxas;
mod source;

use common::options::{GpuName, Host, OptLevel};
use common::{About, Session};
use link::Emit;
use std::path::PathBuf;

const ABOUT: About = About {
    name: "tile-link",
    summary: "Assembles PTX with ptxas and adds host code for the driver: .ptx to cubin",
    examples: &[
        ("tile-link k.ptx -o k.cubin", "PTX of this pipeline, which names its target and options"),
        ("tile-link --gpu-name sm_90 foreign.ptx -o k.cubin", "any PTX"),
        ("tile-link --emit=host-object k.ptx -o k.o", "the cubin in a fatbin in an object file, for the system's linker"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    opt: OptLevel,
    #[command(flatten)]
    gpu: GpuName,
    #[command(flatten)]
    host: Host,
    /// Output kind: a cubin, a fatbin that contains it, or an object file that contains the fatbin
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Emit::Cubin)]
    emit: Emit,
    /// Embed this Tile IR bytecode and the PTX in the cubin, so that a CPU can execute its kernels
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, run)
}

fn run(session: &mut Session, options: &Options) -> base::diag::Result<()> {
    let input = session.input()?;
    input.reject_truncated()?;
    let mut source = source::Source::read(&input.bytes, &input.name)?;
    options.opt.record(&mut source.envelope)?;
    options.gpu.record(&mut source.envelope)?;
    options.host.record(&mut source.envelope)?;
    if session.verify_only() {
        return Ok(());
    }
    let artefact = link::link(session, &source, options.emit, options.program.as_deref())?;
    session.write_bytes(&artefact, true)
}
