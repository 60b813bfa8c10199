//! Which accesses to global memory tokens order after which others, where that matters to other threads than the one that did the first.

use crate::Function;
use crate::tokens::{Orders, accesses, is_store_of_boxes, moved};
use base::ir::Op as OpId;
use std::collections::{BTreeMap, BTreeSet};
use tileas::Type;
use tileas::effects::GlobalAccess;
use tileas::layout::{Layout, LayoutId};

/// For each access the ones before it that other threads may have made to the same bytes.
pub(super) fn before(function: &Function, layouts: &base::Arena<LayoutId, Layout>) -> BTreeMap<OpId, BTreeSet<OpId>> {
    let accesses = accesses(function);
    let orders = Orders::of(function, &accesses);
    let mut before = BTreeMap::new();
    for (op, access) in &accesses {
        let earlier = access.token.and_then(|token| orders.in_any_round.get(&token)).into_iter().flatten();
        let matters = |earlier: &&OpId| {
            let first = &accesses[*earlier];
            let writes = first.does.writes() || access.does.writes();
            writes
                && orders.order(function, (**earlier, first), access)
                && !one_thread_does_both(function, layouts, (**earlier, first), (*op, access))
        };
        let earlier: BTreeSet<OpId> = earlier.filter(matters).copied().collect();
        if !earlier.is_empty() {
            before.insert(*op, earlier);
        }
    }
    before
}

/// Whether each element is accessed by the same thread both times, or all by the one that asks for boxes.
fn one_thread_does_both(
    function: &Function,
    layouts: &base::Arena<LayoutId, Layout>,
    (first_op, first): (OpId, &GlobalAccess<'_>),
    (second_op, second): (OpId, &GlobalAccess<'_>),
) -> bool {
    let (tile, other) = (moved(function, first_op, first), moved(function, second_op, second));
    let is_alone = |layout: &Layout| !layout.lane.contains(&0) && !layout.warp.contains(&0);
    let alone = tile.and_then(Type::layout).is_some_and(|id| is_alone(&layouts[id]));
    let same = alone && tile == other && first.base == second.base && first.index == second.index;
    same || is_store_of_boxes(function, first_op) && is_store_of_boxes(function, second_op)
}
