//! Decides whether two MMA warps issue the tensor memory MMAs. Only analyses; rewrites nothing.
//!
//! One warp issues MMAs in order, so the first MMA of an iteration would come after the last MMA of the previous iteration. In
//! attention, threads compute an operand of the last MMA from the accumulator of the first. With one MMA warp, the first MMA of the
//! next iteration would have to wait for these threads too. The loops may be materialized or not.

use crate::compute_warpgroups::ComputeGroups;
use crate::feature_choice::Reason;
use crate::{tmem_alloc, tmem_mma_buffers};
use base::Block;
use sched::{Fill, Function, Op, PipelineInfo};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, Space};

/// Largest number of warp roles that issue tensor memory MMAs.
pub(super) const MAX_MMA_WARPS: usize = 2;

/// The accumulator buffer of an op that is a tensor memory MMA, or `None`.
fn accumulator_of_mma(op: &Op) -> Option<Buffer> {
    tileas::verify::TileAsOp::tileas_op(op).and_then(tileas::ping_pong::tmem_accumulator)
}

/// Assigns an MMA warp to each MMA, identified by the MMA's accumulator.
#[derive(Clone)]
pub(super) struct MmaWarps {
    /// The accumulators of the second warp's MMAs.
    second_warp_accumulators: BTreeSet<Buffer>,
    /// The compute roles. If there are two compute roles, each has its own MMA warp.
    pub(super) groups: ComputeGroups,
    /// The number of warps that issue TMA loads. With two, the loads for the first MMA warp do not wait until the second MMA warp
    /// releases a stage.
    pub(super) load_warps: usize,
}

impl Default for MmaWarps {
    fn default() -> MmaWarps {
        MmaWarps { second_warp_accumulators: BTreeSet::new(), groups: ComputeGroups::default(), load_warps: 1 }
    }
}

impl MmaWarps {
    /// Returns two MMA warps, or the reason against two. The first warp issues the MMAs whose operands and accumulators no thread
    /// stores in the same iteration. The second warp issues the other MMAs.
    pub(super) fn find(function: &Function) -> Result<MmaWarps, Reason> {
        let loop_mmas = LoopMmas::collect(function);
        let second_warp_mmas = loop_mmas.mmas.iter().filter(|mma| !loop_mmas.has_no_stored_operand(mma));
        let warps =
            MmaWarps { second_warp_accumulators: second_warp_mmas.map(|mma| mma.accumulators).collect(), ..MmaWarps::default() };
        let is_first_warp = |mma: &&LoopMma| !warps.second_warp_accumulators.contains(&mma.accumulators);
        let first_warp_mmas: Vec<&LoopMma> = loop_mmas.mmas.iter().filter(is_first_warp).collect();
        if !first_warp_mmas.iter().any(|mma| loop_mmas.has_dependent_mma(mma)) {
            return Err("no MMA of an iteration waits for an operand that threads compute from another MMA of the iteration".into());
        }
        match first_warp_mmas.iter().any(|mma| warps.operands_overlap(function, mma.accumulators)) {
            true => Err("operands share TMEM columns with the accumulators that would be computed meanwhile".into()),
            false => Ok(warps),
        }
    }

    /// The same MMA warps with a second load warp. `None` unless TMA fills pipelines for one MMA warp each.
    pub(super) fn with_second_load_warp(&self, function: &Function) -> Option<MmaWarps> {
        let warps_of_pipeline = |info: &PipelineInfo| -> BTreeSet<usize> {
            let ops = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op].kind);
            let reads =
                |op: &&Op| tmem_mma_buffers::mma_operands(op).into_iter().flatten().any(|read| info.buffers.contains(&read));
            ops.filter(reads).map(|op| self.warp_of_mma(op)).collect()
        };
        let filled_by_tma = function.attrs.pipelines.values().filter(|info| info.fill == Fill::Tma);
        let readers: BTreeSet<BTreeSet<usize>> = filled_by_tma.map(warps_of_pipeline).collect();
        let feeds_only = |warp: usize| readers.contains(&BTreeSet::from([warp]));
        let has_second_warp = !self.second_warp_accumulators.is_empty();
        (has_second_warp && feeds_only(0) && feeds_only(1)).then(|| MmaWarps { load_warps: 2, ..self.clone() })
    }

    /// Returns two MMA warps, one per compute role, or the reason against two.
    pub(super) fn per_compute_role(function: &Function) -> Result<MmaWarps, Reason> {
        Ok(MmaWarps { groups: ComputeGroups::find_with_placements(function)?, ..MmaWarps::default() })
    }

    /// The number of MMA warps.
    pub(super) fn warp_count(&self) -> usize {
        if self.second_warp_accumulators.is_empty() { self.groups.role_count() } else { MAX_MMA_WARPS }
    }

    /// The MMA warp that issues an MMA.
    pub(super) fn warp_of_mma(&self, op: &Op) -> usize {
        let Some(buffer) = accumulator_of_mma(op) else { return 0 };
        usize::from(self.second_warp_accumulators.contains(&buffer)).max(self.groups.role_of_accumulator(buffer))
    }

    /// Returns whether an operand of the second warp's MMAs shares TMEM columns with an accumulator.
    fn operands_overlap(&self, function: &Function, accumulators: Buffer) -> bool {
        let is_placed = |buffer: Buffer| function.attrs.placements.get(buffer).is_some();
        let in_tensor_memory = |buffer: &Buffer| function.attrs.program.buffers[*buffer].space == Space::Tensor;
        let kinds = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op].kind);
        let mut second_warp_operands = kinds
            .filter(|op| tmem_mma_buffers::is_tmem_mma(op) && self.warp_of_mma(op) > 0)
            .flat_map(tmem_mma_buffers::mma_operands)
            .flatten();
        second_warp_operands.any(|operand| {
            is_placed(operand) && in_tensor_memory(&operand) && tmem_alloc::columns_overlap(function, accumulators, operand)
        })
    }
}

/// The buffers of a tensor memory MMA in a loop, and the block of the loop's body.
struct LoopMma {
    accumulators: Buffer,
    operands: BTreeSet<Buffer>,
    block: Block,
}

/// The tensor memory MMAs in loops, and the MMA operands that threads store in loops.
struct LoopMmas {
    mmas: Vec<LoopMma>,
    /// For each operand that threads store in an iteration, the accumulators from which they compute it.
    stored: BTreeMap<(Block, Buffer), BTreeSet<Buffer>>,
}

impl LoopMmas {
    /// Collects the MMAs in loops and the operands that threads store there.
    fn collect(function: &Function) -> LoopMmas {
        let (body, blocks) = (&function.body, function.body.op_blocks());
        let mut loop_mmas = LoopMmas { mmas: Vec::new(), stored: BTreeMap::new() };
        for op in body.walk(function.region) {
            let (kind, Some(block)) = (&body.ops[op].kind, blocks[op.0 as usize]) else { continue };
            if block == function.entry() {
                continue;
            }
            if let Some(accumulators) = accumulator_of_mma(kind) {
                let operands = tmem_mma_buffers::mma_operands(kind).into_iter().flatten().collect();
                loop_mmas.mmas.push(LoopMma { accumulators, operands, block });
            }
            if let Op::Core(
                tileas::Op::SharedStore { buffer, .. }
                | tileas::Op::TmemStore { buffer, .. }
                | tileas::Op::TmemScale { buffer, .. },
            ) = kind
            {
                loop_mmas.stored.entry((block, *buffer)).or_default().extend(tmem_alloc::source_accumulators(function, op));
            }
        }
        loop_mmas
    }

    /// Returns whether no thread stores an operand or the accumulator of an MMA in the MMA's iteration.
    fn has_no_stored_operand(&self, mma: &LoopMma) -> bool {
        !mma.operands.iter().chain([&mma.accumulators]).any(|buffer| self.stored.contains_key(&(mma.block, *buffer)))
    }

    /// Returns whether another MMA of the iteration waits for an operand that threads compute from this MMA's accumulator.
    fn has_dependent_mma(&self, mma: &LoopMma) -> bool {
        let follows = |other: &LoopMma| {
            let from =
                |operand: &Buffer| self.stored.get(&(mma.block, *operand)).is_some_and(|from| from.contains(&mma.accumulators));
            other.block == mma.block && other.operands.iter().any(from)
        };
        self.mmas.iter().any(follows)
    }
}
