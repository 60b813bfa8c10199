//! `tile-ptx`: lowers a scheduled program to PTX through LLVM's NVPTX back end.

use common::{About, options};
use tile_ptx::{Emit, generate};

const ABOUT: About = About {
    name: "tile-ptx",
    summary: "Generates PTX with LLVM: .sched to .ptx",
    examples: &[
        ("tile-ptx k.sched -o k.ptx", "PTX for the target in the file"),
        ("tile-ptx --lineinfo k.sched", "with the user's source lines, for profilers"),
        ("tile-ptx --emit=llvm-ir k.sched", "LLVM IR after LLVM's passes"),
    ],
    passes: &["emit", "optimize", "print"],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    /// Accept a file that the hazard checker rejects, for experiments
    #[arg(long)]
    skip_hazard_check: bool,
    #[command(flatten)]
    debug: options::Debug,
    #[command(flatten)]
    opt: options::OptLevel,
    #[command(flatten)]
    gpu: options::GpuName,
    /// Output to write
    #[arg(long, value_enum, default_value_t = Emit::Ptx)]
    emit: Emit,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let mut input = if options.skip_hazard_check {
            session.read().map(sched::UncheckedModule::into_module_file)?
        } else {
            session.read::<sched::Module>()?
        };
        options.opt.record(&mut input.envelope)?;
        options.gpu.record(&mut input.envelope)?;
        options.debug.record(&mut input.envelope)?;
        if session.verify_only() {
            return Ok(());
        }
        let text = generate(&input, session, options.emit)?;
        session.write_bytes(text.as_bytes(), false)
    })
}
