//! Writes programs of version 13.1 as a framed container.

use super::{DIALECT, DIALECT_OPS, MAGIC, PADDING, SCALAR_TAGS, section, tag};
use crate::enums::{PointerSharing, Visibility, WireEnum};
use crate::fields::{FieldRef, FieldShape, FieldValue};
use crate::module::{Function, Module};
use crate::ops::{CountEncoding, Op};
use crate::types::{Attribute, Dictionary, Element, Pointer, Type, TypeId};
use crate::version::Version;
use base::diag::{Diagnostic, Result};
use base::entity::Entity;
use base::ir::{Block, Operation, Region, Value};
use base::loc::{DebugInfo, Loc, LocData, ScopeData};
use core_dialect::memory::Padding;
use std::collections::HashMap;

/// Returns a verified program as a framed container.
pub fn write(module: &Module, debug: &DebugInfo) -> Result<Vec<u8>> {
    let mut writer = Writer { module, debug, types: Vec::new(), by_type: HashMap::new() };
    // Bool attributes are written as integers of type i1, so the type table needs i1.
    writer.intern_type(&Type::Scalar(numerics::Scalar::I1))?;
    writer.add_all_types()?;
    let mut payloads = vec![
        (
            section::STRING,
            encode_table(module.strings.values().chain(debug.names.values()).map(|text| text.as_bytes().to_vec()), 4),
        ),
        (section::TYPE, encode_table(writer.types.iter().cloned(), 4)),
        (section::CONSTANT, encode_table(module.constants.values().map(|constant| constant.data.to_vec()), 8)),
        (section::GLOBAL, writer.encode_globals()?),
    ];
    payloads.push((section::FUNCTION, writer.encode_functions()?));
    payloads.push((section::DEBUG, encode_table(writer.encode_debug_records().into_iter(), 4)));
    Ok(encode_container(&payloads))
}

/// Returns the file with these sections: the number and payload of each.
fn encode_container(payloads: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    [13, 1, 0, 1].into_iter().for_each(|number| write_varint(&mut header, number));
    write_text(&mut header, DIALECT);
    write_varint(&mut header, DIALECT_OPS);
    write_varint(&mut header, payloads.len() as u64);
    // The position of a section depends on the size of the header and the descriptors, so these receive their space first.
    let mut out = vec![0; header.len() + 24 * payloads.len()];
    let mut descriptors = Vec::new();
    for (id, payload) in payloads {
        out.push(id | 0x80);
        // The length covers the alignment byte, at most seven bytes of padding, and the payload.
        let mut length = payload.len() as u64 + 1;
        let padding = (0..8).find(|padding| {
            let mut length_bytes = Vec::new();
            write_varint(&mut length_bytes, length + padding);
            (out.len() + length_bytes.len() + 1 + *padding as usize).is_multiple_of(8)
        });
        let padding = padding.unwrap_or(0);
        length += padding;
        write_varint(&mut out, length);
        write_varint(&mut out, 8);
        out.resize(out.len() + padding as usize, PADDING);
        descriptors.extend([*id, 0, 0, 0]);
        descriptors.extend(8u32.to_le_bytes());
        descriptors.extend((out.len() as u64).to_le_bytes());
        descriptors.extend((payload.len() as u64).to_le_bytes());
        out.extend(payload);
    }
    out.push(section::END);
    out[..header.len()].copy_from_slice(&header);
    out[header.len()..header.len() + descriptors.len()].copy_from_slice(&descriptors);
    out
}

/// Writes the shortest form of a varint. From the lowest bit, it has a one bit per further byte, a zero bit, and the value.
fn write_varint(out: &mut Vec<u8>, value: u64) {
    let bits = 64 - value.leading_zeros().min(63);
    let further_bytes = (bits.div_ceil(7) - 1).min(8);
    if further_bytes == 8 {
        out.push(0xFF);
        return out.extend(value.to_le_bytes());
    }
    let encoded = u128::from(value) << (further_bytes + 1) | ((1 << further_bytes) - 1);
    out.extend(&encoded.to_le_bytes()[..further_bytes as usize + 1]);
}

/// Writes a signed number in zig-zag encoding, as a varint.
fn write_zigzag(out: &mut Vec<u8>, value: i64) {
    write_varint(out, (value as u64) << 1 ^ (value >> 63) as u64);
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Encodes a table: count, offsets of `width` bytes each, records.
fn encode_table(records: impl Iterator<Item = Vec<u8>>, width: usize) -> Vec<u8> {
    let (mut offsets, mut data, mut count) = (Vec::<u8>::new(), Vec::<u8>::new(), 0);
    for record in records {
        offsets.extend(&(data.len() as u64).to_le_bytes()[..width]);
        data.extend(record);
        count += 1;
    }
    let mut out = Vec::new();
    write_varint(&mut out, count);
    out.extend(offsets);
    out.extend(data);
    out
}

/// The error for a construct that the container cannot express.
fn unsupported_error(what: impl std::fmt::Display) -> Box<Diagnostic> {
    Diagnostic::unsupported("TI007", format!("the framed container, which is of version 13.1, cannot hold {what}"))
}

/// The state of writing a program.
struct Writer<'a> {
    module: &'a Module,
    debug: &'a DebugInfo,
    /// The encoded records of the type section.
    types: Vec<Vec<u8>>,
    /// The index of each type in the type section.
    by_type: HashMap<Type, u64>,
}

impl<'a> Writer<'a> {
    fn add_all_types(&mut self) -> Result<()> {
        self.module.types.values().try_for_each(|ty| self.intern_type(ty).map(|_| ()))
    }

    /// Returns the index of a type. On first use, adds the type after the types to which it refers.
    fn intern_type(&mut self, ty: &Type) -> Result<u64> {
        if let Some(index) = self.by_type.get(ty) {
            return Ok(*index);
        }
        let mut out = Vec::new();
        let element_type = |element: Element| match element {
            Element::Scalar(scalar) => Type::Scalar(scalar),
            Element::Ptr(pointer) => Type::Ptr(pointer),
        };
        let write_dims = |out: &mut Vec<u8>, dims: &[i64]| {
            write_varint(out, dims.len() as u64);
            dims.iter().for_each(|dim| write_zigzag(out, *dim));
        };
        match ty {
            Type::Scalar(scalar) => {
                let row = SCALAR_TAGS.iter().find(|(_, known)| known == scalar);
                out.push(row.ok_or_else(|| unsupported_error(format!("type {scalar}")))?.0);
            }
            Type::Ptr(Pointer { pointee, space: PointerSharing::Absent }) => {
                out.push(12);
                write_varint(&mut out, self.intern_type(&Type::Scalar(*pointee))?);
            }
            Type::Tile { element, shape } => {
                out.push(13);
                write_varint(&mut out, self.intern_type(&element_type(*element))?);
                write_dims(&mut out, shape);
            }
            Type::TensorView { element, shape, strides, space: PointerSharing::Absent } => {
                out.push(14);
                write_varint(&mut out, self.intern_type(&Type::Scalar(*element))?);
                write_dims(&mut out, shape);
                write_dims(&mut out, strides);
            }
            Type::PartitionView { tile, tensor, dim_map, padding } => {
                out.push(15);
                write_varint(&mut out, self.intern_type(self.module.ty(*tensor))?);
                for values in [tile, dim_map] {
                    let values: Vec<i64> = values.iter().map(|value| i64::from(*value)).collect();
                    write_dims(&mut out, &values);
                }
                out.push(padding.map_or(0, |padding: Padding| padding.number() + 1));
            }
            Type::Function { inputs, results } => {
                out.push(16);
                for list in [inputs, results] {
                    write_varint(&mut out, list.len() as u64);
                    for ty in list {
                        write_varint(&mut out, self.intern_type(self.module.ty(*ty))?);
                    }
                }
            }
            Type::Token => out.push(17),
            _ => return Err(unsupported_error("a type of a later version")),
        }
        let index = self.types.len() as u64;
        self.types.push(out);
        self.by_type.insert(ty.clone(), index);
        Ok(index)
    }

    fn type_index(&self, id: TypeId) -> u64 {
        self.by_type[self.module.ty(id)]
    }

    fn encode_globals(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        write_varint(&mut out, self.module.globals.len() as u64);
        for global in &self.module.globals {
            if global.constant || global.visibility == Visibility::Private {
                let name = self.module.string(global.name);
                return Err(unsupported_error(format!("the visibility or constness of global @{name}")));
            }
            let fields = [global.name.index() as u64, self.type_index(global.ty), global.value.index() as u64, global.alignment];
            fields.into_iter().for_each(|field| write_varint(&mut out, field));
        }
        Ok(out)
    }

    fn encode_functions(&self) -> Result<Vec<u8>> {
        if let Some(external) = self.module.externs.first() {
            return Err(unsupported_error(format!("the external function @{}", self.module.string(external.name))));
        }
        let mut out = Vec::new();
        write_varint(&mut out, self.module.functions.len() as u64);
        for function in &self.module.functions {
            write_varint(&mut out, function.name.index() as u64);
            write_varint(&mut out, self.type_index(function.ty));
            out.push(u8::from(function.visibility == Visibility::Private) | 2 | u8::from(function.hints.is_some()) << 2);
            write_zigzag(&mut out, self.record_number(function.loc));
            if !function.arg_attrs.is_empty() {
                return Err(unsupported_error("attributes of parameters"));
            }
            if let Some(hints) = &function.hints {
                self.write_dictionary(&mut out, hints)?;
            }
            let body = self.encode_body(function)?;
            write_varint(&mut out, body.len() as u64);
            out.extend(body);
        }
        Ok(out)
    }

    /// Returns the number of a location's record; -1 for the unknown location.
    fn record_number(&self, loc: Loc) -> i64 {
        if loc == Loc::UNKNOWN { -1 } else { (self.debug.scopes.len() + loc.index() - 1) as i64 }
    }

    fn encode_body(&self, function: &Function) -> Result<Vec<u8>> {
        let body = &function.body;
        let mut out = Vec::new();
        let mut value_numbers = vec![0u64; body.values.len()];
        let mut next_number = 0;
        let entry = body.block_of(function.region);
        number_values(&body.blocks[entry].args, &mut value_numbers, &mut next_number);
        write_varint(&mut out, body.blocks[entry].ops.len() as u64);
        let mut stack = vec![WriteStep::Ops(entry, 0, None)];
        while let Some(step) = stack.pop() {
            match step {
                WriteStep::Ops(block, at, restore) => match body.blocks[block].ops.get(at) {
                    Some(op) => {
                        stack.push(WriteStep::Ops(block, at + 1, restore));
                        let node = &body.ops[*op];
                        let results: Vec<u64> = node.results.iter().map(|result| self.type_index(*body.ty(*result))).collect();
                        self.write_op(&mut out, &node.kind, &results, node.loc, &value_numbers)?;
                        stack.push(WriteStep::Results(*op));
                        stack.extend(node.kind.regions().into_iter().rev().map(WriteStep::Region));
                    }
                    None => next_number = restore.unwrap_or(next_number),
                },
                WriteStep::Region(region) => {
                    write_varint(&mut out, body.regions[region].blocks.len() as u64);
                    stack.extend(body.regions[region].blocks.iter().rev().map(|block| WriteStep::Block(*block)));
                }
                WriteStep::Block(block) => {
                    let node = &body.blocks[block];
                    write_varint(&mut out, node.args.len() as u64);
                    node.args.iter().for_each(|arg| write_varint(&mut out, self.type_index(*body.ty(*arg))));
                    write_varint(&mut out, node.ops.len() as u64);
                    stack.push(WriteStep::Ops(block, 0, Some(next_number)));
                    number_values(&node.args, &mut value_numbers, &mut next_number);
                }
                WriteStep::Results(op) => number_values(&body.ops[op].results, &mut value_numbers, &mut next_number),
            }
        }
        Ok(out)
    }

    fn write_op(&self, out: &mut Vec<u8>, op: &Op, results: &[u64], loc: Loc, value_numbers: &[u64]) -> Result<()> {
        let info = op.opcode().info();
        if info.since > Version::FIRST {
            return Err(unsupported_error(format!("op {}", info.mnemonic)));
        }
        write_varint(out, info.opcode.into());
        write_zigzag(out, self.record_number(loc));
        if matches!(info.count_encoding, CountEncoding::Counted | CountEncoding::Segments | CountEncoding::CountedResults) {
            write_varint(out, results.len() as u64);
        }
        results.iter().for_each(|result| write_varint(out, *result));
        let mut fields: Vec<FieldRef<'_>> = Vec::new();
        op.for_each_field(&mut |field| fields.push(field));
        let operands = op.operands();
        write_varint(out, operands.len() as u64);
        for field in &fields {
            match field {
                FieldRef::OptionalOperand(value) => write_varint(out, value.is_some().into()),
                FieldRef::Operands(values) => write_varint(out, values.len() as u64),
                _ => {}
            }
        }
        operands.iter().for_each(|value| write_varint(out, value_numbers[value.index()]));
        for (field, field_info) in fields.iter().zip(info.fields) {
            if field_info.since > Version::FIRST {
                let default = Op::field_default(op.opcode(), field_info.name);
                let is_default = match (field, default) {
                    (FieldRef::Flag(flag), Some(FieldValue::Flag(default))) => *flag == default,
                    (FieldRef::Enum(number), Some(FieldValue::Enum(default))) => *number == default,
                    (FieldRef::Bools(values), Some(FieldValue::Bools(default))) => **values == *default,
                    (FieldRef::OptionalOperand(value), Some(FieldValue::OptionalOperand(default))) => *value == default,
                    _ => false,
                };
                if !is_default {
                    return Err(unsupported_error(format!("{} of {}", field_info.name, info.mnemonic)));
                }
                continue;
            }
            self.write_attribute_field(out, *field, field_info.shape)?;
        }
        Ok(())
    }

    fn write_attribute_field(&self, out: &mut Vec<u8>, field: FieldRef<'_>, shape: FieldShape) -> Result<()> {
        match field {
            FieldRef::Flag(flag) => out.push(flag.into()),
            FieldRef::Enum(number) if matches!(shape, FieldShape::Byte(_)) => out.push(number),
            FieldRef::Enum(number) => write_varint(out, number.into()),
            FieldRef::OptionalEnum(number) => write_varint(out, number.map_or(0, |number| u64::from(number) + 1)),
            FieldRef::Int(value) => write_zigzag(out, value),
            FieldRef::String(id) => write_varint(out, id.index() as u64),
            FieldRef::Constant(id) => write_varint(out, id.index() as u64),
            FieldRef::Attribute(value) => {
                out.push(tag::PREDICATE);
                self.write_attribute(out, value)?;
            }
            FieldRef::Attributes(values) => {
                write_varint(out, values.len() as u64);
                values.iter().try_for_each(|value| self.write_attribute(out, value))?;
            }
            FieldRef::OptionalDictionary(entries) => {
                out.push(entries.is_some().into());
                entries.map_or(Ok(()), |entries| self.write_dictionary(out, entries))?;
            }
            FieldRef::Ints(values) => {
                write_varint(out, values.len() as u64);
                values.iter().for_each(|value| write_zigzag(out, (*value).into()));
            }
            FieldRef::Bools(values) => {
                write_varint(out, values.len() as u64);
                out.extend(values.iter().map(|value| u8::from(*value)));
            }
            FieldRef::OptionalAttributes(_) => return Err(unsupported_error("attributes of a call")),
            FieldRef::Operand(_) | FieldRef::OptionalOperand(_) | FieldRef::Operands(_) | FieldRef::Region(_) => {}
        }
        Ok(())
    }

    fn write_dictionary(&self, out: &mut Vec<u8>, entries: &Dictionary) -> Result<()> {
        write_varint(out, entries.len() as u64);
        for (key, value) in entries {
            write_varint(out, key.index() as u64);
            self.write_attribute(out, value)?;
        }
        Ok(())
    }

    fn write_attribute(&self, out: &mut Vec<u8>, value: &Attribute) -> Result<()> {
        let write_typed = |out: &mut Vec<u8>, tag: u8, ty: u64, bits: u64| {
            out.push(tag);
            write_varint(out, ty);
            write_varint(out, bits);
        };
        let write_optional_pair = |out: &mut Vec<u8>, a: Option<i64>, b: Option<i64>| {
            out.push(u8::from(a.is_some()) | u8::from(b.is_some()) << 1);
            a.into_iter().chain(b).for_each(|value| write_zigzag(out, value));
        };
        match value {
            Attribute::Integer { ty, bits } => write_typed(out, tag::INTEGER, self.type_index(*ty), *bits),
            Attribute::Float { ty, bits } => write_typed(out, tag::FLOAT, self.type_index(*ty), *bits),
            Attribute::Bool(value) => {
                let i1 = self.by_type[&Type::Scalar(numerics::Scalar::I1)];
                write_typed(out, tag::INTEGER, i1, u64::from(*value));
            }
            Attribute::Type(ty) => {
                out.push(tag::TYPE);
                write_varint(out, self.type_index(*ty));
            }
            Attribute::String(text) => {
                out.push(tag::STRING);
                write_varint(out, text.index() as u64);
            }
            Attribute::Dense { ty, data } => write_typed(out, tag::DENSE, self.type_index(*ty), data.index() as u64),
            Attribute::DivBy { divisor, every, along } => {
                out.push(tag::DIV_BY);
                write_varint(out, *divisor);
                write_optional_pair(out, *every, *along);
            }
            Attribute::SameElements(values) => {
                out.push(tag::SAME_ELEMENTS);
                write_varint(out, values.len() as u64);
                values.iter().for_each(|value| write_zigzag(out, *value));
            }
            Attribute::Bounded { lower, upper } => {
                out.push(tag::BOUNDED);
                write_optional_pair(out, *lower, *upper);
            }
            Attribute::Dictionary(entries) => {
                out.push(tag::DICTIONARY);
                self.write_dictionary(out, entries)?;
            }
            Attribute::Preview(_) => return Err(unsupported_error("an attribute of preview content")),
            Attribute::MulticastReduction(_) => return Err(unsupported_error("a multicast reduction")),
            Attribute::Array(_) | Attribute::OptimizationHints(_) => {
                return Err(unsupported_error("an array among the attributes"));
            }
        }
        Ok(())
    }

    /// Encodes the debug records: scopes, then locations. Their names are in the string table, after the module's strings.
    fn encode_debug_records(&self) -> Vec<Vec<u8>> {
        let name = |name: &base::loc::Name| (self.module.strings.len() + name.index()) as u64;
        let scopes = self.debug.scopes.values().map(|scope| match scope {
            ScopeData::CompileUnit { file } => vec![1, file.index() as u64],
            ScopeData::File { name: file, directory } => vec![2, name(file), name(directory)],
            ScopeData::LexicalBlock { scope, file, line, column } => {
                vec![3, scope.index() as u64, file.index() as u64, (*line).into(), (*column).into()]
            }
            ScopeData::Subprogram { file, line, name: short, linkage_name, compile_unit, scope_line, .. } => {
                let (file, unit) = (file.index() as u64, compile_unit.index() as u64);
                vec![5, file, (*line).into(), name(short), name(linkage_name), unit, (*scope_line).into()]
            }
        });
        let loc_plus_one = |loc: &Loc| (self.record_number(*loc) + 1) as u64;
        let locs = self.debug.locs.values().skip(1).map(|loc| match loc {
            LocData::Source { file, line, column, scope } => {
                vec![4, scope.map_or(0, |scope| scope.index() as u64 + 1), name(file), (*line).into(), (*column).into()]
            }
            LocData::CallSite { callee, caller } => vec![6, loc_plus_one(callee), loc_plus_one(caller)],
            LocData::Unknown | LocData::Fused(_) => vec![0],
        });
        let encode = |fields: Vec<u64>| {
            let mut out = Vec::new();
            fields.into_iter().for_each(|field| write_varint(&mut out, field));
            out
        };
        scopes.chain(locs).map(encode).collect()
    }
}

/// A part of a function body that is still to be written. A stack of steps replaces recursion over regions.
enum WriteStep {
    /// The ops of a block from an index on. At the end of an inner block, the third field becomes the next value number. Later
    /// values then reuse the numbers of the block's values.
    Ops(Block, usize, Option<u64>),
    Region(Region),
    Block(Block),
    /// Numbers the results of an op after its regions.
    Results(base::ir::Op),
}

/// Assigns the next numbers to values.
fn number_values(values: &[Value], numbers: &mut [u64], next: &mut u64) {
    for value in values {
        numbers[value.index()] = *next;
        *next += 1;
    }
}
