//! Connected components: ops of a function that work on disjoint tiles, so that different threads could execute each component.
//!
//! A value from memory belongs to the component of the op that loads it. A value that is computed from other values belongs to the
//! same component as these values. An op that uses values of two components merges the components. Two components that access the
//! same memory object, such as a buffer, are also merged. A value computed from parameters and constants alone belongs to no
//! component, because each component can recompute it.

use crate::core_ops::Core;
use crate::region_edges::{RegionEdge, region_edges};
use crate::rules::CoreDialectOp;
use base::ir::Op;
use base::{Body, Region, UnionFind, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The effects of an op that decide its component.
#[derive(Default)]
pub struct OpEffects {
    /// Ids of the memory objects (such as buffers) that the op accesses. All accesses to an object are in one component.
    pub memory_objects: Vec<u32>,
    /// Whether the op loads its result from memory, or has another effect that must not be repeated. Its results belong to a
    /// component.
    pub is_source: bool,
}

/// The component number of each op that belongs to a component.
pub struct Components(BTreeMap<Op, usize>);

impl Components {
    /// The component of an op; `None` for an op that each component can recompute.
    pub fn component_of(&self, op: Op) -> Option<usize> {
        self.0.get(&op).copied()
    }
}

/// Computes the components of a region, numbered in the order of their first ops. `effects_of` returns the effects of an op, or
/// `None` for an op that belongs to no component.
pub fn components<O: CoreDialectOp, T>(
    body: &Body<O, T>,
    region: Region,
    effects_of: impl Fn(Op) -> Option<OpEffects>,
) -> Components {
    let ops = body.walk(region);
    let effects: BTreeMap<Op, OpEffects> = ops.iter().filter_map(|op| Some((*op, effects_of(*op)?))).collect();
    let memory_objects: BTreeSet<u32> = effects.values().flat_map(|effects| effects.memory_objects.iter().copied()).collect();
    let edges = region_edges(body, region);
    let component_values = component_values(body, &effects, &edges);
    let conditions = |op: &Op| body.ops[*op].kind.core().map(Core::conditions).unwrap_or_default();
    if ops.iter().flat_map(conditions).any(|value| component_values.contains(&value)) {
        // A value of one component decides which ops execute, also in other components. All ops are then one component.
        return Components(effects.into_keys().map(|op| (op, 0)).collect());
    }
    // The nodes of the union-find: first the values, then the memory objects.
    let object_nodes =
        memory_objects.iter().enumerate().map(|(index, object)| (*object, body.values.len() + index)).collect::<BTreeMap<_, _>>();
    let mut union_find = UnionFind::new(body.values.len() + memory_objects.len());
    let mut first_node: BTreeMap<Op, usize> = BTreeMap::new();
    for (op, effects) in effects.iter().filter(|(op, _)| !is_control(body, **op)) {
        let values = operands_with_nested(body, *op).into_iter().chain(body.ops[*op].results.iter().copied());
        let values = values.filter(|value| component_values.contains(value)).map(|value| value.0 as usize);
        let mut nodes = effects.memory_objects.iter().map(|object| object_nodes[object]).chain(values);
        let Some(node) = nodes.next() else { continue };
        nodes.for_each(|other| union_find.join(node, other));
        first_node.insert(*op, node);
    }
    for RegionEdge { from, to } in
        edges.into_iter().filter(|edge| component_values.contains(&edge.from) && component_values.contains(&edge.to))
    {
        union_find.join(from.0 as usize, to.0 as usize);
    }
    let mut component_ids = BTreeMap::new();
    let numbered_component = |op: &Op| {
        let root = union_find.find(*first_node.get(op)?);
        let next = component_ids.len();
        Some((*op, *component_ids.entry(root).or_insert(next)))
    };
    Components(ops.iter().filter_map(numbered_component).collect())
}

/// Returns whether an op only selects which ops execute, and forwards their results.
fn is_control<O: CoreDialectOp, T>(body: &Body<O, T>, op: Op) -> bool {
    let kind = &body.ops[op].kind;
    kind.is_terminator() || kind.core().is_some_and(Core::is_structured)
}

/// The operands of an op and of the ops inside its regions, for example in the body of a reduction.
fn operands_with_nested<O: CoreDialectOp, T>(body: &Body<O, T>, op: Op) -> Vec<Value> {
    let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    inner.chain([op]).flat_map(|op| body.ops[op].kind.operands()).collect()
}

/// The values that belong to a component: results of source ops ([`OpEffects::is_source`]), and values computed from them.
fn component_values<O: CoreDialectOp, T>(
    body: &Body<O, T>,
    effects: &BTreeMap<Op, OpEffects>,
    edges: &[RegionEdge],
) -> BTreeSet<Value> {
    // The values that are computed from each value, or receive it through a region edge.
    let mut derived: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    edges.iter().for_each(|edge| derived.entry(edge.from).or_default().push(edge.to));
    let (mut component_values, mut worklist) = (BTreeSet::new(), Vec::new());
    for (op, effects) in effects {
        let results = &body.ops[*op].results;
        if effects.is_source {
            worklist.extend(results.iter().copied());
        } else if !is_control(body, *op) {
            operands_with_nested(body, *op).into_iter().for_each(|from| derived.entry(from).or_default().extend(results));
        }
    }
    while let Some(value) = worklist.pop() {
        if component_values.insert(value) {
            worklist.extend(derived.get(&value).into_iter().flatten().copied());
        }
    }
    component_values
}
