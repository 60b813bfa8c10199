//! Deferred edits of a function: passes record replacements and insertions while they read the function, and [`Edit::finish`]
//! applies them.
//!
//! A pass visits ops in program order. Uses are forwarded through a table, and new ops are queued at their insertion point, so ids
//! stay valid during the pass. See also: MLIR's `PatternRewriter`.

use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use std::collections::BTreeMap;
use tileaa::{Function, Op, Type};

/// A function and the edits that a pass has recorded for it.
pub(super) struct Edit<'a> {
    pub(super) function: &'a mut Function,
    /// By value id, the replacement of the value, or the value itself if it has none.
    replacements: Vec<Value>,
    /// The new ops to insert, by the op before which they go.
    inserted: BTreeMap<OpId, Vec<OpId>>,
    /// The ops to remove. If a removed op has a block here, the ops of this block, without its terminator, replace the op.
    removed: BTreeMap<OpId, Option<Block>>,
    /// The use count of each value at the start of the pass.
    use_counts: Vec<u32>,
    /// The number of recorded edits.
    pub(super) changes: usize,
}

impl<'a> Edit<'a> {
    pub(super) fn new(function: &'a mut Function) -> Edit<'a> {
        let replacements = function.body.values.ids().collect();
        let use_counts = function.body.use_counts(function.region);
        Edit { function, replacements, inserted: BTreeMap::new(), removed: BTreeMap::new(), use_counts, changes: 0 }
    }

    /// The ops in program order.
    pub(super) fn ops_in_order(&self) -> Vec<OpId> {
        self.function.body.walk(self.function.region)
    }

    /// The current replacement of a value.
    pub(super) fn resolve(&self, mut value: Value) -> Value {
        while self.replacements[value.0 as usize] != value {
            value = self.replacements[value.0 as usize];
        }
        value
    }

    /// The op with its current operands.
    pub(super) fn resolved_op(&self, op: OpId) -> Op {
        let mut kind = self.function.body.ops[op].kind.clone();
        kind.for_each_operand_mut(&mut |value| *value = self.resolve(*value));
        kind
    }

    /// The type of a value.
    pub(super) fn ty(&self, value: Value) -> &Type {
        self.function.body.ty(value)
    }

    /// The core op that defines a value, with its current operands. `None` for block arguments and results of other ops.
    pub(super) fn defining_core(&self, value: Value) -> Option<Core> {
        match self.resolved_op(self.function.body.defining_op(value)?) {
            Op::Core(core) => Some(core),
            _ => None,
        }
    }

    /// The elements of a constant, or `None` if no constant defines the value.
    pub(super) fn constant_data(&self, value: Value) -> Option<&Dense> {
        match &self.function.body.ops[self.function.body.defining_op(value)?].kind {
            Op::Core(Core::Constant { value }) => Some(value),
            _ => None,
        }
    }

    /// The bits of every element of a splat constant, or `None` if the value is not a splat constant.
    pub(super) fn splat_bits(&self, value: Value) -> Option<u64> {
        match self.constant_data(value)? {
            Dense::Splat(bits) => Some(*bits),
            Dense::Elements(_) => None,
        }
    }

    /// Returns whether a value had uses at the start of the pass. Values that the pass creates count as used.
    pub(super) fn is_used(&self, value: Value) -> bool {
        self.use_counts.get(value.0 as usize).is_none_or(|count| *count > 0)
    }

    /// Replaces all uses of `from` by `to`.
    pub(super) fn replace_uses(&mut self, from: Value, to: Value) {
        let to = self.resolve(to);
        if from != to {
            self.replacements[from.0 as usize] = to;
            self.changes += 1;
        }
    }

    /// Creates an op with one result before the op `before`, with the location of `before`. Returns the result.
    pub(super) fn insert(&mut self, before: OpId, kind: impl Into<Op>, ty: Type) -> Value {
        let loc = self.function.body.ops[before].loc;
        let op = self.function.body.new_op(kind.into(), [ty], loc);
        self.inserted.entry(before).or_default().push(op);
        let value = self.function.body.result(op);
        self.replacements.push(value);
        self.changes += 1;
        value
    }

    /// Creates an op without results before the op `before`, with the location of `before`.
    pub(super) fn insert_effect(&mut self, before: OpId, kind: impl Into<Op>) {
        let loc = self.function.body.ops[before].loc;
        let op = self.function.body.new_op(kind.into(), [], loc);
        self.inserted.entry(before).or_default().push(op);
        self.changes += 1;
    }

    /// Replaces an op in place by another kind of op with the same results.
    pub(super) fn replace_op(&mut self, op: OpId, kind: impl Into<Op>) {
        self.function.body.ops[op].kind = kind.into();
        self.changes += 1;
    }

    /// Removes an op. Requires that its results are unused, or that [`Edit::replace_uses`] has replaced their uses.
    pub(super) fn remove(&mut self, op: OpId) {
        self.removed.insert(op, None);
        self.changes += 1;
    }

    /// Replaces an op by the ops of one of its blocks, without the terminator.
    pub(super) fn inline_block(&mut self, op: OpId, block: Block) {
        self.removed.insert(op, Some(block));
        self.changes += 1;
    }

    /// Applies the edits and returns their number.
    pub(super) fn finish(self) -> usize {
        if self.changes == 0 {
            return 0;
        }
        let Edit { function, mut replacements, inserted, removed, changes, .. } = self;
        for value in 0..replacements.len() {
            // Chains of replacements can be long. Each resolved entry shortens the chains that lead through it.
            let mut replacement = replacements[value];
            while replacements[replacement.0 as usize] != replacement {
                replacement = replacements[replacement.0 as usize];
            }
            replacements[value] = replacement;
        }
        for node in function.body.ops.values_mut() {
            node.kind.for_each_operand_mut(&mut |value| *value = replacements[value.0 as usize]);
        }
        for block in function.body.blocks.ids() {
            let mut ops = Vec::new();
            let mut stack: Vec<OpId> = std::mem::take(&mut function.body.blocks[block].ops);
            stack.reverse();
            while let Some(op) = stack.pop() {
                ops.extend(inserted.get(&op).into_iter().flatten());
                match removed.get(&op) {
                    None => ops.push(op),
                    Some(None) => {}
                    Some(Some(inner)) => {
                        let inner = std::mem::take(&mut function.body.blocks[*inner].ops);
                        stack.extend(inner.iter().rev().skip(1));
                    }
                }
            }
            function.body.blocks[block].ops = ops;
        }
        *function = base::text::compact(function);
        changes
    }
}
