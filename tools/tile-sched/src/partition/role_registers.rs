//! How many warps each warp_role has, and how many registers their threads.
//!
//! A multiprocessor has four parts, among which the warps of all its blocks are shared out, so registers are counted by four warps;
//! and by four they are moved from one warp_role to another while a block runs.

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

/// Warps that are given registers together.
const GROUP: u32 = 4;
/// Registers of a thread that only asks for tma_copies, or mmas, and what it may do with where that leaves others more. It holds what is
/// computed for all, and the coordinates of some tma_copies. Where others have enough, and one of two has_mma, it has more.
const OF_HELPERS: [u32; 2] = [40, 32];
const AMPLE: u32 = 56;
/// What a thread that has_mma has in registers beside the accumulators. With fewer the assembler does without putting any aside where mmas
/// are of warp groups, which read their operands from shared memory.
const BESIDE_ACCUMULATOR: u32 = 72;
const MIN_BESIDE_ACCUMULATOR: u32 = 40;
/// What the assembler wants beside the accumulators of one mma, of the registers that a thread is started with.
const BESIDE_MMA: u32 = 32;
const STEP: u32 = 8;
/// Of which staged_buffers are measured that leave each its place.
const MAX_CTAS: u32 = 32;
/// The most that a thread can be given.
const MOST: u32 = 248;
/// Warps of a block, by the verifier of `.as`.
const MOST_WARPS: u32 = 32;

/// The warp_roles of a function, and how many blocks of them have capacity on a multiprocessor.
pub(super) struct WarpAssignment {
    pub(super) warp_roles: Vec<(RoleKind, WarpRoleInfo)>,
    pub(super) resident: u32,
    /// Whether those that compute have the registers that they need.
    pub(super) is_ample: bool,
}

/// The warp_roles of a function that was one of all its warps. One warp is enough to ask for tma_copies, and another one for mmas. Where
/// they leave the others too few registers, they are of a warp group that gives up its own.
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
        return Err(format!("a block has {MOST_WARPS} warps, and {warps} of them compute"));
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
    let least = all + min_beside_accumulator(function);
    if choice == FeatureChoice::WherePays && resident > 1 && has < least && each(warps) >= least.min(MOST) {
        return Err(format!(
            "a warp more leaves a thread {has} registers where {resident} blocks have capacity, and it takes some {least}"
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

/// Who has a warp beside those that compute.
fn helpers(function: &Function, lines: &MmaWarps) -> Vec<RoleKind> {
    let multiplying = if tmem_pipelines::has_mma(function) { lines.count() } else { 0 };
    let storing = multiplying > 0 && !tmem_pipelines::stored(function).is_empty();
    let multiply = (0..multiplying).map(RoleKind::Mma);
    [RoleKind::Load].into_iter().chain(multiply).chain(storing.then_some(RoleKind::Store)).collect()
}

/// The blocks for whose warps there are registers enough, as far as can be told.
pub(super) fn resident(function: &Function, target: Target) -> u32 {
    let (warps, needs) = (function.attrs.program.warps, (Needs::of(function).all + min_beside_accumulator(function)).min(MOST));
    let has_capacity = |blocks: &u32| (budget::registers(target, warps * blocks, 1) & !(STEP - 1)).min(MOST) >= needs;
    (1..=MAX_CTAS).take_while(has_capacity).last().unwrap_or(1)
}

/// What a thread takes beside the accumulators at least: of mmas in registers also their operands.
fn min_beside_accumulator(function: &Function) -> u32 {
    let ops = function.body.walk(function.region);
    let atoms = ops.iter().filter_map(|op| match &function.body.ops[*op].kind {
        kind @ Op::Core(tileas::Op::Mma { .. }) => Some(wgmma_in_flight::is_by_groups(kind)),
        _ => None,
    });
    let by_groups: Vec<bool> = atoms.collect();
    if by_groups.contains(&true) && !by_groups.contains(&false) { MIN_BESIDE_ACCUMULATOR } else { BESIDE_ACCUMULATOR }
}

/// Registers of a thread that hold tiles.
struct Needs {
    /// The accumulators of mmas, or the largest tiles that loops carry and that come from tensor memory.
    all: u32,
    /// The accumulators of one mma.
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
            // A mma that adds to another's accumulators has them in the same registers.
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
        // Those of loops that follow one another have the same registers.
        let together = in_registers.values().map(|held| held.iter().sum()).max().unwrap_or(0);
        let (accumulators, mma) = (in_registers.values().flatten().sum::<u32>(), in_registers.values().flatten().max().copied());
        Needs { all: tmem_loaded.map_or(together, |one| one + accumulators.max(carried)), mma: mma.unwrap_or(0) }
    }
}
