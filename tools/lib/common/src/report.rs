//! Writes diagnostics to standard error in the format that `--error-format` selects.

use crate::difference::Colour;
use base::diag::{Diagnostic, Style};
use std::io::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ErrorFormat {
    /// Human-readable
    Human,
    /// One JSON object per line
    Json,
    /// The format of NVIDIA's tileiras
    Reference,
}

/// Writes diagnostics in a format.
#[derive(Clone, Copy, Debug)]
pub struct Reporter(pub ErrorFormat);

impl Reporter {
    /// Writes a diagnostic to standard error.
    pub fn report(&self, diagnostic: &Diagnostic) {
        write_stderr(&self.text(diagnostic));
    }

    /// Returns the text of a diagnostic in this format.
    pub(crate) fn text(&self, diagnostic: &Diagnostic) -> String {
        let style = match self.0 {
            ErrorFormat::Human if Colour::for_stderr() == Colour::Yes => Style::Terminal,
            ErrorFormat::Human => Style::Human,
            ErrorFormat::Json => Style::Json,
            ErrorFormat::Reference => Style::Reference,
        };
        diagnostic.render(style, |d| serde_json::to_string(d).expect("a diagnostic is plain data"))
    }
}

/// Writes to standard error. Errors, such as a closed reader of a Unix pipe, are ignored.
pub fn write_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
