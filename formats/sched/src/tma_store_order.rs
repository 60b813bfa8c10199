//! The order of TMA stores: one thread issues all of them, and a store that a token orders after others waits until those are
//! complete.

use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Loc, Value};
use std::collections::BTreeSet;

/// Checks that a store which may follow another store waits for it, or that an earlier store of the block with the same token does.
pub(crate) fn check_waits(function: &Function) -> Result<(), (Loc, String)> {
    let body = &function.body;
    let store = |op: &OpId| match &body.ops[*op].kind {
        Op::Core(tileas::Op::TmaStore { token, waits, .. }) => Some((*token, *waits)),
        _ => None,
    };
    let ordered_tokens = tokens_after_tma_stores(function);
    for block in body.blocks.values() {
        let mut waited: BTreeSet<Value> = BTreeSet::new();
        for op in &block.ops {
            let Some((Some(token), waits)) = store(op) else { continue };
            if waits {
                waited.insert(token);
            } else if ordered_tokens.contains(&token) && !waited.contains(&token) {
                let message = format!("tma_store: {token} orders it after another one, for which it does not wait");
                return Err((body.ops[*op].loc, message));
            }
        }
    }
    Ok(())
}

/// The tokens that may be ordered after a TMA store.
fn tokens_after_tma_stores(function: &Function) -> BTreeSet<Value> {
    let body = &function.body;
    let all = body.walk(function.region);
    let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmaStore { .. }));
    let mut after: BTreeSet<Value> = BTreeSet::new();
    if !all.iter().any(is_store) {
        return after;
    }
    let inside = |op: OpId| body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    loop {
        let count = after.len();
        for &op in &all {
            let node = &body.ops[op];
            let mut op_and_inner = inside(op).chain([op]);
            if !op_and_inner.any(|op| is_store(&op) || body.ops[op].kind.operands().iter().any(|value| after.contains(value))) {
                continue;
            }
            after.extend(&node.results);
            after.extend(node.kind.regions().into_iter().flat_map(|region| &body.blocks[body.block_of(region)].args));
        }
        if after.len() == count {
            return after;
        }
    }
}
