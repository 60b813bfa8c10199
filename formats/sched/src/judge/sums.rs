//! Which ops of a function the judge looks at, and which values are sums of products that may be in flight.

use crate::flow::handed_on;
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use std::collections::{BTreeMap, BTreeSet};
use tileas::Type;
use tileas::effects::Completes;

/// The ops of each block that matter to memory or to what loops count; empty where none matters to memory.
pub(super) fn relevant(function: &Function, ordered: &BTreeSet<OpId>) -> BTreeMap<Block, Vec<OpId>> {
    let body = &function.body;
    let sums = sums(function);
    let mut any = false;
    let mut matters = |op: OpId| {
        let node = &body.ops[op];
        let effects = node.kind.effects();
        let memory = !effects.buffers.is_empty() || effects.synchronises.is_some() || ordered.contains(&op);
        any |= memory;
        let counts = node.results.iter().any(|result| matches!(body.ty(*result), Type::Scalar(_)));
        let regions = !node.kind.regions().is_empty() || node.kind.is_terminator();
        memory || counts || regions || node.kind.operands().iter().any(|value| sums.contains_key(value))
    };
    let mut blocks = BTreeMap::new();
    let mut regions = vec![function.region];
    while let Some(region) = regions.pop() {
        let block = body.block_of(region);
        let ops: Vec<OpId> = body.blocks[block].ops.iter().copied().filter(|op| matters(*op)).collect();
        regions.extend(ops.iter().flat_map(|op| body.ops[*op].kind.regions()));
        blocks.insert(block, ops);
    }
    if any { blocks } else { BTreeMap::new() }
}

/// The values that are, or become in a loop, the sums of products that may be in flight, and which products'.
pub(super) fn sums(function: &Function) -> BTreeMap<Value, BTreeSet<OpId>> {
    let body = &function.body;
    let all = body.walk(function.region);
    let mut sums: BTreeMap<Value, BTreeSet<OpId>> = BTreeMap::new();
    for &op in all.iter().filter(|op| body.ops[**op].kind.effects().completes == Completes::WithItsProducts) {
        sums.entry(body.result(op)).or_default().insert(op);
    }
    let mut before = 0;
    // Until nothing new comes around a loop.
    while before != sums.values().map(BTreeSet::len).sum::<usize>() {
        before = sums.values().map(BTreeSet::len).sum();
        for &op in &all {
            for (from, to) in handed_on(function, op) {
                if let Some(products) = sums.get(&from).cloned() {
                    sums.entry(to).or_default().extend(products);
                }
            }
        }
    }
    sums
}

/// The sums that an op uses, with the products that make them. Nothing but the next product takes the sums of one in flight; what
/// hands them on does not touch them.
pub(super) fn sums_used<'a>(sums: &'a BTreeMap<Value, BTreeSet<OpId>>, kind: &Op) -> Vec<(Value, &'a BTreeSet<OpId>)> {
    let effects = kind.effects();
    let next = effects.completes == Completes::WithItsProducts;
    let hands_on = !kind.regions().is_empty() || kind.is_terminator();
    if sums.is_empty() || next || hands_on || effects.synchronises.is_some() {
        return Vec::new();
    }
    kind.operands().into_iter().filter_map(|value| Some((value, sums.get(&value)?))).collect()
}
