//! Diff of two programs as text. Value names such as `%7` or `%rd7` are matched, not compared, because a new op renumbers all
//! values after it. Two values match if the lines that define them match.

use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::HashMap;
use std::io::IsTerminal;

/// The number of equal lines shown before and after each difference.
const CONTEXT_LINES: usize = 2;

/// Whether the output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Yes,
    No,
}

impl Colour {
    /// Returns whether to print colours to standard error. The environment variable `NO_COLOR` disables colours. Otherwise,
    /// `CLICOLOR_FORCE` enables colours. Without either variable, a terminal has colours.
    pub fn for_stderr() -> Colour {
        Colour::from_environment(std::io::stderr().is_terminal())
    }
    /// Like [`Colour::for_stderr`], for standard output.
    pub fn for_stdout() -> Colour {
        Colour::from_environment(std::io::stdout().is_terminal())
    }
    /// Decides by the environment variables and by whether the stream is a terminal.
    fn from_environment(is_terminal: bool) -> Colour {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        if !is_set("NO_COLOR") && (is_terminal || is_set("CLICOLOR_FORCE")) { Colour::Yes } else { Colour::No }
    }
}

/// Returns the removed lines, prefixed with `-`, and the added lines, prefixed with `+`, with equal lines around them. Empty if the
/// programs are equal except for value names.
pub fn difference(before: &str, after: &str, colour: Colour) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let (old, new) = (without_value_numbers(&before), without_value_numbers(&after));
    let lines = mark_lines(&before, &after, &capture_diff_slices(Algorithm::Patience, &old, &new));
    let is_near_change = |index: usize| {
        lines[index.saturating_sub(CONTEXT_LINES)..(index + CONTEXT_LINES + 1).min(lines.len())].iter().any(|line| line.0 != ' ')
    };
    let mut out = String::new();
    let mut in_shown_run = false;
    for (index, (sign, text)) in lines.iter().enumerate() {
        if !is_near_change(index) {
            in_shown_run = false;
            continue;
        }
        if !std::mem::replace(&mut in_shown_run, true) && index > 0 {
            out += "  ...\n";
        }
        let (start, end) = match (colour, sign) {
            (Colour::Yes, '-') => ("\x1b[31m", "\x1b[0m"),
            (Colour::Yes, '+') => ("\x1b[32m", "\x1b[0m"),
            _ => ("", ""),
        };
        out += &format!("{start}{sign} {text}{end}\n");
    }
    out
}

/// Returns the lines with each value name reduced to its letters.
fn without_value_numbers(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| split_at_value_names(line).iter().map(|(text, _)| format!("%{text}")).collect()).collect()
}

/// Splits a line into pieces, each a text and optionally a value name. A value name is `%`, optional letters and a number. A piece
/// with a value name has the letters as text, and its value name lacks the `%`.
fn split_at_value_names(line: &str) -> Vec<(&str, Option<&str>)> {
    let mut pieces = Vec::new();
    for (index, part) in line.split('%').enumerate() {
        let word = &part[..part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len())];
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if index > 0 && letters.len() < word.len() {
            pieces.extend([(letters, Some(word)), (&part[word.len()..], None)]);
        } else {
            pieces.push((part, None));
        }
    }
    pieces
}

/// Returns all lines of both programs, each with its sign: space for a common line, `-` for a removed line, `+` for an added line.
/// Lines are common if they are equal and their values match.
fn mark_lines<'a>(before: &[&'a str], after: &[&'a str], ops: &[DiffOp]) -> Vec<(char, &'a str)> {
    let mut after_value_of: HashMap<&str, &str> = HashMap::new();
    let mut out = Vec::new();
    for op in ops {
        let (old, new) = (&before[op.old_range()], &after[op.new_range()]);
        if !matches!(op, DiffOp::Equal { .. }) {
            out.extend(old.iter().map(|line| ('-', *line)));
            out.extend(new.iter().map(|line| ('+', *line)));
            continue;
        }
        for (old_line, new_line) in old.iter().zip(new) {
            let value_pairs = || {
                let pieces = split_at_value_names(old_line).into_iter().zip(split_at_value_names(new_line));
                pieces.filter_map(|(old_piece, new_piece)| Some((old_piece.1?, new_piece.1?)))
            };
            // The first common line that contains a value determines the value that it matches. That line defines the value, unless
            // the definition is in a removed or added line.
            if value_pairs().all(|(old_value, new_value)| *after_value_of.entry(old_value).or_insert(new_value) == new_value) {
                out.push((' ', *new_line));
            } else {
                out.extend([('-', *old_line), ('+', *new_line)]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renumbered_values_are_no_difference() {
        let before = "%0 = a\n%1 = b(%0)\n%2 = c(%1)\nend";
        let after = "%0 = a\n%1 = new\n%2 = b(%0)\n%3 = c(%2)\nend";
        assert_eq!(difference(before, after, Colour::No), "  %0 = a\n+ %1 = new\n  %2 = b(%0)\n  %3 = c(%2)\n");
        assert_eq!(difference(before, before, Colour::No), "");
        assert_eq!(difference("mov %rd1, %tid.x; 5%", "mov %rd7, %tid.x; 5%", Colour::No), "");
        assert_ne!(difference("mov %rd1, %tid.x", "mov %r1, %tid.x", Colour::No), "");
    }

    #[test]
    fn another_operand_is_a_difference() {
        let (before, after) = ("%0 = a\n%1 = b\n%2 = c(%0, %1)", "%0 = a\n%1 = b\n%2 = c(%1, %1)");
        assert_eq!(difference(before, after, Colour::No), "  %0 = a\n  %1 = b\n- %2 = c(%0, %1)\n+ %2 = c(%1, %1)\n");
        assert!(difference(before, after, Colour::Yes).contains("\x1b[31m- %2"));
    }

    #[test]
    fn lines_far_from_a_difference_are_omitted() {
        let before: String = (0..20).map(|n| format!("line {n}\n")).collect();
        let diff = difference(&before, &before.replace("line 10", "other"), Colour::No);
        assert_eq!(diff, "  ...\n  line 8\n  line 9\n- line 10\n+ other\n  line 11\n  line 12\n");
    }
}
