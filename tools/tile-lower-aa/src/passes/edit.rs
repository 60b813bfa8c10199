//! Editing a function: what passes decide while they read it, carried out at the end.
//!
//! A pass goes through the ops in program order. Uses are forwarded through a table instead of being rewritten at once, and new
//! ops are noted beside the op they go before, so ids stay valid while a pass runs.

use base::Value;
use base::ir::{Block, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use std::collections::BTreeMap;
use tileaa::{Function, Op, Type};

pub(super) struct Edit<'a> {
    pub(super) function: &'a mut Function,
    /// What each value is replaced by; itself if it is not.
    forward: Vec<Value>,
    before: BTreeMap<OpId, Vec<OpId>>,
    removed: BTreeMap<OpId, Option<Block>>,
    /// How often each value was used when the editing began.
    uses: Vec<u32>,
    pub(super) changes: usize,
}

impl<'a> Edit<'a> {
    pub(super) fn new(function: &'a mut Function) -> Edit<'a> {
        let forward = function.body.values.ids().collect();
        let uses = function.body.use_counts(function.region);
        Edit { function, forward, before: BTreeMap::new(), removed: BTreeMap::new(), uses, changes: 0 }
    }

    /// The ops in program order.
    pub(super) fn order(&self) -> Vec<OpId> {
        self.function.body.walk(self.function.region)
    }

    /// What stands for a value now.
    pub(super) fn resolve(&self, mut value: Value) -> Value {
        while self.forward[value.0 as usize] != value {
            value = self.forward[value.0 as usize];
        }
        value
    }

    /// The op with its operands as they now are.
    pub(super) fn kind(&self, op: OpId) -> Op {
        let mut kind = self.function.body.ops[op].kind.clone();
        kind.for_each_operand_mut(&mut |value| *value = self.resolve(*value));
        kind
    }

    pub(super) fn ty(&self, value: Value) -> &Type {
        self.function.body.ty(value)
    }

    /// The shared op that made a value, with its operands as they now are.
    pub(super) fn made_by(&self, value: Value) -> Option<Core> {
        match self.kind(self.function.body.defining_op(value)?) {
            Op::Core(core) => Some(core),
            _ => None,
        }
    }

    /// The data of a value that is a constant.
    pub(super) fn constant(&self, value: Value) -> Option<&Dense> {
        match &self.function.body.ops[self.function.body.defining_op(value)?].kind {
            Op::Core(Core::Constant { value }) => Some(value),
            _ => None,
        }
    }

    /// The one number that all elements of a value are.
    pub(super) fn splat(&self, value: Value) -> Option<u64> {
        match self.constant(value)? {
            Dense::Splat(bits) => Some(*bits),
            Dense::Elements(_) => None,
        }
    }

    /// Whether anything used a value when the editing began.
    pub(super) fn is_used(&self, value: Value) -> bool {
        self.uses.get(value.0 as usize).is_none_or(|uses| *uses > 0)
    }

    /// Uses of a value become uses of another.
    pub(super) fn forward(&mut self, from: Value, to: Value) {
        let to = self.resolve(to);
        if from != to {
            self.forward[from.0 as usize] = to;
            self.changes += 1;
        }
    }

    /// Makes an op that will stand before another, with its location.
    pub(super) fn insert(&mut self, before: OpId, kind: impl Into<Op>, ty: Type) -> Value {
        let loc = self.function.body.ops[before].loc;
        let op = self.function.body.new_op(kind.into(), [ty], loc);
        self.before.entry(before).or_default().push(op);
        let value = self.function.body.result(op);
        self.forward.push(value);
        self.changes += 1;
        value
    }

    /// Makes an op without a result that will stand before another, with its location.
    pub(super) fn insert_effect(&mut self, before: OpId, kind: impl Into<Op>) {
        let loc = self.function.body.ops[before].loc;
        let op = self.function.body.new_op(kind.into(), [], loc);
        self.before.entry(before).or_default().push(op);
        self.changes += 1;
    }

    pub(super) fn become_op(&mut self, op: OpId, kind: impl Into<Op>) {
        self.function.body.ops[op].kind = kind.into();
        self.changes += 1;
    }

    /// Takes an op out; its results must have been forwarded or be unused.
    pub(super) fn remove(&mut self, op: OpId) {
        self.removed.insert(op, None);
        self.changes += 1;
    }

    /// Puts the ops of a block, but for its terminator, where the op around it was.
    pub(super) fn inline(&mut self, op: OpId, block: Block) {
        self.removed.insert(op, Some(block));
        self.changes += 1;
    }

    /// Carries out what was decided.
    pub(super) fn finish(self) -> usize {
        if self.changes == 0 {
            return 0;
        }
        let Edit { function, mut forward, before, removed, changes, .. } = self;
        for value in 0..forward.len() {
            // Chains are as long as the folds that met; resolving in order keeps each look short.
            let mut end = forward[value];
            while forward[end.0 as usize] != end {
                end = forward[end.0 as usize];
            }
            forward[value] = end;
        }
        for node in function.body.ops.values_mut() {
            node.kind.for_each_operand_mut(&mut |value| *value = forward[value.0 as usize]);
        }
        for block in function.body.blocks.ids() {
            let mut ops = Vec::new();
            let mut stack: Vec<OpId> = std::mem::take(&mut function.body.blocks[block].ops);
            stack.reverse();
            while let Some(op) = stack.pop() {
                ops.extend(before.get(&op).into_iter().flatten());
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
