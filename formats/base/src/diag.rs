//! Diagnostics as data, and the code that renders them as text. No other code prints diagnostics.
//!
//! Messages start in lower case and have no full stop. A diagnostic has the position of the problem: a source position, an entity
//! of the file (`%7`) or a byte offset.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Remark,
    Note,
}

/// The class of an error. The class determines the exit code of the tool that reports the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The input is invalid: exit code 1.
    Invalid,
    /// The command line does not fit the input: exit code 2.
    Usage,
    /// The input is valid, but the tool does not support this op, type or target: exit code 3.
    Unsupported,
    /// A file cannot be read or written, or a child process failed: exit code 4.
    Io,
}

/// The position of a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Source {
        file: String,
        line: u32,
        column: u32,
        /// The location in NVIDIA's notation, with debug scopes and calls; empty for a plain location.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        in_full: String,
    },
    /// A position in a text form. `excerpt` is the text of the line. A caret under the excerpt marks the column.
    Text { file: String, line: u32, column: u32, excerpt: String },
    /// An entity of the file by its name, such as `%7`.
    Entity(String),
    /// A binary file, and the byte offset of the problem; `None` if the offset is unknown.
    Input {
        file: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    },
}

/// An error, warning, remark or note for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub severity: Severity,
    pub kind: Kind,
    /// A short, stable code such as `AA012`. `tileiras --explain` prints the page of a code.
    pub code: String,
    pub message: String,
    /// The position of the problem; `None` if it is unknown.
    pub place: Option<Place>,
    pub notes: Vec<String>,
    /// The lines that [`Style::Reference`] prints instead of the message; empty if NVIDIA's tileiras prints the same message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<String>,
    /// The resource that the kernel exceeds; `None` if the diagnostic reports another problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
}

/// A resource of which the kernel needs more than the target has. An autotuner can read this struct instead of parsing the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    pub kind: ResourceKind,
    pub needed: u64,
    pub available: u64,
    /// The option or hint that determines `needed` or `available`, such as `stages=8`. `None` if the program determines both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kinds of resources, each with the unit of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// Bytes of a CTA.
    SharedMemory,
    /// TMEM columns of a CTA.
    TensorMemory,
    /// 32-bit registers of a thread.
    Registers,
    /// Bytes of a kernel's parameters.
    Parameters,
    /// Instructions of a thread.
    Instructions,
}

/// The result of a reader, verifier or pass.
pub type Result<T, E = Box<Diagnostic>> = std::result::Result<T, E>;

/// The form in which a diagnostic is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For people: `error[AA012]: message`, then the position and the notes.
    Human,
    /// The same text as `Human`, with terminal colours.
    Terminal,
    /// One JSON object per line, for the driver.
    Json,
    /// NVIDIA's form: `error: message` or `loc("file":line:column): error: message`.
    Reference,
}

/// A part of the text of a diagnostic. Each part has a colour of its own.
#[derive(Clone, Copy)]
enum Part {
    Severity,
    Message,
    Margin,
    Caret,
    Note,
}

impl Diagnostic {
    pub fn new(kind: Kind, code: impl AsRef<str>, message: impl Into<String>) -> Box<Self> {
        Box::new(Diagnostic {
            severity: Severity::Error,
            kind,
            code: code.as_ref().into(),
            message: message.into(),
            place: None,
            notes: Vec::new(),
            reference: Vec::new(),
            resource: None,
        })
    }
    pub fn invalid(code: impl AsRef<str>, message: impl Into<String>) -> Box<Self> {
        Self::new(Kind::Invalid, code, message)
    }
    pub fn usage(code: impl AsRef<str>, message: impl Into<String>) -> Box<Self> {
        Self::new(Kind::Usage, code, message)
    }
    pub fn unsupported(code: impl AsRef<str>, message: impl Into<String>) -> Box<Self> {
        Self::new(Kind::Unsupported, code, message)
    }
    pub fn io(code: impl AsRef<str>, message: impl Into<String>) -> Box<Self> {
        Self::new(Kind::Io, code, message)
    }
    /// Sets the position.
    pub fn at(mut self: Box<Self>, place: Place) -> Box<Self> {
        self.place = Some(place);
        self
    }
    /// Sets the position to a binary file, and to a byte offset in the file if the offset is known.
    pub fn in_input(self: Box<Self>, file: impl Into<String>, offset: Option<u64>) -> Box<Self> {
        self.at(Place::Input { file: file.into(), offset })
    }
    /// Sets the position to the source position of `loc`. Has no effect if `loc` has no source position, or if the diagnostic
    /// already has a position.
    pub fn at_loc(self: Box<Self>, debug: &crate::DebugInfo, loc: crate::Loc) -> Box<Self> {
        match debug.position(loc) {
            Some((file, line, column)) if self.place.is_none() => {
                let in_full = debug.reference_text(loc).unwrap_or_default();
                self.at(Place::Source { file: file.into(), line, column, in_full })
            }
            _ => self,
        }
    }
    /// Adds a note.
    pub fn note(mut self: Box<Self>, note: impl Into<String>) -> Box<Self> {
        self.notes.push(note.into());
        self
    }
    /// Records the resource that the kernel exceeds: its kind, the needed amount and the available amount.
    pub fn exceeds(mut self: Box<Self>, kind: ResourceKind, needed: u64, available: u64) -> Box<Self> {
        self.resource = Some(Resource { kind, needed, available, hint: None });
        self
    }
    /// Records the option or hint that determines the needed or the available amount of the resource. Has no effect on a diagnostic
    /// without a resource.
    pub fn caused_by(mut self: Box<Self>, hint: Option<String>) -> Box<Self> {
        if let Some(resource) = &mut self.resource {
            resource.hint = hint;
        }
        self
    }
    /// Returns the exit code of a tool that reports this error.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Invalid => 1,
            Kind::Usage => 2,
            Kind::Unsupported => 3,
            Kind::Io => 4,
        }
    }

    /// Renders the diagnostic as text, with a newline at the end. `json` encodes the diagnostic for [`Style::Json`].
    pub fn render(&self, style: Style, json: impl Fn(&Diagnostic) -> String) -> String {
        match style {
            Style::Json => json(self) + "\n",
            Style::Human => self.render_human(|_, text| text.into()),
            Style::Terminal => self.render_human(|part, text| format!("\x1b[{}m{text}\x1b[0m", self.colour_parameters(part))),
            Style::Reference => self.render_reference(),
        }
    }

    fn severity_word(&self) -> &'static str {
        match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Remark => "remark",
            Severity::Note => "note",
        }
    }

    /// Returns the parameters of the ANSI escape sequence that selects the colour of a part.
    fn colour_parameters(&self, part: Part) -> &'static str {
        match (part, self.severity) {
            (Part::Severity | Part::Caret, Severity::Error) => "1;31",
            (Part::Severity | Part::Caret, Severity::Warning) => "1;33",
            (Part::Severity | Part::Caret, Severity::Remark | Severity::Note) => "1;36",
            (Part::Message | Part::Note, _) => "1",
            (Part::Margin, _) => "1;34",
        }
    }

    /// Renders [`Style::Human`] or [`Style::Terminal`]. `paint` returns the text of a part. For `Terminal`, `paint` adds the escape
    /// sequences of the colour.
    fn render_human(&self, paint: impl Fn(Part, &str) -> String) -> String {
        let severity = paint(Part::Severity, &format!("{}[{}]", self.severity_word(), self.code));
        let mut out = format!("{severity}{}\n", paint(Part::Message, &format!(": {}", self.message)));
        let (arrow, bar) = (paint(Part::Margin, "-->"), paint(Part::Margin, "|"));
        match &self.place {
            Some(Place::Source { file, line, column, .. }) => {
                let _ = writeln!(out, "  {arrow} {file}:{line}:{column}");
            }
            Some(Place::Text { file, line, column, excerpt }) => {
                let (indent, caret) = (" ".repeat((*column as usize).saturating_sub(1)), paint(Part::Caret, "^"));
                let _ = writeln!(out, "  {arrow} {file}:{line}:{column}\n   {bar} {excerpt}\n   {bar} {indent}{caret}");
            }
            Some(Place::Entity(name)) => {
                let _ = writeln!(out, "  {arrow} {name}");
            }
            Some(Place::Input { file, offset: Some(offset) }) => {
                let _ = writeln!(out, "  {arrow} {file}, byte {offset}");
            }
            Some(Place::Input { file, offset: None }) => {
                let _ = writeln!(out, "  {arrow} {file}");
            }
            None => {}
        }
        for note in &self.notes {
            let _ = writeln!(out, "  {} {note}", paint(Part::Note, "note:"));
        }
        out
    }

    /// Renders the diagnostic in [`Style::Reference`].
    fn render_reference(&self) -> String {
        let word = self.severity_word();
        if !self.reference.is_empty() {
            return self.reference.iter().map(|line| format!("{word}: {line}\n")).collect();
        }
        let mut out = match &self.place {
            Some(Place::Source { in_full, .. }) if !in_full.is_empty() => format!("{in_full}: {word}: {}\n", self.message),
            Some(Place::Source { file, line, column, .. }) => {
                format!("loc(\"{file}\":{line}:{column}): {word}: {}\n", self.message)
            }
            _ => format!("{word}: {}\n", self.message),
        };
        for note in &self.notes {
            let _ = writeln!(out, "{word}: {note}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_text_differs_only_by_escape_sequences() {
        let place = Place::Text { file: "k.aa".into(), line: 3, column: 5, excerpt: "    %1 = add".into() };
        let diagnostic = Diagnostic::invalid("TXT001", "no op is called 'add'").at(place).note("did you mean 'binary'?");
        let rendered = |style| diagnostic.render(style, |_| String::new());
        let (plain, coloured) = (rendered(Style::Human), rendered(Style::Terminal));
        assert!(plain.starts_with("error[TXT001]: no op") && plain.contains("\n   |     ^\n"), "{plain}");
        assert!(coloured.starts_with("\x1b[1;31merror[TXT001]\x1b[0m"), "{coloured:?}");
        let uncoloured: String = coloured
            .split("\x1b[")
            .map(|part| part.split_once('m').filter(|(code, _)| is_colour(code)).map_or(part, |(_, text)| text))
            .collect();
        assert_eq!(uncoloured, plain);
    }

    /// Returns whether text has only the parameters of a colour: digits and semicolons.
    fn is_colour(code: &str) -> bool {
        !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';')
    }
}
