//! Chooses how many warps each warp role has, and how many registers its threads get.
//!
//! An SM has four sub-partitions, to which the warps of all resident CTAs are distributed, so registers are counted per four
//! warps. `setmaxnreg` also moves them between roles four warps at a time.

use super::mma_warps::MmaWarps;
use super::op_roles::RoleKind;
use super::{FeatureChoice, Why};
use crate::{tmem_pipelines, wgmma_in_flight};
use base::{Block, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::element_count;
use sched::{Function, Op, WarpRoleInfo};
use std::collections::BTreeMap;
use tileas::{Type, budget};

/// Warps that execute `setmaxnreg` together (a warp group).
const GROUP: u32 = 4;
/// Register limits of a thread that only issues TMA copies or MMAs: the normal one, and the minimum if that leaves other roles
/// more. The thread holds the values shared by all roles and the coordinates of some TMA copies. If the other roles have
/// enough, it gets `AMPLE`.
const OF_HELPERS: [u32; 2] = [40, 32];
const AMPLE: u32 = 56;
/// Registers of an MMA thread in addition to the accumulators. With fewer, `ptxas` avoids spills only for `wgmma`, which
/// reads its operands from shared memory; then the minimum applies.
const BESIDE_ACCUMULATOR: u32 = 72;
const MIN_BESIDE_ACCUMULATOR: u32 = 40;
/// Registers that `ptxas` needs in addition to one MMA's accumulator, of those with which a thread starts.
const BESIDE_MMA: u32 = 32;
const STEP: u32 = 8;
/// Largest number of CTAs per SM.
const MAX_CTAS: u32 = 32;
/// Largest `setmaxnreg` value used.
const MOST: u32 = 248;
/// Largest number of warps in a CTA; the verifier of `.as` enforces it.
const MOST_WARPS: u32 = 32;

/// The warp roles of a function, and how many CTAs with these roles fit on an SM.
pub(super) struct WarpAssignment {
    pub(super) warp_roles: Vec<(RoleKind, WarpRoleInfo)>,
    pub(super) resident: u32,
    /// Whether the compute roles have the registers that they need.
    pub(super) is_ample: bool,
}

/// Assigns warps to the roles of a function whose warps all compute. One warp suffices to issue TMA copies, and another one for
/// MMAs. If they leave the other roles too few registers, they become part of a warp group that releases most of its registers.
pub(super) fn warp_assignment(
    function: &Function,
    lines: &MmaWarps,
    resident: u32,
    (target, choice): (Target, FeatureChoice),
) -> Result<WarpAssignment, Why> {
    let (group, computing) = (function.attrs.program.warps, lines.groups.count() as u32);
    let warps = group * computing;
    let warp_role = |role: RoleKind, first_warp: u32, warps: u32, registers: Option<u32>| {
        (role, WarpRoleInfo { name: role.name().into(), first_warp, warps, registers })
    };
    let each = |warps: u32| {
        let all = (warps * resident).next_multiple_of(GROUP);
        (budget::registers(target, all, 1) & !(STEP - 1)).min(MOST)
    };
    let helpers = helpers(function, lines);
    let count = helpers.len() as u32;
    if warps + count > MOST_WARPS {
        return Err(format!("a CTA has at most {MOST_WARPS} warps, and {warps} of them compute"));
    }
    let alone = each(warps + count);
    let whole = each(warps + GROUP);
    let given = |helper: u32| ((whole * (warps + GROUP)).saturating_sub(helper * GROUP) / warps & !(STEP - 1)).min(MOST);
    let Needs { all, mma } = Needs::of(function);
    let needs = all + BESIDE_ACCUMULATOR;
    let [most, fewest] = OF_HELPERS;
    let of_helper = match () {
        () if count > 1 && given(AMPLE) >= needs => AMPLE,
        () if given(fewest) > given(most) => fewest,
        () => most,
    };
    let enough = whole >= of_helper.max(mma + BESIDE_MMA);
    let can_move = group.is_multiple_of(GROUP) && budget::has_setmaxnreg(target) && enough;
    let moves = can_move && alone < needs && given(of_helper) > alone;
    let has = if moves { given(of_helper) } else { alone };
    let least = all + min_registers_without_accumulator(function);
    if choice == FeatureChoice::WherePays && resident > 1 && has < least && each(warps) >= least.min(MOST) {
        return Err(format!(
            "another warp leaves a thread {has} registers with {resident} CTAs per SM, and it needs about {least}"
        ));
    }
    let [own, of_helpers] = if moves { [Some(has), Some(of_helper)] } else { [None; 2] };
    let computes = |number: u32| warp_role(RoleKind::Compute(number as usize), number * group, group, own);
    let mut warp_roles: Vec<(RoleKind, WarpRoleInfo)> = (0..computing).map(computes).collect();
    warp_roles.extend(helpers.iter().zip(warps..).map(|(role, first)| warp_role(*role, first, 1, of_helpers)));
    if moves && count < GROUP {
        warp_roles.push(warp_role(RoleKind::Idle, warps + count, GROUP - count, of_helpers));
    }
    Ok(WarpAssignment { warp_roles, resident, is_ample: has >= needs })
}

/// The roles that get one warp each in addition to the compute roles.
fn helpers(function: &Function, lines: &MmaWarps) -> Vec<RoleKind> {
    let multiplying = if tmem_pipelines::has_mma(function) { lines.count() } else { 0 };
    let storing = multiplying > 0 && !tmem_pipelines::stored(function).is_empty();
    let multiply = (0..multiplying).map(RoleKind::Mma);
    [RoleKind::Load].into_iter().chain(multiply).chain(storing.then_some(RoleKind::Store)).collect()
}

/// Returns an estimate of how many CTAs fit with enough registers for their warps.
pub(super) fn resident(function: &Function, target: Target) -> u32 {
    let (warps, needs) =
        (function.attrs.program.warps, (Needs::of(function).all + min_registers_without_accumulator(function)).min(MOST));
    let has_capacity = |blocks: &u32| (budget::registers(target, warps * blocks, 1) & !(STEP - 1)).min(MOST) >= needs;
    (1..=MAX_CTAS).take_while(has_capacity).last().unwrap_or(1)
}

/// The minimum registers in addition to the accumulators. `mma.sync` also needs registers for its operands.
fn min_registers_without_accumulator(function: &Function) -> u32 {
    let ops = function.body.walk(function.region);
    let atoms = ops.iter().filter_map(|op| match &function.body.ops[*op].kind {
        kind @ Op::Core(tileas::Op::Mma { .. }) => Some(wgmma_in_flight::is_by_groups(kind)),
        _ => None,
    });
    let by_groups: Vec<bool> = atoms.collect();
    if by_groups.contains(&true) && !by_groups.contains(&false) { MIN_BESIDE_ACCUMULATOR } else { BESIDE_ACCUMULATOR }
}

/// Registers per thread that hold tiles.
struct Needs {
    /// The accumulators of MMAs, or the largest tiles that loops carry and that come from tensor memory.
    all: u32,
    /// The largest accumulator of a single MMA.
    mma: u32,
}

impl Needs {
    fn of(function: &Function) -> Needs {
        let body = &function.body;
        let all = body.walk(function.region);
        let is_mma = |op: base::ir::Op| matches!(body.ops[op].kind, Op::Core(tileas::Op::Mma { .. }));
        let held = |value: Value| match body.ty(value) {
            ty @ Type::Tile { .. } => {
                let bits = element_count(ty.shape()) as u32 * ty.elem().map_or(32, |elem| elem.bits());
                bits / 32 / (32 * function.attrs.program.warps)
            }
            _ => 0,
        };
        let of_mma = |op: &base::ir::Op| {
            let Op::Core(tileas::Op::Mma { acc, .. }) = &body.ops[*op].kind else { return None };
            // An MMA that adds to another one's accumulator uses the same registers.
            acc.registers().filter(|acc| !body.defining_op(*acc).is_some_and(is_mma)).map(held)
        };
        let blocks = body.op_blocks();
        let mut in_registers: BTreeMap<Option<Block>, Vec<u32>> = BTreeMap::new();
        for op in &all {
            of_mma(op).into_iter().for_each(|held| in_registers.entry(blocks[op.0 as usize]).or_default().push(held));
        }
        let tmem_loaded = all.iter().filter(|op| matches!(body.ops[**op].kind, Op::Core(tileas::Op::TmemLoad { .. })));
        let tmem_loaded = tmem_loaded.map(|op| held(body.result(*op))).max();
        let carried = |op: &base::ir::Op| match body.ops[*op].kind.core() {
            Some(Core::For { .. } | Core::Loop { .. }) => body.ops[*op].results.iter().map(|value| held(*value)).sum(),
            _ => 0,
        };
        let carried: u32 = all.iter().map(carried).max().unwrap_or(0);
        // The accumulators of consecutive loops use the same registers.
        let together = in_registers.values().map(|held| held.iter().sum()).max().unwrap_or(0);
        let (accumulators, mma) = (in_registers.values().flatten().sum::<u32>(), in_registers.values().flatten().max().copied());
        Needs { all: tmem_loaded.map_or(together, |one| one + accumulators.max(carried)), mma: mma.unwrap_or(0) }
    }
}
