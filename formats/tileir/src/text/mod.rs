//! The text form of Tile IR: byte for byte the output of NVIDIA's disassembler, and its parser.

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

/// A comment before the program, with properties that the disassembly lacks.
pub fn header(module: &Module) -> String {
    let mut line = format!("//!tileir version {}", module.version);
    line.push_str(if module.preview { " preview" } else { "" });
    if let Some(producer) = module.producer {
        line.push_str(" producer ");
        attributes::write_string(&mut line, module.string(producer));
    }
    line + "\n"
}
