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

mod compute_warpgroups;
mod early_returns;
mod mma_warps;
mod op_roles;
mod role_bodies;
mod role_registers;
mod role_slice;
pub(crate) mod share_pipelines;

use crate::{alloc, tma_pipelines, tmem_alloc, tmem_pipelines};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Op;
use base::{Arena, Envelope, Target};
pub(crate) use compute_warpgroups::ComputeGroups;
use mma_warps::MmaWarps;
pub(crate) use op_roles::Order;
use op_roles::{RoleKind, Roles};
use role_registers::WarpAssignment;
use role_slice::Slice;
use sched::{Drain, Function, LoopSchedule, Pipeline, PipelineInfo, ScheduleEntry, WarpRole, WarpRoleInfo};
use std::collections::BTreeMap;
use tileas::layout::{Layout, LayoutId};

/// The reason a function keeps a single role.
pub(crate) type Why = String;

/// `Ok` if two warp roles issue the tensor memory MMAs. Otherwise the reason why only one does.
pub(crate) type Overlap = Result<(), Why>;

/// A function split into roles, the layouts of its module extended by those that the roles need, and the result for two MMA
/// warps.
pub(crate) type Divided = Result<(Function, Arena<LayoutId, Layout>, Overlap), Why>;

/// Whether a feature, such as a producer warp, is off, automatic or forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FeatureChoice {
    Never,
    WherePays,
    WherePossible,
}

impl FeatureChoice {
    pub(crate) fn of(envelope: &Envelope) -> FeatureChoice {
        FeatureChoice::named(envelope.options.get("roles"))
    }
    /// The value of `--overlap`: whether two roles may issue tensor memory MMAs.
    pub(crate) fn overlap(envelope: &Envelope) -> FeatureChoice {
        FeatureChoice::named(envelope.options.get("overlap"))
    }
    fn named(word: Option<&str>) -> FeatureChoice {
        match word {
            Some("off") => FeatureChoice::Never,
            Some("on") => FeatureChoice::WherePossible,
            _ => FeatureChoice::WherePays,
        }
    }
}

/// Returns whether the function has TMA copies, which a producer warp could issue.
pub(crate) fn has_copies(function: &Function) -> bool {
    function.body.walk(function.region).iter().any(|op| tma_pipelines::filled(&function.body.ops[*op].kind).is_some())
}

/// Checks that a function can be split, as far as is known before its loops are materialized.
pub(crate) fn check(function: &Function) -> Result<(), Why> {
    op_roles::check(function)
}

/// The ops during which one of two compute roles has the special function units to itself, with the index of that role. Empty for
/// one compute role.
pub(crate) fn alternating_pairs(function: &Function) -> BTreeMap<Op, usize> {
    ComputeGroups::of(function).map(|groups| groups.alternating_pairs(function)).unwrap_or_default()
}

/// The remark about a function: its roles if it has been split, or the reason against the split.
pub(crate) fn remark(function: &Function, divided: Result<&Overlap, &Why>) -> LogEntry {
    let has = |role: RoleKind| function.attrs.warp_roles.values().any(|info| info.name == role.name());
    let mmas = match divided {
        _ if !has(RoleKind::Mma(0)) => String::new(),
        _ if has(RoleKind::Compute(1)) => "; two compute roles alternate, each with an MMA warp of its own".into(),
        Ok(Err(reason)) => format!("; one warp role issues the tensor memory MMAs, not two: {reason}"),
        _ => {
            "; two warp roles issue the tensor memory MMAs: the first MMAs of an iteration run during the previous iteration".into()
        }
    };
    let stores = if has(RoleKind::Store) { ", and so do TMA stores" } else { "" };
    let (outcome, message) = match divided {
        Ok(_) => (Outcome::Passed, format!("TMA copies have a warp role of their own{stores}{mmas}")),
        Err(reason) => (Outcome::Declined, format!("TMA copies have no warp role of their own: {reason}")),
    };
    let (pass, name, category) = ("materialize".into(), "Specialised".into(), Category::Other);
    LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc }
}

/// Returns schedules that issue each TMA copy at the start of the iteration that needs it. Reason: a producer warp runs ahead
/// without a prefetch distance. Copies that fill a buffer in alternation keep their place.
pub(crate) fn without_prefetch(function: &Function, schedules: &[LoopSchedule]) -> Vec<LoopSchedule> {
    let mut all = tma_pipelines::schedules(function, schedules);
    for schedule in &mut all {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let (ops, last) = (&function.body.blocks[block].ops, schedule.last_stage());
        let alternating = tma_pipelines::filled_alternately(function, block);
        let by_tma = |entry: &ScheduleEntry| {
            let filled = ops.get(entry.op as usize).and_then(|op| tma_pipelines::filled(&function.body.ops[*op].kind));
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
    all
}

fn warp_assignment(
    function: &Function,
    mma_warps: &MmaWarps,
    target: Target,
    choice: FeatureChoice,
) -> Result<WarpAssignment, Why> {
    // Without a producer warp, the compute role could issue an alternating copy only after MMAs have read the previous one. So
    // split the function if possible, even if too few registers are left.
    let choice = if tma_pipelines::are_filled_alternately(function) { choice.max(FeatureChoice::WherePossible) } else { choice };
    let ctas = alloc::resident(&function.attrs, target).min(blocks(function, target));
    role_registers::warp_assignment(function, mma_warps, ctas, (target, choice))
}

/// Assigns two MMA warps if that pays and the second one does not take registers that other roles need.
fn mma_warp_assignment(
    function: &Function,
    target: Target,
    [choice, overlap]: [FeatureChoice; 2],
) -> Result<(WarpAssignment, MmaWarps, Overlap), Why> {
    let one = warp_assignment(function, &MmaWarps::default(), target, choice)?;
    let mma_warps = match overlap {
        FeatureChoice::Never => Err("--overlap=off".into()),
        _ => MmaWarps::in_groups(function).or_else(|_| MmaWarps::of(function)),
    };
    let two = mma_warps.and_then(|mma_warps| {
        let two = warp_assignment(function, &mma_warps, target, choice)?;
        let pays = overlap == FeatureChoice::WherePossible || two.is_ample || !one.is_ample;
        if pays { Ok((two, mma_warps)) } else { Err("another warp leaves the other roles too few registers".into()) }
    });
    Ok(match two {
        Ok((two, mma_warps)) => (two, mma_warps, Ok(())),
        Err(reason) => (one, MmaWarps::default(), Err(reason)),
    })
}

/// Returns the CTAs per SM for which registers suffice, but at least the author's occupancy hint. With tensor memory MMAs the
/// accumulators take no registers, so the number of TMEM columns decides.
pub(crate) fn blocks(function: &Function, target: Target) -> u32 {
    match tmem_pipelines::has_mma(function) {
        true => tmem_alloc::resident(function, target),
        false => role_registers::resident(function, target).max(function.attrs.program.occupancy.unwrap_or(1)),
    }
}

/// Checks that a producer warp can fill the stages without waiting for earlier uses of their memory.
pub(crate) fn check_memory(function: &Function) -> Result<(), Why> {
    let mut reused = tma_pipelines::after_others(function);
    // In a nested loop the copies would have to wait in each iteration of the outer loop.
    if reused.any(|block| tmem_pipelines::has_mma(function) || tma_pipelines::is_nested(function, block)) {
        return Err("the buffers that a loop fills share memory with ops before the loop".into());
    }
    Ok(())
}

/// Returns whether registers suffice for a producer warp at the occupancy that shared memory allows.
pub(crate) fn has_warp_assignment(function: &Function, target: Target, choice: FeatureChoice) -> bool {
    warp_assignment(function, &MmaWarps::default(), target, choice).is_ok()
}

/// Returns whether threads have the registers that they need if this many CTAs are resident.
pub(crate) fn has_registers(function: &Function, blocks: u32, target: Target) -> bool {
    role_registers::warp_assignment(function, &MmaWarps::default(), blocks, (target, FeatureChoice::WherePossible))
        .is_ok_and(|warp_assignment| warp_assignment.is_ample)
}

/// Splits a function into warp roles.
pub(crate) fn run(
    function: &mut Function,
    layouts: &mut Arena<LayoutId, Layout>,
    target: Target,
    choice: [FeatureChoice; 2],
) -> Result<Overlap, Why> {
    early_returns::run(function);
    let (WarpAssignment { warp_roles: warp_assignment, resident, .. }, mma_warps, overlap) =
        mma_warp_assignment(function, target, choice)?;
    let roles = Roles::of(function, &mma_warps);
    let slices: Vec<Slice> = warp_assignment.iter().map(|(role, _)| Slice::of(&roles, *role)).collect::<Result<_, Why>>()?;
    slices.iter().filter(|slice| !slice.role().computes()).try_for_each(|slice| op_roles::is_scalar(&roles, slice))?;
    let pipelines = assigned_pipelines(&roles, &warp_assignment);
    function.attrs.pipelines = pipelines;
    function.attrs.program.warps = warp_assignment.iter().map(|(_, info)| info.first_warp + info.warps).max().unwrap_or(0);
    // A higher occupancy than shared memory allows would leave registers unused.
    let hinted = function.attrs.program.occupancy;
    if hinted.is_some_and(|hinted| hinted > resident)
        || resident > 1 && warp_assignment.iter().any(|(_, info)| info.registers.is_some())
    {
        function.attrs.program.occupancy = Some(resident);
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
        let [fills, drains] = [roles.fills(pipeline), roles.drains(pipeline)];
        let (producer, filling) = warp_role(&fills[0]);
        if !drains.contains(&fills[0]) && info.drain == Drain::Threads {
            info.drain = Drain::Warps;
        }
        info.producer = producer;
        info.full = if info.fills_alone() { 1 } else { filling };
        info.consumers = drains.iter().map(|role| warp_role(role).0).collect();
        info.empty = drains.iter().map(|role| info.releases(warp_role(role).1)).sum();
    }
    pipelines
}
