//! Purpose: write the pipeline steps of TMA copies that a function issues once, before its loops.
//! Requires: final loops, accumulator pipeline steps, and placements in which no earlier op uses the memory of these buffers.
//! Establishes: for each such copy a one-stage pipeline (see [`single_role_pipelines`]), so that its data needs no barrier.
//! Preserves: the order of all existing ops.
//! See also: FlashAttention-3, which loads Q once through a pipeline of its own.
//!
//! Consumers wait before the first reader and release after the last reader. MMAs release before they commit their accumulator, so
//! no arrival is pending when the CTA exits.

use crate::buffer_accesses::buffer_accesses;
use crate::materialize::drop_token;
use crate::{single_role_pipelines, tma_pipelines, tmem_mma_buffers};
use base::ir::{Op as OpId, Operation};
use base::{Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use sched::{Drain, Fill, Function, Op};
use tileas::{Buffer, Type};

pub(crate) fn run(function: &mut Function) {
    let ops = &function.body.blocks[function.entry()].ops;
    let copies: Vec<(OpId, Buffer)> =
        ops.iter().filter_map(|op| Some((*op, tma_pipelines::buffer_filled_by_tma(&function.body.ops[*op].kind)?))).collect();
    // Loop prologues put their copies here too, but those copies already have pipelines.
    let copies = copies.into_iter().filter(|(_, buffer)| function.attrs.pipeline_of(*buffer).is_none());
    copies.collect::<Vec<_>>().into_iter().for_each(|(copy, buffer)| add_pipeline(function, copy, buffer));
}

/// Adds a one-stage pipeline for a copy, with its pipeline steps. Leaves the copy as it is if the copy follows a reader, or if a
/// write of global memory or a return comes before the last reader.
fn add_pipeline(function: &mut Function, copy: OpId, buffer: Buffer) {
    let body = &function.body;
    let op_and_inner_ops = |op: OpId| {
        let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
        inner.chain([op]).collect::<Vec<OpId>>()
    };
    let accesses_buffer =
        |op: OpId| op != copy && buffer_accesses(&body.ops[op].kind).iter().any(|access| access.buffer() == buffer);
    let ops = &body.blocks[function.entry()].ops;
    let readers: Vec<usize> = (0..ops.len()).filter(|at| op_and_inner_ops(ops[*at]).into_iter().any(accesses_buffer)).collect();
    let (Some(&first), Some(&last)) = (readers.first(), readers.last()) else { return };
    let copy_index = ops.iter().position(|op| *op == copy).expect("the copy is in the function's block");
    if copy_index > first
        || ops[copy_index..=last].iter().flat_map(|op| op_and_inner_ops(*op)).any(|op| must_follow_copies(&body.ops[op].kind))
    {
        // The copy stays as it is. The hazard checker reports later that no op waits for the copy.
        return;
    }
    let by_mma = readers
        .iter()
        .flat_map(|at| op_and_inner_ops(ops[*at]))
        .any(|op| tmem_mma_buffers::mma_operands(&body.ops[op].kind).contains(&Some(buffer)));
    // An MMA in flight may read its operands until a thread has waited for it, so the release follows the waits.
    let group_waits = ops[last + 1..].iter().take_while(|op| matches!(body.ops[**op].kind, Op::GroupWait { .. })).count();
    let (first, last) = (ops[first], ops[last + group_waits]);

    let drain = if by_mma { Drain::Mma } else { Drain::Threads };
    let pipeline = single_role_pipelines::add(&mut function.attrs, vec![buffer], 1, Fill::Tma, drain);
    let loc = function.body.ops[copy].loc;
    drop_token(&mut function.body.ops[copy].kind);
    let (phase, constant) = zero_constant(function, loc);
    let mut insert_step = |before: bool, op: OpId, step: Op| {
        let new = function.body.new_op(step, [], loc);
        insert_next_to(function, before, op, new);
    };
    insert_step(true, copy, Op::PipelineAcquire { pipeline, stage: None, phase });
    insert_step(false, copy, Op::PipelineCommit { pipeline, stage: None });
    insert_step(true, first, Op::PipelineWait { pipeline, stage: None, phase });
    insert_step(false, last, Op::PipelineRelease { pipeline, stage: None });
    // Ops ordered after the copy's token get a new token: no op writes global memory before the pipeline wait.
    let token = function.body.ops[copy].results[0];
    let make_token = function.body.new_op(Op::Core(tileas::Op::Core(Core::MakeToken {})), [Type::Token], loc);
    let new_token = function.body.result(make_token);
    function.body.replace_uses(token, new_token);
    let entry = function.entry();
    function.body.blocks[entry].ops.splice(0..0, [constant, make_token]);
}

/// Returns whether an op must not run before an earlier copy has completed: a write of global memory or a return.
fn must_follow_copies(op: &Op) -> bool {
    let writes = op.effects().global.is_some_and(|access| access.access_kind.writes());
    writes || matches!(op.core(), Some(Core::Return {}))
}

/// Creates a zero of type i32. Returns the value, and its op, which is not in a block yet.
fn zero_constant(function: &mut Function, loc: Loc) -> (Value, OpId) {
    let zero = Op::Core(tileas::Op::Core(Core::Constant { value: Dense::Splat(0) }));
    let constant = function.body.new_op(zero, [Type::Scalar(Elem::Scalar(Scalar::I32))], loc);
    (function.body.result(constant), constant)
}

/// Inserts an op directly before or after another op of the function's entry block.
fn insert_next_to(function: &mut Function, before: bool, op: OpId, new: OpId) {
    let entry = function.entry();
    let ops = &mut function.body.blocks[entry].ops;
    let at = ops.iter().position(|other| *other == op).expect("the op is in the function's block") + usize::from(!before);
    ops.insert(at, new);
}
