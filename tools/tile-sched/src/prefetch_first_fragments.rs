//! Marks the loads of loops whose first pieces are read before the last mmas of the iteration before.
//!
//! Requires: everything else about the function decided. Establishes: which loads are early; those are all that can be, where a part of
//! a multiprocessor has one warp and the last mmas are a small part of a iteration. Where it has more warps, another one has_mma while
//! one waits, and they have fewer registers; and what is waited for much earlier may not have come.

use base::{Block, Op as OpId, Region};
use sched::{Function, Op, first_fragments};
use tileas::{MmaAtom, MmaOperand};

/// Parts of a multiprocessor.
const PARTS: u32 = 4;
/// Steps along K of a iteration from which on its last mmas are a small part of it.
const STEPS: u32 = 4;

pub(crate) fn run(function: &mut Function) {
    let found = loops(function).into_iter().filter_map(|block| first_fragments::of(function, block).ok());
    let found = found.filter(|early| steps(function, early.mma) >= STEPS);
    let loads: Vec<OpId> = found.flat_map(|early| early.loads).collect();
    for op in loads {
        if let Op::Core(tileas::Op::SharedLoad { prefetch_next: early, .. }) = &mut function.body.ops[op].kind {
            *early = true;
        }
    }
}

fn steps(function: &Function, mma: OpId) -> u32 {
    match &function.body.ops[mma].kind {
        Op::Core(tileas::Op::Mma { lhs: MmaOperand::Registers(lhs), atom: MmaAtom::Sync(atom), .. }) => {
            function.body.ty(*lhs).shape().last().map_or(1, |depth| depth / atom.k)
        }
        _ => 1,
    }
}

/// The bodies of loops that few warps go iteration.
fn loops(function: &Function) -> Vec<Block> {
    let (body, attrs) = (&function.body, &function.attrs);
    let few = |op: &OpId| match body.ops[*op].kind {
        Op::WarpRole { role: warp_role, body: region } if attrs.warp_roles[warp_role].warps <= PARTS => Some(region),
        _ => None,
    };
    let regions: Vec<Region> = match attrs.warp_roles.is_empty() {
        true => (attrs.program.warps <= PARTS).then_some(function.region).into_iter().collect(),
        false => body.walk(function.region).iter().filter_map(few).collect(),
    };
    regions.into_iter().flat_map(|region| first_fragments::bodies(function, region)).collect()
}
