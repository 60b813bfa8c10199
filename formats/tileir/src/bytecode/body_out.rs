//! Writes the ops of a function. An explicit stack replaces recursion over regions, as in the reader.

use super::attributes_out::{write_array, write_attribute, write_dictionary};
use super::writer::{version_error, write_string_index, write_varint};
use crate::enums::WireEnum;
use crate::fields::{FieldRef, FieldShape, FieldValue};
use crate::gates::{self, Feature};
use crate::module::{Function, Module};
use crate::ops::{CountEncoding, FieldInfo, Op, OpInfo, Opcode};
use crate::types::TypeId;
use crate::version::Version;
use base::diag::{Diagnostic, Result};
use base::entity::Entity;
use base::ir::{self, Block, Operation, Region, Value};
use base::{Body, Loc};
use numerics::arith::Rounding;

/// Returns the bytes of a body, and the location of the function followed by the locations of its ops, in the order of the bytes.
pub(super) fn write_body(module: &Module, function: &Function, version: Version) -> Result<(Vec<u8>, Vec<Loc>)> {
    let body = &function.body;
    let mut writer = BodyWriter {
        module,
        body,
        version,
        out: Vec::new(),
        locs: vec![function.loc],
        value_numbers: vec![u32::MAX; body.values.len()],
        next_number: 0,
    };
    let entry = body.block_of(function.region);
    writer.number_values(&body.blocks[entry].args);
    let mut stack = vec![WriteStep::Ops { block: entry, op_index: 0, restore: None }];
    while let Some(step) = stack.pop() {
        writer.write_step(step, &mut stack)?;
    }
    Ok((writer.out, writer.locs))
}

/// A part of a function body that is still to be written. A stack of steps replaces recursion over regions.
enum WriteStep {
    /// The ops of a block from `op_index` on. At the end of an inner block, `next_number` is set to `restore`, so that later values
    /// reuse the numbers of the block's values. `restore` is `None` for the outermost block.
    Ops {
        block: Block,
        op_index: usize,
        restore: Option<u32>,
    },
    Region(Region),
    Block(Block),
    /// Numbers the results of an op after its regions.
    Results(ir::Op),
}

/// The state of writing one function body.
struct BodyWriter<'a> {
    module: &'a Module,
    body: &'a Body<Op, TypeId>,
    version: Version,
    /// The bytes written so far.
    out: Vec<u8>,
    /// The locations of the function and of the ops written so far.
    locs: Vec<Loc>,
    /// The number of each value in the bytecode; `u32::MAX` for a value that has no number yet.
    value_numbers: Vec<u32>,
    /// The number of the next value.
    next_number: u32,
}

impl BodyWriter<'_> {
    /// Assigns the next numbers to values.
    fn number_values(&mut self, values: &[Value]) {
        for value in values {
            self.value_numbers[value.index()] = self.next_number;
            self.next_number += 1;
        }
    }

    /// Executes a step, and pushes the steps that follow it to the stack.
    fn write_step(&mut self, step: WriteStep, stack: &mut Vec<WriteStep>) -> Result<()> {
        match step {
            WriteStep::Ops { block, op_index, restore } => match self.body.blocks[block].ops.get(op_index) {
                Some(op) => {
                    stack.push(WriteStep::Ops { block, op_index: op_index + 1, restore });
                    self.write_op(*op, stack)?;
                }
                None => self.next_number = restore.unwrap_or(self.next_number),
            },
            WriteStep::Region(region) => {
                let blocks = &self.body.regions[region].blocks;
                write_varint(&mut self.out, blocks.len() as u64);
                stack.extend(blocks.iter().rev().map(|block| WriteStep::Block(*block)));
            }
            WriteStep::Block(block) => {
                let node = &self.body.blocks[block];
                let restore = Some(self.next_number);
                write_varint(&mut self.out, node.args.len() as u64);
                for arg in &node.args {
                    write_varint(&mut self.out, self.body.ty(*arg).index() as u64);
                }
                self.number_values(&node.args);
                write_varint(&mut self.out, node.ops.len() as u64);
                stack.push(WriteStep::Ops { block, op_index: 0, restore });
            }
            WriteStep::Results(op) => self.number_results(op),
        }
        Ok(())
    }

    /// Numbers the results of an op that the requested version writes.
    fn number_results(&mut self, op: ir::Op) {
        let node = &self.body.ops[op];
        if !self.hides_result(node.kind.opcode()) {
            let results = node.results.clone();
            self.number_values(&results);
        }
    }

    /// Whether bytecode of the requested version lacks the results of an op. Before version 13.2, a print op has no token.
    fn hides_result(&self, opcode: Opcode) -> bool {
        opcode == Opcode::PrintTko && !self.version.has(Feature::PrintToken)
    }

    /// Writes an op without its regions, and pushes the steps for its regions and results.
    fn write_op(&mut self, op: ir::Op, stack: &mut Vec<WriteStep>) -> Result<()> {
        let node = &self.body.ops[op];
        let opcode = node.kind.opcode();
        let info = opcode.info();
        if info.since > self.version {
            return Err(version_error(format!("op {}", info.mnemonic), info.since, self.version));
        }
        self.locs.push(node.loc);
        write_varint(&mut self.out, info.opcode.into());
        self.write_result_types(opcode, &node.results);
        let mut fields: Vec<FieldRef<'_>> = Vec::with_capacity(info.fields.len());
        node.kind.for_each_field(&mut |field| fields.push(field));
        self.check_versions(opcode, &fields)?;
        if info.first_version_with_flags().is_some_and(|since| since <= self.version) {
            let bits = info.flag_fields().enumerate();
            let flags = bits.fold(0, |flags, (bit, (field, _))| flags | u64::from(is_flag_bit_set(fields[field])) << bit);
            write_varint(&mut self.out, flags);
        }
        let version = self.version;
        let is_written = |field: &FieldInfo| field.since <= version;
        for (field, info) in fields.iter().zip(info.fields).filter(|(_, info)| is_written(info) && info.shape.is_attribute()) {
            self.write_attribute_field(*field, info, &node.kind);
        }
        self.write_operands(info, &fields)?;
        stack.push(WriteStep::Results(op));
        let regions = node.kind.regions();
        if !regions.is_empty() {
            write_varint(&mut self.out, regions.len() as u64);
        }
        stack.extend(regions.iter().rev().map(|region| WriteStep::Region(*region)));
        Ok(())
    }

    /// Writes the result count, if the op encodes one, and the types of the results.
    fn write_result_types(&mut self, opcode: Opcode, results: &[Value]) {
        let results = if self.hides_result(opcode) { &[] } else { results };
        if matches!(opcode.info().count_encoding, CountEncoding::Counted | CountEncoding::Segments | CountEncoding::CountedResults)
        {
            write_varint(&mut self.out, results.len() as u64);
        }
        for result in results {
            write_varint(&mut self.out, self.body.ty(*result).index() as u64);
        }
    }

    /// Checks that each field that the version lacks has its default value. Also checks that the version has the rounding mode of
    /// the op.
    fn check_versions(&self, opcode: Opcode, fields: &[FieldRef<'_>]) -> Result<()> {
        let info = opcode.info();
        for (field, field_info) in fields.iter().zip(info.fields) {
            let default = Op::field_default(opcode, field_info.name).filter(|_| field_info.since > self.version);
            if default.is_some_and(|default| !is_default(*field, &default)) {
                let missing_field = format!("{} of {}", field_info.wire_name, info.mnemonic);
                return Err(version_error(missing_field, field_info.since, self.version));
            }
            if let (FieldShape::Enum(spellings), FieldRef::Enum(number)) = (field_info.shape, field)
                && spellings == Rounding::SPELLINGS
                && let Some(since) = Rounding::from_number(*number).map(gates::rounding_since)
                && self.version < since
            {
                let name = spellings[*number as usize];
                return Err(version_error(format!("rounding {name} of {}", info.mnemonic), since, self.version));
            }
        }
        Ok(())
    }

    fn write_attribute_field(&mut self, field: FieldRef<'_>, info: &FieldInfo, op: &Op) {
        let (out, module) = (&mut self.out, self.module);
        match field {
            FieldRef::Enum(number) if matches!(info.shape, FieldShape::Byte(_)) => out.push(number),
            FieldRef::Enum(number) | FieldRef::OptionalEnum(Some(number)) => write_varint(out, number.into()),
            FieldRef::Int(value) if info.shape == FieldShape::Int32 => write_varint(out, (value as u32).into()),
            FieldRef::Int(value) => write_varint(out, value as u64),
            FieldRef::String(text) => write_string_index(out, text),
            FieldRef::Constant(data) => write_varint(out, data.index() as u64),
            FieldRef::Attribute(attribute) => write_attribute(out, module, attribute),
            FieldRef::Attributes(elements) => write_array(out, module, elements),
            FieldRef::OptionalDictionary(Some(entries)) => write_dictionary(out, module, entries),
            FieldRef::OptionalAttributes(Some(elements)) => write_array(out, module, elements),
            FieldRef::Bools(values) => {
                let rank = op.view_rank().unwrap_or(values.len());
                let all_false = vec![false; rank];
                let values = if values.is_empty() { &all_false } else { values };
                write_varint(out, values.len() as u64);
                out.extend(values.iter().map(|value| u8::from(*value)));
            }
            FieldRef::Ints(values) => {
                write_varint(out, values.len() as u64);
                out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            FieldRef::OptionalEnum(None)
            | FieldRef::OptionalDictionary(None)
            | FieldRef::OptionalAttributes(None)
            | FieldRef::Flag(_) => {}
            FieldRef::Operand(_) | FieldRef::OptionalOperand(_) | FieldRef::Operands(_) | FieldRef::Region(_) => {}
        }
    }

    fn write_operands(&mut self, info: &OpInfo, fields: &[FieldRef<'_>]) -> Result<()> {
        if matches!(info.count_encoding, CountEncoding::Counted | CountEncoding::CountedOperands) {
            let count: usize = fields.iter().map(|field| operands_of(field).len()).sum();
            write_varint(&mut self.out, count as u64);
        }
        for (field, field_info) in fields.iter().zip(info.fields) {
            if let (FieldRef::Operands(values), CountEncoding::Segments) = (field, info.count_encoding) {
                write_varint(&mut self.out, values.len() as u64);
            }
            if field_info.since > self.version {
                continue;
            }
            for value in operands_of(field) {
                let number = self.value_numbers[value.index()];
                if number == u32::MAX {
                    return Err(self.hidden_result_error(info, *value));
                }
                write_varint(&mut self.out, number.into());
            }
        }
        Ok(())
    }

    /// The error for a use of a result that the requested version does not write.
    fn hidden_result_error(&self, info: &OpInfo, value: Value) -> Box<Diagnostic> {
        let producer = self.body.defining_op(value).map(|op| self.body.ops[op].kind.mnemonic()).unwrap_or("a block");
        version_error(format!("result of {producer} used by {}", info.mnemonic), Feature::PrintToken.since(), self.version)
    }
}

/// The values of an operand field; empty for other fields.
fn operands_of<'a>(field: &'a FieldRef<'a>) -> &'a [Value] {
    match field {
        FieldRef::Operand(value) | FieldRef::OptionalOperand(Some(value)) => std::slice::from_ref(value),
        FieldRef::Operands(values) => values,
        _ => &[],
    }
}

/// Whether the bit of a field in the flags word is set: the flag is true, or the optional field is present.
fn is_flag_bit_set(field: FieldRef<'_>) -> bool {
    match field {
        FieldRef::Flag(flag) => flag,
        FieldRef::OptionalOperand(value) => value.is_some(),
        FieldRef::OptionalEnum(number) => number.is_some(),
        FieldRef::OptionalDictionary(entries) => entries.is_some(),
        FieldRef::OptionalAttributes(elements) => elements.is_some(),
        _ => false,
    }
}

/// Whether a field has the default value that older versions imply.
fn is_default(field: FieldRef<'_>, default: &FieldValue) -> bool {
    match (field, default) {
        (FieldRef::Flag(flag), FieldValue::Flag(default)) => flag == *default,
        (FieldRef::Enum(number), FieldValue::Enum(default)) => number == *default,
        (FieldRef::Bools(values), FieldValue::Bools(default)) => *values == **default,
        (FieldRef::OptionalOperand(value), FieldValue::OptionalOperand(default)) => value == *default,
        _ => false,
    }
}
