//! Writes the steps of the pipelines that TMA copies fill.
//!
//! A stage is filled for a later iteration either at the start of an iteration or during its first `wgmma`. The issuing thread
//! then delays no other thread. Copies that do not run ahead are issued at the position of the first copy of their group.
//!
//! A stage is waited for before the first read of one of its buffers. It is released at the end of the iteration, or of the
//! next iteration if an MMA in flight still reads it. Operands of tensor memory MMAs, and buffers filled in alternation, are
//! released after their last reader.
//!
//! Data that goes through a pipeline needs no barrier. If the memory of the stages had another use before the loop, a fence and
//! a CTA barrier end that use. With a producer warp, a fence and a signal-only pipeline that all threads fill end it instead.

use super::{Copy, LoopFrame, LoopRewriter, Map, StagePhase, scalar};
use crate::tma_pipelines::Group;
use base::Value;
use base::ir::{Def, Op as OpId, Operation, ValueNode};
use core_dialect::core_ops::Core;
use core_dialect::region_nesting::RegionNesting;
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Predicate, Signedness};
use sched::{Drain, Op, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use tileas::Buffer;
use tileas::effects::Proxy;

impl LoopRewriter<'_> {
    /// Ends earlier uses of the stages' memory and makes them visible to the async proxy. Signals the producer warp, if there
    /// is one.
    pub(super) fn acquire_memory(&mut self) {
        if self.plan.had_before {
            self.append(Op::AsyncFence {}, []);
            // With a signal the producer itself waits for all threads.
            if self.plan.signalled_by.is_none() {
                self.append(Op::Barrier { id: 0, threads: self.threads }, []);
            }
        }
        if let Some(pipeline) = self.plan.signalled_by {
            let (stage, phase) = (None, self.number(0));
            self.append(Op::PipelineAcquire { pipeline, stage, phase }, []);
            self.append(Op::PipelineCommit { pipeline, stage }, []);
            self.append(Op::PipelineWait { pipeline, stage, phase }, []);
            self.append(Op::PipelineRelease { pipeline, stage }, []);
        }
    }

    /// The loop's pipelines, each represented by the first group that fills it.
    fn pipelines(&self) -> Vec<usize> {
        let groups = &self.plan.groups;
        let is_first = |at: &usize| groups[..*at].iter().all(|group| group.pipeline != groups[*at].pipeline);
        (0..groups.len()).filter(is_first).collect()
    }

    /// Positions at which the loop starts in each pipeline: the stage and phase to read.
    pub(super) fn first_lanes(&mut self) -> Vec<StagePhase> {
        self.pipelines().into_iter().map(|_| self.lane([0, 0])).collect()
    }

    /// Positions of all groups in an iteration that starts at `starts`: each group takes the stage after that of the previous
    /// group.
    pub(super) fn lanes_of_groups(&mut self, starts: &[StagePhase]) -> Vec<StagePhase> {
        let plan = self.plan;
        let mut now: BTreeMap<Pipeline, StagePhase> = BTreeMap::new();
        for (at, lane) in self.pipelines().into_iter().zip(starts) {
            now.insert(plan.groups[at].pipeline, *lane);
        }
        let mut lanes: Vec<StagePhase> = Vec::new();
        for (at, group) in plan.groups.iter().enumerate() {
            let lane = match plan.groups[..at].iter().rposition(|before| before.pipeline == group.pipeline) {
                Some(before) => self.further(lanes[before], 1, group.depth),
                None => now[&group.pipeline],
            };
            lanes.push(lane);
        }
        lanes
    }

    /// Positions at which the next iteration starts.
    pub(super) fn next_lanes(&mut self, lanes: &[StagePhase]) -> Vec<StagePhase> {
        let plan = self.plan;
        let last = |pipeline: Pipeline| {
            plan.groups.iter().rposition(|group| group.pipeline == pipeline).expect("each pipeline has a group")
        };
        let ends: Vec<usize> = self.pipelines().into_iter().map(|first| last(plan.groups[first].pipeline)).collect();
        ends.into_iter().map(|at| self.further(lanes[at], 1, plan.groups[at].depth)).collect()
    }

    pub(super) fn lane(&mut self, place: [u32; 2]) -> StagePhase {
        let [stage, phase] = place.map(|number| self.number(number));
        StagePhase { stage, phase }
    }

    /// The starting positions of a nested loop. The loops around it carry them from one iteration to the next, and conditions yield
    /// them. Empty for an outermost loop.
    pub(super) fn carried_lanes(&mut self) -> Vec<StagePhase> {
        let Some(&outermost) = self.around.first() else { return Vec::new() };
        let outer = std::mem::take(&mut self.out);
        let mut places: Vec<Value> = self.first_lanes().into_iter().flat_map(|lane| [lane.stage, lane.phase]).collect();
        let zeros = std::mem::replace(&mut self.out, outer);
        let (block, at) = self.place_of(outermost);
        self.body.blocks[block].ops.splice(at..at, zeros);
        self.entering = vec![places.clone()];
        for op in self.around.clone() {
            if let Op::Core(tileas::Op::Core(Core::For { init, body: region, .. } | Core::Loop { init, body: region })) =
                &mut self.body.ops[op].kind
            {
                init.extend(&places);
                let region = *region;
                let block = self.body.block_of(region);
                places.iter_mut().for_each(|place| *place = self.body.add_argument(block, scalar(Scalar::I32)));
            }
            self.entering.push(places.clone());
        }
        places.chunks(2).map(|lane| StagePhase { stage: lane[0], phase: lane[1] }).collect()
    }

    /// Makes the constructs around the loop go on with the positions at which the loop ends. A terminator that control reaches
    /// without the loop forwards the positions that its block starts with.
    pub(super) fn forward_positions(&mut self, for_op: OpId, places: &[Value]) {
        let nesting = RegionNesting::of(self.body, self.region);
        let blocks = self.body.op_blocks();
        // The ops that contain the loop, from the outermost construct to the loop itself.
        let path: Vec<OpId> = self.around.iter().copied().chain([for_op]).collect();
        let mut leaving: Vec<Vec<Value>> = vec![Vec::new(); path.len()];
        leaving[path.len() - 1] = places.to_vec();
        for level in (0..self.around.len()).rev() {
            let construct = path[level];
            for &end in nesting.ends(construct) {
                let (mut at, mut known) = (end, None);
                while known.is_none() {
                    let block = blocks[at.0 as usize];
                    known = path.iter().position(|op| blocks[op.0 as usize] == block);
                    if known.is_none() {
                        at = nesting.parent(at).expect("a terminator is inside the construct that it ends");
                    }
                }
                let inner = known.expect("the loop ends with the level of the terminator");
                let ops = &self.body.blocks[blocks[at.0 as usize].expect("the op is in a block")].ops;
                let position = |op: OpId| ops.iter().position(|other| *other == op);
                let values = if position(at) > position(path[inner]) { &leaving[inner] } else { &self.entering[inner] };
                let values = values.clone();
                if let Op::Core(tileas::Op::Core(
                    Core::Yield { values: forwarded } | Core::Continue { values: forwarded } | Core::Break { values: forwarded },
                )) = &mut self.body.ops[end].kind
                {
                    forwarded.extend(values);
                }
            }
            for _ in places {
                let index = self.body.ops[construct].results.len() as u32;
                let def = Def::Result { op: construct, index };
                let result = self.body.values.push(ValueNode { ty: scalar(Scalar::I32), def });
                self.body.ops[construct].results.push(result);
                leaving[level].push(result);
            }
        }
    }

    /// Makes a later loop that fills the same stages start where this loop ends. The later loop has already been written.
    pub(super) fn continue_after(&mut self, places: &[Value], lanes: &[StagePhase]) {
        if !self.around.is_empty() {
            return;
        }
        for ((at, own), place) in self.pipelines().into_iter().zip(lanes).zip(places.chunks(2)) {
            if let Some(later) = self.begins.insert(self.plan.groups[at].pipeline, *own) {
                self.body.replace_uses(later.stage, place[0]);
                self.body.replace_uses(later.phase, place[1]);
            }
        }
    }

    /// Returns the position `steps` stages further, for fewer steps than there are stages.
    pub(super) fn further(&mut self, StagePhase { stage, phase }: StagePhase, steps: u32, depth: u32) -> StagePhase {
        let number = scalar(Scalar::I32);
        let [step, depth, one, first] = [steps, depth, 1, 0].map(|value| self.number(value));
        let next = self.add(stage, step, &number);
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        let inside = self.core(Core::Compare { kind, lhs: next, rhs: depth }, scalar(Scalar::I1));
        let around = match steps {
            1 => first,
            _ => self.binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, next, depth, &number),
        };
        let other = self.binary(Binary::Xor, phase, one, &number);
        let stage = self.core(Core::Select { cond: inside, yes: next, no: around }, number.clone());
        StagePhase { stage, phase: self.core(Core::Select { cond: inside, yes: phase, no: other }, number) }
    }

    /// Fills a stage for the iteration with that index.
    pub(super) fn fill(
        &mut self,
        frame: &LoopFrame,
        group: &Group,
        index: Value,
        StagePhase { stage, phase }: StagePhase,
        iteration: i32,
        map: &Map,
    ) {
        let plan = self.plan;
        let stage = (group.depth > 1).then_some(stage);
        let filled = |op| plan.tma_copies.iter().find(|copy| copy.op == op).expect("a group contains only the loop's copies");
        let copies: Vec<&Copy> = group.copies.iter().map(|(op, _)| filled(*op)).collect();
        // Look up addresses before acquiring the stage, so that the lookups are in flight during the wait.
        let map = self.addresses(frame, &copies, index, map);
        self.append(Op::PipelineAcquire { pipeline: group.pipeline, stage, phase }, []);
        for copy in copies {
            self.issue(copy, stage, iteration, &map);
        }
        self.append(Op::PipelineCommit { pipeline: group.pipeline, stage }, []);
    }

    /// Fills the group to which a copy belongs, once per iteration, if the iteration that needs the data exists.
    pub(super) fn scheduled_fill(
        &mut self,
        frame: &LoopFrame,
        op: OpId,
        counter: Value,
        lanes: &[StagePhase],
        filled: &mut BTreeSet<usize>,
        map: &Map,
    ) {
        let plan = self.plan;
        let at = plan.groups.iter().position(|group| group.is_filled_by(op)).expect("each TMA copy is in a group");
        if !filled.insert(at) {
            return;
        }
        let (group, lane) = (&plan.groups[at], lanes[at]);
        if group.ahead == 0 {
            return self.fill(frame, group, counter, lane, 0, map);
        }
        let distance = frame.distances[&group.ahead];
        let exists = self.more_than(frame, distance, counter);
        self.guarded(exists, |rewriter| {
            let index = rewriter.add(counter, distance, &frame.index.clone());
            let place = rewriter.further(lane, group.ahead, group.depth);
            rewriter.fill(frame, group, index, place, group.ahead as i32, map);
        });
    }

    /// Fills the stages for later iterations.
    pub(super) fn fill_ahead(
        &mut self,
        frame: &LoopFrame,
        counter: Value,
        lanes: &[StagePhase],
        filled: &mut BTreeSet<usize>,
        map: &Map,
    ) {
        let plan = self.plan;
        for group in plan.groups.iter().filter(|group| group.ahead > 0) {
            self.scheduled_fill(frame, group.copies[0].0, counter, lanes, filled, map);
        }
    }

    /// Returns whether a read at this position, after these groups were filled, reads the group's data. Of groups that fill one
    /// buffer in alternation it reads the last one filled.
    fn is_current(&self, at: usize, filled: &BTreeSet<usize>) -> bool {
        let groups = &self.plan.groups;
        !groups[at].alternating || filled.iter().rfind(|other| groups[**other].pipeline == groups[at].pipeline) == Some(&at)
    }

    /// Waits for the stages of the buffers that an op reads, once per iteration.
    pub(super) fn take_stages(
        &mut self,
        read: &[Buffer],
        lanes: &[StagePhase],
        filled: &BTreeSet<usize>,
        taken: &mut BTreeSet<usize>,
    ) {
        let plan = self.plan;
        for (at, (group, lane)) in plan.groups.iter().zip(lanes).enumerate() {
            if !self.is_current(at, filled) {
                continue;
            }
            if group.copies.iter().any(|(_, buffer)| read.contains(buffer)) && taken.insert(at) {
                let stage = (group.depth > 1).then_some(lane.stage);
                self.append(Op::PipelineWait { pipeline: group.pipeline, stage, phase: lane.phase }, []);
            }
        }
    }

    /// Records the stages that the next op reads.
    pub(super) fn read_stages(&mut self, lanes: &[StagePhase], filled: &BTreeSet<usize>) {
        for (at, (group, lane)) in self.plan.groups.iter().zip(lanes).enumerate() {
            if group.depth > 1 && self.is_current(at, filled) {
                self.read.extend(group.copies.iter().map(|(_, buffer)| (*buffer, lane.stage)));
            }
        }
    }

    /// Releases stages after the last op that reads them, unless the end of the iteration releases them.
    pub(super) fn leave_after(&mut self, op: OpId, lanes: &[StagePhase]) {
        let plan = self.plan;
        let done = plan.groups.iter().zip(lanes);
        let done = done.filter(|(group, _)| self.is_left_early(group) && self.last_reader(group) == Some(op));
        for (group, lane) in done.collect::<Vec<_>>() {
            self.release(group, lane.stage);
        }
    }

    fn is_left_early(&self, group: &Group) -> bool {
        let alternates = || self.plan.groups.iter().any(|other| group.alternates_with(other));
        let is_read_here = || !self.is_in_flight(group) && self.last_reader(group).is_some();
        group.drain == Drain::Mma || group.alternating || alternates() && is_read_here()
    }

    /// The last op of an iteration that reads a group's data before another group fills the same stages.
    fn last_reader(&self, group: &Group) -> Option<OpId> {
        let order = &self.plan.order;
        let filled_later = |op: &OpId| {
            let other = self.plan.groups.iter().find(|other| other.is_filled_by(*op));
            group.alternating && !group.is_filled_by(*op) && other.is_some_and(|other| other.pipeline == group.pipeline)
        };
        let from = if group.alternating { order.iter().position(|op| group.is_filled_by(*op))? } else { 0 };
        let reads = |op: &&OpId| {
            let touched = self.touched(**op);
            !group.is_filled_by(**op) && group.copies.iter().any(|(_, own)| touched.iter().any(|touch| touch.buffer() == *own))
        };
        order[from..].iter().take_while(|op| !filled_later(op)).filter(reads).last().copied()
    }

    /// Releases the remaining stages at the end of an iteration.
    pub(super) fn leave_stages(&mut self, frame: &LoopFrame, lower: Value, counter: Value, lanes: &[StagePhase]) {
        let plan = self.plan;
        for (group, lane) in plan.groups.iter().zip(lanes) {
            if self.is_left_early(group) {
                continue;
            }
            if !self.is_in_flight(group) {
                self.release(group, lane.stage);
                continue;
            }
            let later = self.less(frame, lower, counter);
            self.guarded(later, |rewriter| {
                let before = rewriter.stage_before(lane.stage, group.depth);
                rewriter.release(group, before);
            });
        }
    }

    /// Releases after the loop the stages that its last MMAs in flight have read. `places` are the positions at which the loop
    /// ends.
    pub(super) fn release_last(&mut self, frame: &LoopFrame, lower: Value, places: &[Value]) {
        let plan = self.plan;
        for (at, place) in self.pipelines().into_iter().zip(places.chunks(2)) {
            let group = &plan.groups[at];
            if !self.is_in_flight(group) {
                continue;
            }
            let ran = self.less(frame, lower, frame.upper);
            self.guarded(ran, |rewriter| {
                let before = rewriter.stage_before(place[0], group.depth);
                rewriter.release(group, before);
            });
        }
    }

    fn is_in_flight(&self, group: &Group) -> bool {
        let mut mmas = self.plan.in_flight.iter();
        mmas.any(|mma| group.copies.iter().any(|(_, buffer)| mma.reads.contains(buffer)))
    }

    /// Releases a stage. After generic-proxy reads a fence must come first, because TMA overwrites the stage through the async
    /// proxy.
    fn release(&mut self, group: &Group, stage: Value) {
        let reads = |buffer: &Buffer| {
            self.plan.order.iter().any(|op| {
                let inner = self.body.ops[*op].kind.regions().into_iter().flat_map(|region| self.body.walk(region));
                let mut all = std::iter::once(*op).chain(inner).flat_map(|op| self.body.ops[op].kind.effects().buffers);
                all.any(|access| access.buffer == *buffer && access.proxy == Proxy::Generic)
            })
        };
        if group.copies.iter().any(|(_, buffer)| reads(buffer)) {
            self.append(Op::AsyncFence {}, []);
        }
        if common::fault_injected("sched.release") {
            return;
        }
        self.append(Op::PipelineRelease { pipeline: group.pipeline, stage: (group.depth > 1).then_some(stage) }, []);
    }

    fn stage_before(&mut self, stage: Value, depth: u32) -> Value {
        let number = scalar(Scalar::I32);
        let [zero, one, last] = [0, 1, depth - 1].map(|value| self.number(value));
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let first = self.core(Core::Compare { kind, lhs: stage, rhs: zero }, scalar(Scalar::I1));
        let before = self.binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, stage, one, &number);
        self.core(Core::Select { cond: first, yes: last, no: before }, number)
    }
}
