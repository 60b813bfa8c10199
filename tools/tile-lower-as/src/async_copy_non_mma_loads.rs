//! Purpose: select loads in loops that become asynchronous copies although no MMA reads them, so that `tile-sched` can prefetch
//! their tiles.
//! Requires: [`crate::access_layouts::Accesses`]; by default a persistent loop, or a loop of a kernel with one tile block. Reason:
//! in these loops, few co-resident CTAs hide the load latency. In other loops, co-resident CTAs hide it, and multi-stage buffers
//! would lower their number.
//! Establishes: copies of which two stages fit the CTA's share of shared memory.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `num_stages` pipelining of non-dot loads; CUTLASS epilogue load warp.

use crate::copy_planner::{Copy, CopyPlanner};
use crate::operand_trees::as_core;
use crate::plan_options::Prefetch;
use base::Value;
use base::diag::Result;
use base::ir::{Block, Op as OpId};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::{has_one_tile_block, is_persistent};
use core_dialect::structured_ops::Terminator;
use core_dialect::tile::element_count;
use std::cell::Cell;
use tileaa::{Op, Type};
use tileas::budget;

/// Minimum stages of the buffer of a prefetched copy.
const MIN_STAGES: u32 = 2;

/// The decisions for those loads of a loop that no MMA reads.
#[derive(Default)]
pub(crate) struct NonMmaCopies {
    /// The loads that become asynchronous copies, each with its copy.
    pub(crate) copies: Vec<(OpId, Copy)>,
    /// The loads that are not copied, with the reasons.
    pub(crate) declined: Vec<(OpId, &'static str)>,
}

impl CopyPlanner<'_> {
    /// Decides which loads of a `for` become asynchronous copies although no MMA reads them. Considers only loads for which
    /// `may_copy` holds.
    pub(crate) fn non_mma_copies(&self, for_op: OpId, may_copy: impl Fn(OpId) -> bool) -> NonMmaCopies {
        let body = &self.function.body;
        let mut non_mma = NonMmaCopies::default();
        let may_prefetch = match self.prefetch {
            Prefetch::Never => false,
            Prefetch::WherePays => is_persistent(body, for_op, as_core) || has_one_tile_block(body, self.function.region, as_core),
            Prefetch::WherePossible => true,
        };
        let for_body = as_core(&body.ops[for_op].kind).and_then(Core::for_body);
        let Some(region) = for_body.filter(|_| may_prefetch && self.is_simple_loop(for_op)) else { return non_mma };
        let block = body.block_of(region);
        let is_load = |op: &OpId| matches!(body.ops[*op].kind, Op::LoadView { .. }) && !self.uses.reaches_mma(body.result(*op));
        for load in body.blocks[block].ops.iter().copied().filter(|op| is_load(op) && may_copy(*op)) {
            match self.can_be_prefetched(load, for_op).and_then(|()| self.register_copy(load)) {
                Ok(copy) => non_mma.copies.push((load, copy)),
                Err(reason) => non_mma.declined.push((load, reason)),
            }
        }
        self.drop_exceeding_prefetches(&mut non_mma);
        if self.prefetch == Prefetch::WherePays && !self.prefetch_pays(block, &non_mma) {
            let reason = "its loop or co-resident CTAs compute for about as long as its latency";
            non_mma.declined.extend(non_mma.copies.drain(..).map(|(load, _)| (load, reason)));
        }
        non_mma
    }

    /// Drops each copy whose two stages do not fit the CTA's share of shared memory besides the earlier copies.
    fn drop_exceeding_prefetches(&self, non_mma: &mut NonMmaCopies) {
        let capacity = budget::shared_memory_of_each(self.target, self.co_resident_ctas);
        let allocated_bytes = Cell::new(0u32);
        let has_capacity = |(_, copy): &(OpId, Copy)| {
            let new_total = allocated_bytes.get().saturating_add(copy.buffer.bytes().saturating_mul(MIN_STAGES));
            let fits = new_total <= capacity;
            allocated_bytes.set(if fits { new_total } else { allocated_bytes.get() });
            fits
        };
        let (kept, dropped): (Vec<_>, Vec<_>) = std::mem::take(&mut non_mma.copies).into_iter().partition(has_capacity);
        let reason = "shared memory does not fit two stages of it besides the other prefetched copies of its loop";
        non_mma.copies = kept;
        non_mma.declined.extend(dropped.into_iter().map(|(load, _)| (load, reason)));
    }

    /// Whether a `for` contains no inner loop, no MMA, and no early end of an iteration.
    fn is_simple_loop(&self, for_op: OpId) -> bool {
        let body = &self.function.body;
        let Some(region) = as_core(&body.ops[for_op].kind).and_then(Core::for_body) else { return false };
        let end = body.terminator(body.block_of(region));
        body.walk(region).into_iter().all(|op| {
            let kind = &body.ops[op].kind;
            match as_core(kind).map(|core| (core, core.as_terminator())) {
                Some((_, Some(Terminator::Return))) => false,
                Some((_, Some(Terminator::Continue(_)))) => Some(op) == end,
                Some((_, Some(Terminator::Yield(_) | Terminator::Break(_)))) => true,
                Some((core, None)) => !core.is_loop(),
                None => !matches!(kind, Op::Mma { .. } | Op::MmaScaled { .. }),
            }
        })
    }

    /// Checks that `tile-sched` can issue a load of a `for` in an earlier iteration. The error is the reason why it cannot.
    fn can_be_prefetched(&self, load: OpId, for_op: OpId) -> Result<(), &'static str> {
        let body = &self.function.body;
        let Op::LoadView { index, token, .. } = &body.ops[load].kind else { return Err("it is a load through pointers") };
        if token.is_some_and(|token| !self.orders_after_loads_only(token)) {
            return Err("it is ordered after what this kernel writes");
        }
        let tokens = body.ops[load].results.iter().filter(|result| *body.ty(**result) == Type::Token);
        if tokens.into_iter().any(|token| !self.uses.users(*token).is_empty()) {
            return Err("something is ordered after it");
        }
        self.check_index_in_loop(index, for_op)
    }

    /// Whether prefetching saves at least a tenth of the estimated SM cycles of an iteration.
    fn prefetch_pays(&self, block: Block, non_mma: &NonMmaCopies) -> bool {
        let (rates, ctas) = (perf_model::rates(self.target), u64::from(self.co_resident_ctas));
        let bytes = non_mma.copies.iter().map(|(_, copy)| copy.buffer.bytes()).fold(0, u32::saturating_add);
        let latency = u64::from(rates.copy_latency(bytes));
        let transfer = latency - u64::from(rates.copy_latency(0));
        let compute = self.computed_elements(block) / u64::from(rates.multiply_add);
        let shared_memory = 2 * u64::from(bytes) / u64::from(rates.shared);
        let without_prefetch = (latency + compute).max(ctas * transfer.max(compute));
        let with_prefetch = ctas * transfer.max(compute + shared_memory);
        !non_mma.copies.is_empty() && with_prefetch * 10 <= without_prefetch * 9
    }

    /// The number of elements that the elementwise ops and reductions of a block process in one execution of the block.
    fn computed_elements(&self, block: Block) -> u64 {
        let body = &self.function.body;
        let elements = |value: &Value| body.ty(*value).tile().map_or(0, |(_, shape)| element_count(shape) as u64);
        let op_elements = |op: &OpId| match &body.ops[*op].kind {
            Op::Core(core) if core.is_elementwise() => body.ops[*op].results.first().map_or(0, elements),
            Op::Reduce { operands, .. } => operands.iter().map(elements).sum(),
            _ => 0,
        };
        body.blocks[block].ops.iter().map(op_elements).sum()
    }
}
