//! How many warps each agent has, and how many registers their threads.
//!
//! A multiprocessor has four parts, among which the warps of all its blocks are shared out, so registers are counted by four warps;
//! and by four they are moved from one agent to another while a block runs.

use super::Why;
use super::seeds::Role;
use base::Target;
use sched::{AgentInfo, Function, Op};
use tileas::budget;
use vocabulary::tile::element_count;

/// Warps that are given registers together.
const GROUP: u32 = 4;
/// Registers of a thread that only asks for boxes. It holds what is computed for all, and the coordinates of some boxes.
const OF_LOADS: u32 = 40;
/// What a thread that multiplies has in registers beside the sums.
const BESIDE_SUMS: u32 = 72;
const STEP: u32 = 8;
/// The most that a thread can be given.
const MOST: u32 = 248;

/// The agents of a function, and how many blocks of them have room on a multiprocessor.
pub(super) struct Crew {
    pub(super) agents: Vec<(Role, AgentInfo)>,
    pub(super) resident: u32,
}

/// The agents of a function that was one of all its warps. One warp is enough to ask for boxes. Where it leaves
/// the others too few registers, it is one of a warp group that gives up its own.
pub(super) fn crew(function: &Function, resident: u32, target: Target) -> Result<Crew, Why> {
    let warps = function.attrs.program.warps;
    let agent = |role: Role, first_warp: u32, warps: u32, registers: Option<u32>| {
        (role, AgentInfo { name: role.name().into(), first_warp, warps, registers })
    };
    let each = |warps: u32| {
        let all = (warps * resident).next_multiple_of(GROUP);
        (budget::registers(target, all, 1) & !(STEP - 1)).min(MOST)
    };
    let alone = each(warps + 1);
    let whole = each(warps + GROUP);
    let given = (whole * (warps + GROUP)).saturating_sub(OF_LOADS * GROUP) / warps & !(STEP - 1);
    let needs = sums(function) + BESIDE_SUMS;
    let can_move = warps.is_multiple_of(GROUP) && budget::moves_registers(target) && whole >= OF_LOADS;
    let moves = can_move && alone < needs && given.min(MOST) > alone;
    let has = if moves { given.min(MOST) } else { alone };
    if resident > 1 && has < needs && each(warps) >= needs.min(MOST) {
        return Err(format!(
            "a warp more leaves a thread {has} registers where {resident} blocks have room, and it takes some {needs}"
        ));
    }
    let agents = match moves {
        false => vec![agent(Role::Compute, 0, warps, None), agent(Role::Load, warps, 1, None)],
        true => vec![
            agent(Role::Compute, 0, warps, Some(has)),
            agent(Role::Load, warps, 1, Some(OF_LOADS)),
            agent(Role::Idle, warps + 1, GROUP - 1, Some(OF_LOADS)),
        ],
    };
    Ok(Crew { agents, resident })
}

/// Registers of a thread that hold sums of products.
fn sums(function: &Function) -> u32 {
    let body = &function.body;
    let all = body.walk(function.region);
    let is_product = |op: base::ir::Op| matches!(body.ops[op].kind, Op::Core(tileas::Op::Mma { .. }));
    let of = |op: &base::ir::Op| {
        let Op::Core(tileas::Op::Mma { acc, .. }) = &body.ops[*op].kind else { return None };
        // A product that adds to another's sums has them in the same registers.
        let acc = acc.registers().filter(|acc| !body.defining_op(*acc).is_some_and(is_product))?;
        let bits = element_count(body.ty(acc).shape()) as u32 * body.ty(acc).elem().map_or(32, |elem| elem.bits());
        Some(bits / 32 / (32 * function.attrs.program.warps))
    };
    all.iter().filter_map(of).sum()
}
