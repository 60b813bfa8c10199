//! Token order: for each token, the accesses to global memory that precede it.

use crate::{Function, Op};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::{RegionEdge, edges_of_op};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tileas::Type;
use tileas::effects::{GlobalAccess, Moved};

/// The accesses of a function.
pub fn accesses(function: &Function) -> BTreeMap<OpId, GlobalAccess<'_>> {
    let body = &function.body;
    body.walk(function.region).into_iter().filter_map(|op| Some((op, body.ops[op].kind.effects().global?))).collect()
}

/// For each token, the accesses that precede it.
pub type Ordered = BTreeMap<Value, BTreeSet<OpId>>;

/// The order by tokens within one iteration of each loop, and across iterations.
#[derive(Clone)]
pub struct Orders {
    pub in_an_iteration: Rc<Ordered>,
    pub in_any_iteration: Rc<Ordered>,
}

impl Orders {
    pub fn of(function: &Function, accesses: &BTreeMap<OpId, GlobalAccess<'_>>) -> Orders {
        let body = &function.body;
        let is_loop = |op: &OpId| matches!(body.ops[*op].kind.core(), Some(Core::For { .. } | Core::Loop { .. }));
        let in_any_iteration = Rc::new(after(function, accesses, true));
        let in_an_iteration = match body.walk(function.region).iter().any(is_loop) {
            true => Rc::new(after(function, accesses, false)),
            false => in_any_iteration.clone(),
        };
        Orders { in_an_iteration, in_any_iteration }
    }

    /// Returns whether a token orders an access after `earlier`: within one iteration, or across iterations if both may be to one
    /// array. Different arrays may alias, because a caller may pass one pointer twice. For accesses ordered only by a later
    /// iteration, however, the iterations are unknown, and accesses of one iteration need no wait.
    pub fn order(&self, function: &Function, earlier: (OpId, &GlobalAccess<'_>), access: &GlobalAccess<'_>) -> bool {
        let has = |all: &Ordered| access.token.and_then(|token| all.get(&token)).is_some_and(|all| all.contains(&earlier.0));
        has(&self.in_an_iteration) || may_be_one_array(function, earlier.1, access) && has(&self.in_any_iteration)
    }
}

/// The accesses that precede each token. Of equivalent accesses in a chain the last one represents the earlier ones, so that chains
/// stay short. With `loops_back`, loop-carried tokens count.
fn after(function: &Function, accesses: &BTreeMap<OpId, GlobalAccess<'_>>, loops_back: bool) -> Ordered {
    let body = &function.body;
    let all = body.walk(function.region);
    let comes_around = all.iter().any(|op| !body.ops[*op].kind.regions().is_empty());
    let alike = |one: OpId, other: OpId| {
        let (first, second) = (&accesses[&one], &accesses[&other]);
        first.access_kind.writes() == second.access_kind.writes()
            && (first.base, first.index) == (second.base, second.index)
            && moved(function, one, first) == moved(function, other, second)
            && is_tma_store(function, one) == is_tma_store(function, other)
    };
    let is_token = |value: &Value| matches!(body.ty(*value), Type::Token);
    let mut after = Ordered::new();
    let mut known = usize::MAX;
    while known != after.values().map(BTreeSet::len).sum::<usize>() {
        known = after.values().map(BTreeSet::len).sum();
        for &op in &all {
            let node = &body.ops[op];
            for RegionEdge { from, to } in edges_of_op(body, op) {
                if !loops_back && !node.results.contains(&to) && !node.kind.operands().contains(&from) {
                    continue;
                }
                if let Some(accesses) = after.get(&from).filter(|_| is_token(&to)).cloned() {
                    after.entry(to).or_default().extend(accesses);
                }
            }
            if !node.kind.regions().is_empty() {
                continue;
            }
            let own = node.kind.effects().global.map(|_| op);
            let operands = node.kind.operands();
            let earlier = operands.iter().filter_map(|value| after.get(value)).flatten().copied();
            let stands = |earlier: &OpId| own.is_none_or(|own| !alike(*earlier, own));
            let ordered: BTreeSet<OpId> = earlier.filter(stands).chain(own).collect();
            for result in node.results.iter().filter(|result| is_token(result)) {
                after.entry(*result).or_default().extend(&ordered);
            }
        }
        if !comes_around {
            break;
        }
    }
    after
}

/// Returns whether two accesses may be to the same array.
pub fn may_be_one_array(function: &Function, first: &GlobalAccess<'_>, second: &GlobalAccess<'_>) -> bool {
    let scope = |access: &GlobalAccess<'_>| match function.body.ty(access.base) {
        Type::View(view) => view.memref.alias_scope,
        _ => 0,
    };
    let (first, second) = (scope(first), scope(second));
    first == 0 || second == 0 || first == second
}

/// Returns whether the access is a TMA store, which one thread issues.
pub fn is_tma_store(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind, Op::Core(tileas::Op::TmaStore { .. }))
}

/// The type of the tile that an access moves, if the tile is in registers.
pub(crate) fn moved<'a>(function: &'a Function, op: OpId, access: &GlobalAccess<'_>) -> Option<&'a Type> {
    let body = &function.body;
    match access.moved {
        Moved::Result => body.ops[op].results.first().map(|value| body.ty(*value)),
        Moved::Operand(value) => Some(body.ty(value)),
        Moved::Buffer => None,
    }
}
