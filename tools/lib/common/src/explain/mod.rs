//! Explanations of error codes, for `--explain` of every tool and for docs/error-codes.md. The texts are in `formats/base/codes`.

use base::code::{Code, Family};
use std::fmt::Write as _;

/// Returns the text of `--explain WORD`, where the word is a code, the letters of a family, or `list` for one line per code. `None`
/// for any other word.
pub fn explain(word: &str) -> Option<String> {
    let word = word.trim();
    let summary_line = |code: Code| format!("{code:7} {}\n", code.summary());
    if word.eq_ignore_ascii_case("list") {
        return Some(Code::ALL.iter().map(|code| summary_line(*code)).collect());
    }
    if let Some(family) = Family::from_letters(word) {
        let summary_lines: String = family.codes().map(summary_line).collect();
        return Some(format!("{}: {}\n\n{summary_lines}", family.name(), family.description()));
    }
    let code = Code::from_name(word)?;
    let mut out = format!("{code}: {}\n\n", code.cause());
    if let Some(fix) = code.fix() {
        let _ = write!(out, "Fix: {fix}\n\n");
    }
    if let Some(example) = code.example() {
        let _ = write!(
            out,
            "A command that fails in this way, with the files of a kernel k:\n\n    {}\n\n",
            example.replace('\n', "\n    ")
        );
    }
    Some(out + code.family().description() + "\n")
}

/// Returns the text of docs/error-codes.md.
pub fn page() -> String {
    let mut out = String::from(
        "# Error codes\n\n`scripts/bless` generates this page from `formats/base/codes`. Every tool prints the explanation of a code with \
         `--explain CODE`, and a command that fails with this code. `--explain list` lists all codes.\n",
    );
    for family in Family::ALL {
        let _ = write!(out, "\n## {}\n\n{}\n\n| Code | Cause | Fix |\n|---|---|---|\n", family.name(), family.description());
        for code in family.codes() {
            let table_cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
            let _ = writeln!(out, "| {code} | {} | {} |", table_cell(code.cause()), table_cell(code.fix().unwrap_or_default()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Adds every quoted word that looks like a code, from all Rust files of a folder except those in folders named `target` or
    /// `explain`.
    fn collect_codes(folder: &Path, used_codes: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target" && name != "explain") {
                collect_codes(&path, used_codes);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                used_codes.extend(text.split('"').filter(|word| is_code(word)).map(str::to_string));
            }
        }
    }

    fn is_code(word: &str) -> bool {
        let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
        (2..=4).contains(&letters) && word.len() == letters + 3 && word[letters..].bytes().all(|byte| byte.is_ascii_digit())
    }

    #[test]
    fn codes_in_sources_and_explained_codes_are_equal() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut used_codes = BTreeSet::new();
        for subfolder in ["formats", "tools"] {
            collect_codes(&root.join(subfolder), &mut used_codes);
        }
        let explained_codes: BTreeSet<String> = Code::ALL.iter().map(|code| code.name().to_string()).collect();
        let unexplained: Vec<_> = used_codes.difference(&explained_codes).collect();
        let unused: Vec<_> = explained_codes.difference(&used_codes).collect();
        assert!(
            unexplained.is_empty() && unused.is_empty(),
            "without a page: {unexplained:?}; with a page, but not used: {unused:?}"
        );
    }

    #[test]
    fn codes_are_found_in_any_case_and_by_their_letters() {
        assert_eq!(explain("opt002"), explain("OPT002"));
        assert!(explain("chk001").unwrap().contains("tile-run --check") && explain("SC120").unwrap().contains("schedule"));
        assert!(explain("lch").unwrap().contains("LCH016") && explain("list").unwrap().lines().count() == Code::ALL.len());
        assert_eq!((explain("AA999"), explain("nothing"), explain("")), (None, None, None));
    }
}
