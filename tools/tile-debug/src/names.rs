//! Maps values to source variables. Programs contain no variable table, so the names come from the source text. The result of the
//! last op of an assignment has the assigned name. A loop-carried value has the name of its initial value.

use crate::subject::{Frame, SourceFile};
use base::Value;
use executor::Listing;
use std::collections::{BTreeMap, BTreeSet};

/// The call sites that lead into a function. They distinguish its variables from the variables of other calls.
type Calls = Vec<(usize, u32)>;

/// A source variable of a value.
#[derive(Clone)]
struct Name {
    calls: Calls,
    text: String,
    /// The line of the assignment if the value is a constant. Constants execute before the program, so their variables are visible
    /// only after this line.
    constant_of_line: Option<u32>,
}

/// The variables of each value, by value number.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<u32, Vec<Name>>);

impl Names {
    pub(crate) fn new(listing: &Listing, frames: &[Vec<Frame>], files: &[SourceFile]) -> Names {
        let mut names = Names::default();
        names.assigned(listing, frames, files);
        names.counted(listing, frames, files);
        names.carried(listing);
        names
    }

    /// The name of a value in the function of the innermost frame.
    pub(crate) fn of(&self, value: Value, frames: &[Frame]) -> Option<&str> {
        let calls = calls(&frames[..frames.len().saturating_sub(1)]);
        let name = self.0.get(&value.0)?.iter().find(|name| name.calls == calls)?;
        let here = frames.last().map_or(u32::MAX, |frame| frame.line);
        name.constant_of_line.is_none_or(|line| line < here).then_some(&name.text)
    }

    /// Whether any value is a variable of this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.0.values().flatten().any(|known| known.text == name)
    }

    fn add(&mut self, value: Value, name: Name) {
        let names = self.0.entry(value.0).or_default();
        if names.iter().all(|known| known.calls != name.calls) {
            names.push(name);
        }
    }

    fn assigned(&mut self, listing: &Listing, frames: &[Vec<Frame>], files: &[SourceFile]) {
        // The last op of each assignment. The key is its block, its call chain with the line itself, and the assigned name.
        let mut last: BTreeMap<(u32, Calls, &str), usize> = BTreeMap::new();
        // Tokens have no names.
        let defines_value = |row: usize| !listing.rows[row].results.is_empty() && !listing.rows[row].mnemonic.contains("_token");
        // An assignment of a load names the loaded tile, not the view. The view op may precede the loop that contains the load.
        let is_view = |row: usize| listing.rows[row].mnemonic.starts_with("make_");
        let mut given: BTreeSet<Calls> = BTreeSet::new();
        for (_, chain) in frames.iter().enumerate().filter(|(row, _)| defines_value(*row) && !is_view(*row)) {
            given.extend((1..=chain.len()).map(|level| calls(&chain[..level])));
        }
        for (row, chain) in frames.iter().enumerate().filter(|(row, _)| defines_value(*row)) {
            for level in 1..=chain.len() {
                if is_view(row) && given.contains(&calls(&chain[..level])) {
                    continue;
                }
                let frame = &chain[level - 1];
                if let Some(name) = text(frame, files).and_then(|line| assigned(line, frame.column)) {
                    last.insert((listing.rows[row].block.0, calls(&chain[..level]), name), row);
                }
            }
        }
        let used: BTreeSet<u32> = listing.rows.iter().flat_map(|row| &row.operands).map(|value| value.0).collect();
        for ((_, mut calls, name), row) in last {
            let line = calls.pop().map(|(_, line)| line);
            let constant_of_line = line.filter(|_| listing.rows[row].mnemonic == "constant");
            // The results of an access are its value and a token. Of three or more results, the variable is the only used one.
            let results = &listing.rows[row].results;
            let mut requested = results.iter().filter(|value| results.len() < 3 || used.contains(&value.0));
            if let (Some(value), true) = (requested.next(), results.len() < 3 || requested.next().is_none()) {
                self.add(*value, Name { calls, text: name.to_string(), constant_of_line });
            }
        }
    }

    /// Names each loop counter after the variable of its `for` line.
    fn counted(&mut self, listing: &Listing, frames: &[Vec<Frame>], files: &[SourceFile]) {
        for row in &listing.rows {
            let Some((owner, number)) = row.owner.zip(row.arguments.first()) else { continue };
            let Some((frame, around)) = frames[owner].split_last() else { continue };
            let name = text(frame, files).and_then(|line| line.trim_start().strip_prefix("for ")?.split_once(" in "));
            if let Some(name) =
                name.map(|(name, _)| name.trim()).filter(|name| listing.rows[owner].mnemonic == "for" && is_word(name))
            {
                self.add(*number, Name { calls: calls(around), text: name.to_string(), constant_of_line: None });
            }
        }
    }

    /// Names loop-carried arguments and loop results after their initial values.
    fn carried(&mut self, listing: &Listing) {
        let mut body_of: BTreeMap<usize, &[Value]> = BTreeMap::new();
        for row in &listing.rows {
            if let Some(owner) = row.owner {
                body_of.entry(owner).or_insert(&row.arguments);
            }
        }
        for (owner, arguments) in body_of {
            let row = &listing.rows[owner];
            let count = row.results.len();
            // The loop-carried values are the last operands; the body of a `for` has a counter before its loop-carried arguments.
            if !["for", "loop"].contains(&row.mnemonic) || count > row.operands.len() || count > arguments.len() {
                continue;
            }
            let inits = &row.operands[row.operands.len() - count..];
            let inside = &arguments[arguments.len() - count..];
            for ((init, inside), result) in inits.iter().zip(inside).zip(&row.results) {
                for name in self.0.get(&init.0).cloned().unwrap_or_default() {
                    let name = Name { constant_of_line: None, ..name };
                    self.add(*inside, name.clone());
                    self.add(*result, name);
                }
            }
        }
    }
}

fn calls(frames: &[Frame]) -> Calls {
    frames.iter().map(|frame| (frame.file, frame.line)).collect()
}

fn text<'a>(frame: &Frame, files: &'a [SourceFile]) -> Option<&'a str> {
    let (_, lines) = files[frame.file].found.as_ref()?;
    lines.get((frame.line as usize).checked_sub(1)?).map(String::as_str)
}

/// The variable that a line assigns at a column, in Python or a language with similar syntax.
fn assigned(line: &str, column: u32) -> Option<&str> {
    let (start, statement) = statement(line, column as usize);
    one_assigned(statement).or_else(|| one_of_several(statement, (column as usize).saturating_sub(start)))
}

/// Returns the statement at a column of a line such as `m = f(); n = g()`, and its start.
fn statement(line: &str, column: usize) -> (usize, &str) {
    let (mut start, mut end) = (0, line.len());
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (letter, quote) {
            (_, Some(open)) => quote = Some(open).filter(|open| *open != letter),
            ('"' | '\'', None) => quote = Some(letter),
            ('#', None) => break,
            (';', None) if at < column => start = at + 1,
            (';', None) => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    (start, &line[start..end])
}

/// Returns the target of a tuple assignment such as `i, j = f(), g()` whose value is at a column.
fn one_of_several(line: &str, column: usize) -> Option<&str> {
    let (names, values) = line.split_once(" = ")?;
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let mut depth = 0;
    let mut commas = Vec::new();
    for (at, letter) in values.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '#' => break,
            ',' if depth == 0 => commas.push(line.len() - values.len() + at),
            _ => {}
        }
    }
    let is_matched = names.len() == commas.len() + 1 && names.iter().all(|name| is_word(name));
    names.get(commas.iter().filter(|at| **at < column).count()).copied().filter(|_| is_matched)
}

fn one_assigned(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("let mut ").or_else(|| line.strip_prefix("let ")).unwrap_or(line);
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    // `x: Type = ...`, `x += ...` and `x = ...`, but no `x == ...`.
    let rest = if rest.starts_with(':') {
        rest.split_once('=').map(|(_, rest)| rest)?
    } else {
        let rest = rest.trim_start_matches(['+', '-', '*', '/', '@', '|', '&', '%']);
        rest.strip_prefix('=')?
    };
    (is_word(name) && !rest.starts_with('=')).then_some(name)
}

fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_name_their_values() {
        for (line, name) in [
            ("    acc = ct.full((M, N), 0, ct.float32)", Some("acc")),
            ("acc += a @ b", Some("acc")),
            ("x: ct.Tile = ct.load(a)", Some("x")),
            ("let mut y = load(x);", Some("y")),
            ("if x == 3:", None),
            ("x == 3", None),
            ("ct.store(c, x)", None),
            ("for k in range(3):", None),
            ("", None),
        ] {
            assert_eq!(assigned(line, 0), name, "{line}");
        }
        let several = "    i, j = ct.bid(0, 1), [f(x), 2][0]";
        for (column, name) in [(11, Some("i")), (24, Some("j")), (26, Some("j"))] {
            assert_eq!(assigned(several, column), name, "{column}");
        }
        let statements = "    m = ct.bid(0); n = ct.bid(1); i, j = f('; x = '), g(2)";
        for (column, name) in [(8, "m"), (23, "n"), (41, "i"), (55, "j")] {
            assert_eq!(assigned(statements, column), Some(name), "{column}");
        }
        for line in ["a, b = f()", "f(a, b = 3)", "a[0], b = 1, 2"] {
            assert_eq!(assigned(line, 8), None, "{line}");
        }
    }
}
