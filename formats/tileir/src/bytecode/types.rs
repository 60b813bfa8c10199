//! The type table. Records are decoded on use, and equal types share one id.

use super::cursor::{Context, Cursor};
use super::error::{ReadError, Result};
use super::tables::{Offsets, Strings, offset_table};
use super::{EXPANSION, MAX_RANK};
use crate::check_type;
use crate::enums::WireEnum;
use crate::gates::{self, Feature, TYPES, TypeKind, TypeRow};
use crate::preview::{Preview, PreviewType};
use crate::text::types::{Tables, TypeText, type_text};
use crate::types::{Element, Pointer, PointerSpace, Type, TypeId};
use crate::version::Version;
use base::{Arena, entity::Entity};
use core_dialect::memory::Padding;
use std::collections::HashMap;

/// A valid type nests at most four levels: function, view, tensor view, scalar. The limit finds errors before they exhaust the
/// stack.
const MAX_NESTING: usize = 16;

pub(super) struct Types<'a> {
    version: Version,
    /// Whether the header signals preview content.
    preview: bool,
    offsets: Offsets<'a>,
    data: &'a [u8],
    ids: Vec<Option<TypeId>>,
    being_read: Vec<u64>,
    by_type: HashMap<Type, TypeId>,
    decoded: usize,
    limit: usize,
    pub(super) arena: Arena<TypeId, Type>,
}

impl<'a> Types<'a> {
    pub(super) fn new(payload: Option<&'a [u8]>, version: Version, preview: bool, file_size: usize) -> Result<Self> {
        let (offsets, data) = payload.map(|payload| offset_table(payload, "types")).transpose()?.unwrap_or_default();
        Ok(Types {
            version,
            preview,
            offsets,
            data,
            ids: vec![None; offsets.len()],
            being_read: Vec::new(),
            by_type: HashMap::new(),
            decoded: 0,
            limit: file_size * EXPANSION + 4096,
            arena: Arena::new(),
        })
    }
    pub(super) fn len(&self) -> u64 {
        self.ids.len() as u64
    }
    pub(super) fn intern(&mut self, ty: Type) -> TypeId {
        if let Some(id) = self.by_type.get(&ty) {
            return *id;
        }
        let id = self.arena.push(ty.clone());
        self.by_type.insert(ty, id);
        id
    }
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<TypeId> {
        let index = cursor.varint()?;
        self.get(index, strings)
    }

    /// Symbolic names in types refer to `strings`.
    pub(super) fn get(&mut self, index: u64, strings: &mut Strings<'_>) -> Result<TypeId> {
        let slot = usize::try_from(index).ok().filter(|slot| *slot < self.ids.len()).ok_or_else(ReadError::silent)?;
        if let Some(id) = self.ids[slot] {
            return Ok(id);
        }
        if self.being_read.contains(&index) || self.being_read.len() >= MAX_NESTING {
            return Err(ReadError::silent());
        }
        let start = self.offsets.get(slot).unwrap_or_default() as usize;
        let end = self.offsets.get(slot + 1).map_or(self.data.len(), |end| end as usize);
        if end < start || end > self.data.len() {
            return Err(ReadError::silent());
        }
        self.being_read.push(index);
        let ty = self.decode(&self.data[start..end], strings);
        self.being_read.pop();
        let id = self.intern(ty?);
        self.ids[slot] = Some(id);
        Ok(id)
    }

    fn decode(&mut self, record: &'a [u8], strings: &mut Strings<'_>) -> Result<Type> {
        let mut cursor = Cursor::new(record);
        let type_tag = cursor.varint()? as u8;
        // Offsets in messages start after the tag.
        let mut cursor = Cursor::new(cursor.rest());
        let ty = self.payload(type_tag, &mut cursor, strings)?;
        self.decoded += cursor.offset();
        if self.decoded > self.limit {
            return Err(ReadError::plain("type records overlap so much that together they are larger than the file"));
        }
        Ok(ty)
    }

    fn payload(&mut self, type_tag: u8, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let Some(row) = TYPES.iter().find(|row| row.tag == type_tag) else {
            return Err(ReadError::plain(format!("unknown type tag: {type_tag}")));
        };
        self.require(row)?;
        match row.kind {
            TypeKind::Scalar(scalar) => Ok(Type::Scalar(scalar)),
            TypeKind::Pointer => self.pointer(cursor, strings),
            TypeKind::Tile => self.tile(cursor, strings),
            TypeKind::TensorView => self.tensor_view(cursor, strings),
            TypeKind::PartitionView => self.partition_view(cursor, strings),
            TypeKind::Function => self.function(cursor, strings),
            TypeKind::Token => Ok(Type::Token),
            TypeKind::GatherScatterView => self.gather_scatter_view(cursor, strings),
            TypeKind::StridedView => self.strided_view(cursor, strings),
            kind => self.preview_type(kind, cursor, strings).map(Type::Preview),
        }
    }

    /// Checks that the file's version allows this kind of type.
    fn require(&self, row: &TypeRow) -> Result<()> {
        let (name, tag, since) = (row.name, row.tag, row.since);
        if row.preview && !self.preview {
            return Err(ReadError::plain(preview_not_signalled(format_args!("type tag {tag}"))));
        }
        if self.version < since {
            let message = format!("type '{name}' requires bytecode version {since}+, file version is {}", self.version);
            return Err(ReadError::plain(message));
        }
        Ok(())
    }

    /// The flags of optional parameters, of which a type has at most one. [`no_unused_bits`] checks them after the parameters are
    /// read.
    fn flags(&self, cursor: &mut Cursor<'_>, feature: Feature) -> Result<u64> {
        if !self.version.has(feature) {
            return Ok(0);
        }
        cursor.varint().with_message(cursor, "failed to read optional parameter flags")
    }

    fn space(&self, cursor: &mut Cursor<'_>, flags: u64) -> Result<PointerSpace> {
        if flags & 1 == 0 {
            return Ok(PointerSpace::Absent);
        }
        let number = enumeration(cursor)?;
        let space = PointerSpace::from_number(number);
        let space = space.ok_or_else(|| cursor.error(format!("invalid integer value for enum type: {number}")))?;
        if self.version < gates::pointer_since(space) {
            let message = format!("enum value {number} is not available in bytecode version {}", self.version);
            return Err(cursor.error(message));
        }
        Ok(space)
    }

    fn component_type(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>, name: &str) -> Result<TypeId> {
        self.read(cursor, strings).context(cursor, || format!("failed to get {name} type"))
    }

    fn pointer(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Feature::PointerFlags)?;
        let pointee = self.component_type(cursor, strings, "pointeeType")?;
        let space = self.space(cursor, flags)?;
        no_unused_bits(cursor, flags, 1)?;
        let pointee = check_type::number(&self.arena[pointee], "pointeeType").map_err(|message| cursor.error(message))?;
        Ok(Type::Ptr(Pointer { pointee, space }))
    }

    fn tile(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let element = self.component_type(cursor, strings, "elementType")?;
        let shape = cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read concreteShapeCache")?;
        let shape = check_rank(shape, cursor)?;
        if cursor.remaining() > 0 && self.preview {
            return self.symbolic_tile(element, shape, cursor, strings).map(Type::Preview);
        }
        if cursor.remaining() > 0 {
            let what = "preview type extension requires the header to advertise preview content";
            return Err(cursor.error(format!("malformed bytecode: {what}")));
        }
        if matches!(self.arena[element], Type::Preview(PreviewType::Symbol(_))) {
            let symbols = shape.iter().map(|dim| Preview::Int(*dim)).collect();
            return Ok(Type::Preview(PreviewType::Tile { element, shape, symbols }));
        }
        let element = check_type::tile_element(&self.arena[element]).map_err(|message| cursor.error(message))?;
        check_type::tile(element, &shape).map_err(|message| cursor.error(message))?;
        Ok(Type::Tile { element, shape })
    }

    fn tensor_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Feature::PointerFlags)?;
        let element = self.component_type(cursor, strings, "elementType")?;
        let shape = check_rank(cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read shape")?, cursor)?;
        let strides = check_rank(cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read strides")?, cursor)?;
        let space = self.space(cursor, flags)?;
        no_unused_bits(cursor, flags, 1)?;
        let element = check_type::number(&self.arena[element], "elementType").map_err(|message| cursor.error(message))?;
        check_type::tensor_view(&shape, &strides).map_err(|message| cursor.error(message))?;
        Ok(Type::TensorView { element, shape, strides, space })
    }

    fn tensor(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<TypeId> {
        let tensor = self.component_type(cursor, strings, "tensor_view")?;
        if !matches!(self.arena[tensor], Type::TensorView { .. }) {
            let got = type_text(Tables { strings: &strings.arena, types: &self.arena }, tensor, TypeText::Full);
            return Err(cursor.error(format!("expected ::mlir::cuda_tile::TensorViewType but got {got}")));
        }
        Ok(tensor)
    }

    fn check_view(&self, ty: Type, cursor: &Cursor<'_>) -> Result<Type> {
        check_type::view(&self.arena, &ty).map_err(|message| cursor.error(message))?;
        Ok(ty)
    }

    fn partition_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Feature::ViewFlags)?;
        let tile = int_array(cursor, "tile_shape data")?;
        let tensor = self.tensor(cursor, strings)?;
        let dim_map = int_array(cursor, "dim_map")?;
        let padding = if self.version.has(Feature::ViewFlags) {
            padding(cursor, flags)?
        } else if cursor.byte().unwrap_or(0) != 0 {
            padding(cursor, 1)?
        } else {
            None
        };
        no_unused_bits(cursor, flags, 1)?;
        self.check_view(Type::PartitionView { tile, tensor, dim_map, padding }, cursor)
    }

    fn strided_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Feature::ViewFlags)?;
        let tile = int_array(cursor, "tile_shape data")?;
        let traversal = int_array(cursor, "traversal_strides data")?;
        let tensor = self.tensor(cursor, strings)?;
        let dim_map = int_array(cursor, "dim_map")?;
        let padding = padding(cursor, flags)?;
        no_unused_bits(cursor, flags, 1)?;
        self.check_view(Type::StridedView { tile, traversal, tensor, dim_map, padding }, cursor)
    }

    fn gather_scatter_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Feature::ViewFlags)?;
        let tile = int_array(cursor, "tile_shape data")?;
        let tensor = self.tensor(cursor, strings)?;
        let sparse_dim = cursor.varint().with_message(cursor, "failed to read sparse_dim")?;
        let sparse_dim =
            u32::try_from(sparse_dim).map_err(|_| cursor.error(format!("sparse_dim value {sparse_dim} exceeds uint32_t range")))?;
        let padding = padding(cursor, flags)?;
        no_unused_bits(cursor, flags, 1)?;
        self.check_view(Type::GatherScatterView { tile, tensor, sparse_dim, padding }, cursor)
    }

    fn function(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let inputs = self.list(cursor, strings, "parameters", "parameter")?;
        let results = self.list(cursor, strings, "results", "result")?;
        Ok(Type::Function { inputs, results })
    }

    fn list(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>, many: &str, one: &str) -> Result<Box<[TypeId]>> {
        let count = cursor.count().context(cursor, || format!("failed to read number of {many}"))?;
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(self.read(cursor, strings).context(cursor, || format!("failed to get {one} type"))?);
        }
        Ok(types.into())
    }

    pub(super) fn element(&self, id: TypeId) -> Option<(Element, &[i64])> {
        self.arena.get(id).and_then(Type::tile)
    }
    pub(super) fn text(&self, id: TypeId, strings: &Strings<'_>) -> String {
        debug_assert!(id.index() < self.arena.len());
        type_text(Tables { strings: &strings.arena, types: &self.arena }, id, TypeText::Full)
    }
}

fn int_array(cursor: &mut Cursor<'_>, name: &str) -> Result<Box<[i32]>> {
    let values = cursor.array(i32::from_le_bytes).context(cursor, || format!("failed to read {name}"))?;
    check_rank(values, cursor)
}

fn check_rank<T>(values: Box<[T]>, cursor: &Cursor<'_>) -> Result<Box<[T]>> {
    if values.len() > MAX_RANK {
        return Err(cursor.error(format!("rank {} is not supported, the most is {MAX_RANK}", values.len())));
    }
    Ok(values)
}

/// The message for preview content in a file whose header does not signal it.
pub(super) fn preview_not_signalled(what: std::fmt::Arguments<'_>) -> String {
    format!("malformed bytecode: encountered public-preview {what} but the header does not advertise preview content")
}

pub(super) fn enumeration(cursor: &mut Cursor<'_>) -> Result<u32> {
    Ok(cursor.varint().with_message(cursor, "failed to read VarInt for enum attribute.")? as u32)
}

/// NVIDIA's reader checks unused flag bits last, after all parameters.
pub(super) fn no_unused_bits(cursor: &Cursor<'_>, flags: u64, used: u64) -> Result<()> {
    if flags & !used != 0 {
        return Err(cursor.error("unused bits set in optional parameter flags"));
    }
    Ok(())
}

fn padding(cursor: &mut Cursor<'_>, flags: u64) -> Result<Option<Padding>> {
    if flags & 1 == 0 {
        return Ok(None);
    }
    let number = enumeration(cursor)?;
    let padding = u8::try_from(number).ok().and_then(Padding::from_number);
    padding.map(Some).ok_or_else(|| cursor.error(format!("invalid integer value for enum type: {number}")))
}
