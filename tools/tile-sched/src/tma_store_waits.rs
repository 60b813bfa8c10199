//! Purpose: mark the TMA stores that must wait for earlier TMA stores.
//! Requires: an assigned warp role for each op.
//! Establishes: if a token may order a TMA store after another store, the TMA store waits for the issuing thread's earlier TMA
//! stores. If an earlier store of its block has the same token, the later store does not wait again.
//! Preserves: everything except the `waits` attribute.
//! See also: CUTLASS `tma_store_wait`, PTX `cp.async.bulk.wait_group`.

use base::Value;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use sched::{Function, Op};
use std::collections::BTreeSet;

pub(crate) fn run(function: &mut Function) {
    let body = &mut function.body;
    let orders_nothing = |token: Value, body: &base::Body<Op, tileas::Type>| {
        let producer = body.defining_op(token).map(|op| &body.ops[op].kind);
        matches!(producer.and_then(Op::core), Some(Core::MakeToken {}))
    };
    let mut stores_that_wait: Vec<OpId> = Vec::new();
    for block in body.blocks.values() {
        let mut waited_tokens: BTreeSet<Value> = BTreeSet::new();
        for op in &block.ops {
            let Op::Core(tileas::Op::TmaStore { token: Some(token), .. }) = &body.ops[*op].kind else { continue };
            if !orders_nothing(*token, body) && waited_tokens.insert(*token) {
                stores_that_wait.push(*op);
            }
        }
    }
    for op in stores_that_wait {
        if let Op::Core(tileas::Op::TmaStore { waits, .. }) = &mut body.ops[op].kind {
            *waits = true;
        }
    }
}
