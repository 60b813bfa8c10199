//! Purpose: remove dead ops, and dead operands and results of branches and loops.
//! Requires: `.aa`.
//! Establishes: every op has an effect or a live result. Liveness propagates backwards from effects. A loop-carried value is live
//! only if its result is used, or a live op in the body uses the value. That the next iteration receives the value does not count.
//! Preserves: effects.
//! See also: LLVM's `ADCE` and MLIR's `RemoveDeadValues`.

use base::Value;
use base::ir::{Def, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::memory::MemoryOrdering;
use core_dialect::rules::CoreDialectOp;
use core_dialect::rules::OpParents;
use std::collections::BTreeMap;
use tileaa::{Function, Op};

/// Runs the pass on a function. Returns the number of removed ops, operands and results.
pub(super) fn run(function: &mut Function) -> usize {
    let mut liveness = Liveness::new(function);
    liveness.propagate();
    let Liveness { ops, values, nesting, .. } = liveness;
    let mut removed = drop_dead_slots(function, &nesting, &values);
    for block in function.body.blocks.ids() {
        let block_ops = &mut function.body.blocks[block].ops;
        let old_count = block_ops.len();
        block_ops.retain(|op| ops[op.0 as usize]);
        removed += old_count - block_ops.len();
    }
    if removed > 0 {
        *function = base::text::compact(function);
    }
    removed
}

/// Whether an op is live even if its results are unused.
fn has_effect(kind: &Op) -> bool {
    match kind {
        // A weak load orders no other access, so it is dead if its results are unused.
        Op::Load { order, .. } | Op::LoadView { order, .. } => order.semantics != MemoryOrdering::Weak,
        Op::Core(Core::Alloca { .. }) => false,
        Op::Core(core) if core.is_if() || core.is_for() => false,
        // Terminators forward values, each of which is live or dead on its own.
        Op::Core(Core::Yield { .. } | Core::Continue { .. }) => false,
        kind => !kind.is_pure(),
    }
}

/// An op or value that the analysis has found live.
enum WorkItem {
    Op(OpId),
    Value(Value),
}

/// The liveness analysis. `ops` and `values` are the live ops and values, by id.
struct Liveness<'a> {
    function: &'a Function,
    /// The op that contains each op, and the op to which each terminator forwards values.
    nesting: OpParents,
    /// By op id, whether the op is live.
    ops: Vec<bool>,
    /// By value id, whether the value is live.
    values: Vec<bool>,
    /// The terminators that forward values to each op.
    terminators: Vec<Vec<OpId>>,
    /// The live ops and values whose sources are not marked yet.
    work: Vec<WorkItem>,
}

impl<'a> Liveness<'a> {
    fn new(function: &'a Function) -> Liveness<'a> {
        let nesting = OpParents::analyse(&function.body, function.region);
        let mut terminators = vec![Vec::new(); function.body.ops.len()];
        for op in function.body.walk(function.region) {
            nesting.target[op.0 as usize].into_iter().for_each(|target| terminators[target.0 as usize].push(op));
        }
        let (ops, values) = (vec![false; function.body.ops.len()], vec![false; function.body.values.len()]);
        Liveness { function, nesting, ops, values, terminators, work: Vec::new() }
    }

    /// Marks everything that ops with effects need.
    fn propagate(&mut self) {
        let order = self.function.body.walk(self.function.region);
        let effects = order.into_iter().filter(|op| has_effect(&self.function.body.ops[*op].kind));
        self.work = effects.map(WorkItem::Op).collect();
        while let Some(item) = self.work.pop() {
            match item {
                WorkItem::Op(op) if !std::mem::replace(&mut self.ops[op.0 as usize], true) => self.visit_op(op),
                WorkItem::Value(value) if !std::mem::replace(&mut self.values[value.0 as usize], true) => self.visit_value(value),
                _ => {}
            }
        }
    }

    /// Adds live values to the worklist.
    fn mark_values(&mut self, values: &[Value]) {
        self.work.extend(values.iter().map(|value| WorkItem::Value(*value)));
    }

    /// Marks the ops and values that a live op needs.
    fn visit_op(&mut self, op: OpId) {
        self.work.extend(self.nesting.parent[op.0 as usize].map(WorkItem::Op));
        self.work.extend(self.terminators[op.0 as usize].iter().map(|terminator| WorkItem::Op(*terminator)));
        let target = self.nesting.target[op.0 as usize].map(|target| &self.function.body.ops[target].kind);
        match &self.function.body.ops[op].kind {
            // Values that branches and loops forward are live or dead individually.
            Op::Core(core) if core.is_loop() => self.mark_values(&core.conditions()),
            _ if matches!(target, Some(Op::Core(_))) => {}
            kind => self.mark_values(&kind.operands()),
        }
    }

    /// Marks the ops and values from which a live value comes.
    fn visit_value(&mut self, value: Value) {
        match self.function.body.values[value].def {
            Def::Result { op, index } => {
                self.work.push(WorkItem::Op(op));
                self.mark_result_sources(op, index as usize);
            }
            Def::Argument { block, index } => {
                let Some(&first) = self.function.body.blocks[block].ops.first() else { return };
                let Some(owner) = self.nesting.parent[first.0 as usize] else { return };
                self.work.push(WorkItem::Op(owner));
                self.mark_argument_sources(owner, index as usize);
            }
        }
    }

    /// Marks the values that flow into a result of a branch or loop.
    fn mark_result_sources(&mut self, op: OpId, index: usize) {
        let function = self.function;
        let Some(core) = function.body.ops[op].kind.core().filter(|core| core.is_structured()) else { return };
        let loop_op = core.as_loop();
        if let Some(loop_op) = loop_op.filter(|loop_op| loop_op.bounds.is_some()) {
            self.mark_values(&[loop_op.init[index]]);
        }
        let breaks_only = loop_op.is_some_and(|loop_op| loop_op.bounds.is_none());
        self.mark_forwarded(op, index, |kind| !breaks_only || matches!(kind, Op::Core(Core::Break { .. })));
    }

    /// Marks the values that flow into a loop-carried value.
    fn mark_argument_sources(&mut self, op: OpId, index: usize) {
        let function = self.function;
        let Some(loop_op) = function.body.ops[op].kind.core().and_then(Core::as_loop) else { return };
        match loop_op.bounds {
            Some(_) if index > 0 => self.mark_result_sources(op, index - 1),
            Some(_) => {}
            None => {
                self.mark_values(&[loop_op.init[index]]);
                self.mark_forwarded(op, index, |kind| matches!(kind, Op::Core(Core::Continue { .. })));
            }
        }
    }

    /// Marks the values with index `index` that the terminators of an op forward. `is_source` selects the terminators.
    fn mark_forwarded(&mut self, op: OpId, index: usize, is_source: impl Fn(&Op) -> bool) {
        let function = self.function;
        for terminator in self.terminators[op.0 as usize].clone() {
            let kind = &function.body.ops[terminator].kind;
            if let Some(values) = kind.forwarded_values().filter(|_| is_source(kind)) {
                self.mark_values(&[values[index]]);
            }
        }
    }
}

/// Whether each loop-carried argument and each result of a branch or loop is live. A *slot* is one such argument or result.
struct LiveSlots {
    /// Whether each loop-carried argument is live; empty for a branch.
    args: Vec<bool>,
    /// Whether each result is live.
    results: Vec<bool>,
}

/// Removes dead arguments and results of branches and loops, and the operands that flow into them. Returns the number of removed
/// slots.
fn drop_dead_slots(function: &mut Function, nesting: &OpParents, live_values: &[bool]) -> usize {
    let order = function.body.walk(function.region);
    let slots_by_op: BTreeMap<OpId, LiveSlots> =
        order.iter().filter_map(|op| Some((*op, live_slots(function, *op, live_values)?))).collect();
    let dropped_count = slots_by_op.values().map(|live| live.args.iter().chain(&live.results).filter(|live| !**live).count()).sum();
    for op in order {
        let target_slots = nesting.target[op.0 as usize].and_then(|target| slots_by_op.get(&target));
        let own_slots = slots_by_op.get(&op);
        let body = &mut function.body;
        match (&mut body.ops[op].kind, target_slots) {
            (Op::Core(Core::Yield { values } | Core::Break { values }), Some(live)) => retain_flagged(values, &live.results),
            (Op::Core(Core::Continue { values }), Some(live)) => retain_flagged(values, &live.args),
            _ => {}
        }
        if let Some(live) = own_slots {
            let loop_op = body.ops[op].kind.core().and_then(Core::as_loop);
            if let Some((block, counter_args)) = loop_op.map(|loop_op| (loop_op.block(body), loop_op.counter_args())) {
                let mut args = body.blocks[block].args.split_off(counter_args);
                retain_flagged(&mut args, &live.args);
                body.blocks[block].args.extend(args);
            }
            if let Some(init) = body.ops[op].kind.core_mut().and_then(Core::init_mut) {
                retain_flagged(init, &live.args);
            }
            let mut results = body.ops[op].results.to_vec();
            retain_flagged(&mut results, &live.results);
            body.ops[op].results = results.into_iter().collect();
        }
    }
    dropped_count
}

/// The live slots of a branch or loop. `None` for other ops.
fn live_slots(function: &Function, op: OpId, live_values: &[bool]) -> Option<LiveSlots> {
    let body = &function.body;
    let flags_of = |values: &[Value]| -> Vec<bool> { values.iter().map(|value| live_values[value.0 as usize]).collect() };
    let results = flags_of(&body.ops[op].results);
    let core = body.ops[op].kind.core().filter(|core| core.is_structured())?;
    let args = core.as_loop().map(|loop_op| flags_of(loop_op.carried_args(body))).unwrap_or_default();
    if core.is_for() {
        // The results of a `for` are its loop-carried values.
        let live: Vec<bool> = args.iter().zip(&results).map(|(arg, result)| *arg || *result).collect();
        return Some(LiveSlots { args: live.clone(), results: live });
    }
    Some(LiveSlots { args, results })
}

/// Removes the values whose flag is false.
fn retain_flagged(values: &mut Vec<Value>, flags: &[bool]) {
    let mut flags = flags.iter();
    values.retain(|_| *flags.next().expect("each value has a flag"));
}
