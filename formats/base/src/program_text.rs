//! The program text of a file: the input of parsers.

/// The program text of a file.
#[derive(Clone, Copy)]
pub struct Source<'t> {
    pub text: &'t str,
    /// The file's name, for diagnostics.
    pub name: &'t str,
    /// The line number of the text's first line in the file.
    pub first_line: u32,
    /// Whether the parser uses the line number of each op as its location, and ignores the location numbers in the text.
    pub by_line: bool,
}
