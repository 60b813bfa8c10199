//! What the reader says when it refuses a file: the cause and then one line for each level it was nested in.

use base::Diagnostic;

/// The lines NVIDIA's reader prints, innermost first, without the `error: ` before each and without the last one, which names
/// the tool's own conclusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    pub lines: Vec<Line>,
    /// Where the op that broke a rule came from in the source, when the file says.
    pub position: Option<(String, u32, u32)>,
    /// Whether the last line of the reference, that the input is no Tile IR bytecode, follows.
    pub concluded: bool,
}

/// One line of a refusal, and the byte it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub offset: Option<usize>,
    pub message: String,
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
        ReadError { lines: vec![Line::plain(message)], ..ReadError::silent() }
    }
    pub(super) fn at(offset: usize, message: impl std::fmt::Display) -> ReadError {
        ReadError { lines: vec![Line::at(offset, message)], ..ReadError::silent() }
    }
    /// A refusal that stands alone.
    pub(super) fn alone(message: impl Into<String>) -> ReadError {
        ReadError { concluded: false, ..ReadError::plain(message) }
    }
    pub(super) fn then(mut self, offset: usize, message: impl std::fmt::Display) -> ReadError {
        self.lines.push(Line::at(offset, message));
        self
    }

    /// The refusal as a diagnostic about the file `name`. In the reference's style it prints exactly the reference's lines.
    pub fn into_diagnostic(self, name: &str) -> Box<Diagnostic> {
        let conclusion = self.concluded.then(|| Line::plain(CONCLUSION));
        let lines: Vec<Line> = self.lines.into_iter().chain(conclusion).collect();
        let cause = lines.first().map_or(CONCLUSION, |line| &line.message);
        let mut diagnostic = Diagnostic::invalid("TI001", cause);
        diagnostic.notes = lines.iter().skip(1).map(Line::note).collect();
        diagnostic.reference = lines.iter().map(Line::to_string).collect();
        match self.position {
            // The reference prints these without a location, so this is no source place.
            Some((file, line, column)) => {
                diagnostic.at(base::diag::Place::Entity(format!("{file}:{line}:{column}"))).note(format!("in {name}"))
            }
            None => diagnostic.in_input(name, lines.iter().find_map(|line| line.offset).map(|offset| offset as u64)),
        }
    }
}

impl Line {
    pub(super) fn plain(message: impl Into<String>) -> Line {
        Line { offset: None, message: message.into() }
    }
    fn at(offset: usize, message: impl std::fmt::Display) -> Line {
        Line { offset: Some(offset), message: message.to_string() }
    }
    fn note(&self) -> String {
        self.offset.map_or(self.message.clone(), |offset| format!("byte {offset}: {}", self.message))
    }
}

/// As the reference prints it after `error: `.
impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "error at offset {offset}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
