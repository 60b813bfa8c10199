//! The order of TMA stores: one thread issues all of them. A store that a token orders after other stores waits until those stores
//! are complete.

use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Loc, Value};
use std::collections::BTreeSet;

/// Checks that a TMA store whose token may follow another TMA store has the attribute `waits`. The attribute is unnecessary if an
/// earlier TMA store of the same block, with the same token, has it. The error is the location and the message of a violation.
pub(crate) fn check_waits(function: &Function) -> Result<(), (Loc, String)> {
    let body = &function.body;
    let tma_store = |op: &OpId| match &body.ops[*op].kind {
        Op::Core(tileas::Op::TmaStore { token, waits, .. }) => Some((*token, *waits)),
        _ => None,
    };
    let ordered_tokens = tokens_after_tma_stores(function);
    for block in body.blocks.values() {
        let mut waited_tokens: BTreeSet<Value> = BTreeSet::new();
        for op in &block.ops {
            let Some((Some(token), waits)) = tma_store(op) else { continue };
            if waits {
                waited_tokens.insert(token);
            } else if ordered_tokens.contains(&token) && !waited_tokens.contains(&token) {
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
    let ops = body.walk(function.region);
    let is_store = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::TmaStore { .. }));
    let mut tokens: BTreeSet<Value> = BTreeSet::new();
    if !ops.iter().any(is_store) {
        return tokens;
    }
    let inner_ops = |op: OpId| body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    loop {
        let count = tokens.len();
        for &op in &ops {
            let node = &body.ops[op];
            let mut op_and_inner = inner_ops(op).chain([op]);
            if !op_and_inner.any(|op| is_store(&op) || body.ops[op].kind.operands().iter().any(|value| tokens.contains(value))) {
                continue;
            }
            tokens.extend(&node.results);
            tokens.extend(node.kind.regions().into_iter().flat_map(|region| &body.blocks[body.block_of(region)].args));
        }
        if tokens.len() == count {
            return tokens;
        }
    }
}
