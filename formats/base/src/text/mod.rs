//! The readable form of the IR formats: one line an op, regions indented in braces.
//!
//! ```text
//! func "vadd"(%0: ptr<f32>, %1: i32) (
//!   warps: 4,
//!   buffers: [
//!     (elem: f32, shape: [256], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 16), // buffer 0
//!   ],
//! ) @0 { // vadd.py:7
//!   type !0 = memref<?xf32, scope: 1>
//!   %2 = constant(0.5) : tile<256xf32, #0> @4 // vadd.py:9
//!   %3 = binary(kind: add_f(rounding: nearest_even), lhs: %5, rhs: %2) : tile<256xf32, #0> @4 // vadd.py:9
//! }
//! ```
//!
//! The attribute part `name(field: value, …)` of an op is written and read through its serde derives ([`mod@write`], [`mod@read`]), so a
//! new op needs no code here. Fields that are `None`, `false`, empty lists or regions are left out. Constants are numbers of their
//! type. Types made of parts stand once, in a table at the head of their function. Ids are numbered in program order, which
//! [`crate::Body`] files keep ([`function::compact`]); a person may use any names, such as `%sum`. The source line behind an op is a
//! comment: what counts is the location's number, `@4`.

mod function;
mod parse;
mod print;
mod read;
mod spread;
mod write;

pub use function::{Function, Signature, compact, compact_with_map, is_compact};
pub use parse::read_function;
pub use print::print_function;
pub use read::Reader;
pub use write::to_text;

use crate::envelope::Source;
use crate::ir::{Dense, Operation};

/// Reads a value that takes up the whole text.
pub fn from_text<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    let mut reader = Reader::new(Source { text, name: "", first_line: 1, by_line: false });
    let value = reader.value().ok()?;
    reader.at_end().then_some(value)
}

/// How a type of an IR is written: on one line, without spaces outside brackets.
pub trait TypeText: Sized {
    fn print(&self) -> String;
    fn parse(text: &str) -> Option<Self>;
    /// What of the type stands in the table of types, in full, parts before what they are part of.
    fn parts(&self) -> Vec<String> {
        Vec::new()
    }
    /// A number of this type, or of its elements.
    fn literal(&self, _bits: u64) -> Option<String> {
        None
    }
    fn bits(&self, _literal: &str) -> Option<u64> {
        None
    }
}

/// An op that the text form can write and read: it must know constants, whose numbers are those of their type. Their mnemonic is
/// `constant`.
pub trait OpText: Operation + serde::Serialize + serde::de::DeserializeOwned {
    fn constant(&self) -> Option<&Dense>;
    fn from_constant(value: Dense) -> Self;
}
