//! The command line of `tile-lower-as`: its `--help` text, options and entry point.

use crate::{Lowering, PASSES};
use common::{About, Session, options};

/// The name, summary, examples and passes of the tool, which `--help` prints.
pub const ABOUT: About = About {
    name: "tile-lower-as",
    summary: "Lowers .aa to .as: assigns layouts and selects instructions for a target",
    examples: &[
        ("tile-lower-as --gpu-name sm_90 k.aa -o k.as", "one file to another"),
        ("tile-lower-as --gpu-name sm_80 --format=text k.aa", "print the layouts as text"),
        ("tile-lower-as --gpu-name sm_80 --print-after=layouts k.aa -o k.as", "the plan before `convert` applies it"),
    ],
    passes: &common::pass_names::<_, { PASSES.len() }>(&[], PASSES, &[]),
    writes_stage_files: true,
};

/// The options of `tile-lower-as`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    gpu: options::GpuName,
    #[command(flatten)]
    opt: options::OptLevel,
    #[command(flatten)]
    decisions: options::Lowering,
}

/// Reads a `.aa` file, runs the passes, and writes the `.as` file. If the session stops before `convert`, writes the `.aa` program.
pub fn run(session: &mut Session, options: &Options) -> base::diag::Result<()> {
    let mut input = session.read::<tileaa::Module>()?;
    options.opt.record(&mut input.envelope)?;
    options.gpu.record_needed(&mut input.envelope)?;
    options.decisions.record(&mut input.envelope)?;
    if session.verify_only() {
        return Ok(());
    }
    let mut lowering = Lowering::new(input, &session.producer());
    session.run(PASSES, &mut lowering)?;
    match lowering.is_done() {
        true => session.write(&lowering.lowered),
        false => session.write(&lowering.program),
    }
}
