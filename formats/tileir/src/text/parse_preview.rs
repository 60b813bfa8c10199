//! Parses preview content.
//!
//! The text is ambiguous in two places. The parser reads `-1` as the integer -1, not as the negation of 1. It reads `(a)` as `a` in
//! parentheses, not as a tuple of one element.

use super::lex::Cursor;
use super::parse::Tables;
use super::parse_types::parse_list;
use crate::enums::{ExprOp, Visibility, WireEnum};
use crate::preview::{Extern, Implementation, check_symbols};
use crate::reader_limits::MAX_DEPTH;
use crate::types::{Attribute, DYNAMIC, Dictionary, Fragment, Preview, PreviewType, StringId, Type, TypeId};
use base::Loc;
use base::diag::Result;
use numerics::Scalar;

impl Tables {
    /// Parses an expression such as `n*2+m`. An operand is a name, a number, a string, a type, a tuple, or an attribute with its
    /// name.
    pub(super) fn parse_expression(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        let mut sum = self.parse_product(cursor, depth)?;
        loop {
            let op = match cursor.peek() {
                Some('+') => ExprOp::Add,
                Some('-') => ExprOp::Sub,
                _ => return Ok(sum),
            };
            cursor.expect(if op == ExprOp::Add { "+" } else { "-" })?;
            let rhs = Box::new(self.parse_product(cursor, depth)?);
            sum = check_depth(cursor, Preview::Binary { op, lhs: Box::new(sum), rhs })?;
        }
    }

    /// Parses factors with `*`, `/` or `/+` between them.
    fn parse_product(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        let mut product = self.parse_factor(cursor, depth)?;
        loop {
            let op = match () {
                () if cursor.skip_if_next("*") => ExprOp::Mul,
                () if cursor.skip_if_next("/+") => ExprOp::CeilDiv,
                () if cursor.skip_if_next("/") => ExprOp::FloorDiv,
                () => return Ok(product),
            };
            let rhs = Box::new(self.parse_factor(cursor, depth)?);
            product = check_depth(cursor, Preview::Binary { op, lhs: Box::new(product), rhs })?;
        }
    }

    /// Parses an operand of `*`, `/` and `/+`.
    fn parse_factor(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        if depth > MAX_DEPTH {
            return Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        let is_negative = cursor.peek() == Some('-');
        let digit_follows = cursor.rest().trim_start_matches('-').starts_with(|character: char| character.is_ascii_digit());
        match cursor.peek() {
            Some('0'..='9') => cursor.integer("a number").map(Preview::Int),
            Some('-') if digit_follows => cursor.integer("a number").map(Preview::Int),
            _ if is_negative => {
                cursor.expect("-")?;
                Ok(Preview::Neg(Box::new(self.parse_factor(cursor, depth + 1)?)))
            }
            Some('"') => {
                let text = cursor.string()?;
                Ok(Preview::ConstString(self.intern_string(&text)))
            }
            Some('(') => {
                let mut parts = self.parse_tuple(cursor, depth + 1)?;
                Ok(if parts.len() == 1 { parts.remove(0) } else { Preview::Tuple(parts.into()) })
            }
            Some('<') => self.parse_layout(cursor, depth + 1),
            Some('#') => self.parse_preview_attribute(cursor, depth + 1),
            Some('!') => Ok(Preview::ConcreteType(self.parse_type(cursor)?)),
            _ => {
                let start = cursor.offset();
                let name = cursor.name("an expression")?;
                if Scalar::parse(name).is_some() {
                    cursor.set_offset(start);
                    return Ok(Preview::ConcreteType(self.parse_type(cursor)?));
                }
                let id = self.intern_string(name);
                Ok(match name.starts_with("context.") {
                    true => Preview::Builtin { name: id, ty: self.intern(Type::Preview(PreviewType::Index)) },
                    false => Preview::Var(id),
                })
            }
        }
    }

    /// Parses `(a, b)`.
    fn parse_tuple(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Preview>> {
        cursor.expect("(")?;
        let mut parts = Vec::new();
        while !cursor.continues_with(")") {
            parts.push(self.parse_expression(cursor, depth)?);
            if !cursor.skip_if_next(",") {
                break;
            }
        }
        cursor.expect(")")?;
        Ok(parts)
    }

    /// Parses `<(shape):(strides)>`.
    fn parse_layout(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        cursor.expect("<")?;
        let shape = self.parse_tuple(cursor, depth)?.into();
        cursor.expect(":")?;
        let strides = self.parse_tuple(cursor, depth)?.into();
        cursor.expect(">")?;
        Ok(Preview::Layout { shape, strides })
    }

    /// Parses `#cuda_tile<preview$name<…>>`.
    pub(super) fn parse_preview_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        if depth > MAX_DEPTH {
            return Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        cursor.expect("#cuda_tile<preview$")?;
        let offset = cursor.offset();
        let kind = cursor.word("an attribute of preview content")?;
        if kind == "layout" {
            let layout = self.parse_layout(cursor, depth + 1)?;
            cursor.expect(">")?;
            return Ok(layout);
        }
        cursor.expect("<")?;
        let attribute = match kind {
            "expr_int" => Preview::Int(cursor.integer("a number")?),
            "expr_var" => Preview::Var(self.parse_quoted_string(cursor)?),
            "expr_const_str" => Preview::ConstString(self.parse_quoted_string(cursor)?),
            "expr_neg" => Preview::Neg(Box::new(self.parse_preview_attribute(cursor, depth + 1)?)),
            "symbolic_tuple" => Preview::Tuple(self.parse_tuple(cursor, depth + 1)?.into()),
            "concrete_type" => Preview::ConcreteType(self.parse_type(cursor)?),
            "memory_space" => Preview::MemorySpace(parse_enum(cursor)?),
            "synchronization" => Preview::Synchronization(parse_enum(cursor)?),
            "access" => Preview::Access(parse_enum(cursor)?),
            "scratch_request" => {
                let (size, alignment) = self.parse_scratch_request(cursor, depth + 1)?;
                Preview::Scratch { size: Box::new(size), alignment: Box::new(alignment) }
            }
            "const_param" | "expr_builtin" => {
                cursor.expect("name")?;
                cursor.expect("=")?;
                let name = self.parse_quoted_string(cursor)?;
                for token in [",", "type", "="] {
                    cursor.expect(token)?;
                }
                let ty = self.parse_type(cursor)?;
                if kind == "const_param" { Preview::ConstParam { name, ty } } else { Preview::Builtin { name, ty } }
            }
            other => match other.strip_prefix("expr_").and_then(from_spelling::<ExprOp>) {
                Some(op) => {
                    let lhs = Box::new(self.parse_preview_attribute(cursor, depth + 1)?);
                    cursor.expect(",")?;
                    Preview::Binary { op, lhs, rhs: Box::new(self.parse_preview_attribute(cursor, depth + 1)?) }
                }
                None => return Err(cursor.error_at(offset, format!("unknown attribute 'preview${other}'"))),
            },
        };
        cursor.expect(">")?;
        cursor.expect(">")?;
        Ok(attribute)
    }

    fn parse_quoted_string(&mut self, cursor: &mut Cursor<'_>) -> Result<StringId> {
        let text = cursor.string()?;
        Ok(self.intern_string(&text))
    }

    fn parse_scratch_request(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(Preview, Preview)> {
        for token in ["smem", ".", "size", "="] {
            cursor.expect(token)?;
        }
        let size = self.parse_preview_attribute(cursor, depth)?;
        for token in [",", "smem", ".", "alignment", "="] {
            cursor.expect(token)?;
        }
        Ok((size, self.parse_preview_attribute(cursor, depth)?))
    }

    /// Parses the extents before an element type. Symbolic extents are in brackets.
    pub(super) fn parse_symbolic_dims(&mut self, cursor: &mut Cursor<'_>) -> Result<(Box<[i64]>, Box<[Preview]>)> {
        let (mut shape, mut symbols) = (Vec::new(), Vec::new());
        loop {
            let symbol = match cursor.peek() {
                Some('[') => {
                    cursor.expect("[")?;
                    let symbol = self.parse_expression(cursor, 0)?;
                    cursor.expect("]")?;
                    symbol
                }
                Some('0'..='9') => Preview::Int(cursor.integer("a dimension")?),
                _ => return Ok((shape.into(), symbols.into())),
            };
            shape.push(if let Preview::Int(extent) = symbol { extent } else { DYNAMIC });
            symbols.push(symbol);
            let Some(after) = cursor.rest().strip_prefix('x') else { return Err(cursor.error("expected 'x' after a dimension")) };
            cursor.set_offset(cursor.offset() + cursor.rest().len() - after.len());
            check_symbols(&symbols, &shape).map_err(|message| cursor.error(message))?;
        }
    }

    /// Parses the part of a type after `preview$`.
    pub(super) fn parse_preview_type(&mut self, cursor: &mut Cursor<'_>, name: &str, start: usize) -> Result<PreviewType> {
        Ok(match name {
            "sym_t" => {
                cursor.expect("<")?;
                let symbol = cursor.name("the name of a type")?;
                let symbol = self.intern_string(symbol);
                cursor.expect(">")?;
                PreviewType::Symbol(Preview::Var(symbol))
            }
            "fragment" => PreviewType::Fragment(Box::new(self.parse_fragment(cursor)?)),
            "Datatype" => PreviewType::Datatype,
            "shape" => PreviewType::Shape,
            "string" => PreviewType::String,
            other => return Err(cursor.error_at(start, format!("unknown type: preview${other}"))),
        })
    }

    fn parse_fragment(&mut self, cursor: &mut Cursor<'_>) -> Result<Fragment> {
        cursor.expect("<")?;
        let (shape, symbols) = self.parse_symbolic_dims(cursor)?;
        let element = self.parse_type(cursor)?;
        cursor.expect(",")?;
        let space = parse_enum(cursor)?;
        for token in [",", "mem_layout", "="] {
            cursor.expect(token)?;
        }
        let layout = self.parse_layout(cursor, 0)?;
        for token in [",", "fragmap", "="] {
            cursor.expect(token)?;
        }
        let map = self.parse_layout(cursor, 0)?;
        let mut alignment = Preview::Int(1);
        if cursor.skip_if_next(",") {
            cursor.expect("alignment")?;
            cursor.expect("=")?;
            alignment = self.parse_expression(cursor, 0)?;
        }
        cursor.expect(">")?;
        Ok(Fragment { symbols, shape, element, space, layout, map, alignment })
    }

    /// Parses an optional list of constant parameters such as `<[N: index]>`, or of constant arguments such as `<[8]>`.
    /// `parameters` selects the first form.
    pub(super) fn parse_const_list(&mut self, cursor: &mut Cursor<'_>, parameters: bool) -> Result<Box<[Preview]>> {
        if !cursor.skip_if_next("<") {
            return Ok(Box::default());
        }
        let items = parse_list(cursor, |cursor| {
            if !parameters {
                return self.parse_expression(cursor, 0);
            }
            let name = cursor.name("the name of a parameter")?;
            let name = self.intern_string(name);
            cursor.expect(":")?;
            Ok(Preview::ConstParam { name, ty: self.parse_type(cursor)? })
        })?;
        cursor.expect(">")?;
        Ok(items.into())
    }

    /// Parses a function without a body, after its first keywords and its name.
    pub(super) fn parse_extern(&mut self, cursor: &mut Cursor<'_>, name: StringId, implements: bool, after: u32) -> Result<Extern> {
        let const_params = self.parse_const_list(cursor, true)?;
        let mut implementation = None;
        if implements {
            cursor.expect("implements")?;
            let implemented = super::parse::parse_symbol(cursor)?;
            let implements = self.intern_string(&implemented);
            let const_args = self.parse_const_list(cursor, false)?;
            implementation = Some(Implementation { implements, const_args, ..empty_implementation() });
        }
        let (ty, arg_attrs) = self.parse_signature(cursor)?;
        if let Some(implementation) = &mut implementation {
            self.parse_implementation_clauses(cursor, implementation)?;
        }
        let implementation = implementation.map(Box::new);
        Ok(Extern { name, ty, visibility: Visibility::Private, arg_attrs, const_params, implementation, loc: Loc::UNKNOWN, after })
    }

    /// Parses the parameters and the result types. Returns the function type, and the attributes of each parameter.
    fn parse_signature(&mut self, cursor: &mut Cursor<'_>) -> Result<(TypeId, Box<[Dictionary]>)> {
        let (mut inputs, mut attributes, mut results) = (Vec::new(), Vec::new(), Vec::new());
        cursor.expect("(")?;
        while !cursor.continues_with(")") {
            cursor.identifier('%', "a name such as %arg0")?;
            cursor.expect(":")?;
            inputs.push(self.parse_type(cursor)?);
            attributes.push(if cursor.continues_with("{") { self.parse_dictionary(cursor, 0)? } else { Dictionary::default() });
            if !cursor.skip_if_next(",") {
                break;
            }
        }
        cursor.expect(")")?;
        if cursor.skip_if_next("->") {
            let has_parentheses = cursor.skip_if_next("(");
            results = self.parse_types(cursor)?;
            if has_parentheses {
                cursor.expect(")")?;
            }
        }
        let ty = self.intern(Type::Function { inputs: inputs.into(), results: results.into() });
        Ok((ty, attributes.into()))
    }

    /// Parses the properties of an implementation after its signature.
    fn parse_implementation_clauses(&mut self, cursor: &mut Cursor<'_>, implementation: &mut Implementation) -> Result<()> {
        if cursor.skip_if_next("synchronization") {
            cursor.expect("=")?;
            match self.parse_preview_attribute(cursor, 0)? {
                Preview::Synchronization(threads) => implementation.synchronization = Some(threads),
                _ => return Err(cursor.error("expected a synchronization before this")),
            }
        }
        if cursor.skip_if_next("arch") {
            cursor.expect("=")?;
            implementation.arch = Some(parse_list(cursor, |cursor| self.parse_quoted_string(cursor))?.into());
        }
        if cursor.skip_if_next("scratch") {
            cursor.expect("{")?;
            implementation.scratch = Some(self.parse_scratch_request(cursor, 0)?);
            cursor.expect("}")?;
        }
        if cursor.continues_with("{") {
            for (name, value) in self.parse_dictionary(cursor, 0)? {
                match (self.strings[name].as_str(), value) {
                    ("frontendABI", Attribute::Dictionary(entries)) => implementation.abi = Some(entries),
                    ("provider_score", Attribute::Integer { bits, .. }) => implementation.provider_score = Some(bits),
                    (other, _) => return Err(cursor.error(format!("an implementation has no such attribute: {other}"))),
                }
            }
        }
        Ok(())
    }
}

/// An implementation without optional parts. The caller sets the name of the implemented function.
fn empty_implementation() -> Implementation {
    Implementation {
        implements: StringId(0),
        const_args: Box::default(),
        res_attrs: None,
        scratch: None,
        config: None,
        arch: None,
        abi: None,
        synchronization: None,
        provider_score: None,
    }
}

/// Returns the expression, or an error if it is nested deeper than [`MAX_DEPTH`]. Recursive functions rely on this limit.
fn check_depth(cursor: &mut Cursor<'_>, expression: Preview) -> Result<Preview> {
    match expression.depth() > MAX_DEPTH {
        true => Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels"))),
        false => Ok(expression),
    }
}

/// Returns the enumeration value with this spelling.
fn from_spelling<E: WireEnum>(word: &str) -> Option<E> {
    E::SPELLINGS.iter().position(|spelling| *spelling == word).and_then(|number| E::from_number(number as u8))
}

fn parse_enum<E: WireEnum>(cursor: &mut Cursor<'_>) -> Result<E> {
    cursor.skip_space();
    let offset = cursor.offset();
    let word = cursor.word("a name")?;
    from_spelling(word).ok_or_else(|| cursor.error_at(offset, format!("expected one of: {}", E::SPELLINGS.join(", "))))
}
