//! Determines the order that tokens require between accesses to global memory, and the accesses that need a barrier for this order.
//!
//! All threads take part in a tile access, each with its own elements. A barrier must separate two accesses if three conditions
//! hold: a token orders the second access after the first, one of them writes, and another thread may access the same bytes. One
//! SSA value that a loop computes may be a different address in each iteration. Two parameters may alias, because a caller may
//! pass one pointer twice.

use base::ir::{Body, Op as OpId, Operation};
use base::{Arena, Region, Value};
use core_dialect::core_ops::Core;
use sched::iteration_distance::IterationDistance;
use sched::token_order::{self, TokenOrders};
use sched::{Function, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tileas::effects::{GlobalAccess, MovedTile};
use tileas::{Layout, LayoutId, Type};

/// The accesses that may still be in progress at the current program point.
#[derive(Clone)]
pub(crate) struct TokenOrdering {
    /// For each layout, whether several threads hold the same element. One of these threads writes the element, but all of them
    /// read it.
    shared_layouts: Vec<bool>,
    /// For each token, the accesses that the token orders before its users.
    orders: TokenOrders,
    /// The accesses since the last barrier.
    since_barrier: BTreeSet<EarlierAccess>,
    /// The iteration distance of each loop that the pass has entered.
    distances: BTreeMap<OpId, Rc<IterationDistance>>,
}

/// An access that precedes the current program point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EarlierAccess {
    op: OpId,
    /// If the access may be from an earlier iteration of a loop that has not ended: this loop.
    loop_of_earlier_iteration: Option<OpId>,
}

impl TokenOrdering {
    pub(crate) fn new(function: &Function, layouts: &Arena<LayoutId, Layout>) -> TokenOrdering {
        let has_copies = |layout: &Layout| layout.lane.contains(&0) || layout.warp.contains(&0);
        let shared_layouts = layouts.values().map(has_copies).collect();
        let orders = TokenOrders::analyse(function, &token_order::global_accesses(function));
        TokenOrdering { shared_layouts, orders, since_barrier: BTreeSet::new(), distances: BTreeMap::new() }
    }

    /// Returns whether the access of an op needs a barrier before the op. Reason: another thread may still perform an access that a
    /// token orders before this access.
    pub(crate) fn needs_barrier(&self, function: &Function, op: OpId) -> bool {
        let body = &function.body;
        let Some(now) = global_access(body, op) else { return false };
        self.ordered_before(function, op).into_iter().any(|earlier| {
            let earlier_access = global_access(body, earlier.op).expect("only accesses are recorded");
            // One thread issues all TMA stores, and it waits for the earlier stores that a token orders before a store.
            let both_by_tma = [earlier.op, op].into_iter().all(|op| token_order::is_tma_store(function, op));
            let by_one_thread = both_by_tma || token_order::are_stores_of_first_thread(function, earlier.op, op);
            let address_may_differ = earlier.loop_of_earlier_iteration.is_some_and(|loop_of_earlier_iteration| {
                !self.accesses_same_or_disjoint_elements(function, &now, loop_of_earlier_iteration)
            });
            !by_one_thread
                && (earlier_access.writes || now.writes)
                && (address_may_differ || !self.is_by_same_threads(&earlier_access, &now))
        })
    }

    /// The accesses since the last barrier that a token orders before the access of `op`.
    fn ordered_before(&self, function: &Function, op: OpId) -> Vec<EarlierAccess> {
        let effects = |op: OpId| function.body.ops[op].kind.effects().global.expect("the op accesses global memory");
        let access = effects(op);
        let all = access.token.and_then(|token| self.orders.across_iterations.get(&token)).into_iter().flatten();
        let accesses_since_barrier = |op: &OpId| {
            let op = *op;
            self.since_barrier.range(EarlierAccess { op, loop_of_earlier_iteration: None }..).take_while(move |one| one.op == op)
        };
        let is_ordered = |one: &&EarlierAccess| {
            one.loop_of_earlier_iteration.is_some() || self.orders.is_ordered_after(function, (one.op, &effects(one.op)), &access)
        };
        all.flat_map(accesses_since_barrier).filter(is_ordered).copied().collect()
    }

    /// Returns whether every thread accesses only elements that the same thread accessed in the earlier access.
    fn is_by_same_threads(&self, before: &OrderedAccess<'_>, now: &OrderedAccess<'_>) -> bool {
        let one_thread_per_element = now.tile.layout().is_some_and(|layout| !self.shared_layouts[layout.0 as usize]);
        one_thread_per_element && before.address == now.address && before.tile == now.tile
    }

    /// Returns whether an access to this address in an earlier iteration of the loop was to the same elements or to disjoint
    /// elements.
    fn accesses_same_or_disjoint_elements(
        &self,
        function: &Function,
        access: &OrderedAccess<'_>,
        loop_of_earlier_iteration: OpId,
    ) -> bool {
        let (base, index) = access.address.split_first().expect("an access has a base");
        self.distances[&loop_of_earlier_iteration].accesses_same_or_disjoint_elements(function, *base, index)
    }

    /// Records a barrier: all earlier accesses are complete.
    pub(crate) fn record_barrier(&mut self) {
        self.since_barrier.clear();
    }

    /// Records that an op, including its regions, has executed.
    pub(crate) fn record_op(&mut self, body: &Body<Op, Type>, op: OpId) {
        self.since_barrier.extend(global_access(body, op).map(|_| EarlierAccess { op, loop_of_earlier_iteration: None }));
        self.since_barrier.extend(
            accesses_in_regions(body, &body.ops[op].kind.regions()).map(|op| EarlierAccess { op, loop_of_earlier_iteration: None }),
        );
    }

    /// Prepares for the regions of an op. If the op is a loop, its accesses may already have happened in an earlier iteration, so
    /// they are recorded.
    pub(crate) fn enter_regions(&mut self, function: &Function, op: OpId) {
        let body = &function.body;
        if !body.ops[op].kind.core().is_some_and(Core::is_loop) {
            return;
        }
        self.distances.insert(op, Rc::new(IterationDistance::analyse(function, op)));
        self.since_barrier.extend(
            accesses_in_regions(body, &body.ops[op].kind.regions())
                .map(|inner| EarlierAccess { op: inner, loop_of_earlier_iteration: Some(op) }),
        );
    }
}

/// The global-memory accesses in these regions.
fn accesses_in_regions(body: &Body<Op, Type>, regions: &[Region]) -> impl Iterator<Item = OpId> {
    let ops = regions.iter().flat_map(|region| body.walk(*region));
    ops.filter(|op| global_access(body, *op).is_some()).collect::<Vec<_>>().into_iter()
}

/// An access to global memory.
struct OrderedAccess<'a> {
    writes: bool,
    /// The base (a view or pointers), followed by the index.
    address: Vec<Value>,
    /// The tile's type, which includes its layout.
    tile: &'a Type,
}

/// The access of an op to global memory, if the op has one.
fn global_access(body: &Body<Op, Type>, op: OpId) -> Option<OrderedAccess<'_>> {
    let node = &body.ops[op];
    let GlobalAccess { access_kind, base, index, moved_tile, .. } = node.kind.effects().global?;
    let tile = match moved_tile {
        MovedTile::Result => *node.results.first()?,
        MovedTile::Operand(value) => value,
        // A copy to a buffer has no layout. The type of the view never equals the type of a tile, so the accesses count as those
        // of different threads.
        MovedTile::Buffer => base,
    };
    let address = std::iter::once(base).chain(index.iter().copied()).collect();
    Some(OrderedAccess { writes: access_kind.writes(), address, tile: body.ty(tile) })
}
