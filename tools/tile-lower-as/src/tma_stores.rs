//! Purpose: select the stores and reductions through views that TMA executes.
//! Requires: assigned layouts. Candidates are reductions, and stores of accumulators, which pass through shared memory in any case.
//! Establishes: a plan for each TMA store from shared memory, and for each TMA reduction that replaces element-wise atomics. A TMA
//! store is complete only when the kernel ends. So tokens may order only further TMA stores of the same thread after it.
//! Preserves: the program; this is an analysis.
//! See also: Triton's TMA store lowering; CUTLASS `SM90_TMA_STORE` and `SM90_TMA_REDUCE_ADD`.

use crate::copy_planner::{CopyInputs, CopyPlanner};
use crate::layout_assignment::AssignedLayouts;
use crate::layout_transforms::{innermost_dim, neighbours_first};
use crate::mma_selection::MmaSelections;
use crate::operands::{self, OperandStep, StepKind, Uses};
use crate::plan_options::{PlanOptions, TmaChoice};
use crate::smem_swizzles;
use base::ir::{Op as OpId, Operation};
use base::{Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope, Order};
use core_dialect::region_edges::destinations_of_terminator;
use core_dialect::region_nesting::RegionNesting;
use core_dialect::rules::CoreDialectOp;
use core_dialect::tile::element_count;
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tensormap::Map;
use tileaa::ops::AccessHint;
use tileaa::{Function, Op, Type};
use tileas::{BufferInfo, Layout, budget, tma_tiles};

/// A planned TMA store or reduction.
#[derive(Clone)]
pub(crate) struct TmaStore {
    /// The register layout from which threads fill the buffer: the tile's assigned layout, with its registers in the order in which
    /// elements are contiguous in the buffer.
    pub(crate) layout: Layout,
    /// The buffer that the threads fill and TMA reads.
    pub(crate) buffer: BufferInfo,
    /// The tensor map of the stored array.
    pub(crate) map: Map,
}

/// Minimum bytes of a TMA store. Threads store smaller tiles faster, because the thread that issues a TMA store waits until TMA has
/// read the buffer.
const MIN_BYTES: u32 = 16 << 10;

/// The stores and reductions that TMA executes, and the reasons why threads execute other candidates.
#[derive(Default)]
pub(crate) struct TmaStores {
    /// The plan of each store that TMA executes.
    stores: BTreeMap<OpId, TmaStore>,
    /// The candidates that threads execute, with the reasons against TMA.
    pub(crate) declined: Vec<(OpId, &'static str)>,
}

impl TmaStores {
    /// Selects the stores and reductions that TMA executes, and records the reasons against TMA for the other candidates.
    pub(crate) fn select(
        function: &Function,
        inputs: &CopyInputs<'_>,
        assigned_layouts: &AssignedLayouts,
        target: Target,
        options: PlanOptions,
    ) -> TmaStores {
        let mut selected = TmaStores::default();
        if options.tma_copies == TmaChoice::Never || !target.has(Feature::Tma) {
            return selected;
        }
        let planner = CopyPlanner::new(function, inputs, target, options);
        let mut planned: BTreeMap<OpId, TmaStore> = BTreeMap::new();
        for op in function.body.walk(function.region) {
            let Some(StoreOperands { tile, mode, .. }) = store_operands(function, op) else { continue };
            let (Some(assigned_layout), Some(access)) = (assigned_layouts.get(tile), inputs.accesses.get(op)) else { continue };
            // If a store by threads needs no layout conversion through shared memory, it is cheaper than TMA. Tiles other than
            // accumulators count as tiles without a conversion. Reductions stay candidates, because without TMA they are
            // element-wise atomics.
            let needs_no_conversion = access.layout.renaming(assigned_layout, |element| element).is_some()
                || !is_accumulator_tile(function, inputs.mmas, assigned_layouts, tile);
            if needs_no_conversion && mode.is_none() {
                continue;
            }
            match planner.plan_store(op, [assigned_layout, &access.layout]) {
                Ok(store) => _ = planned.insert(op, store),
                Err(reason) => selected.declined.push((op, reason)),
            }
        }
        let uses = Uses::collect(function);
        loop {
            let planned_stores: BTreeSet<OpId> = planned.keys().copied().collect();
            let refused =
                planned_stores.iter().filter_map(|op| Some((*op, planner.check_token_order(*op, &planned_stores, &uses).err()?)));
            let refused: Vec<(OpId, &'static str)> = refused.collect();
            if refused.is_empty() {
                break;
            }
            refused.iter().for_each(|(op, _)| _ = planned.remove(op));
            selected.declined.extend(refused);
        }
        selected.stores = planned;
        selected
    }

    /// The plan of a store or reduction that TMA executes. `None` for other ops.
    pub(crate) fn get(&self, op: OpId) -> Option<&TmaStore> {
        self.stores.get(&op)
    }
    /// All stores that TMA executes, with their plans.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpId, &TmaStore)> {
        self.stores.iter().map(|(op, store)| (*op, store))
    }
}

/// The operands and attributes of a store or reduction through a view.
struct StoreOperands<'a> {
    /// The stored tile.
    tile: Value,
    /// The view that the op writes.
    view: Value,
    /// The token that orders the op after earlier accesses.
    token: Option<Value>,
    /// The memory ordering and scope.
    order: Order,
    /// The author's hints. Reductions have none.
    hints: &'a [AccessHint],
    /// The operation of a reduction; `None` for a store.
    mode: Option<AtomicMode>,
}

/// The operands and attributes of a store or reduction through a view. `None` for other ops.
fn store_operands(function: &Function, op: OpId) -> Option<StoreOperands<'_>> {
    match &function.body.ops[op].kind {
        Op::StoreView { tile, view, token, order, hints, .. } => {
            Some(StoreOperands { tile: *tile, view: *view, token: *token, order: *order, hints, mode: None })
        }
        Op::ReduceView { tile, view, token, order, mode, .. } => {
            Some(StoreOperands { tile: *tile, view: *view, token: *token, order: *order, hints: &[], mode: Some(*mode) })
        }
        _ => None,
    }
}

/// Whether reshapes and conversions compute a tile from a slice of a TMEM accumulator, or from a tile with the layout of an MMA's
/// accumulator.
fn is_accumulator_tile(function: &Function, mmas: &MmaSelections, assigned_layouts: &AssignedLayouts, mut tile: Value) -> bool {
    while let Some(OperandStep { from, step_kind: StepKind::Reshaped | StepKind::Converted }) =
        operands::defining_step(function, tile)
    {
        tile = from;
    }
    let definition = function.body.defining_op(tile);
    if definition.is_some_and(|op| mmas.chain_of_slice(op).is_some()) {
        return true;
    }
    let assigned_layout = assigned_layouts.get(tile);
    mmas.iter().any(|(_, mma)| Some(mma.accumulator_layout()) == assigned_layout)
}

impl CopyPlanner<'_> {
    /// Plans the TMA store of a tile in `assigned_layout`. Without TMA, threads would store the tile in `access_layout`. The error
    /// is the reason against TMA.
    fn plan_store(&self, store: OpId, [assigned_layout, access_layout]: [&Layout; 2]) -> Result<TmaStore, &'static str> {
        let body = &self.function.body;
        let StoreOperands { tile, view, order, hints, mode, .. } =
            store_operands(self.function, store).expect("only stores are planned");
        let Type::View(ty) = body.ty(view) else { unreachable!("the verifier checks that views are views") };
        if !self.hints_allow_tma(hints) {
            return Err("the author disallows TMA");
        }
        let (elem, shape) = body.ty(tile).tile().expect("a store is of a tile");
        let semantics = if mode.is_some() { MemoryOrdering::Relaxed } else { MemoryOrdering::Weak };
        if order.semantics != semantics || order.scope == Some(MemoryScope::System) {
            return Err("it is ordered against other threads");
        }
        if mode.is_some_and(|mode| !tileas::tma_tiles::can_reduce(mode, elem.carrier())) {
            return Err("TMA has no such reduction for these elements");
        }
        let bytes = (element_count(shape) as u32).saturating_mul(elem.bytes());
        if self.tma_copies == TmaChoice::WherePays && bytes < MIN_BYTES {
            return Err("waiting for TMA takes longer than storing so few bytes");
        }
        let (map, window) = tma_tiles::tensor_map(body, self.function.params(), view)?;
        self.check_map_limits(ty, view, window)?;
        let buffer = tma_tiles::tma_buffer(ty, &map.extent, map.swizzle).ok_or("its TMA tiles are too small for a swizzle")?;
        if bytes > budget::shared_memory(self.target) / 2 {
            return Err("it passes through shared memory in parts");
        }
        let inner = tma_tiles::dims_in_map_order(ty).expect("a map has an order")[0];
        // After `tcgen05.ld`, contiguous elements are in consecutive registers already.
        let with_contiguous_first = |dim| {
            if self.target.has(Feature::TensorMemory) {
                assigned_layout.clone()
            } else {
                neighbours_first(assigned_layout, shape, dim)
            }
        };
        let (layout, in_order_layout) =
            (with_contiguous_first(inner), with_contiguous_first(innermost_dim(assigned_layout, shape)));
        let thread_layouts = [&in_order_layout, access_layout];
        let exchange_buffer = smem_swizzles::conversion_buffer(
            elem,
            shape,
            thread_layouts.map(|layout| innermost_dim(layout, shape)),
            &thread_layouts,
        );
        let thread_wavefronts =
            thread_layouts.map(|layout| smem_swizzles::wavefronts(&exchange_buffer, layout)).iter().sum::<u32>();
        if mode.is_none() && smem_swizzles::wavefronts(&buffer, &layout) > thread_wavefronts {
            return Err("threads would fill its TMA tiles with bank conflicts");
        }
        Ok(TmaStore { layout, buffer, map })
    }

    /// Checks that tokens order a store only after loads and the stores in `tma_stores`, and that tokens order only stores in
    /// `tma_stores` after it. The error is the reason against TMA.
    fn check_token_order(&self, store: OpId, tma_stores: &BTreeSet<OpId>, uses: &Uses<'_>) -> Result<(), &'static str> {
        let body = &self.function.body;
        let StoreOperands { token, .. } = store_operands(self.function, store).expect("only stores are planned");
        if token.is_some_and(|token| !self.orders_after_loads_and(token, tma_stores)) {
            return Err("it is ordered after what this kernel writes");
        }
        let result_token = body.ops[store].results[0];
        if uses.users(result_token).is_empty() {
            return Ok(());
        }
        if !self.target.has(Feature::TensorMemory) {
            // On targets without tensor memory, no warp role waits for TMA stores.
            return Err("something is ordered after it");
        }
        let (mut seen, mut work) = (BTreeSet::new(), vec![result_token]);
        while let Some(token) = work.pop() {
            if !seen.insert(token) {
                continue;
            }
            for user in uses.users(token) {
                match &body.ops[*user].kind {
                    Op::StoreView { .. } | Op::ReduceView { .. } if tma_stores.contains(user) => {}
                    Op::Core(Core::JoinTokens { .. }) => work.push(body.result(*user)),
                    Op::Core(Core::Continue { .. } | Core::Break { .. } | Core::Yield { .. }) => {
                        work.extend(self.forwarding_targets(*user, token).ok_or("something is ordered after it")?);
                    }
                    kind => {
                        let loop_op = kind.core().and_then(Core::as_loop).ok_or("something is ordered after it")?;
                        work.extend(values_at_same_positions(loop_op.init, token, &loop_op.destinations(body, *user)));
                    }
                }
            }
        }
        Ok(())
    }

    /// The values to which the terminator `terminator` forwards its operand `value`: loop arguments and results. `None` if no loop
    /// or condition receives the operands.
    fn forwarding_targets(&self, terminator: OpId, value: Value) -> Option<Vec<Value>> {
        let body = &self.function.body;
        let construct = RegionNesting::analyse(body, self.function.region).construct_of_terminator(body, terminator)?;
        let receivers = destinations_of_terminator(body, construct, body.ops[terminator].kind.core()?);
        Some(values_at_same_positions(&body.ops[terminator].kind.operands(), value, &receivers))
    }
}

/// The values in the lists `to` at every position at which `from` contains `value`.
fn values_at_same_positions(from: &[Value], value: Value, to: &[&[Value]]) -> Vec<Value> {
    let positions = (0..from.len()).filter(|at| from[*at] == value);
    positions.flat_map(|at| to.iter().filter_map(move |values| values.get(at).copied())).collect()
}
