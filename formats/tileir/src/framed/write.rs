//! Writes the framed container.

use super::{DIALECT, DIALECT_OPS, MAGIC, PADDING, SCALARS, section, tag};
use crate::enums::WireEnum;
use crate::fields::{FieldRef, FieldShape, FieldValue};
use crate::module::{Function, Module};
use crate::ops::{CountEncoding, Op};
use crate::types::{Attribute, Dictionary, Element, Pointer, PointerSpace, Type, TypeId};
use crate::version::Version;
use base::diag::{Diagnostic, Result};
use base::entity::Entity;
use base::ir::{Block, Operation, Region, Value};
use base::loc::{DebugInfo, Loc, LocData, ScopeData};
use core_dialect::memory::Padding;
use std::collections::HashMap;

/// The bytes of a verified program.
pub fn write(module: &Module, debug: &DebugInfo) -> Result<Vec<u8>> {
    let mut writer = Writer { module, debug, types: Vec::new(), by_type: HashMap::new() };
    // Booleans among the attributes need their type.
    writer.ty(&Type::Scalar(numerics::Scalar::I1))?;
    writer.all_types()?;
    let mut payloads = vec![
        (section::STRING, table(module.strings.values().chain(debug.names.values()).map(|text| text.as_bytes().to_vec()), 4)),
        (section::TYPE, table(writer.types.iter().cloned(), 4)),
        (section::CONSTANT, table(module.constants.values().map(|constant| constant.data.to_vec()), 8)),
        (section::GLOBAL, writer.globals()),
    ];
    payloads.push((section::FUNCTION, writer.functions()?));
    payloads.push((section::DEBUG, table(writer.records().into_iter(), 4)));
    Ok(container(&payloads))
}

fn container(payloads: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    [13, 1, 0, 1].into_iter().for_each(|number| varint(&mut head, number));
    text(&mut head, DIALECT);
    varint(&mut head, DIALECT_OPS);
    varint(&mut head, payloads.len() as u64);
    // The position of a section depends on the length of the preceding data, descriptors included.
    let mut out = vec![0; head.len() + 24 * payloads.len()];
    let mut descriptors = Vec::new();
    for (id, payload) in payloads {
        out.push(id | 0x80);
        // The length covers the alignment byte, at most seven bytes of padding, and the payload.
        let mut length = payload.len() as u64 + 1;
        let padding = (0..8).find(|padding| {
            let mut field = Vec::new();
            varint(&mut field, length + padding);
            (out.len() + field.len() + 1 + *padding as usize).is_multiple_of(8)
        });
        let padding = padding.unwrap_or(0);
        length += padding;
        varint(&mut out, length);
        varint(&mut out, 8);
        out.resize(out.len() + padding as usize, PADDING);
        descriptors.extend([*id, 0, 0, 0]);
        descriptors.extend(8u32.to_le_bytes());
        descriptors.extend((out.len() as u64).to_le_bytes());
        descriptors.extend((payload.len() as u64).to_le_bytes());
        out.extend(payload);
    }
    out.push(section::END);
    out[..head.len()].copy_from_slice(&head);
    out[head.len()..head.len() + descriptors.len()].copy_from_slice(&descriptors);
    out
}

/// The shortest form: one trailing one per further byte, a zero, then the value.
fn varint(out: &mut Vec<u8>, value: u64) {
    let bits = 64 - value.leading_zeros().min(63);
    let extra = (bits.div_ceil(7) - 1).min(8);
    if extra == 8 {
        out.push(0xFF);
        return out.extend(value.to_le_bytes());
    }
    let marked = u128::from(value) << (extra + 1) | ((1 << extra) - 1);
    out.extend(&marked.to_le_bytes()[..extra as usize + 1]);
}

fn zigzag(out: &mut Vec<u8>, value: i64) {
    varint(out, (value as u64) << 1 ^ (value >> 63) as u64);
}

fn text(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn table(records: impl Iterator<Item = Vec<u8>>, width: usize) -> Vec<u8> {
    let (mut offsets, mut data, mut count) = (Vec::<u8>::new(), Vec::<u8>::new(), 0);
    for record in records {
        offsets.extend(&(data.len() as u64).to_le_bytes()[..width]);
        data.extend(record);
        count += 1;
    }
    let mut out = Vec::new();
    varint(&mut out, count);
    out.extend(offsets);
    out.extend(data);
    out
}

fn cannot_hold(what: impl std::fmt::Display) -> Box<Diagnostic> {
    Diagnostic::unsupported("TI007", format!("the framed container, which is of version 13.1, cannot hold {what}"))
}

struct Writer<'a> {
    module: &'a Module,
    debug: &'a DebugInfo,
    types: Vec<Vec<u8>>,
    by_type: HashMap<Type, u64>,
}

impl<'a> Writer<'a> {
    fn all_types(&mut self) -> Result<()> {
        self.module.types.values().try_for_each(|ty| self.ty(ty).map(|_| ()))
    }

    /// The index of a type; adds the type after the types it refers to.
    fn ty(&mut self, ty: &Type) -> Result<u64> {
        if let Some(index) = self.by_type.get(ty) {
            return Ok(*index);
        }
        let mut out = Vec::new();
        let element = |element: Element| match element {
            Element::Scalar(scalar) => Type::Scalar(scalar),
            Element::Ptr(pointer) => Type::Ptr(pointer),
        };
        let dims = |out: &mut Vec<u8>, dims: &[i64]| {
            varint(out, dims.len() as u64);
            dims.iter().for_each(|dim| zigzag(out, *dim));
        };
        match ty {
            Type::Scalar(scalar) => {
                let row = SCALARS.iter().find(|(_, known)| known == scalar);
                out.push(row.ok_or_else(|| cannot_hold(format!("type {scalar}")))?.0);
            }
            Type::Ptr(Pointer { pointee, space: PointerSpace::Absent }) => {
                out.push(12);
                varint(&mut out, self.ty(&Type::Scalar(*pointee))?);
            }
            Type::Tile { element: of, shape } => {
                out.push(13);
                varint(&mut out, self.ty(&element(*of))?);
                dims(&mut out, shape);
            }
            Type::TensorView { element, shape, strides, space: PointerSpace::Absent } => {
                out.push(14);
                varint(&mut out, self.ty(&Type::Scalar(*element))?);
                dims(&mut out, shape);
                dims(&mut out, strides);
            }
            Type::PartitionView { tile, tensor, dim_map, padding } => {
                out.push(15);
                varint(&mut out, self.ty(self.module.ty(*tensor))?);
                for values in [tile, dim_map] {
                    let values: Vec<i64> = values.iter().map(|value| i64::from(*value)).collect();
                    dims(&mut out, &values);
                }
                out.push(padding.map_or(0, |padding: Padding| padding.number() + 1));
            }
            Type::Function { inputs, results } => {
                out.push(16);
                for list in [inputs, results] {
                    varint(&mut out, list.len() as u64);
                    for ty in list {
                        varint(&mut out, self.ty(self.module.ty(*ty))?);
                    }
                }
            }
            Type::Token => out.push(17),
            _ => return Err(cannot_hold("a type of a later version")),
        }
        let index = self.types.len() as u64;
        self.types.push(out);
        self.by_type.insert(ty.clone(), index);
        Ok(index)
    }

    fn index(&self, id: TypeId) -> u64 {
        self.by_type[self.module.ty(id)]
    }

    fn globals(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint(&mut out, self.module.globals.len() as u64);
        for global in &self.module.globals {
            let fields = [global.name.index() as u64, self.index(global.ty), global.value.index() as u64, global.alignment];
            fields.into_iter().for_each(|field| varint(&mut out, field));
        }
        out
    }

    fn functions(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        varint(&mut out, self.module.functions.len() as u64);
        for function in &self.module.functions {
            varint(&mut out, function.name.index() as u64);
            varint(&mut out, self.index(function.ty));
            out.push(
                u8::from(function.visibility == crate::enums::Visibility::Private) | 2 | u8::from(function.hints.is_some()) << 2,
            );
            zigzag(&mut out, self.loc(function.loc));
            if !function.arg_attrs.is_empty() {
                return Err(cannot_hold("attributes of parameters"));
            }
            if let Some(hints) = &function.hints {
                self.dictionary(&mut out, hints)?;
            }
            let body = self.body(function)?;
            varint(&mut out, body.len() as u64);
            out.extend(body);
        }
        Ok(out)
    }

    /// The number of a location's record; -1 for the unknown location.
    fn loc(&self, loc: Loc) -> i64 {
        if loc == Loc::UNKNOWN { -1 } else { (self.debug.scopes.len() + loc.index() - 1) as i64 }
    }

    fn body(&self, function: &Function) -> Result<Vec<u8>> {
        let body = &function.body;
        let mut out = Vec::new();
        let mut numbers = vec![0u64; body.values.len()];
        let mut next = 0;
        let entry = body.block_of(function.region);
        define(&body.blocks[entry].args, &mut numbers, &mut next);
        varint(&mut out, body.blocks[entry].ops.len() as u64);
        let mut stack = vec![Step::Ops(entry, 0, None)];
        while let Some(step) = stack.pop() {
            match step {
                Step::Ops(block, at, restore) => match body.blocks[block].ops.get(at) {
                    Some(op) => {
                        stack.push(Step::Ops(block, at + 1, restore));
                        let node = &body.ops[*op];
                        let results: Vec<u64> = node.results.iter().map(|result| self.index(*body.ty(*result))).collect();
                        self.op(&mut out, &node.kind, &results, node.loc, &numbers)?;
                        stack.push(Step::Results(*op));
                        stack.extend(node.kind.regions().into_iter().rev().map(Step::Region));
                    }
                    None => next = restore.unwrap_or(next),
                },
                Step::Region(region) => {
                    varint(&mut out, body.regions[region].blocks.len() as u64);
                    stack.extend(body.regions[region].blocks.iter().rev().map(|block| Step::Block(*block)));
                }
                Step::Block(block) => {
                    let node = &body.blocks[block];
                    varint(&mut out, node.args.len() as u64);
                    node.args.iter().for_each(|arg| varint(&mut out, self.index(*body.ty(*arg))));
                    varint(&mut out, node.ops.len() as u64);
                    stack.push(Step::Ops(block, 0, Some(next)));
                    define(&node.args, &mut numbers, &mut next);
                }
                Step::Results(op) => define(&body.ops[op].results, &mut numbers, &mut next),
            }
        }
        Ok(out)
    }

    fn op(&self, out: &mut Vec<u8>, op: &Op, results: &[u64], loc: Loc, numbers: &[u64]) -> Result<()> {
        let info = op.opcode().info();
        if info.since > Version::FIRST {
            return Err(cannot_hold(format!("op {}", info.mnemonic)));
        }
        varint(out, info.opcode.into());
        zigzag(out, self.loc(loc));
        if matches!(info.layout, CountEncoding::Counted | CountEncoding::Segments | CountEncoding::CountedResults) {
            varint(out, results.len() as u64);
        }
        results.iter().for_each(|result| varint(out, *result));
        let mut fields: Vec<FieldRef<'_>> = Vec::new();
        op.for_each_field(&mut |field| fields.push(field));
        let operands = op.operands();
        varint(out, operands.len() as u64);
        for field in &fields {
            match field {
                FieldRef::OptionalOperand(value) => varint(out, value.is_some().into()),
                FieldRef::Operands(values) => varint(out, values.len() as u64),
                _ => {}
            }
        }
        operands.iter().for_each(|value| varint(out, numbers[value.index()]));
        for (field, field_info) in fields.iter().zip(info.fields) {
            if field_info.since > Version::FIRST {
                let default = Op::field_default(op.opcode(), field_info.name);
                let same = match (field, default) {
                    (FieldRef::Flag(flag), Some(FieldValue::Flag(default))) => *flag == default,
                    (FieldRef::Enum(number), Some(FieldValue::Enum(default))) => *number == default,
                    (FieldRef::Bools(values), _) => values.is_empty(),
                    _ => true,
                };
                if !same {
                    return Err(cannot_hold(format!("{} of {}", field_info.name, info.mnemonic)));
                }
                continue;
            }
            self.attribute_field(out, *field, field_info.shape)?;
        }
        Ok(())
    }

    fn attribute_field(&self, out: &mut Vec<u8>, field: FieldRef<'_>, shape: FieldShape) -> Result<()> {
        match field {
            FieldRef::Flag(flag) => out.push(flag.into()),
            FieldRef::Enum(number) if matches!(shape, FieldShape::Byte(_)) => out.push(number),
            FieldRef::Enum(number) => varint(out, number.into()),
            FieldRef::OptionalEnum(number) => varint(out, number.map_or(0, |number| u64::from(number) + 1)),
            FieldRef::Int(value) => zigzag(out, value),
            FieldRef::String(id) => varint(out, id.index() as u64),
            FieldRef::Constant(id) => varint(out, id.index() as u64),
            FieldRef::Attribute(value) => {
                out.push(tag::PREDICATE);
                self.attribute(out, value)?;
            }
            FieldRef::Attributes(values) => {
                varint(out, values.len() as u64);
                values.iter().try_for_each(|value| self.attribute(out, value))?;
            }
            FieldRef::OptionalDictionary(entries) => {
                out.push(entries.is_some().into());
                entries.map_or(Ok(()), |entries| self.dictionary(out, entries))?;
            }
            FieldRef::Ints(values) => {
                varint(out, values.len() as u64);
                values.iter().for_each(|value| zigzag(out, (*value).into()));
            }
            FieldRef::Bools(values) => {
                varint(out, values.len() as u64);
                out.extend(values.iter().map(|value| u8::from(*value)));
            }
            FieldRef::OptionalAttributes(_) => return Err(cannot_hold("attributes of a call")),
            FieldRef::Operand(_) | FieldRef::OptionalOperand(_) | FieldRef::Operands(_) | FieldRef::Region(_) => {}
        }
        Ok(())
    }

    fn dictionary(&self, out: &mut Vec<u8>, entries: &Dictionary) -> Result<()> {
        varint(out, entries.len() as u64);
        for (key, value) in entries {
            varint(out, key.index() as u64);
            self.attribute(out, value)?;
        }
        Ok(())
    }

    fn attribute(&self, out: &mut Vec<u8>, value: &Attribute) -> Result<()> {
        let number = |out: &mut Vec<u8>, tag: u8, ty: u64, bits: u64| {
            out.push(tag);
            varint(out, ty);
            varint(out, bits);
        };
        let optional = |out: &mut Vec<u8>, a: Option<i64>, b: Option<i64>| {
            out.push(u8::from(a.is_some()) | u8::from(b.is_some()) << 1);
            a.into_iter().chain(b).for_each(|value| zigzag(out, value));
        };
        match value {
            Attribute::Integer { ty, bits } => number(out, tag::INTEGER, self.index(*ty), *bits),
            Attribute::Float { ty, bits } => number(out, tag::FLOAT, self.index(*ty), *bits),
            Attribute::Bool(value) => {
                let i1 = self.by_type[&Type::Scalar(numerics::Scalar::I1)];
                number(out, tag::INTEGER, i1, u64::from(*value));
            }
            Attribute::Type(ty) => {
                out.push(tag::TYPE);
                varint(out, self.index(*ty));
            }
            Attribute::String(text) => {
                out.push(tag::STRING);
                varint(out, text.index() as u64);
            }
            Attribute::Dense { ty, data } => number(out, tag::DENSE, self.index(*ty), data.index() as u64),
            Attribute::DivBy { divisor, every, along } => {
                out.push(tag::DIV_BY);
                varint(out, *divisor);
                optional(out, *every, *along);
            }
            Attribute::SameElements(values) => {
                out.push(tag::SAME_ELEMENTS);
                varint(out, values.len() as u64);
                values.iter().for_each(|value| zigzag(out, *value));
            }
            Attribute::Bounded { lower, upper } => {
                out.push(tag::BOUNDED);
                optional(out, *lower, *upper);
            }
            Attribute::Dictionary(entries) => {
                out.push(tag::DICTIONARY);
                self.dictionary(out, entries)?;
            }
            Attribute::Preview(_) | Attribute::MulticastReduction(_) => return Err(cannot_hold("a kind of reduction")),
            Attribute::Array(_) | Attribute::OptimizationHints(_) => return Err(cannot_hold("an array among the attributes")),
        }
        Ok(())
    }

    /// Scopes, then locations. Names follow the module's strings.
    fn records(&self) -> Vec<Vec<u8>> {
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
        let number = |loc: &Loc| (self.loc(*loc) + 1) as u64;
        let locs = self.debug.locs.values().skip(1).map(|loc| match loc {
            LocData::Source { file, line, column, scope } => {
                vec![4, scope.map_or(0, |scope| scope.index() as u64 + 1), name(file), (*line).into(), (*column).into()]
            }
            LocData::CallSite { callee, caller } => vec![6, number(callee), number(caller)],
            LocData::Unknown | LocData::Fused(_) => vec![0],
        });
        let bytes = |fields: Vec<u64>| {
            let mut out = Vec::new();
            fields.into_iter().for_each(|field| varint(&mut out, field));
            out
        };
        scopes.chain(locs).map(bytes).collect()
    }
}

enum Step {
    Ops(Block, usize, Option<u64>),
    Region(Region),
    Block(Block),
    Results(base::ir::Op),
}

fn define(values: &[Value], numbers: &mut [u64], next: &mut u64) {
    for value in values {
        numbers[value.index()] = *next;
        *next += 1;
    }
}
