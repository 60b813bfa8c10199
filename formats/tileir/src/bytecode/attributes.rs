//! Reads self-describing attributes. Each attribute has a tag and a payload; arrays and dictionaries contain attributes.

use super::cursor::{Cursor, ErrorContext};
use super::error::{ReadError, Result};
use super::preview;
use super::reader::Tables;
use super::types::{check_unused_bits, preview_not_signalled};
use crate::enums::WireEnum;
use crate::gates::{ATTRIBUTES, AttributeKind};
use crate::reader_limits::MAX_DEPTH;
use crate::types::{Attribute, ConstantId, Dictionary, StringId, Type, TypeId};
use core_dialect::memory::MulticastReduction;
use numerics::Scalar;

impl Tables<'_> {
    pub(super) fn read_attribute(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        self.read_nested_attribute(cursor, 0)
    }

    /// Reads an attribute at a nesting depth. Fails above [`MAX_DEPTH`].
    fn read_nested_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        if depth > MAX_DEPTH {
            return Err(cursor.error(format!("attributes are nested deeper than {MAX_DEPTH} levels")));
        }
        let tag_number = cursor.varint().with_message(cursor, "failed to read AttributeTag for self-contained attribute.")?;
        let unsupported_message = || format!("unsupported AttributeTag {tag_number} for self-contained attribute");
        let Some(row) = ATTRIBUTES.iter().find(|row| u64::from(row.tag) == tag_number) else {
            return Err(cursor.error(unsupported_message()));
        };
        if row.preview && !self.preview {
            return Err(cursor.error(preview_not_signalled(format_args!("attribute tag {}", row.tag))));
        }
        if self.version < row.since {
            return Err(cursor.error(unsupported_message()));
        }
        Ok(match row.kind {
            AttributeKind::Integer => self.read_integer_attribute(cursor)?,
            AttributeKind::Float => self.read_float_attribute(cursor)?,
            AttributeKind::Bool => {
                Attribute::Bool(cursor.byte().with_message(cursor, "failed to read byte for inline bool (i1)")? != 0)
            }
            AttributeKind::Type => Attribute::Type(
                self.types.read(cursor, &mut self.strings).with_message(cursor, "failed to get referenced type for TypeAttr")?,
            ),
            AttributeKind::String => {
                Attribute::String(self.strings.read(cursor).with_message(cursor, "failed to read StringAttr.")?)
            }
            AttributeKind::Array => Attribute::Array(self.read_array_attribute(cursor, depth)?),
            AttributeKind::Dense => self.read_dense_attribute(cursor)?,
            AttributeKind::DivBy => read_div_by(cursor)?,
            AttributeKind::SameElements => Attribute::SameElements(
                check_array_values(
                    cursor.array(i64::from_le_bytes).with_message(cursor, "failed to read DenseI64ArrayAttr values."),
                    cursor,
                    |value| *value == i64::MIN || *value == i64::MAX,
                )
                .with_message(cursor, "failed to read DenseI64ArrayAttr for SameElementsAttr")?,
            ),
            AttributeKind::Dictionary => Attribute::Dictionary(self.read_nested_dictionary(cursor, depth)?),
            AttributeKind::OptimizationHints => Attribute::OptimizationHints(self.read_nested_hints(cursor, depth)?),
            AttributeKind::Bounded => read_bounded(cursor)?,
            AttributeKind::MulticastReduction => {
                let reduction_number = cursor.varint().with_message(cursor, "failed to read VarInt for enum attribute.")?;
                let kind = u8::try_from(reduction_number).ok().and_then(MulticastReduction::from_number);
                Attribute::MulticastReduction(
                    kind.ok_or_else(|| cursor.error(format!("invalid enum value for value: {reduction_number}")))?,
                )
            }
            kind => Attribute::Preview(preview::read_attribute(kind, &mut self.types, &mut self.strings, cursor, depth)?),
        })
    }

    /// Reads a count and as many attributes, of any kind.
    pub(super) fn read_attributes(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[Attribute]>> {
        let count = cursor.count().with_message(cursor, "failed to read size for ArrayAttr.")?;
        let mut attributes = Vec::new();
        for i in 0..count {
            attributes.push(self.read_attribute(cursor).context(cursor, || format!("failed to parse ArrayAttr element {i}"))?);
        }
        Ok(attributes.into())
    }

    /// Reads a count and as many dictionaries, each after its tag.
    pub(super) fn read_dictionaries(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[Dictionary]>> {
        let attributes = self.read_attributes(cursor)?;
        let dictionaries = attributes.into_iter().map(|attribute| match attribute {
            Attribute::Dictionary(entries) => Ok(entries),
            _ => Err(cursor.error("the attributes of an argument are not a dictionary")),
        });
        dictionaries.collect()
    }

    /// Reads a dictionary without a tag (the number of its attribute kind): the field always holds a dictionary.
    pub(super) fn read_dictionary(&mut self, cursor: &mut Cursor<'_>) -> Result<Dictionary> {
        self.read_nested_dictionary(cursor, 0)
    }

    /// Reads the elements of an array attribute. Elements of some kinds, such as types, are invalid.
    pub(super) fn read_array_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Box<[Attribute]>> {
        let count = cursor.count().with_message(cursor, "failed to read size for ArrayAttr.")?;
        let mut elements = Vec::new();
        for i in 0..count {
            let element = self
                .read_nested_attribute(cursor, depth + 1)
                .context(cursor, || format!("failed to parse ArrayAttr element {i}"))?;
            let is_typed = matches!(
                element,
                Attribute::Integer { .. }
                    | Attribute::Float { .. }
                    | Attribute::Bool(_)
                    | Attribute::String(_)
                    | Attribute::Dense { .. }
            );
            if !is_typed {
                return Err(cursor.error("ArrayAttr contains non-TypedAttr elements or is null"));
            }
            elements.push(element);
        }
        Ok(elements.into())
    }

    /// Reads the optimization hints of an op: a dictionary without a tag, whose values must be dictionaries.
    pub(super) fn read_hints(&mut self, cursor: &mut Cursor<'_>) -> Result<Dictionary> {
        self.read_nested_hints(cursor, 0)
    }

    fn read_nested_hints(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        let entries = self.read_nested_dictionary(cursor, depth)?;
        if let Some((key, _)) = entries.iter().find(|(_, value)| !matches!(value, Attribute::Dictionary(_))) {
            let message = format!(
                "expected dictionary attribute for optimization_hints entry `{}` got another kind of value",
                self.strings.text(*key)
            );
            return Err(cursor.error(message).with_outer_line(cursor.offset(), "failed to parse OptimizationHintsAttr"));
        }
        Ok(entries)
    }

    fn read_nested_dictionary(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Dictionary> {
        let count = cursor.count().with_message(cursor, "failed to read size for DictionaryAttr")?;
        let mut entries: Vec<(StringId, Attribute)> = Vec::new();
        for i in 0..count {
            let key = self.strings.read(cursor).context(cursor, || format!("failed to read key for DictionaryAttr element {i}"))?;
            if self.strings.text(key).is_empty() {
                return Err(cursor.error(format!("invalid empty attribute name for DictionaryAttr element {i}")));
            }
            let value = self.read_nested_attribute(cursor, depth + 1);
            let strings = &self.strings;
            let value = value.context(cursor, || format!("failed to parse DictionaryAttr value for key {}", strings.text(key)))?;
            entries.push((key, value));
        }
        // The file may have the entries in any order. NVIDIA's reader sorts the entries by key.
        entries.sort_by(|(a, _), (b, _)| self.strings.text(*a).cmp(self.strings.text(*b)));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let key = self.strings.text(pair[0].0);
            return Err(cursor.error(format!("failed to parse DictionaryAttr, duplicate key found: \"{key}\"")));
        }
        Ok(entries.into())
    }

    fn read_integer_attribute(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
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
        Ok(Attribute::Integer { ty, bits: read_inline_integer(cursor, scalar.bits())? })
    }

    fn read_float_attribute(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
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
            check_bit_width(cursor, value, width)?
        };
        Ok(Attribute::Float { ty, bits: if scalar == Scalar::TF32 { bits << 13 } else { bits } })
    }

    fn read_dense_attribute(&mut self, cursor: &mut Cursor<'_>) -> Result<Attribute> {
        const MESSAGE: &str = "failed to read valid MLIR Type for self-contained DenseElementsAttr";
        let ty = self.types.read(cursor, &mut self.strings).with_message(cursor, MESSAGE)?;
        if !matches!(self.types.arena[ty], Type::Tile { .. }) {
            return Err(cursor.error(MESSAGE));
        }
        let data = self.read_constant(cursor, ty)?;
        Ok(Attribute::Dense { ty, data })
    }

    /// Reads a reference to constant data of type `ty`.
    pub(super) fn read_constant(&mut self, cursor: &mut Cursor<'_>, ty: TypeId) -> Result<ConstantId> {
        let index = cursor.varint().with_message(cursor, "failed to read constant index")?;
        if index >= self.constants.len() {
            return Err(cursor.error(format!("constant index {index} out of bounds")));
        }
        self.intern_constant(index, ty)
    }

    /// Returns the id of the constant with an index, whose data must be valid for the type `ty`.
    pub(super) fn intern_constant(&mut self, index: u64, ty: TypeId) -> Result<ConstantId> {
        let tile = self.types.element_and_shape(ty).and_then(|(element, shape)| Some((element.scalar()?, shape)));
        let Some((scalar, shape)) = tile else {
            let ty = &self.types.arena[ty];
            let got = if ty.tile().is_some() { "a tile of pointers" } else { "<<NULL TYPE>>" };
            return Err(ReadError::at(0, format!("expect Cuda Tile integer or float type but got: {got}")));
        };
        let element_count = shape.iter().product::<i64>() as usize;
        self.constants.get(index, |data, cursor| {
            crate::module::check_constant_size(data, scalar, element_count).map_err(|message| cursor.error(message))
        })
    }
}

/// Reads an integer of `width` bits. The file has its bits as an unsigned varint.
pub(super) fn read_inline_integer(cursor: &mut Cursor<'_>, width: u32) -> Result<u64> {
    let value = cursor.varint().context(cursor, || format!("failed to read VarInt for inline integer (width={width})"))?;
    check_bit_width(cursor, value, width)
}

/// Checks that a value has at most `width` bits, and returns it.
fn check_bit_width(cursor: &Cursor<'_>, value: u64, width: u32) -> Result<u64> {
    if width < 64 && value >> width != 0 {
        return Err(cursor.error(format!("value {value} does not fit in {width} bits")));
    }
    Ok(value)
}

/// Returns the values of an array. The error is for the first value for which `is_refused` is true. Callers refuse the smallest and
/// the largest value of the element type, as NVIDIA's reader does.
pub(super) fn check_array_values<T: std::fmt::Display>(
    values: Result<Box<[T]>>,
    cursor: &Cursor<'_>,
    is_refused: impl Fn(&T) -> bool,
) -> Result<Box<[T]>> {
    let values = values?;
    match values.iter().find(|value| is_refused(value)) {
        Some(value) => Err(cursor.error(format!("array contains unsupported value {value}"))),
        None => Ok(values),
    }
}

fn read_div_by(cursor: &mut Cursor<'_>) -> Result<Attribute> {
    let divisor = cursor.varint().with_message(cursor, "failed to read divisor for DivByAttr")?;
    let flags = cursor.varint().with_message(cursor, "failed to read flags byte for DivByAttr")?;
    let every = read_optional_signed_varint(cursor, flags & 1 != 0, "failed to read value for 'every' in DivByAttr")?;
    let along = read_optional_signed_varint(cursor, flags & 2 != 0, "failed to read value for 'along' in DivByAttr")?;
    check_unused_bits(cursor, flags, 3)?;
    Ok(Attribute::DivBy { divisor, every, along })
}

fn read_bounded(cursor: &mut Cursor<'_>) -> Result<Attribute> {
    let flags = cursor.varint().with_message(cursor, "failed to read flags byte for BoundedAttr")?;
    let lower = read_optional_signed_varint(cursor, flags & 1 != 0, "failed to read lower bound for BoundedAttr")?;
    let upper = read_optional_signed_varint(cursor, flags & 2 != 0, "failed to read upper bound for BoundedAttr")?;
    check_unused_bits(cursor, flags, 3)?;
    Ok(Attribute::Bounded { lower, upper })
}

fn read_optional_signed_varint(cursor: &mut Cursor<'_>, present: bool, message: &str) -> Result<Option<i64>> {
    if !present {
        return Ok(None);
    }
    Ok(Some(cursor.signed_varint().with_message(cursor, message)? as i64))
}
