//! The command line of the tool.

use crate::{CHECK_BOUNDS, PASSES, RECORD, convert};
use common::options::{CheckBounds, OptLevel};
use common::{About, Session};

/// The name, summary, examples and passes of the tool, which `--help` prints.
pub const ABOUT: About = About {
    name: "tile-lower-aa",
    summary: "Lowers .tile (or the text or bytecode of a program) to .aa, with explicit memory",
    examples: &[
        ("tile-read k.tileirbc | tile-lower-aa -O3 -o k.aa", "read from a pipe"),
        ("tile-lower-aa -O0 k.tile --format=text", "print the unoptimised program as text"),
    ],
    passes: &common::pass_names::<_, { PASSES.len() + 3 }>(&["convert", CHECK_BOUNDS[0].name], PASSES, &[RECORD[0].name]),
    writes_stage_files: true,
};

/// The options of the tool.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    level: OptLevel,
    #[command(flatten)]
    bounds: CheckBounds,
}

/// Runs the tool.
pub fn run(session: &mut Session, options: &Options) -> base::diag::Result<()> {
    // Besides `.tile` files, this tool reads Tile IR bytecode and MLIR text, as `tile-read` does.
    let source = session.input()?;
    source.reject_truncated()?;
    let producer = session.producer();
    let input = session.timed("decode", |_| tileir::import::open(&source.bytes, &source.name, &producer))?;
    let mut envelope = input.envelope.for_next_stage::<tileaa::Module>("lowered", &session.producer());
    options.level.record_or_default(&mut envelope)?;
    options.bounds.record(&mut envelope)?;
    let is_optimised = envelope.options.opt_level() > 0;
    let mut file = session.step("convert", || convert(&input.payload, envelope))?;
    if file.envelope.options.flag("check-bounds") {
        session.run(CHECK_BOUNDS, &mut file)?;
    }
    if is_optimised {
        session.run(PASSES, &mut file)?;
    }
    session.run(RECORD, &mut file)?;
    session.write(&file)
}
