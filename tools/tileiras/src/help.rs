//! What `--help`, `--version` and `--list-versions` print. Clients read parts of it, so its shape is the reference's.

use crate::grammar::dashed;
use crate::options::{OPTIONS, Section, Spec, Value};
use std::fmt::Write as _;

const OVERVIEW: &str = "OVERVIEW: tileiras: Tileworks, an open CUDA Tile IR assembler (not NVIDIA's)\n\nUSAGE: tileiras [options] <tile bytecode file>\n\nOPTIONS:\n";
/// The column of the descriptions.
const WIDTH: usize = 33;

/// Bytecode versions that tile-read reads.
pub(crate) const VERSIONS: &str = "13.1\n13.2\n13.3\n13.4\n";

/// Options under headings, as `--help` shows them.
pub(crate) fn sections(hidden: bool) -> String {
    let mut out = OVERVIEW.to_string();
    let headings = [
        ("Generic Options:\n", Section::Generic),
        ("TileIR Assembler Options:\n", Section::Assembler),
        ("TileIR Assembler Remark Options:\nFilter remarks by category.\n", Section::Remarks),
        ("Tileworks Options, which the reference does not have:\n", Section::Extension),
    ];
    for (heading, section) in headings {
        let listed =
            |spec: &&Spec| spec.section == section || hidden && section == Section::Generic && spec.section == Section::Hidden;
        let _ = write!(out, "\n{heading}\n{}", rows(OPTIONS.iter().filter(listed)));
    }
    out
}

/// Options in one list.
pub(crate) fn list(hidden: bool) -> String {
    let listed = |spec: &&Spec| hidden || spec.section != Section::Hidden;
    format!("{OVERVIEW}{}\n", rows(OPTIONS.iter().filter(listed)))
}

fn rows<'a>(specs: impl Iterator<Item = &'a Spec>) -> String {
    let mut specs: Vec<&Spec> = specs.collect();
    specs.sort_by_key(|spec| spec.name);
    let mut out = String::new();
    for spec in specs {
        let value = match spec.value {
            Value::OptionalText => format!("[=<{}>]", spec.placeholder),
            _ if spec.placeholder.is_empty() => String::new(),
            _ => format!("=<{}>", spec.placeholder),
        };
        let _ = writeln!(out, "{:WIDTH$}- {}", format!("  {}{value}", dashed(spec.name)), spec.help);
        if let Value::Choice(choices) = spec.value {
            for (choice, help) in choices {
                let _ = writeln!(out, "{:WIDTH$}-   {help}", format!("    ={choice}"));
            }
        }
    }
    out
}

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
