//! The language check of `tests/tidy.rs`. It finds words that `tests/refused_words.toml` refuses, and overlong sentences in
//! documents. The section on language in CONTRIBUTING.md states the rules.

use crate::root;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The number of words before and after a phrase in which `unless` and `only_near` words count. These words show whether the phrase
/// has its ordinary technical sense.
const NEIGHBOUR_WORDS: usize = 6;

/// The maximum number of words of a sentence of a document. The check is more lenient than CONTRIBUTING.md, which allows 25 words.
const MAX_SENTENCE_WORDS: usize = 40;
/// The maximum mean number of words of the sentences of a document.
const MAX_MEAN_SENTENCE_WORDS: f64 = 20.0;

/// Phrases that hide the actor of a sentence, which documents must not contain.
const DOCUMENT_PHRASES: [&str; 4] = ["is told", "whoever", "nobody", "what is"];

/// Folders of build outputs, at any depth.
const BUILD_OUTPUTS: [&str; 6] = ["target", "__pycache__", ".venv", "node_modules", "site", ".git"];

/// The contents of `tests/refused_words.toml`.
#[derive(Deserialize)]
pub struct RefusedWords {
    word: Vec<WordRule>,
    pub exception: Vec<Exception>,
}

/// A `[[word]]` table of `tests/refused_words.toml`.
#[derive(Deserialize)]
struct WordRule {
    /// The refused phrases.
    not: Vec<String>,
    /// The replacement that a finding suggests.
    instead: String,
    /// The rule does not apply if one of these words is within `NEIGHBOUR_WORDS`.
    #[serde(default)]
    unless: BTreeSet<String>,
    /// The rule applies only if one of these words is within `NEIGHBOUR_WORDS`. An empty set has no effect.
    #[serde(default)]
    only_near: BTreeSet<String>,
    /// Whether the rule applies only to comments, strings and documents.
    #[serde(default)]
    prose: bool,
}

/// A path in which a refused phrase is allowed, with the reason.
#[derive(Deserialize)]
pub struct Exception {
    /// The beginning of a path below the root.
    pub path: String,
    /// The refused phrase that the path may contain, or `*` for all refused phrases.
    pub word: String,
    pub reason: String,
}

/// A place in a file that violates a rule: a refused phrase, an overlong sentence, or a document with too long sentences on
/// average.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    /// The refused phrase, or a description of the sentence.
    pub word: String,
    /// The suggested replacement.
    pub instead: String,
}

/// A part of an identifier, or a word of prose.
struct Word<'a> {
    /// The word in lower case.
    lower: String,
    /// The identifier that contains the word.
    identifier: &'a str,
    line: usize,
    /// Whether punctuation separates the word from the previous one. No phrase matches across punctuation.
    separated: bool,
    /// Whether the word is in a comment, a string or a document.
    prose: bool,
}

pub fn read_table() -> RefusedWords {
    let text = std::fs::read_to_string(root().join("tests/refused_words.toml")).expect("tests/refused_words.toml is readable");
    toml::from_str(&text).expect("tests/refused_words.toml is TOML of the expected form")
}

/// Checks every text file of the repository. Returns the findings that no exception covers, and the number of files.
pub fn check_tree(table: &RefusedWords) -> (Vec<Finding>, usize) {
    let rules = by_first_word(table);
    let mut file_count = 0;
    let mut all_findings = Vec::new();
    for path in source_files() {
        let Some(text) = std::fs::read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { continue };
        if text.contains('\0') {
            continue;
        }
        file_count += 1;
        let path_below_root = path.strip_prefix(root()).expect("the walk starts at the root").to_string_lossy().into_owned();
        let mut findings = refused_words(&path_below_root, &text, &rules);
        if is_document(&path_below_root) {
            findings.extend(document_faults(&text));
        }
        findings.sort();
        findings.dedup();
        for (line, word, instead) in findings {
            let is_excepted = |exception: &Exception| {
                path_below_root.starts_with(&exception.path) && (exception.word == "*" || exception.word == word)
            };
            if !table.exception.iter().any(is_excepted) {
                all_findings.push(Finding { path: path_below_root.clone(), line, word, instead });
            }
        }
    }
    (all_findings, file_count)
}

/// The rules by the first word of each phrase, with the words of the phrase.
type Rules<'a> = BTreeMap<&'a str, Vec<(Vec<&'a str>, &'a WordRule)>>;

fn by_first_word(table: &RefusedWords) -> Rules<'_> {
    let mut rules = Rules::new();
    for rule in &table.word {
        for phrase in &rule.not {
            let parts: Vec<&str> = phrase.split(' ').collect();
            rules.entry(parts[0]).or_default().push((parts, rule));
        }
    }
    rules
}

/// All files of the repository except build outputs, sorted.
fn source_files() -> Vec<PathBuf> {
    let mut pending = vec![root().to_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && !BUILD_OUTPUTS.contains(&name.as_str()) && name != ".toolkit" {
                pending.push(path);
            } else if kind.is_file() && name != ".git" {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Whether the rules for sentences apply to a file.
fn is_document(path: &str) -> bool {
    ["README.md", "ARCHITECTURE.md"].contains(&path)
        || path.starts_with("docs/") && Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// The refused phrases of a file, each with its line and its replacement.
fn refused_words(path: &str, text: &str, rules: &Rules<'_>) -> Vec<(usize, String, String)> {
    let words = split_words(text, prose_mask(path, text).as_deref());
    let mut findings = Vec::new();
    for (at, word) in words.iter().enumerate() {
        // Rust's type `Box` is no TMA tile.
        if word.identifier == "Box" {
            continue;
        }
        let candidates = rules.get(word.lower.as_str()).into_iter().flatten();
        let refused = candidates.filter(|(_, rule)| word.prose || !rule.prose).find(|(parts, rule)| {
            let end = at + parts.len();
            let Some(phrase) = words.get(at..end) else { return false };
            let matches = phrase.iter().zip(parts).all(|(word, part)| word.lower == *part);
            if !matches || phrase[1..].iter().any(|word| word.separated) {
                return false;
            }
            let neighbours =
                || words[at.saturating_sub(NEIGHBOUR_WORDS)..at].iter().chain(&words[end..words.len().min(end + NEIGHBOUR_WORDS)]);
            let is_near = |list: &BTreeSet<String>| neighbours().any(|word| list.contains(&word.lower));
            !is_near(&rule.unless) && (rule.only_near.is_empty() || is_near(&rule.only_near))
        });
        if let Some((parts, rule)) = refused {
            findings.push((word.line, parts.join(" "), rule.instead.clone()));
        }
    }
    findings
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Splits text into words, and identifiers into their parts: `tma_boxes` and `TmaBoxes` are two words each. `prose` states for each
/// byte whether it belongs to prose. None means that the whole text is prose.
fn split_words<'a>(text: &'a str, prose: Option<&[bool]>) -> Vec<Word<'a>> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let (mut line, mut separated, mut at) = (1, true, 0);
    while at < bytes.len() {
        if is_word(bytes[at]) {
            let length = bytes[at..].iter().position(|byte| !is_word(*byte)).unwrap_or(bytes.len() - at);
            let identifier = &text[at..at + length];
            at += length;
            for part in identifier_parts(identifier) {
                let prose = prose.is_none_or(|prose| prose[at - 1]);
                words.push(Word { lower: part.to_ascii_lowercase(), identifier, line, separated, prose });
                separated = false;
            }
            continue;
        }
        if bytes[at] == b'\n' {
            line += 1;
        }
        // The letter of an escape such as `\n` in a string is no word.
        if bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|next| b"ntr".contains(next)) {
            at += 1;
            separated = true;
        } else if !b" \n\t/!#*-'`".contains(&bytes[at]) {
            separated = true;
        }
        at += 1;
    }
    words
}

/// The parts of an identifier in snake case or camel case.
fn identifier_parts(identifier: &str) -> Vec<&str> {
    let bytes = identifier.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for end in 1..=bytes.len() {
        let is_end = end == bytes.len()
            || bytes[end] == b'_'
            || bytes[end - 1] == b'_'
            || !bytes[end - 1].is_ascii_uppercase() && bytes[end].is_ascii_uppercase();
        if is_end {
            let part = identifier[start..end].trim_matches('_');
            if !part.is_empty() {
                parts.push(part);
            }
            start = end;
        }
    }
    parts
}

/// For each byte of a source file, whether it is in a comment or a string. Returns None for files that are prose as a whole:
/// documents, and text forms, because users read all their names.
fn prose_mask(path: &str, text: &str) -> Option<Vec<bool>> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let comment = match extension {
        "rs" | "js" | "c" => "//",
        "py" | "toml" | "sh" | "" => "#",
        _ => return None,
    };
    let bytes = text.as_bytes();
    let mut mask = vec![false; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let opens_comment =
            rest.starts_with(comment.as_bytes()) && (comment == "//" || at == 0 || b" \t\n".contains(&bytes[at - 1]));
        let end = if opens_comment {
            at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest[0] == b'"' {
            let quote: &[u8] = if extension == "py" && rest.starts_with(b"\"\"\"") { b"\"\"\"" } else { b"\"" };
            string_end(bytes, at + quote.len(), quote)
        } else {
            let quoted = |literal: &[u8]| comment == "//" && rest.starts_with(literal);
            at += if quoted(b"'\"'") || quoted(br"'\''") || quoted(br#"'\"'"#) { 3 } else { 1 };
            continue;
        };
        mask[at..end].fill(true);
        if extension == "rs" && !opens_comment {
            for hole in format_holes(&bytes[at..end]) {
                mask[at + hole.start..at + hole.end].fill(false);
            }
        }
        at = end;
    }
    Some(mask)
}

/// The offset after the quote that ends a string whose contents start at `at`.
fn string_end(bytes: &[u8], mut at: usize, quote: &[u8]) -> usize {
    while at < bytes.len() && !bytes[at..].starts_with(quote) {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    bytes.len().min(at + quote.len())
}

/// The ranges of the `{name}` holes in a format string. Their contents are code.
fn format_holes(string: &[u8]) -> Vec<Range<usize>> {
    let mut holes = Vec::new();
    for (start, _) in string.iter().enumerate().filter(|(_, byte)| **byte == b'{') {
        let is_name_byte = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.:?".contains(byte);
        let length = string[start + 1..].iter().position(|byte| !is_name_byte(byte)).unwrap_or(0);
        if string.get(start + 1 + length) == Some(&b'}') {
            holes.push(start..start + length + 2);
        }
    }
    holes
}

/// The overlong sentences of a document, and its phrases that hide the actor. A fault has the line, the fault and the remedy.
fn document_faults(text: &str) -> Vec<(usize, String, String)> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let lower = line.to_lowercase();
        for phrase in DOCUMENT_PHRASES {
            let is_whole_phrase = |at: usize| {
                let before = lower[..at].chars().next_back();
                let after = lower[at + phrase.len()..].chars().next();
                ![before, after].into_iter().flatten().any(|c| c.is_alphanumeric() || c == '_')
            };
            if lower.match_indices(phrase).any(|(at, _)| is_whole_phrase(at)) {
                faults.push((number + 1, format!("phrase: {phrase}"), "name the actor or the noun".into()));
            }
        }
    }
    let sentences = split_sentences(text);
    for (line, words) in sentences.iter().filter(|(_, words)| words.len() > MAX_SENTENCE_WORDS) {
        let start = words[..6].join(" ");
        faults.push((*line, format!("sentence of {} words", words.len()), format!("at most {MAX_SENTENCE_WORDS}: {start}")));
    }
    // Items of one or two words are no sentences.
    let lengths: Vec<usize> = sentences.iter().map(|(_, words)| words.len()).filter(|length| *length >= 3).collect();
    if !lengths.is_empty() {
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        if mean > MAX_MEAN_SENTENCE_WORDS {
            faults.push((1, format!("mean sentence {mean:.1} words"), format!("at most {MAX_MEAN_SENTENCE_WORDS}")));
        }
    }
    faults
}

/// The sentences of a document, each with its first line. Code blocks, tables and headings are left out; inline code counts as one
/// word.
fn split_sentences(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut sentences = Vec::new();
    let mut current: Vec<String> = Vec::new();
    let (mut start, mut in_code_block) = (1, false);
    for (number, line) in text.lines().enumerate() {
        let mut line = line.trim();
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        in_code_block ^= is_fence;
        let is_not_prose =
            is_fence || in_code_block || line.is_empty() || line.starts_with(['#', '|', '<']) || line.starts_with("![");
        let item = list_item(line);
        if (is_not_prose || item.is_some()) && !current.is_empty() {
            sentences.push((start, std::mem::take(&mut current)));
        }
        if is_not_prose {
            continue;
        }
        line = item.unwrap_or(line).trim_start_matches(['>', ' ']);
        for word in without_links(&without_code(line)).split_whitespace() {
            if current.is_empty() {
                start = number + 1;
            }
            if word.contains(char::is_alphanumeric) {
                current.push(word.into());
            }
            let is_end = word.trim_end_matches(['*', '_', ')', '"', '\'', '”']).ends_with(['.', '!', '?', ':']);
            if is_end && !["e.g.", "i.e.", "vs.", "cf."].contains(&word) && !current.is_empty() {
                sentences.push((start, std::mem::take(&mut current)));
            }
        }
    }
    if !current.is_empty() {
        sentences.push((start, current));
    }
    sentences
}

/// The text of a list item, if the line starts one.
fn list_item(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*', '+']).or_else(|| {
        let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
        if digits.len() < line.len() { digits.strip_prefix('.') } else { None }
    })?;
    rest.starts_with(' ').then(|| rest.trim_start())
}

/// The line with `code` for each span of inline code.
fn without_code(line: &str) -> String {
    let spans = line.matches('`').count() / 2;
    let mut out = String::new();
    for (index, part) in line.splitn(2 * spans + 1, '`').enumerate() {
        out.push_str(if index % 2 == 1 { "code" } else { part });
    }
    out
}

/// The line without the targets of its links.
fn without_links(line: &str) -> String {
    let mut parts = line.split("](");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        out.push(']');
        out.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_phrases(path: &str, text: &str) -> Vec<String> {
        let table = read_table();
        let rules = by_first_word(&table);
        refused_words(path, text, &rules).into_iter().map(|(_, word, _)| word).collect()
    }

    #[test]
    fn refused_words_are_found_in_identifiers_in_comments_and_across_lines() {
        assert_eq!(
            refused_phrases("a.rs", "let tma_boxes = 1; // the copy\n// engine\nfn f(x: AgentId) {}"),
            ["boxes", "copy engine", "agent"]
        );
    }

    #[test]
    fn ordinary_technical_senses_are_allowed() {
        let code =
            "let x: Box<u8> = f32::round(y); // a broken pipe: the process ended\nlet slot = 1;\nlet home = \"the home folder\";";
        assert!(refused_phrases("a.rs", code).is_empty(), "{:?}", refused_phrases("a.rs", code));
        assert!(refused_phrases("a.rs", "let made = format!(\"{made}\");").is_empty());
        assert_eq!(refused_phrases("a.rs", "let made = 1; // code that was made"), ["made"]);
    }

    #[test]
    fn long_sentences_and_phrases_without_an_actor_are_refused() {
        let long = format!("# Title\n\nShort one. {}end.\n", "word ".repeat(41));
        let faults: Vec<String> = document_faults(&long).into_iter().map(|(_, word, _)| word).collect();
        assert_eq!(faults, ["sentence of 42 words", "mean sentence 42.0 words"]);
        assert_eq!(document_faults("What is meant, `what` is this.").len(), 1);
    }
}
