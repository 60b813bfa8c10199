//! Parses programs in the text form.
//!
//! The parser and the printer follow the same description of an op's text, [`super::format`]. A stack of open blocks replaces
//! recursion. A name expires at the end of the block that defines it.

use super::format::{Piece, Slot, TypeListForm, pieces};
use super::lex::{Cursor, tokens};
use super::parse_debug::DebugParser;
use crate::enums::{PointerSharing, Visibility, WireEnum};
use crate::fields::{FieldShape, FieldValue};
use crate::module::{Constant, Function, Global, Module};
use crate::ops::{Op, Opcode, RuleKind};
use crate::preview::Extern;
use crate::types::{Attribute, ConstantId, DYNAMIC, Dictionary, Element, StringId, Type, TypeId};
use crate::version::Version;
use base::diag::Result;
use base::ir::{self, Block, Operation, Region, Value};
use base::nearest::did_you_mean;
use base::{Arena, Body, DebugInfo, Loc};
use std::collections::HashMap;

/// Parses the output of [`super::print()`], with or without locations. Adds the text's locations to `debug`.
pub fn parse(text: &str, name: &str, first_line: u32, debug: &mut DebugInfo) -> Result<Module> {
    let mut reader =
        ModuleReader { c: Cursor::new(text, name, first_line), tables: Tables::default(), debug: DebugParser::new(text, debug) };
    reader.parse_module()
}

/// The strings, types and constants of a module under construction. Each is stored once.
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
    c: Cursor<'a>,
    tables: Tables,
    debug: DebugParser<'a, 'd>,
}

impl<'a> ModuleReader<'a, '_> {
    fn parse_module(&mut self) -> Result<Module> {
        let (version, preview, producer) = self.parse_header()?;
        let has_module = self.c.skip_if_next("cuda_tile.module") || self.c.skip_if_next("module");
        if has_module {
            self.parse_symbol()?;
            self.c.expect("{")?;
        }
        let (mut globals, mut functions, mut externs) = (Vec::new(), Vec::new(), Vec::new());
        while !(self.c.is_end() || has_module && self.c.continues_with("}")) {
            match self.c.peek() {
                Some('#') => self.skip_definition(),
                _ if self.c.skip_if_next("preview$func") => {
                    self.c.expect("extern")?;
                    externs.push(self.parse_external(false, functions.len())?);
                }
                _ if self.c.skip_if_next("preview$extern_impl") => externs.push(self.parse_external(true, functions.len())?),
                _ => {
                    self.c.skip_if_next("cuda_tile.");
                    match self.c.peek_word() {
                        "global" => globals.push(self.parse_global()?),
                        "entry" => functions.push(self.parse_function()?),
                        _ => return Err(self.c.error("expected 'entry', 'global' or a definition such as #loc = …")),
                    }
                }
            }
        }
        if has_module {
            self.c.expect("}")?;
        }
        let Tables { strings, types, constants, .. } = std::mem::take(&mut self.tables);
        // In text without the header comment, the functions and ops show whether the program has preview content.
        let has_preview_call = |function: &Function| function.body.ops.values().any(|op| matches!(op.kind, Op::PreviewCall { .. }));
        let preview = preview || !externs.is_empty() || functions.iter().any(has_preview_call);
        Ok(Module { version, preview, producer, strings, types, constants, globals, functions, externs })
    }

    /// Parses the comment with properties that the disassembly lacks, see [`super::header`].
    fn parse_header(&mut self) -> Result<(Version, bool, Option<StringId>)> {
        const PREFIX: &str = "//!tileir ";
        let text = self.c.rest();
        let comments = text.split_inclusive('\n').take_while(|line| line.starts_with("//") && !line.starts_with(PREFIX));
        let comment_bytes = comments.map(str::len).sum();
        let Some(line) = text[comment_bytes..].strip_prefix(PREFIX) else { return Ok((Version::LATEST, false, None)) };
        let start = text.len() - line.len();
        self.c.set_offset(self.c.at() + start);
        self.c.expect("version")?;
        let at = self.c.at();
        let (major, minor) = (self.c.integer("a version")?, self.c.expect(".").and_then(|()| self.c.integer("a version"))?);
        let version = Version::new(major as u8, minor as u8);
        let version = version.ok_or_else(|| self.c.error_at(at, format!("there is no bytecode version {major}.{minor}")))?;
        let preview = self.c.skip_if_next("preview");
        let mut producer = None;
        if self.c.skip_if_next("producer") {
            let text = self.c.string()?;
            producer = Some(self.tables.intern_string(&text));
        }
        Ok((version, preview, producer))
    }

    /// Skips a definition. [`DebugParser::new`] has found it, and its first use parses it.
    fn skip_definition(&mut self) {
        let line_length = self.c.rest().find('\n').unwrap_or(self.c.rest().len());
        self.c.set_offset(self.c.at() + line_length);
    }

    fn parse_symbol(&mut self) -> Result<StringId> {
        let name = parse_symbol(&mut self.c)?;
        Ok(self.tables.intern_string(&name))
    }

    /// Parses a function without a body. `implements` is true for an implementation, and false for a declaration. `after` is the
    /// number of entry functions before the function.
    fn parse_external(&mut self, implements: bool, after: usize) -> Result<Extern> {
        let name = self.parse_symbol()?;
        let mut external = self.tables.parse_extern(&mut self.c, name, implements, after as u32)?;
        external.loc = self.debug.parse_optional_loc(&mut self.c)?.unwrap_or(Loc::UNKNOWN);
        Ok(external)
    }

    fn parse_global(&mut self) -> Result<Global> {
        self.c.expect("global")?;
        let visibility = if self.c.skip_if_next("private") { Visibility::Private } else { Visibility::Public };
        self.c.skip_if_next("public");
        let constant = self.c.skip_if_next("constant");
        let name = self.parse_symbol()?;
        let mut alignment = 0;
        if self.c.skip_if_next("alignment") {
            self.c.expect("=")?;
            alignment = self.c.integer("an alignment")? as u64;
        }
        let (value, ty) = self.tables.parse_constant(&mut self.c)?;
        let loc = self.debug.parse_optional_loc(&mut self.c)?.unwrap_or(Loc::UNKNOWN);
        Ok(Global { name, ty, value, alignment, visibility, constant, loc })
    }

    fn parse_function(&mut self) -> Result<Function> {
        self.c.expect("entry")?;
        let name = self.parse_symbol()?;
        let mut body = Body::default();
        let region = body.new_region();
        let block = body.new_block(region);
        let mut reader = BodyReader { module: self, body, names: HashMap::new(), defined_names: Vec::new() };
        let arg_attrs = reader.parse_arguments(block)?;
        let hints = match reader.module.c.skip_if_next("optimization_hints") {
            true => {
                reader.module.c.expect("=")?;
                Some(reader.module.tables.parse_hints(&mut reader.module.c)?)
            }
            false => None,
        };
        reader.parse_body(block)?;
        let body = reader.body;
        let mut visibility = Visibility::Public;
        if self.c.skip_if_next("{") {
            for token in ["sym_visibility", "=", "\"private\"", "}"] {
                self.c.expect(token)?;
            }
            visibility = Visibility::Private;
        }
        let loc = self.debug.parse_optional_loc(&mut self.c)?.unwrap_or(Loc::UNKNOWN);
        let inputs = body.blocks[block].args.iter().map(|arg| *body.ty(*arg)).collect();
        let ty = self.tables.intern(Type::Function { inputs, results: Box::default() });
        Ok(Function { name, ty, visibility, hints, arg_attrs, body, region, loc })
    }
}

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
struct Frame {
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
    at: usize,
}

impl<'a> BodyReader<'_, 'a, '_> {
    /// The cursor of the module.
    fn c(&mut self) -> &mut Cursor<'a> {
        &mut self.module.c
    }

    /// Parses the braced block of an entry, with all nested blocks.
    fn parse_body(&mut self, entry: Block) -> Result<()> {
        self.c().expect("{")?;
        let mut stack: Vec<(Frame, Vec<(&'a str, usize)>)> = Vec::new();
        loop {
            let block = stack.last().map_or(entry, |(frame, _)| frame.block);
            if self.c().skip_if_next("}") {
                let Some((frame, _)) = stack.last_mut() else { return Ok(()) };
                if !self.end_block(frame)? {
                    let (frame, results) = stack.pop().expect("a frame is open");
                    self.body.ops[frame.op].loc = self.module.debug.parse_optional_loc(&mut self.module.c)?.unwrap_or(Loc::UNKNOWN);
                    self.set_implicit_locations(frame.op);
                    self.define_results(frame.op, &results)?;
                }
                continue;
            }
            if self.c().is_end() {
                return Err(self.c().error("expected '}' at the end of a block"));
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

    /// Ends a block. If an `else` region follows, opens it and returns true.
    fn end_block(&mut self, frame: &mut Frame) -> Result<bool> {
        self.append_omitted_terminator(frame);
        self.expire_names(frame.outer_names);
        if matches!(self.body.ops[frame.op].kind, Op::If { .. }) && frame.region_index == 0 && self.c().skip_if_next("else") {
            self.c().expect("{")?;
            frame.region_index = 1;
            frame.block = self.body.new_block(frame.regions[1]);
            return Ok(true);
        }
        Ok(false)
    }

    /// Appends the terminator that the text omits. It has no operands.
    fn append_omitted_terminator(&mut self, frame: &Frame) {
        if self.body.terminator(frame.block).is_some() {
            return;
        }
        let kind = match self.body.ops[frame.op].kind {
            Op::If { .. } => Op::Yield { operands: Box::default() },
            Op::For { .. } | Op::Loop { .. } => Op::Continue { operands: Box::default() },
            _ => return,
        };
        self.body.append(frame.block, kind, [], IMPLICIT_LOC);
    }

    /// Removes all names except the first `keep` names in definition order.
    fn expire_names(&mut self, keep: usize) {
        for name in self.defined_names.drain(keep..) {
            self.names.remove(name);
        }
    }

    /// Defines a name in the current block. `at` is the position of the name, for the error if the name exists.
    fn define(&mut self, name: &'a str, at: usize, values: Vec<Value>) -> Result<()> {
        if self.names.insert(name, values).is_some() {
            return Err(self.c().error_at(at, format!("%{name} is defined twice")));
        }
        self.defined_names.push(name);
        Ok(())
    }

    /// Defines the names of the results of an op.
    fn define_results(&mut self, op: ir::Op, names: &[(&'a str, usize)]) -> Result<()> {
        let results = self.body.ops[op].results.clone();
        let mut at = 0;
        for (name, count) in names {
            let here = self.c().at();
            self.define(name, here, results[at..at + count].to_vec())?;
            at += count;
        }
        Ok(())
    }

    /// Parses `(%a: type {attributes}, …)`. Returns the attributes of each argument, or an empty list if all
    /// arguments have none.
    fn parse_arguments(&mut self, block: Block) -> Result<Box<[Dictionary]>> {
        self.c().expect("(")?;
        let mut attributes: Vec<Dictionary> = Vec::new();
        while !self.c().continues_with(")") {
            let at = self.c().at();
            let name = self.c().identifier('%', "a name such as %arg0")?;
            self.c().expect(":")?;
            let ty = self.module.tables.parse_type(&mut self.module.c)?;
            let value = self.body.add_argument(block, ty);
            self.define(name, at, vec![value])?;
            let entries = match self.c().continues_with("{") {
                true => self.module.tables.parse_dictionary(&mut self.module.c, 0)?,
                false => Dictionary::default(),
            };
            attributes.push(entries);
            if !self.c().skip_if_next(",") {
                break;
            }
        }
        self.c().expect(")")?;
        if attributes.iter().all(|entries| entries.is_empty()) {
            attributes.clear();
        }
        Ok(attributes.into())
    }

    /// Parses `%name` or `%name#1`, and returns the value.
    fn parse_operand(&mut self) -> Result<Value> {
        self.c().skip_space();
        let at = self.c().at();
        let name = self.c().identifier('%', "an operand such as %0")?;
        let index = if self.c().rest().starts_with('#') {
            self.c().expect("#")?;
            self.c().integer("the number of a result")? as usize
        } else {
            0
        };
        let Some(values) = self.names.get(name) else {
            return Err(self.c().error_at(at, format!("%{name} is not defined here")));
        };
        let (value, count) = (values.get(index).copied(), values.len());
        value.ok_or_else(|| self.c().error_at(at, format!("%{name} stands for {count} values")))
    }

    fn parse_operands(&mut self) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        while self.c().peek() == Some('%') {
            values.push(self.parse_operand()?);
            if !self.c().skip_if_next(",") {
                break;
            }
        }
        Ok(values)
    }

    /// Parses `%a, %b:2 =`. Returns the names, each with the number of results that share it.
    fn parse_result_names(&mut self) -> Result<Vec<(&'a str, usize)>> {
        let mut results = Vec::new();
        if self.c().peek() != Some('%') {
            return Ok(results);
        }
        loop {
            let name = self.c().identifier('%', "a result such as %0")?;
            let count = if self.c().skip_if_next(":") { self.c().integer("the number of results")? } else { 1 };
            results.push((name, count.clamp(0, 1 << 20) as usize));
            if !self.c().skip_if_next(",") {
                break;
            }
        }
        self.c().expect("=")?;
        Ok(results)
    }

    /// Parses an op up to its first region. If the op has regions, pushes a frame for them.
    fn parse_op(&mut self, block: Block, stack: &mut Vec<(Frame, Vec<(&'a str, usize)>)>) -> Result<()> {
        let results = self.parse_result_names()?;
        self.c().skip_if_next("cuda_tile.");
        self.c().skip_space();
        let at = self.c().at();
        let mnemonic = self.c().name("an op")?;
        let opcode = Opcode::ALL.iter().copied().find(|opcode| opcode.info().mnemonic == mnemonic);
        let opcode = opcode.ok_or_else(|| {
            let suggestion = did_you_mean(mnemonic, Opcode::ALL.iter().map(|opcode| opcode.info().mnemonic));
            self.c().error_at(at, format!("unknown op '{mnemonic}'{suggestion}"))
        })?;
        let fields = vec![None; opcode.info().fields.len()];
        let mut partial = PartialOp { opcode, fields, results, result_types: Vec::new(), args: Vec::new(), at };
        if opcode == Opcode::Constant {
            let (data, ty) = self.module.tables.parse_constant(&mut self.module.c)?;
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
            self.body.ops[op].loc = self.module.debug.parse_optional_loc(&mut self.module.c)?.unwrap_or(Loc::UNKNOWN);
            return self.define_results(op, &partial.results);
        }
        let outer_names = self.defined_names.len();
        let body_block = self.body.new_block(regions[0]);
        if matches!(opcode, Opcode::Reduce | Opcode::Scan) && !self.parse_arguments(body_block)?.is_empty() {
            return Err(self.c().error("only parameters of functions have attributes"));
        }
        for (name, ty) in std::mem::take(&mut partial.args) {
            let value = self.body.add_argument(body_block, ty);
            self.define(name, at, vec![value])?;
        }
        self.c().expect("{")?;
        let frame = Frame { op, regions, region_index: 0, block: body_block, outer_names };
        stack.push((frame, partial.results));
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
            return Err(self.c().error(format!("'{}' needs {name}", info.mnemonic)));
        }
        let types = self.result_types(partial, &known_fields)?;
        let mut values = known_fields.into_iter();
        let op = Op::from_fields(partial.opcode, &mut || values.next().flatten());
        let op = op.ok_or_else(|| self.module.c.error_at(partial.at, format!("'{}' has a field out of range", info.mnemonic)))?;
        let name_count: usize = partial.results.iter().map(|(_, count)| count).sum();
        if name_count != types.len() && !(name_count == 0 && types.is_empty()) {
            let (mnemonic, count) = (info.mnemonic, types.len());
            return Err(self.c().error_at(partial.at, format!("'{mnemonic}' has {count} results, and {name_count} are named")));
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

    /// Parses an op according to the pieces of its text form, and stores the fields and types in `partial`.
    fn parse_pieces(&mut self, pieces: &[Piece], partial: &mut PartialOp<'a>) -> Result<()> {
        for piece in pieces {
            match piece {
                Piece::Literal(text) => {
                    for token in tokens(text) {
                        self.c().expect(token)?;
                    }
                }
                Piece::Field(field) => {
                    let value = self.parse_field(*field, partial)?;
                    partial.fields[*field] = Some(value);
                }
                Piece::Types(slot, form) => self.parse_types(*slot, *form, partial)?,
                Piece::Group { slot, pieces, .. } => {
                    if self.is_present(*slot, pieces, partial) {
                        if let Slot::Field(field) = slot
                            && partial.opcode.info().fields[*field].shape == FieldShape::Flag
                        {
                            partial.fields[*field] = Some(FieldValue::Flag(true));
                        }
                        self.parse_pieces(pieces, partial)?;
                    }
                }
                // The parser skips spaces.
                Piece::Absent { .. } => {}
                Piece::Attributes(field) => {
                    let variant = self.parse_enum_attribute(*field, partial)?;
                    partial.fields[*field] = Some(FieldValue::Enum(variant));
                }
                Piece::Loop => self.parse_loop_head(partial)?,
                Piece::TensorViewShape => self.parse_tensor_view_shape(partial)?,
                Piece::Call => self.parse_call(partial)?,
            }
        }
        Ok(())
    }

    /// Whether an optional part is present: its field was read before, or the following text matches.
    fn is_present(&mut self, slot: Slot, pieces: &[Piece], partial: &PartialOp<'_>) -> bool {
        if let Slot::Field(field) = slot
            && let Some(value) = &partial.fields[field]
        {
            return match value {
                FieldValue::OptionalOperand(value) => value.is_some(),
                FieldValue::Operands(values) => !values.is_empty(),
                _ => true,
            };
        }
        let first_token_or_field = pieces.iter().find_map(|piece| match piece {
            Piece::Literal(text) => tokens(text).next().map(Ok),
            Piece::Field(field) => Some(Err(*field)),
            _ => None,
        });
        match first_token_or_field {
            Some(Ok(token)) => {
                // A comma begins an operand. A comma before a type belongs to a part whose field is already known.
                self.c().continues_with(token) && (token != "," || self.operand_follows())
            }
            Some(Err(field)) => match partial.opcode.info().fields[field].shape {
                FieldShape::OptionalEnum(spellings) => spellings.contains(&self.c().peek_word()),
                _ => self.c().peek() == Some('%'),
            },
            None => false,
        }
    }

    /// Parses an enumeration in an attribute dictionary, and returns the number of its value. Without a dictionary, the number is
    /// 0.
    fn parse_enum_attribute(&mut self, field: usize, partial: &PartialOp<'_>) -> Result<u8> {
        if !self.c().skip_if_next("attributes") {
            return Ok(0);
        }
        let name = partial.opcode.info().fields[field].wire_name;
        for token in ["{", name, "=", "#cuda_tile.multimem_reduction_kind"] {
            self.c().expect(token)?;
        }
        let kind = super::parse_types::parse_multicast_reduction(self.c())?;
        self.c().expect("}")?;
        Ok(kind.number())
    }

    /// Whether a comma and the word `token` follow.
    fn token_follows(&mut self) -> bool {
        let mut ahead = self.c().clone();
        ahead.skip_if_next(",") && ahead.peek_word() == "token"
    }

    /// Whether a comma and a value name follow.
    fn operand_follows(&mut self) -> bool {
        let mut ahead = self.c().clone();
        ahead.skip_if_next(",") && ahead.peek() == Some('%')
    }

    fn parse_field(&mut self, field: usize, partial: &PartialOp<'_>) -> Result<FieldValue> {
        let info = &partial.opcode.info().fields[field];
        Ok(match info.shape {
            FieldShape::Operand => FieldValue::Operand(self.parse_operand()?),
            FieldShape::OptionalOperand => FieldValue::OptionalOperand(Some(self.parse_operand()?)),
            FieldShape::Operands => FieldValue::Operands(self.parse_operands()?.into()),
            FieldShape::Enum(spellings) | FieldShape::Byte(spellings) => FieldValue::Enum(self.parse_one_of(spellings)?),
            FieldShape::OptionalEnum(spellings) => FieldValue::OptionalEnum(Some(self.parse_one_of(spellings)?)),
            FieldShape::Int32 | FieldShape::Int64 => FieldValue::Int(self.c().integer("a number")?),
            FieldShape::String => {
                let text = self.c().string()?;
                FieldValue::String(self.module.tables.intern_string(&text))
            }
            FieldShape::Symbol => FieldValue::String(self.module.parse_symbol()?),
            FieldShape::Attribute => FieldValue::Attribute(self.module.tables.parse_predicate(&mut self.module.c)?),
            FieldShape::Attributes => FieldValue::Attributes(self.module.tables.parse_attributes(&mut self.module.c)?),
            FieldShape::OptionalDictionary => {
                FieldValue::OptionalDictionary(Some(Box::new(self.module.tables.parse_hints(&mut self.module.c)?)))
            }
            FieldShape::Bools => {
                let values = super::parse_types::parse_list(self.c(), |c| match c.word("true or false")? {
                    "true" => Ok(true),
                    "false" => Ok(false),
                    _ => Err(c.error("expected true or false")),
                })?;
                FieldValue::Bools(values.into())
            }
            FieldShape::Ints => {
                let values = super::parse_types::parse_list(self.c(), |c| c.integer("a number"))?;
                FieldValue::Ints(values.into_iter().map(|value| value as i32).collect())
            }
            FieldShape::Flag | FieldShape::Constant | FieldShape::Region | FieldShape::OptionalAttributes => {
                return Err(self.c().error("an op is written in an unknown way"));
            }
        })
    }

    /// Parses one of the given words, and returns its index.
    fn parse_one_of(&mut self, spellings: &[&str]) -> Result<u8> {
        self.c().skip_space();
        let at = self.c().at();
        let expected = format!("one of: {}", spellings.join(", "));
        let word = self.c().word(&expected)?;
        let variant = spellings.iter().position(|name| *name == word);
        variant.map(|variant| variant as u8).ok_or_else(|| self.c().error_at(at, format!("expected {expected}")))
    }

    /// Parses the types of an operand field or a result. Checks the types of operands, and records the types of results.
    fn parse_types(&mut self, slot: Slot, form: TypeListForm, partial: &mut PartialOp<'_>) -> Result<()> {
        self.c().skip_space();
        let at = self.c().at();
        let Slot::Field(field) = slot else {
            let types = match form {
                TypeListForm::Each if !self.is_variadic(slot, partial) => vec![self.module.tables.parse_type(&mut self.module.c)?],
                TypeListForm::One => vec![self.module.tables.parse_type(&mut self.module.c)?],
                _ => self.module.tables.parse_types(&mut self.module.c)?,
            };
            partial.result_types.extend(types);
            return Ok(());
        };
        let values: Vec<Value> = match &partial.fields[field] {
            Some(FieldValue::Operand(value)) => vec![*value],
            Some(FieldValue::OptionalOperand(value)) => value.iter().copied().collect(),
            Some(FieldValue::Operands(values)) => values.to_vec(),
            _ => Vec::new(),
        };
        let mut written_types = Vec::new();
        for i in 0..values.len() {
            // If one type stands for all indices, the token type after the comma belongs to the next operand.
            if i > 0 && (self.token_follows() || !self.c().skip_if_next(",")) {
                break;
            }
            written_types.push(self.module.tables.parse_type(&mut self.module.c)?);
        }
        if form == TypeListForm::Splat && written_types.len() == 1 {
            written_types.resize(values.len(), written_types[0]);
        }
        let actual_types: Vec<TypeId> = values.iter().map(|value| *self.body.ty(*value)).collect();
        if written_types != actual_types {
            let name = partial.opcode.info().fields[field].name;
            let text =
                |id: &TypeId| super::types::type_text(self.module.tables.type_tables(), *id, super::types::TypeTextForm::Short);
            let actual_types = actual_types.iter().map(text).collect::<Vec<_>>().join(", ");
            return Err(self.c().error_at(at, format!("'{name}' is of type {actual_types}")));
        }
        Ok(())
    }

    /// Whether a result stands for any number of values.
    fn is_variadic(&self, slot: Slot, partial: &PartialOp<'_>) -> bool {
        matches!(slot, Slot::Result(index) if partial.opcode.info().results[index].variadic)
    }

    /// Parses the head of a loop, up to the brace.
    fn parse_loop_head(&mut self, partial: &mut PartialOp<'a>) -> Result<()> {
        let is_for = partial.opcode == Opcode::For;
        let info = partial.opcode.info();
        let index = |name: &str| info.field(name).expect("the table has the fields of loops");
        if is_for {
            let variable = self.c().identifier('%', "a loop variable such as %i")?;
            for (prefix, field) in [("in (", "lower_bound"), ("to", "upper_bound"), (", step", "step")] {
                for token in tokens(prefix) {
                    self.c().expect(token)?;
                }
                partial.fields[index(field)] = Some(FieldValue::Operand(self.parse_operand()?));
            }
            self.c().expect(")")?;
            self.c().expect(":")?;
            let ty = self.module.tables.parse_type(&mut self.module.c)?;
            partial.args.push((variable, ty));
        }
        let (mut names, mut init_values) = (Vec::new(), Vec::new());
        if self.c().skip_if_next("iter_values") {
            self.c().expect("(")?;
            loop {
                names.push(self.c().identifier('%', "a name such as %iter")?);
                self.c().expect("=")?;
                init_values.push(self.parse_operand()?);
                if !self.c().skip_if_next(",") {
                    break;
                }
            }
            self.c().expect(")")?;
        }
        let mut carried_types = Vec::new();
        if is_for && !init_values.is_empty() {
            self.c().expect("->")?;
            self.c().expect("(")?;
            carried_types = self.module.tables.parse_types(&mut self.module.c)?;
            self.c().expect(")")?;
            partial.result_types = carried_types.clone();
        } else if !is_for && self.c().skip_if_next(":") {
            let types = self.module.tables.parse_types(&mut self.module.c)?;
            match init_values.is_empty() {
                true => partial.result_types = types,
                false => {
                    carried_types = types;
                    if self.c().skip_if_next("->") {
                        partial.result_types = self.module.tables.parse_types(&mut self.module.c)?;
                    }
                }
            }
        }
        if carried_types.len() != init_values.len() {
            return Err(self.c().error(format!(
                "the loop carries {} values, and has types for {}",
                init_values.len(),
                carried_types.len()
            )));
        }
        partial.args.extend(names.into_iter().zip(carried_types));
        partial.fields[index("init_values")] = Some(FieldValue::Operands(init_values.into()));
        Ok(())
    }

    /// Parses `@name<[arguments]>(operands) {attributes} : function type`.
    fn parse_call(&mut self, partial: &mut PartialOp<'_>) -> Result<()> {
        let module = &mut *self.module;
        let callee = FieldValue::String(module.parse_symbol()?);
        let const_args = module.tables.parse_const_list(&mut module.c, false)?.into_iter().map(Attribute::Preview);
        let const_args = FieldValue::Attributes(const_args.collect());
        self.c().expect("(")?;
        let operands = self.parse_operands()?;
        self.c().expect(")")?;
        let mut attribute_lists = [None, None];
        if self.c().skip_if_next("{") {
            for (list, name) in attribute_lists.iter_mut().zip(["arg_attrs", "res_attrs"]) {
                self.c().skip_if_next(",");
                if self.c().skip_if_next(name) {
                    self.c().expect("=")?;
                    *list = Some(self.module.tables.parse_attributes(&mut self.module.c)?);
                }
            }
            self.c().expect("}")?;
        }
        self.c().expect(":")?;
        let [arguments, results] = self.parse_function_type()?;
        let operand_types: Vec<TypeId> = operands.iter().map(|value| *self.body.ty(*value)).collect();
        if arguments != operand_types {
            return Err(self.c().error_at(partial.at, "the types of a call's operands are not theirs"));
        }
        partial.result_types = results;
        let [arg_attrs, res_attrs] = attribute_lists.map(FieldValue::OptionalAttributes);
        let fields = [callee, const_args, arg_attrs, res_attrs, FieldValue::Operands(operands.into())];
        partial.fields = fields.into_iter().map(Some).collect();
        Ok(())
    }

    /// Parses `(types) -> types`.
    fn parse_function_type(&mut self) -> Result<[Vec<TypeId>; 2]> {
        let module = &mut *self.module;
        let mut type_lists = [Vec::new(), Vec::new()];
        for (i, types) in type_lists.iter_mut().enumerate() {
            if i == 1 {
                module.c.expect("->")?;
            }
            if !module.c.skip_if_next("(") {
                types.push(module.tables.parse_type(&mut module.c)?);
                continue;
            }
            if !module.c.continues_with(")") {
                *types = module.tables.parse_types(&mut module.c)?;
            }
            module.c.expect(")")?;
        }
        Ok(type_lists)
    }

    /// Parses the shape and the strides of a tensor view; dynamic extents and strides are operands.
    fn parse_tensor_view_shape(&mut self, partial: &mut PartialOp<'_>) -> Result<()> {
        let info = partial.opcode.info();
        let mut dim_lists: Vec<Vec<i64>> = Vec::new();
        let mut first_dynamic = None;
        for (label, field) in [("shape = ", "dynamic_shape"), (", strides = ", "dynamic_strides")] {
            for token in tokens(label) {
                self.c().expect(token)?;
            }
            let (mut dims, mut values) = (Vec::new(), Vec::new());
            self.c().expect("[")?;
            while !self.c().continues_with("]") {
                if self.c().peek() == Some('%') {
                    values.push(self.parse_operand()?);
                    dims.push(DYNAMIC);
                } else {
                    dims.push(self.c().integer("a number or an operand")?);
                }
                if !self.c().skip_if_next(",") {
                    break;
                }
            }
            self.c().expect("]")?;
            first_dynamic = first_dynamic.or(values.first().copied());
            let index = info.field(field).expect("the table has the fields of tensor views");
            partial.fields[index] = Some(FieldValue::Operands(values.into()));
            dim_lists.push(dims);
        }
        self.c().expect(":")?;
        self.c().skip_space();
        let at = self.c().at();
        let Some(FieldValue::Operand(base)) = partial.fields[index_of_base(info)] else {
            return Err(self.c().error("a tensor view has a base"));
        };
        let base_type = *self.body.ty(base);
        let has_attribute =
            |ty: &Type| matches!(ty, Type::Tile { element: Element::Ptr(pointer), .. } if pointer.space != PointerSharing::Absent);
        let base_with_attribute = has_attribute(&self.module.tables.types[base_type]).then_some(base);
        for (i, value) in base_with_attribute.into_iter().chain(first_dynamic).enumerate() {
            if i > 0 {
                self.c().expect(",")?;
            }
            let ty = self.module.tables.parse_type(&mut self.module.c)?;
            if ty != *self.body.ty(value) {
                return Err(self.c().error_at(at, "this is not the type of the base or of the dynamic sizes"));
            }
        }
        if base_with_attribute.or(first_dynamic).is_some() {
            self.c().expect("->")?;
        }
        let at = self.c().at();
        let ty = self.module.tables.parse_type(&mut self.module.c)?;
        let Type::TensorView { shape, strides, .. } = &self.module.tables.types[ty] else {
            return Err(self.module.c.error_at(at, "expected a tensor_view type"));
        };
        if dim_lists[0][..] != shape[..] || dim_lists[1][..] != strides[..] {
            return Err(self.module.c.error_at(at, "shape and strides are not those of the type"));
        }
        partial.result_types.push(ty);
        Ok(())
    }
}

/// Parses `@name`, or `@"name"`.
pub(super) fn parse_symbol(c: &mut Cursor<'_>) -> Result<String> {
    c.expect("@")?;
    if c.rest().starts_with('"') {
        return c.string();
    }
    let rest = c.rest();
    let length = rest.find(|c: char| !(super::lex::is_word_char(c) || "$.-".contains(c))).unwrap_or(rest.len());
    if length == 0 {
        return Err(c.error("expected a name after '@'"));
    }
    c.set_offset(c.at() + length);
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

/// Returns the enumeration value with this spelling.
fn variant_number(spellings: &[&str], value: &str) -> Option<FieldValue> {
    spellings.iter().position(|spelling| *spelling == value).map(|number| FieldValue::Enum(number as u8))
}

/// Returns the enumeration value for which the op's text omits the field.
fn implied_enum_value(opcode: Opcode, field: &str) -> Option<&'static str> {
    let form = opcode.info().format;
    let rest = &form[form.find(&format!("({field}!"))? + field.len() + 2..];
    rest.split_once('?').map(|(value, _)| value)
}
