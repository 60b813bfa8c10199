//! Decides whether two MMA warps issue the tensor memory MMAs. Never rewrites.
//!
//! One warp issues MMAs in order, so the first MMA of an iteration would come after the last one of the previous iteration. In
//! attention threads compute an operand of that last MMA from the first one's accumulator, and would wait for it again. The
//! loops may be materialized or not.

use super::Why;
use super::compute_warpgroups::ComputeGroups;
use crate::{tmem_alloc, tmem_pipelines};
use base::Block;
use base::ir::Op as OpId;
use sched::{Function, Op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, Space};

/// Largest number of warp roles that issue tensor memory MMAs.
pub(super) const MOST: usize = 2;

/// The accumulator of a tensor memory MMA.
fn accumulators(op: &Op) -> Option<Buffer> {
    tileas::verify::Program::program(op).and_then(tileas::ping_pong::accumulators)
}

/// The MMA warp of each MMA, identified by its accumulator.
#[derive(Clone, Default)]
pub(super) struct MmaWarps {
    later: BTreeSet<Buffer>,
    /// The compute roles. If there are two, each has an MMA warp of its own.
    pub(super) groups: ComputeGroups,
}

impl MmaWarps {
    /// Returns two MMA warps, or the reason one is enough. The first warp issues the MMAs that wait for no thread of their
    /// iteration.
    pub(super) fn of(function: &Function) -> Result<MmaWarps, Why> {
        let iterations = LoopMmas::of(function);
        let late = iterations.mmas.iter().filter(|mma| !iterations.is_first(mma));
        let lines = MmaWarps { later: late.map(|mma| mma.accumulators).collect(), groups: ComputeGroups::default() };
        let first = |mma: &&LoopMma| !lines.later.contains(&mma.accumulators);
        let ahead: Vec<&LoopMma> = iterations.mmas.iter().filter(first).collect();
        if !ahead.iter().any(|mma| iterations.has_follower(mma)) {
            return Err("no MMA of an iteration waits for an operand that threads compute from another MMA of the iteration".into());
        }
        match ahead.iter().any(|mma| lines.meets(function, mma.accumulators)) {
            true => Err("operands share TMEM columns with the accumulators that would be computed meanwhile".into()),
            false => Ok(lines),
        }
    }

    /// Returns two MMA warps, one per compute role, or the reason there is one.
    pub(super) fn in_groups(function: &Function) -> Result<MmaWarps, Why> {
        Ok(MmaWarps { later: BTreeSet::new(), groups: ComputeGroups::of(function)? })
    }

    /// The number of MMA warps.
    pub(super) fn count(&self) -> usize {
        if self.later.is_empty() { self.groups.count() } else { MOST }
    }

    /// The MMA warp that issues an MMA.
    pub(super) fn of_mma(&self, op: &Op) -> usize {
        let Some(buffer) = accumulators(op) else { return 0 };
        usize::from(self.later.contains(&buffer)).max(self.groups.of_accumulator(buffer))
    }

    /// Returns whether an operand of the second warp's MMAs shares columns with an accumulator of the first warp's.
    fn meets(&self, function: &Function, accumulators: Buffer) -> bool {
        let is_placed = |buffer: Buffer| function.attrs.placements.get(buffer).is_some();
        let in_tensor_memory = |buffer: &Buffer| function.attrs.program.buffers[*buffer].space == Space::Tensor;
        let late = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op].kind);
        let mut read =
            late.filter(|op| tmem_pipelines::is_mma(op) && self.of_mma(op) > 0).flat_map(tmem_pipelines::operands).flatten();
        read.any(|operand| {
            is_placed(operand) && in_tensor_memory(&operand) && tmem_alloc::may_meet(function, accumulators, operand)
        })
    }
}

/// A tensor memory MMA and its loop body.
struct LoopMma {
    accumulators: Buffer,
    operands: BTreeSet<Buffer>,
    block: Block,
}

/// The tensor memory accesses of loop iterations, and the operands that threads store there, by loop body.
struct LoopMmas {
    mmas: Vec<LoopMma>,
    /// The operands that threads store in an iteration, with the accumulators from which they compute them.
    stored: BTreeMap<(Block, Buffer), BTreeSet<Buffer>>,
}

impl LoopMmas {
    fn of(function: &Function) -> LoopMmas {
        let (body, blocks) = (&function.body, function.body.op_blocks());
        let mut iterations = LoopMmas { mmas: Vec::new(), stored: BTreeMap::new() };
        for op in body.walk(function.region) {
            let (kind, Some(block)) = (&body.ops[op].kind, blocks[op.0 as usize]) else { continue };
            if block == function.entry() {
                continue;
            }
            if let Some(accumulators) = accumulators(kind) {
                let operands = tmem_pipelines::operands(kind).into_iter().flatten().collect();
                iterations.mmas.push(LoopMma { accumulators, operands, block });
            }
            if let Op::Core(
                tileas::Op::SharedStore { buffer, .. }
                | tileas::Op::TmemStore { buffer, .. }
                | tileas::Op::TmemScale { buffer, .. },
            ) = kind
            {
                iterations.stored.entry((block, *buffer)).or_default().extend(loaded(function, op));
            }
        }
        iterations
    }

    /// Returns whether an MMA waits for no thread of its iteration.
    fn is_first(&self, mma: &LoopMma) -> bool {
        !mma.operands.iter().chain([&mma.accumulators]).any(|buffer| self.stored.contains_key(&(mma.block, *buffer)))
    }

    /// Returns whether another MMA of the iteration waits for an operand that threads compute from this MMA's accumulator.
    fn has_follower(&self, mma: &LoopMma) -> bool {
        let follows = |other: &LoopMma| {
            let from =
                |operand: &Buffer| self.stored.get(&(mma.block, *operand)).is_some_and(|from| from.contains(&mma.accumulators));
            other.block == mma.block && other.operands.iter().any(from)
        };
        self.mmas.iter().any(follows)
    }
}

/// The TMEM accumulators from which an op computes, directly or through shared memory.
fn loaded(function: &Function, op: OpId) -> BTreeSet<Buffer> {
    let body = &function.body;
    let (mut accumulators, mut seen, mut work) = (BTreeSet::new(), BTreeSet::new(), vec![op]);
    while let Some(op) = work.pop() {
        for source in tmem_alloc::sources(function, op) {
            match body.ops[source].kind {
                Op::Core(tileas::Op::TmemLoad { buffer, .. }) => _ = accumulators.insert(buffer),
                Op::Core(tileas::Op::SharedLoad { buffer, .. }) if seen.insert(buffer) => {
                    let stores = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::SharedStore { buffer: other, .. }) if other == buffer);
                    work.extend(body.walk(function.region).into_iter().filter(stores));
                }
                _ => {}
            }
        }
    }
    accumulators
}
