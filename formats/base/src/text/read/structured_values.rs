//! The access of serde to the parts of a value: sequences, maps, the fields of structs, and enum variants.

use super::{Reader, TRANSPARENT};
use crate::nearest::did_you_mean;
use crate::text::write::Error;
use serde::de;
use serde::de::{IntoDeserializer, Visitor};

/// The items between two brackets, separated by commas.
pub(super) struct Items<'a, 't> {
    pub(super) reader: &'a mut Reader<'t>,
    pub(super) close: &'static str,
    /// Whether no item was read so far.
    pub(super) first: bool,
}

impl Items<'_, '_> {
    /// Returns whether an item follows, and skips the comma before it.
    fn has_next(&mut self) -> Result<bool, Error> {
        if self.reader.peek(self.close) {
            return Ok(false);
        }
        if !std::mem::take(&mut self.first) {
            self.reader.expect_token(",")?;
        }
        // A trailing comma is allowed.
        Ok(!self.reader.peek(self.close))
    }
}

impl<'de> de::SeqAccess<'de> for &mut Items<'_, '_> {
    type Error = Error;
    fn next_element_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.has_next()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

impl<'de> de::MapAccess<'de> for &mut Items<'_, '_> {
    type Error = Error;
    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if self.has_next()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        self.reader.expect_token(":")?;
        seed.deserialize(&mut *self.reader)
    }
}

/// The progress of [`Fields`].
pub(super) enum FieldState {
    /// No field was read so far.
    First,
    /// The last field that was read is in the text.
    Written,
    /// All fields in the text were read. The remaining fields are omitted fields.
    Missing,
}

/// The fields of a struct: the fields in the text, then the omitted fields with their default values.
pub(super) struct Fields<'a, 't> {
    pub(super) reader: &'a mut Reader<'t>,
    pub(super) fields: &'static [&'static str],
    /// Whether the text has an opening parenthesis.
    pub(super) open: bool,
    pub(super) state: FieldState,
    /// The fields that were read, or that received a default value.
    pub(super) seen: Vec<&'static str>,
    /// The omitted field whose value is next; `None` if the next value is in the text.
    pub(super) missing: Option<&'static str>,
}

impl<'de> de::MapAccess<'de> for &mut Fields<'_, '_> {
    type Error = Error;
    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let mut at_close = !self.open || self.reader.peek(")");
        if !at_close && matches!(self.state, FieldState::Written) {
            self.reader.expect_token(",")?;
            at_close = self.reader.peek(")");
        }
        if !at_close && !matches!(self.state, FieldState::Missing) {
            self.state = FieldState::Written;
            let word = self.reader.read_word();
            let Some(field) = self.fields.iter().copied().find(|field| *field == word) else {
                let suggestion = did_you_mean(word, self.fields.iter().copied());
                let known_fields = match self.fields {
                    [] => "it has no fields".into(),
                    [only] => format!("the only field is {only}"),
                    [rest @ .., last] => format!("the fields are {} and {last}", rest.join(", ")),
                };
                return self.reader.fail(format!("there is no field '{word}'{suggestion}; {known_fields}"));
            };
            if self.seen.contains(&field) {
                return self.reader.fail(format!("'{field}' is given twice"));
            }
            self.seen.push(field);
            return seed.deserialize(field.into_deserializer()).map(Some);
        }
        self.state = FieldState::Missing;
        self.missing = self.fields.iter().copied().find(|field| !self.seen.contains(field));
        let Some(field) = self.missing else { return Ok(None) };
        self.seen.push(field);
        seed.deserialize(field.into_deserializer()).map(Some)
    }
    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.missing {
            Some(field) => seed.deserialize(OmittedField { field, regions: &mut self.reader.regions }),
            None => {
                self.reader.expect_token(":")?;
                seed.deserialize(&mut *self.reader)
            }
        }
    }
}

/// Deserializes the default value of a field that the text omits.
struct OmittedField<'a> {
    field: &'static str,
    /// The id of the next region. The text omits each field that is a region, because the braces after the op contain the region.
    regions: &'a mut u32,
}

impl<'de> de::Deserializer<'de> for OmittedField<'_> {
    type Error = Error;
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error(format!("field '{}' is missing", self.field)))
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_none()
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(false)
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(de::value::SeqDeserializer::<_, Error>::new(std::iter::empty::<u32>()))
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name != "Region" {
            return visitor.visit_newtype_struct(self);
        }
        let number = *self.regions;
        *self.regions += 1;
        visitor.visit_newtype_struct(IntoDeserializer::<Error>::into_deserializer(number))
    }
    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Deserializes the content of an enum variant. The caller has read the variant's name, or the text omits the name.
pub(super) struct Variant<'a, 't> {
    pub(super) reader: &'a mut Reader<'t>,
    pub(super) name: &'static str,
}

impl<'de, 'a, 't> de::EnumAccess<'de> for Variant<'a, 't> {
    type Error = Error;
    type Variant = Self;
    fn variant_seed<V: de::DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name: de::value::StrDeserializer<'_, Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, '_> {
    type Error = Error;
    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }
    fn newtype_variant_seed<T: de::DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        if TRANSPARENT.contains(&self.name) {
            return seed.deserialize(&mut *self.reader);
        }
        self.reader.expect_token("(")?;
        let value = seed.deserialize(&mut *self.reader)?;
        self.reader.expect_token(")")?;
        Ok(value)
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.reader.read_bracketed("(", ")", |items| visitor.visit_seq(items))
    }
    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.reader.read_fields(fields, |fields| visitor.visit_map(fields))
    }
}
