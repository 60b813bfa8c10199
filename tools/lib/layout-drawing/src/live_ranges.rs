//! Live ranges of buffers, for drawing. Buffer allocation in the scheduler computes live ranges independently of this module.

use base::ir::Operation;
use core_dialect::tile::Dense;
use sched::{Function, Op, WarpRole};
use std::collections::BTreeMap;
use tileas::Buffer;
use tileas::effects::{AccessKind, BufferAccess};

/// A live range: the first and last op that need a buffer, numbered in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRange {
    pub first: usize,
    pub last: usize,
}

/// Returns the buffer accesses of a function, each with its op and the op's number in program order.
pub fn accesses(function: &Function) -> Vec<(usize, base::ir::Op, BufferAccess)> {
    let ops = function.body.walk(function.region);
    let accesses_of_op = |(number, op): (usize, base::ir::Op)| {
        let accesses = function.body.ops[op].kind.effects().buffers;
        accesses.into_iter().map(move |access| (number, op, access)).collect::<Vec<_>>()
    };
    ops.into_iter().enumerate().flat_map(accesses_of_op).collect()
}

/// The ops of a function that one group of warps executes sequentially: the prologue, which all warps execute, or the body of a
/// warp role. `first` and `last` are op numbers in program order. Warp roles run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleSpan {
    /// The warp role. `None` for the prologue.
    pub warp_role: Option<WarpRole>,
    pub first: usize,
    pub last: usize,
}

/// Returns the prologue and the warp roles of a function. Without warp roles, the prologue is the complete function.
pub fn role_spans(function: &Function) -> Vec<RoleSpan> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let mut role_spans = vec![RoleSpan { warp_role: None, first: 0, last: ops.len().saturating_sub(1) }];
    for (number, op) in ops.iter().enumerate() {
        if let Op::WarpRole { role: warp_role, body: region } = &body.ops[*op].kind {
            if role_spans.len() == 1 {
                role_spans[0].last = number.saturating_sub(1);
            }
            role_spans.push(RoleSpan { warp_role: Some(*warp_role), first: number, last: number + body.walk(*region).len() });
        }
    }
    role_spans
}

/// Returns the live ranges of a function's buffers: one for each prologue or warp role that accesses the buffer. Multi-stage
/// buffers, and buffers that carry data to the next iteration, are live for the complete loop.
pub fn live_ranges(function: &Function) -> BTreeMap<Buffer, Vec<LiveRange>> {
    let accesses = accesses(function);
    let loops = loop_spans(function);
    let mut live_ranges: BTreeMap<Buffer, Vec<LiveRange>> = BTreeMap::new();
    for role_span in role_spans(function) {
        let inside = |number: usize| (role_span.first..=role_span.last).contains(&number);
        let mut ranges_in_span: BTreeMap<Buffer, LiveRange> = BTreeMap::new();
        for (number, _, access) in accesses.iter().filter(|(number, ..)| inside(*number)) {
            ranges_in_span.entry(access.buffer).or_insert(LiveRange { first: *number, last: *number }).last = *number;
        }
        for (first, last) in loops.iter().copied().filter(|(first, _)| inside(*first)) {
            for (buffer, live_range) in &mut ranges_in_span {
                let is_access_in_loop = |(number, _, access): &&(usize, base::ir::Op, BufferAccess)| {
                    access.buffer == *buffer && (first..=last).contains(number)
                };
                let staged_buffer = function.attrs.placements.get(*buffer).is_some_and(|placement| placement.depth > 1);
                if accesses
                    .iter()
                    .find(is_access_in_loop)
                    .is_some_and(|(_, _, access)| staged_buffer || is_carried(function, *access))
                {
                    *live_range = LiveRange { first: live_range.first.min(first), last: live_range.last.max(last) };
                }
            }
        }
        ranges_in_span.into_iter().for_each(|(buffer, live_range)| live_ranges.entry(buffer).or_default().push(live_range));
    }
    live_ranges
}

/// Returns whether the first access of an iteration uses data of the previous iteration. A read uses such data, unless a pipeline
/// fills the buffer.
fn is_carried(function: &Function, access: BufferAccess) -> bool {
    use core_dialect::core_ops::Core;
    let defining_op = |value| function.body.defining_op(value).and_then(|op| Op::core(&function.body.ops[op].kind));
    match access.access_kind {
        AccessKind::Writes | AccessKind::Fills => false,
        AccessKind::Reads => !function.attrs.pipelines.values().any(|pipeline| pipeline.buffers.contains(&access.buffer)),
        AccessKind::WritesIf(zero_init) => !matches!(defining_op(zero_init), Some(Core::Constant { value: Dense::Splat(1..) })),
        AccessKind::Changes => true,
    }
}

/// Returns the numbers of the first and last op of each loop. A loop comes after the loops in its body.
fn loop_spans(function: &Function) -> Vec<(usize, usize)> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let op_numbers: BTreeMap<base::ir::Op, usize> = ops.iter().enumerate().map(|(number, op)| (*op, number)).collect();
    let is_loop = |op: &&base::ir::Op| {
        use core_dialect::core_ops::Core;
        matches!(Op::core(&body.ops[**op].kind), Some(Core::For { .. } | Core::Loop { .. }))
    };
    let span = |op: &base::ir::Op| {
        let inside = body.ops[*op].kind.regions().into_iter().flat_map(|region| body.walk(region));
        (op_numbers[op], inside.map(|op| op_numbers[&op]).max().unwrap_or(op_numbers[op]))
    };
    ops.iter().rev().filter(is_loop).map(span).collect()
}
