//! `tile-read` converts Tile IR bytecode, or MLIR text of Tile IR, to a `.tile` file.

use common::{About, Session};
use tileir::bytecode::Features;

pub const ABOUT: About = About {
    name: "tile-read",
    summary: "Reads Tile IR bytecode 13.1 to 13.5, or its text, verifies it and writes a .tile file",
    examples: &[
        ("tile-read k.tileirbc -o k.tile", "bytecode to .tile"),
        ("tile-read k.mlir | tile-lower-aa", "text as tile-dump prints it, piped to the next stage"),
        ("tile-read k.tileirbc --format=text", "the .tile file as text that reads back without loss"),
    ],
    passes: &[],
    writes_stage_files: true,
};

/// The options of the tool.
#[derive(clap::Args)]
pub struct Options {
    /// Accepted preview features of the bytecode: simt
    #[arg(long, value_name = "FEATURE", value_parser = ["simt"], value_delimiter = ',')]
    preview: Vec<String>,
}

/// Reads the input of the session and writes a `.tile` file.
pub fn run(session: &mut Session, options: &Options) -> base::diag::Result<()> {
    let input = session.input()?;
    input.reject_truncated()?;
    let features = Features { simt: !options.preview.is_empty() };
    let producer = session.producer();
    let file = session.timed("decode", |_| tileir::import::open_with(&input.bytes, &input.name, &producer, features))?;
    session.write(&file)
}
