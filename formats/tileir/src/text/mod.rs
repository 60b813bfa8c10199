//! Prints and parses the text form of Tile IR. The printed text equals the output of NVIDIA's disassembler byte for byte.

mod aliases;
mod attributes;
pub mod format;
mod lex;
mod names;
pub mod numbers;
mod parse;
mod parse_debug;
mod parse_dictionaries;
mod parse_preview;
mod parse_types;
pub(crate) mod preview;
mod print;
pub mod types;

pub use aliases::scope_text;
pub use parse::parse;
pub use print::{print, print_complete};

use crate::module::Module;

/// Returns the first line of a `.tile` file: a comment with properties of the module that the disassembly lacks.
pub fn header(module: &Module) -> String {
    let mut line = format!("//!tileir version {}", module.version);
    line.push_str(if module.preview { " preview" } else { "" });
    if let Some(producer) = module.producer {
        line.push_str(" producer ");
        attributes::write_string(&mut line, module.string(producer));
    }
    line + "\n"
}
