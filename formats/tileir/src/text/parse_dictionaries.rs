//! Parses the entries of a dictionary in name order, even if the text has another order. Reason: strings and types receive ids in
//! the order of parsing, and the printer sorts dictionaries. The ids are therefore the same if the printed text is parsed again.

use super::lex::Cursor;
use super::parse::Tables;
use crate::types::{Attribute, Dictionary, StringId};
use base::diag::Result;

impl Tables {
    /// Parses optimization hints: the dictionary of dictionaries between `<` and `>`.
    pub(super) fn parse_hints(&mut self, c: &mut Cursor<'_>) -> Result<Dictionary> {
        self.parse_nested_hints(c, 0)
    }

    pub(super) fn parse_nested_hints(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        self.parse_entries(c, ["<", ">"], |tables, c| {
            c.expect("=")?;
            let value = tables.parse_attribute(c, depth)?;
            match value {
                Attribute::Dictionary(_) => Ok(value),
                _ => Err(c.error("expected a dictionary for this hint")),
            }
        })
    }

    /// Parses `{name = value, …}`. A name without a value is true.
    pub(super) fn parse_dictionary(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        let value = |tables: &mut Tables, c: &mut Cursor<'_>| match c.skip_if_next("=") {
            true => tables.parse_attribute(c, depth + 1),
            false => Ok(Attribute::Bool(true)),
        };
        self.parse_entries(c, ["{", "}"], value)
    }

    /// Parses the entries between two brackets, and returns them in name order. `parse_value` parses an entry after its name.
    fn parse_entries(
        &mut self,
        c: &mut Cursor<'_>,
        [open, close]: [&str; 2],
        parse_value: impl Fn(&mut Tables, &mut Cursor<'_>) -> Result<Attribute>,
    ) -> Result<Dictionary> {
        c.expect(open)?;
        let mut parse_entry = |c: &mut Cursor<'_>| -> Result<(StringId, Attribute)> {
            let key = self.intern_string(&parse_key(c)?);
            Ok((key, parse_value(self, c)?))
        };
        let mut entries = Vec::new();
        match entries_in_name_order(c, close) {
            Some((starts, end)) => {
                for at in starts {
                    c.set_offset(at);
                    entries.push(parse_entry(c)?);
                    if !c.continues_with(",") {
                        c.expect(close)?;
                    }
                }
                c.set_offset(end);
            }
            None => {
                while !c.continues_with(close) {
                    entries.push(parse_entry(c)?);
                    if !c.skip_if_next(",") {
                        break;
                    }
                }
            }
        }
        c.expect(close)?;
        entries.sort_by(|(a, _), (b, _)| self.strings[*a].cmp(&self.strings[*b]));
        match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(c.error(format!("'{}' is given twice", self.strings[pair[0].0]))),
            None => Ok(entries.into()),
        }
    }
}

/// Parses the name of an entry.
fn parse_key(c: &mut Cursor<'_>) -> Result<String> {
    if c.peek() == Some('"') { c.string() } else { c.name("a name").map(str::to_string) }
}

/// Returns the start of each entry in name order, and the end of the dictionary. Returns `None` if the text is malformed or has the
/// entries in name order.
fn entries_in_name_order(c: &Cursor<'_>, close: &str) -> Option<(Vec<usize>, usize)> {
    let mut c = c.clone();
    let mut keys_and_starts: Vec<(String, usize)> = Vec::new();
    while !c.continues_with(close) {
        c.skip_space();
        let at = c.at();
        keys_and_starts.push((parse_key(&mut c).ok()?, at));
        skip_entry(&mut c, close)?;
        if !c.skip_if_next(",") {
            break;
        }
    }
    if !c.continues_with(close) || keys_and_starts.is_sorted_by(|one, other| one.0 <= other.0) {
        return None;
    }
    keys_and_starts.sort();
    Some((keys_and_starts.into_iter().map(|(_, at)| at).collect(), c.at()))
}

/// Skips to the end of an entry: the next comma or the closing bracket `close`. Returns `None` if the text is malformed.
fn skip_entry(c: &mut Cursor<'_>, close: &str) -> Option<()> {
    let mut open_brackets = 0u32;
    while open_brackets > 0 || !(c.continues_with(",") || c.continues_with(close)) {
        let next = c.peek()?;
        match next {
            '"' => {
                c.string().ok()?;
                continue;
            }
            '-' if c.skip_if_next("->") => continue,
            '(' | '[' | '{' | '<' => open_brackets += 1,
            ')' | ']' | '}' | '>' => open_brackets = open_brackets.checked_sub(1)?,
            _ => {}
        }
        c.set_offset(c.at() + next.len_utf8());
    }
    Some(())
}
