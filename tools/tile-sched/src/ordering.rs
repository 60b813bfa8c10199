//! Which accesses to global memory tokens order after which others, and where that order needs a barrier.
//!
//! An access of a tile is made by all threads, each for its part. When a later access that a token orders after it may touch
//! the same bytes from another thread, and one of the two writes, a barrier must stand between them. What the program calls by one name
//! is elsewhere in each round of a loop, if it is computed there.

use base::ir::{Body, Op as OpId, Operation};
use base::{Arena, Region, Value};
use sched::Op;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tileas::effects::{GlobalAccess, Moved};
use tileas::{Layout, LayoutId, Type};
use vocabulary::core_ops::Core;
use vocabulary::tile::ViewKind;

/// What a token orders after, as far as no barrier has come since.
#[derive(Clone, Default)]
pub(crate) struct Ordering {
    /// Layouts in which several threads hold the same element. One of them writes it, but all read it.
    shared_layouts: Vec<bool>,
    behind: BTreeMap<Value, Vec<Before>>,
    /// What each loop that is entered computes in every round.
    computed: BTreeMap<OpId, Rc<BTreeSet<Value>>>,
}

/// An access that was made before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Before {
    op: OpId,
    /// The loop, if it may have been in an earlier round of one that is not over.
    round_of: Option<OpId>,
}

impl Ordering {
    pub(crate) fn new(layouts: &Arena<LayoutId, Layout>) -> Ordering {
        let shared = |layout: &Layout| layout.lane.contains(&0) || layout.warp.contains(&0);
        Ordering { shared_layouts: layouts.values().map(shared).collect(), behind: BTreeMap::new(), computed: BTreeMap::new() }
    }

    /// Whether an access must wait for other threads.
    pub(crate) fn needs_barrier(&self, body: &Body<Op, Type>, op: OpId) -> bool {
        let Some(now) = access(body, op) else { return false };
        self.before(body, op).into_iter().any(|Before { op: earlier, round_of }| {
            let before = access(body, earlier).expect("only accesses are recorded");
            // One thread asks for all boxes to be stored, and waits for those that a token orders before.
            let by_one = is_store(body, earlier) && is_store(body, op);
            let moves = round_of.is_some_and(|round_of| !self.stays(&now, round_of) && !common::planted("sched.rounds"));
            !by_one && (before.writes || now.writes) && before.may_meet(&now) && (moves || !self.same_threads(&before, &now))
        })
    }

    /// Whether every thread touches only what it touched before.
    fn same_threads(&self, before: &Access<'_>, now: &Access<'_>) -> bool {
        let alone = now.tile.layout().is_some_and(|layout| !self.shared_layouts[layout.0 as usize]);
        alone && before.place == now.place && before.tile == now.tile
    }

    /// Whether an access means the same place in all rounds of a loop, or one in which each element is the same thread's: partitions of
    /// a view have no element in common.
    fn stays(&self, access: &Access<'_>, round_of: OpId) -> bool {
        let computed = &self.computed[&round_of];
        let (base, index) = access.place.split_first().expect("an access has a base");
        !computed.contains(base) && (access.is_partition || index.iter().all(|index| !computed.contains(index)))
    }

    /// All threads have met: what came before is done.
    pub(crate) fn barrier(&mut self) {
        self.behind.clear();
    }

    /// The results of an op order after what its operands do, and after the op itself and all accesses inside it.
    pub(crate) fn record(&mut self, body: &Body<Op, Type>, op: OpId) {
        let node = &body.ops[op];
        let mut behind = self.before(body, op);
        behind.extend(access(body, op).map(|_| Before { op, round_of: None }));
        let regions = node.kind.regions();
        behind.extend(inside(body, &regions).map(|op| Before { op, round_of: None }));
        self.give(node.results.iter().copied(), body, behind);
    }

    /// Before the regions of an op are walked: what enters them may also have come around a loop.
    pub(crate) fn enter(&mut self, body: &Body<Op, Type>, op: OpId) {
        let mut behind = self.before(body, op);
        let regions = body.ops[op].kind.regions();
        let is_loop = matches!(body.ops[op].kind.core(), Some(Core::For { .. } | Core::Loop { .. }));
        let round_of = is_loop.then_some(op);
        behind.extend(inside(body, &regions).map(|op| Before { op, round_of }));
        if is_loop {
            let blocks = regions.iter().flat_map(|region| body.regions[*region].blocks.iter());
            let args = blocks.flat_map(|block| body.blocks[*block].args.iter().copied());
            let ops = regions.iter().flat_map(|region| body.walk(*region));
            let inner = ops.flat_map(|op| {
                let blocks = body.ops[op].kind.regions().into_iter().map(|region| body.block_of(region));
                let args = blocks.flat_map(|block| body.blocks[block].args.iter().copied());
                body.ops[op].results.iter().copied().chain(args).collect::<Vec<_>>()
            });
            self.computed.insert(op, Rc::new(args.chain(inner).collect()));
        }
        for region in regions {
            self.give(body.blocks[body.block_of(region)].args.iter().copied(), body, behind.clone());
        }
    }

    fn give(&mut self, values: impl Iterator<Item = Value>, body: &Body<Op, Type>, mut behind: Vec<Before>) {
        behind.sort_unstable();
        behind.dedup();
        for value in values.filter(|value| matches!(body.ty(*value), Type::Token)) {
            self.behind.insert(value, behind.clone());
        }
    }

    fn before(&self, body: &Body<Op, Type>, op: OpId) -> Vec<Before> {
        body.ops[op].kind.operands().iter().filter_map(|operand| self.behind.get(operand)).flatten().copied().collect()
    }
}

/// The accesses in regions.
fn inside(body: &Body<Op, Type>, regions: &[Region]) -> impl Iterator<Item = OpId> {
    let ops = regions.iter().flat_map(|region| body.walk(*region));
    ops.filter(|op| access(body, *op).is_some()).collect::<Vec<_>>().into_iter()
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
    is_partition: bool,
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
    let (alias_scope, is_partition) = match body.ty(base) {
        Type::View(view) => (view.memref.alias_scope, matches!(view.kind, ViewKind::Partition)),
        _ => (0, false),
    };
    let tile = match moved {
        Moved::Result => *node.results.first()?,
        Moved::Operand(value) => value,
        // Which thread reads what has no type: it is taken to be another than the one that writes.
        Moved::Buffer => base,
    };
    let place = std::iter::once(base).chain(index.iter().copied()).collect();
    Some(Access { writes: does.writes(), alias_scope, place, is_partition, tile: body.ty(tile) })
}
