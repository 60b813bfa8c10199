//! Errors of the driver. The exit codes are those of NVIDIA's tileiras, and `--error-format` selects the format of the messages.

use base::diag::{Diagnostic, Place, Style};
use common::cl::Parsed;
use std::fmt::Display;

/// Exit codes of NVIDIA's tileiras.
pub(crate) mod exit {
    pub(crate) const OK: u8 = 0;
    /// A usage error, or a missing input.
    pub(crate) const USAGE: u8 = 1;
    /// Options that contradict each other, a missing component, or an output that cannot be written.
    pub(crate) const CONFIGURATION: u8 = 2;
    /// Invalid bytecode.
    pub(crate) const INPUT: u8 = 3;
    /// A stage or ptxas failed.
    pub(crate) const COMPILE: u8 = 5;
}

/// A failed run of the driver: the exit code and the text for standard error.
#[derive(Debug)]
pub(crate) struct DriverError {
    pub(crate) code: u8,
    /// Earlier messages, already rendered.
    text: String,
    error: Option<Box<Diagnostic>>,
    /// An additional note that NVIDIA's tileiras does not print.
    note: Option<String>,
}

impl DriverError {
    pub(crate) fn new(code: u8, message: impl Display) -> DriverError {
        DriverError::after_messages(String::new(), code, message)
    }

    /// Returns an error that follows messages which are already rendered in `text`.
    pub(crate) fn after_messages(text: String, code: u8, message: impl Display) -> DriverError {
        let diagnostic_code = match code {
            exit::USAGE => "DRI001",
            exit::INPUT => "DRI003",
            exit::COMPILE => "DRI005",
            _ => "DRI002",
        };
        DriverError { code, text, error: Some(Diagnostic::usage(diagnostic_code, message.to_string())), note: None }
    }

    /// Adds a note that NVIDIA's tileiras does not print.
    pub(crate) fn note(self, note: &str) -> DriverError {
        DriverError { note: Some(note.into()), ..self }
    }

    /// Sets the input that the error refers to.
    pub(crate) fn in_input(self, path: &str) -> DriverError {
        DriverError { error: self.error.map(|error| error.in_input(path, None)), ..self }
    }

    /// Returns an error whose messages are all already rendered in `text`.
    pub(crate) fn reported(text: String, code: u8) -> DriverError {
        DriverError { code, text, error: None, note: None }
    }

    /// Returns the error for mistakes on the command line. The reference format keeps NVIDIA's wording.
    pub(crate) fn usage(program: &str, mistakes: &[String], style: Style) -> DriverError {
        if style == Style::Reference {
            return DriverError::reported(mistakes.iter().map(|line| format!("{line}\n")).collect(), exit::USAGE);
        }
        let program_prefix = format!("{}: ", common::cl::file_name(program));
        let mut errors: Vec<Box<Diagnostic>> = Vec::new();
        for line in mistakes.iter().map(|line| line.strip_prefix(&program_prefix).unwrap_or(line).trim_end()) {
            match errors.pop() {
                Some(error) if line.starts_with("Did you mean") => errors.push(error.note(line)),
                previous => errors.extend(previous.into_iter().chain([Diagnostic::usage("CLI008", line)])),
            }
        }
        DriverError::reported(errors.iter().map(|error| render_diagnostic(error, style)).collect(), exit::USAGE)
    }

    /// Renders all messages in a format.
    pub(crate) fn render(&self, style: Style) -> String {
        let error = self.error.as_ref().map_or(String::new(), |error| render_diagnostic(error, style));
        let note = self.note.as_ref().map_or(String::new(), |note| format!("note: {note}\n"));
        self.text.clone() + &error + &note
    }
}

/// Returns the message format that a command line selects.
pub(crate) fn style(parsed: &Parsed) -> Style {
    match parsed.get("error-format") {
        Some("human") => Style::Human,
        Some("json") => Style::Json,
        _ => Style::Reference,
    }
}

/// Renders a diagnostic in a format.
pub(crate) fn render_diagnostic(diagnostic: &Diagnostic, style: Style) -> String {
    let text = match style {
        // JSON carries a single wording of the message.
        Style::Json => Diagnostic { reference: Vec::new(), ..diagnostic.clone() }.render(style, diagnostic_to_json),
        _ => diagnostic.render(style, diagnostic_to_json),
    };
    match &diagnostic.place {
        // NVIDIA's message does not name the input.
        Some(Place::Input { file, .. }) if style == Style::Reference => format!("{text}note: in {file}\n"),
        _ => text,
    }
}

fn diagnostic_to_json(diagnostic: &Diagnostic) -> String {
    serde_json::to_string(diagnostic).expect("a diagnostic is plain data")
}

/// Renders a line of plain text. In JSON, where every line is an object, the line becomes `{"line": ...}`.
pub(crate) fn plain_line(line: &str, style: Style) -> String {
    if style == Style::Json { format!("{}\n", serde_json::json!({ "line": line })) } else { format!("{line}\n") }
}
