//! Purpose: select the loads that TMA executes, in `for` loops and before them, or record the reason against TMA.
//! Requires: facts that prove that the address and strides are multiples of 16 bytes. Strides are kernel parameters and fit a
//! tensor map. The address and one extent may depend on loaded scalars ([`ArrayWindow`]); other extents are kernel parameters.
//! Establishes: *uniform phases*: no iteration of a loop with TMA copies ends early or leaves the loop. Reason: an mbarrier counts
//! the bytes of each copy, and the phase of the mbarrier advances once per iteration. The loops and conditions around the loop
//! forward the phase.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `TMALowering`; CUTLASS `SM90_TMA_LOAD`; PTX `cp.async.bulk.tensor`.

use crate::copy_planner::{Copy, CopyMethod, CopyPlanner, MmaReads, Readers};
use crate::operand_trees::{self, as_core, is_pure};
use crate::plan_options::TmaChoice;
use base::ir::{Def, Op as OpId, Operation};
use base::{Block, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::{MemoryOrdering, Padding};
use core_dialect::region_nesting::RegionNesting;
use core_dialect::tile::{View, element_count};
use std::collections::BTreeSet;
use target_info::Feature;
use tileaa::facts::Facts;
use tileaa::ops::AccessHint;
use tileaa::{Op, Type};
use tileas::tma_windows::{self, ArrayWindow};
use tileas::{tma_tiles, wgmma_atoms};

/// The alignment of a tensor map's address and strides in bytes.
const MAP_ALIGNMENT: u64 = 16;
/// Minimum bytes of a TMA copy before loops. Threads load smaller tiles faster through registers.
const MIN_BYTES_OUTSIDE_LOOPS: u32 = 8 << 10;
/// The largest extent of a tensor map. Reason: TMA coordinates are signed 32-bit integers.
const MAX_EXTENT: i64 = i32::MAX as i64;

impl CopyPlanner<'_> {
    /// Plans the TMA copy that replaces a load through a view in the body of the `for` `for_op`. The error is the reason against
    /// TMA.
    pub(crate) fn tma_load_in_loop(&self, load: OpId, for_op: OpId) -> Result<Copy, &'static str> {
        let check_index =
            |index: &[Value]| self.check_uniform_phases(for_op).and_then(|()| self.check_index_in_loop(index, for_op));
        self.copy_by_tma(load, Some(self.loop_block(for_op)), check_index)
    }

    /// Plans the TMA copy that replaces a load in the function's entry block, whose tile MMAs in loops read from shared memory.
    /// This copy is in flight together with the copies for the first iterations of these loops. The error is the reason against
    /// TMA.
    pub(crate) fn tma_load_before_loops(&self, load: OpId) -> Result<Copy, &'static str> {
        let copy = self.copy_by_tma(load, None, |index| self.check_index_at_entry(index))?;
        if self.tma_copies == TmaChoice::WherePays && copy.buffer.bytes() < MIN_BYTES_OUTSIDE_LOOPS {
            return Err("loading so few bytes through registers is faster");
        }
        let value = self.function.body.result(load);
        let readers = self.uses.end_users(value);
        self.check_unchanged_until_read(load, &readers)?;
        let in_place = readers.into_iter().all(|op| self.reads_in_place(op));
        match in_place && self.mma_reads(value, None, 0).is_some_and(|reads| reads.in_place) {
            true => Ok(copy),
            false => Err("threads read it into registers, once for all iterations"),
        }
    }

    /// Checks that no op between a load in the entry block and the last of its `readers` writes memory or returns. Reason: such an
    /// op could execute before the TMA copy has finished.
    fn check_unchanged_until_read(&self, load: OpId, readers: &[OpId]) -> Result<(), &'static str> {
        let body = &self.function.body;
        let with_inner = |op: OpId| self.nested_ops(op).into_iter().chain([op]).collect::<Vec<_>>();
        let ops_with_nested = body.blocks[self.function.entry()].ops.iter().map(|op| with_inner(*op));
        let ops_from_load: Vec<Vec<OpId>> = ops_with_nested.skip_while(|ops| !ops.contains(&load)).collect();
        let last = ops_from_load.iter().rposition(|ops| readers.iter().any(|reader| ops.contains(reader))).unwrap_or(0);
        for op in ops_from_load.into_iter().take(last + 1).flatten() {
            match &body.ops[op].kind {
                kind if writes_memory(kind) => return Err("memory is written before MMAs have read it"),
                Op::Core(Core::Return {}) => return Err("the function may end before MMAs read it"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that the indices of a load before loops depend only on kernel arguments, tile block indices, and scalars that are
    /// loaded at such indices.
    fn check_index_at_entry(&self, indices: &[Value]) -> Result<(), &'static str> {
        let body = &self.function.body;
        operand_trees::visit_operand_trees(self.function, indices.iter().copied(), |value, op| match op {
            _ if *body.ty(value) == Type::Token => Ok(false),
            Some(op) if !is_pure(&body.ops[op].kind) && !self.is_scalar_load(op) => {
                Err("its index does not depend on arguments and block indices alone")
            }
            op => Ok(op.is_some()),
        })
    }

    /// Plans the TMA copy of a load whose readers are in `block`, or without `block` anywhere. `check_index` checks the indices and
    /// the view of the load. In a loop, it also checks *uniform phases*. The error is the reason against TMA.
    fn copy_by_tma(
        &self,
        load: OpId,
        block: Option<Block>,
        check_index: impl FnOnce(&[Value]) -> Result<(), &'static str>,
    ) -> Result<Copy, &'static str> {
        let body = &self.function.body;
        let Op::LoadView { view, index, token, order, hints, .. } = &body.ops[load].kind else {
            return Err("it is a load through pointers");
        };
        let Type::View(ty) = body.ty(*view) else { unreachable!("the verifier checks that views are views") };
        if !self.target.has(Feature::Tma) {
            return Err("the target has no TMA");
        }
        if !self.hints_allow_tma(hints) {
            return Err("the author disallows TMA");
        }
        if order.semantics != MemoryOrdering::Weak {
            return Err("it is ordered against other threads");
        }
        if !matches!(ty.padding, None | Some(Padding::Zero)) {
            return Err("its padding is not zero");
        }
        if token.is_some_and(|token| !self.orders_after_loads_only(token)) {
            return Err("it is ordered after what this kernel writes");
        }
        // The view is checked like the indices, because the address and extents of an `ArrayWindow` may depend on loaded scalars.
        check_index(&[&index[..], &[*view]].concat())?;
        let (map, window) = tma_tiles::tensor_map(body, self.function.params(), *view)?;
        self.check_map_limits(ty, *view, window)?;
        let mut buffer = tma_tiles::tma_buffer(ty, &map.extent, map.swizzle).ok_or("its TMA tiles are too small for a swizzle")?;
        let value = body.result(load);
        let readers = match self.mma_reads(value, block, 0) {
            Some(MmaReads { in_place: true, .. }) => {
                let (elem, shape) = body.ty(value).tile().expect("a load gives a tile");
                let inner = tma_tiles::dims_in_map_order(ty).expect("a map has an order")[0];
                let readable_buffer =
                    wgmma_atoms::operand_buffer(elem, shape, inner).ok_or("its rows are too short for a matrix descriptor")?;
                if readable_buffer.offset_bases != buffer.offset_bases {
                    return Err("wgmma cannot read the layout of its TMA tiles");
                }
                buffer = readable_buffer;
                Readers::Mmas
            }
            Some(MmaReads { fragments, .. })
                if self.tma_copies == TmaChoice::WherePays && self.has_costly_bank_conflicts(value, &buffer, &fragments) =>
            {
                return Err("fragment reads from its TMA tiles have bank conflicts");
            }
            Some(_) => Readers::Mmas,
            None if !self.uses.reaches_only_mmas(value) => return Err("an op other than an MMA uses it"),
            None if self.tma_copies == TmaChoice::WherePays && !self.reaches_tensor_memory(value) => {
                return Err("threads read it into registers, and cp.async gives it a better swizzle for that");
            }
            None => Readers::Registers,
        };
        Ok(Copy { buffer, method: CopyMethod::Tma(map), readers })
    }

    /// Whether the author's hints for the target allow TMA. Without a hint, TMA is allowed.
    pub(crate) fn hints_allow_tma(&self, hints: &[AccessHint]) -> bool {
        AccessHint::value_for(hints, self.target, |hint| hint.allow_tma).unwrap_or(true)
    }

    /// Checks by facts that the address, extents and strides of the view `view` fit a tensor map. The error is the reason why they
    /// may not.
    pub(crate) fn check_map_limits(&self, ty: &View, view: Value, window: Option<ArrayWindow>) -> Result<(), &'static str> {
        let all_facts = self.facts.get_or_init(|| Facts::derive(self.function));
        let facts = all_facts.memref(view).ok_or("no facts are known of its memory")?;
        let bytes = u64::from(ty.memref.elem.bits() / 8);
        let array_divisor = window.map_or(MAP_ALIGNMENT, |window| all_facts.divisor(window.array));
        if !facts.base_divisor.is_multiple_of(MAP_ALIGNMENT) || !array_divisor.is_multiple_of(MAP_ALIGNMENT) {
            return Err("its address is not known to be a multiple of 16 bytes");
        }
        let order = tma_tiles::dims_in_map_order(ty).ok_or("no dimension is contiguous in memory")?;
        let memory_dim = |dim: usize| ty.dim_map[order[dim]] as usize;
        let (inner, ragged) = (Some(memory_dim(0)), window.and_then(|window| window.ragged_dim).map(memory_dim));
        for dim in (0..facts.size_divisors.len()).filter(|dim| Some(*dim) != inner) {
            if !facts.stride_divisors[dim].saturating_mul(bytes).is_multiple_of(MAP_ALIGNMENT) {
                return Err("its strides are not known to be multiples of 16 bytes");
            }
            let (max_stride, reason) = match Some(dim) == ragged {
                true => (tma_windows::PERIOD, "the stride of its rows is not known to be less than 16 GiB"),
                false => (tensormap::STRIDE_LIMIT as i64, "its strides are not known to fit a map"),
            };
            let (low, high) = facts.stride_ranges[dim];
            if low < 0 || high.saturating_mul(bytes as i64) >= max_stride {
                return Err(reason);
            }
        }
        // The ragged extent of a window is the difference of two loaded row numbers. If it is negative, the window is empty.
        let fits_map = |dim: usize, (low, high): &(i64, i64)| (*low >= 0 || Some(dim) == ragged) && *high <= MAX_EXTENT;
        if !(0..).zip(&facts.size_ranges).all(|(dim, range)| fits_map(dim, range)) {
            return Err("its extents are not known to fit a map");
        }
        Ok(())
    }

    /// Checks *uniform phases*: no iteration of the `for` ends early or leaves the loop. Also checks that the loop writes no
    /// memory. Reason: a TMA copy may execute in an earlier iteration than the write.
    fn check_uniform_phases(&self, for_op: OpId) -> Result<(), &'static str> {
        let body = &self.function.body;
        let (loop_ops, nesting) = (self.nested_ops(for_op), RegionNesting::analyse(body, self.function.region));
        let last = body.terminator(self.loop_block(for_op));
        let is_early = |op: &OpId| match as_core(&body.ops[*op].kind) {
            Some(Core::Return {}) => true,
            Some(Core::Continue { .. } | Core::Break { .. }) => match nesting.construct_of_terminator(body, *op) {
                Some(construct) if construct == for_op => Some(*op) != last,
                construct => construct.is_none_or(|construct| !loop_ops.contains(&construct)),
            },
            _ => false,
        };
        if loop_ops.iter().any(is_early) {
            return Err("an iteration of its loop may end early");
        }
        match loop_ops.into_iter().any(|op| writes_memory(&body.ops[op].kind)) {
            true => Err("its loop writes to memory"),
            false => Ok(()),
        }
    }

    /// The block of the body of a `for`.
    fn loop_block(&self, for_op: OpId) -> Block {
        let inner = as_core(&self.function.body.ops[for_op].kind).and_then(Core::for_body);
        self.function.body.block_of(inner.expect("the loop is a `for`"))
    }

    /// The ops in the regions of an op, at any depth.
    fn nested_ops(&self, op: OpId) -> Vec<OpId> {
        let body = &self.function.body;
        body.ops[op].kind.regions().into_iter().flat_map(|region| body.walk(region)).collect()
    }

    /// Checks that the indices of an access in a `for` depend on no loop-carried value but the induction variable. Loop invariants,
    /// and scalars that are loaded at such indices, are allowed too. The error is the reason against the copy.
    pub(crate) fn check_index_in_loop(&self, indices: &[Value], for_op: OpId) -> Result<(), &'static str> {
        let body = &self.function.body;
        let Some(region) = as_core(&body.ops[for_op].kind).and_then(Core::for_body) else { return Err("it is in no loop") };
        let block = body.block_of(region);
        operand_trees::visit_operand_trees(self.function, indices.iter().copied(), |value, op| match op {
            // This token orders a scalar load, and `is_scalar_load` checks that the token orders it after loads only.
            _ if *body.ty(value) == Type::Token => Ok(false),
            None if body.blocks[block].args.iter().skip(1).any(|arg| *arg == value) => {
                Err("its index is carried from the previous iteration")
            }
            Some(op) if self.blocks[op.0 as usize] == Some(block) => match is_pure(&body.ops[op].kind) || self.is_scalar_load(op) {
                true => Ok(true),
                false => Err("its index does not depend on the induction variable alone"),
            },
            _ => Ok(false),
        })
    }

    /// Whether an op is a weak load of one element that tokens order after other loads only. The warp role that issues TMA copies
    /// can execute such a load, too.
    fn is_scalar_load(&self, op: OpId) -> bool {
        let body = &self.function.body;
        let (Op::LoadView { order, token, .. } | Op::Load { order, token, .. }) = &body.ops[op].kind else { return false };
        let is_single_element = body.ty(body.result(op)).tile().is_some_and(|(_, shape)| element_count(shape) == 1);
        is_single_element
            && order.semantics == MemoryOrdering::Weak
            && token.is_none_or(|token| self.orders_after_loads_only(token))
    }

    /// Whether a token orders its users after loads only, and after no op that writes memory.
    pub(crate) fn orders_after_loads_only(&self, token: Value) -> bool {
        self.orders_after_loads_and(token, &BTreeSet::new())
    }

    /// Whether a token orders its users after loads and the ops `stores` only, and after no other op that writes memory.
    pub(crate) fn orders_after_loads_and(&self, token: Value, stores: &BTreeSet<OpId>) -> bool {
        let body = &self.function.body;
        let parent_op =
            |block| body.ops.ids().find(|op| body.ops[*op].kind.regions().iter().any(|inner| body.block_of(*inner) == block));
        let (mut seen, mut work) = (BTreeSet::new(), vec![token]);
        while let Some(token) = work.pop() {
            if !seen.insert(token) {
                continue;
            }
            let producer = match body.values[token].def {
                Def::Result { op, .. } => Some(op),
                Def::Argument { block, .. } => parent_op(block),
            };
            let Some(op) = producer else { return false };
            // For a loop or condition, the ops in its regions count, too.
            let op_with_nested: Vec<OpId> = self.nested_ops(op).into_iter().chain([op]).collect();
            if op_with_nested.iter().any(|op| !stores.contains(op) && writes_memory(&body.ops[*op].kind)) {
                return false;
            }
            let all_operands = op_with_nested.into_iter().flat_map(|op| body.ops[op].kind.operands());
            work.extend(all_operands.filter(|value| matches!(body.ty(*value), Type::Token)));
        }
        true
    }
}

/// Whether an op may write global memory. The match is exhaustive, so that a new op needs a decision here.
fn writes_memory(op: &Op) -> bool {
    match op {
        Op::StoreView { .. }
        | Op::ReduceView { .. }
        | Op::MulticastStore { .. }
        | Op::Store { .. }
        | Op::AtomicRmw { .. }
        | Op::AtomicCas { .. } => true,
        Op::LoadView { .. }
        | Op::MulticastLoad { .. }
        | Op::Load { .. }
        | Op::Reduce { .. }
        | Op::Scan { .. }
        | Op::Mma { .. }
        | Op::MmaScaled { .. }
        | Op::Core(_) => false,
    }
}
