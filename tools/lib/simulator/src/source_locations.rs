//! Source locations of PTX lines, from `.file` and `.loc` directives.

use std::collections::BTreeMap;
use std::fmt;

/// A location in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLocation<'a> {
    pub file: &'a str,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for SourceLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The source locations of the lines of a PTX file.
#[derive(Clone, Debug, Default)]
pub struct SourceLocations<'a> {
    /// The name of each source file, by its number in the `.file` directive.
    files: BTreeMap<&'a str, &'a str>,
    /// For each PTX line at which the location changes: file number, line and column. `None` at the start of a function.
    changes: BTreeMap<u32, Option<(&'a str, u32, u32)>>,
}

impl<'a> SourceLocations<'a> {
    /// Reads the `.file` and `.loc` directives of a PTX text.
    pub fn from_ptx(text: &'a str) -> SourceLocations<'a> {
        let mut locations = SourceLocations::default();
        for (number, line) in (1..).zip(text.lines().map(str::trim_start)) {
            if let Some(rest) = line.strip_prefix(".file") {
                let file = rest.trim_start().split_once([' ', '\t']);
                let number_and_name =
                    file.and_then(|(number, name)| Some((number, name.trim_start().strip_prefix('"')?.split('"').next()?)));
                locations.files.extend(number_and_name);
            } else if let Some(rest) = line.strip_prefix(".loc") {
                let mut words = rest.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty());
                let mut location = || Some((words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?));
                locations.changes.insert(number, location());
            } else if line.contains(".entry ") || line.contains(".func") {
                locations.changes.insert(number, None);
            }
        }
        locations
    }

    /// Returns the source location of a PTX line. The last `.loc` directive of its function up to this line states the location.
    pub fn at(&self, line: u32) -> Option<SourceLocation<'a>> {
        let (file, line, column) = (*self.changes.range(..=line).next_back()?.1)?;
        Some(SourceLocation { file: self.files.get(file)?, line, column })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_inherit_the_preceding_source_location() {
        let text = ".entry k()\n{\nadd;\n.loc 1 7 3\nadd;\n\t.loc\t2 8 4, function_name $a, inlined_at 1 2 3\nadd;\n}\n.entry other()\nadd;\n\
                    .loc 3 1 1\nadd;\n.file 1 \"a b.py\"\n.file\t2 \"c.py\"\n";
        let locations = SourceLocations::from_ptx(text);
        let shown: Vec<Option<String>> =
            [3, 5, 7, 10, 12].map(|line| locations.at(line).map(|location| location.to_string())).to_vec();
        assert_eq!(shown, [None, Some("a b.py:7:3".into()), Some("c.py:8:4".into()), None, None]);
    }
}
