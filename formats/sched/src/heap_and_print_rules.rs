//! Rules for heap memory and printing. Heap memory is freed where the region of its `alloca` ends. Tiles are printed from global
//! memory that all CTAs of the grid share; one CTA owns the memory at a time. `tile-sched` inserts the ops, and the verifier checks
//! the ops.

use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Loc, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::structured_ops::Terminator;
use std::collections::BTreeMap;
use tileas::Type;

/// For each terminator, the heap allocations (`alloca`) whose lifetime ends there.
pub fn allocations_ended_by(function: &Function) -> BTreeMap<OpId, Vec<Value>> {
    let mut walk = Walk { function, enclosing: Vec::new(), live: Vec::new(), ended: BTreeMap::new() };
    walk.visit_region(function.region);
    walk.ended
}

/// The tiles that an op prints. The op reads the tiles from the grid's memory for printed tiles.
pub fn printed_tiles(function: &Function, op: &Op) -> Vec<Value> {
    let Some(Core::Print { args, .. }) = op.core() else { return Vec::new() };
    args.iter().copied().filter(|arg| matches!(function.body.ty(*arg), Type::Tile { .. })).collect()
}

/// A walk over a function in program order, which collects the ends of allocations.
struct Walk<'a> {
    function: &'a Function,
    /// The enclosing ops, outermost first.
    enclosing: Vec<OpId>,
    /// Live allocations, each with its nesting depth.
    live: Vec<(usize, Value)>,
    /// By terminator, the allocations whose lifetime ends there.
    ended: BTreeMap<OpId, Vec<Value>>,
}

impl Walk<'_> {
    fn visit_region(&mut self, region: Region) {
        let body = &self.function.body;
        for &op in &body.blocks[body.block_of(region)].ops {
            let node = &body.ops[op];
            match node.kind.core() {
                Some(Core::Alloca { .. }) => self.live.push((self.enclosing.len(), node.results[0])),
                Some(core) if node.kind.is_terminator() => {
                    let outermost_depth = self.outermost_left_depth(core);
                    let ended = self.live.iter().filter(|(depth, _)| *depth >= outermost_depth).map(|(_, ptr)| *ptr);
                    self.ended.insert(op, ended.collect());
                }
                _ => {}
            }
            for region in node.kind.regions() {
                self.enclosing.push(op);
                self.visit_region(region);
                self.enclosing.pop();
                let outer_depth = self.enclosing.len();
                self.live.retain(|(depth, _)| *depth <= outer_depth);
            }
        }
        self.ended.retain(|_, ptrs| !ptrs.is_empty());
    }

    /// The depth of the outermost region that a terminator leaves. The terminator ends the allocations of this depth and of all
    /// inner depths.
    fn outermost_left_depth(&self, core: &Core) -> usize {
        let body = &self.function.body;
        let innermost_depth =
            |ends: fn(&Core) -> bool| self.enclosing.iter().rposition(|op| body.ops[*op].kind.core().is_some_and(ends));
        match core.as_terminator() {
            Some(Terminator::Return) => 0,
            Some(Terminator::Break(_)) => {
                innermost_depth(|core| core.is_loop() && !core.is_for()).map_or(0, |position| position + 1)
            }
            Some(Terminator::Continue(_)) => innermost_depth(|core| !core.is_if()).map_or(0, |position| position + 1),
            Some(Terminator::Yield(_)) | None => self.enclosing.len(),
        }
    }
}

/// Checks the order of the ops for heap memory and printing. A `free` follows a barrier directly, and precedes the terminator that
/// ends the lifetime of its allocations. The order of printing is `print_lock`, barrier, `print_stage`, barrier, `print`.
pub(crate) fn check_order(function: &Function) -> Result<(), (Loc, String)> {
    let ended = allocations_ended_by(function);
    let body = &function.body;
    let is_fence = |op: &OpId| matches!(body.ops[*op].kind, Op::AsyncFence {});
    for block in body.blocks.values() {
        let ops: Vec<OpId> = block.ops.iter().copied().filter(|op| !is_fence(op)).collect();
        let kinds: Vec<&Op> = ops.iter().map(|op| &body.ops[*op].kind).collect();
        let is_barrier_at = |position: usize| kinds.get(position).is_some_and(|kind| is_full_barrier(function, kind));
        let index_before = |position: usize, by: usize| position.checked_sub(by);
        for (position, kind) in kinds.iter().enumerate() {
            let tiles = printed_tiles(function, kind);
            let violation = match kind {
                Op::Free { ptrs } if ops.get(position + 1).and_then(|next| ended.get(next)) != Some(ptrs) => {
                    Some("it does not free exactly the memory whose lifetime the next op ends".to_string())
                }
                Op::Free { .. } if !index_before(position, 1).is_some_and(is_barrier_at) => {
                    Some("no barrier precedes it, so other threads may still use the memory".into())
                }
                Op::PrintLock {} if !matches!(kinds.get(position + 2), Some(Op::PrintStage { .. })) => {
                    Some("no `print_stage` follows it".into())
                }
                Op::PrintStage { .. }
                    if !(is_barrier_at(position + 1) && kinds.get(position + 2).is_some_and(|next| next.core().is_some())) =>
                {
                    Some("no barrier and print follow it".into())
                }
                Op::PrintStage { .. }
                    if !(index_before(position, 1).is_some_and(is_barrier_at)
                        && matches!(index_before(position, 2).map(|position| kinds[position]), Some(Op::PrintLock {}))) =>
                {
                    Some("no lock and barrier precede it".into())
                }
                Op::PrintStage { tiles } if printed_tiles(function, kinds[position + 2]) != *tiles => {
                    Some("the next print is of other tiles".into())
                }
                _ if !tiles.is_empty()
                    && !matches!(index_before(position, 2).map(|position| kinds[position]), Some(Op::PrintStage { .. })) =>
                {
                    Some("its tiles have not been staged".into())
                }
                _ if ended.contains_key(&ops[position])
                    && !matches!(index_before(position, 1).map(|position| kinds[position]), Some(Op::Free { .. })) =>
                {
                    Some(format!("{} is not freed before its lifetime ends", ended[&ops[position]][0]))
                }
                _ => None,
            };
            if let Some(message) = violation {
                return Err((body.ops[ops[position]].loc, format!("{}: {message}", kind.mnemonic())));
            }
        }
    }
    Ok(())
}

/// Returns whether a barrier covers all threads of the CTA, or of its warp role. Other rules of the verifier already require that
/// every barrier in a warp role covers all threads of the role.
fn is_full_barrier(function: &Function, kind: &Op) -> bool {
    let attrs = &function.attrs;
    matches!(kind, Op::Barrier { threads, .. } if !attrs.warp_roles.is_empty() || *threads == attrs.program.warps * 32)
}
