//! Writes the pipeline ops (acquire, commit, wait, release) of the pipelines that TMA copies fill.
//!
//! A stage is filled for a later iteration at the start of an iteration or during its first `wgmma`. At these positions no other
//! thread waits for the issuing thread. Copies that do not run ahead are issued at the position of the first copy of their group.
//!
//! Threads wait for a stage before the first read of one of its buffers. They release it at the end of the iteration, or of the
//! next iteration if an MMA in flight still reads it. Operands of tensor memory MMAs, and buffers filled in alternation, are
//! released after their last reader.
//!
//! Data that goes through a pipeline needs no barrier. If other buffers used the memory of the stages before the loop, a fence
//! and a CTA barrier precede the first fill. With a producer warp there is no CTA barrier: after the fence, all threads signal
//! the producer through a pipeline without buffers.

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
    /// Makes the memory of the stages available to TMA: waits until all threads have finished their earlier uses of it, and makes
    /// those uses visible to the async proxy. If there is a producer warp, the threads signal it instead of waiting.
    pub(super) fn acquire_memory(&mut self) {
        if self.plan.memory_used_before {
            self.append(Op::AsyncFence {}, []);
            // A signalled producer waits for all threads itself.
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
    pub(super) fn first_positions(&mut self) -> Vec<StagePhase> {
        self.pipelines().into_iter().map(|_| self.position([0, 0])).collect()
    }

    /// Positions of all groups in an iteration that starts at `starts`: each group takes the stage after that of the previous
    /// group.
    pub(super) fn positions_of_groups(&mut self, starts: &[StagePhase]) -> Vec<StagePhase> {
        let plan = self.plan;
        let mut now: BTreeMap<Pipeline, StagePhase> = BTreeMap::new();
        for (at, position) in self.pipelines().into_iter().zip(starts) {
            now.insert(plan.groups[at].pipeline, *position);
        }
        let mut positions: Vec<StagePhase> = Vec::new();
        for (at, group) in plan.groups.iter().enumerate() {
            let position = match plan.groups[..at].iter().rposition(|before| before.pipeline == group.pipeline) {
                Some(before) => self.advanced(positions[before], 1, group.depth),
                None => now[&group.pipeline],
            };
            positions.push(position);
        }
        positions
    }

    /// Positions at which the next iteration starts, one per pipeline.
    pub(super) fn next_positions(&mut self, positions: &[StagePhase]) -> Vec<StagePhase> {
        let plan = self.plan;
        let last = |pipeline: Pipeline| {
            plan.groups.iter().rposition(|group| group.pipeline == pipeline).expect("each pipeline has a group")
        };
        let ends: Vec<usize> = self.pipelines().into_iter().map(|first| last(plan.groups[first].pipeline)).collect();
        ends.into_iter().map(|at| self.advanced(positions[at], 1, plan.groups[at].depth)).collect()
    }

    pub(super) fn position(&mut self, place: [u32; 2]) -> StagePhase {
        let [stage, phase] = place.map(|number| self.number(number));
        StagePhase { stage, phase }
    }

    /// The starting positions of a nested loop. The loops around it carry them from one iteration to the next, and conditions yield
    /// them. Empty for an outermost loop.
    pub(super) fn carried_positions(&mut self) -> Vec<StagePhase> {
        let Some(&outermost) = self.enclosing_ops.first() else { return Vec::new() };
        let outer = std::mem::take(&mut self.out);
        let mut places: Vec<Value> =
            self.first_positions().into_iter().flat_map(|position| [position.stage, position.phase]).collect();
        let zeros = std::mem::replace(&mut self.out, outer);
        let (block, at) = self.place_of(outermost);
        self.body.blocks[block].ops.splice(at..at, zeros);
        self.entering = vec![places.clone()];
        for op in self.enclosing_ops.clone() {
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
        places.chunks(2).map(|position| StagePhase { stage: position[0], phase: position[1] }).collect()
    }

    /// Makes the constructs around the loop go on with the positions at which the loop ends. A terminator that control reaches
    /// without the loop forwards the positions that its block starts with.
    pub(super) fn forward_positions(&mut self, for_op: OpId, places: &[Value]) {
        let nesting = RegionNesting::of(self.body, self.region);
        let blocks = self.body.op_blocks();
        // The ops that contain the loop, from the outermost construct to the loop itself.
        let path: Vec<OpId> = self.enclosing_ops.iter().copied().chain([for_op]).collect();
        let mut leaving: Vec<Vec<Value>> = vec![Vec::new(); path.len()];
        leaving[path.len() - 1] = places.to_vec();
        for level in (0..self.enclosing_ops.len()).rev() {
            let construct = path[level];
            for &end in nesting.terminators(construct) {
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

    /// Makes a later loop that fills the same stages start at the position where this loop ends. The later loop has already been
    /// written.
    pub(super) fn continue_after(&mut self, places: &[Value], positions: &[StagePhase]) {
        if !self.enclosing_ops.is_empty() {
            return;
        }
        for ((at, own), place) in self.pipelines().into_iter().zip(positions).zip(places.chunks(2)) {
            if let Some(later) = self.starts.insert(self.plan.groups[at].pipeline, *own) {
                self.body.replace_uses(later.stage, place[0]);
                self.body.replace_uses(later.phase, place[1]);
            }
        }
    }

    /// Returns the position `stages` stages further. `stages` is less than the depth.
    pub(super) fn advanced(&mut self, StagePhase { stage, phase }: StagePhase, stages: u32, depth: u32) -> StagePhase {
        let number = scalar(Scalar::I32);
        let [stages_value, depth, one, first] = [stages, depth, 1, 0].map(|value| self.number(value));
        let next = self.add(stage, stages_value, &number);
        let kind = Compare::Int { predicate: Predicate::LessThan, signedness: Signedness::Unsigned };
        let no_wrap = self.core(Core::Compare { kind, lhs: next, rhs: depth }, scalar(Scalar::I1));
        let wrapped = match stages {
            1 => first,
            _ => self.binary(Binary::SubI { overflow: numerics::arith::Overflow::None }, next, depth, &number),
        };
        let next_phase = self.binary(Binary::Xor, phase, one, &number);
        let stage = self.core(Core::Select { cond: no_wrap, yes: next, no: wrapped }, number.clone());
        StagePhase { stage, phase: self.core(Core::Select { cond: no_wrap, yes: phase, no: next_phase }, number) }
    }

    /// Fills a stage for the iteration with this index.
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

    /// Fills the group to which a copy belongs, at most once per iteration, if the iteration that needs the data exists.
    pub(super) fn scheduled_fill(
        &mut self,
        frame: &LoopFrame,
        op: OpId,
        counter: Value,
        positions: &[StagePhase],
        filled: &mut BTreeSet<usize>,
        map: &Map,
    ) {
        let plan = self.plan;
        let at = plan.groups.iter().position(|group| group.is_filled_by(op)).expect("each TMA copy is in a group");
        if !filled.insert(at) {
            return;
        }
        let (group, position) = (&plan.groups[at], positions[at]);
        if group.ahead == 0 {
            return self.fill(frame, group, counter, position, 0, map);
        }
        let distance = frame.distances[&group.ahead];
        let exists = self.iteration_exists(frame, distance, counter);
        self.guarded(exists, |rewriter| {
            let index = rewriter.add(counter, distance, &frame.index.clone());
            let place = rewriter.advanced(position, group.ahead, group.depth);
            rewriter.fill(frame, group, index, place, group.ahead as i32, map);
        });
    }

    /// Fills the stages for later iterations.
    pub(super) fn fill_ahead(
        &mut self,
        frame: &LoopFrame,
        counter: Value,
        positions: &[StagePhase],
        filled: &mut BTreeSet<usize>,
        map: &Map,
    ) {
        let plan = self.plan;
        for group in plan.groups.iter().filter(|group| group.ahead > 0) {
            self.scheduled_fill(frame, group.copies[0].0, counter, positions, filled, map);
        }
    }

    /// Returns whether a read at this position, after the groups in `filled`, reads the data of group `at`. Of the groups that
    /// fill one buffer in alternation, it reads the last one filled.
    fn is_current(&self, at: usize, filled: &BTreeSet<usize>) -> bool {
        let groups = &self.plan.groups;
        !groups[at].alternating || filled.iter().rfind(|other| groups[**other].pipeline == groups[at].pipeline) == Some(&at)
    }

    /// Waits for the stages of the buffers that an op reads, once per iteration.
    pub(super) fn wait_for_stages(
        &mut self,
        read: &[Buffer],
        positions: &[StagePhase],
        filled: &BTreeSet<usize>,
        waited: &mut BTreeSet<usize>,
    ) {
        let plan = self.plan;
        for (at, (group, position)) in plan.groups.iter().zip(positions).enumerate() {
            if !self.is_current(at, filled) {
                continue;
            }
            if group.copies.iter().any(|(_, buffer)| read.contains(buffer)) && waited.insert(at) {
                let stage = (group.depth > 1).then_some(position.stage);
                self.append(Op::PipelineWait { pipeline: group.pipeline, stage, phase: position.phase }, []);
            }
        }
    }

    /// Records the stages that the next op reads.
    pub(super) fn record_read_stages(&mut self, positions: &[StagePhase], filled: &BTreeSet<usize>) {
        for (at, (group, position)) in self.plan.groups.iter().zip(positions).enumerate() {
            if group.depth > 1 && self.is_current(at, filled) {
                self.read.extend(group.copies.iter().map(|(_, buffer)| (*buffer, position.stage)));
            }
        }
    }

    /// Releases stages after the last op that reads them, unless the end of the iteration releases them.
    pub(super) fn release_after(&mut self, op: OpId, positions: &[StagePhase]) {
        let plan = self.plan;
        let done = plan.groups.iter().zip(positions);
        let done = done.filter(|(group, _)| self.is_released_early(group) && self.last_reader(group) == Some(op));
        for (group, position) in done.collect::<Vec<_>>() {
            self.release(group, position.stage);
        }
    }

    /// Returns whether a group's stage is released after its last reader, before the end of the iteration.
    fn is_released_early(&self, group: &Group) -> bool {
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

    /// Releases the stages that have not been released early, at the end of an iteration.
    pub(super) fn release_at_iteration_end(&mut self, frame: &LoopFrame, lower: Value, counter: Value, positions: &[StagePhase]) {
        let plan = self.plan;
        for (group, position) in plan.groups.iter().zip(positions) {
            if self.is_released_early(group) {
                continue;
            }
            if !self.is_in_flight(group) {
                self.release(group, position.stage);
                continue;
            }
            let later = self.less(frame, lower, counter);
            self.guarded(later, |rewriter| {
                let before = rewriter.stage_before(position.stage, group.depth);
                rewriter.release(group, before);
            });
        }
    }

    /// Releases, after the loop, the stages that its last MMAs in flight have read. `places` are the positions at which the loop
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

    /// Returns whether an MMA that stays in flight reads the group's buffers.
    fn is_in_flight(&self, group: &Group) -> bool {
        let mut mmas = self.plan.in_flight.iter();
        mmas.any(|mma| group.copies.iter().any(|(_, buffer)| mma.reads.contains(buffer)))
    }

    /// Releases a stage. After reads through the generic proxy a fence must come first, because TMA overwrites the stage through
    /// the async proxy.
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
