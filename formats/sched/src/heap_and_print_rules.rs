//! Rules around runtime calls. Heap memory is freed where the region of its `alloca` ends. Tiles are printed from memory that the
//! CTA owns meanwhile. `tile-sched` inserts the ops, and the verifier checks them.

use crate::{Function, Op};
use base::ir::{Op as OpId, Operation};
use base::{Loc, Region, Value};
use core_dialect::core_ops::Core;
use std::collections::BTreeMap;
use tileas::Type;

/// The heap memory whose lifetime each leaving op ends.
pub fn left_after(function: &Function) -> BTreeMap<OpId, Vec<Value>> {
    let mut walk = Walk { function, around: Vec::new(), taken: Vec::new(), left: BTreeMap::new() };
    walk.region(function.region);
    walk.left
}

/// The tiles that an op prints, which it reads from the grid's memory.
pub fn printed_tiles(function: &Function, op: &Op) -> Vec<Value> {
    let Some(Core::Print { args, .. }) = op.core() else { return Vec::new() };
    args.iter().copied().filter(|arg| matches!(function.body.ty(*arg), Type::Tile { .. })).collect()
}

struct Walk<'a> {
    function: &'a Function,
    /// The surrounding constructs, outermost first.
    around: Vec<OpId>,
    /// Live allocations, each with its nesting depth.
    taken: Vec<(usize, Value)>,
    left: BTreeMap<OpId, Vec<Value>>,
}

impl Walk<'_> {
    fn region(&mut self, region: Region) {
        let body = &self.function.body;
        for &op in &body.blocks[body.block_of(region)].ops {
            let node = &body.ops[op];
            match node.kind.core() {
                Some(Core::Alloca { .. }) => self.taken.push((self.around.len(), node.results[0])),
                Some(core) if node.kind.is_terminator() => {
                    let inside = self.left_by(core);
                    let left = self.taken.iter().filter(|(around, _)| *around >= inside).map(|(_, ptr)| *ptr);
                    self.left.insert(op, left.collect());
                }
                _ => {}
            }
            for region in node.kind.regions() {
                self.around.push(op);
                self.region(region);
                self.around.pop();
                let outside = self.around.len();
                self.taken.retain(|(around, _)| *around <= outside);
            }
        }
        self.left.retain(|_, left| !left.is_empty());
    }

    /// The nesting depth from which on an op that leaves regions ends allocations.
    fn left_by(&self, core: &Core) -> usize {
        let body = &self.function.body;
        let last = |ends: fn(&Core) -> bool| self.around.iter().rposition(|op| body.ops[*op].kind.core().is_some_and(ends));
        match core {
            Core::Return {} => 0,
            Core::Break { .. } => last(|core| matches!(core, Core::Loop { .. })).map_or(0, |at| at + 1),
            Core::Continue { .. } => last(|core| !matches!(core, Core::If { .. })).map_or(0, |at| at + 1),
            _ => self.around.len(),
        }
    }
}

/// Checks the order of these ops. A `free` comes after a barrier, right before the op that leaves. Tiles are staged after a barrier
/// that follows the lock, and printed after another barrier.
pub(crate) fn stands_around(function: &Function) -> Result<(), (Loc, String)> {
    let left = left_after(function);
    let body = &function.body;
    let is_fence = |op: &OpId| matches!(body.ops[*op].kind, Op::AsyncFence {});
    for block in body.blocks.values() {
        let ops: Vec<OpId> = block.ops.iter().copied().filter(|op| !is_fence(op)).collect();
        let kinds: Vec<&Op> = ops.iter().map(|op| &body.ops[*op].kind).collect();
        let barrier = |at: usize| kinds.get(at).is_some_and(|kind| is_whole_barrier(function, kind));
        let before = |at: usize, by: usize| at.checked_sub(by);
        for (at, kind) in kinds.iter().enumerate() {
            let tiles = printed_tiles(function, kind);
            let refused = match kind {
                Op::Free { ptrs } if ops.get(at + 1).and_then(|next| left.get(next)) != Some(ptrs) => {
                    Some("it does not free exactly the memory whose lifetime the next op ends".to_string())
                }
                Op::Free { .. } if !before(at, 1).is_some_and(barrier) => {
                    Some("no barrier precedes it, so other threads may still use the memory".into())
                }
                Op::PrintLock {} if !matches!(kinds.get(at + 2), Some(Op::PrintStage { .. })) => {
                    Some("no `print_stage` follows it".into())
                }
                Op::PrintStage { .. } if !(barrier(at + 1) && kinds.get(at + 2).is_some_and(|next| next.core().is_some())) => {
                    Some("no barrier and print follow it".into())
                }
                Op::PrintStage { .. }
                    if !(before(at, 1).is_some_and(barrier)
                        && matches!(before(at, 2).map(|at| kinds[at]), Some(Op::PrintLock {}))) =>
                {
                    Some("no lock and barrier precede it".into())
                }
                Op::PrintStage { tiles } if printed_tiles(function, kinds[at + 2]) != *tiles => {
                    Some("the next print is of other tiles".into())
                }
                _ if !tiles.is_empty() && !matches!(before(at, 2).map(|at| kinds[at]), Some(Op::PrintStage { .. })) => {
                    Some("its tiles have not been staged".into())
                }
                _ if left.contains_key(&ops[at]) && !matches!(before(at, 1).map(|at| kinds[at]), Some(Op::Free { .. })) => {
                    Some(format!("{} is not freed before its lifetime ends", left[&ops[at]][0]))
                }
                _ => None,
            };
            if let Some(message) = refused {
                return Err((body.ops[ops[at]].loc, format!("{}: {message}", kind.mnemonic())));
            }
        }
    }
    Ok(())
}

/// Returns whether a barrier covers all threads. In the body of a warp role other rules ensure it.
fn is_whole_barrier(function: &Function, kind: &Op) -> bool {
    let attrs = &function.attrs;
    matches!(kind, Op::Barrier { threads, .. } if !attrs.warp_roles.is_empty() || *threads == attrs.program.warps * 32)
}
