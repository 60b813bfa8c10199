//! The output of `--help`, `--version` and `--list-versions`. Clients parse parts of it, so it keeps the shape of NVIDIA's output.

use crate::options::OPTIONS;
use common::cl::{Help, Section};

/// The text of `--help` and its variants, in the shape of NVIDIA's output.
pub(crate) const HELP: Help = Help {
    options: OPTIONS,
    overview: "OVERVIEW: tileiras: Tileworks, an open CUDA Tile IR assembler (not NVIDIA's)\n\n\
               USAGE: tileiras [options] <tile bytecode file>\n\nOPTIONS:\n",
    headings: &[
        ("Generic Options:\n", Section::Generic),
        ("TileIR Assembler Options:\n", Section::Tool),
        ("TileIR Assembler Remark Options:\nFilter remarks by category.\n", Section::Remarks),
        ("Tileworks Options:\n", Section::Extension),
    ],
    footer: "
Examples:

  tileiras k.tileirbc --gpu-name=sm_90 -o k.cubin
  tileiras k.tileirbc --gpu-name=sm_90 --emit=ptx -o k.ptx
  tileiras --out-dir=out --jobs=8 --gpu-name=sm_80 --gpu-name=sm_90 a.tileirbc b.tileirbc

Exit codes:

  0 success, 1 usage error or missing input, 2 configuration or output error, 3 invalid bytecode, 5 compilation failed, or a stage
  or ptxas is missing or failed

Environment:

  CUDA_ROOT, CUDA_HOME, CUDA_PATH: the toolkit with ptxas and libdevice; the first variable that is set takes precedence
  TILEWORKS_OPTIONS: extra options; the command line overrides them
  PATH: the last place that is searched for ptxas and libdevice
  TMPDIR: the folder for temporary files and crash directories
",
};

/// The bytecode versions that tile-read supports.
pub(crate) const VERSIONS: &str = "13.1\n13.2\n13.3\n13.4\n13.5\n";

/// Returns the text of `--version`, in the shape of NVIDIA's output: clients parse the release and use the full text as a cache
/// key. The build name contains a hash of this project's sources and `toolchain_hash`, so it changes whenever the generated code
/// can change.
pub(crate) fn version(toolchain_hash: &str) -> String {
    format!(
        "tileiras: Tileworks, an open CUDA Tile IR assembler\n\
         This is not NVIDIA's tileiras; it takes the same options and bytecode.\n\
         Tileworks {}\n\
         Cuda compilation tools, release 13.5, V13.5.37\n\
         Build tileworks.{}.{toolchain_hash}\n",
        env!("CARGO_PKG_VERSION"),
        env!("SOURCE_HASH")
    )
}
