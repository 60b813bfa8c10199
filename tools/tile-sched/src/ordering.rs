//! Which accesses to global memory tokens order after which others, and where that order needs a barrier.
//!
//! An access of a tile is made by all threads, each for its part. When a later access that a token orders after it may touch
//! the same bytes from another thread, and one of the two writes, a barrier must stand between them.

use base::ir::{Body, Op as OpId, Operation};
use base::{Arena, Value};
use sched::Op;
use std::collections::BTreeMap;
use tileas::effects::{GlobalAccess, Moved};
use tileas::{Layout, LayoutId, Type};

/// What a token orders after, as far as no barrier has come since.
#[derive(Clone, Default)]
pub(crate) struct Ordering {
    /// Layouts in which several threads hold the same element. One of them writes it, but all read it.
    shared_layouts: Vec<bool>,
    behind: BTreeMap<Value, Vec<OpId>>,
}

impl Ordering {
    pub(crate) fn new(layouts: &Arena<LayoutId, Layout>) -> Ordering {
        let shared = |layout: &Layout| layout.lane.contains(&0) || layout.warp.contains(&0);
        Ordering { shared_layouts: layouts.values().map(shared).collect(), behind: BTreeMap::new() }
    }

    /// Whether an access must wait for other threads.
    pub(crate) fn needs_barrier(&self, body: &Body<Op, Type>, op: OpId) -> bool {
        let Some(now) = access(body, op) else { return false };
        self.before(body, op).into_iter().any(|earlier| {
            let before = access(body, earlier).expect("only accesses are recorded");
            // One thread asks for all boxes to be stored, and waits for those that a token orders before.
            let by_one = is_store(body, earlier) && is_store(body, op);
            !by_one && (before.writes || now.writes) && before.may_meet(&now) && !self.same_threads(&before, &now)
        })
    }

    /// Whether every thread touches only what it touched before.
    fn same_threads(&self, before: &Access<'_>, now: &Access<'_>) -> bool {
        let alone = now.tile.layout().is_some_and(|layout| !self.shared_layouts[layout.0 as usize]);
        alone && before.place == now.place && before.tile == now.tile
    }

    /// All threads have met: what came before is done.
    pub(crate) fn barrier(&mut self) {
        self.behind.clear();
    }

    /// The results of an op order after what its operands do, and after the op itself and all accesses inside it.
    pub(crate) fn record(&mut self, body: &Body<Op, Type>, op: OpId) {
        let node = &body.ops[op];
        let mut behind = self.before(body, op);
        behind.extend(access(body, op).map(|_| op));
        for region in node.kind.regions() {
            behind.extend(body.walk(region).into_iter().filter(|inner| access(body, *inner).is_some()));
        }
        self.give(node.results.iter().copied(), body, behind);
    }

    /// Before the regions of an op are walked: what enters them may also have come around a loop.
    pub(crate) fn enter(&mut self, body: &Body<Op, Type>, op: OpId) {
        let mut behind = self.before(body, op);
        let regions = body.ops[op].kind.regions();
        for region in &regions {
            behind.extend(body.walk(*region).into_iter().filter(|inner| access(body, *inner).is_some()));
        }
        for region in regions {
            self.give(body.blocks[body.block_of(region)].args.iter().copied(), body, behind.clone());
        }
    }

    fn give(&mut self, values: impl Iterator<Item = Value>, body: &Body<Op, Type>, mut behind: Vec<OpId>) {
        behind.sort_unstable();
        behind.dedup();
        for value in values.filter(|value| matches!(body.ty(*value), Type::Token)) {
            self.behind.insert(value, behind.clone());
        }
    }

    fn before(&self, body: &Body<Op, Type>, op: OpId) -> Vec<OpId> {
        body.ops[op].kind.operands().iter().filter_map(|operand| self.behind.get(operand)).flatten().copied().collect()
    }
}

fn is_store(body: &Body<Op, Type>, op: OpId) -> bool {
    matches!(body.ops[op].kind, Op::Core(tileas::Op::StoreBoxes { .. }))
}

/// An access to global memory.
struct Access<'a> {
    writes: bool,
    /// 0 when it may be anywhere.
    alias_scope: u32,
    /// The view or pointers, and the index.
    place: Vec<Value>,
    /// The type of the tile, which has its layout.
    tile: &'a Type,
}

impl Access<'_> {
    fn may_meet(&self, other: &Self) -> bool {
        self.alias_scope == 0 || other.alias_scope == 0 || self.alias_scope == other.alias_scope
    }
}

fn access(body: &Body<Op, Type>, op: OpId) -> Option<Access<'_>> {
    let node = &body.ops[op];
    let GlobalAccess { does, base, index, moved, .. } = node.kind.effects().global?;
    let alias_scope = match body.ty(base) {
        Type::View(view) => view.memref.alias_scope,
        _ => 0,
    };
    let tile = match moved {
        Moved::Result => *node.results.first()?,
        Moved::Operand(value) => value,
        // Which thread reads what has no type: it is taken to be another than the one that writes.
        Moved::Buffer => base,
    };
    let place = std::iter::once(base).chain(index.iter().copied()).collect();
    Some(Access { writes: does.writes(), alias_scope, place, tile: body.ty(tile) })
}
