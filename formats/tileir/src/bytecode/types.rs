//! The type table. The reader decodes a record on first use, and equal types share one id.

use super::MAX_EXPANSION;
use super::cursor::{Cursor, ErrorContext};
use super::error::{ReadError, Result};
use super::tables::{Offsets, Strings, read_offset_table};
use crate::check_type;
use crate::enums::{PointerSharing, WireEnum};
use crate::gates::{self, Feature, TYPES, TypeKind, TypeRow};
use crate::reader_limits::MAX_RANK;
use crate::text::types::{TypeTables, TypeTextForm, type_text};
use crate::types::{Element, Pointer, Preview, PreviewType, Type, TypeId};
use crate::version::Version;
use base::{Arena, entity::Entity};
use core_dialect::memory::Padding;
use std::collections::HashMap;

/// Maximum nesting depth of types. A valid type has at most four levels: function, view, tensor view, scalar. The limit rejects a
/// malformed type before it exhausts the stack.
const MAX_NESTING: usize = 16;

/// The type table, and the types that the reader has decoded.
pub(super) struct Types<'a> {
    version: Version,
    /// Whether the header signals preview content.
    preview: bool,
    offsets: Offsets<'a>,
    data: &'a [u8],
    /// The id of each type by its index in the file; `None` for a record that was not decoded.
    ids: Vec<Option<TypeId>>,
    /// The indices of the records whose decoding has begun but not ended, to detect cycles.
    being_read: Vec<u64>,
    /// The id of each decoded type, by the type.
    by_type: HashMap<Type, TypeId>,
    /// The bytes of the records decoded so far.
    decoded_bytes: usize,
    /// The limit on `decoded_bytes`; see [`MAX_EXPANSION`].
    max_decoded_bytes: usize,
    /// The decoded types, which become the types of the module.
    pub(super) arena: Arena<TypeId, Type>,
}

impl<'a> Types<'a> {
    pub(super) fn new(payload: Option<&'a [u8]>, version: Version, preview: bool, file_size: usize) -> Result<Self> {
        let (offsets, data) = payload.map(|payload| read_offset_table(payload, "types")).transpose()?.unwrap_or_default();
        Ok(Types {
            version,
            preview,
            offsets,
            data,
            ids: vec![None; offsets.len()],
            being_read: Vec::new(),
            by_type: HashMap::new(),
            decoded_bytes: 0,
            max_decoded_bytes: file_size * MAX_EXPANSION + 4096,
            arena: Arena::new(),
        })
    }
    pub(super) fn len(&self) -> u64 {
        self.ids.len() as u64
    }
    /// Returns the id of a type, and adds the type to the module on first use.
    pub(super) fn intern(&mut self, ty: Type) -> TypeId {
        if let Some(id) = self.by_type.get(&ty) {
            return *id;
        }
        let id = self.arena.push(ty.clone());
        self.by_type.insert(ty, id);
        id
    }
    /// Reads a type index, and returns the type.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<TypeId> {
        let index = cursor.varint()?;
        self.get(index, strings)
    }

    /// Returns the type with an index in the file, and decodes the type on first use. Symbolic names in types refer to `strings`.
    pub(super) fn get(&mut self, index: u64, strings: &mut Strings<'_>) -> Result<TypeId> {
        let slot = usize::try_from(index).ok().filter(|slot| *slot < self.ids.len()).ok_or_else(ReadError::without_message)?;
        if let Some(id) = self.ids[slot] {
            return Ok(id);
        }
        if self.being_read.contains(&index) || self.being_read.len() >= MAX_NESTING {
            return Err(ReadError::without_message());
        }
        let start = self.offsets.get(slot).unwrap_or_default() as usize;
        let end = self.offsets.get(slot + 1).map_or(self.data.len(), |end| end as usize);
        if end < start || end > self.data.len() {
            return Err(ReadError::without_message());
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
        let type_tag = cursor.varint()?;
        // Error messages count offsets from the byte after the tag.
        let mut cursor = Cursor::new(cursor.rest());
        let ty = self.decode_payload(type_tag, &mut cursor, strings)?;
        self.decoded_bytes += cursor.offset();
        if self.decoded_bytes > self.max_decoded_bytes {
            return Err(ReadError::without_offset("type records overlap so much that together they are larger than the file"));
        }
        Ok(ty)
    }

    /// Decodes the payload of a type record, after its tag.
    fn decode_payload(&mut self, type_tag: u64, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let Some(row) = TYPES.iter().find(|row| u64::from(row.tag) == type_tag) else {
            return Err(ReadError::without_offset(format!("unknown type tag: {type_tag}")));
        };
        self.check_available(row)?;
        match row.kind {
            TypeKind::Scalar(scalar) => Ok(Type::Scalar(scalar)),
            TypeKind::Pointer => self.decode_pointer(cursor, strings),
            TypeKind::Tile => self.decode_tile(cursor, strings),
            TypeKind::TensorView => self.decode_tensor_view(cursor, strings),
            TypeKind::PartitionView => self.decode_partition_view(cursor, strings),
            TypeKind::Function => self.decode_function_type(cursor, strings),
            TypeKind::Token => Ok(Type::Token),
            TypeKind::GatherScatterView => self.decode_gather_scatter_view(cursor, strings),
            TypeKind::StridedView => self.decode_strided_view(cursor, strings),
            kind => self.decode_preview_type(kind, cursor, strings).map(Type::Preview),
        }
    }

    /// Checks that the file may have this kind of type: its version allows the kind, and its header signals a preview type.
    fn check_available(&self, row: &TypeRow) -> Result<()> {
        let (name, tag, since) = (row.name, row.tag, row.since);
        if row.preview && !self.preview {
            return Err(ReadError::without_offset(preview_not_signalled(format_args!("type tag {tag}"))));
        }
        if self.version < since {
            let message = format!("type '{name}' requires bytecode version {since}+, file version is {}", self.version);
            return Err(ReadError::without_offset(message));
        }
        Ok(())
    }

    /// Reads the flags word of optional parameters, or returns 0 if the version has no such word. A type has at most one optional
    /// parameter. [`check_unused_bits`] checks the flags after the parameters are read.
    fn read_optional_flags(&self, cursor: &mut Cursor<'_>, feature: Feature) -> Result<u64> {
        if !self.version.has(feature) {
            return Ok(0);
        }
        cursor.varint().with_message(cursor, "failed to read optional parameter flags")
    }

    /// Reads the pointer attribute, if bit 0 of `flags` is set.
    fn read_pointer_attribute(&self, cursor: &mut Cursor<'_>, flags: u64) -> Result<PointerSharing> {
        if flags & 1 == 0 {
            return Ok(PointerSharing::Absent);
        }
        let variant_number = read_enum_number(cursor)?;
        let sharing = PointerSharing::from_number(variant_number);
        let sharing = sharing.ok_or_else(|| cursor.error(format!("invalid integer value for enum type: {variant_number}")))?;
        if self.version < gates::pointer_since(sharing) {
            let message = format!("enum value {variant_number} is not available in bytecode version {}", self.version);
            return Err(cursor.error(message));
        }
        Ok(sharing)
    }

    /// Reads a reference to a component of a type. `name` is the component's name in messages.
    fn read_component_type(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>, name: &str) -> Result<TypeId> {
        self.read(cursor, strings).context(cursor, || format!("failed to get {name} type"))
    }

    fn decode_pointer(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.read_optional_flags(cursor, Feature::PointerFlags)?;
        let pointee = self.read_component_type(cursor, strings, "pointeeType")?;
        let space = self.read_pointer_attribute(cursor, flags)?;
        check_unused_bits(cursor, flags, 1)?;
        let pointee = check_type::scalar_except_i4(&self.arena[pointee], "pointeeType").map_err(|message| cursor.error(message))?;
        Ok(Type::Ptr(Pointer { pointee, space }))
    }

    fn decode_tile(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let element = self.read_component_type(cursor, strings, "elementType")?;
        let shape = cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read concreteShapeCache")?;
        let shape = check_rank(shape, cursor)?;
        if cursor.remaining() > 0 && self.preview {
            return self.decode_symbolic_tile(element, shape, cursor, strings).map(Type::Preview);
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
        check_type::check_tile(element, &shape).map_err(|message| cursor.error(message))?;
        Ok(Type::Tile { element, shape })
    }

    fn decode_tensor_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.read_optional_flags(cursor, Feature::PointerFlags)?;
        let element = self.read_component_type(cursor, strings, "elementType")?;
        let shape = check_rank(cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read shape")?, cursor)?;
        let strides = check_rank(cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read strides")?, cursor)?;
        let space = self.read_pointer_attribute(cursor, flags)?;
        check_unused_bits(cursor, flags, 1)?;
        let element = check_type::scalar_except_i4(&self.arena[element], "elementType").map_err(|message| cursor.error(message))?;
        check_type::check_tensor_view(&shape, &strides).map_err(|message| cursor.error(message))?;
        Ok(Type::TensorView { element, shape, strides, space })
    }

    /// Reads a reference to a tensor view type.
    fn read_tensor_view_id(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<TypeId> {
        let tensor = self.read_component_type(cursor, strings, "tensor_view")?;
        if !matches!(self.arena[tensor], Type::TensorView { .. }) {
            let got = type_text(TypeTables { strings: &strings.arena, types: &self.arena }, tensor, TypeTextForm::Full);
            return Err(cursor.error(format!("expected ::mlir::cuda_tile::TensorViewType but got {got}")));
        }
        Ok(tensor)
    }

    /// Checks the rules of a view type, and returns the type.
    fn check_view(&self, ty: Type, cursor: &Cursor<'_>) -> Result<Type> {
        check_type::check_view(&self.arena, &ty).map_err(|message| cursor.error(message))?;
        Ok(ty)
    }

    fn decode_partition_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.read_optional_flags(cursor, Feature::ViewFlags)?;
        let tile = read_int_array(cursor, "tile_shape data")?;
        let tensor = self.read_tensor_view_id(cursor, strings)?;
        let dim_map = read_int_array(cursor, "dim_map")?;
        let padding = if self.version.has(Feature::ViewFlags) {
            read_padding(cursor, flags)?
        } else if cursor.byte().unwrap_or(0) != 0 {
            read_padding(cursor, 1)?
        } else {
            None
        };
        check_unused_bits(cursor, flags, 1)?;
        self.check_view(Type::PartitionView { tile, tensor, dim_map, padding }, cursor)
    }

    fn decode_strided_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.read_optional_flags(cursor, Feature::ViewFlags)?;
        let tile = read_int_array(cursor, "tile_shape data")?;
        let traversal = read_int_array(cursor, "traversal_strides data")?;
        let tensor = self.read_tensor_view_id(cursor, strings)?;
        let dim_map = read_int_array(cursor, "dim_map")?;
        let padding = read_padding(cursor, flags)?;
        check_unused_bits(cursor, flags, 1)?;
        self.check_view(Type::StridedView { tile, traversal, tensor, dim_map, padding }, cursor)
    }

    fn decode_gather_scatter_view(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let flags = self.read_optional_flags(cursor, Feature::ViewFlags)?;
        let tile = read_int_array(cursor, "tile_shape data")?;
        let tensor = self.read_tensor_view_id(cursor, strings)?;
        let sparse_dim = cursor.varint().with_message(cursor, "failed to read sparse_dim")?;
        let sparse_dim =
            u32::try_from(sparse_dim).map_err(|_| cursor.error(format!("sparse_dim value {sparse_dim} exceeds uint32_t range")))?;
        let padding = read_padding(cursor, flags)?;
        check_unused_bits(cursor, flags, 1)?;
        self.check_view(Type::GatherScatterView { tile, tensor, sparse_dim, padding }, cursor)
    }

    fn decode_function_type(&mut self, cursor: &mut Cursor<'_>, strings: &mut Strings<'_>) -> Result<Type> {
        let inputs = self.read_type_list(cursor, strings, "parameters", "parameter")?;
        let results = self.read_type_list(cursor, strings, "results", "result")?;
        Ok(Type::Function { inputs, results })
    }

    /// Reads a count and as many types. `many` and `one` name the types in messages.
    fn read_type_list(
        &mut self,
        cursor: &mut Cursor<'_>,
        strings: &mut Strings<'_>,
        many: &str,
        one: &str,
    ) -> Result<Box<[TypeId]>> {
        let count = cursor.count().context(cursor, || format!("failed to read number of {many}"))?;
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(self.read(cursor, strings).context(cursor, || format!("failed to get {one} type"))?);
        }
        Ok(types.into())
    }

    /// The element type and shape, if the type is a tile.
    pub(super) fn element_and_shape(&self, id: TypeId) -> Option<(Element, &[i64])> {
        self.arena.get(id).and_then(Type::tile)
    }
    /// The text of a type in messages.
    pub(super) fn text(&self, id: TypeId, strings: &Strings<'_>) -> String {
        debug_assert!(id.index() < self.arena.len());
        type_text(TypeTables { strings: &strings.arena, types: &self.arena }, id, TypeTextForm::Full)
    }
}

/// Reads an array of 32-bit extents. `name` names the array in messages.
fn read_int_array(cursor: &mut Cursor<'_>, name: &str) -> Result<Box<[i32]>> {
    let values = cursor.array(i32::from_le_bytes).context(cursor, || format!("failed to read {name}"))?;
    check_rank(values, cursor)
}

/// Rejects an array of extents with more than [`MAX_RANK`] entries.
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

/// Reads the number of an enumeration value in a type.
pub(super) fn read_enum_number(cursor: &mut Cursor<'_>) -> Result<u64> {
    cursor.varint().with_message(cursor, "failed to read VarInt for enum attribute.")
}

/// Checks that a flags word has only bits of `used`. Callers check this after all parameters, as NVIDIA's reader does.
pub(super) fn check_unused_bits(cursor: &Cursor<'_>, flags: u64, used: u64) -> Result<()> {
    if flags & !used != 0 {
        return Err(cursor.error("unused bits set in optional parameter flags"));
    }
    Ok(())
}

/// Reads the padding of a view, if bit 0 of `flags` is set.
fn read_padding(cursor: &mut Cursor<'_>, flags: u64) -> Result<Option<Padding>> {
    if flags & 1 == 0 {
        return Ok(None);
    }
    let variant_number = read_enum_number(cursor)?;
    let padding = u8::try_from(variant_number).ok().and_then(Padding::from_number);
    padding.map(Some).ok_or_else(|| cursor.error(format!("invalid integer value for enum type: {variant_number}")))
}
