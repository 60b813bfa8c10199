//! Verifier rules of `.sched` files. Code that receives a verified module may index its tables without bounds checks.
//!
//! | code | rule |
//! |---|---|
//! | AS… | the program keeps the rules of `.as` ([`tileas::verify`]) |
//! | SC001 | the phase is one of `.sched` |
//! | SC006 | from phase `alloc` on, every buffer has an aligned place in the function's memory, and the target has enough memory |
//! | SC007 | there is no synchronisation before phase `pipeline-loops`; accesses to staged buffers name a stage |
//! | SC008 | a schedule is of an existing loop, names each of its ops once, and has no more stages than a staged buffer can have |
//! | SC009 | warp roles divide the warps of the CTA and their registers; each has a body at the end of the function |
//! | SC010 | pipelines have stages, barriers and buffers of their own, and existing warp roles |
//! | SC011 | packed, versioned and prefetched ops are legal, and the target has their instructions |
//! | SC012 | heap memory is freed, tiles are printed and TMA stores are issued only after the synchronisation that they need |
//! | SC13… | waits, barriers and placements satisfy the program's dependences ([`crate::hazard_checker`]) |
//!
//! `tile-sched` itself checks that a schedule keeps the dependences of its loop and fits the machine model.

mod warp_roles;

use crate::module::{Function, LoopSchedule, Module, TensorMemory};
use crate::phase::Phase;
use crate::{FunctionAttrs, Op, PipelineInfo, WarpRole};
use base::diag::{Diagnostic, Place, Result};
use base::ir::{OpNode, Operation};
use base::{Arena, Envelope, Loc, Target};
use core_dialect::rules::{RuleResult, require};
use core_dialect::tile::Elem;
use numerics::Scalar;
use tileas::effects::{BufferAccess, Completes, Effects};
use tileas::layout::{Layout, LayoutId};
use tileas::tensor_memory::MIN_ALLOCATED_COLUMNS;
use tileas::{Space, Type};

/// The number of named barriers of a CTA (PTX ISA).
const NAMED_BARRIERS: u32 = 16;
/// Upper bound of the operand `pending` of `copy_wait`. PTX has no such bound; no program needs as many copy groups in flight.
const MAX_GROUPS: u32 = 1 << 16;
/// Maximum number of stages of a schedule. More stages would need more stages of the copied buffers than fit into shared memory.
const MAX_STAGES: u32 = 64;

/// Checks all rules except hazards ([`crate::hazard_checker::check_module`]). Returns the phase of the file.
pub(crate) fn check_structure(module: &Module, envelope: &Envelope) -> Result<Phase> {
    let target = envelope.target()?;
    let phase = Phase::from_envelope(envelope)
        .ok_or_else(|| Diagnostic::invalid("SC001", format!("'{}' is not a phase of .sched", envelope.phase)))?;
    let Module { layouts, globals, functions, .. } = module;
    tileas::verify::check_program(layouts, globals, functions, warp_roles::role_regions, envelope)?;
    functions.iter().try_for_each(|function| {
        let refuse =
            |code: &str, message: String| Diagnostic::invalid(code, message).at(Place::Entity(format!("func {}", function.name)));
        if phase.has_placements() {
            check_placements(&function.attrs, target)
                .and_then(|()| crate::clc_responses::check_no_overlap(function))
                .map_err(|message| refuse("SC006", message))?;
        }
        warp_roles::check_roles(function, phase, target).map_err(|message| refuse("SC009", message))?;
        warp_roles::check_pipelines(function, target).map_err(|message| refuse("SC010", message))?;
        warp_roles::check_bodies(function).map_err(|(loc, message)| refuse("SC009", message).at_loc(&envelope.debug, loc))?;
        let roles = warp_roles::executing_roles(function);
        check_per_k_step_loads(function, layouts, phase)
            .map_err(|(loc, message)| refuse("SC007", message).at_loc(&envelope.debug, loc))?;
        check_marked_ops(function, phase, layouts, target).map_err(|(loc, message)| {
            let refused = Diagnostic::unsupported("SC011", message).at_loc(&envelope.debug, loc);
            let func = format!("func {}", function.name);
            if refused.place.is_some() { refused.note(format!("in {func}")) } else { refused.at(Place::Entity(func)) }
        })?;
        if phase.is_complete() {
            let order_rules =
                crate::heap_and_print_rules::check_order(function).and_then(|()| crate::tma_store_order::check_waits(function));
            order_rules.map_err(|(loc, message)| {
                Diagnostic::invalid("SC012", format!("in '{}': {message}", function.name)).at_loc(&envelope.debug, loc)
            })?;
        }
        function.body.ops.iter().try_for_each(|(id, op)| {
            let rule = check_op(function, phase, op, roles[id.0 as usize]);
            rule.map_err(|message| refuse("SC007", message).at_loc(&envelope.debug, op.loc))
        })
    })?;
    module.schedules.iter().try_for_each(|schedule| check_schedule(module, phase, schedule))?;
    Ok(phase)
}

/// Checks the entries of a schedule, and that they name the ops of the scheduled loop. From phase `pipeline-loops` on, the loop no
/// longer exists in its scheduled form, so only the entries are checked.
fn check_schedule(module: &Module, phase: Phase, schedule: &LoopSchedule) -> Result<()> {
    let rule = || -> RuleResult {
        let function = module.functions.iter().find(|function| function.name == schedule.function);
        let function = function.ok_or("there is no such function")?;
        require(schedule.interval > 0, || "an iteration starts every 0 cycles".into())?;
        for (at, entry) in schedule.entries.iter().enumerate() {
            let op = entry.op;
            require(op as usize == at, || format!("the table lists op {op} where op {at} belongs; each is listed once, in order"))?;
            require(entry.stage < MAX_STAGES, || format!("op {op} is in stage {}; there are at most {MAX_STAGES}", entry.stage))?;
            let interval = schedule.interval;
            require(entry.cycle < interval, || format!("op {op} starts in cycle {} of {interval}", entry.cycle))?;
        }
        if phase.has_pipelined_loops() {
            return Ok(());
        }
        let block = crate::loop_body(function, schedule.index).ok_or("there is no such loop")?;
        let (listed, ops) = (schedule.entries.len(), function.body.blocks[block].ops.len() - 1);
        require(listed == ops, || format!("the table lists {listed} of {ops} ops"))
    };
    let place = Place::Entity(format!("func {}, loop {}", schedule.function, schedule.index));
    rule().map_err(|message| Diagnostic::invalid("SC008", message).at(place))
}

/// Checks that per-K-step loads are equivalent to loads of full tiles.
fn check_per_k_step_loads(
    function: &Function,
    layouts: &Arena<LayoutId, Layout>,
    phase: Phase,
) -> std::result::Result<(), (Loc, String)> {
    let body = &function.body;
    let (uses, blocks) = (body.use_counts(function.region), body.op_blocks());
    let per_k_step = |op: &OpNode<Op>| matches!(op.kind, Op::Core(tileas::Op::SharedLoad { per_k_step: true, .. }));
    for (id, op) in body.ops.iter().filter(|(_, op)| per_k_step(op)) {
        let refuse = |message: String| (op.loc, format!("shared_load: {message}"));
        if phase < Phase::LazyFragments {
            return Err(refuse(format!("there are no per-K-step loads in phase {}", phase.name())));
        }
        let Some(block) = blocks[id.0 as usize] else { continue };
        crate::lazy_fragments::check_per_k_step_load(function, layouts, &uses, block, id).map_err(|why| refuse(why.into()))?;
    }
    Ok(())
}

/// Checks packed, versioned and prefetched ops.
fn check_marked_ops(
    function: &Function,
    phase: Phase,
    layouts: &Arena<LayoutId, Layout>,
    target: Target,
) -> std::result::Result<(), (Loc, String)> {
    use tileas::Op as Program;
    let blocks = function.body.op_blocks();
    for (id, op) in function.body.ops.iter() {
        let (marking_phase, rule) = match &op.kind {
            Op::Core(Program::SharedLoad { prefetch_next: true, .. }) => {
                let rule =
                    blocks[id.0 as usize].map_or(Ok(()), |block| crate::first_fragments::check_prefetched_loads(function, block));
                (Phase::PrefetchFragments, rule.map_err(|why| format!("it cannot be prefetched: {why}")))
            }
            Op::Pairs { .. } => (Phase::PackedArithmetic, crate::packed_ops::check_packed_op(function, layouts, op, target)),
            Op::Core(
                Program::LoadView { versioned: true, .. }
                | Program::StoreView { versioned: true, .. }
                | Program::ReduceView { versioned: true, .. }
                | Program::CopyView { versioned: true, .. },
            ) => {
                let rule = crate::versioned_accesses::check_versioned_access(function, op);
                let rule = rule.map_err(|why| format!("versioned: it cannot have a version without bounds checks: {why}"));
                (Phase::VersionedAccesses, rule)
            }
            _ => continue,
        };
        let in_phase = require(phase >= marking_phase, || {
            format!("this form is allowed from phase {} on, and the file is at phase {}", marking_phase.name(), phase.name())
        });
        rule.and(in_phase).map_err(|why| (op.loc, format!("{}: {why}", op.kind.mnemonic())))?;
    }
    Ok(())
}

/// Checks that a function's TMEM columns are a valid allocation, and that as many CTAs as the occupancy requires can allocate them.
fn check_tensor_memory(attrs: &FunctionAttrs, target: Target) -> RuleResult {
    let Some(TensorMemory { columns, address }) = attrs.tensor else { return Ok(()) };
    let max_columns = tileas::budget::tmem_columns(target, attrs.program.occupancy.unwrap_or(1));
    require(columns.is_power_of_two() && (MIN_ALLOCATED_COLUMNS..=max_columns).contains(&columns), || {
        format!("the TMEM columns are a power of two from {MIN_ALLOCATED_COLUMNS} to {max_columns}, not {columns}")
    })?;
    let (start, end) = (u64::from(address), u64::from(address) + u64::from(tileas::tensor_memory::WORD_BYTES));
    let inside = end <= u64::from(attrs.shared_bytes) && address.is_multiple_of(tileas::tensor_memory::WORD_BYTES);
    let overlaps_word = |from: u32, bytes: u64| start < u64::from(from) + bytes && u64::from(from) < end;
    let buffer_ranges = attrs.placements.iter().map(|(buffer, place)| {
        let info = &attrs.program.buffers[buffer];
        (place.offset, u64::from(info.bytes()) * u64::from(place.depth))
    });
    let barrier_ranges =
        attrs.pipelines.values().map(|info| (info.barriers, u64::from(2 * PipelineInfo::BARRIER_BYTES) * u64::from(info.depth)));
    let no_overlap = !buffer_ranges.chain(barrier_ranges).any(|(from, bytes)| overlaps_word(from, bytes));
    require(inside && no_overlap, || {
        format!("the word at {address} is outside the function's shared memory, or overlaps something else")
    })
}

/// Checks that every buffer is aligned and within the function's memory.
fn check_placements(attrs: &FunctionAttrs, target: Target) -> RuleResult {
    let (placed, buffers) = (attrs.placements.len(), attrs.program.buffers.len());
    require(placed == buffers, || format!("{placed} of {buffers} buffers have a placement"))?;
    let max_bytes = tileas::budget::shared_memory(target);
    require(attrs.shared_bytes <= max_bytes, || {
        format!("{target} has {max_bytes} bytes of shared memory, not {}", attrs.shared_bytes)
    })?;
    check_tensor_memory(attrs, target)?;
    for (buffer, info) in attrs.program.buffers.iter() {
        let place = attrs.placements[buffer];
        require(place.depth > 0, || format!("{buffer} has no stage"))?;
        if info.space == Space::Tensor {
            let columns = attrs.tensor.map_or(0, |tensor| tensor.columns);
            let end = u64::from(place.offset) + u64::from(info.columns()) * u64::from(place.depth);
            require(end <= u64::from(columns) && place.offset.is_multiple_of(info.align), || {
                format!("{buffer} at {} does not fit the function's {columns} columns or its alignment", place.offset)
            })?;
            continue;
        }
        let end = u64::from(place.offset) + u64::from(info.bytes()) * u64::from(place.depth);
        require(end <= u64::from(attrs.shared_bytes) && place.offset.is_multiple_of(info.align), || {
            format!("{buffer} at {} does not fit the function's {} bytes or its alignment", place.offset, attrs.shared_bytes)
        })?;
    }
    Ok(())
}

/// Checks the rules for the ops of `.sched`, and for properties of `.as` ops that depend on the phase.
fn check_op(function: &Function, phase: Phase, op: &OpNode<Op>, warp_role: Option<WarpRole>) -> RuleResult {
    let attrs = &function.attrs;
    let op_rule = match &op.kind {
        Op::Core(program) => {
            warp_roles::check_program_op(attrs, program, warp_role)?;
            return check_program_op_in_phase(function, phase, &program.effects());
        }
        Op::Pairs { .. } => return Ok(()),
        Op::WarpRole { .. } => Ok(()),
        Op::PipelineAcquire { .. } | Op::PipelineCommit { .. } | Op::PipelineWait { .. } | Op::PipelineRelease { .. } => {
            let step = op.kind.pipeline_step().expect("the op is a pipeline op");
            warp_roles::check_pipeline_step(function, step, warp_role)
        }
        Op::Barrier { id, threads } if !attrs.warp_roles.is_empty() => {
            let role_barrier = warp_role.map(|warp_role| (warp_role.barrier_id(), attrs.warp_roles[warp_role].threads()));
            require(role_barrier == Some((*id, *threads)), || match role_barrier {
                Some((id, threads)) => format!("this warp role's barrier is {id}, for {threads} threads"),
                None => "only the bodies of warp roles have barriers".into(),
            })
        }
        Op::Barrier { id, threads } => {
            let cta_threads = attrs.program.warps * 32;
            let fits = *threads > 0 && *threads <= cta_threads && threads.is_multiple_of(32);
            require(fits, || {
                format!("a barrier of {threads} threads is for none of the {cta_threads} there are, or not for whole warps")
            })?;
            require(*id > 0 || *threads == cta_threads, || "barrier 0 is for all threads".into())?;
            require(*id < NAMED_BARRIERS, || format!("there are {NAMED_BARRIERS} barriers"))
        }
        Op::CopyCommit {} | Op::AsyncFence {} | Op::Free { .. } | Op::PrintLock {} => Ok(()),
        Op::PrintStage { tiles } => {
            let tiles = tiles.iter().all(|tile| matches!(function.body.ty(*tile), Type::Tile { .. }));
            require(tiles, || "its operands must be tiles".into())
        }
        Op::CopyWait { pending } => require(*pending < MAX_GROUPS, || "the limit on groups in flight is lower".into()),
        Op::GroupWait { pending, accumulators } => {
            let waits_for_all = accumulators.is_empty() || *pending == 0;
            let tiles = accumulators.iter().all(|value| matches!(function.body.ty(*value), Type::Tile { .. }));
            require(waits_for_all && tiles, || "accumulators are tiles, and complete only with `pending: 0`".into())
        }
    };
    op_rule?;
    require(op.results.is_empty(), || "it has no results".into())?;
    require(phase.has_pipelined_loops(), || format!("there is no synchronisation in phase {}", phase.name()))
}

/// Checks two properties of an `.as` op that only `.sched` allows, and only from phase `pipeline-loops` on: the stage of a
/// multi-stage buffer, and an MMA in flight.
fn check_program_op_in_phase(function: &Function, phase: Phase, effects: &Effects<'_>) -> RuleResult {
    let in_flight = effects.completes == Completes::WithMmaGroup;
    require(!in_flight || phase.has_pipelined_loops(), || format!("no MMA is in flight in phase {}", phase.name()))?;
    for (i, BufferAccess { buffer, stage, .. }) in effects.buffers.iter().enumerate() {
        // From phase `alloc` to `pipeline-loops`, a buffer may have several stages although no access names a stage.
        let staged_buffer = phase.has_pipelined_loops() && function.attrs.placements[*buffer].depth > 1;
        match stage {
            Some(_) if !phase.has_pipelined_loops() => return Err(format!("no access names a stage in phase {}", phase.name())),
            Some(stage) => {
                let is_number = *function.body.ty(*stage) == Type::Scalar(Elem::Scalar(Scalar::I32));
                require(staged_buffer && is_number, || format!("{stage} is not the number of a stage of {buffer}"))?;
            }
            None => {
                // Pass `tmem-pipelines` adds the stages of the buffers that TMA stores read.
                let may_lack_stage = !staged_buffer || phase < Phase::TmemPipelines;
                require(may_lack_stage, || format!("{buffer} has several stages, and the op does not name one"))?;
            }
        }
        let earlier_accesses = effects.buffers[..i].iter().filter(|other| other.buffer == *buffer);
        let names_one_stage = earlier_accesses.into_iter().all(|other| other.stage == *stage);
        require(names_one_stage, || format!("the op names two stages of {buffer}"))?;
    }
    Ok(())
}
