//! Parses tokens into the syntax tree.

use crate::ast::*;
use crate::lexer::{Lexer, Token};
use crate::types::{Modifier, Space, Type};
use base::diag::Result;

/// Maximum nesting of blocks.
const DEPTH_LIMIT: u32 = 100;
/// Maximum registers of one declaration.
const REGISTER_LIMIT: i64 = 1 << 20;

/// Parses an entire module.
pub fn parse(text: &str) -> Result<Module> {
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, depth: 0 };
    parser.bump()?;
    let mut module = parser.header()?;
    module.envelope = leading_comments(text).lines().filter(|line| line.starts_with("//!tile")).map(str::to_owned).collect();
    while parser.token != Token::End {
        parser.item(&mut module.items)?;
    }
    Ok(module)
}

/// The line comments at the start of a file, including this project's envelope. Later lines of the same form are ignored: a file
/// may embed the source of its kernels, with any content.
pub fn leading_comments(text: &str) -> &str {
    let comments = text.split_inclusive('\n').take_while(|line| line.starts_with("//") || line.trim().is_empty());
    &text[..comments.map(str::len).sum()]
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn bump(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }
    fn line(&self) -> Line {
        Line(self.lexer.token_line())
    }
    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(self.lexer.error(self.lexer.position(), message))
    }
    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match self.token {
            Token::Word(word) => format!("'{word}'"),
            Token::Dot(word) => format!("'.{word}'"),
            Token::Punctuation(byte) => format!("'{}'", char::from(byte)),
            Token::End => "the end of the file".into(),
            Token::String(_) => "a string".into(),
            Token::Source(_) => "source text".into(),
            Token::Integer(_) | Token::F32(_) | Token::F64(_) => "a number".into(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    fn is(&self, byte: u8) -> bool {
        self.token == Token::Punctuation(byte)
    }
    fn accept(&mut self, byte: u8) -> Result<bool> {
        let found = self.is(byte);
        if found {
            self.bump()?;
        }
        Ok(found)
    }
    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.accept(byte)? { Ok(()) } else { self.expected(&format!("'{}'", char::from(byte))) }
    }
    fn accept_dot(&mut self, name: &str) -> Result<bool> {
        let found = self.token == Token::Dot(name);
        if found {
            self.bump()?;
        }
        Ok(found)
    }
    fn word(&mut self, what: &str) -> Result<&'a str> {
        let Token::Word(word) = self.token else { return self.expected(what) };
        self.bump()?;
        Ok(word)
    }
    fn name(&mut self, what: &str) -> Result<String> {
        self.word(what).map(str::to_owned)
    }
    fn dot(&mut self, what: &str) -> Result<&'a str> {
        let Token::Dot(name) = self.token else { return self.expected(what) };
        self.bump()?;
        Ok(name)
    }
    fn string(&mut self) -> Result<String> {
        let Token::String(text) = self.token else { return self.expected("a string") };
        self.bump()?;
        Ok(text.to_owned())
    }
    fn integer(&mut self) -> Result<i64> {
        let negative = self.accept(b'-')?;
        let Token::Integer(value) = self.token else { return self.expected("an integer") };
        self.bump()?;
        Ok(if negative { value.wrapping_neg() } else { value })
    }
    fn count(&mut self) -> Result<u64> {
        match self.integer()? {
            value if value >= 0 => Ok(value as u64),
            _ => self.error("expected a non-negative number"),
        }
    }
    fn bounded_integer(&mut self, limit: i64, what: &str) -> Result<u32> {
        match self.integer()? {
            value if (0..=limit).contains(&value) => Ok(value as u32),
            value => self.error(format!("{what} cannot be {value}")),
        }
    }
    /// One or more parts, separated by commas.
    fn comma_separated<T>(&mut self, mut part: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut parts = vec![part(self)?];
        while self.accept(b',')? {
            parts.push(part(self)?);
        }
        Ok(parts)
    }

    fn header(&mut self) -> Result<Module> {
        let keyword = |parser: &mut Self, name: &str| match parser.accept_dot(name)? {
            true => Ok(()),
            false => parser.expected(&format!("'.{name}'")),
        };
        keyword(self, "version")?;
        let version = self.version()?;
        keyword(self, "target")?;
        let target = self.comma_separated(|parser| parser.name("a target"))?;
        keyword(self, "address_size")?;
        let address_size = self.bounded_integer(64, "the address size")?;
        Ok(Module { envelope: Vec::new(), version, target, address_size, items: Vec::new() })
    }
    /// `9.4` lexes as a decimal number; its digits are the version's.
    fn version(&mut self) -> Result<(u32, u32)> {
        let Token::F64(bits) = self.token else { return self.expected("a version") };
        let text = f64::from_bits(bits).to_string();
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let (Some(Some(major)), minor) = (parts.next(), parts.next().unwrap_or(Some(0))) else { return self.expected("a version") };
        self.bump()?;
        Ok((major, minor.unwrap_or(0)))
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Result<()> {
        let line = self.line();
        let Token::Dot(keyword) = self.token else { return self.expected("a directive") };
        match keyword {
            "file" => items.push(self.file()?),
            "section" => items.push(self.section()?),
            "nv_intermediate_source_section" => items.push(self.intermediate_source()?),
            "pragma" => {
                self.bump()?;
                items.push(Item::Pragma(self.comma_separated(Self::string)?));
                self.expect(b';')?;
            }
            "alias" => {
                self.bump()?;
                let name = self.name("a function")?;
                self.expect(b',')?;
                let target = self.name("a function")?;
                self.expect(b';')?;
                items.push(Item::Alias { name, target });
            }
            _ => {
                let linkage = self.linkage()?;
                match self.token {
                    Token::Dot("entry" | "func") => items.push(Item::Function(self.function(line, linkage)?)),
                    _ => {
                        let variables = self.variables(line, linkage)?;
                        items.extend(variables.into_iter().map(Item::Variable));
                    }
                }
            }
        }
        Ok(())
    }
    fn linkage(&mut self) -> Result<Linkage> {
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
    fn file(&mut self) -> Result<Item> {
        self.bump()?;
        let index = self.count()?;
        let name = self.string()?;
        let mut numbers = Vec::new();
        while self.accept(b',')? {
            numbers.push(self.integer()?);
        }
        Ok(Item::File { index, name, numbers })
    }
    fn section(&mut self) -> Result<Item> {
        self.bump()?;
        let name = match self.token {
            Token::Dot(name) => format!(".{name}"),
            Token::Word(name) => name.to_owned(),
            _ => return self.expected("a section name"),
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
                _ => SectionLine::Data { ty: self.data_type()?, values: self.comma_separated(Self::value)? },
            });
        }
        Ok(Item::Section { name, lines })
    }
    fn intermediate_source(&mut self) -> Result<Item> {
        self.bump()?;
        self.expect(b'{')?;
        self.expect_field("code_block", false)?;
        self.expect(b'{')?;
        self.expect_field("ir_name", true)?;
        let ir_name = self.string()?;
        self.expect_field("sourceFileName", true)?;
        let file = self.count()?;
        let Token::Source(text) = self.token else { return self.expected("'.source_begin'") };
        self.bump()?;
        self.expect(b'}')?;
        self.expect(b'}')?;
        Ok(Item::IntermediateSource { ir_name, file, text: text.to_owned() })
    }
    fn expect_field(&mut self, name: &str, colon: bool) -> Result<()> {
        if !self.accept_dot(name)? {
            return self.expected(&format!("'.{name}'"));
        }
        if colon { self.expect(b':') } else { Ok(()) }
    }

    fn data_type(&mut self) -> Result<Type> {
        let Token::Dot(name) = self.token else { return self.expected("a type") };
        let Some(ty) = Type::parse(name) else { return self.error(format!("'.{name}' is not a type")) };
        self.bump()?;
        Ok(ty)
    }
    fn align(&mut self) -> Result<Option<u32>> {
        if !self.accept_dot("align")? {
            return Ok(None);
        }
        let align = self.bounded_integer(1 << 30, "an alignment")?;
        if align.is_power_of_two() { Ok(Some(align)) } else { self.error("an alignment must be a power of two") }
    }

    /// A declaration of one or more variables, `;` included.
    fn variables(&mut self, line: Line, linkage: Linkage) -> Result<Vec<Variable>> {
        let first = self.variable(line, linkage)?;
        let mut all = vec![first];
        while self.accept(b',')? {
            let mut next = Variable { name: String::new(), dims: Vec::new(), init: Vec::new(), braced: false, ..all[0].clone() };
            self.declarator(&mut next)?;
            all.push(next);
        }
        self.expect(b';')?;
        Ok(all)
    }
    fn variable(&mut self, line: Line, linkage: Linkage) -> Result<Variable> {
        let hidden = self.accept_dot("hidden")?;
        let Token::Dot(name) = self.token else { return self.expected("a state space") };
        let Some(space) = Space::parse(name) else { return self.error(format!("'.{name}' is not a state space")) };
        self.bump()?;
        let mut align = self.align()?;
        let vector = match self.token {
            Token::Dot("v2") => Some(2),
            Token::Dot("v4") => Some(4),
            Token::Dot("v8") => Some(8),
            _ => None,
        };
        if vector.is_some() {
            self.bump()?;
        }
        let ty = self.data_type()?;
        let pointer = if self.accept_dot("ptr")? {
            let space = match self.token {
                Token::Dot(name) => Space::parse(name),
                _ => None,
            };
            if space.is_some() {
                self.bump()?;
            }
            Some(Pointer { space, align: self.align()? })
        } else {
            None
        };
        if align.is_none() {
            align = self.align()?;
        }
        let (name, dims, init) = (String::new(), Vec::new(), Vec::new());
        let mut variable = Variable { line, linkage, hidden, space, align, vector, ty, pointer, name, dims, init, braced: false };
        self.declarator(&mut variable)?;
        Ok(variable)
    }
    fn declarator(&mut self, variable: &mut Variable) -> Result<()> {
        variable.name = self.name("a name")?;
        while self.accept(b'[')? {
            variable.dims.push(if self.is(b']') { None } else { Some(self.count()?) });
            self.expect(b']')?;
        }
        if self.accept(b'=')? {
            variable.braced = self.is(b'{');
            self.initialiser(&mut variable.init)?;
        }
        Ok(())
    }
    /// The values of an initialiser, without the inner braces of nested arrays.
    fn initialiser(&mut self, values: &mut Vec<Value>) -> Result<()> {
        let mut depth = 0;
        loop {
            while self.accept(b'{')? {
                depth += 1;
            }
            if !self.is(b'}') {
                values.push(self.value()?);
            }
            while depth > 0 && self.accept(b'}')? {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }
    fn value(&mut self) -> Result<Value> {
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
            _ => return self.integer().map(Value::Integer),
        };
        self.bump()?;
        if name == "generic" && self.accept(b'(')? {
            let name = self.name("a symbol")?;
            self.expect(b')')?;
            return Ok(Value::Generic { name, offset: self.optional_offset()? });
        }
        if self.accept(b'-')? {
            let start = self.name("a label")?;
            return Ok(Value::Difference { end: name, start });
        }
        Ok(Value::Symbol { name, offset: self.optional_offset()? })
    }
    fn optional_offset(&mut self) -> Result<i64> {
        if self.accept(b'+')? { self.integer() } else { Ok(0) }
    }

    fn function(&mut self, line: Line, linkage: Linkage) -> Result<Function> {
        let entry = self.dot("a function")? == "entry";
        let returns = if self.is(b'(') { self.parameters()? } else { Vec::new() };
        let name = self.name("a function's name")?;
        let params = if self.is(b'(') { self.parameters()? } else { Vec::new() };
        let mut directives = Vec::new();
        while let Token::Dot(name) = self.token {
            directives.push(self.directive(name)?);
        }
        let body = if self.accept(b';')? {
            None
        } else {
            self.expect(b'{')?;
            Some(self.block()?)
        };
        Ok(Function { line, linkage, entry, returns, name, params, directives, body })
    }
    fn parameters(&mut self) -> Result<Vec<Variable>> {
        self.expect(b'(')?;
        if self.accept(b')')? {
            return Ok(Vec::new());
        }
        let list = self.comma_separated(|parser| {
            let line = parser.line();
            parser.variable(line, Linkage::None)
        })?;
        self.expect(b')')?;
        Ok(list)
    }
    fn directive(&mut self, name: &str) -> Result<Directive> {
        self.bump()?;
        let mut directive = Directive { name: name.to_owned(), values: Vec::new(), strings: Vec::new() };
        loop {
            match self.token {
                Token::Integer(_) => directive.values.push(self.count()? as i64),
                Token::String(_) => directive.strings.push(self.string()?),
                _ => break,
            }
            if !self.accept(b',')? {
                break;
            }
        }
        // A pragma before the body ends with a semicolon. Another semicolon ends a declaration without body; the caller reads it.
        if name == "pragma" {
            self.expect(b';')?;
        }
        Ok(directive)
    }

    /// Statements up to and including the closing brace.
    fn block(&mut self) -> Result<Vec<Statement>> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return self.error("blocks are nested too deeply");
        }
        let mut statements = Vec::new();
        while !self.accept(b'}')? {
            self.statement(&mut statements)?;
        }
        self.depth -= 1;
        Ok(statements)
    }
    fn statement(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        let line = self.line();
        match self.token {
            Token::Dot("reg") => statements.push(self.registers()?),
            Token::Dot("loc") => statements.push(self.location(false)?),
            Token::Dot("loc_intermediate") => statements.push(self.location(true)?),
            Token::Dot("pragma") => {
                self.bump()?;
                statements.push(Statement::Pragma(self.comma_separated(Self::string)?));
                self.expect(b';')?;
            }
            Token::Dot(_) => {
                let linkage = self.linkage()?;
                statements.extend(self.variables(line, linkage)?.into_iter().map(Statement::Variable));
            }
            Token::Punctuation(b'{') => {
                self.bump()?;
                statements.push(Statement::Block(self.block()?));
            }
            Token::Punctuation(b';') => {
                self.bump()?;
            }
            Token::Word(name) => {
                self.bump()?;
                if self.accept(b':')? {
                    statements.push(self.labelled(line, name)?);
                } else {
                    let instruction = self.instruction(line, None, name)?;
                    statements.push(Statement::Instruction(instruction));
                }
            }
            Token::Punctuation(b'@') => {
                self.bump()?;
                let negated = self.accept(b'!')?;
                let register = self.name("a predicate")?;
                let name = self.word("an instruction")?;
                let instruction = self.instruction(line, Some(Guard { negated, register }), name)?;
                statements.push(Statement::Instruction(instruction));
            }
            _ => return self.expected("a statement"),
        }
        Ok(())
    }
    fn labelled(&mut self, line: Line, name: &str) -> Result<Statement> {
        let name = name.to_owned();
        if self.accept_dot("branchtargets")? {
            let targets = self.comma_separated(|parser| parser.name("a label"))?;
            self.expect(b';')?;
            return Ok(Statement::BranchTargets { name, targets });
        }
        if self.accept_dot("callprototype")? {
            let returns = if self.is(b'(') { self.parameters()? } else { Vec::new() };
            self.word("'_'")?;
            let params = if self.is(b'(') { self.parameters()? } else { Vec::new() };
            self.expect(b';')?;
            return Ok(Statement::Prototype { name, returns, params });
        }
        Ok(Statement::Label { line, name })
    }
    fn registers(&mut self) -> Result<Statement> {
        self.bump()?;
        let ty = self.data_type()?;
        let names = self.comma_separated(|parser| {
            let name = parser.name("a register")?;
            let mut count = None;
            if parser.accept(b'<')? {
                count = Some(parser.bounded_integer(REGISTER_LIMIT, "the number of registers")?);
                parser.expect(b'>')?;
            }
            Ok(RegisterName { name, count })
        })?;
        self.expect(b';')?;
        Ok(Statement::Registers { ty, names })
    }
    fn location(&mut self, intermediate: bool) -> Result<Statement> {
        self.bump()?;
        let (file, row, column) = (self.count()?, self.count()?, self.count()?);
        let mut inlined = None;
        if self.accept(b',')? {
            self.keyword("function_name")?;
            let function = match self.token {
                Token::Word(name) => name.to_owned(),
                Token::Dot(name) => format!(".{name}"),
                _ => return self.expected("a label"),
            };
            self.bump()?;
            let offset = self.optional_offset()?;
            self.expect(b',')?;
            self.keyword("inlined_at")?;
            inlined = Some(Inlined { function, offset, file: self.count()?, row: self.count()?, column: self.count()? });
        }
        Ok(Statement::Location(Location { intermediate, file, row, column, inlined }))
    }
    fn keyword(&mut self, keyword: &str) -> Result<()> {
        if self.token != Token::Word(keyword) {
            return self.expected(&format!("'{keyword}'"));
        }
        self.bump().map(drop)
    }

    fn instruction(&mut self, line: Line, guard: Option<Guard>, name: &str) -> Result<Instruction> {
        let mut modifiers = Vec::new();
        while let Token::Dot(name) = self.token {
            modifiers.push(Modifier::parse(name));
            self.bump()?;
        }
        let operands = if self.is(b';') { Vec::new() } else { self.comma_separated(Self::operand)? };
        self.expect(b';')?;
        Ok(Instruction { line, guard, opcode: name.to_owned(), modifiers, operands })
    }
    fn operand(&mut self) -> Result<Operand> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return self.error("operands are nested too deeply");
        }
        let operand = self.simple_operand()?;
        let operand = match self.accept(b'|')? {
            true => Operand::Pair(Box::new(operand), Box::new(self.simple_operand()?)),
            false => operand,
        };
        self.depth -= 1;
        Ok(operand)
    }
    fn simple_operand(&mut self) -> Result<Operand> {
        match self.token {
            Token::Word(_) => {
                let name = self.register()?;
                Ok(match self.is(b'+') {
                    true => Operand::Offset { name, offset: self.optional_offset()? },
                    false => Operand::Name(name),
                })
            }
            Token::F32(bits) => self.bump().map(|_| Operand::F32(bits)),
            Token::F64(bits) => self.bump().map(|_| Operand::F64(bits)),
            Token::Punctuation(b'!') => {
                self.bump()?;
                Ok(Operand::Not(self.name("a predicate")?))
            }
            Token::Punctuation(b'{') => Ok(Operand::Vector(self.enclosed(b'}')?)),
            Token::Punctuation(b'(') => Ok(Operand::List(self.enclosed(b')')?)),
            Token::Punctuation(b'[') => self.address().map(Operand::Address),
            _ => self.signed_number(),
        }
    }
    fn signed_number(&mut self) -> Result<Operand> {
        if !self.is(b'-') {
            return self.integer().map(Operand::Integer);
        }
        self.bump()?;
        match self.token {
            Token::F64(bits) => self.bump().map(|_| Operand::F64(bits ^ 1 << 63)),
            Token::Integer(value) => self.bump().map(|_| Operand::Integer(value.wrapping_neg())),
            _ => self.expected("a number"),
        }
    }
    /// A name, including the component of a special register.
    fn register(&mut self) -> Result<String> {
        let mut name = self.name("a register")?;
        if let Token::Dot(part) = self.token {
            name = format!("{name}.{part}");
            self.bump()?;
        }
        Ok(name)
    }
    fn enclosed(&mut self, close: u8) -> Result<Vec<Operand>> {
        self.bump()?;
        let operands = if self.is(close) { Vec::new() } else { self.comma_separated(Self::operand)? };
        self.expect(close)?;
        Ok(operands)
    }
    fn address(&mut self) -> Result<Address> {
        self.bump()?;
        let mut address = Address { base: None, offset: 0, trailing_operands: Vec::new() };
        if let Token::Word(_) = self.token {
            address.base = Some(self.register()?);
            address.offset = match self.token {
                Token::Punctuation(b'-') => self.integer()?,
                _ => self.optional_offset()?,
            };
        } else {
            address.offset = self.integer()?;
        }
        while self.accept(b',')? {
            address.trailing_operands.push(self.operand()?);
        }
        self.expect(b']')?;
        Ok(address)
    }
}
