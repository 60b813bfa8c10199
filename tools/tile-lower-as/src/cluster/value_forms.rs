//! Determines the forms in which a divided function computes each value: the full value, or the part along a dimension that the
//! rank of the CTA selects.
//!
//! Stores are the roots: each writes a part of its tile, and forms propagate backwards through operands. A value may have several
//! forms, and the rewriter emits all of them. Control flow, addresses and indivisible ops need full values. A part of the result of
//! an indivisible op is a slice of the full result.

use base::ir::{Def, Op as OpId, Operation};
use base::{Block, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::MemoryOrdering;
use core_dialect::rules::CoreDialectOp;
use core_dialect::structured_ops::Terminator;
use core_dialect::tile::{Dense, Shape, ViewKind};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use tileaa::{Function, Op, Type};

/// The form in which a value is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// The full value.
    Whole,
    /// The part along this dimension. Parts are numbered along the dimension, and the rank selects one.
    Part(usize),
    /// The tile index of a part. The value in the old function is the tile index of the full tile.
    PartIndex,
}

/// The form that an op needs of each operand, in operand order.
type OperandForms = SmallVec<[Form; 4]>;

/// Minimum width of a tile index, in bits, so that the tile indices of parts fit its type. 32 bits are enough for all of memory.
const MIN_INDEX_BITS: u32 = 32;

/// The forms of all values.
#[derive(Clone)]
pub(crate) struct Forms<'a> {
    /// The function before the division.
    pub(crate) function: &'a Function,
    /// The number of parts into which each store is divided.
    pub(crate) parts: u32,
    /// The data flow of `function` across regions.
    flow: &'a Flow,
    /// The forms of each value, by value id.
    forms_by_value: Vec<BTreeSet<Form>>,
    /// The form in which each store writes its tile.
    pub(crate) stores: BTreeMap<OpId, Form>,
    /// The required forms that are not yet propagated to operands.
    worklist: Vec<(Value, Form)>,
}

impl<'a> Forms<'a> {
    /// Creates the forms that control flow requires, before any store is divided.
    pub(crate) fn new(function: &'a Function, flow: &'a Flow, parts: u32) -> Self {
        let mut forms = Forms {
            function,
            parts,
            flow,
            forms_by_value: vec![BTreeSet::new(); function.body.values.len()],
            stores: BTreeMap::new(),
            worklist: Vec::new(),
        };
        for op in function.body.walk(function.region) {
            match &function.body.ops[op].kind {
                Op::Core(core) if core.is_structured() => {
                    core.conditions().into_iter().for_each(|condition| forms.require_form(condition, Form::Whole));
                }
                Op::Core(Core::GridWait { token } | Core::GridLaunch { token }) => {
                    token.iter().for_each(|token| forms.require_form(*token, Form::Whole));
                }
                _ => {}
            }
        }
        forms.propagate();
        forms
    }

    /// The forms that users need of a value.
    pub(crate) fn forms_of(&self, value: Value) -> &BTreeSet<Form> {
        &self.forms_by_value[value.0 as usize]
    }

    /// The forms in which an op or a block argument produces a value. These forms do not include the tile index of a part, because
    /// the rewriter computes this index from the full tile index.
    pub(crate) fn emitted_forms(&self, value: Value) -> impl Iterator<Item = Form> + '_ {
        self.forms_of(value).iter().copied().filter(|form| *form != Form::PartIndex)
    }

    /// Divides a store along a dimension, and propagates the forms to the values on which the store depends. Returns `None`,
    /// without a change, if the store cannot be divided along this dimension.
    pub(crate) fn divide_store(&mut self, op: OpId, dim: usize) -> Option<()> {
        let kind = &self.function.body.ops[op].kind;
        let required_forms = operand_forms(self.function, op, Form::Part(dim), self.parts)?;
        kind.operands().into_iter().zip(required_forms).for_each(|(operand, form)| self.require_form(operand, form));
        self.stores.insert(op, Form::Part(dim));
        self.propagate();
        Some(())
    }

    /// Adds a form to a value. If the form is new, queues its propagation to the operands.
    fn require_form(&mut self, value: Value, form: Form) {
        if self.forms_by_value[value.0 as usize].insert(form) {
            self.worklist.push((value, form));
        }
    }

    /// Propagates the queued forms from each value to the operands of its op, and to the values that control flow forwards to it.
    fn propagate(&mut self) {
        while let Some((value, form)) = self.worklist.pop() {
            if form == Form::PartIndex {
                self.require_form(value, Form::Whole);
                continue;
            }
            for source in self.flow.sources.get(&value).into_iter().flatten() {
                self.require_form(*source, form);
            }
            let Def::Result { op, .. } = self.function.body.values[value].def else { continue };
            self.require_operand_forms(op, value, form);
        }
    }

    /// Adds the operand forms that an op needs to compute a result in a form.
    fn require_operand_forms(&mut self, op: OpId, value: Value, form: Form) {
        let body = &self.function.body;
        let kind = &body.ops[op].kind;
        if kind.core().is_some_and(Core::is_structured) {
            return;
        }
        if *body.ty(value) == Type::Token && kind.forwarded_values().is_none() && !matches!(kind, Op::Core(_)) {
            // The tile of an access determines the forms of its operands. The result token needs only the operand tokens.
            let tokens = kind.operands().into_iter().filter(|operand| *body.ty(*operand) == Type::Token);
            return tokens.for_each(|token| self.require_form(token, Form::Whole));
        }
        match operand_forms(self.function, op, form, self.parts) {
            Some(required_forms) => {
                kind.operands().into_iter().zip(required_forms).for_each(|(operand, form)| self.require_form(operand, form))
            }
            None => self.require_form(value, Form::Whole),
        }
        // Bodies of reductions compute on elements, and may use scalars from outside.
        for inner in kind.regions().into_iter().flat_map(|region| body.walk(region)) {
            body.ops[inner].kind.operands().into_iter().for_each(|operand| self.require_form(operand, Form::Whole));
        }
    }
}

/// Data flow across regions: for each loop-carried value and each result of a loop or condition, its possible sources.
pub(crate) struct Flow {
    /// For each value that receives values from control flow, the values that control flow forwards to it.
    pub(crate) sources: BTreeMap<Value, Vec<Value>>,
    /// For each `yield`, `continue` and `break`, the loop or condition that receives its operands.
    pub(crate) target: BTreeMap<OpId, OpId>,
}

impl Flow {
    /// Collects the data flow of a function into and out of loops and conditions.
    pub(crate) fn analyse(function: &Function) -> Flow {
        let mut flow = Flow { sources: BTreeMap::new(), target: BTreeMap::new() };
        // Blocks to visit. The options are the condition whose `yield` ends the block, and the innermost loop around the block.
        let mut blocks: Vec<(Block, Option<OpId>, Option<OpId>)> = vec![(function.entry(), None, None)];
        while let Some((block, condition, loop_op)) = blocks.pop() {
            for &op in &function.body.blocks[block].ops {
                let inner = |region| function.body.block_of(region);
                let Op::Core(core) = &function.body.ops[op].kind else { continue };
                match core.as_terminator() {
                    None if core.is_structured() => {
                        let regions = function.body.ops[op].kind.regions();
                        let Some(entered_loop) = core.as_loop() else {
                            blocks.extend(regions.into_iter().map(|region| (inner(region), Some(op), loop_op)));
                            continue;
                        };
                        let args = entered_loop.carried_args(&function.body);
                        flow.add_sources(args, entered_loop.init);
                        if core.is_for() {
                            // With zero iterations, the result of a `for` is its init. So arguments, results and inits have the
                            // same forms.
                            let results = &function.body.ops[op].results;
                            flow.add_sources(results, entered_loop.init);
                            flow.add_sources(results, args);
                            flow.add_sources(args, results);
                        }
                        blocks.push((inner(entered_loop.body), None, Some(op)));
                    }
                    Some(Terminator::Yield(values)) => flow.add_terminator(function, op, condition, values, false),
                    Some(Terminator::Continue(values)) => flow.add_terminator(function, op, loop_op, values, true),
                    Some(Terminator::Break(values)) => flow.add_terminator(function, op, loop_op, values, false),
                    Some(Terminator::Return) | None => {}
                }
            }
        }
        flow
    }

    /// Adds the data flow from the operands `values` of the terminator `from` to the arguments or results of `to` that receive
    /// them.
    fn add_terminator(&mut self, function: &Function, from: OpId, to: Option<OpId>, values: &[Value], to_next_iteration: bool) {
        let Some(to) = to else { return };
        self.target.insert(from, to);
        let body = &function.body;
        let loop_op = body.ops[to].kind.core().and_then(Core::as_loop);
        let receivers = match loop_op.filter(|loop_op| loop_op.bounds.is_some() || to_next_iteration) {
            Some(loop_op) => loop_op.carried_args(body),
            None => &body.ops[to].results,
        };
        self.add_sources(receivers, values);
    }

    /// Records that each of `values` flows to its counterpart in `receivers`.
    fn add_sources(&mut self, receivers: &[Value], values: &[Value]) {
        for (receiver, value) in receivers.iter().zip(values) {
            self.sources.entry(*receiver).or_default().push(*value);
        }
    }
}

/// The operand forms with which an op computes its results in `form`. For a store, `form` is the form in which it writes its tile.
/// `None` if the op cannot compute this form.
pub(crate) fn operand_forms(function: &Function, op: OpId, form: Form, parts: u32) -> Option<OperandForms> {
    let body = &function.body;
    let node = &body.ops[op];
    let all_operands = |form: Form| -> OperandForms { node.kind.operands().into_iter().map(|_| form).collect() };
    let Form::Part(dim) = form else { return Some(all_operands(Form::Whole)) };
    let shape = |value: Value| body.ty(value).tile().map(|(_, shape)| shape);
    match &node.kind {
        Op::Core(core) => core_operand_forms(function, core, node.results[0], parts, dim, all_operands),
        Op::LoadView { view, index, token, order, .. } => {
            let required_forms =
                access_forms(function, *view, index, dim, parts).filter(|_| order.semantics == MemoryOrdering::Weak)?;
            Some(required_forms.into_iter().chain(token.map(|_| Form::Whole)).collect())
        }
        Op::StoreView { view, index, token, order, .. } => {
            let required_forms =
                access_forms(function, *view, index, dim, parts).filter(|_| order.semantics == MemoryOrdering::Weak)?;
            Some([Form::Part(dim)].into_iter().chain(required_forms).chain(token.map(|_| Form::Whole)).collect())
        }
        Op::Load { token, order, .. } | Op::Store { token, order, .. } => {
            let mut required_forms = all_operands(Form::Part(dim));
            if token.is_some() {
                *required_forms.last_mut()? = Form::Whole;
            }
            (order.semantics == MemoryOrdering::Weak).then_some(required_forms)
        }
        Op::Reduce { dim: along, .. } => Some(all_operands(Form::Part(if dim < *along as usize { dim } else { dim + 1 }))),
        Op::Scan { dim: along, .. } if *along as usize != dim => Some(all_operands(Form::Part(dim))),
        Op::Mma { lhs, rhs, .. } => {
            let [a, b, c] = mma_forms(shape(*lhs)?.len(), dim);
            debug_assert_eq!(shape(*lhs)?.len(), shape(*rhs)?.len());
            Some(smallvec![a, b, c])
        }
        Op::MmaScaled { lhs, .. } => {
            let [a, b, c] = mma_forms(shape(*lhs)?.len(), dim);
            Some(smallvec![a, b, c, a, b])
        }
        _ => None,
    }
}

/// The forms of A, B and the accumulator with which an MMA of this rank computes the part of its result along `dim`.
fn mma_forms(rank: usize, dim: usize) -> [Form; 3] {
    let part = Form::Part(dim);
    match rank - dim {
        1 => [Form::Whole, part, part],
        2 => [part, Form::Whole, part],
        _ => [part; 3],
    }
}

/// The forms of a view and its indices with which an access reads or writes the part of its tile along `dim`. `None` if the view or
/// the index type does not allow the division.
fn access_forms(function: &Function, view: Value, index: &[Value], dim: usize, parts: u32) -> Option<OperandForms> {
    let Type::View(ty) = function.body.ty(view) else { return None };
    let index_form = match ty.kind {
        ViewKind::Partition => Form::PartIndex,
        ViewKind::Gather { sparse_dim } if sparse_dim as usize == dim => Form::Part(0),
        _ => return None,
    };
    let (elem, _) = function.body.ty(index[dim]).tile()?;
    let fits = ty.tile[dim] >= parts && (index_form != Form::PartIndex || elem.bits() >= MIN_INDEX_BITS);
    let index = (0..index.len()).map(|d| if d == dim { index_form } else { Form::Whole });
    fits.then(|| [Form::Part(dim)].into_iter().chain(index).collect())
}

/// [`operand_forms`] for an op of the core dialect whose result has the form `Form::Part(dim)`.
fn core_operand_forms(
    function: &Function,
    core: &Core,
    result: Value,
    parts: u32,
    dim: usize,
    all_operands: impl Fn(Form) -> OperandForms,
) -> Option<OperandForms> {
    let body = &function.body;
    let shape = |value: Value| body.ty(value).tile().map(|(_, shape)| shape);
    match core {
        core if core.is_elementwise() => Some(all_operands(Form::Part(dim))),
        Core::Constant { value: Dense::Splat(_) } | Core::Iota {} => Some(OperandForms::new()),
        Core::Broadcast { x } => {
            let repeated = shape(*x)?.get(dim).is_none_or(|extent| *extent == 1);
            Some(smallvec![if repeated { Form::Whole } else { Form::Part(dim) }])
        }
        Core::Reshape { x } => Some(smallvec![Form::Part(dim_before_reshape(shape(*x)?, shape(result)?, dim, parts)?)]),
        Core::Permute { order, .. } => Some(smallvec![Form::Part(order[dim] as usize)]),
        Core::Cat { dim: along, .. } if *along as usize != dim => Some(all_operands(Form::Part(dim))),
        Core::Extract { x, indices } => {
            let index = |d: usize| if d == dim { Form::PartIndex } else { Form::Whole };
            if shape(*x)?[dim] == shape(result)?[dim] {
                return Some([Form::Part(dim)].into_iter().chain(indices.iter().map(|_| Form::Whole)).collect());
            }
            let fits = body.ty(indices[dim]).tile()?.0.bits() >= MIN_INDEX_BITS;
            fits.then(|| [Form::Whole].into_iter().chain((0..indices.len()).map(index)).collect())
        }
        Core::Insert { x, into, indices } if shape(*x)?[dim] == shape(*into)?[dim] => {
            Some([Form::Part(dim); 2].into_iter().chain(indices.iter().map(|_| Form::Whole)).collect())
        }
        Core::Reinterpret { x } => (shape(*x)?[0] >= parts).then(|| smallvec![Form::Part(0)]),
        Core::MakeView { .. } => Some(all_operands(Form::Whole)),
        _ => None,
    }
}

/// The dimension of a reshape's operand whose parts have the elements of the result's parts along `dim`: in both shapes, the
/// dimensions before it have the same number of elements. `None` if there is no such dimension with at least `parts` elements.
fn dim_before_reshape(from: &Shape, to: &Shape, dim: usize, parts: u32) -> Option<usize> {
    let outer_elements = |shape: &[u32], dim: usize| shape[..dim].iter().map(|extent| u64::from(*extent)).product::<u64>();
    (0..from.len()).find(|d| from[*d] >= parts && outer_elements(from, *d) == outer_elements(to, dim))
}
