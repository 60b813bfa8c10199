//! Connected components: ops of a function that work on disjoint tiles, so that different threads could execute each component.
//!
//! A value from memory, and every value computed from it, belongs to the component of the op that loads it. An op that uses values
//! of two components merges them; so do two components that access one place in memory. A value computed from parameters and
//! constants alone belongs to no component, because each component can recompute it.

use crate::core_ops::Core;
use crate::region_nesting::RegionNesting;
use crate::rules::MiddleOp;
use base::ir::Op;
use base::{Body, Region, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The effects of an op that matter to components.
#[derive(Default)]
pub struct OpEffects {
    /// Ids of the memory places (such as buffers) that the op accesses; all accesses to a place are in one component.
    pub places: Vec<u32>,
    /// Whether the result comes from memory, or from another effect that happens once.
    pub is_source: bool,
}

pub struct Components(BTreeMap<Op, usize>);

impl Components {
    /// The component of an op; none for an op that each component can recompute.
    pub fn of(&self, op: Op) -> Option<usize> {
        self.0.get(&op).copied()
    }
}

/// The components of a region, numbered in the order of their first ops. `touched` returns the effects of an op, or none for an op
/// that belongs to no component.
pub fn components<O: MiddleOp, T>(body: &Body<O, T>, region: Region, touched: impl Fn(Op) -> Option<OpEffects>) -> Components {
    let (nesting, all) = (RegionNesting::of(body, region), body.walk(region));
    let touched: BTreeMap<Op, OpEffects> = all.iter().filter_map(|op| Some((*op, touched(*op)?))).collect();
    let forwarded = forwarded_values(body, &nesting, &all);
    let component_values = component_values(body, &touched, &forwarded);
    if all.iter().any(|op| control_operands(body, *op).iter().any(|value| component_values.contains(value))) {
        // A value of one component decides which ops execute, also in other components. All ops are then one component.
        return Components(touched.into_keys().map(|op| (op, 0)).collect());
    }
    let mut union_find = UnionFind::default();
    let mut first_node: BTreeMap<Op, Node> = BTreeMap::new();
    for (op, touched) in touched.iter().filter(|(op, _)| !is_control(body, **op)) {
        let values = operands_with_nested(body, *op).into_iter().chain(body.ops[*op].results.iter().copied());
        let values = values.filter(|value| component_values.contains(value)).map(Node::Value);
        let mut nodes = touched.places.iter().copied().map(Node::Place).chain(values);
        let Some(node) = nodes.next() else { continue };
        nodes.for_each(|other| union_find.join(node, other));
        first_node.insert(*op, node);
    }
    for (from, to) in forwarded.into_iter().filter(|(from, to)| component_values.contains(from) && component_values.contains(to)) {
        union_find.join(Node::Value(from), Node::Value(to));
    }
    let mut numbers = BTreeMap::new();
    let component = |op: &Op| {
        let root = union_find.root(*first_node.get(op)?);
        let next = numbers.len();
        Some((*op, *numbers.entry(root).or_insert(next)))
    };
    Components(all.iter().filter_map(component).collect())
}

/// Returns whether an op only selects which ops execute, and forwards their results.
fn is_control<O: MiddleOp, T>(body: &Body<O, T>, op: Op) -> bool {
    let kind = &body.ops[op].kind;
    kind.is_terminator() || matches!(kind.core(), Some(Core::For { .. } | Core::Loop { .. } | Core::If { .. }))
}

/// The values that decide whether, and how often, the ops inside an op execute.
fn control_operands<O: MiddleOp, T>(body: &Body<O, T>, op: Op) -> Vec<Value> {
    match body.ops[op].kind.core() {
        Some(Core::For { lower, upper, step, .. }) => vec![*lower, *upper, *step],
        Some(Core::If { cond, .. }) => vec![*cond],
        _ => Vec::new(),
    }
}

/// The values that an op uses. For a reduction or scan, also the values that the ops of its body use.
fn operands_with_nested<O: MiddleOp, T>(body: &Body<O, T>, op: Op) -> Vec<Value> {
    let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    inner.chain([op]).flat_map(|op| body.ops[op].kind.operands()).collect()
}

/// The values that control flow forwards, each with its destination: into loops, around them, and out of regions.
fn forwarded_values<O: MiddleOp, T>(body: &Body<O, T>, nesting: &RegionNesting, all: &[Op]) -> Vec<(Value, Value)> {
    let mut forwarded = Vec::new();
    for &op in all {
        let node = &body.ops[op];
        let forwarded_by = |exit: fn(&Core) -> bool| {
            let ends = nesting.terminators(op).iter().map(|end| &body.ops[*end].kind);
            ends.filter(move |end| end.core().is_some_and(exit)).map(|end| end.operands().to_vec())
        };
        let next = |core: &Core| matches!(core, Core::Continue { .. });
        let mut pair = |from: &[Value], to: &[Value]| forwarded.extend(from.iter().copied().zip(to.iter().copied()));
        match node.kind.core() {
            Some(Core::For { init, body: region, .. }) => {
                let args = &body.blocks[body.block_of(*region)].args[1..];
                pair(init, args);
                pair(args, &node.results);
                forwarded_by(next).for_each(|values| pair(&values, args));
            }
            Some(Core::Loop { init, body: region }) => {
                let args = &body.blocks[body.block_of(*region)].args;
                pair(init, args);
                forwarded_by(next).for_each(|values| pair(&values, args));
                forwarded_by(|core| matches!(core, Core::Break { .. })).for_each(|values| pair(&values, &node.results));
            }
            Some(Core::If { .. }) => {
                forwarded_by(|core| matches!(core, Core::Yield { .. })).for_each(|values| pair(&values, &node.results))
            }
            _ => {}
        }
    }
    forwarded
}

/// The values that belong to a component: they come from memory, or are computed from such values.
fn component_values<O: MiddleOp, T>(
    body: &Body<O, T>,
    touched: &BTreeMap<Op, OpEffects>,
    forwarded: &[(Value, Value)],
) -> BTreeSet<Value> {
    let mut derived: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    forwarded.iter().for_each(|(from, to)| derived.entry(*from).or_default().push(*to));
    let (mut component_values, mut work) = (BTreeSet::new(), Vec::new());
    for (op, touched) in touched {
        let results = &body.ops[*op].results;
        if touched.is_source {
            work.extend(results.iter().copied());
        } else if !is_control(body, *op) {
            operands_with_nested(body, *op).into_iter().for_each(|from| derived.entry(from).or_default().extend(results));
        }
    }
    while let Some(value) = work.pop() {
        if component_values.insert(value) {
            work.extend(derived.get(&value).into_iter().flatten().copied());
        }
    }
    component_values
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Value(Value),
    Place(u32),
}

/// A union-find structure that merges the smaller set into the larger one.
#[derive(Default)]
struct UnionFind {
    parents: BTreeMap<Node, Node>,
    sizes: BTreeMap<Node, usize>,
}

impl UnionFind {
    fn root(&self, mut node: Node) -> Node {
        while let Some(parent) = self.parents.get(&node) {
            node = *parent;
        }
        node
    }
    fn join(&mut self, a: Node, b: Node) {
        let roots = [self.root(a), self.root(b)];
        if roots[0] == roots[1] {
            return;
        }
        let [a, b] = roots.map(|root| self.sizes.get(&root).copied().unwrap_or(1));
        let [from, to] = if a <= b { roots } else { [roots[1], roots[0]] };
        self.parents.insert(from, to);
        self.sizes.insert(to, a + b);
    }
}
