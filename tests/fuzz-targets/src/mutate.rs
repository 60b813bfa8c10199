//! Edits that preserve most of an input's structure, which random changes of bytes would destroy.

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

/// The ranges of the words of a line: names, numbers, and values and layouts with their sigils.
fn words(line: &str) -> Vec<(usize, &str)> {
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

/// A replacement for a word: a similar word from elsewhere in the file, or a boundary number.
fn replacement(word: &str, all: &[&str], random: &mut Random) -> String {
    let first = word.chars().next().unwrap_or(' ');
    if let Ok(number) = word.parse::<u64>() {
        let candidates =
            [number.wrapping_add(1), number.wrapping_sub(1), number.wrapping_mul(2), number / 2, 0, 1, 31, 1 << 31, u64::MAX];
        return candidates[random.below(candidates.len())].to_string();
    }
    let similar: Vec<&str> = all.iter().copied().filter(|other| other.starts_with(first) || first.is_alphabetic()).collect();
    let names = similar.iter().copied().filter(|other| !other.chars().all(char::is_numeric)).collect::<Vec<_>>();
    if names.is_empty() { word.into() } else { random.pick(&names).into() }
}

/// The lines that may be edited: all after the header except the bodies of reductions and scans. Reason: such a body must be
/// associative for a deterministic result, and an edit nearly always breaks that.
fn editable(lines: &[String]) -> Vec<usize> {
    let mut reduction_depth: Option<usize> = None;
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().skip_while(|(_, line)| line.starts_with("//!")) {
        let depth = line.len() - line.trim_start().len();
        match reduction_depth {
            Some(outer) if depth > outer => continue,
            Some(_) => reduction_depth = None,
            None => found.push(at),
        }
        let opens_reduction = ["= reduce(", "= scan("].iter().any(|op| line.contains(op)) && line.ends_with('{');
        reduction_depth = reduction_depth.or(opens_reduction.then_some(depth));
    }
    found
}

/// One to three edits of the lines after the header.
pub fn edited(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for _ in 0..1 + random.below(3) {
        let editable = editable(&lines);
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
                let found = words(&line);
                if found.is_empty() {
                    continue;
                }
                let (start, word) = found[random.below(found.len())];
                // Swaps two words of one line, or replaces one.
                let new = if choice < 5 {
                    found[random.below(found.len())].1.to_string()
                } else {
                    let other_line = lines[other].clone();
                    replacement(word, &words(&other_line).iter().chain(&found).map(|(_, word)| *word).collect::<Vec<_>>(), random)
                };
                lines[at].replace_range(start..start + word.len(), &new);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// An edit of an input, by its form. Other input gets changes of a few bytes.
pub fn mutated(form: Form, input: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed | 1);
    random.below(2);
    match std::str::from_utf8(input) {
        Ok(text) if form != Form::Bytes && !text.trim().is_empty() => edited(text, &mut random).into_bytes(),
        _ => edited_bytes(input, &mut random),
    }
}

/// Boundary values of counts, indices and lengths.
const EDGES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];

fn edited_bytes(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut changed = input.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(changed.len());
        match random.below(5) {
            0 => changed.truncate(at),
            1 => changed.insert(at.min(changed.len()), random.below(256) as u8),
            2 if at < changed.len() => changed[at] ^= 1 << random.below(8),
            3 if at < changed.len() => changed[at] = EDGES[random.below(EDGES.len())],
            _ if at < changed.len() => {
                let count = random.below(changed.len() - at).min(32);
                let copied = changed[at..at + count].to_vec();
                let to = random.below(changed.len());
                changed.splice(to..to, copied);
            }
            _ => {}
        }
    }
    changed
}
