//! Locations in the notation that NVIDIA's tileiras prints before a message. This form spells out the debug scopes, which NVIDIA's
//! output abbreviates by attribute aliases.
//!
//! Clients parse these lines. cuTile Python parses `loc("file":3:7): error:`, but cannot print the resulting exception. A location
//! with a scope does not match this pattern, so cuTile prints it as part of the message. The bytecode of cuTile has scopes.

use crate::loc::{DebugInfo, Loc, LocData, Name, Scope, ScopeData};

/// Maximum bytes of a printed location. Reason: a nested location that several locations share is printed once per sharing
/// location, so the text can grow exponentially.
const MAX_LENGTH: usize = 1 << 14;
/// Maximum nesting depth of a printed location. The limit bounds the recursion of the writer.
const MAX_DEPTH: usize = 64;

impl DebugInfo {
    /// Returns the complete location as text. Returns `None` if the location has no source position, or if it exceeds `MAX_LENGTH`
    /// bytes or `MAX_DEPTH` nested locations.
    pub fn reference_text(&self, loc: Loc) -> Option<String> {
        self.position(loc)?;
        let mut writer = Writer { debug: self, out: String::new() };
        writer.write_loc(loc, true, 0)?;
        Some(writer.out)
    }
}

/// Writes locations and scopes to `out`. A function returns `None` if the text exceeds a limit.
struct Writer<'a> {
    debug: &'a DebugInfo,
    out: String,
}

impl Writer<'_> {
    /// Writes a location. Only the outermost location is enclosed in `loc()`. A location with a scope is the attribute `di_loc` of
    /// the dialect, which has no outer `loc()`.
    fn write_loc(&mut self, loc: Loc, outermost: bool, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH || self.out.len() > MAX_LENGTH {
            return None;
        }
        let (open, close) = if outermost { ("loc(", ")") } else { ("", "") };
        match &self.debug.locs[loc] {
            LocData::Unknown => self.push(&[open, "unknown", close]),
            LocData::Source { file, line, column, scope } => {
                let (open, close) = if scope.is_some() { ("#cuda_tile.di_loc<loc(", ")") } else { (open, close) };
                self.push(&[open]);
                self.write_name(*file);
                self.push(&[&format!(":{line}:{column}"), close]);
                if let Some(scope) = scope {
                    self.push(&[" in "]);
                    self.write_scope(*scope, true, depth)?;
                    self.push(&[">"]);
                }
            }
            LocData::CallSite { callee, caller } => {
                self.push(&[open, "callsite("]);
                self.write_loc(*callee, false, depth + 1)?;
                self.push(&[" at "]);
                self.write_loc(*caller, false, depth + 1)?;
                self.push(&[")", close]);
            }
            LocData::Fused(parts) => {
                self.push(&[open, "fused["]);
                for (index, part) in parts.iter().enumerate() {
                    self.push(&[if index > 0 { ", " } else { "" }]);
                    self.write_loc(*part, false, depth + 1)?;
                }
                self.push(&["]", close]);
            }
        }
        Some(())
    }

    /// Writes a scope. If `with_kind` is set, the kind of the scope precedes its fields. A field whose scopes can have several
    /// kinds needs the kind.
    fn write_scope(&mut self, scope: Scope, with_kind: bool, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH || self.out.len() > MAX_LENGTH {
            return None;
        }
        let data = &self.debug.scopes[scope];
        if with_kind {
            self.push(&["#cuda_tile.", data.kind()]);
        }
        self.push(&["<"]);
        match data {
            ScopeData::File { name, directory } => {
                self.write_name(*name);
                self.push(&[" in "]);
                self.write_name(*directory);
            }
            ScopeData::CompileUnit { file } => {
                self.push(&["file = "]);
                self.write_scope(*file, false, depth + 1)?;
            }
            ScopeData::Subprogram { file, line, name, linkage_name, compile_unit, scope_line, declaration } => {
                self.push(&["file = "]);
                self.write_scope(*file, false, depth + 1)?;
                self.push(&[&format!(", line = {line}, name = ")]);
                self.write_name(*name);
                self.push(&[", linkageName = "]);
                self.write_name(*linkage_name);
                self.push(&[", compileUnit = "]);
                self.write_scope(*compile_unit, false, depth + 1)?;
                self.push_unless_zero("scopeLine", *scope_line);
                self.push(if *declaration { &[", flags = declaration"] } else { &[] });
            }
            ScopeData::LexicalBlock { scope, file, line, column } => {
                self.push(&["scope = "]);
                self.write_scope(*scope, true, depth + 1)?;
                self.push(&[", file = "]);
                self.write_scope(*file, false, depth + 1)?;
                self.push(&[&format!(", line = {line}")]);
                self.push_unless_zero("column", *column);
            }
        }
        self.push(&[">"]);
        Some(())
    }

    fn push(&mut self, parts: &[&str]) {
        self.out.extend(parts.iter().copied());
    }

    fn push_unless_zero(&mut self, name: &str, value: u32) {
        if value != 0 {
            self.push(&[&format!(", {name} = {value}")]);
        }
    }

    /// Writes a name in quotes, with escapes for bytes that are not printable ASCII.
    fn write_name(&mut self, name: Name) {
        self.out.push('"');
        for byte in self.debug.names[name].bytes() {
            match byte {
                b'\\' => self.out.push_str("\\\\"),
                b' '..=b'~' if byte != b'"' => self.out.push(byte as char),
                _ => self.out.push_str(&format!("\\{byte:02X}")),
            }
        }
        self.out.push('"');
    }
}

impl ScopeData {
    /// Returns the name of this kind of scope in the `cuda_tile` dialect.
    pub fn kind(&self) -> &'static str {
        match self {
            ScopeData::File { .. } => "di_file",
            ScopeData::CompileUnit { .. } => "di_compile_unit",
            ScopeData::Subprogram { .. } => "di_subprogram",
            ScopeData::LexicalBlock { .. } => "di_lexical_block",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (DebugInfo, Loc, Loc) {
        let mut debug = DebugInfo::default();
        let mut name = |text: &str| debug.names.push(text.into());
        let (path, file, folder, short, linkage) = (name("/d/f.py"), name("f.py"), name("/d"), name("k"), name("k@1"));
        let file = debug.scopes.push(ScopeData::File { name: file, directory: folder });
        let unit = debug.scopes.push(ScopeData::CompileUnit { file });
        let function = ScopeData::Subprogram {
            file,
            line: 3,
            name: short,
            linkage_name: linkage,
            compile_unit: unit,
            scope_line: 4,
            declaration: false,
        };
        let function = debug.scopes.push(function);
        let plain = debug.locs.push(LocData::Source { file: path, line: 1, column: 2, scope: None });
        let scoped = debug.locs.push(LocData::Source { file: path, line: 5, column: 6, scope: Some(function) });
        (debug, plain, scoped)
    }

    /// Expected forms come from NVIDIA's tileiras 13.4.
    #[test]
    fn locations_are_written_in_nvidias_notation() {
        let (mut debug, plain, scoped) = example();
        assert_eq!(debug.reference_text(plain).unwrap(), "loc(\"/d/f.py\":1:2)");
        let scoped_text = "#cuda_tile.di_loc<loc(\"/d/f.py\":5:6) in #cuda_tile.di_subprogram<file = <\"f.py\" in \"/d\">, line = 3, \
                    name = \"k\", linkageName = \"k@1\", compileUnit = <file = <\"f.py\" in \"/d\">>, scopeLine = 4>>";
        assert_eq!(debug.reference_text(scoped).unwrap(), scoped_text);
        let call = debug.locs.push(LocData::CallSite { callee: scoped, caller: plain });
        assert_eq!(debug.reference_text(call).unwrap(), format!("loc(callsite({scoped_text} at \"/d/f.py\":1:2))"));
        assert_eq!(debug.reference_text(Loc::UNKNOWN), None);
    }

    #[test]
    fn a_location_above_the_size_limits_is_not_written() {
        let (mut debug, mut loc, _) = example();
        for _ in 0..40 {
            loc = debug.locs.push(LocData::CallSite { callee: loc, caller: loc });
        }
        assert_eq!(debug.reference_text(loc), None);
    }
}
