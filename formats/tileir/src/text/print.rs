//! Prints programs.

use super::aliases::Aliases;
use super::attributes::{
    Typed, write_array, write_attribute, write_constant, write_hints, write_predicate, write_string, write_symbol,
};
use super::format::{Piece, Slot, Types, pieces};
use super::names::Names;
use super::preview::{write_bracketed, write_extern};
use super::types::{Tables, TypeText, separated, write_type};
use crate::enums::Visibility;
use crate::fields::{FieldRef, FieldShape};
use crate::module::{Function, Global, Module};
use crate::ops::{FieldInfo, Op};
use crate::types::{Attribute, DYNAMIC, Dictionary, PointerSpace, Type, TypeId};
use base::ir::{self, Block, Operation, Region, Value};
use base::{DebugInfo, Loc};
use std::fmt::Write as _;

/// The program in NVIDIA's disassembly form. With `debug`, ops have locations and the definitions follow the program.
pub fn print(module: &Module, debug: Option<&DebugInfo>) -> String {
    print_with(module, debug, Terminators::Elided)
}

/// The program with every op and its location, for files that are read back.
pub fn print_complete(module: &Module, debug: &DebugInfo) -> String {
    print_with(module, Some(debug), Terminators::Written)
}

/// Whether to print terminators that the parser adds by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminators {
    Elided,
    Written,
}

fn print_with(module: &Module, debug: Option<&DebugInfo>, terminators: Terminators) -> String {
    let deduplicated = debug.map(DebugInfo::deduplicated);
    let mut aliases = deduplicated.as_ref().map(|(debug, deduplicated_ids)| Aliases::new(debug, deduplicated_ids));
    if let Some(aliases) = &mut aliases {
        visit_locations(module, aliases, terminators);
        // NVIDIA's module op, which is not printed, has an unknown location; it comes last.
        aliases.visit(Loc::UNKNOWN);
        aliases.assign();
    }
    let mut out = String::new();
    for global in &module.globals {
        write_global(&mut out, module, global);
        end_line(&mut out, aliases.as_ref(), global.loc);
    }
    for at in 0..=module.functions.len() {
        for external in module.externs.iter().filter(|external| external.after as usize == at) {
            write_extern(&mut out, module, external);
            end_line(&mut out, aliases.as_ref(), external.loc);
        }
        let Some(function) = module.functions.get(at) else { break };
        let names = Names::new(module, &function.body, function.region);
        let out_so_far = std::mem::take(&mut out);
        let mut printer = Printer { module, function, names, aliases: aliases.as_ref(), terminators, out: out_so_far };
        printer.function();
        out = printer.out;
    }
    // NVIDIA omits the module op, but at least one line between its braces remains.
    if out.is_empty() && terminators == Terminators::Elided {
        out.push('\n');
    }
    if let Some(aliases) = &aliases {
        aliases.write_definitions(&mut out);
    }
    out
}

fn visit_locations(module: &Module, aliases: &mut Aliases<'_>, terminators: Terminators) {
    for global in &module.globals {
        aliases.visit(global.loc);
    }
    for at in 0..=module.functions.len() {
        for external in module.externs.iter().filter(|external| external.after as usize == at) {
            aliases.visit(external.loc);
        }
        let Some(function) = module.functions.get(at) else { break };
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

fn push_ops(stack: &mut Vec<ir::Op>, function: &Function, region: Region, parent: Option<&Op>, terminators: Terminators) {
    for block in function.body.regions[region].blocks.iter().rev() {
        let ops = &function.body.blocks[*block].ops;
        stack.extend(ops[..printed_ops(function, *block, parent, terminators)].iter().rev());
    }
}

/// The number of printed ops of a block, without an elided terminator.
fn printed_ops(function: &Function, block: Block, parent: Option<&Op>, terminators: Terminators) -> usize {
    let ops = &function.body.blocks[block].ops;
    let last = ops.last().map(|op| &function.body.ops[*op].kind);
    let implicit = match (parent, last) {
        (Some(Op::If { .. }), Some(Op::Yield { operands })) => operands.is_empty(),
        (Some(Op::For { .. } | Op::Loop { .. }), Some(Op::Continue { operands })) => operands.is_empty(),
        _ => false,
    };
    ops.len() - usize::from(implicit && terminators == Terminators::Elided)
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
    write_type(out, Tables::of(module), global.ty, TypeText::Short);
}

fn end_line(out: &mut String, aliases: Option<&Aliases<'_>>, loc: Loc) {
    if let Some(aliases) = aliases {
        aliases.write_use(out, loc);
    }
    out.push('\n');
}

struct Printer<'a> {
    module: &'a Module,
    function: &'a Function,
    names: Names,
    aliases: Option<&'a Aliases<'a>>,
    terminators: Terminators,
    out: String,
}

/// Pending output. The program decides the nesting depth, so an explicit stack holds it.
enum Step {
    Ops { block: Block, next: usize, end: usize, indent: usize },
    Line { text: &'static str, indent: usize },
    Close { loc: Loc, indent: usize },
}

impl Printer<'_> {
    fn function(&mut self) {
        let (module, function) = (self.module, self.function);
        self.out.push_str("entry ");
        write_symbol(&mut self.out, module.string(function.name));
        self.arguments(function.region, 0, &function.arg_attrs);
        if let Some(hints) = function.hints.as_ref().filter(|hints| !hints.is_empty()) {
            self.out.push_str(" optimization_hints=");
            write_hints(&mut self.out, module, hints);
        }
        self.out.push_str(" {\n");
        let block = function.body.block_of(function.region);
        let end = printed_ops(function, block, None, self.terminators);
        let mut steps = vec![Step::Ops { block, next: 0, end, indent: 1 }];
        while let Some(step) = steps.pop() {
            self.step(step, &mut steps);
        }
        self.out.push('}');
        if function.visibility == Visibility::Private {
            self.out.push_str(" {sym_visibility = \"private\"}");
        }
        end_line(&mut self.out, self.aliases, function.loc);
    }

    fn step(&mut self, step: Step, steps: &mut Vec<Step>) {
        match step {
            Step::Ops { block, next, end, indent } if next < end => {
                steps.push(Step::Ops { block, next: next + 1, end, indent });
                let op = self.function.body.blocks[block].ops[next];
                self.op(op, indent, steps);
            }
            Step::Ops { .. } => {}
            Step::Line { text, indent } => {
                self.indent(indent);
                self.out.push_str(text);
            }
            Step::Close { loc, indent } => {
                self.indent(indent);
                self.out.push('}');
                end_line(&mut self.out, self.aliases, loc);
            }
        }
    }

    fn indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n("  ", indent));
    }

    fn op(&mut self, op: ir::Op, indent: usize, steps: &mut Vec<Step>) {
        let function = self.function;
        let node = &function.body.ops[op];
        self.indent(indent);
        if !node.results.is_empty() {
            self.names.write_results(&mut self.out, &node.results);
            self.out.push_str(" = ");
        }
        let opcode = node.kind.opcode();
        self.out.push_str(opcode.info().mnemonic);
        let mut fields = Vec::with_capacity(opcode.info().fields.len());
        node.kind.for_each_field(&mut |field| fields.push(field));
        let view = OpView { op, fields: &fields, infos: opcode.info().fields };
        self.pieces(pieces(opcode), &view);
        match &node.kind {
            Op::If { then_region, else_region, .. } => {
                steps.push(Step::Close { loc: node.loc, indent });
                if !function.body.regions[*else_region].blocks.is_empty() {
                    self.region(*else_region, &node.kind, indent, steps);
                    steps.push(Step::Line { text: "} else {\n", indent });
                }
                self.region(*then_region, &node.kind, indent, steps);
                self.out.push_str(" {\n");
            }
            Op::For { body, .. } | Op::Loop { body, .. } => {
                steps.push(Step::Close { loc: node.loc, indent });
                self.region(*body, &node.kind, indent, steps);
                self.out.push_str("{\n");
            }
            Op::Reduce { body, .. } | Op::Scan { body, .. } => {
                steps.push(Step::Close { loc: node.loc, indent });
                self.region(*body, &node.kind, indent, steps);
                self.out.push_str(" \n");
                self.arguments(*body, indent, &[]);
                self.out.push_str(" {\n");
            }
            _ => end_line(&mut self.out, self.aliases, node.loc),
        }
    }

    fn region(&self, region: Region, parent: &Op, indent: usize, steps: &mut Vec<Step>) {
        for block in self.function.body.regions[region].blocks.iter().rev() {
            let end = printed_ops(self.function, *block, Some(parent), self.terminators);
            steps.push(Step::Ops { block: *block, next: 0, end, indent: indent + 1 });
        }
    }

    /// `(%arg0: type {attributes}, …)` for the block of a region.
    fn arguments(&mut self, region: Region, indent: usize, attributes: &[Dictionary]) {
        self.indent(indent);
        self.out.push('(');
        let args = &self.function.body.blocks[self.function.body.block_of(region)].args;
        for (i, arg) in args.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.value(*arg);
            self.out.push_str(": ");
            self.ty(*self.function.body.ty(*arg));
            if let Some(entries) = attributes.get(i).filter(|entries| !entries.is_empty()) {
                self.out.push(' ');
                write_attribute(&mut self.out, self.module, &Attribute::Dictionary(entries.clone()), Typed::Never);
            }
        }
        self.out.push(')');
    }

    fn value(&mut self, value: Value) {
        self.names.write(&mut self.out, &self.function.body, value);
    }

    fn values(&mut self, values: &[Value]) {
        for (i, value) in values.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.value(*value);
        }
    }

    fn ty(&mut self, ty: TypeId) {
        write_type(&mut self.out, Tables::of(self.module), ty, TypeText::Short);
    }

    fn pieces(&mut self, pieces: &[Piece], view: &OpView<'_>) {
        for piece in pieces {
            match piece {
                Piece::Literal(text) => self.out.push_str(text),
                Piece::Field(field) => self.field(view.fields[*field], &view.infos[*field], view),
                Piece::Types(slot, how) => self.types(*slot, *how, view),
                Piece::Group { slot, unless, pieces } => {
                    if self.is_present(*slot, *unless, view) {
                        self.pieces(pieces, view);
                    }
                }
                Piece::Absent { slot, spaces } => {
                    if !self.is_present(*slot, None, view) {
                        self.out.push_str(spaces);
                    }
                }
                Piece::Attributes(field) => self.attributes(view.fields[*field], &view.infos[*field]),
                Piece::Loop => self.loop_head(view),
                Piece::TensorViewShape => self.tensor_view_shape(view),
                Piece::Call => self.call(view),
            }
        }
    }

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

    fn types(&mut self, slot: Slot, how: Types, view: &OpView<'_>) {
        let mut types: Vec<TypeId> = self.slot_values(slot, view).iter().map(|value| *self.function.body.ty(*value)).collect();
        match how {
            Types::Each => {}
            Types::One => types.truncate(1),
            Types::Splat if types.windows(2).all(|pair| pair[0] == pair[1]) => types.truncate(1),
            Types::Splat => {}
        }
        let module = self.module;
        separated(&mut self.out, &types, ", ", |out, ty| write_type(out, Tables::of(module), *ty, TypeText::Short));
    }

    fn field(&mut self, field: FieldRef<'_>, info: &FieldInfo, view: &OpView<'_>) {
        let (out, module) = (&mut self.out, self.module);
        match field {
            FieldRef::Operand(value) | FieldRef::OptionalOperand(Some(value)) => self.value(value),
            FieldRef::Operands(values) => self.values(values),
            FieldRef::Flag(flag) => out.push_str(if flag { "true" } else { "false" }),
            FieldRef::Enum(number) | FieldRef::OptionalEnum(Some(number)) => {
                if let FieldShape::Enum(names) | FieldShape::OptionalEnum(names) | FieldShape::Byte(names) = info.shape {
                    out.push_str(names[number as usize]);
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
            FieldRef::Bools(values) => bracketed(out, values),
            FieldRef::Ints(values) => bracketed(out, values),
            FieldRef::OptionalOperand(None)
            | FieldRef::OptionalEnum(None)
            | FieldRef::OptionalDictionary(None)
            | FieldRef::OptionalAttributes(_)
            | FieldRef::Region(_) => {}
        }
    }

    /// An enumeration in an attribute dictionary, unless it has its first value.
    fn attributes(&mut self, field: FieldRef<'_>, info: &FieldInfo) {
        if let (FieldRef::Enum(number @ 1..), FieldShape::Enum(names)) = (field, info.shape) {
            let (name, value) = (info.wire_name, names[number as usize]);
            let _ = write!(self.out, " attributes {{{name} = #cuda_tile.multimem_reduction_kind<{value}>}}");
        }
    }

    /// The head of a loop, up to the brace.
    fn loop_head(&mut self, view: &OpView<'_>) {
        let function = self.function;
        let body = &function.body;
        let (init, args): (&[Value], _) = match &body.ops[view.op].kind {
            Op::For { lower_bound, upper_bound, step, init_values, body: region, .. } => {
                let args = &body.blocks[body.block_of(*region)].args;
                self.out.push(' ');
                self.value(args[0]);
                self.out.push_str(" in (");
                self.value(*lower_bound);
                self.out.push_str(" to ");
                self.value(*upper_bound);
                self.out.push_str(", step ");
                self.value(*step);
                self.out.push_str(") : ");
                self.ty(*body.ty(args[0]));
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
                self.value(*arg);
                self.out.push_str(" = ");
                self.value(*init);
            }
            self.out.push_str(") ");
        }
        let counted = matches!(body.ops[view.op].kind, Op::For { .. });
        let (before, between, after) = if counted { ("-> (", "", ") ") } else { (": ", "-> ", " ") };
        let groups: &[&[Value]] = if counted { &[init] } else { &[init, results] };
        let groups: Vec<&[Value]> = groups.iter().copied().filter(|values| !values.is_empty()).collect();
        for (i, values) in groups.iter().enumerate() {
            self.out.push_str(if i == 0 { before } else { between });
            let types: Vec<TypeId> = values.iter().map(|value| *body.ty(*value)).collect();
            let module = self.module;
            separated(&mut self.out, &types, ", ", |out, ty| write_type(out, Tables::of(module), *ty, TypeText::Short));
            self.out.push_str(after);
        }
    }

    /// `@name<[arguments]>(operands) {attributes} : function type`.
    fn call(&mut self, view: &OpView<'_>) {
        let (module, function) = (self.module, self.function);
        let node = &function.body.ops[view.op];
        let Op::PreviewCall { callee, const_args, arg_attrs, res_attrs, operands } = &node.kind else { return };
        write_symbol(&mut self.out, module.string(callee.0));
        let arguments = const_args.iter().filter_map(|argument| match argument {
            Attribute::Preview(preview) => Some(preview.clone()),
            _ => None,
        });
        write_bracketed(&mut self.out, Tables::of(module), &arguments.collect::<Vec<_>>());
        self.out.push('(');
        self.values(operands);
        self.out.push(')');
        let lists = [("arg_attrs", arg_attrs), ("res_attrs", res_attrs)];
        let lists: Vec<_> = lists.iter().filter_map(|(name, list)| Some((name, list.as_deref()?))).collect();
        if !lists.is_empty() {
            self.out.push_str(" {");
            separated(&mut self.out, &lists, ", ", |out, (name, list)| {
                let _ = write!(out, "{name} = ");
                write_array(out, module, list);
            });
            self.out.push('}');
        }
        self.out.push_str(" : (");
        let ids = |values: &[Value]| values.iter().map(|value| *function.body.ty(*value)).collect::<Vec<TypeId>>();
        let full = |out: &mut String, ty: &TypeId| write_type(out, Tables::of(module), *ty, TypeText::Full);
        separated(&mut self.out, &ids(operands), ", ", full);
        let results = ids(&node.results);
        let (open, close) = if results.len() == 1 { (") -> ", "") } else { (") -> (", ")") };
        self.out.push_str(open);
        separated(&mut self.out, &results, ", ", full);
        self.out.push_str(close);
    }

    /// Shape and strides of a tensor view; static dimensions are numbers, dynamic ones operands.
    fn tensor_view_shape(&mut self, view: &OpView<'_>) {
        let function = self.function;
        let Op::MakeTensorView { base, dynamic_shape, dynamic_strides } = &function.body.ops[view.op].kind else { return };
        let ty = *function.body.ty(function.body.result(view.op));
        let module = self.module;
        let Type::TensorView { shape, strides, space, .. } = module.ty(ty) else { return };
        for (label, values, dynamic) in [("shape = [", shape, dynamic_shape), ("], strides = [", strides, dynamic_strides)] {
            self.out.push_str(label);
            let mut dynamic = dynamic.iter();
            for (i, value) in values.iter().enumerate() {
                self.out.push_str(if i > 0 { ", " } else { "" });
                match dynamic.as_slice().first().filter(|_| *value == DYNAMIC) {
                    Some(operand) => {
                        self.value(*operand);
                        dynamic.next();
                    }
                    None => write!(self.out, "{value}").expect("strings take all text"),
                }
            }
        }
        self.out.push_str("] : ");
        let pointer = (*space != PointerSpace::Absent).then_some(base);
        let sizes = dynamic_shape.iter().chain(dynamic_strides.iter()).next();
        for (i, value) in pointer.into_iter().chain(sizes).enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.ty(*function.body.ty(*value));
        }
        if pointer.or(sizes).is_some() {
            self.out.push_str(" -> ");
        }
        self.ty(ty);
    }
}

/// An op with its fields extracted.
struct OpView<'a> {
    op: ir::Op,
    fields: &'a [FieldRef<'a>],
    infos: &'static [FieldInfo],
}

fn bracketed<T: std::fmt::Display>(out: &mut String, values: &[T]) {
    out.push('[');
    separated(out, values, ", ", |out, value| write!(out, "{value}").expect("strings take all text"));
    out.push(']');
}
