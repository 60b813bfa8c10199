//! Purpose: give every buffer a shared-memory address or TMEM columns, and choose the depth of every multi-stage buffer.
//! Requires: valid loop schedules, or none.
//! Establishes: one placement per buffer, and the function's shared-memory bytes, which fit the target. Buffers share memory
//! only if their live ranges do not overlap.
//! Preserves: the ops. A loop schedule may be replaced by its levelled form (see [`levelled`]).
//! See also: Triton's `AllocateSharedMemory`.

use crate::buffer_accesses::{Touch, touches};
use crate::check_schedule;
use crate::partition::{self, ComputeGroups, FeatureChoice};
use crate::resource_model::Machine;
use crate::tma_pipelines;
use crate::{latency_hints, tmem_alloc, tmem_pipelines, wgmma_in_flight};
use base::diag::{Diagnostic, Result};
use base::{Arena, Block, File, Loc, Target};
use common::options;
use core_dialect::rules::uses_clc;
use sched::{Function, FunctionAttrs, LoopSchedule, Module, Op, PipelineInfo, Placement, ScheduleEntry, clc_responses};
use std::collections::{BTreeMap, BTreeSet};
use tileas::liveness::{self, LiveRange};
use tileas::{Buffer, BufferInfo, budget};

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    let target = file.envelope.target()?;
    let choice = FeatureChoice::of(&file.envelope);
    let requested = options::Scheduling::stages(&file.envelope)?;
    let machine = Machine::of(target);
    let level: Vec<LoopSchedule> = file.payload.schedules.iter().filter_map(|own| levelled(&file.payload, own, &machine)).collect();
    let Module { functions, schedules, .. } = &mut file.payload;
    for function in functions {
        let own = tma_pipelines::schedules(function, schedules);
        let divided = choice != FeatureChoice::Never && partition::check(function).is_ok();
        let mut doubled = BTreeSet::new();
        if divided {
            let blocks = partition::blocks(function, target);
            let groups = groups_that_fit(function, &own, target);
            let groups = groups.as_ref();
            let resident = |bytes| resident_of(bytes, budget::shared_memory(target)).min(blocks);
            let (staged_buffers, stored) = match requested {
                None => with_store_buffers((function, groups), &own, &level, &resident),
                Some(_) => (staged_buffers(function, &own, &[], TmaIssue::AfterSignal), BTreeSet::new()),
            };
            doubled = self::doubled((function, groups), &staged_buffers, &stored, target);
            doubled.extend(stored);
            set(function, groups, &staged_buffers, &doubled, (true, target));
        }
        let most = budget::shared_memory(target);
        let stays_in_one_role = || !tmem_pipelines::has_mma(function) && !partition::has_warp_assignment(function, target, choice);
        if !divided || function.attrs.shared_bytes > most || stays_in_one_role() {
            if function.attrs.shared_bytes > most {
                doubled.clear();
            }
            set(function, None, &staged_buffers(function, &own, &[], TmaIssue::ByAll), &doubled, (divided, target));
        }
        level_down(function, schedules, &level);
        // The last word holds the TMEM base address; the cluster launch control responses follow it.
        let end = clc_responses::memory(function).unwrap_or(function.attrs.shared_bytes);
        function.attrs.tensor = tmem_alloc::allocation(function, &doubled, end.saturating_sub(tileas::tensor_memory::WORD));
        if function.attrs.shared_bytes > most {
            // ptxas prints this wording, and autotuners match it.
            let used = function.attrs.shared_bytes;
            let message = format!("'{}' uses too much shared data (0x{used:x} bytes, 0x{most:x} max)", function.name);
            let error = Diagnostic::unsupported("SC100", message);
            return Err(error.at_loc(&file.envelope.debug, where_the_largest_is_used(function)));
        }
    }
    Ok(())
}

/// The TMEM buffers that get two stages. An MMA warp then computes the next accumulator while threads load the current one.
/// Threads likewise store the next operand while an MMA reads the current one. A buffer is doubled only while TMEM has columns
/// for every CTA that fits in shared memory. Accumulators are doubled before operands.
fn doubled(
    (function, groups): Divided<'_>,
    staged_buffers: &[Option<BufferDepth>],
    stored: &BTreeSet<Buffer>,
    target: Target,
) -> BTreeSet<Buffer> {
    let attrs = &function.attrs.program;
    let bytes = with_barriers(function, &place((function, groups), staged_buffers, stored), true);
    let blocks = resident_of(bytes, budget::shared_memory(target)).max(attrs.occupancy.unwrap_or(1));
    let may = tmem_pipelines::recomputed(function).into_iter().chain(tmem_pipelines::scales(function)).collect();
    let columns = budget::tmem_columns(target, blocks);
    let doubled = tmem_alloc::doubled(function, BTreeSet::new(), may, columns);
    tmem_alloc::doubled(function, doubled, tmem_pipelines::stored_ahead(function), columns)
}

fn set(
    function: &mut Function,
    groups: Option<&ComputeGroups>,
    staged_buffers: &[Option<BufferDepth>],
    doubled: &BTreeSet<Buffer>,
    (divided, target): (bool, Target),
) {
    let exclusive = exclusive((function, groups), staged_buffers, doubled, (divided, target));
    function.attrs.placements = place_but((function, groups), staged_buffers, doubled, &exclusive);
    function.attrs.shared_bytes = with_barriers(function, &function.attrs.placements, divided);
}

/// Largest buffer, in bytes, that may be excluded from overlap.
const MAX_ALONE: u32 = 16 << 10;

/// The buffers excluded from overlap: smallest first, as many as do not lower occupancy. Reason: a store into reused memory
/// needs a barrier after the earlier reads.
fn exclusive(
    divided_by: Divided<'_>,
    staged_buffers: &[Option<BufferDepth>],
    doubled: &BTreeSet<Buffer>,
    (divided, target): (bool, Target),
) -> BTreeSet<Buffer> {
    // The fault lets buffers overlap that are live together, which shows only if no buffer is excluded from overlap.
    if common::fault_injected("sched.liveness") {
        return BTreeSet::new();
    }
    let function = divided_by.0;
    let (buffers, blocks) = (&function.attrs.program.buffers, partition::blocks(function, target));
    let resident = |exclusive: &BTreeSet<Buffer>| {
        let bytes = with_barriers(function, &place_but(divided_by, staged_buffers, doubled, exclusive), divided);
        resident_of(bytes, budget::shared_memory(target)).min(blocks)
    };
    let may = |buffer: &Buffer| staged_buffers[buffer.0 as usize].is_none() && buffers[*buffer].bytes() <= MAX_ALONE;
    let mut smallest: Vec<Buffer> = buffers.ids().filter(may).collect();
    smallest.sort_by_key(|buffer| (buffers[*buffer].bytes(), *buffer));
    let first = |count: &usize| smallest[..*count].iter().copied().collect::<BTreeSet<Buffer>>();
    let before = resident(&BTreeSet::new()).max(1);
    let all = first(&smallest.len());
    if resident(&all) >= before {
        return all;
    }
    let counts: Vec<usize> = (1..smallest.len()).collect();
    first(&counts.partition_point(|count| resident(&first(count)) >= before))
}

/// The first op that accesses the largest buffer: a diagnostic points at it, because a smaller buffer there helps most.
fn where_the_largest_is_used(function: &Function) -> Loc {
    let buffers = &function.attrs.program.buffers;
    let largest = buffers.ids().max_by_key(|buffer| buffers[*buffer].bytes());
    let mut ops = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op]);
    let user = ops.find(|op| touches(&op.kind).iter().any(|touch| Some(touch.buffer()) == largest));
    user.map_or(Loc::UNKNOWN, |op| op.loc)
}

/// Returns the shared memory that a function takes with these schedules of its loops.
pub(crate) fn bytes(function: &Function, schedules: &[LoopSchedule], divided: bool) -> u32 {
    let requested = if divided { TmaIssue::AfterSignal } else { TmaIssue::ByAll };
    with_barriers(
        function,
        &place(
            (function, None),
            &staged_buffers(function, &tma_pipelines::schedules(function, schedules), &[], requested),
            &BTreeSet::new(),
        ),
        divided,
    )
}

/// Returns the end of the last buffer.
pub(crate) fn end_of_buffers(attrs: &FunctionAttrs) -> u32 {
    end(&attrs.program.buffers, &attrs.placements)
}

fn end(buffers: &Arena<Buffer, BufferInfo>, placements: &Arena<Buffer, Placement>) -> u32 {
    placements.iter().map(|(buffer, place)| place.offset.saturating_add(buffers[buffer].bytes() * place.depth)).max().unwrap_or(0)
}

/// Returns the bytes of the buffers and of everything after them: the mbarriers of all future pipelines, the TMEM base address,
/// and the cluster launch control responses.
fn with_barriers(function: &Function, placements: &Arena<Buffer, Placement>, divided: bool) -> u32 {
    let end = end(&function.attrs.program.buffers, placements);
    let stages = tmem_pipelines::stages(function);
    let word = if tmem_alloc::place(function, &BTreeSet::new()).1 > 0 { PipelineInfo::BARRIER } else { 0 };
    let signal_bytes =
        if divided && !tmem_pipelines::has_mma(function) { tma_pipelines::signal_barrier_bytes(function) } else { 0 };
    let all = match tma_pipelines::barrier_bytes(function, |buffer| placements[buffer].depth)
        + stages * 2 * PipelineInfo::BARRIER
        + signal_bytes
        + word
    {
        0 => end,
        more => end.saturating_add(PipelineInfo::BARRIER - 1) / PipelineInfo::BARRIER * PipelineInfo::BARRIER + more,
    };
    match uses_clc(&function.body) {
        true => {
            all.saturating_add(clc_responses::CLC_RESPONSE_BYTES - 1) / clc_responses::CLC_RESPONSE_BYTES
                * clc_responses::CLC_RESPONSE_BYTES
                + clc_responses::BYTES
        }
        false => all,
    }
}

/// The levelled schedule: every TMA copy of the loop runs as far ahead as the one that runs least far ahead. Returns `None` if
/// the schedule is level already or the levelled one breaks a dependence.
fn levelled(module: &Module, schedule: &LoopSchedule, machine: &Machine) -> Option<LoopSchedule> {
    let function = module.functions.iter().find(|function| function.name == schedule.function)?;
    let ops = &function.body.blocks[sched::loop_body(function, schedule.index)?].ops;
    let by_tma = |entry: &ScheduleEntry| {
        ops.get(entry.op as usize).is_some_and(|op| tma_pipelines::filled(&function.body.ops[*op].kind).is_some())
    };
    let latest = schedule.entries.iter().filter(|entry| by_tma(entry)).map(|entry| entry.stage).max()?;
    let mut level = schedule.clone();
    level.entries.iter_mut().filter(|entry| by_tma(entry)).for_each(|entry| entry.stage = latest);
    (level != *schedule && check_schedule::keeps(module, &level, machine).is_ok()).then_some(level)
}

/// Replaces a schedule by its levelled form if the buffers got only the depth that the levelled form needs.
fn level_down(function: &Function, schedules: &mut [LoopSchedule], level: &[LoopSchedule]) {
    for own in schedules.iter_mut().filter(|own| own.function == function.name) {
        let needed = staged_buffers(function, std::slice::from_ref(own), &[], TmaIssue::ByAll);
        let is_short = |(buffer, staged_buffer): (Buffer, &Option<BufferDepth>)| {
            staged_buffer.is_some_and(|staged_buffer| staged_buffer.depth > function.attrs.placements[buffer].depth)
        };
        let levelled = level.iter().find(|other| (&other.function, other.index) == (&own.function, own.index));
        if let Some(levelled) = levelled.filter(|_| function.attrs.program.buffers.ids().zip(&needed).any(is_short)) {
            *own = levelled.clone();
        }
    }
}

/// A multi-stage buffer: a scheduled copy in a loop fills it.
#[derive(Clone, Copy)]
struct BufferDepth {
    /// The loop's body.
    block: Block,
    /// Stages: one, plus one for each iteration that the copy runs ahead, plus one for the stage that an MMA in flight still
    /// reads.
    depth: u32,
    /// The depth that the levelled schedule of its loop needs.
    levelled: u32,
    by_tma: bool,
    /// Largest useful depth, or the depth that the author's latency hint allows.
    most: u32,
    /// Whether several copies of an iteration fill it in alternation.
    alternating: bool,
    /// Whether a producer fills it without waiting for earlier uses of the same memory to end.
    from_start: bool,
}

/// Which warp role issues TMA copies, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TmaIssue {
    /// The warps that compute, as soon as the stage's memory is free.
    ByAll,
    /// A producer warp, as soon as a stage is free.
    Ahead,
    /// As `Ahead`, but the producer waits for a "buffers free" signal before each loop. Applies to outermost loops only, and
    /// only without an MMA warp.
    AfterSignal,
}

/// The multi-stage buffers of a function, by buffer.
fn staged_buffers(
    function: &Function,
    schedules: &[LoopSchedule],
    level: &[LoopSchedule],
    requested: TmaIssue,
) -> Vec<Option<BufferDepth>> {
    let mut staged_buffers: Vec<Option<BufferDepth>> = vec![None; function.attrs.program.buffers.len()];
    for schedule in schedules.iter().filter(|schedule| schedule.function == function.name) {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let ops = &function.body.blocks[block].ops;
        let mut kept = if schedule.in_flight { wgmma_in_flight::read(function, block) } else { BTreeSet::new() };
        kept.extend(tmem_pipelines::operands_in(function, block));
        let alternating = tma_pipelines::filled_alternately(function, block);
        for entry in &schedule.entries {
            for touch in ops.get(entry.op as usize).into_iter().flat_map(|op| touches(&function.body.ops[*op].kind)) {
                if matches!(touch, Touch::Copy(_)) {
                    // Consecutive loops may fill the same multi-stage buffer.
                    let other = staged_buffers[touch.buffer().0 as usize].map_or(1, |staged_buffer| staged_buffer.depth);
                    let of =
                        |schedule: &LoopSchedule, entry: &ScheduleEntry| depth(schedule, entry, touch.buffer(), &kept).max(other);
                    let levelled =
                        level.iter().find(|level| (&level.function, level.index) == (&schedule.function, schedule.index));
                    let levelled =
                        levelled.and_then(|level| Some(of(level, level.entries.iter().find(|other| other.op == entry.op)?)));
                    let depth = of(schedule, entry);
                    let levelled = levelled.unwrap_or(depth);
                    let by_tma = tma_pipelines::filled(&function.body.ops[ops[entry.op as usize]].kind).is_some();
                    let signalled = requested == TmaIssue::AfterSignal
                        && !tma_pipelines::is_nested(function, block)
                        && !tmem_pipelines::has_mma(function);
                    // Tensor memory MMAs may still read it after their loop has ended.
                    let is_read_on = tmem_pipelines::has_mma(function) && kept.contains(&touch.buffer());
                    let from_start = by_tma && (requested != TmaIssue::ByAll && !signalled || is_read_on);
                    let alternating = alternating.contains(&touch.buffer());
                    let most = latency_hints::stages(function, block).unwrap_or(DEEPEST);
                    staged_buffers[touch.buffer().0 as usize] =
                        Some(BufferDepth { block, depth, levelled, by_tma, most, alternating, from_start });
                }
            }
        }
    }
    staged_buffers
}

/// Returns the stages of a buffer that a scheduled op copies to. MMAs in flight read the buffers in `kept`.
pub(crate) fn depth(schedule: &LoopSchedule, entry: &ScheduleEntry, buffer: Buffer, kept: &BTreeSet<Buffer>) -> u32 {
    let ahead = schedule.last_stage() - entry.stage;
    ahead + u32::from(ahead == 0 || !common::fault_injected("sched.depth")) + u32::from(ahead > 0 && kept.contains(&buffer))
}

/// Largest depth of a multi-stage buffer: more stages hide no further latency.
const DEEPEST: u32 = 8;
/// Shared-memory bytes that the CUDA driver reserves for each CTA.
const OF_SYSTEM: u32 = 1024;

fn resident_of(bytes: u32, most: u32) -> u32 {
    (most + OF_SYSTEM) / bytes.saturating_add(OF_SYSTEM)
}

/// Returns the shared memory available to each CTA if this many CTAs share an SM.
pub(crate) fn share(most: u32, blocks: u32) -> u32 {
    ((most + OF_SYSTEM) / blocks.max(1)).saturating_sub(OF_SYSTEM)
}

/// Returns how many CTAs of a function fit the shared memory of an SM.
pub(crate) fn resident(attrs: &FunctionAttrs, target: Target) -> u32 {
    resident_of(attrs.shared_bytes, budget::shared_memory(target)).max(1)
}

/// Depth from which a further stage is worth less than starting to fill before the loop begins.
const ENOUGH: u32 = 3;

/// Returns the depths for a function with a producer warp, and the TMA store buffers that get two stages. With two stages
/// threads fill one while TMA stores the other. Store buffers are doubled unless that lowers occupancy or takes stages that
/// loops need.
fn with_store_buffers(
    (function, groups): Divided<'_>,
    schedules: &[LoopSchedule],
    level: &[LoopSchedule],
    resident: &dyn Fn(u32) -> u32,
) -> (Vec<Option<BufferDepth>>, BTreeSet<Buffer>) {
    let plans = [tmem_pipelines::stored(function), BTreeSet::new()].map(|stored| {
        let staged_buffers = producer_depths((function, groups), schedules, (level, &stored), resident);
        let plan_value = plan_value((function, groups), &staged_buffers, &stored, resident);
        (plan_value, staged_buffers, stored)
    });
    let [twice, once] = plans;
    let (_, staged_buffers, stored) = if twice.0 >= once.0 { twice } else { once };
    (staged_buffers, stored)
}

/// Returns the depths for a function with a producer warp. Buffers of several loops share memory if that gives more stages or a
/// higher occupancy. `resident` maps bytes per CTA to resident CTAs.
fn producer_depths(
    (function, groups): Divided<'_>,
    schedules: &[LoopSchedule],
    (level, stored): (&[LoopSchedule], &BTreeSet<Buffer>),
    resident: &dyn Fn(u32) -> u32,
) -> Vec<Option<BufferDepth>> {
    let all = [TmaIssue::Ahead, TmaIssue::AfterSignal];
    let [ahead, signalled] =
        all.map(|requested| deepest((function, groups), staged_buffers(function, schedules, level, requested), stored, resident));
    let plan_value = |staged_buffers: &[Option<BufferDepth>]| plan_value((function, groups), staged_buffers, stored, resident);
    if plan_value(&signalled) > plan_value(&ahead) { signalled } else { ahead }
}

/// The value of a plan: resident CTAs, then the smallest pipeline depth, counted up to [`ENOUGH`].
fn plan_value(
    (function, groups): Divided<'_>,
    staged_buffers: &[Option<BufferDepth>],
    stored: &BTreeSet<Buffer>,
    resident: &dyn Fn(u32) -> u32,
) -> (u32, Option<u32>) {
    let least =
        staged_buffers.iter().flatten().filter(|staged_buffer| staged_buffer.by_tma).map(|staged_buffer| staged_buffer.depth).min();
    let resident = resident(with_barriers(function, &place((function, groups), staged_buffers, stored), true));
    (resident, least.map(|depth| depth.min(ENOUGH)))
}

/// Deepens the multi-stage buffers of a function with a producer warp. The prefetch distance is then the pipeline depth, so
/// take the largest depth that keeps occupancy. Prefer one depth for all copies of a loop so that they share a pipeline, at
/// worst the smallest depth that any of them needs.
fn deepest(
    (function, groups): Divided<'_>,
    mut staged_buffers: Vec<Option<BufferDepth>>,
    stored: &BTreeSet<Buffer>,
    resident: &dyn Fn(u32) -> u32,
) -> Vec<Option<BufferDepth>> {
    let bytes =
        |staged_buffers: &[Option<BufferDepth>]| with_barriers(function, &place((function, groups), staged_buffers, stored), true);
    // With a single stage each alternating copy would wait for the readers of the previous one. No additional CTA hides that
    // much latency.
    let second =
        |staged_buffer: &BufferDepth| if staged_buffer.alternating { staged_buffer.depth.max(2) } else { staged_buffer.depth };
    let with_second: Vec<Option<BufferDepth>> = staged_buffers
        .iter()
        .map(|staged_buffer| staged_buffer.map(|staged_buffer| BufferDepth { depth: second(&staged_buffer), ..staged_buffer }))
        .collect();
    if resident(bytes(&with_second)) > 0 {
        staged_buffers = with_second;
    }
    let before = resident(bytes(&staged_buffers)).max(1);
    let changed = |staged_buffers: &[Option<BufferDepth>], depth: &dyn Fn(&BufferDepth) -> u32| {
        let of_tma = |staged_buffer: &BufferDepth| if staged_buffer.by_tma { depth(staged_buffer) } else { staged_buffer.depth };
        let all = staged_buffers
            .iter()
            .map(|staged_buffer| staged_buffer.map(|staged_buffer| BufferDepth { depth: of_tma(&staged_buffer), ..staged_buffer }));
        Some(all.collect::<Vec<_>>()).filter(|all| resident(bytes(all)) >= before)
    };
    let mut furthest: BTreeMap<Block, u32> = BTreeMap::new();
    for staged_buffer in staged_buffers.iter().flatten().filter(|staged_buffer| staged_buffer.by_tma) {
        let depth = furthest.entry(staged_buffer.block).or_default();
        *depth = staged_buffer.depth.max(*depth);
    }
    // An operand that runs further ahead than another one still waits for it, so it can give up the additional stages.
    let by_tma = staged_buffers.iter().flatten().filter(|staged_buffer| staged_buffer.by_tma);
    let spare =
        by_tma.map(|staged_buffer| furthest[&staged_buffer.block].saturating_sub(staged_buffer.levelled)).max().unwrap_or(0);
    let as_many = |fewer: u32| {
        changed(&staged_buffers, &|staged_buffer| furthest[&staged_buffer.block].saturating_sub(fewer).max(staged_buffer.levelled))
    };
    staged_buffers = (0..=spare).find_map(as_many).unwrap_or(staged_buffers);
    for _ in 1..DEEPEST {
        match changed(&staged_buffers, &|staged_buffer| staged_buffer.most.min(staged_buffer.depth + 1)) {
            Some(deeper) => staged_buffers = deeper,
            None => break,
        }
    }
    // An alternating buffer has a pipeline of its own, and one more stage helps each of its copies.
    let alternating = (0..staged_buffers.len())
        .filter(|at| staged_buffers[*at].is_some_and(|staged_buffer| staged_buffer.by_tma && staged_buffer.alternating));
    for at in alternating.collect::<Vec<_>>() {
        while let Some(depth) = staged_buffers[at]
            .filter(|staged_buffer| staged_buffer.depth < staged_buffer.most)
            .map(|staged_buffer| staged_buffer.depth)
        {
            let mut deeper = staged_buffers.clone();
            deeper[at] = staged_buffers[at].map(|staged_buffer| BufferDepth { depth: depth + 1, ..staged_buffer });
            if resident(bytes(&deeper)) < before {
                break;
            }
            staged_buffers = deeper;
        }
    }
    staged_buffers
}

/// A function and its two compute groups, if it has two.
type Divided<'a> = (&'a Function, Option<&'a ComputeGroups>);

/// Returns the two compute groups if shared memory holds the private buffers of each group and two stages of the shared ones.
fn groups_that_fit(function: &Function, schedules: &[LoopSchedule], target: Target) -> Option<ComputeGroups> {
    let groups = ComputeGroups::find(function).ok()?;
    let second = |staged_buffer: BufferDepth| BufferDepth {
        depth: if staged_buffer.by_tma { staged_buffer.depth.max(2) } else { staged_buffer.depth },
        ..staged_buffer
    };
    let staged_buffers = staged_buffers(function, schedules, &[], TmaIssue::AfterSignal)
        .into_iter()
        .map(|staged_buffer| staged_buffer.map(second))
        .collect::<Vec<_>>();
    let placements = place((function, Some(&groups)), &staged_buffers, &BTreeSet::new());
    (with_barriers(function, &placements, true) <= budget::shared_memory(target)).then_some(groups)
}

fn place(divided: Divided<'_>, staged_buffers: &[Option<BufferDepth>], doubled: &BTreeSet<Buffer>) -> Arena<Buffer, Placement> {
    place_but(divided, staged_buffers, doubled, &BTreeSet::new())
}

/// Computes placements in which the buffers in `exclusive` share memory with no other buffer.
fn place_but(
    (function, groups): Divided<'_>,
    staged_buffers: &[Option<BufferDepth>],
    doubled: &BTreeSet<Buffer>,
    exclusive: &BTreeSet<Buffer>,
) -> Arena<Buffer, Placement> {
    let buffers = &function.attrs.program.buffers;
    let depth = |buffer: Buffer| match staged_buffers[buffer.0 as usize] {
        Some(staged_buffer) => staged_buffer.depth,
        None => 1 + u32::from(doubled.contains(&buffer)),
    };
    let filled = buffers.ids().zip(staged_buffers).filter_map(|(buffer, staged_buffer)| Some((buffer, (*staged_buffer)?)));
    let filled = filled
        .map(|(buffer, BufferDepth { block, from_start, .. })| (buffer, liveness::StagedBuffer { block, from_start }))
        .collect();
    let mut liveness = liveness::liveness((&function.body, function.region), buffers, Op::effects, &filled);
    for (buffer, accumulators) in tmem_pipelines::read_on(function) {
        liveness[buffer].last = liveness[buffer].last.max(liveness[accumulators].last);
    }
    // A TMA store warp may still read the buffer when all other roles have finished, or in the next iteration.
    let apart = staged_buffers.iter().flatten().any(|staged_buffer| staged_buffer.from_start);
    for buffer in tmem_pipelines::stored(function).into_iter().filter(|_| apart) {
        let first = if tmem_pipelines::is_in_iterations(function, buffer) { 0 } else { liveness[buffer].first };
        liveness[buffer] = LiveRange { first, last: usize::MAX };
    }
    // The compute role that drains the MMAs of a stored operand knows that those MMAs have read it.
    let own_liveness = liveness.clone();
    // Tensor memory MMAs may still read the operand while the threads that stored it have moved on.
    let brought = tmem_pipelines::brought_once(function);
    let stored =
        tmem_pipelines::stored_operands(function).into_iter().filter(|buffer| tmem_pipelines::is_in_iterations(function, *buffer));
    for buffer in stored.chain(brought) {
        liveness[buffer] = LiveRange { first: 0, last: usize::MAX };
    }
    if common::fault_injected("sched.liveness") {
        liveness.values_mut().for_each(|live_range| *live_range = LiveRange::NEVER_LIVE);
    }
    let (columns, _) = tmem_alloc::place(function, doubled);
    // One compute group does not know whether the other group's live range has ended.
    let stored_once = if groups.is_some() { stored_once(function) } else { BTreeSet::new() };
    let unknown = |one: Buffer, other: Buffer| groups.is_some_and(|groups| !groups.share(one, other));
    let meets = |one: Buffer, other: Buffer| match [one, other].iter().any(|buffer| stored_once.contains(buffer)) {
        true => own_liveness[one].meets(own_liveness[other]),
        false => liveness[one].meets(liveness[other]),
    };
    let is_exclusive = |one: Buffer, other: Buffer| exclusive.contains(&one) || exclusive.contains(&other);
    let places =
        liveness::places(buffers, |one, other| is_exclusive(one, other) || unknown(one, other) || meets(one, other), depth);
    let offset = |(buffer, at): (Buffer, &u32)| columns.get(&buffer).copied().unwrap_or(*at);
    places.iter().map(|place| Placement { offset: offset(place), depth: depth(place.0) }).collect()
}

/// The MMA operands that threads store only before all loops.
fn stored_once(function: &Function) -> BTreeSet<Buffer> {
    let (body, entry) = (&function.body, function.entry());
    let blocks = body.op_blocks();
    let in_loops = |op: &base::ir::Op| blocks[op.0 as usize] != Some(entry);
    let stores = |op| match body.ops[op].kind {
        Op::Core(tileas::Op::SharedStore { buffer, .. }) => Some(buffer),
        _ => None,
    };
    let again: BTreeSet<Buffer> = body.walk(function.region).into_iter().filter(in_loops).filter_map(stores).collect();
    tmem_pipelines::stored_operands(function).into_iter().filter(|buffer| !again.contains(buffer)).collect()
}
