//! Computes the slice of a function that a warp role executes: its own ops, the control flow around them, and everything they
//! depend on.

use super::op_roles::{RoleKind, Roles};
use crate::feature_choice::Reason;
use base::Value;
use base::ir::{Def, Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::region_nesting::RegionNesting;
use sched::Function;
use std::collections::BTreeSet;
use tileas::Type;

/// The ops that a role executes, and the values that they need.
pub(super) struct RoleSlice {
    role: RoleKind,
    ops: BTreeSet<OpId>,
    values: BTreeSet<Value>,
}

impl RoleSlice {
    /// Computes the slice of a role, or returns the reason why the role cannot be separated from other roles.
    pub(super) fn compute(roles: &Roles<'_>, role: RoleKind) -> Result<RoleSlice, Reason> {
        let function = roles.function();
        let mut marker = SliceMarker {
            function,
            roles,
            nesting: RegionNesting::analyse(&function.body, function.region),
            slice: RoleSlice { role, ops: BTreeSet::new(), values: BTreeSet::new() },
            unprocessed_values: Vec::new(),
            failure: None,
        };
        for op in function.body.walk(function.region) {
            if roles.is_owned_by(op, role) {
                marker.mark_op(op);
            }
        }
        marker.finish()
    }

    /// The role that executes the slice.
    pub(super) fn role(&self) -> RoleKind {
        self.role
    }
    /// The ops that the role executes.
    pub(super) fn ops(&self) -> impl Iterator<Item = OpId> + '_ {
        self.ops.iter().copied()
    }
    /// Returns whether the role executes an op.
    pub(super) fn executes(&self, op: OpId) -> bool {
        self.ops.contains(&op)
    }
    /// Returns whether an op that the role executes needs a value.
    pub(super) fn needs_value(&self, value: Value) -> bool {
        self.values.contains(&value)
    }

    /// Indices into `values` of the values that the role needs.
    pub(super) fn needed_indices(&self, values: &[Value]) -> Vec<usize> {
        (0..values.len()).filter(|i| self.needs_value(values[*i])).collect()
    }
}

/// Marks the ops and values of a slice.
struct SliceMarker<'a> {
    function: &'a Function,
    roles: &'a Roles<'a>,
    nesting: RegionNesting,
    slice: RoleSlice,
    /// Marked values whose defining op has not been marked yet.
    unprocessed_values: Vec<Value>,
    /// The reason why the role cannot be separated from other roles, if one was found.
    failure: Option<Reason>,
}

impl SliceMarker<'_> {
    /// Marks everything on which the marked values depend. Returns the slice, or the reason why the role cannot be separated.
    fn finish(mut self) -> Result<RoleSlice, Reason> {
        while let Some(value) = self.unprocessed_values.pop() {
            self.mark_definition(value);
        }
        self.failure.map_or(Ok(self.slice), Err)
    }

    /// Marks a value, and queues its definition.
    fn mark_value(&mut self, value: Value) {
        if self.slice.values.insert(value) {
            self.unprocessed_values.push(value);
        }
    }

    /// Marks an op and the control-flow ops that enclose it.
    fn mark_op(&mut self, op: OpId) {
        let mut at = Some(op);
        while let Some(op) = at.filter(|op| !self.slice.ops.contains(op)) {
            self.slice.ops.insert(op);
            self.mark_needs(op);
            at = self.nesting.parent(op);
        }
    }

    /// Marks the values and ops that an op needs, regardless of which of its results are used.
    fn mark_needs(&mut self, op: OpId) {
        let body = &self.function.body;
        let kind = &body.ops[op].kind;
        match kind.core() {
            Some(core) if core.is_structured() => core.conditions().into_iter().for_each(|value| self.mark_value(value)),
            _ => {
                // The combining region of a reduction may use values defined outside it.
                let inner: Vec<OpId> = kind.regions().into_iter().flat_map(|region| body.walk(region)).collect();
                let operands = inner.into_iter().chain([op]).flat_map(|op| body.ops[op].kind.operands());
                operands.collect::<Vec<_>>().into_iter().for_each(|value| self.mark_value(value));
                self.slice.values.extend(body.ops[op].results.iter().copied());
            }
        }
        if kind.core().is_some_and(Core::is_loop) {
            // The conditions of the ops that leave the loop decide whether another iteration follows, so they are needed too.
            let ends = self.nesting.terminators(op).to_vec();
            let parents: Vec<OpId> = ends.into_iter().filter_map(|end| self.nesting.parent(end)).collect();
            parents.into_iter().for_each(|parent| self.mark_op(parent));
        }
    }

    /// Marks the op that defines a value. For an argument or a result of a control-flow op, also marks the forwarded values.
    fn mark_definition(&mut self, value: Value) {
        let body = &self.function.body;
        match body.values[value].def {
            Def::Result { op, index } => {
                let kind = &body.ops[op].kind;
                let is_foreign = self.roles.is_foreign(op, self.slice.role);
                if is_foreign && *body.ty(value) == Type::Token {
                    self.failure = Some("a token orders other ops after a copy".into());
                    return;
                }
                self.mark_op(op);
                let core = kind.core();
                if core.is_some_and(Core::is_for) {
                    self.mark_carried(op, index as usize);
                } else if core.is_some_and(Core::is_structured) {
                    // A `loop` returns the values of a `break`, an `if` those of a `yield`.
                    self.mark_forwarded(op, index as usize, |core| matches!(core, Core::Break { .. } | Core::Yield { .. }));
                }
            }
            Def::Argument { block, index } => {
                let Some(op) = self.nesting.enclosing_op(block) else { return };
                self.mark_op(op);
                let loop_op = body.ops[op].kind.core().and_then(Core::as_loop);
                if let Some(carried_index) = loop_op.and_then(|loop_op| (index as usize).checked_sub(loop_op.counter_args())) {
                    self.mark_carried(op, carried_index);
                }
            }
        }
    }

    /// Marks the loop-carried value at an index: its initial value, and the values that iterations forward to the next one.
    fn mark_carried(&mut self, op: OpId, index: usize) {
        let body = &self.function.body;
        let loop_op = body.ops[op].kind.core().and_then(Core::as_loop).expect("only loops carry values");
        self.mark_value(loop_op.init[index]);
        loop_op.destinations(body, op).into_iter().for_each(|values| self.mark_value(values[index]));
        self.mark_forwarded(op, index, |core| matches!(core, Core::Continue { .. }));
    }

    /// Marks the values that terminators of a control-flow op forward at an index. `is_terminator_to_mark` selects the
    /// terminators.
    fn mark_forwarded(&mut self, op: OpId, index: usize, is_terminator_to_mark: impl Fn(&Core) -> bool) {
        let ends = self.nesting.terminators(op).to_vec();
        for end in ends {
            let kind = &self.function.body.ops[end].kind;
            if kind.core().is_some_and(&is_terminator_to_mark) {
                self.mark_value(kind.operands()[index]);
            }
        }
    }
}
