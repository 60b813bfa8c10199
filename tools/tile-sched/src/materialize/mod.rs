//! Rewrites every scheduled loop so that its copies run ahead; never searches.
//!
//! A copy that runs `d` iterations ahead is issued for the first `d` of them before the loop. The loop then runs as long as every
//! copy has an iteration to fetch, and a second loop without the furthest copies runs the rest, so the first one tests nothing:
//! trip counts below `d` never enter it. A long body is written once instead, with tests. Every copy ends a group each time its place is passed, with or without a copy in it,
//! so that how many groups may be unfinished when an iteration needs its data is a constant.
//!
//! A mma of warp groups that may stay in flight is waited for when that of the next iteration was issued, the last one after the
//! loop. Each warp waits for its own part of it: what the mma has read can be overwritten behind the barrier after that wait,
//! which is the one before the next reads. So the copies of such a loop come behind that barrier.
//!
//! Inner loops come first: what one has become is then part of an iteration of the one around it.
//!
//! Requires: placements whose depths are those of the schedules. Establishes: waits, and a barrier after each, before the reads
//! of copied buffers; a stage in every access to a staged_buffer. Other barriers are for [`crate::barriers`] to place.

use crate::buffer_accesses::{Touch, touches};
use crate::graph::{address_slice, loops, region_of};
use crate::tma_pipelines::{self, Filled, Group};
use crate::{tmem_pipelines, wgmma_in_flight};
use base::ir::{Op as OpId, Operation};
use base::{Body, Loc, Region, Value};
use core_dialect::core_ops::Core;
use core_dialect::tile::{Dense, Elem, element_count};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Overflow, Predicate, Signedness};
use sched::{Function, LoopSchedule, Op, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, MmaAtom, MmaOperand, Type};

mod tma_steps;

/// What the barrier pass must know of the loops: for ops on staged_buffers the iteration they work for, counted from the current one (in
/// a prologue from the first).
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) iterations: BTreeMap<OpId, i32>,
    pub(crate) loops: BTreeMap<OpId, LoopPart>,
    /// What the mmas that a `group_wait` waits for have read: only from there on they do so no more.
    pub(crate) freed: BTreeMap<OpId, Vec<Buffer>>,
}

impl Marks {
    /// A copy of an op is what the op is.
    fn repeat(&mut self, op: OpId, new: OpId) {
        self.iterations.get(&op).copied().into_iter().for_each(|iteration| _ = self.iterations.insert(new, iteration));
        self.loops.get(&op).copied().into_iter().for_each(|part| _ = self.loops.insert(new, part));
        self.freed.get(&op).cloned().into_iter().for_each(|buffers| _ = self.freed.insert(new, buffers));
    }
}

/// Which part of a pipelined loop a `for` is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopPart {
    Steady,
    Rest,
    /// All of it, testing before each copy whether there is such an iteration.
    Whole,
}

impl LoopPart {
    pub(crate) fn is_last(self) -> bool {
        self != LoopPart::Steady
    }
}

/// Matrix instructions of a warp in a body that is written twice, at most: of longer ones the tests are a small part, and `ptxas`
/// would take long over the second.
const MAX_REPEATED: u32 = 128;

/// `divided` says that who asks for tma_copies will be another warp_role than who computes.
pub(crate) fn run(function: &mut Function, schedules: &[LoopSchedule], divided: bool) -> Marks {
    let mut marks = Marks::default();
    let (mut woven, mut begins) = (BTreeMap::new(), BTreeMap::new());
    let all = loops(function);
    let plan = |schedule: &LoopSchedule| {
        let for_op = all[schedule.index as usize];
        (for_op, PipelinePlan::of(function, for_op, schedule, divided))
    };
    let plans: Vec<(OpId, PipelinePlan)> = schedules.iter().map(plan).collect();
    for (for_op, plan) in plans.into_iter().rev() {
        let threads = function.attrs.program.warps * 32;
        let depths = function.attrs.placements.iter().map(|(buffer, place)| (buffer, place.depth)).collect();
        let (loc, around) = (function.body.ops[for_op].loc, around(function, for_op));
        let mut weaver = Weaver {
            body: &mut function.body,
            out: Vec::new(),
            marks: &mut marks,
            woven: &mut woven,
            begins: &mut begins,
            plan: &plan,
            around,
            threads,
            depths,
            read: BTreeMap::new(),
            loc,
        };
        weaver.pipeline(for_op);
    }
    marks
}

/// The loops around a loop, outermost first; none where it is inside a condition, too.
fn around(function: &Function, for_op: OpId) -> Vec<OpId> {
    let body = &function.body;
    let all = body.walk(function.region);
    let blocks = body.op_blocks();
    let (mut at, mut around) = (for_op, Vec::new());
    while let Some(block) = blocks[at.0 as usize].filter(|block| *block != function.entry()) {
        let holds = |op: &OpId| body.ops[*op].kind.regions().iter().any(|region| body.block_of(*region) == block);
        let parent = all.iter().copied().find(holds).expect("a block is an op's");
        if !matches!(body.ops[parent].kind.core(), Some(Core::For { .. })) {
            return Vec::new();
        }
        around.insert(0, parent);
        at = parent;
    }
    around
}

/// A copy and where it stands in an iteration.
struct Copy {
    op: OpId,
    /// Iterations that it runs ahead.
    ahead: u32,
    buffer: Buffer,
    /// The ops that make its address; none for one that stays where it is.
    slice: Option<Vec<OpId>>,
}

/// The order of an iteration's ops, its copies in that order, and whether it is written once only.
struct PipelinePlan {
    order: Vec<OpId>,
    /// Of threads.
    copies: Vec<Copy>,
    /// Those that the copy engine makes, and the pipelines that they fill.
    tma_copies: Vec<Copy>,
    groups: Vec<Group>,
    /// Whether threads or mmas have had the memory of those pipelines before the loop.
    had_before: bool,
    /// By which another warp_role is told that they have it no more.
    signalled_by: Option<Pipeline>,
    /// The mma of warp groups during which stages are filled for later iterations; without one, an iteration begins with that.
    fills_under: Option<OpId>,
    once: bool,
    /// Mma that stay in flight until those of the next iteration are.
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
        // A copy that has stages to spare may be made ahead by another warp_role.
        let ahead = all.iter().any(|copy| copy.ahead > 0 || function.attrs.placements[copy.buffer].depth > 1);
        let block = body.block_of(region_of(function, for_op));
        let in_flight = if ahead && schedule.in_flight { wgmma_in_flight::mmas(function, block) } else { Vec::new() };
        let (mut tma_copies, copies): (Vec<Copy>, Vec<Copy>) =
            all.into_iter().partition(|copy| tma_pipelines::filled(&body.ops[copy.op].kind).is_some());
        // One that depends on more than the loop's counter is left as it is, for the hazard_checker to say so.
        tma_copies.retain(|copy| copy.slice.is_some());
        // One thread tests whether there is something to ask for; that costs less than the code twice.
        let once = !tma_copies.is_empty() || matrix_instructions(function, for_op) > MAX_REPEATED;
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
        let staged_buffers: Vec<Buffer> = filled.iter().map(|filled| filled.buffer).collect();
        let had_before = tma_pipelines::had_before(function, for_op, &staged_buffers);
        let signalled_by = (had_before && divided).then(|| tma_pipelines::telling(&mut function.attrs));
        // Late in an iteration it must be for more than the next one.
        let early =
            |entry: &&sched::ScheduleEntry| 2 * entry.cycle <= schedule.interval || tma_copies.iter().all(|copy| copy.ahead != 1);
        let body = &function.body;
        let mmas = entries.iter().filter(early).map(|entry| ops[entry.op as usize]);
        let mut mmas = mmas.filter(|op| in_flight.is_empty() && wgmma_in_flight::has_full_accumulators(body, *op));
        let fills_under = mmas.next();
        PipelinePlan { copies, tma_copies, groups, had_before, signalled_by, fills_under, order, once, in_flight }
    }

    fn furthest(&self) -> u32 {
        self.copies.iter().chain(&self.tma_copies).map(|copy| copy.ahead).max().unwrap_or(0)
    }

    /// The copies that run ahead.
    fn fetched_early(&self) -> Vec<usize> {
        (0..self.copies.len()).filter(|i| self.copies[*i].ahead > 0).collect()
    }

    /// How many groups may be unfinished when the data of a copy is needed after `issued` groups of the same iteration.
    fn pending(&self, copy: usize, issued: usize) -> u32 {
        let groups = self.copies[copy].ahead as usize * self.copies.len() + issued;
        (groups - copy - 1) as u32 + u32::from(common::fault_injected("sched.wait"))
    }
}

type Map = BTreeMap<Value, Value>;

struct Weaver<'a> {
    body: &'a mut Body<Op, Type>,
    /// The ops of the block being written.
    out: Vec<OpId>,
    marks: &'a mut Marks,
    /// What stands in the place of each loop that is written.
    woven: &'a mut BTreeMap<OpId, Vec<OpId>>,
    /// Where the loop that is written last begins with each pipeline, if none is around it.
    begins: &'a mut BTreeMap<Pipeline, StagePhase>,
    plan: &'a PipelinePlan,
    /// The loops around it, outermost first.
    around: Vec<OpId>,
    threads: u32,
    depths: BTreeMap<Buffer, u32>,
    /// The stages of the staged_buffers that the op being written reads.
    read: BTreeMap<Buffer, Value>,
    loc: Loc,
}

/// The stages in turn: of the iteration that computes, and of the one that is fetched, for copies that run equally far ahead in
/// staged_buffers of equally many stages.
struct StageCursor {
    ahead: u32,
    depth: u32,
    read: Value,
    write: Value,
}

/// A place in a pipeline.
#[derive(Clone, Copy)]
struct StagePhase {
    stage: Value,
    phase: Value,
}

/// What the parts of a loop share.
struct LoopFrame {
    index: Type,
    unsigned: bool,
    step: Value,
    upper: Value,
    /// `step` times as many iterations as a copy runs ahead.
    distances: BTreeMap<u32, Value>,
    region: Region,
}

impl Weaver<'_> {
    fn pipeline(&mut self, for_op: OpId) {
        let Some(Core::For { lower, upper, step, init, unsigned, body: region }) = self.body.ops[for_op].kind.core().cloned()
        else {
            unreachable!("only `for` loops are scheduled")
        };
        let index = self.body.ty(lower).clone();
        let mut frame = LoopFrame { index, unsigned, step, upper, distances: BTreeMap::new(), region };
        self.take_memory();
        let carried = self.carried_lanes();
        let furthest = self.prologue(&mut frame, lower, &carried);
        let staged_buffers = self.staged_buffers();
        let lanes = if carried.is_empty() { self.first_lanes() } else { carried };
        // The steady part stops where the furthest copy has nothing left to fetch.
        let steady_end = match frame.distances.get(&self.plan.furthest()) {
            Some(&distance) if !self.plan.once => {
                let end = self.binary(Binary::SubI { overflow: Overflow::None }, upper, distance, &frame.index.clone());
                self.core(Core::Select { cond: furthest, yes: end, no: lower }, frame.index.clone())
            }
            _ => upper,
        };
        let stages = staged_buffers.iter().flat_map(|staged_buffer| [staged_buffer.read, staged_buffer.write]);
        let places = lanes.iter().flat_map(|lane| [lane.stage, lane.phase]);
        let carried: Vec<Value> = init.iter().copied().chain(stages).chain(places).chain([lower]).collect();
        let all_in_one = self.plan.once || self.plan.furthest() == 0;
        let first = if all_in_one { LoopPart::Whole } else { LoopPart::Steady };
        let mut results = self.part(&frame, first, [lower, steady_end], &carried, &staged_buffers);
        if !all_in_one {
            let next = *results.last().expect("the next index is carried");
            results = self.part(&frame, LoopPart::Rest, [next, upper], &results, &staged_buffers);
        }
        let left: Vec<Value> = self.plan.in_flight.iter().map(|mma| results[mma.carried]).collect();
        if !left.is_empty() {
            let wait = self.append(Op::GroupWait { pending: 0, accumulators: left }, []);
            let reads = self.plan.in_flight.iter().flat_map(|mma| mma.reads.clone());
            self.marks.freed.insert(wait, reads.collect());
            self.release_last(&frame, lower, &results[init.len() + 2 * staged_buffers.len()..]);
        }
        // In the place of the loop.
        let old = self.body.ops[for_op].results.clone();
        for (old, new) in old.iter().zip(&results) {
            self.body.replace_uses(*old, *new);
        }
        let places = init.len() + 2 * staged_buffers.len()..results.len() - 1;
        self.hand_on(&results[places.clone()]);
        self.continue_after(&results[places], &lanes);
        let (block, at) = self.place_of(for_op);
        let out = std::mem::take(&mut self.out);
        self.body.blocks[block].ops.splice(at..=at, out.iter().copied());
        self.woven.insert(for_op, out);
    }

    fn place_of(&self, op: OpId) -> (base::Block, usize) {
        let place =
            self.body.blocks.iter().find_map(|(block, node)| Some((block, node.ops.iter().position(|other| *other == op)?)));
        place.expect("the loop is in a block")
    }

    /// The first iterations' copies, each if there is such an iteration. Gives whether there is one for the furthest copy after
    /// them, and fills in the distances.
    fn prologue(&mut self, frame: &mut LoopFrame, lower: Value, lanes: &[StagePhase]) -> Value {
        let furthest = self.plan.furthest();
        let mut exists = self.less(frame, lower, frame.upper);
        // Iteration `j` and whether it exists; the accumulators cannot wrap where it does.
        let mut iterations = vec![(lower, exists)];
        let mut distance = None;
        for ahead in 1..=furthest {
            let (now, _) = *iterations.last().expect("there is a first");
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
        for prologue_step in 0..furthest {
            // As in the iteration `furthest - prologue_step` before the first.
            for copy in &self.plan.copies {
                if let Some(iteration) = (prologue_step + copy.ahead).checked_sub(furthest) {
                    let (index, exists) = iterations[iteration as usize];
                    let depth = self.depths[&copy.buffer];
                    let stage = (depth > 1).then(|| iteration % depth);
                    self.guarded(exists, |weaver| {
                        let stage = stage.map(|stage| weaver.number(stage));
                        weaver.copy(frame, copy, index, stage, iteration as i32, &Map::new());
                    });
                }
                self.commit();
            }
            for (at, group) in self.plan.groups.iter().enumerate() {
                if let Some(iteration) = (prologue_step + group.ahead).checked_sub(furthest) {
                    let (index, exists) = iterations[iteration as usize];
                    self.guarded(exists, |weaver| {
                        let place = match lanes.get(at) {
                            Some(lane) if iteration == 0 => *lane,
                            Some(lane) => weaver.further(*lane, iteration, group.depth),
                            None => weaver.lane([iteration % group.depth, 0]),
                        };
                        weaver.fill(frame, group, index, place, iteration as i32, &Map::new());
                    });
                }
            }
        }
        exists
    }

    /// One pair of stages for all copies that run equally far ahead.
    fn staged_buffers(&mut self) -> Vec<StageCursor> {
        let ahead = self.plan.copies.iter().filter(|copy| copy.ahead > 0);
        let kinds: BTreeSet<(u32, u32)> = ahead.map(|copy| (copy.ahead, self.depths[&copy.buffer])).collect();
        let staged_buffer = |(ahead, depth)| StageCursor { ahead, depth, read: self.number(0), write: self.number(ahead) };
        kinds.into_iter().map(staged_buffer).collect()
    }

    /// A `for` over part of the iterations; gives its results.
    fn part(
        &mut self,
        frame: &LoopFrame,
        part: LoopPart,
        [lower, upper]: [Value; 2],
        init: &[Value],
        staged_buffers: &[StageCursor],
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
        let (stages, places) = args[old.len() - 1..args.len() - 1].split_at(2 * staged_buffers.len());
        let starts: Vec<StagePhase> = places.chunks(2).map(|lane| StagePhase { stage: lane[0], phase: lane[1] }).collect();
        let lanes = self.lanes_of_groups(&starts);
        let staged_buffers: Vec<StageCursor> = staged_buffers
            .iter()
            .zip(stages.chunks(2))
            .map(|(staged_buffer, pair)| StageCursor {
                ahead: staged_buffer.ahead,
                depth: staged_buffer.depth,
                read: pair[0],
                write: pair[1],
            })
            .collect();
        self.iteration(frame, part, counter, (&staged_buffers, &lanes), &mut map);
        self.leave_stages(frame, lower, counter, &lanes);
        // What the next iteration starts with.
        let terminator = self.body.terminator(self.body.block_of(frame.region)).expect("a loop's body ends in continue");
        let mut values: Vec<Value> = self.body.ops[terminator].kind.operands().iter().map(|value| mapped(&map, *value)).collect();
        for staged_buffer in &staged_buffers {
            // The stage that was read is the next to be filled, where the staged_buffer has none to spare.
            let write = if staged_buffer.depth == staged_buffer.ahead + 1 {
                staged_buffer.read
            } else {
                self.next_stage(staged_buffer.write, staged_buffer.depth)
            };
            values.extend([self.next_stage(staged_buffer.read, staged_buffer.depth), write]);
        }
        for StagePhase { stage, phase } in self.next_lanes(&lanes) {
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

    /// The ops of one iteration in the schedule's order.
    fn iteration(
        &mut self,
        frame: &LoopFrame,
        part: LoopPart,
        counter: Value,
        (staged_buffers, lanes): (&[StageCursor], &[StagePhase]),
        map: &mut Map,
    ) {
        let plan = self.plan;
        // Nothing waits for a copy by its token; what must come after its data comes after the barrier.
        let token = self.core(Core::MakeToken {}, Type::Token);
        for copy in plan.copies.iter().chain(&plan.tma_copies) {
            let done = self.body.result(copy.op);
            map.insert(done, token);
        }
        let (mut filled, mut taken) = (BTreeSet::new(), BTreeSet::new());
        // Before the iteration reads anything, so that nothing comes between reads and mmas.
        if plan.fills_under.is_none() {
            self.fill_ahead(frame, counter, lanes, &mut filled, map);
        }
        let mut issued = 0;
        // Copies whose data is known to be there.
        let mut ready = BTreeSet::new();
        for &op in &plan.order {
            if let Some(copy) = plan.copies.iter().find(|copy| copy.op == op) {
                if copy.ahead > 0 && plan.in_flight.iter().any(|mma| mma.reads.contains(&copy.buffer)) {
                    self.wait_for(&plan.fetched_early(), issued, &mut ready);
                }
                self.scheduled_copy(frame, part, copy, counter, staged_buffers, map);
                if !common::fault_injected("sched.commit") {
                    self.commit();
                }
                issued += 1;
                continue;
            }
            if let Some(copy) = plan.tma_copies.iter().find(|copy| copy.op == op) {
                if copy.ahead == 0 {
                    self.scheduled_fill(frame, op, counter, lanes, &mut filled, map);
                }
                continue;
            }
            let read: Vec<Buffer> = self.touched(op).into_iter().map(Touch::buffer).collect();
            self.take_stages(&read, lanes, &filled, &mut taken);
            let needed = (0..plan.copies.len()).filter(|i| read.contains(&plan.copies[*i].buffer));
            let needed: Vec<usize> = needed.collect();
            if needed.iter().any(|i| !ready.contains(i)) {
                // What was fetched in earlier iterations is waited for at once.
                let all: Vec<usize> = needed.iter().copied().chain(plan.fetched_early()).collect();
                self.wait_for(&all, issued, &mut ready);
            }
            let read = needed.iter().map(|i| &plan.copies[*i]).filter(|copy| copy.ahead > 0);
            self.read = read.map(|copy| (copy.buffer, self.staged_buffer(staged_buffers, copy).read)).collect();
            self.read_stages(lanes, &filled);
            for op in self.woven.get(&op).cloned().unwrap_or_else(|| vec![op]) {
                self.clone_op(op, map);
            }
            self.leave_after(op, lanes);
            if plan.fills_under == Some(op) {
                let mma = self.set_in_flight();
                self.fill_ahead(frame, counter, lanes, &mut filled, map);
                let wait = self.append(Op::GroupWait { pending: 0, accumulators: vec![mapped(map, self.body.result(op))] }, []);
                let reads = touches(&self.body.ops[mma].kind).into_iter().map(Touch::buffer);
                self.marks.freed.insert(wait, reads.collect());
                self.marks.iterations.insert(wait, 0);
            }
            if let Some(mma) = plan.in_flight.iter().find(|mma| mma.op == op) {
                self.stays_in_flight(&mma.reads);
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

    fn staged_buffer<'r>(&self, staged_buffers: &'r [StageCursor], copy: &Copy) -> &'r StageCursor {
        let depth = self.depths[&copy.buffer];
        staged_buffers
            .iter()
            .find(|staged_buffer| (staged_buffer.ahead, staged_buffer.depth) == (copy.ahead, depth))
            .expect("a staged_buffer is of a copy")
    }

    /// The mma just written need not be complete; that of the iteration before must be.
    fn stays_in_flight(&mut self, reads: &[Buffer]) {
        self.set_in_flight();
        let pending = self.plan.in_flight.len() as u32 + u32::from(common::fault_injected("sched.flight"));
        let wait = self.append(Op::GroupWait { pending, accumulators: Vec::new() }, []);
        self.marks.freed.insert(wait, reads.to_vec());
        self.marks.iterations.insert(wait, -1);
    }

    fn set_in_flight(&mut self) -> OpId {
        let mma = *self.out.last().expect("a mma was written");
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
        staged_buffers: &[StageCursor],
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
        if part == LoopPart::Rest && copy.ahead == self.plan.furthest() {
            return;
        }
        let staged_buffer = self.staged_buffer(staged_buffers, copy);
        let stage = (self.depths[&copy.buffer] > 1).then_some(staged_buffer.write);
        let distance = frame.distances[&copy.ahead];
        let fetch = |weaver: &mut Self| {
            let index = if common::fault_injected("sched.distance") {
                counter
            } else {
                weaver.add(counter, distance, &frame.index.clone())
            };
            weaver.copy(frame, copy, index, stage, copy.ahead as i32, map);
        };
        if part == LoopPart::Steady {
            fetch(self);
            return;
        }
        let exists = self.more_than(frame, distance, counter);
        self.guarded(exists, fetch);
    }

    /// Whether there is an iteration so far behind the current one.
    fn more_than(&mut self, frame: &LoopFrame, distance: Value, counter: Value) -> Value {
        let left = self.binary(Binary::SubI { overflow: Overflow::None }, frame.upper, counter, &frame.index.clone());
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        self.core(Core::Compare { kind, lhs: distance, rhs: left }, scalar(Scalar::I1))
    }

    /// A copy for the iteration with that index.
    fn copy(&mut self, frame: &LoopFrame, copy: &Copy, index: Value, stage: Option<Value>, iteration: i32, map: &Map) {
        let map = self.addresses(frame, &[copy], index, map);
        self.issue(copy, stage, iteration, &map);
    }

    /// What some copies' addresses are computed from in the iteration with that index, each op once.
    fn addresses(&mut self, frame: &LoopFrame, copies: &[&Copy], index: Value, map: &Map) -> Map {
        let mut map = map.clone();
        let counter = self.body.blocks[self.body.block_of(frame.region)].args[0];
        map.insert(counter, index);
        let mut made = BTreeSet::new();
        for &op in copies.iter().filter_map(|copy| copy.slice.as_ref()).flatten() {
            if made.insert(op) {
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

    /// An op of the old body with everything in it, with its operands replaced; its results are added to the map.
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
        node.kind.for_each_region_mut(&mut |region| *region = next.next().expect("one for each"));
        set_stages(&mut node.kind, |buffer, stage| self.read.get(&buffer).copied().or(stage));
        let types: Vec<Type> = node.results.iter().map(|value| self.body.ty(*value).clone()).collect();
        let new = self.body.new_op(node.kind, types, node.loc);
        for (old, new) in node.results.iter().zip(self.body.ops[new].results.clone()) {
            map.insert(*old, new);
        }
        self.marks.repeat(op, new);
        let staged_buffers: BTreeSet<Buffer> =
            self.plan.copies.iter().chain(&self.plan.tma_copies).map(|copy| copy.buffer).collect();
        if touches(&self.body.ops[new].kind).iter().any(|touch| staged_buffers.contains(&touch.buffer())) {
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

    /// Ops that run only where the condition holds.
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
    /// The stage after another, around the staged_buffer.
    fn next_stage(&mut self, stage: Value, depth: u32) -> Value {
        let one = self.number(1);
        let next = self.add(stage, one, &scalar(Scalar::I32));
        let end = self.number(depth);
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let around = self.core(Core::Compare { kind, lhs: next, rhs: end }, scalar(Scalar::I1));
        let first = self.number(0);
        let yes = if common::fault_injected("sched.around") { next } else { first };
        self.core(Core::Select { cond: around, yes, no: next }, scalar(Scalar::I32))
    }
}

/// How many instructions of its atoms a warp executes in an iteration, inner loops once.
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

/// Gives each access of an op the stage of its buffer.
fn set_stages(op: &mut Op, stage: impl Fn(Buffer, Option<Value>) -> Option<Value>) {
    let Op::Core(program) = op else { return };
    for (buffer, place) in program.stages_mut() {
        *place = stage(buffer, *place);
    }
}

/// What a load or a copy comes after are loads, which was seen where it was decided that it can run ahead.
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
