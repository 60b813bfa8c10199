//! Checks that no token orders an access of one CTA after an access of another CTA, unless both are loads. Reason: CTAs of a
//! cluster do not wait for each other.
//!
//! Tokens may order two accesses, one of them a store, if each rank accesses only its own part of memory. For this, both accesses
//! use the same pointers, or they use views of one memref. The views have equal tile extents and are divided along the same
//! dimension.

use super::value_forms::{Flow, Form, Forms};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::tile::ViewKind;
use std::collections::{BTreeMap, BTreeSet};
use tileaa::{Function, Op, Type};

/// The first pair of accesses that tokens order and that different CTAs of a cluster could execute in the opposite order. `None` if
/// the division preserves the order of all pairs.
pub(super) fn violated_pair(forms: &Forms<'_>, flow: &Flow) -> Option<(OpId, OpId)> {
    let function = forms.function;
    let preceding = preceding_accesses(function, flow);
    let no_accesses = BTreeSet::new();
    for (op, token) in loads_and_stores(function) {
        for &earlier in token.and_then(|token| preceding.get(&token)).unwrap_or(&no_accesses) {
            let has_store = [earlier, op].into_iter().any(|op| is_store(function, op));
            if has_store && !(accessed_part(forms, op).is_some() && accessed_part(forms, op) == accessed_part(forms, earlier)) {
                return Some((earlier, op));
            }
        }
    }
    None
}

/// Whether an op is a store through a view or through pointers.
pub(super) fn is_store(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind, Op::StoreView { .. } | Op::Store { .. })
}

/// The loads and stores of a function in program order, with their operand tokens.
pub(super) fn loads_and_stores(function: &Function) -> Vec<(OpId, Option<Value>)> {
    let access = |op: OpId| match function.body.ops[op].kind {
        Op::LoadView { token, .. } | Op::StoreView { token, .. } | Op::Load { token, .. } | Op::Store { token, .. } => {
            Some((op, token))
        }
        _ => None,
    };
    function.body.walk(function.region).into_iter().filter_map(access).collect()
}

/// For each token, the accesses that must execute before the users of the token.
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
    let forwarded = flow.sources.iter().filter(|(value, _)| is_token(value));
    edges.extend(forwarded.flat_map(|(value, from)| from.iter().map(|from| (*from, *value))));
    let mut changed = true;
    while changed {
        changed = false;
        for (from, to) in &edges {
            let added = preceding.get(from).cloned().unwrap_or_default();
            let accesses = preceding.entry(*to).or_default();
            let old_count = accesses.len();
            accesses.extend(added);
            changed |= accesses.len() > old_count;
        }
    }
    preceding
}

/// The part of memory that an access of one rank reads or writes. The parts of different ranks do not overlap.
#[derive(PartialEq)]
enum AccessedPart {
    /// Along dimension `dim` of `memref`, every run of `extent` elements belongs to the next rank in turn.
    Runs { memref: Value, dim: u32, extent: u32 },
    /// The rank accesses its part of this tile of pointers along this dimension.
    Pointers(Value, usize),
}

/// The part of memory that a rank's share of an access reads or writes. `None` if the access is not divided, or if ranks may access
/// the same memory.
fn accessed_part(forms: &Forms<'_>, op: OpId) -> Option<AccessedPart> {
    let body = &forms.function.body;
    let form = match forms.stores.get(&op) {
        Some(form) => *form,
        None => *forms.forms_of(body.result(op)).iter().next().filter(|_| forms.forms_of(body.result(op)).len() == 1)?,
    };
    let Form::Part(dim) = form else { return None };
    match &body.ops[op].kind {
        Op::LoadView { view, .. } | Op::StoreView { view, .. } => {
            let Type::View(ty) = body.ty(*view) else { return None };
            let Op::Core(Core::MakeView { memref }) = &body.ops[body.defining_op(*view)?].kind else { return None };
            let is_partition = ty.kind == ViewKind::Partition;
            is_partition.then(|| AccessedPart::Runs { memref: *memref, dim: ty.dim_map[dim], extent: ty.tile[dim] / forms.parts })
        }
        // If the entry block defines the pointers, they are the same in every execution.
        Op::Load { ptr, .. } | Op::Store { ptr, .. } => {
            let in_entry_block = body.blocks[forms.function.entry()].ops.contains(&body.defining_op(*ptr)?);
            in_entry_block.then_some(AccessedPart::Pointers(*ptr, dim))
        }
        _ => None,
    }
}
