//! The file envelope: what a stage file says about itself, and its three forms.
//!
//! Binary: [`MAGIC`], the length and BLAKE3 hash of the rest, then the envelope and the payload, so a cut or damaged file is
//! known as such. RON: the line `//!tile ron FORMAT VERSION PHASE`, then `(envelope, payload)`. Text: lines that start
//! with `//!tile`, the first naming format, version and phase, then the format's own text, then such lines again for the log and
//! the tables of locations. All of them together head a `.ptx` file.

use crate::diag::{Diagnostic, Place, Result};
use crate::{DebugInfo, Loc, Target, codec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The first bytes of a binary stage file. 0x93 keeps it from looking like text.
pub const MAGIC: [u8; 8] = *b"\x93TILEWK\n";
const HEADER: usize = MAGIC.len() + 8 + 32;
/// What lines of a text file about itself begin with, the first too. Other comment lines may precede them.
pub const LINE: &str = "//!tile ";

/// Whether a line is a comment of which the envelope knows nothing.
fn is_comment(line: &str) -> bool {
    line.starts_with("//") && !line.starts_with("//!")
}

/// What a file says about itself besides its payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub format: String,
    pub version: u32,
    /// How far the file's own tool got; only grows within one format.
    pub phase: String,
    /// Set by `tile-lower-as`; earlier files do not depend on it.
    pub target: Option<Target>,
    pub options: Options,
    /// Tool and version that wrote the file.
    pub producer: String,
    /// BLAKE3 of what the first stage read, in hex.
    pub input_hash: String,
    pub log: Vec<LogEntry>,
    pub debug: DebugInfo,
}

/// Options given to the first stage that needs them; later stages accept only the same value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Options(pub BTreeMap<String, String>);

/// A decision of a pass, kept for remarks: what was done, or why it was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    pub pass: String,
    pub outcome: Outcome,
    /// A short name for the kind of decision, such as `Vectorized`.
    pub name: String,
    pub category: Category,
    pub message: String,
    pub function: String,
    pub loc: Loc,
}

/// A log entry in the text form: its function is a number of a table.
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
    fn entry(self, functions: &[String]) -> Option<LogEntry> {
        let LogLine { pass, outcome, name, category, function, loc, message } = self;
        let function = functions.get(function as usize)?.clone();
        Some(LogEntry { pass, outcome, name, category, message, function, loc })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Passed,
    Missed,
    /// Something that could have been done was declined, for the reason in the message.
    Declined,
    Analysis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Category {
    Memory,
    TensorCore,
    Other,
}

/// Whether the text form names the locations in the file's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locations {
    Named,
    /// Only comments tell source lines; the text reads back without locations.
    Left,
}

/// The content of one kind of file.
pub trait Payload: Serialize + DeserializeOwned {
    /// The name in the envelope, such as `tileaa`.
    const FORMAT: &'static str;
    /// Raised when a file of the older form can no longer be read.
    const VERSION: u32;
    /// What must hold for a consumer to index freely; run when a file is read and before it is written.
    fn verify(&self, envelope: &Envelope) -> Result<()>;
    /// The readable form, without the lines of the envelope.
    fn print(&self, envelope: &Envelope, locations: Locations) -> String;
    /// Reads what `print` wrote. The envelope may be completed, for forms that carry part of it themselves.
    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self>;
}

/// The program of a file in the text form.
#[derive(Clone, Copy)]
pub struct Source<'t> {
    pub text: &'t str,
    /// The file's name, for diagnostics.
    pub name: &'t str,
    /// The number that the text's first line has in the file.
    pub first_line: u32,
    /// Ops get the number of their line for a location, whatever the text says.
    pub by_line: bool,
}

/// A stage file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct File<P> {
    pub envelope: Envelope,
    pub payload: P,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Binary,
    Ron,
    Text,
}

/// What the first bytes of a file say it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sniffed {
    Stage {
        format: String,
        form: Form,
    },
    /// Tile IR bytecode with NVIDIA's magic.
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
    /// Records an option; one that an earlier stage was given must be the same.
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
    /// The optimisation level; 3 when none was given.
    pub fn opt_level(&self) -> u32 {
        self.get("opt-level").and_then(|level| level.parse().ok()).unwrap_or(3)
    }
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

    /// The envelope of the next stage's file: everything is passed on but what names the format.
    pub fn next<P: Payload>(&self, phase: &str, producer: &str) -> Envelope {
        Envelope { format: P::FORMAT.into(), version: P::VERSION, phase: phase.into(), producer: producer.into(), ..self.clone() }
    }

    /// The target; files from `tile-lower-as` on have one, which their verifiers check.
    pub fn target(&self) -> Result<Target> {
        self.target.ok_or_else(|| Diagnostic::invalid("ENV005", "the file names no target"))
    }

    /// The envelope as comment lines.
    pub fn to_lines(&self) -> String {
        self.head_lines() + &self.table_lines()
    }

    /// What the file is and how it was made.
    fn head_lines(&self) -> String {
        let mut out = format!("{LINE}{} {} {}\n", self.format, self.version, self.phase);
        let mut line = |key: &str, value: String| out.push_str(&format!("{LINE}{key} {value}\n"));
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

    /// The log of the passes and the tables of locations. A function that the log speaks of is named once.
    fn table_lines(&self) -> String {
        let mut out = String::new();
        let mut line = |key: &str, value: String| out.push_str(&format!("{LINE}{key} {value}\n"));
        let flat = |value: &dyn erased::Ron| value.flat();
        let mut functions: Vec<&str> = Vec::new();
        for entry in &self.log {
            let known = functions.iter().position(|name| *name == entry.function);
            let function = known.unwrap_or_else(|| {
                line("function", flat(&entry.function));
                functions.push(&entry.function);
                functions.len() - 1
            });
            let LogEntry { pass, outcome, name, category, message, loc, .. } = entry.clone();
            line("log", crate::text::to_text(&LogLine { pass, outcome, name, category, function: function as u32, loc, message }));
        }
        for name in self.debug.names.values() {
            line("name", flat(name));
        }
        for scope in self.debug.scopes.values() {
            line("scope", flat(scope));
        }
        for loc in self.debug.locs.values().skip(1) {
            line("loc", flat(loc));
        }
        out
    }

    /// Reads envelope lines; lines with a key it does not know are handed back, as (key, value), for the format.
    pub fn from_lines(text: &str, name: &str) -> Result<(Envelope, Vec<(String, String)>)> {
        let bad = |number: usize, line: &str, message: String| {
            let place = Place::Text { file: name.into(), line: number as u32 + 1, column: 1, excerpt: line.into() };
            Diagnostic::invalid("ENV004", message).at(place)
        };
        let mut lines = text.lines().enumerate().filter_map(|(n, line)| Some((n, line, line.strip_prefix(LINE)?)));
        let Some((n, line, first)) = lines.next() else {
            return Err(Diagnostic::invalid("ENV004", "the file has no envelope lines"));
        };
        let mut words = first.split(' ');
        let (Some(format), Some(version), Some(phase)) = (words.next(), words.next().and_then(|v| v.parse().ok()), words.next())
        else {
            return Err(bad(n, line, "the first envelope line must name format, version and phase".into()));
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
        let mut rest = Vec::new();
        let mut functions: Vec<String> = Vec::new();
        for (n, line, content) in lines {
            let (key, value) = content.split_once(' ').unwrap_or((content, ""));
            let fail = |error: &dyn std::fmt::Display| bad(n, line, format!("'{key}' line: {error}"));
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
                    let entry: LogLine = crate::text::from_text(value).ok_or_else(|| fail(&"not an entry of the log"))?;
                    envelope.log.push(entry.entry(&functions).ok_or_else(|| fail(&"no function has this number"))?);
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
                _ => rest.push((key.to_string(), value.to_string())),
            }
        }
        Ok((envelope, rest))
    }

    /// Whether each word that the text form has on a line as it is comes back from there the same.
    fn fits_lines(&self) -> bool {
        let names = || self.options.0.keys();
        let mut words = [&self.phase, &self.producer, &self.input_hash].into_iter().chain(names()).chain(self.options.0.values());
        !words.any(|word| word.contains(char::is_control)) && !self.phase.contains(' ') && !names().any(|name| name.contains('='))
    }

    /// That the file is of format `P` and of a version this code reads.
    pub fn expect<P: Payload>(&self, name: &str) -> Result<()> {
        let wanted = format!("{} v{}", P::FORMAT, P::VERSION);
        if self.format != P::FORMAT || self.version != P::VERSION {
            let message = format!("{name} is {} v{} from {}; this tool reads {wanted}", self.format, self.version, self.producer);
            return Err(other_format::<P>(&self.format, message));
        }
        if !self.fits_lines() {
            let message = "phase, producer, input or an option has characters that no line of the text form can hold";
            return Err(Diagnostic::invalid("ENV003", message));
        }
        self.debug.verify().map_err(|message| Diagnostic::invalid("ENV003", message))?;
        let log_locs_known = self.log.iter().all(|entry| self.debug.locs.get(entry.loc).is_some());
        if !log_locs_known {
            return Err(Diagnostic::invalid("ENV003", "a log entry has a location that is not in the table"));
        }
        Ok(())
    }
}

/// RON on one line, without making `line` above generic.
mod erased {
    pub(super) trait Ron {
        fn flat(&self) -> String;
    }
    impl<T: serde::Serialize> Ron for T {
        fn flat(&self) -> String {
            ron::to_string(self).expect("every part of an envelope can be written as RON")
        }
    }
}

impl<P: Payload> File<P> {
    /// Reads a file in any of its forms and verifies it.
    pub fn read(bytes: &[u8], name: &str) -> Result<File<P>> {
        let file = Self::read_unverified(bytes, name)?;
        file.payload.verify(&file.envelope).map_err(|error| match sniff(bytes) {
            Sniffed::Stage { form: Form::Text, .. } => in_text::<P>(error, bytes, name),
            _ => error,
        })?;
        Ok(file)
    }

    fn read_unverified(bytes: &[u8], name: &str) -> Result<File<P>> {
        match sniff(bytes) {
            Sniffed::Stage { form: Form::Binary, .. } => {
                let (envelope, payload) = open_binary(bytes, name)?;
                envelope.expect::<P>(name)?;
                let payload = codec::decode(payload)
                    .map_err(|error| Diagnostic::invalid("ENV002", format!("{name} does not decode as {}: {error}", P::FORMAT)))?;
                Ok(File { envelope, payload })
            }
            Sniffed::Stage { form: Form::Ron, format } => {
                let text = utf8(bytes, name)?;
                if format != P::FORMAT {
                    let message = format!("{name} is {format}; this tool reads {} v{}", P::FORMAT, P::VERSION);
                    return Err(other_format::<P>(&format, message));
                }
                let (envelope, payload): (Envelope, P) = codec::from_ron(text).map_err(|error| ron_error(text, name, &error))?;
                envelope.expect::<P>(name)?;
                Ok(File { envelope, payload })
            }
            Sniffed::Stage { form: Form::Text, .. } => {
                let text = utf8(bytes, name)?;
                // The tables stand behind the program, where they are comments to its reader.
                let (mut envelope, unknown) = Envelope::from_lines(text, name)?;
                envelope.expect::<P>(name)?;
                if let Some((key, _)) = unknown.first() {
                    return Err(Diagnostic::invalid("ENV004", format!("{name} has an envelope line with the unknown key '{key}'")));
                }
                let payload = P::parse(source(text, name), &mut envelope)?;
                Ok(File { envelope, payload })
            }
            other => {
                let message = format!("{name} is {}; this tool reads {} v{}", other.describe(), P::FORMAT, P::VERSION);
                let format = match other {
                    Sniffed::Bytecode => "bytecode",
                    Sniffed::Ptx => "ptx",
                    _ => "",
                };
                Err(other_format::<P>(format, message))
            }
        }
    }

    /// Verifies the file and gives its bytes in `form`.
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
                format!("{LINE}ron {format} {version} {phase}\n{body}\n").into_bytes()
            }
            Form::Text => {
                (self.envelope.head_lines() + &self.payload.print(&self.envelope, Locations::Named) + &self.envelope.table_lines())
                    .into_bytes()
            }
        })
    }

    /// The text form without log and locations, for reading: it reads back, but its locations are unknown then.
    pub fn bare(&self) -> Result<String> {
        self.payload.verify(&self.envelope)?;
        Ok(self.envelope.head_lines() + &self.payload.print(&self.envelope, Locations::Left))
    }
}

/// The envelope of a binary file and its payload's bytes, with length and hash checked.
pub fn open_binary<'a>(bytes: &'a [u8], name: &str) -> Result<(Envelope, &'a [u8])> {
    let bad = |message: String| Diagnostic::invalid("ENV002", format!("{name}: {message}"));
    let header = bytes.get(..HEADER).ok_or_else(|| bad(format!("the file ends after {} bytes, inside its header", bytes.len())))?;
    let length = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    let rest = &bytes[HEADER..];
    if rest.len() as u64 != length {
        return Err(bad(format!(
            "the file has {} bytes after its header where it says {length}; it was cut or damaged",
            rest.len()
        )));
    }
    if blake3::hash(rest).as_bytes() != &header[16..] {
        return Err(bad("the file's hash does not match its content; it was damaged".into()));
    }
    let size = rest.get(..4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")) as usize);
    let envelope = size.and_then(|size| rest.get(4..4 + size)).ok_or_else(|| bad("the envelope is cut".into()))?;
    let payload = &rest[4 + envelope.len()..];
    let envelope = codec::decode(envelope).map_err(|error| bad(format!("the envelope does not decode: {error}")))?;
    Ok((envelope, payload))
}

/// Whether a file is empty, or binary and shorter than it says: what a reader finds in a pipe whose writer failed.
pub fn is_cut(bytes: &[u8]) -> bool {
    if bytes.len() < HEADER {
        return MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) || bytes.starts_with(&MAGIC);
    }
    let length = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    bytes.starts_with(&MAGIC) && ((bytes.len() - HEADER) as u64) < length
}

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
        // A multi-byte character may be cut at the end of the sample.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        Err(_) => return Sniffed::Other,
    };
    if text.is_empty() {
        return Sniffed::Other;
    }
    if let Some(line) = text.lines().find(|line| !is_comment(line)).and_then(|line| line.strip_prefix(LINE)) {
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

/// The formats in the order of the pipeline, each with the tool that writes it.
const PIPELINE: [(&str, &str); 6] = [
    ("bytecode", ""),
    ("tileir", "tile-read"),
    ("tileaa", "tile-lower-aa"),
    ("tileas", "tile-lower-as"),
    ("sched", "tile-sched"),
    ("ptx", "tile-ptx"),
];

/// The refusal of a file of another format or version, with the tool that goes on from there.
fn other_format<P: Payload>(found: &str, message: String) -> Box<Diagnostic> {
    let error = Diagnostic::invalid("ENV001", message);
    let place = |name: &str| PIPELINE.iter().position(|(format, _)| *format == name);
    let (Some(found), Some(wanted)) = (place(found), place(P::FORMAT)) else { return error };
    let tools = |range: std::ops::RangeInclusive<usize>| PIPELINE[range].iter().map(|(_, tool)| *tool).collect::<Vec<_>>();
    match found.cmp(&wanted) {
        Ordering::Less => error.note(format!("run {} first", tools(found + 1..=wanted).join(", then "))),
        Ordering::Equal => error.note(format!("write it again with this version of {}", PIPELINE[wanted].1)),
        Ordering::Greater => error.note(format!("{} reads it", PIPELINE.get(found + 1).map_or("tile-link", |(_, tool)| tool))),
    }
}

/// What follows the first lines of the envelope.
fn source<'t>(text: &'t str, name: &'t str) -> Source<'t> {
    let head: usize = text.split_inclusive('\n').take_while(|line| line.starts_with(LINE) || is_comment(line)).map(str::len).sum();
    let first_line = text[..head].lines().count() as u32 + 1;
    Source { text: &text[head..], name, first_line, by_line: false }
}

/// An error of a verifier with its place in the text form, which somebody may have edited. Verifiers know locations of the user's
/// source only, so the text is read and verified once more with its own lines for locations.
fn in_text<P: Payload>(error: Box<Diagnostic>, bytes: &[u8], name: &str) -> Box<Diagnostic> {
    let again = || {
        let text = utf8(bytes, name).ok()?;
        let (mut envelope, _) = Envelope::from_lines(text, name).ok()?;
        envelope.debug = DebugInfo::of_lines(name, text.lines().count());
        let payload = P::parse(Source { by_line: true, ..source(text, name) }, &mut envelope).ok()?;
        let found = payload.verify(&envelope).err().filter(|found| found.message == error.message)?;
        let Some(Place::Source { file, line, .. }) = found.place else { return None };
        if file != name {
            // A location of the text's own.
            return None;
        }
        let excerpt = text.lines().nth((line as usize).checked_sub(1)?)?;
        let column = (excerpt.len() - excerpt.trim_start().len()) as u32 + 1;
        Some(Place::Text { file: name.into(), line, column, excerpt: excerpt.into() })
    };
    let Some(place) = again() else { return error };
    let source = match &error.place {
        Some(Place::Source { file, line, column, .. }) => Some(format!("it comes from {file}:{line}:{column}")),
        _ => None,
    };
    let error = error.at(place);
    match source {
        Some(source) => error.note(source),
        None => error,
    }
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Diagnostic::invalid("ENV006", format!("{name} is not UTF-8 text")).in_input(name, Some(error.valid_up_to() as u64))
    })
}

fn ron_error(text: &str, name: &str, error: &ron::error::SpannedError) -> Box<Diagnostic> {
    let (line, column) = (error.span.start.line, error.span.start.col);
    let excerpt = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let place = Place::Text { file: name.into(), line: line as u32, column: column as u32, excerpt: excerpt.into() };
    Diagnostic::invalid("ENV007", error.code.to_string()).at(place)
}
