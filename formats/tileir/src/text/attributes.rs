//! Writes attributes, strings and constant data as text.

use super::numbers::float_text;
use super::preview::write_preview_attribute;
use super::types::{TypeTables, TypeTextForm, write_separated, write_type};
use crate::enums::WireEnum;
use crate::module::Module;
use crate::types::{Attribute, ConstantId, Dictionary, Type, TypeId};
use numerics::Scalar;
use std::fmt::Write as _;

/// A constant with more elements prints as one hexadecimal string, as in MLIR's printer, whose default limit is 100 too.
const MAX_LISTED_ELEMENTS: usize = 100;

/// Whether the type of a number is written after the number. The place of the attribute in the text decides this.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeSuffix {
    Always,
    /// Omitted for i64 and f64, the defaults of a number without a type.
    UnlessDefault,
    /// NVIDIA's form of hints: omitted, even if the number then reads back with another type.
    Never,
}

/// Writes a string in quotes.
pub(super) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    write_escaped(out, text);
    out.push('"');
}

/// Writes a string with escapes for bytes that are not printable ASCII.
fn write_escaped(out: &mut String, text: &str) {
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

/// Writes `@name`. The name is quoted if it is not an identifier.
pub(super) fn write_symbol(out: &mut String, name: &str) {
    out.push('@');
    let mut bytes = name.bytes();
    let is_identifier = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte));
    if is_identifier { out.push_str(name) } else { write_string(out, name) }
}

/// Writes optimization hints as `<sm_100 = {name = value}>`.
pub(super) fn write_hints(out: &mut String, module: &Module, hints: &Dictionary) {
    out.push('<');
    write_separated(out, hints, ", ", |out, (key, value)| {
        write_key(out, module.string(*key));
        out.push_str(" = {");
        let entries: &[_] = match value {
            Attribute::Dictionary(entries) | Attribute::OptimizationHints(entries) => entries,
            _ => &[],
        };
        write_separated(out, entries, ", ", |out, (key, value)| {
            write_key(out, module.string(*key));
            out.push_str(" = ");
            write_attribute(out, module, value, TypeSuffix::Never);
        });
        out.push('}');
    });
    out.push('>');
}

/// Writes the predicate of `assume`, without the dialect's name.
pub(super) fn write_predicate(out: &mut String, predicate: &Attribute) {
    let bound_text = |bound: &Option<i64>| bound.map_or("?".to_string(), |value| value.to_string());
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
            write_separated(out, values, ", ", |out, value| write!(out, "{value}").expect("strings take all text"));
            out.push_str("]>");
        }
        Attribute::Bounded { lower, upper } => {
            let _ = write!(out, "bounded<{}, {}>", bound_text(lower), bound_text(upper));
        }
        _ => {}
    }
}

/// Writes the text of an attribute. The function may recurse, because the readers, the parser and the verifier bound the nesting
/// depth of attributes.
pub(super) fn write_attribute(out: &mut String, module: &Module, attribute: &Attribute, suffix: TypeSuffix) {
    let scalar = |ty: &TypeId| match module.ty(*ty) {
        Type::Scalar(scalar) => *scalar,
        _ => Scalar::I64,
    };
    match attribute {
        Attribute::Integer { ty, bits } if scalar(ty) == Scalar::I1 => out.push_str(if *bits != 0 { "true" } else { "false" }),
        Attribute::Integer { ty, bits } => {
            let _ = write!(out, "{}", scalar(ty).sign_extend(*bits));
            write_scalar_type(out, scalar(ty), Scalar::I64, suffix);
        }
        Attribute::Float { ty, bits } => {
            let text = float_text(scalar(ty), *bits);
            // Without a type, hexadecimal digits would read back as an integer.
            let suffix = if text.starts_with("0x") { TypeSuffix::Always } else { suffix };
            out.push_str(&text);
            write_scalar_type(out, scalar(ty), Scalar::F64, suffix);
        }
        Attribute::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Attribute::Type(ty) => write_type(out, TypeTables::new(module), *ty, TypeTextForm::Full),
        Attribute::String(text) => write_string(out, module.string(*text)),
        Attribute::Array(elements) => write_array(out, module, elements),
        Attribute::Dense { ty, data } => {
            out.push_str("dense<");
            write_elements(out, module, *data, *ty);
            out.push_str("> : ");
            write_type(out, TypeTables::new(module), *ty, TypeTextForm::Full);
        }
        Attribute::Dictionary(entries) => {
            out.push('{');
            write_separated(out, entries, ", ", |out, (key, value)| {
                write_key(out, module.string(*key));
                out.push_str(" = ");
                write_attribute(out, module, value, TypeSuffix::UnlessDefault);
            });
            out.push('}');
        }
        Attribute::OptimizationHints(entries) => {
            out.push_str("#cuda_tile.optimization_hints");
            write_hints(out, module, entries);
        }
        Attribute::Preview(preview) => write_preview_attribute(out, TypeTables::new(module), preview),
        Attribute::MulticastReduction(kind) => {
            let _ = write!(out, "#cuda_tile.multimem_reduction_kind<{}>", kind.spelling());
        }
        Attribute::DivBy { .. } | Attribute::SameElements(_) | Attribute::Bounded { .. } => {
            out.push_str("#cuda_tile.");
            write_predicate(out, attribute);
        }
    }
}

/// Writes a key of a dictionary. The key is quoted if it is not an identifier.
fn write_key(out: &mut String, key: &str) {
    let is_identifier = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte));
    if is_identifier && !key.starts_with(|c: char| c.is_ascii_digit()) { out.push_str(key) } else { write_string(out, key) }
}

pub(super) fn write_array(out: &mut String, module: &Module, elements: &[Attribute]) {
    out.push('[');
    write_separated(out, elements, ", ", |out, element| write_attribute(out, module, element, TypeSuffix::UnlessDefault));
    out.push(']');
}

/// Writes the type of a number after the number, as `suffix` requires.
fn write_scalar_type(out: &mut String, scalar: Scalar, default: Scalar, suffix: TypeSuffix) {
    if suffix == TypeSuffix::Always || (suffix == TypeSuffix::UnlessDefault && scalar != default) {
        let _ = write!(out, " : {scalar}");
    }
}

/// Writes the element type and the elements of a constant, as in `<f32: 1.0>`.
pub(super) fn write_constant(out: &mut String, module: &Module, data: ConstantId, ty: TypeId) {
    let (element, _) = module.tile(ty);
    let _ = write!(out, "<{}: ", element.scalar().map_or("?", Scalar::name));
    write_elements(out, module, data, ty);
    out.push('>');
}

/// Writes the elements of a constant: one number if all are equal, a nested list, or hexadecimal bytes.
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
    if elements.len() > MAX_LISTED_ELEMENTS {
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
        // A bracket opens for each dimension that begins at this element, and closes for each dimension that ends at it.
        let (begins, ends) = count_brackets(index, shape);
        out.extend(std::iter::repeat_n('[', begins));
        write_element(out, bits);
        out.extend(std::iter::repeat_n(']', ends));
    }
}

/// The numbers of brackets that open before and close after the element at `index`.
fn count_brackets(index: usize, shape: &[i64]) -> (usize, usize) {
    let (mut begins, mut ends, mut size) = (0, 0, 1);
    for dim in shape.iter().rev() {
        size *= *dim as usize;
        begins += usize::from(index.is_multiple_of(size));
        ends += usize::from((index + 1).is_multiple_of(size));
    }
    (begins, ends)
}
