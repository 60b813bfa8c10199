//! Purpose: rewrite every scheduled loop so that its copies run ahead. The schedule makes all decisions.
//! Requires: placements whose depths are those of the schedules.
//! Establishes: waits, and a barrier after each, before the reads of copied buffers; a stage in every access to a multi-stage
//! buffer. [`crate::barriers`] places all other barriers.
//! Preserves: the order of ops that compute, and the trip count of every loop.
//! See also: Triton's software `PipelineExpander`, LLVM's `ModuloScheduleExpander`.
//!
//! A copy that runs `d` iterations ahead is issued for the first `d` iterations in a prologue. The steady loop then runs as long as
//! every copy has an iteration to fetch, so its copies need no condition. If the trip count is at most `d`, the steady loop does
//! not run. An epilogue loop without the copies of the largest distance runs the remaining iterations. A long body is emitted only
//! once instead, with a condition around each copy.
//!
//! Constant group count: every copy ends a copy group each time control passes its position, whether a copy was issued or not.
//! The number of groups that may be unfinished when an iteration needs its data is therefore a constant.
//!
//! Warps wait for an in-flight `wgmma` after they have issued the `wgmma` of the next iteration, and for the last `wgmma` after the
//! loop. Each warp waits only for its own share of the MMA. Other threads may therefore overwrite the operands only after the
//! barrier that follows the wait, which is the barrier before the next reads. The copies of such a loop come after that barrier.
//!
//! Inner loops are rewritten first, so that the rewritten inner loop is part of an iteration of the outer loop.

use crate::buffer_accesses::{SchedulingAccess, buffer_accesses};
use crate::for_loops::{for_body, for_loops};
use crate::graph::address_slice;
use crate::tma_pipelines::{self, CopyGroup, TmaCopy};
use crate::{tmem_mma_buffers, wgmma_in_flight};
use base::ir::{Op as OpId, Operation};
use base::{Body, Loc, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::region_nesting::RegionNesting;
use core_dialect::structured_ops::LoopBounds;
use core_dialect::tile::{Dense, Elem, element_count};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Overflow, Predicate, Signedness};
use sched::{Function, LoopSchedule, Op, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, MmaAtom, MmaOperand, Type};

mod tma_steps;

/// Facts about the pipelined loops, for the barrier pass.
#[derive(Default)]
pub(crate) struct PipelinedLoops {
    /// For an op on multi-stage buffers, the iteration whose data the op accesses, relative to the current iteration. In a
    /// prologue, this number is relative to the first iteration.
    pub(crate) iterations: BTreeMap<OpId, i32>,
    /// For each `for` op of a pipelined loop, the part of the loop that the op executes.
    pub(crate) parts: BTreeMap<OpId, LoopPart>,
    /// For each `group_wait`, the operand buffers of the MMAs for which the op waits. The MMAs may read these buffers until the
    /// wait ends.
    pub(crate) freed_operands: BTreeMap<OpId, Vec<Buffer>>,
}

impl PipelinedLoops {
    /// Copies the entries of an op to its clone.
    fn copy_entries(&mut self, op: OpId, clone: OpId) {
        self.iterations.get(&op).copied().into_iter().for_each(|iteration| _ = self.iterations.insert(clone, iteration));
        self.parts.get(&op).copied().into_iter().for_each(|part| _ = self.parts.insert(clone, part));
        self.freed_operands.get(&op).cloned().into_iter().for_each(|buffers| _ = self.freed_operands.insert(clone, buffers));
    }
}

/// The part of a pipelined loop that a `for` op executes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopPart {
    /// The iterations in which every copy still has a later iteration to fetch data for.
    Steady,
    /// The remaining iterations, without the copies of the largest prefetch distance.
    Epilogue,
    /// The full loop: a condition before each copy tests whether the copy's iteration exists.
    Full,
}

impl LoopPart {
    /// Returns whether no other part of the pipelined loop follows this part.
    pub(crate) fn is_last(self) -> bool {
        self != LoopPart::Steady
    }
}

/// Largest number of `mma.sync` instructions per warp in a body that is emitted twice, as steady loop and as epilogue. In a longer
/// body the conditions around the copies cost little, and `ptxas` would take long for the second copy of the body.
const MAX_MMAS_OF_REPEATED_BODY: u32 = 128;

/// Rewrites the scheduled loops. `has_producer_warp`: a producer warp will issue the TMA copies, separate from the warp roles that
/// compute.
pub(crate) fn run(function: &mut Function, schedules: &[LoopSchedule], has_producer_warp: bool) -> PipelinedLoops {
    let mut pipelined_loops = PipelinedLoops::default();
    let (mut rewritten, mut start_positions) = (BTreeMap::new(), BTreeMap::new());
    let all_loops = for_loops(function);
    let plan = |schedule: &LoopSchedule| {
        let for_op = all_loops[schedule.index as usize];
        (for_op, PipelinePlan::build(function, for_op, schedule, has_producer_warp))
    };
    let plans: Vec<(OpId, PipelinePlan)> = schedules.iter().map(plan).collect();
    for (for_op, plan) in plans.into_iter().rev() {
        let threads = function.attrs.program.warps * 32;
        let depths = function.attrs.placements.iter().map(|(buffer, place)| (buffer, place.depth)).collect();
        let (loc, enclosing_ops) = (function.body.ops[for_op].loc, enclosing_ops(function, for_op));
        let region = function.region;
        let mut rewriter = LoopRewriter {
            body: &mut function.body,
            out: Vec::new(),
            pipelined_loops: &mut pipelined_loops,
            rewritten: &mut rewritten,
            start_positions: &mut start_positions,
            plan: &plan,
            region,
            enclosing_ops,
            entry_positions: Vec::new(),
            threads,
            depths,
            read_stages: BTreeMap::new(),
            loc,
        };
        rewriter.rewrite_loop(for_op);
    }
    pipelined_loops
}

/// Returns the loops and conditions around a loop, outermost first.
fn enclosing_ops(function: &Function, for_op: OpId) -> Vec<OpId> {
    let nesting = RegionNesting::analyse(&function.body, function.region);
    let mut enclosing_ops: Vec<OpId> = std::iter::successors(nesting.parent(for_op), |op| nesting.parent(*op)).collect();
    enclosing_ops.reverse();
    enclosing_ops
}

/// An asynchronous copy of a scheduled loop, with its prefetch distance.
struct ScheduledCopy {
    op: OpId,
    /// The prefetch distance in iterations.
    prefetch_distance: u32,
    /// The buffer that the copy fills.
    buffer: Buffer,
    /// The ops that compute the address of the copy, or `None` if the copy is not moved to another iteration.
    address_slice: Option<Vec<OpId>>,
}

/// The decisions that determine how one loop is rewritten.
struct PipelinePlan {
    /// The ops of an iteration in the order of the schedule.
    order: Vec<OpId>,
    /// The copies that threads issue (`cp.async`), in the order of the schedule.
    copies: Vec<ScheduledCopy>,
    /// The TMA copies whose address depends only on the loop counter, in the order of the schedule.
    tma_copies: Vec<ScheduledCopy>,
    /// The TMA copies in groups. The copies of a group fill one stage of a pipeline together.
    groups: Vec<CopyGroup>,
    /// Whether threads or MMAs used the memory of the pipelines of `groups` before the loop.
    memory_used_before: bool,
    /// The pipeline through which threads signal the producer warp that the memory of the stages is free. `None` if the memory was
    /// not used before the loop, or if there is no producer warp.
    signalled_by: Option<Pipeline>,
    /// The `wgmma` during which stages are filled for later iterations. If `None`, stages are filled at the start of an iteration.
    fills_during: Option<OpId>,
    /// Whether the body is emitted only once, as [`LoopPart::Full`].
    emitted_once: bool,
    /// MMAs that stay in flight until those of the next iteration have been issued.
    in_flight: Vec<wgmma_in_flight::InFlightMma>,
}

impl PipelinePlan {
    /// Decides how to rewrite a loop, and adds the pipelines of its TMA copies to the function.
    fn build(function: &mut Function, for_op: OpId, schedule: &LoopSchedule, has_producer_warp: bool) -> PipelinePlan {
        let body = &function.body;
        let ops = &body.blocks[body.block_of(for_body(function, for_op))].ops;
        let mut entries = schedule.entries.clone();
        entries.sort_by_key(|entry| (entry.cycle, entry.op));
        let order: Vec<OpId> = entries.iter().map(|entry| ops[entry.op as usize]).collect();
        let last_stage = schedule.last_stage();
        let copy_of_entry = |entry: &sched::ScheduleEntry| {
            let op = ops[entry.op as usize];
            let buffer = body.ops[op].kind.effects().copied_to()?;
            let prefetch_distance = last_stage - entry.stage;
            Some(ScheduledCopy { op, prefetch_distance, buffer, address_slice: address_slice(function, for_op, op).ok() })
        };
        let all_copies: Vec<ScheduledCopy> = entries.iter().filter_map(copy_of_entry).collect();
        // If a copy's buffer has more than one stage, a producer warp may issue the copy ahead.
        let may_run_ahead =
            all_copies.iter().any(|copy| copy.prefetch_distance > 0 || function.attrs.placements[copy.buffer].depth > 1);
        let block = body.block_of(for_body(function, for_op));
        let in_flight =
            if may_run_ahead && schedule.in_flight { wgmma_in_flight::mmas_left_in_flight(function, block) } else { Vec::new() };
        let (mut tma_copies, copies): (Vec<ScheduledCopy>, Vec<ScheduledCopy>) =
            all_copies.into_iter().partition(|copy| tma_pipelines::buffer_filled_by_tma(&body.ops[copy.op].kind).is_some());
        // A TMA copy whose address depends on more than the loop counter stays where it is, and the hazard checker reports the
        // copy.
        tma_copies.retain(|copy| copy.address_slice.is_some());
        // With TMA, only one thread tests whether there is a copy to issue. This test costs less than a second copy of the body.
        let emitted_once = !tma_copies.is_empty() || mma_sync_instructions(function, for_op) > MAX_MMAS_OF_REPEATED_BODY;
        let first_mma =
            |buffer| order.iter().copied().find(|op| tmem_mma_buffers::mma_operands(&body.ops[*op].kind).contains(&Some(buffer)));
        let reads = |op: &OpId, copy: &ScheduledCopy| {
            *op != copy.op && buffer_accesses(&body.ops[*op].kind).iter().any(|access| access.buffer() == copy.buffer)
        };
        let mmas_before = |copy: &ScheduledCopy| {
            let before = order.iter().take_while(|op| !reads(op, copy));
            before.filter(|op| matches!(body.ops[**op].kind, Op::Core(tileas::Op::Mma { .. }))).count()
        };
        let alternating = tma_pipelines::buffers_filled_alternately(function, block);
        let tma_copy = |copy: &ScheduledCopy| {
            let &ScheduledCopy { op, prefetch_distance, buffer, .. } = copy;
            let (alternating, mma) = (alternating.contains(&buffer), first_mma(buffer));
            TmaCopy { op, buffer, prefetch_distance, alternating, mma, mmas_before: mmas_before(copy) }
        };
        let described_copies: Vec<TmaCopy> = tma_copies.iter().map(tma_copy).collect();
        let groups = tma_pipelines::group_copies(&mut function.attrs, &described_copies);
        let buffers: Vec<Buffer> = described_copies.iter().map(|copy| copy.buffer).collect();
        let memory_used_before = tma_pipelines::is_memory_used_before(function, for_op, &buffers);
        let signalled_by =
            (memory_used_before && has_producer_warp).then(|| tma_pipelines::add_signal_only_pipeline(&mut function.attrs));
        // A copy for the next iteration must not be issued late in an iteration, because its data would arrive too late.
        let is_early_enough = |entry: &&sched::ScheduleEntry| {
            2 * entry.cycle <= schedule.interval || tma_copies.iter().all(|copy| copy.prefetch_distance != 1)
        };
        let body = &function.body;
        let mmas = entries.iter().filter(is_early_enough).map(|entry| ops[entry.op as usize]);
        let mut mmas = mmas.filter(|op| in_flight.is_empty() && wgmma_in_flight::has_32_bit_accumulator(body, *op));
        let fills_during = mmas.next();
        PipelinePlan { copies, tma_copies, groups, memory_used_before, signalled_by, fills_during, order, emitted_once, in_flight }
    }

    /// The largest prefetch distance of the loop's copies, in iterations.
    fn max_prefetch_distance(&self) -> u32 {
        self.copies.iter().chain(&self.tma_copies).map(|copy| copy.prefetch_distance).max().unwrap_or(0)
    }

    /// Indices of the copies that are issued in an earlier iteration.
    fn prefetched_copies(&self) -> Vec<usize> {
        (0..self.copies.len()).filter(|i| self.copies[*i].prefetch_distance > 0).collect()
    }

    /// Returns how many copy groups may be unfinished when an op needs the data of the copy with index `copy`. `issued`: the groups
    /// that the iteration has committed before the op. Relies on the constant group count.
    fn pending_groups(&self, copy: usize, issued: usize) -> u32 {
        let groups = self.copies[copy].prefetch_distance as usize * self.copies.len() + issued;
        (groups - copy - 1) as u32
    }
}

/// Maps each value of the original loop to its value in the rewritten loop.
type ValueMap = BTreeMap<Value, Value>;

/// Rewrites one scheduled loop.
struct LoopRewriter<'a> {
    body: &'a mut Body<Op, Type>,
    /// The ops of the block being written.
    out: Vec<OpId>,
    pipelined_loops: &'a mut PipelinedLoops,
    /// The ops that replaced each loop already rewritten.
    rewritten: &'a mut BTreeMap<OpId, Vec<OpId>>,
    /// For each pipeline, the position at which the most recently written loop starts, if no loop encloses that loop.
    start_positions: &'a mut BTreeMap<Pipeline, StagePhase>,
    plan: &'a PipelinePlan,
    /// The region of the function.
    region: Region,
    /// The loops and conditions around this loop, outermost first.
    enclosing_ops: Vec<OpId>,
    /// The positions in the loop's pipelines at the start of the block of each op in `enclosing_ops`, and of the loop's block.
    entry_positions: Vec<Vec<Value>>,
    /// The number of threads of the CTA.
    threads: u32,
    /// The number of stages of each buffer.
    depths: BTreeMap<Buffer, u32>,
    /// The current stages of the multi-stage buffers that the op being written reads.
    read_stages: BTreeMap<Buffer, Value>,
    /// The source location of the loop, which the new ops get.
    loc: Loc,
}

/// The stage to read and the stage to fill, shared by all copies with the same prefetch distance and depth.
struct StageCursor {
    prefetch_distance: u32,
    depth: u32,
    read_stage: Value,
    fill_stage: Value,
}

/// A position in a pipeline: a stage, and the mbarrier phase in which it is used.
#[derive(Clone, Copy)]
struct StagePhase {
    stage: Value,
    phase: Value,
}

/// The parameters of the original loop, which all parts of the pipelined loop share.
struct LoopFrame {
    counter_type: Type,
    /// Whether comparisons of the counter are unsigned.
    unsigned: bool,
    step: Value,
    /// The exclusive upper bound of the original loop.
    upper: Value,
    /// Maps each prefetch distance, in iterations, to the distance times `step`.
    distances: BTreeMap<u32, Value>,
    /// The body of the original loop.
    region: Region,
}

impl LoopRewriter<'_> {
    /// Replaces a loop by its prologue, its parts, and the waits and releases after it.
    fn rewrite_loop(&mut self, for_op: OpId) {
        let loop_op = self.body.ops[for_op].kind.core().and_then(Core::as_loop).expect("only loops are scheduled");
        let LoopBounds { lower, upper, step, unsigned } = loop_op.bounds.expect("only `for` loops are scheduled");
        let (init, region) = (loop_op.init.to_vec(), loop_op.body);
        let counter_type = self.body.ty(lower).clone();
        let mut frame = LoopFrame { counter_type, unsigned, step, upper, distances: BTreeMap::new(), region };
        self.emit_memory_acquire();
        let carried = self.add_carried_positions();
        let has_fetch = self.emit_prologue(&mut frame, lower, &carried);
        let stage_cursors = self.stage_cursors();
        let positions = if carried.is_empty() { self.emit_first_positions() } else { carried };
        // The steady loop ends where the copies of the largest distance have no iteration left to fetch.
        let steady_end = match frame.distances.get(&self.plan.max_prefetch_distance()) {
            Some(&distance) if !self.plan.emitted_once => {
                let end = self.emit_binary(Binary::SubI { overflow: Overflow::None }, upper, distance, &frame.counter_type.clone());
                self.emit_core(Core::Select { cond: has_fetch, yes: end, no: lower }, frame.counter_type.clone())
            }
            _ => upper,
        };
        let stages = stage_cursors.iter().flat_map(|stage_cursor| [stage_cursor.read_stage, stage_cursor.fill_stage]);
        let position_values = positions.iter().flat_map(|position| [position.stage, position.phase]);
        let carried: Vec<Value> = init.iter().copied().chain(stages).chain(position_values).chain([lower]).collect();
        let is_one_part = self.plan.emitted_once || self.plan.max_prefetch_distance() == 0;
        let first_part = if is_one_part { LoopPart::Full } else { LoopPart::Steady };
        let mut results = self.emit_part(&frame, first_part, [lower, steady_end], &carried, &stage_cursors);
        if !is_one_part {
            let next = *results.last().expect("the next index is carried");
            results = self.emit_part(&frame, LoopPart::Epilogue, [next, upper], &results, &stage_cursors);
        }
        let last_accumulators: Vec<Value> = self.plan.in_flight.iter().map(|mma| results[mma.carried_index]).collect();
        if !last_accumulators.is_empty() {
            let wait = self.append_op(Op::GroupWait { pending: 0, accumulators: last_accumulators }, []);
            let reads = self.plan.in_flight.iter().flat_map(|mma| mma.operand_buffers.clone());
            self.pipelined_loops.freed_operands.insert(wait, reads.collect());
            self.emit_releases_after_loop(&frame, lower, &results[init.len() + 2 * stage_cursors.len()..]);
        }
        // Replace the loop.
        let old = self.body.ops[for_op].results.clone();
        for (old, new) in old.iter().zip(&results) {
            self.body.replace_uses(*old, *new);
        }
        let position_range = init.len() + 2 * stage_cursors.len()..results.len() - 1;
        self.forward_positions(for_op, &results[position_range.clone()]);
        self.connect_to_later_loop(&results[position_range], &positions);
        let (block, at) = self.place_of(for_op);
        let out = std::mem::take(&mut self.out);
        self.body.blocks[block].ops.splice(at..=at, out.iter().copied());
        self.rewritten.insert(for_op, out);
    }

    /// Returns the block that contains an op, and the index of the op in the block.
    fn place_of(&self, op: OpId) -> (base::Block, usize) {
        let place =
            self.body.blocks.iter().find_map(|(block, node)| Some((block, node.ops.iter().position(|other| *other == op)?)));
        place.expect("the op is in a block")
    }

    /// Emits the copies of the first iterations, each under the condition that its iteration exists. Returns the condition that the
    /// iteration at the largest prefetch distance exists, which is the first iteration that the steady loop fetches. Fills in the
    /// distances of `frame`.
    fn emit_prologue(&mut self, frame: &mut LoopFrame, lower: Value, positions: &[StagePhase]) -> Value {
        let max_prefetch_distance = self.plan.max_prefetch_distance();
        let mut exists = self.emit_less_than(frame, lower, frame.upper);
        // For each iteration from the first: its loop counter, and whether the iteration exists. The counter of an existing
        // iteration has not wrapped around.
        let mut iterations = vec![(lower, exists)];
        let mut distance = None;
        for prefetch_distance in 1..=max_prefetch_distance {
            let (current, _) = *iterations.last().expect("the list starts with one iteration");
            let remaining =
                self.emit_binary(Binary::SubI { overflow: Overflow::None }, frame.upper, current, &frame.counter_type.clone());
            let has_next = Core::Compare {
                kind: Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned },
                lhs: frame.step,
                rhs: remaining,
            };
            let has_next = self.emit_core(has_next, scalar_type(Scalar::I1));
            exists = self.emit_binary(Binary::And, exists, has_next, &scalar_type(Scalar::I1));
            let next = self.emit_add(current, frame.step, &frame.counter_type.clone());
            iterations.push((next, exists));
            let total_distance =
                distance.map_or(frame.step, |before| self.emit_add(before, frame.step, &frame.counter_type.clone()));
            frame.distances.insert(prefetch_distance, total_distance);
            distance = Some(total_distance);
        }
        for prologue_step in 0..max_prefetch_distance {
            // In the loop, these copies would be in iteration `prologue_step - max_prefetch_distance`, before the first iteration.
            for copy in &self.plan.copies {
                if let Some(iteration) = (prologue_step + copy.prefetch_distance).checked_sub(max_prefetch_distance) {
                    let (index, exists) = iterations[iteration as usize];
                    let depth = self.depths[&copy.buffer];
                    let stage = (depth > 1).then(|| iteration % depth);
                    self.emit_if(exists, |rewriter| {
                        let stage = stage.map(|stage| rewriter.emit_i32_constant(stage));
                        rewriter.emit_copy(frame, copy, index, stage, iteration as i32, &ValueMap::new());
                    });
                }
                self.emit_copy_commit();
            }
            for (at, group) in self.plan.groups.iter().enumerate() {
                if let Some(iteration) = (prologue_step + group.prefetch_distance).checked_sub(max_prefetch_distance) {
                    let (index, exists) = iterations[iteration as usize];
                    self.emit_if(exists, |rewriter| {
                        let position = match positions.get(at) {
                            Some(position) if iteration == 0 => *position,
                            Some(position) => rewriter.emit_advanced(*position, iteration, group.depth),
                            None => rewriter.emit_position([iteration % group.depth, 0]),
                        };
                        rewriter.emit_fill(frame, group, index, position, iteration as i32, &ValueMap::new());
                    });
                }
            }
        }
        exists
    }

    /// Creates one stage cursor for all copies with the same prefetch distance and depth.
    fn stage_cursors(&mut self) -> Vec<StageCursor> {
        let prefetched_copies = self.plan.copies.iter().filter(|copy| copy.prefetch_distance > 0);
        let distances_and_depths: BTreeSet<(u32, u32)> =
            prefetched_copies.map(|copy| (copy.prefetch_distance, self.depths[&copy.buffer])).collect();
        let stage_cursor = |(prefetch_distance, depth)| StageCursor {
            prefetch_distance,
            depth,
            read_stage: self.emit_i32_constant(0),
            fill_stage: self.emit_i32_constant(prefetch_distance),
        };
        distances_and_depths.into_iter().map(stage_cursor).collect()
    }

    /// Emits a `for` op over the iterations from `lower` to `upper`. Returns the results of the op.
    fn emit_part(
        &mut self,
        frame: &LoopFrame,
        part: LoopPart,
        [lower, upper]: [Value; 2],
        init: &[Value],
        stage_cursors: &[StageCursor],
    ) -> Vec<Value> {
        let outer = std::mem::take(&mut self.out);
        let region = self.body.new_region();
        let block = self.body.new_block(region);
        let counter = self.body.add_argument(block, frame.counter_type.clone());
        let args: Vec<Value> = init
            .iter()
            .map(|value| self.body.ty(*value).clone())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|ty| self.body.add_argument(block, ty))
            .collect();
        let old = self.body.blocks[self.body.block_of(frame.region)].args.clone();
        let mut map: ValueMap = old[1..].iter().copied().zip(args.iter().copied()).collect();
        map.insert(old[0], counter);
        let (stages, position_values) = args[old.len() - 1..args.len() - 1].split_at(2 * stage_cursors.len());
        let starts: Vec<StagePhase> =
            position_values.chunks(2).map(|position| StagePhase { stage: position[0], phase: position[1] }).collect();
        let positions = self.emit_group_positions(&starts);
        let stage_cursors: Vec<StageCursor> = stage_cursors
            .iter()
            .zip(stages.chunks(2))
            .map(|(stage_cursor, pair)| StageCursor {
                prefetch_distance: stage_cursor.prefetch_distance,
                depth: stage_cursor.depth,
                read_stage: pair[0],
                fill_stage: pair[1],
            })
            .collect();
        self.emit_iteration(frame, part, counter, &stage_cursors, &positions, &mut map);
        self.emit_releases_at_iteration_end(frame, lower, counter, &positions);
        // The values that the iteration forwards to the next iteration.
        let terminator = self.body.terminator(self.body.block_of(frame.region)).expect("a loop's body ends in continue");
        let mut continued: Vec<Value> =
            self.body.ops[terminator].kind.operands().iter().map(|value| mapped(&map, *value)).collect();
        for stage_cursor in &stage_cursors {
            // If all stages other than the stage being read hold prefetched data, the next fill goes to the stage being read.
            let next_fill_stage = if stage_cursor.depth == stage_cursor.prefetch_distance + 1 {
                stage_cursor.read_stage
            } else {
                self.emit_next_stage(stage_cursor.fill_stage, stage_cursor.depth)
            };
            continued.extend([self.emit_next_stage(stage_cursor.read_stage, stage_cursor.depth), next_fill_stage]);
        }
        for StagePhase { stage, phase } in self.emit_next_positions(&positions) {
            continued.extend([stage, phase]);
        }
        continued.push(self.emit_add(counter, frame.step, &frame.counter_type.clone()));
        self.append_core(Core::Continue { values: continued }, Vec::new());
        let ops = std::mem::replace(&mut self.out, outer);
        self.body.blocks[block].ops = ops;
        let types: Vec<Type> = init.iter().map(|value| self.body.ty(*value).clone()).collect();
        let bounds = LoopBounds { lower, upper, step: frame.step, unsigned: frame.unsigned };
        let new = Core::new_loop(Some(bounds), init.to_vec(), region);
        let op = self.append_core(new, types);
        self.pipelined_loops.parts.insert(op, part);
        self.body.ops[op].results.to_vec()
    }

    /// Emits the ops of one iteration in the schedule's order.
    fn emit_iteration(
        &mut self,
        frame: &LoopFrame,
        part: LoopPart,
        counter: Value,
        stage_cursors: &[StageCursor],
        positions: &[StagePhase],
        map: &mut ValueMap,
    ) {
        let plan = self.plan;
        // One token without ordering replaces the tokens of all copies, because ops that need the data come after the wait and its
        // barrier.
        let token = self.emit_core(Core::MakeToken {}, Type::Token);
        for copy in plan.copies.iter().chain(&plan.tma_copies) {
            let copy_token = self.body.result(copy.op);
            map.insert(copy_token, token);
        }
        let (mut filled_groups, mut waited_groups) = (BTreeSet::new(), BTreeSet::new());
        // Fill stages before the iteration reads anything, so that no other op comes between the reads and the MMAs.
        if plan.fills_during.is_none() {
            self.emit_fills_ahead(frame, counter, positions, &mut filled_groups, map);
        }
        let mut issued = 0;
        // The copies for which the iteration already has a wait.
        let mut ready = BTreeSet::new();
        for &op in &plan.order {
            if let Some(copy) = plan.copies.iter().find(|copy| copy.op == op) {
                if copy.prefetch_distance > 0 && plan.in_flight.iter().any(|mma| mma.operand_buffers.contains(&copy.buffer)) {
                    self.emit_copy_wait(&plan.prefetched_copies(), issued, &mut ready);
                }
                self.emit_scheduled_copy(frame, part, copy, counter, stage_cursors, map);
                self.emit_copy_commit();
                issued += 1;
                continue;
            }
            if let Some(copy) = plan.tma_copies.iter().find(|copy| copy.op == op) {
                if copy.prefetch_distance == 0 {
                    self.emit_scheduled_fill(frame, op, counter, positions, &mut filled_groups, map);
                }
                continue;
            }
            let read: Vec<Buffer> = self.buffer_accesses_of(op).into_iter().map(SchedulingAccess::buffer).collect();
            self.emit_stage_waits(&read, positions, &filled_groups, &mut waited_groups);
            let needed = (0..plan.copies.len()).filter(|i| read.contains(&plan.copies[*i].buffer));
            let needed: Vec<usize> = needed.collect();
            if needed.iter().any(|i| !ready.contains(i)) {
                // One wait covers all copies fetched in earlier iterations.
                let all: Vec<usize> = needed.iter().copied().chain(plan.prefetched_copies()).collect();
                self.emit_copy_wait(&all, issued, &mut ready);
            }
            let read = needed.iter().map(|i| &plan.copies[*i]).filter(|copy| copy.prefetch_distance > 0);
            self.read_stages = read.map(|copy| (copy.buffer, self.stage_cursor(stage_cursors, copy).read_stage)).collect();
            self.record_read_stages(positions, &filled_groups);
            for op in self.rewritten.get(&op).cloned().unwrap_or_else(|| vec![op]) {
                self.clone_op(op, map);
            }
            self.emit_releases_after(op, positions);
            if plan.fills_during == Some(op) {
                let mma = self.set_in_flight();
                self.emit_fills_ahead(frame, counter, positions, &mut filled_groups, map);
                let wait = self.append_op(Op::GroupWait { pending: 0, accumulators: vec![mapped(map, self.body.result(op))] }, []);
                let reads = buffer_accesses(&self.body.ops[mma].kind).into_iter().map(SchedulingAccess::buffer);
                self.pipelined_loops.freed_operands.insert(wait, reads.collect());
                self.pipelined_loops.iterations.insert(wait, 0);
            }
            if let Some(mma) = plan.in_flight.iter().find(|mma| mma.op == op) {
                self.leave_in_flight(&mma.operand_buffers);
            }
        }
    }

    /// Emits a wait and a barrier for the copies that are not in `ready` yet, and adds the copies to `ready`. `issued`: the number
    /// of copy groups that the iteration has committed so far.
    fn emit_copy_wait(&mut self, copies: &[usize], issued: usize, ready: &mut BTreeSet<usize>) {
        let unready = copies.iter().filter(|i| !ready.contains(i));
        let Some(pending) = unready.map(|i| self.plan.pending_groups(*i, issued)).min() else { return };
        self.append_op(Op::CopyWait { pending }, []);
        let barrier = Op::Barrier { id: 0, threads: self.threads };
        self.append_op(barrier, []);
        ready.extend(copies);
    }

    /// Returns the cursor of the stage that a copy fills.
    fn stage_cursor<'r>(&self, stage_cursors: &'r [StageCursor], copy: &ScheduledCopy) -> &'r StageCursor {
        let depth = self.depths[&copy.buffer];
        stage_cursors
            .iter()
            .find(|stage_cursor| (stage_cursor.prefetch_distance, stage_cursor.depth) == (copy.prefetch_distance, depth))
            .expect("every prefetched copy has a stage cursor")
    }

    /// Leaves the last emitted op, which is an MMA, in flight. Emits a wait for the same MMA of the previous iteration. That MMA
    /// has read the buffers `reads`.
    fn leave_in_flight(&mut self, reads: &[Buffer]) {
        self.set_in_flight();
        let pending = self.plan.in_flight.len() as u32;
        let wait = self.append_op(Op::GroupWait { pending, accumulators: Vec::new() }, []);
        self.pipelined_loops.freed_operands.insert(wait, reads.to_vec());
        self.pipelined_loops.iterations.insert(wait, -1);
    }

    /// Marks the last emitted op, which is an MMA, as in flight. Returns the MMA.
    fn set_in_flight(&mut self) -> OpId {
        let mma = *self.out.last().expect("an MMA was written");
        if let Op::Core(tileas::Op::Mma { in_flight, .. }) = &mut self.body.ops[mma].kind {
            *in_flight = true;
        }
        mma
    }

    /// Emits a copy at its position in an iteration. If the copy runs ahead, it fetches data for a later iteration.
    fn emit_scheduled_copy(
        &mut self,
        frame: &LoopFrame,
        part: LoopPart,
        copy: &ScheduledCopy,
        counter: Value,
        stage_cursors: &[StageCursor],
        map: &mut ValueMap,
    ) {
        if copy.address_slice.is_none() {
            let copy_token = self.body.result(copy.op);
            let token = mapped(map, copy_token);
            self.clone_op(copy.op, map);
            map.insert(copy_token, token);
            return;
        }
        if copy.prefetch_distance == 0 {
            self.emit_copy(frame, copy, counter, None, 0, map);
            return;
        }
        if part == LoopPart::Epilogue && copy.prefetch_distance == self.plan.max_prefetch_distance() {
            return;
        }
        let stage_cursor = self.stage_cursor(stage_cursors, copy);
        let stage = (self.depths[&copy.buffer] > 1).then_some(stage_cursor.fill_stage);
        let distance = frame.distances[&copy.prefetch_distance];
        let fetch = |rewriter: &mut Self| {
            let index = rewriter.emit_add(counter, distance, &frame.counter_type.clone());
            rewriter.emit_copy(frame, copy, index, stage, copy.prefetch_distance as i32, map);
        };
        if part == LoopPart::Steady {
            fetch(self);
            return;
        }
        let exists = self.emit_iteration_exists(frame, distance, counter);
        self.emit_if(exists, fetch);
    }

    /// Emits the condition that the loop has an iteration whose counter is `counter` plus `distance`.
    fn emit_iteration_exists(&mut self, frame: &LoopFrame, distance: Value, counter: Value) -> Value {
        let remaining =
            self.emit_binary(Binary::SubI { overflow: Overflow::None }, frame.upper, counter, &frame.counter_type.clone());
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        self.emit_core(Core::Compare { kind, lhs: distance, rhs: remaining }, scalar_type(Scalar::I1))
    }

    /// Emits a copy for the iteration whose loop counter is `index`. `iteration`: the entry for [`PipelinedLoops::iterations`].
    fn emit_copy(
        &mut self,
        frame: &LoopFrame,
        copy: &ScheduledCopy,
        index: Value,
        stage: Option<Value>,
        iteration: i32,
        map: &ValueMap,
    ) {
        let map = self.emit_addresses(frame, &[copy], index, map);
        self.emit_copy_op(copy, stage, iteration, &map);
    }

    /// Emits the ops that compute the addresses of some copies in the iteration whose loop counter is `index`, each op once.
    /// Returns `map` with the values of these ops.
    fn emit_addresses(&mut self, frame: &LoopFrame, copies: &[&ScheduledCopy], index: Value, map: &ValueMap) -> ValueMap {
        let mut map = map.clone();
        let counter = self.body.blocks[self.body.block_of(frame.region)].args[0];
        map.insert(counter, index);
        let mut emitted = BTreeSet::new();
        for &op in copies.iter().filter_map(|copy| copy.address_slice.as_ref()).flatten() {
            if emitted.insert(op) {
                self.clone_op(op, &mut map);
                let new = *self.out.last().expect("an op was written");
                drop_token(&mut self.body.ops[new].kind);
            }
        }
        map
    }

    /// Emits the op of a copy, with operands that `map` replaces.
    fn emit_copy_op(&mut self, copy: &ScheduledCopy, stage: Option<Value>, iteration: i32, map: &ValueMap) {
        let mut kind = self.body.ops[copy.op].kind.clone();
        drop_token(&mut kind);
        kind.for_each_operand_mut(&mut |value| *value = mapped(map, *value));
        set_stages(&mut kind, |_, _| stage);
        let loc = self.body.ops[copy.op].loc;
        let new = self.body.new_op(kind, [Type::Token], loc);
        self.out.push(new);
        self.pipelined_loops.iterations.insert(new, iteration);
    }

    /// Clones an op of the original body, including its regions, and replaces its operands by their values in `map`. Adds the
    /// results to `map`.
    fn clone_op(&mut self, op: OpId, map: &mut ValueMap) {
        let mut node = self.body.ops[op].clone();
        node.kind.for_each_operand_mut(&mut |value| *value = mapped(map, *value));
        let mut regions = Vec::new();
        node.kind.for_each_region_mut(&mut |region| regions.push(*region));
        let mut new_regions = Vec::new();
        for region in regions {
            new_regions.push(self.clone_region(region, map));
        }
        let mut next = new_regions.into_iter();
        node.kind.for_each_region_mut(&mut |region| *region = next.next().expect("each region has a copy"));
        set_stages(&mut node.kind, |buffer, stage| self.read_stages.get(&buffer).copied().or(stage));
        let types: Vec<Type> = node.results.iter().map(|value| self.body.ty(*value).clone()).collect();
        let new = self.body.new_op(node.kind, types, node.loc);
        for (old, new) in node.results.iter().zip(self.body.ops[new].results.clone()) {
            map.insert(*old, new);
        }
        self.pipelined_loops.copy_entries(op, new);
        let copied_buffers: BTreeSet<Buffer> =
            self.plan.copies.iter().chain(&self.plan.tma_copies).map(|copy| copy.buffer).collect();
        if buffer_accesses(&self.body.ops[new].kind).iter().any(|access| copied_buffers.contains(&access.buffer())) {
            self.pipelined_loops.iterations.insert(new, 0);
        }
        self.out.push(new);
    }

    /// Clones a region with its ops. `map` receives the new values.
    fn clone_region(&mut self, region: Region, map: &mut ValueMap) -> Region {
        let old = self.body.blocks[self.body.block_of(region)].clone();
        let outer = std::mem::take(&mut self.out);
        let region = self.body.new_region();
        let block = self.body.new_block(region);
        for arg in old.args {
            let ty = self.body.ty(arg).clone();
            let new = self.body.add_argument(block, ty);
            map.insert(arg, new);
        }
        old.ops.into_iter().for_each(|op| self.clone_op(op, map));
        self.body.blocks[block].ops = std::mem::replace(&mut self.out, outer);
        region
    }

    /// The buffer accesses of an op and of the ops in its regions.
    fn buffer_accesses_of(&self, op: OpId) -> Vec<SchedulingAccess> {
        let inner = self.body.ops[op].kind.regions().into_iter().flat_map(|region| self.body.walk(region)).collect::<Vec<_>>();
        std::iter::once(op).chain(inner).flat_map(|op| buffer_accesses(&self.body.ops[op].kind)).collect()
    }

    /// Emits an `if` without results whose `then` path contains the ops that `emit_ops` emits.
    fn emit_if(&mut self, cond: Value, emit_ops: impl FnOnce(&mut Self)) {
        let outer = std::mem::take(&mut self.out);
        let [then, otherwise] = [(); 2].map(|()| self.body.new_region());
        let block = self.body.new_block(then);
        emit_ops(self);
        self.append_core(Core::Yield { values: Vec::new() }, Vec::new());
        self.body.blocks[block].ops = std::mem::take(&mut self.out);
        let block = self.body.new_block(otherwise);
        self.append_core(Core::Yield { values: Vec::new() }, Vec::new());
        self.body.blocks[block].ops = std::mem::replace(&mut self.out, outer);
        self.append_core(Core::new_if(cond, [then, otherwise]), Vec::new());
    }

    /// Emits the end of a group of asynchronous copies.
    fn emit_copy_commit(&mut self) {
        self.append_op(Op::CopyCommit {}, []);
    }

    fn append_op(&mut self, op: Op, results: impl IntoIterator<Item = Type>) -> OpId {
        let op = self.body.new_op(op, results, self.loc);
        self.out.push(op);
        op
    }
    fn append_core(&mut self, core: Core, results: Vec<Type>) -> OpId {
        self.append_op(Op::Core(tileas::Op::Core(core)), results)
    }
    fn emit_core(&mut self, core: Core, ty: Type) -> Value {
        let op = self.append_core(core, vec![ty]);
        self.body.result(op)
    }
    fn emit_binary(&mut self, kind: Binary, lhs: Value, rhs: Value, ty: &Type) -> Value {
        self.emit_core(Core::Binary { kind, lhs, rhs }, ty.clone())
    }
    fn emit_add(&mut self, lhs: Value, rhs: Value, ty: &Type) -> Value {
        self.emit_binary(Binary::AddI { overflow: Overflow::None }, lhs, rhs, ty)
    }
    fn emit_less_than(&mut self, frame: &LoopFrame, lhs: Value, rhs: Value) -> Value {
        let signedness = if frame.unsigned { Signedness::Unsigned } else { Signedness::Signed };
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness };
        self.emit_core(Core::Compare { kind, lhs, rhs }, scalar_type(Scalar::I1))
    }
    fn emit_i32_constant(&mut self, value: u32) -> Value {
        self.emit_core(Core::Constant { value: Dense::Splat(u64::from(value)) }, scalar_type(Scalar::I32))
    }
    /// Emits the ops that compute the stage after `stage`, modulo the depth.
    fn emit_next_stage(&mut self, stage: Value, depth: u32) -> Value {
        let one = self.emit_i32_constant(1);
        let next = self.emit_add(stage, one, &scalar_type(Scalar::I32));
        let end = self.emit_i32_constant(depth);
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let wraps = self.emit_core(Core::Compare { kind, lhs: next, rhs: end }, scalar_type(Scalar::I1));
        let first = self.emit_i32_constant(0);
        self.emit_core(Core::Select { cond: wraps, yes: first, no: next }, scalar_type(Scalar::I32))
    }
}

/// Returns how many `mma.sync` instructions a warp executes in an iteration. An inner loop counts as if it ran once.
fn mma_sync_instructions(function: &Function, for_op: OpId) -> u32 {
    let body = &function.body;
    let elements = |value: Value| element_count(body.ty(value).shape()) as u32;
    let mma_instructions = |op: OpId| match &body.ops[op].kind {
        Op::Core(tileas::Op::Mma {
            lhs: MmaOperand::Registers(lhs),
            acc: MmaOperand::Registers(acc),
            atom: MmaAtom::Sync(atom),
            ..
        }) => {
            let k = body.ty(*lhs).shape().last().copied().unwrap_or(1);
            let atoms = elements(*acc) / (atom.m * atom.n) * (k / atom.k) / function.attrs.program.warps;
            Some(if atom.widens_to_f16 { 2 * atoms } else { atoms })
        }
        _ => None,
    };
    body.walk(for_body(function, for_op)).into_iter().filter_map(mma_instructions).sum()
}

fn scalar_type(scalar: Scalar) -> Type {
    Type::Scalar(Elem::Scalar(scalar))
}

/// Sets the stage of each buffer access of an op to the result of `stage` for the buffer and the previous stage.
fn set_stages(op: &mut Op, stage: impl Fn(Buffer, Option<Value>) -> Option<Value>) {
    let Op::Core(program) = op else { return };
    for (buffer, place) in program.stages_mut() {
        *place = stage(buffer, *place);
    }
}

/// Drops the token operand of a load or copy. Requires that the token orders the access only after loads, which
/// [`address_slice`] has checked.
pub(crate) fn drop_token(op: &mut Op) {
    use tileas::Op::{Copy, CopyView, Load, LoadView, TmaLoad};
    if let Op::Core(
        CopyView { token, .. } | TmaLoad { token, .. } | Copy { token, .. } | LoadView { token, .. } | Load { token, .. },
    ) = op
    {
        *token = None;
    }
}

/// Returns the new value of `value`, or `value` itself if the map does not contain it.
pub(crate) fn mapped(map: &ValueMap, value: Value) -> Value {
    map.get(&value).copied().unwrap_or(value)
}
