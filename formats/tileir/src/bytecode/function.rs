//! Reads functions: the function table, and the ops of function bodies.
//!
//! Invariant: reading does not recurse. The file decides the nesting depth, so an explicit stack of [`OpenOp`]s holds the open
//! blocks.

mod op_fields;

use super::cursor::{Cursor, ErrorContext};
use super::debug::LocationCursor;
use super::error::{ReadError, Result};
use super::flag;
use super::preview::ExternRecord;
use super::reader::Tables;
use crate::enums::Visibility;
use crate::fields::{FieldShape, FieldValue};
use crate::gates::{AttributeKind, Feature};
use crate::module::Function;
use crate::ops::{Op, Opcode};
use crate::preview::Extern;
use crate::types::{Attribute, Dictionary, Type, TypeId};
use base::ir::{self, Block, Operation, Region, Value};
use base::{Body, Loc};
use smallvec::SmallVec;

/// A record of the function table. `name` is a string index, `signature` a type index, and `loc` an entry of the debug section.
pub(super) struct FunctionRecord<'a> {
    name: u64,
    signature: u64,
    flags: u8,
    loc: u64,
    kind: FunctionKind,
    hints: Option<Attribute>,
    arg_attrs: Box<[Dictionary]>,
    body: &'a [u8],
    /// The declaration or implementation of a function without a body.
    external: Option<ExternRecord>,
}

/// A decoded function record.
pub(super) enum DecodedFunction {
    Entry(Function),
    Extern(Extern),
    /// A function that has a body but is not an entry. No valid program has such a function.
    Device,
}

/// The kind of function in a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FunctionKind {
    /// Not callable from outside the program.
    Device,
    Entry,
    ExternImplementation,
}

impl<'a> Tables<'a> {
    /// Reads the records of the function section.
    pub(super) fn read_function_table(&mut self, payload: &'a [u8]) -> Result<Vec<FunctionRecord<'a>>> {
        let mut cursor = Cursor::new(payload);
        let count = cursor.varint()?;
        if count > payload.len() as u64 {
            return Err(cursor.error(format!("number of functions ({count}) exceeds payload size ({})", payload.len())));
        }
        (0..count).map(|_| self.read_function_record(&mut cursor)).collect()
    }

    fn read_function_record(&mut self, cursor: &mut Cursor<'a>) -> Result<FunctionRecord<'a>> {
        let name = cursor.varint()?;
        let signature = cursor.varint()?;
        let flags = cursor.byte()?;
        let loc = cursor.varint()?;
        let kind = self.decode_kind(flags, cursor)?;
        let has_hints = self.version.has(Feature::EntryHints) || flags & flag::HINTS != 0;
        let hints = (kind == FunctionKind::Entry && has_hints).then(|| self.read_attribute(cursor)).transpose()?;
        if kind == FunctionKind::ExternImplementation {
            let external = Some(self.read_implementation(cursor)?);
            let length = cursor.varint()?;
            if length != 0 {
                return Err(cursor.error(format!(
                    "extern implementation entry has non-zero body length ({length}); bodiless extern implementations must have \
                     body length 0"
                )));
            }
            return Ok(FunctionRecord { name, signature, flags, loc, kind, hints, arg_attrs: Box::default(), body: &[], external });
        }
        let arg_attrs = match self.version.has(Feature::ArgumentAttributes) {
            true => self.read_argument_attributes(cursor)?,
            false => Box::default(),
        };
        let length = cursor.varint()?;
        let rest = cursor.remaining();
        let body = cursor
            .bytes(length)
            .context(cursor, || format!("function body length {length} exceeds remaining bytecode data ({rest} bytes)"))?;
        let is_declaration = kind == FunctionKind::Device && length == 0 && self.version.has(Feature::FunctionKind);
        let external = if is_declaration { Some(self.read_declaration(cursor)?) } else { None };
        Ok(FunctionRecord { name, signature, flags, loc, kind, hints, arg_attrs, body, external })
    }

    /// Decodes the kind of a function from its flags byte.
    fn decode_kind(&self, flags: u8, cursor: &Cursor<'_>) -> Result<FunctionKind> {
        let unrecognized = |bits: u8| cursor.error(format!("function entry has unrecognized flag bits (0x{bits:X});"));
        if !self.version.has(Feature::FunctionKind) {
            let unknown_bits = flags & !(flag::PRIVATE | flag::KERNEL | flag::HINTS);
            // Earlier versions allow any value in the other bits.
            if unknown_bits != 0 && self.version.has(Feature::FunctionBits) {
                return Err(unrecognized(unknown_bits));
            }
            return Ok(if flags & flag::KERNEL != 0 { FunctionKind::Entry } else { FunctionKind::Device });
        }
        if flags & 0xF0 != 0 {
            return Err(unrecognized(flags & 0xF0));
        }
        match flags >> 1 {
            0 => Ok(FunctionKind::Device),
            1 => Ok(FunctionKind::Entry),
            2 => Ok(FunctionKind::ExternImplementation),
            3 => Err(cursor.error("function entry cannot be both kernel and extern impl")),
            4 | 5 => Err(cursor.error("function entry has testing form in non-test build")),
            _ => Err(cursor.error("function entry has reserved form value")),
        }
    }

    /// Reads an array with one dictionary per parameter, or an empty array.
    fn read_argument_attributes(&mut self, cursor: &mut Cursor<'_>) -> Result<Box<[Dictionary]>> {
        let tag = cursor.varint().with_message(cursor, "failed to read the attributes of the arguments")?;
        if tag != u64::from(AttributeKind::Array.row().tag) {
            return Err(cursor.error("the attributes of the arguments are not an array"));
        }
        self.read_dictionaries(cursor)
    }

    /// Decodes a function record and the ops of its body. `file_end` is the end of the file, for messages.
    pub(super) fn decode_function(&mut self, record: &FunctionRecord<'a>, file_end: &Cursor<'_>) -> Result<DecodedFunction> {
        let index = record.name;
        let name = self.strings.get(index).context(file_end, || format!("failed to get function name string at index {index}"))?;
        let name_text = self.strings.text(name).to_string();
        if name_text.is_empty() {
            return Err(file_end.error(format!("function name at index {index} is empty")));
        }
        let signature = record.signature;
        if signature >= self.types.len() {
            return Err(file_end.error(format!("function signature index {signature} out of bounds for function '{name_text}'")));
        }
        let ty = self
            .types
            .get(signature, &mut self.strings)
            .context(file_end, || format!("failed to parse type at index {signature} for function '{name_text}"))?;
        let Type::Function { inputs, .. } = &self.types.arena[ty] else {
            let got = self.types.text(ty, &self.strings);
            return Err(file_end.error(format!(
                "function signature index {signature} does not refer to a function type for function '{name_text}', got type: \
                 '{got}'"
            )));
        };
        let inputs = inputs.clone();
        let mut locations = self.debug.locations(record.loc);
        let loc = self
            .debug
            .next_loc(&mut locations, &mut self.strings)
            .context(file_end, || format!("failed to read function location for '{name_text}'"))?;
        let visibility = if record.flags & flag::PRIVATE != 0 { Visibility::Private } else { Visibility::Public };
        if let Some(external) = &record.external {
            return Ok(DecodedFunction::Extern(external.to_extern(name, ty, visibility, &record.arg_attrs, loc)?));
        }
        let hints = self
            .entry_hints(record)
            .ok_or_else(|| file_end.error(format!("invalid optimization hints attribute for function '{name_text}'")))?;
        self.parameter_budget = self
            .parameter_budget
            .checked_sub(inputs.len())
            .ok_or_else(|| file_end.error("the functions have more parameters than the file has bytes"))?;
        let mut body = Body::default();
        let region = body.new_region();
        let block = body.new_block(region);
        let values = inputs.iter().map(|ty| body.add_argument(block, *ty)).collect();
        let reader = BodyReader { tables: self, cursor: Cursor::new(record.body), body, locations, values };
        let body =
            reader.read_body(block).context(file_end, || format!("failed to parse function body for function '{name_text}'"))?;
        if record.kind == FunctionKind::Device {
            return Ok(DecodedFunction::Device);
        }
        let mut arg_attrs = record.arg_attrs.clone();
        if arg_attrs.len() == inputs.len() && arg_attrs.iter().all(|entries| entries.is_empty()) {
            arg_attrs = Box::default();
        }
        Ok(DecodedFunction::Entry(Function { name, ty, visibility, hints, arg_attrs, body, region, loc }))
    }

    /// The optimization hints of an entry. `None` means that the record has an attribute of another kind. `Some(None)` means that
    /// the entry has no hints.
    fn entry_hints(&self, record: &FunctionRecord<'_>) -> Option<Option<Dictionary>> {
        match &record.hints {
            None => Some(None),
            Some(Attribute::OptimizationHints(entries)) if entries.is_empty() && self.version.has(Feature::EntryHints) => {
                Some(None)
            }
            Some(Attribute::OptimizationHints(entries)) => Some(Some(entries.clone())),
            Some(_) => None,
        }
    }
}

/// Opcodes from this number on are preview content.
const FIRST_PREVIEW_OPCODE: u64 = 16384;

/// The state of reading one function body.
struct BodyReader<'t, 'a> {
    tables: &'t mut Tables<'a>,
    cursor: Cursor<'a>,
    body: Body<Op, TypeId>,
    locations: LocationCursor,
    /// The values that the next op can use. An operand is an index into this list.
    values: Vec<Value>,
}

/// An op whose regions are being read. The op is already in its block, so ids follow program order.
struct OpenOp {
    op: ir::Op,
    /// The number of results that later ops can use. In version 13.1, no op can use the token of a print op.
    usable_results: usize,
    regions: SmallVec<[Region; 2]>,
    /// The number of regions whose reading has begun; the last of them is the current region.
    begun_regions: usize,
    /// The number of blocks of the current region.
    block_count: u64,
    block: Block,
    block_index: u64,
    op_count: u64,
    /// The index of the next op of the block.
    op_index: u64,
    /// The length of [`BodyReader::values`] before the block.
    outer_values: usize,
}

/// The parts of an op that precede its regions in the bytecode.
struct OpHead {
    opcode: Opcode,
    fields: SmallVec<[FieldValue; 8]>,
    results: SmallVec<[TypeId; 2]>,
    usable_results: usize,
    loc: Loc,
}

impl BodyReader<'_, '_> {
    /// Reads the ops of the entry block and of all nested regions.
    fn read_body(mut self, entry: Block) -> Result<Body<Op, TypeId>> {
        let mut stack: Vec<OpenOp> = Vec::new();
        loop {
            let step = match stack.is_empty() {
                true if self.cursor.remaining() == 0 => return Ok(self.body),
                true => self.read_op(entry, &mut stack),
                false => self.read_op_or_end_block(&mut stack),
            };
            step.map_err(|error| self.unwind(error, &stack))?;
        }
    }

    /// Reads the next op of the innermost block, or closes the completed block, region and op.
    fn read_op_or_end_block(&mut self, stack: &mut Vec<OpenOp>) -> Result<()> {
        let open_op = stack.last_mut().expect("there is a block to go on with");
        if open_op.op_index < open_op.op_count {
            let block = open_op.block;
            return self.read_op(block, stack);
        }
        self.end_block(stack)
    }

    /// Adds the error lines that NVIDIA's reader prints for the enclosing levels, innermost first.
    fn unwind(&self, mut error: ReadError, stack: &[OpenOp]) -> ReadError {
        let offset = self.cursor.offset();
        for open_op in stack.iter().rev() {
            if open_op.block_count > 0 {
                if open_op.op_index < open_op.op_count {
                    error = error.with_outer_line(offset, format!("failed to parse operation {} in block.", open_op.op_index));
                }
                error = error.with_outer_line(offset, format!("failed to parse block {} in region.", open_op.block_index));
            }
            error = error.with_outer_line(offset, format!("failed to parse region {}", open_op.begun_regions - 1));
        }
        error
    }

    /// Reads an op into a block. If the op has regions, pushes the op to the stack and begins the first region.
    fn read_op(&mut self, into: Block, stack: &mut Vec<OpenOp>) -> Result<()> {
        let head = self.read_op_head()?;
        let info = head.opcode.info();
        let expected = info.region_count();
        if expected > 0 {
            let count = self.cursor.count().with_message(&self.cursor, "failed to read number of regions to parse.")?;
            if count != expected as u64 {
                let name = info.mnemonic;
                return Err(self.cursor.error(format!("cuda_tile.{name} op expected {expected} regions, got {count}")));
            }
        }
        let regions: SmallVec<[Region; 2]> = (0..expected).map(|_| self.body.new_region()).collect();
        let op = self.append(into, head.opcode, head.fields, &regions, head.results, head.loc)?;
        if expected == 0 {
            self.finish_op(op, head.usable_results, stack);
            return Ok(());
        }
        let (usable_results, outer_values) = (head.usable_results, self.values.len());
        let (begun_regions, block_count, block, block_index, op_count, op_index) = (0, 0, into, 0, 0, 0);
        stack.push(OpenOp {
            op,
            usable_results,
            regions,
            begun_regions,
            block_count,
            block,
            block_index,
            op_count,
            op_index,
            outer_values,
        });
        self.begin_region(stack)
    }

    /// Appends an op to its block.
    fn append(
        &mut self,
        into: Block,
        opcode: Opcode,
        fields: SmallVec<[FieldValue; 8]>,
        regions: &[Region],
        results: SmallVec<[TypeId; 2]>,
        loc: Loc,
    ) -> Result<ir::Op> {
        let mut regions = regions.iter();
        let mut fields = fields.into_iter();
        let mut infos = opcode.info().fields.iter();
        let kind = Op::from_fields(opcode, &mut || match infos.next()?.shape {
            FieldShape::Region => regions.next().map(|region| FieldValue::Region(*region)),
            _ => fields.next(),
        });
        let mut kind = kind.ok_or_else(|| self.cursor.error("an op was decoded into fields that it does not have"))?;
        if let Some((inbounds, rank)) = kind.inbounds_mut()
            && inbounds.len() == rank
            && !inbounds.contains(&true)
        {
            // The module represents an access that promises no dimension to be in bounds by an empty list.
            *inbounds = Box::default();
        }
        Ok(self.body.append(into, kind, results, loc))
    }

    /// Completes an op: its results receive numbers, and its block continues.
    fn finish_op(&mut self, op: ir::Op, usable_results: usize, stack: &mut [OpenOp]) {
        self.values.extend(self.body.ops[op].results.iter().take(usable_results));
        if let Some(open_op) = stack.last_mut() {
            open_op.op_index += 1;
        }
    }

    /// Begins the next region of the innermost op, and skips regions without a block. Completes the op after its last region.
    fn begin_region(&mut self, stack: &mut Vec<OpenOp>) -> Result<()> {
        loop {
            let open_op = stack.last_mut().expect("an op with regions is on the stack");
            if open_op.begun_regions == open_op.regions.len() {
                let open_op = stack.pop().expect("an op with regions is on the stack");
                self.finish_op(open_op.op, open_op.usable_results, stack);
                return Ok(());
            }
            (open_op.begun_regions, open_op.block_count, open_op.block_index) = (open_op.begun_regions + 1, 0, 0);
            open_op.block_count = self.cursor.varint().with_message(&self.cursor, "failed to read region block count")?;
            if open_op.block_count > 0 {
                return self.begin_block(stack);
            }
        }
    }

    /// Creates the next block of the current region, and reads its arguments and its op count.
    fn begin_block(&mut self, stack: &mut [OpenOp]) -> Result<()> {
        let open_op = stack.last_mut().expect("an op with regions is on the stack");
        let region = open_op.regions[open_op.begun_regions - 1];
        open_op.block = self.body.new_block(region);
        (open_op.op_count, open_op.op_index, open_op.outer_values) = (0, 0, self.values.len());
        let args = self.cursor.varint().with_message(&self.cursor, "failed to read block argument count.")?;
        for i in 0..args {
            let ty = self.tables.types.read(&mut self.cursor, &mut self.tables.strings);
            let ty = ty.context(&self.cursor, || format!("failed to read block argument type: {i}"))?;
            self.values.push(self.body.add_argument(open_op.block, ty));
        }
        open_op.op_count = self.cursor.varint().with_message(&self.cursor, "failed to read block operation count.")?;
        Ok(())
    }

    /// Checks the terminator of a completed block, and begins the next block or region.
    fn end_block(&mut self, stack: &mut Vec<OpenOp>) -> Result<()> {
        let open_op = stack.last_mut().expect("an op with regions is on the stack");
        const INVALID_BLOCK: &str = "invalid block structure: block is expected to have a terminator operation, but";
        match self.body.blocks[open_op.block].ops.last() {
            None => return Err(self.cursor.error(format!("{INVALID_BLOCK} it is empty"))),
            Some(op) if !self.body.ops[*op].kind.is_terminator() => {
                let name = self.body.ops[*op].kind.mnemonic();
                let message = format!("{INVALID_BLOCK} the last operation 'cuda_tile.{name}' is not a terminator.");
                return Err(self.cursor.error(message));
            }
            Some(_) => {}
        }
        self.values.truncate(open_op.outer_values);
        open_op.block_index += 1;
        if open_op.block_index < open_op.block_count { self.begin_block(stack) } else { self.begin_region(stack) }
    }
}
