//! Decides which loads of a loop are copied to shared memory although no mma reads them there, so that `tile-sched` can let the
//! copies run ahead of the iteration that computes from them.
//!
//! That pays where a multiprocessor has nothing else to do while a block waits for its loads: in a persistent loop, which goes iteration the
//! tiles of a grid by blocks of which no more are launched than run at a time. In other loops the blocks beside it compute meanwhile,
//! and what a staged_buffer takes of shared memory would be fewer of them.

use crate::async_copies::{Copy, CopyPlanner};
use crate::counted_loops::core;
use base::ir::{Block, Op as OpId};
use base::{Envelope, Value};
use core_dialect::core_ops::Core;
use core_dialect::persistent_loops::is_persistent;
use core_dialect::tile::element_count;
use std::cell::Cell;
use tileaa::{Op, Type};
use tileas::budget;

/// Which loads that no mma reads are copied: what `--prefetch` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefetch {
    Never,
    WherePays,
    WherePossible,
}

impl Prefetch {
    pub(crate) fn of(envelope: &Envelope) -> Prefetch {
        match envelope.options.get("prefetch") {
            Some("off") => Prefetch::Never,
            Some("on") => Prefetch::WherePossible,
            _ => Prefetch::WherePays,
        }
    }
}

/// The slots that a staged_buffer has at least for its copies to run ahead.
const STAGES: u32 = 2;

/// What is copied in a loop, and why other loads of it are not.
#[derive(Default)]
pub(crate) struct RowLoads {
    pub(crate) copies: Vec<(OpId, Copy)>,
    pub(crate) declined: Vec<(OpId, &'static str)>,
}

impl CopyPlanner<'_> {
    /// The loads of a `for` that are copied for the loop itself.
    pub(crate) fn rows(&self, for_op: OpId, may_copy: impl Fn(OpId) -> bool) -> RowLoads {
        let body = &self.function.body;
        let mut rows = RowLoads::default();
        let desired = match self.prefetch {
            Prefetch::Never => false,
            Prefetch::WherePays => is_persistent(body, for_op, core),
            Prefetch::WherePossible => true,
        };
        let Some(Core::For { body: region, .. }) = core(&body.ops[for_op].kind).filter(|_| desired && self.is_plain(for_op)) else {
            return rows;
        };
        let block = body.block_of(*region);
        let is_load = |op: &OpId| matches!(body.ops[*op].kind, Op::LoadView { .. }) && !self.uses.reaches_mma(body.result(*op));
        for load in body.blocks[block].ops.iter().copied().filter(|op| is_load(op) && may_copy(*op)) {
            match self.runs_ahead(load, for_op).and_then(|()| self.row(load)) {
                Ok(copy) => rows.copies.push((load, copy)),
                Err(reason) => rows.declined.push((load, reason)),
            }
        }
        self.keep_what_fits(&mut rows);
        if self.prefetch == Prefetch::WherePays && !self.pays(block, &rows) {
            let reason = "its loop computes, or other blocks do, for about as long as it would be waited for";
            rows.declined.extend(rows.copies.drain(..).map(|(load, _)| (load, reason)));
        }
        rows
    }

    /// From the first, as many as have capacity for two slots in the share of a block.
    fn keep_what_fits(&self, rows: &mut RowLoads) {
        let capacity = budget::shared_memory(self.target) / self.co_resident_ctas;
        let taken = Cell::new(0u32);
        let has_capacity = |(_, copy): &(OpId, Copy)| {
            let with = taken.get().saturating_add(copy.buffer.bytes().saturating_mul(STAGES));
            let fits = with <= capacity;
            taken.set(if fits { with } else { taken.get() });
            fits
        };
        let (kept, without): (Vec<_>, Vec<_>) = std::mem::take(&mut rows.copies).into_iter().partition(has_capacity);
        let reason = "shared memory has no capacity for two of it beside what else is copied ahead in its loop";
        rows.copies = kept;
        rows.declined.extend(without.into_iter().map(|(load, _)| (load, reason)));
    }

    /// Whether a loop has no loop and no mma in it, and all its iterations run to their end.
    fn is_plain(&self, for_op: OpId) -> bool {
        let body = &self.function.body;
        let Some(Core::For { body: region, .. }) = core(&body.ops[for_op].kind) else { return false };
        let end = body.terminator(body.block_of(*region));
        body.walk(*region).into_iter().all(|op| match &body.ops[op].kind {
            Op::Mma { .. } | Op::MmaScaled { .. } => false,
            Op::Core(Core::For { .. } | Core::Loop { .. } | Core::Return {}) => false,
            Op::Core(Core::Continue { .. }) => Some(op) == end,
            _ => true,
        })
    }

    /// Whether a load can be made in an iteration before its own, as `tile-sched` will ask.
    fn runs_ahead(&self, load: OpId, for_op: OpId) -> Result<(), &'static str> {
        let body = &self.function.body;
        let Op::LoadView { index, token, .. } = &body.ops[load].kind else { return Err("it is a load through pointers") };
        if token.is_some_and(|token| !self.is_of_loads(token)) {
            return Err("it is ordered after what this kernel writes");
        }
        let tokens = body.ops[load].results.iter().filter(|result| *body.ty(**result) == Type::Token);
        if tokens.into_iter().any(|token| !self.uses.users(*token).is_empty()) {
            return Err("something is ordered after it");
        }
        self.are_counted(index, for_op)
    }

    /// Whether waiting for the loads of a iteration takes longer than a tenth of it, while no other block computes.
    fn pays(&self, block: Block, rows: &RowLoads) -> bool {
        let (rates, blocks) = (perf_model::rates(self.target), u64::from(self.co_resident_ctas));
        let bytes = rows.copies.iter().map(|(_, copy)| copy.buffer.bytes()).fold(0, u32::saturating_add);
        let waits = u64::from(rates.copy_latency(bytes));
        let moves = waits - u64::from(rates.copy_latency(0));
        let computes = self.work(block) / u64::from(rates.multiply_add);
        let passes = 2 * u64::from(bytes) / u64::from(rates.shared);
        let now = (waits + computes).max(blocks * moves.max(computes));
        let ahead = blocks * moves.max(computes + passes);
        !rows.copies.is_empty() && ahead * 10 <= now * 9
    }

    /// Elements that a iteration computes.
    fn work(&self, block: Block) -> u64 {
        let body = &self.function.body;
        let elements = |value: &Value| body.ty(*value).tile().map_or(0, |(_, shape)| element_count(shape) as u64);
        let of = |op: &OpId| match &body.ops[*op].kind {
            Op::Core(core) if core.is_elementwise() => body.ops[*op].results.first().map_or(0, elements),
            Op::Reduce { operands, .. } => operands.iter().map(elements).sum(),
            _ => 0,
        };
        body.blocks[block].ops.iter().map(of).sum()
    }
}
