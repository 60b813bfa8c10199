//! How many warps each agent has, and how many registers their threads.

use super::seeds::Role;
use base::Target;
use sched::{AgentInfo, FunctionAttrs};
use tileas::budget;

/// Warps that are given registers together.
const GROUP: u32 = 4;
/// Registers of a thread that only asks for boxes. It holds what the prologue has computed, and the coordinates of some boxes.
const OF_LOADS: u32 = 40;
/// The most that can be given.
const MOST: u32 = 248;

/// The agents of a function that was one of all its warps. One warp is enough to ask for boxes. Registers are
/// shared out by warp groups: where one more leaves the others fewer than they had, it gives up its own.
pub(super) fn crew(attrs: &FunctionAttrs, target: Target) -> Vec<(Role, AgentInfo)> {
    let warps = attrs.program.warps;
    let agent = |role: Role, first_warp: u32, warps: u32, registers: Option<u32>| {
        (role, AgentInfo { name: role.name().into(), first_warp, warps, registers })
    };
    let launched = |warps: u32| {
        let mut whole = attrs.clone();
        whole.program.warps = warps;
        whole.launch_registers(target)
    };
    let plain = vec![agent(Role::Compute, 0, warps, None), agent(Role::Load, warps, 1, None)];
    let groups = warps.is_multiple_of(GROUP) && budget::moves_registers(target);
    if !groups || launched(warps + GROUP) >= launched(warps) {
        return plain;
    }
    let all = launched(warps + GROUP);
    let left = (all * (warps + GROUP) - OF_LOADS * GROUP) / warps & !7;
    if all < OF_LOADS || left <= all {
        return plain;
    }
    vec![
        agent(Role::Compute, 0, warps, Some(left.min(MOST))),
        agent(Role::Load, warps, 1, Some(OF_LOADS)),
        agent(Role::Idle, warps + 1, GROUP - 1, Some(OF_LOADS)),
    ]
}
