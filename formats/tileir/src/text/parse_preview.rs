//! Parses preview content.
//!
//! The text is ambiguous in two places. The parser reads `-1` as a negative number, not as a negated number. It reads `(a)` as `a`
//! in parentheses, not as a tuple of one element.

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
    pub(super) fn parse_expression(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        let mut sum = self.parse_product(c, depth)?;
        loop {
            let op = match c.peek() {
                Some('+') => ExprOp::Add,
                Some('-') => ExprOp::Sub,
                _ => return Ok(sum),
            };
            c.expect(if op == ExprOp::Add { "+" } else { "-" })?;
            let rhs = Box::new(self.parse_product(c, depth)?);
            sum = check_depth(c, Preview::Binary { op, lhs: Box::new(sum), rhs })?;
        }
    }

    /// Parses factors with `*`, `/` or `/+` between them.
    fn parse_product(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        let mut product = self.parse_factor(c, depth)?;
        loop {
            let op = match () {
                () if c.skip_if_next("*") => ExprOp::Mul,
                () if c.skip_if_next("/+") => ExprOp::CeilDiv,
                () if c.skip_if_next("/") => ExprOp::FloorDiv,
                () => return Ok(product),
            };
            let rhs = Box::new(self.parse_factor(c, depth)?);
            product = check_depth(c, Preview::Binary { op, lhs: Box::new(product), rhs })?;
        }
    }

    /// Parses an operand of `*`, `/` and `/+`.
    fn parse_factor(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        if depth > MAX_DEPTH {
            return Err(c.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        let is_negative = c.peek() == Some('-');
        let digit_follows = c.rest().trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
        match c.peek() {
            Some('0'..='9') => c.integer("a number").map(Preview::Int),
            Some('-') if digit_follows => c.integer("a number").map(Preview::Int),
            _ if is_negative => {
                c.expect("-")?;
                Ok(Preview::Neg(Box::new(self.parse_factor(c, depth + 1)?)))
            }
            Some('"') => {
                let text = c.string()?;
                Ok(Preview::ConstString(self.intern_string(&text)))
            }
            Some('(') => {
                let mut parts = self.parse_tuple(c, depth + 1)?;
                Ok(if parts.len() == 1 { parts.remove(0) } else { Preview::Tuple(parts.into()) })
            }
            Some('<') => self.parse_layout(c, depth + 1),
            Some('#') => self.parse_preview_attribute(c, depth + 1),
            Some('!') => Ok(Preview::ConcreteType(self.parse_type(c)?)),
            _ => {
                let start = c.at();
                let name = c.name("an expression")?;
                if Scalar::parse(name).is_some() {
                    c.set_offset(start);
                    return Ok(Preview::ConcreteType(self.parse_type(c)?));
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
    fn parse_tuple(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Vec<Preview>> {
        c.expect("(")?;
        let mut parts = Vec::new();
        while !c.continues_with(")") {
            parts.push(self.parse_expression(c, depth)?);
            if !c.skip_if_next(",") {
                break;
            }
        }
        c.expect(")")?;
        Ok(parts)
    }

    /// Parses `<(shape):(strides)>`.
    fn parse_layout(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        c.expect("<")?;
        let shape = self.parse_tuple(c, depth)?.into();
        c.expect(":")?;
        let strides = self.parse_tuple(c, depth)?.into();
        c.expect(">")?;
        Ok(Preview::Layout { shape, strides })
    }

    /// Parses `#cuda_tile<preview$name<…>>`.
    pub(super) fn parse_preview_attribute(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Preview> {
        if depth > MAX_DEPTH {
            return Err(c.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        c.expect("#cuda_tile<preview$")?;
        let at = c.at();
        let kind = c.word("an attribute of preview content")?;
        if kind == "layout" {
            let layout = self.parse_layout(c, depth + 1)?;
            c.expect(">")?;
            return Ok(layout);
        }
        c.expect("<")?;
        let attribute = match kind {
            "expr_int" => Preview::Int(c.integer("a number")?),
            "expr_var" => Preview::Var(self.parse_quoted_string(c)?),
            "expr_const_str" => Preview::ConstString(self.parse_quoted_string(c)?),
            "expr_neg" => Preview::Neg(Box::new(self.parse_preview_attribute(c, depth + 1)?)),
            "symbolic_tuple" => Preview::Tuple(self.parse_tuple(c, depth + 1)?.into()),
            "concrete_type" => Preview::ConcreteType(self.parse_type(c)?),
            "memory_space" => Preview::MemorySpace(parse_enum(c)?),
            "synchronization" => Preview::Synchronization(parse_enum(c)?),
            "access" => Preview::Access(parse_enum(c)?),
            "scratch_request" => {
                let (size, alignment) = self.parse_scratch_request(c, depth + 1)?;
                Preview::Scratch { size: Box::new(size), alignment: Box::new(alignment) }
            }
            "const_param" | "expr_builtin" => {
                c.expect("name")?;
                c.expect("=")?;
                let name = self.parse_quoted_string(c)?;
                for token in [",", "type", "="] {
                    c.expect(token)?;
                }
                let ty = self.parse_type(c)?;
                if kind == "const_param" { Preview::ConstParam { name, ty } } else { Preview::Builtin { name, ty } }
            }
            other => match other.strip_prefix("expr_").and_then(from_spelling::<ExprOp>) {
                Some(op) => {
                    let lhs = Box::new(self.parse_preview_attribute(c, depth + 1)?);
                    c.expect(",")?;
                    Preview::Binary { op, lhs, rhs: Box::new(self.parse_preview_attribute(c, depth + 1)?) }
                }
                None => return Err(c.error_at(at, format!("unknown attribute 'preview${other}'"))),
            },
        };
        c.expect(">")?;
        c.expect(">")?;
        Ok(attribute)
    }

    fn parse_quoted_string(&mut self, c: &mut Cursor<'_>) -> Result<StringId> {
        let text = c.string()?;
        Ok(self.intern_string(&text))
    }

    fn parse_scratch_request(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<(Preview, Preview)> {
        for token in ["smem", ".", "size", "="] {
            c.expect(token)?;
        }
        let size = self.parse_preview_attribute(c, depth)?;
        for token in [",", "smem", ".", "alignment", "="] {
            c.expect(token)?;
        }
        Ok((size, self.parse_preview_attribute(c, depth)?))
    }

    /// Parses the extents before an element type. Symbolic extents are in brackets.
    pub(super) fn parse_symbolic_dims(&mut self, c: &mut Cursor<'_>) -> Result<(Box<[i64]>, Box<[Preview]>)> {
        let (mut shape, mut symbols) = (Vec::new(), Vec::new());
        loop {
            let symbol = match c.peek() {
                Some('[') => {
                    c.expect("[")?;
                    let symbol = self.parse_expression(c, 0)?;
                    c.expect("]")?;
                    symbol
                }
                Some('0'..='9') => Preview::Int(c.integer("a dimension")?),
                _ => return Ok((shape.into(), symbols.into())),
            };
            shape.push(if let Preview::Int(extent) = symbol { extent } else { DYNAMIC });
            symbols.push(symbol);
            let Some(after) = c.rest().strip_prefix('x') else { return Err(c.error("expected 'x' after a dimension")) };
            c.set_offset(c.at() + c.rest().len() - after.len());
            check_symbols(&symbols, &shape).map_err(|message| c.error(message))?;
        }
    }

    /// Parses the part of a type after `preview$`.
    pub(super) fn parse_preview_type(&mut self, c: &mut Cursor<'_>, name: &str, start: usize) -> Result<PreviewType> {
        Ok(match name {
            "sym_t" => {
                c.expect("<")?;
                let symbol = c.name("the name of a type")?;
                let symbol = self.intern_string(symbol);
                c.expect(">")?;
                PreviewType::Symbol(Preview::Var(symbol))
            }
            "fragment" => PreviewType::Fragment(Box::new(self.parse_fragment(c)?)),
            "Datatype" => PreviewType::Datatype,
            "shape" => PreviewType::Shape,
            "string" => PreviewType::String,
            other => return Err(c.error_at(start, format!("unknown type: preview${other}"))),
        })
    }

    fn parse_fragment(&mut self, c: &mut Cursor<'_>) -> Result<Fragment> {
        c.expect("<")?;
        let (shape, symbols) = self.parse_symbolic_dims(c)?;
        let element = self.parse_type(c)?;
        c.expect(",")?;
        let space = parse_enum(c)?;
        for token in [",", "mem_layout", "="] {
            c.expect(token)?;
        }
        let layout = self.parse_layout(c, 0)?;
        for token in [",", "fragmap", "="] {
            c.expect(token)?;
        }
        let map = self.parse_layout(c, 0)?;
        let mut alignment = Preview::Int(1);
        if c.skip_if_next(",") {
            c.expect("alignment")?;
            c.expect("=")?;
            alignment = self.parse_expression(c, 0)?;
        }
        c.expect(">")?;
        Ok(Fragment { symbols, shape, element, space, layout, map, alignment })
    }

    /// Parses an optional list of constant parameters such as `<[N: index]>`, or of constant arguments such as `<[8]>`.
    /// `parameters` selects the first form.
    pub(super) fn parse_const_list(&mut self, c: &mut Cursor<'_>, parameters: bool) -> Result<Box<[Preview]>> {
        if !c.skip_if_next("<") {
            return Ok(Box::default());
        }
        let items = parse_list(c, |c| {
            if !parameters {
                return self.parse_expression(c, 0);
            }
            let name = c.name("the name of a parameter")?;
            let name = self.intern_string(name);
            c.expect(":")?;
            Ok(Preview::ConstParam { name, ty: self.parse_type(c)? })
        })?;
        c.expect(">")?;
        Ok(items.into())
    }

    /// Parses a function without a body, after its first keywords and its name.
    pub(super) fn parse_extern(&mut self, c: &mut Cursor<'_>, name: StringId, implements: bool, after: u32) -> Result<Extern> {
        let const_params = self.parse_const_list(c, true)?;
        let mut implementation = None;
        if implements {
            c.expect("implements")?;
            let implemented = super::parse::parse_symbol(c)?;
            let implements = self.intern_string(&implemented);
            let const_args = self.parse_const_list(c, false)?;
            implementation = Some(Implementation { implements, const_args, ..empty_implementation() });
        }
        let (ty, arg_attrs) = self.parse_signature(c)?;
        if let Some(implementation) = &mut implementation {
            self.parse_implementation_clauses(c, implementation)?;
        }
        let implementation = implementation.map(Box::new);
        Ok(Extern { name, ty, visibility: Visibility::Private, arg_attrs, const_params, implementation, loc: Loc::UNKNOWN, after })
    }

    /// Parses the parameters and the result types. Returns the function type, and the attributes of each parameter.
    fn parse_signature(&mut self, c: &mut Cursor<'_>) -> Result<(TypeId, Box<[Dictionary]>)> {
        let (mut inputs, mut attributes, mut results) = (Vec::new(), Vec::new(), Vec::new());
        c.expect("(")?;
        while !c.continues_with(")") {
            c.identifier('%', "a name such as %arg0")?;
            c.expect(":")?;
            inputs.push(self.parse_type(c)?);
            attributes.push(if c.continues_with("{") { self.parse_dictionary(c, 0)? } else { Dictionary::default() });
            if !c.skip_if_next(",") {
                break;
            }
        }
        c.expect(")")?;
        if c.skip_if_next("->") {
            let has_parentheses = c.skip_if_next("(");
            results = self.parse_types(c)?;
            if has_parentheses {
                c.expect(")")?;
            }
        }
        let ty = self.intern(Type::Function { inputs: inputs.into(), results: results.into() });
        Ok((ty, attributes.into()))
    }

    /// Parses the properties of an implementation after its signature.
    fn parse_implementation_clauses(&mut self, c: &mut Cursor<'_>, implementation: &mut Implementation) -> Result<()> {
        if c.skip_if_next("synchronization") {
            c.expect("=")?;
            match self.parse_preview_attribute(c, 0)? {
                Preview::Synchronization(threads) => implementation.synchronization = Some(threads),
                _ => return Err(c.error("expected a synchronization before this")),
            }
        }
        if c.skip_if_next("arch") {
            c.expect("=")?;
            implementation.arch = Some(parse_list(c, |c| self.parse_quoted_string(c))?.into());
        }
        if c.skip_if_next("scratch") {
            c.expect("{")?;
            implementation.scratch = Some(self.parse_scratch_request(c, 0)?);
            c.expect("}")?;
        }
        if c.continues_with("{") {
            for (name, value) in self.parse_dictionary(c, 0)? {
                match (self.strings[name].as_str(), value) {
                    ("frontendABI", Attribute::Dictionary(entries)) => implementation.abi = Some(entries),
                    ("provider_score", Attribute::Integer { bits, .. }) => implementation.provider_score = Some(bits),
                    (other, _) => return Err(c.error(format!("an implementation has no such attribute: {other}"))),
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
fn check_depth(c: &mut Cursor<'_>, expression: Preview) -> Result<Preview> {
    match expression.depth() > MAX_DEPTH {
        true => Err(c.error(format!("attributes are nested deeper than {MAX_DEPTH} levels"))),
        false => Ok(expression),
    }
}

/// Returns the enumeration value with this spelling.
fn from_spelling<E: WireEnum>(word: &str) -> Option<E> {
    E::SPELLINGS.iter().position(|spelling| *spelling == word).and_then(|number| E::from_number(number as u8))
}

fn parse_enum<E: WireEnum>(c: &mut Cursor<'_>) -> Result<E> {
    c.skip_space();
    let at = c.at();
    let word = c.word("a name")?;
    from_spelling(word).ok_or_else(|| c.error_at(at, format!("expected one of: {}", E::SPELLINGS.join(", "))))
}
