//! Connected components: ops of a function that work on disjoint tiles, so that different threads could execute each component.
//!
//! A value from memory, and every value computed from it, belongs to the component of the op that loads it. Using values of two
//! components merges them; so does using one place in memory. A value computed from parameters and constants alone belongs to no
//! component, since each can recompute it.

use crate::core_ops::Core;
use crate::region_edges::{RegionEdge, region_edges};
use crate::rules::MiddleOp;
use base::ir::Op;
use base::{Body, Region, UnionFind, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The effects of an op that matter to components.
#[derive(Default)]
pub struct Touched {
    /// Ids of memory places that belong to one component.
    pub places: Vec<u32>,
    /// Whether the result comes from memory, or from another effect that happens once.
    pub gives: bool,
}

pub struct Components(BTreeMap<Op, usize>);

impl Components {
    /// The component of an op; none for an op that each component can recompute.
    pub fn of(&self, op: Op) -> Option<usize> {
        self.0.get(&op).copied()
    }
}

/// The components of a region, numbered in the order of their first ops. `touched` returns none for ops that are left out.
pub fn components<O: MiddleOp, T>(body: &Body<O, T>, region: Region, touched: impl Fn(Op) -> Option<Touched>) -> Components {
    let all = body.walk(region);
    let touched: BTreeMap<Op, Touched> = all.iter().filter_map(|op| Some((*op, touched(*op)?))).collect();
    let places: BTreeSet<u32> = touched.values().flat_map(|touched| touched.places.iter().copied()).collect();
    let edges = region_edges(body, region);
    let own = own(body, &touched, &edges);
    if all.iter().any(|op| controls(body, *op).iter().any(|value| own.contains(value))) {
        // A component would then decide which ops the other one executes.
        return Components(touched.into_keys().map(|op| (op, 0)).collect());
    }
    // A node for each value, then one for each place.
    let place_nodes = places.iter().enumerate().map(|(at, place)| (*place, body.values.len() + at)).collect::<BTreeMap<_, _>>();
    let mut union_find = UnionFind::new(body.values.len() + places.len());
    let mut first: BTreeMap<Op, usize> = BTreeMap::new();
    for (op, touched) in touched.iter().filter(|(op, _)| !is_control(body, **op)) {
        let values = around_and_inside(body, *op).into_iter().chain(body.ops[*op].results.iter().copied());
        let values = values.filter(|value| own.contains(value)).map(|value| value.0 as usize);
        let mut nodes = touched.places.iter().map(|place| place_nodes[place]).chain(values);
        let Some(node) = nodes.next() else { continue };
        nodes.for_each(|other| union_find.join(node, other));
        first.insert(*op, node);
    }
    for RegionEdge { from, to } in edges.into_iter().filter(|edge| own.contains(&edge.from) && own.contains(&edge.to)) {
        union_find.join(from.0 as usize, to.0 as usize);
    }
    let mut numbers = BTreeMap::new();
    let component = |op: &Op| {
        let root = union_find.find(*first.get(op)?);
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
fn controls<O: MiddleOp, T>(body: &Body<O, T>, op: Op) -> Vec<Value> {
    match body.ops[op].kind.core() {
        Some(Core::For { lower, upper, step, .. }) => vec![*lower, *upper, *step],
        Some(Core::If { cond, .. }) => vec![*cond],
        _ => Vec::new(),
    }
}

/// The values that an op uses, with the ops inside a reduction or scan.
fn around_and_inside<O: MiddleOp, T>(body: &Body<O, T>, op: Op) -> Vec<Value> {
    let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    inner.chain([op]).flat_map(|op| body.ops[op].kind.operands()).collect()
}

/// The values that come from memory, or are computed from such values.
fn own<O: MiddleOp, T>(body: &Body<O, T>, touched: &BTreeMap<Op, Touched>, edges: &[RegionEdge]) -> BTreeSet<Value> {
    let mut becomes: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    edges.iter().for_each(|edge| becomes.entry(edge.from).or_default().push(edge.to));
    let (mut own, mut work) = (BTreeSet::new(), Vec::new());
    for (op, touched) in touched {
        let results = &body.ops[*op].results;
        if touched.gives {
            work.extend(results.iter().copied());
        } else if !is_control(body, *op) {
            around_and_inside(body, *op).into_iter().for_each(|from| becomes.entry(from).or_default().extend(results));
        }
    }
    while let Some(value) = work.pop() {
        if own.insert(value) {
            work.extend(becomes.get(&value).into_iter().flatten().copied());
        }
    }
    own
}
