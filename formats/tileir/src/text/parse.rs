//! Parses programs in the text form.
//!
//! The parser and the printer follow the same description of an op's text, [`super::format`]. A stack of open blocks replaces
//! recursion. A name expires at the end of the block that defines it.

mod module_reader;
mod op_syntax;

use super::format::pieces;
use super::lex::Cursor;
use super::parse_debug::DebugParser;
use crate::fields::{FieldShape, FieldValue};
use crate::module::{Constant, Module};
use crate::ops::{Op, Opcode, RuleKind};
use crate::types::{ConstantId, Dictionary, StringId, Type, TypeId};
use base::diag::Result;
use base::ir::{self, Block, Operation, Region, Value};
use base::nearest::did_you_mean;
use base::{Arena, Body, DebugInfo, Loc};
use op_syntax::{implied_enum_value, variant_number};
use std::collections::HashMap;

/// Parses the output of [`super::print()`], with or without locations. Adds the text's locations to `debug`.
pub fn parse(text: &str, name: &str, first_line: u32, debug: &mut DebugInfo) -> Result<Module> {
    let mut reader = ModuleReader {
        cursor: Cursor::new(text, name, first_line),
        tables: Tables::default(),
        debug: DebugParser::new(text, debug),
    };
    reader.parse_module()
}

/// The strings, types and constants of a module under construction. Equal strings, types and constants are stored once.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) strings: Arena<StringId, String>,
    pub(super) types: Arena<TypeId, Type>,
    pub(super) constants: Arena<ConstantId, Constant>,
    by_string: HashMap<String, StringId>,
    by_type: HashMap<Type, TypeId>,
    pub(super) by_data: HashMap<Box<[u8]>, ConstantId>,
}

impl Tables {
    /// The tables that the text of a type refers to.
    fn type_tables(&self) -> super::types::TypeTables<'_> {
        super::types::TypeTables { strings: &self.strings, types: &self.types }
    }
    /// Returns the id of a string, and adds the string to the module on first use.
    pub(super) fn intern_string(&mut self, text: &str) -> StringId {
        if let Some(id) = self.by_string.get(text) {
            return *id;
        }
        let id = self.strings.push(text.into());
        self.by_string.insert(text.into(), id);
        id
    }
    /// Returns the id of a type, and adds the type to the module on first use.
    pub(super) fn intern(&mut self, ty: Type) -> TypeId {
        if let Some(id) = self.by_type.get(&ty) {
            return *id;
        }
        let id = self.types.push(ty.clone());
        self.by_type.insert(ty, id);
        id
    }
}

/// The state of parsing a module.
struct ModuleReader<'a, 'd> {
    cursor: Cursor<'a>,
    tables: Tables,
    debug: DebugParser<'a, 'd>,
}

impl<'a> ModuleReader<'a, '_> {}

/// The state of parsing the body of a function.
struct BodyReader<'m, 'a, 'd> {
    module: &'m mut ModuleReader<'a, 'd>,
    body: Body<Op, TypeId>,
    /// The values of each name. Several results of an op may share a name.
    names: HashMap<&'a str, Vec<Value>>,
    /// The names in definition order. They expire at the end of their block.
    defined_names: Vec<&'a str>,
}

/// An op whose regions are being read.
struct OpenOp {
    op: ir::Op,
    regions: Vec<Region>,
    region_index: usize,
    block: Block,
    /// The number of names that are defined outside the op's regions.
    outer_names: usize,
}

/// The parsed parts of an op.
struct PartialOp<'a> {
    opcode: Opcode,
    fields: Vec<Option<FieldValue>>,
    /// The names of the results, each with the number of results that share it.
    results: Vec<(&'a str, usize)>,
    result_types: Vec<TypeId>,
    /// The arguments of a loop body: names and types.
    args: Vec<(&'a str, TypeId)>,
    /// The position of the mnemonic in the text, for errors.
    offset: usize,
}

impl<'a> BodyReader<'_, 'a, '_> {
    /// The cursor of the module.
    fn cursor(&mut self) -> &mut Cursor<'a> {
        &mut self.module.cursor
    }

    /// Parses the braced block of an entry, with all nested blocks.
    fn parse_body(&mut self, entry: Block) -> Result<()> {
        self.cursor().expect("{")?;
        let mut stack: Vec<(OpenOp, Vec<(&'a str, usize)>)> = Vec::new();
        loop {
            let block = stack.last().map_or(entry, |(open_op, _)| open_op.block);
            if self.cursor().skip_if_next("}") {
                let Some((open_op, _)) = stack.last_mut() else { return Ok(()) };
                if !self.end_block(open_op)? {
                    let (open_op, results) = stack.pop().expect("an op is open");
                    self.body.ops[open_op.op].loc =
                        self.module.debug.parse_optional_loc(&mut self.module.cursor)?.unwrap_or(Loc::UNKNOWN);
                    self.set_implicit_locations(open_op.op);
                    self.define_results(open_op.op, &results)?;
                }
                continue;
            }
            if self.cursor().is_end() {
                return Err(self.cursor().error("expected '}' at the end of a block"));
            }
            self.parse_op(block, &mut stack)?;
        }
    }

    /// Gives each omitted terminator the location of the enclosing op.
    fn set_implicit_locations(&mut self, op: ir::Op) {
        let loc = self.body.ops[op].loc;
        for region in self.body.ops[op].kind.regions() {
            for block in self.body.regions[region].blocks.clone() {
                if let Some(last) = self.body.blocks[block].ops.last().copied()
                    && self.body.ops[last].loc == IMPLICIT_LOC
                {
                    self.body.ops[last].loc = loc;
                }
            }
        }
    }

    /// Ends a block. If an `else` region follows, opens this region and returns true. Otherwise returns false.
    fn end_block(&mut self, open_op: &mut OpenOp) -> Result<bool> {
        self.append_omitted_terminator(open_op);
        self.expire_names(open_op.outer_names);
        if matches!(self.body.ops[open_op.op].kind, Op::If { .. })
            && open_op.region_index == 0
            && self.cursor().skip_if_next("else")
        {
            self.cursor().expect("{")?;
            open_op.region_index = 1;
            open_op.block = self.body.new_block(open_op.regions[1]);
            return Ok(true);
        }
        Ok(false)
    }

    /// Appends the terminator that the text of a block omits. Such a terminator has no operands.
    fn append_omitted_terminator(&mut self, open_op: &OpenOp) {
        if self.body.terminator(open_op.block).is_some() {
            return;
        }
        let kind = match self.body.ops[open_op.op].kind {
            Op::If { .. } => Op::Yield { operands: Box::default() },
            Op::For { .. } | Op::Loop { .. } => Op::Continue { operands: Box::default() },
            _ => return,
        };
        self.body.append(open_op.block, kind, [], IMPLICIT_LOC);
    }

    /// Removes all names except the first `keep` names in definition order.
    fn expire_names(&mut self, keep: usize) {
        for name in self.defined_names.drain(keep..) {
            self.names.remove(name);
        }
    }

    /// Defines a name in the current block. `offset` is the position of the name in the text. It is used in the error for a name
    /// that exists already.
    fn define(&mut self, name: &'a str, offset: usize, values: Vec<Value>) -> Result<()> {
        if self.names.insert(name, values).is_some() {
            return Err(self.cursor().error_at(offset, format!("%{name} is defined twice")));
        }
        self.defined_names.push(name);
        Ok(())
    }

    /// Defines the names of the results of an op.
    fn define_results(&mut self, op: ir::Op, names: &[(&'a str, usize)]) -> Result<()> {
        let results = self.body.ops[op].results.clone();
        let mut result_index = 0;
        for (name, count) in names {
            let offset = self.cursor().offset();
            self.define(name, offset, results[result_index..result_index + count].to_vec())?;
            result_index += count;
        }
        Ok(())
    }

    /// Parses `(%a: type {attributes}, …)`. Returns the attributes of each argument, or an empty list if all
    /// arguments have none.
    fn parse_arguments(&mut self, block: Block) -> Result<Box<[Dictionary]>> {
        self.cursor().expect("(")?;
        let mut attributes: Vec<Dictionary> = Vec::new();
        while !self.cursor().continues_with(")") {
            let offset = self.cursor().offset();
            let name = self.cursor().identifier('%', "a name such as %arg0")?;
            self.cursor().expect(":")?;
            let ty = self.module.tables.parse_type(&mut self.module.cursor)?;
            let value = self.body.add_argument(block, ty);
            self.define(name, offset, vec![value])?;
            let entries = match self.cursor().continues_with("{") {
                true => self.module.tables.parse_dictionary(&mut self.module.cursor, 0)?,
                false => Dictionary::default(),
            };
            attributes.push(entries);
            if !self.cursor().skip_if_next(",") {
                break;
            }
        }
        self.cursor().expect(")")?;
        if attributes.iter().all(|entries| entries.is_empty()) {
            attributes.clear();
        }
        Ok(attributes.into())
    }

    /// Parses `%name` or `%name#1`, and returns the value.
    fn parse_operand(&mut self) -> Result<Value> {
        self.cursor().skip_space();
        let offset = self.cursor().offset();
        let name = self.cursor().identifier('%', "an operand such as %0")?;
        let index = if self.cursor().rest().starts_with('#') {
            self.cursor().expect("#")?;
            self.cursor().integer("the number of a result")? as usize
        } else {
            0
        };
        let Some(values) = self.names.get(name) else {
            return Err(self.cursor().error_at(offset, format!("%{name} is not defined here")));
        };
        let (value, count) = (values.get(index).copied(), values.len());
        value.ok_or_else(|| self.cursor().error_at(offset, format!("%{name} stands for {count} values")))
    }

    fn parse_operands(&mut self) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        while self.cursor().peek() == Some('%') {
            values.push(self.parse_operand()?);
            if !self.cursor().skip_if_next(",") {
                break;
            }
        }
        Ok(values)
    }

    /// Parses `%a, %b:2 =`. Returns the names, each with the number of results that share it.
    fn parse_result_names(&mut self) -> Result<Vec<(&'a str, usize)>> {
        let mut results = Vec::new();
        if self.cursor().peek() != Some('%') {
            return Ok(results);
        }
        loop {
            let name = self.cursor().identifier('%', "a result such as %0")?;
            let count = if self.cursor().skip_if_next(":") { self.cursor().integer("the number of results")? } else { 1 };
            results.push((name, count.clamp(0, 1 << 20) as usize));
            if !self.cursor().skip_if_next(",") {
                break;
            }
        }
        self.cursor().expect("=")?;
        Ok(results)
    }

    /// Parses an op up to its first region. If the op has regions, pushes the op to the stack.
    fn parse_op(&mut self, block: Block, stack: &mut Vec<(OpenOp, Vec<(&'a str, usize)>)>) -> Result<()> {
        let results = self.parse_result_names()?;
        self.cursor().skip_if_next("cuda_tile.");
        self.cursor().skip_space();
        let offset = self.cursor().offset();
        let mnemonic = self.cursor().name("an op")?;
        let opcode = Opcode::ALL.iter().copied().find(|opcode| opcode.info().mnemonic == mnemonic);
        let opcode = opcode.ok_or_else(|| {
            let suggestion = did_you_mean(mnemonic, Opcode::ALL.iter().map(|opcode| opcode.info().mnemonic));
            self.cursor().error_at(offset, format!("unknown op '{mnemonic}'{suggestion}"))
        })?;
        let fields = vec![None; opcode.info().fields.len()];
        let mut partial = PartialOp { opcode, fields, results, result_types: Vec::new(), args: Vec::new(), offset };
        if opcode == Opcode::Constant {
            let (data, ty) = self.module.tables.parse_constant(&mut self.module.cursor)?;
            partial.fields[0] = Some(FieldValue::Constant(data));
            partial.result_types.push(ty);
        } else {
            self.parse_pieces(pieces(opcode), &mut partial)?;
        }
        self.move_padding_from_mask(&mut partial);
        let regions: Vec<Region> = (0..opcode.info().region_count()).map(|_| self.body.new_region()).collect();
        let (kind, result_types) = self.complete_op(&mut partial, &regions)?;
        let op = self.body.append(block, kind, result_types, Loc::UNKNOWN);
        if regions.is_empty() {
            self.body.ops[op].loc = self.module.debug.parse_optional_loc(&mut self.module.cursor)?.unwrap_or(Loc::UNKNOWN);
            return self.define_results(op, &partial.results);
        }
        let outer_names = self.defined_names.len();
        let body_block = self.body.new_block(regions[0]);
        if matches!(opcode, Opcode::Reduce | Opcode::Scan) && !self.parse_arguments(body_block)?.is_empty() {
            return Err(self.cursor().error("only parameters of functions have attributes"));
        }
        for (name, ty) in std::mem::take(&mut partial.args) {
            let value = self.body.add_argument(body_block, ty);
            self.define(name, offset, vec![value])?;
        }
        self.cursor().expect("{")?;
        let open_op = OpenOp { op, regions, region_index: 0, block: body_block, outer_names };
        stack.push((open_op, partial.results));
        Ok(())
    }

    /// Moves an operand from the field `mask` to the field `padding_value` if its type is not that of a mask. Reason: a load with
    /// padding but no mask has the text form of a load with a mask. [`Self::parse_pieces`] therefore stores the padding as the
    /// mask.
    fn move_padding_from_mask(&self, partial: &mut PartialOp<'_>) {
        let info = partial.opcode.info();
        let (Some(mask), Some(padding)) = (info.field("mask"), info.field("padding_value")) else { return };
        let Some(FieldValue::OptionalOperand(Some(value))) = partial.fields[mask] else { return };
        let is_mask = (info.fields[mask].constraint.holds)(&self.module.tables.types[*self.body.ty(value)]);
        if !is_mask && matches!(partial.fields[padding], None | Some(FieldValue::OptionalOperand(None))) {
            partial.fields[padding] = partial.fields[mask].replace(FieldValue::OptionalOperand(None));
        }
    }

    /// Builds an op from its parsed parts. Returns the op and its result types.
    fn complete_op(&mut self, partial: &mut PartialOp<'a>, regions: &[Region]) -> Result<(Op, Vec<TypeId>)> {
        let info = partial.opcode.info();
        let mut regions = regions.iter();
        let mut fields = info.fields.iter().zip(std::mem::take(&mut partial.fields));
        let mut missing_field = None;
        let known_fields: Vec<Option<FieldValue>> = fields
            .by_ref()
            .map(|(field, value)| match (value, field.shape) {
                (Some(value), _) => Some(value),
                (None, FieldShape::Region) => regions.next().map(|region| FieldValue::Region(*region)),
                (None, shape) => omitted_value(partial.opcode, field.name, shape),
            })
            .collect();
        for (field, value) in info.fields.iter().zip(&known_fields) {
            if value.is_none() {
                missing_field = missing_field.or(Some(field.name));
            }
        }
        if let Some(name) = missing_field {
            return Err(self.cursor().error(format!("'{}' needs {name}", info.mnemonic)));
        }
        let types = self.result_types(partial, &known_fields)?;
        let mut values = known_fields.into_iter();
        let op = Op::from_fields(partial.opcode, &mut || values.next().flatten());
        let op =
            op.ok_or_else(|| self.module.cursor.error_at(partial.offset, format!("'{}' has a field out of range", info.mnemonic)))?;
        let name_count: usize = partial.results.iter().map(|(_, count)| count).sum();
        if name_count != types.len() && !(name_count == 0 && types.is_empty()) {
            let (mnemonic, count) = (info.mnemonic, types.len());
            return Err(self
                .cursor()
                .error_at(partial.offset, format!("'{mnemonic}' has {count} results, and {name_count} are named")));
        }
        Ok((op, types))
    }

    /// Returns the result types: those in the text, or types inferred from the operands.
    fn result_types(&mut self, partial: &mut PartialOp<'_>, fields: &[Option<FieldValue>]) -> Result<Vec<TypeId>> {
        let info = partial.opcode.info();
        let mut types = std::mem::take(&mut partial.result_types);
        let name_count: usize = partial.results.iter().map(|(_, count)| count).sum();
        let is_variadic = info.results.first().is_some_and(|result| result.variadic);
        if matches!(partial.opcode, Opcode::GetIndexSpaceShape | Opcode::GetTensorShape) {
            types.resize(name_count, types.first().copied().unwrap_or(TypeId(0)));
            return Ok(types);
        }
        if is_variadic || types.len() >= info.results.len() {
            return Ok(types);
        }
        // Block and grid coordinates have one type for three results.
        if let [ty] = types[..] {
            return Ok(vec![ty; info.results.len()]);
        }
        let same_type_rule =
            info.rules.iter().find(|rule| rule.kind == RuleKind::SameType && rule.names.contains(&info.results[0].name));
        let operand_field =
            same_type_rule.and_then(|rule| info.fields.iter().position(|field| rule.names.contains(&field.wire_name)));
        Ok(match operand_field.and_then(|field| fields[field].as_ref()) {
            Some(FieldValue::Operand(value)) => vec![*self.body.ty(*value)],
            _ => vec![self.module.tables.intern(Type::Token); info.results.len()],
        })
    }
}

/// Parses `@name`, or `@"name"`.
pub(super) fn parse_symbol(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.expect("@")?;
    if cursor.rest().starts_with('"') {
        return cursor.string();
    }
    let rest = cursor.rest();
    let length =
        rest.find(|character: char| !(super::lex::is_word_char(character) || "$.-".contains(character))).unwrap_or(rest.len());
    if length == 0 {
        return Err(cursor.error("expected a name after '@'"));
    }
    cursor.set_offset(cursor.offset() + length);
    Ok(rest[..length].to_string())
}

/// The location of an omitted terminator, until the location of the enclosing op is known.
const IMPLICIT_LOC: Loc = Loc(u32::MAX);

/// The index of the operand field `base` of `make_tensor_view`.
fn index_of_base(info: &crate::ops::OpInfo) -> usize {
    info.field("base").expect("the table has the base of tensor views")
}

/// Returns the value of a field that the text omits, or `None` if the text must have the field.
fn omitted_value(opcode: Opcode, name: &str, shape: FieldShape) -> Option<FieldValue> {
    if let Some(default) = Op::field_default(opcode, name) {
        return Some(default);
    }
    Some(match shape {
        FieldShape::Flag => FieldValue::Flag(false),
        FieldShape::OptionalOperand => FieldValue::OptionalOperand(None),
        FieldShape::Operands => FieldValue::Operands(Box::default()),
        FieldShape::OptionalEnum(_) => FieldValue::OptionalEnum(None),
        FieldShape::OptionalDictionary => FieldValue::OptionalDictionary(None),
        FieldShape::OptionalAttributes => FieldValue::OptionalAttributes(None),
        FieldShape::Bools => FieldValue::Bools(Box::default()),
        // The text form in the op table, such as `(overflow!none?…)`, names the value for which the text omits the field.
        FieldShape::Enum(spellings) => return implied_enum_value(opcode, name).and_then(|value| variant_number(spellings, value)),
        _ => return None,
    })
}
