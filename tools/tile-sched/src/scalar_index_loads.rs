//! Lookups: plain loads of one element behind nothing but other loads, such as that of a page's number from a table.
//!
//! Nothing that the kernel writes comes before one, so it can be made again, earlier, or by another warp_role.

use crate::partition::Order;
use base::ir::Op as OpId;
use core_dialect::tile::element_count;
use sched::Function;
use tileas::Type;
use tileas::effects::GlobalAccess;

pub(crate) fn is_lookup(function: &Function, op: OpId) -> bool {
    let node = &function.body.ops[op];
    let effects = node.kind.effects();
    let Some(GlobalAccess { token, .. }) =
        effects.global.filter(|access| !access.access_kind.writes() && access.order.scope.is_none())
    else {
        return false;
    };
    effects.buffers.is_empty()
        && node.results.iter().all(|value| is_uniform(function.body.ty(*value)))
        && token.is_none_or(|token| Order::is_of_loads(function, token))
}

/// Whether all threads have the same: no tile, or one of one element.
pub(crate) fn is_uniform(ty: &Type) -> bool {
    !matches!(ty, Type::Tile { .. }) || element_count(ty.shape()) == 1
}
