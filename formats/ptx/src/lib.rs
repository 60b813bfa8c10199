//! PTX as text and as a tree: what LLVM and NVIDIA's compilers write, ISA 8.0 to 9.4.
//!
//! [`open()`] reads a file; [`parse`] turns text into a [`Module`], [`print()`] writes it back so that parsing again gives an equal tree, and [`check()`] says
//! what is wrong with a tree that parses: unknown instructions, wrong operands, names that nothing declares.
//! Comments are dropped, save the `//!tile` block at the head, which carries this project's envelope; the recipes of tensor maps in
//! it are [`tensor_map::Recipe`].

mod ast;
mod check;
mod lexer;
mod open;
mod parser;
mod printer;
mod table;
pub mod tensor_map;
mod types;

pub use ast::*;
pub use check::check;
pub use open::open;
pub use parser::{head, parse};
pub use printer::print;
pub use table::{OPCODES, Opcode, opcode};
pub use types::{Modifier, Space, Type};
