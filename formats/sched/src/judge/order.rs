//! Which accesses to global memory tokens order after which others, where that matters to other threads than the one that did the first.

use crate::{Function, Op};
use base::Value;
use base::ir::{Op as OpId, Operation};
use std::collections::{BTreeMap, BTreeSet};
use tileas::Type;
use tileas::effects::{GlobalAccess, Moved};
use tileas::layout::{Layout, LayoutId};

/// For each access the ones before it that other threads may have made to the same bytes.
pub(super) fn before(function: &Function, layouts: &base::Arena<LayoutId, Layout>) -> BTreeMap<OpId, BTreeSet<OpId>> {
    let body = &function.body;
    let accesses = body.walk(function.region).into_iter().filter_map(|op| Some((op, body.ops[op].kind.effects().global?)));
    let accesses: BTreeMap<OpId, GlobalAccess<'_>> = accesses.collect();
    let behind = behind(function, &accesses);
    let mut before = BTreeMap::new();
    for (op, access) in &accesses {
        let earlier = access.token.and_then(|token| behind.get(&token)).into_iter().flatten();
        let matters = |earlier: &&OpId| {
            let first = &accesses[*earlier];
            let writes = first.does.writes() || access.does.writes();
            writes
                && may_meet(function, first, access)
                && !one_thread_does_both(function, layouts, (**earlier, first), (*op, access))
        };
        let earlier: BTreeSet<OpId> = earlier.filter(matters).copied().collect();
        if !earlier.is_empty() {
            before.insert(*op, earlier);
        }
    }
    before
}

/// The accesses that each token orders behind itself. Of those that are alike in all that is asked of them the last stands for the ones
/// that it comes after, so that chains of them do not grow.
fn behind(function: &Function, accesses: &BTreeMap<OpId, GlobalAccess<'_>>) -> BTreeMap<Value, BTreeSet<OpId>> {
    let body = &function.body;
    let all = body.walk(function.region);
    let comes_around = all.iter().any(|op| !body.ops[*op].kind.regions().is_empty());
    let alike = |one: OpId, other: OpId| {
        let (first, second) = (&accesses[&one], &accesses[&other]);
        first.does.writes() == second.does.writes()
            && (first.base, first.index) == (second.base, second.index)
            && moved(function, one, first) == moved(function, other, second)
            && is_store_of_boxes(function, one) == is_store_of_boxes(function, other)
    };
    let is_token = |value: &Value| matches!(body.ty(*value), Type::Token);
    let mut behind: BTreeMap<Value, BTreeSet<OpId>> = BTreeMap::new();
    let mut known = usize::MAX;
    while known != behind.values().map(BTreeSet::len).sum::<usize>() {
        known = behind.values().map(BTreeSet::len).sum();
        for &op in &all {
            let node = &body.ops[op];
            for (from, to) in super::sums::handed_on(function, op) {
                if let Some(accesses) = behind.get(&from).filter(|_| is_token(&to)).cloned() {
                    behind.entry(to).or_default().extend(accesses);
                }
            }
            if !node.kind.regions().is_empty() {
                continue;
            }
            let own = node.kind.effects().global.map(|_| op);
            let operands = node.kind.operands();
            let earlier = operands.iter().filter_map(|value| behind.get(value)).flatten().copied();
            let stands = |earlier: &OpId| own.is_none_or(|own| !alike(*earlier, own));
            let ordered: BTreeSet<OpId> = earlier.filter(stands).chain(own).collect();
            for result in node.results.iter().filter(|result| is_token(result)) {
                behind.entry(*result).or_default().extend(&ordered);
            }
        }
        if !comes_around {
            break;
        }
    }
    behind
}

fn may_meet(function: &Function, first: &GlobalAccess<'_>, second: &GlobalAccess<'_>) -> bool {
    let scope = |access: &GlobalAccess<'_>| match function.body.ty(access.base) {
        Type::View(view) => view.memref.alias_scope,
        _ => 0,
    };
    let (first, second) = (scope(first), scope(second));
    first == 0 || second == 0 || first == second
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

fn is_store_of_boxes(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind, Op::Core(tileas::Op::StoreBoxes { .. }))
}

/// The type of the tile that an access moves, if that is in registers.
fn moved<'a>(function: &'a Function, op: OpId, access: &GlobalAccess<'_>) -> Option<&'a Type> {
    let body = &function.body;
    match access.moved {
        Moved::Result => body.ops[op].results.first().map(|value| body.ty(*value)),
        Moved::Operand(value) => Some(body.ty(value)),
        Moved::Buffer => None,
    }
}
