//! Recognises lookups: one-element loads without a memory scope that only other loads precede in token order. An example is the
//! load of a page number from a page table.
//!
//! No earlier op of the kernel writes the loaded memory. A pass may therefore repeat a lookup, hoist it, or move it to another warp
//! role.

use crate::token_sources::TokenSources;
use base::ir::Op as OpId;
use core_dialect::tile::element_count;
use sched::Function;
use tileas::Type;
use tileas::effects::GlobalAccess;

/// Returns whether an op is a lookup.
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
        && token.is_none_or(|token| TokenSources::orders_after_loads_only(function, token))
}

/// Returns whether all threads hold the same value: a scalar, or a tile of one element.
pub(crate) fn is_uniform(ty: &Type) -> bool {
    !matches!(ty, Type::Tile { .. }) || element_count(ty.shape()) == 1
}
