//! What `--help`, `--version` and `--list-versions` print. Clients read parts of it, so its shape is the reference's.

use crate::options::OPTIONS;
use common::cl::{Help, Section};

pub(crate) const HELP: Help = Help {
    options: OPTIONS,
    overview: "OVERVIEW: tileiras: Tileworks, an open CUDA Tile IR assembler (not NVIDIA's)\n\n\
               USAGE: tileiras [options] <tile bytecode file>\n\nOPTIONS:\n",
    headings: &[
        ("Generic Options:\n", Section::Generic),
        ("TileIR Assembler Options:\n", Section::Tool),
        ("TileIR Assembler Remark Options:\nFilter remarks by category.\n", Section::Remarks),
        ("Tileworks Options, which the reference does not have:\n", Section::Extension),
    ],
};

/// Bytecode versions that tile-read reads.
pub(crate) const VERSIONS: &str = "13.1\n13.2\n13.3\n13.4\n";

/// The version, in the reference's shape, since clients look for the release and keep caches by the whole text. The build's name
/// is a hash of this project's sources and of what is known of ptxas, so it changes whenever generated code can change.
pub(crate) fn version(toolchain: &str) -> String {
    format!(
        "tileiras: Tileworks, an open CUDA Tile IR assembler\n\
         This is not NVIDIA's tileiras; it takes the same options and bytecode.\n\
         Tileworks {}\n\
         Cuda compilation tools, release 13.4, V13.4.92\n\
         Build tileworks.{}.{toolchain}\n",
        env!("CARGO_PKG_VERSION"),
        env!("SOURCE_HASH")
    )
}
