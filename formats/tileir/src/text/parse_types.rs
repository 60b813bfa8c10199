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
    pub(super) fn parse_type(&mut self, cursor: &mut Cursor<'_>) -> Result<TypeId> {
        let has_brackets = cursor.skip_if_next("!cuda_tile<");
        cursor.skip_if_next("!cuda_tile.");
        cursor.skip_space();
        let start = cursor.offset();
        let word = cursor.name("a type")?;
        let ty = match word {
            _ if word.starts_with("preview$") => {
                let ty = Type::Preview(self.parse_preview_type(cursor, &word["preview$".len()..], start)?);
                if has_brackets {
                    cursor.expect(">")?;
                }
                ty
            }
            "index" => Type::Preview(PreviewType::Index),
            "none" => Type::Preview(PreviewType::None),
            "token" => Type::Token,
            "ptr" => Type::Ptr(self.parse_pointer(cursor)?),
            "tile" => self.parse_tile(cursor, start)?,
            "tensor_view" => self.parse_tensor_view(cursor, start)?,
            "partition_view" | "strided_view" | "gather_scatter_view" => self.parse_view(cursor, word, start)?,
            _ => Type::Scalar(Scalar::parse(word).ok_or_else(|| cursor.error_at(start, format!("unknown type: {word}")))?),
        };
        Ok(self.intern(ty))
    }

    pub(super) fn parse_types(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<TypeId>> {
        let mut types = vec![self.parse_type(cursor)?];
        while cursor.skip_if_next(",") {
            types.push(self.parse_type(cursor)?);
        }
        Ok(types)
    }

    fn parse_scalar(&self, cursor: &mut Cursor<'_>) -> Result<Scalar> {
        cursor.skip_space();
        let start = cursor.offset();
        let word = cursor.word("an element type")?;
        Scalar::parse(word).ok_or_else(|| cursor.error_at(start, format!("unknown type: {word}")))
    }

    fn parse_pointer(&self, cursor: &mut Cursor<'_>) -> Result<Pointer> {
        cursor.expect("<")?;
        let offset = cursor.offset();
        let pointee = self.parse_scalar(cursor)?;
        check_type::scalar_except_i4(&Type::Scalar(pointee), "pointeeType").map_err(|message| cursor.error_at(offset, message))?;
        let space = parse_pointer_attribute(cursor)?;
        cursor.expect(">")?;
        Ok(Pointer { pointee, space })
    }

    /// Parses `4x?x` before an element type.
    fn parse_dims(&self, cursor: &mut Cursor<'_>) -> Result<Box<[i64]>> {
        let mut dims = Vec::new();
        loop {
            match cursor.peek() {
                Some('?') => {
                    cursor.expect("?")?;
                    dims.push(DYNAMIC);
                }
                Some('0'..='9' | '-') => dims.push(cursor.integer("a dimension")?),
                _ => return Ok(dims.into()),
            }
            if dims.len() > MAX_RANK {
                return Err(cursor.error(format!("the most dimensions there can be are {MAX_RANK}")));
            }
            // No space follows the separator `x`, so the lexer would read `x` as the first letter of the next word.
            let Some(after) = cursor.rest().strip_prefix('x') else { return Err(cursor.error("expected 'x' after a dimension")) };
            cursor.set_offset(cursor.offset() + cursor.rest().len() - after.len());
        }
    }

    fn parse_tile(&mut self, cursor: &mut Cursor<'_>, start: usize) -> Result<Type> {
        cursor.expect("<")?;
        let head = cursor.rest().split(['>', '<']).next().unwrap_or_default();
        if head.contains('[') || head.contains("preview$sym_t") {
            let (shape, symbols) = self.parse_symbolic_dims(cursor)?;
            let element = self.parse_type(cursor)?;
            cursor.expect(">")?;
            return Ok(Type::Preview(PreviewType::Tile { element, shape, symbols }));
        }
        let shape = self.parse_dims(cursor)?;
        let element = if cursor.skip_if_next("!cuda_tile.ptr") || cursor.skip_if_next("ptr") {
            Element::Ptr(self.parse_pointer(cursor)?)
        } else {
            Element::Scalar(self.parse_scalar(cursor)?)
        };
        cursor.expect(">")?;
        check_type::check_tile(element, &shape).map_err(|message| cursor.error_at(start, message))?;
        Ok(Type::Tile { element, shape })
    }

    fn parse_tensor_view(&self, cursor: &mut Cursor<'_>, start: usize) -> Result<Type> {
        cursor.expect("<")?;
        let shape = self.parse_dims(cursor)?;
        let element = self.parse_scalar(cursor)?;
        let strides = match shape.is_empty() {
            true => Vec::new(),
            false => {
                cursor.expect(",")?;
                cursor.expect("strides")?;
                cursor.expect("=")?;
                parse_list(cursor, |cursor| if cursor.skip_if_next("?") { Ok(DYNAMIC) } else { cursor.integer("a stride or '?'") })?
            }
        };
        let space = parse_pointer_attribute(cursor)?;
        cursor.expect(">")?;
        check_type::check_tensor_view(&shape, &strides).map_err(|message| cursor.error_at(start, message))?;
        Ok(Type::TensorView { element, shape, strides: strides.into(), space })
    }

    /// Parses a view after its kind, such as `partition_view`. `start` is the position of the type, for errors.
    fn parse_view(&mut self, cursor: &mut Cursor<'_>, kind: &str, start: usize) -> Result<Type> {
        cursor.expect("<")?;
        cursor.expect("tile")?;
        cursor.expect("=")?;
        cursor.expect("(")?;
        let tile: Box<[i32]> = parse_dims_in_parentheses(cursor)?.into();
        cursor.expect(",")?;
        let mut traversal = Box::default();
        if kind == "strided_view" {
            cursor.expect("traversal_strides")?;
            cursor.expect("=")?;
            traversal = parse_list(cursor, parse_i32)?.into();
            cursor.expect(",")?;
        }
        let padding = parse_padding(cursor)?;
        let offset = cursor.offset();
        let tensor = self.parse_type(cursor)?;
        if !matches!(self.types[tensor], Type::TensorView { .. }) {
            return Err(cursor.error_at(offset, "expected 'tensor_view' type"));
        }
        let ty = if kind == "gather_scatter_view" {
            cursor.expect(",")?;
            cursor.expect("sparse_dim")?;
            cursor.expect("=")?;
            let sparse_dim = parse_i32(cursor)?.max(0) as u32;
            Type::GatherScatterView { tile, tensor, sparse_dim, padding }
        } else {
            let dim_map: Box<[i32]> = if cursor.skip_if_next(",") {
                cursor.expect("dim_map")?;
                cursor.expect("=")?;
                parse_list(cursor, parse_i32)?.into()
            } else {
                (0..tile.len() as i32).collect()
            };
            match kind {
                "strided_view" => Type::StridedView { tile, traversal, tensor, dim_map, padding },
                _ => Type::PartitionView { tile, tensor, dim_map, padding },
            }
        };
        cursor.expect(">")?;
        check_type::check_view(&self.types, &ty).map_err(|message| cursor.error_at(start, message))?;
        Ok(ty)
    }

    pub(super) fn parse_attributes(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[Attribute]>> {
        cursor.expect("[")?;
        let mut values = Vec::new();
        while !cursor.continues_with("]") {
            values.push(self.parse_attribute(cursor, 0)?);
            if !cursor.skip_if_next(",") {
                break;
            }
        }
        cursor.expect("]")?;
        Ok(values.into())
    }

    pub(super) fn parse_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        if depth > MAX_DEPTH {
            return Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        match cursor.peek() {
            Some('{') => Ok(Attribute::Dictionary(self.parse_dictionary(cursor, depth)?)),
            Some('[') => {
                cursor.expect("[")?;
                let mut values = Vec::new();
                while !cursor.continues_with("]") {
                    values.push(self.parse_attribute(cursor, depth + 1)?);
                    if !cursor.skip_if_next(",") {
                        break;
                    }
                }
                cursor.expect("]")?;
                Ok(Attribute::Array(values.into()))
            }
            Some('"') => {
                let text = cursor.string()?;
                Ok(Attribute::String(self.intern_string(&text)))
            }
            Some('-' | '0'..='9') => self.parse_numeric_attribute(cursor),
            _ if cursor.skip_if_next("true") => Ok(Attribute::Bool(true)),
            _ if cursor.skip_if_next("false") => Ok(Attribute::Bool(false)),
            Some('#') if cursor.continues_with("#cuda_tile<preview$") => {
                Ok(Attribute::Preview(self.parse_preview_attribute(cursor, depth)?))
            }
            Some('#') if cursor.skip_if_next("#cuda_tile.multimem_reduction_kind") => {
                Ok(Attribute::MulticastReduction(parse_multicast_reduction(cursor)?))
            }
            Some('#') if cursor.skip_if_next("#cuda_tile.optimization_hints") => {
                Ok(Attribute::OptimizationHints(self.parse_nested_hints(cursor, depth + 1)?))
            }
            Some('#') if cursor.continues_with("#cuda_tile.") => self.parse_predicate(cursor),
            _ if cursor.skip_if_next("dense<") => self.parse_dense(cursor),
            _ => Ok(Attribute::Type(self.parse_type(cursor)?)),
        }
    }

    /// Parses a number and its type. The default type is i64 or f64.
    fn parse_numeric_attribute(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        cursor.skip_space();
        let offset = cursor.offset();
        let text = cursor.number_text();
        let scalar = match cursor.skip_if_next(":") {
            true => self.parse_scalar(cursor)?,
            false if text.contains(['.', 'e', 'E']) && !text.starts_with("0x") => Scalar::F64,
            false => Scalar::I64,
        };
        let bits = number_bits(scalar, text).ok_or_else(|| cursor.error_at(offset, format!("'{text}' is no {scalar}")))?;
        let ty = self.intern(Type::Scalar(scalar));
        Ok(if scalar.is_int() { Attribute::Integer { ty, bits } } else { Attribute::Float { ty, bits } })
    }

    /// Parses the predicate of an `assume`, such as `div_by<16>`.
    pub(super) fn parse_predicate(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        cursor.skip_if_next("#cuda_tile.");
        let bound =
            |cursor: &mut Cursor<'_>| if cursor.skip_if_next("?") { Ok(None) } else { cursor.integer("a bound or '?'").map(Some) };
        let attribute = match cursor.word("a predicate: div_by, same_elements or bounded")? {
            "div_by" => {
                cursor.expect("<")?;
                let divisor = cursor.integer("a divisor")? as u64;
                let (mut every, mut along) = (None, None);
                if cursor.skip_if_next(",") {
                    cursor.expect("every")?;
                    every = Some(cursor.integer("a number")?);
                    cursor.expect("along")?;
                    along = Some(cursor.integer("a number")?);
                }
                Attribute::DivBy { divisor, every, along }
            }
            "same_elements" => {
                cursor.expect("<")?;
                Attribute::SameElements(parse_list(cursor, |cursor| cursor.integer("a number"))?.into())
            }
            "bounded" => {
                cursor.expect("<")?;
                let lower = bound(cursor)?;
                cursor.expect(",")?;
                Attribute::Bounded { lower, upper: bound(cursor)? }
            }
            other => return Err(cursor.error(format!("unknown predicate '{other}'"))),
        };
        cursor.expect(">")?;
        Ok(attribute)
    }

    /// Parses `<f32: elements> : type`.
    pub(super) fn parse_constant(&mut self, cursor: &mut Cursor<'_>) -> Result<(ConstantId, TypeId)> {
        cursor.expect("<")?;
        let scalar = self.parse_scalar(cursor)?;
        cursor.expect(":")?;
        cursor.skip_space();
        let elements_start = cursor.offset();
        let elements = parse_elements(cursor, scalar)?;
        let (ty, element, count) = self.parse_constant_type(cursor)?;
        if element != scalar {
            return Err(cursor.error_at(elements_start, format!("the elements are {scalar}, the type is one of {element}")));
        }
        let data = encode_elements(elements, scalar, count).map_err(|message| cursor.error_at(elements_start, message))?;
        Ok((self.intern_data(data), ty))
    }

    /// Parses `elements> : type`, after `dense<`. The type is read first, because it determines the form of the elements.
    fn parse_dense(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        let mut type_cursor = cursor.clone();
        let length = cursor.rest().find('>').ok_or_else(|| type_cursor.error("expected '>'"))?;
        type_cursor.set_offset(cursor.offset() + length);
        let (ty, scalar, count) = self.parse_constant_type(&mut type_cursor)?;
        cursor.skip_space();
        let offset = cursor.offset();
        let elements = parse_elements(cursor, scalar)?;
        if !cursor.continues_with(">") {
            return Err(cursor.error("expected '>'"));
        }
        let data = encode_elements(elements, scalar, count).map_err(|message| cursor.error_at(offset, message))?;
        *cursor = type_cursor;
        Ok(Attribute::Dense { ty, data: self.intern_data(data) })
    }

    /// Parses `> : type`. Returns the type, its element type and its number of elements.
    fn parse_constant_type(&mut self, cursor: &mut Cursor<'_>) -> Result<(TypeId, Scalar, usize)> {
        cursor.expect(">")?;
        cursor.expect(":")?;
        let offset = cursor.offset();
        let ty = self.parse_type(cursor)?;
        match self.types[ty].tile() {
            Some((Element::Scalar(scalar), shape)) => Ok((ty, scalar, shape.iter().product::<i64>() as usize)),
            _ => Err(cursor.error_at(offset, "a constant is a tile of numbers")),
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
fn parse_pointer_attribute(cursor: &mut Cursor<'_>) -> Result<PointerSharing> {
    if !cursor.skip_if_next(",") {
        return Ok(PointerSharing::Absent);
    }
    cursor.skip_if_next("#cuda_tile.ptr_attr");
    cursor.expect("<")?;
    cursor.skip_space();
    let offset = cursor.offset();
    let word = cursor.word("a pointer attribute")?;
    let variant = PointerSharing::SPELLINGS.iter().position(|spelling| *spelling == word);
    let sharing = variant.and_then(|variant| PointerSharing::from_number(variant as u64));
    let sharing =
        sharing.ok_or_else(|| cursor.error_at(offset, format!("expected one of: {}", PointerSharing::SPELLINGS.join(", "))))?;
    cursor.expect(">")?;
    Ok(sharing)
}

/// Parses a reduction in angle brackets, such as `<min>`.
pub(super) fn parse_multicast_reduction(cursor: &mut Cursor<'_>) -> Result<MulticastReduction> {
    cursor.expect("<")?;
    cursor.skip_space();
    let offset = cursor.offset();
    let word = cursor.word("a reduction")?;
    let variant = MulticastReduction::SPELLINGS.iter().position(|spelling| *spelling == word);
    let kind = variant.and_then(|variant| MulticastReduction::from_number(variant as u8));
    let kind =
        kind.ok_or_else(|| cursor.error_at(offset, format!("expected one of: {}", MulticastReduction::SPELLINGS.join(", "))))?;
    cursor.expect(">")?;
    Ok(kind)
}

/// Parses an optional `padding_value = zero,`.
fn parse_padding(cursor: &mut Cursor<'_>) -> Result<Option<Padding>> {
    if !cursor.skip_if_next("padding_value") {
        return Ok(None);
    }
    cursor.expect("=")?;
    let word = cursor.word("a padding value")?;
    let variant = Padding::SPELLINGS.iter().position(|spelling| *spelling == word);
    let padding = variant.and_then(|variant| Padding::from_number(variant as u8));
    let expected = || format!("'{word}' is no padding value; expected one of: {}", Padding::SPELLINGS.join(", "));
    let padding = padding.ok_or_else(|| cursor.clone().error(expected()))?;
    cursor.expect(",")?;
    Ok(Some(padding))
}

fn parse_i32(cursor: &mut Cursor<'_>) -> Result<i32> {
    let offset = cursor.offset();
    let value = cursor.integer("a number")?;
    i32::try_from(value).map_err(|_| cursor.error_at(offset, format!("{value} is too large")))
}

/// Parses the extents in `tile=(8x16)`, after the opening parenthesis.
fn parse_dims_in_parentheses(cursor: &mut Cursor<'_>) -> Result<Vec<i32>> {
    let mut dims = Vec::new();
    while !cursor.continues_with(")") {
        dims.push(parse_i32(cursor)?);
        if let Some(after) = cursor.rest().strip_prefix('x') {
            cursor.set_offset(cursor.offset() + cursor.rest().len() - after.len());
        }
        if dims.len() > MAX_RANK {
            return Err(cursor.error(format!("the most dimensions there can be are {MAX_RANK}")));
        }
    }
    cursor.expect(")")?;
    Ok(dims)
}

/// Parses `[a, b]`. `item` parses an item.
pub(super) fn parse_list<'a, T>(cursor: &mut Cursor<'a>, mut item: impl FnMut(&mut Cursor<'a>) -> Result<T>) -> Result<Vec<T>> {
    cursor.expect("[")?;
    let mut items = Vec::new();
    while !cursor.continues_with("]") {
        items.push(item(cursor)?);
        if !cursor.skip_if_next(",") {
            break;
        }
    }
    cursor.expect("]")?;
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

fn parse_elements(cursor: &mut Cursor<'_>, scalar: Scalar) -> Result<Elements> {
    match cursor.peek() {
        Some('"') => {
            let text = cursor.string()?;
            let digits = text.strip_prefix("0x").unwrap_or_default();
            let bytes = digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
            let bytes: Option<Vec<u8>> = bytes.collect();
            bytes.map(Elements::Raw).ok_or_else(|| cursor.error("expected hexadecimal digits after 0x"))
        }
        Some('[') => {
            // The parser ignores the nesting of brackets, because the type determines the dimensions.
            let mut bits = Vec::new();
            let mut depth = 0;
            loop {
                if cursor.skip_if_next("[") {
                    depth += 1;
                } else if cursor.skip_if_next("]") {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(Elements::List(bits));
                    }
                } else if !cursor.skip_if_next(",") {
                    bits.push(parse_element(cursor, scalar)?);
                }
            }
        }
        _ => Ok(Elements::Splat(parse_element(cursor, scalar)?)),
    }
}

fn parse_element(cursor: &mut Cursor<'_>, scalar: Scalar) -> Result<u64> {
    cursor.skip_space();
    let offset = cursor.offset();
    let text = cursor.number_text();
    number_bits(scalar, text).ok_or_else(|| cursor.error_at(offset, format!("expected an element of type {scalar}")))
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
    let byte = |offset: usize| (0..8.min(count - offset * 8)).fold(0u8, |byte, i| byte | u8::from(bit(offset * 8 + i)) << i);
    (0..count.div_ceil(8)).map(byte).collect()
}
