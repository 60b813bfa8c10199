//! The type table: records are decoded when something refers to them, and equal types become one.

use super::cursor::{Context, Cursor};
use super::error::{ReadError, Result};
use super::tables::{Offsets, offset_table};
use super::{EXPANSION, MAX_RANK};
use crate::check_type;
use crate::enums::WireEnum;
use crate::text::types::{TypeText, type_text};
use crate::types::{Element, Pointer, PointerSpace, Type, TypeId};
use crate::version::Version;
use base::{Arena, entity::Entity};
use numerics::Scalar::{self, *};
use std::collections::HashMap;
use vocabulary::memory::Padding;

/// Tags of the scalar types, with their name in messages and the first version that has them.
pub(super) const SCALARS: [(u8, Scalar, &str, Version); 16] = [
    (0, I1, "Int1", Version::V13_1),
    (1, I8, "Int8", Version::V13_1),
    (2, I16, "Int16", Version::V13_1),
    (3, I32, "Int32", Version::V13_1),
    (4, I64, "Int64", Version::V13_1),
    (5, F16, "Float16", Version::V13_1),
    (6, BF16, "BFloat16", Version::V13_1),
    (7, F32, "Float32", Version::V13_1),
    (8, TF32, "TFloat32", Version::V13_1),
    (9, F64, "Float64", Version::V13_1),
    (10, F8E4M3FN, "Float8E4M3FN", Version::V13_1),
    (11, F8E5M2, "Float8E5M2", Version::V13_1),
    (18, F8E8M0FNU, "Float8E8M0FNU", Version::V13_2),
    (19, F4E2M1FN, "Float4E2M1FN", Version::V13_3),
    (22, I4, "Int4", Version::V13_3),
    (130, F8E5M3FNU, "Float8E5M3FNU", Version::V13_4),
];

pub(super) mod tag {
    pub(crate) const POINTER: u8 = 12;
    pub(crate) const TILE: u8 = 13;
    pub(crate) const TENSOR_VIEW: u8 = 14;
    pub(crate) const PARTITION_VIEW: u8 = 15;
    pub(crate) const FUNCTION: u8 = 16;
    pub(crate) const TOKEN: u8 = 17;
    pub(crate) const GATHER_SCATTER_VIEW: u8 = 20;
    pub(crate) const STRIDED_VIEW: u8 = 21;
}

/// A valid type nests at most function, view, tensor view, scalar; more is a mistake and found before it costs stack.
const MAX_NESTING: usize = 16;

pub(super) struct Types<'a> {
    version: Version,
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
    pub(super) fn new(payload: Option<&'a [u8]>, version: Version, file_size: usize) -> Result<Self> {
        let (offsets, data) = payload.map(|payload| offset_table(payload, "types")).transpose()?.unwrap_or_default();
        Ok(Types {
            version,
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
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<TypeId> {
        let index = cursor.varint()?;
        self.get(index)
    }

    pub(super) fn get(&mut self, index: u64) -> Result<TypeId> {
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
        let ty = self.decode(&self.data[start..end]);
        self.being_read.pop();
        let id = self.intern(ty?);
        self.ids[slot] = Some(id);
        Ok(id)
    }

    fn decode(&mut self, record: &'a [u8]) -> Result<Type> {
        let mut cursor = Cursor::new(record);
        let type_tag = cursor.varint()? as u8;
        // Offsets in messages count from after the tag.
        let mut cursor = Cursor::new(cursor.rest());
        let ty = self.payload(type_tag, &mut cursor)?;
        self.decoded += cursor.offset();
        if self.decoded > self.limit {
            return Err(ReadError::plain("type records overlap so much that together they are larger than the file"));
        }
        Ok(ty)
    }

    fn payload(&mut self, type_tag: u8, cursor: &mut Cursor<'_>) -> Result<Type> {
        if let Some((_, scalar, name, since)) = SCALARS.iter().find(|(number, ..)| *number == type_tag) {
            self.require(name, *since)?;
            return Ok(Type::Scalar(*scalar));
        }
        match type_tag {
            tag::POINTER => self.pointer(cursor),
            tag::TILE => self.tile(cursor),
            tag::TENSOR_VIEW => self.tensor_view(cursor),
            tag::PARTITION_VIEW => self.partition_view(cursor),
            tag::FUNCTION => self.function(cursor),
            tag::TOKEN => Ok(Type::Token),
            tag::GATHER_SCATTER_VIEW => self.gather_scatter_view(cursor),
            tag::STRIDED_VIEW => self.strided_view(cursor),
            _ => Err(ReadError::plain(format!("unknown type tag: {type_tag}"))),
        }
    }

    fn require(&self, name: &str, since: Version) -> Result<()> {
        if self.version < since {
            let message = format!("type '{name}' requires bytecode version {since}+, file version is {}", self.version);
            return Err(ReadError::plain(message));
        }
        Ok(())
    }

    /// The word that says which optional parameters follow; `first` is the first version that has it for the type.
    fn flags(&self, cursor: &mut Cursor<'_>, first: Version) -> Result<u64> {
        if self.version < first {
            return Ok(0);
        }
        cursor.varint().says(cursor, "failed to read optional parameter flags")
    }

    fn space(&self, cursor: &mut Cursor<'_>, flags: u64) -> Result<PointerSpace> {
        if flags & 1 == 0 {
            return Ok(PointerSpace::Absent);
        }
        match enumeration(cursor)? {
            0 => Ok(PointerSpace::None),
            other => Err(cursor.error(format!("invalid integer value for enum type: {other}"))),
        }
    }

    fn part(&mut self, cursor: &mut Cursor<'_>, name: &str) -> Result<TypeId> {
        self.read(cursor).context(cursor, || format!("failed to get {name} type"))
    }

    fn pointer(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Version::V13_4)?;
        let pointee = self.part(cursor, "pointeeType")?;
        let space = self.space(cursor, flags)?;
        let pointee = check_type::number(&self.arena[pointee], "pointeeType").map_err(|message| cursor.error(message))?;
        Ok(Type::Ptr(Pointer { pointee, space }))
    }

    fn tile(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        let element = self.part(cursor, "elementType")?;
        let shape = rank_limited(cursor.array(i64::from_le_bytes).says(cursor, "failed to read shape")?, cursor)?;
        let element = check_type::tile_element(&self.arena[element]).map_err(|message| cursor.error(message))?;
        check_type::tile(element, &shape).map_err(|message| cursor.error(message))?;
        Ok(Type::Tile { element, shape })
    }

    fn tensor_view(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Version::V13_4)?;
        let element = self.part(cursor, "elementType")?;
        let shape = rank_limited(cursor.array(i64::from_le_bytes).says(cursor, "failed to read shape")?, cursor)?;
        let strides = rank_limited(cursor.array(i64::from_le_bytes).says(cursor, "failed to read strides")?, cursor)?;
        let space = self.space(cursor, flags)?;
        let element = check_type::number(&self.arena[element], "elementType").map_err(|message| cursor.error(message))?;
        check_type::tensor_view(&shape, &strides).map_err(|message| cursor.error(message))?;
        Ok(Type::TensorView { element, shape, strides, space })
    }

    fn tensor(&mut self, cursor: &mut Cursor<'_>) -> Result<TypeId> {
        let tensor = self.part(cursor, "tensor_view")?;
        if !matches!(self.arena[tensor], Type::TensorView { .. }) {
            let got = type_text(&self.arena, tensor, TypeText::Full);
            return Err(cursor.error(format!("expected ::mlir::cuda_tile::TensorViewType but got {got}")));
        }
        Ok(tensor)
    }

    fn checked(&self, ty: Type, cursor: &Cursor<'_>) -> Result<Type> {
        check_type::view(&self.arena, &ty).map_err(|message| cursor.error(message))?;
        Ok(ty)
    }

    fn partition_view(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        let flags = self.flags(cursor, Version::V13_3)?;
        let tile = int_array(cursor, "tile_shape data")?;
        let tensor = self.tensor(cursor)?;
        let dim_map = int_array(cursor, "dim_map")?;
        let padding = if self.version >= Version::V13_3 {
            padding(cursor, flags)?
        } else if cursor.byte().unwrap_or(0) != 0 {
            padding(cursor, 1)?
        } else {
            None
        };
        self.checked(Type::PartitionView { tile, tensor, dim_map, padding }, cursor)
    }

    fn strided_view(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        self.require("StridedViewType", Version::V13_3)?;
        let flags = self.flags(cursor, Version::V13_3)?;
        let tile = int_array(cursor, "tile_shape data")?;
        let traversal = int_array(cursor, "traversal_strides data")?;
        let tensor = self.tensor(cursor)?;
        let dim_map = int_array(cursor, "dim_map")?;
        let padding = padding(cursor, flags)?;
        self.checked(Type::StridedView { tile, traversal, tensor, dim_map, padding }, cursor)
    }

    fn gather_scatter_view(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        self.require("GatherScatterViewType", Version::V13_3)?;
        let flags = self.flags(cursor, Version::V13_3)?;
        let tile = int_array(cursor, "tile_shape data")?;
        let tensor = self.tensor(cursor)?;
        let sparse_dim = cursor.varint().says(cursor, "failed to read sparse_dim")?;
        let sparse_dim =
            u32::try_from(sparse_dim).map_err(|_| cursor.error(format!("sparse_dim value {sparse_dim} exceeds uint32_t range")))?;
        let padding = padding(cursor, flags)?;
        self.checked(Type::GatherScatterView { tile, tensor, sparse_dim, padding }, cursor)
    }

    fn function(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        let inputs = self.list(cursor, "parameters", "parameter")?;
        let results = self.list(cursor, "results", "result")?;
        Ok(Type::Function { inputs, results })
    }

    fn list(&mut self, cursor: &mut Cursor<'_>, many: &str, one: &str) -> Result<Box<[TypeId]>> {
        let count = cursor.count().context(cursor, || format!("failed to read number of {many}"))?;
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(self.read(cursor).context(cursor, || format!("failed to get {one} type"))?);
        }
        Ok(types.into())
    }

    pub(super) fn element(&self, id: TypeId) -> Option<(Element, &[i64])> {
        self.arena.get(id).and_then(Type::tile)
    }
    pub(super) fn text(&self, id: TypeId) -> String {
        debug_assert!(id.index() < self.arena.len());
        type_text(&self.arena, id, TypeText::Full)
    }
}

fn int_array(cursor: &mut Cursor<'_>, name: &str) -> Result<Box<[i32]>> {
    let values = cursor.array(i32::from_le_bytes).context(cursor, || format!("failed to read {name}"))?;
    rank_limited(values, cursor)
}

fn rank_limited<T>(values: Box<[T]>, cursor: &Cursor<'_>) -> Result<Box<[T]>> {
    if values.len() > MAX_RANK {
        return Err(cursor.error(format!("rank {} is not supported, the most is {MAX_RANK}", values.len())));
    }
    Ok(values)
}

fn enumeration(cursor: &mut Cursor<'_>) -> Result<u32> {
    Ok(cursor.varint().says(cursor, "failed to read VarInt for enum attribute.")? as u32)
}

fn padding(cursor: &mut Cursor<'_>, flags: u64) -> Result<Option<Padding>> {
    if flags & 1 == 0 {
        return Ok(None);
    }
    let number = enumeration(cursor)?;
    let padding = u8::try_from(number).ok().and_then(Padding::from_number);
    padding.map(Some).ok_or_else(|| cursor.error(format!("invalid integer value for enum type: {number}")))
}
