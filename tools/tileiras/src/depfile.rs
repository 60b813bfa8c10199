//! Depfiles for make and ninja: the dependencies of an output.

use crate::pipeline::{Step, tools_folder};
use crate::tuned_options;
use base::diag::{Diagnostic, Result};
use common::cl::Parsed;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A depfile that has not been written yet.
pub(crate) struct Depfile {
    path: PathBuf,
    text: String,
}

/// Returns the depfile that the command line requests with `-MD` or `-MF`; `None` without these options. The depfile lists the
/// input, the response files, the files that options name, the tools, libdevice and ptxas. A new version of a tool therefore
/// triggers a rebuild.
pub(crate) fn requested_depfile(parsed: &Parsed, steps: &[Step], input: &str, output: &str) -> Result<Option<Depfile>> {
    let path = match parsed.get("MF") {
        Some(path) => PathBuf::from(path),
        None if parsed.flag("MD") => Path::new(output).with_extension("d"),
        None => return Ok(None),
    };
    let mut text = escape(parsed.get("MT").unwrap_or(output), "")? + ":";
    let mut sources = [vec![input.to_string()], parsed.response_files.clone(), toolchain_files(parsed, steps)?].concat();
    let mut seen_sources = BTreeSet::new();
    sources.retain(|source| seen_sources.insert(source.clone()));
    // If the first prerequisite after a target contains `=`, make parses the line as an assignment. So put such names last.
    sources.sort_by_key(|source| source.contains('='));
    for source in sources {
        text += " \\\n  ";
        text += &escape(&source, "|")?;
    }
    Ok(Some(Depfile { path, text: text + "\n" }))
}

impl Depfile {
    /// Writes the depfile.
    pub(crate) fn write(&self) -> Result<()> {
        common::write_file(Some(&self.path), self.text.as_bytes())
    }
}

/// Returns the files other than the input that determine an output: the pipeline file, the plan file, the launch description, the
/// tools, libdevice and ptxas.
pub(crate) fn toolchain_files(parsed: &Parsed, steps: &[Step]) -> Result<Vec<String>> {
    let plan_has = |tool: &str| steps.iter().any(|step| step.tool == tool);
    let components = [("tile-ptx", common::toolkit::libdevice as fn() -> _), ("tile-link", common::toolkit::ptxas)];
    let found_components = components.into_iter().filter(|(tool, _)| plan_has(tool)).filter_map(|(_, find)| find().ok());
    let is_search = tuned_options::level(parsed) == tuned_options::SEARCH_LEVEL;
    let search_tools = ["tile-tune", "tile-time"].into_iter().filter(|_| is_search).map(|tool| tools_folder().join(tool));
    let programs =
        steps.iter().map(|step| step.program.clone()).chain(search_tools).chain(found_components.map(|component| component.path));
    let option_files = ["pipeline", "plan", "launch"].into_iter().filter_map(|name| Some(Ok(parsed.get(name)?.to_string())));
    option_files.chain(programs.map(path_to_utf8)).collect()
}

/// Converts a path to UTF-8, because depfiles and ninja files are text. Returns an error for a path that is not UTF-8.
pub(crate) fn path_to_utf8(path: PathBuf) -> Result<String> {
    let text = path.into_os_string().into_string();
    text.map_err(|path| Diagnostic::usage("DEP002", format!("the name {path:?} is not UTF-8")))
}

/// Escapes a file name for a depfile. If the rules of make and ninja differ, follows the rules of make. `special` lists further
/// characters to escape. In make, `|` is special among the prerequisites but not in the target, and `%` is not special in explicit
/// rules.
fn escape(name: &str, special: &str) -> Result<String> {
    if name.contains(['\n', '\r', ';']) {
        return Err(Diagnostic::usage(
            "DEP001",
            format!("a depfile cannot represent {name:?}, which contains a line break or a semicolon"),
        ));
    }
    let mut out = String::new();
    for (index, c) in name.char_indices() {
        match c {
            '$' => out += "$$",
            c if " #:\t".contains(c) || special.contains(c) => {
                // The program `make` also parses a backslash before an escaped character as an escape, so double the backslash.
                let backslashes = name[..index].chars().rev().take_while(|c| *c == '\\').count();
                out.extend(std::iter::repeat_n('\\', backslashes + 1));
                out.push(c);
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_escaped_for_make() {
        let escape = |name| escape(name, "|");
        assert_eq!(escape("a b$c#d:e").unwrap(), r"a\ b$$c\#d\:e");
        assert_eq!(escape(r"a\ b|c\d%").unwrap(), r"a\\\ b\|c\d%");
        assert_eq!(escape("-k.bc").unwrap(), "-k.bc");
        assert!(escape("a\nb").is_err() && escape("a;b").is_err());
    }
}
