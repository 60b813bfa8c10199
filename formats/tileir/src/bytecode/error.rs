//! Errors of the bytecode reader: the cause, and one line for each construct that encloses the cause.

use base::Diagnostic;

/// The lines that NVIDIA's reader prints for an error, innermost level first, without the leading `error: `. The last line,
/// [`CONCLUSION`], is not in `lines`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    pub lines: Vec<Line>,
    /// The source position of the op that violates a rule, if the file has one.
    pub position: Option<(String, u32, u32)>,
    /// Whether [`CONCLUSION`] is the last line of the error, as NVIDIA's reader prints it.
    pub has_conclusion: bool,
}

/// One line of an error, and the byte offset to which it refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub offset: Option<usize>,
    pub message: String,
}

pub(super) type Result<T> = std::result::Result<T, ReadError>;

/// The last line of an error, unless [`ReadError::has_conclusion`] is false.
pub const CONCLUSION: &str = "input does not correspond to Tile IR bytecode";

impl ReadError {
    /// An error without a line. If no enclosing level adds a line, [`CONCLUSION`] is the only line that the reader prints.
    pub(super) fn without_message() -> ReadError {
        ReadError { lines: Vec::new(), position: None, has_conclusion: true }
    }
    /// An error of one line that refers to no byte offset.
    pub(super) fn without_offset(message: impl Into<String>) -> ReadError {
        ReadError { lines: vec![Line::without_offset(message)], ..ReadError::without_message() }
    }
    /// An error of one line that refers to a byte offset.
    pub(super) fn at(offset: usize, message: impl std::fmt::Display) -> ReadError {
        ReadError { lines: vec![Line::at(offset, message)], ..ReadError::without_message() }
    }
    /// An error of a single line, without [`CONCLUSION`].
    pub(super) fn without_conclusion(message: impl Into<String>) -> ReadError {
        ReadError { has_conclusion: false, ..ReadError::without_offset(message) }
    }
    /// Appends the line of an enclosing construct, such as the block that contains the op of the error.
    pub(super) fn with_outer_line(mut self, offset: usize, message: impl std::fmt::Display) -> ReadError {
        self.lines.push(Line::at(offset, message));
        self
    }

    /// Returns the error as a diagnostic for the file `name`. In the reference style, the diagnostic prints exactly NVIDIA's lines.
    pub fn into_diagnostic(self, name: &str) -> Box<Diagnostic> {
        let conclusion = self.has_conclusion.then(|| Line::without_offset(CONCLUSION));
        let lines: Vec<Line> = self.lines.into_iter().chain(conclusion).collect();
        let cause = lines.first().map_or(CONCLUSION, |line| &line.message);
        let mut diagnostic = Diagnostic::invalid("TI001", cause);
        diagnostic.notes = lines.iter().skip(1).map(Line::note).collect();
        diagnostic.reference = lines.iter().map(Line::to_string).collect();
        match self.position {
            // NVIDIA's reader prints these lines without a location, so the position is text and not a diagnostic position.
            Some((file, line, column)) => {
                diagnostic.at(base::diag::Place::Entity(format!("{file}:{line}:{column}"))).note(format!("in {name}"))
            }
            None => diagnostic.in_input(name, lines.iter().find_map(|line| line.offset).map(|offset| offset as u64)),
        }
    }
}

impl Line {
    pub(super) fn without_offset(message: impl Into<String>) -> Line {
        Line { offset: None, message: message.into() }
    }
    fn at(offset: usize, message: impl std::fmt::Display) -> Line {
        Line { offset: Some(offset), message: message.to_string() }
    }
    /// The text of the line in a diagnostic of this project, with the byte offset first.
    fn note(&self) -> String {
        self.offset.map_or(self.message.clone(), |offset| format!("byte {offset}: {}", self.message))
    }
}

/// Writes the text that NVIDIA's reader prints after `error: `.
impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "error at offset {offset}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
