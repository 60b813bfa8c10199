//! Purpose: let consecutive loops fill the same multi-stage buffers.
//! Requires: loops without schedules.
//! Establishes: consecutive loops that fill equal buffers, for MMAs at equal positions and no other readers, use the same
//! buffers.
//! Preserves: the op order; only buffer names change.
//! See also: CUTLASS persistent kernels, which carry one `PipelineState` across tiles.
//!
//! Reason: a producer warp that runs ahead cannot know when another loop's pipeline has freed the buffers of its next loop.
//! Within one pipeline the mbarriers signal it.

use crate::buffer_accesses::touches;
use crate::graph::region_of;
use crate::{tma_pipelines, tmem_pipelines};
use base::ir::Op as OpId;
use core_dialect::core_ops::Core;
use sched::{Function, Op};
use std::collections::BTreeMap;
use tileas::{Buffer, BufferInfo, MmaOperand};

/// A buffer of a loop, and the index of the loop's first MMA that reads it.
#[derive(Clone, PartialEq)]
struct Filled {
    info: BufferInfo,
    mma: usize,
}

/// A loop and the buffers that its TMA copies fill, in order. Only the loop's MMAs read these buffers.
struct Loop {
    op: OpId,
    buffers: Vec<Buffer>,
    filled: Vec<Filled>,
}

pub(crate) fn share(function: &mut Function) {
    let loops: Vec<Loop> = function.body.blocks[function.entry()].ops.iter().filter_map(|op| Loop::of(function, *op)).collect();
    let mut distinct: Vec<&Loop> = Vec::new();
    for later in &loops {
        let Some(earlier) = distinct.iter().find(|earlier| earlier.filled == later.filled) else {
            distinct.push(later);
            continue;
        };
        let names: BTreeMap<Buffer, Buffer> = later.buffers.iter().copied().zip(earlier.buffers.iter().copied()).collect();
        for op in function.body.walk(region_of(function, later.op)) {
            rename(&mut function.body.ops[op].kind, &names);
        }
    }
}

/// Returns whether loops of a function share multi-stage buffers.
pub(crate) fn are_shared(function: &Function) -> bool {
    function.attrs.program.buffers.ids().any(|buffer| filling(function, buffer).len() > 1)
}

/// The top-level loops whose TMA copies fill a buffer.
pub(crate) fn filling(function: &Function, buffer: Buffer) -> Vec<OpId> {
    let loops = function.body.blocks[function.entry()].ops.iter().copied().filter(|op| is_loop(function, *op));
    loops.filter(|op| fills(function, *op).iter().any(|(_, other)| *other == buffer)).collect()
}

fn is_loop(function: &Function, op: OpId) -> bool {
    matches!(function.body.ops[op].kind.core(), Some(Core::For { .. }))
}

/// The TMA copies of a loop's body, and the buffers that they fill.
fn fills(function: &Function, for_op: OpId) -> Vec<(OpId, Buffer)> {
    let body = &function.body;
    let ops = &body.blocks[body.block_of(region_of(function, for_op))].ops;
    ops.iter().filter_map(|op| Some((*op, tma_pipelines::filled(&body.ops[*op].kind)?))).collect()
}

impl Loop {
    fn of(function: &Function, op: OpId) -> Option<Loop> {
        if !is_loop(function, op) {
            return None;
        }
        let body = &function.body;
        let ops = &body.blocks[body.block_of(region_of(function, op))].ops;
        let mmas: Vec<OpId> = ops.iter().copied().filter(|op| tmem_pipelines::is_mma(&body.ops[*op].kind)).collect();
        let (copies, buffers): (Vec<OpId>, Vec<Buffer>) = fills(function, op).into_iter().unzip();
        let touched = |op: OpId, buffer: Buffer| touches(&body.ops[op].kind).iter().any(|touch| touch.buffer() == buffer);
        let filled = |buffer: &Buffer| {
            let mma = mmas.iter().position(|mma| touched(*mma, *buffer))?;
            Some(Filled { info: function.attrs.program.buffers[*buffer].clone(), mma })
        };
        let filled: Vec<Filled> = buffers.iter().map(filled).collect::<Option<_>>()?;
        let is_copy_or_mma = |op: &OpId| copies.contains(op) || mmas.contains(op);
        let others = body.walk(function.region).into_iter().filter(|op| !is_copy_or_mma(op));
        let used_by_no_other = others.into_iter().all(|op| !buffers.iter().any(|buffer| touched(op, *buffer)));
        (used_by_no_other && !buffers.is_empty()).then_some(Loop { op, buffers, filled })
    }
}

/// Renames the buffers in copies and MMAs.
fn rename(op: &mut Op, names: &BTreeMap<Buffer, Buffer>) {
    let change = |buffer: &mut Buffer| *buffer = names.get(buffer).copied().unwrap_or(*buffer);
    match op {
        Op::Core(tileas::Op::TmaLoad { buffer, .. }) => change(buffer),
        Op::Core(tileas::Op::Mma { lhs, rhs, .. }) => {
            for place in [lhs, rhs] {
                if let MmaOperand::Memory { buffer, .. } = place {
                    change(buffer);
                }
            }
        }
        _ => {}
    }
}
