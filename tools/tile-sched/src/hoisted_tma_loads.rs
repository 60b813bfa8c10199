//! The steps of the pipelines that copies by tma_copies fill which a function makes once, before its loops.
//!
//! Such a copy fills the one stage of its pipeline where it stands. Who reads it waits for that before the first op of the function in which it
//! is read, and leaves it behind the last: mmas before they say that their accumulators are complete, so that nothing is told any more
//! when a block is at its end.
//!
//! Requires: loops as they will be, steps of the pipelines of accumulators, and placements in which nothing has the memory of these buffers before.
//! Establishes: the steps of their single_role_pipelines, so that what they bring needs no barrier.

use crate::buffer_accesses::touches;
use crate::materialize::forget_order;
use crate::{single_role_pipelines, tma_pipelines, tmem_pipelines};
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
        ops.iter().filter_map(|op| Some((*op, tma_pipelines::filled(&function.body.ops[*op].kind)?))).collect();
    // The steps of the loops' copies stand there, too, and have their pipelines.
    let copies = copies.into_iter().filter(|(_, buffer)| function.attrs.pipeline_of(*buffer).is_none());
    copies.collect::<Vec<_>>().into_iter().for_each(|(copy, buffer)| steps(function, copy, buffer));
}

fn steps(function: &mut Function, copy: OpId, buffer: Buffer) {
    let body = &function.body;
    let with_inner = |op: OpId| {
        let inner = body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region));
        inner.chain([op]).collect::<Vec<OpId>>()
    };
    let reads = |op: OpId| op != copy && touches(&body.ops[op].kind).iter().any(|touch| touch.buffer() == buffer);
    let ops = &body.blocks[function.entry()].ops;
    let readers: Vec<usize> = (0..ops.len()).filter(|at| with_inner(ops[*at]).into_iter().any(reads)).collect();
    let (Some(&first), Some(&last)) = (readers.first(), readers.last()) else { return };
    let begin = ops.iter().position(|op| *op == copy).expect("the copy is in the function's block");
    if begin > first || ops[begin..=last].iter().flat_map(|op| with_inner(*op)).any(|op| overtakes(&body.ops[op].kind)) {
        // The hazard_checker says that nobody waits for it.
        return;
    }
    let by_mma = readers
        .iter()
        .flat_map(|at| with_inner(ops[*at]))
        .any(|op| tmem_pipelines::operands(&body.ops[op].kind).contains(&Some(buffer)));
    // Mma in flight have read it when they were waited for.
    let waits = ops[last + 1..].iter().take_while(|op| matches!(body.ops[**op].kind, Op::GroupWait { .. })).count();
    let (first, last) = (ops[first], ops[last + waits]);

    let drain = if by_mma { Drain::Mma } else { Drain::Threads };
    let pipeline = single_role_pipelines::add(&mut function.attrs, vec![buffer], 1, Fill::Tma, drain);
    let loc = function.body.ops[copy].loc;
    forget_order(&mut function.body.ops[copy].kind);
    let (phase, constant) = number(function, loc);
    let mut put = |before: bool, op: OpId, step: Op| {
        let new = function.body.new_op(step, [], loc);
        place(function, before, op, new);
    };
    put(true, copy, Op::PipelineAcquire { pipeline, stage: None, phase });
    put(false, copy, Op::PipelineCommit { pipeline, stage: None });
    put(true, first, Op::PipelineWait { pipeline, stage: None, phase });
    put(false, last, Op::PipelineRelease { pipeline, stage: None });
    // What comes after its token comes after nothing: nothing is written before it was waited for.
    let token = function.body.ops[copy].results[0];
    let zero_init = function.body.new_op(Op::Core(tileas::Op::Core(Core::MakeToken {})), [Type::Token], loc);
    let made = function.body.result(zero_init);
    function.body.replace_uses(token, made);
    let entry = function.entry();
    function.body.blocks[entry].ops.splice(0..0, [constant, zero_init]);
}

/// Whether an op would be wrong before a copy that program order has before it has come.
fn overtakes(op: &Op) -> bool {
    let writes = op.effects().global.is_some_and(|access| access.access_kind.writes());
    writes || matches!(op.core(), Some(Core::Return {}))
}

fn number(function: &mut Function, loc: Loc) -> (Value, OpId) {
    let zero = Op::Core(tileas::Op::Core(Core::Constant { value: Dense::Splat(0) }));
    let made = function.body.new_op(zero, [Type::Scalar(Elem::Scalar(Scalar::I32))], loc);
    (function.body.result(made), made)
}

/// Puts an op right before or behind another one of the function's block.
fn place(function: &mut Function, before: bool, op: OpId, new: OpId) {
    let entry = function.entry();
    let ops = &mut function.body.blocks[entry].ops;
    let at = ops.iter().position(|other| *other == op).expect("the op is in the function's block") + usize::from(!before);
    ops.insert(at, new);
}
