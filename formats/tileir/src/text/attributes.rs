//! Writes attributes, strings and constant data as text.

use super::numbers::float_text;
use super::preview::write_full;
use super::types::{Tables, TypeText, separated, write_type};
use crate::enums::WireEnum;
use crate::module::Module;
use crate::types::{Attribute, ConstantId, Dictionary, Type, TypeId};
use numerics::Scalar;
use std::fmt::Write as _;

/// Constants with more elements print as one hexadecimal string.
const HEX_ABOVE: usize = 100;

/// Whether an attribute's type follows it; this depends on its position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Typed {
    Always,
    /// Omitted for i64 and f64, the defaults of a number without a type.
    UnlessDefault,
    /// NVIDIA's form of hints: omitted, even if the number then reads back with another type.
    Never,
}

pub(super) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    escape(out, text);
    out.push('"');
}

fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' if byte != b'"' => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
}

/// `@name`, quoted if it is not an identifier.
pub(super) fn write_symbol(out: &mut String, name: &str) {
    out.push('@');
    let mut bytes = name.bytes();
    let is_identifier = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte));
    if is_identifier { out.push_str(name) } else { write_string(out, name) }
}

pub(super) fn write_hints(out: &mut String, module: &Module, hints: &Dictionary) {
    out.push('<');
    separated(out, hints, ", ", |out, (key, value)| {
        write_key(out, module.string(*key));
        out.push_str(" = {");
        let entries: &[_] = match value {
            Attribute::Dictionary(entries) | Attribute::OptimizationHints(entries) => entries,
            _ => &[],
        };
        separated(out, entries, ", ", |out, (key, value)| {
            write_key(out, module.string(*key));
            out.push_str(" = ");
            write_attribute(out, module, value, Typed::Never);
        });
        out.push('}');
    });
    out.push('>');
}

/// The predicate of `assume`, without the dialect's name.
pub(super) fn write_predicate(out: &mut String, predicate: &Attribute) {
    let bound = |bound: &Option<i64>| bound.map_or("?".to_string(), |value| value.to_string());
    match predicate {
        Attribute::DivBy { divisor, every, along } => {
            let _ = write!(out, "div_by<{divisor}");
            if let Some(every) = every {
                let _ = write!(out, ", every {every} along {}", along.unwrap_or_default());
            }
            out.push('>');
        }
        Attribute::SameElements(values) => {
            out.push_str("same_elements<[");
            separated(out, values, ", ", |out, value| write!(out, "{value}").expect("strings take all text"));
            out.push_str("]>");
        }
        Attribute::Bounded { lower, upper } => {
            let _ = write!(out, "bounded<{}, {}>", bound(lower), bound(upper));
        }
        _ => {}
    }
}

/// The reader bounds the depth, so this function may recurse.
pub(super) fn write_attribute(out: &mut String, module: &Module, attribute: &Attribute, typed: Typed) {
    let scalar = |ty: &TypeId| match module.ty(*ty) {
        Type::Scalar(scalar) => *scalar,
        _ => Scalar::I64,
    };
    match attribute {
        Attribute::Integer { ty, bits } if scalar(ty) == Scalar::I1 => out.push_str(if *bits != 0 { "true" } else { "false" }),
        Attribute::Integer { ty, bits } => {
            let _ = write!(out, "{}", scalar(ty).sign_extend(*bits));
            write_scalar_type(out, scalar(ty), Scalar::I64, typed);
        }
        Attribute::Float { ty, bits } => {
            let text = float_text(scalar(ty), *bits);
            // Hexadecimal digits without a type are an integer.
            let typed = if text.starts_with("0x") { Typed::Always } else { typed };
            out.push_str(&text);
            write_scalar_type(out, scalar(ty), Scalar::F64, typed);
        }
        Attribute::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Attribute::Type(ty) => write_type(out, Tables::of(module), *ty, TypeText::Full),
        Attribute::String(text) => write_string(out, module.string(*text)),
        Attribute::Array(elements) => write_array(out, module, elements),
        Attribute::Dense { ty, data } => {
            out.push_str("dense<");
            write_elements(out, module, *data, *ty);
            out.push_str("> : ");
            write_type(out, Tables::of(module), *ty, TypeText::Full);
        }
        Attribute::Dictionary(entries) => {
            out.push('{');
            separated(out, entries, ", ", |out, (key, value)| {
                write_key(out, module.string(*key));
                out.push_str(" = ");
                write_attribute(out, module, value, Typed::UnlessDefault);
            });
            out.push('}');
        }
        Attribute::OptimizationHints(entries) => {
            out.push_str("#cuda_tile.optimization_hints");
            write_hints(out, module, entries);
        }
        Attribute::Preview(preview) => write_full(out, Tables::of(module), preview),
        Attribute::MulticastReduction(kind) => {
            let _ = write!(out, "#cuda_tile.multimem_reduction_kind<{}>", kind.spelling());
        }
        Attribute::DivBy { .. } | Attribute::SameElements(_) | Attribute::Bounded { .. } => {
            out.push_str("#cuda_tile.");
            write_predicate(out, attribute);
        }
    }
}

/// A key of a dictionary, quoted if it is not an identifier.
fn write_key(out: &mut String, key: &str) {
    let is_identifier = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte));
    if is_identifier && !key.starts_with(|c: char| c.is_ascii_digit()) { out.push_str(key) } else { write_string(out, key) }
}

pub(super) fn write_array(out: &mut String, module: &Module, elements: &[Attribute]) {
    out.push('[');
    separated(out, elements, ", ", |out, element| write_attribute(out, module, element, Typed::UnlessDefault));
    out.push(']');
}

fn write_scalar_type(out: &mut String, scalar: Scalar, default: Scalar, typed: Typed) {
    if typed == Typed::Always || (typed == Typed::UnlessDefault && scalar != default) {
        let _ = write!(out, " : {scalar}");
    }
}

/// `<f32: 1.0>`: element type and elements of a constant.
pub(super) fn write_constant(out: &mut String, module: &Module, data: ConstantId, ty: TypeId) {
    let (element, _) = module.tile(ty);
    let _ = write!(out, "<{}: ", element.scalar().map_or("?", Scalar::name));
    write_elements(out, module, data, ty);
    out.push('>');
}

fn write_elements(out: &mut String, module: &Module, data: ConstantId, ty: TypeId) {
    let (element, shape) = module.tile(ty);
    let Some(scalar) = element.scalar() else { return };
    let write_element = |out: &mut String, bits: u64| match scalar {
        Scalar::I1 => out.push_str(if bits != 0 { "true" } else { "false" }),
        _ if scalar.is_int() => write!(out, "{}", scalar.sign_extend(bits)).expect("strings take all text"),
        _ => out.push_str(&float_text(scalar, bits)),
    };
    if let Some(bits) = module.splat(data, ty) {
        return write_element(out, bits);
    }
    let elements = module.elements(data, ty);
    if elements.len() > HEX_ABOVE {
        out.push_str("\"0x");
        for byte in &module.constants[data].data {
            let _ = write!(out, "{byte:02X}");
        }
        return out.push('"');
    }
    for (index, bits) in elements.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        // One bracket opens or closes for each dimension that begins or ends here.
        let (begins, ends) = brackets(index, shape);
        out.extend(std::iter::repeat_n('[', begins));
        write_element(out, bits);
        out.extend(std::iter::repeat_n(']', ends));
    }
}

fn brackets(index: usize, shape: &[i64]) -> (usize, usize) {
    let (mut begins, mut ends, mut size) = (0, 0, 1);
    for dim in shape.iter().rev() {
        size *= *dim as usize;
        begins += usize::from(index.is_multiple_of(size));
        ends += usize::from((index + 1).is_multiple_of(size));
    }
    (begins, ends)
}
