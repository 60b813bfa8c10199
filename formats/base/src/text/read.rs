//! The reader of the text form: a cursor over the text, and a serde deserializer on it.

mod structured_values;

use super::write::Error;
use crate::diag::{Diagnostic, Place};
use crate::nearest::nearest;
use crate::program_text::Source;
use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};
use std::collections::BTreeMap;
use structured_values::{FieldState, Fields, Items, Variant};

/// The serde names of the enum variants whose name the text omits. `core` is the variant of an included op enum. `scalar` is an
/// element type that is not a pointer.
pub(super) const TRANSPARENT: [&str; 2] = ["core", "scalar"];

/// Maximum nesting depth of brackets. Reason: the reader is recursive, and a small malicious file must not exhaust the stack.
const MAX_DEPTH: u32 = 64;
/// Maximum bytes of a type after the references to the type table are replaced.
const MAX_TYPE_LENGTH: usize = 4096;

/// A cursor over a text, with the tables of the current function: values and types.
pub struct Reader<'t> {
    text: &'t str,
    /// The byte position of the cursor.
    offset: usize,
    source: Source<'t>,
    /// The number of open brackets and nested values.
    depth: u32,
    /// The position up to which line breaks are counted, and its line number. The next count continues there.
    counted_to: (usize, u32),
    /// The id of each value, by its name without `%`.
    values: BTreeMap<&'t str, u32>,
    /// The rows of the function's type table. Row numbers in a row are replaced by the text of the row.
    types: Vec<String>,
    /// The number of regions of the function so far, which is the id of the next region. The braces after an op contain its
    /// regions.
    pub(super) regions: u32,
    /// The variant names of the enclosing enums whose current variant is in [`TRANSPARENT`]. The text omits the name of this
    /// variant. At the cursor, the other names of an enclosing enum are also valid, so an error message lists these names.
    outer_variants: Vec<&'static str>,
}

impl<'t> Reader<'t> {
    pub fn new(source: Source<'t>) -> Self {
        let counted_to = (0, source.first_line);
        let (values, types) = (BTreeMap::new(), Vec::new());
        Reader { text: source.text, offset: 0, source, depth: 0, counted_to, values, types, regions: 0, outer_variants: Vec::new() }
    }

    /// Returns the line number of the cursor, or `None` if the source does not use lines as locations.
    pub(super) fn line_as_location(&mut self) -> Option<u32> {
        if !self.source.by_line {
            return None;
        }
        self.skip_blanks();
        let (from, line) = if self.counted_to.0 <= self.offset { self.counted_to } else { (0, self.source.first_line) };
        self.counted_to = (self.offset, line + self.text[from..self.offset].matches('\n').count() as u32);
        Some(self.counted_to.1)
    }

    /// Moves the cursor past white space and `//` comments.
    pub fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.offset..];
            let blank = rest.len() - rest.trim_start().len();
            self.offset += blank;
            if !self.text[self.offset..].starts_with("//") {
                return;
            }
            let rest = &self.text[self.offset..];
            self.offset += rest.find('\n').unwrap_or(rest.len());
        }
    }
    /// Returns the text from the next token to the end.
    pub fn rest(&mut self) -> &'t str {
        self.skip_blanks();
        &self.text[self.offset..]
    }
    /// Returns whether only white space and comments follow.
    pub fn at_end(&mut self) -> bool {
        self.rest().is_empty()
    }
    /// Returns whether the next token starts with `token`.
    pub fn peek(&mut self, token: &str) -> bool {
        self.rest().starts_with(token)
    }
    /// Moves the cursor past `token` if the text continues with `token`. Returns whether the cursor moved.
    pub fn accept(&mut self, token: &str) -> bool {
        let found = self.peek(token);
        if found {
            self.offset += token.len();
        }
        found
    }
    /// Moves the cursor past `token`, or returns an error if the text continues with another token.
    pub fn expect(&mut self, token: &str) -> Result<(), Box<Diagnostic>> {
        if self.accept(token) { Ok(()) } else { Err(self.error(format!("expected '{token}'"))) }
    }
    /// Reads a word of letters, digits, `_`, `.` and `$`. The word is empty if the next character is a different one.
    pub fn read_word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '$'))).unwrap_or(rest.len());
        self.offset += end;
        &rest[..end]
    }
    /// Reads up to the end of the line, or to the first of `stops` outside brackets. Returns the text without surrounding spaces.
    pub fn read_until(&mut self, stops: &[char]) -> &'t str {
        let rest = self.rest();
        let mut depth = 0;
        let mut end = rest.len();
        for (i, c) in rest.char_indices() {
            match c {
                '\n' => end = i,
                c if depth == 0 && stops.contains(&c) => end = i,
                '<' | '(' | '[' => depth += 1,
                '>' | ')' | ']' => depth -= 1,
                _ => {}
            }
            if end != rest.len() {
                break;
            }
        }
        self.offset += end;
        rest[..end].trim()
    }
    /// Returns an error at the cursor.
    pub fn error(&mut self, message: impl Into<String>) -> Box<Diagnostic> {
        self.skip_blanks();
        let before = &self.text[..self.offset];
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let excerpt = self.text[start..].lines().next().unwrap_or_default().to_string();
        let column = self.text[start..self.offset].chars().count() as u32 + 1;
        let line = self.source.first_line + before.matches('\n').count() as u32;
        Diagnostic::invalid("TXT001", message).at(Place::Text { file: self.source.name.into(), line, column, excerpt })
    }

    /// Reads a value of any type that serde deserializes.
    pub fn value<T: DeserializeOwned>(&mut self) -> Result<T, Box<Diagnostic>> {
        T::deserialize(&mut *self).map_err(|Error(message)| self.error(message))
    }

    /// Reads `%name`, and records that the name refers to the value with id `number`.
    pub fn define(&mut self, number: u32) -> Result<(), Box<Diagnostic>> {
        self.expect("%")?;
        let name = self.read_word();
        if name.is_empty() {
            return Err(self.error("expected the name of a value"));
        }
        match self.values.insert(name, number) {
            None => Ok(()),
            Some(_) => Err(self.error(format!("%{name} is defined twice"))),
        }
    }
    /// Returns the position of the next token, for [`Self::define_at`] and [`Self::at_position`].
    pub(super) fn position(&mut self) -> usize {
        self.skip_blanks();
        self.offset
    }
    /// Does the same as [`Self::define`] for a name at an earlier position. The parser defines the names of results after it reads
    /// the operands, so an op cannot use its own results.
    pub(super) fn define_at(&mut self, position: usize, number: u32) -> Result<(), Box<Diagnostic>> {
        let saved = std::mem::replace(&mut self.offset, position);
        self.define(number)?;
        self.offset = saved;
        Ok(())
    }
    /// Clears the tables of the previous function.
    pub(super) fn new_function(&mut self) {
        self.values.clear();
        self.types.clear();
        self.regions = 0;
    }
    /// Calls `read` with the cursor at an earlier position, then restores the cursor.
    pub(super) fn at_position<T>(&mut self, position: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let saved = std::mem::replace(&mut self.offset, position);
        let value = read(self);
        self.offset = saved;
        value
    }
    /// Reads a row of the type table. The cursor is after `type !`.
    pub(super) fn define_type(&mut self) -> Result<(), Box<Diagnostic>> {
        let row: usize = self.value()?;
        if row != self.types.len() {
            return Err(self.error(format!("the types are numbered in order, and the next is !{}", self.types.len())));
        }
        self.expect("=")?;
        let text = self.read_until(&[]);
        // A comment may follow the type.
        let text = text.split("//").next().unwrap_or(text).trim();
        let expanded = self.expand_type(text)?;
        self.types.push(expanded);
        Ok(())
    }
    /// Returns the text of a type, with each `!N` replaced by row N of the type table.
    pub(super) fn expand_type(&mut self, text: &str) -> Result<String, Box<Diagnostic>> {
        let mut pieces = text.split('!');
        let mut out = pieces.next().unwrap_or_default().to_string();
        for piece in pieces {
            let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
            let row = piece[..digits].parse::<usize>().ok().and_then(|row| self.types.get(row));
            let Some(row) = row else {
                return Err(self.error(format!("'{text}' names a type that is not in the function's table")));
            };
            out.push_str(row);
            out.push_str(&piece[digits..]);
            // Each row may contain the previous row twice, so the length could double with each row.
            if out.len() > MAX_TYPE_LENGTH {
                return Err(self.error("the type is too long"));
            }
        }
        Ok(out)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error(message.into()))
    }
    fn expect_token(&mut self, token: &str) -> Result<(), Error> {
        if self.accept(token) { Ok(()) } else { self.fail(format!("expected '{token}'")) }
    }
    /// Reads the digits of an integer, with an optional minus.
    fn integer_text(&mut self) -> Result<&'t str, Error> {
        let rest = self.rest();
        let end = rest.char_indices().find(|(i, c)| !(c.is_ascii_digit() || (*i == 0 && *c == '-'))).map_or(rest.len(), |(i, _)| i);
        if end == 0 {
            return self.fail("expected a number");
        }
        self.offset += end;
        Ok(&rest[..end])
    }
    fn parse_number<T: std::str::FromStr>(&mut self) -> Result<T, Error> {
        let number = self.integer_text()?;
        number.parse().map_err(|_| Error(format!("'{number}' is out of range here")))
    }
    /// Reads a string in quotes, with its escapes.
    fn quoted_string(&mut self) -> Result<String, Error> {
        self.expect_token("\"")?;
        let mut out = String::new();
        let mut chars = self.text[self.offset..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.offset += i + 1;
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('u') => {
                        let code: String =
                            chars.by_ref().map(|(_, c)| c).skip_while(|c| *c == '{').take_while(|c| *c != '}').collect();
                        let c = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                        out.push(c.ok_or_else(|| Error(format!("'{code}' is not a character code")))?);
                    }
                    Some(c) => out.push(c),
                    None => break,
                },
                c => out.push(c),
            }
        }
        self.fail("the string is not closed")
    }
    /// Reads a nested value, up to `MAX_DEPTH` levels.
    fn read_nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return self.fail("brackets are nested too deeply");
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }
    /// Reads a list between two brackets.
    fn read_bracketed<T>(
        &mut self,
        open: &str,
        close: &'static str,
        read: impl FnOnce(&mut Items<'_, 't>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.expect_token(open)?;
        self.read_nested(|reader| {
            let value = read(&mut Items { reader, close, first: true })?;
            reader.expect_token(close)?;
            Ok(value)
        })
    }
    /// Reads the fields of a struct or struct variant in parentheses.
    fn read_fields<T>(
        &mut self,
        fields: &'static [&'static str],
        read: impl FnOnce(&mut Fields<'_, 't>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // `name` abbreviates `name()`.
        let open = self.accept("(");
        self.read_nested(|reader| {
            let value = read(&mut Fields { reader, fields, open, state: FieldState::First, seen: Vec::new(), missing: None })?;
            if open {
                reader.expect_token(")")?;
            }
            Ok(value)
        })
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parse_number()?)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Reader<'_> {
    type Error = Error;

    numbers! {
        deserialize_i8 visit_i8  deserialize_i16 visit_i16  deserialize_i32 visit_i32  deserialize_i64 visit_i64
        deserialize_u8 visit_u8  deserialize_u16 visit_u16  deserialize_u32 visit_u32  deserialize_u64 visit_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.fail("the text form is not self-describing")
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.read_word() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => self.fail("expected 'true' or 'false'"),
        }
    }
    fn deserialize_f32<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.fail("floats are stored as bits")
    }
    fn deserialize_f64<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.fail("floats are stored as bits")
    }
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.quoted_string()?;
        visitor.visit_string(text)
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.quoted_string()?;
        visitor.visit_string(text)
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_byte_buf(visitor)
    }
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.expect_token("0x")?;
        let rest = &self.text[self.offset..];
        let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        if !end.is_multiple_of(2) {
            return self.fail("a byte has two hexadecimal digits");
        }
        self.offset += end;
        let byte = |i: usize| u8::from_str_radix(&rest[i..i + 2], 16).expect("two hexadecimal digits");
        visitor.visit_byte_buf((0..end).step_by(2).map(byte).collect())
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let rest = self.rest();
        let is_none = rest.starts_with('_') && !rest[1..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if is_none {
            self.offset += 1;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.expect_token("()")?;
        visitor.visit_unit()
    }
    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.expect_token(name)?;
        visitor.visit_unit()
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match name {
            "Value" => {
                self.expect_token("%")?;
                let name = self.read_word();
                match self.values.get(name) {
                    Some(number) => visitor.visit_newtype_struct(IntoDeserializer::<Error>::into_deserializer(*number)),
                    None => self.fail(format!("%{name} is not defined")),
                }
            }
            "Region" => {
                self.expect_token("{}")?;
                let number = self.regions;
                self.regions += 1;
                visitor.visit_newtype_struct(IntoDeserializer::<Error>::into_deserializer(number))
            }
            "Block" => {
                self.expect_token("^")?;
                visitor.visit_newtype_struct(self)
            }
            "Loc" => {
                self.expect_token("@")?;
                visitor.visit_newtype_struct(self)
            }
            _ => self.read_nested(|reader| visitor.visit_newtype_struct(reader)),
        }
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.read_bracketed("[", "]", |items| visitor.visit_seq(items))
    }
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.read_bracketed("<", ">", |items| visitor.visit_seq(items))
    }
    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.read_bracketed("<", ">", |items| visitor.visit_seq(items))
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.read_bracketed("{", "}", |items| visitor.visit_map(items))
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if !self.peek("(") {
            return self.fail("expected '('");
        }
        self.read_fields(fields, |fields| visitor.visit_map(fields))
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let start = self.offset;
        let word = self.read_word();
        let mut accepted = std::mem::take(&mut self.outer_variants);
        if let Some(variant) = variants.iter().find(|variant| **variant == word) {
            return self.read_nested(|reader| visitor.visit_enum(Variant { reader, name: variant }));
        }
        self.offset = start;
        accepted.extend(variants.iter().filter(|variant| !TRANSPARENT.contains(variant)));
        if let Some(transparent) = variants.iter().find(|variant| TRANSPARENT.contains(variant)) {
            self.outer_variants = accepted;
            return self.read_nested(|reader| visitor.visit_enum(Variant { reader, name: transparent }));
        }
        self.fail(match nearest(word, accepted.iter().copied()) {
            Some(nearest) => format!("'{word}' is unknown here; did you mean '{nearest}'?"),
            None => format!("'{word}' is not one of {}", accepted.join(", ")),
        })
    }
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.read_word())
    }
    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.fail("unknown field")
    }
}
