//! Optimization remarks (passed, missed, failed, analysis) from the logs of the stage files, in NVIDIA's two formats.

use crate::failure::{DriverError, exit};
use base::Envelope;
use base::envelope::{Category, LogEntry, Outcome, Sniffed, open_binary, sniff};
use common::cl::Parsed;
use std::fmt::Write as _;
use std::path::Path;

/// The remarks that the command line selects.
pub(crate) struct RemarkFilter {
    /// For each kind of remark, its name and the categories to show.
    kinds: Vec<(&'static str, Vec<Category>)>,
    /// The path of the YAML file; `None` for text on standard output.
    file: Option<String>,
}

impl RemarkFilter {
    /// Returns the filter that the command line selects; `None` if it selects no remark. Opens the YAML file once, so that the
    /// driver reports an error before the compilation.
    pub(crate) fn from_options(parsed: &Parsed) -> Result<Option<RemarkFilter>, DriverError> {
        let categories_of = |kind| {
            let values = [parsed.get("remarks"), parsed.get(kind)].into_iter().flatten();
            let mut categories: Vec<Category> = Vec::new();
            for value in values {
                categories.extend(match value {
                    "all" => &[Category::Memory, Category::TensorCore, Category::Other][..],
                    "memory" => &[Category::Memory],
                    "tensorcore" => &[Category::TensorCore],
                    _ => &[],
                });
            }
            categories
        };
        let option_of_kind = [
            ("passed", "remarks-passed"),
            ("missed", "remarks-missed"),
            ("failed", "remarks-failed"),
            ("analysis", "remarks-analysis"),
        ];
        let kinds: Vec<_> = option_of_kind.map(|(name, option)| (name, categories_of(option))).into();
        if kinds.iter().all(|(_, categories)| categories.is_empty()) {
            return Ok(None);
        }
        let yaml = parsed.get("remark-format") == Some("yaml");
        let name = parsed.get("remarks-output-file").filter(|name| !name.is_empty()).unwrap_or("tileir_remarks.yaml");
        let file = yaml.then(|| name.to_string());
        if let Some(Err(error)) = file.as_ref().map(|name| std::fs::OpenOptions::new().append(true).create(true).open(name)) {
            let reason = common::os_error_text(&error);
            let text =
                format!("Error opening remark output file '{name}': {reason}\nerror: failed to enable optimization remarks\n");
            return Err(DriverError::reported(text, exit::INPUT));
        }
        Ok(Some(RemarkFilter { kinds, file }))
    }

    /// Prints the selected remarks of a stage file's log, or writes them to the YAML file.
    pub(crate) fn show(&self, stage_file: &[u8]) -> Result<(), DriverError> {
        let Some(envelope) = read_envelope(stage_file) else { return Ok(()) };
        let entries: Vec<&LogEntry> = envelope.log.iter().filter(|entry| self.matches(entry)).collect();
        match &self.file {
            None => crate::print(&mut std::io::stdout(), &as_text(&envelope, &entries)),
            Some(name) => {
                let written = common::write_file(Some(Path::new(name)), as_yaml(&envelope, &entries).as_bytes());
                written.map_err(|error| DriverError::new(exit::CONFIGURATION, error.message))?;
            }
        }
        Ok(())
    }

    /// Returns whether the command line selects the remark `entry`.
    fn matches(&self, entry: &LogEntry) -> bool {
        let name = kind_names(entry.outcome).0;
        self.kinds.iter().any(|(kind, categories)| *kind == name && categories.contains(&entry.category))
    }
}

/// Returns the name of a kind of remark in the text format, and its tag in YAML.
fn kind_names(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Passed => ("passed", "Passed"),
        Outcome::Missed => ("missed", "Missed"),
        Outcome::Declined => ("failed", "Failure"),
        Outcome::Analysis => ("analysis", "Analysis"),
    }
}

/// The name of a category in the output of NVIDIA's tileiras.
fn category_name(category: Category) -> &'static str {
    match category {
        Category::Memory => "Memory",
        Category::TensorCore => "Tensor-core",
        Category::Other => "Other",
    }
}

/// Returns the envelope (header with the log and debug information) of a stage file or of PTX. Returns `None` for other files, such
/// as cubins.
fn read_envelope(bytes: &[u8]) -> Option<Envelope> {
    match sniff(bytes) {
        Sniffed::Stage { .. } if bytes.starts_with(&base::envelope::MAGIC) => {
            open_binary(bytes, "").ok().map(|(envelope, _)| envelope)
        }
        Sniffed::Stage { .. } | Sniffed::Ptx => {
            let text = std::str::from_utf8(bytes).ok()?;
            Envelope::from_lines(text, "").ok().map(|(envelope, _)| envelope)
        }
        _ => None,
    }
}

/// Formats remarks as text, grouped by function and category, as in NVIDIA's output.
fn as_text(envelope: &Envelope, entries: &[&LogEntry]) -> String {
    let mut out = String::new();
    let mut functions: Vec<&str> = entries.iter().map(|entry| entry.function.as_str()).collect();
    functions.dedup();
    for function in functions {
        let _ = writeln!(out, "in function: {function}:\n");
        let mut separator = "";
        for group in [Category::Memory, Category::TensorCore, Category::Other] {
            let in_category = entries.iter().filter(|entry| entry.function == function && entry.category == group);
            for (index, entry) in in_category.enumerate() {
                if index == 0 {
                    let _ = writeln!(out, "{separator}  category: {}", category_name(group));
                    separator = "\n";
                }
                let _ = writeln!(out, "    remark[{}]: {}", kind_names(entry.outcome).0, entry.message);
                if let Some((file, line, column)) = envelope.debug.position(entry.loc) {
                    let _ = writeln!(out, "      --> \"{file}\":{line}:{column}");
                }
                let _ = writeln!(out, "       |\n       = name: {}\n       = note: Pass = {}\n", entry.name, entry.pass);
            }
        }
        out.push('\n');
    }
    out
}

/// Formats remarks as YAML: one document per remark, in LLVM's remark schema.
fn as_yaml(envelope: &Envelope, entries: &[&LogEntry]) -> String {
    let mut out = String::new();
    for (index, entry) in entries.iter().enumerate() {
        let _ = writeln!(out, "--- !{}", kind_names(entry.outcome).1);
        let _ = writeln!(out, "{:16} {}", "Pass:", category_name(entry.category));
        let _ = writeln!(out, "{:16} {}", "Name:", yaml_scalar(&entry.name));
        if let Some((file, line, column)) = envelope.debug.position(entry.loc) {
            let _ = writeln!(out, "{:16} {{ File: {}, Line: {line}, Column: {column} }}", "DebugLoc:", yaml_quoted(file));
        }
        let _ = writeln!(out, "{:16} {}", "Function:", yaml_scalar(&entry.function));
        let (id, remark, pass) = (index + 1, yaml_quoted(&entry.message), yaml_scalar(&entry.pass));
        let _ = writeln!(out, "Args:\n  - RemarkId:    {id}\n  - Remark:      {remark}\n  - Pass:        {pass}\n...");
    }
    out
}

/// Returns text as a plain YAML scalar if possible, and else as a quoted scalar.
fn yaml_scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if is_plain { text.to_string() } else { yaml_quoted(text) }
}

/// Returns text as a single-quoted YAML scalar. Line breaks become spaces.
fn yaml_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''").replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::loc::LocData;
    use base::{DebugInfo, Loc};

    fn example_envelope() -> Envelope {
        let mut debug = DebugInfo::default();
        let file = debug.names.push("it's.py".into());
        let loc = debug.locs.push(LocData::Source { file, line: 4, column: 9, scope: None });
        let entry = |outcome, category, name: &str, loc: Loc| LogEntry {
            pass: "vectorize".into(),
            outcome,
            name: name.into(),
            category,
            message: "16 bytes at a time".into(),
            function: "k".into(),
            loc,
        };
        let log = vec![
            entry(Outcome::Passed, Category::Memory, "Vectorized", loc),
            entry(Outcome::Declined, Category::TensorCore, "NoAtom", Loc::UNKNOWN),
        ];
        let (envelope, _) = Envelope::from_lines("//!tile ptx 1 final\n", "x").unwrap();
        Envelope { log, debug, ..envelope }
    }

    #[test]
    fn options_select_kinds_and_categories_of_remarks() {
        let envelope = example_envelope();
        let shown_count = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
            let filter = RemarkFilter::from_options(&common::cl::parse(crate::options::OPTIONS, "tileiras", &args)).unwrap();
            filter.map_or(0, |filter| envelope.log.iter().filter(|entry| filter.matches(entry)).count())
        };
        assert_eq!(shown_count(&["--remarks=all"]), 2);
        assert_eq!(shown_count(&["--remarks=memory"]), 1);
        assert_eq!(shown_count(&["--remarks-failed=tensorcore"]), 1);
        assert_eq!(shown_count(&["--remarks-missed=all"]), 0);
        assert_eq!(shown_count(&["--remarks=all", "--remarks=none"]), 0);
    }

    #[test]
    fn remarks_are_formatted_as_text_and_yaml() {
        let envelope = example_envelope();
        let entries: Vec<&LogEntry> = envelope.log.iter().collect();
        let text = as_text(&envelope, &entries);
        assert!(
            text.starts_with(
                "in function: k:\n\n  category: Memory\n    remark[passed]: 16 bytes at a time\n      --> \"it's.py\":4:9\n"
            ),
            "{text}"
        );
        let yaml = as_yaml(&envelope, &entries);
        assert!(yaml.contains("DebugLoc:        { File: 'it''s.py', Line: 4, Column: 9 }\nFunction:        k\n"), "{yaml}");
        assert!(yaml.contains("--- !Failure\nPass:            Tensor-core\n"), "{yaml}");
    }
}
