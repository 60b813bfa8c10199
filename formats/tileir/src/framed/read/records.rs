//! The records of types, attributes and dictionaries.

use super::{Cursor, Reader, Record, TableSizes};
use crate::check_type;
use crate::enums::PointerSharing;
use crate::enums::WireEnum;
use crate::framed::{SCALAR_TAGS, tag};
use crate::reader_limits::{MAX_DEPTH, MAX_RANK};
use crate::types::{Attribute, ConstantId, Dictionary, Pointer, StringId, Type};
use base::diag::{Diagnostic, Result};
use base::entity::Entity;
use base::loc::{Loc, LocData, Name, Scope, ScopeData};
use core_dialect::memory::Padding;
use numerics::Scalar;

impl Reader {
    fn read_scalar(&self, cursor: &mut Cursor<'_>) -> Result<Scalar> {
        let id = self.read_type_id(cursor)?;
        check_type::scalar_except_i4(&self.arena[id], "elementType").map_err(|message| cursor.error(message))
    }

    pub(super) fn read_type(&mut self, cursor: &mut Cursor<'_>) -> Result<Type> {
        let type_tag = cursor.byte()?;
        if let Some((_, scalar)) = SCALAR_TAGS.iter().find(|(tag, _)| *tag == type_tag) {
            return Ok(Type::Scalar(*scalar));
        }
        Ok(match type_tag {
            12 => Type::Ptr(Pointer { pointee: self.read_scalar(cursor)?, space: PointerSharing::Absent }),
            13 => {
                let element_id = self.read_type_id(cursor)?;
                let element = check_type::tile_element(&self.arena[element_id]).map_err(|message| cursor.error(message))?;
                let shape = read_dims(cursor)?;
                check_type::check_tile(element, &shape).map_err(|message| cursor.error(message))?;
                Type::Tile { element, shape: shape.into() }
            }
            14 => {
                let element = self.read_scalar(cursor)?;
                let (shape, strides) = (read_dims(cursor)?, read_dims(cursor)?);
                check_type::check_tensor_view(&shape, &strides).map_err(|message| cursor.error(message))?;
                Type::TensorView { element, shape: shape.into(), strides: strides.into(), space: PointerSharing::Absent }
            }
            15 => {
                let tensor = self.read_type_id(cursor)?;
                let (tile, dim_map) = (read_small_dims(cursor)?, read_small_dims(cursor)?);
                let mode = cursor.byte()?;
                let padding =
                    mode.checked_sub(1).map(|number| Padding::from_number(number).ok_or_else(|| cursor.error("unknown padding")));
                let ty = Type::PartitionView { tile, tensor, dim_map, padding: padding.transpose()? };
                check_type::check_view(&self.arena, &ty).map_err(|message| cursor.error(message))?;
                ty
            }
            16 => {
                let mut lists = [Vec::new(), Vec::new()];
                for list in &mut lists {
                    for _ in 0..cursor.count()? {
                        list.push(self.read_type_id(cursor)?);
                    }
                }
                let [inputs, results] = lists.map(Vec::into_boxed_slice);
                Type::Function { inputs, results }
            }
            17 => Type::Token,
            _ => return Err(cursor.error(format!("unknown type tag: {type_tag}"))),
        })
    }

    /// Reads a debug record. `strings` is the number of strings in the file.
    pub(super) fn read_record(&mut self, cursor: &mut Cursor<'_>, strings: usize) -> Result<Record> {
        let kind = cursor.varint()?;
        let name = |cursor: &mut Cursor<'_>| Ok::<Name, Box<Diagnostic>>(Name::from_index(cursor.index(strings, "string")?));
        let scopes = self.debug.scopes.len();
        let scope =
            |cursor: &mut Cursor<'_>| Ok::<Scope, Box<Diagnostic>>(Scope::from_index(cursor.index(scopes, "debug record")?));
        let data = match kind {
            0 => return Ok(Record::Loc(Loc::UNKNOWN)),
            1 => ScopeData::CompileUnit { file: scope(cursor)? },
            2 => ScopeData::File { name: name(cursor)?, directory: name(cursor)? },
            3 => ScopeData::LexicalBlock {
                scope: scope(cursor)?,
                file: scope(cursor)?,
                line: cursor.varint_u32()?,
                column: cursor.varint_u32()?,
            },
            4 => {
                let scope = cursor.index(scopes + 1, "debug record")?.checked_sub(1).map(Scope::from_index);
                let loc = LocData::Source { file: name(cursor)?, line: cursor.varint_u32()?, column: cursor.varint_u32()?, scope };
                return Ok(Record::Loc(self.debug.locs.push(loc)));
            }
            5 => ScopeData::Subprogram {
                file: scope(cursor)?,
                line: cursor.varint_u32()?,
                name: name(cursor)?,
                linkage_name: name(cursor)?,
                compile_unit: scope(cursor)?,
                scope_line: cursor.varint_u32()?,
                declaration: false,
            },
            6 => {
                let (callee, caller) = (self.read_loc_plus_one(cursor)?, self.read_loc_plus_one(cursor)?);
                return Ok(Record::Loc(self.debug.locs.push(LocData::CallSite { callee, caller })));
            }
            _ => return Err(cursor.error(format!("unknown debug tag {kind}"))),
        };
        self.debug.scopes.push(data);
        Ok(Record::Scope)
    }

    pub(super) fn read_dictionary(&self, cursor: &mut Cursor<'_>, table_sizes: TableSizes, depth: usize) -> Result<Dictionary> {
        let mut entries = Vec::new();
        for _ in 0..cursor.count()? {
            let key = StringId::from_index(cursor.index(table_sizes.strings, "string")?);
            entries.push((key, self.read_attribute(cursor, table_sizes, depth + 1)?));
        }
        Ok(entries.into())
    }

    pub(super) fn read_attribute(&self, cursor: &mut Cursor<'_>, table_sizes: TableSizes, depth: usize) -> Result<Attribute> {
        if depth > MAX_DEPTH {
            return Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        let optional_pair = |cursor: &mut Cursor<'_>| {
            let flags = cursor.byte()?;
            let mut bound = |bit: u8| (flags & bit != 0).then(|| cursor.zigzag()).transpose();
            Ok::<_, Box<Diagnostic>>((bound(1)?, bound(2)?))
        };
        let attribute_tag = cursor.byte()?;
        Ok(match attribute_tag {
            tag::STRING => Attribute::String(StringId::from_index(cursor.index(table_sizes.strings, "string")?)),
            tag::TYPE => Attribute::Type(self.read_type_id(cursor)?),
            tag::FLOAT => Attribute::Float { ty: self.read_type_id(cursor)?, bits: cursor.varint()? },
            tag::INTEGER => Attribute::Integer { ty: self.read_type_id(cursor)?, bits: cursor.varint()? },
            tag::DENSE => {
                let ty = self.read_type_id(cursor)?;
                Attribute::Dense { ty, data: ConstantId::from_index(cursor.index(table_sizes.constants, "constant")?) }
            }
            tag::DIV_BY => {
                let divisor = cursor.varint()?;
                let (every, along) = optional_pair(cursor)?;
                Attribute::DivBy { divisor, every, along }
            }
            tag::SAME_ELEMENTS => Attribute::SameElements(read_dims(cursor)?.into()),
            tag::BOUNDED => {
                let (lower, upper) = optional_pair(cursor)?;
                Attribute::Bounded { lower, upper }
            }
            tag::DICTIONARY => Attribute::Dictionary(self.read_dictionary(cursor, table_sizes, depth)?),
            _ => return Err(cursor.error(format!("unsupported AttributeTag {attribute_tag}"))),
        })
    }
}

/// Reads a count and as many extents or strides.
pub(super) fn read_dims(cursor: &mut Cursor<'_>) -> Result<Vec<i64>> {
    let count = cursor.count()?;
    if count > MAX_RANK {
        return Err(cursor.error(format!("rank {count} is not supported, the most is {MAX_RANK}")));
    }
    (0..count).map(|_| cursor.zigzag()).collect()
}

/// Reads dimensions that the program stores in 32 bits.
pub(super) fn read_small_dims(cursor: &mut Cursor<'_>) -> Result<Box<[i32]>> {
    let dims = read_dims(cursor)?;
    dims.into_iter().map(|dim| i32::try_from(dim).map_err(|_| cursor.error(format!("dimension {dim} exceeds 32 bits")))).collect()
}
