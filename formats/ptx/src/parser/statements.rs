//! The statements of a function: blocks, labels, declarations, instructions and operands.

use super::{MAX_DEPTH, MAX_REGISTERS, Parser};
use crate::ast::*;
use crate::lexer::Token;
use crate::types::Modifier;
use base::diag::Result;

impl<'a> Parser<'a> {
    /// Parses statements up to and including the closing brace.
    pub(super) fn parse_block(&mut self) -> Result<Vec<Statement>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error("blocks are nested too deeply");
        }
        let mut statements = Vec::new();
        while !self.accept(b'}')? {
            self.parse_statement(&mut statements)?;
        }
        self.depth -= 1;
        Ok(statements)
    }

    /// Parses one statement. A declaration of several variables becomes one [`Statement::Variable`] per variable.
    fn parse_statement(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        let line = self.line();
        match self.token {
            Token::Dot("reg") => statements.push(self.parse_registers()?),
            Token::Dot("loc") => statements.push(self.parse_location(false)?),
            Token::Dot("loc_intermediate") => statements.push(self.parse_location(true)?),
            Token::Dot("pragma") => {
                self.bump()?;
                statements.push(Statement::Pragma(self.comma_separated(Self::parse_string)?));
                self.expect(b';')?;
            }
            Token::Dot(_) => {
                let linkage = self.parse_linkage()?;
                statements.extend(self.parse_variables(line, linkage)?.into_iter().map(Statement::Variable));
            }
            Token::Punctuation(b'{') => {
                self.bump()?;
                statements.push(Statement::Block(self.parse_block()?));
            }
            Token::Punctuation(b';') => {
                self.bump()?;
            }
            Token::Word(name) => {
                self.bump()?;
                if self.accept(b':')? {
                    statements.push(self.parse_labelled(line, name)?);
                } else {
                    let instruction = self.parse_instruction(line, None, name)?;
                    statements.push(Statement::Instruction(instruction));
                }
            }
            Token::Punctuation(b'@') => {
                self.bump()?;
                let negated = self.accept(b'!')?;
                let register = self.parse_name("a predicate")?;
                let name = self.parse_word("an instruction")?;
                let instruction = self.parse_instruction(line, Some(Guard { negated, register }), name)?;
                statements.push(Statement::Instruction(instruction));
            }
            _ => return self.error_expected("a statement"),
        }
        Ok(())
    }

    /// Parses a statement after its label.
    fn parse_labelled(&mut self, line: Line, name: &str) -> Result<Statement> {
        let name = name.to_owned();
        if self.accept_dotted_name("branchtargets")? {
            let targets = self.comma_separated(|parser| parser.parse_name("a label"))?;
            self.expect(b';')?;
            return Ok(Statement::BranchTargets { name, targets });
        }
        if self.accept_dotted_name("callprototype")? {
            let returns = if self.is_punctuation(b'(') { self.parse_parameters()? } else { Vec::new() };
            self.parse_word("'_'")?;
            let params = if self.is_punctuation(b'(') { self.parse_parameters()? } else { Vec::new() };
            self.expect(b';')?;
            return Ok(Statement::Prototype { name, returns, params });
        }
        Ok(Statement::Label { line, name })
    }

    /// Parses a `.reg` declaration.
    fn parse_registers(&mut self) -> Result<Statement> {
        self.bump()?;
        let ty = self.parse_data_type()?;
        let names = self.comma_separated(|parser| {
            let name = parser.parse_name("a register")?;
            let mut count = None;
            if parser.accept(b'<')? {
                count = Some(parser.parse_bounded_integer(MAX_REGISTERS, "the number of registers")?);
                parser.expect(b'>')?;
            }
            Ok(RegisterName { name, count })
        })?;
        self.expect(b';')?;
        Ok(Statement::Registers { ty, names })
    }

    /// Parses a `.loc` or `.loc_intermediate`.
    fn parse_location(&mut self, intermediate: bool) -> Result<Statement> {
        self.bump()?;
        let (file, row, column) = (self.parse_count()?, self.parse_count()?, self.parse_count()?);
        let mut inlined = None;
        if self.accept(b',')? {
            self.expect_word("function_name")?;
            let function = match self.token {
                Token::Word(name) => name.to_owned(),
                Token::Dot(name) => format!(".{name}"),
                _ => return self.error_expected("a label"),
            };
            self.bump()?;
            let offset = self.parse_optional_offset()?;
            self.expect(b',')?;
            self.expect_word("inlined_at")?;
            inlined = Some(Inlined {
                function,
                offset,
                file: self.parse_count()?,
                row: self.parse_count()?,
                column: self.parse_count()?,
            });
        }
        Ok(Statement::Location(Location { intermediate, file, row, column, inlined }))
    }

    /// Skips this identifier, or returns an error if the current token is different.
    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.token != Token::Word(word) {
            return self.error_expected(&format!("'{word}'"));
        }
        self.bump().map(drop)
    }

    /// Parses the modifiers and operands of an instruction, after its name.
    fn parse_instruction(&mut self, line: Line, guard: Option<Guard>, name: &str) -> Result<Instruction> {
        let mut modifiers = Vec::new();
        while let Token::Dot(name) = self.token {
            modifiers.push(Modifier::parse(name));
            self.bump()?;
        }
        let operands = if self.is_punctuation(b';') { Vec::new() } else { self.comma_separated(Self::parse_operand)? };
        self.expect(b';')?;
        Ok(Instruction { line, guard, opcode: name.to_owned(), modifiers, operands })
    }

    /// Parses an operand, or a pair `a|b`.
    fn parse_operand(&mut self) -> Result<Operand> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error("operands are nested too deeply");
        }
        let operand = self.parse_simple_operand()?;
        let operand = match self.accept(b'|')? {
            true => Operand::Pair(Box::new(operand), Box::new(self.parse_simple_operand()?)),
            false => operand,
        };
        self.depth -= 1;
        Ok(operand)
    }

    /// Parses an operand that is not a pair.
    fn parse_simple_operand(&mut self) -> Result<Operand> {
        match self.token {
            Token::Word(_) => {
                let name = self.parse_register()?;
                Ok(match self.is_punctuation(b'+') {
                    true => Operand::Offset { name, offset: self.parse_optional_offset()? },
                    false => Operand::Name(name),
                })
            }
            Token::F32(bits) => self.bump().map(|_| Operand::F32(bits)),
            Token::F64(bits) => self.bump().map(|_| Operand::F64(bits)),
            Token::Punctuation(b'!') => {
                self.bump()?;
                Ok(Operand::Not(self.parse_name("a predicate")?))
            }
            Token::Punctuation(b'{') => Ok(Operand::Vector(self.parse_enclosed(b'}')?)),
            Token::Punctuation(b'(') => Ok(Operand::List(self.parse_enclosed(b')')?)),
            Token::Punctuation(b'[') => self.parse_address().map(Operand::Address),
            _ => self.parse_signed_number(),
        }
    }

    /// Parses an integer, or a negative 64-bit float.
    fn parse_signed_number(&mut self) -> Result<Operand> {
        if !self.is_punctuation(b'-') {
            return self.parse_integer().map(Operand::Integer);
        }
        self.bump()?;
        match self.token {
            Token::F64(bits) => self.bump().map(|_| Operand::F64(bits ^ 1 << 63)),
            Token::Integer(value) => self.bump().map(|_| Operand::Integer(value.wrapping_neg())),
            _ => self.error_expected("a number"),
        }
    }

    /// Parses a name, including the component of a special register (`%tid.x`).
    fn parse_register(&mut self) -> Result<String> {
        let mut name = self.parse_name("a register")?;
        if let Token::Dot(part) = self.token {
            name = format!("{name}.{part}");
            self.bump()?;
        }
        Ok(name)
    }

    /// Parses a list of operands in brackets, up to and including the closing bracket.
    fn parse_enclosed(&mut self, close: u8) -> Result<Vec<Operand>> {
        self.bump()?;
        let operands = if self.is_punctuation(close) { Vec::new() } else { self.comma_separated(Self::parse_operand)? };
        self.expect(close)?;
        Ok(operands)
    }

    /// Parses an address in brackets.
    fn parse_address(&mut self) -> Result<Address> {
        self.bump()?;
        let mut address = Address { base: None, offset: 0, trailing_operands: Vec::new() };
        if let Token::Word(_) = self.token {
            address.base = Some(self.parse_register()?);
            address.offset = match self.token {
                Token::Punctuation(b'-') => self.parse_integer()?,
                _ => self.parse_optional_offset()?,
            };
        } else {
            address.offset = self.parse_integer()?;
        }
        while self.accept(b',')? {
            address.trailing_operands.push(self.parse_operand()?);
        }
        self.expect(b']')?;
        Ok(address)
    }
}
