//! Purpose: give every loop that can be pipelined a schedule.
//! Requires: a function without schedules.
//! Establishes: schedules whose multi-stage buffers together fit shared memory.
//! Preserves: the ops.
//! See also: Triton's `AssignLatencies` and `ScheduleLoops`, LLVM's `MachinePipeliner`.
//!
//! A copy's prefetch distance follows from its latency and the loop's initiation interval. If shared memory is too small, the
//! copy with the largest buffer first loses prefetch distance.

use crate::alloc;
use crate::buffer_accesses::buffer_accesses;
use crate::feature_choice::FeatureChoice;
use crate::for_loops::for_loops;
use crate::graph::Graph;
use crate::latency_hints;
use crate::modulo::{self, ReservationTable};
use crate::partition;
use crate::pipelining_options::{pipelines_loops, stages_error};
use crate::resource_model::Machine;
use crate::wgmma_in_flight;
use crate::{tma_pipelines, tmem_mma_buffers};
use base::diag::{ResourceKind, Result};
use base::envelope::{Category, LogEntry, Outcome};
use base::ir::Operation;
use base::{Envelope, File, Loc, Target};
use common::options;
use core_dialect::core_ops::Core;
use sched::{Function, LoopSchedule, Module, ScheduleEntry};

/// Largest prefetch distance, in iterations. A longer distance needs a longer prologue and more shared memory, and hides no further
/// latency.
const MAX_DISTANCE: i64 = 3;
/// Largest prefetch distance, in iterations, of loops whose tensor memory MMAs read the copied buffers. Their iterations are short,
/// and no other work hides the latency.
const MAX_DISTANCE_FOR_TMEM_MMAS: i64 = 7;
/// Largest share of an iteration, as a fraction (numerator, denominator), for which the busiest resource of a latency-bound loop
/// may be in use. A second CTA can use the resource in the remaining time.
const MAX_BUSY_SHARE: (u32, u32) = (3, 4);
/// Smallest and largest number of CTAs per SM for which prefetch distances are reduced to gain occupancy ([`max_wgmma_ctas`]).
const CTA_RANGE: (u32, u32) = (3, 4);
/// Largest number of ops in the body of a loop that is scheduled. Bounds the compile time.
const MAX_OPS: usize = 4096;

pub(crate) fn run(file: &mut File<Module>) -> Result<()> {
    let File { envelope, payload: module } = file;
    if !pipelines_loops(envelope)? {
        return Ok(());
    }
    let requested = options::Scheduling::stages(envelope)?;
    let target = envelope.target()?;
    let (machine, memory) = (Machine::for_target(target), tileas::budget::shared_memory(target));
    let mut decline_reason = None;
    for index in 0..module.functions.len() {
        let mut planned = Vec::new();
        for (number, for_op) in for_loops(&module.functions[index]).into_iter().enumerate() {
            let function = &module.functions[index];
            if !has_async_copies(function, for_op) {
                continue;
            }
            let loc = function.body.ops[for_op].loc;
            match plan(module, function, for_op, &machine) {
                Ok((graph, plan)) => planned.push(PlannedLoop { number: number as u32, loc, graph, plan }),
                Err(reason) => {
                    let message = format!("the loop is not pipelined: {reason}");
                    decline_reason.get_or_insert((message.clone(), loc));
                    log(envelope, function, loc, Outcome::Declined, message);
                }
            }
        }
        let function = &module.functions[index];
        let schedules = match requested {
            Some(stages) => schedule_with_stages(function, planned, stages, memory, envelope)?,
            None => schedule_to_fit(function, planned, target, envelope),
        };
        module.schedules.extend(schedules);
    }
    if requested.is_some() && module.schedules.is_empty() {
        let (message, loc) = decline_reason.unwrap_or_else(|| ("no loop contains an asynchronous copy".into(), Loc::UNKNOWN));
        return Err(stages_error(message).at_loc(&envelope.debug, loc));
    }
    Ok(())
}

/// A loop that will be pipelined, with its dependence graph and modulo schedule.
#[derive(Clone)]
struct PlannedLoop {
    /// The index of the loop among the `for` loops of its function.
    number: u32,
    loc: Loc,
    graph: Graph,
    plan: modulo::ModuloSchedule,
}

impl PlannedLoop {
    /// Returns whether an iteration mostly waits for its own results, so that another CTA can use the resources meanwhile.
    fn is_latency_bound(&self) -> bool {
        let modulo::ModuloSchedule { resource_bound, interval, .. } = &self.plan;
        resource_bound.saturating_mul(MAX_BUSY_SHARE.1) <= interval.saturating_mul(MAX_BUSY_SHARE.0)
    }

    /// Replaces the prefetch distance of each copy, in iterations, by the result of `new_distance` for it.
    fn map_prefetch_distances(&mut self, new_distance: impl Fn(i64) -> i64) {
        let interval = i64::from(self.plan.interval);
        for (node, start) in self.graph.nodes.iter().zip(&mut self.plan.starts) {
            if node.can_run_ahead {
                let now = prefetch_distance(*start, interval);
                *start += (now - new_distance(now)) * interval;
            }
        }
    }
}

/// Returns whether a loop's body has an asynchronous copy at its top level.
fn has_async_copies(function: &Function, for_op: base::ir::Op) -> bool {
    let block = function.body.block_of(crate::for_loops::for_body(function, for_op));
    function.body.blocks[block].ops.iter().any(|op| function.body.ops[*op].kind.effects().copied_to().is_some())
}

/// Returns the dependence graph and the modulo schedule of a loop, or the reason why the loop is not pipelined.
fn plan(
    module: &Module,
    function: &Function,
    for_op: base::ir::Op,
    machine: &Machine,
) -> Result<(Graph, modulo::ModuloSchedule), String> {
    let body = &function.body;
    let inner = body.ops[for_op].kind.regions().into_iter().flat_map(|region| body.walk(region));
    let mut inner_loops = inner.filter(|op| body.ops[*op].kind.core().is_some_and(Core::is_for));
    if inner_loops.any(|inner| has_async_copies(function, inner)) {
        return Err("a loop inside it is pipelined".into());
    }
    if !tma_pipelines::buffers_filled_alternately(function, body.block_of(crate::for_loops::for_body(function, for_op))).is_empty()
    {
        return Err("several of its copies fill the same multi-stage buffer".into());
    }
    let graph = Graph::build(module, function, for_op, machine)?;
    if graph.nodes.len() > MAX_OPS {
        return Err(format!("its body has more than {MAX_OPS} ops"));
    }
    let plan = modulo::schedule(&graph).ok_or("the modulo scheduler found no interval at which its iterations can overlap")?;
    Ok((graph, plan))
}

/// Schedules a function's loops with exactly `stages` stages. Reports an error if the stages do not fit in `memory` bytes of shared
/// memory. MMAs stay in flight where possible.
fn schedule_with_stages(
    function: &Function,
    mut planned: Vec<PlannedLoop>,
    stages: u32,
    memory: u32,
    envelope: &mut Envelope,
) -> Result<Vec<LoopSchedule>> {
    planned.iter_mut().for_each(|planned| planned.map_prefetch_distances(|_| i64::from(stages) - 1));
    let loop_schedules_with =
        |in_flight| planned.iter().map(|planned| loop_schedule(function, planned, in_flight)).collect::<Vec<_>>();
    let may_be_partitioned = FeatureChoice::from_envelope(envelope) != FeatureChoice::Never && partition::check(function).is_ok();
    let bytes = |schedules: &[LoopSchedule]| alloc::needed_smem_bytes(function, schedules, may_be_partitioned);
    let is_feasible = |schedules: &Vec<LoopSchedule>| {
        bytes(schedules) <= memory && schedules.iter().all(|schedule| mmas_complete_in_time(function, schedule))
    };
    let schedules = Some(loop_schedules_with(true)).filter(is_feasible).unwrap_or_else(|| loop_schedules_with(false));
    let needed = bytes(&schedules);
    if let Some(first) = planned.first().filter(|_| needed > memory) {
        let message = format!("{stages} stages need {needed} bytes of shared memory, and a CTA has {memory}");
        // Autotuners match the wording of ptxas.
        let note = format!("'{}' uses too much shared data (0x{needed:x} bytes, 0x{memory:x} max)", function.name);
        let error = stages_error(message).note(note).exceeds(ResourceKind::SharedMemory, needed.into(), memory.into());
        return Err(error.caused_by(Some(format!("stages={stages}"))).at_loc(&envelope.debug, first.loc));
    }
    for (planned, schedule) in planned.iter().zip(&schedules) {
        log(envelope, function, planned.loc, Outcome::Passed, summary(schedule));
    }
    Ok(schedules)
}

/// Returns whether every MMA in flight has completed before a copy fills a stage that the MMA reads.
fn mmas_complete_in_time(function: &Function, schedule: &LoopSchedule) -> bool {
    !schedule.in_flight || schedule.last_stage() >= 2 && wgmma_in_flight::can_stay_in_flight(function, schedule)
}

/// Schedules a function's loops with the largest prefetch distances that fit shared memory.
///
/// A `wgmma` stays in flight across iterations only if the copies of its operands still run at least two iterations ahead.
fn schedule_to_fit(
    function: &Function,
    mut planned: Vec<PlannedLoop>,
    target: Target,
    envelope: &mut Envelope,
) -> Vec<LoopSchedule> {
    let memory = tileas::budget::shared_memory(target);
    for planned in &mut planned {
        let block = sched::loop_body(function, planned.number).expect("the loop was planned");
        let max_distance =
            if tmem_mma_buffers::operands_in(function, block).is_empty() { MAX_DISTANCE } else { MAX_DISTANCE_FOR_TMEM_MMAS };
        let max_distance = latency_hints::depth_limit(function, block).map_or(max_distance, |stages| i64::from(stages) - 1);
        planned.map_prefetch_distances(|ahead| ahead.min(max_distance));
    }
    let mmas_complete = |schedules: &Vec<LoopSchedule>| schedules.iter().all(|schedule| mmas_complete_in_time(function, schedule));
    let may_be_partitioned = FeatureChoice::from_envelope(envelope) != FeatureChoice::Never && partition::check(function).is_ok();
    let bytes = |schedules: &[LoopSchedule]| alloc::needed_smem_bytes(function, schedules, may_be_partitioned);
    let shorten_to_fit =
        |in_flight, memory| shorten_to_fit(function, planned.clone(), in_flight, |schedules| bytes(schedules) <= memory);
    let all_run_ahead = |schedules: &Vec<LoopSchedule>| schedules.iter().all(|schedule| runs_ahead(function, schedule));
    let ctas = max_wgmma_ctas(function, &planned, target, FeatureChoice::from_envelope(envelope));
    // The occupancy for which the last attempt reduced prefetch distances, and the occupancy of the successful attempt, if any.
    let (mut ctas_tried, mut ctas_that_limit_prefetch) = (0, 0);
    let found = smem_share_for_hint(function, &planned, target)
        .and_then(|share| shorten_to_fit(false, share))
        .or_else(|| {
            smem_share_for_two_ctas(function, &planned, target).and_then(|share| shorten_to_fit(false, share)).filter(all_run_ahead)
        })
        .or_else(|| {
            let share = smem_share_if_latency_bound(function, &planned, target)?;
            // If no prefetching schedule fits in the share, the loops stay serial.
            shorten_to_fit(false, share).or_else(|| (bytes(&[]) <= share).then(Vec::new))
        })
        .or_else(|| {
            let mut cta_counts = (CTA_RANGE.0..=ctas.min(CTA_RANGE.1)).rev();
            cta_counts.find_map(|tried| {
                ctas_tried = tried;
                shorten_to_fit(false, tileas::budget::shared_memory_of_each(target, tried)).filter(all_run_ahead)
            })
        })
        .or_else(|| {
            ctas_tried = 2;
            let share = (ctas > 1).then(|| tileas::budget::shared_memory_of_each(target, 2))?;
            let has_registers = partition::has_registers(function, 2, target);
            if threads_copy(function, &planned) {
                return shorten_to_fit(true, has_registers.then_some(share)?).filter(mmas_complete).filter(all_run_ahead);
            }
            // A second CTA hides more latency than a producer warp. If registers do not suffice for both, the function gets no
            // producer warp.
            let pays = planned.iter().all(PlannedLoop::is_latency_bound)
                && (has_registers || partition::has_registers_without_roles(function, 2, target));
            shorten_to_fit(false, pays.then_some(share)?).filter(all_run_ahead)
        })
        .inspect(|_| ctas_that_limit_prefetch = ctas_tried)
        .or_else(|| shorten_to_fit(true, memory).filter(mmas_complete))
        .or_else(|| shorten_to_fit(false, memory));
    let Some(schedules) = found else {
        // A copy that is issued in the iteration of its use hides no latency.
        for planned in &planned {
            let message = "the loop is not pipelined: shared memory does not fit a second stage".into();
            log(envelope, function, planned.loc, Outcome::Declined, message);
        }
        return Vec::new();
    };
    for planned in planned.iter().filter(|_| schedules.is_empty()) {
        let message = "the loop is not pipelined: shared memory then fits two CTAs, which hide more latency".into();
        log(envelope, function, planned.loc, Outcome::Declined, message);
    }
    for (planned, schedule) in planned.iter().zip(&schedules) {
        log(envelope, function, planned.loc, Outcome::Passed, summary(schedule));
        if ctas_that_limit_prefetch > 1 {
            let message =
                format!("its prefetch distance is limited so that {ctas_that_limit_prefetch} CTAs fit, which hide more latency");
            log(envelope, function, planned.loc, Outcome::Passed, message);
        }
    }
    schedules
}

/// Returns the shared memory in bytes that each CTA gets at the author's occupancy hint. Returns `None` without a hint. The hint
/// applies to functions without MMAs, and to functions whose copies feed tensor memory MMAs. In these functions, several CTAs hide
/// more latency than a longer prefetch distance.
fn smem_share_for_hint(function: &Function, planned: &[PlannedLoop], target: Target) -> Option<u32> {
    let applies = planned.iter().any(|planned| feeds_tmem_mmas(function, planned)) || !has_mmas(function);
    Some(tileas::budget::shared_memory_of_each(target, function.attrs.program.occupancy.filter(|_| applies)?))
}

fn has_mmas(function: &Function) -> bool {
    let ops = function.body.walk(function.region);
    ops.into_iter().any(|op| matches!(function.body.ops[op].kind, sched::Op::Core(tileas::Op::Mma { .. })))
}

/// Returns the shared memory in bytes that each of two CTAs gets, if TMEM and registers suffice for both. While one CTA starts or
/// ends, the MMAs of the other CTA continue. Persistent CTAs start and end only once, so they are excluded.
fn smem_share_for_two_ctas(function: &Function, planned: &[PlannedLoop], target: Target) -> Option<u32> {
    let is_outermost = |planned: &PlannedLoop| {
        feeds_tmem_mmas(function, planned)
            && sched::loop_body(function, planned.number).is_some_and(|block| !tma_pipelines::is_nested(function, block))
    };
    let is_eligible = planned.iter().all(is_outermost) && partition::check(function).is_ok();
    let has_capacity =
        is_eligible && partition::max_resident_ctas(function, target) >= 2 && partition::has_registers(function, 2, target);
    has_capacity.then(|| tileas::budget::shared_memory_of_each(target, 2))
}

/// Returns the shared memory in bytes that each of two CTAs gets, if an iteration mostly waits for its own results. Reason: a
/// second CTA then computes meanwhile, which is worth more than prefetching. The register limit per thread must be the same with
/// one CTA and with two.
fn smem_share_if_latency_bound(function: &Function, planned: &[PlannedLoop], target: Target) -> Option<u32> {
    let warps = function.attrs.program.warps;
    let registers = |ctas| tileas::budget::registers(target, warps, ctas);
    let is_top_level_and_waits = |planned: &PlannedLoop| {
        let block = sched::loop_body(function, planned.number);
        block.is_some_and(|block| !tma_pipelines::is_nested(function, block)) && planned.is_latency_bound()
    };
    let is_eligible = !partition::has_copies(function) && registers(2) == registers(1) && !planned.is_empty();
    (is_eligible && planned.iter().all(is_top_level_and_waits)).then(|| tileas::budget::shared_memory_of_each(target, 2))
}

/// Returns the number of co-resident CTAs for which registers suffice, in a `wgmma` function with a producer warp. Returns 0 if
/// the prefetch distance should not be reduced for more CTAs. More CTAs hide more latency than longer prefetch distances or MMAs
/// in flight. Measured on an H200: three CTAs are faster than one CTA that has all the shared memory. Two CTAs are faster if the
/// computing threads also copy, or if all loops wait for latencies ([`PlannedLoop::is_latency_bound`]). Returns 0 if the author or
/// an option sets the depth or the roles. Nested loops are excluded: their grid often has only as many CTAs as run at a time.
/// Clusters are excluded: their CTAs wait for each other.
fn max_wgmma_ctas(function: &Function, planned: &[PlannedLoop], target: Target, choice: FeatureChoice) -> u32 {
    let is_eligible = |planned: &PlannedLoop| {
        let block = sched::loop_body(function, planned.number);
        block.is_some_and(|block| {
            !tma_pipelines::is_nested(function, block) && latency_hints::depth_limit(function, block).is_none()
        })
    };
    let ops = function.body.walk(function.region);
    let mut kinds = ops.into_iter().map(|op| &function.body.ops[op].kind);
    let is_excluded = choice != FeatureChoice::WherePays || function.attrs.program.cluster.is_some();
    let pays = !is_excluded
        && planned.iter().all(is_eligible)
        && kinds.any(wgmma_in_flight::is_wgmma)
        && partition::check(function).is_ok();
    if pays { partition::max_resident_ctas(function, target) } else { 0 }
}

/// Returns whether threads fill a multi-stage buffer of a loop in addition to TMA.
fn threads_copy(function: &Function, planned: &[PlannedLoop]) -> bool {
    planned.iter().filter_map(|planned| sched::loop_body(function, planned.number)).any(|block| {
        let mut ops = function.body.blocks[block].ops.iter().map(|op| &function.body.ops[*op].kind);
        ops.any(|op| op.effects().copied_to().is_some() && tma_pipelines::buffer_filled_by_tma(op).is_none())
    })
}

/// Returns whether tensor memory MMAs read the buffers that a loop's copies fill.
fn feeds_tmem_mmas(function: &Function, planned: &PlannedLoop) -> bool {
    sched::loop_body(function, planned.number).is_some_and(|block| !tmem_mma_buffers::operands_in(function, block).is_empty())
}

/// Returns whether all copies of a loop are issued at least one iteration before the iteration that needs their data.
fn runs_ahead(function: &Function, schedule: &LoopSchedule) -> bool {
    let Some(block) = sched::loop_body(function, schedule.index) else { return false };
    let ops = &function.body.blocks[block].ops;
    let copies = schedule
        .entries
        .iter()
        .filter(|entry| ops.get(entry.op as usize).is_some_and(|op| function.body.ops[*op].kind.effects().copied_to().is_some()));
    copies.into_iter().all(|entry| entry.stage < schedule.last_stage())
}

/// Shortens prefetch distances until `fits` accepts the schedules. Returns `None` if `fits` rejects even the shortest distances.
fn shorten_to_fit(
    function: &Function,
    mut planned: Vec<PlannedLoop>,
    in_flight: bool,
    fits: impl Fn(&[LoopSchedule]) -> bool,
) -> Option<Vec<LoopSchedule>> {
    planned.iter_mut().for_each(|planned| equalize_prefetch_distances(function, planned));
    loop {
        let schedules: Vec<LoopSchedule> = planned.iter().map(|planned| loop_schedule(function, planned, in_flight)).collect();
        if fits(&schedules) {
            return Some(schedules);
        }
        if !shorten_prefetch(function, &mut planned) {
            return None;
        }
    }
}

/// Returns the prefetch distance of a copy with this start: the number of iterations between the issue of the copy and its use.
fn prefetch_distance(start: i64, interval: i64) -> i64 {
    -start.div_euclid(interval)
}

/// Gives all copies that tensor memory MMAs read the same prefetch distance. The copies then share one pipeline, which halves the
/// pipeline ops of the issuing thread.
fn equalize_prefetch_distances(function: &Function, planned: &mut PlannedLoop) {
    let (copies, interval) = (mma_operand_copies(function, planned), i64::from(planned.plan.interval));
    let starts = &mut planned.plan.starts;
    let Some(least) = copies.iter().map(|n| prefetch_distance(starts[*n], interval)).min().filter(|least| *least > 0) else {
        return;
    };
    for n in copies {
        starts[n] += (prefetch_distance(starts[n], interval) - least) * interval;
    }
}

/// The graph nodes of the copies whose data tensor memory MMAs read.
fn mma_operand_copies(function: &Function, PlannedLoop { number, graph, .. }: &PlannedLoop) -> Vec<usize> {
    let Some(block) = sched::loop_body(function, *number) else { return Vec::new() };
    let operands = tmem_mma_buffers::operands_in(function, block);
    let fills =
        |op: base::ir::Op| function.body.ops[op].kind.effects().copied_to().is_some_and(|buffer| operands.contains(&buffer));
    (0..graph.nodes.len()).filter(|n| graph.nodes[*n].can_run_ahead && fills(graph.nodes[*n].op)).collect()
}

/// Shortens the prefetch distance of the copy with the largest multi-stage buffer by one iteration. If all copies of the pipeline
/// run at least two iterations ahead, their distances are shortened together. Returns false if no copy runs ahead. Also returns
/// false if a copy that no longer runs ahead has no free cycles in its own iteration.
fn shorten_prefetch(function: &Function, planned: &mut [PlannedLoop]) -> bool {
    let mut largest: Option<(u32, usize, usize)> = None;
    for (i, PlannedLoop { graph, plan, .. }) in planned.iter().enumerate() {
        for (n, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.can_run_ahead) {
            let iterations = prefetch_distance(plan.starts[n], i64::from(plan.interval));
            let buffers = buffer_accesses(&function.body.ops[node.op].kind);
            let bytes: u32 = buffers.iter().map(|access| function.attrs.program.buffers[access.buffer()].bytes()).sum();
            let staged_bytes = bytes * (iterations as u32 + 1);
            if iterations > 0 && largest.is_none_or(|(largest_bytes, ..)| staged_bytes >= largest_bytes) {
                largest = Some((staged_bytes, i, n));
            }
        }
    }
    let Some((_, i, n)) = largest else { return false };
    let (copies_of_pipeline, interval) = (mma_operand_copies(function, &planned[i]), i64::from(planned[i].plan.interval));
    let PlannedLoop { graph, plan, .. } = &mut planned[i];
    if copies_of_pipeline.contains(&n) && copies_of_pipeline.iter().all(|n| prefetch_distance(plan.starts[*n], interval) > 1) {
        copies_of_pipeline.into_iter().for_each(|n| plan.starts[n] += interval);
        return true;
    }
    plan.starts[n] += interval;
    if plan.starts[n] < 0 {
        return true;
    }
    // The copy no longer runs ahead. It must still precede its readers, and start at a cycle at which its resources are free.
    let latest = graph.edges.iter().filter(|edge| edge.from == n && edge.distance == 0).map(|edge| plan.starts[edge.to]).min();
    let mut reservations = ReservationTable::new(plan.interval);
    for (other, node) in graph.nodes.iter().enumerate().filter(|(other, _)| *other != n) {
        reservations.reserve(&node.cost.uses, plan.starts[other], other);
    }
    match reservations.first_free(&graph.nodes[n].cost.uses, 0, latest.unwrap_or(0)) {
        Some(start) => {
            plan.starts[n] = start;
            true
        }
        None => false,
    }
}

/// Converts a modulo schedule to the form of `.sched` files, which has a stage and a cycle for each op.
fn loop_schedule(function: &Function, planned: &PlannedLoop, in_flight: bool) -> LoopSchedule {
    let PlannedLoop { number, graph, plan, .. } = planned;
    let interval = i64::from(plan.interval);
    let first = plan.starts.iter().map(|start| start.div_euclid(interval)).min().unwrap_or(0);
    let entry = |(op, start): (usize, &i64)| ScheduleEntry {
        op: op as u32,
        stage: (start.div_euclid(interval) - first) as u32,
        cycle: start.rem_euclid(interval) as u32,
    };
    debug_assert_eq!(graph.nodes.len(), plan.starts.len());
    LoopSchedule {
        function: function.name.clone(),
        index: *number,
        interval: plan.interval,
        resource_bound: plan.resource_bound,
        recurrence_bound: plan.recurrence_bound,
        in_flight: in_flight && has_wgmma_to_overlap(function, *number),
        entries: plan.starts.iter().enumerate().map(entry).collect(),
    }
}

/// Returns whether a loop has a `wgmma` that can stay in flight across iterations.
fn has_wgmma_to_overlap(function: &Function, number: u32) -> bool {
    sched::loop_body(function, number).is_some_and(|block| !wgmma_in_flight::mmas_left_in_flight(function, block).is_empty())
}

/// Returns the text of the remark about a pipelined loop.
fn summary(schedule: &LoopSchedule) -> String {
    let LoopSchedule { interval, resource_bound, recurrence_bound, .. } = schedule;
    let stages = schedule.last_stage() + 1;
    format!(
        "the loop is pipelined in {stages} stages: an iteration every {interval} cycles, at least {resource_bound} by resources \
         and {recurrence_bound} by recurrences"
    )
}

/// Adds a remark about a loop to the log of the file.
fn log(envelope: &mut Envelope, function: &Function, loc: Loc, outcome: Outcome, message: String) {
    let (pass, name, category) = ("analysis".into(), "Pipelined".into(), Category::Other);
    envelope.log.push(LogEntry { pass, outcome, name, category, message, function: function.name.clone(), loc });
}
