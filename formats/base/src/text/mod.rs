//! The readable form of the IR formats: one line an op, regions indented in braces.
//!
//! ```text
//! func vadd(params: [ptr_f32, i32]) {
//!   %2 = binary(kind: add_f(rounding: nearest_even), lhs: %0, rhs: %1) : tile<256xf32> @4
//! }
//! ```
//!
//! The attribute part `name(field: value, …)` of an op is written and read through its serde derives ([`mod@write`], [`mod@read`]), so a
//! new op needs no code here. Fields that are `None`, `false` or empty lists are left out. Ids are numbered in program order,
//! which [`crate::Body`] files keep ([`function::compact`]); a person may use any names, such as `%sum`.

mod function;
mod read;
mod write;

pub use function::{Function, Signature, compact, compact_with_map, is_compact, print_function, read_function};
pub use read::Reader;
pub use write::to_text;

/// Reads a value that takes up the whole text.
pub fn from_text<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    let mut reader = Reader::new(text, "", 1);
    let value = reader.value().ok()?;
    reader.at_end().then_some(value)
}

/// How a type of an IR is written: on one line, without spaces outside brackets.
pub trait TypeText: Sized {
    fn print(&self) -> String;
    fn parse(text: &str) -> Option<Self>;
}
