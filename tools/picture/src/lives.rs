//! How long buffers are in use, for drawing: the scheduler's own answer is the addresses that it chose.

use base::ir::Operation;
use sched::{Agent, Function, Op};
use std::collections::BTreeMap;
use tileas::Buffer;
use tileas::effects::{BufferAccess, Does};
use vocabulary::tile::Dense;

/// From the first op that needs a buffer to the last, by their numbers in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub first: usize,
    pub last: usize,
}

/// The accesses of a function to its buffers: number of the op in program order, and what it does.
pub fn accesses(function: &Function) -> Vec<(usize, base::ir::Op, BufferAccess)> {
    let ops = function.body.walk(function.region);
    let of = |(number, op): (usize, base::ir::Op)| {
        let accesses = function.body.ops[op].kind.effects().buffers;
        accesses.into_iter().map(move |access| (number, op, access)).collect::<Vec<_>>()
    };
    ops.into_iter().enumerate().flat_map(of).collect()
}

/// Ops that follow each other: the beginning of a function, which all warps execute, and the bodies of its agents, which run at the
/// same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub agent: Option<Agent>,
    pub first: usize,
    pub last: usize,
}

/// The parts of a function, of which one without agents has one.
pub fn parts(function: &Function) -> Vec<Part> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let mut parts = vec![Part { agent: None, first: 0, last: ops.len().saturating_sub(1) }];
    for (number, op) in ops.iter().enumerate() {
        if let Op::Agent { agent, body: region } = &body.ops[*op].kind {
            if parts.len() == 1 {
                parts[0].last = number.saturating_sub(1);
            }
            parts.push(Part { agent: Some(*agent), first: number, last: number + body.walk(*region).len() });
        }
    }
    parts
}

/// The lives of a function's buffers, one in each part that needs the buffer. A ring lives as long as the loop that goes round it,
/// and so does what an iteration leaves to the next one.
pub fn lives(function: &Function) -> BTreeMap<Buffer, Vec<Life>> {
    let accesses = accesses(function);
    let loops = loops(function);
    let mut lives: BTreeMap<Buffer, Vec<Life>> = BTreeMap::new();
    for part in parts(function) {
        let inside = |number: usize| (part.first..=part.last).contains(&number);
        let mut here: BTreeMap<Buffer, Life> = BTreeMap::new();
        for (number, _, access) in accesses.iter().filter(|(number, ..)| inside(*number)) {
            here.entry(access.buffer).or_insert(Life { first: *number, last: *number }).last = *number;
        }
        for (first, last) in loops.iter().copied().filter(|(first, _)| inside(*first)) {
            for (buffer, life) in &mut here {
                let inside = |(number, _, access): &&(usize, base::ir::Op, BufferAccess)| {
                    access.buffer == *buffer && (first..=last).contains(number)
                };
                let ring = function.attrs.placements.get(*buffer).is_some_and(|placement| placement.depth > 1);
                if accesses.iter().find(inside).is_some_and(|(_, _, access)| ring || is_carried(function, *access)) {
                    *life = Life { first: life.first.min(first), last: life.last.max(last) };
                }
            }
        }
        here.into_iter().for_each(|(buffer, life)| lives.entry(buffer).or_default().push(life));
    }
    lives
}

/// Whether the first access of an iteration to a buffer is to what the one before left there: what is read comes from it where no
/// pipe brings it.
fn is_carried(function: &Function, access: BufferAccess) -> bool {
    use vocabulary::core_ops::Core;
    let made = |value| function.body.defining_op(value).and_then(|op| Op::core(&function.body.ops[op].kind));
    match access.does {
        Does::Writes | Does::Fills => false,
        Does::Reads => !function.attrs.pipes.values().any(|pipe| pipe.buffers.contains(&access.buffer)),
        Does::WritesIf(fresh) => !matches!(made(fresh), Some(Core::Constant { value: Dense::Splat(1..) })),
        Does::Changes => true,
    }
}

/// The first and last op of each loop, inner before outer ones.
fn loops(function: &Function) -> Vec<(usize, usize)> {
    let body = &function.body;
    let ops = body.walk(function.region);
    let number: BTreeMap<base::ir::Op, usize> = ops.iter().enumerate().map(|(number, op)| (*op, number)).collect();
    let is_loop = |op: &&base::ir::Op| {
        use vocabulary::core_ops::Core;
        matches!(Op::core(&body.ops[**op].kind), Some(Core::For { .. } | Core::Loop { .. }))
    };
    let span = |op: &base::ir::Op| {
        let inside = body.ops[*op].kind.regions().into_iter().flat_map(|region| body.walk(region));
        (number[op], inside.map(|op| number[&op]).max().unwrap_or(number[op]))
    };
    ops.iter().rev().filter(is_loop).map(span).collect()
}
