//! Maps values of the kernel to source variables. Programs contain no variable table, so this module reads the names from the
//! source text. The result of the last op of an assignment gets the assigned name. A loop-carried value gets the name of its
//! initial value.

use crate::call_stack::{Frame, SourceFile};
use base::Value;
use executor::Listing;
use std::collections::{BTreeMap, BTreeSet};

/// The call sites of an inlined function and of its callers, as pairs of file index and line, outermost first. Call sites
/// distinguish a variable of the function from the same variable in another call of the function.
type CallSites = Vec<(usize, u32)>;

/// The name of a value in one call of a function.
#[derive(Clone)]
struct VariableName {
    call_sites: CallSites,
    text: String,
    /// The line of the assignment if the value is a constant. Constants execute at the start of the program, but the debugger shows
    /// their variables only after this line.
    constant_line: Option<u32>,
}

/// The variables of each value, by value number.
#[derive(Default)]
pub(crate) struct VariableNames(BTreeMap<u32, Vec<VariableName>>);

impl VariableNames {
    /// Names the values of a kernel. `frames` has the call stack of each row of the listing.
    pub(crate) fn new(listing: &Listing, frames: &[Vec<Frame>], files: &[SourceFile]) -> VariableNames {
        let mut names = VariableNames::default();
        names.name_assignments(listing, frames, files);
        names.name_loop_counters(listing, frames, files);
        names.name_loop_carried(listing);
        names
    }

    /// Returns the name of the variable that holds a value in the function of the innermost frame; `None` if no variable holds it.
    pub(crate) fn variable_of(&self, value: Value, frames: &[Frame]) -> Option<&str> {
        let call_sites = call_sites(&frames[..frames.len().saturating_sub(1)]);
        let name = self.0.get(&value.0)?.iter().find(|name| name.call_sites == call_sites)?;
        let current_line = frames.last().map_or(u32::MAX, |frame| frame.line);
        name.constant_line.is_none_or(|line| line < current_line).then_some(&name.text)
    }

    /// Returns whether any value of the program has this name.
    pub(crate) fn has_variable(&self, name: &str) -> bool {
        self.0.values().flatten().any(|known| known.text == name)
    }

    /// Gives a value a name in one call of a function, unless the value already has a name in this call.
    fn add_name(&mut self, value: Value, name: VariableName) {
        let names = self.0.entry(value.0).or_default();
        if names.iter().all(|known| known.call_sites != name.call_sites) {
            names.push(name);
        }
    }

    /// Names the result of the last op of each assignment.
    fn name_assignments(&mut self, listing: &Listing, frames: &[Vec<Frame>], files: &[SourceFile]) {
        // The row of the last op of each assignment. The key is the IR block, the call sites including the line of the assignment,
        // and the assigned name.
        let mut last_rows: BTreeMap<(u32, CallSites, &str), usize> = BTreeMap::new();
        // Only ops with a result other than a token define a variable, because tokens do not occur in the source.
        let defines_value = |row: usize| listing.rows[row].defines_value;
        // The variable of a line such as `x = load(...)` is the loaded tile, not the view that the line creates. The view op may
        // precede the loop that contains the load, so it is in another block.
        let is_view = |row: usize| listing.rows[row].mnemonic.starts_with("make_");
        let mut lines_with_other_ops: BTreeSet<CallSites> = BTreeSet::new();
        for (_, stack) in frames.iter().enumerate().filter(|(row, _)| defines_value(*row) && !is_view(*row)) {
            lines_with_other_ops.extend((1..=stack.len()).map(|depth| call_sites(&stack[..depth])));
        }
        for (row, stack) in frames.iter().enumerate().filter(|(row, _)| defines_value(*row)) {
            for depth in 1..=stack.len() {
                if is_view(row) && lines_with_other_ops.contains(&call_sites(&stack[..depth])) {
                    continue;
                }
                let frame = &stack[depth - 1];
                if let Some(name) = line_text(frame, files).and_then(|line| assigned_variable(line, frame.column)) {
                    last_rows.insert((listing.rows[row].block.0, call_sites(&stack[..depth]), name), row);
                }
            }
        }
        let used_values: BTreeSet<u32> = listing.rows.iter().flat_map(|row| &row.operands).map(|value| value.0).collect();
        for ((_, mut call_sites, name), row) in last_rows {
            let line = call_sites.pop().map(|(_, line)| line);
            let constant_line = line.filter(|_| listing.rows[row].mnemonic == "constant");
            // If the op has one or two results, the first is the value, and the second is the token of an access. If it has three
            // or more results, as `get_tile_block_id` has, the variable holds the only used result. If several results are used,
            // none gets the name.
            let results = &listing.rows[row].results;
            let mut candidates = results.iter().filter(|value| results.len() < 3 || used_values.contains(&value.0));
            if let (Some(value), true) = (candidates.next(), results.len() < 3 || candidates.next().is_none()) {
                self.add_name(*value, VariableName { call_sites, text: name.to_string(), constant_line });
            }
        }
    }

    /// Names each loop counter after the variable of its `for` line.
    fn name_loop_counters(&mut self, listing: &Listing, frames: &[Vec<Frame>], files: &[SourceFile]) {
        for row in &listing.rows {
            let Some((owner, counter)) = row.owner.zip(row.arguments.first()) else { continue };
            let Some((frame, callers)) = frames[owner].split_last() else { continue };
            let name = line_text(frame, files).and_then(|line| line.trim_start().strip_prefix("for ")?.split_once(" in "));
            if let Some(name) =
                name.map(|(name, _)| name.trim()).filter(|name| listing.rows[owner].mnemonic == "for" && is_identifier(name))
            {
                self.add_name(
                    *counter,
                    VariableName { call_sites: call_sites(callers), text: name.to_string(), constant_line: None },
                );
            }
        }
    }

    /// Names loop-carried arguments and loop results after their initial values.
    fn name_loop_carried(&mut self, listing: &Listing) {
        let mut body_arguments_of: BTreeMap<usize, &[Value]> = BTreeMap::new();
        for row in &listing.rows {
            if let Some(owner) = row.owner {
                body_arguments_of.entry(owner).or_insert(&row.arguments);
            }
        }
        for (owner, arguments) in body_arguments_of {
            let row = &listing.rows[owner];
            let count = row.results.len();
            // The loop-carried values are the last operands; the body of a `for` has a counter before its loop-carried arguments.
            if !["for", "loop"].contains(&row.mnemonic) || count > row.operands.len() || count > arguments.len() {
                continue;
            }
            let initial_values = &row.operands[row.operands.len() - count..];
            let body_arguments = &arguments[arguments.len() - count..];
            for ((init, argument), result) in initial_values.iter().zip(body_arguments).zip(&row.results) {
                for name in self.0.get(&init.0).cloned().unwrap_or_default() {
                    let name = VariableName { constant_line: None, ..name };
                    self.add_name(*argument, name.clone());
                    self.add_name(*result, name);
                }
            }
        }
    }
}

/// Returns the file and line of each frame.
fn call_sites(frames: &[Frame]) -> CallSites {
    frames.iter().map(|frame| (frame.file, frame.line)).collect()
}

/// Returns the source text of a frame's line.
fn line_text<'a>(frame: &Frame, files: &'a [SourceFile]) -> Option<&'a str> {
    let (_, lines) = files[frame.file].path_and_lines.as_ref()?;
    lines.get((frame.line as usize).checked_sub(1)?).map(String::as_str)
}

/// Returns the variable that the assignment at a column of a line sets, in Python or a language with similar syntax.
fn assigned_variable(line: &str, column: u32) -> Option<&str> {
    let (start, statement) = statement(line, column as usize);
    single_target(statement).or_else(|| tuple_target(statement, (column as usize).saturating_sub(start)))
}

/// Returns the statement at a column of a line such as `m = f(); n = g()`, and the byte offset at which it starts.
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
fn tuple_target(line: &str, column: usize) -> Option<&str> {
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
    let is_matched = names.len() == commas.len() + 1 && names.iter().all(|name| is_identifier(name));
    names.get(commas.iter().filter(|at| **at < column).count()).copied().filter(|_| is_matched)
}

/// Returns the target of an assignment such as `x = f()`, `x += y`, `x: Type = f()` or `let x = f()`.
fn single_target(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("let mut ").or_else(|| line.strip_prefix("let ")).unwrap_or(line);
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    // Accept `x: Type = ...`, `x += ...` and `x = ...`, but not `x == ...`.
    let rest = if rest.starts_with(':') {
        rest.split_once('=').map(|(_, rest)| rest)?
    } else {
        let rest = rest.trim_start_matches(['+', '-', '*', '/', '@', '|', '&', '%']);
        rest.strip_prefix('=')?
    };
    (is_identifier(name) && !rest.starts_with('=')).then_some(name)
}

/// Returns whether a text has the form of a variable name.
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assigned_variable_finds_the_target_at_a_column() {
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
            assert_eq!(assigned_variable(line, 0), name, "{line}");
        }
        let tuple_assignment = "    i, j = ct.bid(0, 1), [f(x), 2][0]";
        for (column, name) in [(11, Some("i")), (24, Some("j")), (26, Some("j"))] {
            assert_eq!(assigned_variable(tuple_assignment, column), name, "{column}");
        }
        let statements = "    m = ct.bid(0); n = ct.bid(1); i, j = f('; x = '), g(2)";
        for (column, name) in [(8, "m"), (23, "n"), (41, "i"), (55, "j")] {
            assert_eq!(assigned_variable(statements, column), Some(name), "{column}");
        }
        for line in ["a, b = f()", "f(a, b = 3)", "a[0], b = 1, 2"] {
            assert_eq!(assigned_variable(line, 8), None, "{line}");
        }
    }
}
