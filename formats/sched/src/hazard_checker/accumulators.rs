//! The ops of a function that the hazard checker executes, and the values that are accumulators of MMAs in flight.

use super::event_trace::is_followed;
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use core_dialect::region_edges::{RegionEdge, edges_of_op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::Completes;

/// The ops of each block that affect memory or loop counters; empty if none affects memory.
pub(super) fn relevant_ops(function: &Function, ordered: &BTreeSet<OpId>) -> BTreeMap<Block, Vec<OpId>> {
    let body = &function.body;
    let accumulators = accumulators(function);
    let mut any = false;
    let mut matters = |op: OpId| {
        let node = &body.ops[op];
        let effects = node.kind.effects();
        let memory = !effects.buffers.is_empty() || effects.synchronises.is_some() || ordered.contains(&op);
        any |= memory;
        let gives_scalar = node.results.iter().any(|result| is_followed(body.ty(*result)));
        let regions = !node.kind.regions().is_empty() || node.kind.is_terminator();
        memory || gives_scalar || regions || node.kind.operands().iter().any(|value| accumulators.contains_key(value))
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

/// The values that are accumulators of MMAs in flight, each with these MMAs: results of the MMAs, and values to which loops and
/// conditions forward them.
pub(super) fn accumulators(function: &Function) -> BTreeMap<Value, BTreeSet<OpId>> {
    let body = &function.body;
    let all = body.walk(function.region);
    let mut accumulators: BTreeMap<Value, BTreeSet<OpId>> = BTreeMap::new();
    for &op in all.iter().filter(|op| body.ops[**op].kind.effects().completes == Completes::WithMmaGroup) {
        accumulators.entry(body.result(op)).or_default().insert(op);
    }
    let mut known = 0;
    // Iterates until no loop adds an accumulator.
    while known != accumulators.values().map(BTreeSet::len).sum::<usize>() {
        known = accumulators.values().map(BTreeSet::len).sum();
        for &op in &all {
            for RegionEdge { from, to } in edges_of_op(body, op) {
                if let Some(mmas) = accumulators.get(&from).cloned() {
                    accumulators.entry(to).or_default().extend(mmas);
                }
            }
        }
    }
    accumulators
}

/// The accumulators that an op uses, with the MMAs that compute them. Only the next MMA may use the accumulator of an MMA in
/// flight; an op that forwards the accumulator does not access it.
pub(super) fn accumulators_used<'a>(
    accumulators: &'a BTreeMap<Value, BTreeSet<OpId>>,
    kind: &Op,
) -> Vec<(Value, &'a BTreeSet<OpId>)> {
    let effects = kind.effects();
    let is_mma_in_flight = effects.completes == Completes::WithMmaGroup;
    let forwards = !kind.regions().is_empty() || kind.is_terminator();
    if accumulators.is_empty() || is_mma_in_flight || forwards || effects.synchronises.is_some() {
        return Vec::new();
    }
    kind.operands().into_iter().filter_map(|value| Some((value, accumulators.get(&value)?))).collect()
}
