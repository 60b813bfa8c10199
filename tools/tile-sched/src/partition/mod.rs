//! Purpose: split a function into warp roles. A producer warp issues the TMA copies and runs ahead as far as there are free
//! stages. An MMA warp issues the tensor memory MMAs as soon as their operands are ready.
//! Requires: a function of one role, complete with waits, barriers and fences, that fills every stage in the iteration that
//! reads it ([`without_prefetch`]).
//! Establishes: a body per warp role with its ops and everything they need. Scalars and views that several roles need are
//! computed before the bodies.
//! Preserves: the order of ops within a role, and the order between roles that the pipelines enforce.
//! See also: Triton's `WarpSpecialization`, CUTLASS `KernelTmaWarpSpecialized`.
//!
//! One compute role does the threads' work, or two if the work falls into two components ([`ComputeGroups`]). [`op_roles`] and
//! [`role_slice`] decide, [`role_bodies`] rewrites, and [`role_registers`] distributes the registers among warps.
//! [`share_pipelines`] runs before everything else.

mod early_returns;
mod mma_warps;
mod op_roles;
mod role_bodies;
mod role_registers;
mod role_slice;
pub(crate) mod share_pipelines;

use crate::compute_warpgroups::ComputeGroups;
use crate::feature_choice::{FeatureChoice, Overlap, Reason, RoleChoices};
use crate::smem_extent::ctas_by_smem;
use crate::{tma_pipelines, tmem_alloc, tmem_mma_buffers};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op;
use base::{Arena, Target};
use mma_warps::MmaWarps;
use op_roles::{RoleKind, Roles};
use role_registers::WarpAssignment;
use role_slice::RoleSlice;
use sched::{Drain, Function, LoopSchedule, Pipeline, PipelineInfo, ScheduleEntry, WarpRole, WarpRoleInfo};
use std::collections::BTreeMap;
use tileas::layout::{Layout, LayoutId};

/// Returns whether the function has TMA copies, which a producer warp could issue.
pub(crate) fn has_copies(function: &Function) -> bool {
    function.body.walk(function.region).iter().any(|op| tma_pipelines::buffer_filled_by_tma(&function.body.ops[*op].kind).is_some())
}

/// Checks that a function can be split, as far as is known before its loops are materialized.
pub(crate) fn check(function: &Function) -> Result<(), Reason> {
    op_roles::check_role_split_conditions(function)
}

/// The ops that start or end a ping-pong turn, each with the index of the compute role that has the turn. During its turn, one of
/// two compute roles has the special function units to itself. Empty for one compute role.
pub(crate) fn ping_pong_roles(function: &Function) -> BTreeMap<Op, usize> {
    ComputeGroups::find_with_placements(function).map(|groups| groups.ping_pong_roles(function)).unwrap_or_default()
}

/// The remark about a function: its roles if it has been split, or the reason against the split.
pub(crate) fn remark(function: &Function, split: Result<&Overlap, &Reason>) -> LogEntry {
    let has = |role: RoleKind| function.attrs.warp_roles.values().any(|info| info.name == role.name());
    let mmas = match split {
        _ if !has(RoleKind::Mma(0)) => String::new(),
        _ if has(RoleKind::Compute(1)) => "; two compute roles alternate, each with an MMA warp of its own".into(),
        Ok(Err(reason)) => format!("; one warp role issues the tensor memory MMAs, not two: {reason}"),
        _ => {
            "; two warp roles issue the tensor memory MMAs: the first MMAs of an iteration run during the previous iteration".into()
        }
    };
    let stores = if has(RoleKind::Store) { ", and so do TMA stores" } else { "" };
    let (outcome, message) = match split {
        Ok(_) => (Outcome::Passed, format!("TMA copies have a warp role of their own{stores}{mmas}")),
        Err(reason) => (Outcome::Declined, format!("TMA copies have no warp role of their own: {reason}")),
    };
    let (pass, name, category) = ("warp-roles".into(), "Specialised".into(), Category::Other);
    LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc }
}

/// Returns schedules that issue each TMA copy at the start of the iteration that needs it. Reason: a producer warp runs ahead
/// without a prefetch distance. Copies that fill a buffer in alternation keep their place.
pub(crate) fn without_prefetch(function: &Function, schedules: &[LoopSchedule]) -> Vec<LoopSchedule> {
    let mut schedules_without_prefetch = tma_pipelines::with_serial_schedules(function, schedules);
    for schedule in &mut schedules_without_prefetch {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let (ops, last) = (&function.body.blocks[block].ops, schedule.last_stage());
        let alternating = tma_pipelines::buffers_filled_alternately(function, block);
        let by_tma = |entry: &ScheduleEntry| {
            let filled =
                ops.get(entry.op as usize).and_then(|op| tma_pipelines::buffer_filled_by_tma(&function.body.ops[*op].kind));
            filled.is_some_and(|buffer| !alternating.contains(&buffer))
        };
        if !schedule.entries.iter().any(by_tma) {
            continue;
        }
        schedule.interval += 1;
        for entry in &mut schedule.entries {
            match by_tma(entry) {
                true => (entry.stage, entry.cycle) = (last, 0),
                false => entry.cycle += 1,
            }
        }
    }
    schedules_without_prefetch
}

/// Assigns warps to the roles of a function, or returns the reason against a split.
fn warp_assignment(
    function: &Function,
    mma_warps: &MmaWarps,
    target: Target,
    choice: FeatureChoice,
) -> Result<WarpAssignment, Reason> {
    // Without a producer warp, the compute role could issue an alternating copy only after MMAs have read the data of the previous
    // copy. So the function is split if possible, even if too few registers are left.
    let choice = if tma_pipelines::has_alternating_copies(function) { choice.max(FeatureChoice::WherePossible) } else { choice };
    let ctas = ctas_by_smem(&function.attrs, target).min(max_resident_ctas(function, target));
    role_registers::warp_assignment(function, mma_warps, ctas, target, choice)
}

/// Assigns two MMA warps if that is worthwhile and the second warp does not take registers that other roles need. Under the same
/// condition on registers, each MMA warp gets a load warp of its own.
fn mma_warp_assignment(
    function: &Function,
    target: Target,
    choices: RoleChoices,
) -> Result<(WarpAssignment, MmaWarps, Overlap), Reason> {
    let RoleChoices { roles, overlap } = choices;
    let with_one_warp = warp_assignment(function, &MmaWarps::default(), target, roles)?;
    let mma_warps = match overlap {
        FeatureChoice::Never => Err("--overlap=off".into()),
        _ => MmaWarps::per_compute_role(function).or_else(|_| MmaWarps::find(function)),
    };
    let with_two_warps = mma_warps.and_then(|mma_warps| {
        let with_two_warps = warp_assignment(function, &mma_warps, target, roles)?;
        let is_worthwhile = overlap == FeatureChoice::WherePossible || with_two_warps.is_ample || !with_one_warp.is_ample;
        if is_worthwhile {
            Ok((with_two_warps, mma_warps))
        } else {
            Err("another warp leaves the other roles too few registers".into())
        }
    });
    Ok(match with_two_warps {
        Ok((with_two_warps, mma_warps)) => {
            let with_two_load_warps = mma_warps.with_second_load_warp(function).and_then(|mma_warps| {
                let assignment = warp_assignment(function, &mma_warps, target, roles).ok()?;
                let takes_no_registers = assignment.compute_registers >= with_two_warps.compute_registers;
                (assignment.is_ample || takes_no_registers).then_some((assignment, mma_warps))
            });
            let (assignment, mma_warps) = with_two_load_warps.unwrap_or((with_two_warps, mma_warps));
            (assignment, mma_warps, Ok(()))
        }
        Err(reason) => (with_one_warp, MmaWarps::default(), Err(reason)),
    })
}

/// Returns the CTAs per SM for which registers suffice, but at least the author's occupancy hint. With tensor memory MMAs the
/// accumulators take no registers, so the number of TMEM columns decides.
pub(crate) fn max_resident_ctas(function: &Function, target: Target) -> u32 {
    match tmem_mma_buffers::has_tmem_mma(function) {
        true => tmem_alloc::ctas_by_tmem(function, target),
        false => role_registers::ctas_by_registers(function, target).max(function.attrs.program.occupancy.unwrap_or(1)),
    }
}

/// Checks that a producer warp can fill the stages without waiting for earlier uses of their memory.
pub(crate) fn check_memory(function: &Function) -> Result<(), Reason> {
    let mut reused = tma_pipelines::loops_that_reuse_memory(function);
    // In a nested loop the copies would have to wait in each iteration of the outer loop.
    if reused.any(|block| tmem_mma_buffers::has_tmem_mma(function) || tma_pipelines::is_nested(function, block)) {
        return Err("the buffers that a loop fills share memory with ops before the loop".into());
    }
    Ok(())
}

/// Returns whether registers suffice for a producer warp at the occupancy that shared memory allows.
pub(crate) fn has_warp_assignment(function: &Function, target: Target, choice: FeatureChoice) -> bool {
    warp_assignment(function, &MmaWarps::default(), target, choice).is_ok()
}

/// Returns whether threads have the registers that they need if this many CTAs are resident.
pub(crate) fn has_registers(function: &Function, ctas: u32, target: Target) -> bool {
    role_registers::warp_assignment(function, &MmaWarps::default(), ctas, target, FeatureChoice::WherePossible)
        .is_ok_and(|warp_assignment| warp_assignment.is_ample)
}

/// Returns whether threads have the registers that they need if this many CTAs are resident, without a producer warp.
pub(crate) fn has_registers_without_roles(function: &Function, ctas: u32, target: Target) -> bool {
    role_registers::has_registers_without_helpers(function, ctas, target)
}

/// Splits a function into warp roles.
pub(crate) fn run(
    function: &mut Function,
    layouts: &mut Arena<LayoutId, Layout>,
    target: Target,
    choices: RoleChoices,
) -> Result<Overlap, Reason> {
    early_returns::run(function);
    let (WarpAssignment { warp_roles: warp_assignment, resident_ctas, .. }, mma_warps, overlap) =
        mma_warp_assignment(function, target, choices)?;
    let roles = Roles::assign(function, &mma_warps);
    let slices: Vec<RoleSlice> =
        warp_assignment.iter().map(|(role, _)| RoleSlice::compute(&roles, *role)).collect::<Result<_, Reason>>()?;
    slices.iter().filter(|slice| !slice.role().computes()).try_for_each(|slice| op_roles::check_scalar_role(&roles, slice))?;
    let pipelines = assigned_pipelines(&roles, &warp_assignment);
    function.attrs.pipelines = pipelines;
    function.attrs.program.warps = warp_assignment.iter().map(|(_, info)| info.first_warp + info.warps).max().unwrap_or(0);
    // With a higher occupancy than shared memory allows, registers would stay unused.
    let hinted = function.attrs.program.occupancy;
    if hinted.is_some_and(|hinted| hinted > resident_ctas)
        || resident_ctas > 1 && warp_assignment.iter().any(|(_, info)| info.registers.is_some())
    {
        function.attrs.program.occupancy = Some(resident_ctas);
    }
    warp_assignment.into_iter().for_each(|(_, info)| _ = function.attrs.warp_roles.push(info));
    role_bodies::write(function, &slices, layouts);
    Ok(overlap)
}

/// Records, for each pipeline, the roles that execute its ops as producer and consumers, and the arrival counts that follow from
/// their threads.
fn assigned_pipelines(roles: &Roles<'_>, warp_assignment: &[(RoleKind, WarpRoleInfo)]) -> Arena<Pipeline, PipelineInfo> {
    let warp_role = |role: &RoleKind| {
        let at = warp_assignment.iter().position(|(other, _)| other == role).expect("each role that has steps has warps");
        (WarpRole(at as u32), warp_assignment[at].1.threads())
    };
    let mut pipelines = roles.function().attrs.pipelines.clone();
    for (info, pipeline) in pipelines.values_mut().zip(roles.function().attrs.pipelines.ids()) {
        let [fills, drains] = [roles.filling_roles(pipeline), roles.draining_roles(pipeline)];
        let (producer, filling) = warp_role(&fills[0]);
        if !drains.contains(&fills[0]) && info.drain == Drain::Threads {
            info.drain = Drain::Warps;
        }
        info.producer = producer;
        info.full = if info.fills_alone() { 1 } else { filling };
        info.consumers = drains.iter().map(|role| warp_role(role).0).collect();
        info.empty = drains.iter().map(|role| info.release_arrivals(warp_role(role).1)).sum();
    }
    pipelines
}
