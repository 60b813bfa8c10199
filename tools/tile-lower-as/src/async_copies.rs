//! Purpose: select the loads that become asynchronous copies to shared memory (`cp.async` or TMA). Candidates are loads in `for`
//! loops, and loads of MMA operands that TMA copies once before a loop.
//! Requires: [`crate::access_layouts::Accesses`] and [`crate::mma_selection::MmaSelections`]; a load leads to an MMA, and its
//! pieces have a size and alignment that `cp.async` takes.
//! Establishes: a buffer for each copy, and its readers: MMA fragments, possibly converted ([`crate::operand_load_layouts`]), or a
//! full tile in registers. `tile-sched` pipelines the copies. Loads that reach no MMA are left to
//! [`crate::async_copy_non_mma_loads`].
//! Preserves: the program; this is an analysis.
//! See also: Triton's `LowerLoops` and `TMALowering`; CUTLASS `SM80_CP_ASYNC` and `SM90_TMA_LOAD`.

use crate::access_plan::Pieces;
use crate::async_copy_non_mma_loads::NonMmaCopies;
use crate::copy_planner::{Copy, CopyInputs, CopyMethod, CopyPlanner, MmaReads, Readers};
use crate::layout_transforms::one_replica_layout;
use crate::mma_selection::{self, MmaSelection, OperandSource};
use crate::operand_trees::as_core;
use crate::operands::{self, MAX_BETWEEN};
use crate::plan_options::{PlanOptions, TmaChoice};
use crate::smem_swizzles;
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::memory::{MemoryOrdering, Padding};
use core_dialect::tile::{Dense, Elem, Space, ViewKind, element_count};
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tileaa::{Function, Op, Type};
use tileas::layout::Strides;
use tileas::{BufferInfo, Layout, budget, wgmma_atoms};

/// The reason against an asynchronous copy that does not fit shared memory.
const NO_CAPACITY: &str = "shared memory does not fit it besides the other copies";

/// An operand that `wgmma` reads from shared memory.
struct InPlaceOperand {
    /// The value of the operand.
    value: Value,
    /// Whether threads must transpose the operand and store it to shared memory, because global memory has another element order.
    transposed: bool,
}

/// The asynchronous copies of a function, and the reasons why other loads are not copied.
#[derive(Default)]
pub(crate) struct Copies {
    /// The copy of each load that becomes one.
    copies: BTreeMap<OpId, Copy>,
    /// For the load of each TMA copy that reuses the buffer of an earlier copy of its loop, the load of this earlier copy. All MMAs
    /// that read the earlier copy precede the later load.
    alternating: BTreeMap<OpId, OpId>,
    /// The loads that are not copied, with the reasons.
    pub(crate) declined: Vec<(OpId, &'static str)>,
    /// The loads that TMA does not copy, with the reasons. These loads may become `cp.async` copies.
    pub(crate) no_tma: Vec<(OpId, &'static str)>,
}

impl Copies {
    /// Selects the asynchronous copies of a function. The buffers of each loop fit the target's shared memory.
    pub(crate) fn select(function: &Function, inputs: &CopyInputs<'_>, target: Target, options: PlanOptions) -> Copies {
        let body = &function.body;
        let order = body.walk(function.region);
        let planner = CopyPlanner::new(function, inputs, target, options);
        let mut selected = Copies::default();
        for op in order {
            let Some(inner) = as_core(&body.ops[op].kind).and_then(Core::for_body) else { continue };
            let block = body.block_of(inner);
            let prefers_tma = planner.prefers_tma(block);
            for &load in &body.blocks[block].ops {
                if inputs.exceeding_capacity.contains(&load) {
                    selected.declined.push((load, NO_CAPACITY));
                    continue;
                }
                let is_view = matches!(body.ops[load].kind, Op::LoadView { .. });
                if is_view && prefers_tma && planner.uses.reaches_mma(body.result(load)) {
                    let tma_load = if inputs.tma_loads_exceeding_smem.contains(&load) {
                        Err(NO_CAPACITY)
                    } else {
                        planner.tma_load_in_loop(load, op)
                    };
                    match tma_load {
                        Ok(copy) => {
                            selected.copies.insert(load, copy);
                            continue;
                        }
                        Err(reason) => selected.no_tma.push((load, reason)),
                    }
                }
                if inputs.is_stored_right_operand(function, load) {
                    selected.declined.push((load, "threads store it for MMAs in tensor memory"));
                    continue;
                }
                let planned_copy = match body.ops[load].kind {
                    Op::LoadView { .. } if planner.uses.reaches_mma(body.result(load)) => planner.plan_view_copy(load, block),
                    Op::Load { .. } if planner.uses.reaches_mma(body.result(load)) => planner.plan_pointer_copy(load, block),
                    _ => continue,
                };
                match planned_copy {
                    Ok(copy) => _ = selected.copies.insert(load, copy),
                    Err(reason) => selected.declined.push((load, reason)),
                }
            }
            let NonMmaCopies { copies, declined } = planner.non_mma_copies(op, |load| !inputs.exceeding_capacity.contains(&load));
            selected.copies.extend(copies);
            selected.declined.extend(declined);
            selected.drop_unprofitable_tma(&planner, block, budget::shared_memory(target));
            selected.drop_exceeding(&planner, &body.blocks[block].ops, budget::shared_memory(target));
        }
        selected.add_copies_before_loops(&planner, inputs);
        selected
    }

    /// Plans TMA copies for loads in the entry block whose tiles MMAs in loops read. Does nothing if no loop has a TMA copy.
    fn add_copies_before_loops(&mut self, planner: &CopyPlanner<'_>, inputs: &CopyInputs<'_>) {
        let function = planner.function;
        let entry = Some(function.entry());
        let is_tma_copy = |op: &OpId| self.copies.get(op).is_some_and(|copy| matches!(copy.method, CopyMethod::Tma(_)));
        if planner.tma_copies == TmaChoice::Never || !function.body.ops.ids().any(|op| is_tma_copy(&op)) {
            return;
        }
        for &load in &function.body.blocks[function.entry()].ops {
            let Op::LoadView { .. } = function.body.ops[load].kind else { continue };
            let readers = planner.uses.end_users(function.body.result(load));
            let in_loop = |op: &OpId| operands::is_mma(function, *op) && planner.blocks[op.0 as usize] != entry;
            if inputs.exceeding_capacity.contains(&load) || !readers.iter().any(in_loop) {
                continue;
            }
            let tma_load = match inputs.tma_loads_exceeding_smem.contains(&load) {
                true => Err(NO_CAPACITY),
                // Each of two components has its own compute role, and the other role may store to this buffer.
                false if planner.mmas.has_components() => Err("with two compute roles, neither can wait for it"),
                false => planner.tma_load_before_loops(load),
            };
            match tma_load {
                Ok(copy) => _ = self.copies.insert(load, copy),
                Err(reason) => self.no_tma.push((load, reason)),
            }
        }
    }

    /// Replaces the TMA copies of a loop by `cp.async` copies unless TMA is profitable. `capacity` is the bytes of shared memory.
    fn drop_unprofitable_tma(&mut self, planner: &CopyPlanner<'_>, block: Block, capacity: u32) {
        let ops = &planner.function.body.blocks[block].ops;
        let copies = ops.iter().copied().filter(|op| self.copies.contains_key(op));
        let (tma_copies, piece_copies): (Vec<OpId>, Vec<OpId>) =
            copies.partition(|op| matches!(self.copies[op].method, CopyMethod::Tma(_)));
        let feeds_async_mma = |load: &OpId| planner.reaches_async_mma(planner.function.body.result(*load));
        let mut is_feasible = self.two_stages_fit(planner, ops, &tma_copies, capacity);
        if !is_feasible && piece_copies.is_empty() {
            self.share_buffers(planner, ops, &tma_copies);
            is_feasible = self.two_stages_fit(planner, ops, &tma_copies, capacity);
        }
        if !is_feasible && piece_copies.is_empty() {
            is_feasible = self.single_buffering_pays(planner, ops, &tma_copies, capacity);
        }
        let reason = match (piece_copies.is_empty(), is_feasible) {
            (false, _) if planner.tma_copies == TmaChoice::WherePays && !tma_copies.iter().any(feeds_async_mma) => {
                "threads copy another operand of its loop and wait for all copies at once"
            }
            (_, false) => "shared memory does not fit two stages of each operand besides the loop's stores",
            (_, true) => return,
        };
        for load in tma_copies {
            self.copies.remove(&load);
            self.alternating.remove(&load);
            self.no_tma.push((load, reason));
            match planner.plan_view_copy(load, block) {
                Ok(copy) => _ = self.copies.insert(load, copy),
                Err(reason) => self.declined.push((load, reason)),
            }
        }
    }

    /// Whether `capacity` bytes of shared memory fit two stages of each TMA copy. A multi-stage TMA buffer shares memory with no
    /// other buffer of the loop. TMA is usually profitable only if it fills one stage while MMAs read another stage. The exception
    /// is [`Self::single_buffering_pays`].
    fn two_stages_fit(&self, planner: &CopyPlanner<'_>, ops: &[OpId], tma_copies: &[OpId], capacity: u32) -> bool {
        self.stages_fit(planner, ops, tma_copies, 2, capacity)
    }

    /// Whether single-buffered TMA is profitable. It is if no MMA reads all buffers, so that TMA fills one buffer while an MMA
    /// reads another buffer. In addition, `cp.async` must be unable to double-buffer the largest copy.
    fn single_buffering_pays(&self, planner: &CopyPlanner<'_>, ops: &[OpId], tma_copies: &[OpId], capacity: u32) -> bool {
        let readers_of =
            |load: &OpId| planner.uses.end_users(planner.function.body.result(*load)).into_iter().collect::<BTreeSet<_>>();
        let reader_sets: Vec<BTreeSet<OpId>> = tma_copies.iter().map(readers_of).collect();
        let reads_all_buffers = |op: &OpId| reader_sets.iter().all(|readers| readers.contains(op));
        let largest = tma_copies.iter().map(|op| self.copies[op].buffer.bytes()).max().unwrap_or(0);
        let is_tight = !self.stages_fit(planner, ops, tma_copies, 1, capacity.saturating_sub(largest));
        is_tight && !reader_sets.iter().flatten().any(reads_all_buffers) && self.stages_fit(planner, ops, tma_copies, 1, capacity)
    }

    /// Whether `capacity` bytes fit `stages` stages of each TMA copy besides the operands that threads store to shared memory for
    /// `wgmma` in the loop.
    fn stages_fit(&self, planner: &CopyPlanner<'_>, ops: &[OpId], tma_copies: &[OpId], stages: u32, capacity: u32) -> bool {
        let own_buffers = tma_copies.iter().filter(|op| !self.alternating.contains_key(*op));
        let bytes = own_buffers.map(|op| self.copies[op].buffer.bytes()).fold(0, u32::saturating_add);
        let stored =
            ops.iter().flat_map(|op| planner.in_place_operands(*op)).filter(|operand| !self.is_copied_in_place(planner, operand));
        let stored = stored.map(|operand| planner.tile_bytes(operand.value)).fold(0, u32::saturating_add);
        bytes.saturating_mul(stages).saturating_add(stored) <= capacity
    }

    /// Lets TMA copies with equal buffers share one buffer, if all MMAs that read a copy precede the load of the next copy.
    fn share_buffers(&mut self, planner: &CopyPlanner<'_>, ops: &[OpId], tma_copies: &[OpId]) {
        let body = &planner.function.body;
        let position: BTreeMap<OpId, usize> = ops.iter().enumerate().map(|(at, op)| (*op, at)).collect();
        // The first copy into each buffer, with the position of the last MMA that reads the buffer. A pipeline has one consumer
        // role, so copies for `tcgen05` (the MMA warp) and copies for other MMAs (compute warps) do not share buffers.
        let mut shared_buffers: Vec<(OpId, usize)> = Vec::new();
        let is_for_tcgen05 = |load: OpId| planner.reaches_tensor_memory(body.result(load));
        for load in tma_copies.iter().filter(|load| self.copies[*load].readers == Readers::Mmas) {
            let readers = planner.uses.end_users(body.result(*load));
            let read_at = |user: OpId| position.get(&user).copied().filter(|_| planner.mmas.get(user).is_some());
            let Some(last_read) =
                readers.into_iter().map(read_at).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max())
            else {
                continue;
            };
            let can_share = |(other, last_read_at): &&mut (OpId, usize)| {
                let has_same_role = is_for_tcgen05(*other) == is_for_tcgen05(*load);
                *last_read_at < position[load] && self.copies[other].buffer == self.copies[load].buffer && has_same_role
            };
            match shared_buffers.iter_mut().find(can_share) {
                Some((other, last_read_at)) => {
                    *last_read_at = last_read;
                    self.alternating.insert(*load, *other);
                }
                None => shared_buffers.push((*load, last_read)),
            }
        }
    }

    /// Whether an asynchronous copy fills the shared memory from which `wgmma` reads an operand. Otherwise threads store the
    /// operand there.
    fn is_copied_in_place(&self, planner: &CopyPlanner<'_>, operand: &InPlaceOperand) -> bool {
        !operand.transposed
            && operands::defining_load(planner.function, operand.value).is_some_and(|load| self.copies.contains_key(&load))
    }

    /// Drops copies of a loop until one stage of each live copy fits `capacity` bytes of shared memory. Drops the largest copy at
    /// the op with the most live bytes first. The tile of a dropped copy may still pass through shared memory for a layout
    /// conversion. So the largest dropped tile must fit besides the live copies.
    fn drop_exceeding(&mut self, planner: &CopyPlanner<'_>, ops: &[OpId], capacity: u32) {
        let position: BTreeMap<OpId, usize> = ops.iter().enumerate().map(|(at, op)| (*op, at)).collect();
        let last_use = |op: OpId| {
            let users = planner.uses.end_users(planner.function.body.result(op));
            users.into_iter().filter_map(|user| position.get(&user)).max().copied()
        };
        let liveness: Vec<(OpId, usize, usize)> = ops
            .iter()
            .enumerate()
            .filter(|(_, op)| self.copies.contains_key(*op))
            .map(|(at, op)| (*op, at, last_use(*op).unwrap_or(ops.len())))
            .collect();
        let mut largest_dropped_bytes = 0;
        loop {
            let live_copies = |at: usize| {
                let here = liveness.iter().filter(move |(_, first, last)| (*first..=*last).contains(&at));
                here.filter_map(|(op, ..)| Some((self.copies.get(op)?.buffer.bytes(), *op))).collect::<Vec<_>>()
            };
            let live_bytes = |live_copies: &Vec<(u32, OpId)>| {
                live_copies.iter().fold(largest_dropped_bytes, |sum: u32, (bytes, _)| sum.saturating_add(*bytes))
            };
            let fullest = liveness.iter().map(|(_, first, _)| live_copies(*first)).max_by_key(live_bytes);
            let largest = fullest
                .filter(|live_copies| live_bytes(live_copies) > capacity)
                .and_then(|live_copies| live_copies.into_iter().max());
            let Some((bytes, largest)) = largest else { return };
            self.copies.remove(&largest);
            self.declined.push((largest, NO_CAPACITY));
            largest_dropped_bytes = largest_dropped_bytes.max(bytes);
        }
    }

    /// The asynchronous copy that replaces a load. `None` if the load is not copied.
    pub(crate) fn get(&self, op: OpId) -> Option<&Copy> {
        self.copies.get(&op)
    }
    /// For a load whose TMA copy reuses the buffer of an earlier copy, the load of this earlier copy. `None` for other loads.
    pub(crate) fn alternating_with(&self, op: OpId) -> Option<OpId> {
        self.alternating.get(&op).copied()
    }
    /// All loads that become copies, with their copies.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpId, &Copy)> {
        self.copies.iter().map(|(op, copy)| (*op, copy))
    }
}

/// A `cp.async` copy of a tile in pieces of contiguous elements. For the fields without comment, see [`CopyMethod::Pieces`].
struct PieceCopy {
    /// The dimension of the tile along which each piece is contiguous.
    dim: usize,
    layout: Layout,
    bytes: u32,
    whole: bool,
}

impl CopyPlanner<'_> {
    /// Plans the `cp.async` copy of a load through a view. The error is the reason why `cp.async` cannot copy the tile.
    fn plan_view_copy(&self, op: OpId, block: Block) -> Result<Copy, &'static str> {
        self.plan_piece_copy(op, block, self.view_pieces(op)?)
    }

    /// The `cp.async` copy of a load through a view, whose full tile threads then read from the buffer into registers. Ops of any
    /// kind may use the tile. The error is the reason why `cp.async` cannot copy the tile.
    pub(crate) fn register_copy(&self, op: OpId) -> Result<Copy, &'static str> {
        let assigned_layout = self.accesses.get(op).map(|access| access.layout.clone());
        Ok(self.swizzled_copy(op, self.view_pieces(op)?, Readers::Registers, assigned_layout.as_slice()))
    }

    /// The pieces in which `cp.async` copies the tile of a load through a view. The error is the reason why it cannot.
    fn view_pieces(&self, op: OpId) -> Result<PieceCopy, &'static str> {
        let body = &self.function.body;
        let Op::LoadView { view, order, .. } = &body.ops[op].kind else { unreachable!("only loads are planned") };
        let Type::View(ty) = body.ty(*view) else { unreachable!("the verifier checks that views are views") };
        if order.semantics != MemoryOrdering::Weak {
            return Err("it is ordered against other threads");
        }
        if matches!(ty.kind, ViewKind::Gather { .. }) {
            return Err("it gathers rows");
        }
        if !matches!(ty.padding, None | Some(Padding::Zero)) {
            return Err("its padding is not zero");
        }
        let Some(Pieces { dim, bits, whole }) = self.accesses.get(op).and_then(|access| access.copy) else {
            return Err("no dimension is contiguous in memory");
        };
        let value = body.result(op);
        let (elem, shape) = body.ty(value).tile().expect("a load gives a tile");
        let bytes = elem.bytes() << bits;
        if !matches!(bytes, 4 | 8 | 16) || elem.bits() < 8 {
            return Err("its neighbours in memory are not known to be aligned");
        }
        let strides = Strides::for_shape(shape);
        let others = (0..shape.len()).rev().filter(|other| *other != dim);
        let order: Vec<u32> = std::iter::once(dim).chain(others).flat_map(|dim| strides.dim_bits(dim)).collect();
        let layout = Layout::blocked(&order, bits as usize, self.warp_bits);
        Ok(PieceCopy { dim, layout, bytes, whole })
    }

    /// Plans the buffer of a `cp.async` copy, and the readers of the buffer. The error is the reason why no copy is possible.
    fn plan_piece_copy(&self, op: OpId, block: Block, piece_copy: PieceCopy) -> Result<Copy, &'static str> {
        let value = self.function.body.result(op);
        let (elem, shape) = self.function.body.ty(value).tile().expect("a load gives a tile");
        let (readers, layouts) = match self.mma_reads(value, Some(block), 0) {
            Some(MmaReads { in_place: true, .. }) => {
                let PieceCopy { dim, layout, bytes, whole } = piece_copy;
                let buffer =
                    wgmma_atoms::operand_buffer(elem, shape, dim).ok_or("its rows are too short for a matrix descriptor")?;
                return Ok(Copy { buffer, method: CopyMethod::Pieces { layout, bytes, whole }, readers: Readers::Mmas });
            }
            Some(MmaReads { fragments, .. }) => (Readers::Mmas, fragments),
            // An op other than an MMA would read the full tile into registers, which would occupy them for a long time.
            None if !self.uses.reaches_only_mmas(value) => return Err("an op other than an MMA uses it"),
            None => {
                let assigned_layout = self.accesses.get(op).map(|access| &access.layout);
                let operand_layouts = assigned_layout.and_then(|assigned_layout| {
                    self.direct_read_layouts(value, block, piece_copy.dim, &piece_copy.layout, assigned_layout)
                });
                operand_layouts.map_or_else(
                    || (Readers::Registers, assigned_layout.cloned().into_iter().collect()),
                    |operand_layouts| (Readers::Mmas, operand_layouts),
                )
            }
        };
        Ok(self.swizzled_copy(op, piece_copy, readers, &layouts))
    }

    /// A `cp.async` copy to a buffer whose swizzle needs the fewest shared-memory wavefronts. `layouts` are the layouts in which
    /// warps read the buffer.
    fn swizzled_copy(&self, op: OpId, piece_copy: PieceCopy, readers: Readers, layouts: &[Layout]) -> Copy {
        let PieceCopy { dim, layout, bytes, whole } = piece_copy;
        let (elem, shape) = self.function.body.ty(self.function.body.result(op)).tile().expect("a load gives a tile");
        let accesses: Vec<&Layout> = std::iter::once(&layout).chain(layouts).collect();
        let buffer = smem_swizzles::swizzled_buffer(elem, shape, dim, &accesses);
        Copy { buffer, method: CopyMethod::Pieces { layout, bytes, whole }, readers }
    }

    /// Plans the `cp.async` copy of a load through pointers. Each vector of the planned access becomes a piece. The error is the
    /// reason why `cp.async` cannot copy the tile.
    fn plan_pointer_copy(&self, op: OpId, block: Block) -> Result<Copy, &'static str> {
        let body = &self.function.body;
        let Op::Load { ptr, other, order, .. } = &body.ops[op].kind else { unreachable!("only loads are planned") };
        if order.semantics != MemoryOrdering::Weak {
            return Err("it is ordered against other threads");
        }
        if !matches!(body.ty(*ptr).tile(), Some((Elem::Ptr { space: Space::Global, .. }, _))) {
            return Err("its pointers may leave global memory");
        }
        if other.is_some_and(|other| !self.is_zero(other)) {
            return Err("its padding is not zero");
        }
        let value = body.result(op);
        let (elem, shape) = body.ty(value).tile().expect("a load gives a tile");
        let Some(access) = self.accesses.get(op) else { return Err("no facts are known of its pointers") };
        let bytes = elem.bytes() << access.vector_bits;
        if !matches!(bytes, 4 | 8 | 16) || elem.bits() < 8 {
            return Err("its neighbours in memory are not known to be aligned");
        }
        let strides = Strides::for_shape(shape);
        let contiguous_basis = access.layout.register.first().copied().unwrap_or(1);
        let dim = (0..shape.len()).find(|dim| strides.mask(*dim) & contiguous_basis != 0).unwrap_or(shape.len() - 1);
        self.plan_piece_copy(op, block, PieceCopy { dim, layout: access.layout.clone(), bytes, whole: true })
    }

    /// Whether a value is a constant whose elements are all zero.
    fn is_zero(&self, value: Value) -> bool {
        let definition = self.function.body.defining_op(value).map(|op| &self.function.body.ops[op].kind);
        matches!(definition, Some(Op::Core(Core::Constant { value: Dense::Splat(0) })))
    }

    /// How MMAs read a value. `None` if another op reads the value, or if a user is outside `block`. Without `block`, users may be
    /// in any block. `between` is the number of permutes, reshapes and conversions from the copied tile to `value`.
    pub(crate) fn mma_reads(&self, value: Value, block: Option<Block>, between: u32) -> Option<MmaReads> {
        let body = &self.function.body;
        let mut mma_reads = MmaReads::default();
        let fragments = &mut mma_reads.fragments;
        for &user in self.uses.users(value) {
            if block.is_some_and(|block| self.blocks[user.0 as usize] != Some(block)) || between > MAX_BETWEEN {
                return None;
            }
            let reads_of_result = || self.mma_reads(body.result(user), block, between + 1);
            match &body.ops[user].kind {
                kind @ (Op::Mma { lhs, rhs, acc, .. } | Op::MmaScaled { lhs, rhs, acc, .. }) => match self.mmas.get(user) {
                    Some(MmaSelection::Sync { a, b, scales, .. }) if *acc != value => {
                        fragments.extend((*lhs == value).then(|| a.clone()));
                        fragments.extend((*rhs == value).then(|| b.clone()));
                        if let (Op::MmaScaled { lhs_scale, rhs_scale, .. }, Some(scales)) = (kind, scales) {
                            let [of_a, of_b] = &**scales;
                            fragments.extend((*lhs_scale == value).then(|| of_a.clone()));
                            fragments.extend((*rhs_scale == value).then(|| of_b.clone()));
                        }
                    }
                    // For FMA, each thread reads its operand elements from the buffer.
                    Some(MmaSelection::Fma { c }) if *acc != value && between == 0 => {
                        let shape = |value: Value| body.ty(value).tile().expect("operands of MMAs are tiles").1;
                        let operand = shape(value);
                        let sides = [(*lhs, operand.len() - 2), (*rhs, operand.len() - 1)];
                        let matching_sides = sides.into_iter().filter(|(side, _)| *side == value);
                        fragments
                            .extend(matching_sides.map(|(_, dim)| mma_selection::fma_operand_reads(c, shape(*acc), operand, dim)));
                    }
                    Some(MmaSelection::Tensor { scales: Some(scales), .. }) if kind.operands()[3..].contains(&value) => {
                        let shape = body.ty(value).tile().expect("operands of MMAs are tiles").1;
                        let sides: Vec<Value> = kind.operands()[3..].to_vec();
                        let matching_scales = sides.into_iter().zip(scales.iter()).filter(|(side, _)| *side == value);
                        fragments.extend(matching_scales.map(|(_, layout)| one_replica_layout(layout, shape)));
                    }
                    Some(MmaSelection::Group { lhs: a, rhs: b, .. } | MmaSelection::Tensor { lhs: a, rhs: b, .. })
                        if *acc != value =>
                    {
                        for (_, place) in [(*lhs, a), (*rhs, b)].into_iter().filter(|(side, _)| *side == value) {
                            fragments.extend(place.layout().cloned());
                            mma_reads.in_place |= place.layout().is_none();
                        }
                    }
                    _ => return None,
                },
                Op::Core(Core::Permute { order, .. }) => {
                    let shape = body.ty(body.result(user)).tile().expect("a permutation is of tiles").1;
                    let MmaReads { fragments: result_fragments, in_place } = reads_of_result()?;
                    fragments.extend(result_fragments.iter().map(|layout| layout.unpermute(shape, order)));
                    mma_reads.in_place |= in_place;
                }
                Op::Core(Core::Reshape { .. }) => {
                    let MmaReads { fragments: result_fragments, in_place } = reads_of_result()?;
                    fragments.extend(result_fragments);
                    mma_reads.in_place |= in_place;
                }
                // `wgmma` cannot convert an operand.
                Op::Core(Core::Convert { x, .. }) if self.element_bits(*x) == self.element_bits(body.result(user)) => {
                    let MmaReads { fragments: result_fragments, .. } = reads_of_result().filter(|reads| !reads.in_place)?;
                    fragments.extend(result_fragments);
                }
                _ => return None,
            }
        }
        Some(mma_reads)
    }

    /// Whether loads of a loop should be TMA copies. By default they are if the loop has tensor-core MMAs, even `mma.sync`. Reason:
    /// the warps that issue MMAs have no issue cycles to spare for copies.
    fn prefers_tma(&self, block: Block) -> bool {
        match self.tma_copies {
            TmaChoice::Never => false,
            TmaChoice::WherePays => {
                let ops = &self.function.body.blocks[block].ops;
                self.target.has(Feature::Tma) && ops.iter().any(|op| self.reads_in_place(*op) || self.is_mma_sync(*op))
            }
            TmaChoice::WherePossible => true,
        }
    }

    /// Whether an op is a `wgmma` or `tcgen05` MMA. Such an MMA reads operands from shared or tensor memory.
    pub(crate) fn reads_in_place(&self, op: OpId) -> bool {
        matches!(self.mmas.get(op), Some(MmaSelection::Group { .. } | MmaSelection::Tensor { .. }))
    }

    /// Whether an op is an MMA that `mma.sync` executes.
    fn is_mma_sync(&self, op: OpId) -> bool {
        matches!(self.mmas.get(op), Some(MmaSelection::Sync { .. }))
    }

    /// Whether a `tcgen05` MMA uses a value, possibly through permutes, reshapes and elementwise ops.
    pub(crate) fn reaches_tensor_memory(&self, value: Value) -> bool {
        self.uses.end_users(value).into_iter().any(|user| matches!(self.mmas.get(user), Some(MmaSelection::Tensor { .. })))
    }

    /// Whether a `wgmma` or `tcgen05` MMA uses a value, possibly through permutes, reshapes and elementwise ops.
    fn reaches_async_mma(&self, value: Value) -> bool {
        let is_asynchronous =
            |mma: Option<&MmaSelection>| matches!(mma, Some(MmaSelection::Tensor { .. } | MmaSelection::Group { .. }));
        self.uses.end_users(value).into_iter().any(|user| is_asynchronous(self.mmas.get(user)))
    }

    /// The operands that an op reads from shared memory if it is a `wgmma`. Empty for other ops.
    fn in_place_operands(&self, op: OpId) -> Vec<InPlaceOperand> {
        let (Op::Mma { lhs, rhs, .. }, Some(MmaSelection::Group { lhs: a, rhs: b, .. })) =
            (&self.function.body.ops[op].kind, self.mmas.get(op))
        else {
            return Vec::new();
        };
        let operand = |(value, place): (&Value, &OperandSource)| match place {
            OperandSource::Registers(_) | OperandSource::Tensor(_) => None,
            OperandSource::Transposed(_) => Some(InPlaceOperand { value: *value, transposed: true }),
            OperandSource::Memory => Some(InPlaceOperand { value: *value, transposed: false }),
        };
        [(lhs, a), (rhs, b)].into_iter().filter_map(operand).collect()
    }

    /// The bytes of a tile; 0 for a value that is no tile.
    fn tile_bytes(&self, value: Value) -> u32 {
        let tile = self.function.body.ty(value).tile();
        tile.map_or(0, |(elem, shape)| (element_count(shape) as u32).saturating_mul(elem.bytes()))
    }

    /// Whether reads of MMA fragments from the TMA-filled buffer `buffer` have costly bank conflicts. They do if a `cp.async` copy
    /// to a buffer with another swizzle takes no more shared-memory wavefronts, including the writes of `cp.async`.
    pub(crate) fn has_costly_bank_conflicts(&self, value: Value, buffer: &BufferInfo, fragments: &[Layout]) -> bool {
        let (elem, shape) = self.function.body.ty(value).tile().expect("a load gives a tile");
        let strides = Strides::for_shape(shape);
        let contiguous_basis = buffer.offset_bases.first().copied().unwrap_or(1);
        let dim = (0..shape.len()).find(|dim| strides.mask(*dim) & contiguous_basis != 0).unwrap_or(shape.len() - 1);
        let reads: Vec<&Layout> = fragments.iter().collect();
        let wavefronts = |buffer: &BufferInfo| {
            fragments.iter().map(|layout| smem_swizzles::wavefronts(buffer, layout)).sum::<u32>() << self.warp_bits
        };
        let alternative_buffer = smem_swizzles::swizzled_buffer(elem, shape, dim, &reads);
        wavefronts(buffer) > wavefronts(&alternative_buffer)
            && wavefronts(buffer) >= wavefronts(&alternative_buffer) + buffer.bytes() / smem_swizzles::LINE
    }

    /// The bits of an element of a tile; `None` for a value that is no tile.
    fn element_bits(&self, value: Value) -> Option<u32> {
        self.function.body.ty(value).tile().map(|(elem, _)| elem.bits())
    }
}
