//! Chooses the atom of every matrix mma, how the warps divide it, and the layouts of its operands.

use crate::access_layouts::Accesses;
use crate::independent_subgraphs;
use crate::operands;
use crate::smem_swizzles;
use crate::tmem_accumulator_chains::Chain;
use base::ir::Op as OpId;
use base::{Target, Value};
use core_dialect::tile::Shape;
use numerics::Scalar;
use std::collections::{BTreeMap, BTreeSet};
use target_info::Feature;
use tileaa::{Function, Op};
use tileas::layout::Strides;
use tileas::mma_sync_atoms::{Cover, Operand, SyncAtom, scaled_atom, sync_atom};
use tileas::tensor_memory::{TensorAtom, tensor_atom};
use tileas::wgmma_atoms::{self, GroupAtom, group_atom};
use tileas::{Layout, MmaAtom, budget};

#[derive(Clone)]
pub(crate) enum MmaSelection {
    /// By an atom; layouts of A, B and the accumulator, and of the scales of A and B; why not by warp groups or in tensor memory,
    /// where the target has such mmas.
    Sync { atom: &'static SyncAtom, a: Layout, b: Layout, c: Layout, scales: Option<Box<[Layout; 2]>>, why: Option<&'static str> },
    /// By warp groups; layout of the accumulator, and where the operands are.
    Group { atom: &'static GroupAtom, c: Layout, lhs: OperandSource, rhs: OperandSource },
    /// In tensor memory; the layout in which threads take up the accumulators, where the operands are, and the layouts in which threads store
    /// the scales of both.
    Tensor { atom: &'static TensorAtom, c: Layout, lhs: OperandSource, rhs: OperandSource, scales: Option<Box<[Layout; 2]>> },
    /// Each thread for itself; layout of the accumulator.
    Shared { c: Layout },
}

/// What makes a mma.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Warps,
    WarpGroups,
    TensorMemory,
}

impl Family {
    const ALL: [Family; 3] = [Family::Warps, Family::WarpGroups, Family::TensorMemory];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Warps => "mma",
            Family::WarpGroups => "wgmma",
            Family::TensorMemory => "tcgen05",
        }
    }
    pub(crate) fn exists_on(self, target: Target) -> bool {
        match self {
            Family::Warps => true,
            Family::WarpGroups => target.has(Feature::Wgmma),
            Family::TensorMemory => target.has(Feature::TensorMemory),
        }
    }
    pub(crate) fn named(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }
}

/// Where warp groups, or mmas in tensor memory, find an operand.
#[derive(Clone)]
pub(crate) enum OperandSource {
    /// In shared memory as it was copied there, or else stored.
    Memory,
    /// In shared memory, to which it is stored from this layout because memory has it the other way iteration.
    Transposed(Layout),
    Registers(Layout),
    /// In tensor memory, to which it is stored from this layout.
    Tensor(Layout),
}

impl OperandSource {
    /// The layout in which threads take the operand up.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        match self {
            OperandSource::Memory => None,
            OperandSource::Transposed(layout) | OperandSource::Registers(layout) | OperandSource::Tensor(layout) => Some(layout),
        }
    }
}

impl MmaSelection {
    /// What makes it, if not each thread for itself.
    pub(crate) fn family(&self) -> Option<Family> {
        match self {
            MmaSelection::Sync { .. } => Some(Family::Warps),
            MmaSelection::Group { .. } => Some(Family::WarpGroups),
            MmaSelection::Tensor { .. } => Some(Family::TensorMemory),
            MmaSelection::Shared { .. } => None,
        }
    }
    pub(crate) fn accumulator(&self) -> &Layout {
        match self {
            MmaSelection::Sync { c, .. }
            | MmaSelection::Group { c, .. }
            | MmaSelection::Tensor { c, .. }
            | MmaSelection::Shared { c } => c,
        }
    }
}

/// What all mmas of a function have together.
pub(crate) struct Limits {
    pub(crate) warp_bits: u32,
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Columns of tensor memory that accumulators may take.
    pub(crate) columns: u32,
    /// What the user wants all mmas made by; that is not declined because something else is faster.
    pub(crate) requested: Option<Family>,
    /// Whether two agents may make them.
    pub(crate) in_components: bool,
}

/// Registers that the assembler wants beside the accumulators of one `wgmma`, for its operands and whatever else is alive.
const BESIDE_WGMMA_ACCUMULATOR: u32 = 26;

/// Why a mma is made otherwise that has all else.
pub(crate) const NO_TMEM: &str = "tensor memory has no capacity for its accumulators";

/// The mmas of a function, by op, and those that add up in tensor memory.
#[derive(Default)]
pub(crate) struct MmaSelections {
    mmas: BTreeMap<OpId, MmaSelection>,
    chains: Vec<Chain>,
    /// The ops that work for another agent than the others, which need places in tensor memory of their own.
    second: BTreeSet<OpId>,
    /// Why scaled mmas are not made in tensor memory.
    pub(crate) unscaled: BTreeMap<OpId, &'static str>,
}

impl MmaSelections {
    /// None of the mmas in `refused` is made in tensor memory or by warp groups, for the given reason. Of mmas in tensor memory
    /// the left operands that the loads in `by_threads` give pass through registers.
    pub(crate) fn of(
        function: &Function,
        accesses: &Accesses,
        target: Target,
        limits: Limits,
        refused: &BTreeMap<OpId, &'static str>,
        by_threads: &BTreeSet<OpId>,
    ) -> MmaSelections {
        let chained = operands::chained(function);
        let Limits { warp_bits, registers, columns, requested, in_components } = limits;
        let second = if in_components { independent_subgraphs::second(function, target) } else { BTreeSet::new() };
        let planner = MmaPlanner { function, accesses, target, warp_bits, registers, requested, by_threads, second: &second };
        let (chains, in_tensor_memory) = planner.in_tensor_memory(columns, refused);
        let plan = |op: OpId| match &function.body.ops[op].kind {
            Op::Mma { lhs, rhs, acc, .. } => {
                let why = match in_tensor_memory.get(&op) {
                    Some(Ok(mma)) => return Some((op, mma.clone())),
                    Some(Err(why)) => Some(*why),
                    None => None,
                };
                let mma = planner.plan([*lhs, *rhs, *acc], None, chained.contains(&op), (why, refused.get(&op).copied()));
                Some((op, mma))
            }
            Op::MmaScaled { lhs, rhs, acc, lhs_scale, .. } => {
                let mma = match in_tensor_memory.get(&op) {
                    Some(Ok(mma)) => mma.clone(),
                    Some(Err(_)) | None => planner.plan([*lhs, *rhs, *acc], Some(*lhs_scale), false, (None, None)),
                };
                Some((op, mma))
            }
            _ => None,
        };
        let mmas = function.body.walk(function.region).into_iter().filter_map(plan).collect();
        let scaled = |op: &OpId| matches!(function.body.ops[*op].kind, Op::MmaScaled { .. });
        let unscaled =
            in_tensor_memory.iter().filter(|(op, _)| scaled(op)).filter_map(|(op, how)| Some((*op, *how.as_ref().err()?)));
        let unscaled = unscaled.collect();
        MmaSelections { mmas, chains, second, unscaled }
    }
    pub(crate) fn all(&self) -> impl Iterator<Item = (OpId, &MmaSelection)> {
        self.mmas.iter().map(|(op, mma)| (*op, mma))
    }
    pub(crate) fn get(&self, op: OpId) -> Option<&MmaSelection> {
        self.mmas.get(&op)
    }
    /// Whether they are two agents'.
    pub(crate) fn has_components(&self) -> bool {
        !self.second.is_empty()
    }
    /// The number of an op's component.
    pub(crate) fn component(&self, op: OpId) -> usize {
        usize::from(self.second.contains(&op))
    }
    /// The chain in tensor memory that a mma belongs to.
    pub(crate) fn chain_of(&self, mma: OpId) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.mmas.contains(&mma))
    }
    /// The chain of which a value is the accumulators in the end.
    pub(crate) fn chain_to(&self, result: Value) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.result == result)
    }
    /// The chain whose accumulators an op scales, and the factors.
    pub(crate) fn chain_of_scale(&self, scale: OpId) -> Option<(&Chain, Value)> {
        let found = |chain: &Chain| chain.scales.iter().find(|(op, _)| *op == scale).map(|(_, factors)| *factors);
        self.chains.iter().find_map(|chain| Some((chain, found(chain)?)))
    }
    /// The chain of which threads take up a slice by itself.
    pub(crate) fn chain_of_slice(&self, slice: OpId) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.slices.contains(&slice))
    }
    /// Whether a value is accumulators in tensor memory, on their way.
    pub(crate) fn is_accumulator(&self, value: Value) -> bool {
        self.chains.iter().any(|chain| chain.values.contains(&value))
    }
    /// Whether a mma is made otherwise for want of columns.
    pub(crate) fn lack_tensor_memory(&self) -> bool {
        let mmas = self.mmas.values().filter_map(|mma| match mma {
            MmaSelection::Sync { why, .. } => *why,
            _ => None,
        });
        mmas.chain(self.unscaled.values().copied()).any(|why| why == NO_TMEM)
    }
    pub(crate) fn in_tensor_memory(&self) -> impl Iterator<Item = OpId> {
        self.chains.iter().flat_map(|chain| chain.mmas.iter().copied())
    }
}

/// Batch, M, N and K of a mma.
pub(crate) fn extents(lhs: &Shape, rhs: &Shape) -> [u32; 4] {
    let batch = if lhs.len() == 3 { lhs[0] } else { 1 };
    [batch, lhs[lhs.len() - 2], rhs[rhs.len() - 1], lhs[lhs.len() - 1]]
}

pub(crate) struct MmaPlanner<'a> {
    pub(crate) function: &'a Function,
    accesses: &'a Accesses,
    pub(crate) target: Target,
    pub(crate) warp_bits: u32,
    registers: u32,
    requested: Option<Family>,
    /// Loads of left operands that threads store to tensor memory, where no copy engine brings them to shared memory.
    pub(crate) by_threads: &'a BTreeSet<OpId>,
    pub(crate) second: &'a BTreeSet<OpId>,
}

impl MmaPlanner<'_> {
    /// That the user requested for something else than this.
    pub(crate) fn unasked(&self, family: Family) -> Option<&'static str> {
        let other = self.requested.filter(|requested| *requested != family)?;
        Some(match other {
            Family::Warps => "--mma=mma is given",
            Family::WarpGroups => "--mma=wgmma is given",
            Family::TensorMemory => "--mma=tcgen05 is given",
        })
    }
    pub(crate) fn is_requested(&self, family: Family) -> bool {
        self.requested == Some(family)
    }

    /// `why` a mma is not made in tensor memory, and why it may not be made by warp groups.
    fn plan(
        &self,
        [lhs, rhs, acc]: [Value; 3],
        lhs_scale: Option<Value>,
        rows: bool,
        (why, refused): (Option<&'static str>, Option<&'static str>),
    ) -> MmaSelection {
        let tile = |value: Value| self.function.body.ty(value).tile().expect("mmas are of tiles");
        let ((a, left), (_, right), (sum, _)) = (tile(lhs), tile(rhs), tile(acc));
        let [batch, m, n, k] = extents(left, right);
        let scaled = lhs_scale.map(tile).map(|(scale, shape)| (scale, shape.last().copied().unwrap_or(1).max(1)));
        let atom = match scaled {
            None => sync_atom(self.target, a.carrier(), sum.carrier(), [m, n, k]),
            Some((scale, blocks)) => scaled_atom(self.target, a.carrier(), scale.carrier(), k / blocks, [m, n, k]),
        };
        let warp_bits = self.warp_bits;
        let by_groups = match scaled {
            None if refused.is_some() => Err(refused),
            None => self.by_groups([lhs, rhs], [a.carrier(), sum.carrier()], [batch, m, n, k], atom),
            Some(_) => Err(None),
        };
        let why = match by_groups {
            Ok(mma) => return mma,
            Err(reason) => why.or(reason),
        };
        let Some(atom) = atom else { return MmaSelection::Shared { c: shared_layout(batch, m, n, warp_bits) } };
        let cover = atom.cover(batch, m, n, warp_bits, rows);
        let cover = atom.interleave(cover, [m, n], self.crosses(lhs, 0), self.crosses(rhs, 1));
        let layout = |operand, rows, cols| atom.layout(operand, batch, rows, cols, cover, warp_bits);
        let scales = scaled.map(|(_, blocks)| {
            let layout = |(operand, lines)| atom.scale_layout(operand, batch, lines, blocks, cover, warp_bits);
            Box::new([(Operand::A, m), (Operand::B, n)].map(layout))
        });
        let [a, b, c] = [layout(Operand::A, m, k), layout(Operand::B, k, n), layout(Operand::C, m, n)];
        MmaSelection::Sync { atom, a, b, c, scales, why }
    }

    /// By warp groups, where there are any and an atom of theirs fits; or else why not, if they multiply such elements at all.
    fn by_groups(
        &self,
        [lhs, rhs]: [Value; 2],
        [elem, sum]: [Scalar; 2],
        [batch, m, n, k]: [u32; 4],
        sync: Option<&'static SyncAtom>,
    ) -> Result<MmaSelection, Option<&'static str>> {
        let (target, warp_bits) = (self.target, self.warp_bits);
        if !wgmma_atoms::has_mma(target, elem, sum) {
            return Err(None);
        }
        if let Some(why) = self.unasked(Family::WarpGroups) {
            return Err(Some(why));
        }
        let atom = group_atom(target, elem, sum, [m, n, k], warp_bits).filter(|_| batch == 1);
        let atom = atom.ok_or("wgmma has 64 rows to a warp group, or 64 columns, and no batches")?;
        if self.registers < wgmma_atoms::accumulator_registers(sum, [m, n], warp_bits) + BESIDE_WGMMA_ACCUMULATOR {
            return Err(Some("wgmma's accumulators have too few registers where so many warps and blocks share them"));
        }
        let (accumulators, left) = (wgmma_atoms::accumulators(m, n, warp_bits), wgmma_atoms::left(elem, m, k, warp_bits));
        let most = budget::mma_registers(target, 1 << warp_bits);
        let fits = (left.registers() as u32).saturating_mul(elem.bytes()) / 4 + accumulators.registers() as u32 <= most;
        let lhs_in_registers = match elem.bytes() {
            // What another mma gave is in its registers already.
            2 => operands::comes_from_mma(self.function, lhs),
            // What is converted on its way from memory is read as fragments are. Of bytes those are other neighbours.
            4 => fits && operands::loaded_by(self.function, lhs).is_none(),
            _ => false,
        };
        let place = |operand, side| match side {
            Operand::A if lhs_in_registers => Some(OperandSource::Registers(left.clone())),
            // Elements of 8 and of 32 bits are read along the depth only.
            _ if atom.transposes || !self.lies_across(operand, side) => Some(OperandSource::Memory),
            _ => Some(OperandSource::Transposed(transposing_layout(side, elem, sync, [m, n, k], warp_bits)?)),
        };
        let (Some(lhs), Some(rhs)) = (place(lhs, Operand::A), place(rhs, Operand::B)) else {
            return Err(Some("wgmma takes such elements along K, and memory has them the other way iteration"));
        };
        let transposed = |place: &OperandSource, lines: u32| {
            if matches!(place, OperandSource::Transposed(_)) { lines * k * elem.bytes() } else { 0 }
        };
        let transposed = transposed(&lhs, m) + transposed(&rhs, n);
        let may_decline = !self.is_requested(Family::WarpGroups);
        if transposed > 0
            && may_decline
            && sync.is_some_and(|sync| !self.transposing_pays(elem, (atom, sync), [m, n, k], transposed))
        {
            return Err(Some("wgmma takes such elements along K, and transposing those in memory takes longer than it saves"));
        }
        Ok(MmaSelection::Group { atom, c: accumulators, lhs, rhs })
    }

    /// Whether warp groups are faster although so many bytes are read and stored again before they can multiply: the cycles of a
    /// multiprocessor's tensor cores and shared memory, one after the other.
    fn transposing_pays(
        &self,
        elem: Scalar,
        (group, sync): (&'static GroupAtom, &'static SyncAtom),
        [m, n, k]: [u32; 3],
        bytes: u32,
    ) -> bool {
        /// Until all warps have stored theirs and see that of the others.
        const BARRIER: u64 = 120;
        let rates = perf_model::rates(self.target);
        let by_warps = self.by_warps(elem, sync, [m, n, k], [true; 2]);
        let rate = MmaAtom::Group(group).rate(self.target);
        let work = u64::from(m) * u64::from(n) * u64::from(k);
        let by_groups = work / u64::from(rate) + 2 * u64::from(bytes) / u64::from(rates.shared) + BARRIER;
        by_groups < by_warps
    }

    /// The cycles of a multiprocessor in which warps make a mma: those of its tensor cores, and those of shared memory for the
    /// fragments of the operands that are read there.
    pub(crate) fn by_warps(&self, elem: Scalar, atom: &'static SyncAtom, [m, n, k]: [u32; 3], read: [bool; 2]) -> u64 {
        let rates = perf_model::rates(self.target);
        let rate = MmaAtom::Sync(atom).rate(self.target);
        // Each warp reads the fragments of its own rows and columns.
        let cover = atom.cover(1, m, n, self.warp_bits, false);
        let lines: u32 =
            [m >> cover.m_bits, n >> cover.n_bits].into_iter().zip(read).map(|(lines, read)| lines * u32::from(read)).sum();
        let fragments = (u64::from(lines) * u64::from(k) * u64::from(elem.bytes())) << self.warp_bits;
        u64::from(m) * u64::from(n) * u64::from(k) / u64::from(rate) + fragments / u64::from(rates.shared)
    }

    /// Whether an operand's bytes come from memory with neighbours along that of its two last dimensions which is not K, so that
    /// they must be transposed, and are so in pairs.
    fn crosses(&self, operand: Value, lines: usize) -> bool {
        let (elem, shape) = self.function.body.ty(operand).tile().expect("mmas are of tiles");
        let neighbours = || operands::neighbours(self.function, self.accesses, operand);
        let along = |basis: u32| Strides::of(shape).mask(shape.len() - 2 + lines) & basis != 0;
        elem.bits() == 8 && !self.target.has(Feature::LdMatrixTransB8) && neighbours().is_some_and(along)
    }

    /// Whether an operand lies, in memory or where it is computed, along that of its two last dimensions which is not K.
    pub(crate) fn lies_across(&self, operand: Value, side: Operand) -> bool {
        let shape = self.function.body.ty(operand).tile().expect("mmas are of tiles").1;
        let basis = operands::neighbours(self.function, self.accesses, operand).unwrap_or(1);
        let lines = if side == Operand::A { shape.len() - 2 } else { shape.len() - 1 };
        Strides::of(shape).mask(lines) & basis != 0
    }
}

/// Accumulators of threads that multiply for themselves: a square of up to 4 x 4 neighbours in each, so that each value read
/// serves several mmas.
fn shared_layout(batch: u32, m: u32, n: u32, warp_bits: u32) -> Layout {
    let [batch, m, n] = [batch, m, n].map(u32::trailing_zeros);
    let threads = tileas::layout::LANE_BITS as u32 + warp_bits;
    let spare = (batch + m + n).saturating_sub(threads);
    let own_n = (spare / 2).min(2).min(n);
    let own_m = (spare - own_n).min(2).min(m);
    let col = |bit: u32| bit;
    let row = |bit: u32| n + bit;
    let registers = (0..own_n).map(col).chain((0..own_m).map(row));
    let threads = (own_n..n).map(col).chain((own_m..m).map(row)).chain(n + m..n + m + batch);
    let order: Vec<u32> = registers.chain(threads).collect();
    Layout::blocked(&order, (own_n + own_m) as usize, warp_bits as usize)
}

/// The layout through which an operand goes that lies along its rows or columns and is wanted along K. Bytes are read by the
/// transposing `ldmatrix`, as the fragments of an atom, whose words lie along K. Words are read by vectors and stored one by one:
/// lanes along K, so that they meet different banks.
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
        let share = warp_bits.min((lines / 16).checked_ilog2().unwrap_or(0));
        let (m_bits, n_bits) = if side == Operand::A { (share, 0) } else { (0, share) };
        let cover = atom.interleave(Cover { m_bits, n_bits, ..Cover::default() }, [m, n], true, true);
        let layout = atom.layout(side, 1, rows, cols, cover, warp_bits);
        return Some(smem_swizzles::apart(elem, [rows, cols], if side == Operand::A { 0 } else { 1 }, layout));
    }
    let strides = Strides::of(&[rows, cols]);
    let (of_lines, of_depth) = if side == Operand::A { (0, 1) } else { (1, 0) };
    let mut line_bits = strides.dim_bits(of_lines);
    let mut depth_bits = strides.dim_bits(of_depth);
    let vector: Vec<u32> = line_bits.by_ref().take(2).collect();
    let along: Vec<u32> = depth_bits.by_ref().take(4).collect();
    let order: Vec<u32> = vector.iter().copied().chain(along).chain(line_bits).chain(depth_bits).collect();
    Some(Layout::blocked(&order, vector.len(), warp_bits as usize))
}

/// The elements of an operand that each thread reads when it has_mma for itself: the batch and `dim` are those of its accumulators, and it walks along K.
pub(crate) fn shared_reads(accumulator: &Layout, result: &[u32], operand: &[u32], dim: usize) -> Layout {
    let (from, to) = (Strides::of(result), Strides::of(operand));
    let common = |basis: u32, dim: usize| from.coordinate(basis, dim) << to.shift[dim];
    let batch = |basis: u32| if operand.len() == 3 { common(basis, 0) } else { 0 };
    let mut layout = accumulator.map(|basis| batch(basis) | common(basis, dim));
    let k = 2 * operand.len() - 3 - dim;
    layout.register.extend(to.dim_bits(k).map(|bit| 1 << bit));
    layout
}

/// Warps of a kernel: more when the accumulators that are alive together, or those and the operands that are computed in
/// registers, would not fit the registers of fewer.
pub(crate) fn warps(function: &Function, target: Target, fewest: u32) -> u32 {
    let (of_accumulator, with_operands) = (budget::accumulator_registers(target, fewest), budget::mma_registers(target, fewest));
    let body = &function.body;
    let registers = |value: Value, narrowest: u32| registers(function, value, narrowest);
    let computed = |value: Value| match body.defining_op(value).map(|op| &body.ops[op].kind) {
        Some(Op::Core(core)) if core.is_elementwise() => registers(value, 8),
        _ => 0,
    };
    let mma = |op: OpId| match &body.ops[op].kind {
        Op::Mma { lhs, rhs, acc, .. } | Op::MmaScaled { lhs, rhs, acc, .. } => {
            // Sums of halves are in a register each, operands are packed.
            Some((registers(*acc, 32), computed(*lhs).saturating_add(computed(*rhs)), [*lhs, *rhs]))
        }
        _ => None,
    };
    let mmas: Vec<(u32, u32, [Value; 2])> = body.walk(function.region).into_iter().filter_map(mma).collect();
    let together = alive_together(function, |op| mma(op).map_or(0, |(acc, ..)| acc));
    let fits = |registers: u32, most: u32| registers <= most * 32 * fewest;
    let each_fits =
        |(acc, operands, _): &(u32, u32, _)| fits(*acc, of_accumulator) && fits(acc.saturating_add(*operands), with_operands);
    let with = |acc: u32, operands: [u32; 2]| acc.saturating_add(operands[0]).saturating_add(operands[1]);
    let may_be_crowded = |(acc, _, operands): &&(u32, u32, [Value; 2])| {
        let loaded = operands::loaded_by(function, operands[1]).is_some();
        loaded && !fits(with(*acc, operands.map(|operand| registers(operand, 32))), with_operands)
    };
    let mut large = mmas.iter().filter(may_be_crowded).peekable();
    let is_asynchronous = target.has(Feature::TensorMemory) || target.has(Feature::Wgmma);
    let crowded = is_asynchronous && large.peek().is_some() && {
        let accesses = Accesses::of(function, fewest.trailing_zeros() as usize);
        large.any(|(acc, _, operands)| {
            let operands = operands.map(|operand| loaded_piecewise(function, &accesses, operand));
            // What threads load to the left they may store to tensor memory.
            operands[1] > 0 && !fits(with(*acc, operands), with_operands)
        })
    };
    if threads_transpose_words(function, target) && are_asynchronous(function, target, fewest * 2) {
        return fewest * 2;
    }
    // Other targets multiply by warps as fast as they can at all, and what few warps spill costs less than what more of them do again.
    if crowded {
        return fewest * 2;
    }
    if fits(together, of_accumulator) && mmas.iter().all(each_fits) {
        return fewest;
    }
    // The other operand of asynchronous mmas is in memory; a row that fewer warps hold needs no exchange between them, and warp groups
    // that would have no rows of their own multiply nothing.
    let operands = mmas.iter().map(|(_, operands, _)| *operands).max().unwrap_or(0);
    let most = budget::async_mma_registers(target, fewest);
    let asynchronous = are_asynchronous(function, target, fewest);
    if fits(together.saturating_add(operands), most) && mmas.iter().all(each_fits) && asynchronous {
        return fewest;
    }
    fewest * 2
}

/// Whether an MMA by warp groups takes 32-bit operands, which threads transpose in shared memory before each MMA. Measured on an H200, a tf32
/// matmul of 4096 with tiles of 128x128x32 takes 545 us with eight warps, 837 us with four and 1408 us with two CTAs of four.
fn threads_transpose_words(function: &Function, target: Target) -> bool {
    let elem = |value: Value| function.body.ty(value).tile().map(|(elem, _)| elem.bits());
    let is_wide = |op: &Op| matches!(op, Op::Mma { lhs, .. } if elem(*lhs) == Some(32));
    target.has(Feature::Wgmma) && function.body.ops.values().any(|node| is_wide(&node.kind))
}

/// Registers of an operand that threads load in pieces of less than a word: each piece is in a register of its own, and nothing else
/// copies so little.
fn loaded_piecewise(function: &Function, accesses: &Accesses, operand: Value) -> u32 {
    let Some(access) = operands::loaded_by(function, operand).and_then(|load| accesses.get(load)) else { return 0 };
    let piece = access.copy.map_or(0, |pieces| pieces.bits).max(access.vector_bits);
    let elem = function.body.ty(operand).tile().map_or(0, |(elem, _)| elem.bits());
    if elem << piece < 32 { registers(function, operand, 32) >> piece } else { 0 }
}

/// Registers of 32 bits that a tile takes of a block if an element has so many bits of them at least.
pub(crate) fn registers(function: &Function, value: Value, narrowest: u32) -> u32 {
    let words = |(elem, shape): (core_dialect::tile::Elem, &Shape)| {
        (core_dialect::tile::element_count(shape) as u32).saturating_mul(elem.bits().max(narrowest)).div_ceil(32)
    };
    function.body.ty(value).tile().map_or(0, words)
}

/// The registers of the accumulators of chained mmas that are alive at a time, where they are most: those of one loop. MmaSelections that add to
/// what another one gave have their accumulators in its registers.
pub(crate) fn alive_together(function: &Function, accumulators: impl Fn(OpId) -> u32) -> u32 {
    let body = &function.body;
    let blocks = body.op_blocks();
    let (mut together, chained): (BTreeMap<_, u32>, _) = (BTreeMap::new(), operands::chained(function));
    for &op in &chained {
        let Op::Mma { acc, .. } = body.ops[op].kind else { continue };
        let goes_on = body.defining_op(acc).is_some_and(|before| chained.contains(&before));
        let all = together.entry(blocks[op.0 as usize]).or_default();
        *all = all.saturating_add(if goes_on { 0 } else { accumulators(op) });
    }
    together.into_values().max().unwrap_or(0)
}

/// Whether so many warps can make every mma by groups or in tensor memory.
fn are_asynchronous(function: &Function, target: Target, warps: u32) -> bool {
    let body = &function.body;
    let tile = |value: Value| body.ty(value).tile().expect("mmas are of tiles");
    body.ops.values().all(|node| {
        let Op::Mma { lhs, rhs, acc, .. } = node.kind else { return true };
        let ((elem, left), (_, right), (sum, _)) = (tile(lhs), tile(rhs), tile(acc));
        let [_, m, n, k] = extents(left, right);
        let (elem, sum) = (elem.carrier(), sum.carrier());
        let by_groups = group_atom(target, elem, sum, [m, n, k], warps.trailing_zeros()).is_some();
        by_groups || tensor_atom(target, elem, sum, [m, n, k]).is_some()
    })
}

/// Whether mmas of a target take operands of this type as they are: 8-bit floats by atoms only, others otherwise too.
pub(crate) fn is_native(target: Target, operand: Scalar, acc: Scalar, lhs: &Shape, rhs: &Shape) -> bool {
    let [_, m, n, k] = extents(lhs, rhs);
    let narrow = matches!(operand, Scalar::F8E4M3FN | Scalar::F8E5M2);
    !narrow || sync_atom(target, operand, acc, [m, n, k]).is_some()
}
