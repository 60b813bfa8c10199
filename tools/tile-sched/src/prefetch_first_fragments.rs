//! Purpose: mark the shared-memory loads of a loop whose first fragments threads load before the last MMAs of the previous
//! iteration.
//! Requires: all other decisions about the function.
//! Establishes: `prefetch_next` on every eligible load, if an SM sub-partition has one warp and the last MMAs are a small part of
//! an iteration.
//! Preserves: the op order and every other attribute.
//! See also: CUTLASS SM80 mainloops, which prefetch the register fragments of the next k block.
//!
//! With more warps per sub-partition, another warp issues MMAs while one waits, and registers are scarcer. If the last MMAs are a
//! small part of the iteration, the data has usually arrived when the load reads it.

use base::{Block, Op as OpId, Region};
use sched::{Function, Op, first_fragments};
use tileas::{MmaAtom, MmaOperand};

/// Number of sub-partitions of an SM.
const SUB_PARTITIONS: u32 = 4;
/// Minimum number of K steps per iteration with which the MMAs of the last K step are a small part of the iteration.
const MIN_K_STEPS: u32 = 4;

pub(crate) fn run(function: &mut Function) {
    let prefetches =
        bodies_with_one_warp(function).into_iter().filter_map(|block| first_fragments::fragment_prefetch(function, block).ok());
    let prefetches = prefetches.filter(|prefetch| k_steps(function, prefetch.mma) >= MIN_K_STEPS);
    let loads: Vec<OpId> = prefetches.flat_map(|prefetch| prefetch.loads).collect();
    for op in loads {
        if let Op::Core(tileas::Op::SharedLoad { prefetch_next: prefetch, .. }) = &mut function.body.ops[op].kind {
            *prefetch = true;
        }
    }
}

/// The number of K steps of an `mma.sync` MMA; 1 for other MMAs.
fn k_steps(function: &Function, mma: OpId) -> u32 {
    match &function.body.ops[mma].kind {
        Op::Core(tileas::Op::Mma { lhs: MmaOperand::Registers(lhs), atom: MmaAtom::Sync(atom), .. }) => {
            function.body.ty(*lhs).shape().last().map_or(1, |depth| depth / atom.k)
        }
        _ => 1,
    }
}

/// The loop bodies that at most one warp per SM sub-partition executes.
fn bodies_with_one_warp(function: &Function) -> Vec<Block> {
    let (body, attrs) = (&function.body, &function.attrs);
    let body_with_few_warps = |op: &OpId| match body.ops[*op].kind {
        Op::WarpRole { role: warp_role, body: region } if attrs.warp_roles[warp_role].warps <= SUB_PARTITIONS => Some(region),
        _ => None,
    };
    let regions: Vec<Region> = match attrs.warp_roles.is_empty() {
        true => (attrs.program.warps <= SUB_PARTITIONS).then_some(function.region).into_iter().collect(),
        false => body.walk(function.region).iter().filter_map(body_with_few_warps).collect(),
    };
    regions.into_iter().flat_map(|region| first_fragments::counted_loop_bodies(function, region)).collect()
}
