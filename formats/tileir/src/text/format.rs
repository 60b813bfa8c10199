//! Parses the text forms in the op table, once per process. A text form describes the syntax of an op after its mnemonic:
//!
//! - `{name}` is a field.
//! - `{name:type}` is the type of an operand or result, or each type of several operands or results. `{name:one}` is the type of
//!   the first of them, and `{name:splat}` their common type.
//! - `(name?…)` is present if the field has a value, and `(!name?…)` if the field has none. `(name!value?…)` is present if the
//!   enumeration is not `value`.
//! - `{name:attributes}` is a dictionary with the enumeration, or nothing if the enumeration has its first value.
//! - `{loop}`, `{window}` and `{call}` are the irregular parts of loops, tensor views and calls.
//! - All other text is literal. The parser skips spaces in literal text.

use crate::fields::FieldShape;
use crate::ops::{OpInfo, Opcode};
use std::sync::OnceLock;

/// A field or a result of an op, by its index in the op table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Field(usize),
    /// The result with this index. For a variadic result, all results from this index on.
    Result(usize),
}

/// Which types the text lists for the values of a field or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeListForm {
    /// The type of each value.
    Each,
    /// The type of the first value.
    One,
    /// The common type of all values; the type of each value if they differ.
    Splat,
}

/// A part of a text form, such as literal text or a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatPiece {
    Literal(&'static str),
    Field(usize),
    Types(Slot, TypeListForm),
    Group {
        slot: Slot,
        /// The group is absent if the enumeration has this number.
        unless: Option<u8>,
        pieces: Vec<FormatPiece>,
    },
    /// Spaces that the text has if a field has no value.
    Absent {
        slot: Slot,
        spaces: &'static str,
    },
    /// The dictionary ` attributes {field = …}`; nothing if the enumeration has its first value.
    Attributes(usize),
    Loop,
    TensorViewShape,
    Call,
}

/// The pieces of an op's text form after its mnemonic.
pub fn pieces(opcode: Opcode) -> &'static [FormatPiece] {
    static FORMS: OnceLock<Vec<(Opcode, Vec<FormatPiece>)>> = OnceLock::new();
    let forms =
        FORMS.get_or_init(|| Opcode::ALL.iter().map(|opcode| (*opcode, parse_form(opcode.info(), opcode.info().format))).collect());
    let index = forms.binary_search_by_key(&opcode, |(opcode, _)| *opcode).expect("the table has all opcodes, in order");
    &forms[index].1
}

/// Parses the text form of an op, or of a group in it.
fn parse_form(info: &OpInfo, text: &'static str) -> Vec<FormatPiece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('{') {
            let (name, after) = inner.split_once('}').expect("braces of a text form are balanced");
            pieces.push(parse_reference(info, name));
            rest = after;
        } else if let Some((head, body, after)) = parse_group(rest) {
            if let Some(name) = head.strip_prefix('!') {
                pieces.push(FormatPiece::Absent { slot: slot_of(info, name), spaces: body });
                rest = after;
                continue;
            }
            let (name, unless) = head.split_once('!').map_or((head, None), |(name, value)| (name, Some(value)));
            let slot = slot_of(info, name);
            let unless = unless.map(|value| variant_number(info, slot, value));
            pieces.push(FormatPiece::Group { slot, unless, pieces: parse_form(info, body) });
            rest = after;
        } else {
            let end = rest[1..].find(['{', '(']).map_or(rest.len(), |position| position + 1);
            pieces.push(FormatPiece::Literal(&rest[..end]));
            rest = &rest[end..];
        }
    }
    pieces
}

/// Splits `(head?body)after` into its three parts. Returns `None` if the parenthesis starts no group, but is literal text.
fn parse_group(text: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let inner = text.strip_prefix('(')?;
    let head_end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '!'))?;
    let body = inner[head_end..].strip_prefix('?')?;
    let mut depth = 1;
    for (position, c) in body.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&inner[..head_end], &body[..position], &body[position + 1..]));
        }
    }
    None
}

/// Parses the text between braces.
fn parse_reference(info: &OpInfo, text: &str) -> FormatPiece {
    match text.split_once(':') {
        None if text == "loop" => FormatPiece::Loop,
        None if text == "window" => FormatPiece::TensorViewShape,
        None if text == "call" => FormatPiece::Call,
        None => match slot_of(info, text) {
            Slot::Field(field) => FormatPiece::Field(field),
            Slot::Result(_) => panic!("{} prints no results after its name", info.mnemonic),
        },
        Some((name, "type")) => FormatPiece::Types(slot_of(info, name), TypeListForm::Each),
        Some((name, "attributes")) => match slot_of(info, name) {
            Slot::Field(field) => FormatPiece::Attributes(field),
            Slot::Result(_) => panic!("{} has no attribute '{name}'", info.mnemonic),
        },
        Some((name, "one")) => FormatPiece::Types(slot_of(info, name), TypeListForm::One),
        Some((name, _)) => FormatPiece::Types(slot_of(info, name), TypeListForm::Splat),
    }
}

/// Returns the field or result with this name in the op table.
fn slot_of(info: &OpInfo, name: &str) -> Slot {
    let field = info.fields.iter().position(|field| field.name == name).map(Slot::Field);
    let result = info.results.iter().position(|result| result.field == name).map(Slot::Result);
    field.or(result).unwrap_or_else(|| panic!("{} has neither field nor result '{name}'", info.mnemonic))
}

/// Returns the number of an enumeration value that a text form names.
fn variant_number(info: &OpInfo, slot: Slot, value: &str) -> u8 {
    let Slot::Field(field) = slot else { panic!("{} compares a result", info.mnemonic) };
    let FieldShape::Enum(spellings) = info.fields[field].shape else {
        panic!("{} compares a field that is not an enumeration", info.mnemonic)
    };
    spellings.iter().position(|spelling| *spelling == value).expect("a text form names a variant of the enumeration") as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_has_a_text_form() {
        for opcode in Opcode::ALL {
            let pieces = pieces(*opcode);
            assert!(!pieces.is_empty(), "{opcode:?} has a text form");
        }
    }

    #[test]
    fn opcodes_are_in_order() {
        assert!(Opcode::ALL.is_sorted());
    }
}
