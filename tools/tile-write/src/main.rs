//! `tile-write` converts a `.tile` file, or MLIR text of Tile IR, to Tile IR bytecode.

use base::diag::Diagnostic;
use common::About;
use tileir::{Version, bytecode, framed};

const ABOUT: About = About {
    name: "tile-write",
    summary: "Writes a .tile file as Tile IR bytecode of a given version",
    examples: &[
        ("tile-write k.tile -o k.tileirbc", "the bytecode version that the program was read from"),
        ("tile-write k.mlir --bytecode-version=13.1 -o k.tileirbc", "text to bytecode 13.1"),
    ],
    passes: &[],
    writes_stage_files: false,
};

#[derive(clap::Args)]
struct Options {
    /// Bytecode version, 13.1 to 13.5 [default: the version that the program was read from]
    #[arg(long, value_name = "VERSION")]
    bytecode_version: Option<String>,
    /// Container format: the current one, or the framed one of early descriptions, which supports version 13.1
    #[arg(long, value_name = "CONTAINER", value_enum, default_value_t = Container::Bytecode)]
    container: Container,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Container {
    Bytecode,
    Framed,
}

fn main() -> std::process::ExitCode {
    common::filter::<Options>(&ABOUT, |session, options| {
        let input = session.input()?;
        input.reject_truncated()?;
        let producer = session.producer();
        let file = session.timed("decode", |_| tileir::import::open(&input.bytes, &input.name, &producer))?;
        let version = match &options.bytecode_version {
            None => file.payload.version,
            Some(text) => Version::parse(text).ok_or_else(|| {
                let known_versions = Version::ALL.iter().map(Version::to_string).collect::<Vec<_>>().join(", ");
                Diagnostic::usage("CLI007", format!("there is no bytecode version {text}; the versions are {known_versions}"))
            })?,
        };
        let bytes = session.timed("encode", |_| match options.container {
            Container::Bytecode => bytecode::write(&file.payload, &file.envelope.debug, version),
            Container::Framed => framed::write(&file.payload, &file.envelope.debug),
        })?;
        session.write_bytes(&bytes, true)
    })
}
