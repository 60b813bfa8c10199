//! Builds the text panes of the page. A pane has the lines of one file and the source position of each line. The texts omit
//! locations, because the page shows them as links between lines of different panes.

use crate::model::{Model, Pane, SourcePosition};
use base::diag::Result;
use base::{DebugInfo, File, Loc, Locations, Payload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Interned source files and source positions. Equal positions have the same index in all panes.
#[derive(Debug, Default)]
pub(crate) struct SourceTable {
    files: Vec<String>,
    source_positions: Vec<SourcePosition>,
    index_of_position: BTreeMap<SourcePosition, i64>,
}

/// The index of a line that has no source position.
pub(crate) const NO_SOURCE_POSITION: i64 = -1;

impl SourceTable {
    /// Returns the index of the source position of a location, or [`NO_SOURCE_POSITION`] for an unknown location.
    pub(crate) fn index_of_loc(&mut self, debug: &DebugInfo, loc: Loc) -> i64 {
        debug.position(loc).map_or(NO_SOURCE_POSITION, |(file, line, column)| self.intern(file, line, column))
    }

    /// Returns the index of a source position. Adds the file and the position if they are new.
    fn intern(&mut self, file: &str, line: u32, column: u32) -> i64 {
        let file = self.files.iter().position(|known| known == file).unwrap_or_else(|| {
            self.files.push(file.into());
            self.files.len() - 1
        });
        let source_position = SourcePosition { file, line, column };
        *self.index_of_position.entry(source_position).or_insert_with(|| {
            self.source_positions.push(source_position);
            self.source_positions.len() as i64 - 1
        })
    }

    /// Moves the files and source positions into the model.
    pub(crate) fn finish(self, model: &mut Model) {
        (model.files, model.source_positions) = (self.files, self.source_positions);
    }
}

impl Pane {
    /// Returns a pane without lines.
    fn new(name: &str, title: &str) -> Pane {
        Pane { name: name.into(), title: title.into(), ..Pane::default() }
    }
    /// Appends a line to the pane. `number` is its line number in the file.
    fn push(&mut self, number: usize, text: &str, source_position: i64) {
        self.lines.push(text.replace('\t', "    "));
        self.numbers.push(number as u32);
        self.source_positions.push(source_position);
    }
}

/// Returns the pane of the Tile IR program, in the text form of NVIDIA's disassembler.
pub(crate) fn tile_pane(file: &File<tileir::Module>, source_positions: &mut SourceTable) -> Pane {
    let text = tileir::text::print(&file.payload, Some(&file.envelope.debug));
    let definitions = location_aliases(&text);
    let mut pane = Pane::new("tile", "Tile IR");
    for (number, line) in text.lines().take_while(|line| !line.starts_with('#')).enumerate() {
        let (text, alias) = line.rsplit_once(" loc(").map_or((line, None), |(text, rest)| (text, rest.strip_suffix(')')));
        let source_position = alias.and_then(|alias| resolve_alias(&definitions, alias));
        let source_position =
            source_position.map_or(NO_SOURCE_POSITION, |(file, line, column)| source_positions.intern(file, line, column));
        pane.push(number + 1, text, source_position);
    }
    pane
}

/// Returns the definition of each location alias. The definitions are the lines `#loc = …` after the program text.
fn location_aliases(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|line| line.starts_with('#')).filter_map(|line| line.split_once(" = ")).collect()
}

/// Resolves a location alias to the file, line and column of its innermost source position.
fn resolve_alias<'a>(definitions: &BTreeMap<&'a str, &'a str>, alias: &str) -> Option<(&'a str, u32, u32)> {
    let mut definition = *definitions.get(alias)?;
    // Definitions may form cycles, so the number of steps is limited.
    for _ in 0..64 {
        if let Some(source_position) = definition.strip_prefix("loc(\"").and_then(|rest| rest.strip_suffix(')')) {
            let mut parts = source_position.rsplitn(3, ':');
            let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            return Some((parts.next()?.strip_suffix('"')?, line, column));
        }
        let name = definition.split_once('#').filter(|_| definition.starts_with("loc(")).or_else(|| definition.split_once("<#"))?.1;
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let next = definitions.iter().find(|(known, _)| known[1..] == name[..end])?;
        definition = next.1;
    }
    None
}

/// Returns the pane of a stage file, without its envelope.
pub(crate) fn stage_pane<P: Payload>(name: &str, title: &str, file: &File<P>, source_positions: &mut SourceTable) -> Pane {
    let mut pane = Pane::new(name, title);
    for (number, line) in file.payload.print(&file.envelope, Locations::Named).lines().enumerate() {
        let (text, loc) = split_location(line);
        let source_position = loc.map_or(NO_SOURCE_POSITION, |loc| source_positions.index_of_loc(&file.envelope.debug, loc));
        pane.push(number + 1, &text, source_position);
    }
    pane
}

/// Splits a line `… @7 { // file:12` into its text without location and comment, `… {`, and the location 7. Returns other lines
/// unchanged: only ops and function headers have locations.
fn split_location(line: &str) -> (String, Option<Loc>) {
    let strip_location = |text: &str| -> Option<(String, Loc)> {
        let (text, brace) = text.strip_suffix(" {").map_or((text, ""), |text| (text, " {"));
        let (text, number) = text.rsplit_once(" @")?;
        Some((format!("{text}{brace}"), Loc(number.parse().ok()?)))
    };
    let code = line.rsplit_once(" // ").map_or(line, |(code, _)| code);
    match strip_location(code) {
        Some((text, loc)) => (text, Some(loc)),
        None => (line.into(), None),
    }
}

/// Returns, for each function, the rows of a stage's pane that contain its ops, in program order.
pub(crate) fn op_rows(pane: &Pane) -> Vec<Vec<usize>> {
    let mut functions: Vec<Vec<usize>> = Vec::new();
    let mut in_header = false;
    for (row, line) in pane.lines.iter().enumerate() {
        if line.starts_with("func ") {
            functions.push(Vec::new());
            in_header = true;
        }
        let is_in_body = line.starts_with("  ") && !in_header;
        let text = line.trim_start();
        let is_not_op = ["type !", "(", "}"].iter().any(|start| text.starts_with(start));
        if let Some(rows) = functions.last_mut()
            && is_in_body
            && !is_not_op
        {
            rows.push(row);
        }
        // The function header ends with the brace that opens the body.
        in_header &= !(line.ends_with(") {") && !line.starts_with(' ') || line.starts_with("func ") && line.ends_with(" {"));
        if line == "}" {
            in_header = true;
        }
    }
    functions
}

/// Returns the pane of the PTX, without its envelope and location directives. An instruction without a `.loc` of its own gets the
/// position of the preceding `.loc`.
pub(crate) fn ptx_pane(bytes: &[u8], source_positions: &mut SourceTable) -> Pane {
    let text = String::from_utf8_lossy(bytes);
    let mut file_names: BTreeMap<u32, String> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.trim_start().strip_prefix(".file")) {
        let mut words = line.split_whitespace();
        if let (Some(Ok(number)), Some(name)) = (words.next().map(str::parse), line.split('"').nth(1)) {
            file_names.insert(number, name.into());
        }
    }
    let mut pane = Pane::new("ptx", "PTX");
    let mut source_position = NO_SOURCE_POSITION;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with("//!tile")) {
        if let Some(loc) = line.trim_start().strip_prefix(".loc") {
            let numbers: Vec<u32> = loc.split_whitespace().map_while(|word| word.trim_end_matches(',').parse().ok()).collect();
            if let [file, line, column, ..] = numbers[..]
                && line > 0
            {
                source_position =
                    file_names.get(&file).map_or(NO_SOURCE_POSITION, |name| source_positions.intern(name, line, column));
            }
            continue;
        }
        let code = line.trim();
        let omitted_prefixes = [".file", ".section", "$L__tmp", "$L__func", "// begin inline", "// end inline"];
        if code.is_empty() || omitted_prefixes.iter().any(|start| code.starts_with(start)) {
            continue;
        }
        let is_code = line.starts_with(['\t', ' ']) && !code.starts_with("//");
        pane.push(number + 1, line, if is_code { source_position } else { NO_SOURCE_POSITION });
    }
    pane
}

/// Returns the pane of the SASS that nvdisasm prints, without the location comments.
pub(crate) fn sass_pane(bytes: &[u8], source_positions: &mut SourceTable) -> Pane {
    let mut pane = Pane::new("sass", "SASS");
    let mut source_position = NO_SOURCE_POSITION;
    for (number, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let code = line.trim();
        if let Some(position) = code.strip_prefix("//## File \"") {
            let mut parts = position.split('"');
            let (name, after_name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let line = after_name.strip_prefix(", line ").and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            // After an inlined location, nvdisasm prints its call sites ("inlined at"). Keep the inlined location.
            if !position.contains("inlined at") || source_position == NO_SOURCE_POSITION {
                source_position = line.map_or(NO_SOURCE_POSITION, |line| source_positions.intern(name, line, 0));
            }
            continue;
        }
        if code.starts_with("/*") && code.ends_with(';') || code.starts_with('.') && code.ends_with(':') || code.ends_with("*/") {
            let text = code.trim_end_matches(';').trim_end().replacen("                   ", "  ", 1);
            pane.push(number + 1, &text, if code.starts_with("/*") { source_position } else { NO_SOURCE_POSITION });
        }
    }
    pane
}

/// Adds a pane for each source file, in front of the other panes. A file is read from one of `folders` or from its own path. The
/// file with the most source positions comes first.
pub(crate) fn add_source_panes(model: &mut Model, folders: &[PathBuf]) -> Result<()> {
    let count_positions =
        |file: usize| model.source_positions.iter().filter(|source_position| source_position.file == file).count();
    let mut files_by_use: Vec<usize> = (0..model.files.len()).collect();
    files_by_use.sort_by_key(|file| std::cmp::Reverse(count_positions(*file)));
    let mut source_panes = Vec::new();
    for file in files_by_use {
        let name = &model.files[file];
        let file_name = Path::new(name).file_name().map(PathBuf::from).unwrap_or_default();
        let candidates = folders.iter().map(|folder| if folder.is_file() { folder.clone() } else { folder.join(&file_name) });
        let candidates = candidates.chain([PathBuf::from(name)]);
        let Some(path) = candidates.into_iter().find(|path| path.is_file() && path.file_name() == Some(file_name.as_os_str()))
        else {
            model.missing.push(format!("the source {name} was not found; pass its folder with --source FOLDER"));
            continue;
        };
        let contents = common::read_file(Some(&path))?;
        let suffix = if source_panes.is_empty() { String::new() } else { (source_panes.len() + 1).to_string() };
        let mut pane = Pane::new(&format!("source{suffix}"), &file_name.to_string_lossy());
        let mut first_position: BTreeMap<u32, i64> = BTreeMap::new();
        for (number, source_position) in
            model.source_positions.iter().enumerate().filter(|(_, source_position)| source_position.file == file)
        {
            first_position.entry(source_position.line).or_insert(number as i64);
        }
        for (row, line) in String::from_utf8_lossy(&contents.bytes).lines().enumerate() {
            pane.push(row + 1, line, first_position.get(&(row as u32 + 1)).copied().unwrap_or(NO_SOURCE_POSITION));
        }
        source_panes.push(pane);
    }
    model.panes.splice(0..0, source_panes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_location_removes_the_location_of_an_op_line() {
        let line = "  %5 = constant(1) : i32 @12 // b.py:7";
        assert_eq!(split_location(line), ("  %5 = constant(1) : i32".into(), Some(Loc(12))));
        assert_eq!(split_location("  if(cond: %1) @3 {"), ("  if(cond: %1) {".into(), Some(Loc(3))));
        assert_eq!(split_location("  (elem: f16), // buffer 0"), ("  (elem: f16), // buffer 0".into(), None));
    }

    #[test]
    fn location_aliases_resolve_to_the_innermost_location() {
        let text = "op loc(#loc2)\n#di_file = #cuda_tile.di_file<\"k.py\" in \"/d\">\n#loc = loc(\"/d/k.py\":12:3)\n#loc1 = loc(unknown)\n\
                    #loc2 = loc(callsite(#loc3 at #loc1))\n#loc3 = #cuda_tile.di_loc<#loc in #di_subprogram>\n#loc4 = loc(fused[#loc4])\n";
        let definitions = location_aliases(text);
        for alias in ["#loc", "#loc2", "#loc3"] {
            assert_eq!(resolve_alias(&definitions, alias), Some(("/d/k.py", 12, 3)), "{alias}");
        }
        assert_eq!(resolve_alias(&definitions, "#loc1"), None);
        assert_eq!(resolve_alias(&definitions, "#loc4"), None, "a name that refers to itself");
    }

    #[test]
    fn ptx_lines_have_the_preceding_location() {
        let text = "//!tile ptx 1 final\n.file 1 \"/d/k.py\"\n.loc 1 3 4\n\tadd.s32 %r1, %r2, %r3;\n\t.loc 1 0 4\n\tret;\n";
        let mut source_positions = SourceTable::default();
        let pane = ptx_pane(text.as_bytes(), &mut source_positions);
        assert_eq!(pane.lines, ["    add.s32 %r1, %r2, %r3;", "    ret;"]);
        assert_eq!((pane.numbers, pane.source_positions), (vec![4, 6], vec![0, 0]));
        assert_eq!(source_positions.source_positions, [SourcePosition { file: 0, line: 3, column: 4 }]);
    }

    #[test]
    fn sass_lines_have_the_preceding_location() {
        let text = "\t.section\t.text.k\n.text.k:\n\t//## File \"/d/k.py\", line 3\n        /*0010*/                   MOV R1, R2 ;\n.L_x_0:\n";
        let pane = sass_pane(text.as_bytes(), &mut SourceTable::default());
        assert_eq!(pane.lines, [".text.k:", "/*0010*/  MOV R1, R2", ".L_x_0:"]);
        assert_eq!(pane.source_positions, [NO_SOURCE_POSITION, 0, NO_SOURCE_POSITION]);
    }
}
