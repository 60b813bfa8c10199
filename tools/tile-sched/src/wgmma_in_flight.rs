//! Finds the `wgmma` MMAs that a pipelined loop leaves in flight across iterations. Only analyses; rewrites nothing.
//!
//! In-flight invariant: the accumulator flows only to the same MMA of the next iteration, and in the loop only copies fill the
//! operand buffers. The stages that the MMAs of an iteration read are therefore free one iteration later.

use crate::buffer_accesses::{SchedulingAccess, buffer_accesses};
use base::ir::{Op as OpId, Operation};
use base::{Block, Body};
use sched::{Function, LoopSchedule, Op};
use std::collections::BTreeSet;
use tileas::{Buffer, MmaAtom, MmaOperand, Type};

/// An MMA that a loop leaves in flight.
pub(crate) struct InFlightMma {
    pub(crate) op: OpId,
    /// The index of the MMA's accumulator among the values that the loop carries.
    pub(crate) carried_index: usize,
    /// The buffers of the left and the right operand.
    pub(crate) operand_buffers: Vec<Buffer>,
}

/// The MMAs of a loop's body for which the in-flight invariant holds, so that they may stay in flight across iterations.
pub(crate) fn mmas_left_in_flight(function: &Function, block: Block) -> Vec<InFlightMma> {
    let body = &function.body;
    let args = &body.blocks[block].args;
    let Some(end) = body.terminator(block) else { return Vec::new() };
    let continued = body.ops[end].kind.operands();
    let use_count = |value| {
        let everywhere = body.walk(function.region).into_iter().flat_map(|op| body.ops[op].kind.operands());
        everywhere.filter(|other| *other == value).count()
    };
    let ops = &body.blocks[block].ops;
    let inside = ops.iter().flat_map(|op| body.ops[*op].kind.regions()).flat_map(|region| body.walk(region));
    let accessed: Vec<SchedulingAccess> =
        ops.iter().copied().chain(inside).flat_map(|op| buffer_accesses(&body.ops[op].kind)).collect();
    let in_flight_mma = |&op: &OpId| {
        let Op::Core(tileas::Op::Mma { lhs, rhs, acc: MmaOperand::Registers(acc), atom: MmaAtom::Group(_), .. }) =
            &body.ops[op].kind
        else {
            return None;
        };
        let reads = vec![lhs.buffer()?, rhs.buffer()?];
        if reads.iter().any(|buffer| accessed.contains(&SchedulingAccess::Write(*buffer))) {
            return None;
        }
        let accumulators = body.result(op);
        let carried = args.iter().skip(1).position(|arg| arg == acc)?;
        let flows_only_to_next =
            continued.get(carried) == Some(&accumulators) && use_count(accumulators) == 1 && use_count(*acc) == 1;
        (has_32_bit_accumulator(body, op) && flows_only_to_next).then_some(InFlightMma {
            op,
            carried_index: carried,
            operand_buffers: reads,
        })
    };
    ops.iter().filter_map(in_flight_mma).collect()
}

/// Returns whether an op is a `wgmma` MMA.
pub(crate) fn is_wgmma(op: &Op) -> bool {
    matches!(op, Op::Core(tileas::Op::Mma { atom: MmaAtom::Group(_), .. }))
}

/// Returns whether an op is a `wgmma` MMA with a 32-bit accumulator. Threads pack and unpack 16-bit accumulators, so an MMA with
/// such an accumulator must complete within its iteration.
pub(crate) fn has_32_bit_accumulator(body: &Body<Op, Type>, op: OpId) -> bool {
    let kind = &body.ops[op].kind;
    is_wgmma(kind) && body.ty(body.result(op)).elem().is_some_and(|elem| elem.bits() == 32)
}

/// Returns whether every copy to an operand buffer of the in-flight MMAs is issued in an earlier iteration than its use. A copy in
/// the iteration of its use would overwrite a stage that the MMA of the previous iteration still reads.
pub(crate) fn can_stay_in_flight(function: &Function, schedule: &LoopSchedule) -> bool {
    let Some(block) = sched::loop_body(function, schedule.index) else { return false };
    let (operand_buffers, ops, last) =
        (operand_buffers_in_flight(function, block), &function.body.blocks[block].ops, schedule.last_stage());
    let fills = |op: OpId| {
        buffer_accesses(&function.body.ops[op].kind)
            .iter()
            .any(|access| matches!(access, SchedulingAccess::Copy(b) if operand_buffers.contains(b)))
    };
    schedule.entries.iter().all(|entry| entry.stage < last || ops.get(entry.op as usize).is_none_or(|op| !fills(*op)))
}

/// The operand buffers of the MMAs that may stay in flight.
pub(crate) fn operand_buffers_in_flight(function: &Function, block: Block) -> BTreeSet<Buffer> {
    mmas_left_in_flight(function, block).into_iter().flat_map(|mma| mma.operand_buffers).collect()
}
