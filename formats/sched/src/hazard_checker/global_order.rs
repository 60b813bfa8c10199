//! Finds the accesses to global memory that tokens order after accesses of other threads.

use crate::iteration_distance::IterationDistance;
use crate::token_order::{TokenOrders, are_stores_of_first_thread, global_accesses, is_tma_store, moved_tile_type};
use crate::{Function, Op};
use base::Region;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use std::collections::{BTreeMap, BTreeSet};
use tileas::Type;
use tileas::effects::GlobalAccess;
use tileas::layout::{Layout, LayoutId};

/// The order of accesses to global memory that synchronisation between threads must ensure.
pub(super) struct GlobalOrder {
    /// For each ordered access, the accesses that must complete before it.
    pub(super) predecessors: BTreeMap<OpId, Predecessors>,
    /// All accesses that tokens order after another access, and these other accesses.
    pub(super) ordered_accesses: BTreeSet<OpId>,
    /// For each loop, the ordered accesses inside it.
    pub(super) accesses_in_loop: BTreeMap<OpId, BTreeSet<OpId>>,
}

/// The accesses that must complete before one access.
#[derive(Default)]
pub(super) struct Predecessors {
    /// For each such access, which of its executions must complete first.
    pub(super) executions: BTreeMap<OpId, RequiredExecutions>,
    /// The enclosing loops of which two iterations may access overlapping, but not equal, sets of elements.
    pub(super) overlaps_in: BTreeSet<OpId>,
}

/// The executions of an earlier access that must complete before a later access.
#[derive(Clone, Copy)]
pub(super) struct RequiredExecutions {
    /// Whether the execution in the current iterations of all enclosing loops must complete first.
    pub(super) same_iteration: bool,
    /// Whether an execution in an earlier iteration of a loop must complete first, even if each iteration accesses the same
    /// elements.
    pub(super) earlier_iteration: bool,
}

impl GlobalOrder {
    /// An order without any access.
    pub(super) fn empty() -> GlobalOrder {
        GlobalOrder { predecessors: BTreeMap::new(), ordered_accesses: BTreeSet::new(), accesses_in_loop: BTreeMap::new() }
    }

    /// Finds the accesses to global memory whose order needs synchronisation between threads.
    pub(super) fn analyse(function: &Function, layouts: &base::Arena<LayoutId, Layout>) -> GlobalOrder {
        let accesses = global_accesses(function);
        let orders = TokenOrders::analyse(function, &accesses);
        let mut order = GlobalOrder::empty();
        let mut enclosing_loops = BTreeMap::new();
        collect_enclosing_loops(function, function.region, &mut Vec::new(), &mut enclosing_loops);
        let mut distances: BTreeMap<OpId, IterationDistance> = BTreeMap::new();
        for (op, access) in &accesses {
            let mut predecessors = Predecessors::default();
            for &loop_op in enclosing_loops.get(op).into_iter().flatten() {
                let distance = distances.entry(loop_op).or_insert_with(|| IterationDistance::analyse(function, loop_op));
                if !distance.accesses_same_or_disjoint_elements(function, access.base, access.index) {
                    predecessors.overlaps_in.insert(loop_op);
                }
            }
            let preceding = access.token.and_then(|token| orders.across_iterations.get(&token));
            for earlier in preceding.into_iter().flatten() {
                let earlier_access = &accesses[earlier];
                let by_one_thread = is_tma_store(function, *earlier) && is_tma_store(function, *op)
                    || are_stores_of_first_thread(function, *earlier, *op);
                if by_one_thread || !earlier_access.access_kind.writes() && !access.access_kind.writes() {
                    continue;
                }
                let earlier_iteration = !is_by_same_thread(function, layouts, *earlier, earlier_access, *op, access);
                let same_iteration = earlier_iteration && orders.is_ordered_after(function, (*earlier, earlier_access), access);
                if earlier_iteration || !predecessors.overlaps_in.is_empty() {
                    predecessors.executions.insert(*earlier, RequiredExecutions { same_iteration, earlier_iteration });
                }
            }
            if !predecessors.executions.is_empty() {
                order.ordered_accesses.extend(predecessors.executions.keys().chain([op]));
                order.predecessors.insert(*op, predecessors);
            }
        }
        for op in &order.ordered_accesses {
            enclosing_loops[op].iter().for_each(|loop_op| _ = order.accesses_in_loop.entry(*loop_op).or_default().insert(*op));
        }
        order
    }
}

/// Collects the loops that enclose each global access, outermost first.
fn collect_enclosing_loops(
    function: &Function,
    region: Region,
    enclosing: &mut Vec<OpId>,
    loops_of_access: &mut BTreeMap<OpId, Vec<OpId>>,
) {
    for &op in &function.body.blocks[function.body.block_of(region)].ops {
        let kind: &Op = &function.body.ops[op].kind;
        if kind.effects().global.is_some() {
            loops_of_access.insert(op, enclosing.clone());
        }
        let is_loop = kind.core().is_some_and(Core::is_loop);
        enclosing.extend(is_loop.then_some(op));
        kind.regions().into_iter().for_each(|region| collect_enclosing_loops(function, region, enclosing, loops_of_access));
        enclosing.truncate(enclosing.len() - usize::from(is_loop));
    }
}

/// Returns whether both accesses are to the same tile in the same layout without copies. The same thread then performs both
/// accesses to each element.
fn is_by_same_thread(
    function: &Function,
    layouts: &base::Arena<LayoutId, Layout>,
    first_op: OpId,
    first: &GlobalAccess<'_>,
    second_op: OpId,
    second: &GlobalAccess<'_>,
) -> bool {
    let (first_tile, second_tile) = (moved_tile_type(function, first_op, first), moved_tile_type(function, second_op, second));
    let holds_no_copies = |layout: &Layout| !layout.lane.contains(&0) && !layout.warp.contains(&0);
    let without_copies = first_tile.and_then(Type::layout).is_some_and(|id| holds_no_copies(&layouts[id]));
    without_copies && first_tile == second_tile && first.base == second.base && first.index == second.index
}
