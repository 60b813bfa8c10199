//! Writes attributes.

use super::preview_out::write_preview;
use super::writer::{signed_varint, string, varint};
use crate::enums::WireEnum;
use crate::gates::AttributeKind;
use crate::module::Module;
use crate::types::{Attribute, StringId, Type};
use base::entity::Entity;
use numerics::Scalar;

/// The reader bounds the depth, so this function may recurse.
pub(super) fn write_attribute(out: &mut Vec<u8>, module: &Module, attribute: &Attribute) {
    match attribute {
        Attribute::Integer { ty, bits } => {
            tag(out, AttributeKind::Integer);
            varint(out, ty.index() as u64);
            varint(out, *bits);
        }
        Attribute::Float { ty, bits } => {
            tag(out, AttributeKind::Float);
            varint(out, ty.index() as u64);
            match module.ty(*ty) {
                Type::Scalar(scalar) if scalar.bits() <= 8 => out.push(*bits as u8),
                Type::Scalar(Scalar::TF32) => signed_varint(out, (*bits >> 13) as i64),
                _ => signed_varint(out, *bits as i64),
            }
        }
        Attribute::Bool(value) => {
            tag(out, AttributeKind::Bool);
            out.push(u8::from(*value));
        }
        Attribute::Type(ty) => {
            tag(out, AttributeKind::Type);
            varint(out, ty.index() as u64);
        }
        Attribute::String(text) => {
            tag(out, AttributeKind::String);
            string(out, *text);
        }
        Attribute::Array(elements) => {
            tag(out, AttributeKind::Array);
            write_array(out, module, elements);
        }
        Attribute::Dense { ty, data } => {
            tag(out, AttributeKind::Dense);
            varint(out, ty.index() as u64);
            varint(out, data.index() as u64);
        }
        Attribute::DivBy { divisor, every, along } => {
            tag(out, AttributeKind::DivBy);
            varint(out, *divisor);
            optional_pair(out, *every, *along);
        }
        Attribute::SameElements(values) => {
            tag(out, AttributeKind::SameElements);
            varint(out, values.len() as u64);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Attribute::Dictionary(entries) => {
            tag(out, AttributeKind::Dictionary);
            write_dictionary(out, module, entries);
        }
        Attribute::OptimizationHints(entries) => {
            tag(out, AttributeKind::OptimizationHints);
            write_dictionary(out, module, entries);
        }
        Attribute::Bounded { lower, upper } => {
            tag(out, AttributeKind::Bounded);
            optional_pair(out, *lower, *upper);
        }
        Attribute::Preview(preview) => write_preview(out, preview),
        Attribute::MulticastReduction(kind) => {
            tag(out, AttributeKind::MulticastReduction);
            varint(out, kind.number().into());
        }
    }
}

fn tag(out: &mut Vec<u8>, kind: AttributeKind) {
    varint(out, kind.row().tag.into());
}

pub(super) fn write_array(out: &mut Vec<u8>, module: &Module, elements: &[Attribute]) {
    varint(out, elements.len() as u64);
    elements.iter().for_each(|element| write_attribute(out, module, element));
}

pub(super) fn write_dictionary(out: &mut Vec<u8>, module: &Module, entries: &[(StringId, Attribute)]) {
    varint(out, entries.len() as u64);
    for (key, value) in entries {
        string(out, *key);
        write_attribute(out, module, value);
    }
}

/// A byte that marks which of the two values follow.
fn optional_pair(out: &mut Vec<u8>, first: Option<i64>, second: Option<i64>) {
    out.push(u8::from(first.is_some()) | u8::from(second.is_some()) << 1);
    first.into_iter().chain(second).for_each(|value| signed_varint(out, value));
}
