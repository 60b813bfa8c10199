//! The accesses to global memory that tokens order after accesses of other threads.

use crate::iteration_distance::IterationDistance;
use crate::token_order::{Orders, accesses, is_tma_store, moved};
use crate::{Function, Op};
use base::Region;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use tileas::Type;
use tileas::effects::GlobalAccess;
use tileas::layout::{Layout, LayoutId};

/// The accesses that must complete before others, for all of global memory.
pub(super) struct Order {
    pub(super) before: BTreeMap<OpId, Before>,
    /// The accesses that take part in an order, and those of each loop.
    pub(super) accesses: BTreeSet<OpId>,
    pub(super) inside: BTreeMap<OpId, BTreeSet<OpId>>,
}

/// The access that must complete before another one.
#[derive(Default)]
pub(super) struct Before {
    pub(super) earlier: BTreeMap<OpId, Wait>,
    /// The surrounding loops whose iterations access different but overlapping elements.
    pub(super) moves_in: BTreeSet<OpId>,
}

/// The executions of an access that must complete first.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// The execution in the same iteration of each loop.
    pub(super) same_iteration: bool,
    /// An execution in an earlier iteration of a loop, even if each iteration accesses the same elements.
    pub(super) earlier_iteration: bool,
}

impl Order {
    pub(super) fn none() -> Order {
        Order { before: BTreeMap::new(), accesses: BTreeSet::new(), inside: BTreeMap::new() }
    }

    pub(super) fn of(function: &Function, layouts: &base::Arena<LayoutId, Layout>) -> Order {
        let all = accesses(function);
        let orders = Orders::of(function, &all);
        let mut order = Order::none();
        let mut around = BTreeMap::new();
        loops_around(function, function.region, &mut Vec::new(), &mut around);
        let mut iterations: BTreeMap<OpId, IterationDistance> = BTreeMap::new();
        for (op, access) in &all {
            let mut before = Before::default();
            for &for_op in around.get(op).into_iter().flatten() {
                let iterations = iterations.entry(for_op).or_insert_with(|| IterationDistance::of(function, for_op));
                if !iterations.are_apart(function, access.base, access.index) {
                    before.moves_in.insert(for_op);
                }
            }
            let after = access.token.and_then(|token| orders.in_any_iteration.get(&token));
            for earlier in after.into_iter().flatten() {
                let first = &all[earlier];
                let by_one = is_tma_store(function, *earlier) && is_tma_store(function, *op);
                if by_one || !first.access_kind.writes() && !access.access_kind.writes() {
                    continue;
                }
                let earlier_iteration = !same_threads(function, layouts, (*earlier, first), (*op, access));
                let same_iteration = earlier_iteration && orders.order(function, (*earlier, first), access);
                if earlier_iteration || !before.moves_in.is_empty() {
                    before.earlier.insert(*earlier, Wait { same_iteration, earlier_iteration });
                }
            }
            if !before.earlier.is_empty() {
                order.accesses.extend(before.earlier.keys().chain([op]));
                order.before.insert(*op, before);
            }
        }
        for op in &order.accesses {
            around[op].iter().for_each(|for_op| _ = order.inside.entry(*for_op).or_default().insert(*op));
        }
        order
    }
}

/// The loops around each access.
fn loops_around(function: &Function, region: Region, around: &mut Vec<OpId>, all: &mut BTreeMap<OpId, Vec<OpId>>) {
    for &op in &function.body.blocks[function.body.block_of(region)].ops {
        let kind: &Op = &function.body.ops[op].kind;
        if kind.effects().global.is_some() {
            all.insert(op, around.clone());
        }
        let is_loop = matches!(kind.core(), Some(Core::For { .. } | Core::Loop { .. }));
        around.extend(is_loop.then_some(op));
        kind.regions().into_iter().for_each(|region| loops_around(function, region, around, all));
        around.truncate(around.len() - usize::from(is_loop));
    }
}

/// Returns whether the same thread performs both accesses to each element.
fn same_threads(
    function: &Function,
    layouts: &base::Arena<LayoutId, Layout>,
    (first_op, first): (OpId, &GlobalAccess<'_>),
    (second_op, second): (OpId, &GlobalAccess<'_>),
) -> bool {
    let (tile, other) = (moved(function, first_op, first), moved(function, second_op, second));
    let is_single_thread = |layout: &Layout| !layout.lane.contains(&0) && !layout.warp.contains(&0);
    let alone = tile.and_then(Type::layout).is_some_and(|id| is_single_thread(&layouts[id]));
    alone && tile == other && first.base == second.base && first.index == second.index
}
