//! Checks that no token orders an access of one CTA after an access of another CTA: CTAs of a cluster do not wait for each other.
//!
//! An ordered pair with a write is allowed if each rank accesses only its own part of memory. Either both accesses use the same
//! pointers, or views of one object with equal tile extents that are divided along the same dimension.

use super::value_forms::{Flow, Form, Forms};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::tile::ViewKind;
use std::collections::{BTreeMap, BTreeSet};
use tileaa::{Function, Op, Type};

/// The first pair of accesses that tokens order and that different CTAs of a cluster could execute in another order.
pub(super) fn violated_pair(forms: &Forms<'_>, flow: &Flow) -> Option<(OpId, OpId)> {
    let function = forms.function;
    let preceding = preceding_accesses(function, flow);
    let none = BTreeSet::new();
    for (op, token) in accesses(function) {
        for &earlier in token.and_then(|token| preceding.get(&token)).unwrap_or(&none) {
            let writes = [earlier, op].into_iter().any(|op| writes(function, op));
            if writes && !(part(forms, op).is_some() && part(forms, op) == part(forms, earlier)) {
                return Some((earlier, op));
            }
        }
    }
    None
}

pub(super) fn writes(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind, Op::StoreView { .. } | Op::Store { .. })
}

/// The accesses, with their input tokens.
pub(super) fn accesses(function: &Function) -> Vec<(OpId, Option<Value>)> {
    let access = |op: OpId| match function.body.ops[op].kind {
        Op::LoadView { token, .. } | Op::StoreView { token, .. } | Op::Load { token, .. } | Op::Store { token, .. } => {
            Some((op, token))
        }
        _ => None,
    };
    function.body.walk(function.region).into_iter().filter_map(access).collect()
}

/// The accesses that each token orders before its users.
fn preceding_accesses(function: &Function, flow: &Flow) -> BTreeMap<Value, BTreeSet<OpId>> {
    let body = &function.body;
    let is_token = |value: &Value| *body.ty(*value) == Type::Token;
    let mut preceding: BTreeMap<Value, BTreeSet<OpId>> = BTreeMap::new();
    let mut edges: Vec<(Value, Value)> = Vec::new();
    for op in body.walk(function.region) {
        let node = &body.ops[op];
        if !node.kind.regions().is_empty() {
            continue;
        }
        for &token in node.results.iter().filter(|value| is_token(value)) {
            preceding.entry(token).or_default().extend((!matches!(node.kind, Op::Core(_))).then_some(op));
            edges.extend(node.kind.operands().into_iter().filter(is_token).map(|from| (from, token)));
        }
    }
    let carried = flow.sources.iter().filter(|(value, _)| is_token(value));
    edges.extend(carried.flat_map(|(value, from)| from.iter().map(|from| (*from, *value))));
    let mut changed = true;
    while changed {
        changed = false;
        for (from, to) in &edges {
            let more = preceding.get(from).cloned().unwrap_or_default();
            let known = preceding.entry(*to).or_default();
            let count = known.len();
            known.extend(more);
            changed |= known.len() > count;
        }
    }
    preceding
}

/// The part of memory that only one rank accesses.
#[derive(PartialEq)]
enum Part {
    /// Runs of this many elements of an object along a dimension, one run in turn for each rank.
    Runs(Value, u32, u32),
    /// A part of these pointers along a dimension.
    Pointers(Value, usize),
}

fn part(forms: &Forms<'_>, op: OpId) -> Option<Part> {
    let body = &forms.function.body;
    let form = match forms.stores.get(&op) {
        Some(form) => *form,
        None => *forms.of(body.result(op)).iter().next().filter(|_| forms.of(body.result(op)).len() == 1)?,
    };
    let Form::Part(dim) = form else { return None };
    match &body.ops[op].kind {
        Op::LoadView { view, .. } | Op::StoreView { view, .. } => {
            let Type::View(ty) = body.ty(*view) else { return None };
            let Op::Core(Core::MakeView { memref }) = &body.ops[body.defining_op(*view)?].kind else { return None };
            let is_partition = ty.kind == ViewKind::Partition;
            is_partition.then(|| Part::Runs(*memref, ty.dim_map[dim], ty.tile[dim] / forms.parts))
        }
        // If the entry block defines the pointers, they are the same in every execution.
        Op::Load { ptr, .. } | Op::Store { ptr, .. } => {
            let in_entry_block = body.blocks[forms.function.entry()].ops.contains(&body.defining_op(*ptr)?);
            in_entry_block.then_some(Part::Pointers(*ptr, dim))
        }
        _ => None,
    }
}
