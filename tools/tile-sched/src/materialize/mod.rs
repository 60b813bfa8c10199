//! Purpose: rewrite every scheduled loop so that its copies run ahead. Never searches.
//! Requires: placements whose depths are those of the schedules.
//! Establishes: waits, and a barrier after each, before the reads of copied buffers; a stage in every access to a multi-stage
//! buffer. [`crate::barriers`] places all other barriers.
//! Preserves: the order of ops that compute, and the trip count of every loop.
//! See also: Triton's software `PipelineExpander`, LLVM's `ModuloScheduleExpander`.
//!
//! A copy that runs `d` iterations ahead is issued for the first `d` iterations in a prologue. The steady loop then runs as long
//! as every copy has an iteration to fetch, so its copies need no condition; a trip count below `d` skips it. An epilogue loop
//! without the copies of the largest distance runs the remaining iterations. A long body is emitted only once instead, with a
//! condition around each copy.
//!
//! Constant group count: every copy ends a copy group each time control passes its position, whether a copy was issued or not.
//! The number of groups that may be unfinished when an iteration needs its data is therefore a constant.
//!
//! Warps wait for an in-flight `wgmma` after they have issued that of the next iteration, and for the last one after the loop.
//! Each warp waits only for its own share of the MMA. The operands may therefore be overwritten only after the barrier that
//! follows the wait, which is the barrier before the next reads. The copies of such a loop come after that barrier.
//!
//! Inner loops come first: the rewritten inner loop is then part of an iteration of the outer one.

use crate::buffer_accesses::{Touch, touches};
use crate::graph::{address_slice, loops, region_of};
use crate::tma_pipelines::{self, Filled, Group};
use crate::{tmem_pipelines, wgmma_in_flight};
use base::ir::{Op as OpId, Operation};
use base::{Body, Loc, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::region_nesting::RegionNesting;
use core_dialect::tile::{Dense, Elem, element_count};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Overflow, Predicate, Signedness};
use sched::{Function, LoopSchedule, Op, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, MmaAtom, MmaOperand, Type};

mod tma_steps;

/// Facts about the pipelined loops for the barrier pass. For an op on multi-stage buffers it records the iteration for which
/// the op works, relative to the current one; in a prologue, relative to the first one.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) iterations: BTreeMap<OpId, i32>,
    pub(crate) loops: BTreeMap<OpId, LoopPart>,
    /// The operand buffers of the MMAs for which a `group_wait` waits. MMAs may read them until the wait ends.
    pub(crate) freed: BTreeMap<OpId, Vec<Buffer>>,
}

impl Marks {
    /// Gives the clone `new` of an op the marks of the op.
    fn copy_marks(&mut self, op: OpId, new: OpId) {
        self.iterations.get(&op).copied().into_iter().for_each(|iteration| _ = self.iterations.insert(new, iteration));
        self.loops.get(&op).copied().into_iter().for_each(|part| _ = self.loops.insert(new, part));
        self.freed.get(&op).cloned().into_iter().for_each(|buffers| _ = self.freed.insert(new, buffers));
    }
}

/// Which part of a pipelined loop a `for` is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopPart {
    Steady,
    Epilogue,
    /// The full loop: a condition before each copy tests whether the copy's iteration exists.
    Full,
}

impl LoopPart {
    pub(crate) fn is_last(self) -> bool {
        self != LoopPart::Steady
    }
}

/// Largest number of matrix instructions per warp in a body that is emitted twice. In a longer body the conditions cost little,
/// and `ptxas` would need long for the second copy of the body.
const MAX_REPEATED: u32 = 128;

/// `divided` means that a producer warp will issue the TMA copies, separate from the warp roles that compute.
pub(crate) fn run(function: &mut Function, schedules: &[LoopSchedule], divided: bool) -> Marks {
    let mut marks = Marks::default();
    let (mut rewritten, mut starts) = (BTreeMap::new(), BTreeMap::new());
    let all = loops(function);
    let plan = |schedule: &LoopSchedule| {
        let for_op = all[schedule.index as usize];
        (for_op, PipelinePlan::of(function, for_op, schedule, divided))
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
            marks: &mut marks,
            rewritten: &mut rewritten,
            starts: &mut starts,
            plan: &plan,
            region,
            enclosing_ops,
            entering: Vec::new(),
            threads,
            depths,
            read: BTreeMap::new(),
            loc,
        };
        rewriter.pipeline(for_op);
    }
    marks
}

/// Returns the loops and conditions around a loop, outermost first.
fn enclosing_ops(function: &Function, for_op: OpId) -> Vec<OpId> {
    let nesting = RegionNesting::of(&function.body, function.region);
    let mut enclosing_ops: Vec<OpId> = std::iter::successors(nesting.parent(for_op), |op| nesting.parent(*op)).collect();
    enclosing_ops.reverse();
    enclosing_ops
}

/// A copy and its prefetch distance.
struct Copy {
    op: OpId,
    /// Its prefetch distance in iterations.
    ahead: u32,
    buffer: Buffer,
    /// The ops that compute its address, or `None` if the copy is not moved to another iteration.
    slice: Option<Vec<OpId>>,
}

/// How one loop is rewritten: the order of an iteration's ops, its copies in that order, and whether the body is emitted only
/// once.
struct PipelinePlan {
    order: Vec<OpId>,
    /// The copies that threads issue.
    copies: Vec<Copy>,
    /// The TMA copies, and the groups in which they fill pipelines.
    tma_copies: Vec<Copy>,
    groups: Vec<Group>,
    /// Whether threads or MMAs used the memory of these pipelines before the loop.
    memory_used_before: bool,
    /// The pipeline by which threads signal the producer warp that the memory is free.
    signalled_by: Option<Pipeline>,
    /// The `wgmma` during which stages are filled for later iterations. Without it, an iteration begins with those fills.
    fills_during: Option<OpId>,
    emitted_once: bool,
    /// MMAs that stay in flight until those of the next iteration have been issued.
    in_flight: Vec<wgmma_in_flight::InFlightMma>,
}

impl PipelinePlan {
    fn of(function: &mut Function, for_op: OpId, schedule: &LoopSchedule, divided: bool) -> PipelinePlan {
        let body = &function.body;
        let ops = &body.blocks[body.block_of(region_of(function, for_op))].ops;
        let mut entries = schedule.entries.clone();
        entries.sort_by_key(|entry| (entry.cycle, entry.op));
        let order: Vec<OpId> = entries.iter().map(|entry| ops[entry.op as usize]).collect();
        let last = schedule.last_stage();
        let copy = |entry: &sched::ScheduleEntry| {
            let op = ops[entry.op as usize];
            let buffer = body.ops[op].kind.effects().copied_to()?;
            let ahead = last - entry.stage;
            Some(Copy { op, ahead, buffer, slice: address_slice(function, for_op, op).ok() })
        };
        let all: Vec<Copy> = entries.iter().filter_map(copy).collect();
        // If a copy has more than one stage, a producer warp may issue it ahead.
        let ahead = all.iter().any(|copy| copy.ahead > 0 || function.attrs.placements[copy.buffer].depth > 1);
        let block = body.block_of(region_of(function, for_op));
        let in_flight = if ahead && schedule.in_flight { wgmma_in_flight::mmas(function, block) } else { Vec::new() };
        let (mut tma_copies, copies): (Vec<Copy>, Vec<Copy>) =
            all.into_iter().partition(|copy| tma_pipelines::filled(&body.ops[copy.op].kind).is_some());
        // A copy that depends on more than the loop counter stays where it is, and the hazard checker reports it.
        tma_copies.retain(|copy| copy.slice.is_some());
        // With TMA, only one thread tests whether there is a copy to issue. This costs less than emitting the code twice.
        let emitted_once = !tma_copies.is_empty() || matrix_instructions(function, for_op) > MAX_REPEATED;
        let mma = |buffer| order.iter().copied().find(|op| tmem_pipelines::operands(&body.ops[*op].kind).contains(&Some(buffer)));
        let reads = |op: &OpId, copy: &Copy| {
            *op != copy.op && touches(&body.ops[*op].kind).iter().any(|touch| touch.buffer() == copy.buffer)
        };
        let mmas_before = |copy: &Copy| {
            let before = order.iter().take_while(|op| !reads(op, copy));
            before.filter(|op| matches!(body.ops[**op].kind, Op::Core(tileas::Op::Mma { .. }))).count()
        };
        let alternating = tma_pipelines::filled_alternately(function, block);
        let filled = |copy: &Copy| {
            let (alternating, mma) = (alternating.contains(&copy.buffer), mma(copy.buffer));
            Filled { op: copy.op, buffer: copy.buffer, ahead: copy.ahead, alternating, mma, mmas_before: mmas_before(copy) }
        };
        let filled: Vec<Filled> = tma_copies.iter().map(filled).collect();
        let groups = tma_pipelines::groups(&mut function.attrs, &filled);
        let buffers: Vec<Buffer> = filled.iter().map(|filled| filled.buffer).collect();
        let memory_used_before = tma_pipelines::had_before(function, for_op, &buffers);
        let signalled_by = (memory_used_before && divided).then(|| tma_pipelines::signal_only_pipeline(&mut function.attrs));
        // A TMA copy that is issued late in an iteration must be for a later iteration than the next one.
        let early =
            |entry: &&sched::ScheduleEntry| 2 * entry.cycle <= schedule.interval || tma_copies.iter().all(|copy| copy.ahead != 1);
        let body = &function.body;
        let mmas = entries.iter().filter(early).map(|entry| ops[entry.op as usize]);
        let mut mmas = mmas.filter(|op| in_flight.is_empty() && wgmma_in_flight::has_full_accumulators(body, *op));
        let fills_during = mmas.next();
        PipelinePlan { copies, tma_copies, groups, memory_used_before, signalled_by, fills_during, order, emitted_once, in_flight }
    }

    fn max_ahead(&self) -> u32 {
        self.copies.iter().chain(&self.tma_copies).map(|copy| copy.ahead).max().unwrap_or(0)
    }

    /// Indices of the copies that are issued in an earlier iteration.
    fn copies_ahead(&self) -> Vec<usize> {
        (0..self.copies.len()).filter(|i| self.copies[*i].ahead > 0).collect()
    }

    /// Returns how many copy groups may be unfinished when a copy's data is needed after `issued` groups of the same iteration.
    /// Relies on the constant group count.
    fn pending(&self, copy: usize, issued: usize) -> u32 {
        let groups = self.copies[copy].ahead as usize * self.copies.len() + issued;
        (groups - copy - 1) as u32 + u32::from(common::fault_injected("sched.wait"))
    }
}

type Map = BTreeMap<Value, Value>;

struct LoopRewriter<'a> {
    body: &'a mut Body<Op, Type>,
    /// The ops of the block being written.
    out: Vec<OpId>,
    marks: &'a mut Marks,
    /// The ops that replaced each loop already rewritten.
    rewritten: &'a mut BTreeMap<OpId, Vec<OpId>>,
    /// For each pipeline, the position at which the most recently written loop starts, if no loop encloses that loop.
    starts: &'a mut BTreeMap<Pipeline, StagePhase>,
    plan: &'a PipelinePlan,
    region: Region,
    /// The loops and conditions around this loop, outermost first.
    enclosing_ops: Vec<OpId>,
    /// The positions in the loop's pipelines at the start of the block of each op in `enclosing_ops`, and of the loop's block.
    entering: Vec<Vec<Value>>,
    threads: u32,
    depths: BTreeMap<Buffer, u32>,
    /// The current stages of the multi-stage buffers that the op being written reads.
    read: BTreeMap<Buffer, Value>,
    loc: Loc,
}

/// The stage to read and the stage to fill, for copies with the same prefetch distance and depth.
struct StageCursor {
    ahead: u32,
    depth: u32,
    read: Value,
    write: Value,
}

/// A position in a pipeline: a stage, and the mbarrier phase in which it is used.
#[derive(Clone, Copy)]
struct StagePhase {
    stage: Value,
    phase: Value,
}

/// Values that all parts of a loop share.
struct LoopFrame {
    index: Type,
    unsigned: bool,
    step: Value,
    upper: Value,
    /// For each prefetch distance, `step` times that many iterations.
    distances: BTreeMap<u32, Value>,
    region: Region,
}

impl LoopRewriter<'_> {
    fn pipeline(&mut self, for_op: OpId) {
        let Some(Core::For { lower, upper, step, init, unsigned, body: region }) = self.body.ops[for_op].kind.core().cloned()
        else {
            unreachable!("only `for` loops are scheduled")
        };
        let index = self.body.ty(lower).clone();
        let mut frame = LoopFrame { index, unsigned, step, upper, distances: BTreeMap::new(), region };
        self.acquire_memory();
        let carried = self.carried_positions();
        let max_ahead = self.prologue(&mut frame, lower, &carried);
        let stage_cursors = self.stage_cursors();
        let positions = if carried.is_empty() { self.first_positions() } else { carried };
        // The steady loop ends where the copies of the largest distance have no iteration left to fetch.
        let steady_end = match frame.distances.get(&self.plan.max_ahead()) {
            Some(&distance) if !self.plan.emitted_once => {
                let end = self.binary(Binary::SubI { overflow: Overflow::None }, upper, distance, &frame.index.clone());
                self.core(Core::Select { cond: max_ahead, yes: end, no: lower }, frame.index.clone())
            }
            _ => upper,
        };
        let stages = stage_cursors.iter().flat_map(|stage_cursor| [stage_cursor.read, stage_cursor.write]);
        let places = positions.iter().flat_map(|position| [position.stage, position.phase]);
        let carried: Vec<Value> = init.iter().copied().chain(stages).chain(places).chain([lower]).collect();
        let all_in_one = self.plan.emitted_once || self.plan.max_ahead() == 0;
        let first = if all_in_one { LoopPart::Full } else { LoopPart::Steady };
        let mut results = self.part(&frame, first, [lower, steady_end], &carried, &stage_cursors);
        if !all_in_one {
            let next = *results.last().expect("the next index is carried");
            results = self.part(&frame, LoopPart::Epilogue, [next, upper], &results, &stage_cursors);
        }
        let left: Vec<Value> = self.plan.in_flight.iter().map(|mma| results[mma.carried]).collect();
        if !left.is_empty() {
            let wait = self.append(Op::GroupWait { pending: 0, accumulators: left }, []);
            let reads = self.plan.in_flight.iter().flat_map(|mma| mma.reads.clone());
            self.marks.freed.insert(wait, reads.collect());
            self.release_last(&frame, lower, &results[init.len() + 2 * stage_cursors.len()..]);
        }
        // Replace the loop.
        let old = self.body.ops[for_op].results.clone();
        for (old, new) in old.iter().zip(&results) {
            self.body.replace_uses(*old, *new);
        }
        let places = init.len() + 2 * stage_cursors.len()..results.len() - 1;
        self.forward_positions(for_op, &results[places.clone()]);
        self.continue_after(&results[places], &positions);
        let (block, at) = self.place_of(for_op);
        let out = std::mem::take(&mut self.out);
        self.body.blocks[block].ops.splice(at..=at, out.iter().copied());
        self.rewritten.insert(for_op, out);
    }

    fn place_of(&self, op: OpId) -> (base::Block, usize) {
        let place =
            self.body.blocks.iter().find_map(|(block, node)| Some((block, node.ops.iter().position(|other| *other == op)?)));
        place.expect("the loop is in a block")
    }

    /// Emits the copies of the first iterations, each under the condition that its iteration exists. Returns whether the
    /// iteration exists that the copy with the largest distance fetches first after the prologue. Fills in the distances of
    /// `frame`.
    fn prologue(&mut self, frame: &mut LoopFrame, lower: Value, positions: &[StagePhase]) -> Value {
        let max_ahead = self.plan.max_ahead();
        let mut exists = self.less(frame, lower, frame.upper);
        // Index of iteration `j`, and whether the iteration exists. The index of an existing iteration has not wrapped around.
        let mut iterations = vec![(lower, exists)];
        let mut distance = None;
        for ahead in 1..=max_ahead {
            let (now, _) = *iterations.last().expect("the list starts with one iteration");
            let left = self.binary(Binary::SubI { overflow: Overflow::None }, frame.upper, now, &frame.index.clone());
            let more = Core::Compare {
                kind: Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned },
                lhs: frame.step,
                rhs: left,
            };
            let more = self.core(more, scalar(Scalar::I1));
            exists = self.binary(Binary::And, exists, more, &scalar(Scalar::I1));
            let next = self.add(now, frame.step, &frame.index.clone());
            let next = if common::fault_injected("sched.prologue") { now } else { next };
            iterations.push((next, exists));
            let total = distance.map_or(frame.step, |before| self.add(before, frame.step, &frame.index.clone()));
            frame.distances.insert(ahead, total);
            distance = Some(total);
        }
        for prologue_step in 0..max_ahead {
            // The same position as in the iteration `max_ahead - prologue_step` before the first.
            for copy in &self.plan.copies {
                if let Some(iteration) = (prologue_step + copy.ahead).checked_sub(max_ahead) {
                    let (index, exists) = iterations[iteration as usize];
                    let depth = self.depths[&copy.buffer];
                    let stage = (depth > 1).then(|| iteration % depth);
                    self.guarded(exists, |rewriter| {
                        let stage = stage.map(|stage| rewriter.number(stage));
                        rewriter.copy(frame, copy, index, stage, iteration as i32, &Map::new());
                    });
                }
                self.commit();
            }
            for (at, group) in self.plan.groups.iter().enumerate() {
                if let Some(iteration) = (prologue_step + group.ahead).checked_sub(max_ahead) {
                    let (index, exists) = iterations[iteration as usize];
                    self.guarded(exists, |rewriter| {
                        let place = match positions.get(at) {
                            Some(position) if iteration == 0 => *position,
                            Some(position) => rewriter.advanced(*position, iteration, group.depth),
                            None => rewriter.position([iteration % group.depth, 0]),
                        };
                        rewriter.fill(frame, group, index, place, iteration as i32, &Map::new());
                    });
                }
            }
        }
        exists
    }

    /// Creates one stage cursor for all copies with the same prefetch distance and depth.
    fn stage_cursors(&mut self) -> Vec<StageCursor> {
        let ahead = self.plan.copies.iter().filter(|copy| copy.ahead > 0);
        let kinds: BTreeSet<(u32, u32)> = ahead.map(|copy| (copy.ahead, self.depths[&copy.buffer])).collect();
        let stage_cursor = |(ahead, depth)| StageCursor { ahead, depth, read: self.number(0), write: self.number(ahead) };
        kinds.into_iter().map(stage_cursor).collect()
    }

    /// Emits a `for` over part of the iterations. Returns its results.
    fn part(
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
        let counter = self.body.add_argument(block, frame.index.clone());
        let args: Vec<Value> = init
            .iter()
            .map(|value| self.body.ty(*value).clone())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|ty| self.body.add_argument(block, ty))
            .collect();
        let old = self.body.blocks[self.body.block_of(frame.region)].args.clone();
        let mut map: Map = old[1..].iter().copied().zip(args.iter().copied()).collect();
        map.insert(old[0], counter);
        let (stages, places) = args[old.len() - 1..args.len() - 1].split_at(2 * stage_cursors.len());
        let starts: Vec<StagePhase> =
            places.chunks(2).map(|position| StagePhase { stage: position[0], phase: position[1] }).collect();
        let positions = self.positions_of_groups(&starts);
        let stage_cursors: Vec<StageCursor> = stage_cursors
            .iter()
            .zip(stages.chunks(2))
            .map(|(stage_cursor, pair)| StageCursor {
                ahead: stage_cursor.ahead,
                depth: stage_cursor.depth,
                read: pair[0],
                write: pair[1],
            })
            .collect();
        self.iteration(frame, part, counter, (&stage_cursors, &positions), &mut map);
        self.release_at_iteration_end(frame, lower, counter, &positions);
        // The values with which the next iteration starts.
        let terminator = self.body.terminator(self.body.block_of(frame.region)).expect("a loop's body ends in continue");
        let mut values: Vec<Value> = self.body.ops[terminator].kind.operands().iter().map(|value| mapped(&map, *value)).collect();
        for stage_cursor in &stage_cursors {
            // If the multi-stage buffer has no stage to spare, the stage just read is the next one to fill.
            let write = if stage_cursor.depth == stage_cursor.ahead + 1 {
                stage_cursor.read
            } else {
                self.next_stage(stage_cursor.write, stage_cursor.depth)
            };
            values.extend([self.next_stage(stage_cursor.read, stage_cursor.depth), write]);
        }
        for StagePhase { stage, phase } in self.next_positions(&positions) {
            values.extend([stage, phase]);
        }
        values.push(self.add(counter, frame.step, &frame.index.clone()));
        self.control(Core::Continue { values }, Vec::new());
        let ops = std::mem::replace(&mut self.out, outer);
        self.body.blocks[block].ops = ops;
        let types: Vec<Type> = init.iter().map(|value| self.body.ty(*value).clone()).collect();
        let new = Core::For { lower, upper, step: frame.step, init: init.to_vec(), unsigned: frame.unsigned, body: region };
        let op = self.control(new, types);
        self.marks.loops.insert(op, part);
        self.body.ops[op].results.to_vec()
    }

    /// Emits the ops of one iteration in the schedule's order.
    fn iteration(
        &mut self,
        frame: &LoopFrame,
        part: LoopPart,
        counter: Value,
        (stage_cursors, positions): (&[StageCursor], &[StagePhase]),
        map: &mut Map,
    ) {
        let plan = self.plan;
        // No op waits for a copy by its token: ops that need the data come after the wait and its barrier.
        let token = self.core(Core::MakeToken {}, Type::Token);
        for copy in plan.copies.iter().chain(&plan.tma_copies) {
            let done = self.body.result(copy.op);
            map.insert(done, token);
        }
        let (mut filled, mut waited) = (BTreeSet::new(), BTreeSet::new());
        // Fill before the iteration reads anything, so that no other op comes between reads and MMAs.
        if plan.fills_during.is_none() {
            self.fill_ahead(frame, counter, positions, &mut filled, map);
        }
        let mut issued = 0;
        // Copies whose data has already been waited for.
        let mut ready = BTreeSet::new();
        for &op in &plan.order {
            if let Some(copy) = plan.copies.iter().find(|copy| copy.op == op) {
                if copy.ahead > 0 && plan.in_flight.iter().any(|mma| mma.reads.contains(&copy.buffer)) {
                    self.wait_for(&plan.copies_ahead(), issued, &mut ready);
                }
                self.scheduled_copy(frame, part, copy, counter, stage_cursors, map);
                if !common::fault_injected("sched.commit") {
                    self.commit();
                }
                issued += 1;
                continue;
            }
            if let Some(copy) = plan.tma_copies.iter().find(|copy| copy.op == op) {
                if copy.ahead == 0 {
                    self.scheduled_fill(frame, op, counter, positions, &mut filled, map);
                }
                continue;
            }
            let read: Vec<Buffer> = self.touched(op).into_iter().map(Touch::buffer).collect();
            self.wait_for_stages(&read, positions, &filled, &mut waited);
            let needed = (0..plan.copies.len()).filter(|i| read.contains(&plan.copies[*i].buffer));
            let needed: Vec<usize> = needed.collect();
            if needed.iter().any(|i| !ready.contains(i)) {
                // One wait covers all copies fetched in earlier iterations.
                let all: Vec<usize> = needed.iter().copied().chain(plan.copies_ahead()).collect();
                self.wait_for(&all, issued, &mut ready);
            }
            let read = needed.iter().map(|i| &plan.copies[*i]).filter(|copy| copy.ahead > 0);
            self.read = read.map(|copy| (copy.buffer, self.stage_cursor(stage_cursors, copy).read)).collect();
            self.record_read_stages(positions, &filled);
            for op in self.rewritten.get(&op).cloned().unwrap_or_else(|| vec![op]) {
                self.clone_op(op, map);
            }
            self.release_after(op, positions);
            if plan.fills_during == Some(op) {
                let mma = self.set_in_flight();
                self.fill_ahead(frame, counter, positions, &mut filled, map);
                let wait = self.append(Op::GroupWait { pending: 0, accumulators: vec![mapped(map, self.body.result(op))] }, []);
                let reads = touches(&self.body.ops[mma].kind).into_iter().map(Touch::buffer);
                self.marks.freed.insert(wait, reads.collect());
                self.marks.iterations.insert(wait, 0);
            }
            if let Some(mma) = plan.in_flight.iter().find(|mma| mma.op == op) {
                self.leave_in_flight(&mma.reads);
            }
        }
    }

    /// Waits, with a barrier, for copies that are not ready yet, after `issued` groups of the same iteration.
    fn wait_for(&mut self, copies: &[usize], issued: usize, ready: &mut BTreeSet<usize>) {
        let waited = copies.iter().filter(|i| !ready.contains(i));
        let Some(pending) = waited.map(|i| self.plan.pending(*i, issued)).min() else { return };
        self.append(Op::CopyWait { pending }, []);
        let barrier = Op::Barrier { id: 0, threads: self.threads };
        self.append(barrier, []);
        ready.extend(copies);
    }

    fn stage_cursor<'r>(&self, stage_cursors: &'r [StageCursor], copy: &Copy) -> &'r StageCursor {
        let depth = self.depths[&copy.buffer];
        stage_cursors
            .iter()
            .find(|stage_cursor| (stage_cursor.ahead, stage_cursor.depth) == (copy.ahead, depth))
            .expect("every prefetched copy has a stage cursor")
    }

    /// Leaves the MMA just written in flight, and waits for the same MMA of the previous iteration.
    fn leave_in_flight(&mut self, reads: &[Buffer]) {
        self.set_in_flight();
        let pending = self.plan.in_flight.len() as u32 + u32::from(common::fault_injected("sched.flight"));
        let wait = self.append(Op::GroupWait { pending, accumulators: Vec::new() }, []);
        self.marks.freed.insert(wait, reads.to_vec());
        self.marks.iterations.insert(wait, -1);
    }

    fn set_in_flight(&mut self) -> OpId {
        let mma = *self.out.last().expect("an MMA was written");
        if let Op::Core(tileas::Op::Mma { in_flight, .. }) = &mut self.body.ops[mma].kind {
            *in_flight = true;
        }
        mma
    }

    fn scheduled_copy(
        &mut self,
        frame: &LoopFrame,
        part: LoopPart,
        copy: &Copy,
        counter: Value,
        stage_cursors: &[StageCursor],
        map: &mut Map,
    ) {
        if copy.slice.is_none() {
            let done = self.body.result(copy.op);
            let token = mapped(map, done);
            self.clone_op(copy.op, map);
            map.insert(done, token);
            return;
        }
        if copy.ahead == 0 {
            self.copy(frame, copy, counter, None, 0, map);
            return;
        }
        if part == LoopPart::Epilogue && copy.ahead == self.plan.max_ahead() {
            return;
        }
        let stage_cursor = self.stage_cursor(stage_cursors, copy);
        let stage = (self.depths[&copy.buffer] > 1).then_some(stage_cursor.write);
        let distance = frame.distances[&copy.ahead];
        let fetch = |rewriter: &mut Self| {
            let index = if common::fault_injected("sched.distance") {
                counter
            } else {
                rewriter.add(counter, distance, &frame.index.clone())
            };
            rewriter.copy(frame, copy, index, stage, copy.ahead as i32, map);
        };
        if part == LoopPart::Steady {
            fetch(self);
            return;
        }
        let exists = self.iteration_exists(frame, distance, counter);
        self.guarded(exists, fetch);
    }

    /// Returns whether the iteration at this distance after the current one exists.
    fn iteration_exists(&mut self, frame: &LoopFrame, distance: Value, counter: Value) -> Value {
        let left = self.binary(Binary::SubI { overflow: Overflow::None }, frame.upper, counter, &frame.index.clone());
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        self.core(Core::Compare { kind, lhs: distance, rhs: left }, scalar(Scalar::I1))
    }

    /// Emits a copy for the iteration with this index.
    fn copy(&mut self, frame: &LoopFrame, copy: &Copy, index: Value, stage: Option<Value>, iteration: i32, map: &Map) {
        let map = self.addresses(frame, &[copy], index, map);
        self.issue(copy, stage, iteration, &map);
    }

    /// Emits the ops that compute the addresses of some copies in the iteration with this index, each op once.
    fn addresses(&mut self, frame: &LoopFrame, copies: &[&Copy], index: Value, map: &Map) -> Map {
        let mut map = map.clone();
        let counter = self.body.blocks[self.body.block_of(frame.region)].args[0];
        map.insert(counter, index);
        let mut emitted = BTreeSet::new();
        for &op in copies.iter().filter_map(|copy| copy.slice.as_ref()).flatten() {
            if emitted.insert(op) {
                self.clone_op(op, &mut map);
                let new = *self.out.last().expect("an op was written");
                forget_order(&mut self.body.ops[new].kind);
            }
        }
        map
    }

    fn issue(&mut self, copy: &Copy, stage: Option<Value>, iteration: i32, map: &Map) {
        let mut kind = self.body.ops[copy.op].kind.clone();
        forget_order(&mut kind);
        kind.for_each_operand_mut(&mut |value| *value = mapped(map, *value));
        set_stages(&mut kind, |_, _| stage);
        let loc = self.body.ops[copy.op].loc;
        let new = self.body.new_op(kind, [Type::Token], loc);
        self.out.push(new);
        self.marks.iterations.insert(new, iteration);
    }

    /// Clones an op of the old body, including its regions, and replaces its operands. Adds its results to the map.
    fn clone_op(&mut self, op: OpId, map: &mut Map) {
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
        set_stages(&mut node.kind, |buffer, stage| self.read.get(&buffer).copied().or(stage));
        let types: Vec<Type> = node.results.iter().map(|value| self.body.ty(*value).clone()).collect();
        let new = self.body.new_op(node.kind, types, node.loc);
        for (old, new) in node.results.iter().zip(self.body.ops[new].results.clone()) {
            map.insert(*old, new);
        }
        self.marks.copy_marks(op, new);
        let copied_buffers: BTreeSet<Buffer> =
            self.plan.copies.iter().chain(&self.plan.tma_copies).map(|copy| copy.buffer).collect();
        if touches(&self.body.ops[new].kind).iter().any(|touch| copied_buffers.contains(&touch.buffer())) {
            self.marks.iterations.insert(new, 0);
        }
        self.out.push(new);
    }

    fn clone_region(&mut self, region: Region, map: &mut Map) -> Region {
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

    fn touched(&self, op: OpId) -> Vec<Touch> {
        let inner = self.body.ops[op].kind.regions().into_iter().flat_map(|region| self.body.walk(region)).collect::<Vec<_>>();
        std::iter::once(op).chain(inner).flat_map(|op| touches(&self.body.ops[op].kind)).collect()
    }

    /// Emits ops that run only if the condition holds.
    fn guarded(&mut self, cond: Value, write: impl FnOnce(&mut Self)) {
        let outer = std::mem::take(&mut self.out);
        let [then, otherwise] = [(); 2].map(|()| self.body.new_region());
        let block = self.body.new_block(then);
        write(self);
        self.control(Core::Yield { values: Vec::new() }, Vec::new());
        self.body.blocks[block].ops = std::mem::take(&mut self.out);
        let block = self.body.new_block(otherwise);
        self.control(Core::Yield { values: Vec::new() }, Vec::new());
        self.body.blocks[block].ops = std::mem::replace(&mut self.out, outer);
        self.control(Core::If { cond, then, otherwise }, Vec::new());
    }

    fn commit(&mut self) {
        self.append(Op::CopyCommit {}, []);
    }

    fn append(&mut self, op: Op, results: impl IntoIterator<Item = Type>) -> OpId {
        let op = self.body.new_op(op, results, self.loc);
        self.out.push(op);
        op
    }
    fn control(&mut self, core: Core, results: Vec<Type>) -> OpId {
        self.append(Op::Core(tileas::Op::Core(core)), results)
    }
    fn core(&mut self, core: Core, ty: Type) -> Value {
        let op = self.control(core, vec![ty]);
        self.body.result(op)
    }
    fn binary(&mut self, kind: Binary, lhs: Value, rhs: Value, ty: &Type) -> Value {
        self.core(Core::Binary { kind, lhs, rhs }, ty.clone())
    }
    fn add(&mut self, lhs: Value, rhs: Value, ty: &Type) -> Value {
        self.binary(Binary::AddI { overflow: Overflow::None }, lhs, rhs, ty)
    }
    fn less(&mut self, frame: &LoopFrame, lhs: Value, rhs: Value) -> Value {
        let signedness = if frame.unsigned { Signedness::Unsigned } else { Signedness::Signed };
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness };
        self.core(Core::Compare { kind, lhs, rhs }, scalar(Scalar::I1))
    }
    fn number(&mut self, value: u32) -> Value {
        self.core(Core::Constant { value: Dense::Splat(u64::from(value)) }, scalar(Scalar::I32))
    }
    /// Returns the next stage, modulo the depth.
    fn next_stage(&mut self, stage: Value, depth: u32) -> Value {
        let one = self.number(1);
        let next = self.add(stage, one, &scalar(Scalar::I32));
        let end = self.number(depth);
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let wraps = self.core(Core::Compare { kind, lhs: next, rhs: end }, scalar(Scalar::I1));
        let first = self.number(0);
        let yes = if common::fault_injected("sched.around") { next } else { first };
        self.core(Core::Select { cond: wraps, yes, no: next }, scalar(Scalar::I32))
    }
}

/// Returns how many `mma.sync` instructions a warp executes in an iteration. An inner loop counts as one iteration.
fn matrix_instructions(function: &Function, for_op: OpId) -> u32 {
    let body = &function.body;
    let elements = |value: Value| element_count(body.ty(value).shape()) as u32;
    let of_mma = |op: OpId| match &body.ops[op].kind {
        Op::Core(tileas::Op::Mma {
            lhs: MmaOperand::Registers(lhs),
            acc: MmaOperand::Registers(acc),
            atom: MmaAtom::Sync(atom),
            ..
        }) => {
            let depth = body.ty(*lhs).shape().last().copied().unwrap_or(1);
            let atoms = elements(*acc) / (atom.m * atom.n) * (depth / atom.k) / function.attrs.program.warps;
            Some(if atom.widened { 2 * atoms } else { atoms })
        }
        _ => None,
    };
    body.walk(region_of(function, for_op)).into_iter().filter_map(of_mma).sum()
}

fn scalar(scalar: Scalar) -> Type {
    Type::Scalar(Elem::Scalar(scalar))
}

/// Sets the stage of each buffer access of an op.
fn set_stages(op: &mut Op, stage: impl Fn(Buffer, Option<Value>) -> Option<Value>) {
    let Op::Core(program) = op else { return };
    for (buffer, place) in program.stages_mut() {
        *place = stage(buffer, *place);
    }
}

/// Drops the token of a load or copy. The dependence graph has already checked that the token orders the access only after loads.
pub(crate) fn forget_order(op: &mut Op) {
    use tileas::Op::{Copy, CopyView, Load, LoadView, TmaLoad};
    if let Op::Core(
        CopyView { token, .. } | TmaLoad { token, .. } | Copy { token, .. } | LoadView { token, .. } | Load { token, .. },
    ) = op
    {
        *token = None;
    }
}

pub(crate) fn mapped(map: &Map, value: Value) -> Value {
    map.get(&value).copied().unwrap_or(value)
}
