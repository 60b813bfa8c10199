//! What the error codes mean, for `--explain` of every tool and for the page of codes in the documentation.

mod codes;

use codes::{CODES, FAMILIES};
use std::fmt::Write as _;

/// What `--explain WORD` prints: the words about a code or, with `list`, a line for each. None for a code that does not exist.
pub fn explain(word: &str) -> Option<String> {
    let word = word.trim().to_ascii_uppercase();
    if word == "LIST" {
        return Some(CODES.iter().map(|(code, text)| format!("{code:7} {}\n", first_sentence(text))).collect());
    }
    if let Some((family, text)) = FAMILIES.iter().find(|(family, _)| *family == word) {
        let own = CODES.iter().filter(|(code, _)| letters(code) == *family);
        let rows: String = own.map(|(code, text)| format!("{code:7} {}\n", first_sentence(text))).collect();
        return Some(format!("{word}: {text}\n\n{rows}"));
    }
    let (code, own) = CODES.iter().find(|(code, _)| *code == word)?;
    Some(format!("{code}: {own}\n\n{}\n", family(code)))
}

/// All codes as a page of the documentation.
pub fn page() -> String {
    let mut out = String::from(
        "# Codes of errors\n\nMade from the tools' own table by `scripts/bless`. Every tool says the same with `--explain CODE`; `--explain list` lists all.\n",
    );
    for (family, text) in FAMILIES {
        let _ = write!(out, "\n## {family}\n\n{text}\n\n| code | what it means |\n|---|---|\n");
        for (code, text) in CODES.iter().filter(|(code, _)| letters(code) == *family) {
            let _ = writeln!(out, "| {code} | {} |", text.replace('|', "\\|"));
        }
    }
    out
}

fn letters(code: &str) -> &str {
    code.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn family(code: &str) -> &'static str {
    FAMILIES.iter().find(|(name, _)| *name == letters(code)).map_or("", |(_, text)| text)
}

fn first_sentence(text: &str) -> &str {
    // A full stop inside a name, as in `.aa`, has no space behind it.
    text.find(". ").map_or(text, |end| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every quoted word of letters and digits that looks like a code, in all sources but the table.
    fn codes(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target" && name != "explain") {
                codes(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                found.extend(text.split('"').filter(|word| is_code(word)).map(str::to_string));
            }
        }
    }

    fn is_code(word: &str) -> bool {
        let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
        (2..=4).contains(&letters) && word.len() == letters + 3 && word[letters..].bytes().all(|byte| byte.is_ascii_digit())
    }

    #[test]
    fn every_code_is_explained() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut found = BTreeSet::new();
        for part in ["formats", "tools"] {
            codes(&root.join(part), &mut found);
        }
        let table: BTreeSet<String> = CODES.iter().map(|(code, _)| code.to_string()).collect();
        let missing: Vec<_> = found.difference(&table).collect();
        let stale: Vec<_> = table.difference(&found).collect();
        assert!(missing.is_empty() && stale.is_empty(), "not explained: {missing:?}; explained, but not used: {stale:?}");
        assert!(CODES.is_sorted() && FAMILIES.is_sorted(), "the tables are in order");
        assert!(CODES.iter().all(|(code, _)| !family(code).is_empty()));
    }

    #[test]
    fn codes_are_found_in_any_case_and_by_their_letters() {
        assert_eq!(explain("opt002"), explain("OPT002"));
        assert!(explain("chk001").unwrap().contains("tile-run --check") && explain("SC120").unwrap().contains("schedule"));
        assert!(explain("lch").unwrap().contains("LCH016") && explain("list").unwrap().lines().count() == CODES.len());
        assert_eq!((explain("AA999"), explain("nothing"), explain("")), (None, None, None));
    }
}
