//! Parses PTX text into the syntax tree.

mod statements;

use crate::ast::*;
use crate::lexer::{Lexer, Token};
use crate::types::{Space, Type};
use base::diag::Result;

/// Maximum nesting depth of blocks and of operands. Each level is a recursive call of the parser.
const MAX_DEPTH: u32 = 100;
/// Maximum number of registers in a declaration such as `%r<9>`.
const MAX_REGISTERS: i64 = 1 << 20;

/// Parses the text of a module.
pub fn parse(text: &str) -> Result<Module> {
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, depth: 0 };
    parser.bump()?;
    let mut module = parser.parse_header()?;
    module.envelope = leading_comments(text).lines().filter(|line| line.starts_with("//!tile")).map(str::to_owned).collect();
    while parser.token != Token::End {
        parser.parse_item(&mut module.items)?;
    }
    Ok(module)
}

/// Returns the line comments at the start of a file. These comments include this project's envelope. Later `//!tile` lines are not
/// part of the envelope. Reason: a file may embed the source text of its kernels, and this text may contain such lines.
pub fn leading_comments(text: &str) -> &str {
    let comments = text.split_inclusive('\n').take_while(|line| line.starts_with("//") || line.trim().is_empty());
    &text[..comments.map(str::len).sum()]
}

/// The state of a recursive-descent parser.
struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The current token, which the lexer has read and the parser has not used.
    token: Token<'a>,
    /// The nesting depth of the current block or operand.
    depth: u32,
}

impl<'a> Parser<'a> {
    /// Advances to the next token, and returns the token that was current before.
    fn bump(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }
    /// Returns the line of the current token.
    fn line(&self) -> Line {
        Line(self.lexer.token_line())
    }
    /// Returns an error at the current token.
    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(self.lexer.error(self.lexer.token_start(), message))
    }
    /// Returns the error that the parser expected `what`, but found the current token.
    fn error_expected<T>(&self, what: &str) -> Result<T> {
        let token_text = match self.token {
            Token::Word(word) => format!("'{word}'"),
            Token::Dot(word) => format!("'.{word}'"),
            Token::Punctuation(byte) => format!("'{}'", char::from(byte)),
            Token::End => "the end of the file".into(),
            Token::String(_) => "a string".into(),
            Token::Source(_) => "source text".into(),
            Token::Integer(_) | Token::F32(_) | Token::F64(_) => "a number".into(),
        };
        self.error(format!("expected {what}, found {token_text}"))
    }

    /// Returns whether the current token is this punctuation character.
    fn is_punctuation(&self, byte: u8) -> bool {
        self.token == Token::Punctuation(byte)
    }
    /// Skips the current token if it is this punctuation character. Returns whether the token was skipped.
    fn accept(&mut self, byte: u8) -> Result<bool> {
        let is_next = self.is_punctuation(byte);
        if is_next {
            self.bump()?;
        }
        Ok(is_next)
    }
    /// Skips this punctuation character, or returns an error if the current token is different.
    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.accept(byte)? { Ok(()) } else { self.error_expected(&format!("'{}'", char::from(byte))) }
    }
    /// Skips the current token if it is `.name`. Returns whether the token was skipped.
    fn accept_dotted_name(&mut self, name: &str) -> Result<bool> {
        let is_next = self.token == Token::Dot(name);
        if is_next {
            self.bump()?;
        }
        Ok(is_next)
    }
    /// Parses an identifier. `what` is the expected thing in the error message.
    fn parse_word(&mut self, what: &str) -> Result<&'a str> {
        let Token::Word(word) = self.token else { return self.error_expected(what) };
        self.bump()?;
        Ok(word)
    }
    /// Parses an identifier into an owned string.
    fn parse_name(&mut self, what: &str) -> Result<String> {
        self.parse_word(what).map(str::to_owned)
    }
    /// Parses any `.name`, and returns it without the dot.
    fn parse_dotted_name(&mut self, what: &str) -> Result<&'a str> {
        let Token::Dot(name) = self.token else { return self.error_expected(what) };
        self.bump()?;
        Ok(name)
    }
    /// Parses a quoted string.
    fn parse_string(&mut self) -> Result<String> {
        let Token::String(text) = self.token else { return self.error_expected("a string") };
        self.bump()?;
        Ok(text.to_owned())
    }
    /// Parses an integer with an optional minus.
    fn parse_integer(&mut self) -> Result<i64> {
        let is_negative = self.accept(b'-')?;
        let Token::Integer(value) = self.token else { return self.error_expected("an integer") };
        self.bump()?;
        Ok(if is_negative { value.wrapping_neg() } else { value })
    }
    /// Parses an integer that is not negative.
    fn parse_count(&mut self) -> Result<u64> {
        match self.parse_integer()? {
            value if value >= 0 => Ok(value as u64),
            _ => self.error("expected a non-negative number"),
        }
    }
    /// Parses an integer from 0 to `limit`. `what` is its name in the error message.
    fn parse_bounded_integer(&mut self, limit: i64, what: &str) -> Result<u32> {
        match self.parse_integer()? {
            value if (0..=limit).contains(&value) => Ok(value as u32),
            value => self.error(format!("{what} cannot be {value}")),
        }
    }
    /// Parses one or more parts, separated by commas.
    fn comma_separated<T>(&mut self, mut part: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut parts = vec![part(self)?];
        while self.accept(b',')? {
            parts.push(part(self)?);
        }
        Ok(parts)
    }

    /// Parses `.version`, `.target` and `.address_size`, and returns a module without items.
    fn parse_header(&mut self) -> Result<Module> {
        let expect_directive = |parser: &mut Self, name: &str| match parser.accept_dotted_name(name)? {
            true => Ok(()),
            false => parser.error_expected(&format!("'.{name}'")),
        };
        expect_directive(self, "version")?;
        let version = self.parse_version()?;
        expect_directive(self, "target")?;
        let target = self.comma_separated(|parser| parser.parse_name("a target"))?;
        expect_directive(self, "address_size")?;
        let address_size = self.parse_bounded_integer(64, "the address size")?;
        Ok(Module { envelope: Vec::new(), version, target, address_size, items: Vec::new() })
    }
    /// Parses the two numbers of `.version`. The lexer returns `9.4` as a float, and its shortest decimal form has the digits of
    /// the version.
    fn parse_version(&mut self) -> Result<(u32, u32)> {
        let Token::F64(bits) = self.token else { return self.error_expected("a version") };
        let text = f64::from_bits(bits).to_string();
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let (Some(Some(major)), minor) = (parts.next(), parts.next().unwrap_or(Some(0))) else {
            return self.error_expected("a version");
        };
        self.bump()?;
        Ok((major, minor.unwrap_or(0)))
    }

    /// Parses a declaration at the top level. One declaration can have several variables, and each becomes an item.
    fn parse_item(&mut self, items: &mut Vec<Item>) -> Result<()> {
        let line = self.line();
        let Token::Dot(keyword) = self.token else { return self.error_expected("a directive") };
        match keyword {
            "file" => items.push(self.parse_file()?),
            "section" => items.push(self.parse_section()?),
            "nv_intermediate_source_section" => items.push(self.parse_intermediate_source()?),
            "pragma" => {
                self.bump()?;
                items.push(Item::Pragma(self.comma_separated(Self::parse_string)?));
                self.expect(b';')?;
            }
            "alias" => {
                self.bump()?;
                let name = self.parse_name("a function")?;
                self.expect(b',')?;
                let target = self.parse_name("a function")?;
                self.expect(b';')?;
                items.push(Item::Alias { name, target });
            }
            _ => {
                let linkage = self.parse_linkage()?;
                match self.token {
                    Token::Dot("entry" | "func") => items.push(Item::Function(self.parse_function(line, linkage)?)),
                    _ => {
                        let variables = self.parse_variables(line, linkage)?;
                        items.extend(variables.into_iter().map(Item::Variable));
                    }
                }
            }
        }
        Ok(())
    }
    /// Parses the linkage directive. Returns [`Linkage::None`] if the current token is not a linkage directive.
    fn parse_linkage(&mut self) -> Result<Linkage> {
        let linkage = match self.token {
            Token::Dot("visible") => Linkage::Visible,
            Token::Dot("extern") => Linkage::Extern,
            Token::Dot("weak") => Linkage::Weak,
            Token::Dot("common") => Linkage::Common,
            _ => return Ok(Linkage::None),
        };
        self.bump()?;
        Ok(linkage)
    }
    /// Parses a `.file`.
    fn parse_file(&mut self) -> Result<Item> {
        self.bump()?;
        let index = self.parse_count()?;
        let name = self.parse_string()?;
        let mut numbers = Vec::new();
        while self.accept(b',')? {
            numbers.push(self.parse_integer()?);
        }
        Ok(Item::File { index, name, numbers })
    }
    /// Parses a `.section`.
    fn parse_section(&mut self) -> Result<Item> {
        self.bump()?;
        let name = match self.token {
            Token::Dot(name) => format!(".{name}"),
            Token::Word(name) => name.to_owned(),
            _ => return self.error_expected("a section name"),
        };
        self.bump()?;
        self.expect(b'{')?;
        let mut lines = Vec::new();
        while !self.accept(b'}')? {
            lines.push(match self.token {
                Token::Word(label) => {
                    self.bump()?;
                    self.expect(b':')?;
                    SectionLine::Label(label.to_owned())
                }
                _ => SectionLine::Data { ty: self.parse_data_type()?, values: self.comma_separated(Self::parse_value)? },
            });
        }
        Ok(Item::Section { name, lines })
    }
    /// Parses an `.nv_intermediate_source_section`.
    fn parse_intermediate_source(&mut self) -> Result<Item> {
        self.bump()?;
        self.expect(b'{')?;
        self.expect_field("code_block", false)?;
        self.expect(b'{')?;
        self.expect_field("ir_name", true)?;
        let ir_name = self.parse_string()?;
        self.expect_field("sourceFileName", true)?;
        let file = self.parse_count()?;
        let Token::Source(text) = self.token else { return self.error_expected("'.source_begin'") };
        self.bump()?;
        self.expect(b'}')?;
        self.expect(b'}')?;
        Ok(Item::IntermediateSource { ir_name, file, text: text.to_owned() })
    }
    /// Skips `.name`, and the colon after it if `colon` is set.
    fn expect_field(&mut self, name: &str, colon: bool) -> Result<()> {
        if !self.accept_dotted_name(name)? {
            return self.error_expected(&format!("'.{name}'"));
        }
        if colon { self.expect(b':') } else { Ok(()) }
    }

    /// Parses a type such as `.b32`.
    fn parse_data_type(&mut self) -> Result<Type> {
        let Token::Dot(name) = self.token else { return self.error_expected("a type") };
        let Some(ty) = Type::parse(name) else { return self.error(format!("'.{name}' is not a type")) };
        self.bump()?;
        Ok(ty)
    }
    /// Parses `.align N` and returns N, or returns `None` if the current token is not `.align`.
    fn parse_align(&mut self) -> Result<Option<u32>> {
        if !self.accept_dotted_name("align")? {
            return Ok(None);
        }
        let align = self.parse_bounded_integer(1 << 30, "an alignment")?;
        if align.is_power_of_two() { Ok(Some(align)) } else { self.error("an alignment must be a power of two") }
    }

    /// Parses a declaration of one or more variables, including the `;`.
    fn parse_variables(&mut self, line: Line, linkage: Linkage) -> Result<Vec<Variable>> {
        let first = self.parse_variable(line, linkage)?;
        let mut all = vec![first];
        while self.accept(b',')? {
            let mut next = Variable { name: String::new(), dims: Vec::new(), init: Vec::new(), braced: false, ..all[0].clone() };
            self.parse_declarator(&mut next)?;
            all.push(next);
        }
        self.expect(b';')?;
        Ok(all)
    }
    /// Parses the declaration of one variable or parameter, without the separator after it.
    fn parse_variable(&mut self, line: Line, linkage: Linkage) -> Result<Variable> {
        let hidden = self.accept_dotted_name("hidden")?;
        let Token::Dot(name) = self.token else { return self.error_expected("a state space") };
        let Some(space) = Space::parse(name) else { return self.error(format!("'.{name}' is not a state space")) };
        self.bump()?;
        let mut align = self.parse_align()?;
        let vector = match self.token {
            Token::Dot("v2") => Some(2),
            Token::Dot("v4") => Some(4),
            Token::Dot("v8") => Some(8),
            _ => None,
        };
        if vector.is_some() {
            self.bump()?;
        }
        let ty = self.parse_data_type()?;
        let pointer = if self.accept_dotted_name("ptr")? {
            let space = match self.token {
                Token::Dot(name) => Space::parse(name),
                _ => None,
            };
            if space.is_some() {
                self.bump()?;
            }
            Some(Pointer { space, align: self.parse_align()? })
        } else {
            None
        };
        if align.is_none() {
            align = self.parse_align()?;
        }
        let (name, dims, init) = (String::new(), Vec::new(), Vec::new());
        let mut variable = Variable { line, linkage, hidden, space, align, vector, ty, pointer, name, dims, init, braced: false };
        self.parse_declarator(&mut variable)?;
        Ok(variable)
    }
    /// Parses the name, extents and initialiser of a variable.
    fn parse_declarator(&mut self, variable: &mut Variable) -> Result<()> {
        variable.name = self.parse_name("a name")?;
        while self.accept(b'[')? {
            variable.dims.push(if self.is_punctuation(b']') { None } else { Some(self.parse_count()?) });
            self.expect(b']')?;
        }
        if self.accept(b'=')? {
            variable.braced = self.is_punctuation(b'{');
            self.parse_initialiser(&mut variable.init)?;
        }
        Ok(())
    }
    /// Parses the values of an initialiser. The inner braces of nested arrays are dropped.
    fn parse_initialiser(&mut self, values: &mut Vec<Value>) -> Result<()> {
        let mut brace_depth = 0;
        loop {
            while self.accept(b'{')? {
                brace_depth += 1;
            }
            if !self.is_punctuation(b'}') {
                values.push(self.parse_value()?);
            }
            while brace_depth > 0 && self.accept(b'}')? {
                brace_depth -= 1;
            }
            if brace_depth == 0 {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }
    /// Parses an element of an initialiser or of a debug section.
    fn parse_value(&mut self) -> Result<Value> {
        let name = match self.token {
            Token::F32(bits) => {
                self.bump()?;
                return Ok(Value::F32(bits));
            }
            Token::F64(bits) => {
                self.bump()?;
                return Ok(Value::F64(bits));
            }
            Token::Word(name) => name.to_owned(),
            Token::Dot(name) => format!(".{name}"),
            _ => return self.parse_integer().map(Value::Integer),
        };
        self.bump()?;
        if name == "generic" && self.accept(b'(')? {
            let name = self.parse_name("a symbol")?;
            self.expect(b')')?;
            return Ok(Value::Generic { name, offset: self.parse_optional_offset()? });
        }
        if self.accept(b'-')? {
            let start = self.parse_name("a label")?;
            return Ok(Value::Difference { end: name, start });
        }
        Ok(Value::Symbol { name, offset: self.parse_optional_offset()? })
    }
    /// Parses `+N` and returns N, or returns 0 if the current token is not `+`.
    fn parse_optional_offset(&mut self) -> Result<i64> {
        if self.accept(b'+')? { self.parse_integer() } else { Ok(0) }
    }

    /// Parses a kernel or function, after its linkage.
    fn parse_function(&mut self, line: Line, linkage: Linkage) -> Result<Function> {
        let entry = self.parse_dotted_name("a function")? == "entry";
        let returns = if self.is_punctuation(b'(') { self.parse_parameters()? } else { Vec::new() };
        let name = self.parse_name("a function's name")?;
        let params = if self.is_punctuation(b'(') { self.parse_parameters()? } else { Vec::new() };
        let mut directives = Vec::new();
        while let Token::Dot(name) = self.token {
            directives.push(self.parse_directive(name)?);
        }
        let body = if self.accept(b';')? {
            None
        } else {
            self.expect(b'{')?;
            Some(self.parse_block()?)
        };
        Ok(Function { line, linkage, entry, returns, name, params, directives, body })
    }
    /// Parses a list of parameters in parentheses.
    fn parse_parameters(&mut self) -> Result<Vec<Variable>> {
        self.expect(b'(')?;
        if self.accept(b')')? {
            return Ok(Vec::new());
        }
        let list = self.comma_separated(|parser| {
            let line = parser.line();
            parser.parse_variable(line, Linkage::None)
        })?;
        self.expect(b')')?;
        Ok(list)
    }
    /// Parses a directive between the parameters and the body of a function.
    fn parse_directive(&mut self, name: &str) -> Result<Directive> {
        self.bump()?;
        let mut directive = Directive { name: name.to_owned(), values: Vec::new(), strings: Vec::new() };
        loop {
            match self.token {
                Token::Integer(_) => directive.values.push(self.parse_count()? as i64),
                Token::String(_) => directive.strings.push(self.parse_string()?),
                _ => break,
            }
            if !self.accept(b',')? {
                break;
            }
        }
        // A semicolon belongs to a pragma. After other directives, a semicolon ends a function declaration without body, and the
        // caller reads that semicolon.
        if name == "pragma" {
            self.expect(b';')?;
        }
        Ok(directive)
    }
}
