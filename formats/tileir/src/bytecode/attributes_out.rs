//! Writes self-describing attributes.

use super::preview_out::write_preview;
use super::writer::{write_signed_varint, write_string_index, write_varint};
use crate::enums::WireEnum;
use crate::gates::AttributeKind;
use crate::module::Module;
use crate::types::{Attribute, StringId, Type};
use base::entity::Entity;
use numerics::Scalar;

/// Writes the tag and the payload of an attribute. The function may recurse, because the readers, the parser and the verifier
/// bound the nesting depth of attributes.
pub(super) fn write_attribute(out: &mut Vec<u8>, module: &Module, attribute: &Attribute) {
    match attribute {
        Attribute::Integer { ty, bits } => {
            write_tag(out, AttributeKind::Integer);
            write_varint(out, ty.index() as u64);
            write_varint(out, *bits);
        }
        Attribute::Float { ty, bits } => {
            write_tag(out, AttributeKind::Float);
            write_varint(out, ty.index() as u64);
            match module.ty(*ty) {
                Type::Scalar(scalar) if scalar.bits() <= 8 => out.push(*bits as u8),
                Type::Scalar(Scalar::TF32) => write_signed_varint(out, (*bits >> 13) as i64),
                _ => write_signed_varint(out, *bits as i64),
            }
        }
        Attribute::Bool(value) => {
            write_tag(out, AttributeKind::Bool);
            out.push(u8::from(*value));
        }
        Attribute::Type(ty) => {
            write_tag(out, AttributeKind::Type);
            write_varint(out, ty.index() as u64);
        }
        Attribute::String(text) => {
            write_tag(out, AttributeKind::String);
            write_string_index(out, *text);
        }
        Attribute::Array(elements) => {
            write_tag(out, AttributeKind::Array);
            write_array(out, module, elements);
        }
        Attribute::Dense { ty, data } => {
            write_tag(out, AttributeKind::Dense);
            write_varint(out, ty.index() as u64);
            write_varint(out, data.index() as u64);
        }
        Attribute::DivBy { divisor, every, along } => {
            write_tag(out, AttributeKind::DivBy);
            write_varint(out, *divisor);
            write_optional_pair(out, *every, *along);
        }
        Attribute::SameElements(values) => {
            write_tag(out, AttributeKind::SameElements);
            write_varint(out, values.len() as u64);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Attribute::Dictionary(entries) => {
            write_tag(out, AttributeKind::Dictionary);
            write_dictionary(out, module, entries);
        }
        Attribute::OptimizationHints(entries) => {
            write_tag(out, AttributeKind::OptimizationHints);
            write_dictionary(out, module, entries);
        }
        Attribute::Bounded { lower, upper } => {
            write_tag(out, AttributeKind::Bounded);
            write_optional_pair(out, *lower, *upper);
        }
        Attribute::Preview(preview) => write_preview(out, preview),
        Attribute::MulticastReduction(kind) => {
            write_tag(out, AttributeKind::MulticastReduction);
            write_varint(out, kind.number().into());
        }
    }
}

fn write_tag(out: &mut Vec<u8>, kind: AttributeKind) {
    write_varint(out, kind.row().tag.into());
}

pub(super) fn write_array(out: &mut Vec<u8>, module: &Module, elements: &[Attribute]) {
    write_varint(out, elements.len() as u64);
    elements.iter().for_each(|element| write_attribute(out, module, element));
}

pub(super) fn write_dictionary(out: &mut Vec<u8>, module: &Module, entries: &[(StringId, Attribute)]) {
    write_varint(out, entries.len() as u64);
    for (key, value) in entries {
        write_string_index(out, *key);
        write_attribute(out, module, value);
    }
}

/// Writes a byte whose bits 0 and 1 mark the presence of the two values, and then the values that are present.
fn write_optional_pair(out: &mut Vec<u8>, first: Option<i64>, second: Option<i64>) {
    out.push(u8::from(first.is_some()) | u8::from(second.is_some()) << 1);
    first.into_iter().chain(second).for_each(|value| write_signed_varint(out, value));
}
