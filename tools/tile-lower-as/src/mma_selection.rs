//! Purpose: choose the instruction (atom) of every MMA, how warps divide its tile, and the layouts of its operands.
//! Requires: `.aa` after `legalize`; [`Accesses`].
//! Establishes: one [`MmaSelection`] for each MMA; atoms are tried in the order `tcgen05`, `wgmma`, `mma.sync`, FMA.
//! Preserves: the program; this is an analysis.
//! See also: Triton's `AccelerateMatmul` (`warpsPerTile`, `BlockedToMMA`); CUTLASS `TiledMMA` and `MMA_Atom`.

use crate::access_layouts::Accesses;
use crate::independent_subgraphs;
use crate::operands;
use crate::smem_swizzles;
use crate::tmem_accumulator_chains::Chain;
use base::ir::Op as OpId;
use base::{Target, Value};
use core_dialect::tile::Shape;
use numerics::Scalar;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tileaa::{Function, Op};
use tileas::layout::Strides;
use tileas::mma_sync_atoms::{Operand, SyncAtom, WarpsPerDim, scaled_atom, sync_atom};
use tileas::tensor_memory::{TensorAtom, tensor_atom};
use tileas::wgmma_atoms::{self, GroupAtom, group_atom};
use tileas::{Layout, MmaAtom, budget};

/// The selected instruction of an MMA, with the layouts and sources of the MMA's operands.
#[derive(Clone)]
pub(crate) enum MmaSelection {
    /// `mma.sync`: layouts of A, B, the accumulator and, for scaled MMAs, the scales of A and B. `why` is the reason why the MMA
    /// does not use `wgmma` or `tcgen05`. `why` is `None` if the target has neither for these types.
    Sync { atom: &'static SyncAtom, a: Layout, b: Layout, c: Layout, scales: Option<Box<[Layout; 2]>>, why: Option<&'static str> },
    /// `wgmma`: the layout of the accumulator and the sources of the operands.
    Group { atom: &'static GroupAtom, c: Layout, lhs: OperandSource, rhs: OperandSource },
    /// `tcgen05.mma`: the register layout for `tcgen05.ld` of the accumulator, the sources of the operands, and the layouts in
    /// which threads store both scales.
    Tensor { atom: &'static TensorAtom, c: Layout, lhs: OperandSource, rhs: OperandSource, scales: Option<Box<[Layout; 2]>> },
    /// FMA: each thread computes its own elements of the accumulator from operands in shared memory.
    Fma { c: Layout },
}

/// The instruction family of an MMA.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MmaFamily {
    /// `mma.sync`.
    Warps,
    /// `wgmma`.
    WarpGroups,
    /// `tcgen05.mma`.
    TensorMemory,
}

impl MmaFamily {
    /// All families, for the search by name.
    const ALL: [MmaFamily; 3] = [MmaFamily::Warps, MmaFamily::WarpGroups, MmaFamily::TensorMemory];

    /// The name in the option `--mma`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MmaFamily::Warps => "mma",
            MmaFamily::WarpGroups => "wgmma",
            MmaFamily::TensorMemory => "tcgen05",
        }
    }
    /// Returns whether the target has the instructions of this family.
    pub(crate) fn exists_on(self, target: Target) -> bool {
        match self {
            MmaFamily::Warps => true,
            MmaFamily::WarpGroups => target.has(Feature::Wgmma),
            MmaFamily::TensorMemory => target.has(Feature::TensorMemory),
        }
    }
    /// Returns the family with this name.
    pub(crate) fn from_name(name: &str) -> Option<MmaFamily> {
        MmaFamily::ALL.into_iter().find(|family| family.name() == name)
    }
}

/// Where `wgmma` or `tcgen05.mma` finds an operand.
#[derive(Clone)]
pub(crate) enum OperandSource {
    /// In shared memory, in the element order of its source. An asynchronous copy or a store of threads moves the operand there.
    Memory,
    /// In shared memory. Threads store the operand there from this register layout, because global memory has the transposed order.
    Transposed(Layout),
    /// In registers, with this layout.
    Registers(Layout),
    /// In tensor memory. Threads store the operand there from this register layout.
    Tensor(Layout),
}

impl OperandSource {
    /// The register layout of the operand. `None` if the operand passes through no registers.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        match self {
            OperandSource::Memory => None,
            OperandSource::Transposed(layout) | OperandSource::Registers(layout) | OperandSource::Tensor(layout) => Some(layout),
        }
    }
}

impl MmaSelection {
    /// The instruction family; `None` for FMA.
    pub(crate) fn family(&self) -> Option<MmaFamily> {
        match self {
            MmaSelection::Sync { .. } => Some(MmaFamily::Warps),
            MmaSelection::Group { .. } => Some(MmaFamily::WarpGroups),
            MmaSelection::Tensor { .. } => Some(MmaFamily::TensorMemory),
            MmaSelection::Fma { .. } => None,
        }
    }
    /// Returns the layout of the accumulator in registers.
    pub(crate) fn accumulator_layout(&self) -> &Layout {
        match self {
            MmaSelection::Sync { c, .. }
            | MmaSelection::Group { c, .. }
            | MmaSelection::Tensor { c, .. }
            | MmaSelection::Fma { c } => c,
        }
    }
}

/// Constraints that all MMAs of a function share.
pub(crate) struct MmaConstraints {
    /// Log2 of the number of warps.
    pub(crate) warp_bits: u32,
    /// Maximum registers per thread.
    pub(crate) registers: u32,
    /// TMEM columns of a CTA for accumulators, left operands and scales.
    pub(crate) columns: u32,
    /// The family that `--mma` requests. A requested family is used even if another one is faster.
    pub(crate) requested: Option<MmaFamily>,
    /// Whether two compute roles may divide the MMAs, if the MMAs form two independent components.
    pub(crate) allows_two_components: bool,
}

/// Registers per thread that `ptxas` needs for operands and other live values, in addition to the accumulator of one `wgmma`.
const REGISTERS_WITHOUT_WGMMA_ACCUMULATOR: u32 = 26;

/// The reason against `tcgen05` for an MMA that has a `tcgen05` atom but does not fit the TMEM columns.
pub(crate) const NO_TMEM: &str = "its accumulators do not fit tensor memory";

/// The selected instructions of a function's MMAs, and the chains that accumulate in tensor memory.
#[derive(Default)]
pub(crate) struct MmaSelections {
    /// The selection of each MMA.
    mmas: BTreeMap<OpId, MmaSelection>,
    /// The chains that accumulate in tensor memory.
    chains: Vec<Chain>,
    /// The ops of the second compute role. Empty if the function has one compute role. Each role has its own TMEM allocations.
    second_component: BTreeSet<OpId>,
    /// For each scaled MMA that does not use tensor memory, the reason against `tcgen05`.
    pub(crate) unscaled: BTreeMap<OpId, &'static str>,
}

impl MmaSelections {
    /// Selects the instructions of all MMAs. MMAs in `refused` use neither `tcgen05` nor `wgmma`, for the reason in the map.
    /// `loads_by_threads` contains the loads of `tcgen05` operands that threads execute, because TMA does not copy these operands.
    pub(crate) fn select(
        function: &Function,
        accesses: &Accesses,
        target: Target,
        constraints: MmaConstraints,
        refused: &BTreeMap<OpId, &'static str>,
        loads_by_threads: &BTreeSet<OpId>,
    ) -> MmaSelections {
        let chained = operands::chained_mmas(function);
        let MmaConstraints { warp_bits, registers, columns, requested, allows_two_components } = constraints;
        let second_component =
            if allows_two_components { independent_subgraphs::second_component(function, target) } else { BTreeSet::new() };
        let planner = MmaPlanner {
            function,
            accesses,
            target,
            warp_bits,
            registers,
            requested,
            loads_by_threads,
            second_component: &second_component,
        };
        let (chains, in_tensor_memory) = planner.select_tmem_mmas(columns, refused);
        let select = |op: OpId| match &function.body.ops[op].kind {
            Op::Mma { lhs, rhs, acc, .. } => {
                let why = match in_tensor_memory.get(&op) {
                    Some(Ok(mma)) => return Some((op, mma.clone())),
                    Some(Err(why)) => Some(*why),
                    None => None,
                };
                let mma =
                    planner.select_without_tcgen05([*lhs, *rhs, *acc], None, chained.contains(&op), why, refused.get(&op).copied());
                Some((op, mma))
            }
            Op::MmaScaled { lhs, rhs, acc, lhs_scale, .. } => {
                let mma = match in_tensor_memory.get(&op) {
                    Some(Ok(mma)) => mma.clone(),
                    Some(Err(_)) | None => planner.select_without_tcgen05([*lhs, *rhs, *acc], Some(*lhs_scale), false, None, None),
                };
                Some((op, mma))
            }
            _ => None,
        };
        let mmas = function.body.walk(function.region).into_iter().filter_map(select).collect();
        let is_scaled = |op: &OpId| matches!(function.body.ops[*op].kind, Op::MmaScaled { .. });
        let unscaled = in_tensor_memory
            .iter()
            .filter(|(op, _)| is_scaled(op))
            .filter_map(|(op, selection)| Some((*op, *selection.as_ref().err()?)));
        let unscaled = unscaled.collect();
        MmaSelections { mmas, chains, second_component, unscaled }
    }
    /// All MMAs with their selections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpId, &MmaSelection)> {
        self.mmas.iter().map(|(op, mma)| (*op, mma))
    }
    /// The selection of an MMA. `None` for other ops.
    pub(crate) fn get(&self, op: OpId) -> Option<&MmaSelection> {
        self.mmas.get(&op)
    }
    /// Whether the MMAs of the function form two independent components, each with its own compute role.
    pub(crate) fn has_components(&self) -> bool {
        !self.second_component.is_empty()
    }
    /// The index of the component that contains an op: 1 for ops of the second compute role, 0 for all other ops.
    pub(crate) fn component(&self, op: OpId) -> usize {
        usize::from(self.second_component.contains(&op))
    }
    /// The TMEM accumulator chain that contains an MMA.
    pub(crate) fn chain_of(&self, mma: OpId) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.mmas.contains(&mma))
    }
    /// The TMEM accumulator chain whose final accumulator is `result`.
    pub(crate) fn chain_to(&self, result: Value) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.result == result)
    }
    /// The TMEM accumulator chain whose accumulator the op `scale` multiplies, and the factors of this multiplication.
    pub(crate) fn chain_of_scale(&self, scale: OpId) -> Option<(&Chain, Value)> {
        let factors_of = |chain: &Chain| chain.scales.iter().find(|(op, _)| *op == scale).map(|(_, factors)| *factors);
        self.chains.iter().find_map(|chain| Some((chain, factors_of(chain)?)))
    }
    /// The TMEM accumulator chain from whose accumulator the op `slice` extracts. Threads load this slice by a `tcgen05.ld` of its
    /// own.
    pub(crate) fn chain_of_slice(&self, slice: OpId) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.slices.contains(&slice))
    }
    /// Whether a value is an accumulator that stays in tensor memory.
    pub(crate) fn is_accumulator(&self, value: Value) -> bool {
        self.chains.iter().any(|chain| chain.values.contains(&value))
    }
    /// Whether an MMA does not use `tcgen05` because its accumulator does not fit the TMEM columns.
    pub(crate) fn exhausts_tensor_memory(&self) -> bool {
        let mmas = self.mmas.values().filter_map(|mma| match mma {
            MmaSelection::Sync { why, .. } => *why,
            _ => None,
        });
        mmas.chain(self.unscaled.values().copied()).any(|why| why == NO_TMEM)
    }
    /// The MMAs that accumulate in tensor memory.
    pub(crate) fn tmem_mmas(&self) -> impl Iterator<Item = OpId> {
        self.chains.iter().flat_map(|chain| chain.mmas.iter().copied())
    }
}

/// The extents of an MMA: batch, M, N and K. Without a batch dimension, the batch extent is 1.
pub(crate) fn mma_extents(lhs: &Shape, rhs: &Shape) -> [u32; 4] {
    let batch = if lhs.len() == 3 { lhs[0] } else { 1 };
    [batch, lhs[lhs.len() - 2], rhs[rhs.len() - 1], lhs[lhs.len() - 1]]
}

/// Selects the instruction of each MMA of a function.
pub(crate) struct MmaPlanner<'a> {
    pub(crate) function: &'a Function,
    accesses: &'a Accesses,
    pub(crate) target: Target,
    pub(crate) warp_bits: u32,
    /// Maximum registers per thread.
    registers: u32,
    /// The MMA family that `--mma` requests.
    requested: Option<MmaFamily>,
    /// Loads of `tcgen05` operands that threads execute, because TMA does not copy these operands. Threads then store left operands
    /// to tensor memory and right operands to shared memory.
    pub(crate) loads_by_threads: &'a BTreeSet<OpId>,
    /// The ops of the second compute role. Empty if the function has one compute role.
    pub(crate) second_component: &'a BTreeSet<OpId>,
}

impl MmaPlanner<'_> {
    /// The reason to decline `family`: `--mma` requests another family. `None` if `--mma` requests `family` or is not given.
    pub(crate) fn not_requested(&self, family: MmaFamily) -> Option<&'static str> {
        let other = self.requested.filter(|requested| *requested != family)?;
        Some(match other {
            MmaFamily::Warps => "--mma=mma is given",
            MmaFamily::WarpGroups => "--mma=wgmma is given",
            MmaFamily::TensorMemory => "--mma=tcgen05 is given",
        })
    }
    /// Whether `--mma` requests a family.
    pub(crate) fn is_requested(&self, family: MmaFamily) -> bool {
        self.requested == Some(family)
    }

    /// Selects `wgmma`, `mma.sync` or FMA for the MMA `lhs * rhs + acc`. If `needs_full_rows`, each warp has full rows of the
    /// accumulator, as chained MMAs need. `why` is the reason why the MMA does not use `tcgen05`. If `refused` is set, the MMA does
    /// not use `wgmma` for this reason.
    fn select_without_tcgen05(
        &self,
        [lhs, rhs, acc]: [Value; 3],
        lhs_scale: Option<Value>,
        needs_full_rows: bool,
        why: Option<&'static str>,
        refused: Option<&'static str>,
    ) -> MmaSelection {
        let tile = |value: Value| self.function.body.ty(value).tile().expect("operands of MMAs are tiles");
        let ((a, left), (_, right), (acc_elem, _)) = (tile(lhs), tile(rhs), tile(acc));
        let [batch, m, n, k] = mma_extents(left, right);
        let scaled = lhs_scale.map(tile).map(|(scale, shape)| (scale, shape.last().copied().unwrap_or(1).max(1)));
        let atom = match scaled {
            None => sync_atom(self.target, a.carrier(), acc_elem.carrier(), [m, n, k]),
            Some((scale, blocks)) => scaled_atom(self.target, a.carrier(), scale.carrier(), k / blocks, [m, n, k]),
        };
        let warp_bits = self.warp_bits;
        let wgmma = match scaled {
            None if refused.is_some() => Err(refused),
            None => self.select_wgmma([lhs, rhs], [a.carrier(), acc_elem.carrier()], [batch, m, n, k], atom),
            Some(_) => Err(None),
        };
        let why = match wgmma {
            Ok(mma) => return mma,
            Err(reason) => why.or(reason),
        };
        let Some(atom) = atom else { return MmaSelection::Fma { c: fma_accumulator_layout(batch, m, n, warp_bits) } };
        let warps_per_dim = atom.split_among_warps(batch, m, n, warp_bits, needs_full_rows);
        let warps_per_dim =
            atom.interleave(warps_per_dim, [m, n], self.needs_byte_transpose(lhs, 0), self.needs_byte_transpose(rhs, 1));
        let layout = |operand, rows, cols| atom.layout(operand, batch, rows, cols, warps_per_dim, warp_bits);
        let scales = scaled.map(|(_, blocks)| {
            let layout = |(operand, lines)| atom.scale_layout(operand, batch, lines, blocks, warps_per_dim, warp_bits);
            Box::new([(Operand::A, m), (Operand::B, n)].map(layout))
        });
        let [a, b, c] = [layout(Operand::A, m, k), layout(Operand::B, k, n), layout(Operand::C, m, n)];
        MmaSelection::Sync { atom, a, b, c, scales, why }
    }

    /// Selects `wgmma` for an MMA whose `mma.sync` atom is `sync`. The error is the reason against `wgmma`, or `None` if the target
    /// has no `wgmma` for these types.
    fn select_wgmma(
        &self,
        [lhs, rhs]: [Value; 2],
        [elem, acc_elem]: [Scalar; 2],
        [batch, m, n, k]: [u32; 4],
        sync: Option<&'static SyncAtom>,
    ) -> Result<MmaSelection, Option<&'static str>> {
        let (target, warp_bits) = (self.target, self.warp_bits);
        if !wgmma_atoms::has_mma(target, elem, acc_elem) {
            return Err(None);
        }
        if let Some(why) = self.not_requested(MmaFamily::WarpGroups) {
            return Err(Some(why));
        }
        let atom = group_atom(target, elem, acc_elem, [m, n, k], warp_bits).filter(|_| batch == 1);
        let atom = atom.ok_or("wgmma has 64 rows to a warp group, or 64 columns, and no batches")?;
        if self.registers < wgmma_atoms::accumulator_registers(acc_elem, [m, n], warp_bits) + REGISTERS_WITHOUT_WGMMA_ACCUMULATOR {
            return Err(Some("wgmma accumulators exceed the registers per thread at this number of warps and CTAs"));
        }
        let (accumulators, left) =
            (wgmma_atoms::accumulator_layout(m, n, warp_bits), wgmma_atoms::left_operand_layout(elem, m, k, warp_bits));
        let max_registers = budget::mma_registers(target, 1 << warp_bits);
        let fits = (left.registers() as u32).saturating_mul(elem.bytes()) / 4 + accumulators.registers() as u32 <= max_registers;
        let lhs_in_registers = match elem.bytes() {
            // An operand that threads compute from the result of another MMA is in registers already.
            2 => operands::comes_from_mma(self.function, lhs),
            // Threads read the source of a converted 4-byte operand from shared memory as MMA fragments. In fragments of 8-bit
            // operands, other elements are adjacent, so threads cannot read 8-bit operands in this way.
            4 => fits && operands::defining_load(self.function, lhs).is_none(),
            _ => false,
        };
        let select_source = |operand, side| match side {
            Operand::A if lhs_in_registers => Some(OperandSource::Registers(left.clone())),
            // `wgmma` reads 8-bit and 32-bit elements K-major only.
            _ if atom.transposes || !self.is_mn_major(operand, side) => Some(OperandSource::Memory),
            _ => Some(OperandSource::Transposed(transposing_layout(side, elem, sync, [m, n, k], warp_bits)?)),
        };
        let (Some(lhs), Some(rhs)) = (select_source(lhs, Operand::A), select_source(rhs, Operand::B)) else {
            return Err(Some("wgmma takes such elements along K, and memory has them M- or N-major"));
        };
        let transposed_bytes_of = |source: &OperandSource, lines: u32| {
            if matches!(source, OperandSource::Transposed(_)) { lines * k * elem.bytes() } else { 0 }
        };
        let transposed_bytes = transposed_bytes_of(&lhs, m) + transposed_bytes_of(&rhs, n);
        let may_decline = !self.is_requested(MmaFamily::WarpGroups);
        if transposed_bytes > 0
            && may_decline
            && sync.is_some_and(|sync| !self.transposing_pays(elem, atom, sync, [m, n, k], transposed_bytes))
        {
            return Err(Some("wgmma takes such elements along K, and transposing them in shared memory costs more than it saves"));
        }
        Ok(MmaSelection::Group { atom, c: accumulators, lhs, rhs })
    }

    /// Whether `wgmma` is faster than `mma.sync` although threads must first load and store `bytes` of shared memory to transpose
    /// operands. Compares SM cycles of tensor cores plus shared memory, without overlap.
    fn transposing_pays(
        &self,
        elem: Scalar,
        group: &'static GroupAtom,
        sync: &'static SyncAtom,
        [m, n, k]: [u32; 3],
        bytes: u32,
    ) -> bool {
        let rates = perf_model::rates(self.target);
        let mma_sync = self.mma_sync_cycles(elem, sync, [m, n, k], [true; 2]);
        let rate = MmaAtom::Group(group).rate(self.target);
        let multiply_adds = u64::from(m) * u64::from(n) * u64::from(k);
        let wgmma = multiply_adds / u64::from(rate) + 2 * u64::from(bytes) / u64::from(rates.shared) + self.transposition_latency();
        wgmma < mma_sync
    }

    /// Cycles from the load of the last elements to transpose until `wgmma` may read them: the load and the store of these elements,
    /// the proxy fence, and the CTA barrier.
    fn transposition_latency(&self) -> u64 {
        let (rates, sync) = (perf_model::rates(self.target), &perf_model::machine(self.target).sync);
        let warps = f64::from(1u32 << self.warp_bits);
        2 * u64::from(rates.shared_latency) + (sync.fence_proxy + sync.barrier + warps * sync.barrier_warp) as u64
    }

    /// SM cycles of an MMA with `mma.sync`: the cycles of the tensor cores, plus the cycles in which warps read fragments from
    /// shared memory. `reads_operand` tells for A and B whether warps read the operand's fragments from shared memory.
    pub(crate) fn mma_sync_cycles(
        &self,
        elem: Scalar,
        atom: &'static SyncAtom,
        [m, n, k]: [u32; 3],
        reads_operand: [bool; 2],
    ) -> u64 {
        let rates = perf_model::rates(self.target);
        let rate = MmaAtom::Sync(atom).rate(self.target);
        // Each warp reads the fragments of its own rows and columns.
        let warps_per_dim = atom.split_among_warps(1, m, n, self.warp_bits, false);
        let lines: u32 = [m >> warps_per_dim.m_bits, n >> warps_per_dim.n_bits]
            .into_iter()
            .zip(reads_operand)
            .map(|(lines, reads_operand)| lines * u32::from(reads_operand))
            .sum();
        let fragments = (u64::from(lines) * u64::from(k) * u64::from(elem.bytes())) << self.warp_bits;
        u64::from(m) * u64::from(n) * u64::from(k) / u64::from(rate) + fragments / u64::from(rates.shared)
    }

    /// Whether threads must transpose pairs of rows of an 8-bit operand, because its elements are contiguous along M or N, not K.
    /// `side` is 0 for a left operand and 1 for a right operand.
    fn needs_byte_transpose(&self, operand: Value, side: usize) -> bool {
        let (elem, shape) = self.function.body.ty(operand).tile().expect("operands of MMAs are tiles");
        let contiguous_basis = || operands::contiguous_basis(self.function, self.accesses, operand);
        let is_along_m_or_n = |basis: u32| Strides::for_shape(shape).mask(shape.len() - 2 + side) & basis != 0;
        elem.bits() == 8 && !self.target.has(Feature::LdMatrixTransB8) && contiguous_basis().is_some_and(is_along_m_or_n)
    }

    /// Whether an operand is contiguous along M or N instead of K.
    pub(crate) fn is_mn_major(&self, operand: Value, side: Operand) -> bool {
        is_mn_major(self.function, self.accesses, operand, side)
    }
}

/// Whether an operand is contiguous along M or N instead of K: in the memory from which it is loaded, or else in the registers of
/// the op that computes it.
fn is_mn_major(function: &Function, accesses: &Accesses, operand: Value, side: Operand) -> bool {
    let shape = function.body.ty(operand).tile().expect("operands of MMAs are tiles").1;
    let basis = operands::contiguous_basis(function, accesses, operand).unwrap_or(1);
    let lines = if side == Operand::A { shape.len() - 2 } else { shape.len() - 1 };
    Strides::for_shape(shape).mask(lines) & basis != 0
}

/// The accumulator layout of FMA dots: up to 4 x 4 adjacent elements per thread, so that each value read serves several FMAs.
fn fma_accumulator_layout(batch: u32, m: u32, n: u32, warp_bits: u32) -> Layout {
    let [batch, m, n] = [batch, m, n].map(u32::trailing_zeros);
    let threads = tileas::layout::LANE_BITS as u32 + warp_bits;
    let register_bits = (batch + m + n).saturating_sub(threads);
    let own_n = (register_bits / 2).min(2).min(n);
    let own_m = (register_bits - own_n).min(2).min(m);
    let col = |bit: u32| bit;
    let row = |bit: u32| n + bit;
    let registers = (0..own_n).map(col).chain((0..own_m).map(row));
    let threads = (own_n..n).map(col).chain((own_m..m).map(row)).chain(n + m..n + m + batch);
    let order: Vec<u32> = registers.chain(threads).collect();
    Layout::blocked(&order, (own_n + own_m) as usize, warp_bits as usize)
}

/// The register layout through which threads transpose an M- or N-major operand to K-major. `ldmatrix.trans` loads 8-bit elements
/// as fragments of the `mma.sync` atom `sync`, whose 32-bit words are along K. Threads load 32-bit elements as vectors and store
/// them one by one, with lanes along K to avoid bank conflicts. `None` if 8-bit elements have no `mma.sync` atom.
pub(crate) fn transposing_layout(
    side: Operand,
    elem: Scalar,
    sync: Option<&SyncAtom>,
    [m, n, k]: [u32; 3],
    warp_bits: u32,
) -> Option<Layout> {
    let (rows, cols, lines) = if side == Operand::A { (m, k, m) } else { (k, n, n) };
    if elem.bytes() == 1 {
        let atom = sync?;
        let log2_warps = warp_bits.min((lines / 16).checked_ilog2().unwrap_or(0));
        let (m_bits, n_bits) = if side == Operand::A { (log2_warps, 0) } else { (0, log2_warps) };
        let warps_per_dim = atom.interleave(WarpsPerDim { m_bits, n_bits, ..WarpsPerDim::default() }, [m, n], true, true);
        let layout = atom.layout(side, 1, rows, cols, warps_per_dim, warp_bits);
        return Some(smem_swizzles::with_fewer_conflicts(elem, [rows, cols], if side == Operand::A { 0 } else { 1 }, layout));
    }
    let strides = Strides::for_shape(&[rows, cols]);
    let (of_lines, of_depth) = if side == Operand::A { (0, 1) } else { (1, 0) };
    let mut line_bits = strides.dim_bits(of_lines);
    let mut depth_bits = strides.dim_bits(of_depth);
    let vector: Vec<u32> = line_bits.by_ref().take(2).collect();
    let k_bits: Vec<u32> = depth_bits.by_ref().take(4).collect();
    let order: Vec<u32> = vector.iter().copied().chain(k_bits).chain(line_bits).chain(depth_bits).collect();
    Some(Layout::blocked(&order, vector.len(), warp_bits as usize))
}

/// The elements of an operand that each thread reads for its FMAs. `dim` is the operand's M or N dimension. Along `dim` and the
/// batch dimension, a thread reads the coordinates of its accumulator elements. Along K, each thread reads all elements.
pub(crate) fn fma_operand_reads(accumulator: &Layout, result: &[u32], operand: &[u32], dim: usize) -> Layout {
    let (from, to) = (Strides::for_shape(result), Strides::for_shape(operand));
    let map_dim = |basis: u32, dim: usize| from.coordinate(basis, dim) << to.shift[dim];
    let batch = |basis: u32| if operand.len() == 3 { map_dim(basis, 0) } else { 0 };
    let mut layout = accumulator.map(|basis| batch(basis) | map_dim(basis, dim));
    let k = 2 * operand.len() - 3 - dim;
    layout.register.extend(to.dim_bits(k).map(|bit| 1 << bit));
    layout
}

/// Chooses the number of warps of a CTA: `fewest` or twice `fewest`. More warps are needed if the live accumulators exceed the
/// registers of `fewest` warps, alone or together with MMA operands in registers. More warps also share the transposition of 32-bit
/// operands ([`threads_transpose_words`]).
pub(crate) fn warps_for_mmas(function: &Function, target: Target, fewest: u32) -> u32 {
    let (of_accumulator, with_operands) = (budget::accumulator_registers(target, fewest), budget::mma_registers(target, fewest));
    let body = &function.body;
    let registers = |value: Value, narrowest: u32| tile_registers(function, value, narrowest);
    let computed = |value: Value| match body.defining_op(value).map(|op| &body.ops[op].kind) {
        Some(Op::Core(core)) if core.is_elementwise() => registers(value, 8),
        _ => 0,
    };
    let mma = |op: OpId| match &body.ops[op].kind {
        Op::Mma { lhs, rhs, acc, .. } | Op::MmaScaled { lhs, rhs, acc, .. } => {
            // Each accumulator element takes a 32-bit register. Narrow operand elements are packed.
            Some((registers(*acc, 32), computed(*lhs).saturating_add(computed(*rhs)), [*lhs, *rhs]))
        }
        _ => None,
    };
    let mmas: Vec<(u32, u32, [Value; 2])> = body.walk(function.region).into_iter().filter_map(mma).collect();
    let live_accumulators = max_live_accumulators(function, |op| mma(op).map_or(0, |(acc, ..)| acc));
    let fits = |registers: u32, max_per_thread: u32| registers <= max_per_thread * 32 * fewest;
    let each_fits =
        |(acc, operands, _): &(u32, u32, _)| fits(*acc, of_accumulator) && fits(acc.saturating_add(*operands), with_operands);
    let total_registers = |acc: u32, operands: [u32; 2]| acc.saturating_add(operands[0]).saturating_add(operands[1]);
    let may_exceed_registers = |(acc, _, operands): &&(u32, u32, [Value; 2])| {
        let loaded = operands::defining_load(function, operands[1]).is_some();
        loaded && !fits(total_registers(*acc, operands.map(|operand| registers(operand, 32))), with_operands)
    };
    let mut candidates = mmas.iter().filter(may_exceed_registers).peekable();
    let is_asynchronous = target.has(Feature::TensorMemory) || target.has(Feature::Wgmma);
    let accesses = LazyCell::new(|| Accesses::plan(function, fewest.trailing_zeros() as usize));
    let operands_exceed_registers = is_asynchronous && candidates.peek().is_some() && {
        candidates.any(|(acc, _, operands)| {
            let operands = operands.map(|operand| registers_if_loaded_piecewise(function, &accesses, operand));
            // Only the right operand counts here, because threads may store a left operand to tensor memory.
            operands[1] > 0 && !fits(total_registers(*acc, operands), with_operands)
        })
    };
    if threads_transpose_words(function, target, || &accesses) && all_fit_async_atoms(function, target, fewest * 2) {
        return fewest * 2;
    }
    // Only for targets with asynchronous MMAs. With `mma.sync`, the spills of few warps cost less than the repeated work of more
    // warps.
    if operands_exceed_registers {
        return fewest * 2;
    }
    if fits(live_accumulators, of_accumulator) && mmas.iter().all(each_fits) {
        return fewest;
    }
    // An asynchronous MMA reads its right operand from shared memory, so more registers are free for accumulators. With fewer
    // warps, reductions along a row exchange no values between warps, and every warp group has rows.
    let operands = mmas.iter().map(|(_, operands, _)| *operands).max().unwrap_or(0);
    let max_per_thread = budget::async_mma_registers(target, fewest);
    let all_asynchronous = all_fit_async_atoms(function, target, fewest);
    if fits(live_accumulators.saturating_add(operands), max_per_thread) && mmas.iter().all(each_fits) && all_asynchronous {
        return fewest;
    }
    fewest * 2
}

/// Whether a `wgmma` of at least 128 rows has a 32-bit right operand that threads must transpose in shared memory. Two warp groups
/// halve the transposition work of each thread, and the next MMA waits for this work. Measured on an H200, a 4096x4096x4096 tf32
/// matmul with tiles of 128x128x32 takes 545 us with eight warps and 837 us with four. For other tile shapes, only the cost model's
/// predictions for the H200 exist. Eight warps take 0.34 to 1.00 of the time of four with at least 128 rows, and 1.00 to 1.43 with
/// 64 rows.
fn threads_transpose_words<'a>(function: &Function, target: Target, accesses: impl Fn() -> &'a Accesses) -> bool {
    /// Rows of the MMA for which each of two warp groups has a `wgmma` of 64 rows.
    const ROWS_OF_TWO_GROUPS: u32 = 128;
    let tile = |value: Value| function.body.ty(value).tile().expect("operands of MMAs are tiles");
    let transposes = |op: &Op| match op {
        Op::Mma { lhs, rhs, .. } if tile(*rhs).0.bits() == 32 => {
            let [_, m, ..] = mma_extents(tile(*lhs).1, tile(*rhs).1);
            m >= ROWS_OF_TWO_GROUPS && is_mn_major(function, accesses(), *rhs, Operand::B)
        }
        _ => false,
    };
    target.has(Feature::Wgmma) && function.body.ops.values().any(|node| transposes(&node.kind))
}

/// The 32-bit registers of a CTA for an operand that threads load in pieces of less than 32 bits; 0 for other operands. Each such
/// piece takes a register. Threads load these pieces because the smallest asynchronous copy has 4 bytes.
fn registers_if_loaded_piecewise(function: &Function, accesses: &Accesses, operand: Value) -> u32 {
    let Some(access) = operands::defining_load(function, operand).and_then(|load| accesses.get(load)) else { return 0 };
    let piece = access.copy.map_or(0, |pieces| pieces.bits).max(access.vector_bits);
    let elem = function.body.ty(operand).tile().map_or(0, |(elem, _)| elem.bits());
    if elem << piece < 32 { tile_registers(function, operand, 32) >> piece } else { 0 }
}

/// The 32-bit registers of a CTA that a tile takes, with at least `narrowest` bits per element. 0 for values that are no tiles.
pub(crate) fn tile_registers(function: &Function, value: Value, narrowest: u32) -> u32 {
    let words = |(elem, shape): (core_dialect::tile::Elem, &Shape)| {
        (core_dialect::tile::element_count(shape) as u32).saturating_mul(elem.bits().max(narrowest)).div_ceil(32)
    };
    function.body.ty(value).tile().map_or(0, words)
}

/// The maximum number of registers that live accumulators of chained MMAs take at a time. `registers_of` returns the registers of
/// an MMA's accumulator. All accumulators of a block count as live together. An MMA that adds to the result of another chained MMA
/// reuses the registers of that result.
pub(crate) fn max_live_accumulators(function: &Function, registers_of: impl Fn(OpId) -> u32) -> u32 {
    let body = &function.body;
    let blocks = body.op_blocks();
    let (mut live_by_block, chained): (BTreeMap<_, u32>, _) = (BTreeMap::new(), operands::chained_mmas(function));
    for &op in &chained {
        let Op::Mma { acc, .. } = body.ops[op].kind else { continue };
        let continues_chain = body.defining_op(acc).is_some_and(|before| chained.contains(&before));
        let live = live_by_block.entry(blocks[op.0 as usize]).or_default();
        *live = live.saturating_add(if continues_chain { 0 } else { registers_of(op) });
    }
    live_by_block.into_values().max().unwrap_or(0)
}

/// Whether every unscaled MMA of the function fits a `wgmma` atom with this number of warps, or a `tcgen05` atom.
fn all_fit_async_atoms(function: &Function, target: Target, warps: u32) -> bool {
    let body = &function.body;
    let tile = |value: Value| body.ty(value).tile().expect("operands of MMAs are tiles");
    body.ops.values().all(|node| {
        let Op::Mma { lhs, rhs, acc, .. } = node.kind else { return true };
        let ((elem, left), (_, right), (acc_elem, _)) = (tile(lhs), tile(rhs), tile(acc));
        let [_, m, n, k] = mma_extents(left, right);
        let (elem, acc_elem) = (elem.carrier(), acc_elem.carrier());
        let fits_wgmma = group_atom(target, elem, acc_elem, [m, n, k], warps.trailing_zeros()).is_some();
        fits_wgmma || tensor_atom(target, elem, acc_elem, [m, n, k]).is_some()
    })
}

/// Whether the target has an instruction for an MMA with operands of this type. If not, the operands must be converted. 8-bit
/// floats need an `mma.sync` atom; FMA supports all other types.
pub(crate) fn is_native(target: Target, operand: Scalar, acc: Scalar, lhs: &Shape, rhs: &Shape) -> bool {
    let [_, m, n, k] = mma_extents(lhs, rhs);
    let is_fp8 = matches!(operand, Scalar::F8E4M3FN | Scalar::F8E5M2);
    !is_fp8 || sync_atom(target, operand, acc, [m, n, k]).is_some()
}
