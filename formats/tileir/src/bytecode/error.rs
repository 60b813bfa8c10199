//! What the reader says when it refuses a file: the cause and then one line for each level it was nested in.

use base::Diagnostic;

/// The lines NVIDIA's reader prints, innermost first, without the `error: ` before each and without the last one, which names
/// the tool's own conclusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    pub lines: Vec<String>,
    /// Where the op that broke a rule came from in the source, when the file says.
    pub position: Option<(String, u32, u32)>,
    /// Whether the last line of the reference, that the input is no Tile IR bytecode, follows.
    pub concluded: bool,
}

pub(super) type Result<T> = std::result::Result<T, ReadError>;

/// The last line of every refusal.
pub const CONCLUSION: &str = "input does not correspond to Tile IR bytecode";

impl ReadError {
    /// A failure whose cause the level above puts into words.
    pub(super) fn silent() -> ReadError {
        ReadError { lines: Vec::new(), position: None, concluded: true }
    }
    pub(super) fn plain(message: impl Into<String>) -> ReadError {
        ReadError { lines: vec![message.into()], ..ReadError::silent() }
    }
    pub(super) fn at(offset: usize, message: impl std::fmt::Display) -> ReadError {
        ReadError::plain(format!("error at offset {offset}: {message}"))
    }
    /// A refusal that stands alone.
    pub(super) fn alone(message: impl Into<String>) -> ReadError {
        ReadError { concluded: false, ..ReadError::plain(message) }
    }
    pub(super) fn then(mut self, offset: usize, message: impl std::fmt::Display) -> ReadError {
        self.lines.push(format!("error at offset {offset}: {message}"));
        self
    }

    /// The refusal as a diagnostic that prints, in the reference's style, exactly the reference's lines.
    pub fn into_diagnostic(self) -> Box<Diagnostic> {
        let mut lines = self.lines.into_iter().chain(self.concluded.then(|| CONCLUSION.to_string()));
        let mut diagnostic = Diagnostic::invalid("TI001", lines.next().unwrap_or_else(|| CONCLUSION.into()));
        diagnostic.notes = lines.collect();
        if let Some((file, line, column)) = self.position {
            // Not a source place: the reference prints these without a location.
            diagnostic = diagnostic.at(base::diag::Place::Entity(format!("{file}:{line}:{column}")));
        }
        diagnostic
    }
}
