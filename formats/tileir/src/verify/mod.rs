//! The rules of a whole program, in NVIDIA's order and wording.
//!
//! The verifier visits ops outermost first. For each op it checks the number of results, the parent, and the predicates of operands
//! and results. The rules of the op table and the op's own rule follow ([`ops`]), and after the op's regions the rules about them
//! ([`regions`]).
//! Then it checks a function's debug scopes ([`debug`]), and finally the program's symbols. It stops at the first violation.

mod debug;
mod memory;
mod multimem;
mod ops;
mod preview;
mod regions;
mod shapes;

use crate::enums::{Visibility, WireEnum};
use crate::module::{Function, Module};
use crate::ops::{Effects, Op, Opcode, Rule, RuleKind};
use crate::text::types::{Tables, TypeText, type_text};
use crate::types::{Element, Type, TypeId};
use base::entity::Entity;
use base::ir::{self, Block, Operation, Region, Value};
use base::{Body, DebugInfo, Loc};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// The first violated rule, and the location of the violating op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub loc: Loc,
}

/// The values of one operand or result.
type Values = SmallVec<[Value; 4]>;

/// The result of one op's rule, worded without the op's name.
type Check<T = ()> = Result<T, String>;

/// Checks the structural invariants: ids in range, well-formed types and constants, bodies that are trees. Files from other sources
/// than the bytecode reader need this before any access by index.
pub fn references(module: &Module, debug: &DebugInfo) -> Result<(), String> {
    shapes::tables(module)?;
    debug::kinds(debug)?;
    let loc = |loc: Loc| if loc.index() < debug.locs.len() { Ok(()) } else { Err(format!("location {loc} is not in the table")) };
    for global in &module.globals {
        shapes::global(module, global)?;
        loc(global.loc)?;
    }
    for function in &module.functions {
        shapes::function(module, function)?;
        loc(function.loc)?;
        function.body.ops.values().try_for_each(|node| loc(node.loc))?;
        function.body.verify_structure(function.region)?;
    }
    for external in &module.externs {
        shapes::external(module, external)?;
        loc(external.loc)?;
    }
    Ok(())
}

/// Checks the language rules.
pub fn verify(module: &Module, debug: &DebugInfo) -> Result<(), Failure> {
    for global in &module.globals {
        let rank = module.ty(global.ty).tile().map_or(0, |(_, shape)| shape.len());
        if rank != 1 {
            return Err(Failure { message: "'cuda_tile.global' op type must have rank 1".into(), loc: global.loc });
        }
    }
    let globals: HashMap<&str, TypeId> = module.globals.iter().map(|global| (module.string(global.name), global.ty)).collect();
    let subprograms = debug::Subprograms::new(debug);
    for function in &module.functions {
        let checker = Checker { module, function, body: &function.body, effect_free: vec![true; function.body.ops.len()] };
        checker.run(debug, &subprograms)?;
    }
    module.externs.iter().try_for_each(|function| preview::external(module, function))?;
    symbols(module)?;
    module.functions.iter().try_for_each(|function| globals_used(module, function, &globals))
}

/// Checks the limits of bytecode, after the language rules.
pub fn expressible(module: &Module) -> Result<(), Failure> {
    for function in &module.functions {
        for (i, param) in function.params().iter().enumerate() {
            let id = *function.body.ty(*param);
            if module.ty(id).tile().is_none() {
                let got = type_text(Tables::of(module), id, TypeText::Full);
                let message = format!(
                    "unsupported type in bytecode for entry argument #{i}: '{got}'; expected a rank-0 !cuda_tile.tile type"
                );
                return Err(Failure { message, loc: function.loc });
            }
        }
    }
    Ok(())
}

fn symbols(module: &Module) -> Result<(), Failure> {
    let globals = module.globals.iter().map(|global| (global.name, global.loc));
    let functions = module.functions.iter().map(|function| (function.name, function.loc));
    let mut seen: HashSet<&str> = HashSet::new();
    let externs = module.externs.iter().map(|function| (function.name, function.loc));
    for (name, loc) in globals.chain(functions).chain(externs) {
        let name = module.string(name);
        if !seen.insert(name) {
            return Err(Failure { message: format!("redefinition of symbol named '{name}'"), loc });
        }
    }
    Ok(())
}

/// Looks up globals after all other checks.
fn globals_used(module: &Module, function: &Function, globals: &HashMap<&str, TypeId>) -> Result<(), Failure> {
    for node in function.body.ops.values() {
        let Op::GetGlobal { name } = &node.kind else { continue };
        let name = module.string(name.0);
        let fail = |message: String| Failure { message: format!("'cuda_tile.get_global' op {message}"), loc: node.loc };
        let Some(global) = globals.get(name) else {
            return Err(fail(format!("'{name}' does not reference a valid global")));
        };
        let result = function.body.ty(node.results[0]);
        let (Element::Ptr(pointer), Some((element, _))) = (module.tile(*result).0, module.ty(*global).tile()) else { continue };
        if element.scalar() != Some(pointer.pointee) {
            let element = element.scalar().map_or("?", numerics::Scalar::name);
            return Err(fail(format!(
                "pointee type of result type '!cuda_tile.ptr<{}>' does not match type '{element}' of the global @{name}",
                pointer.pointee
            )));
        }
    }
    Ok(())
}

/// Checks one function.
struct Checker<'a> {
    module: &'a Module,
    function: &'a Function,
    body: &'a Body<Op, TypeId>,
    /// Whether a completed op has no effect on memory.
    effect_free: Vec<bool>,
}

/// The context of a block's ops.
#[derive(Clone, Copy)]
struct BlockContext {
    /// The op whose region contains the block; none for the entry's block.
    parent: Option<ir::Op>,
    /// The nearest enclosing op other than `if`.
    nearest_non_if: Option<ir::Op>,
    /// Whether only `if` and `loop` enclose the block.
    may_return: bool,
}

/// A block being checked.
struct Frame {
    block: Block,
    next: usize,
    context: BlockContext,
    /// The op to finish after this block, the last of its regions.
    closes: Option<ir::Op>,
}

impl<'a> Checker<'a> {
    fn run(mut self, debug: &DebugInfo, subprograms: &debug::Subprograms) -> Result<(), Failure> {
        let entry = self.body.block_of(self.function.region);
        self.entry(entry, debug).map_err(|message| self.entry_failure(message))?;
        let context = BlockContext { parent: None, nearest_non_if: None, may_return: true };
        let mut stack = vec![Frame { block: entry, next: 0, context, closes: None }];
        while let Some(frame) = stack.last_mut() {
            let ops = &self.body.blocks[frame.block].ops;
            if let Some(&op) = ops.get(frame.next) {
                frame.next += 1;
                let (last, context) = (frame.next == ops.len(), frame.context);
                self.op(op, last, context)?;
                self.enter(op, context, &mut stack)?;
                continue;
            }
            let closes = frame.closes;
            self.ends_with_terminator(frame.block)?;
            stack.pop();
            if let Some(op) = closes {
                self.finish_op(op)?;
            }
        }
        debug::function(self.function, debug, subprograms)
    }

    fn entry_failure(&self, message: String) -> Failure {
        Failure { message: format!("'cuda_tile.entry' op {message}"), loc: self.function.loc }
    }
    fn failure(&self, op: ir::Op, message: String) -> Failure {
        let node = &self.body.ops[op];
        Failure { message: format!("'cuda_tile.{}' op {message}", node.kind.mnemonic()), loc: node.loc }
    }

    fn entry(&self, block: Block, debug: &DebugInfo) -> Check {
        if self.body.blocks[block].ops.is_empty() {
            return Err("expects a non-empty block".into());
        }
        let Type::Function { inputs, results } = self.module.ty(self.function.ty) else {
            return Err("must have a function type".into());
        };
        if !results.is_empty() {
            return Err("entry op must not return values".into());
        }
        if inputs.iter().any(|ty| self.module.ty(*ty).tile().is_some_and(|(_, shape)| !shape.is_empty())) {
            return Err("entry op must have scalar types (rank 0 !cuda_tile.tile)".into());
        }
        if self.function.visibility == Visibility::Private {
            return Err("entry op must have public symbol visibility".into());
        }
        self.argument_attributes(inputs.len())?;
        debug::entry(self.module, self.function, debug)
    }

    fn argument_attributes(&self, params: usize) -> Check {
        let all = &self.function.arg_attrs;
        if !all.is_empty() && all.len() != params {
            let got = all.len();
            return Err(format!(
                "expects argument attribute array to have the same number of elements as the number of function arguments, got \
                 {got}, but expected {params}"
            ));
        }
        // The name of a dialect and a point come first.
        let has_dialect = |name: &str| name.split_once('.').is_some_and(|(dialect, _)| !dialect.is_empty());
        match all.iter().flatten().all(|(name, _)| has_dialect(self.module.string(*name))) {
            true => Ok(()),
            false => Err("arguments may only have dialect attributes".into()),
        }
    }

    /// Enters the regions of an op, or finishes an op without regions.
    fn enter(&mut self, op: ir::Op, context: BlockContext, stack: &mut Vec<Frame>) -> Result<(), Failure> {
        let kind = &self.body.ops[op].kind;
        let blocks: Vec<Block> =
            kind.regions().iter().flat_map(|region| self.body.regions[*region].blocks.iter().copied()).collect();
        if blocks.is_empty() {
            return self.finish_op(op);
        }
        let is_if = matches!(kind, Op::If { .. });
        let inside = BlockContext {
            parent: Some(op),
            nearest_non_if: if is_if { context.nearest_non_if } else { Some(op) },
            may_return: context.may_return && (is_if || matches!(kind, Op::Loop { .. })),
        };
        let last = blocks.len() - 1;
        for (i, block) in blocks.into_iter().enumerate().rev() {
            stack.push(Frame { block, next: 0, context: inside, closes: (i == last).then_some(op) });
        }
        Ok(())
    }

    fn ends_with_terminator(&self, block: Block) -> Result<(), Failure> {
        match self.body.blocks[block].ops.last() {
            Some(op) if !self.body.ops[*op].kind.is_terminator() => {
                let node = &self.body.ops[*op];
                let message = format!("block with no terminator, has 'cuda_tile.{}'", node.kind.mnemonic());
                Err(Failure { message, loc: node.loc })
            }
            _ => Ok(()),
        }
    }

    /// Checks the rules of an op that follow the checks of its regions, and notes whether the op is free of effects.
    fn finish_op(&mut self, op: ir::Op) -> Result<(), Failure> {
        regions::check_after_regions(self, op)?;
        let kind = &self.body.ops[op].kind;
        self.effect_free[op.index()] = match kind.opcode().info().effects {
            Effects::Pure | Effects::NoMemory | Effects::Yield => true,
            Effects::Memory | Effects::Leave => false,
            Effects::Recursive => kind.regions().iter().all(|region| self.region_is_effect_free(*region)),
        };
        Ok(())
    }

    fn region_is_effect_free(&self, region: Region) -> bool {
        let blocks = self.body.regions[region].blocks.iter();
        blocks.flat_map(|block| &self.body.blocks[*block].ops).all(|op| self.effect_free[op.index()])
    }

    fn op(&self, op: ir::Op, last: bool, context: BlockContext) -> Result<(), Failure> {
        let node = &self.body.ops[op];
        let view = OpView { checker: self, node };
        let fail = |message: String| self.failure(op, message);
        view.result_count().map_err(fail)?;
        view.parent(context).map_err(fail)?;
        view.single_blocks().map_err(fail)?;
        view.predicates().map_err(fail)?;
        let rules = node.kind.opcode().info().rules;
        rules.iter().filter(|rule| !rule.kind.is_late()).try_for_each(|rule| view.rule(rule)).map_err(fail)?;
        memory::types_match(&view).map_err(fail)?;
        if node.kind.is_terminator() && !last {
            return Err(fail("must be the last operation in the parent block".into()));
        }
        rules.iter().filter(|rule| rule.kind.is_late()).try_for_each(|rule| view.rule(rule)).map_err(fail)?;
        if let Some(message) = regions::continue_types(&view, context) {
            return Err(Failure { message, loc: node.loc });
        }
        ops::check(&view, context).map_err(fail)
    }
}

impl RuleKind {
    /// Whether NVIDIA's verifier checks it after the type relations.
    fn is_late(self) -> bool {
        matches!(self, RuleKind::OperandsAndResultShape | RuleKind::OperandsShape | RuleKind::OperandsAndResultElement)
    }
}

/// One op, with the types of its values.
struct OpView<'c, 'a> {
    checker: &'c Checker<'a>,
    node: &'a ir::OpNode<Op>,
}

impl<'a> OpView<'_, 'a> {
    fn module(&self) -> &'a Module {
        self.checker.module
    }
    fn ty(&self, value: Value) -> &'a Type {
        self.checker.module.ty(self.id(value))
    }
    fn id(&self, value: Value) -> TypeId {
        *self.checker.body.ty(value)
    }
    fn result_id(&self, index: usize) -> TypeId {
        self.id(self.node.results[index])
    }
    /// Element and shape. Callers pass only values whose predicate guarantees a tile.
    fn tile(&self, value: Value) -> (Element, &'a [i64]) {
        self.checker.module.tile(self.id(value))
    }
    fn result(&self) -> (Element, &'a [i64]) {
        self.tile(self.node.results[0])
    }
    /// A type in the form of messages.
    fn quoted(&self, id: TypeId) -> String {
        format!("'{}'", type_text(Tables::of(self.checker.module), id, TypeText::Full))
    }
    fn quoted_list(&self, ids: &[TypeId]) -> String {
        ids.iter().map(|id| self.quoted(*id)).collect::<Vec<_>>().join(", ")
    }
    fn ids(&self, values: &[Value]) -> Vec<TypeId> {
        values.iter().map(|value| self.id(*value)).collect()
    }

    fn result_count(&self) -> Check {
        let info = self.node.kind.opcode().info();
        if info.results.iter().any(|result| result.variadic) || self.node.results.len() == info.results.len() {
            return Ok(());
        }
        Err(match info.results.len() {
            0 => "requires zero results".into(),
            1 => "requires one result".into(),
            count => format!("expected {count} results"),
        })
    }

    fn parent(&self, context: BlockContext) -> Check {
        let info = self.node.kind.opcode().info();
        let Some(rule) = info.rules.iter().find(|rule| rule.kind == RuleKind::Parent) else { return Ok(()) };
        let parent = context.parent.map_or("Entry", |op| self.checker.body.ops[op].kind.opcode().name());
        if rule.names.contains(&parent) {
            return Ok(());
        }
        let mnemonic = |name: &str| if name == "PreviewFunc" { "preview$func".into() } else { name.to_lowercase() };
        let names: Vec<String> = rule.names.iter().map(|name| format!("cuda_tile.{}", mnemonic(name))).collect();
        Err(format!("expects parent op to be one of '{}'", names.join(", ")))
    }

    /// Every region has one block, except the else region of `if`, which may be empty.
    fn single_blocks(&self) -> Check {
        let blocks = |region: Region| self.checker.body.regions[region].blocks.len();
        match &self.node.kind {
            Op::If { then_region, else_region, .. } => {
                match [*then_region, *else_region].into_iter().position(|region| blocks(region) > 1) {
                    Some(index) => Err(format!("expects region #{index} to have 0 or 1 blocks")),
                    None => Ok(()),
                }
            }
            Op::For { body, .. } | Op::Loop { body, .. } if blocks(*body) != 1 => {
                Err("region #0 ('region') failed to verify constraint: region with 1 blocks".into())
            }
            Op::Reduce { body, .. } | Op::Scan { body, .. } if blocks(*body) != 1 => {
                Err("region #0 ('body') failed to verify constraint: region with 1 blocks".into())
            }
            _ => Ok(()),
        }
    }

    fn predicates(&self) -> Check {
        let info = self.node.kind.opcode().info();
        ops::attributes(&self.node.kind)?;
        let mut fields = info.fields.iter();
        let mut number = 0;
        let mut outcome = Ok(());
        self.node.kind.for_each_field(&mut |field| {
            let Some(info) = fields.next() else { return };
            let (values, prefix): (&[Value], _) = match &field {
                crate::fields::FieldRef::Operand(value) => (std::slice::from_ref(value), ""),
                crate::fields::FieldRef::OptionalOperand(Some(value)) => (std::slice::from_ref(value), ""),
                crate::fields::FieldRef::Operands(values) => (values, "variadic of "),
                _ => (&[], ""),
            };
            for value in values {
                if outcome.is_ok() && !(info.constraint.holds)(self.ty(*value)) {
                    let (summary, got) = (info.constraint.summary, self.quoted(self.id(*value)));
                    outcome = Err(format!("operand #{number} must be {prefix}{summary}, but got {got}"));
                }
                number += 1;
            }
        });
        outcome?;
        for (number, result) in self.node.results.iter().enumerate() {
            let info = info.results.get(number).or(info.results.last()).expect("the number of results was checked");
            if !(info.constraint.holds)(self.ty(*result)) {
                let (summary, got) = (info.constraint.summary, self.quoted(self.id(*result)));
                let prefix = if info.variadic { "variadic of " } else { "" };
                return Err(format!("result #{number} must be {prefix}{summary}, but got {got}"));
            }
        }
        Ok(())
    }

    /// The values that a rule names: an operand field or a result.
    fn values_of(&self, name: &str) -> Values {
        let info = self.node.kind.opcode().info();
        if let Some(index) = info.results.iter().position(|result| result.name == name) {
            let last = if info.results[index].variadic { self.node.results.len() } else { index + 1 };
            return self.node.results[index..last].into();
        }
        let mut infos = info.fields.iter();
        let mut out = Values::new();
        self.node.kind.for_each_field(&mut |field| {
            if infos.next().is_some_and(|info| info.wire_name == name) {
                match field {
                    crate::fields::FieldRef::Operand(value) => out.push(value),
                    crate::fields::FieldRef::OptionalOperand(value) => out.extend(value),
                    crate::fields::FieldRef::Operands(values) => out.extend_from_slice(values),
                    _ => {}
                }
            }
        });
        out
    }

    fn rule(&self, rule: &Rule) -> Check {
        if rule.kind == RuleKind::Parent || self.node.kind.opcode() == Opcode::Constant {
            return Ok(());
        }
        if self.holds(rule) {
            return Ok(());
        }
        let all_of = |what: &str| format!("failed to verify that all of {{{}}} have {what}", rule.names.join(", "));
        Err(match rule.kind {
            RuleKind::Parent => String::new(),
            RuleKind::SameType => all_of("same type"),
            RuleKind::SameShape => all_of("same shape"),
            RuleKind::SameRank => all_of("same rank"),
            RuleKind::SameElement => all_of("the same element type"),
            RuleKind::I1Of => "failed to verify that Result type has i1 element type and same shape as operands".into(),
            RuleKind::OperandsAndResultShape => "requires the same shape for all operands and results".into(),
            RuleKind::OperandsShape => "requires the same shape for all operands".into(),
            RuleKind::OperandsAndResultElement => "requires the same element type for all operands and results".into(),
        })
    }

    fn holds(&self, rule: &Rule) -> bool {
        let groups: SmallVec<[Values; 4]> = rule.names.iter().map(|name| self.values_of(name)).collect();
        let firsts = || groups.iter().filter_map(|group| group.first());
        let shape = |value: &Value| self.ty(*value).tile().map(|(_, shape)| shape);
        let element = |value: &Value| self.ty(*value).tile().map(|(element, _)| element);
        let operands = self.node.kind.operands();
        let all = || operands.iter().chain(&self.node.results);
        match rule.kind {
            RuleKind::Parent => true,
            RuleKind::SameType => {
                let ids = |group: &Values| -> SmallVec<[TypeId; 4]> { group.iter().map(|value| self.id(*value)).collect() };
                equal(groups.iter().map(ids))
            }
            RuleKind::SameShape => equal(firsts().map(shape)),
            RuleKind::SameRank => equal(firsts().map(|value| shape(value).map(<[i64]>::len))),
            RuleKind::SameElement => equal(firsts().map(element)),
            RuleKind::I1Of => equal(firsts().chain(self.node.results.first()).map(shape)),
            RuleKind::OperandsAndResultShape => equal(all().map(shape)),
            RuleKind::OperandsShape => equal(operands.iter().map(shape)),
            RuleKind::OperandsAndResultElement => equal(all().map(element)),
        }
    }
}

fn equal<T: PartialEq>(mut items: impl Iterator<Item = T>) -> bool {
    match items.next() {
        Some(first) => items.all(|item| item == first),
        None => true,
    }
}

/// Numbers in NVIDIA's list form.
fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn spelling<E: WireEnum>(value: E) -> &'static str {
    value.spelling()
}
