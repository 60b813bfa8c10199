//! Splits PTX text into tokens. `.cta_group::1` and `.m16n8k16` are one token each. The text between `.source_begin` and
//! `.source_end` is not PTX and becomes one token.

use base::diag::{Diagnostic, Place, Result};

/// A token of PTX text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// An identifier, including `%r1` and `$L__BB0_1`.
    Word(&'a str),
    /// `.name`, without the dot.
    Dot(&'a str),
    Integer(i64),
    /// The bits of a 32-bit float.
    F32(u32),
    /// The bits of a 64-bit float.
    F64(u64),
    /// The text between the quotes.
    String(&'a str),
    /// The lines between `.source_begin` and `.source_end`.
    Source(&'a str),
    /// A character that is a token of its own, such as `,` or `{`.
    Punctuation(u8),
    /// The end of the text.
    End,
}

/// Reads the tokens of a text one by one.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    /// The byte offset of the next character.
    offset: usize,
    /// The line of the next character.
    line: u32,
    /// The byte offset of the last token's start.
    start: usize,
    /// The line of the last token's start.
    start_line: u32,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Lexer { text, offset: 0, line: 1, start: 0, start_line: 1 }
    }
    /// Returns the line of the last token's start.
    pub(crate) fn token_line(&self) -> u32 {
        self.start_line
    }
    /// Returns the byte offset of the last token's start.
    pub(crate) fn token_start(&self) -> usize {
        self.start
    }

    /// Returns the bytes of the text.
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }
    /// Returns the byte at a distance after the current position, or 0 after the end of the text.
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes().get(self.offset + ahead).copied().unwrap_or(0)
    }
    /// Moves to a byte offset, and returns the skipped text.
    fn advance_to(&mut self, end: usize) -> &'a str {
        let part = &self.text[self.offset..end];
        self.line += part.bytes().filter(|&byte| byte == b'\n').count() as u32;
        self.offset = end;
        part
    }
    /// Skips the bytes that `accept` accepts, and returns the skipped text.
    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let accepted_bytes = self.bytes()[self.offset..].iter().take_while(|&&byte| accept(byte)).count();
        self.advance_to(self.offset + accepted_bytes)
    }

    /// Returns an error whose position is a byte offset in the text.
    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> Box<Diagnostic> {
        let text_before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = text_before.iter().filter(|&&byte| byte == b'\n').count();
        let line_start = text_before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let excerpt: String = self.text[line_start..].lines().next().unwrap_or("").chars().take(200).collect();
        let column = self.text.get(line_start..offset).map_or(offset - line_start, |part| part.chars().count());
        Diagnostic::invalid("PTX001", message).at(Place::Text {
            file: "ptx".into(),
            line: line as u32 + 1,
            column: column as u32 + 1,
            excerpt,
        })
    }

    /// Skips white space and comments.
    fn skip_blanks_and_comments(&mut self) -> Result<()> {
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace());
            if self.text[self.offset..].starts_with("//") {
                self.take_while(|byte| byte != b'\n');
            } else if self.text[self.offset..].starts_with("/*") {
                let length =
                    self.text[self.offset..].find("*/").ok_or_else(|| self.error(self.offset, "a comment is not closed"))?;
                self.advance_to(self.offset + length + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// Reads the next token.
    pub(crate) fn next(&mut self) -> Result<Token<'a>> {
        self.skip_blanks_and_comments()?;
        let start = self.offset;
        (self.start, self.start_line) = (start, self.line);
        Ok(match self.peek(0) {
            0 if self.offset >= self.text.len() => Token::End,
            b'.' if is_word(self.peek(1)) => {
                self.offset += 1;
                match self.lex_dotted_word() {
                    "source_begin" => self.lex_source()?,
                    name => Token::Dot(name),
                }
            }
            b'"' => self.lex_string()?,
            b'0'..=b'9' => self.lex_number()?,
            byte if is_word(byte) => Token::Word(self.take_while(is_word)),
            byte if byte.is_ascii_punctuation() => {
                self.offset += 1;
                Token::Punctuation(byte)
            }
            _ => return Err(self.error(start, "this character is invalid in PTX")),
        })
    }

    /// Reads a name after a dot. The name may contain `::`.
    fn lex_dotted_word(&mut self) -> &'a str {
        let start = self.offset;
        self.take_while(is_word);
        while self.peek(0) == b':' && self.peek(1) == b':' && is_word(self.peek(2)) {
            self.offset += 2;
            self.take_while(is_word);
        }
        &self.text[start..self.offset]
    }

    /// Reads the text after `.source_begin`, including the `.source_end` that ends the text.
    fn lex_source(&mut self) -> Result<Token<'a>> {
        /// The directive that ends the text of an intermediate source section.
        const END: &str = ".source_end";
        let length = self.text[self.offset..].find(END).ok_or_else(|| self.error(self.offset, ".source_end is missing"))?;
        let text = self.advance_to(self.offset + length);
        self.offset += END.len();
        Ok(Token::Source(text))
    }

    /// Reads a quoted string on one line. A backslash has no special meaning.
    fn lex_string(&mut self) -> Result<Token<'a>> {
        self.offset += 1;
        let start = self.offset;
        let length = self.text[start..].find(['"', '\n']).filter(|&length| self.bytes()[start + length] == b'"');
        let length = length.ok_or_else(|| self.error(start, "a string is not closed"))?;
        self.offset += length + 1;
        Ok(Token::String(&self.text[start..start + length]))
    }

    /// Reads an unsigned integer or a float. An integer is decimal, octal, hexadecimal or binary. A float is decimal, or consists
    /// of `0f` or `0d` and the bits in hexadecimal.
    fn lex_number(&mut self) -> Result<Token<'a>> {
        let start = self.offset;
        let word = self.take_while(|byte| byte.is_ascii_alphanumeric());
        let not_a_number = |lexer: &Self| lexer.error(start, format!("'{word}' is not a number"));
        let parse_float_bits =
            |digits: &str, length| (digits.len() == length).then(|| u64::from_str_radix(digits, 16).ok()).flatten();
        if let Some(digits) = word.strip_prefix("0f").or(word.strip_prefix("0F")) {
            return Ok(Token::F32(parse_float_bits(digits, 8).ok_or_else(|| not_a_number(self))? as u32));
        }
        if let Some(digits) = word.strip_prefix("0d").or(word.strip_prefix("0D")) {
            return Ok(Token::F64(parse_float_bits(digits, 16).ok_or_else(|| not_a_number(self))?));
        }
        if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
            self.offset += 1;
            self.take_while(|byte| byte.is_ascii_alphanumeric());
            if matches!(self.bytes()[self.offset - 1], b'e' | b'E') && matches!(self.peek(0), b'+' | b'-') {
                self.offset += 1;
                self.take_while(|byte| byte.is_ascii_digit());
            }
            let value: f64 = self.text[start..self.offset].parse().map_err(|_| not_a_number(self))?;
            return Ok(Token::F64(value.to_bits()));
        }
        let digits = word.strip_suffix('U').unwrap_or(word);
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        u64::from_str_radix(digits, radix).map(|value| Token::Integer(value as i64)).map_err(|_| not_a_number(self))
    }
}

/// Returns whether the byte can be part of an identifier.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}
