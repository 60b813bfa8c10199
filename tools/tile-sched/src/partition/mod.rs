//! Gives the copies that the copy engine makes to an warp_role of their own, which runs ahead of the one that computes as far as
//! there are free stages; and the mmas in tensor memory to another one, which runs as far ahead as what it has_mma is there.
//!
//! What threads do is that of one warp_role, or where it is in two components of two ([`ComputeGroups`]).
//!
//! Requires: a function of one warp_role, complete with waits, barriers and fences, that fills every entry in the iteration that reads it
//! ([`unhurried`]). Establishes: a body for each warp_role, with what it does and what that needs; what several need of scalars and
//! views is computed before. [`op_roles`] and [`mod@slice`] decide, [`role_bodies`] rewrites, [`role_registers`] says how the warps share
//! those; [`share_pipelines`] comes before everything is decided.

mod compute_warpgroups;
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

/// Why a function stays that of one warp_role.
pub(crate) type Why = String;

/// Whether mmas in tensor memory have two warp_roles, or why one is enough.
pub(crate) type Overlap = Result<(), Why>;

/// A function that is divided, with the layouts of its module and its own.
pub(crate) type Divided = Result<(Function, Arena<LayoutId, Layout>, Overlap), Why>;

/// Whether something has an warp_role of its own, such as the copy engine's copies.
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
    /// Whether mmas in tensor memory have two warp_roles: what `--overlap` says.
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

/// Whether there is anything that could be given away.
pub(crate) fn has_copies(function: &Function) -> bool {
    function.body.walk(function.region).iter().any(|op| tma_pipelines::filled(&function.body.ops[*op].kind).is_some())
}

/// Whether a function has something to give away, as far as can be told before it is woven.
pub(crate) fn check(function: &Function) -> Result<(), Why> {
    op_roles::check(function)
}

/// The ops during which one of two warp_roles that compute has the special functions to itself, and whose each is; none where one computes.
pub(crate) fn alternating_pairs(function: &Function) -> BTreeMap<Op, usize> {
    ComputeGroups::of(function).map(|groups| groups.alternating_pairs(function)).unwrap_or_default()
}

/// What the log says of a function, which is divided already where it can be.
pub(crate) fn told(function: &Function, divided: Result<&Overlap, &Why>) -> LogEntry {
    let has = |role: RoleKind| function.attrs.warp_roles.values().any(|info| info.name == role.name());
    let mmas = match divided {
        _ if !has(RoleKind::Mma(0)) => String::new(),
        _ if has(RoleKind::Compute(1)) => {
            ", and two warp_roles compute, each with mmas of its own that another one asks for".into()
        }
        Ok(Err(why)) => format!(", and mmas in tensor memory another one, not two: {why}"),
        _ => ", and mmas in tensor memory two: those that a iteration begins with are made during the iteration before".into(),
    };
    let stores = if has(RoleKind::Store) { ", and its stores one more" } else { "" };
    let (outcome, message) = match divided {
        Ok(_) => (Outcome::Passed, format!("the copy engine's copies have an warp_role of their own{stores}{mmas}")),
        Err(why) => (Outcome::Declined, format!("the copies have no warp_role of their own: {why}")),
    };
    let (pass, name, category) = ("materialize".into(), "Specialised".into(), Category::Other);
    LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc: function.loc }
}

/// Schedules that make each copy by tma_copies at the start of the iteration that needs it, but for those that fill a buffer in turn: an warp_role
/// of its own runs ahead by itself.
pub(crate) fn unhurried(function: &Function, schedules: &[LoopSchedule]) -> Vec<LoopSchedule> {
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

fn warp_assignment(function: &Function, lines: &MmaWarps, target: Target, choice: FeatureChoice) -> Result<WarpAssignment, Why> {
    // Who computes could only ask for a copy that takes turns with others when mmas have read the one before.
    let choice = if tma_pipelines::are_filled_alternately(function) { choice.max(FeatureChoice::WherePossible) } else { choice };
    let resident = alloc::resident(&function.attrs, target).min(blocks(function, target));
    role_registers::warp_assignment(function, lines, resident, (target, choice))
}

/// Two warp_roles for mmas where that pays, and one of them does not take registers that others need.
fn mma_warp_assignment(
    function: &Function,
    target: Target,
    [choice, overlap]: [FeatureChoice; 2],
) -> Result<(WarpAssignment, MmaWarps, Overlap), Why> {
    let one = warp_assignment(function, &MmaWarps::default(), target, choice)?;
    let lines = match overlap {
        FeatureChoice::Never => Err("--overlap=off".into()),
        _ => MmaWarps::in_groups(function).or_else(|_| MmaWarps::of(function)),
    };
    let two = lines.and_then(|lines| {
        let two = warp_assignment(function, &lines, target, choice)?;
        let pays = overlap == FeatureChoice::WherePossible || two.is_ample || !one.is_ample;
        if pays { Ok((two, lines)) } else { Err("a warp more leaves others too few registers".into()) }
    });
    Ok(match two {
        Ok((two, lines)) => (two, lines, Ok(())),
        Err(why) => (one, MmaWarps::default(), Err(why)),
    })
}

/// The blocks that registers have capacity for on a multiprocessor, and at least as many as the author asks for. Accumulator in tensor memory
/// take none, but columns.
pub(crate) fn blocks(function: &Function, target: Target) -> u32 {
    match tmem_pipelines::has_mma(function) {
        true => tmem_alloc::resident(function, target),
        false => role_registers::resident(function, target).max(function.attrs.program.occupancy.unwrap_or(1)),
    }
}

/// Whether stages are where an warp_role of their own can fill them.
pub(crate) fn check_memory(function: &Function) -> Result<(), Why> {
    let mut shared = tma_pipelines::after_others(function);
    // In a loop inside another one the copies would have to wait in each iteration.
    if shared.any(|block| tmem_pipelines::has_mma(function) || tma_pipelines::is_nested(function, block)) {
        return Err("what a loop copies shares its memory with something before the loop".into());
    }
    Ok(())
}

/// Whether there are registers for another warp_role beside the blocks that shared memory has capacity for.
pub(crate) fn has_warp_assignment(function: &Function, target: Target, choice: FeatureChoice) -> bool {
    warp_assignment(function, &MmaWarps::default(), target, choice).is_ok()
}

/// Whether threads have the registers that they need where so many blocks are at a time.
pub(crate) fn has_registers(function: &Function, blocks: u32, target: Target) -> bool {
    role_registers::warp_assignment(function, &MmaWarps::default(), blocks, (target, FeatureChoice::WherePossible))
        .is_ok_and(|warp_assignment| warp_assignment.is_ample)
}

/// Divides a function among warp_roles.
pub(crate) fn run(
    function: &mut Function,
    layouts: &mut Arena<LayoutId, Layout>,
    target: Target,
    choice: [FeatureChoice; 2],
) -> Result<Overlap, Why> {
    let (WarpAssignment { warp_roles: warp_assignment, resident, .. }, lines, overlap) =
        mma_warp_assignment(function, target, choice)?;
    let roles = Roles::of(function, &lines);
    let slices: Vec<Slice> = warp_assignment.iter().map(|(role, _)| Slice::of(&roles, *role)).collect::<Result<_, Why>>()?;
    slices.iter().filter(|slice| !slice.role().computes()).try_for_each(|slice| op_roles::is_scalar(&roles, slice))?;
    let pipelines = assigned_pipelines(&roles, &warp_assignment);
    function.attrs.pipelines = pipelines;
    function.attrs.program.warps = warp_assignment.iter().map(|(_, info)| info.first_warp + info.warps).max().unwrap_or(0);
    // Registers for more blocks than shared memory has capacity for would be left over.
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

/// Each pipeline has those as its producer and consumers who do its steps.
fn assigned_pipelines(roles: &Roles<'_>, warp_assignment: &[(RoleKind, WarpRoleInfo)]) -> Arena<Pipeline, PipelineInfo> {
    let warp_role = |role: &RoleKind| {
        let at = warp_assignment.iter().position(|(other, _)| other == role).expect("an warp_role of each role that has steps");
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
