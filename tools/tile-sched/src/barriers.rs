//! Places barriers: between two accesses of different threads to the same shared memory, of which one is a write, and between
//! such accesses to global memory that a token orders ([`crate::ordering`]).
//!
//! Requires: placements. Establishes: on every path, a barrier stands between such accesses. Every op is taken to be executed
//! by all threads of the block; a barrier is put as late as possible, directly before the second access.

use crate::hazards::{Touch, touches};
use crate::ordering::Ordering;
use base::diag::Result;
use base::ir::{Op as OpId, Operation};
use base::{File, Region};
use sched::{Function, Module, Op};

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    for function in &mut file.payload.functions {
        let region = function.region;
        let mut pass =
            Pass { threads: function.attrs.program.warps() * 32, function, ordering: Ordering::new(&file.payload.layouts) };
        pass.region(region, Vec::new());
        *function = base::text::compact(function);
    }
    Ok(())
}

struct Pass<'a> {
    function: &'a mut Function,
    threads: u32,
    ordering: Ordering,
}

impl Pass<'_> {
    /// Places the barriers of a region that starts with `pending` accesses since the last barrier; returns those at its end.
    fn region(&mut self, region: Region, mut pending: Vec<Touch>) -> Vec<Touch> {
        let block = self.function.body.block_of(region);
        let ops = std::mem::take(&mut self.function.body.blocks[block].ops);
        let mut out: Vec<OpId> = Vec::with_capacity(ops.len());
        for op in ops {
            if matches!(self.function.body.ops[op].kind, Op::Barrier { .. }) {
                pending.clear();
                self.ordering.barrier();
            }
            let now = touches(&self.function.body.ops[op].kind);
            let conflict = |now: &Touch| pending.iter().any(|before| before.conflicts(*now) && self.overlap(*before, *now));
            if now.iter().any(conflict) || self.ordering.needs_barrier(&self.function.body, op) {
                let loc = self.function.body.ops[op].loc;
                out.push(self.function.body.new_op(Op::Barrier { id: 0, threads: self.threads }, [], loc));
                pending.clear();
                self.ordering.barrier();
            }
            pending.extend(now);
            let regions = self.function.body.ops[op].kind.regions();
            if !regions.is_empty() {
                pending = self.inner(op, &regions, pending);
            }
            self.ordering.record(&self.function.body, op);
            out.push(op);
        }
        self.function.body.blocks[block].ops = out;
        pending
    }

    fn inner(&mut self, op: OpId, regions: &[Region], pending: Vec<Touch>) -> Vec<Touch> {
        let is_loop = matches!(
            self.function.body.ops[op].kind.core(),
            Some(base::core_ops::Core::For { .. } | base::core_ops::Core::Loop { .. })
        );
        let mut start = pending.clone();
        if is_loop {
            // A round starts with what the round before left; without its barriers that is all its accesses.
            let all = regions.iter().flat_map(|region| self.function.body.walk(*region));
            start.extend(all.flat_map(|op| touches(&self.function.body.ops[op].kind)).collect::<Vec<_>>());
        }
        let mut end = if is_loop { pending } else { Vec::new() };
        // A barrier inside may not have been met when the op ends: what is known before it holds after it.
        let outside = self.ordering.clone();
        self.ordering.enter(&self.function.body, op);
        let entered = self.ordering.clone();
        for region in regions {
            self.ordering = entered.clone();
            end.extend(self.region(*region, start.clone()));
        }
        self.ordering = outside;
        end.sort_by_key(|touch| (touch.buffer(), matches!(touch, Touch::Write(_))));
        end.dedup();
        end
    }

    fn overlap(&self, a: Touch, b: Touch) -> bool {
        let attrs = &self.function.attrs;
        let range = |touch: Touch| {
            let (place, info) = (attrs.placements[touch.buffer()], &attrs.program.buffers[touch.buffer()]);
            (place.offset, place.offset + info.bytes() * place.depth)
        };
        let ((a_start, a_end), (b_start, b_end)) = (range(a), range(b));
        a_start < b_end && b_start < a_end
    }
}
