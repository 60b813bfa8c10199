//! The text form of the IR formats: one line per op, regions indented in braces.
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
//! Serde derives write and read the attribute part `name(field: value, …)` of an op ([`mod@write`], [`mod@read`]). A new
//! op therefore needs no code in this module. The text omits fields that are `None`, `false`, empty lists or regions. Constants are
//! numbers in the notation of their type. A table at the head of each function lists its composite types. Ids are numbered in
//! program order, the order of [`crate::Body`] in files ([`function::compact`]). In a text that a person writes, values may have
//! any names, such as `%sum`. The source line after an op is a comment, which the parser skips. The location number `@4` determines
//! the location.

mod function;
mod line_breaks;
mod parse;
mod print;
mod read;
mod write;

pub use function::{Function, FunctionAttributes, compact, compact_with_map, is_compact};
pub use parse::read_function;
pub use print::print_function;
pub use read::Reader;
pub use write::to_text;

use crate::ir::{Dense, Operation};
use crate::program_text::Source;

/// Reads a value that occupies the entire text. Returns `None` if the text is not such a value.
pub fn from_text<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    let mut reader = Reader::new(Source { text, name: "", first_line: 1, by_line: false });
    let value = reader.value().ok()?;
    reader.at_end().then_some(value)
}

/// A type of the text form. The text of a type is one line, without spaces outside brackets.
pub trait TypeText: Sized {
    fn print(&self) -> String;
    fn parse(text: &str) -> Option<Self>;
    /// Returns the full texts of the types that the type table lists: this type, if it is composite, and its composite components.
    /// A type comes after its components.
    fn table_types(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the text of a number of this type, or of its element type. Returns `None` if the numbers have no text.
    fn literal(&self, _bits: u64) -> Option<String> {
        None
    }
    /// Returns the bits of a number from its text. This function is the inverse of `literal`.
    fn literal_bits(&self, _literal: &str) -> Option<u64> {
        None
    }
}

/// An op of the text form. The elements of the op `constant` are numbers in the notation of its type, so printer and parser must
/// recognise this op.
pub trait OpText: Operation + serde::Serialize + serde::de::DeserializeOwned {
    fn constant(&self) -> Option<&Dense>;
    fn from_constant(value: Dense) -> Self;
}
