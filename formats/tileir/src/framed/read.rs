//! Reads the framed container. A stack of open blocks replaces recursion, because the file decides the nesting depth.

mod records;

use super::{DIALECT, MAGIC, section, tag};
use crate::bytecode::{DecodedProgram, MAX_EXPANSION};
use crate::enums::Visibility;
use crate::fields::{FieldShape, FieldValue};
use crate::module::{Constant, Function, Global, Module};
use crate::ops::{CountEncoding, Op, Opcode};
use crate::types::{Attribute, ConstantId, StringId, Type, TypeId};
use crate::version::Version;
use base::diag::{Diagnostic, Place, Result};
use base::entity::Entity;
use base::ir::{self, Block, Region, Value};
use base::loc::{DebugInfo, Loc};
use base::{Arena, Body};
use records::read_small_dims;
use std::collections::HashMap;

/// Reads a file and verifies the program. Messages refer to the file as `name`.
pub fn read(bytes: &[u8], name: &str) -> Result<DecodedProgram> {
    read_bytes(bytes).map_err(|mut error| {
        if let Some(Place::Input { file, .. }) = &mut error.place {
            *file = name.into();
        }
        error
    })
}

/// Reads a file. The diagnostics do not have the name of the file.
fn read_bytes(bytes: &[u8]) -> Result<DecodedProgram> {
    let sections = find_sections(bytes)?;
    let payload = |id: u8| Cursor { bytes, offset: sections[id as usize].0, end: sections[id as usize].1 };
    let mut reader = Reader {
        types: Vec::new(),
        by_type: HashMap::new(),
        arena: Arena::new(),
        debug: DebugInfo::default(),
        records: Vec::new(),
        parameter_budget: bytes.len() * MAX_EXPANSION + 4096,
    };
    let mut strings: Arena<StringId, String> = Arena::new();
    for record in payload(section::STRING).split_table(4)? {
        let text =
            std::str::from_utf8(&bytes[record.offset..record.end]).map_err(|_| record.error("a string is not UTF-8 text"))?;
        strings.push(text.into());
    }
    for mut record in payload(section::TYPE).split_table(4)? {
        let ty = reader.read_type(&mut record)?;
        let id = reader.intern(ty);
        reader.types.push(id);
    }
    let constants = payload(section::CONSTANT)
        .split_table(8)?
        .into_iter()
        .map(|record| Constant { data: bytes[record.offset..record.end].into() });
    let constants: Arena<ConstantId, Constant> = constants.collect();
    reader.debug.names = strings.values().map(|text| text.to_string()).collect();
    for mut record in payload(section::DEBUG).split_table(4)? {
        let record = reader.read_record(&mut record, strings.len())?;
        reader.records.push(record);
    }
    let globals = reader.read_globals(payload(section::GLOBAL), strings.len(), constants.len())?;
    let functions = reader.read_functions(payload(section::FUNCTION), strings.len(), constants.len())?;
    let module = Module {
        version: Version::FIRST,
        preview: false,
        producer: None,
        strings,
        types: reader.arena,
        constants,
        globals,
        functions,
        externs: Vec::new(),
    };
    let program = DecodedProgram { module, debug: reader.debug };
    crate::verify::check_references(&program.module, &program.debug).map_err(|message| Diagnostic::invalid("TI002", message))?;
    crate::verify::verify(&program.module, &program.debug)
        .map_err(|failure| Diagnostic::invalid("TI003", failure.message).at_loc(&program.debug, failure.loc))?;
    Ok(program)
}

/// Returns the start and end offsets of each section's payload in the file, by section number. The two offsets of an absent section
/// are equal.
fn find_sections(bytes: &[u8]) -> Result<[(usize, usize); 7]> {
    let mut cursor = Cursor { bytes, offset: 0, end: bytes.len() };
    for expected in MAGIC {
        if cursor.byte()? != expected {
            return Err(cursor.error("the magic of the framed container is damaged"));
        }
    }
    let (major, minor, patch) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
    if (major, minor) != (13, 1) {
        let message = format!("unsupported Tile version {major}.{minor}.{patch}, this reader supports versions [13.1 - 13.1]");
        return Err(cursor.error(message));
    }
    for _ in 0..cursor.count()? {
        let length = cursor.count()?;
        let name = cursor.take(length)?;
        if name != DIALECT.as_bytes() {
            return Err(cursor.error("unregistered dialect"));
        }
        cursor.varint()?;
    }
    let descriptors = cursor.count()?;
    let descriptors = cursor.take(descriptors.saturating_mul(24))?.chunks_exact(24).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let mut ranges = [(0, 0); 7];
    loop {
        let first_byte = cursor.byte()?;
        let id = first_byte & 0x7F;
        if id == section::END {
            if first_byte != id {
                return Err(cursor.error("end section should not have alignment flag set"));
            }
            break;
        }
        if !section::ALL.contains(&id) {
            return Err(cursor.error(format!("unknown section ID: {id}")));
        }
        let length = cursor.count()?;
        let end = cursor.offset + length;
        if first_byte != id {
            let alignment = cursor.varint()?.clamp(1, 1 << 20) as usize;
            let misalignment = cursor.offset % alignment;
            cursor.take(if misalignment == 0 { 0 } else { alignment - misalignment })?;
        }
        if cursor.offset > end {
            return Err(cursor.error("a section is shorter than its padding"));
        }
        ranges[id as usize] = (cursor.offset, end);
        cursor.offset = end;
    }
    if cursor.offset != cursor.end {
        return Err(cursor.error("end section is not the last section"));
    }
    let read_u64 = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let descriptors_agree = descriptors.iter().all(|d| {
        let (start, end) = ranges.get(d[0] as usize).copied().unwrap_or_default();
        (read_u64(&d[8..16]), read_u64(&d[16..24])) == (start as u64, (end - start) as u64)
    });
    if !descriptors_agree {
        return Err(cursor.error("a section descriptor does not agree with the section"));
    }
    Ok(ranges)
}

/// A position in the file, and the end of the part that may be read.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    /// All bytes of the file.
    bytes: &'a [u8],
    /// The offset of the next byte to read.
    offset: usize,
    /// The offset after the last byte that may be read.
    end: usize,
}

impl<'a> Cursor<'a> {
    fn error(&self, message: impl Into<String>) -> Box<Diagnostic> {
        Diagnostic::invalid("TI008", message).in_input("", Some(self.offset as u64))
    }
    /// Reads `length` bytes.
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.end - self.offset {
            return Err(self.error("the data ends early"));
        }
        self.offset += length;
        Ok(&self.bytes[self.offset - length..self.offset])
    }
    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }
    /// Reads a varint. The number of trailing one bits of its first byte is the number of further bytes.
    fn varint(&mut self) -> Result<u64> {
        let first_byte = self.byte()?;
        let further_bytes = first_byte.trailing_ones() as usize;
        let mut bytes = [0; 16];
        bytes[0] = first_byte;
        bytes[1..=further_bytes].copy_from_slice(self.take(further_bytes)?);
        let raw = u128::from_le_bytes(bytes);
        let value = if further_bytes == 8 { raw >> 8 } else { raw >> (further_bytes + 1) } as u64;
        if further_bytes > 0 && (further_bytes == 8 && value >> 56 == 0 || further_bytes < 8 && value >> (7 * further_bytes) == 0) {
            return Err(self.error("non-canonical VarInt"));
        }
        Ok(value)
    }
    /// Reads a signed number in zig-zag encoding.
    fn zigzag(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
    /// Reads a count of items that have at least one byte each. Returns an error if the count exceeds the remaining bytes.
    fn count(&mut self) -> Result<usize> {
        let value = self.varint()?;
        usize::try_from(value)
            .ok()
            .filter(|count| *count <= self.end - self.offset)
            .ok_or_else(|| self.error("a count exceeds the data"))
    }
    /// Reads an index that must be less than `limit`. `what` names the table in messages.
    fn index(&mut self, limit: usize, what: &str) -> Result<usize> {
        let value = self.varint()?;
        let index = usize::try_from(value).ok().filter(|index| *index < limit);
        index.ok_or_else(|| self.error(format!("{what} {value} is out of bounds")))
    }
    /// Reads a varint and returns its low 32 bits.
    fn varint_u32(&mut self) -> Result<u32> {
        Ok(self.varint()? as u32)
    }
    /// Splits a table into its records. The table begins with the offsets of the records, which have `width` bytes each.
    fn split_table(mut self, width: usize) -> Result<Vec<Cursor<'a>>> {
        if self.offset == self.end {
            return Ok(Vec::new());
        }
        let count = self.count()?;
        let offsets = self.take(count.saturating_mul(width))?;
        let start = self.offset;
        let offset = |index: usize| {
            let mut bytes = [0; 8];
            bytes[..width].copy_from_slice(&offsets[index * width..][..width]);
            usize::try_from(u64::from_le_bytes(bytes)).ok().and_then(|offset| start.checked_add(offset))
        };
        let mut records = Vec::with_capacity(count);
        for index in 0..count {
            let from = offset(index);
            let to = if index + 1 < count { offset(index + 1) } else { Some(self.end) };
            match (from, to) {
                (Some(from), Some(to)) if from <= to && to <= self.end => records.push(Cursor { offset: from, end: to, ..self }),
                _ => return Err(self.error("the offsets of a table are out of order")),
            }
        }
        Ok(records)
    }
}

/// The types and debug records that the reader has decoded.
struct Reader {
    /// The id of each type record, by its index in the file.
    types: Vec<TypeId>,
    /// The id of each decoded type.
    by_type: HashMap<Type, TypeId>,
    /// The decoded types, which become the types of the module.
    arena: Arena<TypeId, Type>,
    debug: DebugInfo,
    /// The decoded debug records, by number.
    records: Vec<Record>,
    /// How many more parameters the functions may have. The limit bounds the memory that a damaged file can request.
    parameter_budget: usize,
}

/// A decoded debug record. Scopes precede locations, so the number of a scope's record is also the number of the scope.
#[derive(Clone, Copy)]
enum Record {
    Scope,
    Loc(Loc),
}

/// The sizes of the string and constant tables, to check references to them.
#[derive(Clone, Copy)]
struct TableSizes {
    strings: usize,
    constants: usize,
}

impl Reader {
    fn intern(&mut self, ty: Type) -> TypeId {
        *self.by_type.entry(ty.clone()).or_insert_with(|| self.arena.push(ty))
    }
    fn read_type_id(&self, cursor: &mut Cursor<'_>) -> Result<TypeId> {
        Ok(self.types[cursor.index(self.types.len(), "type")?])
    }
    /// Reads the number of a location's record plus one; 0 is the unknown location.
    fn read_loc_plus_one(&self, cursor: &mut Cursor<'_>) -> Result<Loc> {
        match cursor.index(self.records.len() + 1, "debug record")?.checked_sub(1) {
            None => Ok(Loc::UNKNOWN),
            Some(index) => self.loc_at(cursor, index),
        }
    }
    /// The location in record `index`.
    fn loc_at(&self, cursor: &Cursor<'_>, index: usize) -> Result<Loc> {
        match self.records.get(index) {
            Some(Record::Loc(loc)) => Ok(*loc),
            _ => Err(cursor.error(format!("debug record {index} is no location"))),
        }
    }
    /// Reads the number of a location's record; -1 is the unknown location.
    fn read_loc(&self, cursor: &mut Cursor<'_>) -> Result<Loc> {
        match cursor.zigzag()? {
            -1 => Ok(Loc::UNKNOWN),
            index => self.loc_at(cursor, usize::try_from(index).unwrap_or(usize::MAX)),
        }
    }

    fn read_globals(&self, mut cursor: Cursor<'_>, strings: usize, constants: usize) -> Result<Vec<Global>> {
        if cursor.offset == cursor.end {
            return Ok(Vec::new());
        }
        let count = cursor.count()?;
        let global = |_| {
            let name = StringId::from_index(cursor.index(strings, "string")?);
            let ty = self.read_type_id(&mut cursor)?;
            let value = ConstantId::from_index(cursor.index(constants, "constant")?);
            let alignment = cursor.varint()?;
            Ok(Global { name, ty, value, alignment, visibility: Visibility::Public, constant: false, loc: Loc::UNKNOWN })
        };
        (0..count).map(global).collect()
    }

    fn read_functions(&mut self, mut cursor: Cursor<'_>, strings: usize, constants: usize) -> Result<Vec<Function>> {
        if cursor.offset == cursor.end {
            return Err(cursor.error("function section is mandatory"));
        }
        let table_sizes = TableSizes { strings, constants };
        (0..cursor.count()?).map(|_| self.read_function(&mut cursor, table_sizes)).collect()
    }

    fn read_function(&mut self, cursor: &mut Cursor<'_>, table_sizes: TableSizes) -> Result<Function> {
        let name = StringId::from_index(cursor.index(table_sizes.strings, "string")?);
        let ty = self.read_type_id(cursor)?;
        let flags = cursor.byte()?;
        let loc = self.read_loc(cursor)?;
        let hints = if flags & 4 != 0 { Some(self.read_dictionary(cursor, table_sizes, 0)?) } else { None };
        let length = cursor.count()?;
        let mut body_cursor = Cursor { end: cursor.offset + length, ..*cursor };
        cursor.take(length)?;
        let Type::Function { inputs, .. } = &self.arena[ty] else { return Err(cursor.error("a function has a function type")) };
        let inputs = inputs.clone();
        self.parameter_budget = self
            .parameter_budget
            .checked_sub(inputs.len())
            .ok_or_else(|| cursor.error("more parameters than the file has bytes"))?;
        let mut body = Body::default();
        let region = body.new_region();
        let block = body.new_block(region);
        let values = inputs.iter().map(|ty| body.add_argument(block, *ty)).collect();
        let mut reader = BodyReader { reader: self, table_sizes, body, values };
        reader.read_body(&mut body_cursor, block)?;
        let visibility = if flags & 1 != 0 { Visibility::Private } else { Visibility::Public };
        Ok(Function { name, ty, visibility, hints, arg_attrs: Box::default(), body: reader.body, region, loc })
    }
}

/// The state of reading a function body.
struct BodyReader<'r> {
    reader: &'r Reader,
    table_sizes: TableSizes,
    body: Body<Op, TypeId>,
    /// The values that the next op can use. An operand is an index into this list.
    values: Vec<Value>,
}

/// A block whose ops are being read, and the state to restore at its end.
struct OpenBlock {
    block: Block,
    remaining_ops: usize,
    /// The length of [`BodyReader::values`] before the block.
    outer_values: usize,
    /// The regions of the enclosing op after the region of this block, last first.
    remaining_regions: Vec<Region>,
    /// The enclosing op; `None` for the entry block.
    op: Option<ir::Op>,
}

impl BodyReader<'_> {
    /// Reads the ops of the entry block and of all nested regions.
    fn read_body(&mut self, cursor: &mut Cursor<'_>, entry: Block) -> Result<()> {
        let ops = cursor.count()?;
        let mut stack = vec![OpenBlock {
            block: entry,
            remaining_ops: ops,
            outer_values: self.values.len(),
            remaining_regions: Vec::new(),
            op: None,
        }];
        while let Some(open_block) = stack.last_mut() {
            if open_block.remaining_ops > 0 {
                open_block.remaining_ops -= 1;
                let block = open_block.block;
                let (op, regions) = self.read_op(cursor, block)?;
                self.next_region(cursor, &mut stack, op, regions)?;
                continue;
            }
            let open_block = stack.pop().expect("a block is open");
            let Some(op) = open_block.op else { break };
            self.values.truncate(open_block.outer_values);
            self.next_region(cursor, &mut stack, op, open_block.remaining_regions)?;
        }
        if cursor.offset == cursor.end { Ok(()) } else { Err(cursor.error("a function body has bytes left over")) }
    }

    /// Starts to read the block of the op's next region with a block. If no region is left, makes the results of the op usable.
    /// `regions` are the regions that are left, last first.
    fn next_region(
        &mut self,
        cursor: &mut Cursor<'_>,
        stack: &mut Vec<OpenBlock>,
        op: ir::Op,
        mut regions: Vec<Region>,
    ) -> Result<()> {
        while let Some(region) = regions.pop() {
            let blocks = cursor.count()?;
            if blocks > 1 {
                return Err(cursor.error("a region has more than one block"));
            }
            if blocks == 1 {
                let outer_values = self.values.len();
                let open_block =
                    OpenBlock { block: Block(0), remaining_ops: 0, outer_values, remaining_regions: regions, op: Some(op) };
                let open_block = self.open_block(cursor, region, open_block)?;
                stack.push(open_block);
                return Ok(());
            }
        }
        self.values.extend(&self.body.ops[op].results);
        Ok(())
    }

    /// Reads the arguments and the op count of a block. Returns `open_block` with this block and count.
    fn open_block(&mut self, cursor: &mut Cursor<'_>, region: Region, open_block: OpenBlock) -> Result<OpenBlock> {
        let block = self.body.new_block(region);
        for _ in 0..cursor.count()? {
            let ty = self.reader.read_type_id(cursor)?;
            self.values.push(self.body.add_argument(block, ty));
        }
        Ok(OpenBlock { block, remaining_ops: cursor.count()?, ..open_block })
    }

    /// Reads an op without its regions, and appends it to a block. Returns its regions, last first.
    fn read_op(&mut self, cursor: &mut Cursor<'_>, into: Block) -> Result<(ir::Op, Vec<Region>)> {
        let opcode_number = cursor.varint()?;
        let opcode = Opcode::from_number(opcode_number).filter(|opcode| opcode.info().since == Version::FIRST);
        let opcode = opcode.ok_or_else(|| cursor.error(format!("unknown or unimplemented opcode: {opcode_number}")))?;
        let info = opcode.info();
        let loc = self.reader.read_loc(cursor)?;
        let has_result_count =
            matches!(info.count_encoding, CountEncoding::Counted | CountEncoding::Segments | CountEncoding::CountedResults);
        let results = if has_result_count { cursor.count()? } else { info.results.len() };
        let results: Vec<TypeId> = (0..results).map(|_| self.reader.read_type_id(cursor)).collect::<Result<_>>()?;
        let operand_count = cursor.count()?;
        let variadic_fields = info.fields.iter().filter(|field| field.shape.is_operand() && field.shape != FieldShape::Operand);
        let lengths: Vec<usize> = variadic_fields.map(|_| cursor.count()).collect::<Result<_>>()?;
        let mut operands = Vec::new();
        for _ in 0..operand_count {
            operands.push(self.values[cursor.index(self.values.len(), "operand")?]);
        }
        let mut operands = operands.into_iter();
        let mut lengths = lengths.into_iter();
        let regions: Vec<Region> = (0..info.region_count()).map(|_| self.body.new_region()).collect();
        let mut region_ids = regions.iter();
        let mut values = Vec::new();
        for field in info.fields {
            let too_few_operands = || cursor.error(format!("'{}' has too few operands", info.mnemonic));
            values.push(match field.shape {
                FieldShape::Operand => FieldValue::Operand(operands.next().ok_or_else(too_few_operands)?),
                FieldShape::OptionalOperand => match lengths.next().unwrap_or(0) {
                    0 => FieldValue::OptionalOperand(None),
                    _ => FieldValue::OptionalOperand(Some(operands.next().ok_or_else(too_few_operands)?)),
                },
                FieldShape::Operands => {
                    let length = lengths.next().unwrap_or(0);
                    let list: Box<[Value]> = operands.by_ref().take(length).collect();
                    if list.len() != length {
                        return Err(too_few_operands());
                    }
                    FieldValue::Operands(list)
                }
                FieldShape::Region => FieldValue::Region(*region_ids.next().ok_or_else(too_few_operands)?),
                _ if field.since > Version::FIRST => {
                    Op::field_default(opcode, field.name).ok_or_else(|| cursor.error("a field has no default"))?
                }
                shape => self.read_attribute_field(cursor, shape)?,
            });
        }
        if operands.next().is_some() {
            return Err(cursor.error(format!("'{}' has too many operands", info.mnemonic)));
        }
        let mut values = values.into_iter();
        let kind = Op::from_fields(opcode, &mut || values.next());
        let kind = kind.ok_or_else(|| cursor.error(format!("'{}' has a field out of range", info.mnemonic)))?;
        let op = self.body.append(into, kind, results, loc);
        Ok((op, regions.into_iter().rev().collect()))
    }

    fn read_attribute_field(&self, cursor: &mut Cursor<'_>, shape: FieldShape) -> Result<FieldValue> {
        let table_sizes = self.table_sizes;
        Ok(match shape {
            FieldShape::Flag => FieldValue::Flag(cursor.byte()? != 0),
            FieldShape::Byte(_) => FieldValue::Enum(cursor.byte()?),
            FieldShape::Enum(_) => FieldValue::Enum(cursor.varint()?.min(255) as u8),
            FieldShape::OptionalEnum(_) => {
                FieldValue::OptionalEnum(cursor.varint()?.checked_sub(1).map(|number| number.min(255) as u8))
            }
            FieldShape::Int32 | FieldShape::Int64 => FieldValue::Int(cursor.zigzag()?),
            FieldShape::String | FieldShape::Symbol => {
                FieldValue::String(StringId::from_index(cursor.index(table_sizes.strings, "string")?))
            }
            FieldShape::Constant => FieldValue::Constant(ConstantId::from_index(cursor.index(table_sizes.constants, "constant")?)),
            FieldShape::Attribute => {
                if cursor.byte()? != tag::PREDICATE {
                    return Err(cursor.error("expected a predicate"));
                }
                FieldValue::Attribute(self.reader.read_attribute(cursor, table_sizes, 0)?)
            }
            FieldShape::Attributes => {
                let count = cursor.count()?;
                let values: Result<Vec<Attribute>> =
                    (0..count).map(|_| self.reader.read_attribute(cursor, table_sizes, 0)).collect();
                FieldValue::Attributes(values?.into())
            }
            FieldShape::OptionalDictionary => match cursor.byte()? {
                0 => FieldValue::OptionalDictionary(None),
                _ => FieldValue::OptionalDictionary(Some(Box::new(self.reader.read_dictionary(cursor, table_sizes, 0)?))),
            },
            FieldShape::Bools => FieldValue::Bools(Box::default()),
            FieldShape::Ints => FieldValue::Ints(read_small_dims(cursor)?),
            FieldShape::Operand
            | FieldShape::OptionalOperand
            | FieldShape::Operands
            | FieldShape::OptionalAttributes
            | FieldShape::Region => {
                return Err(cursor.error("a field has no payload of its own"));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_varints_in_the_descriptions_decode() {
        for (bytes, value) in [(&[0x0A][..], 5), (&[0x01, 0x02], 128), (&[0xFB, 0xFF, 0x0F], 131_071)] {
            assert_eq!(Cursor { bytes, offset: 0, end: bytes.len() }.varint().expect("a varint"), value);
        }
        assert!(Cursor { bytes: &[0x01, 0x00], offset: 0, end: 2 }.varint().is_err(), "zero in two bytes is too long");
    }

    #[test]
    fn a_dimension_above_32_bits_is_an_error() {
        // One dimension: 2^32 + 4 has the zigzag form 2^33 + 8, in a varint with four further bytes.
        let encoded = ((1u64 << 33) + 8) << 5 | 0b1111;
        let bytes = [&[2], &encoded.to_le_bytes()[..5]].concat();
        let cursor = || Cursor { bytes: &bytes, offset: 0, end: bytes.len() };
        assert_eq!(super::records::read_dims(&mut cursor()).expect("they are complete"), [(1 << 32) + 4]);
        let error = read_small_dims(&mut cursor()).expect_err("32 bits cannot hold it");
        assert!(error.message.contains("dimension 4294967300 exceeds 32 bits"), "{}", error.message);
    }
}
