//! The ops of a function that the hazard checker executes, and the values that are accumulators of MMAs in flight.

use super::event_trace::is_followed;
use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Block, Value};
use core_dialect::region_edges::{RegionEdge, edges_of_op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::effects::Completes;

/// By block, the ops that the hazard checker executes. These ops access memory or synchronise, compute a scalar, have regions, end
/// a region, or use an accumulator in flight. `ordered` contains the accesses to global memory that tokens order. The result is
/// empty if no op accesses memory or synchronises.
pub(super) fn relevant_ops(function: &Function, ordered: &BTreeSet<OpId>) -> BTreeMap<Block, Vec<OpId>> {
    let body = &function.body;
    let accumulators = accumulators_in_flight(function);
    let mut any_memory_op = false;
    let mut is_relevant = |op: OpId| {
        let node = &body.ops[op];
        let effects = node.kind.effects();
        let affects_memory = !effects.buffers.is_empty() || effects.synchronises.is_some() || ordered.contains(&op);
        any_memory_op |= affects_memory;
        let computes_scalar = node.results.iter().any(|result| is_followed(body.ty(*result)));
        let controls_flow = !node.kind.regions().is_empty() || node.kind.is_terminator();
        affects_memory
            || computes_scalar
            || controls_flow
            || node.kind.operands().iter().any(|value| accumulators.contains_key(value))
    };
    let mut ops_by_block = BTreeMap::new();
    let mut regions = vec![function.region];
    while let Some(region) = regions.pop() {
        let block = body.block_of(region);
        let ops: Vec<OpId> = body.blocks[block].ops.iter().copied().filter(|op| is_relevant(*op)).collect();
        regions.extend(ops.iter().flat_map(|op| body.ops[*op].kind.regions()));
        ops_by_block.insert(block, ops);
    }
    if any_memory_op { ops_by_block } else { BTreeMap::new() }
}

/// The values that may be accumulators of MMAs in flight, each with the MMAs that compute it. The values are results of MMAs, and
/// values to which loops and conditions forward these results.
pub(super) fn accumulators_in_flight(function: &Function) -> BTreeMap<Value, BTreeSet<OpId>> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let mut accumulators: BTreeMap<Value, BTreeSet<OpId>> = BTreeMap::new();
    for &op in ops.iter().filter(|op| body.ops[**op].kind.effects().completes == Completes::WithMmaGroup) {
        accumulators.entry(body.result(op)).or_default().insert(op);
    }
    let mut entry_count = 0;
    // Iterates until no region edge adds an MMA.
    while entry_count != accumulators.values().map(BTreeSet::len).sum::<usize>() {
        entry_count = accumulators.values().map(BTreeSet::len).sum();
        for &op in &ops {
            for RegionEdge { from, to } in edges_of_op(body, op) {
                if let Some(mmas) = accumulators.get(&from).cloned() {
                    accumulators.entry(to).or_default().extend(mmas);
                }
            }
        }
    }
    accumulators
}

/// The accumulators that an op uses, with the MMAs that must be complete before the use. The result is empty for three kinds of
/// ops. An MMA in flight may use the accumulator of the previous MMA. An op with regions or a terminator only forwards
/// accumulators. A wait completes the MMAs of its accumulators.
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
