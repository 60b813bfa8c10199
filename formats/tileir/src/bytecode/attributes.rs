//! Self-describing attributes: a tag and a payload, nested in arrays and dictionaries.

use super::cursor::{Context, Cursor};
use super::error::{ReadError, Result};
use super::reader::Tables;
use super::types::{no_unused_bits, preview_not_signalled};
use super::{MAX_DEPTH, preview};
use crate::enums::WireEnum;
use crate::gates::{ATTRIBUTES, AttributeKind};
use crate::types::{Attribute, ConstantId, Dictionary, StringId, Type, TypeId};
use core_dialect::memory::MulticastReduction;
use numerics::Scalar;

impl Tables<'_> {
    pub(super) fn attribute(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        self.nested_attribute(cursor, 0)
    }

    fn nested_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        if depth > MAX_DEPTH {
            return Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        let number = cursor.varint().with_message(cursor, "failed to read AttributeTag for self-contained attribute.")?;
        let unsupported = || format!("unsupported AttributeTag {number} for self-contained attribute");
        let Some(row) = ATTRIBUTES.iter().find(|row| row.tag == number as u8) else { return Err(cursor.error(unsupported())) };
        if row.preview && !self.preview {
            return Err(cursor.error(preview_not_signalled(format_args!("attribute tag {}", row.tag))));
        }
        if self.version < row.since {
            return Err(cursor.error(unsupported()));
        }
        Ok(match row.kind {
            AttributeKind::Integer => self.integer(cursor)?,
            AttributeKind::Float => self.float(cursor)?,
            AttributeKind::Bool => {
                Attribute::Bool(cursor.byte().with_message(cursor, "failed to read byte for inline bool (i1)")? != 0)
            }
            AttributeKind::Type => Attribute::Type(
                self.types.read(cursor, &mut self.strings).with_message(cursor, "failed to get referenced type for TypeAttr")?,
            ),
            AttributeKind::String => {
                Attribute::String(self.strings.read(cursor).with_message(cursor, "failed to read StringAttr.")?)
            }
            AttributeKind::Array => Attribute::Array(self.array(cursor, depth)?),
            AttributeKind::Dense => self.dense(cursor)?,
            AttributeKind::DivBy => div_by(cursor)?,
            AttributeKind::SameElements => Attribute::SameElements(
                checked_array(
                    cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read DenseI64ArrayAttr values."),
                    cursor,
                    |value| *value == i64::MIN || *value == i64::MAX,
                )
                .with_message(cursor, "failed to read DenseI64ArrayAttr for SameElementsAttr")?,
            ),
            AttributeKind::Dictionary => Attribute::Dictionary(self.nested_dictionary(cursor, depth)?),
            AttributeKind::OptimizationHints => Attribute::OptimizationHints(self.hints_at(cursor, depth)?),
            AttributeKind::Bounded => bounded(cursor)?,
            AttributeKind::MulticastReduction => {
                let number = cursor.varint().with_message(cursor, "failed to read VarInt for enum attribute.")?;
                let kind = u8::try_from(number).ok().and_then(MulticastReduction::from_number);
                Attribute::MulticastReduction(kind.ok_or_else(|| cursor.error(format!("invalid enum value for value: {number}")))?)
            }
            kind => Attribute::Preview(preview::attribute(kind, &mut self.types, &mut self.strings, cursor, depth)?),
        })
    }

    /// A counted list of attributes of any kind.
    pub(super) fn attributes(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[Attribute]>> {
        let count = cursor.count().with_message(cursor, "failed to read size for ArrayAttr.")?;
        let mut all = Vec::new();
        for i in 0..count {
            all.push(self.attribute(cursor).context(cursor, || format!("failed to parse ArrayAttr element {i}"))?);
        }
        Ok(all.into())
    }

    /// A counted list of dictionaries, each preceded by its tag.
    pub(super) fn dictionaries(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[Dictionary]>> {
        let all = self.attributes(cursor)?;
        let each = all.into_iter().map(|attribute| match attribute {
            Attribute::Dictionary(entries) => Ok(entries),
            _ => Err(cursor.error("the attributes of an argument are not a dictionary")),
        });
        each.collect()
    }

    /// A dictionary without its tag.
    pub(super) fn dictionary(&mut self, cursor: &mut Cursor<'_>) -> Result<Dictionary> {
        self.nested_dictionary(cursor, 0)
    }

    pub(super) fn array(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Box<[Attribute]>> {
        let count = cursor.count().with_message(cursor, "failed to read size for ArrayAttr.")?;
        let mut elements = Vec::new();
        for i in 0..count {
            let element =
                self.nested_attribute(cursor, depth + 1).context(cursor, || format!("failed to parse ArrayAttr element {i}"))?;
            let typed = matches!(
                element,
                Attribute::Integer { .. }
                    | Attribute::Float { .. }
                    | Attribute::Bool(_)
                    | Attribute::String(_)
                    | Attribute::Dense { .. }
            );
            if !typed {
                return Err(cursor.error("ArrayAttr contains non-TypedAttr elements or is null"));
            }
            elements.push(element);
        }
        Ok(elements.into())
    }

    /// The untagged dictionary of an op's hints; each of its values is a dictionary.
    pub(super) fn hints(&mut self, cursor: &mut Cursor<'_>) -> Result<Dictionary> {
        self.hints_at(cursor, 0)
    }

    fn hints_at(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        let entries = self.nested_dictionary(cursor, depth)?;
        if let Some((key, _)) = entries.iter().find(|(_, value)| !matches!(value, Attribute::Dictionary(_))) {
            let message = format!(
                "expected dictionary attribute for optimization_hints entry `{}` got another kind of value",
                self.strings.text(*key)
            );
            return Err(cursor.error(message).then(cursor.offset(), "failed to parse OptimizationHintsAttr"));
        }
        Ok(entries)
    }

    fn nested_dictionary(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        let count = cursor.count().with_message(cursor, "failed to read size for DictionaryAttr")?;
        let mut entries: Vec<(StringId, Attribute)> = Vec::new();
        for i in 0..count {
            let key = self.strings.read(cursor).context(cursor, || format!("failed to read key for DictionaryAttr element {i}"))?;
            if self.strings.text(key).is_empty() {
                return Err(cursor.error(format!("invalid empty attribute name for DictionaryAttr element {i}")));
            }
            let value = self.nested_attribute(cursor, depth + 1);
            let strings = &self.strings;
            let value = value.context(cursor, || format!("failed to parse DictionaryAttr value for key {}", strings.text(key)))?;
            entries.push((key, value));
        }
        // Dictionaries are unordered; NVIDIA's reader keeps and prints them sorted.
        entries.sort_by(|(a, _), (b, _)| self.strings.text(*a).cmp(self.strings.text(*b)));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let key = self.strings.text(pair[0].0);
            return Err(cursor.error(format!("failed to parse DictionaryAttr, duplicate key found: \"{key}\"")));
        }
        Ok(entries.into())
    }

    fn integer(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        const MESSAGE: &str = "failed to read valid IntegerType for IntegerAttr";
        let ty = self.types.read(cursor, &mut self.strings).with_message(cursor, MESSAGE)?;
        let Type::Scalar(scalar) = self.types.arena[ty] else { return Err(cursor.error(MESSAGE)) };
        if !scalar.is_int() {
            return Err(cursor.error(MESSAGE));
        }
        if scalar == Scalar::I1 {
            let byte = cursor.byte().with_message(cursor, "failed to read byte for inline bool (i1)")?;
            return Ok(Attribute::Integer { ty, bits: u64::from(byte != 0) });
        }
        Ok(Attribute::Integer { ty, bits: inline_integer(cursor, scalar.bits())? })
    }

    fn float(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        const MESSAGE: &str = "failed to read valid FloatType for FloatAttr";
        let ty = self.types.read(cursor, &mut self.strings).with_message(cursor, MESSAGE)?;
        let Type::Scalar(scalar) = self.types.arena[ty] else { return Err(cursor.error(MESSAGE)) };
        if !scalar.is_float() {
            return Err(cursor.error(MESSAGE));
        }
        let width = if scalar == Scalar::TF32 { 19 } else { scalar.bits() };
        let bits = if width <= 8 {
            let byte = cursor.byte().with_message(cursor, "failed to read byte for APInt (<= 8 bits).")?;
            if u32::from(byte) >> width != 0 {
                return Err(cursor.error(format!("value {byte} does not fit in {width} bits.")));
            }
            u64::from(byte)
        } else {
            let value = cursor.signed_varint().with_message(cursor, "failed to read signed varint for APInt (<= 64 bits).")?;
            fits(cursor, value, width)?
        };
        Ok(Attribute::Float { ty, bits: if scalar == Scalar::TF32 { bits << 13 } else { bits } })
    }

    fn dense(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        const MESSAGE: &str = "failed to read valid MLIR Type for self-contained DenseElementsAttr";
        let ty = self.types.read(cursor, &mut self.strings).with_message(cursor, MESSAGE)?;
        if !matches!(self.types.arena[ty], Type::Tile { .. }) {
            return Err(cursor.error(MESSAGE));
        }
        let data = self.constant(cursor, ty)?;
        Ok(Attribute::Dense { ty, data })
    }

    /// A reference to constant data of type `ty`.
    pub(super) fn constant(&mut self, cursor: &mut Cursor<'_>, ty: TypeId) -> Result<ConstantId> {
        let index = cursor.varint().with_message(cursor, "failed to read constant index")?;
        if index >= self.constants.len() {
            return Err(cursor.error(format!("constant index {index} out of bounds")));
        }
        self.constant_at(index, ty)
    }

    pub(super) fn constant_at(&mut self, index: u64, ty: TypeId) -> Result<ConstantId> {
        let tile = self.types.element(ty).and_then(|(element, shape)| Some((element.scalar()?, shape)));
        let Some((scalar, shape)) = tile else {
            let ty = &self.types.arena[ty];
            let got = if ty.tile().is_some() { "a tile of pointers" } else { "<<NULL TYPE>>" };
            return Err(ReadError::at(0, format!("expect Cuda Tile integer or float type but got: {got}")));
        };
        let elements = shape.iter().product::<i64>() as usize;
        self.constants.get(index, |data, cursor| {
            crate::module::check_constant_size(data, scalar, elements).map_err(|message| cursor.error(message))
        })
    }
}

/// An integer stored as its bits.
pub(super) fn inline_integer(cursor: &mut Cursor<'_>, width: u32) -> Result<u64> {
    let value = cursor.varint().context(cursor, || format!("failed to read VarInt for inline integer (width={width})"))?;
    fits(cursor, value, width)
}

fn fits(cursor: &Cursor<'_>, value: u64, width: u32) -> Result<u64> {
    if width < 64 && value >> width != 0 {
        return Err(cursor.error(format!("value {value} does not fit in {width} bits")));
    }
    Ok(value)
}

/// An array without the smallest and largest value, which NVIDIA's reader rejects.
pub(super) fn checked_array<T: std::fmt::Display>(
    values: Result<Box<[T]>>,
    cursor: &Cursor<'_>,
    refused: impl Fn(&T) -> bool,
) -> Result<Box<[T]>> {
    let values = values?;
    match values.iter().find(|value| refused(value)) {
        Some(value) => Err(cursor.error(format!("array contains unsupported value {value}"))),
        None => Ok(values),
    }
}

fn div_by(cursor: &mut Cursor<'_>) -> Result<Attribute> {
    let divisor = cursor.varint().with_message(cursor, "failed to read divisor for DivByAttr")?;
    let flags = cursor.varint().with_message(cursor, "failed to read flags byte for DivByAttr")?;
    let every = optional(cursor, flags & 1 != 0, "failed to read value for 'every' in DivByAttr")?;
    let along = optional(cursor, flags & 2 != 0, "failed to read value for 'along' in DivByAttr")?;
    no_unused_bits(cursor, flags, 3)?;
    Ok(Attribute::DivBy { divisor, every, along })
}

fn bounded(cursor: &mut Cursor<'_>) -> Result<Attribute> {
    let flags = cursor.varint().with_message(cursor, "failed to read flags byte for BoundedAttr")?;
    let lower = optional(cursor, flags & 1 != 0, "failed to read lower bound for BoundedAttr")?;
    let upper = optional(cursor, flags & 2 != 0, "failed to read upper bound for BoundedAttr")?;
    no_unused_bits(cursor, flags, 3)?;
    Ok(Attribute::Bounded { lower, upper })
}

fn optional(cursor: &mut Cursor<'_>, present: bool, message: &str) -> Result<Option<i64>> {
    if !present {
        return Ok(None);
    }
    Ok(Some(cursor.signed_varint().with_message(cursor, message)? as i64))
}
