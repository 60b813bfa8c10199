//! Purpose: select `tcgen05.mma` for chains of MMAs that add to one accumulator, or record why a chain does not use `tcgen05.mma`.
//! Requires: a target with tensor memory; the chains of [`crate::tmem_accumulator_chains`].
//! Establishes: the accumulators, left operands and scales of the selected chains fit the TMEM columns.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `PromoteLHSToTMem` and `ttng.tmem_alloc`; CUTLASS `SM100_MMA_*` atoms.

use crate::async_copies::Copies;
use crate::copy_planner::CopyMethod;
use crate::mma_selection::{
    MmaFamily, MmaPlanner, MmaSelection, MmaSelections, NO_TMEM, OperandSource, mma_extents, transposing_layout,
};
use crate::operands;
use crate::tmem_accumulator_chains::{self, Chain};
use crate::tmem_load_layouts::{ALL_SHAPES, BY_ROWS, LayoutGroups, tmem_part_layout, tmem_register_layout};
use base::ir::{Op as OpId, Operation};
use base::{Block, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::Dense;
use numerics::Scalar;
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tileaa::{Function, Op};
use tileas::mma_sync_atoms::{Operand, sync_atom};
use tileas::tensor_memory::{self, LaneAtom, TensorAtom, TmemSlice};
use tileas::{BufferInfo, Layout};

/// For each MMA, its `tcgen05` selection or the reason why it does not use `tcgen05`.
pub(crate) type Tcgen05Decisions = BTreeMap<OpId, Result<MmaSelection, &'static str>>;

impl MmaPlanner<'_> {
    /// Whether an asynchronous copy fills the shared memory from which `tcgen05.mma` reads an operand. If not, threads load or
    /// compute the operand and store it to tensor or shared memory.
    fn is_copied_to_smem(&self, value: Value) -> bool {
        operands::defining_load(self.function, value).is_some_and(|load| !self.loads_by_threads.contains(&load))
    }

    /// Selects the MMA chains that accumulate in at most `columns` TMEM columns. Returns them with the decision for each MMA.
    /// Declines the MMAs in `refused` for the reason in the map.
    pub(crate) fn select_tmem_mmas(&self, columns: u32, refused: &BTreeMap<OpId, &'static str>) -> (Vec<Chain>, Tcgen05Decisions) {
        if !self.target.has(Feature::TensorMemory) {
            return Default::default();
        }
        let (all_chains, reasons) = tmem_accumulator_chains::accumulator_chains(self.function);
        let mut decisions: Tcgen05Decisions = reasons.into_iter().map(|(op, reason)| (op, Err(reason))).collect();
        let (layout_groups, mut possible) = (LayoutGroups::analyse(self.function), Vec::new());
        for chain in all_chains.iter().cloned() {
            match self.plan_chain(&chain, &all_chains, &layout_groups, refused) {
                Ok(mmas) => possible.push((self.with_slices(chain), mmas)),
                Err(reason) => decisions.extend(chain.mmas.iter().map(|op| (*op, Err(reason)))),
            }
        }
        // Earlier chains have priority. If a chain is dropped, other chains may need fewer or more columns. So each dropped chain
        // is tried again at the end.
        let mut chains: Vec<Chain> = possible.iter().map(|(chain, _)| chain.clone()).collect();
        let mut dropped = Vec::new();
        while let Some(position) = self.first_exceeding_tmem(&chains, columns) {
            dropped.push(chains.remove(position));
        }
        for chain in dropped {
            chains.push(chain);
            if self.first_exceeding_tmem(&chains, columns).is_some() {
                chains.pop();
            }
        }
        for (chain, mmas) in possible {
            let fits_tmem = chains.contains(&chain);
            let mma = |mma| if fits_tmem { Ok(mma) } else { Err(NO_TMEM) };
            decisions.extend(chain.mmas.iter().copied().zip(mmas.into_iter().map(mma)));
        }
        (chains, decisions)
    }

    /// The `tcgen05` selections of a chain's MMAs. The error is the reason why the chain does not use `tcgen05`.
    fn plan_chain(
        &self,
        chain: &Chain,
        all: &[Chain],
        layout_groups: &LayoutGroups,
        refused: &BTreeMap<OpId, &'static str>,
    ) -> Result<Vec<MmaSelection>, &'static str> {
        let too_short = chain.is_straight() && !self.is_requested(MmaFamily::TensorMemory) && !self.pays_without_loop(chain, all);
        let elem = self.function.body.ty(chain.result).tile().map(|(elem, _)| elem.carrier());
        let mmas = chain.mmas.iter().map(|op| match refused.get(op) {
            Some(reason) => Err(*reason),
            None => self.tcgen05_mma(*op, chain.result, all, layout_groups).and_then(|mma| match too_short {
                true => Err("its accumulator is loaded at once, and the latency of tensor memory exceeds the saving"),
                false if !chain.scales.is_empty() && elem != Some(Scalar::F32) => Err("threads scale accumulators of 32 bits only"),
                false => Ok(mma),
            }),
        });
        mmas.collect()
    }

    /// Whether `tcgen05` is faster than `mma.sync` for a chain whose accumulator no loop carries. Threads wait until the MMAs and
    /// the `tcgen05.ld` of such a chain complete. Independent chains of a block share this wait. `all` are all chains of the
    /// function.
    fn pays_without_loop(&self, chain: &Chain, all: &[Chain]) -> bool {
        /// Cycles from the issue of an MMA to its start, plus the cycles of the `tcgen05.ld` that follows it.
        const TMEM_ROUND_TRIP: u64 = 400;
        let (rates, body) = (perf_model::rates(self.target), &self.function.body);
        let blocks = body.op_blocks();
        let cycles = |op: &OpId| {
            let [lhs, rhs, acc] = operands::mma_operands(self.function, *op);
            let tile = |value: Value| body.ty(value).tile().expect("operands of MMAs are tiles");
            let ((elem, left), (_, right), (acc_elem, _)) = (tile(lhs), tile(rhs), tile(acc));
            let [batch, m, n, k] = mma_extents(left, right);
            let rate = rates.tcgen05.expect("a target with tensor memory has tcgen05.mma").multiply_adds(elem.bits());
            // With 64 rows, half of the TMEM lanes are idle.
            let idle_factor = if m < tensor_memory::MAX_ROWS { 2 } else { 1 };
            let mma_cycles = u64::from(batch * m * n) * u64::from(k) / u64::from(rate) * idle_factor;
            // Each instruction reads its operands from shared memory. With few accumulator columns, these reads limit the rate.
            let [rows, columns] = tensor_memory::instruction_extents([m, n]);
            let left_lines = if self.is_copied_to_smem(lhs) { m * n.div_ceil(columns) } else { 0 };
            let lines = u64::from(left_lines) + u64::from(columns.max(n) * m.div_ceil(rows));
            let tcgen05_cycles = mma_cycles.max(lines * u64::from(k) * u64::from(elem.bytes()) / u64::from(rates.shared));
            // With `mma.sync`, the scales are multiplied into the operands, which have type bf16 then.
            let scaled = matches!(body.ops[*op].kind, Op::MmaScaled { .. });
            let mma_sync_elem = if scaled { Scalar::BF16 } else { elem.carrier() };
            let Some(atom) = sync_atom(self.target, mma_sync_elem, acc_elem.carrier(), [m, n, k]) else {
                return (tcgen05_cycles, u64::MAX);
            };
            // Fragments are in registers already if an MMA or an op of another block computes the operand.
            let reads_fragments = |operand: Value| {
                let definition = body.defining_op(operands::rearranged_source(self.function, operand));
                let in_block = definition.is_some_and(|definition| blocks[definition.0 as usize] == blocks[op.0 as usize]);
                in_block && !operands::comes_from_mma(self.function, operand)
            };
            (tcgen05_cycles, self.mma_sync_cycles(mma_sync_elem, atom, [m, n, k], [reads_fragments(lhs), reads_fragments(rhs)]))
        };
        let add = |total: (u64, u64), each: (u64, u64)| (total.0.saturating_add(each.0), total.1.saturating_add(each.1));
        let (tcgen05_cycles, mma_sync_cycles) = chain.mmas.iter().map(cycles).fold((0, 0), add);
        let block = blocks[chain.mmas[0].0 as usize];
        let depends_on_chain = |chain: &Chain, other: &Chain| {
            let operands = chain.mmas.iter().flat_map(|op| self.function.body.ops[*op].kind.operands());
            operands.into_iter().any(|operand| self.depends_on(operand, other.result, block, &blocks))
        };
        let independent = all.iter().filter(|other| {
            let is_candidate = other.is_straight() && blocks[other.mmas[0].0 as usize] == block;
            is_candidate && (*other == chain || !depends_on_chain(chain, other) && !depends_on_chain(other, chain))
        });
        tcgen05_cycles.saturating_add(TMEM_ROUND_TRIP / independent.count().max(1) as u64) < mma_sync_cycles
    }

    /// The `tcgen05` selection of an MMA whose chain ends with the accumulator `chain_result`. The error is the reason why the MMA
    /// does not use `tcgen05`. `all` are all chains of the function.
    fn tcgen05_mma(
        &self,
        op: OpId,
        chain_result: Value,
        all: &[Chain],
        layout_groups: &LayoutGroups,
    ) -> Result<MmaSelection, &'static str> {
        let [lhs, rhs, acc] = operands::mma_operands(self.function, op);
        let tile = |value: Value| self.function.body.ty(value).tile().expect("operands of MMAs are tiles");
        let ((elem, left), (_, right), (acc_elem, acc_shape)) = (tile(lhs), tile(rhs), tile(acc));
        let [batch, m, n, k] = mma_extents(left, right);
        if let Some(why) = self.not_requested(MmaFamily::TensorMemory) {
            return Err(why);
        }
        if batch > 1 {
            return Err("tcgen05 has no batches");
        }
        let scaled = ScaleOperands::from_mma(self.function, op);
        let atom = match &scaled {
            Some(scaled) => scaled.find_atom(self.target, elem.carrier(), [m, n, k]).ok_or(NOT_SCALED)?,
            None => {
                let atom = tensor_memory::tensor_atom(self.target, elem.carrier(), acc_elem.carrier(), [m, n, k]);
                atom.ok_or("tcgen05 needs 64 rows, 8 columns and a supported pair of element and accumulator types")?
            }
        };
        let scales = match scaled {
            Some(scaled) => Some(scaled.store_layouts(self.warp_bits as usize).ok_or(NO_LANES_OF_SCALES)?),
            None => None,
        };
        let is_mn_major = |operand, side| !atom.transposes && self.is_mn_major(operand, side);
        let is_loaded_mn_major = |operand, side| self.is_copied_to_smem(operand) && is_mn_major(operand, side);
        if is_loaded_mn_major(lhs, Operand::A) || is_loaded_mn_major(rhs, Operand::B) {
            return Err("tcgen05 takes such elements along K, and memory has them M- or N-major");
        }
        let right = match is_mn_major(rhs, Operand::B) {
            false => Some(OperandSource::Memory),
            true => {
                let sync = sync_atom(self.target, elem.carrier(), acc_elem.carrier(), [m, n, k]);
                transposing_layout(Operand::B, elem.carrier(), sync, [m, n, k], self.warp_bits).map(OperandSource::Transposed)
            }
        };
        let rhs_place = right.ok_or("tcgen05 takes such elements along K, and nothing transposes them")?;
        let info = tensor_memory::accumulator_buffer(acc_elem, acc_shape)
            .ok_or("its accumulator does not fit the lanes of tensor memory")?;
        let c = tmem_register_layout(layout_groups.load_shapes(chain_result), &info, self.warp_bits as usize)
            .ok_or("its warps do not access all lanes of tensor memory")?;
        let lhs = match self.is_copied_to_smem(lhs) {
            true => OperandSource::Memory,
            // Threads compute the operand or load it to registers, and then store it to tensor memory.
            false => {
                let info = tensor_memory::left_operand_buffer(elem, left)
                    .filter(|_| elem.bits() >= 8)
                    .ok_or("its left operand does not fit tensor memory")?;
                OperandSource::Tensor(
                    layout_groups
                        .store_layout(self.function, lhs, &info, all, self.warp_bits as usize)
                        .ok_or("its warps cannot divide the left operand in tensor memory")?,
                )
            }
        };
        Ok(MmaSelection::Tensor { atom, c, lhs, rhs: rhs_place, scales })
    }

    /// Returns the chain, without its slices unless each slice has a register layout. Threads load the slices of the returned chain
    /// separately.
    fn with_slices(&self, mut chain: Chain) -> Chain {
        if chain.slices.iter().any(|slice| slice_layout(self.function, &chain, *slice, self.warp_bits as usize).is_none()) {
            chain.slices.clear();
        }
        chain
    }

    /// The index of the first chain whose accumulator, left operands and scales do not fit the TMEM columns that earlier chains
    /// leave. `None` if all chains fit.
    fn first_exceeding_tmem(&self, chains: &[Chain], columns: u32) -> Option<usize> {
        let hosted = self.hosted_operands(chains);
        let (mut used_columns, mut shared_buffers) = (0, Vec::new());
        chains.iter().position(|chain| {
            let accumulators = chain_accumulator_buffer(self.function, chain).map(|info| (info, chain.is_single()));
            let left_operands = self
                .stored_left_operands(chain)
                .into_iter()
                .map(|(_, info)| (info, true))
                .filter(|(info, _)| !hosted.contains(&(self.component(chain), info.clone())));
            let scaled = chain.mmas.iter().filter_map(|op| ScaleOperands::from_mma(self.function, *op));
            let scales = scaled.flat_map(|scaled| scaled.buffers).flatten().map(|info| (info, true));
            let component = self.component(chain);
            for (info, may_share) in accumulators.into_iter().chain(left_operands).chain(scales) {
                let component_buffer = (component, info);
                if !may_share || !shared_buffers.contains(&component_buffer) {
                    used_columns += component_buffer.1.columns();
                }
                if may_share {
                    shared_buffers.push(component_buffer);
                }
            }
            tensor_memory::allocated_columns(used_columns) > columns
        })
    }

    /// The index of the component that contains a chain: 1 for chains of the second compute role, 0 for all other chains.
    fn component(&self, chain: &Chain) -> usize {
        usize::from(chain.mmas.first().is_some_and(|op| self.second_component.contains(op)))
    }

    /// The MMAs of a chain whose left operands threads store to tensor memory, with the TMEM buffers of these operands.
    fn stored_left_operands(&self, chain: &Chain) -> Vec<(OpId, BufferInfo)> {
        let stored_left = |op: &OpId| {
            let [lhs, ..] = operands::mma_operands(self.function, *op);
            let (elem, shape) = self.function.body.ty(lhs).tile().expect("operands of MMAs are tiles");
            (!self.is_copied_to_smem(lhs)).then(|| Some((*op, tensor_memory::left_operand_buffer(elem, shape)?))).flatten()
        };
        chain.mmas.iter().filter_map(stored_left).collect()
    }

    /// The buffers of left operands that threads store over the accumulator from which they compute the operand, with the index of
    /// their component. Such a buffer needs no TMEM columns of its own. The store is safe because `tcgen05.ld` has read the
    /// accumulator, and no MMA executes between the store and the operand's MMA. Each accumulator buffer holds at most one operand
    /// buffer.
    fn hosted_operands(&self, chains: &[Chain]) -> Vec<(usize, BufferInfo)> {
        /// Maximum number of chains for this analysis. Reason: its compile time is cubic in the number of chains.
        const MAX_CHAINS: usize = 32;
        if chains.len() > MAX_CHAINS {
            return Vec::new();
        }
        let blocks = self.function.body.op_blocks();
        /// Buffers, each with the index of its component.
        type Placed = Vec<(usize, BufferInfo)>;
        let (mut hosts, mut guests): (Placed, Placed) = Default::default();
        let single_chains = chains.iter().filter(|chain| chain.is_single());
        let single_chains =
            single_chains.filter_map(|chain| Some((self.component(chain), chain_accumulator_buffer(self.function, chain)?)));
        single_chains.for_each(|place| {
            if !hosts.contains(&place) {
                hosts.push(place)
            }
        });
        let left_operands = chains
            .iter()
            .flat_map(|chain| self.stored_left_operands(chain).into_iter().map(|(_, info)| (self.component(chain), info)));
        left_operands.for_each(|place| {
            if !guests.contains(&place) {
                guests.push(place)
            }
        });
        guests.retain(|guest| {
            let host_index = hosts.iter().position(|host| self.may_host(host, guest, chains, &blocks));
            host_index.map(|at| hosts.remove(at)).is_some()
        });
        guests
    }

    /// Whether the accumulator buffer `host` can hold the operand buffer `guest` of the same component.
    fn may_host(
        &self,
        (component, host): &(usize, BufferInfo),
        (other, guest): &(usize, BufferInfo),
        chains: &[Chain],
        blocks: &[Option<Block>],
    ) -> bool {
        if component != other {
            return false;
        }
        let chains: Vec<&Chain> = chains.iter().filter(|chain| self.component(chain) == *component).collect();
        let uses_host =
            |chain: &&Chain| chain.is_single() && chain_accumulator_buffer(self.function, chain).is_some_and(|info| info == *host);
        let hosts: Vec<&Chain> = chains.iter().copied().filter(uses_host).collect();
        let mut users = chains.iter().flat_map(|chain| self.stored_left_operands(chain)).filter(|(_, info)| info == guest);
        let is_safe_for_user = |user: OpId| {
            let [lhs, ..] = operands::mma_operands(self.function, user);
            let block = blocks[user.0 as usize];
            let mut hosts_in_block = hosts.iter().filter(|chain| blocks[chain.mmas[0].0 as usize] == block).peekable();
            let is_read_before = |chain: &&Chain| chain.slices.is_empty() && self.depends_on(lhs, chain.result, block, blocks);
            hosts_in_block.peek().is_some() && hosts_in_block.all(is_read_before)
        };
        host.columns() >= guest.columns() && users.all(|(user, _)| is_safe_for_user(user))
    }

    /// Whether `value` is `on` or is computed from `on` by ops of `block`. `blocks` is the block of each op.
    fn depends_on(&self, value: Value, on: Value, block: Option<Block>, blocks: &[Option<Block>]) -> bool {
        let body = &self.function.body;
        let (mut seen, mut work) = (BTreeSet::new(), vec![value]);
        while let Some(value) = work.pop() {
            if value == on {
                return true;
            }
            let definition = body.defining_op(value).filter(|op| blocks[op.0 as usize] == block && seen.insert(*op));
            work.extend(definition.into_iter().flat_map(|op| body.ops[op].kind.operands()));
        }
        false
    }
}

/// The reason against `tcgen05` for a scaled MMA without a `tcgen05` atom. The scales of such an MMA are multiplied into its
/// operands.
const NOT_SCALED: &str =
    "tcgen05 needs 8-bit floats with a scale per 32, or packed 4-bit floats with a scale per 16 or 32, in 128 rows and 16 columns";
/// The reason against `tcgen05` for a scaled MMA if no layout lets the warps store its scales.
const NO_LANES_OF_SCALES: &str = "its warps do not store scales to all lanes of tensor memory";

/// The types and TMEM buffers of the two scale tiles of a scaled MMA.
pub(crate) struct ScaleOperands {
    /// The element type of the scales.
    elem: Scalar,
    /// Elements along K that share one scale.
    block: u32,
    /// The TMEM buffers of the scales of A and B. `None` if tensor memory has no layout for this element type and shape.
    buffers: [Option<BufferInfo>; 2],
}

impl ScaleOperands {
    /// The scales of an MMA; `None` for an op without scales.
    fn from_mma(function: &Function, op: OpId) -> Option<ScaleOperands> {
        let body = &function.body;
        let Op::MmaScaled { lhs, lhs_scale, rhs_scale, .. } = body.ops[op].kind else { return None };
        let tile = |value: Value| body.ty(value).tile().expect("operands of MMAs are tiles");
        let ((_, operand), (elem, shape), (_, right)) = (tile(lhs), tile(lhs_scale), tile(rhs_scale));
        let block = operand.last()? / shape.last()?.max(&1);
        let buffers = [tensor_memory::scale_buffer(elem, shape, Operand::A), tensor_memory::scale_buffer(elem, right, Operand::B)];
        Some(ScaleOperands { elem: elem.carrier(), block, buffers })
    }

    /// The `tcgen05` atom for these scales and for operands with element type `operand` and extents M, N and K. `None` if the
    /// target has no such atom.
    fn find_atom(&self, target: Target, operand: Scalar, extents: [u32; 3]) -> Option<&'static TensorAtom> {
        tensor_memory::scaled_tensor_atom(target, operand, self.elem, self.block, extents)
    }

    /// The register layouts from which threads store the scales of A and B to tensor memory, with all copies that the instruction
    /// needs. `None` if no layout lets every warp store its lanes.
    fn store_layouts(&self, warp_bits: usize) -> Option<Box<[Layout; 2]>> {
        let [a, b] = self.buffers.each_ref().map(|info| {
            let layout = tmem_register_layout(BY_ROWS, info.as_ref()?, warp_bits)?;
            layout.warp.iter().all(|basis| *basis != 0).then_some(layout)
        });
        Some(Box::new([a?, b?]))
    }
}

/// The TMEM buffer of a chain's accumulator. `None` if no TMEM buffer fits the accumulator's shape.
pub(crate) fn chain_accumulator_buffer(function: &Function, chain: &Chain) -> Option<BufferInfo> {
    let (elem, shape) = function.body.ty(chain.result).tile()?;
    tensor_memory::accumulator_buffer(elem, shape)
}

/// The register layout in which threads load a slice of a chain's accumulator. `None` if no `tcgen05.ld` loads exactly this slice.
pub(crate) fn slice_layout(function: &Function, chain: &Chain, slice: OpId, warp_bits: usize) -> Option<Layout> {
    let shape = function.body.ty(function.body.result(slice)).tile()?.1;
    let part = TmemSlice::from_extents(&chain_accumulator_buffer(function, chain)?.shape, shape, slice_start(function, slice))?;
    tmem_part_layout(BY_ROWS, &chain_accumulator_buffer(function, chain)?, &part, warp_bits)
}

/// The first TMEM column of a slice with constant indices.
pub(crate) fn slice_start(function: &Function, slice: OpId) -> u32 {
    let body = &function.body;
    let Op::Core(Core::Extract { indices, .. }) = &body.ops[slice].kind else { unreachable!("slices are extracted") };
    let last = indices.last().and_then(|index| body.defining_op(*index)).map(|op| &body.ops[op].kind);
    let Some(Op::Core(Core::Constant { value: Dense::Splat(number) })) = last else {
        unreachable!("slices are at constant places")
    };
    let columns = body.ty(body.result(slice)).tile().and_then(|(_, shape)| shape.last().copied()).unwrap_or(1);
    *number as u32 * columns
}

/// The `tcgen05.ld` atom that loads the full buffer, and the matching register layout of a tile with one element per row. `None` if
/// no atom loads the full buffer.
pub(crate) fn row_layout(info: &BufferInfo, warp_bits: usize) -> Option<(&'static LaneAtom, Layout)> {
    let rows = |atom: &'static LaneAtom| Some((atom, atom.full_and_row_layouts(info, warp_bits)?.1));
    BY_ROWS.iter().filter_map(|name| tensor_memory::lane_atom_named(name)).find_map(rows)
}

/// The `tcgen05.ld` or `tcgen05.st` atom with which threads load or store `part` of a buffer in the register layout `layout`.
pub(crate) fn lane_atom(info: &BufferInfo, part: &TmemSlice, layout: &Layout) -> Option<&'static LaneAtom> {
    ALL_SHAPES.iter().filter_map(|name| tensor_memory::lane_atom_named(name)).find(|atom| atom.fits(info, part, layout))
}

/// The reason against `tcgen05` if TMA must copy an operand to shared memory and cannot.
pub(crate) const NO_TMA: &str = "an operand is not copied by TMA";

/// The `tcgen05` MMAs with an operand that no TMA copy or store of threads moves to the memory that the instruction reads. The map
/// contains the reason for each MMA.
pub(crate) fn mmas_without_operands_in_place(
    function: &Function,
    mmas: &MmaSelections,
    copies: &Copies,
    loads_by_threads: &BTreeSet<OpId>,
) -> BTreeMap<OpId, &'static str> {
    let blocks = function.body.op_blocks();
    let in_tensor_memory: BTreeSet<OpId> = mmas.tmem_mmas().collect();
    let read_by_others = tiles_read_by_other_ops(function, &in_tensor_memory);
    let reason_for = |op: OpId| {
        let [lhs, rhs, _] = operands::mma_operands(function, op);
        let Some(MmaSelection::Tensor { lhs: left, .. }) = mmas.get(op) else { unreachable!("chains consist of `tcgen05` MMAs") };
        let in_shared = [lhs, rhs].into_iter().skip(usize::from(matches!(left, OperandSource::Tensor(_))));
        let is_stored = |operand| operands::defining_load(function, operand).is_some_and(|load| loads_by_threads.contains(&load));
        let is_in_block =
            |load: OpId| blocks[op.0 as usize] != Some(function.entry()) && blocks[load.0 as usize] == blocks[op.0 as usize];
        let lacks_tma = |operand| reason_against_operand(function, copies, operand, is_in_block);
        let shared = |operand: &Value| {
            let is_copied = operands::defining_load(function, *operand).is_some();
            let is_shared = is_copied && read_by_others.contains(&operands::rearranged_source(function, *operand));
            is_shared.then_some("an operand is also read by threads")
        };
        in_shared
            .filter(|operand| !is_stored(*operand))
            .filter_map(|operand| lacks_tma(operand).or_else(|| shared(&operand)))
            .next()
            .map(|reason| (op, reason))
    };
    mmas.tmem_mmas().filter_map(reason_for).collect()
}

/// The tiles that ops other than the `tcgen05` MMAs `in_tensor_memory` read, possibly through permutes or reshapes.
fn tiles_read_by_other_ops(function: &Function, in_tensor_memory: &BTreeSet<OpId>) -> BTreeSet<Value> {
    let body = &function.body;
    let rearranges = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(Core::Permute { .. } | Core::Reshape { .. }));
    let others = body.walk(function.region).into_iter().filter(|op| !in_tensor_memory.contains(op) && !rearranges(op));
    others.flat_map(|op| body.ops[op].kind.operands()).map(|value| operands::rearranged_source(function, value)).collect()
}

/// The reason why a `tcgen05` MMA cannot read an operand from shared memory. If a loop loads the operand in each iteration, TMA
/// must copy it. If threads compute the operand, or load it before the loop, threads may store it, and the result is `None`.
fn reason_against_operand(
    function: &Function,
    copies: &Copies,
    operand: Value,
    is_in_block: impl Fn(OpId) -> bool,
) -> Option<&'static str> {
    let body = &function.body;
    let tile = operands::rearranged_source(function, operand);
    let Some(op) = body.defining_op(tile) else { return Some("an operand is carried from the previous iteration") };
    operands::defining_load(function, tile)?;
    match copies.get(op).map(|copy| &copy.method) {
        Some(CopyMethod::Tma(_)) => None,
        None if !is_in_block(op) => None,
        _ => Some(NO_TMA),
    }
}
