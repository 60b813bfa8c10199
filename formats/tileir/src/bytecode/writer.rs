//! Writes bytecode of a chosen version.
//!
//! Tables of the file have the order of the module's arenas, so the id of an entity is its index in the table of the file. If the
//! version lacks a construct, the error names the construct. A location that bytecode cannot express (fused, or without a scope)
//! becomes unknown.

use super::attributes_out::write_attribute;
use super::body_out::write_body;
use super::debug_out::DebugWriter;
use super::preview_out::write_extern;
use super::types_out;
use super::{MAGIC, PADDING, flag, section};
use crate::enums::{Visibility, WireEnum};
use crate::gates::Feature;
use crate::module::{Function, Module};
use crate::types::{Attribute, Dictionary, StringId};
use crate::version::Version;
use base::DebugInfo;
use base::diag::{Diagnostic, Result};
use base::entity::Entity;
use std::collections::HashMap;

/// Returns the bytecode of a verified program.
pub fn write(module: &Module, debug: &DebugInfo, version: Version) -> Result<Vec<u8>> {
    let mut strings = StringTable::new(module);
    let mut debug_writer = DebugWriter::new(debug, version);
    let functions = function_section(module, version, &mut debug_writer)?;
    let types = types_out::type_section(module, version)?;
    let globals = global_section(module, version)?;

    let mut out = MAGIC.to_vec();
    out.extend([version.major(), version.minor()]);
    if module.preview && !version.has(Feature::HeaderPreview) {
        return Err(version_error("preview content", Feature::HeaderPreview.since(), version));
    }
    out.extend(u16::from(module.preview).to_le_bytes());
    write_section(&mut out, section::FUNCTION, 8, &functions);
    if !module.globals.is_empty() {
        write_section(&mut out, section::GLOBAL, 1, &globals);
    }
    if !module.constants.is_empty() {
        let records = module.constants.values().map(|constant| {
            let mut record = Vec::with_capacity(constant.data.len() + 2);
            write_varint(&mut record, constant.data.len() as u64);
            record.extend(&constant.data);
            record
        });
        write_section(&mut out, section::CONSTANT, 8, &encode_table(records, 8));
    }
    if let Some(payload) = debug_writer.encode_section(&mut strings) {
        write_section(&mut out, section::DEBUG, 8, &payload);
    }
    write_section(&mut out, section::TYPE, 4, &types);
    if let Some(producer) = module.producer {
        let mut payload = Vec::new();
        write_varint(&mut payload, producer.index() as u64);
        write_section(&mut out, section::PRODUCER, 1, &payload);
    }
    write_section(&mut out, section::STRING, 4, &encode_table(strings.texts.iter().map(|text| text.as_bytes().to_vec()), 4));
    out.push(section::END);
    Ok(out)
}

/// The error for a construct that a version of the format lacks.
pub(super) fn version_error(what: impl std::fmt::Display, since: Version, version: Version) -> Box<Diagnostic> {
    Diagnostic::unsupported("TI005", format!("{what} needs bytecode {since}, and {version} was requested"))
}

/// The module's strings, followed by strings that only locations use.
pub(super) struct StringTable<'a> {
    texts: Vec<&'a str>,
    by_text: HashMap<&'a str, u64>,
}

impl<'a> StringTable<'a> {
    fn new(module: &'a Module) -> Self {
        let texts: Vec<&str> = module.strings.values().map(String::as_str).collect();
        let by_text = texts.iter().enumerate().map(|(index, text)| (*text, index as u64)).collect();
        StringTable { texts, by_text }
    }
    /// Returns the index of a string, and adds the string on first use.
    pub(super) fn intern(&mut self, text: &'a str) -> u64 {
        *self.by_text.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() as u64 - 1
        })
    }
}

/// Writes an unsigned LEB128 number.
pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a signed number in zig-zag encoding, as LEB128.
pub(super) fn write_signed_varint(out: &mut Vec<u8>, value: i64) {
    write_varint(out, (value as u64) << 1 ^ (value >> 63) as u64);
}

pub(super) fn write_string_index(out: &mut Vec<u8>, id: StringId) {
    write_varint(out, id.index() as u64);
}

/// Writes padding up to the next multiple of `alignment` bytes.
pub(super) fn write_padding_bytes(out: &mut Vec<u8>, alignment: usize) {
    out.resize(out.len().next_multiple_of(alignment), PADDING);
}

/// Writes the header, the padding and the payload of a section.
fn write_section(out: &mut Vec<u8>, id: u8, alignment: usize, payload: &[u8]) {
    out.push(if alignment > 1 { id | 0x80 } else { id });
    write_varint(out, payload.len() as u64);
    if alignment > 1 {
        write_varint(out, alignment as u64);
        write_padding_bytes(out, alignment);
    }
    out.extend(payload);
}

/// Encodes a table: count, padding, offsets of `width` bytes each, records.
pub(super) fn encode_table(records: impl Iterator<Item = Vec<u8>>, width: usize) -> Vec<u8> {
    let (mut offsets, mut data, mut count) = (Vec::<u8>::new(), Vec::<u8>::new(), 0);
    for record in records {
        offsets.extend(&(data.len() as u64).to_le_bytes()[..width]);
        data.extend(record);
        count += 1;
    }
    let mut out = Vec::new();
    write_varint(&mut out, count);
    write_padding_bytes(&mut out, width);
    out.extend(offsets);
    out.extend(data);
    out
}

/// Returns the payload of the global section.
fn global_section(module: &Module, version: Version) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    write_varint(&mut out, module.globals.len() as u64);
    for global in &module.globals {
        write_string_index(&mut out, global.name);
        write_varint(&mut out, global.ty.index() as u64);
        write_varint(&mut out, global.value.index() as u64);
        write_varint(&mut out, global.alignment);
        if version.has(Feature::GlobalFlags) {
            write_varint(&mut out, global.visibility.number().into());
            write_varint(&mut out, global.constant.into());
        } else if global.constant || global.visibility == Visibility::Private {
            let construct = format!("global @{} with visibility or constness", module.string(global.name));
            return Err(version_error(construct, Feature::GlobalFlags.since(), version));
        }
    }
    Ok(out)
}

/// Returns the payload of the function section.
fn function_section(module: &Module, version: Version, debug_writer: &mut DebugWriter<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    write_varint(&mut out, (module.functions.len() + module.externs.len()) as u64);
    for position in 0..=module.functions.len() {
        for external in module.externs.iter().filter(|external| external.after as usize == position) {
            let loc = debug_writer.add_function(&[external.loc]);
            write_extern(&mut out, module, external, loc);
        }
        if let Some(function) = module.functions.get(position) {
            write_function_record(&mut out, module, function, version, debug_writer)?;
        }
    }
    Ok(out)
}

/// Writes the record of a function in the function section.
fn write_function_record(
    out: &mut Vec<u8>,
    module: &Module,
    function: &Function,
    version: Version,
    debug_writer: &mut DebugWriter<'_>,
) -> Result<()> {
    let (body, locs) = write_body(module, function, version)?;
    write_string_index(out, function.name);
    write_varint(out, function.ty.index() as u64);
    let hints = match &function.hints {
        None if version.has(Feature::EntryHints) => Some(Dictionary::default()),
        hints => hints.clone(),
    };
    let hints_flag = if hints.is_some() && !version.has(Feature::FunctionKind) { flag::HINTS } else { 0 };
    out.push(flag::KERNEL | hints_flag);
    write_varint(out, debug_writer.add_function(&locs));
    if let Some(hints) = hints {
        write_attribute(out, module, &Attribute::OptimizationHints(hints));
    }
    if version.has(Feature::ArgumentAttributes) {
        let attributes = function.arg_attrs.iter().cloned().map(Attribute::Dictionary);
        write_attribute(out, module, &Attribute::Array(attributes.collect()));
    } else if !function.arg_attrs.is_empty() {
        let construct = format!("attributes of parameters of @{}", module.string(function.name));
        return Err(version_error(construct, Feature::ArgumentAttributes.since(), version));
    }
    write_varint(out, body.len() as u64);
    out.extend(body);
    Ok(())
}
