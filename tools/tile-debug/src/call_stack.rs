//! The source of a program: its files, and call stacks of source locations.

use std::path::PathBuf;

/// An entry of a call stack: a source location in a function. The preceding frame is the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Index in [`crate::debuggee::Debuggee::files`].
    pub(crate) file: usize,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) function: String,
}

/// A source file of the program.
pub(crate) struct SourceFile {
    /// The name in the program's debug information.
    pub(crate) name: String,
    /// The path and the lines of the file; `None` if the debugger has not found it.
    pub(crate) path_and_lines: Option<(PathBuf, Vec<String>)>,
}
