//! The fields of an op: result types, operands and attributes.

use super::{BodyReader, FIRST_PREVIEW_OPCODE, OpHead};
use crate::bytecode::attributes::check_array_values;
use crate::bytecode::cursor::Cursor;
use crate::bytecode::cursor::ErrorContext;
use crate::bytecode::error::{ReadError, Result};
use crate::bytecode::types::preview_not_signalled;
use crate::enums::WireEnum;
use crate::fields::{FieldShape, FieldValue};
use crate::gates;
use crate::gates::Feature;
use crate::ops::{CountEncoding, FieldInfo, Op, Opcode};
use crate::types::{Attribute, Type, TypeId};
use crate::version::Version;
use base::ir::Value;
use numerics::arith::Rounding;
use smallvec::SmallVec;

impl BodyReader<'_, '_> {
    /// Reads an op without its regions.
    pub(super) fn read_op_head(&mut self) -> Result<OpHead> {
        let opcode_number = self.cursor.varint().with_message(&self.cursor, "failed to read operation opcode.")?;
        let version = self.tables.version;
        let opcode = Opcode::from_number(opcode_number);
        let known_opcodes = Opcode::ALL.iter().map(|opcode| u64::from(opcode.info().opcode));
        let last_opcode = known_opcodes.filter(|number| *number < FIRST_PREVIEW_OPCODE).max().unwrap_or_default();
        let is_preview = opcode_number >= FIRST_PREVIEW_OPCODE;
        if is_preview && version.has(Feature::HeaderPreview) && !self.tables.preview {
            return Err(self.cursor.error(preview_not_signalled(format_args!("opcode {opcode_number}"))));
        }
        if is_preview && opcode.is_none() && self.tables.preview {
            return Err(self.cursor.error(format!("unknown or unimplemented opcode: {opcode_number}")));
        }
        if opcode.is_some_and(|opcode| opcode.info().since > version) || (opcode_number > last_opcode && opcode.is_none()) {
            return Err(self.cursor.error(format!("unsupported opcode {opcode_number} for bytecode version {version}")));
        }
        let loc = self.tables.debug.next_loc(&mut self.locations, &mut self.tables.strings);
        let loc = loc.with_message(&self.cursor, "failed to read operation location.")?;
        let Some(opcode) = opcode else {
            return Err(self.cursor.error(format!("unknown or unimplemented opcode: {opcode_number}")));
        };
        let (results, usable_results) = self.read_result_types(opcode)?;
        let info = opcode.info();
        let mut flags = 0;
        if info.first_version_with_flags().is_some_and(|since| since <= version) {
            flags = self.cursor.varint().with_message(&self.cursor, "failed to read flags field")?;
        }
        let mut field_flags: SmallVec<[Option<bool>; 8]> = SmallVec::from_elem(None, info.fields.len());
        for (bit, (field, _)) in info.flag_fields().enumerate() {
            field_flags[field] = Some(flags >> bit & 1 != 0);
        }
        let mut fields = SmallVec::new();
        let mut operands = OperandCounter::Uncounted { seen: 0 };
        for (i, field) in info.fields.iter().enumerate() {
            if field.shape == FieldShape::Region {
                continue;
            }
            if field.since > version
                && let Some(default) = Op::field_default(opcode, field.name)
            {
                fields.push(default);
                continue;
            }
            let value = if field.shape.is_operand() {
                self.read_operand_field(opcode, field, field_flags[i], &mut operands)?
            } else {
                self.read_attribute_field(opcode, field, field_flags[i], results.first().copied())?
            };
            fields.push(value);
        }
        if let OperandCounter::Counted { left, .. } = operands
            && left > 0
        {
            return Err(ReadError::without_offset(format!("'cuda_tile.{}' op has {left} operands too many", info.mnemonic)));
        }
        Ok(OpHead { opcode, fields, results, usable_results, loc })
    }

    /// Reads the types of an op's results. Also returns the number of results that later ops can use.
    fn read_result_types(&mut self, opcode: Opcode) -> Result<(SmallVec<[TypeId; 2]>, usize)> {
        let info = opcode.info();
        let class = info.class;
        let mut count = info.results.len() as u64;
        if matches!(info.count_encoding, CountEncoding::Counted | CountEncoding::Segments | CountEncoding::CountedResults) {
            count = self.cursor.count().context(&self.cursor, || format!("failed to read number of result types for {class}"))?;
        }
        let mut types = SmallVec::new();
        if opcode == Opcode::PrintTko {
            // Print ops have a token from 13.2 on. An older print op receives a token that no op can use.
            let expected = u64::from(self.tables.version.has(Feature::PrintToken));
            for _ in 0..expected {
                types.push(self.read_result_type(0, class)?);
            }
            if count != expected {
                return Err(self
                    .cursor
                    .error(format!("result count mismatch for {class}: expected {expected} compatible results but got {count}")));
            }
            if expected == 0 {
                types.push(self.tables.types.intern(Type::Token));
            }
            return Ok((types, expected as usize));
        }
        for i in 0..count {
            types.push(self.read_result_type(i, class)?);
        }
        let count = types.len();
        Ok((types, count))
    }

    fn read_result_type(&mut self, index: u64, class: &str) -> Result<TypeId> {
        let ty = self.tables.types.read(&mut self.cursor, &mut self.tables.strings);
        ty.context(&self.cursor, || format!("failed to get result type {index} for {class}"))
    }

    /// Reads the operands of a field. `bit` is the bit of the field in the flags word, or `None` for a field without such a bit.
    fn read_operand_field(
        &mut self,
        opcode: Opcode,
        field: &FieldInfo,
        bit: Option<bool>,
        counter: &mut OperandCounter,
    ) -> Result<FieldValue> {
        let info = opcode.info();
        if let (CountEncoding::Counted | CountEncoding::CountedOperands, OperandCounter::Uncounted { .. }) =
            (info.count_encoding, &*counter)
        {
            let left = self.cursor.count().with_message(&self.cursor, "failed to read operand count")?;
            *counter = OperandCounter::Counted { left, seen: 0 };
        }
        // Error messages name the segment of an operand if the op has segments, and otherwise the operand's index.
        let has_segments =
            info.count_encoding == CountEncoding::Segments || info.flag_fields().any(|(_, field)| field.shape.is_operand());
        match field.shape {
            FieldShape::OptionalOperand => {
                let present = bit.unwrap_or_else(|| counter.left() > 0);
                let value = present.then(|| self.read_operand(field, has_segments, 0, counter)).transpose()?;
                Ok(FieldValue::OptionalOperand(value))
            }
            FieldShape::Operands => {
                let count = match info.count_encoding {
                    CountEncoding::Segments => self.cursor.varint().context(&self.cursor, || {
                        let (name, op) = (field.wire_name, info.mnemonic);
                        format!("failed to read actual size for variadic ODS segment '{name}' of op 'cuda_tile.{op}'")
                    })? as u32 as i32 as i64 as u64,
                    _ => counter.left(),
                };
                let mut values = Vec::new();
                // NVIDIA's reader treats a 32-bit count with the top bit set as negative and reads no element.
                for element in 0..(count as i64).max(0) as u64 {
                    values.push(self.read_operand(field, has_segments, element, counter)?);
                }
                Ok(FieldValue::Operands(values.into()))
            }
            _ => Ok(FieldValue::Operand(self.read_operand(field, has_segments, 0, counter)?)),
        }
    }

    /// Reads an operand. `element` is the operand's position among the operands of the field, for messages.
    fn read_operand(&mut self, field: &FieldInfo, has_segments: bool, element: u64, counter: &mut OperandCounter) -> Result<Value> {
        let operand_index = counter.take().ok_or_else(|| self.cursor.error("an operation has fewer operands than it needs"))?;
        let operand_place = || match has_segments {
            true => format!("for {} segment, element {element}", field.wire_name),
            false => format!("for operand {operand_index}"),
        };
        let index = self.cursor.varint().context(&self.cursor, || match has_segments {
            true => format!("failed to read operand index {}", operand_place()),
            false => format!("failed to read operand index {operand_index}"),
        })?;
        let value_count = self.values.len();
        let value = usize::try_from(index).ok().and_then(|index| self.values.get(index)).copied();
        value.ok_or_else(|| {
            self.cursor.error(format!("operand index {index} out of bounds (size={value_count}) {}", operand_place()))
        })
    }

    /// Reads an attribute field. `bit` is the bit of the field in the flags word, or `None` for a field without such a bit.
    fn read_attribute_field(
        &mut self,
        opcode: Opcode,
        field: &FieldInfo,
        bit: Option<bool>,
        result_type: Option<TypeId>,
    ) -> Result<FieldValue> {
        let value = match (field.shape, bit) {
            (FieldShape::Flag, bit) => return Ok(FieldValue::Flag(bit.unwrap_or(false))),
            (FieldShape::OptionalEnum(_), Some(false)) => return Ok(FieldValue::OptionalEnum(None)),
            (FieldShape::OptionalDictionary, Some(false)) => return Ok(FieldValue::OptionalDictionary(None)),
            (FieldShape::OptionalAttributes, Some(false)) => return Ok(FieldValue::OptionalAttributes(None)),
            (shape, _) => self.read_attribute_value(opcode, shape, result_type),
        };
        let optional_prefix = if bit.is_some() { "optional " } else { "" };
        value.context(&self.cursor, || format!("failed to parse {optional_prefix}attribute '{}'", field.wire_name))
    }

    fn read_attribute_value(&mut self, opcode: Opcode, shape: FieldShape, result_type: Option<TypeId>) -> Result<FieldValue> {
        let version = self.tables.version;
        let cursor = &mut self.cursor;
        Ok(match shape {
            FieldShape::Enum(spellings) => FieldValue::Enum(read_enum_field(cursor, spellings, version)?),
            FieldShape::OptionalEnum(spellings) => FieldValue::OptionalEnum(Some(read_enum_field(cursor, spellings, version)?)),
            FieldShape::Byte(_) => {
                FieldValue::Enum(u8::from(cursor.byte().with_message(cursor, "failed to read byte for inline bool (i1)")? != 0))
            }
            FieldShape::Int32 => {
                FieldValue::Int(i64::from(crate::bytecode::attributes::read_inline_integer(cursor, 32)? as u32 as i32))
            }
            FieldShape::Int64 => FieldValue::Int(crate::bytecode::attributes::read_inline_integer(cursor, 64)? as i64),
            FieldShape::String => {
                FieldValue::String(self.tables.strings.read(cursor).with_message(cursor, "failed to read StringAttr.")?)
            }
            FieldShape::Symbol => {
                let name = self.tables.strings.read(cursor).with_message(cursor, "failed to read string for FlatSymbolRefAttr.")?;
                if self.tables.strings.text(name).is_empty() {
                    return Err(cursor.error("empty symbol reference is invalid"));
                }
                FieldValue::String(name)
            }
            FieldShape::Constant => match result_type {
                Some(ty) => FieldValue::Constant(self.tables.read_constant(cursor, ty)?),
                None => return Err(cursor.error("a constant has no type")),
            },
            FieldShape::Attribute => {
                let attribute = self.tables.read_attribute(cursor);
                let attribute =
                    attribute.with_message(cursor, "failed to parse self-contained attribute for AssumePredicateAttrInterface")?;
                let is_predicate =
                    matches!(attribute, Attribute::DivBy { .. } | Attribute::SameElements(_) | Attribute::Bounded { .. });
                if !is_predicate {
                    return Err(cursor.error("failed to cast parsed attribute to AssumePredicateAttrInterface"));
                }
                FieldValue::Attribute(attribute)
            }
            FieldShape::Attributes if opcode == Opcode::PreviewCall => FieldValue::Attributes(self.tables.read_attributes(cursor)?),
            FieldShape::Attributes => FieldValue::Attributes(self.tables.read_array_attribute(cursor, 0)?),
            FieldShape::OptionalAttributes => FieldValue::OptionalAttributes(Some(self.tables.read_attributes(cursor)?)),
            FieldShape::OptionalDictionary => FieldValue::OptionalDictionary(Some(Box::new(self.tables.read_hints(cursor)?))),
            FieldShape::Bools => {
                let bytes = cursor.array(|[byte]: [u8; 1]| byte != 0);
                FieldValue::Bools(bytes.with_message(cursor, "failed to read DenseBoolArrayAttr values.")?)
            }
            FieldShape::Ints => {
                let values = cursor.array(i32::from_le_bytes).with_message(cursor, "failed to read DenseI32ArrayAttr values.");
                FieldValue::Ints(check_array_values(values, cursor, |value| *value == i32::MIN || *value == i32::MAX)?)
            }
            FieldShape::Flag | FieldShape::Operand | FieldShape::OptionalOperand | FieldShape::Operands | FieldShape::Region => {
                return Err(cursor.error("a field has no payload of its own"));
            }
        })
    }
}

/// Counts the operands of an op that the reader has read (`seen`).
enum OperandCounter {
    /// The op has no operand count for all its fields.
    Uncounted { seen: u64 },
    /// The op has one operand count for all its fields; `left` of these operands remain.
    Counted { left: u64, seen: u64 },
}

impl OperandCounter {
    /// The number of counted operands that have not been read; 0 without a count.
    fn left(&self) -> u64 {
        match self {
            OperandCounter::Uncounted { .. } => 0,
            OperandCounter::Counted { left, .. } => *left,
        }
    }
    /// Counts one more operand and returns its index. `None` after the last counted operand.
    fn take(&mut self) -> Option<u64> {
        match self {
            OperandCounter::Uncounted { seen } => {
                *seen += 1;
                Some(*seen - 1)
            }
            OperandCounter::Counted { left, seen } => {
                *left = left.checked_sub(1)?;
                *seen += 1;
                Some(*seen - 1)
            }
        }
    }
}

/// Reads the number of an enumeration value. Rejects numbers that the enumeration or the version lacks.
fn read_enum_field(cursor: &mut Cursor<'_>, spellings: &[&str], version: Version) -> Result<u8> {
    let variant_number = cursor.varint().with_message(cursor, "failed to read VarInt for enum attribute.")?;
    if variant_number >= spellings.len() as u64 {
        return Err(cursor.error(format!("invalid integer value for enum type: {variant_number}")));
    }
    if spellings == Rounding::SPELLINGS
        && let Some(since) = Rounding::from_number(variant_number as u8).map(gates::rounding_since)
        && version < since
    {
        return Err(cursor.error(format!("enum value {variant_number} is not available in bytecode version {version}")));
    }
    Ok(variant_number as u8)
}
