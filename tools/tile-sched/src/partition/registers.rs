//! How many warps each agent has, and how many registers their threads.
//!
//! A multiprocessor has four parts, among which the warps of all its blocks are shared out, so registers are counted by four warps;
//! and by four they are moved from one agent to another while a block runs.

use super::lines::Lines;
use super::seeds::Role;
use super::{Wanted, Why};
use crate::{in_flight, tensor};
use base::{Block, Target, Value};
use sched::{AgentInfo, Function, Op};
use std::collections::BTreeMap;
use tileas::{Type, budget};
use vocabulary::core_ops::Core;
use vocabulary::tile::element_count;

/// Warps that are given registers together.
const GROUP: u32 = 4;
/// Registers of a thread that only asks for boxes, or products, and what it may do with where that leaves others more. It holds what is
/// computed for all, and the coordinates of some boxes. Where others have enough, and one of two multiplies, it has more.
const OF_HELPERS: [u32; 2] = [40, 32];
const AMPLE: u32 = 56;
/// What a thread that multiplies has in registers beside the sums. With fewer the assembler does without putting any aside where products
/// are of warp groups, which read their operands from shared memory.
const BESIDE_SUMS: u32 = 72;
const LEAST_BESIDE_SUMS: u32 = 40;
/// What the assembler wants beside the sums of one product, of the registers that a thread is started with.
const BESIDE_PRODUCT: u32 = 32;
const STEP: u32 = 8;
/// Of which rings are measured that leave each its place.
const MOST_BLOCKS: u32 = 32;
/// The most that a thread can be given.
const MOST: u32 = 248;
/// Warps of a block, by the verifier of `.as`.
const MOST_WARPS: u32 = 32;

/// The agents of a function, and how many blocks of them have room on a multiprocessor.
pub(super) struct Crew {
    pub(super) agents: Vec<(Role, AgentInfo)>,
    pub(super) resident: u32,
    /// Whether those that compute have the registers that they need.
    pub(super) is_ample: bool,
}

/// The agents of a function that was one of all its warps. One warp is enough to ask for boxes, and another one for products. Where
/// they leave the others too few registers, they are of a warp group that gives up its own.
pub(super) fn crew(function: &Function, lines: &Lines, resident: u32, (target, wanted): (Target, Wanted)) -> Result<Crew, Why> {
    let (group, computing) = (function.attrs.program.warps, lines.groups.count() as u32);
    let warps = group * computing;
    let agent = |role: Role, first_warp: u32, warps: u32, registers: Option<u32>| {
        (role, AgentInfo { name: role.name().into(), first_warp, warps, registers })
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
    let Needs { all, product } = Needs::of(function);
    let needs = all + BESIDE_SUMS;
    let [most, fewest] = OF_HELPERS;
    let of_helper = match () {
        () if count > 1 && given(AMPLE) >= needs => AMPLE,
        () if given(fewest) > given(most) => fewest,
        () => most,
    };
    let enough = whole >= of_helper.max(product + BESIDE_PRODUCT);
    let can_move = group.is_multiple_of(GROUP) && budget::moves_registers(target) && enough;
    let moves = can_move && alone < needs && given(of_helper) > alone;
    let has = if moves { given(of_helper) } else { alone };
    let least = all + least_beside_sums(function);
    if wanted == Wanted::WherePays && resident > 1 && has < least && each(warps) >= least.min(MOST) {
        return Err(format!(
            "a warp more leaves a thread {has} registers where {resident} blocks have room, and it takes some {least}"
        ));
    }
    let [own, of_helpers] = if moves { [Some(has), Some(of_helper)] } else { [None; 2] };
    let computes = |number: u32| agent(Role::Compute(number as usize), number * group, group, own);
    let mut agents: Vec<(Role, AgentInfo)> = (0..computing).map(computes).collect();
    agents.extend(helpers.iter().zip(warps..).map(|(role, first)| agent(*role, first, 1, of_helpers)));
    if moves && count < GROUP {
        agents.push(agent(Role::Idle, warps + count, GROUP - count, of_helpers));
    }
    Ok(Crew { agents, resident, is_ample: has >= needs })
}

/// Who has a warp beside those that compute.
fn helpers(function: &Function, lines: &Lines) -> Vec<Role> {
    let multiplying = if tensor::multiplies(function) { lines.count() } else { 0 };
    let storing = multiplying > 0 && !tensor::stored(function).is_empty();
    let multiply = (0..multiplying).map(Role::Multiply);
    [Role::Load].into_iter().chain(multiply).chain(storing.then_some(Role::Store)).collect()
}

/// The blocks for whose warps there are registers enough, as far as can be told.
pub(super) fn resident(function: &Function, target: Target) -> u32 {
    let (warps, needs) = (function.attrs.program.warps, (Needs::of(function).all + least_beside_sums(function)).min(MOST));
    let has_room = |blocks: &u32| (budget::registers(target, warps * blocks, 1) & !(STEP - 1)).min(MOST) >= needs;
    (1..=MOST_BLOCKS).take_while(has_room).last().unwrap_or(1)
}

/// What a thread takes beside the sums at least: of products in registers also their operands.
fn least_beside_sums(function: &Function) -> u32 {
    let ops = function.body.walk(function.region);
    let atoms = ops.iter().filter_map(|op| match &function.body.ops[*op].kind {
        kind @ Op::Core(tileas::Op::Mma { .. }) => Some(in_flight::is_by_groups(kind)),
        _ => None,
    });
    let by_groups: Vec<bool> = atoms.collect();
    if by_groups.contains(&true) && !by_groups.contains(&false) { LEAST_BESIDE_SUMS } else { BESIDE_SUMS }
}

/// Registers of a thread that hold tiles.
struct Needs {
    /// The sums of products, or the largest tiles that loops carry and that come from tensor memory.
    all: u32,
    /// The sums of one product.
    product: u32,
}

impl Needs {
    fn of(function: &Function) -> Needs {
        let body = &function.body;
        let all = body.walk(function.region);
        let is_product = |op: base::ir::Op| matches!(body.ops[op].kind, Op::Core(tileas::Op::Mma { .. }));
        let held = |value: Value| match body.ty(value) {
            ty @ Type::Tile { .. } => {
                let bits = element_count(ty.shape()) as u32 * ty.elem().map_or(32, |elem| elem.bits());
                bits / 32 / (32 * function.attrs.program.warps)
            }
            _ => 0,
        };
        let of_product = |op: &base::ir::Op| {
            let Op::Core(tileas::Op::Mma { acc, .. }) = &body.ops[*op].kind else { return None };
            // A product that adds to another's sums has them in the same registers.
            acc.registers().filter(|acc| !body.defining_op(*acc).is_some_and(is_product)).map(held)
        };
        let blocks = body.op_blocks();
        let mut in_registers: BTreeMap<Option<Block>, Vec<u32>> = BTreeMap::new();
        for op in &all {
            of_product(op).into_iter().for_each(|held| in_registers.entry(blocks[op.0 as usize]).or_default().push(held));
        }
        let taken_up = all.iter().filter(|op| matches!(body.ops[**op].kind, Op::Core(tileas::Op::TensorLoad { .. })));
        let taken_up = taken_up.map(|op| held(body.result(*op))).max();
        let carried = |op: &base::ir::Op| match body.ops[*op].kind.core() {
            Some(Core::For { .. } | Core::Loop { .. }) => body.ops[*op].results.iter().map(|value| held(*value)).sum(),
            _ => 0,
        };
        let carried: u32 = all.iter().map(carried).max().unwrap_or(0);
        // Those of loops that follow one another have the same registers.
        let together = in_registers.values().map(|held| held.iter().sum()).max().unwrap_or(0);
        let (sums, product) = (in_registers.values().flatten().sum::<u32>(), in_registers.values().flatten().max().copied());
        Needs { all: taken_up.map_or(together, |one| one + sums.max(carried)), product: product.unwrap_or(0) }
    }
}
