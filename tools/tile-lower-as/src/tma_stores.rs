//! Decides which stores to views the copy engine makes, by tma_copies of a tensor map; changes nothing.
//!
//! The accumulators of mmas are in another layout than a store would have, so they pass through shared memory, from where threads load
//! them again to store them. The copy engine takes them from there by itself. It also combines whole tiles with what is in memory, which
//! threads do element by element. What it stores is there when the kernel has ended, so nothing in the kernel may be ordered after it but
//! further such stores, which the same thread asks for.

use crate::async_copies::{CopyPlanner, TmaChoice};
use crate::convert::{innermost, neighbours_first};
use crate::lowering_plan::{Choices, LoweringPlan};
use crate::operands::{self, How, Step, Uses};
use crate::smem_swizzles;
use base::ir::{Op as OpId, Operation};
use base::{Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope, Order};
use core_dialect::tile::element_count;
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tensormap::Map;
use tileaa::ops::AccessHint;
use tileaa::{Function, Op, Type};
use tileas::{BufferInfo, Layout, budget, tma_tiles};

/// A store by tma_copies: from which buffer, by which map.
#[derive(Clone)]
pub(crate) struct Store {
    /// From which threads store the tile to the buffer: that in which it is, with vectors of the buffer first.
    pub(crate) layout: Layout,
    pub(crate) buffer: BufferInfo,
    pub(crate) map: Map,
}

/// Who requested waits until the engine has read all. Of fewer bytes threads store faster.
const MIN_BYTES: u32 = 16 << 10;

/// The stores by tma_tiles, and why threads make others of what passes through shared memory.
#[derive(Default)]
pub(crate) struct Stores {
    stores: BTreeMap<OpId, Store>,
    pub(crate) declined: Vec<(OpId, &'static str)>,
}

impl Stores {
    pub(crate) fn of(function: &Function, plan: &LoweringPlan, target: Target, options: Choices) -> Stores {
        let mut found = Stores::default();
        if options.tma_copies == TmaChoice::Never || !target.has(Feature::Tma) {
            return found;
        }
        let planner = CopyPlanner::of(function, plan, target, options);
        let mut planned: BTreeMap<OpId, Store> = BTreeMap::new();
        for op in function.body.walk(function.region) {
            let Some(Stored { tile, mode, .. }) = stored(function, op) else { continue };
            let (Some(assigned_layout), Some(access)) = (plan.assigned_layouts.get(tile), plan.accesses.get(op)) else { continue };
            // From where it is threads store it at once, but combine it with what is there element by element.
            let at_once = access.layout.renaming(assigned_layout, |element| element).is_some() || !is_of_mma(function, plan, tile);
            if at_once && mode.is_none() {
                continue;
            }
            match planner.store(op, [assigned_layout, &access.layout]) {
                Ok(store) => _ = planned.insert(op, store),
                Err(reason) => found.declined.push((op, reason)),
            }
        }
        let uses = Uses::of(function);
        loop {
            let all: BTreeSet<OpId> = planned.keys().copied().collect();
            let refused = all.iter().filter_map(|op| Some((*op, planner.order(*op, &all, &uses).err()?)));
            let refused: Vec<(OpId, &'static str)> = refused.collect();
            if refused.is_empty() {
                break;
            }
            refused.iter().for_each(|(op, _)| _ = planned.remove(op));
            found.declined.extend(refused);
        }
        found.stores = planned;
        found
    }

    pub(crate) fn get(&self, op: OpId) -> Option<&Store> {
        self.stores.get(&op)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpId, &Store)> {
        self.stores.iter().map(|(op, store)| (*op, store))
    }
}

/// What is stored, or combined with what is there.
struct Stored<'a> {
    tile: Value,
    view: Value,
    token: Option<Value>,
    order: Order,
    hints: &'a [AccessHint],
    mode: Option<AtomicMode>,
}

fn stored(function: &Function, op: OpId) -> Option<Stored<'_>> {
    match &function.body.ops[op].kind {
        Op::StoreView { tile, view, token, order, hints, .. } => {
            Some(Stored { tile: *tile, view: *view, token: *token, order: *order, hints, mode: None })
        }
        Op::ReduceView { tile, view, token, order, mode, .. } => {
            Some(Stored { tile: *tile, view: *view, token: *token, order: *order, hints: &[], mode: Some(*mode) })
        }
        _ => None,
    }
}

/// Whether a tile is where a mma left its accumulators, in their order.
fn is_of_mma(function: &Function, plan: &LoweringPlan, mut tile: Value) -> bool {
    while let Some(Step { from, how: How::Reshaped | How::Converted }) = operands::step(function, tile) {
        tile = from;
    }
    let made = function.body.defining_op(tile);
    if made.is_some_and(|op| plan.mmas.chain_of_slice(op).is_some()) {
        return true;
    }
    let assigned_layout = plan.assigned_layouts.get(tile);
    plan.mmas.all().any(|(_, mma)| Some(mma.accumulator()) == assigned_layout)
}

impl CopyPlanner<'_> {
    /// The store of a tile that has the first layout, and that threads would store in the second.
    fn store(&self, store: OpId, [assigned_layout, access]: [&Layout; 2]) -> Result<Store, &'static str> {
        let body = &self.function.body;
        let Stored { tile, view, order, hints, mode, .. } = stored(self.function, store).expect("only stores are planned");
        let Type::View(ty) = body.ty(view) else { unreachable!("the verifier holds that views are views") };
        if !self.allowed(hints) {
            return Err("its author does not want it");
        }
        let (elem, shape) = body.ty(tile).tile().expect("a store is of a tile");
        let semantics = if mode.is_some() { MemoryOrdering::Relaxed } else { MemoryOrdering::Weak };
        if order.semantics != semantics || order.scope == Some(MemoryScope::System) {
            return Err("it is ordered against other threads");
        }
        if mode.is_some_and(|mode| !tileas::tma_tiles::combines(mode, elem.carrier())) {
            return Err("the copy engine does not combine such elements in memory so");
        }
        let bytes = (element_count(shape) as u32).saturating_mul(elem.bytes());
        if self.tma_copies == TmaChoice::WherePays && bytes < MIN_BYTES {
            return Err("waiting for the copy engine takes longer than storing so little");
        }
        let map = tma_tiles::map(body, self.function.params(), view)?;
        self.fits(ty, view)?;
        let buffer = tma_tiles::buffer(ty, &map.extent, map.swizzle).ok_or("its tma_copies are too small to be swizzled")?;
        if bytes > budget::shared_memory(self.target) / 2 {
            return Err("it passes through shared memory in parts");
        }
        let inner = tma_tiles::order(ty).expect("a map has an order")[0];
        // Sums come from tensor memory with neighbours first.
        let first = |dim| {
            if self.target.has(Feature::TensorMemory) {
                assigned_layout.clone()
            } else {
                neighbours_first(assigned_layout, shape, dim)
            }
        };
        let (layout, exchanged) = (first(inner), first(innermost(assigned_layout, shape)));
        let by = [&exchanged, access];
        let exchange = smem_swizzles::exchange(elem, shape, by.map(|layout| innermost(layout, shape)), &by);
        let by_threads = by.map(|layout| smem_swizzles::wavefronts(&exchange, layout)).iter().sum::<u32>();
        if mode.is_none() && smem_swizzles::wavefronts(&buffer, &layout) > by_threads {
            return Err("its tma_copies would be written with bank conflicts");
        }
        Ok(Store { layout, buffer, map })
    }

    /// Tokens order nothing behind a store but others of `all`, and it behind nothing but those and loads.
    fn order(&self, store: OpId, all: &BTreeSet<OpId>, uses: &Uses<'_>) -> Result<(), &'static str> {
        let body = &self.function.body;
        let Stored { token, .. } = stored(self.function, store).expect("only stores are planned");
        if token.is_some_and(|token| !self.is_of_loads_and(token, all)) {
            return Err("it is ordered after what this kernel writes");
        }
        let done = body.ops[store].results[0];
        if uses.users(done).is_empty() {
            return Ok(());
        }
        if !self.target.has(Feature::TensorMemory) {
            // Nor has the engine an agent that could wait for it.
            return Err("something is ordered after it");
        }
        let (mut seen, mut work) = (BTreeSet::new(), vec![done]);
        while let Some(token) = work.pop() {
            if !seen.insert(token) {
                continue;
            }
            for user in uses.users(token) {
                match &body.ops[*user].kind {
                    Op::StoreView { .. } | Op::ReduceView { .. } if all.contains(user) => {}
                    Op::Core(Core::JoinTokens { .. }) => work.push(body.result(*user)),
                    Op::Core(Core::Continue { .. }) => {
                        work.extend(self.carried(*user, token).ok_or("something is ordered after it")?);
                    }
                    _ => return Err("something is ordered after it"),
                }
            }
        }
        Ok(())
    }

    /// What a value is in the next iteration, and behind the loop, that a `continue` ends a iteration of a `for` with.
    fn carried(&self, end: OpId, value: Value) -> Option<Vec<Value>> {
        let body = &self.function.body;
        let block = self.blocks[end.0 as usize]?;
        let for_op = body.ops.ids().find(|op| match &body.ops[*op].kind {
            Op::Core(Core::For { body: region, .. }) => body.block_of(*region) == block,
            _ => false,
        })?;
        let numbers = (0..).zip(body.ops[end].kind.operands()).filter(|(_, operand)| *operand == value).map(|(number, _)| number);
        Some(numbers.flat_map(|number: usize| [body.blocks[block].args[number + 1], body.ops[for_op].results[number]]).collect())
    }
}
