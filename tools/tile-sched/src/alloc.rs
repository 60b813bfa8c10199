//! Purpose: give every buffer a shared-memory address or TMEM columns, and choose the depth of every multi-stage buffer.
//! Requires: valid loop schedules, or none.
//! Establishes: one placement per buffer, and the function's shared-memory bytes, which fit the target. Buffers share memory
//! only if their live ranges do not overlap.
//! Preserves: the ops. A loop schedule may be replaced by its levelled form (see [`levelled_schedule`]).
//! See also: Triton's `AllocateSharedMemory`.

use crate::buffer_accesses::{SchedulingAccess, buffer_accesses};
use crate::check_schedule;
use crate::compute_warpgroups::ComputeGroups;
use crate::feature_choice::FeatureChoice;
use crate::partition;
use crate::resource_model::Machine;
use crate::smem_extent::end_of_placements;
use crate::{latency_hints, tma_pipelines, tmem_alloc, tmem_double_buffers, tmem_mma_buffers, tmem_pipelines, wgmma_in_flight};
use base::diag::{Diagnostic, ResourceKind, Result};
use base::{Arena, Block, File, Loc, Target};
use common::options;
use core_dialect::rules::uses_clc;
use sched::{Function, LoopSchedule, Module, Op, PipelineInfo, Placement, ScheduleEntry, clc_responses};
use std::collections::{BTreeMap, BTreeSet};
use tileas::liveness::{self, LiveRange};
use tileas::{Buffer, budget};

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    let target = file.envelope.target()?;
    let warp_role_choice = FeatureChoice::from_envelope(&file.envelope);
    let requested_stages = options::Scheduling::stages(&file.envelope)?;
    let machine = Machine::for_target(target);
    let levelled_schedules: Vec<LoopSchedule> =
        file.payload.schedules.iter().filter_map(|schedule| levelled_schedule(&file.payload, schedule, &machine)).collect();
    let Module { functions, schedules, .. } = &mut file.payload;
    for function in functions {
        let own_schedules = tma_pipelines::with_serial_schedules(function, schedules);
        let partitioned = warp_role_choice != FeatureChoice::Never && partition::check(function).is_ok();
        let mut doubled = BTreeSet::new();
        if partitioned {
            let max_ctas = partition::max_resident_ctas(function, target);
            let groups = groups_that_fit(function, &own_schedules, target);
            let groups = groups.as_ref();
            let resident_ctas = |bytes| budget::ctas_by_shared_memory(target, bytes).min(max_ctas);
            let (staged_buffers, store_buffers) = match requested_stages {
                None => depths_and_doubled_store_buffers(function, groups, &own_schedules, &levelled_schedules, &resident_ctas),
                Some(_) => (staged_buffers(function, &own_schedules, &[], TmaIssue::AfterSignal), BTreeSet::new()),
            };
            doubled = tmem_buffers_to_double(function, groups, &staged_buffers, &store_buffers, target);
            doubled.extend(store_buffers);
            set_placements(function, groups, &staged_buffers, &doubled, true, target);
        }
        let smem_limit = budget::shared_memory(target);
        let keeps_one_role =
            || !tmem_mma_buffers::has_tmem_mma(function) && !partition::has_warp_assignment(function, target, warp_role_choice);
        if !partitioned || function.attrs.shared_bytes > smem_limit || keeps_one_role() {
            if function.attrs.shared_bytes > smem_limit {
                doubled.clear();
            }
            let staged_buffers = staged_buffers(function, &own_schedules, &[], TmaIssue::ByComputeWarps);
            set_placements(function, None, &staged_buffers, &doubled, partitioned, target);
        }
        apply_levelled_schedules(function, schedules, &levelled_schedules);
        // The cluster launch control responses come last. The word before them holds the TMEM base address.
        let end = clc_responses::responses_address(function).unwrap_or(function.attrs.shared_bytes);
        function.attrs.tensor =
            tmem_alloc::tmem_allocation(function, &doubled, end.saturating_sub(tileas::tensor_memory::WORD_BYTES));
        if function.attrs.shared_bytes > smem_limit {
            // ptxas prints this wording, and autotuners match it.
            let used = function.attrs.shared_bytes;
            let message = format!("'{}' uses too much shared data (0x{used:x} bytes, 0x{smem_limit:x} max)", function.name);
            let hint = requested_stages.map(|stages| format!("stages={stages}"));
            let error = Diagnostic::unsupported("SC100", message)
                .exceeds(ResourceKind::SharedMemory, used.into(), smem_limit.into())
                .caused_by(hint);
            return Err(error.at_loc(&file.envelope.debug, loc_of_largest_buffer(function)));
        }
        check_tmem_allocation(function, target)
            .map_err(|error| error.at_loc(&file.envelope.debug, loc_of_largest_buffer(function)))?;
    }
    Ok(())
}

/// Checks that one CTA can allocate the function's TMEM columns. [`tmem_alloc::ctas_by_tmem`] limits co-resident CTAs.
fn check_tmem_allocation(function: &Function, target: Target) -> Result<()> {
    let max_columns = budget::tmem_columns(target, 1);
    let Some(columns) = function.attrs.tensor.map(|tensor| tensor.columns).filter(|columns| *columns > max_columns) else {
        return Ok(());
    };
    // Triton's back end for Tile IR searches the message for this wording.
    let message = format!("'{}': allocated tmem out of resource: {columns} vs {max_columns}", function.name);
    let error = Diagnostic::unsupported("SC105", message);
    Err(error.exceeds(ResourceKind::TensorMemory, columns.into(), max_columns.into()))
}

/// The TMEM buffers that get two stages. An MMA warp then computes the next accumulator while threads load the current one, and
/// threads store the next operand while an MMA reads the current one. A buffer gets two stages only if TMEM then still has columns
/// for every CTA that fits in shared memory. Accumulators come before operands.
fn tmem_buffers_to_double(
    function: &Function,
    groups: Option<&ComputeGroups>,
    staged_buffers: &[Option<BufferDepth>],
    store_buffers: &BTreeSet<Buffer>,
    target: Target,
) -> BTreeSet<Buffer> {
    let attrs = &function.attrs.program;
    let bytes = bytes_with_barriers(function, &place_buffers(function, groups, staged_buffers, store_buffers), true);
    let ctas = budget::ctas_by_shared_memory(target, bytes).max(attrs.occupancy.unwrap_or(1));
    let candidates = tmem_double_buffers::recomputed_accumulators(function)
        .into_iter()
        .chain(tmem_double_buffers::stored_scales(function))
        .collect();
    let columns = budget::tmem_columns(target, ctas);
    let doubled = tmem_alloc::add_doubled_buffers(function, BTreeSet::new(), candidates, columns);
    tmem_alloc::add_doubled_buffers(function, doubled, tmem_double_buffers::operands_stored_ahead(function), columns)
}

/// Places the buffers of a function, and records the placements and the shared-memory bytes in its attributes.
fn set_placements(
    function: &mut Function,
    groups: Option<&ComputeGroups>,
    staged_buffers: &[Option<BufferDepth>],
    doubled: &BTreeSet<Buffer>,
    partitioned: bool,
    target: Target,
) {
    let exclusive = exclusive_buffers(function, groups, staged_buffers, doubled, partitioned, target);
    function.attrs.placements = place_with_exclusive(function, groups, staged_buffers, doubled, &exclusive);
    function.attrs.shared_bytes = bytes_with_barriers(function, &function.attrs.placements, partitioned);
}

/// Largest buffer, in bytes, that may get memory of its own. Reason: the L1 cache uses the remaining memory, and such a buffer takes
/// memory throughout the kernel. The limit has little effect: without it, the code changes for 2 of 112 combinations of kernel and
/// target. Their predicted times change by at most 0.2 %. Source: the tuning half of `scripts/regret`, sm_90 and sm_100.
const MAX_EXCLUSIVE_BYTES: u32 = 16 << 10;

/// The buffers that share memory with no other buffer: the smallest ones, as many as do not lower occupancy. Reason: a store into
/// reused memory needs a barrier after the earlier reads.
fn exclusive_buffers(
    function: &Function,
    groups: Option<&ComputeGroups>,
    staged_buffers: &[Option<BufferDepth>],
    doubled: &BTreeSet<Buffer>,
    partitioned: bool,
    target: Target,
) -> BTreeSet<Buffer> {
    let (buffers, max_ctas) = (&function.attrs.program.buffers, partition::max_resident_ctas(function, target));
    let resident_ctas = |exclusive: &BTreeSet<Buffer>| {
        let bytes =
            bytes_with_barriers(function, &place_with_exclusive(function, groups, staged_buffers, doubled, exclusive), partitioned);
        budget::ctas_by_shared_memory(target, bytes).min(max_ctas)
    };
    let may_be_exclusive =
        |buffer: &Buffer| staged_buffers[buffer.0 as usize].is_none() && buffers[*buffer].bytes() <= MAX_EXCLUSIVE_BYTES;
    let mut smallest: Vec<Buffer> = buffers.ids().filter(may_be_exclusive).collect();
    smallest.sort_by_key(|buffer| (buffers[*buffer].bytes(), *buffer));
    let smallest_buffers = |count: &usize| smallest[..*count].iter().copied().collect::<BTreeSet<Buffer>>();
    let ctas_before = resident_ctas(&BTreeSet::new()).max(1);
    let all_candidates = smallest_buffers(&smallest.len());
    if resident_ctas(&all_candidates) >= ctas_before {
        return all_candidates;
    }
    let counts: Vec<usize> = (1..smallest.len()).collect();
    smallest_buffers(&counts.partition_point(|count| resident_ctas(&smallest_buffers(count)) >= ctas_before))
}

/// The location of the first op that accesses the largest buffer. The error for too much shared memory reports this location,
/// because a smaller tile at this op saves the most memory.
fn loc_of_largest_buffer(function: &Function) -> Loc {
    let buffers = &function.attrs.program.buffers;
    let largest = buffers.ids().max_by_key(|buffer| buffers[*buffer].bytes());
    let mut ops = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op]);
    let first_user = ops.find(|op| buffer_accesses(&op.kind).iter().any(|access| Some(access.buffer()) == largest));
    first_user.map_or(Loc::UNKNOWN, |op| op.loc)
}

/// Returns the shared-memory bytes that a function needs with the given loop schedules. `partitioned`: the function may get a
/// producer warp.
pub(crate) fn needed_smem_bytes(function: &Function, schedules: &[LoopSchedule], partitioned: bool) -> u32 {
    let tma_issue = if partitioned { TmaIssue::AfterSignal } else { TmaIssue::ByComputeWarps };
    bytes_with_barriers(
        function,
        &place_buffers(
            function,
            None,
            &staged_buffers(function, &tma_pipelines::with_serial_schedules(function, schedules), &[], tma_issue),
            &BTreeSet::new(),
        ),
        partitioned,
    )
}

/// Returns the shared-memory bytes of the buffers and of the data after them: the mbarriers of all pipelines that later passes add,
/// the TMEM base address, and the cluster launch control responses.
fn bytes_with_barriers(function: &Function, placements: &Arena<Buffer, Placement>, partitioned: bool) -> u32 {
    let end = end_of_placements(&function.attrs.program.buffers, placements);
    let tmem_stages = tmem_pipelines::max_stages(function);
    let tmem_address_bytes =
        if tmem_alloc::place_in_tmem(function, &BTreeSet::new()).1 > 0 { PipelineInfo::BARRIER_BYTES } else { 0 };
    let signal_bytes =
        if partitioned && !tmem_mma_buffers::has_tmem_mma(function) { tma_pipelines::signal_barrier_bytes(function) } else { 0 };
    let bytes = match tma_pipelines::barrier_bytes(function, |buffer| placements[buffer].depth)
        + tmem_stages * 2 * PipelineInfo::BARRIER_BYTES
        + signal_bytes
        + tmem_address_bytes
    {
        0 => end,
        bytes_after_buffers => {
            end.saturating_add(PipelineInfo::BARRIER_BYTES - 1) / PipelineInfo::BARRIER_BYTES * PipelineInfo::BARRIER_BYTES
                + bytes_after_buffers
        }
    };
    match uses_clc(&function.body) {
        true => {
            bytes.saturating_add(clc_responses::CLC_RESPONSE_BYTES - 1) / clc_responses::CLC_RESPONSE_BYTES
                * clc_responses::CLC_RESPONSE_BYTES
                + clc_responses::TOTAL_BYTES
        }
        false => bytes,
    }
}

/// The levelled schedule: every TMA copy of the loop gets the smallest prefetch distance of the loop's TMA copies. Returns `None`
/// if the schedule is level already or the levelled schedule breaks a dependence.
fn levelled_schedule(module: &Module, schedule: &LoopSchedule, machine: &Machine) -> Option<LoopSchedule> {
    let function = module.functions.iter().find(|function| function.name == schedule.function)?;
    let ops = &function.body.blocks[sched::loop_body(function, schedule.index)?].ops;
    let filled_by_tma = |entry: &ScheduleEntry| {
        ops.get(entry.op as usize).is_some_and(|op| tma_pipelines::buffer_filled_by_tma(&function.body.ops[*op].kind).is_some())
    };
    let last_tma_stage = schedule.entries.iter().filter(|entry| filled_by_tma(entry)).map(|entry| entry.stage).max()?;
    let mut levelled = schedule.clone();
    levelled.entries.iter_mut().filter(|entry| filled_by_tma(entry)).for_each(|entry| entry.stage = last_tma_stage);
    (levelled != *schedule && check_schedule::check_schedule(module, &levelled, machine).is_ok()).then_some(levelled)
}

/// Replaces a schedule by its levelled form ([`levelled_schedule`]) if the allocated depth of a buffer is smaller than the depth
/// that the schedule needs.
fn apply_levelled_schedules(function: &Function, schedules: &mut [LoopSchedule], levelled_schedules: &[LoopSchedule]) {
    for schedule in schedules.iter_mut().filter(|schedule| schedule.function == function.name) {
        let needed_depths = staged_buffers(function, std::slice::from_ref(schedule), &[], TmaIssue::ByComputeWarps);
        let lacks_stages = |(buffer, staged_buffer): (Buffer, &Option<BufferDepth>)| {
            staged_buffer.is_some_and(|staged_buffer| staged_buffer.depth > function.attrs.placements[buffer].depth)
        };
        let levelled =
            levelled_schedules.iter().find(|other| (&other.function, other.index) == (&schedule.function, schedule.index));
        if let Some(levelled) = levelled.filter(|_| function.attrs.program.buffers.ids().zip(&needed_depths).any(lacks_stages)) {
            *schedule = levelled.clone();
        }
    }
}

/// The depth of a multi-stage buffer that a scheduled copy in a loop fills, and the facts that limit the depth.
#[derive(Clone, Copy)]
struct BufferDepth {
    /// The body of the loop that contains the copy.
    block: Block,
    /// Number of stages: one, plus one for each iteration of prefetch distance, plus one if MMAs in flight still read the
    /// previous stage.
    depth: u32,
    /// The depth that the levelled schedule of the copy's loop needs ([`levelled_schedule`]).
    levelled_depth: u32,
    /// Whether TMA fills the buffer.
    filled_by_tma: bool,
    /// Largest depth that the allocator may choose: the depth of the author's latency hint, or [`MAX_DEPTH`].
    max_depth: u32,
    /// Whether several copies of one iteration fill the buffer in alternation.
    alternating: bool,
    /// Whether a producer warp fills the buffer without waiting until all threads have finished with the memory's previous
    /// contents.
    from_start: bool,
}

/// The warp role that issues TMA copies, and the time at which it issues them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TmaIssue {
    /// The warps that compute issue a copy when a stage is free. The function has no producer warp.
    ByComputeWarps,
    /// A producer warp issues a copy when a stage is free. The warp runs ahead of the loop that computes.
    Ahead,
    /// A producer warp waits for a "buffers free" signal before each loop. In nested loops, and with an MMA warp, the producer warp
    /// does not wait, as with `Ahead`.
    AfterSignal,
}

/// For each buffer of a function, the depth that the schedules need if a scheduled copy fills the buffer, or `None`.
fn staged_buffers(
    function: &Function,
    schedules: &[LoopSchedule],
    levelled_schedules: &[LoopSchedule],
    tma_issue: TmaIssue,
) -> Vec<Option<BufferDepth>> {
    let mut staged_buffers: Vec<Option<BufferDepth>> = vec![None; function.attrs.program.buffers.len()];
    for schedule in schedules.iter().filter(|schedule| schedule.function == function.name) {
        let Some(block) = sched::loop_body(function, schedule.index) else { continue };
        let ops = &function.body.blocks[block].ops;
        let mut read_in_flight =
            if schedule.in_flight { wgmma_in_flight::operand_buffers_in_flight(function, block) } else { BTreeSet::new() };
        read_in_flight.extend(tmem_mma_buffers::operands_in(function, block));
        let alternating = tma_pipelines::buffers_filled_alternately(function, block);
        for entry in &schedule.entries {
            for access in ops.get(entry.op as usize).into_iter().flat_map(|op| buffer_accesses(&function.body.ops[*op].kind)) {
                if matches!(access, SchedulingAccess::Copy(_)) {
                    // Consecutive loops may fill the same multi-stage buffer.
                    let depth_in_other_loops =
                        staged_buffers[access.buffer().0 as usize].map_or(1, |staged_buffer| staged_buffer.depth);
                    let depth_in = |schedule: &LoopSchedule, entry: &ScheduleEntry| {
                        depth_for_copy(schedule, entry, access.buffer(), &read_in_flight).max(depth_in_other_loops)
                    };
                    let levelled = levelled_schedules
                        .iter()
                        .find(|levelled| (&levelled.function, levelled.index) == (&schedule.function, schedule.index));
                    let levelled_depth = levelled
                        .and_then(|levelled| Some(depth_in(levelled, levelled.entries.iter().find(|other| other.op == entry.op)?)));
                    let depth = depth_in(schedule, entry);
                    let levelled_depth = levelled_depth.unwrap_or(depth);
                    let filled_by_tma =
                        tma_pipelines::buffer_filled_by_tma(&function.body.ops[ops[entry.op as usize]].kind).is_some();
                    let waits_for_signal = tma_issue == TmaIssue::AfterSignal
                        && !tma_pipelines::is_nested(function, block)
                        && !tmem_mma_buffers::has_tmem_mma(function);
                    // Tensor memory MMAs may still read the buffer after their loop has ended.
                    let may_outlive_loop = tmem_mma_buffers::has_tmem_mma(function) && read_in_flight.contains(&access.buffer());
                    let from_start =
                        filled_by_tma && (tma_issue != TmaIssue::ByComputeWarps && !waits_for_signal || may_outlive_loop);
                    let alternating = alternating.contains(&access.buffer());
                    let max_depth = latency_hints::depth_limit(function, block).unwrap_or(MAX_DEPTH);
                    staged_buffers[access.buffer().0 as usize] =
                        Some(BufferDepth { block, depth, levelled_depth, filled_by_tma, max_depth, alternating, from_start });
                }
            }
        }
    }
    staged_buffers
}

/// Returns the number of stages that a scheduled copy to a buffer needs. MMAs in flight read the buffers in `read_in_flight`.
pub(crate) fn depth_for_copy(
    schedule: &LoopSchedule,
    entry: &ScheduleEntry,
    buffer: Buffer,
    read_in_flight: &BTreeSet<Buffer>,
) -> u32 {
    let prefetch_distance = schedule.last_stage() - entry.stage;
    prefetch_distance + 1 + u32::from(prefetch_distance > 0 && read_in_flight.contains(&buffer))
}

/// Largest depth of a multi-stage buffer, in stages: more stages hide no further latency.
const MAX_DEPTH: u32 = 8;

/// Number of stages after which deeper pipelines no longer decide between two choices. Filling the first stages before the loop
/// begins is then worth more than a further stage.
const ENOUGH_STAGES: u32 = 3;

/// Returns the buffer depths for a function with a producer warp, and the TMA store buffers that get two stages. With two stages,
/// threads fill one stage while TMA stores the contents of the other stage to global memory. Store buffers are doubled unless that
/// lowers occupancy or takes stages that loops need.
fn depths_and_doubled_store_buffers(
    function: &Function,
    groups: Option<&ComputeGroups>,
    schedules: &[LoopSchedule],
    levelled_schedules: &[LoopSchedule],
    resident_ctas: &dyn Fn(u32) -> u32,
) -> (Vec<Option<BufferDepth>>, BTreeSet<Buffer>) {
    let choices = [tmem_mma_buffers::tma_store_buffers(function), BTreeSet::new()].map(|store_buffers| {
        let staged_buffers = producer_depths(function, groups, schedules, levelled_schedules, &store_buffers, resident_ctas);
        let rank = rank_of_depths(function, groups, &staged_buffers, &store_buffers, resident_ctas);
        (rank, staged_buffers, store_buffers)
    });
    let [with_doubling, without_doubling] = choices;
    let (_, staged_buffers, store_buffers) = if with_doubling.0 >= without_doubling.0 { with_doubling } else { without_doubling };
    (staged_buffers, store_buffers)
}

/// Returns the buffer depths for a function with a producer warp. Buffers of several loops share memory if that gives more stages
/// or a higher occupancy. `resident_ctas` maps shared-memory bytes per CTA to co-resident CTAs.
fn producer_depths(
    function: &Function,
    groups: Option<&ComputeGroups>,
    schedules: &[LoopSchedule],
    levelled_schedules: &[LoopSchedule],
    store_buffers: &BTreeSet<Buffer>,
    resident_ctas: &dyn Fn(u32) -> u32,
) -> Vec<Option<BufferDepth>> {
    let tma_issues = [TmaIssue::Ahead, TmaIssue::AfterSignal];
    let [ahead, signalled] = tma_issues.map(|tma_issue| {
        deepen(function, groups, staged_buffers(function, schedules, levelled_schedules, tma_issue), store_buffers, resident_ctas)
    });
    let rank =
        |staged_buffers: &[Option<BufferDepth>]| rank_of_depths(function, groups, staged_buffers, store_buffers, resident_ctas);
    if rank(&signalled) > rank(&ahead) { signalled } else { ahead }
}

/// The rank of a choice of depths; a greater rank is better. The rank is the number of resident CTAs. If this number is equal, the
/// smallest depth of a TMA pipeline, up to [`ENOUGH_STAGES`], decides.
fn rank_of_depths(
    function: &Function,
    groups: Option<&ComputeGroups>,
    staged_buffers: &[Option<BufferDepth>],
    store_buffers: &BTreeSet<Buffer>,
    resident_ctas: &dyn Fn(u32) -> u32,
) -> (u32, Option<u32>) {
    let min_depth = staged_buffers
        .iter()
        .flatten()
        .filter(|staged_buffer| staged_buffer.filled_by_tma)
        .map(|staged_buffer| staged_buffer.depth)
        .min();
    let resident_ctas =
        resident_ctas(bytes_with_barriers(function, &place_buffers(function, groups, staged_buffers, store_buffers), true));
    (resident_ctas, min_depth.map(|depth| depth.min(ENOUGH_STAGES)))
}

/// Deepens the multi-stage buffers of a function with a producer warp. The producer's prefetch distance is the pipeline depth, so
/// the largest depth that keeps occupancy is best. One depth for all copies of a loop is preferred, because the copies then share
/// a pipeline. This depth may be as small as the levelled schedule allows.
fn deepen(
    function: &Function,
    groups: Option<&ComputeGroups>,
    mut staged_buffers: Vec<Option<BufferDepth>>,
    store_buffers: &BTreeSet<Buffer>,
    resident_ctas: &dyn Fn(u32) -> u32,
) -> Vec<Option<BufferDepth>> {
    let bytes = |staged_buffers: &[Option<BufferDepth>]| {
        bytes_with_barriers(function, &place_buffers(function, groups, staged_buffers, store_buffers), true)
    };
    // With a single stage, each alternating copy would wait for the readers of the previous copy. No additional CTA hides that much
    // latency.
    let min_depth =
        |staged_buffer: &BufferDepth| if staged_buffer.alternating { staged_buffer.depth.max(2) } else { staged_buffer.depth };
    let with_min_depths: Vec<Option<BufferDepth>> = staged_buffers
        .iter()
        .map(|staged_buffer| staged_buffer.map(|staged_buffer| BufferDepth { depth: min_depth(&staged_buffer), ..staged_buffer }))
        .collect();
    if resident_ctas(bytes(&with_min_depths)) > 0 {
        staged_buffers = with_min_depths;
    }
    let ctas_before = resident_ctas(bytes(&staged_buffers)).max(1);
    let with_depths_if_they_fit = |staged_buffers: &[Option<BufferDepth>], depth: &dyn Fn(&BufferDepth) -> u32| {
        let new_depth =
            |staged_buffer: &BufferDepth| if staged_buffer.filled_by_tma { depth(staged_buffer) } else { staged_buffer.depth };
        let changed_buffers = staged_buffers.iter().map(|staged_buffer| {
            staged_buffer.map(|staged_buffer| BufferDepth { depth: new_depth(&staged_buffer), ..staged_buffer })
        });
        Some(changed_buffers.collect::<Vec<_>>()).filter(|changed_buffers| resident_ctas(bytes(changed_buffers)) >= ctas_before)
    };
    let mut max_depths: BTreeMap<Block, u32> = BTreeMap::new();
    for staged_buffer in staged_buffers.iter().flatten().filter(|staged_buffer| staged_buffer.filled_by_tma) {
        let depth = max_depths.entry(staged_buffer.block).or_default();
        *depth = staged_buffer.depth.max(*depth);
    }
    // If a copy runs further ahead than another copy of its loop, its readers still wait for the other copy. The additional
    // stages of the first copy can therefore be dropped.
    let filled_by_tma = staged_buffers.iter().flatten().filter(|staged_buffer| staged_buffer.filled_by_tma);
    let max_reduction = filled_by_tma
        .map(|staged_buffer| max_depths[&staged_buffer.block].saturating_sub(staged_buffer.levelled_depth))
        .max()
        .unwrap_or(0);
    let with_equal_depths = |reduction: u32| {
        with_depths_if_they_fit(&staged_buffers, &|staged_buffer| {
            max_depths[&staged_buffer.block].saturating_sub(reduction).max(staged_buffer.levelled_depth)
        })
    };
    staged_buffers = (0..=max_reduction).find_map(with_equal_depths).unwrap_or(staged_buffers);
    for _ in 1..MAX_DEPTH {
        match with_depths_if_they_fit(&staged_buffers, &|staged_buffer| staged_buffer.max_depth.min(staged_buffer.depth + 1)) {
            Some(deeper) => staged_buffers = deeper,
            None => break,
        }
    }
    // An alternating buffer has its own pipeline, so one more stage helps each of its copies.
    let alternating = (0..staged_buffers.len())
        .filter(|at| staged_buffers[*at].is_some_and(|staged_buffer| staged_buffer.filled_by_tma && staged_buffer.alternating));
    for at in alternating.collect::<Vec<_>>() {
        while let Some(depth) = staged_buffers[at]
            .filter(|staged_buffer| staged_buffer.depth < staged_buffer.max_depth)
            .map(|staged_buffer| staged_buffer.depth)
        {
            let mut deeper = staged_buffers.clone();
            deeper[at] = staged_buffers[at].map(|staged_buffer| BufferDepth { depth: depth + 1, ..staged_buffer });
            if resident_ctas(bytes(&deeper)) < ctas_before {
                break;
            }
            staged_buffers = deeper;
        }
    }
    staged_buffers
}

/// Returns the two compute groups if shared memory holds the private buffers of each group and two stages of each buffer that
/// both groups read.
fn groups_that_fit(function: &Function, schedules: &[LoopSchedule], target: Target) -> Option<ComputeGroups> {
    let groups = ComputeGroups::find(function).ok()?;
    let with_second_stage = |staged_buffer: BufferDepth| BufferDepth {
        depth: if staged_buffer.filled_by_tma { staged_buffer.depth.max(2) } else { staged_buffer.depth },
        ..staged_buffer
    };
    let staged_buffers = staged_buffers(function, schedules, &[], TmaIssue::AfterSignal)
        .into_iter()
        .map(|staged_buffer| staged_buffer.map(with_second_stage))
        .collect::<Vec<_>>();
    let placements = place_buffers(function, Some(&groups), &staged_buffers, &BTreeSet::new());
    (bytes_with_barriers(function, &placements, true) <= budget::shared_memory(target)).then_some(groups)
}

/// Computes placements in which any two buffers may share memory if their live ranges do not overlap. Buffers in `doubled` get two
/// stages.
fn place_buffers(
    function: &Function,
    groups: Option<&ComputeGroups>,
    staged_buffers: &[Option<BufferDepth>],
    doubled: &BTreeSet<Buffer>,
) -> Arena<Buffer, Placement> {
    place_with_exclusive(function, groups, staged_buffers, doubled, &BTreeSet::new())
}

/// Computes placements in which the buffers in `exclusive` share memory with no other buffer.
fn place_with_exclusive(
    function: &Function,
    groups: Option<&ComputeGroups>,
    staged_buffers: &[Option<BufferDepth>],
    doubled: &BTreeSet<Buffer>,
    exclusive: &BTreeSet<Buffer>,
) -> Arena<Buffer, Placement> {
    let buffers = &function.attrs.program.buffers;
    let depth = |buffer: Buffer| match staged_buffers[buffer.0 as usize] {
        Some(staged_buffer) => staged_buffer.depth,
        None => 1 + u32::from(doubled.contains(&buffer)),
    };
    let staged = buffers.ids().zip(staged_buffers).filter_map(|(buffer, staged_buffer)| Some((buffer, (*staged_buffer)?)));
    let staged = staged
        .map(|(buffer, BufferDepth { block, from_start, .. })| (buffer, liveness::StagedBuffer { block, from_start }))
        .collect();
    let mut liveness = liveness::liveness(&function.body, function.region, buffers, Op::effects, &staged);
    for (buffer, accumulators) in tmem_mma_buffers::operands_of_rescaled_accumulators(function) {
        liveness[buffer].last = liveness[buffer].last.max(liveness[accumulators].last);
    }
    // A TMA store warp may still read the buffer when all other roles have finished, or when they execute the next iteration.
    let producer_runs_ahead = staged_buffers.iter().flatten().any(|staged_buffer| staged_buffer.from_start);
    for buffer in tmem_mma_buffers::tma_store_buffers(function).into_iter().filter(|_| producer_runs_ahead) {
        let first = if tmem_mma_buffers::is_accessed_in_regions(function, buffer) { 0 } else { liveness[buffer].first };
        liveness[buffer] = LiveRange { first, last: usize::MAX };
    }
    // For operands that threads store only before loops, the live ranges computed so far suffice. Reason: a compute role waits for
    // the MMAs that read such an operand.
    let liveness_before_loops = liveness.clone();
    // Tensor memory MMAs may still read an operand after the threads that stored the operand have continued.
    let filled_before_loops = tmem_mma_buffers::operands_filled_before_loops(function);
    let operands_stored_in_loops = tmem_mma_buffers::stored_operands(function)
        .into_iter()
        .filter(|buffer| tmem_mma_buffers::is_accessed_in_regions(function, *buffer));
    for buffer in operands_stored_in_loops.chain(filled_before_loops) {
        liveness[buffer] = LiveRange { first: 0, last: usize::MAX };
    }
    let (columns, _) = tmem_alloc::place_in_tmem(function, doubled);
    // No synchronisation orders a compute group after the end of a live range of the other group.
    let stored_before_loops = if groups.is_some() { stored_before_loops(function) } else { BTreeSet::new() };
    let cannot_be_ordered = |one: Buffer, other: Buffer| groups.is_some_and(|groups| !groups.may_share_memory(one, other));
    let overlap = |one: Buffer, other: Buffer| match [one, other].iter().any(|buffer| stored_before_loops.contains(buffer)) {
        true => liveness_before_loops[one].overlaps(liveness_before_loops[other]),
        false => liveness[one].overlaps(liveness[other]),
    };
    let is_exclusive = |one: Buffer, other: Buffer| exclusive.contains(&one) || exclusive.contains(&other);
    let offsets = liveness::place_buffers(
        buffers,
        |one, other| is_exclusive(one, other) || cannot_be_ordered(one, other) || overlap(one, other),
        depth,
    );
    let offset = |buffer: Buffer, smem_offset: u32| columns.get(&buffer).copied().unwrap_or(smem_offset);
    offsets.iter().map(|(buffer, smem_offset)| Placement { offset: offset(buffer, *smem_offset), depth: depth(buffer) }).collect()
}

/// The MMA operands that threads store to shared memory only outside loops and conditions.
fn stored_before_loops(function: &Function) -> BTreeSet<Buffer> {
    let (body, entry) = (&function.body, function.entry());
    let blocks = body.op_blocks();
    let is_in_loop = |op: &base::ir::Op| blocks[op.0 as usize] != Some(entry);
    let stored_buffer = |op| match body.ops[op].kind {
        Op::Core(tileas::Op::SharedStore { buffer, .. }) => Some(buffer),
        _ => None,
    };
    let stored_in_loops: BTreeSet<Buffer> =
        body.walk(function.region).into_iter().filter(is_in_loop).filter_map(stored_buffer).collect();
    tmem_mma_buffers::stored_operands(function).into_iter().filter(|buffer| !stored_in_loops.contains(buffer)).collect()
}
