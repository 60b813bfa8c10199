//! Finds the accesses to global memory that tokens order after accesses of other threads.

use crate::iteration_distance::IterationDistance;
use crate::token_order::{Orders, accesses, is_tma_store, moved_tile_type};
use crate::{Function, Op};
use base::Region;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use tileas::Type;
use tileas::effects::GlobalAccess;
use tileas::layout::{Layout, LayoutId};

/// The order of accesses to global memory that synchronisation between threads must ensure.
pub(super) struct Order {
    /// By access, the accesses that must complete before it.
    pub(super) before: BTreeMap<OpId, Before>,
    /// The accesses that take part in an order.
    pub(super) accesses: BTreeSet<OpId>,
    /// By loop, the accesses in it that take part in an order.
    pub(super) inside: BTreeMap<OpId, BTreeSet<OpId>>,
}

/// The accesses that must complete before one access.
#[derive(Default)]
pub(super) struct Before {
    pub(super) earlier: BTreeMap<OpId, Wait>,
    /// The enclosing loops whose iterations may access elements that overlap but are not the same.
    pub(super) overlaps_in: BTreeSet<OpId>,
}

/// The executions of an access that must complete first.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// Whether the execution in the same iteration of each loop must complete first.
    pub(super) same_iteration: bool,
    /// Whether an execution in an earlier iteration of a loop must complete first, even if each iteration accesses the same
    /// elements.
    pub(super) earlier_iteration: bool,
}

impl Order {
    pub(super) fn empty() -> Order {
        Order { before: BTreeMap::new(), accesses: BTreeSet::new(), inside: BTreeMap::new() }
    }

    pub(super) fn of(function: &Function, layouts: &base::Arena<LayoutId, Layout>) -> Order {
        let all = accesses(function);
        let orders = Orders::of(function, &all);
        let mut order = Order::empty();
        let mut enclosing_loops = BTreeMap::new();
        collect_enclosing_loops(function, function.region, &mut Vec::new(), &mut enclosing_loops);
        let mut iterations: BTreeMap<OpId, IterationDistance> = BTreeMap::new();
        for (op, access) in &all {
            let mut before = Before::default();
            for &for_op in enclosing_loops.get(op).into_iter().flatten() {
                let iterations = iterations.entry(for_op).or_insert_with(|| IterationDistance::of(function, for_op));
                if !iterations.is_same_or_disjoint(function, access.base, access.index) {
                    before.overlaps_in.insert(for_op);
                }
            }
            let preceding = access.token.and_then(|token| orders.across_iterations.get(&token));
            for earlier in preceding.into_iter().flatten() {
                let first = &all[earlier];
                let by_one_thread = is_tma_store(function, *earlier) && is_tma_store(function, *op);
                if by_one_thread || !first.access_kind.writes() && !access.access_kind.writes() {
                    continue;
                }
                let earlier_iteration = !is_by_same_thread(function, layouts, (*earlier, first), (*op, access));
                let same_iteration = earlier_iteration && orders.is_ordered_after(function, (*earlier, first), access);
                if earlier_iteration || !before.overlaps_in.is_empty() {
                    before.earlier.insert(*earlier, Wait { same_iteration, earlier_iteration });
                }
            }
            if !before.earlier.is_empty() {
                order.accesses.extend(before.earlier.keys().chain([op]));
                order.before.insert(*op, before);
            }
        }
        for op in &order.accesses {
            enclosing_loops[op].iter().for_each(|for_op| _ = order.inside.entry(*for_op).or_default().insert(*op));
        }
        order
    }
}

/// Collects the loops that enclose each access, outermost first.
fn collect_enclosing_loops(function: &Function, region: Region, enclosing: &mut Vec<OpId>, all: &mut BTreeMap<OpId, Vec<OpId>>) {
    for &op in &function.body.blocks[function.body.block_of(region)].ops {
        let kind: &Op = &function.body.ops[op].kind;
        if kind.effects().global.is_some() {
            all.insert(op, enclosing.clone());
        }
        let is_loop = matches!(kind.core(), Some(Core::For { .. } | Core::Loop { .. }));
        enclosing.extend(is_loop.then_some(op));
        kind.regions().into_iter().for_each(|region| collect_enclosing_loops(function, region, enclosing, all));
        enclosing.truncate(enclosing.len() - usize::from(is_loop));
    }
}

/// Returns whether the same thread performs both accesses to each element.
fn is_by_same_thread(
    function: &Function,
    layouts: &base::Arena<LayoutId, Layout>,
    (first_op, first): (OpId, &GlobalAccess<'_>),
    (second_op, second): (OpId, &GlobalAccess<'_>),
) -> bool {
    let (tile, other) = (moved_tile_type(function, first_op, first), moved_tile_type(function, second_op, second));
    let holds_no_copies = |layout: &Layout| !layout.lane.contains(&0) && !layout.warp.contains(&0);
    let without_copies = tile.and_then(Type::layout).is_some_and(|id| holds_no_copies(&layouts[id]));
    without_copies && tile == other && first.base == second.base && first.index == second.index
}
