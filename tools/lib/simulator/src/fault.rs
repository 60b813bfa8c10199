//! Faults: errors that the simulator reports, each with a code and a location in the PTX text.

use crate::source_locations::SourceLocations;
use base::diag::{Diagnostic, Kind, Place};

pub type Result<T, E = Box<Fault>> = std::result::Result<T, E>;

/// An error of the simulated program, such as a race, or a reason why the simulator cannot execute it.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub code: &'static str,
    pub message: String,
    /// Bit mask of the lanes at fault; 0 if the fault is not specific to lanes.
    pub lanes: u32,
    /// The line of the PTX text; 0 if it is unknown.
    pub line: u32,
    pub notes: Vec<String>,
}

impl Fault {
    /// Returns a fault for an error of the simulated program.
    pub fn new(code: &'static str, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { kind: Kind::Invalid, code, message: message.into(), lanes: 0, line: 0, notes: Vec::new() })
    }
    /// Returns a usage error: the command line does not match the file.
    pub fn usage(code: &'static str, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { kind: Kind::Usage, ..*Fault::new(code, message) })
    }
    /// Returns a fault for a feature that the simulator does not support.
    pub fn unsupported(message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { kind: Kind::Unsupported, ..*Fault::new("SIM003", message) })
    }
    /// Sets the lanes at which the fault occurred.
    pub fn lanes(mut self: Box<Self>, lanes: u32) -> Box<Fault> {
        self.lanes = lanes;
        self
    }
    /// Sets the line, unless the fault already has one.
    pub fn line(mut self: Box<Self>, line: u32) -> Box<Fault> {
        if self.line == 0 {
            self.line = line;
        }
        self
    }
    /// Adds a note.
    pub fn note(mut self: Box<Self>, note: impl Into<String>) -> Box<Fault> {
        self.notes.push(note.into());
        self
    }

    /// Converts the fault to a diagnostic about a line of the PTX file. `source` is the text of the file.
    pub fn diagnostic(&self, file: &str, source: &str) -> Box<Diagnostic> {
        let mut diagnostic = Diagnostic::new(self.kind, self.code, &self.message);
        if let Some(location) = SourceLocations::from_ptx(source).at(self.line) {
            diagnostic = diagnostic.note(format!("in the source: {location}"));
        }
        if self.line > 0 {
            let excerpt = source.lines().nth(self.line as usize - 1).unwrap_or("").trim_end();
            let column = excerpt.chars().take_while(|c| c.is_whitespace()).count() as u32 + 1;
            let excerpt = excerpt.replace('\t', " ");
            diagnostic = diagnostic.at(Place::Text { file: file.into(), line: self.line, column, excerpt });
        }
        if self.lanes != 0 {
            diagnostic = diagnostic.note(format!("lanes {}", lane_list(self.lanes)));
        }
        self.notes.iter().fold(diagnostic, |diagnostic, note| diagnostic.note(note))
    }
}

/// Formats a lane mask as a list such as `0-3, 7`.
pub(crate) fn lane_list(mask: u32) -> String {
    let mut parts = Vec::new();
    let mut lane = 0;
    while lane < 32 {
        if mask >> lane & 1 == 0 {
            lane += 1;
            continue;
        }
        let length = (mask >> lane).trailing_ones();
        parts.push(if length == 1 { lane.to_string() } else { format!("{lane}-{}", lane + length - 1) });
        lane += length;
    }
    parts.join(", ")
}
