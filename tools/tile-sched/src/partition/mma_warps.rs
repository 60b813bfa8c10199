//! Shares the mmas in tensor memory out to two warp_roles, where one would make them late: an warp_role asks for mmas in their order,
//! so the first of a iteration would come after the last of the iteration before. In attention that is the mma of which the threads compute
//! an operand of the last, and would wait for again.
//!
//! Requires: a function with its loops, woven or not. Only decides.

use super::Why;
use super::compute_warpgroups::ComputeGroups;
use crate::{tmem_alloc, tmem_pipelines};
use base::Block;
use base::ir::Op as OpId;
use sched::{Function, Op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, Space};

/// The warp_roles that ask for mmas in tensor memory, at most.
pub(super) const MOST: usize = 2;

/// The accumulators that a mma in tensor memory adds to.
fn accumulators(op: &Op) -> Option<Buffer> {
    tileas::verify::Program::program(op).and_then(tileas::ping_pong::accumulators)
}

/// Which of the warp_roles asks for a mma: by the accumulators that it adds to.
#[derive(Clone, Default)]
pub(super) struct MmaWarps {
    later: BTreeSet<Buffer>,
    /// Who computes: where that are two warp_roles, each has mmas of its own.
    pub(super) groups: ComputeGroups,
}

impl MmaWarps {
    /// Two warp_roles: what all mmas of a iteration wait for is computed by the second one's. Or why one is enough.
    pub(super) fn of(function: &Function) -> Result<MmaWarps, Why> {
        let iterations = LoopMmas::of(function);
        let late = iterations.mmas.iter().filter(|mma| !iterations.is_first(mma));
        let lines = MmaWarps { later: late.map(|mma| mma.accumulators).collect(), groups: ComputeGroups::default() };
        let first = |mma: &&LoopMma| !lines.later.contains(&mma.accumulators);
        let ahead: Vec<&LoopMma> = iterations.mmas.iter().filter(first).collect();
        if !ahead.iter().any(|mma| iterations.has_follower(mma)) {
            return Err("no mma of a iteration waits for what threads compute from another one of the iteration".into());
        }
        match ahead.iter().any(|mma| lines.meets(function, mma.accumulators)) {
            true => Err("operands lie in the place of the accumulators that would be made meanwhile".into()),
            false => Ok(lines),
        }
    }

    /// Two warp_roles, each for what one of those that compute has multiplied; or why there is one.
    pub(super) fn in_groups(function: &Function) -> Result<MmaWarps, Why> {
        Ok(MmaWarps { later: BTreeSet::new(), groups: ComputeGroups::of(function)? })
    }

    /// The warp_roles that they make.
    pub(super) fn count(&self) -> usize {
        if self.later.is_empty() { self.groups.count() } else { MOST }
    }

    /// Whose a mma is.
    pub(super) fn of_mma(&self, op: &Op) -> usize {
        let Some(buffer) = accumulators(op) else { return 0 };
        usize::from(self.later.contains(&buffer)).max(self.groups.of_accumulator(buffer))
    }

    /// Whether an operand of the second warp_role's mmas has columns of the accumulators of the first one's.
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

/// A mma in tensor memory, and the iteration that it is of.
struct LoopMma {
    accumulators: Buffer,
    operands: BTreeSet<Buffer>,
    block: Block,
}

/// What a iteration does with tensor memory, and with operands that threads store: by the block that is the body of a loop.
struct LoopMmas {
    mmas: Vec<LoopMma>,
    /// What threads store in a iteration, and the accumulators from which they compute it.
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

    /// Whether threads have nothing to do in a iteration before a mma of it.
    fn is_first(&self, mma: &LoopMma) -> bool {
        !mma.operands.iter().chain([&mma.accumulators]).any(|buffer| self.stored.contains_key(&(mma.block, *buffer)))
    }

    /// Whether another mma of the iteration waits for what threads compute from a mma's accumulators.
    fn has_follower(&self, mma: &LoopMma) -> bool {
        let follows = |other: &LoopMma| {
            let from =
                |operand: &Buffer| self.stored.get(&(mma.block, *operand)).is_some_and(|from| from.contains(&mma.accumulators));
            other.block == mma.block && other.operands.iter().any(from)
        };
        self.mmas.iter().any(follows)
    }
}

/// The accumulators in tensor memory from which an op computes, by proxy of shared memory too.
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
