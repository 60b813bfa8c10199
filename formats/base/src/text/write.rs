//! The serde serializer of the text form.

use serde::ser::{self, Serialize};
use std::fmt::{self, Display};

/// Returns the text form of a value.
pub fn to_text<T: Serialize + ?Sized>(value: &T) -> String {
    write_value(value).text
}

/// Returns the text of a value, and whether the value is a `Some`.
fn write_value<T: Serialize + ?Sized>(value: &T) -> Writer {
    let mut out = Writer { text: String::new(), is_some_value: false };
    value.serialize(&mut out).expect("every part of an IR can be written as text");
    out
}

/// The serializer. It appends to `text`.
struct Writer {
    text: String,
    /// Whether the entire text is the value of a `Some`. A field list writes such a value even if it is `false` or empty, to
    /// distinguish it from `None`.
    is_some_value: bool,
}

/// The error of the serializer and the deserializer: a message.
#[derive(Debug)]
pub struct Error(pub(super) String);

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Error {}
impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Error(message.to_string())
    }
}
impl ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Error(message.to_string())
    }
}

/// Items between brackets, separated by commas. A field list omits the fields whose value is `None`, `false`, an empty list or a
/// region.
struct Items<'a> {
    out: &'a mut Writer,
    close: &'static str,
    /// Whether no item was written so far.
    first: bool,
}

impl Items<'_> {
    fn write_item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_separator();
        value.serialize(&mut *self.out)
    }
    /// Writes a comma, except before the first item.
    fn write_separator(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.text.push_str(", ");
        }
    }
    /// Writes `name: value`, unless a field list omits the value.
    fn write_field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        let Writer { text, is_some_value } = write_value(value);
        if is_some_value || !matches!(text.as_str(), "_" | "false" | "[]" | "{}") {
            self.write_separator();
            self.out.text.push_str(name);
            self.out.text.push_str(": ");
            self.out.text.push_str(&text);
        }
        Ok(())
    }
    /// Writes the closing bracket, or removes empty parentheses after a name.
    fn finish(self) -> Result<(), Error> {
        // `name` is an abbreviation of `name()`, so the empty parentheses are removed.
        if self.close == ")" && self.out.text.ends_with('(') && self.out.text.len() > 1 && self.first {
            let before = self.out.text.as_bytes()[self.out.text.len() - 2];
            if before.is_ascii_alphanumeric() || before == b'_' {
                self.out.text.pop();
                return Ok(());
            }
        }
        self.out.text.push_str(self.close);
        Ok(())
    }
}

impl Writer {
    fn open_bracket(&mut self, open: &str, close: &'static str) -> Items<'_> {
        self.text.push_str(open);
        Items { out: self, close, first: true }
    }
    /// Appends a value as text.
    fn push(&mut self, value: impl Display) -> Result<(), Error> {
        use fmt::Write as _;
        write!(self.text, "{value}").map_err(|_| Error("out of memory".into()))
    }
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Items<'a>;
    type SerializeStruct = Items<'a>;
    type SerializeStructVariant = Items<'a>;

    fn serialize_bool(self, v: bool) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_i8(self, v: i8) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_i16(self, v: i16) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_i32(self, v: i32) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_i64(self, v: i64) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_u8(self, v: u8) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_u16(self, v: u16) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_u32(self, v: u32) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_u64(self, v: u64) -> Result<(), Error> {
        self.push(v)
    }
    fn serialize_f32(self, _: f32) -> Result<(), Error> {
        Err(Error("floats are stored as bits".into()))
    }
    fn serialize_f64(self, _: f64) -> Result<(), Error> {
        Err(Error("floats are stored as bits".into()))
    }
    fn serialize_char(self, v: char) -> Result<(), Error> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, v: &str) -> Result<(), Error> {
        self.text.push('"');
        for c in v.chars() {
            match c {
                '"' | '\\' => {
                    self.text.push('\\');
                    self.text.push(c);
                }
                '\n' => self.text.push_str("\\n"),
                c if c.is_control() => self.push(format_args!("\\u{{{:x}}}", c as u32))?,
                c => self.text.push(c),
            }
        }
        self.text.push('"');
        Ok(())
    }
    fn serialize_bytes(self, v: &[u8]) -> Result<(), Error> {
        self.text.push_str("0x");
        v.iter().try_for_each(|byte| self.push(format_args!("{byte:02x}")))
    }
    fn serialize_none(self) -> Result<(), Error> {
        self.push('_')
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.is_some_value |= self.text.is_empty();
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Error> {
        self.push("()")
    }
    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Error> {
        self.push(name)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.push(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Error> {
        match name {
            "Value" => self.text.push('%'),
            "Block" => self.text.push('^'),
            "Loc" => self.text.push('@'),
            // The content of a region follows the op. The field of the region is only a pair of braces.
            "Region" => return self.push("{}"),
            _ => {}
        }
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        if super::read::TRANSPARENT.contains(&variant) {
            return value.serialize(self);
        }
        self.push(variant)?;
        let mut items = self.open_bracket("(", ")");
        items.write_item(value)?;
        items.finish()
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(self.open_bracket("[", "]"))
    }
    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, Error> {
        Ok(self.open_bracket("<", ">"))
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Error> {
        Ok(self.open_bracket("<", ">"))
    }
    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Items<'a>, Error> {
        self.push(variant)?;
        Ok(self.open_bracket("(", ")"))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(self.open_bracket("{", "}"))
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Error> {
        Ok(self.open_bracket("(", ")"))
    }
    fn serialize_struct_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Items<'a>, Error> {
        self.push(variant)?;
        Ok(self.open_bracket("(", ")"))
    }
}

impl ser::SerializeSeq for Items<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
impl ser::SerializeTuple for Items<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
impl ser::SerializeTupleStruct for Items<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
impl ser::SerializeTupleVariant for Items<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.write_item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
impl ser::SerializeMap for Items<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.write_item(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.text.push_str(": ");
        value.serialize(&mut *self.out)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
impl ser::SerializeStruct for Items<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.write_field(name, value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
impl ser::SerializeStructVariant for Items<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.write_field(name, value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::to_text;
    use crate::text::from_text;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Fields {
        choice: Option<bool>,
        list: Option<Vec<u32>>,
        flag: bool,
    }

    /// A field list omits `false` and empty lists. `Some(false)` and a `Some` of an empty list are not omitted.
    #[test]
    fn some_values_are_written_even_if_they_are_false_or_empty() {
        let explicit = Fields { choice: Some(false), list: Some(Vec::new()), flag: false };
        assert_eq!(to_text(&explicit), "(choice: false, list: [])");
        for fields in [explicit, Fields::default(), Fields { choice: Some(true), list: None, flag: true }] {
            assert_eq!(from_text::<Fields>(&to_text(&fields)).as_ref(), Some(&fields));
        }
    }
}
