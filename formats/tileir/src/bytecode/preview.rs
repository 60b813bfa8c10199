//! Reads preview content: symbolic expressions, types that contain them, and functions without a body in this module.

use super::cursor::{Cursor, ErrorContext};
use super::error::{ReadError, Result};
use super::reader::Tables;
use super::tables::Strings;
use super::types::{Types, read_enum_number};
use crate::enums::{ExprOp, MemorySpace, Synchronization, Visibility, WireEnum};
use crate::gates::{ATTRIBUTES, AttributeKind, TypeKind};
use crate::preview::{Extern, Implementation, check_symbols};
use crate::reader_limits::MAX_DEPTH;
use crate::types::{Attribute, Dictionary, Fragment, Preview, PreviewType, StringId, TypeId};

/// Reads the tag and the payload of an attribute that must be preview content.
pub(super) fn read_tagged_attribute(
    types: &mut Types<'_>,
    strings: &mut Strings<'_>,
    cursor: &mut Cursor<'_>,
    depth: usize,
) -> Result<Preview> {
    let tag_number = cursor.varint().with_message(cursor, "failed to read AttributeTag for self-contained attribute.")?;
    let row = ATTRIBUTES.iter().find(|row| u64::from(row.tag) == tag_number && row.preview);
    let row = row.ok_or_else(|| cursor.error(format!("attribute tag {tag_number} is none of preview content")))?;
    read_attribute(row.kind, types, strings, cursor, depth)
}

/// Reads the payload of a preview attribute, after its tag.
pub(super) fn read_attribute(
    kind: AttributeKind,
    types: &mut Types<'_>,
    strings: &mut Strings<'_>,
    cursor: &mut Cursor<'_>,
    depth: usize,
) -> Result<Preview> {
    if depth > MAX_DEPTH {
        return Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
    }
    let mut read_operand = |cursor: &mut Cursor<'_>| read_tagged_attribute(types, strings, cursor, depth + 1).map(Box::new);
    let binary_op = match kind {
        AttributeKind::ExprMul => Some(ExprOp::Mul),
        AttributeKind::ExprDiv => Some(ExprOp::Div),
        AttributeKind::ExprAdd => Some(ExprOp::Add),
        AttributeKind::ExprSub => Some(ExprOp::Sub),
        AttributeKind::ExprFloorDiv => Some(ExprOp::FloorDiv),
        AttributeKind::ExprCeilDiv => Some(ExprOp::CeilDiv),
        _ => None,
    };
    if let Some(op) = binary_op {
        return Ok(Preview::Binary { op, lhs: read_operand(cursor)?, rhs: read_operand(cursor)? });
    }
    Ok(match kind {
        AttributeKind::ExprNeg => Preview::Neg(read_operand(cursor)?),
        AttributeKind::ScratchRequest => Preview::Scratch { size: read_operand(cursor)?, alignment: read_operand(cursor)? },
        AttributeKind::ExprInt => Preview::Int(cursor.signed_varint().with_message(cursor, "failed to read an integer")? as i64),
        AttributeKind::ExprVar => Preview::Var(read_string(strings, cursor)?),
        AttributeKind::ExprConstString => Preview::ConstString(read_string(strings, cursor)?),
        AttributeKind::SymbolicTuple => Preview::Tuple(read_list(types, strings, cursor, depth)?),
        AttributeKind::Layout => {
            let shape = read_list(types, strings, cursor, depth)?;
            Preview::Layout { shape, strides: read_list(types, strings, cursor, depth)? }
        }
        AttributeKind::ConcreteType => Preview::ConcreteType(read_type(types, strings, cursor)?),
        AttributeKind::MemorySpace => Preview::MemorySpace(read_enum_value(cursor)?),
        AttributeKind::Synchronization => Preview::Synchronization(read_enum_value(cursor)?),
        AttributeKind::Access => Preview::Access(read_enum_value(cursor)?),
        AttributeKind::ConstParam => {
            let name = read_string(strings, cursor)?;
            Preview::ConstParam { name, ty: read_type(types, strings, cursor)? }
        }
        AttributeKind::ExprBuiltin => {
            let name = read_string(strings, cursor)?;
            Preview::Builtin { name, ty: read_type(types, strings, cursor)? }
        }
        _ => return Err(cursor.error(format!("attribute {kind:?} is none of preview content"))),
    })
}

fn read_string(strings: &mut Strings<'_>, cursor: &mut Cursor<'_>) -> Result<StringId> {
    strings.read(cursor).with_message(cursor, "failed to read StringAttr.")
}

fn read_type(types: &mut Types<'_>, strings: &mut Strings<'_>, cursor: &mut Cursor<'_>) -> Result<TypeId> {
    types.read(cursor, strings).with_message(cursor, "failed to get referenced type for TypeAttr")
}

/// Reads an enumeration value.
fn read_enum_value<E: WireEnum>(cursor: &mut Cursor<'_>) -> Result<E> {
    let variant_number = cursor.varint().with_message(cursor, "failed to read VarInt for enum attribute.")?;
    let value = u8::try_from(variant_number).ok().and_then(E::from_number);
    value.ok_or_else(|| cursor.error(format!("invalid enum value for value: {variant_number}")))
}

/// Reads a count and as many tagged attributes.
fn read_list(types: &mut Types<'_>, strings: &mut Strings<'_>, cursor: &mut Cursor<'_>, depth: usize) -> Result<Box<[Preview]>> {
    let count = cursor.count().with_message(cursor, "failed to read the number of expressions")?;
    (0..count).map(|_| read_tagged_attribute(types, strings, cursor, depth + 1)).collect()
}

impl Types<'_> {
    /// Reads the payload of a type that exists only in preview content.
    pub(super) fn decode_preview_type(
        &mut self,
        kind: TypeKind,
        cursor: &mut Cursor<'_>,
        strings: &mut Strings<'_>,
    ) -> Result<PreviewType> {
        Ok(match kind {
            TypeKind::Symbol => match read_tagged_attribute(self, strings, cursor, 0)? {
                name @ Preview::Var(_) => PreviewType::Symbol(name),
                _ => return Err(cursor.error("a symbolic type is a name")),
            },
            TypeKind::Datatype => PreviewType::Datatype,
            TypeKind::Shape => PreviewType::Shape,
            TypeKind::String => PreviewType::String,
            TypeKind::Index => PreviewType::Index,
            TypeKind::None => PreviewType::None,
            _ => PreviewType::Fragment(Box::new(self.decode_fragment(cursor, strings)?)),
        })
    }

    fn decode_fragment(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Fragment> {
        let symbols = read_tagged_attribute(self, strings, cursor, 0).with_message(cursor, "failed to read symbolicShape")?;
        let shape = cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read concreteShapeCache")?;
        let symbols = symbolic_extents(symbols, &shape).map_err(|message| cursor.error(message))?;
        let element = self.read(cursor, strings).with_message(cursor, "failed to get elementType type")?;
        let variant_number = read_enum_number(cursor)?;
        let space = u8::try_from(variant_number).ok().and_then(MemorySpace::from_number);
        let space = space.ok_or_else(|| cursor.error(format!("invalid integer value for enum type: {variant_number}")))?;
        let layout = read_tagged_attribute(self, strings, cursor, 0)?;
        let map = read_tagged_attribute(self, strings, cursor, 0)?;
        let alignment = read_tagged_attribute(self, strings, cursor, 0)?;
        if ![&layout, &map].into_iter().all(|layout| matches!(layout, Preview::Layout { .. })) {
            return Err(cursor.error("the layout and the map of a fragment are layouts"));
        }
        Ok(Fragment { symbols, shape, element, space, layout, map, alignment })
    }

    /// Reads the symbolic extents of a tile type, which follow its element type and shape.
    pub(super) fn decode_symbolic_tile(
        &mut self,
        element: TypeId,
        shape: Box<[i64]>,
        cursor: &mut Cursor<'_>,
        strings: &mut Strings<'_>,
    ) -> Result<PreviewType> {
        let symbols = read_tagged_attribute(self, strings, cursor, 0).with_message(cursor, "failed to read symbolicShapeAttr")?;
        let symbols = symbolic_extents(symbols, &shape).map_err(|message| cursor.error(message))?;
        Ok(PreviewType::Tile { element, shape, symbols })
    }
}

/// Returns the extents of a symbolic shape, which must be a tuple. Checks the extents against `shape`, which has the numeric
/// extents and [`DYNAMIC`](crate::types::DYNAMIC) for the other extents.
pub(crate) fn symbolic_extents(tuple: Preview, shape: &[i64]) -> std::result::Result<Box<[Preview]>, String> {
    let Preview::Tuple(symbols) = tuple else { return Err("a symbolic shape is a tuple".into()) };
    check_symbols(&symbols, shape)?;
    Ok(symbols)
}

/// The function table's record of a function without a body.
pub(super) struct ExternRecord {
    pub(super) const_params: Box<[Preview]>,
    pub(super) implementation: Option<Box<Implementation>>,
    pub(super) arg_attrs: Option<Box<[Dictionary]>>,
    /// The function type in the record of an implementation. It must equal the type in the function table.
    pub(super) ty: Option<TypeId>,
}

/// Bits of the flags word of an extern implementation. A bit is set if the record has the optional part.
mod bit {
    pub(super) const CONST_PARAMS: u64 = 1;
    pub(super) const CONST_ARGS: u64 = 1 << 1;
    pub(super) const ARG_ATTRS: u64 = 1 << 2;
    pub(super) const RES_ATTRS: u64 = 1 << 3;
    pub(super) const SCRATCH: u64 = 1 << 4;
    pub(super) const CONFIG: u64 = 1 << 5;
    pub(super) const ARCH: u64 = 1 << 6;
    pub(super) const ABI: u64 = 1 << 7;
    pub(super) const SYNCHRONIZATION: u64 = 1 << 8;
    pub(super) const SCORE: u64 = 1 << 9;
}

impl Tables<'_> {
    /// Reads a count and as many preview attributes.
    fn read_previews(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[Preview]>> {
        read_list(&mut self.types, &mut self.strings, cursor, 0)
    }

    /// Reads the constant parameters of a declaration: the tag of an array, a count, and tagged attributes.
    pub(super) fn read_declaration(&mut self, cursor: &mut Cursor<'_>) -> Result<ExternRecord> {
        let tag = cursor.varint().with_message(cursor, "failed to read the parameters of a declaration")?;
        if tag != u64::from(AttributeKind::Array.row().tag) {
            return Err(cursor.error("the parameters of a declaration are not an array"));
        }
        let const_params = self.read_previews(cursor)?;
        Ok(ExternRecord { const_params, implementation: None, arg_attrs: None, ty: None })
    }

    /// Reads the op of an extern implementation, which the function table contains in place of a body.
    pub(super) fn read_implementation(&mut self, cursor: &mut Cursor<'_>) -> Result<ExternRecord> {
        let record = self.read_implementation_fields(cursor);
        record.with_message(cursor, "failed to parse extern implementation in function table")
    }

    fn read_implementation_fields(&mut self, cursor: &mut Cursor<'_>) -> Result<ExternRecord> {
        let flags = cursor.varint().with_message(cursor, "failed to read flags field")?;
        let has = |bit: u64| flags & bit != 0;
        self.strings
            .read(cursor)
            .with_message(cursor, "failed to read StringAttr.")
            .with_message(cursor, "failed to parse attribute 'sym_name'")?;
        let implements = self.strings.read(cursor).with_message(cursor, "failed to read string for FlatSymbolRefAttr.");
        let implements = implements.with_message(cursor, "failed to parse attribute 'implements'")?;
        let const_params = if has(bit::CONST_PARAMS) { self.read_previews(cursor)? } else { Box::default() };
        let const_args = if has(bit::CONST_ARGS) { self.read_previews(cursor)? } else { Box::default() };
        let ty = self.types.read(cursor, &mut self.strings).with_message(cursor, "failed to parse attribute 'function_type'")?;
        let arg_attrs = if has(bit::ARG_ATTRS) { Some(self.read_dictionaries(cursor)?) } else { None };
        let res_attrs = if has(bit::RES_ATTRS) {
            Some(self.read_dictionaries(cursor)?.into_iter().map(Attribute::Dictionary).collect())
        } else {
            None
        };
        let scratch = match has(bit::SCRATCH) {
            true => {
                let size = read_tagged_attribute(&mut self.types, &mut self.strings, cursor, 0)?;
                Some((size, read_tagged_attribute(&mut self.types, &mut self.strings, cursor, 0)?))
            }
            false => None,
        };
        let config = if has(bit::CONFIG) { Some(self.read_dictionary(cursor)?) } else { None };
        let arch = if has(bit::ARCH) { Some(self.read_architectures(cursor)?) } else { None };
        let abi = if has(bit::ABI) { Some(self.read_dictionary(cursor)?) } else { None };
        let synchronization = if has(bit::SYNCHRONIZATION) { Some(read_enum_value::<Synchronization>(cursor)?) } else { None };
        let provider_score = if has(bit::SCORE) {
            Some(cursor.varint().with_message(cursor, "failed to parse attribute 'provider_score'")?)
        } else {
            None
        };
        let regions = cursor.count().with_message(cursor, "failed to read number of regions to parse.")?;
        if regions != 1 {
            return Err(cursor.error(format!("cuda_tile.preview$extern_impl op expected 1 regions, got {regions}")));
        }
        if cursor.varint().with_message(cursor, "failed to read region block count")? != 0 {
            return Err(cursor.error("an extern implementation has no block"));
        }
        let implementation =
            Implementation { implements, const_args, res_attrs, scratch, config, arch, abi, synchronization, provider_score };
        Ok(ExternRecord { const_params, implementation: Some(Box::new(implementation)), arg_attrs, ty: Some(ty) })
    }

    /// Reads a count and as many names of architectures, each after the tag of a string.
    fn read_architectures(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[StringId]>> {
        let count = cursor.count().with_message(cursor, "failed to read size for ArrayAttr.")?;
        let mut names = Vec::new();
        for _ in 0..count {
            match self.read_attribute(cursor)? {
                Attribute::String(name) => names.push(name),
                _ => return Err(cursor.error("an architecture is a string")),
            }
        }
        Ok(names.into())
    }
}

impl ExternRecord {
    /// Combines the record with the fields that the function table has for every function.
    pub(super) fn to_extern(
        &self,
        name: StringId,
        ty: TypeId,
        visibility: Visibility,
        arg_attrs: &[Dictionary],
        loc: base::Loc,
    ) -> Result<Extern> {
        if self.ty.is_some_and(|repeated| repeated != ty) {
            return Err(ReadError::without_offset("an extern implementation has another type than its entry in the table"));
        }
        let arg_attrs = self.arg_attrs.as_deref().unwrap_or(arg_attrs).into();
        let (const_params, implementation) = (self.const_params.clone(), self.implementation.clone());
        Ok(Extern { name, ty, visibility, arg_attrs, const_params, implementation, loc, after: 0 })
    }
}
