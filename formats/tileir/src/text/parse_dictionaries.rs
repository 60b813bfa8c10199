//! Parses the entries of a dictionary in name order, even if the text has another order. Reason: strings and types receive ids in
//! the order of parsing, and the printer sorts dictionaries. The ids are therefore the same if the printed text is parsed again.

use super::lex::Cursor;
use super::parse::Tables;
use crate::types::{Attribute, Dictionary, StringId};
use base::diag::Result;

impl Tables {
    /// Parses optimization hints: the dictionary of dictionaries between `<` and `>`.
    pub(super) fn parse_hints(&mut self, cursor: &mut Cursor<'_>) -> Result<Dictionary> {
        self.parse_nested_hints(cursor, 0)
    }

    pub(super) fn parse_nested_hints(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        self.parse_entries(cursor, ["<", ">"], |tables, cursor| {
            cursor.expect("=")?;
            let value = tables.parse_attribute(cursor, depth)?;
            match value {
                Attribute::Dictionary(_) => Ok(value),
                _ => Err(cursor.error("expected a dictionary for this hint")),
            }
        })
    }

    /// Parses `{name = value, …}`. A name without a value is true.
    pub(super) fn parse_dictionary(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        let value = |tables: &mut Tables, cursor: &mut Cursor<'_>| match cursor.skip_if_next("=") {
            true => tables.parse_attribute(cursor, depth + 1),
            false => Ok(Attribute::Bool(true)),
        };
        self.parse_entries(cursor, ["{", "}"], value)
    }

    /// Parses the entries between two brackets, and returns them in name order. `parse_value` parses an entry after its name.
    fn parse_entries(
        &mut self,
        cursor: &mut Cursor<'_>,
        [open, close]: [&str; 2],
        parse_value: impl Fn(&mut Tables, &mut Cursor<'_>) -> Result<Attribute>,
    ) -> Result<Dictionary> {
        cursor.expect(open)?;
        let mut parse_entry = |cursor: &mut Cursor<'_>| -> Result<(StringId, Attribute)> {
            let key = self.intern_string(&parse_key(cursor)?);
            Ok((key, parse_value(self, cursor)?))
        };
        let mut entries = Vec::new();
        match entries_in_name_order(cursor, close) {
            Some((starts, end)) => {
                for offset in starts {
                    cursor.set_offset(offset);
                    entries.push(parse_entry(cursor)?);
                    if !cursor.continues_with(",") {
                        cursor.expect(close)?;
                    }
                }
                cursor.set_offset(end);
            }
            None => {
                while !cursor.continues_with(close) {
                    entries.push(parse_entry(cursor)?);
                    if !cursor.skip_if_next(",") {
                        break;
                    }
                }
            }
        }
        cursor.expect(close)?;
        entries.sort_by(|(a, _), (b, _)| self.strings[*a].cmp(&self.strings[*b]));
        match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(cursor.error(format!("'{}' is given twice", self.strings[pair[0].0]))),
            None => Ok(entries.into()),
        }
    }
}

/// Parses the name of an entry.
fn parse_key(cursor: &mut Cursor<'_>) -> Result<String> {
    if cursor.peek() == Some('"') { cursor.string() } else { cursor.name("a name").map(str::to_string) }
}

/// Returns the start of each entry in name order, and the end of the dictionary. Returns `None` if the text is malformed or has the
/// entries in name order.
fn entries_in_name_order(cursor: &Cursor<'_>, close: &str) -> Option<(Vec<usize>, usize)> {
    let mut cursor = cursor.clone();
    let mut keys_and_starts: Vec<(String, usize)> = Vec::new();
    while !cursor.continues_with(close) {
        cursor.skip_space();
        let offset = cursor.offset();
        keys_and_starts.push((parse_key(&mut cursor).ok()?, offset));
        skip_entry(&mut cursor, close)?;
        if !cursor.skip_if_next(",") {
            break;
        }
    }
    if !cursor.continues_with(close) || keys_and_starts.is_sorted_by(|one, other| one.0 <= other.0) {
        return None;
    }
    keys_and_starts.sort();
    Some((keys_and_starts.into_iter().map(|(_, offset)| offset).collect(), cursor.offset()))
}

/// Skips to the end of an entry: the next comma or the closing bracket `close`. Returns `None` if the text is malformed.
fn skip_entry(cursor: &mut Cursor<'_>, close: &str) -> Option<()> {
    let mut open_brackets = 0u32;
    while open_brackets > 0 || !(cursor.continues_with(",") || cursor.continues_with(close)) {
        let next = cursor.peek()?;
        match next {
            '"' => {
                cursor.string().ok()?;
                continue;
            }
            '-' if cursor.skip_if_next("->") => continue,
            '(' | '[' | '{' | '<' => open_brackets += 1,
            ')' | ']' | '}' | '>' => open_brackets = open_brackets.checked_sub(1)?,
            _ => {}
        }
        cursor.set_offset(cursor.offset() + next.len_utf8());
    }
    Some(())
}
