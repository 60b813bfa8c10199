//! Parses types and attributes.

use super::lex::Cursor;
use super::numbers::parse_float;
use super::parse::Tables;
use crate::check_type;
use crate::enums::{PointerSharing, WireEnum};
use crate::module::{Constant, stored_bytes};
use crate::reader_limits::{MAX_DEPTH, MAX_RANK};
use crate::types::{Attribute, ConstantId, DYNAMIC, Element, Pointer, PreviewType, Type, TypeId};
use base::diag::Result;
use core_dialect::memory::{MulticastReduction, Padding};
use numerics::Scalar;

impl Tables {
    pub(super) fn parse_type(&mut self, c: &mut Cursor<'_>) -> Result<TypeId> {
        let has_brackets = c.skip_if_next("!cuda_tile<");
        c.skip_if_next("!cuda_tile.");
        c.skip_space();
        let start = c.at();
        let word = c.name("a type")?;
        let ty = match word {
            _ if word.starts_with("preview$") => {
                let ty = Type::Preview(self.parse_preview_type(c, &word["preview$".len()..], start)?);
                if has_brackets {
                    c.expect(">")?;
                }
                ty
            }
            "index" => Type::Preview(PreviewType::Index),
            "none" => Type::Preview(PreviewType::None),
            "token" => Type::Token,
            "ptr" => Type::Ptr(self.parse_pointer(c)?),
            "tile" => self.parse_tile(c, start)?,
            "tensor_view" => self.parse_tensor_view(c, start)?,
            "partition_view" | "strided_view" | "gather_scatter_view" => self.parse_view(c, word, start)?,
            _ => Type::Scalar(Scalar::parse(word).ok_or_else(|| c.error_at(start, format!("unknown type: {word}")))?),
        };
        Ok(self.intern(ty))
    }

    pub(super) fn parse_types(&mut self, c: &mut Cursor<'_>) -> Result<Vec<TypeId>> {
        let mut types = vec![self.parse_type(c)?];
        while c.skip_if_next(",") {
            types.push(self.parse_type(c)?);
        }
        Ok(types)
    }

    fn parse_scalar(&self, c: &mut Cursor<'_>) -> Result<Scalar> {
        c.skip_space();
        let start = c.at();
        let word = c.word("an element type")?;
        Scalar::parse(word).ok_or_else(|| c.error_at(start, format!("unknown type: {word}")))
    }

    fn parse_pointer(&self, c: &mut Cursor<'_>) -> Result<Pointer> {
        c.expect("<")?;
        let at = c.at();
        let pointee = self.parse_scalar(c)?;
        check_type::scalar_except_i4(&Type::Scalar(pointee), "pointeeType").map_err(|message| c.error_at(at, message))?;
        let space = parse_pointer_attribute(c)?;
        c.expect(">")?;
        Ok(Pointer { pointee, space })
    }

    /// Parses `4x?x` before an element type.
    fn parse_dims(&self, c: &mut Cursor<'_>) -> Result<Box<[i64]>> {
        let mut dims = Vec::new();
        loop {
            match c.peek() {
                Some('?') => {
                    c.expect("?")?;
                    dims.push(DYNAMIC);
                }
                Some('0'..='9' | '-') => dims.push(c.integer("a dimension")?),
                _ => return Ok(dims.into()),
            }
            if dims.len() > MAX_RANK {
                return Err(c.error(format!("the most dimensions there can be are {MAX_RANK}")));
            }
            // No space follows the separator `x`, so the lexer would read `x` as the first letter of the next word.
            let Some(after) = c.rest().strip_prefix('x') else { return Err(c.error("expected 'x' after a dimension")) };
            c.set_offset(c.at() + c.rest().len() - after.len());
        }
    }

    fn parse_tile(&mut self, c: &mut Cursor<'_>, start: usize) -> Result<Type> {
        c.expect("<")?;
        let head = c.rest().split(['>', '<']).next().unwrap_or_default();
        if head.contains('[') || head.contains("preview$sym_t") {
            let (shape, symbols) = self.parse_symbolic_dims(c)?;
            let element = self.parse_type(c)?;
            c.expect(">")?;
            return Ok(Type::Preview(PreviewType::Tile { element, shape, symbols }));
        }
        let shape = self.parse_dims(c)?;
        let element = if c.skip_if_next("!cuda_tile.ptr") || c.skip_if_next("ptr") {
            Element::Ptr(self.parse_pointer(c)?)
        } else {
            Element::Scalar(self.parse_scalar(c)?)
        };
        c.expect(">")?;
        check_type::check_tile(element, &shape).map_err(|message| c.error_at(start, message))?;
        Ok(Type::Tile { element, shape })
    }

    fn parse_tensor_view(&self, c: &mut Cursor<'_>, start: usize) -> Result<Type> {
        c.expect("<")?;
        let shape = self.parse_dims(c)?;
        let element = self.parse_scalar(c)?;
        let strides = match shape.is_empty() {
            true => Vec::new(),
            false => {
                c.expect(",")?;
                c.expect("strides")?;
                c.expect("=")?;
                parse_list(c, |c| if c.skip_if_next("?") { Ok(DYNAMIC) } else { c.integer("a stride or '?'") })?
            }
        };
        let space = parse_pointer_attribute(c)?;
        c.expect(">")?;
        check_type::check_tensor_view(&shape, &strides).map_err(|message| c.error_at(start, message))?;
        Ok(Type::TensorView { element, shape, strides: strides.into(), space })
    }

    /// Parses a view after its kind, such as `partition_view`. `start` is the position of the type, for errors.
    fn parse_view(&mut self, c: &mut Cursor<'_>, kind: &str, start: usize) -> Result<Type> {
        c.expect("<")?;
        c.expect("tile")?;
        c.expect("=")?;
        c.expect("(")?;
        let tile: Box<[i32]> = parse_dims_in_parentheses(c)?.into();
        c.expect(",")?;
        let mut traversal = Box::default();
        if kind == "strided_view" {
            c.expect("traversal_strides")?;
            c.expect("=")?;
            traversal = parse_list(c, parse_i32)?.into();
            c.expect(",")?;
        }
        let padding = parse_padding(c)?;
        let at = c.at();
        let tensor = self.parse_type(c)?;
        if !matches!(self.types[tensor], Type::TensorView { .. }) {
            return Err(c.error_at(at, "expected 'tensor_view' type"));
        }
        let ty = if kind == "gather_scatter_view" {
            c.expect(",")?;
            c.expect("sparse_dim")?;
            c.expect("=")?;
            let sparse_dim = parse_i32(c)?.max(0) as u32;
            Type::GatherScatterView { tile, tensor, sparse_dim, padding }
        } else {
            let dim_map: Box<[i32]> = if c.skip_if_next(",") {
                c.expect("dim_map")?;
                c.expect("=")?;
                parse_list(c, parse_i32)?.into()
            } else {
                (0..tile.len() as i32).collect()
            };
            match kind {
                "strided_view" => Type::StridedView { tile, traversal, tensor, dim_map, padding },
                _ => Type::PartitionView { tile, tensor, dim_map, padding },
            }
        };
        c.expect(">")?;
        check_type::check_view(&self.types, &ty).map_err(|message| c.error_at(start, message))?;
        Ok(ty)
    }

    pub(super) fn parse_attributes(&mut self, c: &mut Cursor<'_>) -> Result<Box<[Attribute]>> {
        c.expect("[")?;
        let mut values = Vec::new();
        while !c.continues_with("]") {
            values.push(self.parse_attribute(c, 0)?);
            if !c.skip_if_next(",") {
                break;
            }
        }
        c.expect("]")?;
        Ok(values.into())
    }

    pub(super) fn parse_attribute(&mut self, c: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        if depth > MAX_DEPTH {
            return Err(c.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        match c.peek() {
            Some('{') => Ok(Attribute::Dictionary(self.parse_dictionary(c, depth)?)),
            Some('[') => {
                c.expect("[")?;
                let mut values = Vec::new();
                while !c.continues_with("]") {
                    values.push(self.parse_attribute(c, depth + 1)?);
                    if !c.skip_if_next(",") {
                        break;
                    }
                }
                c.expect("]")?;
                Ok(Attribute::Array(values.into()))
            }
            Some('"') => {
                let text = c.string()?;
                Ok(Attribute::String(self.intern_string(&text)))
            }
            Some('-' | '0'..='9') => self.parse_numeric_attribute(c),
            _ if c.skip_if_next("true") => Ok(Attribute::Bool(true)),
            _ if c.skip_if_next("false") => Ok(Attribute::Bool(false)),
            Some('#') if c.continues_with("#cuda_tile<preview$") => Ok(Attribute::Preview(self.parse_preview_attribute(c, depth)?)),
            Some('#') if c.skip_if_next("#cuda_tile.multimem_reduction_kind") => {
                Ok(Attribute::MulticastReduction(parse_multicast_reduction(c)?))
            }
            Some('#') if c.skip_if_next("#cuda_tile.optimization_hints") => {
                Ok(Attribute::OptimizationHints(self.parse_nested_hints(c, depth + 1)?))
            }
            Some('#') if c.continues_with("#cuda_tile.") => self.parse_predicate(c),
            _ if c.skip_if_next("dense<") => self.parse_dense(c),
            _ => Ok(Attribute::Type(self.parse_type(c)?)),
        }
    }

    /// Parses a number and its type. The default type is i64 or f64.
    fn parse_numeric_attribute(&mut self, c: &mut Cursor<'_>) -> Result<Attribute> {
        c.skip_space();
        let at = c.at();
        let text = c.number_text();
        let scalar = match c.skip_if_next(":") {
            true => self.parse_scalar(c)?,
            false if text.contains(['.', 'e', 'E']) && !text.starts_with("0x") => Scalar::F64,
            false => Scalar::I64,
        };
        let bits = number_bits(scalar, text).ok_or_else(|| c.error_at(at, format!("'{text}' is no {scalar}")))?;
        let ty = self.intern(Type::Scalar(scalar));
        Ok(if scalar.is_int() { Attribute::Integer { ty, bits } } else { Attribute::Float { ty, bits } })
    }

    /// Parses the predicate of an `assume`, such as `div_by<16>`.
    pub(super) fn parse_predicate(&mut self, c: &mut Cursor<'_>) -> Result<Attribute> {
        c.skip_if_next("#cuda_tile.");
        let bound = |c: &mut Cursor<'_>| if c.skip_if_next("?") { Ok(None) } else { c.integer("a bound or '?'").map(Some) };
        let attribute = match c.word("a predicate: div_by, same_elements or bounded")? {
            "div_by" => {
                c.expect("<")?;
                let divisor = c.integer("a divisor")? as u64;
                let (mut every, mut along) = (None, None);
                if c.skip_if_next(",") {
                    c.expect("every")?;
                    every = Some(c.integer("a number")?);
                    c.expect("along")?;
                    along = Some(c.integer("a number")?);
                }
                Attribute::DivBy { divisor, every, along }
            }
            "same_elements" => {
                c.expect("<")?;
                Attribute::SameElements(parse_list(c, |c| c.integer("a number"))?.into())
            }
            "bounded" => {
                c.expect("<")?;
                let lower = bound(c)?;
                c.expect(",")?;
                Attribute::Bounded { lower, upper: bound(c)? }
            }
            other => return Err(c.error(format!("unknown predicate '{other}'"))),
        };
        c.expect(">")?;
        Ok(attribute)
    }

    /// Parses `<f32: elements> : type`.
    pub(super) fn parse_constant(&mut self, c: &mut Cursor<'_>) -> Result<(ConstantId, TypeId)> {
        c.expect("<")?;
        let scalar = self.parse_scalar(c)?;
        c.expect(":")?;
        c.skip_space();
        let elements_start = c.at();
        let elements = parse_elements(c, scalar)?;
        let (ty, element, count) = self.parse_constant_type(c)?;
        if element != scalar {
            return Err(c.error_at(elements_start, format!("the elements are {scalar}, the type is one of {element}")));
        }
        let data = encode_elements(elements, scalar, count).map_err(|message| c.error_at(elements_start, message))?;
        Ok((self.intern_data(data), ty))
    }

    /// Parses `elements> : type`, after `dense<`. The type is read first, because it determines the form of the elements.
    fn parse_dense(&mut self, c: &mut Cursor<'_>) -> Result<Attribute> {
        let mut type_cursor = c.clone();
        let length = c.rest().find('>').ok_or_else(|| type_cursor.error("expected '>'"))?;
        type_cursor.set_offset(c.at() + length);
        let (ty, scalar, count) = self.parse_constant_type(&mut type_cursor)?;
        c.skip_space();
        let at = c.at();
        let elements = parse_elements(c, scalar)?;
        if !c.continues_with(">") {
            return Err(c.error("expected '>'"));
        }
        let data = encode_elements(elements, scalar, count).map_err(|message| c.error_at(at, message))?;
        *c = type_cursor;
        Ok(Attribute::Dense { ty, data: self.intern_data(data) })
    }

    /// Parses `> : type`. Returns the type, its element type and its number of elements.
    fn parse_constant_type(&mut self, c: &mut Cursor<'_>) -> Result<(TypeId, Scalar, usize)> {
        c.expect(">")?;
        c.expect(":")?;
        let at = c.at();
        let ty = self.parse_type(c)?;
        match self.types[ty].tile() {
            Some((Element::Scalar(scalar), shape)) => Ok((ty, scalar, shape.iter().product::<i64>() as usize)),
            _ => Err(c.error_at(at, "a constant is a tile of numbers")),
        }
    }

    /// Returns the id of constant data, and adds the data to the module on first use.
    fn intern_data(&mut self, data: Box<[u8]>) -> ConstantId {
        if let Some(id) = self.by_data.get(&data) {
            return *id;
        }
        let id = self.constants.push(Constant { data: data.clone() });
        self.by_data.insert(data, id);
        id
    }
}

/// Parses an optional pointer attribute: `, <multicast>`, or `, #cuda_tile.ptr_attr<multicast>`.
fn parse_pointer_attribute(c: &mut Cursor<'_>) -> Result<PointerSharing> {
    if !c.skip_if_next(",") {
        return Ok(PointerSharing::Absent);
    }
    c.skip_if_next("#cuda_tile.ptr_attr");
    c.expect("<")?;
    c.skip_space();
    let at = c.at();
    let word = c.word("a pointer attribute")?;
    let variant = PointerSharing::SPELLINGS.iter().position(|spelling| *spelling == word);
    let sharing = variant.and_then(|variant| PointerSharing::from_number(variant as u64));
    let sharing = sharing.ok_or_else(|| c.error_at(at, format!("expected one of: {}", PointerSharing::SPELLINGS.join(", "))))?;
    c.expect(">")?;
    Ok(sharing)
}

/// Parses a reduction in angle brackets, such as `<min>`.
pub(super) fn parse_multicast_reduction(c: &mut Cursor<'_>) -> Result<MulticastReduction> {
    c.expect("<")?;
    c.skip_space();
    let at = c.at();
    let word = c.word("a reduction")?;
    let variant = MulticastReduction::SPELLINGS.iter().position(|spelling| *spelling == word);
    let kind = variant.and_then(|variant| MulticastReduction::from_number(variant as u8));
    let kind = kind.ok_or_else(|| c.error_at(at, format!("expected one of: {}", MulticastReduction::SPELLINGS.join(", "))))?;
    c.expect(">")?;
    Ok(kind)
}

/// Parses an optional `padding_value = zero,`.
fn parse_padding(c: &mut Cursor<'_>) -> Result<Option<Padding>> {
    if !c.skip_if_next("padding_value") {
        return Ok(None);
    }
    c.expect("=")?;
    let word = c.word("a padding value")?;
    let variant = Padding::SPELLINGS.iter().position(|spelling| *spelling == word);
    let padding = variant.and_then(|variant| Padding::from_number(variant as u8));
    let expected = || format!("'{word}' is no padding value; expected one of: {}", Padding::SPELLINGS.join(", "));
    let padding = padding.ok_or_else(|| c.clone().error(expected()))?;
    c.expect(",")?;
    Ok(Some(padding))
}

fn parse_i32(c: &mut Cursor<'_>) -> Result<i32> {
    let at = c.at();
    let value = c.integer("a number")?;
    i32::try_from(value).map_err(|_| c.error_at(at, format!("{value} is too large")))
}

/// Parses the extents in `tile=(8x16)`, after the opening parenthesis.
fn parse_dims_in_parentheses(c: &mut Cursor<'_>) -> Result<Vec<i32>> {
    let mut dims = Vec::new();
    while !c.continues_with(")") {
        dims.push(parse_i32(c)?);
        if let Some(after) = c.rest().strip_prefix('x') {
            c.set_offset(c.at() + c.rest().len() - after.len());
        }
        if dims.len() > MAX_RANK {
            return Err(c.error(format!("the most dimensions there can be are {MAX_RANK}")));
        }
    }
    c.expect(")")?;
    Ok(dims)
}

/// Parses `[a, b]`. `item` parses an item.
pub(super) fn parse_list<'a, T>(c: &mut Cursor<'a>, mut item: impl FnMut(&mut Cursor<'a>) -> Result<T>) -> Result<Vec<T>> {
    c.expect("[")?;
    let mut items = Vec::new();
    while !c.continues_with("]") {
        items.push(item(c)?);
        if !c.skip_if_next(",") {
            break;
        }
    }
    c.expect("]")?;
    Ok(items)
}

/// Returns the bits of a number of a scalar type, or `None` if the type has no such number.
fn number_bits(scalar: Scalar, text: &str) -> Option<u64> {
    if scalar == Scalar::I1 {
        return match text {
            "true" | "1" | "-1" => Some(1),
            "false" | "0" => Some(0),
            _ => None,
        };
    }
    if scalar.is_float() {
        return parse_float(scalar, text);
    }
    let value: i128 = text.parse().ok()?;
    let limit = 1i128 << scalar.bits();
    (-(limit / 2)..limit).contains(&value).then_some(value as u64 & scalar.mask())
}

/// The elements of a constant in the text: the bits that all elements have, the bits of each element, or the bytes of the data.
enum Elements {
    Splat(u64),
    List(Vec<u64>),
    Raw(Vec<u8>),
}

fn parse_elements(c: &mut Cursor<'_>, scalar: Scalar) -> Result<Elements> {
    match c.peek() {
        Some('"') => {
            let text = c.string()?;
            let digits = text.strip_prefix("0x").unwrap_or_default();
            let bytes = digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
            let bytes: Option<Vec<u8>> = bytes.collect();
            bytes.map(Elements::Raw).ok_or_else(|| c.error("expected hexadecimal digits after 0x"))
        }
        Some('[') => {
            // The parser ignores the nesting of brackets, because the type determines the dimensions.
            let mut bits = Vec::new();
            let mut depth = 0;
            loop {
                if c.skip_if_next("[") {
                    depth += 1;
                } else if c.skip_if_next("]") {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(Elements::List(bits));
                    }
                } else if !c.skip_if_next(",") {
                    bits.push(parse_element(c, scalar)?);
                }
            }
        }
        _ => Ok(Elements::Splat(parse_element(c, scalar)?)),
    }
}

fn parse_element(c: &mut Cursor<'_>, scalar: Scalar) -> Result<u64> {
    c.skip_space();
    let at = c.at();
    let text = c.number_text();
    number_bits(scalar, text).ok_or_else(|| c.error_at(at, format!("expected an element of type {scalar}")))
}

/// Returns the bytes of constant data with `count` elements.
fn encode_elements(elements: Elements, scalar: Scalar, count: usize) -> std::result::Result<Box<[u8]>, String> {
    let count_error = |got: usize| format!("the type has {count} elements, and {got} are given");
    if let Elements::Raw(bytes) = elements {
        return crate::module::check_constant_size(&bytes, scalar, count).map(|()| bytes.into());
    }
    let bits = match &elements {
        Elements::List(bits) if bits.len() != count => return Err(count_error(bits.len())),
        Elements::List(bits) => &bits[..],
        Elements::Splat(bits) => std::slice::from_ref(bits),
        Elements::Raw(_) => &[],
    };
    if scalar == Scalar::I1 {
        return Ok(encode_bools(bits, count));
    }
    let size = stored_bytes(scalar);
    let shift = if scalar == Scalar::TF32 { 13 } else { 0 };
    Ok(bits.iter().flat_map(|bits| (bits >> shift).to_le_bytes().into_iter().take(size)).collect())
}

/// Packs i1 elements into bytes, the first in the lowest bit. One byte stands for more than eight equal elements.
fn encode_bools(bits: &[u64], count: usize) -> Box<[u8]> {
    if let ([value], 9..) = (bits, count) {
        return Box::new([if *value != 0 { 0xFF } else { 0 }]);
    }
    let bit = |index: usize| bits.get(index).or(bits.first()).is_some_and(|bit| *bit != 0);
    let byte = |at: usize| (0..8.min(count - at * 8)).fold(0u8, |byte, i| byte | u8::from(bit(at * 8 + i)) << i);
    (0..count.div_ceil(8)).map(byte).collect()
}
