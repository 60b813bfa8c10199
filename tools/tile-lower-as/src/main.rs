//! `tile-lower-as`: assigns a layout to every tile and an atom to every MMA and data movement.

use common::{About, options};
use tile_lower_as::{Lowering, PASSES};

const ABOUT: About = About {
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

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    gpu: options::GpuName,
    #[command(flatten)]
    opt: options::OptLevel,
    #[command(flatten)]
    decisions: options::Lowering,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
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
    })
}
