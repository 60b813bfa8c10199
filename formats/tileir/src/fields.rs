//! The fields of ops as data, so that one reader, writer, printer, parser and verifier serves all ops.
//!
//! The op table gives each op a struct-like variant with typed fields. [`Field`] converts each field type to a [`FieldRef`] and
//! from a [`FieldValue`]. [`FieldShape`] describes a field type without a value.

use crate::enums::{ComparisonOrdering, Direction, WireEnum};
use crate::types::{Attribute, ConstantId, Dictionary, StringId, Symbol};
use base::ir::{Region, Value};
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope, MulticastReduction};
use numerics::arith::{Overflow, Predicate, Rounding, Signedness};

/// The kind of a field, without its op and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldShape {
    Operand,
    /// Present if the field's bit in the flags word is set, or if the operand count includes the field.
    OptionalOperand,
    Operands,
    /// A bit of the flags word.
    Flag,
    Enum(&'static [&'static str]),
    OptionalEnum(&'static [&'static str]),
    /// One byte, 0 or 1.
    Byte(&'static [&'static str]),
    Int32,
    Int64,
    String,
    /// The name of a global.
    Symbol,
    Constant,
    Attribute,
    Attributes,
    OptionalDictionary,
    OptionalAttributes,
    Bools,
    Ints,
    Region,
}

impl FieldShape {
    /// Whether fields of this shape have a bit in the flags word of their op. Exception: if the op has an operand count, its
    /// optional operands have no bit.
    pub fn has_flag(self) -> bool {
        matches!(
            self,
            FieldShape::Flag
                | FieldShape::OptionalOperand
                | FieldShape::OptionalEnum(_)
                | FieldShape::OptionalDictionary
                | FieldShape::OptionalAttributes
        )
    }
    pub fn is_operand(self) -> bool {
        matches!(self, FieldShape::Operand | FieldShape::OptionalOperand | FieldShape::Operands)
    }
    pub fn is_attribute(self) -> bool {
        !self.is_operand() && self != FieldShape::Region
    }
}

/// The value of a field, borrowed from an op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldRef<'a> {
    Operand(Value),
    OptionalOperand(Option<Value>),
    Operands(&'a [Value]),
    Flag(bool),
    Enum(u8),
    OptionalEnum(Option<u8>),
    Int(i64),
    String(StringId),
    Constant(ConstantId),
    Attribute(&'a Attribute),
    Attributes(&'a [Attribute]),
    OptionalDictionary(Option<&'a Dictionary>),
    OptionalAttributes(Option<&'a [Attribute]>),
    Bools(&'a [bool]),
    Ints(&'a [i32]),
    Region(Region),
}

/// An owned value, from which a field of an op is built.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    Operand(Value),
    OptionalOperand(Option<Value>),
    Operands(Box<[Value]>),
    Flag(bool),
    Enum(u8),
    OptionalEnum(Option<u8>),
    Int(i64),
    String(StringId),
    Constant(ConstantId),
    Attribute(Attribute),
    Attributes(Box<[Attribute]>),
    OptionalDictionary(Option<Box<Dictionary>>),
    OptionalAttributes(Option<Box<[Attribute]>>),
    Bools(Box<[bool]>),
    Ints(Box<[i32]>),
    Region(Region),
}

/// A Rust type that op fields may have.
pub trait Field: Sized {
    const SHAPE: FieldShape;
    /// Returns the value of the field.
    fn get(&self) -> FieldRef<'_>;
    /// Converts a value to the field type. `None` if the value has another shape or is out of range.
    fn from_value(value: FieldValue) -> Option<Self>;
    fn for_each_operand(&self, _: &mut dyn FnMut(Value)) {}
    fn for_each_operand_mut(&mut self, _: &mut dyn FnMut(&mut Value)) {}
    fn for_each_region(&self, _: &mut dyn FnMut(Region)) {}
    fn for_each_region_mut(&mut self, _: &mut dyn FnMut(&mut Region)) {}
}

impl Field for Value {
    const SHAPE: FieldShape = FieldShape::Operand;
    fn get(&self) -> FieldRef<'_> {
        FieldRef::Operand(*self)
    }
    fn from_value(value: FieldValue) -> Option<Self> {
        match value {
            FieldValue::Operand(value) => Some(value),
            _ => None,
        }
    }
    fn for_each_operand(&self, f: &mut dyn FnMut(Value)) {
        f(*self);
    }
    fn for_each_operand_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        f(self);
    }
}

impl Field for Option<Value> {
    const SHAPE: FieldShape = FieldShape::OptionalOperand;
    fn get(&self) -> FieldRef<'_> {
        FieldRef::OptionalOperand(*self)
    }
    fn from_value(value: FieldValue) -> Option<Self> {
        match value {
            FieldValue::OptionalOperand(value) => Some(value),
            _ => None,
        }
    }
    fn for_each_operand(&self, f: &mut dyn FnMut(Value)) {
        self.iter().copied().for_each(f);
    }
    fn for_each_operand_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(f);
    }
}

impl Field for Box<[Value]> {
    const SHAPE: FieldShape = FieldShape::Operands;
    fn get(&self) -> FieldRef<'_> {
        FieldRef::Operands(self)
    }
    fn from_value(value: FieldValue) -> Option<Self> {
        match value {
            FieldValue::Operands(values) => Some(values),
            _ => None,
        }
    }
    fn for_each_operand(&self, f: &mut dyn FnMut(Value)) {
        self.iter().copied().for_each(f);
    }
    fn for_each_operand_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(f);
    }
}

impl Field for Region {
    const SHAPE: FieldShape = FieldShape::Region;
    fn get(&self) -> FieldRef<'_> {
        FieldRef::Region(*self)
    }
    fn from_value(value: FieldValue) -> Option<Self> {
        match value {
            FieldValue::Region(region) => Some(region),
            _ => None,
        }
    }
    fn for_each_region(&self, f: &mut dyn FnMut(Region)) {
        f(*self);
    }
    fn for_each_region_mut(&mut self, f: &mut dyn FnMut(&mut Region)) {
        f(self);
    }
}

/// Implements [`Field`] for types without operands and regions. A row has the type, its shape, and the variant of `FieldRef` and of
/// `FieldValue`. Two conversions follow: to the payload of the `FieldRef`, and from the payload of the `FieldValue`.
macro_rules! plain_field {
    ($($type:ty: $shape:expr, $variant:ident, |$get:ident| $to:expr, |$set:ident| $from:expr;)*) => {$(
        impl Field for $type {
            const SHAPE: FieldShape = $shape;
            fn get(&self) -> FieldRef<'_> {
                let $get = self;
                FieldRef::$variant($to)
            }
            fn from_value(value: FieldValue) -> Option<Self> {
                match value {
                    FieldValue::$variant($set) => $from,
                    _ => None,
                }
            }
        }
    )*};
}

plain_field! {
    bool: FieldShape::Flag, Flag, |x| *x, |v| Some(v);
    i32: FieldShape::Int32, Int, |x| i64::from(*x), |v| v.try_into().ok();
    i64: FieldShape::Int64, Int, |x| *x, |v| Some(v);
    StringId: FieldShape::String, String, |x| *x, |v| Some(v);
    Symbol: FieldShape::Symbol, String, |x| x.0, |v| Some(Symbol(v));
    ConstantId: FieldShape::Constant, Constant, |x| *x, |v| Some(v);
    Attribute: FieldShape::Attribute, Attribute, |x| x, |v| Some(v);
    Box<[Attribute]>: FieldShape::Attributes, Attributes, |x| x, |v| Some(v);
    Option<Box<Dictionary>>: FieldShape::OptionalDictionary, OptionalDictionary, |x| x.as_deref(), |v| Some(v);
    Option<Box<[Attribute]>>: FieldShape::OptionalAttributes, OptionalAttributes, |x| x.as_deref(), |v| Some(v);
    Box<[bool]>: FieldShape::Bools, Bools, |x| x, |v| Some(v);
    Box<[i32]>: FieldShape::Ints, Ints, |x| x, |v| Some(v);
    Direction: FieldShape::Byte(Self::SPELLINGS), Enum, |x| x.number(), |v| Self::from_number(v);
    Option<MemoryScope>: FieldShape::OptionalEnum(MemoryScope::SPELLINGS), OptionalEnum, |x| x.map(WireEnum::number),
        |v| v.map_or(Some(None), |number| MemoryScope::from_number(number).map(Some));
}

macro_rules! enum_fields {
    ($($type:ty),*) => {
        plain_field! { $($type: FieldShape::Enum(Self::SPELLINGS), Enum, |x| x.number(), |v| Self::from_number(v);)* }
    };
}

enum_fields!(
    Rounding,
    Signedness,
    Overflow,
    Predicate,
    ComparisonOrdering,
    MemoryOrdering,
    MemoryScope,
    AtomicMode,
    MulticastReduction
);
