//! Marks the loads of loops whose first pieces are read before the last products of the round before.
//!
//! Requires: everything else about the function decided. Establishes: which loads are early; those are all that can be, where a part of
//! a multiprocessor has one warp and the last products are a small part of a round. Where it has more warps, another one multiplies while
//! one waits, and they have fewer registers; and what is waited for much earlier may not have come.

use base::{Block, Op as OpId, Region};
use sched::{Function, Op, early};
use tileas::{MmaAtom, Place};

/// Parts of a multiprocessor.
const PARTS: u32 = 4;
/// Steps along K of a round from which on its last products are a small part of it.
const STEPS: u32 = 4;

pub(crate) fn run(function: &mut Function) {
    let found = loops(function).into_iter().filter_map(|block| early::of(function, block).ok());
    let found = found.filter(|early| steps(function, early.product) >= STEPS);
    let loads: Vec<OpId> = found.flat_map(|early| early.loads).collect();
    for op in loads {
        if let Op::Core(tileas::Op::SharedLoad { early, .. }) = &mut function.body.ops[op].kind {
            *early = true;
        }
    }
}

fn steps(function: &Function, product: OpId) -> u32 {
    match &function.body.ops[product].kind {
        Op::Core(tileas::Op::Mma { lhs: Place::Registers(lhs), atom: MmaAtom::Sync(atom), .. }) => {
            function.body.ty(*lhs).shape().last().map_or(1, |depth| depth / atom.k)
        }
        _ => 1,
    }
}

/// The bodies of loops that few warps go round.
fn loops(function: &Function) -> Vec<Block> {
    let (body, attrs) = (&function.body, &function.attrs);
    let few = |op: &OpId| match body.ops[*op].kind {
        Op::Agent { agent, body: region } if attrs.agents[agent].warps <= PARTS => Some(region),
        _ => None,
    };
    let regions: Vec<Region> = match attrs.agents.is_empty() {
        true => (attrs.program.warps <= PARTS).then_some(function.region).into_iter().collect(),
        false => body.walk(function.region).iter().filter_map(few).collect(),
    };
    regions.into_iter().flat_map(|region| early::bodies(function, region)).collect()
}
