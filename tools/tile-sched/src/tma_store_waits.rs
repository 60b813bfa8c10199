//! Purpose: mark the TMA stores that must wait for earlier TMA stores.
//! Requires: an assigned warp role for each op.
//! Establishes: if a token may order a TMA store after another store, the TMA store waits for it. An earlier store of its block
//! that waits on the same token suffices.
//! Preserves: everything except the `waits` attribute.
//! See also: CUTLASS `tma_store_wait`, PTX `cp.async.bulk.wait_group`.

use base::Value;
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use sched::{Function, Op};
use std::collections::BTreeSet;

pub(crate) fn run(function: &mut Function) {
    let body = &mut function.body;
    let is_made = |token: Value, body: &base::Body<Op, tileas::Type>| {
        let made = body.defining_op(token).map(|op| &body.ops[op].kind);
        matches!(made.and_then(Op::core), Some(Core::MakeToken {}))
    };
    let mut wait: Vec<OpId> = Vec::new();
    for block in body.blocks.values() {
        let mut waited: BTreeSet<Value> = BTreeSet::new();
        for op in &block.ops {
            let Op::Core(tileas::Op::TmaStore { token: Some(token), .. }) = &body.ops[*op].kind else { continue };
            if !is_made(*token, body) && waited.insert(*token) {
                wait.push(*op);
            }
        }
    }
    for op in wait {
        if let Op::Core(tileas::Op::TmaStore { waits, .. }) = &mut body.ops[op].kind {
            *waits = true;
        }
    }
}
