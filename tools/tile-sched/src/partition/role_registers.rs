//! Chooses how many warps each warp role has, and how many registers its threads get.
//!
//! An SM has four sub-partitions, to which the warps of all resident CTAs are distributed. Registers are therefore counted in
//! units of four warps. `setmaxnreg` also moves registers between roles four warps at a time.

use super::mma_warps::MmaWarps;
use super::op_roles::RoleKind;
use crate::feature_choice::{FeatureChoice, Reason};
use crate::{tmem_mma_buffers, wgmma_in_flight};
use base::{Block, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::element_count;
use sched::{Function, Op, WarpRoleInfo};
use std::collections::BTreeMap;
use tileas::{Type, budget};

/// Number of warps that execute `setmaxnreg` together (a warp group).
const WARP_GROUP: u32 = 4;
/// Register limits of a helper thread, which only issues TMA copies or MMAs: the normal limit, and the minimum. The minimum applies
/// if the other roles then get more registers. A helper thread holds the values that all roles share, and the coordinates of some
/// TMA copies.
/// Source: the register counts of producer warps in public kernels for sm_90. CUTLASS (`sm90_gemm_tma_warpspecialized_cooperative`)
/// uses 40; FlashAttention-3 (`flash_fwd_kernel_sm90.h`) uses 32 with three groups of consumer warps. `setmaxnreg` accepts multiples
/// of 8 from 24 (PTX ISA).
const HELPER_REGISTERS: [u32; 2] = [40, 32];
/// Register limit of a helper thread if the other roles still have enough registers. Source: FlashAttention-3 uses 56 for the producer
/// warps of one group of consumer warps, whose registers do not limit the kernel.
const AMPLE_HELPER_REGISTERS: u32 = 56;
/// Registers per thread that an MMA thread needs in addition to the accumulators.
const REGISTERS_BESIDE_ACCUMULATOR: u32 = 72;
/// [`REGISTERS_BESIDE_ACCUMULATOR`] for `wgmma`, which reads its operands from shared memory: the minimum without spills.
const MIN_REGISTERS_BESIDE_ACCUMULATOR: u32 = 40;
/// Registers per thread that a thread needs in addition to the tiles that it loads from tensor memory: the minimum without spills.
/// Source: ptxas 13.5.37 for sm_100. For two attention kernels of the tuning half of `scripts/regret`, with tiles of 66 registers, it
/// spills with 96 registers per thread, but not with 104 and 128.
const MIN_REGISTERS_BESIDE_TMEM_TILE: u32 = 32;
/// Minimum registers per thread at kernel start, in addition to the largest accumulator of a single MMA. `ptxas` needs them.
const MIN_START_REGISTERS_BESIDE_ACCUMULATOR: u32 = 32;
/// Allocation granularity of registers per thread: an SM allocates registers to a warp in units of 256.
const REGISTER_GRANULARITY: u32 = 8;
/// Largest number of CTAs per SM.
const MAX_CTAS: u32 = 32;
/// Largest `setmaxnreg` value used.
const MAX_REGISTERS: u32 = 248;
/// Largest number of warps in a CTA; the verifier of `.as` enforces it.
const MAX_WARPS: u32 = 32;

/// The warp roles of a function, and how many CTAs with these roles fit on an SM.
pub(super) struct WarpAssignment {
    pub(super) warp_roles: Vec<(RoleKind, WarpRoleInfo)>,
    /// The number of CTAs per SM for which the registers were distributed.
    pub(super) resident_ctas: u32,
    /// The registers of a thread of a compute role.
    pub(super) compute_registers: u32,
    /// Whether the compute roles have the registers that they need.
    pub(super) is_ample: bool,
}

/// Assigns warps to the roles of a function whose warps all compute so far. One additional warp issues TMA copies, and another one
/// issues MMAs. If these warps leave the other roles too few registers, they become part of a warp group that releases most of its
/// registers.
pub(super) fn warp_assignment(
    function: &Function,
    mma_warps: &MmaWarps,
    ctas: u32,
    target: Target,
    choice: FeatureChoice,
) -> Result<WarpAssignment, Reason> {
    let (warps_per_role, compute_roles) = (function.attrs.program.warps, mma_warps.groups.role_count() as u32);
    let warps = warps_per_role * compute_roles;
    let warp_role = |role: RoleKind, first_warp: u32, warps: u32, registers: Option<u32>| {
        (role, WarpRoleInfo { name: role.name().into(), first_warp, warps, registers })
    };
    let registers_with = |warps: u32| {
        let resident_warps = (warps * ctas).next_multiple_of(WARP_GROUP);
        (budget::registers(target, resident_warps, 1) & !(REGISTER_GRANULARITY - 1)).min(MAX_REGISTERS)
    };
    let helpers = helper_roles(function, mma_warps);
    let helper_count = helpers.len() as u32;
    if warps + helper_count > MAX_WARPS {
        return Err(format!("a CTA has at most {MAX_WARPS} warps, and {warps} of them compute"));
    }
    let registers_without_setmaxnreg = registers_with(warps + helper_count);
    let registers_at_start = registers_with(warps + WARP_GROUP);
    let compute_registers_with_setmaxnreg = |helper: u32| {
        ((registers_at_start * (warps + WARP_GROUP)).saturating_sub(helper * WARP_GROUP) / warps & !(REGISTER_GRANULARITY - 1))
            .min(MAX_REGISTERS)
    };
    let RegisterNeeds { tiles, largest_accumulator } = RegisterNeeds::estimate(function);
    let needs = tiles + REGISTERS_BESIDE_ACCUMULATOR;
    let helper_registers = helper_registers(helper_count, needs, compute_registers_with_setmaxnreg);
    let starts_with_enough =
        registers_at_start >= helper_registers.max(largest_accumulator + MIN_START_REGISTERS_BESIDE_ACCUMULATOR);
    let fills_warp_groups = warps_per_role.is_multiple_of(WARP_GROUP) && helper_count <= WARP_GROUP;
    let can_use_setmaxnreg = fills_warp_groups && budget::has_setmaxnreg(target) && starts_with_enough;
    let uses_setmaxnreg = can_use_setmaxnreg
        && registers_without_setmaxnreg < needs
        && compute_registers_with_setmaxnreg(helper_registers) > registers_without_setmaxnreg;
    let compute_registers =
        if uses_setmaxnreg { compute_registers_with_setmaxnreg(helper_registers) } else { registers_without_setmaxnreg };
    let min_registers = tiles + min_registers_without_accumulator(function);
    if choice == FeatureChoice::WherePays
        && ctas > 1
        && compute_registers < tiles + min_registers_with_roles(function)
        && registers_with(warps) >= min_registers.min(MAX_REGISTERS)
    {
        return Err(format!(
            "another warp leaves a thread {compute_registers} registers with {ctas} CTAs per SM, and it needs about {}",
            tiles + min_registers_with_roles(function)
        ));
    }
    let [compute_limit, helper_limit] = if uses_setmaxnreg { [Some(compute_registers), Some(helper_registers)] } else { [None; 2] };
    let compute_role =
        |number: u32| warp_role(RoleKind::Compute(number as usize), number * warps_per_role, warps_per_role, compute_limit);
    let mut warp_roles: Vec<(RoleKind, WarpRoleInfo)> = (0..compute_roles).map(compute_role).collect();
    warp_roles.extend(helpers.iter().zip(warps..).map(|(role, first)| warp_role(*role, first, 1, helper_limit)));
    if uses_setmaxnreg && helper_count < WARP_GROUP {
        warp_roles.push(warp_role(RoleKind::Idle, warps + helper_count, WARP_GROUP - helper_count, helper_limit));
    }
    Ok(WarpAssignment { warp_roles, resident_ctas: ctas, compute_registers, is_ample: compute_registers >= needs })
}

/// Returns the registers of a helper role's thread. `compute_registers` returns what a given number leaves a compute role's thread,
/// which needs `needs` registers.
fn helper_registers(helper_count: u32, needs: u32, compute_registers: impl Fn(u32) -> u32) -> u32 {
    let [normal, minimum] = HELPER_REGISTERS;
    match () {
        () if helper_count > 1 && compute_registers(AMPLE_HELPER_REGISTERS) >= needs => AMPLE_HELPER_REGISTERS,
        () if compute_registers(minimum) > compute_registers(normal) => minimum,
        () => normal,
    }
}

/// The roles that get one warp each in addition to the compute roles.
fn helper_roles(function: &Function, mma_warps: &MmaWarps) -> Vec<RoleKind> {
    let mma_warp_count = if tmem_mma_buffers::has_tmem_mma(function) { mma_warps.warp_count() } else { 0 };
    let has_store_warp = mma_warp_count > 0 && !tmem_mma_buffers::tma_store_buffers(function).is_empty();
    let mma_roles = (0..mma_warp_count).map(RoleKind::Mma);
    let load_roles = (0..mma_warps.load_warps).map(RoleKind::Load);
    load_roles.chain(mma_roles).chain(has_store_warp.then_some(RoleKind::Store)).collect()
}

/// Returns an estimate of how many CTAs fit on an SM with enough registers for their warps, at least 1.
pub(super) fn ctas_by_registers(function: &Function, target: Target) -> u32 {
    let (warps, needs) = (
        function.attrs.program.warps,
        (RegisterNeeds::estimate(function).tiles + min_registers_without_accumulator(function)).min(MAX_REGISTERS),
    );
    let has_capacity =
        |ctas: &u32| (budget::registers(target, warps * ctas, 1) & !(REGISTER_GRANULARITY - 1)).min(MAX_REGISTERS) >= needs;
    (1..=MAX_CTAS).take_while(has_capacity).last().unwrap_or(1)
}

/// Returns whether threads have the registers that they need if this many CTAs are resident and all warps compute.
pub(super) fn has_registers_without_helpers(function: &Function, ctas: u32, target: Target) -> bool {
    let registers = budget::registers(target, function.attrs.program.warps * ctas, 1) & !(REGISTER_GRANULARITY - 1);
    registers.min(MAX_REGISTERS) >= RegisterNeeds::estimate(function).tiles + REGISTERS_BESIDE_ACCUMULATOR
}

/// Returns the minimum number of registers in addition to the accumulators. `mma.sync` also needs registers for its operands.
fn min_registers_without_accumulator(function: &Function) -> u32 {
    let all_are_wgmma = all_mmas_are(function, wgmma_in_flight::is_wgmma);
    if all_are_wgmma { MIN_REGISTERS_BESIDE_ACCUMULATOR } else { REGISTERS_BESIDE_ACCUMULATOR }
}

/// Returns [`min_registers_without_accumulator`] for a compute role. If all MMAs are in tensor memory, only the tiles that the threads
/// load from there take registers.
fn min_registers_with_roles(function: &Function) -> u32 {
    let all_are_in_tmem = all_mmas_are(function, tmem_mma_buffers::is_tmem_mma);
    if all_are_in_tmem { MIN_REGISTERS_BESIDE_TMEM_TILE } else { min_registers_without_accumulator(function) }
}

/// Returns whether a function has MMAs, all of one family.
fn all_mmas_are(function: &Function, is_family: fn(&Op) -> bool) -> bool {
    let ops = function.body.walk(function.region);
    let kinds = ops.iter().map(|op| &function.body.ops[*op].kind);
    let mut mmas = kinds.filter(|kind| matches!(kind, Op::Core(tileas::Op::Mma { .. }))).peekable();
    mmas.peek().is_some() && mmas.all(is_family)
}

/// Registers per thread that hold tiles.
struct RegisterNeeds {
    /// For functions without tensor memory: the accumulators of MMAs. Otherwise: the largest tile loaded from tensor memory, plus
    /// the accumulators of MMAs or the loop-carried tiles.
    tiles: u32,
    /// The largest accumulator of a single MMA.
    largest_accumulator: u32,
}

impl RegisterNeeds {
    /// Estimates the registers from the accumulators, the loop-carried tiles and the tiles loaded from tensor memory.
    fn estimate(function: &Function) -> RegisterNeeds {
        let body = &function.body;
        let ops = body.walk(function.region);
        let is_mma = |op: base::ir::Op| matches!(body.ops[op].kind, Op::Core(tileas::Op::Mma { .. }));
        let registers_of = |value: Value| match body.ty(value) {
            ty @ Type::Tile { .. } => {
                let bits = element_count(ty.shape()) as u32 * ty.elem().map_or(32, |elem| elem.bits());
                bits / 32 / (32 * function.attrs.program.warps)
            }
            _ => 0,
        };
        let accumulator_registers = |op: &base::ir::Op| {
            let Op::Core(tileas::Op::Mma { acc, .. }) = &body.ops[*op].kind else { return None };
            // An MMA that adds to the accumulator of another MMA uses the same registers.
            acc.registers().filter(|acc| !body.defining_op(*acc).is_some_and(is_mma)).map(registers_of)
        };
        let blocks = body.op_blocks();
        let mut in_registers: BTreeMap<Option<Block>, Vec<u32>> = BTreeMap::new();
        for op in &ops {
            accumulator_registers(op)
                .into_iter()
                .for_each(|registers| in_registers.entry(blocks[op.0 as usize]).or_default().push(registers));
        }
        let tmem_loaded = ops.iter().filter(|op| matches!(body.ops[**op].kind, Op::Core(tileas::Op::TmemLoad { .. })));
        let tmem_loaded = tmem_loaded.map(|op| registers_of(body.result(*op))).max();
        let loops = ops.iter().map(|op| &body.ops[*op]).filter(|node| node.kind.core().is_some_and(Core::is_loop));
        let carried = loops.map(|node| node.results.iter().map(|value| registers_of(*value)).sum());
        let carried: u32 = carried.max().unwrap_or(0);
        // The accumulators of consecutive loops use the same registers.
        let accumulators_of_loop = in_registers.values().map(|registers| registers.iter().sum()).max().unwrap_or(0);
        let (accumulators, largest_accumulator) =
            (in_registers.values().flatten().sum::<u32>(), in_registers.values().flatten().max().copied());
        RegisterNeeds {
            tiles: tmem_loaded.map_or(accumulators_of_loop, |loaded| loaded + accumulators.max(carried)),
            largest_accumulator: largest_accumulator.unwrap_or(0),
        }
    }
}
