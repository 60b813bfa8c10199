//! Converts MLIR text to bytecode without verification, to test the diagnostics of another reader.
//!
//!     cargo run -p tileir --example unverified program.mlir > program.tileirbc

use base::DebugInfo;
use std::io::Write;
use tileir::{Version, bytecode, text};

fn main() {
    let path = std::env::args().nth(1).expect("the name of a file with a program");
    let program = std::fs::read_to_string(&path).expect("the file is text");
    let module = text::parse(&program, &path, 1, &mut DebugInfo::default()).unwrap_or_else(|error| panic!("{}", error.message));
    let bytes = bytecode::write(&module, &DebugInfo::default(), Version::V13_4).unwrap_or_else(|error| panic!("{}", error.message));
    std::io::stdout().write_all(&bytes).expect("standard output takes the bytes");
}
