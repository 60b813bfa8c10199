//! The verifier of a whole program. It checks rules in the order of NVIDIA's verifier, and its messages have NVIDIA's wording.
//!
//! The verifier visits ops outermost first. For each op it checks the number of results, the parent, and the type constraints of
//! operands and results. The rules of the op table and the op's own rule follow ([`ops`]). After it has visited the regions of an
//! op, the verifier checks the rules about these regions ([`regions`]).
//!
//! After the ops of a function, the verifier checks the debug scopes of the function ([`debug`]). The symbols of the program are
//! last. The verifier stops at the first violation.

mod debug;
mod memory;
mod multimem;
mod ops;
mod preview;
mod regions;
mod shapes;

use crate::enums::{Visibility, WireEnum};
use crate::module::{Function, Module};
use crate::ops::{Effects, Op, OpRule, Opcode, RuleKind};
use crate::text::types::{TypeTables, TypeTextForm, type_text};
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
    /// The location of the op or entry that violates the rule.
    pub loc: Loc,
}

/// The values of one operand or result.
type Values = SmallVec<[Value; 4]>;

/// The result of a check. The error message does not contain the name of the op; [`Checker::failure`] adds the name.
type Check<T = ()> = Result<T, String>;

/// Checks the structural invariants: ids are in range, types and constants are well-formed, and bodies are trees. A module that
/// does not come from the bytecode reader needs this check before any access by index.
pub fn check_references(module: &Module, debug: &DebugInfo) -> Result<(), String> {
    shapes::check_tables(module)?;
    debug::check_scope_kinds(debug)?;
    let check_loc =
        |loc: Loc| if loc.index() < debug.locs.len() { Ok(()) } else { Err(format!("location {loc} is not in the table")) };
    for global in &module.globals {
        shapes::check_global(module, global)?;
        check_loc(global.loc)?;
    }
    for function in &module.functions {
        shapes::check_function(module, function)?;
        check_loc(function.loc)?;
        function.body.ops.values().try_for_each(|node| check_loc(node.loc))?;
        function.body.verify_structure(function.region)?;
    }
    for external in &module.externs {
        shapes::check_external(module, external)?;
        check_loc(external.loc)?;
    }
    Ok(())
}

/// Checks the rules of the Tile IR language. The error is the first violation.
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
        checker.check_function(debug, &subprograms)?;
    }
    module.externs.iter().try_for_each(|function| preview::check_external(module, function))?;
    check_unique_symbols(module)?;
    module.functions.iter().try_for_each(|function| check_get_globals(module, function, &globals))
}

/// Checks that bytecode can express a program: each parameter of an entry must be a tile. The program obeys the language rules.
pub fn check_expressible(module: &Module) -> Result<(), Failure> {
    for function in &module.functions {
        for (i, param) in function.params().iter().enumerate() {
            let id = *function.body.ty(*param);
            if module.ty(id).tile().is_none() {
                let got = type_text(TypeTables::new(module), id, TypeTextForm::Full);
                let message = format!(
                    "unsupported type in bytecode for entry argument #{i}: '{got}'; expected a rank-0 !cuda_tile.tile type"
                );
                return Err(Failure { message, loc: function.loc });
            }
        }
    }
    Ok(())
}

/// Checks that no two globals or functions have the same name.
fn check_unique_symbols(module: &Module) -> Result<(), Failure> {
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

/// Checks that each `get_global` names a global of its type. This check comes after all others.
fn check_get_globals(module: &Module, function: &Function, globals: &HashMap<&str, TypeId>) -> Result<(), Failure> {
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

/// The state of checking a function.
struct Checker<'a> {
    module: &'a Module,
    function: &'a Function,
    body: &'a Body<Op, TypeId>,
    /// By op number, whether the op has no side effects. [`Checker::finish_op`] sets the entry of an op.
    effect_free: Vec<bool>,
}

/// The ops that enclose a block, as far as rules about its ops depend on them.
#[derive(Clone, Copy)]
struct BlockContext {
    /// The op whose region contains the block; `None` for the block of an entry.
    parent: Option<ir::Op>,
    /// The nearest enclosing op other than `if`.
    nearest_non_if: Option<ir::Op>,
    /// Whether only `if` and `loop` enclose the block.
    may_return: bool,
}

/// A block whose ops are being checked, and the position in it.
struct BlockVisit {
    block: Block,
    /// The index of the next op in the block.
    next_op: usize,
    context: BlockContext,
    /// The op to finish after this block, if the block is the last of the op's blocks.
    op_to_finish: Option<ir::Op>,
}

impl<'a> Checker<'a> {
    fn check_function(mut self, debug: &DebugInfo, subprograms: &debug::Subprograms) -> Result<(), Failure> {
        let entry = self.body.block_of(self.function.region);
        self.check_entry(entry, debug).map_err(|message| self.entry_failure(message))?;
        let context = BlockContext { parent: None, nearest_non_if: None, may_return: true };
        let mut stack = vec![BlockVisit { block: entry, next_op: 0, context, op_to_finish: None }];
        while let Some(visit) = stack.last_mut() {
            let ops = &self.body.blocks[visit.block].ops;
            if let Some(&op) = ops.get(visit.next_op) {
                visit.next_op += 1;
                let (is_last, context) = (visit.next_op == ops.len(), visit.context);
                self.check_op(op, is_last, context)?;
                self.enter_regions(op, context, &mut stack)?;
                continue;
            }
            let op_to_finish = visit.op_to_finish;
            self.check_terminator(visit.block)?;
            stack.pop();
            if let Some(op) = op_to_finish {
                self.finish_op(op)?;
            }
        }
        debug::check_function(self.function, debug, subprograms)
    }

    /// The failure of a rule about the entry itself.
    fn entry_failure(&self, message: String) -> Failure {
        Failure { message: format!("'cuda_tile.entry' op {message}"), loc: self.function.loc }
    }
    /// The failure of a rule about an op.
    fn failure(&self, op: ir::Op, message: String) -> Failure {
        let node = &self.body.ops[op];
        Failure { message: format!("'cuda_tile.{}' op {message}", node.kind.mnemonic()), loc: node.loc }
    }

    /// Checks the type, the attributes and the location of an entry.
    fn check_entry(&self, block: Block, debug: &DebugInfo) -> Check {
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
        self.check_argument_attributes(inputs.len())?;
        debug::check_entry(self.module, self.function, debug)
    }

    fn check_argument_attributes(&self, params: usize) -> Check {
        let arg_attrs = &self.function.arg_attrs;
        if !arg_attrs.is_empty() && arg_attrs.len() != params {
            let got = arg_attrs.len();
            return Err(format!(
                "expects argument attribute array to have the same number of elements as the number of function arguments, got \
                 {got}, but expected {params}"
            ));
        }
        // The name of a dialect attribute begins with the dialect and a point.
        let has_dialect = |name: &str| name.split_once('.').is_some_and(|(dialect, _)| !dialect.is_empty());
        match arg_attrs.iter().flatten().all(|(name, _)| has_dialect(self.module.string(*name))) {
            true => Ok(()),
            false => Err("arguments may only have dialect attributes".into()),
        }
    }

    /// Enters the regions of an op, or finishes an op without regions.
    fn enter_regions(&mut self, op: ir::Op, context: BlockContext, stack: &mut Vec<BlockVisit>) -> Result<(), Failure> {
        let kind = &self.body.ops[op].kind;
        let blocks: Vec<Block> =
            kind.regions().iter().flat_map(|region| self.body.regions[*region].blocks.iter().copied()).collect();
        if blocks.is_empty() {
            return self.finish_op(op);
        }
        let is_if = matches!(kind, Op::If { .. });
        let inner_context = BlockContext {
            parent: Some(op),
            nearest_non_if: if is_if { context.nearest_non_if } else { Some(op) },
            may_return: context.may_return && (is_if || matches!(kind, Op::Loop { .. })),
        };
        let last = blocks.len() - 1;
        for (i, block) in blocks.into_iter().enumerate().rev() {
            stack.push(BlockVisit { block, next_op: 0, context: inner_context, op_to_finish: (i == last).then_some(op) });
        }
        Ok(())
    }

    /// Checks that the last op of a block, if it has one, is a terminator.
    fn check_terminator(&self, block: Block) -> Result<(), Failure> {
        match self.body.blocks[block].ops.last() {
            Some(op) if !self.body.ops[*op].kind.is_terminator() => {
                let node = &self.body.ops[*op];
                let message = format!("block with no terminator, has 'cuda_tile.{}'", node.kind.mnemonic());
                Err(Failure { message, loc: node.loc })
            }
            _ => Ok(()),
        }
    }

    /// Checks the rules of an op that come after the checks of its regions, and records whether the op has no side effects.
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

    /// Whether no op in a region has side effects.
    fn region_is_effect_free(&self, region: Region) -> bool {
        let blocks = self.body.regions[region].blocks.iter();
        blocks.flat_map(|block| &self.body.blocks[*block].ops).all(|op| self.effect_free[op.index()])
    }

    /// Checks the rules of an op that come before its regions.
    fn check_op(&self, op: ir::Op, is_last: bool, context: BlockContext) -> Result<(), Failure> {
        let node = &self.body.ops[op];
        let view = OpView { checker: self, node };
        let fail = |message: String| self.failure(op, message);
        view.check_result_count().map_err(fail)?;
        view.check_parent(context).map_err(fail)?;
        view.check_block_counts().map_err(fail)?;
        view.check_constraints().map_err(fail)?;
        let rules = node.kind.opcode().info().rules;
        rules
            .iter()
            .filter(|rule| !rule.kind.is_checked_after_type_relations())
            .try_for_each(|rule| view.check_rule(rule))
            .map_err(fail)?;
        memory::check_types_match(&view).map_err(fail)?;
        if node.kind.is_terminator() && !is_last {
            return Err(fail("must be the last operation in the parent block".into()));
        }
        rules
            .iter()
            .filter(|rule| rule.kind.is_checked_after_type_relations())
            .try_for_each(|rule| view.check_rule(rule))
            .map_err(fail)?;
        if let Some(message) = regions::continue_type_error(&view, context) {
            return Err(Failure { message, loc: node.loc });
        }
        ops::check_op(&view, context).map_err(fail)
    }
}

impl RuleKind {
    /// Whether NVIDIA's verifier checks a rule of this kind after the relations between single operands and results.
    fn is_checked_after_type_relations(self) -> bool {
        matches!(self, RuleKind::OperandsAndResultShape | RuleKind::OperandsShape | RuleKind::OperandsAndResultElement)
    }
}

/// An op, and the checker of its function, which has the types of the op's values.
struct OpView<'c, 'a> {
    checker: &'c Checker<'a>,
    node: &'a ir::OpNode<Op>,
}

impl<'a> OpView<'_, 'a> {
    fn module(&self) -> &'a Module {
        self.checker.module
    }
    fn ty(&self, value: Value) -> &'a Type {
        self.checker.module.ty(self.type_id(value))
    }
    fn type_id(&self, value: Value) -> TypeId {
        *self.checker.body.ty(value)
    }
    fn result_type_id(&self, index: usize) -> TypeId {
        self.type_id(self.node.results[index])
    }
    /// The element type and shape of a tile. Callers pass only values whose constraint guarantees a tile.
    fn tile(&self, value: Value) -> (Element, &'a [i64]) {
        self.checker.module.tile(self.type_id(value))
    }
    fn result_tile(&self) -> (Element, &'a [i64]) {
        self.tile(self.node.results[0])
    }
    /// The text of a type in messages, in quotes.
    fn quoted_type(&self, id: TypeId) -> String {
        format!("'{}'", type_text(TypeTables::new(self.checker.module), id, TypeTextForm::Full))
    }
    fn quoted_types(&self, ids: &[TypeId]) -> String {
        ids.iter().map(|id| self.quoted_type(*id)).collect::<Vec<_>>().join(", ")
    }
    fn type_ids(&self, values: &[Value]) -> Vec<TypeId> {
        values.iter().map(|value| self.type_id(*value)).collect()
    }

    fn check_result_count(&self) -> Check {
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

    /// Checks that the enclosing op is one that the op table allows.
    fn check_parent(&self, context: BlockContext) -> Check {
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

    /// Checks that the regions of a loop, reduction or scan have one block, and the regions of `if` at most one.
    fn check_block_counts(&self) -> Check {
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

    /// Checks the ranges of attributes and the type constraints of operands and results.
    fn check_constraints(&self) -> Check {
        let info = self.node.kind.opcode().info();
        ops::check_attribute_ranges(&self.node.kind)?;
        let mut fields = info.fields.iter();
        let mut value_number = 0;
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
                    let (summary, got) = (info.constraint.summary, self.quoted_type(self.type_id(*value)));
                    outcome = Err(format!("operand #{value_number} must be {prefix}{summary}, but got {got}"));
                }
                value_number += 1;
            }
        });
        outcome?;
        for (value_number, result) in self.node.results.iter().enumerate() {
            let info = info.results.get(value_number).or(info.results.last()).expect("the number of results was checked");
            if !(info.constraint.holds)(self.ty(*result)) {
                let (summary, got) = (info.constraint.summary, self.quoted_type(self.type_id(*result)));
                let prefix = if info.variadic { "variadic of " } else { "" };
                return Err(format!("result #{value_number} must be {prefix}{summary}, but got {got}"));
            }
        }
        Ok(())
    }

    /// The values of the operand or result with this name in NVIDIA's messages; empty if an optional operand is absent.
    fn values_named(&self, name: &str) -> Values {
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

    fn check_rule(&self, rule: &OpRule) -> Check {
        if rule.kind == RuleKind::Parent || self.node.kind.opcode() == Opcode::Constant {
            return Ok(());
        }
        if self.rule_holds(rule) {
            return Ok(());
        }
        let relation_message = |what: &str| format!("failed to verify that all of {{{}}} have {what}", rule.names.join(", "));
        Err(match rule.kind {
            RuleKind::Parent => String::new(),
            RuleKind::SameType => relation_message("same type"),
            RuleKind::SameShape => relation_message("same shape"),
            RuleKind::SameRank => relation_message("same rank"),
            RuleKind::SameElement => relation_message("the same element type"),
            RuleKind::I1Of => "failed to verify that Result type has i1 element type and same shape as operands".into(),
            RuleKind::OperandsAndResultShape => "requires the same shape for all operands and results".into(),
            RuleKind::OperandsShape => "requires the same shape for all operands".into(),
            RuleKind::OperandsAndResultElement => "requires the same element type for all operands and results".into(),
        })
    }

    /// Returns whether a rule of the op table holds for the op.
    fn rule_holds(&self, rule: &OpRule) -> bool {
        let value_groups: SmallVec<[Values; 4]> = rule.names.iter().map(|name| self.values_named(name)).collect();
        let first_values = || value_groups.iter().filter_map(|group| group.first());
        let shape = |value: &Value| self.ty(*value).tile().map(|(_, shape)| shape);
        let element_of = |value: &Value| self.ty(*value).tile().map(|(element, _)| element);
        let operands = self.node.kind.operands();
        let all_values = || operands.iter().chain(&self.node.results);
        match rule.kind {
            RuleKind::Parent => true,
            RuleKind::SameType => {
                let ids = |group: &Values| -> SmallVec<[TypeId; 4]> { group.iter().map(|value| self.type_id(*value)).collect() };
                all_equal(value_groups.iter().map(ids))
            }
            RuleKind::SameShape => all_equal(first_values().map(shape)),
            RuleKind::SameRank => all_equal(first_values().map(|value| shape(value).map(<[i64]>::len))),
            RuleKind::SameElement => all_equal(first_values().map(element_of)),
            RuleKind::I1Of => all_equal(first_values().chain(self.node.results.first()).map(shape)),
            RuleKind::OperandsAndResultShape => all_equal(all_values().map(shape)),
            RuleKind::OperandsShape => all_equal(operands.iter().map(shape)),
            RuleKind::OperandsAndResultElement => all_equal(all_values().map(element_of)),
        }
    }
}

fn all_equal<T: PartialEq>(mut items: impl Iterator<Item = T>) -> bool {
    match items.next() {
        Some(first) => items.all(|item| item == first),
        None => true,
    }
}

/// Joins values with commas, as NVIDIA's messages do.
fn join<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// The text of an enumeration value.
fn spelling<E: WireEnum>(value: E) -> &'static str {
    value.spelling()
}
