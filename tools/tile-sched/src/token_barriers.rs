//! Determines which global-memory accesses tokens order after which other accesses, and where that order needs a barrier.
//!
//! All threads take part in a tile access, each with its own elements. A barrier must separate two accesses if three conditions
//! hold: a token orders the second access after the first, one of them writes, and another thread may access the same bytes. One
//! SSA value that a loop computes may be a different address in each iteration. Two parameters may alias, because a caller may
//! pass one pointer twice.

use base::ir::{Body, Op as OpId, Operation};
use base::{Arena, Region, Value};
use core_dialect::core_ops::Core;
use sched::iteration_distance::IterationDistance;
use sched::token_order::{self, Orders};
use sched::{Function, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tileas::effects::{GlobalAccess, Moved};
use tileas::{Layout, LayoutId, Type};

/// The accesses that may still be in progress at the current program point.
#[derive(Clone)]
pub(crate) struct Ordering {
    /// For each layout, whether several threads hold the same element. One of them writes it, but all read it.
    shared_layouts: Vec<bool>,
    orders: Orders,
    /// The accesses since the last barrier.
    since: BTreeSet<Before>,
    /// The loops entered so far.
    iterations: BTreeMap<OpId, Rc<IterationDistance>>,
}

/// An earlier access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Before {
    op: OpId,
    /// The loop, if the access may be from an earlier iteration of a loop that has not ended.
    iteration_of: Option<OpId>,
}

impl Ordering {
    pub(crate) fn new(function: &Function, layouts: &Arena<LayoutId, Layout>) -> Ordering {
        let shared = |layout: &Layout| layout.lane.contains(&0) || layout.warp.contains(&0);
        let shared_layouts = layouts.values().map(shared).collect();
        let orders = Orders::of(function, &token_order::accesses(function));
        Ordering { shared_layouts, orders, since: BTreeSet::new(), iterations: BTreeMap::new() }
    }

    /// Returns whether an access needs a barrier before it: another thread may still perform an access that a token orders before
    /// it.
    pub(crate) fn needs_barrier(&self, function: &Function, op: OpId) -> bool {
        let body = &function.body;
        let Some(now) = access(body, op) else { return false };
        self.ordered_before(function, op).into_iter().any(|earlier| {
            let before = access(body, earlier.op).expect("only accesses are recorded");
            // One thread issues all TMA stores, and it waits for the earlier stores that a token orders before a store.
            let both_by_tma = [earlier.op, op].into_iter().all(|op| token_order::is_tma_store(function, op));
            let address_may_differ = earlier.iteration_of.is_some_and(|iteration_of| {
                !self.are_apart(function, &now, iteration_of) && !common::fault_injected("sched.iterations")
            });
            !both_by_tma && (before.writes || now.writes) && (address_may_differ || !self.same_threads(&before, &now))
        })
    }

    /// The accesses since the last barrier after which a token orders this access.
    fn ordered_before(&self, function: &Function, op: OpId) -> Vec<Before> {
        let effects = |op: OpId| function.body.ops[op].kind.effects().global.expect("the op accesses global memory");
        let access = effects(op);
        let all = access.token.and_then(|token| self.orders.across_iterations.get(&token)).into_iter().flatten();
        let since = |op: &OpId| {
            let op = *op;
            self.since.range(Before { op, iteration_of: None }..).take_while(move |one| one.op == op)
        };
        let is_ordered = |one: &&Before| {
            one.iteration_of.is_some() || self.orders.is_ordered_after(function, (one.op, &effects(one.op)), &access)
        };
        let is_dropped_by_fault = |one: &&Before| {
            common::fault_injected("sched.arrays") && !token_order::may_be_one_array(function, &effects(one.op), &access)
        };
        all.flat_map(since).filter(is_ordered).filter(|one| !is_dropped_by_fault(one)).copied().collect()
    }

    /// Returns whether every thread accesses only elements that the same thread accessed before.
    fn same_threads(&self, before: &OrderedAccess<'_>, now: &OrderedAccess<'_>) -> bool {
        let one_thread_per_element = now.tile.layout().is_some_and(|layout| !self.shared_layouts[layout.0 as usize]);
        one_thread_per_element && before.place == now.place && before.tile == now.tile
    }

    /// Returns whether an access cannot touch the same bytes as an access of an earlier iteration of the loop.
    fn are_apart(&self, function: &Function, access: &OrderedAccess<'_>, iteration_of: OpId) -> bool {
        let (base, index) = access.place.split_first().expect("an access has a base");
        self.iterations[&iteration_of].is_same_or_disjoint(function, *base, index)
    }

    /// Records a barrier: all earlier accesses are complete.
    pub(crate) fn barrier(&mut self) {
        self.since.clear();
    }

    /// Records that an op, including its regions, has executed.
    pub(crate) fn record(&mut self, body: &Body<Op, Type>, op: OpId) {
        self.since.extend(access(body, op).map(|_| Before { op, iteration_of: None }));
        self.since.extend(inside(body, &body.ops[op].kind.regions()).map(|op| Before { op, iteration_of: None }));
    }

    /// Prepares for the regions of an op. If the op is a loop, its accesses may already have happened in an earlier iteration, so
    /// they are recorded.
    pub(crate) fn enter(&mut self, function: &Function, op: OpId) {
        let body = &function.body;
        if !matches!(body.ops[op].kind.core(), Some(Core::For { .. } | Core::Loop { .. })) {
            return;
        }
        self.iterations.insert(op, Rc::new(IterationDistance::of(function, op)));
        self.since.extend(inside(body, &body.ops[op].kind.regions()).map(|inner| Before { op: inner, iteration_of: Some(op) }));
    }
}

/// The global-memory accesses in these regions.
fn inside(body: &Body<Op, Type>, regions: &[Region]) -> impl Iterator<Item = OpId> {
    let ops = regions.iter().flat_map(|region| body.walk(*region));
    ops.filter(|op| access(body, *op).is_some()).collect::<Vec<_>>().into_iter()
}

/// An access to global memory.
struct OrderedAccess<'a> {
    writes: bool,
    /// The view or pointers, followed by the index.
    place: Vec<Value>,
    /// The tile's type, which includes its layout.
    tile: &'a Type,
}

fn access(body: &Body<Op, Type>, op: OpId) -> Option<OrderedAccess<'_>> {
    let node = &body.ops[op];
    let GlobalAccess { access_kind, base, index, moved, .. } = node.kind.effects().global?;
    let tile = match moved {
        Moved::Result => *node.results.first()?,
        Moved::Operand(value) => value,
        // A copy to a buffer has no layout. The type of the view never equals the type of a tile, so the accesses count as those
        // of different threads.
        Moved::Buffer => base,
    };
    let place = std::iter::once(base).chain(index.iter().copied()).collect();
    Some(OrderedAccess { writes: access_kind.writes(), place, tile: body.ty(tile) })
}
