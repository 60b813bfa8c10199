//! Random edits of inputs. Edits of text preserve most of its structure, which random changes of bytes would destroy.

/// The form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bytes of unknown structure.
    Bytes,
    /// Lines of words.
    Lines,
    /// A stage file: lines of words after a header, or binary.
    Stage,
}

/// A small deterministic generator (xorshift64*).
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    /// A number less than `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as usize % bound.max(1)
    }
    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// The words of a line, each with its offset in bytes. A word is a name, a number, a value (`%x`) or a layout (`#0`).
fn words_of(line: &str) -> Vec<(usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '%' | '#' | '.');
    let mut words = Vec::new();
    let mut at = 0;
    for piece in line.split_inclusive(|c: char| !is_word(c)) {
        let word = piece.trim_end_matches(|c: char| !is_word(c));
        if !word.is_empty() {
            words.push((at, word));
        }
        at += piece.len();
    }
    words
}

/// A replacement for a word. A number becomes a neighbouring or a boundary number. A name becomes another name of `words`; words
/// that start with a sigil become a word with the same sigil.
fn replacement_word(word: &str, words: &[&str], random: &mut Random) -> String {
    let first_letter = word.chars().next().unwrap_or(' ');
    if let Ok(number) = word.parse::<u64>() {
        let candidates =
            [number.wrapping_add(1), number.wrapping_sub(1), number.wrapping_mul(2), number / 2, 0, 1, 31, 1 << 31, u64::MAX];
        return candidates[random.below(candidates.len())].to_string();
    }
    let similar: Vec<&str> =
        words.iter().copied().filter(|other| other.starts_with(first_letter) || first_letter.is_alphabetic()).collect();
    let names = similar.iter().copied().filter(|other| !other.chars().all(char::is_numeric)).collect::<Vec<_>>();
    if names.is_empty() { word.into() } else { random.pick(&names).into() }
}

/// The indices of the lines that may be edited: all lines after the header except the bodies of reductions and scans. Reason: such
/// a body must be associative for a deterministic result, and nearly every edit breaks associativity.
fn editable_lines(lines: &[String]) -> Vec<usize> {
    let mut reduction_indent: Option<usize> = None;
    let mut editable = Vec::new();
    for (at, line) in lines.iter().enumerate().skip_while(|(_, line)| line.starts_with("//!")) {
        let indent = line.len() - line.trim_start().len();
        match reduction_indent {
            Some(outer) if indent > outer => continue,
            Some(_) => reduction_indent = None,
            None => editable.push(at),
        }
        let opens_reduction = ["= reduce(", "= scan("].iter().any(|op| line.contains(op)) && line.ends_with('{');
        reduction_indent = reduction_indent.or(opens_reduction.then_some(indent));
    }
    editable
}

/// Applies one to three edits to the lines after the header.
pub fn edit_text(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for _ in 0..1 + random.below(3) {
        let editable = editable_lines(&lines);
        if editable.is_empty() {
            break;
        }
        let mut pick = || editable[random.below(editable.len())];
        let (at, other) = (pick(), pick());
        match random.below(10) {
            0 => drop(lines.remove(at)),
            1 => lines.swap(at, other),
            2 => {
                let copy = lines[at].clone();
                lines.insert(other, copy);
            }
            choice => {
                let line = lines[at].clone();
                let line_words = words_of(&line);
                if line_words.is_empty() {
                    continue;
                }
                let (start, word) = line_words[random.below(line_words.len())];
                // Replace a word by another word of its line, or by a replacement word.
                let new = if choice < 5 {
                    line_words[random.below(line_words.len())].1.to_string()
                } else {
                    let other_line = lines[other].clone();
                    replacement_word(
                        word,
                        &words_of(&other_line).iter().chain(&line_words).map(|(_, word)| *word).collect::<Vec<_>>(),
                        random,
                    )
                };
                lines[at].replace_range(start..start + word.len(), &new);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// Edits an input. Text gets edits of lines and words (`edit_text`). Other inputs get changes of a few bytes (`edit_bytes`).
pub fn mutate_input(form: Form, input: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed | 1);
    random.below(2);
    match std::str::from_utf8(input) {
        Ok(text) if form != Form::Bytes && !text.trim().is_empty() => edit_text(text, &mut random).into_bytes(),
        _ => edit_bytes(input, &mut random),
    }
}

/// Byte values at the boundaries of signed and unsigned ranges.
const EDGES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];

/// Flips, replaces, inserts or repeats a few bytes, or truncates the input.
fn edit_bytes(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut edited = input.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(edited.len());
        match random.below(5) {
            0 => edited.truncate(at),
            1 => edited.insert(at.min(edited.len()), random.below(256) as u8),
            2 if at < edited.len() => edited[at] ^= 1 << random.below(8),
            3 if at < edited.len() => edited[at] = EDGES[random.below(EDGES.len())],
            _ if at < edited.len() => {
                let count = random.below(edited.len() - at).min(32);
                let copied = edited[at..at + count].to_vec();
                let to = random.below(edited.len());
                edited.splice(to..to, copied);
            }
            _ => {}
        }
    }
    edited
}
