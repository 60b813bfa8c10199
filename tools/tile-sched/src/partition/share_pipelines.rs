//! Purpose: let consecutive loops fill the same multi-stage buffers.
//! Requires: loops without schedules.
//! Establishes: consecutive loops use the same buffers if they fill buffers of equal shape and layout, MMAs at equal positions read
//! these buffers, and no other op does.
//! Preserves: the op order; only the buffers of copies and MMAs change.
//! See also: CUTLASS persistent kernels, which carry one `PipelineState` across tiles.
//!
//! Reason: if two loops have different pipelines and their buffers share memory, no mbarrier signals the producer warp that the
//! memory is free. Within one pipeline, the mbarriers give this signal.

use crate::buffer_accesses::buffer_accesses;
use crate::feature_choice::FeatureChoice;
use crate::for_loops::for_body;
use crate::pipelining_options::pipelines_loops;
use crate::{tma_pipelines, tmem_mma_buffers};
use base::File;
use base::diag::Result;
use base::ir::Op as OpId;
use sched::{Function, Module, Op};
use std::collections::BTreeMap;
use tileas::{Buffer, BufferInfo, MmaOperand};

/// The properties of a buffer that a loop's TMA copies fill.
#[derive(Clone, PartialEq)]
struct FilledBuffer {
    info: BufferInfo,
    /// The index, among the loop's MMAs, of the first MMA that reads the buffer.
    first_reader: usize,
}

/// A loop and the buffers that its TMA copies fill, in order. Only the loop's MMAs read these buffers.
struct FillingLoop {
    op: OpId,
    buffers: Vec<Buffer>,
    /// The properties of `buffers`. Loops with equal properties can share buffers.
    filled: Vec<FilledBuffer>,
}

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    if pipelines_loops(&file.envelope)? && FeatureChoice::from_envelope(&file.envelope) != FeatureChoice::Never {
        file.payload.functions.iter_mut().filter(|function| super::check(function).is_ok()).for_each(share_buffers_of_loops);
    }
    Ok(())
}

/// Makes each top-level loop use the buffers of the first loop with equal properties.
fn share_buffers_of_loops(function: &mut Function) {
    let loops: Vec<FillingLoop> =
        function.body.blocks[function.entry()].ops.iter().filter_map(|op| FillingLoop::find(function, *op)).collect();
    let mut loops_with_own_buffers: Vec<&FillingLoop> = Vec::new();
    for later in &loops {
        let Some(earlier) = loops_with_own_buffers.iter().find(|earlier| earlier.filled == later.filled) else {
            loops_with_own_buffers.push(later);
            continue;
        };
        let new_buffers: BTreeMap<Buffer, Buffer> = later.buffers.iter().copied().zip(earlier.buffers.iter().copied()).collect();
        for op in function.body.walk(for_body(function, later.op)) {
            replace_buffers(&mut function.body.ops[op].kind, &new_buffers);
        }
    }
}

/// Returns whether loops of a function share multi-stage buffers.
pub(crate) fn are_shared(function: &Function) -> bool {
    function.attrs.program.buffers.ids().any(|buffer| tma_pipelines::loops_that_fill(function, buffer).len() > 1)
}

impl FillingLoop {
    /// Describes a loop whose filled buffers only its TMA copies and MMAs access. Returns `None` for every other op.
    fn find(function: &Function, op: OpId) -> Option<FillingLoop> {
        if !tma_pipelines::is_loop(function, op) {
            return None;
        }
        let body = &function.body;
        let ops = &body.blocks[body.block_of(for_body(function, op))].ops;
        let mmas: Vec<OpId> = ops.iter().copied().filter(|op| tmem_mma_buffers::is_tmem_mma(&body.ops[*op].kind)).collect();
        let (copies, buffers): (Vec<OpId>, Vec<Buffer>) = tma_pipelines::tma_copies(function, op).into_iter().unzip();
        let accesses =
            |op: OpId, buffer: Buffer| buffer_accesses(&body.ops[op].kind).iter().any(|access| access.buffer() == buffer);
        let filled = |buffer: &Buffer| {
            let first_reader = mmas.iter().position(|mma| accesses(*mma, *buffer))?;
            Some(FilledBuffer { info: function.attrs.program.buffers[*buffer].clone(), first_reader })
        };
        let filled: Vec<FilledBuffer> = buffers.iter().map(filled).collect::<Option<_>>()?;
        let is_copy_or_mma = |op: &OpId| copies.contains(op) || mmas.contains(op);
        let others = body.walk(function.region).into_iter().filter(|op| !is_copy_or_mma(op));
        let has_no_other_user = others.into_iter().all(|op| !buffers.iter().any(|buffer| accesses(op, *buffer)));
        (has_no_other_user && !buffers.is_empty()).then_some(FillingLoop { op, buffers, filled })
    }
}

/// Replaces the buffers of copies and MMAs.
fn replace_buffers(op: &mut Op, new_buffers: &BTreeMap<Buffer, Buffer>) {
    let replace = |buffer: &mut Buffer| *buffer = new_buffers.get(buffer).copied().unwrap_or(*buffer);
    match op {
        Op::Core(tileas::Op::TmaLoad { buffer, .. }) => replace(buffer),
        Op::Core(tileas::Op::Mma { lhs, rhs, .. }) => {
            for place in [lhs, rhs] {
                if let MmaOperand::Memory { buffer, .. } = place {
                    replace(buffer);
                }
            }
        }
        _ => {}
    }
}
