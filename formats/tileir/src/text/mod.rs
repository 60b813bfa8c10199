//! The readable form of Tile IR: what NVIDIA's disassembler prints, byte for byte, and how it is read back.

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
pub use print::{print, print_whole};

use crate::module::Module;

/// What the disassembly does not say about a program, as a comment before it.
pub fn header(module: &Module) -> String {
    let mut line = format!("//!tileir version {}", module.version);
    line.push_str(if module.preview { " preview" } else { "" });
    if let Some(producer) = module.producer {
        line.push_str(" producer ");
        attributes::write_string(&mut line, module.string(producer));
    }
    line + "\n"
}
