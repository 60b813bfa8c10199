//! Marks the waits of loops that stand before the last products of the round before.
//!
//! Requires: everything else about the function decided. Establishes: which waits are early; those are all that can be, of agents with
//! a warp for each part of a multiprocessor. Of more, another one multiplies while a warp waits, and they have fewer registers.

use base::{Block, Op as OpId};
use sched::{Function, Op, early};
use vocabulary::core_ops::Core;

/// Parts of a multiprocessor.
const PARTS: u32 = 4;

pub(crate) fn run(function: &mut Function) {
    let found: Vec<OpId> =
        loops(function).into_iter().filter_map(|block| early::of(function, block).ok()).flat_map(|early| early.waits).collect();
    for op in found {
        if let Op::PipeWait { early, .. } = &mut function.body.ops[op].kind {
            *early = true;
        }
    }
}

/// The bodies of loops that few warps go round.
fn loops(function: &Function) -> Vec<Block> {
    let body = &function.body;
    let few = |op: &OpId| match body.ops[*op].kind {
        Op::Agent { agent, body: region } if function.attrs.agents[agent].warps <= PARTS => Some(region),
        _ => None,
    };
    let agents = body.walk(function.region).into_iter().filter_map(|op| few(&op));
    let inside = agents.flat_map(|region| body.walk(region));
    let loops = inside.filter_map(|op| match body.ops[op].kind.core() {
        Some(Core::For { body: region, .. }) => Some(body.block_of(*region)),
        _ => None,
    });
    loops.collect()
}
