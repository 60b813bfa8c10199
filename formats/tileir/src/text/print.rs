//! Prints programs in the form of NVIDIA's disassembler.

use super::aliases::Aliases;
use super::attributes::{
    TypeSuffix, write_array, write_attribute, write_constant, write_hints, write_predicate, write_string, write_symbol,
};
use super::format::{FormatPiece, Slot, TypeListForm, pieces};
use super::names::Names;
use super::preview::{write_const_list, write_extern};
use super::types::{TypeTables, TypeTextForm, write_separated, write_type};
use crate::enums::{PointerSharing, Visibility};
use crate::fields::{FieldRef, FieldShape};
use crate::module::{Function, Global, Module};
use crate::ops::{FieldInfo, Op};
use crate::types::{Attribute, DYNAMIC, Dictionary, Type, TypeId};
use base::ir::{self, Block, Operation, Region, Value};
use base::{DebugInfo, Loc};
use std::fmt::Write as _;

/// Returns a program in NVIDIA's disassembly form. With `debug`, ops have locations, and the definitions of the locations follow
/// the program.
pub fn print(module: &Module, debug: Option<&DebugInfo>) -> String {
    print_with(module, debug, Terminators::Elided)
}

/// Returns a program with every op and its location, for files that tools read back.
pub fn print_complete(module: &Module, debug: &DebugInfo) -> String {
    print_with(module, Some(debug), Terminators::Written)
}

/// Whether to print terminators that the parser adds if the text omits them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminators {
    Elided,
    Written,
}

/// Returns the text of a program, with locations if `debug` is given.
fn print_with(module: &Module, debug: Option<&DebugInfo>, terminators: Terminators) -> String {
    let deduplicated_debug = debug.map(DebugInfo::deduplicated);
    let mut aliases = deduplicated_debug.as_ref().map(|(debug, deduplicated_ids)| Aliases::new(debug, deduplicated_ids));
    if let Some(aliases) = &mut aliases {
        visit_locations(module, aliases, terminators);
        // NVIDIA also numbers the location of the module op, although the text omits the op. This unknown location comes last.
        aliases.visit(Loc::UNKNOWN);
        aliases.assign_names();
    }
    let mut out = String::new();
    for global in &module.globals {
        write_global(&mut out, module, global);
        end_line(&mut out, aliases.as_ref(), global.loc);
    }
    for position in 0..=module.functions.len() {
        for external in module.externs.iter().filter(|external| external.after as usize == position) {
            write_extern(&mut out, module, external);
            end_line(&mut out, aliases.as_ref(), external.loc);
        }
        let Some(function) = module.functions.get(position) else { break };
        let names = Names::new(module, &function.body, function.region);
        let out_so_far = std::mem::take(&mut out);
        let mut printer = Printer { module, function, names, aliases: aliases.as_ref(), terminators, out: out_so_far };
        printer.print_function();
        out = printer.out;
    }
    // NVIDIA omits the braces of the module op, but prints the empty line between them.
    if out.is_empty() && terminators == Terminators::Elided {
        out.push('\n');
    }
    if let Some(aliases) = &aliases {
        aliases.write_definitions(&mut out);
    }
    out
}

/// Records the locations of a program in `aliases`, in the order of the text.
fn visit_locations(module: &Module, aliases: &mut Aliases<'_>, terminators: Terminators) {
    for global in &module.globals {
        aliases.visit(global.loc);
    }
    for position in 0..=module.functions.len() {
        for external in module.externs.iter().filter(|external| external.after as usize == position) {
            aliases.visit(external.loc);
        }
        let Some(function) = module.functions.get(position) else { break };
        aliases.visit(function.loc);
        let mut stack: Vec<ir::Op> = Vec::new();
        push_ops(&mut stack, function, function.region, None, terminators);
        while let Some(op) = stack.pop() {
            let node = &function.body.ops[op];
            aliases.visit(node.loc);
            for region in node.kind.regions().into_iter().rev() {
                push_ops(&mut stack, function, region, Some(&node.kind), terminators);
            }
        }
    }
}

/// Pushes the printed ops of a region, the last op first.
fn push_ops(stack: &mut Vec<ir::Op>, function: &Function, region: Region, parent: Option<&Op>, terminators: Terminators) {
    for block in function.body.regions[region].blocks.iter().rev() {
        let ops = &function.body.blocks[*block].ops;
        stack.extend(ops[..printed_op_count(function, *block, parent, terminators)].iter().rev());
    }
}

/// The number of printed ops of a block, without an elided terminator.
fn printed_op_count(function: &Function, block: Block, parent: Option<&Op>, terminators: Terminators) -> usize {
    let ops = &function.body.blocks[block].ops;
    let last = ops.last().map(|op| &function.body.ops[*op].kind);
    let is_implied = match (parent, last) {
        (Some(Op::If { .. }), Some(Op::Yield { operands })) => operands.is_empty(),
        (Some(Op::For { .. } | Op::Loop { .. }), Some(Op::Continue { operands })) => operands.is_empty(),
        _ => false,
    };
    ops.len() - usize::from(is_implied && terminators == Terminators::Elided)
}

fn write_global(out: &mut String, module: &Module, global: &Global) {
    out.push_str("global ");
    if global.visibility == Visibility::Private {
        out.push_str("private ");
    }
    if global.constant {
        out.push_str(" constant");
    }
    out.push(' ');
    write_symbol(out, module.string(global.name));
    if global.alignment != 0 {
        let _ = write!(out, " alignment = {}", global.alignment as i64);
    }
    out.push(' ');
    write_constant(out, module, global.value, global.ty);
    out.push_str(" : ");
    write_type(out, TypeTables::new(module), global.ty, TypeTextForm::Short);
}

/// Writes the location of an op, if locations are printed, and the line end.
fn end_line(out: &mut String, aliases: Option<&Aliases<'_>>, loc: Loc) {
    if let Some(aliases) = aliases {
        aliases.write_use(out, loc);
    }
    out.push('\n');
}

/// The state of printing a function.
struct Printer<'a> {
    module: &'a Module,
    function: &'a Function,
    names: Names,
    aliases: Option<&'a Aliases<'a>>,
    terminators: Terminators,
    out: String,
}

/// A part of a function that is still to be printed. A stack of steps replaces recursion, because the program decides the nesting
/// depth.
enum PrintStep {
    Ops { block: Block, next: usize, end: usize, indent: usize },
    Line { text: &'static str, indent: usize },
    Close { loc: Loc, indent: usize },
}

impl Printer<'_> {
    fn print_function(&mut self) {
        let (module, function) = (self.module, self.function);
        self.out.push_str("entry ");
        write_symbol(&mut self.out, module.string(function.name));
        self.print_arguments(function.region, 0, &function.arg_attrs);
        if let Some(hints) = function.hints.as_ref().filter(|hints| !hints.is_empty()) {
            self.out.push_str(" optimization_hints=");
            write_hints(&mut self.out, module, hints);
        }
        self.out.push_str(" {\n");
        let block = function.body.block_of(function.region);
        let end = printed_op_count(function, block, None, self.terminators);
        let mut steps = vec![PrintStep::Ops { block, next: 0, end, indent: 1 }];
        while let Some(step) = steps.pop() {
            self.print_step(step, &mut steps);
        }
        self.out.push('}');
        if function.visibility == Visibility::Private {
            self.out.push_str(" {sym_visibility = \"private\"}");
        }
        end_line(&mut self.out, self.aliases, function.loc);
    }

    fn print_step(&mut self, step: PrintStep, steps: &mut Vec<PrintStep>) {
        match step {
            PrintStep::Ops { block, next, end, indent } if next < end => {
                steps.push(PrintStep::Ops { block, next: next + 1, end, indent });
                let op = self.function.body.blocks[block].ops[next];
                self.print_op(op, indent, steps);
            }
            PrintStep::Ops { .. } => {}
            PrintStep::Line { text, indent } => {
                self.print_indent(indent);
                self.out.push_str(text);
            }
            PrintStep::Close { loc, indent } => {
                self.print_indent(indent);
                self.out.push('}');
                end_line(&mut self.out, self.aliases, loc);
            }
        }
    }

    fn print_indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n("  ", indent));
    }

    /// Prints the line of an op, and pushes the steps that print its regions.
    fn print_op(&mut self, op: ir::Op, indent: usize, steps: &mut Vec<PrintStep>) {
        let function = self.function;
        let node = &function.body.ops[op];
        self.print_indent(indent);
        if !node.results.is_empty() {
            self.names.write_results(&mut self.out, &node.results);
            self.out.push_str(" = ");
        }
        let opcode = node.kind.opcode();
        self.out.push_str(opcode.info().mnemonic);
        let mut fields = Vec::with_capacity(opcode.info().fields.len());
        node.kind.for_each_field(&mut |field| fields.push(field));
        let view = OpView { op, fields: &fields, infos: opcode.info().fields };
        self.print_pieces(pieces(opcode), &view);
        match &node.kind {
            Op::If { then_region, else_region, .. } => {
                steps.push(PrintStep::Close { loc: node.loc, indent });
                if !function.body.regions[*else_region].blocks.is_empty() {
                    self.push_region(*else_region, &node.kind, indent, steps);
                    steps.push(PrintStep::Line { text: "} else {\n", indent });
                }
                self.push_region(*then_region, &node.kind, indent, steps);
                self.out.push_str(" {\n");
            }
            Op::For { body, .. } | Op::Loop { body, .. } => {
                steps.push(PrintStep::Close { loc: node.loc, indent });
                self.push_region(*body, &node.kind, indent, steps);
                self.out.push_str("{\n");
            }
            Op::Reduce { body, .. } | Op::Scan { body, .. } => {
                steps.push(PrintStep::Close { loc: node.loc, indent });
                self.push_region(*body, &node.kind, indent, steps);
                self.out.push_str(" \n");
                self.print_arguments(*body, indent, &[]);
                self.out.push_str(" {\n");
            }
            _ => end_line(&mut self.out, self.aliases, node.loc),
        }
    }

    /// Pushes the steps that print the blocks of a region.
    fn push_region(&self, region: Region, parent: &Op, indent: usize, steps: &mut Vec<PrintStep>) {
        for block in self.function.body.regions[region].blocks.iter().rev() {
            let end = printed_op_count(self.function, *block, Some(parent), self.terminators);
            steps.push(PrintStep::Ops { block: *block, next: 0, end, indent: indent + 1 });
        }
    }

    /// Prints `(%arg0: type {attributes}, …)` for the block of a region.
    fn print_arguments(&mut self, region: Region, indent: usize, attributes: &[Dictionary]) {
        self.print_indent(indent);
        self.out.push('(');
        let args = &self.function.body.blocks[self.function.body.block_of(region)].args;
        for (i, arg) in args.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.print_value(*arg);
            self.out.push_str(": ");
            self.print_type(*self.function.body.ty(*arg));
            if let Some(entries) = attributes.get(i).filter(|entries| !entries.is_empty()) {
                self.out.push(' ');
                write_attribute(&mut self.out, self.module, &Attribute::Dictionary(entries.clone()), TypeSuffix::Never);
            }
        }
        self.out.push(')');
    }

    fn print_value(&mut self, value: Value) {
        self.names.write(&mut self.out, &self.function.body, value);
    }

    fn print_values(&mut self, values: &[Value]) {
        for (i, value) in values.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.print_value(*value);
        }
    }

    /// Prints a type in the short form.
    fn print_type(&mut self, ty: TypeId) {
        write_type(&mut self.out, TypeTables::new(self.module), ty, TypeTextForm::Short);
    }

    /// Prints an op according to the pieces of its text form.
    fn print_pieces(&mut self, pieces: &[FormatPiece], view: &OpView<'_>) {
        for piece in pieces {
            match piece {
                FormatPiece::Literal(text) => self.out.push_str(text),
                FormatPiece::Field(field) => self.print_field(view.fields[*field], &view.infos[*field], view),
                FormatPiece::Types(slot, form) => self.print_types(*slot, *form, view),
                FormatPiece::Group { slot, unless, pieces } => {
                    if self.is_present(*slot, *unless, view) {
                        self.print_pieces(pieces, view);
                    }
                }
                FormatPiece::Absent { slot, spaces } => {
                    if !self.is_present(*slot, None, view) {
                        self.out.push_str(spaces);
                    }
                }
                FormatPiece::Attributes(field) => self.print_enum_attribute(view.fields[*field], &view.infos[*field]),
                FormatPiece::Loop => self.print_loop_head(view),
                FormatPiece::TensorViewShape => self.print_tensor_view_shape(view),
                FormatPiece::Call => self.print_call(view),
            }
        }
    }

    /// Whether the text has a group: its field or result is present, and the enumeration does not have the number `unless`.
    fn is_present(&self, slot: Slot, unless: Option<u8>, view: &OpView<'_>) -> bool {
        let Slot::Field(field) = slot else { return !self.slot_values(slot, view).is_empty() };
        match view.fields[field] {
            FieldRef::OptionalOperand(value) => value.is_some(),
            FieldRef::Operands(values) => !values.is_empty(),
            FieldRef::Flag(flag) => flag,
            FieldRef::OptionalEnum(number) => number.is_some(),
            FieldRef::OptionalDictionary(entries) => entries.is_some(),
            FieldRef::OptionalAttributes(elements) => elements.is_some(),
            FieldRef::Bools(values) => !values.is_empty(),
            FieldRef::Enum(number) => Some(number) != unless,
            _ => true,
        }
    }

    /// The values of an operand field or of a result. A field that is no operand has none.
    fn slot_values(&self, slot: Slot, view: &OpView<'_>) -> Vec<Value> {
        match slot {
            Slot::Result(index) => {
                let info = self.function.body.ops[view.op].kind.opcode().info();
                let results = &self.function.body.ops[view.op].results;
                match info.results[index].variadic {
                    true => results[index..].to_vec(),
                    false => results.get(index).copied().into_iter().collect(),
                }
            }
            Slot::Field(field) => match view.fields[field] {
                FieldRef::Operand(value) => vec![value],
                FieldRef::OptionalOperand(value) => value.into_iter().collect(),
                FieldRef::Operands(values) => values.to_vec(),
                _ => Vec::new(),
            },
        }
    }

    /// Prints the types of the values of a field or result.
    fn print_types(&mut self, slot: Slot, form: TypeListForm, view: &OpView<'_>) {
        let mut types: Vec<TypeId> = self.slot_values(slot, view).iter().map(|value| *self.function.body.ty(*value)).collect();
        match form {
            TypeListForm::Each => {}
            TypeListForm::One => types.truncate(1),
            TypeListForm::Splat if types.windows(2).all(|pair| pair[0] == pair[1]) => types.truncate(1),
            TypeListForm::Splat => {}
        }
        let module = self.module;
        write_separated(&mut self.out, &types, ", ", |out, ty| write_type(out, TypeTables::new(module), *ty, TypeTextForm::Short));
    }

    fn print_field(&mut self, field: FieldRef<'_>, info: &FieldInfo, view: &OpView<'_>) {
        let (out, module) = (&mut self.out, self.module);
        match field {
            FieldRef::Operand(value) | FieldRef::OptionalOperand(Some(value)) => self.print_value(value),
            FieldRef::Operands(values) => self.print_values(values),
            FieldRef::Flag(flag) => out.push_str(if flag { "true" } else { "false" }),
            FieldRef::Enum(number) | FieldRef::OptionalEnum(Some(number)) => {
                if let FieldShape::Enum(spellings) | FieldShape::OptionalEnum(spellings) | FieldShape::Byte(spellings) = info.shape
                {
                    out.push_str(spellings[number as usize]);
                }
            }
            FieldRef::Int(value) => write!(out, "{value}").expect("strings take all text"),
            FieldRef::String(text) if info.shape == FieldShape::Symbol => write_symbol(out, module.string(text)),
            FieldRef::String(text) => write_string(out, module.string(text)),
            FieldRef::Constant(data) => {
                let ty = *self.function.body.ty(self.function.body.result(view.op));
                write_constant(&mut self.out, module, data, ty);
            }
            FieldRef::Attribute(predicate) => write_predicate(out, predicate),
            FieldRef::Attributes(elements) => write_array(out, module, elements),
            FieldRef::OptionalDictionary(Some(hints)) => write_hints(out, module, hints),
            FieldRef::Bools(values) => write_list(out, values),
            FieldRef::Ints(values) => write_list(out, values),
            FieldRef::OptionalOperand(None)
            | FieldRef::OptionalEnum(None)
            | FieldRef::OptionalDictionary(None)
            | FieldRef::OptionalAttributes(_)
            | FieldRef::Region(_) => {}
        }
    }

    /// Prints an enumeration as an attribute dictionary, unless its value is the first of the enumeration.
    fn print_enum_attribute(&mut self, field: FieldRef<'_>, info: &FieldInfo) {
        if let (FieldRef::Enum(number @ 1..), FieldShape::Enum(spellings)) = (field, info.shape) {
            let (name, value) = (info.wire_name, spellings[number as usize]);
            let _ = write!(self.out, " attributes {{{name} = #cuda_tile.multimem_reduction_kind<{value}>}}");
        }
    }

    /// Prints the head of a loop, up to the brace.
    fn print_loop_head(&mut self, view: &OpView<'_>) {
        let function = self.function;
        let body = &function.body;
        let (init, args): (&[Value], _) = match &body.ops[view.op].kind {
            Op::For { lower_bound, upper_bound, step, init_values, body: region, .. } => {
                let args = &body.blocks[body.block_of(*region)].args;
                self.out.push(' ');
                self.print_value(args[0]);
                self.out.push_str(" in (");
                self.print_value(*lower_bound);
                self.out.push_str(" to ");
                self.print_value(*upper_bound);
                self.out.push_str(", step ");
                self.print_value(*step);
                self.out.push_str(") : ");
                self.print_type(*body.ty(args[0]));
                self.out.push(' ');
                (init_values, &args[1..])
            }
            Op::Loop { init_values, body: region } => (init_values, &body.blocks[body.block_of(*region)].args[..]),
            _ => return,
        };
        let results = &body.ops[view.op].results;
        if !init.is_empty() {
            self.out.push_str("iter_values(");
            for (i, (arg, init)) in args.iter().zip(init).enumerate() {
                self.out.push_str(if i > 0 { ", " } else { "" });
                self.print_value(*arg);
                self.out.push_str(" = ");
                self.print_value(*init);
            }
            self.out.push_str(") ");
        }
        let is_for = matches!(body.ops[view.op].kind, Op::For { .. });
        let (opening, separator, closing) = if is_for { ("-> (", "", ") ") } else { (": ", "-> ", " ") };
        let value_lists: &[&[Value]] = if is_for { &[init] } else { &[init, results] };
        let value_lists: Vec<&[Value]> = value_lists.iter().copied().filter(|values| !values.is_empty()).collect();
        for (i, values) in value_lists.iter().enumerate() {
            self.out.push_str(if i == 0 { opening } else { separator });
            let types: Vec<TypeId> = values.iter().map(|value| *body.ty(*value)).collect();
            let module = self.module;
            write_separated(&mut self.out, &types, ", ", |out, ty| {
                write_type(out, TypeTables::new(module), *ty, TypeTextForm::Short)
            });
            self.out.push_str(closing);
        }
    }

    /// Prints `@name<[arguments]>(operands) {attributes} : function type`.
    fn print_call(&mut self, view: &OpView<'_>) {
        let (module, function) = (self.module, self.function);
        let node = &function.body.ops[view.op];
        let Op::PreviewCall { callee, const_args, arg_attrs, res_attrs, operands } = &node.kind else { return };
        write_symbol(&mut self.out, module.string(callee.0));
        let arguments = const_args.iter().filter_map(|argument| match argument {
            Attribute::Preview(preview) => Some(preview.clone()),
            _ => None,
        });
        write_const_list(&mut self.out, TypeTables::new(module), &arguments.collect::<Vec<_>>());
        self.out.push('(');
        self.print_values(operands);
        self.out.push(')');
        let attribute_lists = [("arg_attrs", arg_attrs), ("res_attrs", res_attrs)];
        let attribute_lists: Vec<_> = attribute_lists.iter().filter_map(|(name, list)| Some((name, list.as_deref()?))).collect();
        if !attribute_lists.is_empty() {
            self.out.push_str(" {");
            write_separated(&mut self.out, &attribute_lists, ", ", |out, (name, list)| {
                let _ = write!(out, "{name} = ");
                write_array(out, module, list);
            });
            self.out.push('}');
        }
        self.out.push_str(" : (");
        let type_ids = |values: &[Value]| values.iter().map(|value| *function.body.ty(*value)).collect::<Vec<TypeId>>();
        let write_full_type = |out: &mut String, ty: &TypeId| write_type(out, TypeTables::new(module), *ty, TypeTextForm::Full);
        write_separated(&mut self.out, &type_ids(operands), ", ", write_full_type);
        let results = type_ids(&node.results);
        let (open, close) = if results.len() == 1 { (") -> ", "") } else { (") -> (", ")") };
        self.out.push_str(open);
        write_separated(&mut self.out, &results, ", ", write_full_type);
        self.out.push_str(close);
    }

    /// Prints the shape and the strides of a tensor view. Static extents and strides are numbers, dynamic ones are operands.
    fn print_tensor_view_shape(&mut self, view: &OpView<'_>) {
        let function = self.function;
        let Op::MakeTensorView { base, dynamic_shape, dynamic_strides } = &function.body.ops[view.op].kind else { return };
        let ty = *function.body.ty(function.body.result(view.op));
        let module = self.module;
        let Type::TensorView { shape, strides, space, .. } = module.ty(ty) else { return };
        for (label, values, dynamic_operands) in [("shape = [", shape, dynamic_shape), ("], strides = [", strides, dynamic_strides)]
        {
            self.out.push_str(label);
            let mut dynamic_operands = dynamic_operands.iter();
            for (i, value) in values.iter().enumerate() {
                self.out.push_str(if i > 0 { ", " } else { "" });
                match dynamic_operands.as_slice().first().filter(|_| *value == DYNAMIC) {
                    Some(operand) => {
                        self.print_value(*operand);
                        dynamic_operands.next();
                    }
                    None => write!(self.out, "{value}").expect("strings take all text"),
                }
            }
        }
        self.out.push_str("] : ");
        let base_with_attribute = (*space != PointerSharing::Absent).then_some(base);
        let first_dynamic = dynamic_shape.iter().chain(dynamic_strides.iter()).next();
        for (i, value) in base_with_attribute.into_iter().chain(first_dynamic).enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.print_type(*function.body.ty(*value));
        }
        if base_with_attribute.or(first_dynamic).is_some() {
            self.out.push_str(" -> ");
        }
        self.print_type(ty);
    }
}

/// An op, the values of its fields, and the fields' rows in the op table.
struct OpView<'a> {
    op: ir::Op,
    fields: &'a [FieldRef<'a>],
    infos: &'static [FieldInfo],
}

/// Writes `[a, b]`.
fn write_list<T: std::fmt::Display>(out: &mut String, values: &[T]) {
    out.push('[');
    write_separated(out, values, ", ", |out, value| write!(out, "{value}").expect("strings take all text"));
    out.push(']');
}
