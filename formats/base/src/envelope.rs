//! The file envelope: the metadata of a stage file, and its three forms.
//!
//! - Binary: [`MAGIC`], then the length and the BLAKE3 hash of the remaining bytes. Length and hash let a reader detect truncation
//!   and damage. The remaining bytes are the length of the envelope, the envelope and the payload.
//! - RON: the line `//!tile ron FORMAT VERSION PHASE`, then `(envelope, payload)`.
//! - Text: envelope lines, which start with `//!tile`, and then the text form of the payload. More envelope lines, with the log and
//!   the location tables, follow the payload. The first envelope line has format, version and phase. In a `.ptx` file, all
//!   envelope lines come first.

use crate::diag::{Diagnostic, Place, Result};
use crate::program_text::Source;
use crate::{DebugInfo, Loc, Target, codec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The first bytes of a binary stage file. The byte 0x93 does not start any text file.
pub const MAGIC: [u8; 8] = *b"\x93TILEWK\n";
/// Bytes before the envelope: the magic number, a 64-bit length and a BLAKE3 hash.
const HEADER_BYTES: usize = MAGIC.len() + 8 + 32;
/// The prefix of each envelope line in a text file. Ordinary comment lines may precede the first envelope line.
pub const LINE_PREFIX: &str = "//!tile ";

/// Returns whether a line is an ordinary comment. A line that starts with `//!` is not: envelope lines start with `//!`.
fn is_comment(line: &str) -> bool {
    line.starts_with("//") && !line.starts_with("//!")
}

/// The metadata of a file, besides its payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub format: String,
    pub version: u32,
    /// The last phase that the writing tool completed, such as a pass of `tile-sched`.
    pub phase: String,
    /// The target; `None` before `tile-lower-as`, because earlier stages are independent of the target.
    pub target: Option<Target>,
    pub options: Options,
    /// Name and version of the tool that wrote the file.
    pub producer: String,
    /// The BLAKE3 hash of the input of the first stage, in hexadecimal digits.
    pub input_hash: String,
    pub log: Vec<LogEntry>,
    pub debug: DebugInfo,
}

/// Option values by name. The first stage that needs an option records its value. Later stages accept only the recorded value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Options(pub BTreeMap<String, String>);

/// A decision of a pass, for remarks: an applied optimisation, or the reason against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    pub pass: String,
    pub outcome: Outcome,
    /// A short name of the decision, such as `Vectorized`.
    pub name: String,
    pub category: Category,
    pub message: String,
    pub function: String,
    pub loc: Loc,
}

/// A log entry in the text form. `function` is an index into the function names of the preceding `function` lines.
#[derive(Serialize, Deserialize)]
struct LogLine {
    pass: String,
    outcome: Outcome,
    name: String,
    category: Category,
    function: u32,
    loc: Loc,
    message: String,
}

impl LogLine {
    /// Returns the log entry, or `None` if `functions` has no name at the index.
    fn into_entry(self, functions: &[String]) -> Option<LogEntry> {
        let LogLine { pass, outcome, name, category, function, loc, message } = self;
        let function = functions.get(function as usize)?.clone();
        Some(LogEntry { pass, outcome, name, category, message, function, loc })
    }
}

/// The outcome of a decision, and the corresponding kind of LLVM's optimization remarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// An applied optimisation; LLVM: a passed remark.
    Passed,
    /// An optimisation that does not apply; LLVM: a missed remark.
    Missed,
    /// An optimisation that would apply, but that a pass declined; LLVM: a failure remark. The message gives the reason.
    Declined,
    /// Information without a decision; LLVM: an analysis remark.
    Analysis,
}

/// The topic of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Category {
    Memory,
    TensorCore,
    Other,
}

/// Whether the text form of an op refers to the location table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locations {
    /// The line of each op has the number of the op's location, such as `@4`.
    Named,
    /// Ops have no location numbers. Comments still show source lines, but a reader ignores them.
    Omitted,
}

/// The content of one file format.
pub trait Payload: Serialize + DeserializeOwned {
    /// The name in the envelope, such as `tileaa`.
    const FORMAT: &'static str;
    /// The version of the format. A change that makes older files unreadable increases it.
    const VERSION: u32;
    /// Checks the invariants of the format. [`File::read`] and [`File::write`] call this function, so other code may index without
    /// checks.
    fn verify(&self, envelope: &Envelope) -> Result<()>;
    /// Returns the text form, without envelope lines.
    fn print(&self, envelope: &Envelope, locations: Locations) -> String;
    /// Parses the output of `print`. Some text forms contain parts of the envelope, such as locations. This function adds these
    /// parts to `envelope`.
    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self>;
}

/// A stage file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct File<P> {
    pub envelope: Envelope,
    pub payload: P,
}

/// The form of a stage file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Binary,
    Ron,
    Text,
}

/// The kind of a file, as [`sniff`] determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sniffed {
    Stage {
        format: String,
        form: Form,
    },
    /// Tile IR bytecode with NVIDIA's magic number.
    Bytecode,
    Ptx,
    Elf,
    Text,
    Other,
}

impl Options {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
    /// Records an option. Returns an error if an earlier stage recorded a different value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match self.0.get(name) {
            Some(earlier) if earlier != value => Err(Diagnostic::usage(
                "OPT001",
                format!("option '{name}' is '{value}' here, but '{earlier}' in the file, where an earlier stage recorded it"),
            )),
            _ => {
                self.0.insert(name.into(), value.into());
                Ok(())
            }
        }
    }
    /// Returns the recorded optimisation level, or 3 if no stage recorded a number.
    pub fn opt_level(&self) -> u32 {
        self.get("opt-level").and_then(|level| level.parse().ok()).unwrap_or(3)
    }
    /// Returns whether an option is recorded as `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
}

impl Envelope {
    pub fn new<P: Payload>(phase: &str, producer: &str, input: &[u8]) -> Envelope {
        Envelope {
            format: P::FORMAT.into(),
            version: P::VERSION,
            phase: phase.into(),
            target: None,
            options: Options::default(),
            producer: producer.into(),
            input_hash: blake3::hash(input).to_hex().to_string(),
            log: Vec::new(),
            debug: DebugInfo::default(),
        }
    }

    /// Returns the envelope of the next stage's file. Only format, version, phase and producer differ from this envelope.
    pub fn for_next_stage<P: Payload>(&self, phase: &str, producer: &str) -> Envelope {
        Envelope { format: P::FORMAT.into(), version: P::VERSION, phase: phase.into(), producer: producer.into(), ..self.clone() }
    }

    /// Returns the target, or an error if there is none. Files of `tile-lower-as` and of later stages have a target, which their
    /// verifiers check.
    pub fn target(&self) -> Result<Target> {
        self.target.ok_or_else(|| Diagnostic::invalid("ENV005", "the file has no target"))
    }

    /// Returns the envelope as comment lines.
    pub fn to_lines(&self) -> String {
        self.head_lines() + &self.table_lines()
    }

    /// Returns the envelope lines before the program: format, target, options, producer and input hash.
    fn head_lines(&self) -> String {
        let mut out = format!("{LINE_PREFIX}{} {} {}\n", self.format, self.version, self.phase);
        let mut line = |key: &str, value: String| out.push_str(&format!("{LINE_PREFIX}{key} {value}\n"));
        if let Some(target) = self.target {
            line("target", target.name.to_string());
        }
        for (name, value) in &self.options.0 {
            line("option", format!("{name}={value}"));
        }
        line("producer", self.producer.clone());
        line("input", self.input_hash.clone());
        out
    }

    /// Returns the envelope lines after the program: the log of the passes and the location tables. A log line refers to its
    /// function by a number, so each function name occurs once.
    fn table_lines(&self) -> String {
        let mut out = String::new();
        let mut line = |key: &str, value: String| out.push_str(&format!("{LINE_PREFIX}{key} {value}\n"));
        let one_line = |value: &dyn erased::Ron| value.one_line();
        let mut functions: Vec<&str> = Vec::new();
        for entry in &self.log {
            let earlier = functions.iter().position(|name| *name == entry.function);
            let function = earlier.unwrap_or_else(|| {
                line("function", one_line(&entry.function));
                functions.push(&entry.function);
                functions.len() - 1
            });
            let LogEntry { pass, outcome, name, category, message, loc, .. } = entry.clone();
            line("log", crate::text::to_text(&LogLine { pass, outcome, name, category, function: function as u32, loc, message }));
        }
        for name in self.debug.names.values() {
            line("name", one_line(name));
        }
        for scope in self.debug.scopes.values() {
            line("scope", one_line(scope));
        }
        for loc in self.debug.locs.values().skip(1) {
            line("loc", one_line(loc));
        }
        out
    }

    /// Reads the envelope lines of the file `name`. Returns the envelope, and the (key, value) pairs of the lines with unknown
    /// keys. A format may define keys of its own.
    pub fn from_lines(text: &str, name: &str) -> Result<(Envelope, Vec<(String, String)>)> {
        let error_at = |number: usize, line: &str, message: String| {
            let place = Place::Text { file: name.into(), line: number as u32 + 1, column: 1, excerpt: line.into() };
            Diagnostic::invalid("ENV004", message).at(place)
        };
        let mut lines = text.lines().enumerate().filter_map(|(n, line)| Some((n, line, line.strip_prefix(LINE_PREFIX)?)));
        let Some((n, line, first)) = lines.next() else {
            return Err(Diagnostic::invalid("ENV004", "the file has no envelope lines"));
        };
        let mut words = first.split(' ');
        let (Some(format), Some(version), Some(phase)) = (words.next(), words.next().and_then(|v| v.parse().ok()), words.next())
        else {
            return Err(error_at(n, line, "the first envelope line must name format, version and phase".into()));
        };
        let mut envelope = Envelope {
            format: format.into(),
            version,
            phase: phase.into(),
            target: None,
            options: Options::default(),
            producer: String::new(),
            input_hash: String::new(),
            log: Vec::new(),
            debug: DebugInfo::default(),
        };
        let mut unknown = Vec::new();
        let mut functions: Vec<String> = Vec::new();
        for (n, line, content) in lines {
            let (key, value) = content.split_once(' ').unwrap_or((content, ""));
            let fail = |error: &dyn std::fmt::Display| error_at(n, line, format!("'{key}' line: {error}"));
            match key {
                "target" => envelope.target = Some(Target::parse(value).ok_or_else(|| fail(&"unknown target"))?),
                "option" => {
                    let (name, value) = value.split_once('=').ok_or_else(|| fail(&"expected name=value"))?;
                    envelope.options.0.insert(name.into(), value.into());
                }
                "producer" => envelope.producer = value.into(),
                "input" => envelope.input_hash = value.into(),
                "function" => functions.push(codec::from_ron(value).map_err(|error| fail(&error))?),
                "log" => {
                    let entry: LogLine = crate::text::from_text(value).ok_or_else(|| fail(&"not a log entry"))?;
                    envelope.log.push(entry.into_entry(&functions).ok_or_else(|| fail(&"no function has this number"))?);
                }
                "name" => {
                    envelope.debug.names.push(codec::from_ron(value).map_err(|error| fail(&error))?);
                }
                "scope" => {
                    envelope.debug.scopes.push(codec::from_ron(value).map_err(|error| fail(&error))?);
                }
                "loc" => {
                    envelope.debug.locs.push(codec::from_ron(value).map_err(|error| fail(&error))?);
                }
                _ => unknown.push((key.to_string(), value.to_string())),
            }
        }
        Ok((envelope, unknown))
    }

    /// Returns whether the phase, producer, hash and options are equal after the envelope is written as text and read again. The
    /// text form writes them without escapes.
    fn is_expressible_in_lines(&self) -> bool {
        let names = || self.options.0.keys();
        let mut words = [&self.phase, &self.producer, &self.input_hash].into_iter().chain(names()).chain(self.options.0.values());
        !words.any(|word| word.contains(char::is_control)) && !self.phase.contains(' ') && !names().any(|name| name.contains('='))
    }

    /// Checks that the file has format `P` in its current version, and that the text form can express the envelope. Also checks
    /// that locations refer to entries of their tables.
    pub fn verify_as<P: Payload>(&self, name: &str) -> Result<()> {
        let expected = format!("{} v{}", P::FORMAT, P::VERSION);
        if self.format != P::FORMAT || self.version != P::VERSION {
            let message = format!("{name} is {} v{} from {}; this tool reads {expected}", self.format, self.version, self.producer);
            return Err(wrong_format::<P>(&self.format, message));
        }
        if !self.is_expressible_in_lines() {
            let message = "phase, producer, input or an option contains characters that the text form cannot express";
            return Err(Diagnostic::invalid("ENV003", message));
        }
        self.debug.verify().map_err(|message| Diagnostic::invalid("ENV003", message))?;
        let log_locs_valid = self.log.iter().all(|entry| self.debug.locs.get(entry.loc).is_some());
        if !log_locs_valid {
            return Err(Diagnostic::invalid("ENV003", "a log entry has a location that is not in the table"));
        }
        Ok(())
    }
}

/// A trait for writing any serializable value as RON on one line. In [`Envelope::table_lines`], the closure `one_line` takes values
/// of different types as trait objects, because a closure cannot be generic.
mod erased {
    pub(super) trait Ron {
        fn one_line(&self) -> String;
    }
    impl<T: serde::Serialize> Ron for T {
        fn one_line(&self) -> String {
            ron::to_string(self).expect("every part of an envelope can be written as RON")
        }
    }
}

impl<P: Payload> File<P> {
    /// Reads a file in any form and verifies it.
    pub fn read(bytes: &[u8], name: &str) -> Result<File<P>> {
        let file = Self::read_unverified(bytes, name)?;
        file.payload.verify(&file.envelope).map_err(|error| match sniff(bytes) {
            Sniffed::Stage { form: Form::Text, .. } => with_text_position::<P>(error, bytes, name),
            _ => error,
        })?;
        Ok(file)
    }

    /// Reads a file in any form, without the verifier of the payload.
    fn read_unverified(bytes: &[u8], name: &str) -> Result<File<P>> {
        match sniff(bytes) {
            Sniffed::Stage { form: Form::Binary, .. } => {
                let (envelope, payload) = open_binary(bytes, name)?;
                envelope.verify_as::<P>(name)?;
                let payload = codec::decode(payload)
                    .map_err(|error| Diagnostic::invalid("ENV002", format!("{name} does not decode as {}: {error}", P::FORMAT)))?;
                Ok(File { envelope, payload })
            }
            Sniffed::Stage { form: Form::Ron, format } => {
                let text = utf8(bytes, name)?;
                if format != P::FORMAT {
                    let message = format!("{name} is {format}; this tool reads {} v{}", P::FORMAT, P::VERSION);
                    return Err(wrong_format::<P>(&format, message));
                }
                let (envelope, payload): (Envelope, P) = codec::from_ron(text).map_err(|error| ron_error(text, name, &error))?;
                envelope.verify_as::<P>(name)?;
                Ok(File { envelope, payload })
            }
            Sniffed::Stage { form: Form::Text, .. } => {
                let text = utf8(bytes, name)?;
                // The tables follow the program. The parser of the program skips them as comments.
                let (mut envelope, unknown) = Envelope::from_lines(text, name)?;
                envelope.verify_as::<P>(name)?;
                if let Some((key, _)) = unknown.first() {
                    return Err(Diagnostic::invalid("ENV004", format!("{name} has an envelope line with the unknown key '{key}'")));
                }
                let payload = P::parse(program_source(text, name), &mut envelope)?;
                Ok(File { envelope, payload })
            }
            other => {
                let message = format!("{name} is {}; this tool reads {} v{}", other.describe(), P::FORMAT, P::VERSION);
                let format = match other {
                    Sniffed::Bytecode => "bytecode",
                    Sniffed::Ptx => "ptx",
                    _ => "",
                };
                Err(wrong_format::<P>(format, message))
            }
        }
    }

    /// Verifies the file and returns its bytes in `form`.
    pub fn write(&self, form: Form) -> Result<Vec<u8>> {
        self.payload.verify(&self.envelope)?;
        Ok(match form {
            Form::Binary => {
                let envelope = codec::encode(&self.envelope);
                let mut rest = (envelope.len() as u32).to_le_bytes().to_vec();
                rest.extend(envelope);
                rest.extend(codec::encode(&self.payload));
                let mut out = MAGIC.to_vec();
                out.extend((rest.len() as u64).to_le_bytes());
                out.extend(blake3::hash(&rest).as_bytes());
                out.extend(rest);
                out
            }
            Form::Ron => {
                let Envelope { format, version, phase, .. } = &self.envelope;
                let body = codec::to_ron(&(&self.envelope, &self.payload));
                format!("{LINE_PREFIX}ron {format} {version} {phase}\n{body}\n").into_bytes()
            }
            Form::Text => {
                (self.envelope.head_lines() + &self.payload.print(&self.envelope, Locations::Named) + &self.envelope.table_lines())
                    .into_bytes()
            }
        })
    }

    /// Returns the text form without log and locations, for people. [`File::read`] accepts this text, and all locations of the
    /// resulting file are unknown.
    pub fn text_without_locations(&self) -> Result<String> {
        self.payload.verify(&self.envelope)?;
        Ok(self.envelope.head_lines() + &self.payload.print(&self.envelope, Locations::Omitted))
    }
}

/// Checks the length and the hash of a binary file. Returns the envelope and the bytes of the payload.
pub fn open_binary<'a>(bytes: &'a [u8], name: &str) -> Result<(Envelope, &'a [u8])> {
    let damaged = |message: String| Diagnostic::invalid("ENV002", format!("{name}: {message}"));
    let header = bytes
        .get(..HEADER_BYTES)
        .ok_or_else(|| damaged(format!("the file ends after {} bytes, inside its header", bytes.len())))?;
    let length = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    let rest = &bytes[HEADER_BYTES..];
    if rest.len() as u64 != length {
        return Err(damaged(format!(
            "the file has {} bytes after its header, which states {length}; it is truncated or damaged",
            rest.len()
        )));
    }
    if blake3::hash(rest).as_bytes() != &header[16..] {
        return Err(damaged("the file's hash does not match its content; it is damaged".into()));
    }
    let size = rest.get(..4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")) as usize);
    let envelope = size.and_then(|size| rest.get(4..4 + size)).ok_or_else(|| damaged("the envelope is truncated".into()))?;
    let payload = &rest[4 + envelope.len()..];
    let envelope = codec::decode(envelope).map_err(|error| damaged(format!("the envelope does not decode: {error}")))?;
    Ok((envelope, payload))
}

/// Returns whether a file is empty, or a truncated binary stage file. A tool that reads from a pipe gets such bytes if the process
/// that writes to the pipe failed.
pub fn is_truncated(bytes: &[u8]) -> bool {
    if bytes.len() < HEADER_BYTES {
        return MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) || bytes.starts_with(&MAGIC);
    }
    let length = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    bytes.starts_with(&MAGIC) && ((bytes.len() - HEADER_BYTES) as u64) < length
}

/// Determines the kind of a file from its first bytes.
pub fn sniff(bytes: &[u8]) -> Sniffed {
    if bytes.starts_with(&MAGIC) {
        let format = open_binary(bytes, "").map(|(envelope, _)| envelope.format).unwrap_or_default();
        return Sniffed::Stage { format, form: Form::Binary };
    }
    if bytes.starts_with(b"\x7fTileIR\0") {
        return Sniffed::Bytecode;
    }
    if bytes.starts_with(b"\x7fELF") {
        return Sniffed::Elf;
    }
    let head = &bytes[..bytes.len().min(4096)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The first 4096 bytes may end inside a multi-byte character.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        Err(_) => return Sniffed::Other,
    };
    if text.is_empty() {
        return Sniffed::Other;
    }
    if let Some(line) = text.lines().find(|line| !is_comment(line)).and_then(|line| line.strip_prefix(LINE_PREFIX)) {
        let mut words = line.split(' ');
        return match (words.next(), words.next()) {
            (Some("ron"), Some(format)) => Sniffed::Stage { format: format.into(), form: Form::Ron },
            (Some("ptx"), _) => Sniffed::Ptx,
            (Some(format), _) => Sniffed::Stage { format: format.into(), form: Form::Text },
            _ => Sniffed::Text,
        };
    }
    if text.lines().any(|line| line.trim_start().starts_with(".version")) {
        return Sniffed::Ptx;
    }
    Sniffed::Text
}

impl Sniffed {
    /// Returns a description of the kind, for messages.
    pub fn describe(&self) -> String {
        match self {
            Sniffed::Stage { format, .. } if format.is_empty() => "a damaged stage file".into(),
            Sniffed::Stage { format, .. } => format!("a {format} file"),
            Sniffed::Bytecode => "Tile IR bytecode".into(),
            Sniffed::Ptx => "PTX".into(),
            Sniffed::Elf => "an ELF file".into(),
            Sniffed::Text => "text".into(),
            Sniffed::Other => "not a file of this pipeline".into(),
        }
    }
}

/// The formats in pipeline order, each with the tool that writes files of the format. Bytecode has no such tool, because clients
/// write it.
const PIPELINE: [(&str, &str); 6] = [
    ("bytecode", ""),
    ("tileir", "tile-read"),
    ("tileaa", "tile-lower-aa"),
    ("tileas", "tile-lower-as"),
    ("sched", "tile-sched"),
    ("ptx", "tile-ptx"),
];

/// Returns the error for a file of another format or version. A note names the tools that convert the file to format `P`, or the
/// tool that reads files of its format.
fn wrong_format<P: Payload>(format: &str, message: String) -> Box<Diagnostic> {
    let error = Diagnostic::invalid("ENV001", message);
    let pipeline_index = |name: &str| PIPELINE.iter().position(|(format, _)| *format == name);
    let (Some(found), Some(expected)) = (pipeline_index(format), pipeline_index(P::FORMAT)) else { return error };
    let tools = |range: std::ops::RangeInclusive<usize>| PIPELINE[range].iter().map(|(_, tool)| *tool).collect::<Vec<_>>();
    match found.cmp(&expected) {
        Ordering::Less => error.note(format!("run {} first", tools(found + 1..=expected).join(", then "))),
        Ordering::Equal => error.note(format!("regenerate it with this version of {}", PIPELINE[expected].1)),
        Ordering::Greater => error.note(format!("{} reads it", PIPELINE.get(found + 1).map_or("tile-link", |(_, tool)| tool))),
    }
}

/// Returns the text after the envelope lines and comments at the start of a file.
fn program_source<'t>(text: &'t str, name: &'t str) -> Source<'t> {
    let head_bytes: usize =
        text.split_inclusive('\n').take_while(|line| line.starts_with(LINE_PREFIX) || is_comment(line)).map(str::len).sum();
    let first_line = text[..head_bytes].lines().count() as u32 + 1;
    Source { text: &text[head_bytes..], name, first_line, by_line: false }
}

/// Adds the position in the text form to an error of a verifier. Reason: a person may have edited the text. Verifiers know only
/// locations of the user's source. This function therefore parses and verifies the text again, with line numbers of the text as
/// locations.
fn with_text_position<P: Payload>(error: Box<Diagnostic>, bytes: &[u8], name: &str) -> Box<Diagnostic> {
    let verify_by_line = || {
        let text = utf8(bytes, name).ok()?;
        let (mut envelope, _) = Envelope::from_lines(text, name).ok()?;
        envelope.debug = DebugInfo::with_line_locations(name, text.lines().count());
        let payload = P::parse(Source { by_line: true, ..program_source(text, name) }, &mut envelope).ok()?;
        let same_error = payload.verify(&envelope).err().filter(|second| second.message == error.message)?;
        let Some(Place::Source { file, line, .. }) = same_error.place else { return None };
        if file != name {
            // The error is at a location that the text defines, so it has no line of the text.
            return None;
        }
        let excerpt = text.lines().nth((line as usize).checked_sub(1)?)?;
        let column = (excerpt.len() - excerpt.trim_start().len()) as u32 + 1;
        Some(Place::Text { file: name.into(), line, column, excerpt: excerpt.into() })
    };
    let Some(place) = verify_by_line() else { return error };
    let source_note = match &error.place {
        Some(Place::Source { file, line, column, .. }) => Some(format!("it comes from {file}:{line}:{column}")),
        _ => None,
    };
    let error = error.at(place);
    match source_note {
        Some(note) => error.note(note),
        None => error,
    }
}

/// Returns the text of a file, or an error with the offset of the first byte that is not UTF-8.
fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Diagnostic::invalid("ENV006", format!("{name} is not UTF-8 text")).in_input(name, Some(error.valid_up_to() as u64))
    })
}

/// Returns the error for a RON text that does not parse, with the line and column of the failure.
fn ron_error(text: &str, name: &str, error: &ron::error::SpannedError) -> Box<Diagnostic> {
    let (line, column) = (error.span.start.line, error.span.start.col);
    let excerpt = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let place = Place::Text { file: name.into(), line: line as u32, column: column as u32, excerpt: excerpt.into() };
    Diagnostic::invalid("ENV007", error.code.to_string()).at(place)
}
