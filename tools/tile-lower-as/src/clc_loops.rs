//! Purpose: let a CTA compute tile blocks of the launch that have not started, after its own tile block. For this, the CTA cancels
//! their start (cluster launch control, CLC).
//! Requires: `.aa`; `--clc=on`, or a program that uses CLC already; no op that must execute once or in grid order.
//! Establishes: a loop over tile blocks, as in a persistent kernel, so that TMA loads of the next tile block overlap the epilogue.
//! Scalars and views that do not depend on the tile block are before the loop.
//! Preserves: results.
//! See also: PTX `clusterlaunchcontrol.try_cancel`; CUTLASS `PersistentTileSchedulerSm100`.

use crate::cluster::must_execute_once;
use base::diag::{Diagnostic, Result};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::{Op as OpId, Operation};
use base::{Block, Envelope, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::uses_clc;
use core_dialect::structured_ops::LoopBounds;
use core_dialect::tile::Dense;
use numerics::Scalar;
use std::collections::BTreeSet;
use target_info::Feature;
use tileaa::{Function, Op, Type};

/// Wraps a function in a loop over tile blocks if `--clc=on` requests this. Returns an error if CLC is requested or used already,
/// but CTAs of the function cannot steal tile blocks.
pub(crate) fn run(function: &Function, target: Target, envelope: &mut Envelope) -> Result<Function> {
    let already_uses_clc = uses_clc(&function.body);
    if !already_uses_clc && envelope.options.get("clc") != Some("on") {
        return Ok(function.clone());
    }
    if let Err(why) = can_steal(function, target) {
        let message = format!("cluster launch control: CTAs of '{}' cannot steal work: {why}", function.name);
        return Err(Diagnostic::unsupported("AS905", message).at_loc(&envelope.debug, function.loc));
    }
    if already_uses_clc {
        return Ok(function.clone());
    }
    envelope.log.push(LogEntry {
        pass: "clc".into(),
        outcome: Outcome::Passed,
        name: "ClusterLaunchControl".into(),
        category: Category::Other,
        message: "CTAs steal tile blocks that have not started, as --clc requests".into(),
        function: function.name.clone(),
        loc: function.loc,
    });
    Ok(wrap_in_clc_loop(function))
}

/// Checks that the CTAs of a function can steal tile blocks. The error is the reason why they cannot.
fn can_steal(function: &Function, target: Target) -> std::result::Result<(), String> {
    let body = &function.body;
    if !target.has(Feature::ClusterLaunchControl) {
        return Err(format!("{} has no cluster launch control", target.name));
    }
    match body.walk(function.region).into_iter().map(|op| &body.ops[op].kind).find(|op| must_execute_once(op)) {
        Some(op) => Err(format!("'{}' must execute once", op.mnemonic())),
        None => Ok(()),
    }
}

/// Wraps the function body in a loop over tile blocks.
fn wrap_in_clc_loop(function: &Function) -> Function {
    let mut function = function.clone();
    let entry = function.entry();
    let ops = std::mem::take(&mut function.body.blocks[entry].ops);
    let (terminator, ops) = ops.split_last().expect("a function ends in a return");
    let (invariant_ops, repeated) = separate_invariant_ops(&function, ops);
    function.body.blocks[entry].ops = invariant_ops;

    let index = || Type::scalar(Scalar::I32);
    let mut append_scalar = |core: Core| {
        let op = function.body.append(entry, Op::Core(core), [index()], function.loc);
        function.body.result(op)
    };
    let [lower, step] = [0, 1].map(|number| append_scalar(Core::Constant { value: Dense::Splat(number) }));
    let upper = append_scalar(Core::ClcBlockCount {});
    let region = function.body.new_region();
    let block = function.body.new_block(region);
    let iteration = function.body.add_argument(block, index());
    function.body.blocks[block].ops = repeated;
    replace_block_ids(&mut function, block, iteration);
    function.body.append(block, Op::Core(Core::Continue { values: Vec::new() }), [], function.loc);
    let kind = Core::new_loop(Some(LoopBounds { lower, upper, step, unsigned: false }), Vec::new(), region);
    function.body.append(entry, Op::Core(kind), [], function.loc);
    function.body.blocks[entry].ops.push(*terminator);
    base::text::compact(&function)
}

/// Divides `ops` into the ops before the loop and the ops in the loop. Ops that compute scalars and views that are equal for all
/// tile blocks go before the loop. Ops that compute tiles stay in the loop, because tiles would occupy registers across the loop.
fn separate_invariant_ops(function: &Function, ops: &[OpId]) -> (Vec<OpId>, Vec<OpId>) {
    let body = &function.body;
    let mut invariant: BTreeSet<Value> = function.params().iter().copied().collect();
    let is_invariant = |op: &OpId| {
        let node = &body.ops[*op];
        let is_scalar_or_view = |value: &Value| match body.ty(*value) {
            Type::Tile { shape, .. } => shape.is_empty(),
            Type::MemRef(_) | Type::View(_) => true,
            Type::Token => false,
        };
        let can_hoist = matches!(&node.kind, Op::Core(core) if core.is_pure() && !matches!(core, Core::BlockId { .. }))
            && node.kind.regions().is_empty()
            && node.results.iter().all(is_scalar_or_view)
            && node.kind.operands().iter().all(|value| invariant.contains(value));
        if can_hoist {
            invariant.extend(&node.results);
        }
        can_hoist
    };
    ops.iter().copied().partition(is_invariant)
}

/// Replaces each `block_id` in the loop body `block` by the index of the tile block that the iteration `iteration` computes.
fn replace_block_ids(function: &mut Function, block: Block, iteration: Value) {
    let loop_ops: Vec<OpId> = function.body.blocks[block].ops.clone();
    let nested_ops = loop_ops.iter().flat_map(|op| function.body.ops[*op].kind.regions()).collect::<Vec<_>>();
    let nested_ops = nested_ops.into_iter().flat_map(|region| function.body.walk(region)).collect::<Vec<_>>();
    for op in loop_ops.into_iter().chain(nested_ops) {
        if let Op::Core(Core::BlockId { axis }) = function.body.ops[op].kind {
            function.body.ops[op].kind = Op::Core(Core::ClcBlockId { iteration, axis });
        }
    }
}
