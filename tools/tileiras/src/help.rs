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
    more: "
Examples:

  tileiras k.tileirbc --gpu-name=sm_90 -o k.cubin
  tileiras k.tileirbc --gpu-name=sm_90 --emit=ptx -o k.ptx
  tileiras --out-dir=out --jobs=8 --gpu-name=sm_80 --gpu-name=sm_90 a.tileirbc b.tileirbc

Exit codes:

  0 success, 1 usage or no such input, 2 configuration or output, 3 not bytecode or invalid bytecode, 5 the program cannot be
  compiled, or a stage or ptxas is missing or failed

Environment:

  CUDA_ROOT, CUDA_HOME, CUDA_PATH: the toolkit with ptxas and libdevice; the first that is set decides
  TILEWORKS_OPTIONS: more options, before those of the command line, which win where an option counts once
  PATH: where they are looked for last
  TMPDIR: the folder for temporary files and for what is kept of a bug
",
};

/// Bytecode versions that tile-read reads.
pub(crate) const VERSIONS: &str = "13.1\n13.2\n13.3\n13.4\n13.5\n";

/// The version, in the reference's shape, since clients look for the release and keep caches by the whole text. The build's name
/// is a hash of this project's sources and of what is known of ptxas, so it changes whenever generated code can change.
pub(crate) fn version(toolchain: &str) -> String {
    format!(
        "tileiras: Tileworks, an open CUDA Tile IR assembler\n\
         This is not NVIDIA's tileiras; it takes the same options and bytecode.\n\
         Tileworks {}\n\
         Cuda compilation tools, release 13.5, V13.5.37\n\
         Build tileworks.{}.{toolchain}\n",
        env!("CARGO_PKG_VERSION"),
        env!("SOURCE_HASH")
    )
}
