//! Proves that the `zero_init` predicate of an accumulator in tensor memory is true at its first MMA. The accumulator then needs no
//! earlier write.

use super::{TileAsOp, Type, Value};
use base::ir::{Block, Def, Op as OpId};
use base::{Body, Region};
use core_dialect::core_ops::Core;
use core_dialect::structured_ops::LoopBounds;
use core_dialect::tile::Dense;
use numerics::arith::{Compare, Predicate};
use std::collections::{BTreeMap, BTreeSet};

/// The proof for the accumulators of one function, and the control flow that it follows.
pub(super) struct ZeroInit<'a, O> {
    /// The function's body.
    body: &'a Body<O, Type>,
    /// The op whose region contains each block.
    parents: BTreeMap<Block, OpId>,
    /// For each `loop`, the values of each `break` that leaves the loop.
    breaks: BTreeMap<OpId, Vec<&'a [Value]>>,
}

impl<'a, O: TileAsOp> ZeroInit<'a, O> {
    pub(super) fn new(body: &'a Body<O, Type>, root: Region) -> ZeroInit<'a, O> {
        let mut zero_init = ZeroInit { body, parents: BTreeMap::new(), breaks: BTreeMap::new() };
        // For each op, the innermost `loop` that contains it. The walk visits outer ops first.
        let mut loop_of: BTreeMap<OpId, OpId> = BTreeMap::new();
        for op in body.walk(root) {
            let kind = zero_init.core(op);
            if let (Some(Core::Break { values }), Some(enclosing_loop)) = (kind, loop_of.get(&op)) {
                zero_init.breaks.entry(*enclosing_loop).or_default().push(values);
            }
            // `break` leaves a `loop`, never a `for`.
            let loop_of_inner_ops =
                if kind.is_some_and(|core| core.is_loop() && !core.is_for()) { Some(op) } else { loop_of.get(&op).copied() };
            for block in body.ops[op].kind.regions().into_iter().flat_map(|region| &body.regions[region].blocks) {
                zero_init.parents.insert(*block, op);
                loop_of.extend(
                    loop_of_inner_ops
                        .iter()
                        .flat_map(|inner_loop| body.blocks[*block].ops.iter().map(|inner| (*inner, *inner_loop))),
                );
            }
        }
        zero_init
    }

    /// Returns whether a predicate is proved to be true at its first use. The analysis accepts the constant true, a test for the
    /// first iteration of a loop, and values that control flow forwards from these two.
    pub(super) fn is_true_at_first_use(&self, value: Value) -> bool {
        let (mut visited, mut worklist) = (BTreeSet::new(), vec![value]);
        while let Some(value) = worklist.pop() {
            if !visited.insert(value) {
                continue;
            }
            let Some(sources) = self.predicates_to_prove(value) else { return false };
            worklist.extend(sources);
        }
        true
    }

    /// The predicates from which the proof for `value` continues. If all of them are true at their first use, `value` is true at
    /// its first use. Empty if `value` is certainly true there. `None` if `value` may be false.
    fn predicates_to_prove(&self, value: Value) -> Option<Vec<Value>> {
        let body = self.body;
        match body.values[value].def {
            Def::Argument { block, index } => {
                let index = index as usize;
                let loop_op = self.core(*self.parents.get(&block)?)?.as_loop()?;
                Some(vec![*loop_op.init.get(index.checked_sub(loop_op.counter_args())?)?])
            }
            Def::Result { op, index } => {
                let index = index as usize;
                match self.core(op)? {
                    Core::Constant { value: Dense::Splat(1..) } => Some(Vec::new()),
                    Core::Compare { kind: Compare::Int { predicate: Predicate::Equal, .. }, lhs, rhs } => {
                        (self.is_loop_index_from(*lhs, *rhs) || self.is_loop_index_from(*rhs, *lhs)).then(Vec::new)
                    }
                    Core::Select { yes, no, .. } => Some(vec![*yes, *no]),
                    Core::Assume { value, .. } => Some(vec![*value]),
                    core if core.is_for() => Some(vec![*core.as_loop()?.init.get(index)?]),
                    core if core.is_loop() => {
                        let break_values = self.breaks.get(&op).into_iter().flatten();
                        Some(break_values.filter_map(|values| values.get(index)).copied().collect())
                    }
                    core => {
                        let regions = core.as_if()?.regions();
                        Some(regions.map(|region| self.yielded_value(region, index)).into_iter().flatten().collect())
                    }
                }
            }
        }
    }

    /// The value that a region of an `if` yields as result `index`. `None` if the region does not end in a `yield`.
    fn yielded_value(&self, region: Region, index: usize) -> Option<Value> {
        let Core::Yield { values } = self.core(self.body.terminator(self.body.block_of(region))?)? else { return None };
        values.get(index).copied()
    }

    /// Returns whether `counter` is the loop counter of a `for` whose lower bound equals `number`.
    fn is_loop_index_from(&self, counter: Value, number: Value) -> bool {
        let Def::Argument { block, index: 0 } = self.body.values[counter].def else { return false };
        let bounds = self.parents.get(&block).and_then(|op| self.core(*op)).and_then(Core::loop_bounds);
        let Some(LoopBounds { lower, .. }) = bounds else { return false };
        lower == number || self.constant(lower).is_some_and(|lower| self.constant(number) == Some(lower))
    }

    /// The bits of a constant whose elements are all equal; `None` for other values.
    fn constant(&self, value: Value) -> Option<u64> {
        match self.core(self.body.defining_op(value)?)? {
            Core::Constant { value: Dense::Splat(bits) } => Some(*bits),
            _ => None,
        }
    }

    fn core(&self, op: OpId) -> Option<&'a Core> {
        self.body.ops[op].kind.core()
    }
}
