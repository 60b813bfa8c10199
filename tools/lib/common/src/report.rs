//! Diagnostics on standard error, in the form that `--error-format` asks for.

use base::diag::{Diagnostic, Style};
use std::io::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ErrorFormat {
    /// For people
    Human,
    /// One JSON object a line
    Json,
    /// As NVIDIA's tileiras writes them
    Reference,
}

#[derive(Clone, Copy, Debug)]
pub struct Reporter(pub ErrorFormat);

impl Reporter {
    pub fn report(&self, diagnostic: &Diagnostic) {
        let style = match self.0 {
            ErrorFormat::Human => Style::Human,
            ErrorFormat::Json => Style::Json,
            ErrorFormat::Reference => Style::Reference,
        };
        write_stderr(&diagnostic.render(style, |d| serde_json::to_string(d).expect("a diagnostic is plain data")));
    }
}

/// Writes to standard error; that nobody reads it is no reason to fail.
pub fn write_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
