//! Emits a function whose stores are divided into parts: every value in all forms that its users need. With a cluster, a CTA
//! computes the part that its rank selects. Without a cluster, one CTA computes all parts. Between two loops or conditions, the ops
//! of one part precede the ops of the next part.

use super::value_forms::{Flow, Form, Forms, operand_forms};
use crate::tile_slicing::{PartBuilder, max_splittable_index};
use base::ir::{Op as OpId, Operation};
use base::{Block, Loc, Region, Value};
use core_dialect::core_ops::{Core, Fact};
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::Shape;
use numerics::Scalar;
use numerics::arith::{Binary, Convert, Overflow, Signedness};
use smallvec::smallvec;
use std::collections::BTreeMap;
use tileaa::facts::Facts;
use tileaa::{Function, Op, Type};

/// The assignment of parts to CTAs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartAssignment {
    /// Each CTA of a cluster computes one part.
    ByRank,
    /// One CTA computes all parts in turn.
    Alternating,
}

/// The index of a part: a dynamic rank or a constant.
#[derive(Clone, Copy)]
enum PartSelector {
    /// The rank of the CTA in its cluster, read at run time.
    Dynamic(Value),
    /// The index of a part that one CTA computes together with other parts.
    Constant(u32),
}

/// Emits the function of one CTA. The CTA computes one part or all parts, as `assignment` selects.
pub(crate) fn run(forms: &Forms<'_>, flow: &Flow, assignment: PartAssignment) -> Function {
    let from = forms.function;
    let to = Function::new(&from.name, from.attrs.clone(), from.loc);
    let entry = to.entry();
    let facts = Facts::derive(from);
    let ranks = (0..forms.parts).map(PartSelector::Constant).collect();
    let mut rewriter = ClusterRewriter { from, forms, flow, facts, to, new_values: BTreeMap::new(), ranks };
    for &param in from.params() {
        let value = rewriter.to.body.add_argument(entry, from.body.ty(param).clone());
        rewriter.new_values.insert((param, Form::Whole, 0), value);
    }
    if assignment == PartAssignment::ByRank {
        let rank = rewriter.append(entry, Core::ClusterRank {}, Type::scalar(Scalar::I32), from.loc);
        rewriter.ranks = vec![PartSelector::Dynamic(rank)];
        rewriter.to.attrs.cluster = Some(forms.parts);
    }
    for part in 0..rewriter.ranks.len() {
        from.params().iter().for_each(|param| rewriter.emit_part_index(*param, part, entry, from.loc));
    }
    rewriter.emit_block(from.entry(), entry);
    base::text::compact(&rewriter.to)
}

/// Writes the new function, which computes the parts of one CTA.
struct ClusterRewriter<'a> {
    /// The old function.
    from: &'a Function,
    /// The forms in which each value is emitted.
    forms: &'a Forms<'a>,
    /// The data flow of the old function across regions.
    flow: &'a Flow,
    /// The facts about values of the old function.
    facts: Facts<'a>,
    /// The new function.
    to: Function,
    /// The new value for each old value, form and index into `ranks`. For full values, the index is 0.
    new_values: BTreeMap<(Value, Form, usize), Value>,
    /// The parts that this CTA computes.
    ranks: Vec<PartSelector>,
}

impl ClusterRewriter<'_> {
    /// Emits the ops of the old block `from` to the new block `to`. Between two ops with control flow, the ops of one part precede
    /// the ops of the next part.
    fn emit_block(&mut self, from: Block, to: Block) {
        let mut remaining_ops = &self.from.body.blocks[from].ops[..];
        while !remaining_ops.is_empty() {
            let straight_count = remaining_ops.iter().take_while(|op| !is_control_flow(&self.from.body.ops[**op].kind)).count();
            for part in 0..self.ranks.len() {
                remaining_ops[..straight_count].iter().for_each(|&op| self.emit_op(op, part, to));
            }
            if let Some(&op) = remaining_ops.get(straight_count) {
                self.emit_control_flow(op, to);
            }
            remaining_ops = &remaining_ops[remaining_ops.len().min(straight_count + 1)..];
        }
    }

    /// Emits a loop, a condition, a terminator or a grid dependency.
    fn emit_control_flow(&mut self, op: OpId, to: Block) {
        let node = &self.from.body.ops[op];
        match &node.kind {
            Op::Core(Core::Yield { values } | Core::Continue { values } | Core::Break { values }) => {
                self.emit_terminator(op, values, to)
            }
            Op::Core(Core::Return {}) => {
                self.to.body.append(to, node.kind.clone(), [], node.loc);
            }
            Op::Core(Core::GridWait { .. } | Core::GridLaunch { .. }) => self.emit_in_form(op, Form::Whole, 0, to),
            _ => self.emit_region_op(op, to),
        }
        for part in 0..self.ranks.len() {
            node.results.iter().for_each(|result| self.emit_part_index(*result, part, to, node.loc));
        }
    }

    /// Emits an op without control flow in the forms that its users need: part `part` and, only if `part` is 0, the full value.
    fn emit_op(&mut self, op: OpId, part: usize, to: Block) {
        let (from, forms) = (self.from, self.forms);
        let node = &from.body.ops[op];
        match &node.kind {
            Op::StoreView { .. } | Op::Store { .. } => self.emit_in_form(op, forms.stores[&op], part, to),
            Op::LoadView { token, .. } | Op::Load { token, .. } => self.emit_load(op, *token, part, to),
            _ => {
                let needed: std::collections::BTreeSet<Form> =
                    node.results.iter().flat_map(|result| forms.emitted_forms(*result)).collect();
                let needed = needed.into_iter().filter(|form| part == 0 || *form != Form::Whole);
                needed.for_each(|form| self.emit_in_form(op, form, part, to));
            }
        }
        node.results.iter().for_each(|result| self.emit_part_index(*result, part, to, node.loc));
    }

    /// Emits a load in every form that its users need. The token of the old load becomes a join of the tokens of all emitted loads.
    fn emit_load(&mut self, op: OpId, token: Option<Value>, part: usize, to: Block) {
        let node = &self.from.body.ops[op];
        let [tile, result_token] = node.results[..] else { unreachable!("a load results in a tile and a token") };
        let mut tokens = Vec::new();
        for form in self.forms.emitted_forms(tile).filter(|form| part == 0 || *form != Form::Whole).collect::<Vec<_>>() {
            self.emit_in_form(op, form, part, to);
            tokens.extend(self.new_values.remove(&(result_token, Form::Whole, 0)));
        }
        let needed = self.forms.emitted_forms(result_token).next().is_some();
        let token = match (tokens.len(), token) {
            // If this CTA computes all parts, no op uses the token.
            _ if !needed || part > 0 => return,
            (0, Some(token)) => self.new_values[&(token, Form::Whole, 0)],
            (0, None) => self.append(to, Core::MakeToken {}, Type::Token, node.loc),
            (1, _) => tokens[0],
            _ => self.append(to, Core::JoinTokens { tokens }, Type::Token, node.loc),
        };
        self.new_values.insert((result_token, Form::Whole, 0), token);
    }

    /// Emits an op in one form, with operands in the forms that [`operand_forms`] returns. If the op cannot compute its results in
    /// this form, slices its full results.
    fn emit_in_form(&mut self, op: OpId, form: Form, part: usize, to: Block) {
        let node = &self.from.body.ops[op];
        let Some(forms) = operand_forms(self.from, op, form, self.forms.parts) else {
            let Form::Part(dim) = form else { unreachable!("a full value always has a form") };
            let tiles = node.results.iter().filter(|result| *self.from.body.ty(**result) != Type::Token);
            return tiles.for_each(|result| self.slice_part(*result, dim, part, to, node.loc));
        };
        let mut kind = node.kind.clone();
        let mut forms = forms.into_iter();
        kind.for_each_operand_mut(&mut |value| {
            let form = forms.next().expect("each operand has a form");
            *value = self.new_values[&value_key(*value, form, part)];
        });
        let mut regions = Vec::new();
        kind.for_each_region_mut(&mut |region| {
            let new = self.to.body.new_region();
            regions.push((*region, new));
            *region = new;
        });
        if let (Op::Core(Core::Assume { fact, .. }), Form::Part(dim)) = (&mut kind, form) {
            let full_shape = self.shape(node.results[0]);
            match fact_of_part(fact, dim, full_shape[dim] / self.forms.parts) {
                Some(part_fact) => *fact = part_fact,
                None => {
                    let value = kind.operands()[0];
                    self.new_values.insert(value_key(node.results[0], form, part), value);
                    return;
                }
            }
        }
        let is_iota = matches!(kind, Op::Core(Core::Iota {}));
        let types: Vec<Type> = node.results.iter().map(|result| self.part_type(*result, form)).collect();
        let new = self.to.body.append(to, kind, types, node.loc);
        regions.into_iter().for_each(|(from, to)| self.copy_reduction_body(from, to));
        for (old, new) in node.results.iter().zip(self.to.body.ops[new].results.clone()) {
            let is_token = *self.from.body.ty(*old) == Type::Token;
            self.new_values.insert(value_key(*old, if is_token { Form::Whole } else { form }, part), new);
        }
        if is_iota && form != Form::Whole {
            self.offset_iota(node.results[0], form, part, to, node.loc);
        }
    }

    /// Copies the ops in the body of a reduction or scan. `from` is the region of the old op and `to` that of the new op.
    fn copy_reduction_body(&mut self, from: Region, to: Region) {
        let (source, block) = (self.from.body.block_of(from), self.to.body.new_block(to));
        for &arg in &self.from.body.blocks[source].args {
            let new = self.to.body.add_argument(block, self.from.body.ty(arg).clone());
            self.new_values.insert((arg, Form::Whole, 0), new);
        }
        for &op in &self.from.body.blocks[source].ops {
            self.emit_in_form(op, Form::Whole, 0, block);
        }
    }

    /// Adds the total extent of all earlier parts to the iota of a part, which starts at zero.
    fn offset_iota(&mut self, iota: Value, form: Form, part: usize, to: Block, loc: Loc) {
        let ty = self.part_type(iota, form);
        let Type::Tile { elem, shape } = &ty else { unreachable!("an iota is a tile") };
        let scalar = Type::Tile { elem: *elem, shape: Shape::new() };
        let offset = match self.ranks[part] {
            PartSelector::Constant(0) => return,
            PartSelector::Constant(_) => self.constant(shape[0].into(), &scalar, to, loc),
            PartSelector::Dynamic(_) => {
                let rank = self.rank_as(&scalar, part, to, loc);
                let extent = self.constant(shape[0].into(), &scalar, to, loc);
                let multiplication = Core::Binary { kind: Binary::MulI { overflow: Overflow::None }, lhs: rank, rhs: extent };
                self.append(to, multiplication, scalar, loc)
            }
        };
        let offset = self.append(to, Core::Broadcast { x: offset }, ty.clone(), loc);
        let unshifted = self.new_values[&(iota, form, part)];
        let addition = Core::Binary { kind: Binary::AddI { overflow: Overflow::None }, lhs: unshifted, rhs: offset };
        let sum = self.append(to, addition, ty, loc);
        self.new_values.insert((iota, form, part), sum);
    }

    /// Emits the slice of a full value that a part needs.
    fn slice_part(&mut self, value: Value, dim: usize, part: usize, to: Block, loc: Loc) {
        let full_value = self.new_values[&(value, Form::Whole, 0)];
        let scalar = Type::scalar(Scalar::I32);
        let zero = self.constant(0, &scalar, to, loc);
        let rank = self.rank_as(&scalar, part, to, loc);
        let indices = (0..self.shape(value).len()).map(|d| if d == dim { rank } else { zero }).collect();
        let ty = self.part_type(value, Form::Part(dim));
        let slice = self.append(to, Core::Extract { x: full_value, indices }, ty, loc);
        self.new_values.insert((value, Form::Part(dim), part), slice);
    }

    /// Emits the tile index of a part after the tile index `value` of the full tile. Emits nothing if no access needs the index of
    /// a part.
    fn emit_part_index(&mut self, value: Value, part: usize, to: Block, loc: Loc) {
        if !self.forms.forms_of(value).contains(&Form::PartIndex) {
            return;
        }
        let (full_index, ty) = (self.new_values[&(value, Form::Whole, 0)], self.from.body.ty(value).clone());
        let bits = ty.tile().map_or(64, |(elem, _)| elem.bits());
        let max_index = max_splittable_index(&self.facts, value, bits, self.forms.parts);
        let mut parts = PartBuilder { function: &mut self.to, count: self.forms.parts, loc, emitted: Vec::new() };
        let first = parts.first_index(full_index, max_index);
        let emitted = std::mem::take(&mut parts.emitted);
        self.to.body.blocks[to].ops.extend(emitted);
        let part_index = match self.ranks[part] {
            PartSelector::Constant(0) => first,
            _ => {
                let rank = self.rank_as(&ty, part, to, loc);
                let addition = Core::Binary { kind: Binary::AddI { overflow: Overflow::NoSignedWrap }, lhs: first, rhs: rank };
                self.append(to, addition, ty, loc)
            }
        };
        self.new_values.insert((value, Form::PartIndex, part), part_index);
    }

    /// Emits a condition or a loop whose results and loop-carried values have every form that their users need.
    fn emit_region_op(&mut self, op: OpId, to: Block) {
        let node = &self.from.body.ops[op];
        let mut kind = node.kind.clone();
        let mut regions = Vec::new();
        kind.for_each_region_mut(&mut |region| {
            let new = self.to.body.new_region();
            regions.push((*region, new));
            *region = new;
        });
        let full_value = |this: &Self, value: Value| this.new_values[&(value, Form::Whole, 0)];
        let Op::Core(core) = &mut kind else { unreachable!("only conditions and loops are nested") };
        core.conditions_mut().into_iter().for_each(|condition| *condition = full_value(self, *condition));
        let loop_op = node.kind.core().and_then(Core::as_loop);
        if let Some((init, loop_op)) = core.init_mut().zip(loop_op) {
            let receivers = if loop_op.bounds.is_some() { &node.results } else { loop_op.carried_args(&self.from.body) };
            *init = self.values_in_forms(receivers, init);
        }
        let results = self.required_forms(&node.results);
        let types: Vec<Type> = results.iter().map(|(value, form, _)| self.part_type(*value, *form)).collect();
        let new = self.to.body.append(to, kind, types, node.loc);
        for (from, to) in regions {
            let (source, block) = (self.from.body.block_of(from), self.to.body.new_block(to));
            self.add_loop_arguments(op, source, block, node.loc);
            self.emit_block(source, block);
        }
        for (slot, new) in results.into_iter().zip(self.to.body.ops[new].results.clone()) {
            self.new_values.insert(slot, new);
        }
    }

    /// Adds the arguments of a loop body in every form that users need. The induction variable has its full form.
    fn add_loop_arguments(&mut self, op: OpId, from: Block, to: Block, loc: Loc) {
        let args = &self.from.body.blocks[from].args;
        let loop_op = self.from.body.ops[op].kind.core().and_then(Core::as_loop);
        let counter_count = loop_op.map_or(0, |loop_op| loop_op.counter_args());
        let counter = args.iter().take(counter_count).map(|counter| (*counter, Form::Whole, 0));
        for (value, form, part) in counter.chain(self.required_forms(&args[counter_count.min(args.len())..])).collect::<Vec<_>>() {
            let ty = self.part_type(value, form);
            let new = self.to.body.add_argument(to, ty);
            self.new_values.insert((value, form, part), new);
        }
        for part in 0..self.ranks.len() {
            args.iter().for_each(|arg| self.emit_part_index(*arg, part, to, loc));
        }
    }

    /// Emits a terminator whose operands have the forms of the results or arguments that receive them.
    fn emit_terminator(&mut self, op: OpId, values: &[Value], to: Block) {
        let body = &self.from.body;
        let node = &body.ops[op];
        let target = self.flow.target[&op];
        // The operands of a `continue` in an unbounded loop are received by the loop's arguments. In a `for`, arguments and results
        // have the same forms, so the results stand for both.
        let unbounded_loop = body.ops[target].kind.core().and_then(Core::as_loop).filter(|loop_op| loop_op.bounds.is_none());
        let is_continue = matches!(node.kind, Op::Core(Core::Continue { .. }));
        let receivers = match unbounded_loop.filter(|_| is_continue) {
            Some(loop_op) => loop_op.carried_args(body).to_vec(),
            None => body.ops[target].results.to_vec(),
        };
        let values = self.values_in_forms(&receivers, values);
        let kind = match &node.kind {
            Op::Core(Core::Yield { .. }) => Core::Yield { values },
            Op::Core(Core::Continue { .. }) => Core::Continue { values },
            Op::Core(Core::Break { .. }) => Core::Break { values },
            other => unreachable!("'{}' forwards no values to its parent op", other.mnemonic()),
        };
        self.to.body.append(to, Op::Core(kind), [], node.loc);
    }

    /// The forms that users need of each value in `receivers`: one entry for a full value, and one entry for each part that this
    /// CTA computes.
    fn required_forms(&self, receivers: &[Value]) -> Vec<(Value, Form, usize)> {
        let parts = |form: Form| 0..if form == Form::Whole { 1 } else { self.ranks.len() };
        let forms = receivers.iter().flat_map(|receiver| self.forms.emitted_forms(*receiver).map(|form| (*receiver, form)));
        forms.flat_map(|(receiver, form)| parts(form).map(move |part| (receiver, form, part))).collect()
    }
    /// The new values for `values`, in every form that the value at the same index of `receivers` has.
    fn values_in_forms(&self, receivers: &[Value], values: &[Value]) -> Vec<Value> {
        let pairs = receivers.iter().zip(values);
        let slots = pairs.flat_map(|(receiver, value)| {
            self.required_forms(&[*receiver]).into_iter().map(|(_, form, part)| (*value, form, part))
        });
        slots.map(|slot| self.new_values[&slot]).collect()
    }

    /// The index of a part as an integer of type `ty`.
    fn rank_as(&mut self, ty: &Type, part: usize, to: Block, loc: Loc) -> Value {
        let x = match self.ranks[part] {
            PartSelector::Constant(rank) => return self.constant(rank.into(), ty, to, loc),
            PartSelector::Dynamic(rank) => rank,
        };
        let kind = match ty.tile().map_or(64, |(elem, _)| elem.bits()) {
            32 => return x,
            bits if bits < 32 => Convert::TruncI { overflow: Overflow::None },
            _ => Convert::ExtI { signedness: Signedness::Unsigned },
        };
        self.append(to, Core::Convert { kind, x }, ty.clone(), loc)
    }
    /// Emits a constant of type `ty` whose elements are all `number`.
    fn constant(&mut self, number: u64, ty: &Type, to: Block, loc: Loc) -> Value {
        let bits = ty.tile().map_or(64, |(elem, _)| elem.bits());
        let value = core_dialect::tile::Dense::Splat(number & (u64::MAX >> (64 - bits)));
        self.append(to, Core::Constant { value }, ty.clone(), loc)
    }
    /// Appends an op with one result to a block of the new function. Returns the result.
    fn append(&mut self, to: Block, core: Core, ty: Type, loc: Loc) -> Value {
        let op = self.to.body.append(to, Op::Core(core), [ty], loc);
        self.to.body.result(op)
    }
    /// The type that a value of the old function has in a form.
    fn part_type(&self, value: Value, form: Form) -> Type {
        let mut ty = self.from.body.ty(value).clone();
        let Form::Part(dim) = form else { return ty };
        match &mut ty {
            Type::Tile { shape, .. } => shape[dim] /= self.forms.parts,
            Type::View(view) => view.tile[dim] /= self.forms.parts,
            Type::MemRef(_) | Type::Token => {}
        }
        ty
    }
    /// The shape of a value of the old function.
    fn shape(&self, value: Value) -> Shape {
        self.from.body.ty(value).tile().map_or_else(|| smallvec![], |(_, shape)| shape.clone())
    }
}

/// The key in [`ClusterRewriter::new_values`] of a value in a form. A full value has the same key for all parts.
fn value_key(value: Value, form: Form, part: usize) -> (Value, Form, usize) {
    (value, form, if form == Form::Whole { 0 } else { part })
}

/// Whether an op has nested blocks, ends a block, or must stay after all earlier ops and before all later ops.
fn is_control_flow(op: &Op) -> bool {
    op.core().is_some_and(Core::is_structured)
        || matches!(
            op,
            Op::Core(
                Core::Yield { .. }
                    | Core::Continue { .. }
                    | Core::Break { .. }
                    | Core::Return {}
                    | Core::GridWait { .. }
                    | Core::GridLaunch { .. }
            )
        )
}

/// The fact that holds for each part of a tile for which `fact` holds. Each part has `extent` elements along `dim`. `None` if a
/// part boundary is inside a run of elements to which the fact applies.
fn fact_of_part(fact: &Fact, dim: usize, extent: u32) -> Option<Fact> {
    let extent = i64::from(extent);
    match fact {
        Fact::DivBy { every: Some(every), along: Some(along), .. }
            if *along == dim as i64 && (*every == 0 || extent % every != 0) =>
        {
            None
        }
        Fact::SameElements { groups } if groups[dim] == 0 || extent % groups[dim] != 0 => None,
        Fact::DivBy { .. } | Fact::SameElements { .. } | Fact::Bounded { .. } => Some(fact.clone()),
    }
}
