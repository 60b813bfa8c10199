//! PTX as text and as a syntax tree. The crate supports the output of LLVM and of NVIDIA's compilers in ISA versions 8.0 to 9.4.
//!
//! [`open()`] reads a file, [`parse`] turns text into a [`Module`], and [`print()`] turns a module into text. Parsing the printed
//! text gives an equal module. [`check()`] reports semantic errors: unknown instructions, wrong operands, undeclared names.
//! The parser drops comments except the `//!tile` block at the head, which contains this project's envelope. A tensor-map recipe
//! of the envelope is a [`tensor_map::Recipe`].

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
pub use parser::{leading_comments, parse};
pub use printer::print;
pub use table::{OPCODES, Opcode, opcode};
pub use types::{Modifier, Space, Type};
