//! Token order: for each token, the accesses to global memory that precede it.

use crate::{Function, Op};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::{RegionEdge, edges_of_op};
use core_dialect::tile::element_count;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tileas::Type;
use tileas::effects::{GlobalAccess, MovedTile};

/// The accesses of a function to global memory, by op.
pub fn global_accesses(function: &Function) -> BTreeMap<OpId, GlobalAccess<'_>> {
    let body = &function.body;
    body.walk(function.region).into_iter().filter_map(|op| Some((op, body.ops[op].kind.effects().global?))).collect()
}

/// For each token, the accesses that precede it.
pub type PrecedingAccesses = BTreeMap<Value, BTreeSet<OpId>>;

/// The order by tokens: within one iteration of each loop, and also from one iteration to the next.
#[derive(Clone)]
pub struct TokenOrders {
    /// For each token, the accesses of the same iteration that precede it.
    pub within_iteration: Rc<PrecedingAccesses>,
    /// For each token, the accesses that precede it, also in earlier iterations of an enclosing loop.
    pub across_iterations: Rc<PrecedingAccesses>,
}

impl TokenOrders {
    /// Computes both orders for the accesses of a function.
    pub fn analyse(function: &Function, accesses: &BTreeMap<OpId, GlobalAccess<'_>>) -> TokenOrders {
        let body = &function.body;
        let is_loop = |op: &OpId| body.ops[*op].kind.core().is_some_and(Core::is_loop);
        let across_iterations = Rc::new(preceding_accesses(function, accesses, true));
        let within_iteration = match body.walk(function.region).iter().any(is_loop) {
            true => Rc::new(preceding_accesses(function, accesses, false)),
            false => across_iterations.clone(),
        };
        TokenOrders { within_iteration, across_iterations }
    }

    /// Returns whether a token orders an access after `earlier`. A token path within one iteration always orders them, because the
    /// arrays of different parameters may alias. A path through a loop-carried token orders them only if both accesses may be to
    /// one array. Reason: such a path does not tell how many iterations lie between the accesses.
    pub fn is_ordered_after(&self, function: &Function, earlier: (OpId, &GlobalAccess<'_>), access: &GlobalAccess<'_>) -> bool {
        let contains_earlier =
            |all: &PrecedingAccesses| access.token.and_then(|token| all.get(&token)).is_some_and(|all| all.contains(&earlier.0));
        contains_earlier(&self.within_iteration)
            || may_be_one_array(function, earlier.1, access) && contains_earlier(&self.across_iterations)
    }
}

/// The accesses that precede each token. If a token chain has several equivalent accesses, the set contains only the last one, so
/// that the sets stay small. With `follow_loop_edges`, the result includes accesses of earlier iterations.
fn preceding_accesses(
    function: &Function,
    accesses: &BTreeMap<OpId, GlobalAccess<'_>>,
    follow_loop_edges: bool,
) -> PrecedingAccesses {
    let body = &function.body;
    let ops = body.walk(function.region);
    let has_regions = ops.iter().any(|op| !body.ops[*op].kind.regions().is_empty());
    let equivalent = |one: OpId, other: OpId| {
        let (first, second) = (&accesses[&one], &accesses[&other]);
        first.access_kind.writes() == second.access_kind.writes()
            && (first.base, first.index) == (second.base, second.index)
            && moved_tile_type(function, one, first) == moved_tile_type(function, other, second)
            && is_tma_store(function, one) == is_tma_store(function, other)
    };
    let is_token = |value: &Value| matches!(body.ty(*value), Type::Token);
    let mut preceding = PrecedingAccesses::new();
    let mut entry_count = usize::MAX;
    while entry_count != preceding.values().map(BTreeSet::len).sum::<usize>() {
        entry_count = preceding.values().map(BTreeSet::len).sum();
        for &op in &ops {
            let node = &body.ops[op];
            for RegionEdge { from, to } in edges_of_op(body, op) {
                if !follow_loop_edges && !node.results.contains(&to) && !node.kind.operands().contains(&from) {
                    continue;
                }
                if let Some(accesses) = preceding.get(&from).filter(|_| is_token(&to)).cloned() {
                    preceding.entry(to).or_default().extend(accesses);
                }
            }
            if !node.kind.regions().is_empty() {
                continue;
            }
            let own = node.kind.effects().global.map(|_| op);
            let operands = node.kind.operands();
            let earlier = operands.iter().filter_map(|value| preceding.get(value)).flatten().copied();
            let is_kept = |earlier: &OpId| own.is_none_or(|own| !equivalent(*earlier, own));
            let ordered: BTreeSet<OpId> = earlier.filter(is_kept).chain(own).collect();
            for result in node.results.iter().filter(|result| is_token(result)) {
                preceding.entry(*result).or_default().extend(&ordered);
            }
        }
        if !has_regions {
            break;
        }
    }
    preceding
}

/// Returns whether two accesses may be to the same array. Alias scope 0 may alias every other scope.
pub fn may_be_one_array(function: &Function, first: &GlobalAccess<'_>, second: &GlobalAccess<'_>) -> bool {
    let alias_scope = |access: &GlobalAccess<'_>| match function.body.ty(access.base) {
        Type::View(view) => view.memref.alias_scope,
        _ => 0,
    };
    let (first, second) = (alias_scope(first), alias_scope(second));
    first == 0 || second == 0 || first == second
}

/// Returns whether the access is a TMA store, which one thread issues.
pub fn is_tma_store(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind, Op::Core(tileas::Op::TmaStore { .. }))
}

/// Returns whether the first thread of the CTA performs both accesses: they store tiles of one element, and the kernel has no warp
/// roles. The program order of this thread then orders them, whatever their addresses are.
pub fn are_stores_of_first_thread(function: &Function, first: OpId, second: OpId) -> bool {
    let stored = |op: OpId| {
        let kind = &function.body.ops[op].kind;
        let Op::Core(tileas::Op::StoreView { tile: value, .. } | tileas::Op::Store { value, .. }) = kind else { return None };
        Some(*value)
    };
    let stores_one_element = |op: OpId| stored(op).is_some_and(|value| element_count(function.body.ty(value).shape()) == 1);
    function.attrs.warp_roles.is_empty() && stores_one_element(first) && stores_one_element(second)
}

/// The type of the tile that an access moves, if the tile is in registers.
pub(crate) fn moved_tile_type<'a>(function: &'a Function, op: OpId, access: &GlobalAccess<'_>) -> Option<&'a Type> {
    let body = &function.body;
    match access.moved_tile {
        MovedTile::Result => body.ops[op].results.first().map(|value| body.ty(*value)),
        MovedTile::Operand(value) => Some(body.ty(value)),
        MovedTile::Buffer => None,
    }
}
