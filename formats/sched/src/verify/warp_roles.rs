//! Rules for warp roles and pipelines: the tables, the placement of the bodies, and the ops allowed in each body.

use super::{NAMED_BARRIERS, require};
use crate::Op;
use crate::module::{Drain, Fill, Function, FunctionAttrs, PipelineInfo, WarpRole, WarpRoleInfo};
use crate::phase::Phase;
use crate::pipeline_step::PipelineStep;
use base::ir::Op as OpId;
use base::{Loc, Target, Value};
use core_dialect::core_ops::{Core, Effect};
use core_dialect::rules::RuleResult;
use core_dialect::tile::Elem;
use numerics::Scalar;
use std::collections::BTreeSet;
use tileas::verify::ExecutedRegion;
use tileas::{MmaAtom, Type};

/// The number of warps of a warp group (PTX ISA). The warps of a group set register counts and issue wgmma ops together.
const WARPS_PER_GROUP: u32 = 4;
/// Maximum arrivals that an mbarrier can count (PTX ISA).
const MAX_ARRIVALS: u32 = (1 << 20) - 1;
/// Maximum bytes that an mbarrier can count: the limit of its transaction count (PTX ISA).
const MAX_BYTES: u64 = (1 << 20) - 1;

/// The regions that warp roles execute, with their warps.
pub(super) fn role_regions(function: &Function) -> Vec<ExecutedRegion> {
    let executed_region = |op: &Op| match op {
        Op::WarpRole { role: warp_role, body } => {
            Some((*body, function.attrs.warp_roles.get(*warp_role).map_or(0, |info| info.warps)))
        }
        _ => None,
    };
    function.body.ops.values().filter_map(|op| executed_region(&op.kind)).collect()
}

/// By op number, the warp role whose body contains the op; `None` for an op outside all bodies.
pub(super) fn executing_roles(function: &Function) -> Vec<Option<WarpRole>> {
    let mut roles = vec![None; function.body.ops.len()];
    for op in function.body.ops.values() {
        if let Op::WarpRole { role: warp_role, body } = &op.kind {
            function.body.walk(*body).into_iter().for_each(|op| roles[op.0 as usize] = Some(*warp_role));
        }
    }
    roles
}

/// Checks the table of warp roles: names, warps and registers.
pub(super) fn check_roles(function: &Function, phase: Phase, target: Target) -> RuleResult {
    let FunctionAttrs { warp_roles, pipelines, program, .. } = &function.attrs;
    let too_early = |what: &str| format!("there are no {what} in phase {}", phase.name());
    require(phase >= Phase::WarpRoles || warp_roles.is_empty(), || too_early("warp roles"))?;
    require(phase.has_pipelined_loops() || pipelines.is_empty(), || too_early("pipelines"))?;
    require((warp_roles.len() as u32) < NAMED_BARRIERS, || {
        format!("each warp role has a barrier, and there are {NAMED_BARRIERS} with the CTA's")
    })?;
    let mut has_role = vec![false; program.warps as usize];
    for (warp_role, info) in warp_roles.iter() {
        require(info.warps > 0, || format!("{warp_role} has no warps"))?;
        let end = info.first_warp.checked_add(info.warps).filter(|end| *end <= program.warps);
        let end = end.ok_or_else(|| format!("{warp_role} has warps beyond the {} of the CTA", program.warps))?;
        for warp in &mut has_role[info.first_warp as usize..end as usize] {
            require(!std::mem::replace(warp, true), || format!("{warp_role} has warps of another warp role"))?;
        }
        let roles_with_name = warp_roles.values().filter(|other| other.name == info.name).count();
        require(roles_with_name == 1 && !info.name.is_empty(), || format!("{warp_role} has no name of its own"))?;
    }
    check_registers(&function.attrs, target)
}

/// Checks the register counts that warp roles set (`setmaxnreg`). All warps of a warp group set the same count. The warps of the
/// CTA together use no more registers than at launch.
fn check_registers(attrs: &FunctionAttrs, target: Target) -> RuleResult {
    let registers_of_warp =
        |warp: u32| attrs.warp_roles.values().find(|info| contains_warp(info, warp)).and_then(|info| info.registers);
    let warps = attrs.program.warps;
    if (0..warps).all(|warp| registers_of_warp(warp).is_none()) {
        return Ok(());
    }
    require(tileas::budget::has_setmaxnreg(target), || format!("{target} cannot move registers between warps"))?;
    let mut registers_in_use = 0;
    let launch_registers = attrs.launch_registers(target);
    for first_warp in (0..warps).step_by(WARPS_PER_GROUP as usize) {
        let registers_of_group: Vec<Option<u32>> =
            (first_warp..warps.min(first_warp + WARPS_PER_GROUP)).map(registers_of_warp).collect();
        let is_uniform = registers_of_group.len() == WARPS_PER_GROUP as usize
            && registers_of_group.iter().all(|other| *other == registers_of_group[0]);
        require(is_uniform || registers_of_group.iter().all(Option::is_none), || {
            format!("warps {first_warp} to {} of one warp group have different register counts", first_warp + WARPS_PER_GROUP - 1)
        })?;
        let thread_registers = registers_of_group[0].unwrap_or(launch_registers);
        require(
            registers_of_group[0].is_none() || thread_registers.is_multiple_of(8) && (24..=256).contains(&thread_registers),
            || format!("a thread has a multiple of 8 registers from 24 to 256, not {thread_registers}"),
        )?;
        registers_in_use += thread_registers * registers_of_group.len() as u32;
    }
    let registers_at_launch = launch_registers * warps;
    require(registers_in_use <= registers_at_launch, || {
        format!("the warp roles use more registers than the {launch_registers} per thread at launch")
    })
}

/// Whether a warp belongs to a role.
fn contains_warp(info: &WarpRoleInfo, warp: u32) -> bool {
    (info.first_warp..info.first_warp + info.warps).contains(&warp)
}

/// Checks the table of pipelines. No two pipelines share buffers or barriers. A pipeline that threads fill may have no buffers and
/// only signal.
pub(super) fn check_pipelines(function: &Function, target: Target) -> RuleResult {
    let attrs = &function.attrs;
    let mut occupied_ranges: Vec<(u64, u64)> = Vec::new();
    if !attrs.pipelines.is_empty() {
        let buffer_ranges = attrs.placements.iter().filter_map(|(buffer, place)| {
            let bytes = u64::from(attrs.program.buffers[buffer].bytes()) * u64::from(place.depth);
            (bytes > 0).then(|| (u64::from(place.offset), u64::from(place.offset) + bytes))
        });
        occupied_ranges.extend(buffer_ranges);
    }
    crate::cta_pairs::check_cta_pair(function).map_err(|why| format!("the CTAs cannot be a pair: {why}"))?;
    let mut in_pipeline = BTreeSet::new();
    for (pipeline, info) in attrs.pipelines.iter() {
        let PipelineInfo { buffers, depth, producer, consumers, full, empty, barriers, fill, drain, multicast } = info;
        let may_signal = *fill == Fill::Threads && *drain != Drain::Mma;
        require((may_signal || !buffers.is_empty()) && *depth > 0, || format!("{pipeline} has no stages"))?;
        let bytes = buffers.iter().filter_map(|buffer| attrs.program.buffers.get(*buffer)).map(|info| u64::from(info.bytes()));
        let counted = *fill != Fill::Tma || bytes.sum::<u64>() <= MAX_BYTES;
        require(counted, || format!("{pipeline}: a barrier counts up to {MAX_BYTES} bytes"))?;
        let of_cta_pair = *fill == Fill::Mma || *fill == Fill::Tma && *drain == Drain::Mma && multicast.is_none();
        require(!attrs.is_of_cta_pair(info) || of_cta_pair, || {
            format!("{pipeline}: the MMAs of a CTA pair need operands from TMA")
        })?;
        require(multicast.as_ref().is_none_or(|all| !all.is_empty()), || {
            format!("{pipeline}: the cluster multicasts into none of its buffers")
        })?;
        for buffer in multicast.iter().flatten() {
            let is_of_pipeline = require(buffers.contains(buffer), || format!("{pipeline}: {buffer} is none of its buffers"));
            let rule = is_of_pipeline
                .and_then(|()| crate::multicast::check_multicast(function, info, *buffer, target).map_err(Into::into));
            rule.map_err(|why| format!("{pipeline}: the cluster cannot multicast into {buffer}: {why}"))?;
        }
        for buffer in buffers {
            let place = attrs.placements.get(*buffer).ok_or_else(|| format!("{pipeline}: {buffer} is not in the table"))?;
            require(place.depth == *depth, || format!("{pipeline} has {depth} stages, and {buffer} has {}", place.depth))?;
            require(in_pipeline.insert(*buffer), || format!("{buffer} is in two pipelines"))?;
        }
        let is_in_table = |warp_role: &WarpRole| attrs.role_threads(*warp_role).is_some();
        require(is_in_table(producer) && consumers.iter().all(is_in_table), || {
            format!("{pipeline}: a warp role is not in the table")
        })?;
        let distinct = consumers.iter().collect::<BTreeSet<_>>().len() == consumers.len() && !consumers.is_empty();
        require(distinct, || format!("{pipeline} has no consumer, or one twice"))?;
        let counted = [full, empty].iter().all(|count| (1..=MAX_ARRIVALS).contains(*count));
        require(counted, || format!("{pipeline}: a barrier counts 1 to {MAX_ARRIVALS} arrivals"))?;
        let (start, end) =
            (u64::from(*barriers), u64::from(*barriers) + u64::from(PipelineInfo::BARRIER_BYTES) * 2 * u64::from(*depth));
        let inside = end <= u64::from(attrs.shared_bytes) && barriers.is_multiple_of(PipelineInfo::BARRIER_BYTES);
        require(inside, || format!("{pipeline}: its barriers do not fit the function's {} bytes", attrs.shared_bytes))?;
        let no_overlap = occupied_ranges.iter().all(|(from, to)| end <= *from || *to <= start);
        require(no_overlap, || format!("{pipeline}: its barriers lie where something else does"))?;
        occupied_ranges.push((start, end));
    }
    Ok(())
}

/// Checks that the bodies are at the end of the function, one for each warp role, in the order of the table. Ops before them only
/// compute common scalars and views. A body returns at its end, and nowhere else.
pub(super) fn check_bodies(function: &Function) -> std::result::Result<(), (Loc, String)> {
    let (body, warp_roles) = (&function.body, &function.attrs.warp_roles);
    let entry_ops = &body.blocks[function.entry()].ops;
    let is_body = |op: &OpId| matches!(body.ops[*op].kind, Op::WarpRole { .. });
    let body_count = body.ops.iter().filter(|(id, _)| is_body(id)).count();
    if body_count == 0 && warp_roles.is_empty() {
        return Ok(());
    }
    let error_at = |op: OpId, message: &str| (body.ops[op].loc, message.to_string());
    let first_body = entry_ops.len().saturating_sub(warp_roles.len() + 1);
    let in_place = entry_ops[first_body..entry_ops.len() - 1]
        .iter()
        .enumerate()
        .all(|(i, op)| matches!(body.ops[*op].kind, Op::WarpRole { role: warp_role, .. } if warp_role == WarpRole(i as u32)));
    if body_count != warp_roles.len() || !in_place {
        return Err((function.loc, "the function does not end in a body for each warp role of its table, in order".into()));
    }
    for op in &entry_ops[..first_body] {
        if !body.ops[*op].kind.is_pure() {
            return Err(error_at(*op, "code before the bodies of warp roles may only compute common scalars and views"));
        }
    }
    for op in &entry_ops[first_body..entry_ops.len() - 1] {
        let Op::WarpRole { body: region, .. } = body.ops[*op].kind else { unreachable!("it is a body") };
        let block = body.block_of(region);
        if !body.blocks[block].args.is_empty() || !body.ops[*op].results.is_empty() {
            return Err(error_at(*op, "the body of a warp role has no arguments and no results"));
        }
        let last = body.terminator(block);
        for inner in body.walk(region) {
            let kind = &body.ops[inner].kind;
            let returns = matches!(kind.core(), Some(Core::Return {}));
            if returns != (Some(inner) == last) {
                return Err(error_at(inner, "the body of a warp role returns at its end, and nowhere else"));
            }
            if kind.effects().core_effect == Effect::Allocates {
                return Err(error_at(inner, "a warp role cannot allocate memory"));
            }
        }
    }
    Ok(())
}

/// Checks that the warps of a role that issues wgmma ops or accesses tensor memory start at a warp-group boundary.
pub(super) fn check_program_op(attrs: &FunctionAttrs, op: &tileas::Op, warp_role: Option<WarpRole>) -> RuleResult {
    let Some(warp_role) = warp_role else { return Ok(()) };
    let is_aligned = attrs.warp_roles[warp_role].first_warp.is_multiple_of(WARPS_PER_GROUP);
    // Four warps together also cover all lanes of tensor memory.
    let needs_warp_group = matches!(
        op,
        tileas::Op::Mma { atom: MmaAtom::Group(_), .. }
            | tileas::Op::TmemLoad { .. }
            | tileas::Op::TmemStore { .. }
            | tileas::Op::TmemScale { .. }
    );
    require(is_aligned || !needs_warp_group, || format!("the warps of {warp_role} are not whole warp groups"))
}

/// Checks that a warp role executes only pipeline steps of its side (producer or consumer). A step must name a stage if the
/// pipeline has several stages.
pub(super) fn check_pipeline_step(function: &Function, step: PipelineStep, warp_role: Option<WarpRole>) -> RuleResult {
    let is_i32 = |value: &Value| *function.body.ty(*value) == Type::Scalar(Elem::Scalar(Scalar::I32));
    let PipelineStep { pipeline, stage, phase, .. } = step;
    let info = function.attrs.pipelines.get(pipeline).ok_or_else(|| format!("{pipeline} is not in the table"))?;
    require(stage.is_some() == (info.depth > 1), || format!("{pipeline} has {}", stage_count_message(info)))?;
    require(stage.iter().chain(&phase).all(is_i32), || "stage and phase are 32-bit integers".into())?;
    let warp_role = match function.attrs.warp_roles.is_empty() {
        true => WarpRole(0),
        false => warp_role.ok_or("it is in no warp role's body")?,
    };
    let fits = if step.is_of_producer() { info.producer == warp_role } else { info.consumers.contains(&warp_role) };
    require(fits, || format!("{warp_role} is no {} of {pipeline}", if step.is_of_producer() { "producer" } else { "consumer" }))
}

/// The message if an op does not name a stage as the pipeline requires.
fn stage_count_message(info: &PipelineInfo) -> String {
    match info.depth {
        1 => "one stage, which has no number".into(),
        depth => format!("{depth} stages, and the op does not name one"),
    }
}
