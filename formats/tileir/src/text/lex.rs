//! The lexer of the text form: a cursor that reads names, numbers, strings and punctuation.

use base::diag::{Diagnostic, Place, Result};

/// A text, and the offset in bytes of the next character to read. `first_line` is the number of the text's first line in its file,
/// for messages.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    offset: usize,
    file_name: &'a str,
    first_line: u32,
}

/// Returns whether a character belongs to words.
pub(super) fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, file_name: &'a str, first_line: u32) -> Self {
        Cursor { text, offset: 0, file_name, first_line }
    }
    /// The byte offset of the cursor.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }
    /// Moves the cursor to a byte offset.
    pub(super) fn set_offset(&mut self, offset: usize) {
        self.offset = offset;
    }

    /// An error at the next token.
    pub(super) fn error(&mut self, message: impl Into<String>) -> Box<Diagnostic> {
        self.skip_space();
        self.error_at(self.offset, message)
    }
    /// An error at a byte offset.
    pub(super) fn error_at(&self, offset: usize, message: impl Into<String>) -> Box<Diagnostic> {
        let text_before = &self.text[..offset];
        let start = text_before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.first_line + text_before.matches('\n').count() as u32;
        let column = self.text[start..offset].chars().count() as u32 + 1;
        // A line may be very long, so the excerpt shows only the part around the position.
        let excerpt: String = self.text[start..].lines().next().unwrap_or_default().chars().take(column as usize + 80).collect();
        let place = Place::Text { file: self.file_name.into(), line, column, excerpt };
        Diagnostic::invalid("TI006", message).at(place)
    }

    /// The text after the cursor.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    /// Skips spaces and comments.
    pub(super) fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.offset += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.offset += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// The next character after spaces and comments; `None` at the end.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }
    pub(super) fn is_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Whether the text continues with `token`. If `token` ends in a letter or digit, the word in the text must end there too.
    pub(super) fn continues_with(&mut self, token: &str) -> bool {
        self.skip_space();
        let Some(after) = self.rest().strip_prefix(token) else { return false };
        !(token.ends_with(is_word_char) && after.starts_with(is_word_char))
    }
    /// Skips `token` if the text continues with `token`. Returns whether `token` was skipped.
    pub(super) fn skip_if_next(&mut self, token: &str) -> bool {
        let seen = self.continues_with(token);
        if seen {
            self.offset += token.len();
        }
        seen
    }
    /// Skips `token`, or returns an error if the text continues with another token.
    pub(super) fn expect(&mut self, token: &str) -> Result<()> {
        if self.skip_if_next(token) { Ok(()) } else { Err(self.error(format!("expected '{token}'"))) }
    }

    /// The word at the cursor; empty if there is none.
    pub(super) fn peek_word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        &rest[..rest.find(|c| !is_word_char(c)).unwrap_or(rest.len())]
    }
    /// Skips a word and returns it. `what` names the expected word in messages.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str> {
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.error(format!("expected {what}")));
        }
        self.offset += word.len();
        Ok(word)
    }

    /// Skips a name and returns it. A name may include its dialect, as in `cuda_tile.name`. `what` names the expected name in
    /// messages.
    pub(super) fn name(&mut self, what: &str) -> Result<&'a str> {
        self.skip_space();
        let rest = self.rest();
        let length = rest.find(|c: char| !(is_word_char(c) || "$.".contains(c))).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error(format!("expected {what}")));
        }
        self.offset += length;
        Ok(&rest[..length])
    }

    /// Reads the name after a sigil such as `%` or `@`. A name has letters, digits and `_$.-`.
    pub(super) fn identifier(&mut self, sigil: char, what: &str) -> Result<&'a str> {
        self.skip_space();
        let after = self.rest().strip_prefix(sigil).ok_or_else(|| self.clone().error(format!("expected {what}")))?;
        let length = after.find(|c: char| !(is_word_char(c) || "$.-".contains(c))).unwrap_or(after.len());
        if length == 0 {
            return Err(self.error(format!("expected {what}")));
        }
        self.offset += sigil.len_utf8() + length;
        Ok(&after[..length])
    }

    /// Skips an integer and returns it. `what` names the expected number in messages.
    pub(super) fn integer(&mut self, what: &str) -> Result<i64> {
        self.skip_space();
        let rest = self.rest();
        let sign_length = usize::from(rest.starts_with('-'));
        let length = sign_length + rest[sign_length..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - sign_length);
        let number = rest[..length].parse::<i128>().ok();
        // An attribute has 64 bits, so all signed and all unsigned 64-bit numbers are valid.
        let number = number.filter(|number| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(number));
        let number = number.ok_or_else(|| self.clone().error(format!("expected {what}")))?;
        self.offset += length;
        Ok(number as i64)
    }

    /// Skips a number and returns its text: digits, signs, a point, an exponent, or hexadecimal bits.
    pub(super) fn number_text(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let mut previous = ' ';
        let is_hexadecimal = rest.starts_with("0x");
        let end = rest.find(|c: char| {
            let is_sign = (c == '-' || c == '+') && (previous == ' ' || (!is_hexadecimal && "eE".contains(previous)));
            previous = c;
            !(is_sign || c.is_ascii_alphanumeric() || c == '.')
        });
        let number = &rest[..end.unwrap_or(rest.len())];
        self.offset += number.len();
        number
    }

    /// Parses a string in quotes, with the escapes `\\`, `\"`, `\n`, `\t` and `\XX` (hexadecimal).
    pub(super) fn string(&mut self) -> Result<String> {
        self.skip_space();
        let start = self.offset;
        let Some(inner) = self.rest().strip_prefix('"') else { return Err(self.error("expected a string")) };
        let mut out = Vec::new();
        let bytes = inner.as_bytes();
        let mut i = 0;
        loop {
            match bytes.get(i) {
                None | Some(b'\n') => return Err(self.error_at(start, "the string does not end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    let escaped = unescape(&bytes[i + 1..]);
                    let (byte, length) = escaped.ok_or_else(|| self.error_at(start + 1 + i, "unknown escape in a string"))?;
                    out.push(byte);
                    i += 1 + length;
                }
                Some(byte) => {
                    out.push(*byte);
                    i += 1;
                }
            }
        }
        self.offset = start + i + 2;
        String::from_utf8(out).map_err(|_| self.error_at(start, "the string is not UTF-8 text"))
    }
}

/// The byte for which an escape stands, and the length of the escape without the backslash. `None` for an unknown escape.
fn unescape(bytes: &[u8]) -> Option<(u8, usize)> {
    match bytes.first()? {
        b'\\' => Some((b'\\', 1)),
        b'"' => Some((b'"', 1)),
        b'n' => Some((b'\n', 1)),
        b't' => Some((b'\t', 1)),
        _ => {
            let digits = std::str::from_utf8(bytes.get(..2)?).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, 2))
        }
    }
}

/// The tokens of the literal part of a text form.
pub(super) fn tokens(literal: &str) -> impl Iterator<Item = &str> {
    let mut rest = literal.trim_start();
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = match first {
            _ if is_word_char(first) => rest.find(|c| !is_word_char(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("->") => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after.trim_start();
        Some(token)
    })
}
