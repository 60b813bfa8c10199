//! Diff of two programs as text. Value numbers are matched, not compared: a new op renumbers all values after it. Two values match
//! if the lines that define them match.

use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::HashMap;
use std::io::IsTerminal;

/// Lines of context around a difference.
const CONTEXT_LINES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Yes,
    No,
}

impl Colour {
    /// Selected by `NO_COLOR` and `CLICOLOR_FORCE`; otherwise enabled on a terminal.
    pub fn of_stderr() -> Colour {
        Colour::of(std::io::stderr().is_terminal())
    }
    pub fn of_stdout() -> Colour {
        Colour::of(std::io::stdout().is_terminal())
    }
    fn of(terminal: bool) -> Colour {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        if !set("NO_COLOR") && (terminal || set("CLICOLOR_FORCE")) { Colour::Yes } else { Colour::No }
    }
}

/// The different lines, prefixed with `-` and `+`, with context. Empty if the programs are equal up to value numbers.
pub fn difference(before: &str, after: &str, colour: Colour) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let (old, new) = (without_value_numbers(&before), without_value_numbers(&after));
    let lines = mark_lines(&before, &after, &capture_diff_slices(Algorithm::Patience, &old, &new));
    let is_near_change = |at: usize| {
        lines[at.saturating_sub(CONTEXT_LINES)..(at + CONTEXT_LINES + 1).min(lines.len())].iter().any(|line| line.0 != ' ')
    };
    let mut out = String::new();
    let mut shown = false;
    for (at, (sign, text)) in lines.iter().enumerate() {
        if !is_near_change(at) {
            shown = false;
            continue;
        }
        if !std::mem::replace(&mut shown, true) && at > 0 {
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

/// The lines without their value numbers.
fn without_value_numbers(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| pieces(line).iter().map(|(text, _)| format!("%{text}")).collect()).collect()
}

/// Splits a line into text and value names. A value name is a sigil, optional letters and a number; the letters count as text too.
fn pieces(line: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    for (index, part) in line.split('%').enumerate() {
        let word = &part[..part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len())];
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if index > 0 && letters.len() < word.len() {
            found.extend([(letters, Some(word)), (&part[word.len()..], None)]);
        } else {
            found.push((part, None));
        }
    }
    found
}

/// All lines of both programs, marked as common, removed or added. Equal lines are common only if their values match.
fn mark_lines<'a>(before: &[&'a str], after: &[&'a str], ops: &[DiffOp]) -> Vec<(char, &'a str)> {
    let mut value_matches: HashMap<&str, &str> = HashMap::new();
    let mut out = Vec::new();
    for op in ops {
        let (old, new) = (&before[op.old_range()], &after[op.new_range()]);
        if !matches!(op, DiffOp::Equal { .. }) {
            out.extend(old.iter().map(|line| ('-', *line)));
            out.extend(new.iter().map(|line| ('+', *line)));
            continue;
        }
        for (a, b) in old.iter().zip(new) {
            let values = || pieces(a).into_iter().zip(pieces(b)).filter_map(|(a, b)| Some((a.1?, b.1?)));
            // Values match if their first occurrences do. The first occurrence is the definition, unless lines that differ define
            // the value.
            if values().all(|(a, b)| *value_matches.entry(a).or_insert(b) == b) {
                out.push((' ', *b));
            } else {
                out.extend([('-', *a), ('+', *b)]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_line_renumbers_nothing() {
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
        let shown = difference(&before, &before.replace("line 10", "other"), Colour::No);
        assert_eq!(shown, "  ...\n  line 8\n  line 9\n- line 10\n+ other\n  line 11\n  line 12\n");
    }
}
